// SPDX-License-Identifier: Apache-2.0
/* bpe.h -- the merges of byte-level BPE, applied to one word at a time. Internal to the tokenizer.
 *
 *     mba_bpe *b;
 *     MBA_TRY(mba__bpe_create(&b, byte_id, merges));         // byte -> first symbol; room for so many merges
 *     MBA_TRY(mba__bpe_merge(b, left, right, rank, result));
 *     MBA_TRY(mba__bpe_word(b, &ids, " hello", 6));          // appends
 *
 * It merges the adjacent pair of lowest rank, the leftmost among equals, until no pair of the table is left. A heap and
 * a linked list make that O(m log m) for a word of m bytes. A cache holds short words. */
#ifndef MBA_BPE_H
#define MBA_BPE_H

#include "data/tokenizer.h"

typedef struct mba_bpe mba_bpe;

MBA_MUST mba_status mba__bpe_create(mba_bpe **out, const int32_t byte_id[256], size_t merges);
void                mba__bpe_destroy(mba_bpe *b);

/* Adds a merge. A pair that is added twice keeps its last rank. */
void mba__bpe_merge(mba_bpe *b, int32_t left, int32_t right, uint32_t rank, int32_t result);

/* Words that are tokens by themselves and are not merged. create reserves room for `words`; add adds one, as a range of
 * `text`, which must outlive b. */
MBA_MUST mba_status mba__bpe_whole_create(mba_bpe *b, const mba_text *text, size_t words);
void                mba__bpe_whole_add(mba_bpe *b, uint32_t start, uint32_t bytes, int32_t id);

MBA_MUST mba_status mba__bpe_word(mba_bpe *b, mba_ids *out, const char *word, size_t bytes);

#endif
