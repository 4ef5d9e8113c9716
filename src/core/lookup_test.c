// SPDX-License-Identifier: Apache-2.0
/* lookup_test.c -- lookup.h finds every item, also among equal hashes, and nothing else; nearest.h finds the name that
 * a misspelt word means; mba_size_of formats sizes. */
#include "core/lookup.h"
#include "core/nearest.h"
#include "tests/starve.h"
#include "tests/test.h"

typedef struct word {
    char    text[24];
    int64_t seen;
} word;

static word      *words;
static int64_t    n, room;
static mba_lookup by_text;

/* The number of a word; a new one if it is not in the table. Only `bits` of its hash are used. */
static int64_t number_of(const char *text, uint64_t bits)
{
    const uint64_t hash = mba_hash(MBA_HASH_BEGIN, text, strlen(text)) & bits;
    int64_t        at = 0, i;
    while ((i = mba_lookup_next(&by_text, hash, &at)) >= 0)
        if (!strcmp(words[i].text, text)) return i;
    word *more = mba_grow(words, n, &room, sizeof *more);
    assert_non_null(more);
    words = more;
    assert_true(mba_lookup_add(&by_text, hash));
    snprintf(words[n].text, sizeof words[n].text, "%s", text);
    words[n].seen = 0;
    return n++;
}

static void forget(void)
{
    mba_lookup_free(&by_text);
    free(words);
    words = NULL;
    n = room = 0;
}

/* With few bits, all words share a few hashes: the caller distinguishes them, and slots wrap around the table's end. */
static void items_keep_their_numbers_while_the_table_grows(void **state)
{
    static const uint64_t bits[] = { UINT64_MAX, 0, 7, 511, ~(uint64_t)0xffff };
    (void)state;
    for (size_t b = 0; b < sizeof bits / sizeof *bits; b++) {
        const int64_t many = b ? 2000 : 100000;
        char          text[24];
        for (int turn = 0; turn < 2; turn++)
            for (int64_t i = 0; i < many; i++) {
                snprintf(text, sizeof text, "k%lld", (long long)i);
                assert_int_equal(number_of(text, bits[b]), i);
                words[i].seen++;
            }
        assert_int_equal(n, many);
        assert_int_equal(by_text.n, many);
        assert_true(2 * by_text.n <= by_text.slots);
        for (int64_t i = 0; i < many; i++) assert_int_equal(words[i].seen, 2);
        forget();
    }
}

static void what_was_not_added_is_not_found(void **state)
{
    (void)state;
    mba_lookup t = { 0 };
    int64_t    at = 0;
    assert_int_equal(mba_lookup_next(&t, 5, &at), -1); // of an empty one
    assert_true(mba_lookup_add(&t, 5));
    assert_true(mba_lookup_add(&t, 6));
    assert_true(mba_lookup_add(&t, 5));
    static const struct {
        uint64_t hash;
        int64_t  items[3];
    } asked[] = { { 5, { 0, 2, -1 } }, { 6, { 1, -1, -1 } }, { 7, { -1, -1, -1 } }, { 4, { -1, -1, -1 } } };
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
        at = 0;
        for (int k = 0; k < 3; k++) assert_int_equal(mba_lookup_next(&t, asked[i].hash, &at), asked[i].items[k]);
    }
    mba_lookup_free(&t);
    assert_null(t.slot);
    assert_int_equal(t.n, 0);
}

/* Published values of FNV-1a: of "", of "a", of "foobar". */
static void the_hash_is_fnv_1a(void **state)
{
    (void)state;
    const uint64_t begin = 0xcbf29ce484222325u;
    assert_true(mba_hash(begin, "", 0) == begin);
    assert_true(mba_hash(begin, "a", 1) == 0xaf63dc4c8601ec8cu);
    assert_true(mba_hash(begin, "foobar", 6) == 0x85944171f73967e8u);
    assert_true(mba_hash(mba_hash(begin, "foo", 3), "bar", 3) == 0x85944171f73967e8u);
}

static void arrays_double_and_keep_what_they_have(void **state)
{
    (void)state;
    int    *a = NULL;
    int64_t space = 0;
    for (int i = 0; i < 5000; i++) {
        const int64_t before = space;
        a = mba_grow(a, i, &space, sizeof *a);
        assert_non_null(a);
        assert_true(space > i && (space == before || space == 2 * before || before == 0));
        a[i] = i;
    }
    for (int i = 0; i < 5000; i++) assert_int_equal(a[i], i);
    free(a);
}

#if MBA_STARVE
/* Without memory, both keep what they had. */
static mba_status fill(void)
{
    int    *a = NULL;
    int64_t space = 0;
    for (n = 0; n < 3000; n++) {
        int *more = mba_grow(a, n, &space, sizeof *more);
        if (more) a = more;
        if (!more || !mba_lookup_add(&by_text, (uint64_t)n)) break;
        a[n] = (int)n;
    }
    for (int64_t i = 0; i < n; i++) {
        int64_t at = 0;
        assert_int_equal(a[i], i);
        assert_int_equal(mba_lookup_next(&by_text, (uint64_t)i, &at), i);
    }
    assert_int_equal(by_text.n, n);
    free(a);
    mba_lookup_free(&by_text);
    return n == 3000 ? MBA_OK : mba_fail(MBA_E_NOMEM, "no memory behind %lld items", (long long)n);
}

static void check_full(void) { assert_int_equal(n, 3000); }

static void without_memory_nothing_is_lost(void **state)
{
    (void)state;
    assert_true(starve(fill, check_full, NULL) >= 9); // doublings of both
}
#endif

static const char *nearest(const char *typed)
{
    static const struct {
        const char *name, *meaning;
    } names[] = {
        { "--batch", "sequences per step" },
        { "--lr", "learning rate after warm-up" },
        { "vocab", "rows of the embedding" },
        { "rf", "registers of an SM" },
        { "l2", "size of L2" },
        { "l2_lat", "L2 latency of a hit" },
        { "hbm", "DRAM bandwidth" },
        { "h100", NULL },
        { "h200", NULL },
        { "mamba2-130m", NULL },
        { "mamba-130m", NULL },
        { "kernels", NULL },
    };
    mba_nearest s = mba_nearest_to(typed, strlen(typed));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) mba_nearest_try(&s, names[i].name, names[i].meaning);
    return s.best ? s.best : "";
}

static void a_word_that_is_no_name_finds_the_one_that_was_meant(void **state)
{
    static const char *const pairs[][2] = {
        { "H100", "h100" },
        { "L2", "l2" },
        { "MAMBA2_130M", "mamba2-130m" }, // case, - and _
        { "h20", "h200" },
        { "h010", "h100" },
        { "mamba2-130", "mamba2-130m" }, // letters
        { "kernesl", "kernels" },
        { "--bacth", "--batch" },
        { "kernals", "kernels" },
        { "vocab_size", "vocab" },
        { "--batch-size", "--batch" },
        { "h100-sxm", "h100" }, // parts
        { "regs", "rf" },
        { "register", "rf" },
        { "--learning-rate", "--lr" },
        { "bandwidth", "hbm" },
        { "zebra", "" },
        { "x", "" },
        { "", "" },
        { "--", "" },
        { "a-word-that-is-longer-than-any-name-that-we-could-have", "" },
    };
    (void)state;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) assert_string_equal(nearest(pairs[i][0]), pairs[i][1]);
}

static void the_hint_begins_a_fix_or_is_empty(void **state)
{
    (void)state;
    mba_nearest s = mba_nearest_to("H100=x2", 4);
    assert_string_equal(mba_did_you_mean(&s).text, "");
    mba_nearest_try(&s, "h100", NULL);
    assert_string_equal(mba_did_you_mean(&s).text, "did you mean h100? ");
}

static void sizes_are_said_in_units(void **state)
{
    static const struct {
        double      bytes;
        const char *words;
    } cases[] = {
        { 0, "0 bytes" },         { 9999, "9999 bytes" }, { 24155, "24 KB" },
        { 10485760, "10.49 MB" }, { 2.08e9, "2.08 GB" },  { 39602104064.0, "39.60 GB" },
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_string_equal(mba_size_of(cases[i].bytes).text, cases[i].words);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(items_keep_their_numbers_while_the_table_grows),
        cmocka_unit_test(what_was_not_added_is_not_found),
        cmocka_unit_test(the_hash_is_fnv_1a),
        cmocka_unit_test(a_word_that_is_no_name_finds_the_one_that_was_meant),
        cmocka_unit_test(the_hint_begins_a_fix_or_is_empty),
        cmocka_unit_test(sizes_are_said_in_units),
        cmocka_unit_test(arrays_double_and_keep_what_they_have),
#if MBA_STARVE
        cmocka_unit_test(without_memory_nothing_is_lost),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
