// SPDX-License-Identifier: Apache-2.0
/* guides_test.c -- every section, row, card, figure and view of the page that the guides name is on the page. A guide
 * writes them in bold: **Roofline, floors** (Fig. 2), **Row F4**, **Card The kernel to fix**. */
#include <stdlib.h>
#include <string.h>

#include "core/file.h"
#include "report/figure.h"
#include "study/claims.h"
#include "tests/test.h"

static const char *const guides[] = { "docs/guide-architect.md", "docs/guide-kernel-engineer.md",
                                      "docs/guide-trainer.md", "docs/walkthrough.md" };

/* The section with this title, which may go on behind " · "; NULL: none. */
static const mba_outline *section_named(const char *name)
{
    for (const mba_outline *o = mba_page_outline; o->section || o->figure || o->part; o++) {
        if (!o->section || strncmp(o->words, name, strlen(name))) continue;
        const char *rest = o->words + strlen(name);
        if (!*rest || !strncmp(rest, " · ", strlen(" · "))) return o;
    }
    return NULL;
}

/* "(Fig. 1, *ms with idle*)": the figure lies in the section, and has the view. */
static void check_figure(const char *guide, const mba_outline *section, const char *at)
{
    char eyebrow[16];
    int  number = 0;
    if (sscanf(at, " (Fig. %d", &number) != 1) return;
    snprintf(eyebrow, sizeof eyebrow, "Fig. %d ", number);
    for (const mba_outline *o = section + 1; o->figure || o->part; o++) {
        if (!o->figure || strncmp(o->figure->eyebrow, eyebrow, strlen(eyebrow))) continue;
        const char *view = strchr(at, ',');
        if (!view || view > strchr(at, ')') || view[2] != '*') return;
        for (int i = 0; o->figure->views && o->figure->views[i]; i++) {
            const size_t n = strlen(o->figure->views[i]);
            if (!strncmp(view + 3, o->figure->views[i], n) && view[3 + n] == '*') return;
        }
        fail_msg("%s: %sno view '%.20s'", guide, eyebrow, view + 3);
    }
    fail_msg("%s: %sis not in section '%s'", guide, eyebrow, section->words);
}

/* Rows of the verdicts are those of claims; cards are opened by first_screen.c. */
static bool on_first_screen(const char *name, const char *cards)
{
    char card[96];
    int  claim = 0;
    if (!strcmp(name, "Answer")) return true;
    if (!strncmp(name, "Row", 3)) {
        for (const char *at = name; (at = strchr(at, 'F')) != NULL; at++)
            if (sscanf(at, "F%d", &claim) != 1 || claim < 1 || claim > MBA_CLAIMS) return false;
        return claim > 0;
    }
    if (strncmp(name, "Card ", 5)) return false;
    snprintf(card, sizeof card, "card_open(b, \"%.60s", name + 5);
    return strstr(cards, card) != NULL;
}

/* Returns how many names the text has. One in small letters is a switch. */
static int check_guide(const char *guide, const char *text, const char *cards)
{
    int named = 0;
    for (const char *at = strstr(text, "**"); at;) {
        const char *name_at = at + 2, *end = strstr(name_at, "**");
        assert_non_null(end);
        at = strstr(end + 2, "**");
        if (*name_at >= 'a' && *name_at <= 'z') continue;
        char name[64];
        snprintf(name, sizeof name, "%.*s", (int)(end - name_at), name_at);
        const mba_outline *section = section_named(name);
        if (!section && !on_first_screen(name, cards)) fail_msg("%s: the page has no '%s'", guide, name);
        if (section) check_figure(guide, section, end + 2);
        named++;
    }
    return named;
}

static void guides_name_what_the_page_has(void **state)
{
    enum { ROOM = 1 << 20 };
    char  *cards, *text;
    size_t bytes;
    int    named = 0;
    (void)state;
    assert_ok(mba_file_read(&cards, &bytes, "src/report/first_screen.c", ROOM));
    for (size_t g = 0; g < sizeof guides / sizeof *guides; g++) {
        assert_ok(mba_file_read(&text, &bytes, guides[g], ROOM));
        named += check_guide(guides[g], text, cards);
        free(text);
    }
    free(cards);
    assert_true(named > 20);
}

int main(void)
{
    static const struct CMUnitTest tests[] = { cmocka_unit_test(guides_name_what_the_page_has) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
