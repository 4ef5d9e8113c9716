// SPDX-License-Identifier: Apache-2.0
/* soak_test.c -- a run that goes on and on takes no more memory and no more descriptors than at its beginning. Of text,
 * images and graphs, with validation and saves now and then; of stores that are written and read again and again.
 *
 * MBA_SOAK_STEPS: steps of the run on text; tests/long soaks for 100000. What is looked at stands at 10, 50 and 100 %
 * of the way. */
#include "tests/training.h"

#include <malloc.h>

#include "core/device.h"
#include "scope/store.h"

enum { SAMPLES = 3, STEPS = 3000, OTHER_STEPS = 120, STORES = 60 };

/* Of what is allocated since the first look, which varies by what a library keeps for later; of what is resident since
 * the second: pages come with the first use of code, stacks and caches. */
enum { GROWTH_BYTES_MAX = 64 << 10, GROWTH_RESIDENT_MAX = 2 << 20 };

typedef struct sample {
    int64_t at, allocated, resident;
    int     descriptors;
} sample;
static sample  seen[SAMPLES];
static int64_t end_at;

static int64_t allocated_bytes(void)
{
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 33)
    const struct mallinfo2 m = mallinfo2();
    return (int64_t)(m.uordblks + m.hblkhd);
#else
    return 0;
#endif
}

static int64_t resident_bytes(void)
{
    long  pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f || fscanf(f, "%*d %ld", &pages) != 1) fail_msg("no /proc/self/statm");
    fclose(f);
    return (int64_t)pages * sysconf(_SC_PAGESIZE);
}

static int open_descriptors(void)
{
    int  n = 0;
    DIR *d = opendir("/proc/self/fd");
    assert_non_null(d);
    while (readdir(d)) n++;
    closedir(d);
    return n;
}

/* Looks where `at` is 10, 50 or 100 % of `end`. */
static void look(int64_t at, int64_t end)
{
    const int64_t when[SAMPLES] = { end / 10, end / 2, end };
    for (int i = 0; i < SAMPLES; i++)
        if (at == when[i]) seen[i] = (sample){ at, allocated_bytes(), resident_bytes(), open_descriptors() };
}

static void look_at_step(void *ctx, const mba_train_report *r)
{
    (void)ctx;
    look(r->step, end_at);
}

static void assert_no_growth(const char *what)
{
    for (int i = 0; i < SAMPLES; i++)
        print_message("%s, %lld: %lld bytes allocated, %lld resident, %d descriptors\n", what, (long long)seen[i].at,
                      (long long)seen[i].allocated, (long long)seen[i].resident, seen[i].descriptors);
    for (int i = 1; i < SAMPLES; i++) {
        assert_true(seen[i].at > seen[i - 1].at);
        assert_int_equal(seen[i].descriptors, seen[0].descriptors);
        if (getenv("MBA_TEST_SANITIZED")) continue; // which keeps what was freed, to see who touches it
        assert_true(seen[i].allocated <= seen[0].allocated + GROWTH_BYTES_MAX);
    }
    if (!getenv("MBA_TEST_SANITIZED")) assert_true(seen[2].resident <= seen[1].resident + GROWTH_RESIDENT_MAX);
}

/* Sampled steps are those of a validation and a save, all of them alike. */
static void soak(const char *what, mba_train_options o, int64_t steps, int64_t every)
{
    memset(seen, 0, sizeof seen);
    end_at = steps;
    o.schedule.steps = steps;
    o.out = scratch(what);
    o.valid_every = o.save_every = every;
    o.valid_batches = 1;
    o.keep = 1;
    o.report = look_at_step;
    assert_ok(mba_train(&o));
    assert_no_growth(what);
}

static void a_long_run_on_text_takes_no_more(void **state)
{
    const char       *asked = getenv("MBA_SOAK_STEPS");
    const int64_t     steps = asked && *asked ? atoll(asked) : getenv("MBA_TEST_SANITIZED") ? STEPS / 10 : STEPS;
    mba_train_options o = options("M", steps);
    (void)state;
    o.session.model.lm.batch = 1;
    o.session.model.lm.length = 16;
    o.session.model.lm.width = 16;
    soak("text", o, steps, steps <= 10000 ? steps / 10 : 1000);
}

static void runs_on_images_and_graphs_take_no_more(void **state)
{
    (void)state;
    soak("images", other("mambavision-t", SMALL_VISION, (mba_batch_shape){ .batch = 2 }, OTHER_STEPS), OTHER_STEPS, 12);
    soak("graphs", other("graphmamba-peptides-func", SMALL_PEPTIDES, (mba_batch_shape){ .graphs = 2 }, OTHER_STEPS),
         OTHER_STEPS, 12);
}

static void write_store(const char *path)
{
    mba_store     *s;
    mba_row_kernel k = mba_no_kernel;
    mba_row_event  e = mba_no_event;
    k.id = 0, k.name = "scan", k.kind = "ssm";
    e.what = "kernel", e.duration_ns = 10, e.stream = 7, e.kernel = 0;
    assert_ok(mba_store_create(&s, path));
    assert_ok(mba_put_kernel(s, &k));
    for (int64_t i = 0; i < 500; i++) {
        e.id = i, e.step = i / 10, e.start_ns = 100 * i;
        assert_ok(mba_put_event(s, &e));
    }
    assert_ok(mba_store_close(s));
}

static void stores_written_and_read_again_and_again_take_no_more(void **state)
{
    mba_store     *s;
    mba_row_event *rows;
    int64_t        n;
    (void)state;
    memset(seen, 0, sizeof seen);
    for (int64_t i = 1; i <= STORES; i++) {
        write_store(scratch("again.db"));
        assert_ok(mba_store_open(&s, scratch("again.db")));
        assert_ok(mba_load_event(s, &rows, &n));
        assert_int_equal(n, 500);
        assert_ok(mba_store_close(s));
        look(i, STORES);
    }
    assert_no_growth("stores");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_long_run_on_text_takes_no_more),
        cmocka_unit_test(runs_on_images_and_graphs_take_no_more),
        cmocka_unit_test(stores_written_and_read_again_and_again_take_no_more),
    };
    mba_cpu_set_threads(1);
    return cmocka_run_group_tests(tests, prepare_data, remove_data);
}
