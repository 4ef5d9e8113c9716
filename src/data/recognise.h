// SPDX-License-Identifier: Apache-2.0
/* recognise.h -- recognises the kind of a data file by its bytes, for `data inspect`, `data prepare`, `train` and
 * `eval`.
 *
 *     mba_data_kind kind;
 *     MBA_TRY(mba_recognise_file(&kind, "book.txt"));             // MBA_DATA_TEXT; looks into gzip and zstd
 *     if (mba_data_is_text(kind)) prepare_it();
 *
 * Graph collections and image sets have their own readers, which callers try first. */
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
    MBA_DATA_TOKENS, /* any other file with an even number of bytes */
} mba_data_kind;

/* `head` is the beginning of a file with at least its first line; it may be the whole file. */
mba_data_kind mba_recognise(const void *head, size_t bytes);

/* The same for a file. Formats of other programs that we do not read are MBA_E_UNSUPPORTED, with a way to convert
 * them. */
MBA_MUST mba_status mba_recognise_file(mba_data_kind *out, const char *path);
MBA_MUST mba_status mba_refuse_foreign(const char *path, const void *head, size_t bytes);

/* True for JSON lines and text, also for text that could be an edge list. */
bool mba_data_is_text(mba_data_kind kind);

/* mba_is_text: no byte that text cannot have. mba_looks_like_text: also valid UTF-8, which makes it nearly certain. */
bool mba_is_text(const void *bytes, size_t n);
bool mba_looks_like_text(const void *bytes, size_t n);

#endif
