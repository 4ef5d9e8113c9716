// SPDX-License-Identifier: Apache-2.0
/* store_starvation_test.c -- a store that cannot be loaded for lack of memory says so: it is not called damaged. What
 * is made of a store says so too, whichever allocation fails. */
#include "scope/analysis.h"
#include "scope/blocks.h"
#include "scope/diff.h"
#include "scope/memory.h"
#include "scope/store.h"
#include "study/verify.h"
#include "tests/scratch.h"
#include "tests/starve.h"

#if !MBA_STARVE
int main(void) { return 77; }
#else

/* Two notes, with a text that is longer than what a store takes memory for at a time. */
static void write_store(const char *path)
{
    static char text[1 << 18];
    mba_store  *s;
    memset(text, 'x', sizeof text - 1);
    assert_ok(mba_store_create(&s, path));
    for (int i = 0; i < 2; i++)
        assert_ok(mba_store_put(s, MBA_ROWS_note, &(mba_row_note){ .topic = "a", .text = text }));
    assert_ok(mba_store_close(s));
}

static void a_load_without_memory_says_so(void **state)
{
    mba_store *s;
    void      *rows;
    int64_t    n = 0;
    long       failures = 0;
    (void)state;
    write_store(scratch("a.db"));
    for (long k = 0;; k++) {
        assert_ok(mba_store_open(&s, scratch("a.db")));
        left = k;
        const mba_status st = mba_store_load(s, MBA_ROWS_note, &rows, &n);
        const bool       ran_dry = left < 0;
        left = -1;
        if (st != MBA_OK) assert_fails(st, MBA_E_NOMEM, "no memory");
        failures += st != MBA_OK;
        assert_ok(mba_store_close(s));
        if (!ran_dry) break;
    }
    assert_int_equal(n, 2);
    assert_true(failures >= 3); // the rows, and both texts
}

/* All that is made of an analysis; what was made until a failure is given back. */
static mba_status views_of(const mba_analysis *a)
{
    mba_memory         *memory = NULL;
    mba_timeline_event *events = NULL;
    mba_blocks_view    *blocks = NULL;
    mba_diff_row       *rows = NULL;
    mba_verification   *checks = NULL;
    int64_t             n;
    mba_status          st = mba_memory_of(a, &memory);
    if (st == MBA_OK) st = mba_timeline_of(a, 0, &events, &n);
    if (st == MBA_OK) st = mba_blocks_of(a, &blocks, &n);
    if (st == MBA_OK) st = mba_diff(&rows, &n, a, a, 0.03);
    if (st == MBA_OK) st = mba_verify(&checks, &n, a);
    mba_memory_destroy(memory);
    free(events);
    free(blocks);
    free(rows);
    free(checks);
    return st;
}

static void an_analysis_without_memory_says_so(void **state)
{
    long failures = 0;
    (void)state;
    for (long k = 0;; k++) {
        mba_store    *s;
        mba_analysis *a = NULL;
        assert_ok(mba_store_open(&s, "tests/data/stores/v1.db"));
        left = k;
        mba_status st = mba_analysis_create(&a, s);
        if (st == MBA_OK) st = views_of(a);
        const bool ran_dry = left < 0;
        left = -1;
        if (st != MBA_OK) assert_fails(st, MBA_E_NOMEM, "");
        failures += st != MBA_OK;
        mba_analysis_destroy(a);
        assert_ok(mba_store_close(s));
        if (!ran_dry) break;
    }
    assert_true(failures > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(a_load_without_memory_says_so),
                                        cmocka_unit_test(an_analysis_without_memory_says_so) };
    scratch_make();
    const int failures = cmocka_run_group_tests(tests, NULL, NULL);
    scratch_remove();
    return failures;
}
#endif
