// SPDX-License-Identifier: Apache-2.0
/* collectives_cuda.cu -- the collectives between GPUs. NCCL moves the bytes (device/cuda/nccl.h); sums are made here,
 * in the order of collectives_cpu.c, so that the number of ranks does not change a bit.
 *
 *   x[i] += received[i]
 *   x, received (n) fp32
 *
 * kernel     collective_add     four values per thread and trip
 * takes      any number of values
 * launch     grid ceil(n / 4096), block 256, one launch per exchange
 * moves      reads 8n bytes, writes 4n: bound by DRAM
 * order      both ends of an exchange add the same two numbers; no other sums */
#include "device/cuda/common.cuh"
extern "C" {
#include "device/cuda/nccl.h"
#include "ops/collectives/collectives_slots.h"
}

__global__ void __launch_bounds__(COLLECTIVE_BLOCK) collective_add(float *x, const float *received, int64_t n)
{
    const int64_t from = (int64_t)blockIdx.x * COLLECTIVE_VALUES, rest = n - from;
    const int     count = rest < COLLECTIVE_VALUES ? (int)rest : COLLECTIVE_VALUES;
    const bool    vectors = n % 4 == 0; // pieces begin at multiples of their length
    x += from;
    received += from;
    for (int i = (int)threadIdx.x * 4; vectors && i < count; i += COLLECTIVE_BLOCK * 4) {
        float a[4], b[4];
        load(a, x + i);
        load(b, received + i);
#pragma unroll
        for (int j = 0; j < 4; j++) a[j] += b[j];
        store(x + i, a);
    }
    for (int i = (int)threadIdx.x; !vectors && i < count; i += COLLECTIVE_BLOCK) x[i] += received[i];
}

static mba_place place_of(const mba_call *c) { return ((const collective_attr *)c->node->attr)->place; }

/* Leaves the sum in the own piece, which begins at *at. */
static mba_status halve(const mba_call *c, float *x, int64_t n, int64_t *at)
{
    const mba_place p = place_of(c);
    float          *received = (float *)mba_cuda_scratch(c, 0);
    int             k = 0;
    *at = 0;
    for (int bit = 1; bit < p.ranks; bit *= 2) {
        const int64_t half = n / 2, mine = *at + (p.rank & bit ? half : 0), theirs = *at + (p.rank & bit ? 0 : half);
        const int     peer = (int)p.rank ^ bit;
        MBA_TRY(mba_nccl_exchange(x + theirs, peer, received, peer, sizeof(float) * (size_t)half, c->stream));
        MBA_KERNEL(c, k++, collective_add, x + mine, received, half);
        *at = mine;
        n = half;
    }
    return MBA_OK;
}

extern "C" mba_status reduce_scatter_cuda(const mba_call *c)
{
    const mba_place p = place_of(c);
    const int64_t   n = mba_elems(c->node->in[X]), piece = n / p.ranks;
    float          *x = (float *)c->out[Y];
    int64_t         at;
    if (p.ranks == 1) return mba_nccl_alone(x, (size_t)n, c->stream);
    MBA_TRY(halve(c, x, n, &at));
    const size_t before = sizeof(float) * (size_t)at, behind = sizeof(float) * (size_t)(n - at - piece);
    if (before) CUDA_TRY(cudaMemsetAsync(x, 0, before, mba_cuda_stream(c))); // the next step adds to them
    if (behind) CUDA_TRY(cudaMemsetAsync(x + at + piece, 0, behind, mba_cuda_stream(c)));
    return MBA_OK;
}

extern "C" mba_status all_gather_cuda(const mba_call *c)
{
    return mba_nccl_gather(c->out[Y], (size_t)mba_tensor_bytes(c->node->in[X]), c->stream);
}

extern "C" mba_status allreduce_cuda(const mba_call *c)
{
    const mba_place p = place_of(c);
    const int64_t   n = mba_elems(c->node->in[X]);
    float          *x = (float *)c->out[Y];
    int64_t         at;
    int             k = 0;
    if (p.ranks == 1) return mba_nccl_alone(x, (size_t)n, c->stream);
    if (!allreduce_whole(n, p.ranks)) {
        MBA_TRY(halve(c, x, n, &at));
        return mba_nccl_gather(x, sizeof(float) * (size_t)n, c->stream);
    }
    float *received = (float *)mba_cuda_scratch(c, 0);
    for (int bit = 1; bit < p.ranks; bit *= 2) {
        const int peer = (int)p.rank ^ bit;
        MBA_TRY(mba_nccl_exchange(x, peer, received, peer, sizeof(float) * (size_t)n, c->stream));
        MBA_KERNEL(c, k++, collective_add, x, received, n);
    }
    return MBA_OK;
}

extern "C" mba_status send_recv_cuda(const mba_call *c)
{
    const mba_place p = place_of(c);
    const int64_t   shift = ((const collective_attr *)c->node->attr)->shift, to = p.rank + shift, from = p.rank - shift;
    const size_t    bytes = (size_t)mba_tensor_bytes(c->node->in[X]);
    const bool      gives = to >= 0 && to < p.ranks, takes = from >= 0 && from < p.ranks;
    if (!takes) CUDA_TRY(cudaMemsetAsync(c->out[Y], 0, bytes, mba_cuda_stream(c)));
    return gives || takes
               ? mba_nccl_exchange(c->in[X], gives ? (int)to : -1, c->out[Y], takes ? (int)from : -1, bytes, c->stream)
               : MBA_OK;
}
