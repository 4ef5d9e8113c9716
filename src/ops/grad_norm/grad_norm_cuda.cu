// SPDX-License-Identifier: Apache-2.0
/* grad_norm_cuda.cu -- norm = sqrt(sum g^2) over the flat gradients of all groups.
 *
 *   part[b] = sum over the b-th 16384 values of g^2,   norm = sqrt(sum_b part[b])
 *   g (n) fp32     part fp64 in scratch     norm (2) fp32: the norm, and whether to skip
 *
 * kernel     grad_norm_squares     one block per 16384 values, squared and added in double
 * takes      any number of values
 * launch     grid ceil(n/16384), block 256, one launch per group
 * resources  sm_90a, CUDA 13.0: 32 registers, 64 B of shared memory, no spill  [docs]
 * moves      reads 4n bytes; n conversions and n FMA in double: bound by DRAM
 * floor      n = 129e6: 516 MB, 120 us at 4.3 TB/s
 * measured   H200: 356 us, 115 % of floor (memory), DRAM 96 % busy; mamba2-headline, 4 x 4096  [docs]
 * order      fixed: a thread adds its values in ascending order in two sums, then a tree adds the threads
 *
 * kernel     grad_norm_total     one block adds the partial sums
 * launch     grid 1, block 1024
 * moves      reads 8 bytes per partial sum: bound by latency
 * measured   H200: 6.34 us, 1 % of floor (memory), ALU 8 % busy; mamba2-headline, 4 x 4096  [docs]
 * order      fixed: a thread adds partial sums 1024 apart in ascending order, then a tree adds the threads
 *
 * kernel     grad_norm_squares_shard, grad_norm_total_shards     the same for one of several ranks: the partial sums of
 *            its pieces, then of all pieces in the order above; padding is left out, as one rank has none
 * launch     as above, with 1/ranks of the blocks
 * moves      reads 4n / ranks bytes; NCCL gathers 8 bytes per partial sum and rank */
#include "device/cuda/common.cuh"
extern "C" {
#include "device/cuda/nccl.h"
#include "ops/grad_norm/grad_norm_slots.h"
}

enum { BLOCK = 256, TOTAL_BLOCK = 1024, AHEAD = 4 };

static __device__ __forceinline__ void add_squares(double (&s)[2], const float (&g)[4])
{
#pragma unroll
    for (int i = 0; i < 4; i++) s[i % 2] = fma((double)g[i], (double)g[i], s[i % 2]);
}

/* The sum of squares of `count` values, in thread 0. */
static __device__ __forceinline__ double squares_of(const float *g, int count)
{
    double s[2] = { 0, 0 };
    for (int i = (int)threadIdx.x * 4; i + 4 <= count; i += AHEAD * BLOCK * 4) {
        float v[AHEAD][4];
#pragma unroll
        for (int j = 0; j < AHEAD; j++)
            if (i + j * BLOCK * 4 + 4 <= count) load(v[j], g + i + j * BLOCK * 4);
#pragma unroll
        for (int j = 0; j < AHEAD; j++)
            if (i + j * BLOCK * 4 + 4 <= count) add_squares(s, v[j]);
    }
    const int rest = count / 4 * 4 + (int)threadIdx.x;
    if (rest < count) s[0] = fma((double)g[rest], (double)g[rest], s[0]);
    return block_sum<BLOCK>(s[0] + s[1]);
}

__global__ void __launch_bounds__(BLOCK) grad_norm_squares(double *part, const float *g, int64_t n)
{
    const int64_t from = (int64_t)blockIdx.x * GRAD_NORM_BLOCK;
    const int     count = n - from < GRAD_NORM_BLOCK ? (int)(n - from) : GRAD_NORM_BLOCK;
    const double  sum = squares_of(g + from, count); // 16-byte aligned: storages of 256 bytes, blocks of 64 KB
    if (threadIdx.x == 0) part[blockIdx.x] = sum;
}

/* One group of a rank, in blocks of 16384 values. */
struct pieces {
    int64_t bucket, piece, at; /* lengths; where the own piece begins in a bucket */
    int64_t first, used;       /* of the group in a record of partial sums; blocks without padding */
};

/* The record of a rank: the partial sums of its pieces, group after group, then its loss. */
__global__ void __launch_bounds__(BLOCK)
    grad_norm_squares_shard(double *record, const float *g, pieces p, double *loss_at, const float *loss)
{
    const int64_t b = blockIdx.x, from = (b / p.piece * p.bucket + p.at + b % p.piece) * GRAD_NORM_BLOCK;
    const double  sum = squares_of(g + from, GRAD_NORM_BLOCK);
    if (threadIdx.x) return;
    record[p.first + b] = sum;
    if (b == 0) *loss_at = loss ? (double)*loss : 0;
}

__global__ void __launch_bounds__(TOTAL_BLOCK)
    grad_norm_total(float *norm, const double *part, int64_t parts, const float *loss, const mba_step *step)
{
    double s = 0;
    for (int64_t i = threadIdx.x; i < parts; i += TOTAL_BLOCK) s += part[i];
    s = block_sum<TOTAL_BLOCK>(s);
    if (threadIdx.x) return;
    norm[0] = (float)sqrt(s);
    norm[1] = grad_norm_skips(step, norm[0], loss ? *loss : 0.0f);
}

struct all_pieces {
    pieces  group[MBA_GROUPS];
    int64_t record; /* doubles of a rank */
    int     ranks;
};

/* The loss of all ranks: records lie in the order of pieces, which is that of ranks with their bits in reverse. */
static __device__ double loss_of(const double *part, const all_pieces &a)
{
    double sum = 0;
    for (int r = 0; r < a.ranks; r++) {
        int number = 0;
        for (int bit = 1; bit < a.ranks; bit *= 2) number = 2 * number + (r & bit ? 1 : 0);
        sum += part[(number + 1) * a.record - 1];
    }
    return sum;
}

/* Adds the partial sums of one group to s: those from i on, TOTAL_BLOCK apart. Returns where the next group goes on. */
static __device__ __forceinline__ int64_t add_group(double &s, const double *part, const pieces &p, int64_t record,
                                                    int64_t i)
{
    for (; i < p.used; i += TOTAL_BLOCK) {
        const int64_t in = i % p.bucket;
        s += part[in / p.piece * record + p.first + i / p.bucket * p.piece + in % p.piece];
    }
    return i - p.used;
}

__global__ void __launch_bounds__(TOTAL_BLOCK)
    grad_norm_total_shards(float *norm, const double *part, const __grid_constant__ all_pieces a, const mba_step *step)
{
    double  s = 0;
    int64_t i = threadIdx.x;
    if (a.group[0].used) i = add_group(s, part, a.group[0], a.record, i);
    if (a.group[1].used) add_group(s, part, a.group[1], a.record, i);
    s = block_sum<TOTAL_BLOCK>(s);
    if (threadIdx.x) return;
    norm[0] = (float)sqrt(s);
    norm[1] = grad_norm_skips(step, norm[0], (float)loss_of(part, a));
}

static mba_status norm_of_shards(const mba_call *c)
{
    const grad_norm_attr *t = (const grad_norm_attr *)c->node->attr;
    const int64_t         ranks = t->place.ranks;
    all_pieces            a = {};
    double               *part = (double *)mba_cuda_scratch(c, 0);
    int                   k = 0;
    a.ranks = (int)ranks;
    for (int i = 0; i < MBA_GROUPS; i++) {
        if (!c->node->in[i]) continue;
        const int64_t bucket = t->b.bucket[i] / GRAD_NORM_BLOCK;
        a.group[i] = { bucket, bucket / ranks, mba_piece_offset(t->place, bucket), a.record,
                       mba_ceil(t->b.used[i], GRAD_NORM_BLOCK) };
        a.record += mba_elems(c->node->in[i]) / GRAD_NORM_BLOCK / ranks;
    }
    double *mine = part + mba_piece_offset(t->place, ranks) * ++a.record;
    for (int i = 0; i < MBA_GROUPS; i++)
        if (c->node->in[i])
            MBA_KERNEL(c, k++, grad_norm_squares_shard, mine, (const float *)c->in[i], a.group[i], mine + a.record - 1,
                       (const float *)c->in[LOSS]);
    MBA_TRY(mba_nccl_gather(part, sizeof *part * (size_t)(ranks * a.record), c->stream));
    MBA_KERNEL(c, k, grad_norm_total_shards, (float *)c->out[NORM], part, a, c->step);
    return MBA_OK;
}

extern "C" mba_status grad_norm_cuda(const mba_call *c)
{
    const grad_norm_attr *a = (const grad_norm_attr *)c->node->attr;
    if (a->place.ranks > 1) return norm_of_shards(c);
    double *part = (double *)mba_cuda_scratch(c, 0);
    int64_t parts = 0;
    int     k = 0;
    for (int i = 0; i < MBA_GROUPS; i++) {
        if (!c->node->in[i]) continue;
        MBA_KERNEL(c, k, grad_norm_squares, part + parts, (const float *)c->in[i],
                   a->b.used[i] ? a->b.used[i] : mba_elems(c->node->in[i]));
        parts += c->plan->launch[k++].grid[0];
    }
    MBA_KERNEL(c, k, grad_norm_total, (float *)c->out[NORM], part, parts, (const float *)c->in[LOSS], c->step);
    return MBA_OK;
}
