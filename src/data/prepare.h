// SPDX-License-Identifier: Apache-2.0
/* prepare.h -- text in, token files out.
 *
 *     mba_prepared made;
 *     MBA_TRY(mba_prepare(&made, tokenizer, &(mba_prepare_options){ .out = "shards", .input = files, .inputs = 2 }));
 *
 * An input is plain text (one document) or JSON lines, by its name (.jsonl, .ndjson, .json) or by a first line that has
 * the field: one object a line, its document under `field`. Both may be compressed (reader.h). Every document begins
 * with the end-of-text token, as llm.c has it, and that token stands nowhere else: its text inside a document is
 * encoded as ordinary text and counted. Files in which it, or anything else, ends documents are read with `split_on`.
 * The output is a new directory of shards tokens_00000.bin .. with notes beside them (token_file.h) and the tokenizer
 * (tokenizer_files.h); it appears whole or not at all. Texts are encoded piece by piece: memory is that of one shard, 4
 * bytes a token.
 *
 * Without inputs the text is made up: see mba_synthetic_text. The notes then say so. */
#ifndef MBA_PREPARE_H
#define MBA_PREPARE_H

#include <jansson.h>

#include "data/tokenizer.h"

/* Called now and then and at the end; a failure it returns ends the work. */
typedef mba_status mba_prepare_progress(void *user, int64_t bytes_done, int64_t bytes_all, int64_t tokens);

typedef struct mba_prepare_options {
    const char           *out; /* a directory that is not there or empty */
    const char *const    *input;
    int                   inputs;          /* 0: synthetic text */
    const char           *field;           /* NULL: "text" */
    const char           *split_on;        /* this text ends a document and is left out; NULL: files and lines do */
    const json_t         *source;          /* kept as source.json beside the shards; NULL: nothing is */
    int64_t               shard_tokens;    /* 0: 2^25 */
    int64_t               synthetic_bytes; /* about so much text; 0: 2^20 */
    uint64_t              seed;            /* of synthetic text */
    mba_prepare_progress *progress;        /* NULL: nobody asks */
    void                 *user;
} mba_prepare_options;

typedef struct mba_prepared {
    int64_t documents, bytes, tokens, shards;
    int64_t ends_in_text; /* how often the end-of-text token stood in a document, as text .. */
    char    end[64];      /* .. and that text */
} mba_prepared;

MBA_MUST mba_status mba_prepare(mba_prepared *made, mba_tokenizer *t, const mba_prepare_options *options);

/* Appends document number `number` of an endless made-up text: English words in sentences that obey a small grammar,
 * each document with its own few subjects, so that there is something to learn at short and long range. The same
 * bytes for the same seed and number, on any machine. About 250 to 2800 bytes. */
MBA_MUST mba_status mba_synthetic_text(mba_text *out, uint64_t seed, int64_t number);

#endif
