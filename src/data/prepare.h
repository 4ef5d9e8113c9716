// SPDX-License-Identifier: Apache-2.0
/* prepare.h -- tokenizes text into token files.
 *
 *     mba_prepared made;
 *     MBA_TRY(mba_prepare(&made, tokenizer, &(mba_prepare_options){ .out = "shards", .input = files, .inputs = 2 }));
 *
 * An input is plain text (one document) or JSON lines: one object per line, its document under `field`. JSON lines are
 * recognised by the name (.jsonl, .ndjson, .json) or by a first line that has the field. Both may be compressed
 * (reader.h). Every document begins with the end-of-text token, as in llm.c, and that token stands nowhere else: its
 * text inside a document is encoded as ordinary text and counted. `split_on` is for files in which some text ends
 * documents. The output is a new directory of shards tokens_00000.bin .. with notes beside them (token_file.h) and the
 * tokenizer (tokenizer_files.h); it appears complete or not at all. Memory is that of one shard, 4 bytes per token.
 *
 * Without inputs the text is synthetic: see mba_synthetic_text. The notes then say so. */
#ifndef MBA_PREPARE_H
#define MBA_PREPARE_H

#include <jansson.h>

#include "data/tokenizer.h"

/* Called from time to time and at the end; a failure that it returns ends the work. */
typedef mba_status mba_prepare_progress(void *user, int64_t bytes_done, int64_t bytes_all, int64_t tokens);

typedef struct mba_prepare_options {
    const char           *out; /* a directory that does not exist or is empty */
    const char *const    *input;
    int                   inputs;          /* 0: synthetic text */
    const char           *field;           /* NULL: "text" */
    const char           *split_on;        /* this text ends a document and is dropped; NULL: files and lines do */
    const json_t         *source;          /* written as source.json beside the shards; NULL: none */
    int64_t               shard_tokens;    /* 0: 2^25 */
    int64_t               synthetic_bytes; /* approximate size of synthetic text; 0: 2^20 */
    uint64_t              seed;            /* of synthetic text */
    mba_prepare_progress *progress;        /* NULL: no progress is reported */
    void                 *user;
} mba_prepare_options;

typedef struct mba_prepared {
    int64_t documents, bytes, tokens, shards;
    int64_t ends_in_text; /* occurrences of the end-of-text token inside documents, as text */
    char    end[64];      /* that text */
} mba_prepared;

MBA_MUST mba_status mba_prepare(mba_prepared *made, mba_tokenizer *t, const mba_prepare_options *options);

/* Appends document `number` of an endless synthetic text: English words in sentences of a small grammar, each document
 * with its own few subjects, so that there is something to learn at short and long range. Seed and number determine the
 * bytes, on any machine. About 250 to 2800 bytes. */
MBA_MUST mba_status mba_synthetic_text(mba_text *out, uint64_t seed, int64_t number);

#endif
