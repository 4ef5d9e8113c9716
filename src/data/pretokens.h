// SPDX-License-Identifier: Apache-2.0
/* pretokens.h -- the patterns by which byte-level tokenizers cut a text into words. Inside of the tokenizer.
 *
 *     const mba_pattern *p = mba__pattern_find(regex);            // NULL: not one of those in use
 *     for (const char *at = text; at < end; at = next) next = p->word_end(at, end);
 *
 * A pattern is known by its text and has a scanner of its own: no regular expressions are interpreted. */
#ifndef MBA_PRETOKENS_H
#define MBA_PRETOKENS_H

#include <stdbool.h>
#include <stddef.h>

typedef struct mba_pattern {
    const char *name, *regex;
    const char *(*word_end)(const char *at, const char *end); /* of valid UTF-8, at < end */
    bool takes_newlines;                                      /* a word of punctuation goes on with them */
} mba_pattern;

extern const mba_pattern mba__pattern_gpt2; /* ByteLevel's own; also of GPT-NeoX */
const mba_pattern       *mba__pattern_find(const char *regex);

/* True where a word ends before text[i] whatever follows, i > 0: at white space of ASCII behind something else. Bytes
 * that are no UTF-8 count as what they are repaired to. */
bool mba__may_cut(const mba_pattern *p, const char *text, size_t i);

#endif
