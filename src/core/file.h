// SPDX-License-Identifier: Apache-2.0
/* file.h -- whole files in, whole files out.
 *
 *     char *text; size_t bytes;
 *     MBA_TRY(mba_file_read(&text, &bytes, "config.json", 1 << 20));   // ends in a NUL of ours; free(text)
 *
 *     mba_map map;
 *     MBA_TRY(mba_file_map(&map, "tokens.bin"));                       // map.data, map.bytes; any size
 *     mba_file_unmap(&map);
 *
 *     mba_writer *w = NULL;
 *     mba_status  st = mba_writer_create(&w, "out/loss.csv");
 *     if (st == MBA_OK) st = mba_writer_put(w, "step,loss\n", 10);
 *     if (st == MBA_OK) st = mba_writer_commit(w);
 *     mba_writer_destroy(w);
 *
 * A written file is there whole or not at all: the bytes go to a temporary name in the same directory, are
 * forced to disk and renamed over `path`. Who reads `path` meanwhile sees the old file. */
#ifndef MBA_FILE_H
#define MBA_FILE_H

#include <stddef.h>
#include "core/status.h"

/* Reads a regular file of at most `limit_bytes`. The caller frees *out; (*out)[*bytes] is a NUL that is not
 * counted. MBA_E_IO when it cannot be read, MBA_E_FORMAT when it is larger than the limit. */
MBA_MUST mba_status mba_file_read(char **out, size_t *bytes, const char *path, size_t limit_bytes);

/* A file as memory, read-only. `data` is never NULL, also for an empty file. The file must not be cut short
 * while it is mapped: the operating system answers a read past its new end with SIGBUS, whose handler may ask
 * mba_mapped_path which file it was. */
typedef struct mba_map {
    const void *data;
    size_t      bytes;
} mba_map;

MBA_MUST mba_status mba_file_map(mba_map *out, const char *path);
void                mba_file_unmap(mba_map *m);           /* a zeroed or unmapped one is fine */
const char         *mba_mapped_path(const void *address); /* lent; NULL: no mapped file, or one of too many (256) */

/* One file being written. `path` may exist but must be a regular file then, or a link to one: the link stays, the file
 * it leads to is replaced, and a link that leads nowhere is refused. Failures are MBA_E_IO; after one, only destroy is
 * useful. */
typedef struct mba_writer mba_writer;

MBA_MUST mba_status mba_writer_create(mba_writer **out, const char *path);
MBA_MUST mba_status mba_writer_put(mba_writer *w, const void *bytes, size_t n);
MBA_MUST mba_status mba_writer_commit(mba_writer *w);  /* once, at the end */
void                mba_writer_destroy(mba_writer *w); /* removes what was not committed; NULL is fine */

/* Removes the temporary files of all writers that are open, and those of locks (lock.h): for the handler of a signal
 * that ends the process. */
void mba_writers_abandon(void);

/* Forces what was written to an open file to disk: for files that grow, which no writer replaces. A file system that
 * cannot sync is no failure. */
MBA_MUST mba_status mba_file_sync(int fd, const char *path);

/* After a rename, link or removal: forces the directory that `path` stands in to disk, and with it the name. What the
 * new name replaces may be removed then, and not before. */
MBA_MUST mba_status mba_name_sync(const char *path);

/* For core: removes the temporary files that killed processes have left in a folder; `base`: only those of this
 * file. */
void mba__writers_sweep(const char *folder, const char *base);

/* For core: a name that mba_writers_abandon is to remove (NULL, name), and no longer (name, NULL); and the error of a
 * system call on a file, where `verb` completes "cannot ..". */
void                mba__unfinished(const char *was, const char *is);
MBA_MUST mba_status mba__file_failed(const char *verb, const char *path, int error);

/* Makes a directory and those above it; one that is there already is fine. */
MBA_MUST mba_status mba_mkdirs(const char *path);

/* Removes a directory of files, as far as it can: one that has directories in it stays, with them, and so does what
 * cannot be listed. Who needs it gone looks. */
void mba_folder_remove(const char *path);

#endif
