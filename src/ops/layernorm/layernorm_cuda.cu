// SPDX-License-Identifier: Apache-2.0
/* layernorm_cuda.cu -- y = (x - mean) rstd w + b over the last axis, and its gradients.
 *
 *   x, y, dy, dx (R, C) fp32 or bf16     w, b, dw, db (C), mean, rstd (R) fp32
 *   h = (x - mean) rstd     dx = rstd (w dy - mean(w dy) - h mean(w dy h))     dw = sum over rows of dy h     db = sum
 *   of dy
 *
 * kernel     layernorm_fwd_group  a thread group per row, which stays in registers: mean, then variance, then y
 * kernel     layernorm_bwd_group  persistent blocks; a thread group loops over rows with a stride, while asynchronous
 *            copies bring the next two rows into slots private to each thread; dw and db in registers, then per block
 *            (column_totals)
 * takes      rows of whole vectors at one pitch, up to 1280 of them
 * launch     forward: grid ceil(R / groups), block 128 or a group; backward: grid as many blocks as fit on the SMs,
 *            block 256, dynamic smem three rows of each thread group, of x and dy, and of dx if it adds
 * resources  sm_90a, CUDA 13.0: layernorm_fwd_group 32 to 74 registers, 128 B of shared memory, no spill  [docs]
 *            layernorm_bwd_group 75 to 128 registers, 1024 B of shared memory, no spill  [docs]
 * moves      every operand once, and partial sums of dw and db: bound by DRAM
 * in flight  4 TB/s for 0.7 us is 22 KB per SM. Forward, R=25088 C=320 bf16: 16 rows per block, 7 blocks per SM, 5
 *            vectors of 16 bytes per thread, 61 KB; 1568 blocks are 2 waves of 132 x 6. Backward: 2 blocks of 16 groups
 *            per SM, 2 rows of 5 vectors of 8 bytes of x and dy per thread, 82 KB; 4224 groups take 5.94 rows each.
 *            R=6272 C=640: 784 blocks, one wave; 2112 groups, 2.97 rows each
 * work       about 7 instructions per value forward (2 us of 8 at the first shape), 25 backward (6 of 12, of 16 if dx
 *            adds)
 * floor      R=25088 C=320 bf16: forward 32 MB, 8 us, backward 48 MB, 12 us at 4 TB/s (copy)
 * measured   H200: layernorm_fwd_group 9.47 us, 87 % of floor (memory), L1/shared 56 % busy;  [docs]
 *              mambavision-t, 128 images  [docs]
 *            layernorm_bwd_group 20.5 us, 80 % of floor (memory), DRAM 48 % busy; mambavision-t, 128 images  [docs]
 * kernel     layernorm_fwd_loop, layernorm_dx_loop     one warp per row, one value per lane; the row is read again,
 *            from L1
 * kernel     layernorm_sums      (column_parts) dw and db: one column per thread, rows with a stride
 * takes      everything
 * order      fixed by shape and machine: lanes, warps of a group, rows of a group, groups of a block, blocks */
#include "ops/norm_rows.cuh"
extern "C" {
#include "ops/layernorm/layernorm_slots.h"
}

#define WITH_VECTORS(n, NV, ...) \
    do { \
        if ((n) == 5) { \
            constexpr int NV = 5; \
            __VA_ARGS__; \
        } else MBA_WITH_VECTORS(n, NV, __VA_ARGS__); \
    } while (0)

/* ---- forward ---- */

template <typename T> struct layernorm_rows {
    strided_view<const T> x; // (R, C)
    strided_view<T>       y;
    const float          *w, *b;       // (C)
    float                *mean, *rstd; // (R)
    int64_t               rows, cols;
    float                 eps;
    int                   threads;
};

template <typename T, int V, int NV>
__global__ void __launch_bounds__(LAYERNORM_THREADS, 3) layernorm_fwd_group(layernorm_rows<T> a)
{
    __shared__ __align__(16) float warps[2][GROUP_WARPS];
    const thread_group             t = group_one_per_block(a.threads);
    const int                      cols = (int)a.cols,
              row = (int)(t.threads > 32 ? blockIdx.x : blockIdx.x * (blockDim.x / t.threads) + t.number);
    const int own = t.lane * V, apart = t.threads * V,
              end = row < a.rows ? cols : 0; // beyond the last row there are no columns
    const float each = 1 / (float)cols;
    float       s[NV][V], sum = 0, squares = 0;
    prefetch_l2_weights(a.w, cols);
    prefetch_l2_weights(a.b, cols);
    group_zero_unused(t, warps[0]);
    group_zero_unused(t, warps[1]);

    // 1. load the whole row, then its mean
    packed<T, V>   px[NV];
    const T *const x = strip<const T>(a.x, own).row(row);
#pragma unroll
    for (int i = 0; i < NV; i++) fetch(px[i], x + i * apart, own + i * apart < end);
#pragma unroll
    for (int i = 0; i < NV; i++) {
        unpack(s[i], px[i]);
#pragma unroll
        for (int v = 0; v < V; v++) sum += s[i][v];
    }
    const float mean = group_sum<true>(sum, t, warps[0]) * each;

    // 2. subtract the mean, sum the squares
#pragma unroll
    for (int i = 0; i < NV; i++) {
        const float shift = own + i * apart < end ? mean : 0;
#pragma unroll
        for (int v = 0; v < V; v++) {
            s[i][v] -= shift;
            squares = fmaf(s[i][v], s[i][v], squares);
        }
    }
    const float k = rsqrtf(fmaf(group_sum<true>(squares, t, warps[1]), each, a.eps));
    if (t.lane == 0 && end) {
        a.mean[row] = mean;
        a.rstd[row] = k;
    }

    // 3. scale and write
    T *const y = strip<T>(a.y, own).row(row);
#pragma unroll
    for (int i = 0; i < NV; i++) {
        const int at = own + i * apart < cols ? own + i * apart
                                              : 0; // no branch, so that all weights are loaded together
        float     w[V], b[V];
        load_weights(w, a.w + at);
        load_weights(b, a.b + at);
#pragma unroll
        for (int v = 0; v < V; v++) b[v] = fmaf(s[i][v] * k, w[v], b[v]);
        if (own + i * apart < end) store(y + i * apart, b);
    }
}

template <typename T> __global__ void __launch_bounds__(256) layernorm_fwd_loop(layernorm_rows<T> a)
{
    const int64_t r = (int64_t)blockIdx.x * 8 + threadIdx.x / 32;
    const int     lane = threadIdx.x % 32;
    if (r >= a.rows) return; // uniform across the warp
    const T *x = a.x.row(r, a.cols);
    T       *y = a.y.row(r, a.cols);
    float    sum = 0, squares = 0;
    for (int64_t c = lane; c < a.cols; c += 32) sum += to_float(x[c]);
    const float m = warp_sum(sum) / (float)a.cols;
    for (int64_t c = lane; c < a.cols; c += 32) squares += (to_float(x[c]) - m) * (to_float(x[c]) - m);
    const float s = rsqrtf(warp_sum(squares) / (float)a.cols + a.eps);
    if (lane == 0) {
        a.mean[r] = m;
        a.rstd[r] = s;
    }
    for (int64_t c = lane; c < a.cols; c += 32) y[c] = from_float<T>((to_float(x[c]) - m) * s * a.w[c] + a.b[c]);
}

/* ---- backward ---- */

template <typename T> struct layernorm_grads {
    strided_view<const T> dy, x; // (R, C)
    strided_view<T>       dx;
    const float          *w, *mean, *rstd;
    float                *part; // (blocks, 2, C): partial sums of dw, db
    int64_t               rows, cols;
    int                   threads;
    bool                  adds;
};

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1000 // needs a few more registers
enum { SM_100 = 1 };
#else
enum { SM_100 = 0 };
#endif

/* Two sums over a thread group at once; `first` and `second` are like `warps` of group_sum. */
static __device__ __forceinline__ float2 group_sums(float2 x, thread_group t, float *first, float *second)
{
    if (t.threads < 32) {
        for (int d = t.threads / 2; d; d >>= 1) {
            x.x += __shfl_xor_sync(0xffffffffu, x.x, d);
            x.y += __shfl_xor_sync(0xffffffffu, x.y, d);
        }
        return x;
    }
    x.x = warp_sum(x.x);
    x.y = warp_sum(x.y);
    if (t.threads == 32) return x;
    float *const one = first + t.number * GROUP_WARPS, *const two = second + t.number * GROUP_WARPS;
    if (t.lane % 32 == 0) {
        one[t.lane / 32] = x.x;
        two[t.lane / 32] = x.y;
    }
    group_sync(t);
    x.x = x.y = 0;
#pragma unroll
    for (int i = 0; i < GROUP_WARPS; i += 4) {
        const float4 p = *(const float4 *)(one + i), q = *(const float4 *)(two + i);
        x.x += (p.x + p.y) + (p.z + p.w);
        x.y += (q.x + q.y) + (q.z + q.w);
    }
    return x;
}

/* Vectors and rows that do not exist are zeros in shared memory. So only copies and stores are conditional, and the
 * loads of all vectors are issued together; with a branch per vector they would be serialized. */
template <typename T, int NV, bool ADDS>
__global__ void __launch_bounds__(LAYERNORM_THREADS, 2) layernorm_bwd_group(layernorm_grads<T> a)
{
    constexpr int           V = LAYERNORM_BWD_WIDTH, STAGES = LAYERNORM_STAGES, OPERANDS = ADDS ? 3 : 2;
    constexpr bool          HOLD = sizeof(T) == 2 && !SM_100; // the row stays in registers; else it is read again
    extern __shared__ uint4 memory[];
    __shared__ __align__(16) float warps[2][2][MBA__GROUPS_MAX * GROUP_WARPS];
    const thread_group             t = group_of_thread(a.threads);
    const int                      cols = (int)a.cols, rows = (int)a.rows, thread_groups = blockDim.x / t.threads,
              step = gridDim.x * thread_groups;
    const int            own = t.lane * V, apart = t.threads * V;
    const float          each = 1 / (float)cols;
    const strip<const T> in_x(a.x, own), in_dy(a.dy, own);
    const strip<T>       out_dx(a.dx, own);
    T *const  slots = (T *)memory + (int)threadIdx.x * V; // slots of this thread: x, dy and the previous dx of vector i
    const int plane = (int)blockDim.x * V;
    const auto slot = [=](int stage, int operand, int i) {
        return slots + ((stage * OPERANDS + operand) * NV + i) * plane;
    };
    const auto copy_row = [&](int row, int stage) {
        const bool there = row < rows;
        const int  r = there ? row : 0;
        const T   *x = in_x.row(r), *dy = in_dy.row(r), *dx = out_dx.row(r);
#pragma unroll
        for (int i = 0; i < NV; i++) {
            const bool in = there && own + i * apart < cols;
            const int  at = in ? i * apart : 0;
            copy_async_or_zero<V * sizeof(T)>(slot(stage, 0, i), in ? x + at : (const T *)a.x.at, in);
            copy_async_or_zero<V * sizeof(T)>(slot(stage, 1, i), in ? dy + at : (const T *)a.dy.at, in);
            if (ADDS) copy_async_or_zero<V * sizeof(T)>(slot(stage, 2, i), in ? dx + at : (const T *)a.dx.at, in);
        }
        copy_async_commit();
    };

    float dw[NV][V], db[NV][V], w[NV][V];
#pragma unroll
    for (int i = 0; i < NV; i++) {
#pragma unroll
        for (int v = 0; v < V; v++) dw[i][v] = db[i][v] = w[i][v] = 0;
        if (own + i * apart < cols) load_weights(w[i], a.w + own + i * apart);
    }
    int   row = (int)blockIdx.x * thread_groups + t.number, stage = 0, turn = 0;
    float next_mean = row < rows ? a.mean[row] : 0, next = row < rows ? a.rstd[row] : 0;
#pragma unroll
    for (int k = 0; k < 4; k++) group_zero_unused(t, warps[k / 2][k % 2]);
#pragma unroll
    for (int k = 0; k < STAGES - 1; k++) copy_row(row + k * step, k);
    for (int first = (int)blockIdx.x * thread_groups; first < rows; first += step, row += step, turn ^= 1) {
        const float k = next, shift = -next_mean * next; // h = x k + shift
        copy_row(row + (STAGES - 1) * step, stage == 0 ? STAGES - 1 : stage - 1);
        next = row + step < rows ? a.rstd[row + step] : 0;
        next_mean = row + step < rows ? a.mean[row + step] : 0;
        copy_async_wait<STAGES - 1>();

        // 1. the sums over w dy and w dy h of the row
        packed<T, V> px[NV], pdy[NV];
        float2       m = { 0, 0 };
#pragma unroll
        for (int i = 0; i < NV; i++) {
            fetch(px[i], (const T *)slot(stage, 0, i));
            fetch(pdy[i], (const T *)slot(stage, 1, i));
        }
#pragma unroll
        for (int i = 0; i < NV; i++) {
            float x[V], dy[V];
            unpack(x, px[i]);
            unpack(dy, pdy[i]);
#pragma unroll
            for (int v = 0; v < V; v++) {
                const float g = w[i][v] * dy[v];
                m.x += g;
                m.y = fmaf(g, fmaf(x[v], k, shift), m.y);
            }
        }
        m = group_sums(m, t, warps[turn][0], warps[turn][1]);
        const float m1 = m.x * each * -k, m2 = m.y * each * -k;

        // 2. gradients
        T *const to = out_dx.row(row);
#pragma unroll
        for (int i = 0; i < NV; i++) {
            float x[V], dy[V], d[V];
            if (!HOLD) {
                fetch(px[i], (const T *)slot(stage, 0, i));
                fetch(pdy[i], (const T *)slot(stage, 1, i));
            }
            unpack(x, px[i]);
            unpack(dy, pdy[i]);
            if (ADDS) load(d, slot(stage, 2, i));
#pragma unroll
            for (int v = 0; v < V; v++) {
                const float h = fmaf(x[v], k, shift), old = ADDS ? d[v] : 0;
                dw[i][v] = fmaf(dy[v], h, dw[i][v]);
                db[i][v] += dy[v];
                d[v] = fmaf(w[i][v] * k, dy[v], fmaf(h, m2, m1)) + old;
            }
            if (row < rows && own + i * apart < cols) store(to + i * apart, d);
        }
        stage = stage == STAGES - 1 ? 0 : stage + 1;
    }
    store_block_partial(a.part + (int64_t)blockIdx.x * 2 * cols, (float *)memory, dw, t, cols);
    store_block_partial(a.part + ((int64_t)blockIdx.x * 2 + 1) * cols, (float *)memory, db, t, cols);
}

template <typename T> __global__ void __launch_bounds__(256) layernorm_dx_loop(layernorm_grads<T> a)
{
    const int64_t r = (int64_t)blockIdx.x * 8 + threadIdx.x / 32;
    const int     lane = threadIdx.x % 32;
    if (r >= a.rows) return;
    const T    *dy = a.dy.row(r, a.cols), *x = a.x.row(r, a.cols);
    T          *dx = a.dx.row(r, a.cols);
    const float m = a.mean[r], s = a.rstd[r];
    float       m1 = 0, m2 = 0;
    for (int64_t c = lane; c < a.cols; c += 32) {
        const float g = a.w[c] * to_float(dy[c]);
        m1 += g;
        m2 += g * (to_float(x[c]) - m) * s;
    }
    m1 = warp_sum(m1) / (float)a.cols;
    m2 = warp_sum(m2) / (float)a.cols;
    for (int64_t c = lane; c < a.cols; c += 32) {
        const float d[1] = { s * (a.w[c] * to_float(dy[c]) - m1 - (to_float(x[c]) - m) * s * m2) };
        put_grad(dx + c, d, a.adds);
    }
}

template <typename T> struct layernorm_sums {
    enum { AT_ONCE = 4 };
    strided_view<const T> dy, x;
    const float          *mean, *rstd;
    int64_t               cols;
    template <int V> struct column_regs {
    };
    template <int V> struct row_regs {
        packed<T, V> dy, x;
        float        mean, rstd;
    };
    template <int V> __device__ void load_columns(column_regs<V> &, int64_t) const {}
    template <int V> __device__ void load_row(row_regs<V> &s, int64_t r, int64_t c, bool there) const
    {
        fetch(s.dy, dy.row(r, cols) + c, there);
        fetch(s.x, x.row(r, cols) + c, there);
        s.mean = there ? mean[r] : 0;
        s.rstd = there ? rstd[r] : 0;
    }
    template <int V> __device__ void add(float (&sum)[2][V], const row_regs<V> &s, const column_regs<V> &) const
    {
        float a[V], h[V];
        unpack(a, s.dy);
        unpack(h, s.x);
#pragma unroll
        for (int k = 0; k < V; k++) {
            sum[0][k] += a[k] * (h[k] - s.mean) * s.rstd;
            sum[1][k] += a[k];
        }
    }
};

struct layernorm_totals {
    float          *dw, *db;
    bool            adds_w, adds_b;
    __device__ void operator()(int64_t i, const float (&total)[2], const mba_step *) const
    {
        dw[i] = total[0] + (adds_w ? dw[i] : 0);
        db[i] = total[1] + (adds_b ? db[i] : 0);
    }
};

/* ---- launchers ---- */

template <typename T> static layernorm_rows<T> rows_of(const mba_call *c, int threads)
{
    const mba_node   *n = c->node;
    layernorm_rows<T> a = {};
    a.x = mba_strided_view<const T>(n->in[X], c->in[X]);
    a.y = mba_strided_view<T>(n->out[Y], c->out[Y]);
    a.w = (const float *)c->in[W];
    a.b = (const float *)c->in[B];
    a.mean = (float *)c->out[MEAN];
    a.rstd = (float *)c->out[RSTD];
    a.rows = mba_rows(n->in[X]);
    a.cols = mba_cols(n->in[X]);
    a.eps = ((const layernorm_attr *)n->attr)->eps;
    a.threads = threads;
    return a;
}

extern "C" mba_status layernorm_cuda(const mba_call *c)
{
    const mba__thread_group t = layernorm_fwd_group(c->node->in[X]);
    MBA_WITH_DTYPE(c->node->in[X]->type.dtype, T,
                   WITH_VECTORS(t.vectors, NV,
                                MBA_KERNEL(c, 0, (layernorm_fwd_group<T, 16 / sizeof(T), NV>),
                                           rows_of<T>(c, t.threads))));
    return MBA_OK;
}

extern "C" mba_status layernorm_loop_cuda(const mba_call *c)
{
    MBA_WITH_DTYPE(c->node->in[X]->type.dtype, T, MBA_KERNEL(c, 0, layernorm_fwd_loop<T>, rows_of<T>(c, 32)));
    return MBA_OK;
}

template <typename T> static layernorm_grads<T> grads_of(const mba_call *c, int threads)
{
    const mba_node    *n = c->node;
    layernorm_grads<T> a = {};
    a.dy = mba_strided_view<const T>(n->in[DY], c->in[DY]);
    a.x = mba_strided_view<const T>(n->in[XB], c->in[XB]);
    a.dx = mba_strided_view<T>(n->out[DX], c->out[DX]);
    a.w = (const float *)c->in[WB];
    a.mean = (const float *)c->in[MEANB];
    a.rstd = (const float *)c->in[RSTDB];
    a.part = (float *)mba_cuda_scratch(c, 0);
    a.rows = mba_rows(n->in[XB]);
    a.cols = mba_cols(n->in[XB]);
    a.threads = threads;
    a.adds = mba_adds(n, DX);
    return a;
}

static layernorm_totals totals_of(const mba_call *c)
{
    const layernorm_totals use = { (float *)c->out[DW], (float *)c->out[DB], mba_adds(c->node, DW),
                                   mba_adds(c->node, DB) };
    return use;
}

extern "C" mba_status layernorm_bwd_cuda(const mba_call *c)
{
    const mba__thread_group t = layernorm_bwd_group(c->node->in[XB]);
    MBA_WITH_DTYPE(c->node->in[XB]->type.dtype, T,
                   MBA_WITH_BOOL(mba_adds(c->node, DX), ADDS,
                                 WITH_VECTORS(t.vectors, NV,
                                              MBA_KERNEL(c, 0, (layernorm_bwd_group<T, NV, ADDS>),
                                                         grads_of<T>(c, t.threads)))));
    return mba_column_totals<2>(c, 1, (const float *)mba_cuda_scratch(c, 0), mba_cols(c->node->in[XB]),
                                c->plan->launch[0].grid[0], totals_of(c));
}

extern "C" mba_status layernorm_bwd_loop_cuda(const mba_call *c)
{
    MBA_WITH_DTYPE(c->node->in[XB]->type.dtype, T, const layernorm_grads<T> a = grads_of<T>(c, 32);
                   const layernorm_sums<T> f = { a.dy, a.x, a.mean, a.rstd, a.cols };
                   MBA_TRY((mba_column_sums<2, 1>(c, 0, c->node->in[XB], f, totals_of(c),
                                                  a.part))); // before dx, which may share the memory of dy
                   MBA_KERNEL(c, 2, layernorm_dx_loop<T>, a));
    return MBA_OK;
}
