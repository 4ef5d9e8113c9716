// SPDX-License-Identifier: Apache-2.0
/* file.h -- reads, maps and writes whole files; a written file appears complete or not at all.
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
 * A writer writes to a temporary name in the same directory, forces the bytes to disk and renames the file to `path`.
 * Readers of `path` see the old file until then. */
#ifndef MBA_FILE_H
#define MBA_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include "core/status.h"

/* Reads a regular file of at most `limit_bytes`. The caller frees *out; (*out)[*bytes] is a NUL that is not
 * counted. MBA_E_IO when it cannot be read, MBA_E_FORMAT when it is larger than the limit. */
MBA_MUST mba_status mba_file_read(char **out, size_t *bytes, const char *path, size_t limit_bytes);

/* A file as read-only memory. `data` is never NULL, not even for an empty file. Nobody may truncate the file while it
 * is mapped: a read past its new end raises SIGBUS, whose handler can ask mba_mapped_path which file it was. */
typedef struct mba_map {
    const void *data;
    size_t      bytes;
} mba_map;

MBA_MUST mba_status mba_file_map(mba_map *out, const char *path);
void                mba_file_unmap(mba_map *m);           /* a zeroed or unmapped one is fine */
const char         *mba_mapped_path(const void *address); /* lent; NULL: not known (256 mapped files are noted) */

/* One file being written. If `path` exists it must be a regular file, or a link to one: the link stays and its target
 * is replaced. A link without a target is refused. Failures are MBA_E_IO; after one, only destroy is useful. */
typedef struct mba_writer mba_writer;

MBA_MUST mba_status mba_writer_create(mba_writer **out, const char *path);
MBA_MUST mba_status mba_writer_put(mba_writer *w, const void *bytes, size_t n);
MBA_MUST mba_status mba_writer_skip(mba_writer *w, size_t n); /* the next n bytes are zero, without taking space */
MBA_MUST mba_status mba_writer_commit(mba_writer *w);         /* once, at the end */
void                mba_writer_destroy(mba_writer *w);        /* removes what was not committed; NULL is fine */

/* Parts of a file that is there already, written in place, perhaps by several processes at once. */
MBA_MUST mba_status mba_file_open_inside(int *fd, const char *path);
MBA_MUST mba_status mba_file_put_at(int fd, const char *path, const void *bytes, size_t n, size_t at);

/* Removes the temporary files of all open writers and the files of locks (lock.h). For the handler of a signal that
 * ends the process. */
void mba_writers_abandon(void);

/* Forces an open file to disk. For files that grow in place, without a writer. A file system that cannot sync is not a
 * failure. */
MBA_MUST mba_status mba_file_sync(int fd, const char *path);

/* Call it after a rename, link or removal: forces the directory of `path` to disk, and with it the name. Only then may
 * what the new name replaces be removed. */
MBA_MUST mba_status mba_name_sync(const char *path);

/* Renames a file that is on the disk already, and forces its new name to disk. */
MBA_MUST mba_status mba_file_rename(const char *from, const char *to);

/* For core: removes the temporary files that killed processes left in a folder; with `base`, only those of this
 * file. */
void mba__writers_sweep(const char *folder, const char *base);

/* For core: (NULL, name) registers a name for mba_writers_abandon to remove, (name, NULL) withdraws it. */
void mba__unfinished(const char *was, const char *is);

/* For core: the failure of a system call on a file; `verb` completes "cannot ..". */
MBA_MUST mba_status mba__file_failed(const char *verb, const char *path, int error);

/* Creates a directory and its missing parents; an existing directory is fine. */
MBA_MUST mba_status mba_mkdirs(const char *path);

/* Finds a library of ours: beside the program, as in a build, or in the folder `from` as seen from there, where it is
 * installed. Writes its path to out, which has `room` bytes; false: it is in neither. */
bool mba_library_find(char *out, size_t room, const char *from, const char *name);

/* Removes a directory and the files in it, as far as possible. A directory that holds directories stays, and so does
 * what cannot be listed: a caller who needs it gone must look. */
void mba_folder_remove(const char *path);

#endif
