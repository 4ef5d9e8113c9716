// SPDX-License-Identifier: Apache-2.0
/* vendor_gemm.c -- see vendor_gemm.h: reads the tiling from a kernel's name, and builds its two roles, a consumer that
 * multiplies and stores and a producer that copies operands into a ring. */
#include "sim/vendor_gemm.h"

#include <math.h>
#include <string.h>

#include "core/scan.h"

/* Whole tiles: as many as what is stored fills at least, and a whole number of steps each. */
static bool count_tiles(mba_vendor_gemm_tile *t, const mba_profiled_kernel *c, double bytes_each)
{
    enum { STEPS_MOST = 1 << 16 };
    const double units = floor(c->n[MBA_N_TENSOR] / (2 * t->m * t->n * t->k) + 0.5),
                 stored = 32 * c->n[MBA_N_L2_WR] / (t->m * t->n * bytes_each);
    if (!(units >= 1) || units < c->grid) return false;
    t->tiles = c->grid; // split-K, or the stored bytes are not known: one tile per block
    t->steps = units / c->grid;
    if (!(stored > c->grid)) return true;
    for (double steps = floor(units / stored * 1.001); steps >= 1 && steps < STEPS_MOST; steps--) {
        if (fmod(units, steps) != 0) continue;
        t->tiles = units / steps;
        t->steps = steps;
        break;
    }
    return true;
}

bool mba_vendor_gemm_tile_of(mba_vendor_gemm_tile *t, const mba_profiled_kernel *c)
{
    const char *at = c->kernel, *types;
    int64_t     m, n, k, stages;
    if (!mba_scan_text(&at, "nvjet_sm90_")) return false;
    types = at; // three letters: the third is the type of what is stored
    at += strspn(at, "abcdefghijklmnopqrstuvwxyz");
    if (at - types != 3 || !mba_scan_text(&at, "_") || !mba_scan_int(&at, &m) || !mba_scan_text(&at, "x")
        || !mba_scan_int(&at, &n) || !mba_scan_text(&at, "_") || !mba_scan_int(&at, &k) || !mba_scan_text(&at, "x")
        || !mba_scan_int(&at, &stages))
        return false;
    *t = (mba_vendor_gemm_tile){
        .m = (double)m, .n = (double)n, .k = (double)k, .stages = (double)stages, .together = strstr(c->kernel, "_coop")
    };
    return m > 0 && n > 0 && k > 0 && count_tiles(t, c, types[2] == 's' ? 4 : 2);
}

static mba_sim_op *add(mba_sim_kernel *k, mba_sim_work work)
{
    mba_assert(k->nops < MBA_SIM_OPS);
    mba_sim_op *o = &k->op[k->nops++];
    *o = (mba_sim_op){ .work = (int32_t)work, .stream = -1, .ring = -1, .parts = 1 };
    return o;
}

/* Opens the loop over tiles, with the trips of the block's class, and the loop over the K steps of a tile. */
static void open_loops(mba_sim_kernel *k, const mba_vendor_gemm_tile *t)
{
    add(k, MBA_OP_LOOP)->trips = -1;
    add(k, MBA_OP_LOOP)->trips = (int64_t)(t->steps + 0.5);
}

static void add_store(mba_sim_kernel *k, double bytes)
{
    mba_sim_op *o = add(k, MBA_OP_STORE);
    o->stream = 1;
    o->bytes = (uint64_t)bytes + 1;
}

static void multiply(mba_sim_kernel *k, const mba_vendor_gemm_tile *t, double most, const mba_gpu *m)
{
    const double bytes = 2 * t->m * t->n;
    add(k, MBA_OP_DELAY);
    open_loops(k, t);
    add(k, MBA_OP_WAIT)->ring = 0;
    mba_sim_op *o = add(k, MBA_OP_MIX);
    o->n[MBA_P_MMA] = (uint64_t)(2 * t->m * t->n * t->k);
    o->trips = (int64_t)m->v[MBA_GPU_library_step];
    add(k, MBA_OP_RELEASE)->ring = 0;
    if (!t->together && most > 1) add_store(k, bytes * (most - 1) / most / t->steps);
    add(k, MBA_OP_END);
    if (t->together) add_store(k, bytes);
    add(k, MBA_OP_END);
    if (!t->together) add_store(k, bytes);
    add(k, MBA_OP_EXIT);
}

static void copy(mba_sim_kernel *k, const mba_vendor_gemm_tile *t)
{
    add(k, MBA_OP_DELAY);
    open_loops(k, t);
    add(k, MBA_OP_FILL)->ring = 0;
    mba_sim_op *o = add(k, MBA_OP_ASYNC);
    o->stream = 0;
    o->bytes = (uint64_t)(2 * (t->m + t->n) * t->k);
    add(k, MBA_OP_COMMIT)->ring = 0;
    add(k, MBA_OP_END);
    add(k, MBA_OP_END);
    add(k, MBA_OP_EXIT);
}

void mba_vendor_gemm_lower(mba_sim_kernel *k, const mba_profiled_kernel *c, const mba_vendor_gemm_tile *t,
                           const mba_gpu *m)
{
    enum { COPYING = 4 };
    const int64_t grid = (int64_t)c->grid, tiles = (int64_t)t->tiles, least = tiles / grid, more = tiles % grid;
    mba_assert(grid > 0 && tiles > 0 && t->steps > 0);
    k->grid = grid;
    k->threads = (int64_t)c->block;
    k->warps = mba_ceil(k->threads, 32);
    k->implied_trips = 1;
    k->tile_share = 1.0 / (double)(least + (more > 0));
    k->depth = t->stages < MBA_SIM_STAGES ? (int64_t)t->stages : MBA_SIM_STAGES;
    k->nstreams = 2;
    k->stream[0] = (mba_sim_stream){ .operand = -1 };
    k->stream[1] = (mba_sim_stream){ .operand = -1, .writes = 1 };
    k->nclasses = 0;
    if (more) k->count[k->nclasses] = more, k->trips[k->nclasses++][0] = least + 1;
    if (least) k->count[k->nclasses] = grid - more, k->trips[k->nclasses++][0] = least;
    k->nops = 0;
    k->nroles = 2;
    k->first[0] = 0;
    k->role_warps[0] = k->warps > COPYING ? k->warps - COPYING : 1;
    multiply(k, t, (double)(least + (more > 0)), m);
    k->first[1] = k->nops;
    k->role_warps[1] = COPYING;
    copy(k, t);
}
