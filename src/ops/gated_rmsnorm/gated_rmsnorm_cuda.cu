/* gated_rmsnorm_cuda.cu -- the norm behind Mamba-2's SSD, gate first.
 *
 *   q = y silu(z)     v = w q rstd     rstd = 1 / sqrt(mean(q^2) + eps), per row and group of P channels
 *   dq = rstd (w dv - qhat c)     dy = dq silu(z)     dz = dq y silu'(z)     dw = sum over rows of dv qhat
 *   y, z, v, dv, dy, dz (R, G P) fp32 or bf16     w, dw (G P), rstd (R, G) fp32
 *
 * kernel     gated_fwd_team     a team of threads per group of a row, q stays in registers
 * kernel     gated_bwd_team     blocks stay and keep to one group; rows with a stride, the next one on its way by asynchronous
 *                               copies into the thread's own slots; sigmoid(z) and dw in registers
 * takes      groups of whole 16-byte pieces, up to 2048 of them
 * launch     as planned in ops/norm_plan.h; backward: dynamic smem two rows of each team
 * resources  sm_90: forward 40 to 100 registers, backward 54 to 126; no spill
 * moves      forward reads 2 and writes 1 row, backward reads 3 and writes 2, or 3 where v is made again: bound by DRAM
 * floor      R=16384 C=1536 bf16: forward 151 MB, 35 us, backward 252 MB, 59 us at 4.3 TB/s (copy)
 * measured   none yet
 * kernel     gated_fwd_loop, gated_bwd_loop     a block per group of a row, which is read twice
 * takes      everything
 * order      fixed by shape and machine, as in ops/norm_rows.cuh */
#include "ops/norm_rows.cuh"
extern "C" {
#include "ops/gated_rmsnorm/gated_rmsnorm_slots.h"
}

template <typename T> struct gated_rows {
    window<const T> y, z;                         // (R, G P)
    window<T>       v;
    const float    *w;
    float          *rstd;                         // (R, G)
    int64_t         rows;
    int             groups, cols, threads;        // cols: P
    float           eps;
};

template <typename T, int V, int NV> __global__ void __launch_bounds__(MBA__TEAM_MAX, 1) gated_fwd_team(gated_rows<T> a)
{
    __shared__ float warps[MBA__TEAM_MAX / 32];
    const int     lane = threadIdx.x % a.threads;
    const int64_t unit = (int64_t)blockIdx.x * (blockDim.x / a.threads) + threadIdx.x / a.threads, row = unit / a.groups;
    const int64_t wide = (int64_t)a.groups * a.cols, at = (unit - row * a.groups) * a.cols;       // the group's first channel
    const int     end = row < a.rows ? a.cols : 0;
    float         q[NV][V], z[NV][V], ss = 0;
#pragma unroll
    for (int i = 0; i < NV; i++) {
        const int c = (lane + i * a.threads) * V;
#pragma unroll
        for (int v = 0; v < V; v++) q[i][v] = z[i][v] = 0;
        if (c < end) load(q[i], a.y.row(row, wide) + at + c);
        if (c < end) load(z[i], a.z.row(row, wide) + at + c);
    }
#pragma unroll
    for (int i = 0; i < NV; i++)
#pragma unroll
        for (int v = 0; v < V; v++) {
            q[i][v] *= silu(z[i][v]);
            ss = fmaf(q[i][v], q[i][v], ss);
        }
    const float k = rsqrtf(team_sum<true>(ss, a.threads, warps) / (float)a.cols + a.eps);
    if (lane == 0 && end) a.rstd[unit] = k;
#pragma unroll
    for (int i = 0; i < NV; i++) {
        const int c = (lane + i * a.threads) * V;
        if (c >= end) continue;
        float w[V];
        load_weights(w, a.w + at + c);
#pragma unroll
        for (int v = 0; v < V; v++) w[v] *= q[i][v] * k;
        store(a.v.row(row, wide) + at + c, w);
    }
}

template <typename T> __global__ void __launch_bounds__(MBA__LOOP_THREADS) gated_fwd_loop(gated_rows<T> a)
{
    __shared__ float warps[MBA__LOOP_THREADS / 32];
    const int64_t unit = blockIdx.x, row = unit / a.groups, wide = (int64_t)a.groups * a.cols, at = (unit - row * a.groups) * a.cols;
    const T      *y = a.y.row(row, wide) + at, *z = a.z.row(row, wide) + at;
    float         ss = 0;
    for (int c = threadIdx.x; c < a.cols; c += MBA__LOOP_THREADS) {
        const float q = to_float(y[c]) * silu(to_float(z[c]));
        ss += q * q;
    }
    const float k = rsqrtf(team_sum<true>(ss, MBA__LOOP_THREADS, warps) / (float)a.cols + a.eps);
    if (threadIdx.x == 0) a.rstd[unit] = k;
    for (int c = threadIdx.x; c < a.cols; c += MBA__LOOP_THREADS)
        a.v.row(row, wide)[at + c] = from_float<T>(to_float(y[c]) * silu(to_float(z[c])) * k * a.w[at + c]);
}

template <typename T> struct gated_grads {
    window<const T> y, z, dv;                     // (R, G P)
    window<T>       dy, dz, v;                    // v: absent where nobody wants it
    const float    *w, *rstd;
    float          *part;                         // (parts, G P)
    int64_t         rows;
    int             groups, cols, threads;
    bool            dy_adds, dz_adds;
};

template <typename T, int V, int NV> __global__ void __launch_bounds__(MBA__TEAM_MAX, 1) gated_bwd_team(gated_grads<T> a)
{
    enum { OPERANDS = 3, OF_Y = 0, OF_Z = 1, OF_DV = 2 };
    extern __shared__ uint4 memory[];
    __shared__ float warps[2][MBA__TEAM_MAX / 32];
    const int     lane = threadIdx.x % a.threads, team = threadIdx.x / a.threads, teams = blockDim.x / a.threads;
    const int64_t wide = (int64_t)a.groups * a.cols, at = (int64_t)blockIdx.y * a.cols, step = (int64_t)gridDim.x * teams;
    const auto slot = [=](int stage, int operand, int i) {           // 16 bytes of this thread
        return (T *)(memory + ((stage * OPERANDS + operand) * NV + i) * blockDim.x + threadIdx.x); };
    const auto fetch = [&](int64_t row, int stage) {
        if (row < a.rows)
#pragma unroll
            for (int i = 0; i < NV; i++) {
                const int c = (lane + i * a.threads) * V;
                if (c >= a.cols) continue;
                copy_async<16>(slot(stage, OF_Y, i), a.y.row(row, wide) + at + c);
                copy_async<16>(slot(stage, OF_Z, i), a.z.row(row, wide) + at + c);
                copy_async<16>(slot(stage, OF_DV, i), a.dv.row(row, wide) + at + c);
            }
        copy_async_commit();
    };

    float dw[NV][V];
#pragma unroll
    for (int i = 0; i < NV; i++)
#pragma unroll
        for (int v = 0; v < V; v++) dw[i][v] = 0;
    int64_t row = (int64_t)blockIdx.x * teams + team;
    float   next = row < a.rows ? a.rstd[row * a.groups + blockIdx.y] : 0;
    int     stage = 0;
    fetch(row, 0);
    for (int64_t first = (int64_t)blockIdx.x * teams; first < a.rows; first += step, row += step, stage ^= 1) {
        const float k = next;
        const int   end = row < a.rows ? a.cols : 0;
        fetch(row + step, stage ^ 1);
        next = row + step < a.rows ? a.rstd[(row + step) * a.groups + blockIdx.y] : 0;
        copy_async_wait<1>();

        // 1. open the gate: the sum over q w dv
        float gate[NV][V], dot = 0;                                  // sigmoid(z)
#pragma unroll
        for (int i = 0; i < NV; i++) {
            const int c = (lane + i * a.threads) * V;
            if (c >= end) continue;
            float y[V], z[V], dv[V], w[V];
            load(z, slot(stage, OF_Z, i));
            load(y, slot(stage, OF_Y, i));
            load(dv, slot(stage, OF_DV, i));
            load_weights(w, a.w + at + c);
#pragma unroll
            for (int v = 0; v < V; v++) {
                gate[i][v] = sigmoid(z[v]);
                y[v] *= z[v] * gate[i][v];
                dot = fmaf(y[v], w[v] * dv[v], dot);
                y[v] = w[v] * (y[v] * k);                            // v once more, as the forward kernel makes it
            }
            if (a.v.at) store(a.v.row(row, wide) + at + c, y);
        }
        const float back = team_sum<false>(dot, a.threads, warps[stage]) / (float)a.cols * k * k * k;

        // 2. gradients
#pragma unroll
        for (int i = 0; i < NV; i++) {
            const int c = (lane + i * a.threads) * V;
            if (c >= end) continue;
            float y[V], z[V], dv[V], w[V];
            load(z, slot(stage, OF_Z, i));
            load(y, slot(stage, OF_Y, i));
            load(dv, slot(stage, OF_DV, i));
            load_weights(w, a.w + at + c);
#pragma unroll
            for (int v = 0; v < V; v++) {
                const float s = gate[i][v], open = z[v] * s, q = y[v] * open, t = dv[v] * k, dq = fmaf(w[v], t, -q * back);
                dw[i][v] = fmaf(q, t, dw[i][v]);
                dv[v]    = dq * open;
                z[v]     = dq * y[v] * fmaf(open, 1 - s, s);
            }
            put_grad(a.dy.row(row, wide) + at + c, dv, a.dy_adds);
            put_grad(a.dz.row(row, wide) + at + c, z, a.dz_adds);    // may be dy itself: read after dy is written
        }
    }
    keep_part(a.part + blockIdx.x * wide + at, (float *)memory, dw, a.threads, a.cols);
}

template <typename T> __global__ void __launch_bounds__(MBA__LOOP_THREADS) gated_bwd_loop(gated_grads<T> a)
{
    __shared__ float warps[2][MBA__LOOP_THREADS / 32];
    const int64_t wide = (int64_t)a.groups * a.cols, at = (int64_t)blockIdx.y * a.cols;
    float        *part = a.part + blockIdx.x * wide + at;
    int           turn = 0;
    for (int64_t row = blockIdx.x; row < a.rows; row += gridDim.x, turn ^= 1) {
        const T    *y = a.y.row(row, wide) + at, *z = a.z.row(row, wide) + at, *dv = a.dv.row(row, wide) + at;
        const float k = a.rstd[row * a.groups + blockIdx.y], *w = a.w + at;
        float       dot = 0;
        for (int c = threadIdx.x; c < a.cols; c += MBA__LOOP_THREADS) dot += to_float(y[c]) * silu(to_float(z[c])) * w[c] * to_float(dv[c]);
        const float back = team_sum<true>(dot, MBA__LOOP_THREADS, warps[turn]) / (float)a.cols * k * k * k;
        for (int c = threadIdx.x; c < a.cols; c += MBA__LOOP_THREADS) {
            const float yc = to_float(y[c]), zc = to_float(z[c]), s = sigmoid(zc), open = zc * s, q = yc * open;
            const float t = to_float(dv[c]) * k, dq = w[c] * t - q * back;
            const float dy[1] = { dq * open }, dz[1] = { dq * yc * (s + open * (1 - s)) };
            if (a.v.at) a.v.row(row, wide)[at + c] = from_float<T>(q * k * w[c]);
            part[c] = q * t + (row == blockIdx.x ? 0 : part[c]);
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
    a.y       = mba_window<const T>(n->in[Y], c->in[Y]);
    a.z       = mba_window<const T>(n->in[Z], c->in[Z]);
    a.v       = mba_window<T>(n->out[V], c->out[V]);
    a.w       = (const float *)c->in[W];
    a.rstd    = (float *)c->out[RSTD];
    a.rows    = mba_rows(n->in[Y]);
    a.groups  = (int)t->groups;
    a.cols    = (int)(mba_cols(n->in[Y]) / t->groups);
    a.eps     = (float)t->eps;
    a.threads = gated_rmsnorm_team(n).threads;
    return a;
}

extern "C" mba_status gated_rmsnorm_cuda(const mba_call *c)
{
    MBA_WITH_DTYPE(c->node->in[Y]->type.dtype, T, MBA_WITH_PIECES(gated_rmsnorm_team(c->node).pieces, NV,
        MBA_KERNEL(c, 0, (gated_fwd_team<T, 16 / sizeof(T), NV>), rows_of<T>(c))));
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
    a.y       = mba_window<const T>(n->in[Y], c->in[Y]);
    a.z       = mba_window<const T>(n->in[Z], c->in[Z]);
    a.dv      = mba_window<const T>(n->in[DV], c->in[DV]);
    a.dy      = mba_window<T>(n->out[DY], c->out[DY]);
    a.dz      = mba_window<T>(n->out[DZ], c->out[DZ]);
    a.v       = mba_window<T>(n->out[V_AGAIN], c->out[V_AGAIN]);
    a.w       = (const float *)c->in[W];
    a.rstd    = (const float *)c->in[RSTDB];
    a.part    = (float *)mba_cuda_scratch(c, 0);
    a.rows    = mba_rows(n->in[Y]);
    a.groups  = (int)t->groups;
    a.cols    = (int)(mba_cols(n->in[Y]) / t->groups);
    a.threads = gated_rmsnorm_team(n).threads;
    a.dy_adds = mba_adds(n, DY);
    a.dz_adds = mba_adds(n, DZ);
    return a;
}

extern "C" mba_status gated_rmsnorm_bwd_cuda(const mba_call *c)
{
    MBA_WITH_DTYPE(c->node->in[Y]->type.dtype, T, MBA_WITH_PIECES(gated_rmsnorm_team(c->node).pieces, NV,
        MBA_KERNEL(c, 0, (gated_bwd_team<T, 16 / sizeof(T), NV>), grads_of<T>(c))));
    return mba__norm_dw(c, DW, mba_cols(c->node->in[Y]));
}

extern "C" mba_status gated_rmsnorm_bwd_loop_cuda(const mba_call *c)
{
    MBA_WITH_DTYPE(c->node->in[Y]->type.dtype, T, MBA_KERNEL(c, 0, gated_bwd_loop<T>, grads_of<T>(c)));
    return mba__norm_dw(c, DW, mba_cols(c->node->in[Y]));
}
