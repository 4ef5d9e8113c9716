// SPDX-License-Identifier: Apache-2.0
/* bpe.h -- the merges of byte-level BPE, applied to one word at a time. Inside of the tokenizer.
 *
 *     mba_bpe *b;
 *     MBA_TRY(mba__bpe_create(&b, byte_id, merges));         // byte -> first symbol; room for so many merges
 *     MBA_TRY(mba__bpe_merge(b, left, right, rank, result));
 *     MBA_TRY(mba__bpe_word(b, &ids, " hello", 6));          // appends
 *
 * Of all adjacent pairs in the table the one of lowest rank is merged, the leftmost among equals, until none is
 * left: by a heap and a linked list, O(m log m) for a word of m bytes. Short words are remembered. */
#ifndef MBA_BPE_H
#define MBA_BPE_H

#include "data/tokenizer.h"

typedef struct mba_bpe mba_bpe;

MBA_MUST mba_status mba__bpe_create(mba_bpe **out, const int32_t byte_id[256], size_t merges);
void                mba__bpe_destroy(mba_bpe *b);

/* A pair given twice keeps its last rank. */
void mba__bpe_merge(mba_bpe *b, int32_t left, int32_t right, uint32_t rank, int32_t result);

/* Words that are tokens by themselves, which are not merged: room for so many, then each of them, as a stretch of
 * `text`, which outlives b. */
MBA_MUST mba_status mba__bpe_whole_create(mba_bpe *b, const mba_text *text, size_t words);
void                mba__bpe_whole_add(mba_bpe *b, uint32_t start, uint32_t bytes, int32_t id);

MBA_MUST mba_status mba__bpe_word(mba_bpe *b, mba_ids *out, const char *word, size_t bytes);

#endif
