// SPDX-License-Identifier: Apache-2.0
/* literals.h -- finds fixed strings in a text: the leftmost match, the longest there. Internal to the tokenizer.
 *
 *     mba_literals set = { 0 };
 *     MBA_TRY(mba__literals_add(&set, "<|endoftext|>", 13, 0));
 *     mba_literal m;
 *     while (mba__literals_find(&set, &m, text, n, from, -1)) from = m.at + m.bytes;    // m.id
 *     mba__literals_free(&set);
 *
 * A trie that is descended from every position where a string can begin: O(text * longest string), which is why strings
 * have at most MBA_LITERAL_BYTES. */
#ifndef MBA_LITERALS_H
#define MBA_LITERALS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/status.h"

enum { MBA_LITERAL_BYTES = 512 };

typedef struct mba_literals {
    struct literal_node *node; /* node 0 is not used: 0 means "none" */
    int32_t              n, capacity;
    int32_t              root[256];
    bool                 cut; /* some string has ASCII white space after another character */
} mba_literals;

typedef struct mba_literal {
    size_t  at, bytes;
    int32_t id;
} mba_literal;

/* Fails with MBA_E_FORMAT for a string that is empty, too long or already in the set. */
MBA_MUST mba_status mba__literals_add(mba_literals *s, const char *text, size_t n, int32_t id);
bool                mba__literals_find(const mba_literals *s, mba_literal *out, const char *text, size_t n, size_t from,
                                       int32_t except); /* an id to ignore; -1: none */
void                mba__literals_free(mba_literals *s);

/* True for ASCII white space. */
static inline bool mba__ascii_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

#endif
