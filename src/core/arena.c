// SPDX-License-Identifier: Apache-2.0
/* arena.c -- see arena.h: one block, one cursor. The block comes from mmap, so the system provides a page only when it
 * is touched. malloc would not do under the address sanitizer, which marks each block of 32 or 64 MB byte by byte. */
#include "core/arena.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

struct mba_arena {
    size_t used, limit;
    char  *block;
};

mba_status mba_arena_create(mba_arena **out, size_t limit_bytes)
{
    mba_assert(limit_bytes > 0);
    mba_arena *a = calloc(1, sizeof *a);
    void      *block = mmap(NULL, limit_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (!a || block == MAP_FAILED) {
        if (block != MAP_FAILED) munmap(block, limit_bytes);
        free(a);
        return mba_fail(MBA_E_NOMEM, "no memory for an arena of %s", mba_size_of((double)limit_bytes).text);
    }
    a->block = block;
    a->limit = limit_bytes;
    *out = a;
    return MBA_OK;
}

void mba_arena_destroy(mba_arena *a)
{
    if (!a) return;
    munmap(a->block, a->limit);
    free(a);
}

void *mba_arena_take(mba_arena *a, size_t bytes)
{
    mba_assert(bytes <= a->limit); // a negative count of items, too, ends here
    bytes = (bytes + 15) & ~(size_t)15;
    mba_assert(bytes <= a->limit - a->used);
    void *p = a->block + a->used;
    a->used += bytes;
    return p;
}

const char *mba_arena_printf(mba_arena *a, const char *fmt, ...)
{
    char    text[256];
    va_list ap;
    va_start(ap, fmt);
    const int n = vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    mba_assert(n >= 0 && n < (int)sizeof text);
    char *copy = mba_arena_take(a, (size_t)n + 1);
    for (int i = 0; i <= n; i++) copy[i] = text[i];
    return copy;
}
