// SPDX-License-Identifier: Apache-2.0
/* glossary_test.c -- the glossary that is compiled in: its rows, its names, and that every term on a page is in it. */
#include "report/glossary.h"

#include <string.h>

#include "report/parts.h"
#include "report/training_figures.h"
#include "tests/test.h"

static void the_glossary_has_at_most_40_terms_and_each_once(void **state)
{
    mba_term t, again;
    int      n = 0;
    (void)state;
    for (; mba_term_at(&t, n); n++) {
        assert_true(t.names_n > 2 && t.meaning_n > 10);
        for (int k = n + 1; mba_term_at(&again, k); k++)
            assert_false(t.names_n == again.names_n && !strncmp(t.names, again.names, (size_t)t.names_n));
    }
    if (n > MBA_TERMS_MAX) fail_msg("docs/glossary.md has %d terms, %d are allowed", n, MBA_TERMS_MAX);
    assert_true(n > 20);
}

static void a_row_is_found_by_each_of_its_names(void **state)
{
    mba_term t, u;
    (void)state;
    assert_true(mba_term_find(&t, "operator floor", 14));
    assert_true(mba_term_find(&t, "saved", 5) && mba_term_find(&u, "recomputed", 10));
    assert_ptr_equal(t.meaning, u.meaning);
    assert_false(mba_term_find(&t, "term", 4) || mba_term_find(&t, "unwatched", 9) || mba_term_find(&t, "", 0));
}

static void a_term_becomes_a_hover(void **state)
{
    mba_buf b = { 0 };
    (void)state;
    mba_terms_html(&b, "a {kernel floor}, {Stores|store}.");
    assert_ok(mba_buf_status(&b, "the text"));
    assert_non_null(strstr(b.s, "a <abbr title=\""));
    assert_non_null(strstr(b.s, "\">kernel floor</abbr>, <abbr title=\""));
    assert_non_null(strstr(b.s, "\">Stores</abbr>."));
    assert_null(strpbrk(b.s, "{}`"));
    mba_buf_free(&b);
}

/* mba_terms_html asserts that the glossary has a term. */
static void every_term_of_the_figures_is_in_the_glossary(void **state)
{
    mba_buf b = { 0 };
    int     hovers = 0;
    (void)state;
    for (int i = 0; mba_figures[i]; i++) {
        mba_terms_html(&b, mba_figures[i]->sub);
        mba_terms_html(&b, mba_figures[i]->reading);
    }
    for (int i = 0; mba_training_figures[i]; i++) {
        mba_terms_html(&b, mba_training_figures[i]->sub);
        mba_terms_html(&b, mba_training_figures[i]->reading);
    }
    assert_ok(mba_buf_status(&b, "the figures"));
    for (const char *at = b.s; (at = strstr(at, "<abbr ")); at++) hovers++;
    assert_true(hovers >= 30);
    mba_buf_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(the_glossary_has_at_most_40_terms_and_each_once),
                                        cmocka_unit_test(a_row_is_found_by_each_of_its_names),
                                        cmocka_unit_test(a_term_becomes_a_hover),
                                        cmocka_unit_test(every_term_of_the_figures_is_in_the_glossary) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
