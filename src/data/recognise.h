// SPDX-License-Identifier: Apache-2.0
/* recognise.h -- what a file holds, told by its bytes: `data inspect`, `data prepare`, `train` and `eval` ask here.
 *
 *     mba_data_kind kind;
 *     MBA_TRY(mba_recognise_file(&kind, "book.txt"));             // MBA_DATA_TEXT; looks into gzip and zstd
 *     if (mba_data_is_text(kind)) prepare_it();
 *
 * Graph collections and image sets have readers of their own, which are asked before. */
#ifndef MBA_RECOGNISE_H
#define MBA_RECOGNISE_H

#include <stdbool.h>
#include <stddef.h>

#include "core/status.h"

typedef enum mba_data_kind {
    MBA_DATA_UNKNOWN,
    MBA_DATA_NPY,
    MBA_DATA_SAFETENSORS,
    MBA_DATA_TOKENIZER,
    MBA_DATA_JSON_LINES,
    MBA_DATA_JSON,
    MBA_DATA_EDGE_LIST,
    MBA_DATA_TEXT,
    MBA_DATA_TOKENS, /* any whole number of 16-bit words that is nothing else */
} mba_data_kind;

/* `bytes` of a beginning that holds the first line; it may be the whole file. */
mba_data_kind mba_recognise(const void *head, size_t bytes);

/* The same for a file. What others write and we do not read is MBA_E_UNSUPPORTED, with the way to convert it. */
MBA_MUST mba_status mba_recognise_file(mba_data_kind *out, const char *path);
MBA_MUST mba_status mba_refuse_foreign(const char *path, const void *head, size_t bytes);

/* JSON lines and text, also text that could be an edge list. */
bool mba_data_is_text(mba_data_kind kind);

/* Text without any byte that text has not; `mba_looks_like_text` is UTF-8 besides, as certain as it gets. */
bool mba_is_text(const void *bytes, size_t n);
bool mba_looks_like_text(const void *bytes, size_t n);

#endif
