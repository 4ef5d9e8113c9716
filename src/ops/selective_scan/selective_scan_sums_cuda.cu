// SPDX-License-Identifier: Apache-2.0
/* selective_scan_sums_cuda.cu -- the last two kernels of selective_scan's backward pass: they add the partial sums that
 * blocks of channels (dB, dC) and items (dA_log, dD, ddt_bias) leave in scratch. All variants use them.
 *
 * kernel     scan_sums_bc       dB, dC (tokens, G, N) = sum over the blocks of channels of their group
 * takes      everything; four values per thread, or one where a row of states is not a multiple of four
 * launch     grid ceil(tokens G 2N / 4 / 256), block 256; N: states in a row of scratch
 * resources  sm_90a, CUDA 13.0: 32 to 40 registers, no spill  [docs]
 * moves      one fp32 per block of channels and value in, one value out: bound by DRAM
 * measured   H200: 38.7 us, 89 % of floor (memory), DRAM 77 % busy; mamba-370m, 4 x 4096  [docs]
 * order      fixed: blocks in ascending order
 *
 * kernel     scan_sums_items    dA_log (D, N), dD, ddt_bias (D) = sums over items
 * launch     grid ceil(D (N + 2) / 32), block 512: 16 threads per value, each adds every 16th item
 * resources  sm_90a, CUDA 13.0: 32 registers, 2112 B of shared memory, no spill  [docs]
 * moves      D (N + 2) fp32 per item
 * measured   H200: 5.54 us, 3 % of floor (memory), ALU 18 % busy; mamba-370m, 4 x 4096  [docs]
 * order      fixed: by shape */
#include "ops/selective_scan/selective_scan_cuda.cuh"

template <typename T, int V>
__global__ void __launch_bounds__(256) scan_sums_bc(const __grid_constant__ scan_operands<T> p)
{
    const int64_t i = (int64_t)blockIdx.x * 256 + threadIdx.x, N = p.padded, per = 2 * N / V;
    if (i >= p.tokens * p.G * per) return;
    const int64_t           v = i % per * V, g = i / per / p.tokens, token = i / per % p.tokens; // coalesced
    const bool              is_c = v >= N;
    const int               first = (int)(is_c ? v - N : v);
    const sequence_view<T> &l = is_c ? p.dC : p.dB;
    if (!l.at || first >= p.N) return;
    const float *from = p.bc + (g * p.blocks * p.tokens + token) * 2 * N + v;
    float        s[V] = {};
#pragma unroll 8
    for (int k = 0; k < p.blocks; k++) {
        float x[V];
        if (V == 1) x[0] = from[k * p.tokens * 2 * N];
        else load(x, from + k * p.tokens * 2 * N);
#pragma unroll
        for (int e = 0; e < V; e++) s[e] += x[e];
    }
    const bool add = p.adds >> (is_c ? DC : DB) & 1;
    T         *to = l.sequence(token / p.L) + token % p.L * l.row + g * p.N + first;
#pragma unroll
    for (int e = 0; e < V; e++)
        if (first + e < p.N) to[e] = from_float<T>(s[e] + (add ? to_float(to[e]) : 0));
}

template <typename T> __global__ void __launch_bounds__(512) scan_sums_items(const __grid_constant__ scan_operands<T> p)
{
    __shared__ float part[16][33];
    const int        x = threadIdx.x % 32, y = threadIdx.x / 32;
    const int64_t    each = (int64_t)p.D * (p.N + 2), i = (int64_t)blockIdx.x * 32 + x;
    float            s = 0;
    if (i < each) {
#pragma unroll 8
        for (int64_t k = y; k < p.items; k += 16) s += p.sums[k * each + i];
    }
    part[y][x] = s;
    __syncthreads();
    if (y || i >= each) return;
    s = 0;
#pragma unroll
    for (int k = 0; k < 16; k++) s += part[k][x];
    const int64_t states = (int64_t)p.D * p.N;
    if (i < states) {
        if (!p.dA_log.at) return;
        const int64_t ch = i / p.N, n = i % p.N;
        float        *to = p.dA_log.at + ch * p.dA_log.row + n;
        *to = -expf(p.A_log.at[ch * p.A_log.row + n]) * s + (p.adds >> DA_LOG & 1 ? *to : 0);
    } else if (i < states + p.D) {
        if (p.dskip) p.dskip[i - states] = s + (p.adds >> DSKIP & 1 ? p.dskip[i - states] : 0);
    } else {
        if (p.dbias) p.dbias[i - states - p.D] = s + (p.adds >> DDT_BIAS & 1 ? p.dbias[i - states - p.D] : 0);
    }
}

template <typename T> mba_status scan_sums(const mba_call *c, int k, const scan_operands<T> &p)
{
    auto *add_bc = p.padded % 4 ? scan_sums_bc<T, 1> : scan_sums_bc<T, 4>;
    MBA_KERNEL(c, k, add_bc, p);
    MBA_KERNEL(c, k + 1, scan_sums_items<T>, p);
    return MBA_OK;
}
template mba_status scan_sums<float>(const mba_call *, int, const scan_operands<float> &);
template mba_status scan_sums<bf16>(const mba_call *, int, const scan_operands<bf16> &);
