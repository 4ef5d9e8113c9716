// SPDX-License-Identifier: Apache-2.0
/* reader.h -- reads a text of any size from front to back: plain, gzip or zstd, recognised by its first bytes.
 *
 *     mba_reader *r;
 *     MBA_TRY(mba_reader_open(&r, "pile.jsonl.zst", MBA_READER_MOST));
 *     const char *line; size_t n;
 *     mba_status st;
 *     while ((st = mba_reader_line(r, &line, &n)) == MBA_OK && line) use(line, n);      // without its '\n'
 *     mba_reader_close(r);                                                              // NULL is fine
 *
 * A plain file is mapped, and nothing is copied. A compressed file is unpacked as it is read, all its members or
 * frames. Memory holds the text that is not used yet, at most `most` bytes, and the window of zstd: up to 128 MiB, for
 * files above 16 MiB up to 2 GiB (zstd --long). MBA_E_FORMAT for a stream that is damaged or ends too early,
 * MBA_E_UNSUPPORTED if the build lacks the library. */
#ifndef MBA_READER_H
#define MBA_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/status.h"

#define MBA_READER_MOST ((size_t)1 << 30)

typedef struct mba_reader mba_reader;

MBA_MUST mba_status mba_reader_open(mba_reader **out, const char *path, size_t most);
void                mba_reader_close(mba_reader *r);

/* Lends the text that is not used yet, with more of it than at the last call; *last: nothing follows. */
MBA_MUST mba_status mba_reader_view(mba_reader *r, const char **text, size_t *n, bool *last);
void                mba_reader_use(mba_reader *r, size_t n);

/* Lends the next line and marks it as used; NULL: no more lines. */
MBA_MUST mba_status mba_reader_line(mba_reader *r, const char **line, size_t *n);

/* Lends the beginning: at least `bytes` and the first line that is not blank (up to 64 MiB), if the text has that much.
 * Marks nothing as used. */
MBA_MUST mba_status mba_reader_head(mba_reader *r, size_t bytes, const char **text, size_t *n);

const char *mba_reader_packing(const mba_reader *r); /* "gzip", "zstd"; NULL: plain */
int64_t     mba_reader_taken(const mba_reader *r);   /* bytes of the file read so far */

/* The compression of a file with these first bytes; NULL: none that we unpack. */
const char *mba_packing(const void *bytes, size_t n);

#endif
