// SPDX-License-Identifier: Apache-2.0
/* literals.h -- a set of fixed strings, found in a text: the leftmost one, the longest there. Inside of the tokenizer.
 *
 *     mba_literals set = { 0 };
 *     MBA_TRY(mba__literals_add(&set, "<|endoftext|>", 13, 0));
 *     mba_literal m;
 *     while (mba__literals_find(&set, &m, text, n, from, -1)) from = m.at + m.bytes;    // m.id
 *     mba__literals_free(&set);
 *
 * A tree of bytes, walked from every place where a string can begin: O(text * longest string), so that strings
 * are limited to MBA_LITERAL_BYTES. */
#ifndef MBA_LITERALS_H
#define MBA_LITERALS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/status.h"

enum { MBA_LITERAL_BYTES = 512 };

typedef struct mba_literals {
    struct literal_node *node; /* node 0 is not used: 0 says "none" */
    int32_t              n, capacity;
    int32_t              root[256];
    bool                 cut; /* a string has white space of ASCII behind another character */
} mba_literals;

typedef struct mba_literal {
    size_t  at, bytes;
    int32_t id;
} mba_literal;

/* MBA_E_FORMAT for a string that is empty, too long or there already. */
MBA_MUST mba_status mba__literals_add(mba_literals *s, const char *text, size_t n, int32_t id);
bool                mba__literals_find(const mba_literals *s, mba_literal *out, const char *text, size_t n, size_t from,
                                       int32_t except); /* an id that is passed over; -1: none */
void                mba__literals_free(mba_literals *s);

/* White space of ASCII. */
static inline bool mba__ascii_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

#endif
