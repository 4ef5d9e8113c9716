// SPDX-License-Identifier: Apache-2.0
/* loader.h -- reads batches of tokens from a set of token files.
 *
 *     mba_loader *l;
 *     MBA_TRY(mba_loader_create(&l, &(mba_loader_options){ .data = "shards", .B = 8, .L = 1024, .vocab = 50277 }));
 *     mba_position at = { 0 };                               // or the one of a checkpoint
 *     mba_batch    b  = { .tokens = x, .targets = y };       // (B, L) each, the caller's
 *     MBA_TRY(mba_loader_next(l, &b, &at));                  // fills them, advances `at`
 *     mba_loader_destroy(l);                                 // NULL is fine
 *
 * A batch depends only on the options and the position, so a run resumes exactly from {epoch, index}.
 *
 * In order (the default), batch k of a file is its tokens [k*ranks*B*L, ..): each rank takes B*L of them in rows of L;
 * targets are the tokens one position later. The rest of a file that does not fill a batch is left out. With `streams`,
 * each file is divided into as many equal parts as there are rows, and row r of batch k is the k-th sequence of part r,
 * so the final state of a row is its initial state in the next batch. Shuffled, the sequences of L tokens of all files
 * are visited in a random order, a new one in every epoch, computed from seed and epoch.
 *
 * The set is a file, a directory (its *.bin) or a glob, in the order of names. Values are checked against the
 * vocabulary as they are read. If the data has notes (X.json), their tokenizers must agree and fit `vocab`. */
#ifndef MBA_LOADER_H
#define MBA_LOADER_H

#include <stdbool.h>
#include <stdint.h>

#include "core/status.h"
#include "data/token_file.h"

typedef enum mba_part { MBA_PART_ALL, MBA_PART_TRAIN, MBA_PART_VALIDATION } mba_part;

typedef struct mba_loader_options {
    const char    *data;
    int64_t        B, L, vocab;
    mba_part       split;
    double         validation; /* fraction of the tokens at the end, 0 < validation < 1; for split != ALL */
    bool           shuffle;
    bool           streams; /* not shuffled: a row continues where it ended in the previous batch */
    uint64_t       seed;
    int            rank, ranks;              /* ranks 0 is 1 */
    bool           documents;                /* batches have document numbers; needs the end-of-text token */
    const int32_t *end_of_text;              /* NULL: the one in the notes */
    bool           targets_within_documents; /* the first token of a document is not a target: -1 */
} mba_loader_options;

enum { MBA_BEFORE_MAX = 16 };

typedef struct mba_position {
    int64_t epoch, index;
} mba_position;

/* Documents are numbered from 0 in every row; an end-of-text token begins the next one (as in llm.c and `prepare`).
 * NULL: not filled. */
typedef struct mba_batch {
    int32_t *tokens, *targets; /* (B, L) */
    int32_t *documents;        /* (B, L) or NULL */
    int32_t *before;           /* (B) or NULL. With streams: how many tokens right before a row belong to its
                                * stream and to the document of its first token, up to MBA_BEFORE_MAX */
} mba_batch;

typedef struct mba_loader mba_loader;

/* Fails with MBA_E_ARG, _IO or _FORMAT; data too short for one batch is MBA_E_ARG with the numbers. */
MBA_MUST mba_status mba_loader_create(mba_loader **out, const mba_loader_options *options);
void                mba_loader_destroy(mba_loader *l);

/* Fills a batch and advances the position; after the last batch of an epoch comes the first of the next. */
MBA_MUST mba_status mba_loader_next(const mba_loader *l, mba_batch *out, mba_position *at);

/* Advances the position by one batch without reading it. */
void mba_loader_skip(const mba_loader *l, mba_position *at);

int64_t                mba_loader_batches(const mba_loader *l); /* in an epoch */
int64_t                mba_loader_tokens(const mba_loader *l);  /* in the chosen part */
int                    mba_loader_files(const mba_loader *l);
const char            *mba_loader_path(const mba_loader *l);  /* of the first file */
const mba_token_notes *mba_loader_notes(const mba_loader *l); /* of the first file that has some, or NULL */

#endif
