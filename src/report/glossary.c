// SPDX-License-Identifier: Apache-2.0
/* glossary.c -- see glossary.h. A row of the glossary is a line "| names | meaning |" of a table. */
#include "report/glossary.h"

#include <string.h>

#include "report/figure.h"

enum { MEANING_ROOM = 512 };

/* Reads the line at `s` if it is a row of a table and not its heading. */
static bool row_of(mba_term *out, const char *s)
{
    const char *end = s + strcspn(s, "\n"), *middle;
    if (strncmp(s, "| ", 2) || !strncmp(s, "| term ", 7)) return false;
    middle = strstr(s + 2, " | ");
    if (!middle || middle >= end || end - middle < 6 || strncmp(end - 2, " |", 2)) return false;
    *out = (mba_term){ s + 2, middle + 3, (int)(middle - s - 2), (int)(end - 2 - middle - 3) };
    return true;
}

bool mba_term_at(mba_term *out, int i)
{
    for (const char *s = mba_glossary; *s;) {
        if (row_of(out, s) && i-- == 0) return true;
        s += strcspn(s, "\n");
        s += *s == '\n';
    }
    return false;
}

bool mba_term_find(mba_term *out, const char *name, size_t n)
{
    for (int i = 0; mba_term_at(out, i); i++)
        for (const char *at = out->names, *end = at + out->names_n; at < end;) {
            const char  *comma = memchr(at, ',', (size_t)(end - at));
            const size_t length = (size_t)((comma ? comma : end) - at);
            if (length == n && !strncmp(at, name, n)) return true;
            at = comma ? comma + 1 + (comma[1] == ' ') : end;
        }
    return false;
}

/* The meaning as plain text, without the marks of code. */
static void put_meaning(mba_buf *b, const mba_term *t)
{
    char text[MEANING_ROOM];
    int  n = 0;
    for (int i = 0; i < t->meaning_n; i++)
        if (t->meaning[i] != '`') text[n++] = t->meaning[i], mba_assert(n < MEANING_ROOM);
    text[n] = 0;
    mba_buf_html(b, text);
}

void mba_terms_html(mba_buf *b, const char *markup)
{
    for (const char *s = markup; *s;) {
        const int plain = (int)strcspn(s, "{");
        mba_buf_add(b, "%.*s", plain, s);
        s += plain;
        if (!*s) return;
        if (s[1] == '#') { // a figure or part: the number of its section
            const size_t length = strcspn(s + 2, "}");
            mba_section_link(b, s + 2, length);
            s += 2 + length + 1;
            continue;
        }
        const int   all = (int)strcspn(s, "}"), shown = (int)strcspn(s + 1, "|}");
        const char *name = s[1 + shown] == '|' ? s + 2 + shown : s + 1;
        mba_term    t;
        const bool  known = s[all] == '}' && mba_term_find(&t, name, (size_t)(s + all - name));
        mba_assert(known);
        mba_buf_put(b, "<abbr title=\"");
        put_meaning(b, &t);
        mba_buf_add(b, "\">%.*s</abbr>", shown, s + 1);
        s += all + 1;
    }
}
