// SPDX-License-Identifier: Apache-2.0
/* reader.h -- a text of any size, front to back: as it is, or out of gzip or zstd, told by its first bytes.
 *
 *     mba_reader *r;
 *     MBA_TRY(mba_reader_open(&r, "pile.jsonl.zst", MBA_READER_MOST));
 *     const char *line; size_t n;
 *     mba_status st;
 *     while ((st = mba_reader_line(r, &line, &n)) == MBA_OK && line) use(line, n);      // without its '\n'
 *     mba_reader_close(r);                                                              // NULL is fine
 *
 * A plain file is mapped and nothing is copied. A compressed one is unpacked as it is read, all members or frames of
 * it; memory holds what is not yet used, at most `most` bytes, and the window of zstd (128 MiB; of files above 16 MiB
 * up to 2 GiB, where --long asked for it). MBA_E_FORMAT for a stream that is damaged or ends too early,
 * MBA_E_UNSUPPORTED where the build has not the library. */
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

/* Lends what is not yet used, with more than there was at the last call; *last: nothing follows. */
MBA_MUST mba_status mba_reader_view(mba_reader *r, const char **text, size_t *n, bool *last);
void                mba_reader_use(mba_reader *r, size_t n);

/* Lends the next line and uses it; NULL: there is none. */
MBA_MUST mba_status mba_reader_line(mba_reader *r, const char **line, size_t *n);

/* Lends the beginning, at least `bytes` of it and its first line that is not blank (up to 64 MiB), if there is so much;
 * uses nothing. */
MBA_MUST mba_status mba_reader_head(mba_reader *r, size_t bytes, const char **text, size_t *n);

const char *mba_reader_packing(const mba_reader *r); /* "gzip", "zstd"; NULL: plain */
int64_t     mba_reader_taken(const mba_reader *r);   /* bytes of the file that were read so far */

/* The packing of these first bytes of a file; NULL: none that is unpacked here. */
const char *mba_packing(const void *bytes, size_t n);

#endif
