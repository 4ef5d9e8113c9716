// SPDX-License-Identifier: Apache-2.0
/* page.h -- walks an HTML page in tests: tags, ids, links, controls, tables.
 *
 *     check_page(html);            // balanced tags, unique ids, live links, named controls, nothing from outside
 *     const char *t = table_named(html, "fig1, all runs");  page_row row;
 *     while ((t = next_row(t, &row))) use(row.cell[0], row.value[1]);
 */
#ifndef MBA_TEST_PAGE_H
#define MBA_TEST_PAGE_H

#include <ctype.h>
#include <string.h>

#include "tests/test.h"

/* ---- tags ---- */

/* end: behind its > */
typedef struct page_tag {
    char        name[32];
    const char *start, *end;
    bool        closes, empty;
} page_tag;

/* The next tag at or behind `at`; what is inside <script> and <style> is no markup. NULL behind the last. */
static inline const char *next_tag(const char *at, page_tag *t)
{
    at = strchr(at, '<');
    if (!at) return NULL;
    *t = (page_tag){ .start = at, .closes = at[1] == '/' };
    const char *name = at + 1 + t->closes;
    size_t      n = 0;
    while (isalnum((unsigned char)name[n]) && n < sizeof t->name - 1) t->name[n] = name[n], n++;
    bool quoted = false;
    for (at = name; *at && (quoted || *at != '>'); at++)
        if (*at == '"') quoted = !quoted;
    if (!*at) fail_msg("a tag does not end: %.60s", t->start);
    t->end = at + 1;
    t->empty = at[-1] == '/' || !strcmp(t->name, "meta") || !strcmp(t->name, "br") || !strcmp(t->name, "input")
               || t->start[1] == '!';
    return t->end;
}

static inline const char *behind_text_of(const page_tag *t)
{
    char close[40];
    if (t->closes || (strcmp(t->name, "script") && strcmp(t->name, "style"))) return t->end;
    snprintf(close, sizeof close, "</%s>", t->name);
    const char *at = strstr(t->end, close);
    if (!at) fail_msg("<%s> does not end", t->name);
    return at;
}

static inline void check_tags(const char *html)
{
    static char open[256][32];
    int         depth = 0;
    page_tag    t;
    for (const char *at = html; (at = next_tag(at, &t)) != NULL; at = behind_text_of(&t)) {
        if (t.closes) {
            if (depth == 0 || strcmp(open[depth - 1], t.name))
                fail_msg("</%s> closes <%s>: %.80s", t.name, depth ? open[depth - 1] : "nothing", t.start);
            depth--;
        } else if (!t.empty) {
            assert_true(depth < 256);
            strcpy(open[depth++], t.name);
        }
    }
    if (depth) fail_msg("<%s> is never closed", open[depth - 1]);
}

/* ---- attributes ---- */

/* The value of an attribute of a tag into `out`; false where it has none. */
static inline bool attribute(const page_tag *t, const char *name, char *out, size_t room)
{
    char key[64];
    snprintf(key, sizeof key, " %s=\"", name);
    const char *at = memmem(t->start, (size_t)(t->end - t->start), key, strlen(key));
    if (!at) return false;
    at += strlen(key);
    snprintf(out, room, "%.*s", (int)strcspn(at, "\""), at);
    return true;
}

static inline int times_id(const char *html, const char *id)
{
    char key[280];
    int  n = 0;
    snprintf(key, sizeof key, " id=\"%s\"", id);
    for (const char *at = html; (at = strstr(at, key)) != NULL; at++) n++;
    return n;
}

static inline void check_ids_and_links(const char *html)
{
    page_tag t;
    char     word[256];
    for (const char *at = html; (at = next_tag(at, &t)) != NULL; at = behind_text_of(&t)) {
        if (t.closes) continue;
        const bool kernel = !strcmp(t.name, "tr"); // hundreds of them, numbered by a counter
        if (!kernel && attribute(&t, "id", word, sizeof word) && times_id(html, word) != 1)
            fail_msg("id '%s' is not the only one", word);
        if (attribute(&t, "href", word, sizeof word) && (word[0] != '#' || times_id(html, word + 1) != 1))
            fail_msg("link '%s' leads nowhere", word);
    }
}

/* Buttons have text or a label, fields stand inside <label>, regions that scroll have a name. */
static inline void check_controls(const char *html)
{
    page_tag t;
    char     word[256];
    int      labels = 0;
    for (const char *at = html; (at = next_tag(at, &t)) != NULL; at = behind_text_of(&t)) {
        if (!strcmp(t.name, "label")) labels += t.closes ? -1 : 1;
        if (t.closes) continue;
        const bool named = attribute(&t, "aria-label", word, sizeof word) && *word;
        if (!strcmp(t.name, "button") && !named && *t.end == '<') fail_msg("a button without a name: %.80s", t.start);
        const bool field = !strcmp(t.name, "select") || !strcmp(t.name, "input");
        if (field && !named && labels == 0) fail_msg("a field without a name: %.80s", t.start);
        if ((!strcmp(t.name, "svg") || attribute(&t, "tabindex", word, sizeof word)) && !named)
            fail_msg("a drawing or region without a name: %.80s", t.start);
    }
}

/* Nothing comes from outside: no address but the name space of SVG, no sources, no imports. And nothing may: one script
 * runs, which is known by its hash, and scripts written into attributes do not. */
static inline void check_alone(const char *html)
{
    static const char name_space[] = "http://www.w3.org/2000/svg",
                      policy[] = "http-equiv=\"Content-Security-Policy\" content=\""
                                 "default-src 'none'; script-src 'sha256-",
                      rest[] = "='; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
                               "form-action 'none'\">";
    int policies = 0;
    for (const char *at = html; (at = strstr(at, "http")) != NULL; at++) {
        const bool is = !strncmp(at, policy, sizeof policy - 1)
                        && !strncmp(at + sizeof policy + 42, rest, sizeof rest - 1);
        policies += is;
        if (!is && strncmp(at, name_space, sizeof name_space - 1)) fail_msg("an address: %.60s", at);
    }
    if (policies != 1) fail_msg("%d content security policies", policies);
    static const char *const words[] = { "@import", " src=", "url(", "fetch(", "XMLHttpRequest", NULL };
    for (const char *const *word = words; *word; word++)
        if (strstr(html, *word)) fail_msg("'%s' in the page", *word);
}

/* Every mark's tooltip exists. */
static inline void check_tips(const char *html)
{
    int         tips = 0;
    const char *all = strstr(html, "\n\"tips\":[");
    assert_non_null(all);
    for (const char *at = all + 9, *end = strstr(at, "]}</script>"); at && at < end; at = strchr(at + 1, '\n')) tips++;
    for (const char *at = html; (at = strstr(at, " data-t=\"")) != NULL;) {
        const long n = strtol(at += 9, NULL, 10);
        if (n < 0 || n >= tips) fail_msg("tooltip %ld of %d", n, tips);
    }
}

static inline void check_page(const char *html)
{
    check_tags(html);
    check_ids_and_links(html);
    check_controls(html);
    check_alone(html);
    check_tips(html);
}

/* ---- tables ---- */

enum { PAGE_CELLS = 16 };
/* value: of data-v; NaN */
typedef struct page_row {
    int    n;
    char   cell[PAGE_CELLS][256];
    double value[PAGE_CELLS];
} page_row;

static inline char *table_named(char *html, const char *caption)
{
    char text[200];
    snprintf(text, sizeof text, "<caption>%s</caption>", caption);
    char *at = strstr(html, text);
    return at ? strstr(at, "<tbody>") : NULL;
}

/* The next row of the table that `at` stands in. */
static inline const char *next_row(const char *at, page_row *row)
{
    page_tag t;
    char     word[64];
    row->n = 0;
    for (at = next_tag(at, &t); at && strcmp(t.name, "table"); at = next_tag(at, &t)) {
        if (t.closes && !strcmp(t.name, "tr")) return at;
        if (t.closes || strcmp(t.name, "td") || row->n == PAGE_CELLS) continue;
        row->value[row->n] = attribute(&t, "data-v", word, sizeof word) ? strtod(word, NULL) : NAN;
        snprintf(row->cell[row->n++], sizeof row->cell[0], "%.*s", (int)strcspn(at, "<"), at);
    }
    return NULL;
}

#endif
