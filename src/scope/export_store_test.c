// SPDX-License-Identifier: Apache-2.0
/* export_store_test.c -- a smaller store says of a step what the large one says; text that would break a page is
 * escaped. */
#include "scope/analysis.h"
#include "scope/export.h"
#include "tests/scratch.h"
#include "tests/test.h"

/* One kernel whose bytes and time two sets have read, in runs of their own; the set that comes first by name was read
 * last. */
static void put_twice_counted(mba_store *s)
{
    static const struct {
        const char *set, *metric;
        double      value;
    } of[] = { { "overview", "gpu__time_duration.sum", 1000 }, { "overview", "dram__bytes_read.sum", 5000 },
               { "overview", "dram__bytes_write.sum", 0 },     { "cache", "dram__bytes_read.sum", 4000 },
               { "cache", "gpu__time_duration.sum", 900 },     { "access", "dram__bytes_write.sum", 100 } };
    mba_row_kernel k = mba_no_kernel;
    mba_row_event  e = mba_no_event;
    k.id = 0, k.name = "scan", k.kind = "ssm";
    e.id = 0, e.what = "kernel", e.start_ns = 0, e.duration_ns = 1000, e.stream = 7, e.step = 0, e.kernel = 0;
    assert_ok(mba_put_kernel(s, &k));
    assert_ok(mba_put_event(s, &e));
    for (size_t i = 0; i < sizeof of / sizeof *of; i++)
        assert_ok(mba_put_counter(
            s,
            &(mba_row_counter){ .kernel = 0, .metric = of[i].metric, .value = of[i].value, .metric_set = of[i].set }));
}

static mba_counted counted_in(const char *name)
{
    mba_store    *s;
    mba_analysis *a;
    assert_ok(mba_store_open(&s, scratch(name)));
    assert_ok(mba_analysis_create(&a, s));
    const mba_counted c = a->kernel[0].counted;
    mba_analysis_destroy(a);
    assert_ok(mba_store_close(s));
    return c;
}

static void a_metric_of_two_sets_is_that_of_the_analysis(void **state)
{
    mba_store *s;
    (void)state;
    assert_ok(mba_store_create(&s, scratch("large.db")));
    put_twice_counted(s);
    assert_ok(mba_store_close(s));
    assert_ok(mba_store_open(&s, scratch("large.db")));
    assert_ok(mba_export_store(s, scratch("small.db"), 1));
    assert_ok(mba_store_close(s));
    const mba_counted large = counted_in("large.db"), small = counted_in("small.db");
    assert_near(large.dram_bytes, 4100, 0);
    assert_near(small.dram_bytes, 4100, 0);
    assert_near(large.time_s, 900e-9, 1e-18);
    assert_near(small.time_s, 900e-9, 1e-18);
}

/* Three layers of one node and two launches, and one that is another; of the last layer in a second step too. */
static void put_layers(mba_store *s)
{
    for (int64_t i = 0; i < 4; i++) {
        mba_row_node n = mba_no_node;
        n.id = i, n.op = "ssd", n.phase = "forward", n.shape = i == 3 ? "x f32 8" : "x f32 4", n.tensor_flops = 10;
        n.read_bytes = 1, n.write_bytes = 2, n.serves = i ? i - 1 : MBA_ABSENT;
        assert_ok(mba_put_node(s, &n));
        for (int64_t place = 0; place < 2; place++) {
            mba_row_launch l = mba_no_launch;
            l.id = 2 * i + place, l.node = i, l.place = place, l.kernel = "scan";
            assert_ok(mba_put_launch(s, &l));
        }
    }
    for (int64_t i = 0; i < 5; i++) {
        mba_row_event e = mba_no_event;
        e.id = i, e.what = "kernel", e.start_ns = 100 * i, e.duration_ns = 50, e.stream = 7, e.step = i / 4,
        e.node = i % 4;
        e.launch = 2 * (i % 4) + 1;
        assert_ok(mba_put_event(s, &e));
    }
}

static void equal_layers_become_the_first_of_them(void **state)
{
    mba_store      *s;
    mba_row_node   *node;
    mba_row_launch *launch;
    mba_row_event  *event;
    int64_t         nodes, launches, events;
    (void)state;
    assert_ok(mba_store_create(&s, scratch("layers.db")));
    put_layers(s);
    assert_ok(mba_store_close(s));
    assert_ok(mba_store_open(&s, scratch("layers.db")));
    assert_fails(mba_export_store(s, scratch("layers.db"), 1), MBA_E_ARG, "cannot be its own copy");
    assert_ok(mba_export_store(s, scratch("fewer.db"), 1));
    assert_ok(mba_store_close(s));
    assert_ok(mba_store_open(&s, scratch("fewer.db")));
    assert_ok(mba_load_node(s, &node, &nodes));
    assert_ok(mba_load_launch(s, &launch, &launches));
    assert_ok(mba_load_event(s, &event, &events));
    assert_int_equal(nodes, 2);
    assert_true(node[0].id == 0 && node[1].id == 3 && node[1].serves == 0);
    assert_int_equal(launches, 4);
    for (int64_t i = 0; i < 4; i++) assert_true(launch[i].id == (i < 2 ? i : i + 4) && launch[i].place == i % 2);
    assert_int_equal(events, 4); // of the first step
    for (int64_t i = 0; i < 4; i++)
        assert_true(event[i].node == (i == 3 ? 3 : 0) && event[i].launch == (i == 3 ? 7 : 1));
    assert_ok(mba_store_close(s));
}

static void hostile_text_is_escaped(void **state)
{
    char  *text = NULL;
    size_t n = 0;
    FILE  *f = open_memstream(&text, &n);
    (void)state;
    mba_export_string(f, "a\"b\\c\n\x01\xff</script>\xc3\xa4");
    fclose(f);
    assert_string_equal(text, "\"a\\\"b\\\\c\\u000a\\u0001\\ufffd</script>\xc3\xa4\"");
    free(text);
}

static int prepare(void **state)
{
    (void)state;
    scratch_make();
    return 0;
}
static int clean(void **state)
{
    (void)state;
    scratch_remove();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(a_metric_of_two_sets_is_that_of_the_analysis),
                                        cmocka_unit_test(equal_layers_become_the_first_of_them),
                                        cmocka_unit_test(hostile_text_is_escaped) };
    return cmocka_run_group_tests(tests, prepare, clean);
}
