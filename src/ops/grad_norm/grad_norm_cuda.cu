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
 * measured   H200: 364 us, 113 % of floor (memory), DRAM 94 % busy; mamba2-headline, 4 x 4096  [docs]
 * order      fixed: a thread adds its values in ascending order in two sums, then a tree adds the threads
 *
 * kernel     grad_norm_total     one block adds the partial sums
 * launch     grid 1, block 1024
 * moves      reads 8 bytes per partial sum: bound by latency
 * measured   H200: 6.56 us, 1 % of floor (memory), ALU 9 % busy; mamba2-headline, 4 x 4096  [docs]
 * order      fixed: a thread adds partial sums 1024 apart in ascending order, then a tree adds the threads */
#include "device/cuda/common.cuh"
extern "C" {
#include "ops/grad_norm/grad_norm_slots.h"
}

enum { BLOCK = 256, TOTAL_BLOCK = 1024, AHEAD = 4 };

static __device__ __forceinline__ void add_squares(double (&s)[2], const float (&g)[4])
{
#pragma unroll
    for (int i = 0; i < 4; i++) s[i % 2] = fma((double)g[i], (double)g[i], s[i % 2]);
}

__global__ void __launch_bounds__(BLOCK) grad_norm_squares(double *part, const float *g, int64_t n)
{
    const int64_t from = (int64_t)blockIdx.x * GRAD_NORM_BLOCK;
    const int     count = n - from < GRAD_NORM_BLOCK ? (int)(n - from) : GRAD_NORM_BLOCK;
    double        s[2] = { 0, 0 };
    g += from; // 16-byte aligned: storages begin at multiples of 256 bytes, blocks of 64 KB
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
    const double sum = block_sum<BLOCK>(s[0] + s[1]);
    if (threadIdx.x == 0) part[blockIdx.x] = sum;
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

extern "C" mba_status grad_norm_cuda(const mba_call *c)
{
    double *part = (double *)mba_cuda_scratch(c, 0);
    int64_t parts = 0;
    int     k = 0;
    for (int i = 0; i < MBA_GROUPS; i++) {
        if (!c->node->in[i]) continue;
        MBA_KERNEL(c, k, grad_norm_squares, part + parts, (const float *)c->in[i], mba_elems(c->node->in[i]));
        parts += c->plan->launch[k++].grid[0];
    }
    MBA_KERNEL(c, k, grad_norm_total, (float *)c->out[NORM], part, parts, (const float *)c->in[LOSS], c->step);
    return MBA_OK;
}
