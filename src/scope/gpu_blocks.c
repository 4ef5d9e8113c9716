// SPDX-License-Identifier: Apache-2.0
/* gpu_blocks.c -- `profile --blocks`: when and on which SM the blocks of our kernels ran, by records that the kernels
 * write (device/cuda/block_timestamps.h).
 *
 * The step is launched node by node. For the first node of every plan, a launch callback gives each launch free space
 * for its records; after the node the space is read. Kernels without MBA_BLOCK_TIMESTAMPS write nothing. */
#include <stdlib.h>
#include <string.h>

#include "device/cuda/block_timestamps.h"
#include "device/cuda/cuda.h"
#include "scope/cupti_collect.h"
#include "scope/gpu_profile.h"

enum { ROOM = 1 << 20, LAUNCHES = 64 }; // per node: records of blocks; launches

typedef struct pointed {
    int32_t place, room_at;
    int64_t blocks;
} pointed;

typedef struct recording {
    mba_gpu_profile  *g;
    mba_program      *p;
    mba_block_record *device, *host;
    const mba_plan  **seen;
    int32_t           nseen;
    pointed           launch[LAUNCHES];
    int               nlaunches, place;
    int64_t           used;
    int64_t           most; /* blocks kept per kernel */
    bool              active;
    mba_status        st;
} recording;

static bool is_new(recording *x, const mba_plan *plan)
{
    for (int32_t i = 0; i < x->nseen; i++)
        if (x->seen[i] == plan) return false;
    mba_assert(x->nseen < x->p->graph->nnodes);
    x->seen[x->nseen++] = plan;
    return true;
}

static void before(void *ctx, const mba_node *n, const mba_plan *plan)
{
    recording *x = ctx;
    (void)n;
    x->active = x->st == MBA_OK && is_new(x, plan);
    x->nlaunches = 0;
    x->place = 0;
    x->used = 0;
    if (x->active
        && cudaMemsetAsync(x->device, 0, ROOM * sizeof *x->device, (cudaStream_t)x->p->device->stream) != cudaSuccess)
        x->active = false;
}

/* Called before every launch. Without space for its records the kernel writes none. */
static void on_launch(void *ctx, const mba_launch_seen *l)
{
    recording    *x = ctx;
    const int64_t blocks = (int64_t)l->grid[0] * l->grid[1] * l->grid[2];
    if (!x->active || l->is_graph) return;
    const bool fits = blocks > 0 && x->used + blocks <= ROOM && x->nlaunches < LAUNCHES;
    const int  e = mba_block_records_set(fits ? x->device + x->used : NULL, x->p->device->stream);
    if (e) x->st = mba__cuda_failed(e, "pointing the records of blocks");
    if (fits && !e) {
        x->launch[x->nlaunches++] = (pointed){ x->place, (int32_t)x->used, blocks };
        x->used += blocks;
        mba_assert(x->used <= ROOM);
    }
    x->place++;
}

/* Keeps at most `most` blocks of a launch, evenly spaced, with times relative to its first block. */
static mba_status keep(recording *x, const mba_node *n, const pointed *l)
{
    mba_gpu_profile        *g = x->g;
    const mba_block_record *r = x->host + l->room_at;
    const int64_t           every = mba_ceil(l->blocks, x->most);
    uint64_t                began = UINT64_MAX;
    for (int64_t i = 0; i < l->blocks; i++)
        if (r[i].written && r[i].start_ns < began) began = r[i].start_ns;
    mba_gpu_block *more = realloc(g->block, (size_t)(g->nblocks + l->blocks / every + 1) * sizeof *more);
    if (!more) return mba_fail(MBA_E_NOMEM, "no memory for the records of blocks");
    g->block = more;
    for (int64_t i = 0; i < l->blocks; i += every)
        if (r[i].written)
            g->block[g->nblocks++] = (mba_gpu_block){ .node = n->id,
                                                      .launch = l->place,
                                                      .block = i,
                                                      .sm = (int32_t)r[i].sm,
                                                      .start_ns = (int64_t)(r[i].start_ns - began),
                                                      .end_ns = (int64_t)(r[i].end_ns - began) };
    return MBA_OK;
}

static void after(void *ctx, const mba_node *n, const mba_plan *plan)
{
    recording *x = ctx;
    (void)plan;
    if (!x->active || x->st != MBA_OK || !x->used) return;
    x->st = x->p->device->get(x->host, x->device, (size_t)x->used * sizeof *x->host);
    for (int i = 0; i < x->nlaunches && x->st == MBA_OK; i++) x->st = keep(x, n, &x->launch[i]);
}

static mba_status record_step(recording *x, const mba_step *step)
{
    const mba_hooks h = { before, after, x };
    int e = mba_block_records_set(NULL, x->p->device->stream); // loads all modules now, not inside a callback
    if (e) return mba__cuda_failed(e, "the records of blocks");
    MBA_TRY(mba_launches_begin(on_launch, NULL, NULL, x));
    const mba_status st = mba_program_run(x->p, MBA_STEP, step, &h);
    mba_launches_end();
    e = mba_block_records_set(NULL, x->p->device->stream);
    MBA_TRY(x->p->device->wait());
    MBA_TRY(st);
    MBA_TRY(x->st);
    if (e) return mba__cuda_failed(e, "the records of blocks");
    return x->g->nblocks ? MBA_OK
                         : mba_fail(MBA_E_UNSUPPORTED, "no kernel left records of its blocks\nwhy: none of them has "
                                                       "MBA_BLOCK_TIMESTAMPS (device/cuda/block_timestamps.cuh)");
}

mba_status mba_gpu_blocks(mba_gpu_profile *g, mba_program *p, const mba_step *step, int64_t most)
{
    mba_assert(most > 0);
    recording x = { .g = g, .p = p, .most = most };
    if (!mba_blocks_units())
        return mba_fail(MBA_E_UNSUPPORTED, "no kernel can record its blocks\nwhy: none of them has "
                                           "MBA_BLOCK_TIMESTAMPS (device/cuda/block_timestamps.cuh)");
    x.host = malloc(ROOM * sizeof *x.host);
    x.seen = calloc((size_t)p->graph->nnodes + 1, sizeof *x.seen);
    mba_status st = x.host && x.seen ? MBA_OK : mba_fail(MBA_E_NOMEM, "no memory for the records of blocks");
    if (st == MBA_OK && cudaMalloc((void **)&x.device, ROOM * sizeof *x.device) != cudaSuccess)
        st = mba_fail(MBA_E_NOMEM, "no memory on the GPU for the records of blocks");
    if (st == MBA_OK) st = record_step(&x, step);
    cudaFree(x.device);
    free(x.host);
    free(x.seen);
    return st;
}
