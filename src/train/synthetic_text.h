// SPDX-License-Identifier: Apache-2.0
/* synthetic_text.h -- synthetic text as byte tokens in a temporary directory, for runs without --data.
 *
 *     mba_synthetic_corpus d = { 0 };
 *     MBA_TRY(mba_synthetic_corpus_create(&d, seed, 1 << 20));          // d.path; its notes say "synthetic"
 *     mba_synthetic_corpus_remove(&d);
 */
#ifndef MBA_TRAIN_SYNTHETIC_TEXT_H
#define MBA_TRAIN_SYNTHETIC_TEXT_H

#include <stdint.h>

#include "core/temporary.h"

typedef struct mba_synthetic_corpus {
    mba_temporary root;
    char          path[272];
} mba_synthetic_corpus;

MBA_MUST mba_status mba_synthetic_corpus_create(mba_synthetic_corpus *out, uint64_t seed, int64_t bytes);
void                mba_synthetic_corpus_remove(mba_synthetic_corpus *d); /* zeroed ones are fine */

#endif
