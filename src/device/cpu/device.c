// SPDX-License-Identifier: Apache-2.0
/* device.c -- the CPU as a device: memory and runs. Threads are inside the operators (MBA_PARALLEL_FOR). */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "core/program.h"

enum { HEADER_BYTES = MBA_ALIGN_BYTES }; // holds the length, which munmap needs

/* Maps zero pages: what a step never touches is never resident. */
static mba_status cpu_take(void **out, size_t bytes)
{
    const size_t all = bytes + HEADER_BYTES;
    char        *p = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        return mba_fail(MBA_E_NOMEM,
                        "no memory for %s\nwhy: %s\nfix: use a smaller --batch or --length, or "
                        "--recompute on",
                        mba_size_of((double)bytes).text, strerror(errno));
    madvise(p, all, MADV_HUGEPAGE);
    memcpy(p, &all, sizeof all);
    *out = p + HEADER_BYTES;
    return MBA_OK;
}

static void cpu_give(void *block)
{
    size_t all;
    char  *p = (char *)block - HEADER_BYTES;
    memcpy(&all, p, sizeof all);
    munmap(p, all);
}

static mba_status cpu_copy(void *dst, const void *src, size_t bytes)
{
    if (src) memcpy(dst, src, bytes);
    else memset(dst, 0, bytes);
    return MBA_OK;
}

static mba_status cpu_run(mba_program *p, unsigned passes, const mba_hooks *h)
{
    for (int32_t i = 0; i < p->graph->nnodes; i++) {
        const mba_node *n = p->graph->nodes[i];
        if (!mba_runs(n, passes)) continue;
        if (h && h->before) h->before(h->ctx, n, p->plan[i]);
        const mba_status st = p->launch[i](&p->call[i]);
        if (st != MBA_OK) return mba_where(st, "running node %d, %s %s", i, n->scope, n->op->name);
        if (h && h->after) h->after(h->ctx, n, p->plan[i]);
    }
    return MBA_OK;
}

static const mba_machine host = { .name = "host" };

enum { FOLD_BLOCK = 16384 };

static mba_status cpu_fold(float *x, const float *y, float scale, int64_t n)
{
    MBA_PARALLEL_FOR(b, mba_ceil(n, FOLD_BLOCK))
    {
        const int64_t end = (b + 1) * FOLD_BLOCK < n ? (b + 1) * FOLD_BLOCK : n;
        for (int64_t i = b * FOLD_BLOCK; i < end && scale != 1; i++) x[i] *= scale;
        for (int64_t i = b * FOLD_BLOCK; i < end && y; i++) x[i] += y[i];
    }
    return MBA_OK;
}

const mba_device mba_device_cpu = {
    .name = "cpu",
    .machine = &host,
    .alloc = cpu_take,
    .dealloc = cpu_give,
    .put = cpu_copy,
    .get = cpu_copy,
    .run = cpu_run,
    .fold = cpu_fold,
    .copy = cpu_copy,
};
