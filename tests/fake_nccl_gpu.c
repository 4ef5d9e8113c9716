// SPDX-License-Identifier: Apache-2.0
/* fake_nccl_gpu.c -- see fake_nccl.h: a GPU's memory goes through the host, in order of the stream. A captured graph
 * holds the copies and a host function between them, which waits for the other ranks; so ranks may share a GPU, which
 * NCCL itself refuses. Collectives of a step must stand one after the other, as those of an optimizer do: two host
 * functions at once may wait for each other.
 *
 * Calls the driver's interface, which is opened at run time: this library is also built where there is no CUDA. */
#include "tests/fake_nccl.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef unsigned long long address;

static struct {
    int (*is_capturing)(void *stream, int *status);
    int (*take_host)(void **out, size_t bytes);
    int (*from_gpu)(void *to, address from, size_t bytes, void *stream);
    int (*to_gpu)(address to, const void *from, size_t bytes, void *stream);
    int (*call)(void *stream, void (*f)(void *ctx), void *ctx);
    int (*wait)(void *stream);
} driver;

enum { POOL_BYTES = 256 << 20, ALIGN = 256 };
static char  *pool; // pinned; what a graph has captured stays
static size_t used, kept;

static void must(int error, const char *call)
{
    if (!error) return;
    fprintf(stderr, "fake_nccl: %s failed with %d\n", call, error);
    abort();
}

static void find(void *to, void *library, const char *name)
{
    void *f = dlsym(library, name);
    if (!f) must(-1, name);
    memcpy(to, &f, sizeof f);
}

void fake_gpu_open(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library) must(-1, "libcuda.so.1");
    find(&driver.is_capturing, library, "cuStreamIsCapturing");
    find(&driver.take_host, library, "cuMemAllocHost_v2");
    find(&driver.from_gpu, library, "cuMemcpyDtoHAsync_v2");
    find(&driver.to_gpu, library, "cuMemcpyHtoDAsync_v2");
    find(&driver.call, library, "cuLaunchHostFunc");
    find(&driver.wait, library, "cuStreamSynchronize");
    must(driver.take_host((void **)&pool, POOL_BYTES), "cuMemAllocHost");
}

int fake_gpu_is_open(void) { return pool != NULL; }

static void *take(size_t bytes)
{
    char *at = pool + used;
    used += (bytes + ALIGN - 1) / ALIGN * ALIGN;
    if (used > POOL_BYTES) must(-1, "taking pinned memory");
    return at;
}

typedef struct job {
    fake_comm   *c;
    fake_message m[FAKE_GROUP_MOST];
    int          n; // 0: a gather
    void        *whole;
    size_t       piece;
} job;

static void run(void *ctx)
{
    const job *j = ctx;
    if (j->n) fake_exchange(j->c, j->m, j->n);
    else fake_gather(j->c, j->whole, j->piece);
}

/* Where nothing is captured, the memory of earlier calls can be used again. */
static int begin(void *stream)
{
    int capturing = 0;
    must(driver.is_capturing(stream, &capturing), "cuStreamIsCapturing");
    return capturing;
}

static void end(int captured, void *stream)
{
    if (captured) {
        kept = used;
        return;
    }
    must(driver.wait(stream), "cuStreamSynchronize");
    used = kept;
}

static void to_host(void *to, const void *from, size_t n, void *stream)
{
    must(driver.from_gpu(to, (address)(size_t)from, n, stream), "cuMemcpyDtoHAsync");
}

static void to_gpu(void *to, const void *from, size_t n, void *stream)
{
    must(driver.to_gpu((address)(size_t)to, from, n, stream), "cuMemcpyHtoDAsync");
}

void fake_gpu_exchange(fake_comm *c, const fake_message *m, int n, void *stream)
{
    const int captured = begin(stream);
    job      *j = take(sizeof *j);
    if (!n) return;
    *j = (job){ .c = c, .n = n };
    for (int k = 0; k < n; k++) {
        j->m[k] = m[k];
        j->m[k].at = take(m[k].n);
        if (m[k].sends) to_host(j->m[k].at, m[k].at, m[k].n, stream);
    }
    must(driver.call(stream, run, j), "cuLaunchHostFunc");
    for (int k = 0; k < n; k++)
        if (!m[k].sends) to_gpu(m[k].at, j->m[k].at, m[k].n, stream);
    end(captured, stream);
}

void fake_gpu_gather(fake_comm *c, void *x, size_t n, size_t all, void *stream)
{
    const int captured = begin(stream);
    job      *j = take(sizeof *j);
    *j = (job){ .c = c, .whole = take(all), .piece = n };
    to_host(j->whole, x, all, stream);
    must(driver.call(stream, run, j), "cuLaunchHostFunc");
    to_gpu(x, j->whole, all, stream);
    end(captured, stream);
}
