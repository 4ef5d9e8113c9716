// SPDX-License-Identifier: Apache-2.0
/* words.h -- what words_cuda.cu tries on a GPU, one function for a kind of word: MBA_OK, MBA_E_UNSUPPORTED where this
 * GPU does not have it, else the story of the first number that is not what the header says. */
#ifndef MBA_TESTS_WORDS_H
#define MBA_TESTS_WORDS_H

#include "core/status.h"

#define WORDS(X) \
    X(vectors) X(strided_views) X(sums) X(numbers) X(random) X(copies) X(tiles) X(fragments) X(warpgroups) X(handing)

#define X(name) mba_status words_##name(void);
WORDS(X)
#undef X

/* A block that waits for a state which nobody makes: the launch must fail, and does not run on its GPU for ever. Breaks
 * the context: for a process of its own. */
mba_status words_waiting(void);

#endif
