// SPDX-License-Identifier: Apache-2.0
/* hang.c -- a disk that does not answer: in one rank of a run, opening a file whose path contains some words never
 * returns. A library for LD_PRELOAD; ranks_test.c starts the program with it.
 *
 *     MBA_HANG=/train/              words of the path
 *     MBA_HANG_RANK=1               as OMPI_COMM_WORLD_RANK says it
 *     MBA_HANG_NOTE=FILE            made when it hangs
 */
#undef _FORTIFY_SOURCE /* its inline functions would be what is defined here */
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define OUTSIDE __attribute__((visibility("default")))

static void hang(const char *path)
{
    const char *words = getenv("MBA_HANG"), *rank = getenv("MBA_HANG_RANK"), *note = getenv("MBA_HANG_NOTE");
    const char *own = getenv("OMPI_COMM_WORLD_RANK");
    if (!words || !rank || !note || !own || strcmp(rank, own) || !strstr(path, words)) return;
    syscall(SYS_openat, AT_FDCWD, note, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    for (;;) pause();
}

OUTSIDE int open(const char *path, int flags, ...)
{
    va_list ap;
    va_start(ap, flags);
    const mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(ap, mode_t) : 0;
    va_end(ap);
    hang(path);
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

OUTSIDE int open64(const char *path, int flags, ...) __attribute__((alias("open")));
