// SPDX-License-Identifier: Apache-2.0
/* tar.h -- iterates over the files of a tar archive in memory.
 *
 *     mba_tar        t = mba_tar_start("shard.tar", bytes, n);
 *     mba_tar_member m;
 *     for (;;) {
 *         MBA_TRY(mba_tar_next(&t, &m));
 *         if (!m.data) break;                                 // the end
 *         use(m.name, m.data, m.bytes);
 *     }
 *
 * POSIX ustar, GNU long names and sizes, pax `path` and `size`. Directories, links and devices are skipped.
 * Headers must have a correct checksum, and the archive must have its end record, with nothing but zeros after it.
 * Truncated archives, several archives in one file, and sparse files are errors. */
#ifndef MBA_TAR_H
#define MBA_TAR_H

#include <stddef.h>
#include <stdint.h>

#include "core/status.h"

enum { MBA_TAR_NAME = 1024 };

typedef struct mba_tar {
    const char    *file;
    const uint8_t *bytes;
    size_t         n, at;
} mba_tar;

typedef struct mba_tar_member {
    char           name[MBA_TAR_NAME];
    const uint8_t *data; /* NULL: no more members */
    size_t         bytes;
} mba_tar_member;

static inline mba_tar mba_tar_start(const char *file, const void *bytes, size_t n)
{
    return (mba_tar){ .file = file, .bytes = bytes, .n = n };
}

/* Fails with MBA_E_FORMAT and the byte at which the archive is damaged. */
MBA_MUST mba_status mba_tar_next(mba_tar *t, mba_tar_member *m);

#endif
