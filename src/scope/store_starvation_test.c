// SPDX-License-Identifier: Apache-2.0
/* store_starvation_test.c -- a store that cannot be loaded for lack of memory says so: it is not called damaged. */
#include "scope/store.h"
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

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(a_load_without_memory_says_so) };
    scratch_make();
    const int failures = cmocka_run_group_tests(tests, NULL, NULL);
    scratch_remove();
    return failures;
}
#endif
