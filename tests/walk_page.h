// SPDX-License-Identifier: Apache-2.0
/* walk_page.h -- the side of the page in walk_test.c and page_stores_test.c: tables and their columns. */
#ifndef MBA_TEST_WALK_PAGE_H
#define MBA_TEST_WALK_PAGE_H

#include "tests/page.h"

/* A table of the page: where its rows begin, and the names of its columns; false: the page has none of that figure. */
typedef struct sheet {
    char        columns[512];
    const char *rows;
} sheet;

static inline bool find_table(sheet *t, const char *page, const char *figure)
{
    char caption[64];
    snprintf(caption, sizeof caption, "<caption>%s, ", figure);
    const char *at = strstr(page, caption), *head = at;
    if (!at) return false;
    static const char key[] = "data-csv=\"";
    while (head > page && strncmp(head, key, sizeof key - 1)) head--;
    head += sizeof key - 1;
    snprintf(t->columns, sizeof t->columns, "%.*s", (int)strcspn(head, "\""), head);
    t->rows = strstr(at, "<tbody>");
    return true;
}

static inline int column_named(const sheet *t, const char *name)
{
    int n = 0;
    for (const char *at = t->columns; *at; n++) {
        const size_t length = strcspn(at, ",");
        if (strlen(name) == length && !strncmp(at, name, length)) return n;
        at += length + (at[length] == ',');
    }
    return -1;
}

static inline void unescape(char *text)
{
    static const char *const from[] = { "&amp;", "&lt;", "&gt;", "&quot;" };
    for (size_t i = 0; i < 4; i++)
        for (char *at; (at = strstr(text, from[i])) != NULL;) {
            *at = "&<>\""[i];
            memmove(at + 1, at + strlen(from[i]), strlen(at + strlen(from[i])) + 1);
        }
}

#endif
