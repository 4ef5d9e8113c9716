// SPDX-License-Identifier: Apache-2.0
/* lap_encoder_cuda.cu -- a small network per eigenvector, summed over eigenvectors, and the gradients of its weights.
 *
 *   h = relu(wa (sign phi[v,k], lam[v,k]) + ba),   y[v] = sum_k relu(wb h + bb)   over the eigenvectors k of v's graph
 *   phi, lam (N, K)     wa (H, 2), ba (H), wb (p, H), bb (p), H = 2p     y, dy (N, p); all fp32
 *
 * kernel     lap_encoder_fwd_warps     a warp per node, one pair after another; lanes are hidden units, then outputs
 * takes      everything whose weights fit in shared memory
 * launch     grid ceil(N/32), block 256, dynamic smem 4 (H (3 + p) + p + K + 8 H) bytes
 * resources  sm_90a, CUDA 13.0: 40 registers, no spill  [docs]
 * moves      phi, lam and y once; N K p H FMA, two of three instructions are loads from shared memory: bound by those
 * measured   H200: 69.8 us, 5 % of floor (vector), L1/shared 74 % busy; graphmamba-peptides-func, 128 graphs  [docs]
 * order      fixed: hidden units ascend, then eigenvectors
 *
 * kernel     lap_encoder_bwd_parts     a block per 32 nodes, 32 pairs at a time; recomputes hidden units and outputs
 * takes      everything whose weights fit in shared memory (8 pairs at a time if 32 do not fit)
 * launch     grid ceil(N/32), block 256, dynamic smem 4 (3H + p (H + 1) + p + K + pairs (H + p + 3)) bytes
 * resources  sm_90a, CUDA 13.0: 42 registers, 128 B of shared memory, no spill  [docs]
 * moves      phi, lam and dy once, a set of gradients per part; 3 N K p H FMA: bound by shared memory
 * measured   H200: 159 us, 7 % of floor (vector), L1/shared 53 % busy; graphmamba-peptides-func, 128 graphs  [docs]
 * order      fixed: pairs ascend, one thread owns each gradient; parts in order (column_totals) */
#include "device/cuda/columns.cuh"
extern "C" {
#include "ops/lap_encoder/lap_encoder_slots.h"
}

enum { BLOCK = LAP_WARPS * 32, OUTPUTS = LAP_HIDDEN_MAX / 2 / 32 }; /* OUTPUTS: outputs per lane, at most */

struct network {
    const float *wa, *ba, *wb, *bb;
    int          p, K;
    uint64_t     stream;
    bool         flip;
};
struct positions {
    strided_view<const float> phi, lam;
    ragged                    nodes;
};

/* lap_sign of lap_encoder_slots.h, with the same bits. */
static __device__ __forceinline__ float sign_of(const network &n, const mba_step *step, int k)
{
    uint32_t u[4];
    if (!n.flip) return 1;
    philox(u, step->seed ^ n.stream, mba_step_counter(step), (uint64_t)k / 4);
    const uint32_t bits = k % 4 == 0 ? u[0] : k % 4 == 1 ? u[1] : k % 4 == 2 ? u[2] : u[3];
    return bits & 1 ? -1.0f : 1.0f;
}

/* Sections of shared memory. wb has rows of `pitch`: forward H rows of p (transposed), backward p rows of H + 1. */
struct layout {
    float *wa, *ba, *wb, *bb, *sign, *rest;
};

static __device__ __forceinline__ layout load_weights(float *smem, const network &n, const mba_step *step,
                                                      bool transposed)
{
    const int    H = 2 * n.p;
    const layout s = { smem,
                       smem + 2 * H,
                       smem + 3 * H,
                       smem + 3 * H + n.p * (transposed ? H : H + 1),
                       smem + 3 * H + n.p * (transposed ? H : H + 1) + n.p,
                       smem + 3 * H + n.p * (transposed ? H : H + 1) + n.p + n.K };
    for (int i = (int)threadIdx.x; i < 2 * H; i += BLOCK) s.wa[i] = n.wa[i];
    for (int i = (int)threadIdx.x; i < H; i += BLOCK) s.ba[i] = n.ba[i];
    for (int i = (int)threadIdx.x; i < n.p * H; i += BLOCK)
        if (transposed) s.wb[i % H * n.p + i / H] = n.wb[i];
        else s.wb[i / H * (H + 1) + i % H] = n.wb[i];
    for (int i = (int)threadIdx.x; i < n.p; i += BLOCK) s.bb[i] = n.bb[i];
    for (int i = (int)threadIdx.x; i < n.K; i += BLOCK) s.sign[i] = sign_of(n, step, i);
    __syncthreads();
    return s;
}

__global__ void __launch_bounds__(BLOCK)
    lap_encoder_fwd_warps(strided_view<float> y, positions x, network n, const mba_step *step)
{
    extern __shared__ float smem[];
    const layout            s = load_weights(smem, n, step, true);
    const int               lane = threadIdx.x % 32, warp = threadIdx.x / 32, H = 2 * n.p;
    const int64_t           real = valid_rows_of(x.nodes, step);
    float                  *hidden = s.rest + warp * H;
    for (int i = warp; i < LAP_NODES; i += LAP_WARPS) {
        const int64_t v = (int64_t)blockIdx.x * LAP_NODES + i;
        if (v >= x.nodes.all) return; // no block-wide barrier follows
        const float *phi = x.phi.row(v, n.K), *lam = x.lam.row(v, n.K);
        float        sum[OUTPUTS] = { 0 };
        for (int k = 0; k < n.K && v < real; k++) {
            const float a = phi[k] * s.sign[k], b = lam[k];
            if (a != a || b != b) continue; // NaN: a missing eigenvector; uniform across the warp
            __syncwarp();                   // all lanes are done with the previous pair
            for (int m = lane; m < H; m += 32) hidden[m] = fmaxf(0.0f, s.wa[2 * m] * a + s.wa[2 * m + 1] * b + s.ba[m]);
            __syncwarp();
#pragma unroll
            for (int j = 0; j < OUTPUTS; j++) {
                const int o = lane + 32 * j;
                if (o >= n.p) break;
                float z = s.bb[o];
                for (int m = 0; m < H; m++) z += s.wb[m * n.p + o] * hidden[m];
                sum[j] += fmaxf(0.0f, z);
            }
        }
        float *to = y.row(v, n.p);
#pragma unroll
        for (int j = 0; j < OUTPUTS; j++)
            if (lane + 32 * j < n.p) to[lane + 32 * j] = sum[j];
    }
}

/* ---- backward ---- */

/* Pairs `from` .. of the block's nodes: inputs of the network (zeros for missing pairs), hidden units, and gradients of
 * outputs. */
struct batch {
    float *in, *hidden, *dout;
    int    pairs;
}; /* (2, pairs), (pairs, H + 1), (pairs, p) */

static __device__ __forceinline__ int node_of(const positions &x, const network &n, int64_t first, int64_t real,
                                              int pair)
{
    const int64_t v = first + pair / n.K;
    if (pair >= LAP_NODES * n.K || v >= real) return -1;
    const float a = x.phi.row(v, n.K)[pair % n.K], b = x.lam.row(v, n.K)[pair % n.K];
    return a != a || b != b ? -1 : pair / n.K;
}

/* Computes in, hidden, and dout: dy where an output is positive, else 0. `whose` gets the node of each pair. */
static __device__ void make_batch(const batch &t, int *whose, const layout &s, const positions &x,
                                  strided_view<const float> dy, const network &n, int64_t first, int64_t real, int from)
{
    const int H = 2 * n.p;
    for (int j = (int)threadIdx.x; j < t.pairs; j += BLOCK) {
        const int node = node_of(x, n, first, real, from + j), k = (from + j) % n.K;
        whose[j] = node;
        t.in[j] = node < 0 ? 0 : x.phi.row(first + node, n.K)[k] * s.sign[k];
        t.in[t.pairs + j] = node < 0 ? 0 : x.lam.row(first + node, n.K)[k];
    }
    __syncthreads();
    for (int i = (int)threadIdx.x; i < t.pairs * H; i += BLOCK) {
        const int j = i / H, m = i % H;
        t.hidden[j * (H + 1) + m] = fmaxf(0.0f, s.wa[2 * m] * t.in[j] + s.wa[2 * m + 1] * t.in[t.pairs + j] + s.ba[m]);
    }
    __syncthreads();
    for (int i = (int)threadIdx.x; i < t.pairs * n.p; i += BLOCK) {
        const int j = i / n.p, o = i % n.p;
        float     z = s.bb[o];
        for (int m = 0; m < H && whose[j] >= 0; m++) z += s.wb[o * (H + 1) + m] * t.hidden[j * (H + 1) + m];
        t.dout[i] = whose[j] >= 0 && z > 0 ? dy.row(first + whose[j], n.p)[o] : 0;
    }
    __syncthreads();
}

static __device__ __forceinline__ void add(float *part, int i, float sum, bool begins)
{
    part[i] = sum + (begins ? 0 : part[i]);
}

/* Adds to the partial gradients wa (H, 2), ba (H), wb (p, H), bb (p). Thread i % BLOCK always owns gradient i. */
static __device__ void add_second_layer(float *part, const batch &t, int p, bool begins)
{
    const int H = 2 * p;
    for (int i = (int)threadIdx.x; i < p * H; i += BLOCK) {
        const int o = i / H, m = i % H;
        float     sum = 0;
        for (int j = 0; j < t.pairs; j++) sum += t.dout[j * p + o] * t.hidden[j * (H + 1) + m];
        add(part + 3 * H, i, sum, begins);
    }
    for (int o = (int)threadIdx.x; o < p; o += BLOCK) {
        float sum = 0;
        for (int j = 0; j < t.pairs; j++) sum += t.dout[j * p + o];
        add(part + 3 * H + p * H, o, sum, begins);
    }
    __syncthreads();
}

static __device__ void add_first_layer(float *part, const batch &t, const layout &s, int p, bool begins)
{
    const int H = 2 * p;
    for (int i = (int)threadIdx.x; i < t.pairs * H; i += BLOCK) { // replaces hidden units by their gradients
        const int j = i / H, m = i % H;
        float     d = 0;
        for (int o = 0; o < p; o++) d += t.dout[j * p + o] * s.wb[o * (H + 1) + m];
        t.hidden[j * (H + 1) + m] = t.hidden[j * (H + 1) + m] > 0 ? d : 0;
    }
    __syncthreads();
    for (int i = (int)threadIdx.x; i < 3 * H; i += BLOCK) {
        const int m = i < 2 * H ? i / 2 : i - 2 * H;
        float     sum = 0;
        for (int j = 0; j < t.pairs; j++)
            sum += t.hidden[j * (H + 1) + m] * (i < 2 * H ? t.in[i % 2 * t.pairs + j] : 1);
        add(part, i, sum, begins);
    }
    __syncthreads();
}

__global__ void __launch_bounds__(BLOCK)
    lap_encoder_bwd_parts(float *parts, positions x, strided_view<const float> dy, network n, int64_t grads, int pairs,
                          const mba_step *step)
{
    extern __shared__ float smem[];
    __shared__ int          whose[LAP_PAIRS];
    const layout            s = load_weights(smem, n, step, false);
    const int               H = 2 * n.p;
    const batch             t = { s.rest, s.rest + 2 * pairs, s.rest + 2 * pairs + pairs * (H + 1), pairs };
    const int64_t           real = valid_rows_of(x.nodes, step), first = (int64_t)blockIdx.x * LAP_NODES;
    float                  *part = parts + blockIdx.x * grads;
    for (int from = 0; from < LAP_NODES * n.K;
         from += pairs) {                              // at least once, which writes zeros if there are no pairs
        if (from && first + from / n.K >= real) break; // uniform across the block
        make_batch(t, whose, s, x, dy, n, first, real, from);
        add_second_layer(part, t, n.p, from == 0);
        add_first_layer(part, t, s, n.p, from == 0);
    }
}

struct put_grads {
    float          *to[4];
    int64_t         end[4];
    bool            adds[4];
    __device__ void operator()(int64_t i, const float (&total)[1], const mba_step *) const
    {
        const int     k = i < end[0] ? 0 : i < end[1] ? 1 : i < end[2] ? 2 : 3;
        float *const  out = k == 0 ? to[0] : k == 1 ? to[1] : k == 2 ? to[2] : to[3];
        const int64_t at = i - (k == 0 ? 0 : k == 1 ? end[0] : k == 2 ? end[1] : end[2]);
        const bool    plus = k == 0 ? adds[0] : k == 1 ? adds[1] : k == 2 ? adds[2] : adds[3];
        out[at] = total[0] + (plus ? out[at] : 0);
    }
};

static network network_of(const mba_call *c)
{
    const mba_node *n = c->node;
    const network   w = { (const float *)c->in[WA],
                          (const float *)c->in[BA],
                          (const float *)c->in[WB],
                          (const float *)c->in[BB],
                          (int)mba_elems(n->in[BB]),
                          (int)mba_cols(n->in[PHI]),
                          n->stream,
                          ((const lap_encoder_attr *)n->attr)->flip != 0 };
    return w;
}

static positions positions_of(const mba_call *c)
{
    const mba_tensor *phi = c->node->in[PHI], *lam = c->node->in[LAM];
    const positions   x = { mba_strided_view<const float>(phi, c->in[PHI]),
                            mba_strided_view<const float>(lam, c->in[LAM]), mba_ragged_rows(phi) };
    return x;
}

extern "C" mba_status lap_encoder_cuda(const mba_call *c)
{
    MBA_KERNEL(c, 0, lap_encoder_fwd_warps, mba_strided_view<float>(c->node->out[Y], c->out[Y]), positions_of(c),
               network_of(c), c->step);
    return MBA_OK;
}

extern "C" mba_status lap_encoder_bwd_cuda(const mba_call *c)
{
    const mba_node *n = c->node;
    const network   w = network_of(c);
    const int64_t   grads = lap_grads(w.p);
    const bool      many = c->plan->launch[0].smem_bytes == sizeof(float) * lap_bwd_floats(w.p, w.K, LAP_PAIRS);
    float          *part = (float *)mba_cuda_scratch(c, 0);
    put_grads       put = {};
    for (int k = 0; k < 4; k++) {
        put.to[k] = (float *)c->out[DWA + k];
        put.end[k] = (k ? put.end[k - 1] : 0) + mba_elems(n->out[DWA + k]);
        put.adds[k] = mba_adds(n, DWA + k);
    }
    MBA_KERNEL(c, 0, lap_encoder_bwd_parts, part, positions_of(c), mba_strided_view<const float>(n->in[DY], c->in[DY]),
               w, grads, many ? (int)LAP_PAIRS : (int)LAP_PAIRS_FEW, c->step);
    return mba_column_totals<1>(c, 1, part, grads, c->plan->launch[0].grid[0], put);
}
