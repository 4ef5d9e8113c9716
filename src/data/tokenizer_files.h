// SPDX-License-Identifier: Apache-2.0
/* tokenizer_files.h -- the files of a tokenizer beside data and weights: tokenizer.json and its companions of Hugging
 * Face.
 *
 *     mba_tokenizer_files f = { 0 };
 *     MBA_TRY(mba_tokenizer_files_read(&f, "shards"));            // f.n is 0 if there is no tokenizer.json
 *     MBA_TRY(mba_tokenizer_files_write(&f, "run/step-000100"));
 *     mba_tokenizer_files_free(&f);                               // zeroed ones are fine
 *
 * `data prepare` writes them beside the shards, training into every checkpoint, so that `generate` and AutoTokenizer
 * use the token numbers that a model was trained with. */
#ifndef MBA_TOKENIZER_FILES_H
#define MBA_TOKENIZER_FILES_H

#include "data/tokenizer.h"

enum { MBA_TOKENIZER_FILES_MAX = 10 };

typedef struct mba_tokenizer_files {
    const char *name[MBA_TOKENIZER_FILES_MAX];
    mba_text    text[MBA_TOKENIZER_FILES_MAX];
    int         n; /* name[0] is tokenizer.json */
} mba_tokenizer_files;

MBA_MUST mba_status mba_tokenizer_files_read(mba_tokenizer_files *out, const char *folder);
MBA_MUST mba_status mba_tokenizer_files_of(mba_tokenizer_files *out, const mba_tokenizer *t);
MBA_MUST mba_status mba_tokenizer_files_write(const mba_tokenizer_files *f, const char *folder);
void                mba_tokenizer_files_free(mba_tokenizer_files *f);

/* Writes the files of a tokenizer. */
MBA_MUST mba_status mba_tokenizer_files_make(const char *folder, const mba_tokenizer *t);

/* True if both have the same tokenizer.json, byte for byte. */
bool mba_tokenizer_files_same(const mba_tokenizer_files *a, const mba_tokenizer_files *b);

#endif
