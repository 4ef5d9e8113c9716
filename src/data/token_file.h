// SPDX-License-Identifier: Apache-2.0
/* token_file.h -- reads and writes files of token numbers: llm.c shards and the bare uint16 files of nanoGPT. Files are
 * mapped and may be larger than 4 GiB.
 *
 *     mba_token_file *f;
 *     MBA_TRY(mba_token_file_open(&f, "tokens_00000.bin"));
 *     int32_t ids[64];
 *     MBA_TRY(mba_token_file_read(f, ids, 0, 64, vocab));    // 64 tokens from the first; all below vocab
 *     mba_token_file_close(f);                               // NULL is fine
 *
 * llm.c: 256 little-endian int32 (magic 20240520 for uint16 tokens, version 1; 20240801 for uint32, version 7; then
 * the number of tokens, then zeros), then the tokens. A file without such a header is uint16 tokens from its first
 * byte. If a file begins like a header but has another size than the header says, it counts as bare tokens, unless the
 * rest of the header is correct: then it is a truncated shard, and an error.
 *
 * Beside a file X there may be notes, X.json, which `prepare` writes with the tokens. */
#ifndef MBA_TOKEN_FILE_H
#define MBA_TOKEN_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/status.h"

typedef struct mba_token_notes {
    char    tokenizer[64]; /* mba_tokenizer_name */
    int64_t vocab;
    int64_t end_of_text; /* -1: none */
    int64_t documents;   /* that begin in this file */
    int64_t bytes;       /* of the text that its tokens encode */
    char    source[256];
    bool    synthetic; /* generated text */
} mba_token_notes;

typedef struct mba_token_file mba_token_file;

MBA_MUST mba_status mba_token_file_open(mba_token_file **out, const char *path);
/* The same from memory, which must outlive it; without notes. `name` is for messages. */
MBA_MUST mba_status mba_token_file_open_bytes(mba_token_file **out, const char *name, const void *bytes, size_t n);
void                mba_token_file_close(mba_token_file *f);

int64_t                mba_token_file_count(const mba_token_file *f);
int                    mba_token_file_bytes_per_token(const mba_token_file *f); /* 2 or 4 */
const char            *mba_token_file_path(const mba_token_file *f);
const mba_token_notes *mba_token_file_notes(const mba_token_file *f); /* NULL: none */

/* Copies tokens [from, from + n), which must exist. Fails with MBA_E_FORMAT if one is not below `vocab`; the message
 * names the file, the byte and the value. */
MBA_MUST mba_status mba_token_file_read(const mba_token_file *f, int32_t *to, int64_t from, int64_t n, int64_t vocab);

/* Writes an llm.c shard, all or nothing: uint16 if the vocabulary fits, else uint32. 1 to 2^31 - 1 tokens, all
 * in [0, vocab). With notes (NULL: none) it also writes X.json, after X. */
MBA_MUST mba_status mba_token_file_write(const char *path, const int32_t *tokens, int64_t n, int64_t vocab,
                                         const mba_token_notes *notes);

#endif
