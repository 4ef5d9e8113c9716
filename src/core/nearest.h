// SPDX-License-Identifier: Apache-2.0
/* nearest.h -- "did you mean": finds the known name that is closest to a misspelt word.
 *
 *     mba_nearest near = mba_nearest_to(word, strlen(word));
 *     for (int i = 0; names[i]; i++) mba_nearest_try(&near, names[i], meanings[i]);
 *     return mba_fail(MBA_E_ARG, "no machine '%s'\nfix: %sa100, h100 or h200", word, mba_did_you_mean(&near).text);
 *
 * Best first: the same letters except for case, - and _; few letters wrong, missing, extra or swapped; one is a part of
 * the other (vocab_size, vocab); the meaning begins with the word (regs, "registers of an SM"). Among equals, the first
 * that was tried wins. */
#ifndef MBA_CORE_NEAREST_H
#define MBA_CORE_NEAREST_H

#include <stddef.h>

enum { MBA_NEAREST_MAX = 40 }; /* longer words are not names */

typedef struct mba_nearest {
    char        word[MBA_NEAREST_MAX + 1]; /* lower case, - for _, no leading dashes; empty: it was too long */
    const char *best;                      /* the caller's string; NULL: no name is near */
    int         cost;
} mba_nearest;

mba_nearest mba_nearest_to(const char *word, size_t n);

/* Compares one name. `meaning` describes it in words; NULL: there is no description. */
void mba_nearest_try(mba_nearest *s, const char *name, const char *meaning);

typedef struct mba_hint {
    char text[96];
} mba_hint;

/* "did you mean rf? ", for the beginning of a `fix:` line; empty if no name is near. */
mba_hint mba_did_you_mean(const mba_nearest *s);

#endif
