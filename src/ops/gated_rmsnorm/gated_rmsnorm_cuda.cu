// SPDX-License-Identifier: Apache-2.0
/* gated_rmsnorm_cuda.cu -- the norm after the SSD of Mamba-2, gate first.
 *
 *   q = y silu(z)     v = w q rstd     rstd = 1 / sqrt(mean(q^2) + eps), per row and group of P channels
 *   dq = rstd (w dv - qhat c)     dy = dq silu(z)     dz = dq y silu'(z)     dw = sum over rows of dv qhat
 *   y, z, v, dv, dy, dz (R, G P) fp32 or bf16     w, dw (G P), rstd (R, G) fp32
 *
 * kernel     gated_rmsnorm_fwd_group     a thread group per group of a row, q stays in registers
 * kernel     gated_rmsnorm_bwd_group     persistent blocks that keep to one group of channels; rows with a stride,
 *            while asynchronous copies bring the next ones into slots private to each thread; dw in registers,
 *            sigmoid(z) in registers or in a slot
 * takes      groups of whole 16-byte vectors, up to 2048 of them, in rows at one pitch
 * launch     by ops/norm_plan.h; backward: dynamic smem three rows of each thread group, and sigmoid(z) of one
 * resources  sm_90a, CUDA 13.0: gated_rmsnorm_fwd_group 32 to 103 registers, 64 B of shared memory, no spill  [docs]
 *            gated_rmsnorm_bwd_group 62 to 121 registers, 768 B of shared memory, no spill  [docs]
 * moves      forward reads 2 and writes 1 row, backward reads 3 and writes 2, or 3 if v is recomputed: bound by DRAM
 * in flight  per SM; 4 TB/s for 0.7 us needs 22 KB. Forward, C=1536: 59 registers, 10 blocks of 96 threads of 2 x 2
 *            vectors, 61 KB; backward: 64 registers, 2 blocks of 2 thread groups of 192 threads of 3 vectors, two rows
 *            ahead, 74 KB
 * known      thread groups of 192, 256 and 512 threads in bf16 (1536, 2048, 4096 wide) are compile-time constants: a
 *            row takes a thread 345 instructions instead of 450 (no slot addresses, no selection of the barrier), with
 *            the same bits: 90.5 instead of 86 % of the floor in a step of mamba2-130m
 * issue      backward, any thread group: about 51 instructions per value in SASS; 54 and twice the exponentials if
 *            sigmoid(z) were computed twice: R=16384 C=1536, 40 us of issue time beside 64 us of memory time
 * floor      R=16384 C=1536 bf16: forward 151 MB, 35 us, backward 252 MB, 59 us at 4.3 TB/s (copy)
 * measured   H200: gated_rmsnorm_fwd_group 59.4 us, 86 % of floor (memory), DRAM 79 % busy;  [docs]
 *              mamba2-headline, 4 x 4096  [docs]
 *            gated_rmsnorm_bwd_group 91.3 us, 94 % of floor (memory), DRAM 75 % busy; mamba2-headline, 4 x 4096  [docs]
 * kernel     gated_fwd_loop, gated_bwd_loop     a block per group of a row, which is read twice
 * takes      everything
 * order      fixed by shape and machine, as in ops/norm_rows.cuh */
#include "ops/norm_rows.cuh"
extern "C" {
#include "ops/gated_rmsnorm/gated_rmsnorm_slots.h"
}

template <typename T> struct gated_rows {
    strided_view<const T> y, z; // (R, G P)
    strided_view<T>       v;
    const float          *w;
    float                *rstd; // (R, G)
    int64_t               rows;
    int                   groups, cols, threads; // cols is P
    float                 eps;
};

template <typename T, int V, int NV>
__global__ void __launch_bounds__(MBA__GROUP_THREADS_MAX, 1) gated_rmsnorm_fwd_group(gated_rows<T> a)
{
    __shared__ __align__(16) float warps[GROUP_WARPS];
    const thread_group             t = group_one_per_block(a.threads);
    const int unit = (int)(t.threads > 32 ? blockIdx.x : blockIdx.x * (blockDim.x / t.threads) + t.number);
    const int row = a.groups == 1 ? unit : unit / a.groups,
              from = (unit - row * a.groups) * a.cols; // the group's first channel
    const int    own = t.lane * V, apart = t.threads * V, end = row < a.rows ? a.cols : 0;
    packed<T, V> py[NV], pz[NV];
    float        q[NV][V], w[NV][V], ss = 0;
    group_zero_unused(t, warps);

    // 1. load the whole row, then apply the gate and sum the squares
    const T *const y = strip<const T>(a.y, from + own).row(row), *const z = strip<const T>(a.z, from + own).row(row);
#pragma unroll
    for (int i = 0; i < NV; i++) {
        fetch(pz[i], z + i * apart, own + i * apart < end);
        fetch(py[i], y + i * apart, own + i * apart < end);
    }
#pragma unroll
    for (int i = 0; i < NV; i++) {
        float gate[V];
        unpack(gate, pz[i]);
        unpack(q[i], py[i]);
#pragma unroll
        for (int v = 0; v < V; v++) {
            q[i][v] *= silu(gate[v]);
            ss = fmaf(q[i][v], q[i][v], ss);
        }
    }

    // 2. every thread gets the sum of its row
    const float k = rsqrtf(__fdividef(group_sum<true>(ss, t, warps), (float)a.cols) + a.eps);
    if (t.lane == 0 && end) a.rstd[unit] = k;

    // 3. scale and write
    T *const to = strip<T>(a.v, from + own).row(row);
#pragma unroll
    for (int i = 0; i < NV; i++) load_weights(w[i], a.w + from + (own + i * apart < a.cols ? own + i * apart : 0));
#pragma unroll
    for (int i = 0; i < NV; i++) {
#pragma unroll
        for (int v = 0; v < V; v++) w[i][v] *= q[i][v] * k;
        if (own + i * apart < end) store(to + i * apart, w[i]);
    }
}

template <typename T> __global__ void __launch_bounds__(MBA__LOOP_THREADS) gated_fwd_loop(gated_rows<T> a)
{
    __shared__ __align__(16) float warps[GROUP_WARPS];
    const thread_group             t = group_one_per_block(MBA__LOOP_THREADS);
    const int64_t                  unit = blockIdx.x, row = unit / a.groups, wide = (int64_t)a.groups * a.cols,
                  at = (unit - row * a.groups) * a.cols;
    const T *y = a.y.row(row, wide) + at, *z = a.z.row(row, wide) + at;
    float    ss = 0;
    group_zero_unused(t, warps);
    for (int c = threadIdx.x; c < a.cols; c += MBA__LOOP_THREADS) {
        const float q = to_float(y[c]) * silu(to_float(z[c]));
        ss += q * q;
    }
    const float k = rsqrtf(group_sum<true>(ss, t, warps) / (float)a.cols + a.eps);
    if (threadIdx.x == 0) a.rstd[unit] = k;
    for (int c = threadIdx.x; c < a.cols; c += MBA__LOOP_THREADS)
        a.v.row(row, wide)[at + c] = from_float<T>(to_float(y[c]) * silu(to_float(z[c])) * k * a.w[at + c]);
}

template <typename T> struct gated_grads {
    strided_view<const T> y, z, dv;  // (R, G P)
    strided_view<T>       dy, dz, v; // v: absent if it is not needed
    const float          *w, *rstd;
    float                *part; // (blocks, G P): partial sums of dw
    int64_t               rows;
    int                   groups, cols, threads;
    bool                  dy_adds, dz_adds;
};

/* One vector per thread leaves room for two blocks of the largest thread groups on an SM. GROUP: the number of threads
 * of a thread group that covers the whole row, with one group of channels, so that all offsets are compile-time
 * constants; 0: any. */
template <typename T, int V, int NV, int GROUP>
__global__ void __launch_bounds__(MBA__GROUP_THREADS_MAX, NV == 1 ? 2 : 1) gated_rmsnorm_bwd_group(gated_grads<T> a)
{
    constexpr int GROUPS = GROUP ? MBA__GROUP_THREADS_MAX / GROUP : 0;
    enum { OPERANDS = 3, OF_Y = 0, OF_Z = 1, OF_DV = 2, STAGES = GATED_RMSNORM_STAGES };
    constexpr bool          KEEP = V * NV <= 8, AGAIN = NV > 2; // weights stay in registers; the gate is recomputed
    constexpr bool          ASIDE = NV == 1; // the gate stays in shared memory: no registers are left
    extern __shared__ uint4 memory[];
    __shared__ __align__(16) float warps[STAGES][MBA__GROUPS_MAX * GROUP_WARPS];
    const thread_group             t = group_of_thread(GROUP ? GROUP : a.threads);
    const int                      cols = GROUP ? GROUP * NV * V : a.cols, groups = GROUP ? 1 : a.groups;
    const int                      rows = (int)a.rows, thread_groups = GROUP ? GROUPS : blockDim.x / t.threads,
              step = gridDim.x * thread_groups;
    const int   from = GROUP ? 0 : blockIdx.y * cols, own = t.lane * V, apart = t.threads * V;
    const float each = 1 / (float)cols, *const rstd = GROUP ? a.rstd : a.rstd + blockIdx.y;
    const strip<const T> in_y(a.y, from + own), in_z(a.z, from + own), in_dv(a.dv, from + own);
    const strip<T>       out_dy(a.dy, from + own), out_dz(a.dz, from + own), out_v(a.v, from + own);
    const int            plane = GROUP ? GROUP * GROUPS : blockDim.x, room = OPERANDS * NV * plane;
    uint4 *const         slots = memory + threadIdx.x;
    const auto           slot = [=](int stage, int operand, int i) {
        return (T *)(slots + stage * room + (operand * NV + i) * plane);
    }; // 16 bytes
    const auto aside = [=](int q) { return (float4 *)(slots + STAGES * room + q * plane); };
    const auto copy_row = [&](int row, int stage) {
        if (row < rows)
#pragma unroll
            for (int i = 0; i < NV; i++) {
                if (own + i * apart >= cols) continue;
                copy_async<16>(slot(stage, OF_Y, i), in_y.row(row) + i * apart);
                copy_async<16>(slot(stage, OF_Z, i), in_z.row(row) + i * apart);
                copy_async<16>(slot(stage, OF_DV, i), in_dv.row(row) + i * apart);
            }
        copy_async_commit();
    };

    float dw[NV][V], kept[KEEP ? NV : 1][V];
#pragma unroll
    for (int i = 0; i < NV; i++) {
#pragma unroll
        for (int v = 0; v < V; v++) dw[i][v] = 0;
        if (KEEP && own + i * apart < cols) load_weights(kept[KEEP ? i : 0], a.w + from + own + i * apart);
    }
    int   row = (int)blockIdx.x * thread_groups + t.number, stage = 0;
    float next = row < rows ? rstd[row * groups] : 0;
#pragma unroll
    for (int k = 0; k < STAGES; k++) {
        group_zero_unused(t, warps[k]);
        if (k < STAGES - 1) copy_row(row + k * step, k);
    }
    for (int first = (int)blockIdx.x * thread_groups; first < rows;
         first += step, row += step, stage = stage == STAGES - 1 ? 0 : stage + 1) {
        const float k = next;
        const int   end = row < rows ? cols : 0;
        copy_row(row + (STAGES - 1) * step, stage == 0 ? STAGES - 1 : stage - 1);
        next = row + step < rows ? rstd[(row + step) * groups] : 0;
        copy_async_wait<STAGES - 1>();

        // 1. compute the gate and the sum over q w dv
        float gate[NV][V], dot = 0; // sigmoid(z)
#pragma unroll
        for (int i = 0; i < NV; i++) {
            if (own + i * apart >= end) continue;
            float y[V], z[V], dv[V], w[V];
            load(z, slot(stage, OF_Z, i));
            load(y, slot(stage, OF_Y, i));
            load(dv, slot(stage, OF_DV, i));
            if (!KEEP) load_weights(w, a.w + from + own + i * apart);
#pragma unroll
            for (int v = 0; v < V; v++) {
                gate[i][v] = sigmoid(z[v]);
                dot = fmaf(y[v] * z[v] * gate[i][v], (KEEP ? kept[KEEP ? i : 0][v] : w[v]) * dv[v], dot);
            }
            if constexpr (ASIDE) { // nvcc 13.0 drops more than the loop if a pragma follows without the brace
#pragma unroll
                for (int q = 0; q < V / 4; q++)
                    *aside(q) = make_float4(gate[i][4 * q], gate[i][4 * q + 1], gate[i][4 * q + 2], gate[i][4 * q + 3]);
            }
        }
        const float back = group_sum<GROUPS == 1>(dot, t, warps[stage]) * each * k * k * k;

        // 2. gradients
#pragma unroll
        for (int i = 0; i < NV; i++) {
            if (own + i * apart >= end) continue;
            float y[V], z[V], dv[V], w[V];
            load(z, slot(stage, OF_Z, i));
            load(y, slot(stage, OF_Y, i));
            load(dv, slot(stage, OF_DV, i));
            if (!KEEP) load_weights(w, a.w + from + own + i * apart);
            if constexpr (ASIDE) {
#pragma unroll
                for (int q = 0; q < V / 4; q++) {
                    const float4 g = *aside(q);
                    gate[i][4 * q] = g.x;
                    gate[i][4 * q + 1] = g.y;
                    gate[i][4 * q + 2] = g.z;
                    gate[i][4 * q + 3] = g.w;
                }
            }
#pragma unroll
            for (int v = 0; v < V; v++) {
                const float s = AGAIN ? sigmoid(z[v]) : gate[i][v], open = z[v] * s, q = y[v] * open, r = dv[v] * k;
                const float dq = fmaf(KEEP ? kept[KEEP ? i : 0][v] : w[v], r, -q * back);
                dw[i][v] = fmaf(q, r, dw[i][v]);
                dv[v] = dq * open;
                z[v] = dq * y[v] * fmaf(open, 1 - s, s);
                y[v] = q;
            }
            if (a.v.at) { // recompute v as in the forward kernel
#pragma unroll
                for (int v = 0; v < V; v++) y[v] = y[v] * k * (KEEP ? kept[KEEP ? i : 0][v] : w[v]);
                store(out_v.row(row) + i * apart, y);
            }
            put_grad(out_dy.row(row) + i * apart, dv, a.dy_adds);
            put_grad(out_dz.row(row) + i * apart, z, a.dz_adds); // dz may be dy: read after dy is written
        }
    }
    store_block_partial(a.part + (int64_t)blockIdx.x * groups * cols + from, (float *)memory, dw, t, cols);
}

template <typename T> __global__ void __launch_bounds__(MBA__LOOP_THREADS) gated_bwd_loop(gated_grads<T> a)
{
    __shared__ __align__(16) float warps[2][GROUP_WARPS];
    const thread_group             t = group_one_per_block(MBA__LOOP_THREADS);
    const int64_t                  wide = (int64_t)a.groups * a.cols, at = (int64_t)blockIdx.y * a.cols;
    float                         *part = a.part + blockIdx.x * wide + at;
    int                            turn = 0;
    group_zero_unused(t, warps[0]);
    group_zero_unused(t, warps[1]);
    for (int64_t row = blockIdx.x; row < a.rows; row += gridDim.x, turn ^= 1) {
        const T    *y = a.y.row(row, wide) + at, *z = a.z.row(row, wide) + at, *dv = a.dv.row(row, wide) + at;
        const float k = a.rstd[row * a.groups + blockIdx.y], *w = a.w + at;
        float       dot = 0;
        for (int c = threadIdx.x; c < a.cols; c += MBA__LOOP_THREADS)
            dot += to_float(y[c]) * silu(to_float(z[c])) * w[c] * to_float(dv[c]);
        const float back = group_sum<true>(dot, t, warps[turn]) / (float)a.cols * k * k * k;
        for (int c = threadIdx.x; c < a.cols; c += MBA__LOOP_THREADS) {
            const float yc = to_float(y[c]), zc = to_float(z[c]), s = sigmoid(zc), open = zc * s, q = yc * open;
            const float r = to_float(dv[c]) * k, dq = w[c] * r - q * back;
            const float dy[1] = { dq * open }, dz[1] = { dq * yc * (s + open * (1 - s)) };
            if (a.v.at) a.v.row(row, wide)[at + c] = from_float<T>(q * k * w[c]);
            part[c] = q * r + (row == blockIdx.x ? 0 : part[c]);
            put_grad(a.dy.row(row, wide) + at + c, dy, a.dy_adds);
            put_grad(a.dz.row(row, wide) + at + c, dz, a.dz_adds);
        }
    }
}

/* ---- launchers ---- */

template <typename T> static gated_rows<T> rows_of(const mba_call *c)
{
    const mba_node           *n = c->node;
    const gated_rmsnorm_attr *t = (const gated_rmsnorm_attr *)n->attr;
    gated_rows<T>             a = {};
    a.y = mba_strided_view<const T>(n->in[Y], c->in[Y]);
    a.z = mba_strided_view<const T>(n->in[Z], c->in[Z]);
    a.v = mba_strided_view<T>(n->out[V], c->out[V]);
    a.w = (const float *)c->in[W];
    a.rstd = (float *)c->out[RSTD];
    a.rows = mba_rows(n->in[Y]);
    a.groups = (int)t->groups;
    a.cols = (int)(mba_cols(n->in[Y]) / t->groups);
    a.eps = (float)t->eps;
    a.threads = gated_rmsnorm_fwd_threads(n).threads;
    return a;
}

extern "C" mba_status gated_rmsnorm_cuda(const mba_call *c)
{
    MBA_WITH_DTYPE(c->node->in[Y]->type.dtype, T,
                   MBA_WITH_VECTORS(gated_rmsnorm_fwd_threads(c->node).vectors, NV,
                                    MBA_KERNEL(c, 0, (gated_rmsnorm_fwd_group<T, 16 / sizeof(T), NV>), rows_of<T>(c))));
    return MBA_OK;
}

extern "C" mba_status gated_rmsnorm_loop_cuda(const mba_call *c)
{
    MBA_WITH_DTYPE(c->node->in[Y]->type.dtype, T, MBA_KERNEL(c, 0, gated_fwd_loop<T>, rows_of<T>(c)));
    return MBA_OK;
}

template <typename T> static gated_grads<T> grads_of(const mba_call *c)
{
    const mba_node           *n = c->node;
    const gated_rmsnorm_attr *t = (const gated_rmsnorm_attr *)n->attr;
    gated_grads<T>            a = {};
    a.y = mba_strided_view<const T>(n->in[Y], c->in[Y]);
    a.z = mba_strided_view<const T>(n->in[Z], c->in[Z]);
    a.dv = mba_strided_view<const T>(n->in[DV], c->in[DV]);
    a.dy = mba_strided_view<T>(n->out[DY], c->out[DY]);
    a.dz = mba_strided_view<T>(n->out[DZ], c->out[DZ]);
    a.v = mba_strided_view<T>(n->out[V_AGAIN], c->out[V_AGAIN]);
    a.w = (const float *)c->in[W];
    a.rstd = (const float *)c->in[RSTDB];
    a.part = (float *)mba_cuda_scratch(c, 0);
    a.rows = mba_rows(n->in[Y]);
    a.groups = (int)t->groups;
    a.cols = (int)(mba_cols(n->in[Y]) / t->groups);
    a.threads = gated_rmsnorm_bwd_threads(n).threads;
    a.dy_adds = mba_adds(n, DY);
    a.dz_adds = mba_adds(n, DZ);
    return a;
}

extern "C" mba_status gated_rmsnorm_bwd_cuda(const mba_call *c)
{
    const mba_tensor       *y = c->node->in[Y];
    const mba_launch       *l = &c->plan->launch[0];
    const mba__thread_group t = gated_rmsnorm_bwd_threads(c->node);
    const bool              whole = y->type.dtype == MBA_BF16 && l->grid[1] == 1 && t.threads * t.width == mba_cols(y)
                       && l->block == MBA__GROUP_THREADS_MAX / t.threads * t.threads;
    if (whole && t.threads == 512) MBA_KERNEL(c, 0, (gated_rmsnorm_bwd_group<bf16, 8, 1, 512>), grads_of<bf16>(c));
    else if (whole && t.threads == 256) MBA_KERNEL(c, 0, (gated_rmsnorm_bwd_group<bf16, 8, 1, 256>), grads_of<bf16>(c));
    else if (whole && t.threads == 192) MBA_KERNEL(c, 0, (gated_rmsnorm_bwd_group<bf16, 8, 1, 192>), grads_of<bf16>(c));
    else
        MBA_WITH_DTYPE(y->type.dtype, T,
                       MBA_WITH_VECTORS(t.vectors, NV,
                                        MBA_KERNEL(c, 0, (gated_rmsnorm_bwd_group<T, 16 / sizeof(T), NV, 0>),
                                                   grads_of<T>(c))));
    return mba__norm_dw(c, DW, mba_cols(y));
}

extern "C" mba_status gated_rmsnorm_bwd_loop_cuda(const mba_call *c)
{
    MBA_WITH_DTYPE(c->node->in[Y]->type.dtype, T, MBA_KERNEL(c, 0, gated_bwd_loop<T>, grads_of<T>(c)));
    return mba__norm_dw(c, DW, mba_cols(c->node->in[Y]));
}
