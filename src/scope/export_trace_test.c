// SPDX-License-Identifier: Apache-2.0
/* export_trace_test.c -- the trace of a timeline: slices of a lane are apart, and every lane has a name. */
#include <jansson.h>
#include <string.h>

#include "scope/export.h"
#include "tests/scratch.h"
#include "tests/test.h"

enum { KERNELS = 6, BLOCKS = 8 };

/* Kernels of 100 ns that begin 30 ns before the one in front of them ends; of 8 blocks two at a time on an SM. */
static void put_overlapping(mba_store *s)
{
    mba_row_kernel k = mba_no_kernel;
    k.id = 0, k.name = "scan", k.kind = "ssm";
    assert_ok(mba_put_kernel(s, &k));
    for (int i = KERNELS; i-- > 0;) { // the latest first: rows need not be in order
        mba_row_event e = mba_no_event;
        e.id = i, e.what = "kernel", e.stream = 7, e.step = 0, e.kernel = 0, e.start_ns = 70 * i, e.duration_ns = 100;
        assert_ok(mba_put_event(s, &e));
    }
    for (int i = 0; i < BLOCKS; i++) {
        mba_row_block b = mba_no_block;
        b.kernel = 0, b.block = i, b.sm = i % 2, b.start_ns = i / 4 * 50, b.end_ns = b.start_ns + 50;
        assert_ok(mba_put_block(s, &b));
    }
}

static json_t *trace_of(mba_store *s)
{
    char  *text = NULL;
    size_t n = 0;
    FILE  *f = open_memstream(&text, &n);
    assert_ok(mba_export_trace(f, s));
    fclose(f);
    json_t *root = json_loadb(text, n, 0, NULL);
    assert_non_null(root);
    free(text);
    return root;
}

static double number_of(const json_t *e, const char *key) { return json_number_value(json_object_get(e, key)); }
static bool   is_slice(const json_t *e) { return !strcmp(json_string_value(json_object_get(e, "ph")), "X"); }

static bool on_one_lane(const json_t *a, const json_t *b)
{
    return number_of(a, "pid") == number_of(b, "pid") && number_of(a, "tid") == number_of(b, "tid");
}

static bool has_name(const json_t *all, const json_t *slice)
{
    size_t  i;
    json_t *e;
    json_array_foreach(all, i, e) if (!strcmp(json_string_value(json_object_get(e, "name")), "thread_name")
                                      && on_one_lane(e, slice)) return true;
    return false;
}

static void slices_of_a_lane_are_apart(void **state)
{
    mba_store *s;
    size_t     i, k;
    int        slices = 0;
    json_t    *a, *b;
    (void)state;
    assert_ok(mba_store_create(&s, scratch("overlap.db")));
    put_overlapping(s);
    assert_ok(mba_store_close(s));
    assert_ok(mba_store_open(&s, scratch("overlap.db")));
    json_t       *root = trace_of(s);
    const json_t *all = json_object_get(root, "traceEvents");
    json_array_foreach(all, i, a)
    {
        if (!is_slice(a)) continue;
        slices++;
        assert_true(has_name(all, a));
        json_array_foreach(all, k, b)
        {
            if (k == i || !is_slice(b) || !on_one_lane(a, b)) continue;
            const double from = number_of(a, "ts"), to = from + number_of(a, "dur"), other = number_of(b, "ts");
            assert_true(other >= to - 1e-9 || other + number_of(b, "dur") <= from + 1e-9);
        }
    }
    assert_int_equal(slices, KERNELS + BLOCKS);
    json_decref(root);
    assert_ok(mba_store_close(s));
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
    const struct CMUnitTest tests[] = { cmocka_unit_test(slices_of_a_lane_are_apart) };
    return cmocka_run_group_tests(tests, prepare, clean);
}
