// SPDX-License-Identifier: Apache-2.0
/* pretokens.h -- the patterns with which byte-level tokenizers split a text into words. Internal to the tokenizer.
 *
 *     const mba_pattern *p = mba__pattern_find(regex);            // NULL: not one of those in use
 *     for (const char *at = text; at < end; at = next) next = p->word_end(at, end);
 *
 * A pattern is recognised by its regular expression and has its own scanner: no expressions are interpreted. */
#ifndef MBA_PRETOKENS_H
#define MBA_PRETOKENS_H

#include <stdbool.h>
#include <stddef.h>

typedef struct mba_pattern {
    const char *name, *regex;
    const char *(*word_end)(const char *at, const char *end); /* of valid UTF-8, at < end */
    bool takes_newlines;                                      /* newlines after punctuation belong to the word */
} mba_pattern;

extern const mba_pattern mba__pattern_gpt2; /* the default of ByteLevel; GPT-NeoX has it too */
const mba_pattern       *mba__pattern_find(const char *regex);

/* True if a word ends before text[i], i > 0, whatever follows: text[i] is ASCII white space and text[i-1] is not. Bytes
 * that are not UTF-8 count as the character that replaces them. */
bool mba__may_cut(const mba_pattern *p, const char *text, size_t i);

#endif
