// SPDX-License-Identifier: Apache-2.0
/* nearest.h -- "did you mean": the name that a word which is no name was probably meant to be.
 *
 *     mba_nearest near = mba_nearest_to(word, strlen(word));
 *     for (int i = 0; names[i]; i++) mba_nearest_try(&near, names[i], meanings[i]);
 *     return mba_fail(MBA_E_ARG, "no machine '%s'\nfix: %sa100, h100 or h200", word, mba_did_you_mean(&near).text);
 *
 * Best first: the same letters but for case, - and _; few letters wrong, missing, too many or swapped; the one is a
 * part of the other (vocab_size, vocab); the meaning begins with the word (regs, "registers of an SM"). Among equals
 * the first that was tried. */
#ifndef MBA_CORE_NEAREST_H
#define MBA_CORE_NEAREST_H

#include <stddef.h>

enum { MBA_NEAREST_MAX = 40 }; /* longer words are not names */

typedef struct mba_nearest {
    char        word[MBA_NEAREST_MAX + 1]; /* in small letters, - for _, without dashes in front; empty: too long */
    const char *best;                      /* lent from the caller; NULL: no name is near */
    int         cost;
} mba_nearest;

mba_nearest mba_nearest_to(const char *word, size_t n);

/* `meaning`: what the name is about, in words; NULL where it has no more than a name. */
void mba_nearest_try(mba_nearest *s, const char *name, const char *meaning);

typedef struct mba_hint {
    char text[96];
} mba_hint;

/* "did you mean rf? ", for the beginning of a fix; empty where no name is near. */
mba_hint mba_did_you_mean(const mba_nearest *s);

#endif
