// SPDX-License-Identifier: Apache-2.0
/* literals.c -- see literals.h: a trie of bytes. */
#include "data/literals.h"

#include <stdlib.h>

typedef struct literal_node {
    int32_t child, sibling, id; /* id -1: no string ends here */
    uint8_t byte;
} literal_node;

static int32_t node_new(mba_literals *s, uint8_t byte, int32_t sibling)
{
    if (s->n + 1 >= s->capacity) {
        const int32_t capacity = s->capacity * 2 + 64;
        literal_node *node = realloc(s->node, (size_t)capacity * sizeof *node);
        if (!node) return 0;
        s->node = node;
        s->capacity = capacity;
    }
    s->node[++s->n] = (literal_node){ .id = -1, .byte = byte, .sibling = sibling };
    return s->n;
}

static int32_t child_of(const mba_literals *s, int32_t at, uint8_t byte)
{
    int32_t c = s->node[at].child;
    while (c && s->node[c].byte != byte) c = s->node[c].sibling;
    return c;
}

mba_status mba__literals_add(mba_literals *s, const char *text, size_t n, int32_t id)
{
    if (n == 0 || n > MBA_LITERAL_BYTES)
        return mba_fail(MBA_E_FORMAT,
                        "the added token %d has %zu bytes\nwhy: 1 to %d are supported\nfix: leave "
                        "it out of the tokenizer",
                        id, n, MBA_LITERAL_BYTES);
    int32_t at = 0;
    for (size_t i = 0; i < n; i++) {
        const uint8_t byte = (uint8_t)text[i];
        int32_t       next = i ? child_of(s, at, byte) : s->root[byte];
        if (!next) {
            next = node_new(s, byte, i ? s->node[at].child : 0);
            if (!next) return mba_fail(MBA_E_NOMEM, "no memory for the added tokens");
            if (i) s->node[at].child = next;
            else s->root[byte] = next;
        }
        at = next;
        s->cut |= i && mba__ascii_space(text[i]) && !mba__ascii_space(text[i - 1]);
    }
    if (s->node[at].id >= 0)
        return mba_fail(MBA_E_FORMAT,
                        "the added tokens %d and %d are the same text\nwhy: after NFC, where the tokenizer has it\n"
                        "fix: leave one out",
                        s->node[at].id, id);
    s->node[at].id = id;
    return MBA_OK;
}

bool mba__literals_find(const mba_literals *s, mba_literal *out, const char *text, size_t n, size_t from,
                        int32_t except)
{
    if (!s->n) return false;
    for (; from < n; from++) {
        int32_t at = s->root[(uint8_t)text[from]];
        if (!at) continue;
        *out = (mba_literal){ .at = from, .id = -1 };
        for (size_t i = from + 1; at; at = i < n ? child_of(s, at, (uint8_t)text[i]) : 0, i++)
            if (s->node[at].id >= 0 && s->node[at].id != except) {
                out->id = s->node[at].id;
                out->bytes = i - from;
            }
        if (out->id >= 0) return true;
    }
    return false;
}

void mba__literals_free(mba_literals *s)
{
    free(s->node);
    *s = (mba_literals){ 0 };
}
