// SPDX-License-Identifier: Apache-2.0
/* inspect_fuzz.c -- any bytes as a file for `data inspect`: recognised or refused, described as text and as JSON. */
#include "fuzz.h"

#include <stdio.h>
#include <unistd.h>
#include <sys/mman.h>

#include "cli/inspect.h"

/* A file without a place on any disk, under a path of its own. */
static const char *path_of(int file)
{
    static char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    return path;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    static int file = -1;
    if (file < 0) {
        mba_assert(freopen("/dev/null", "w", stdout));
        file = memfd_create("input", 0);
        mba_assert(file >= 0);
    }
    mba_assert(ftruncate(file, 0) == 0 && pwrite(file, bytes, n, 0) == (ssize_t)n);
    for (int json = 0; json < 2; json++) {
        const mba_status st = mba_inspect(path_of(file), &(mba_inspect_options){ .json = json });
        if (st != MBA_OK) check_refusal(st);
    }
    return 0;
}
