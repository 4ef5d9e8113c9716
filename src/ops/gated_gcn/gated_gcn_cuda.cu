// SPDX-License-Identifier: Apache-2.0
/* gated_gcn_cuda.cu -- gated messages along the edges of a graph, summed at their targets; backward at sources too.
 *
 *   eh[k] = d[i] + e[j] + c[k],  s = sigmoid(eh),  x_i = a_i + sum s b_j / (sum s + tiny)      over edges k = (j -> i)
 *   a, b, d, e, x (N, H), c, eh (E, H) fp32 or bf16     agg, rden (N, H) fp32     src, in_ptr, out_ptr, out_edge i32
 *
 * kernel     gated_gcn_nodes      a thread group (V columns per thread) takes the edges into a node; nodes with many
 *                                 edges have several groups, hubs the whole block
 * kernel     gated_gcn_targets    the same: t and s gn of every edge, da, dd
 * kernel     gated_gcn_sources    the same over the edges out of a node, with what gated_gcn_targets left: de, db
 * takes      everything; V is 16 bytes, else 8 bytes of bf16, else one value
 * launch     by gated_gcn_node_loop_of, block 256; sums of groups are added in shared memory (at most 16 KB, static)
 * resources  sm_90a, CUDA 13.0: gated_gcn_nodes 56 to 80 registers, 2048 to 16384 B of shared memory, no spill  [docs]
 *            gated_gcn_targets 55 to 101 registers, 1024 to 8192 B of shared memory, no spill  [docs]
 *            gated_gcn_sources 56 to 80 registers, 2048 to 16384 B of shared memory, no spill  [docs]
 *            no spill on sm_80 and sm_100 either
 * moves      forward: a, d, c once, b and e once per edge (from L2 where neighbours share them), x, eh, agg, rden once;
 *            backward: dx, agg, rden, eh, deh once, b once per edge, da, dd, dc once; s gn and t written and read once
 * floor      VOC (N 15,341, E 86,735, H 96, bf16), gathered rows from L2, 4.3 TB/s: forward 60 MB, 14 us; backward
 *            129 MB, 30 us
 * measured   H200: gated_gcn_nodes 18.4 us, 64 % of floor (memory), ALU 30 % busy;  [docs]
 *              graphmamba-peptides-func, 128 graphs  [docs]
 *            gated_gcn_targets 24.5 us, 59 % of floor (memory), DRAM 38 % busy;  [docs]
 *              graphmamba-peptides-func, 128 graphs  [docs]
 *            gated_gcn_sources 10.9 us, 50 % of floor (memory), ALU 30 % busy;  [docs]
 *              graphmamba-peptides-func, 128 graphs  [docs]
 * order      fixed: edges of a group, groups of a node
 *
 * eh may share the memory of c, and dc that of deh: the thread that overwrites a value reads it before. If one tensor
 * is two inputs, one thread writes both gradients, one after the other. */
#include "device/cuda/common.cuh"
extern "C" {
#include "ops/gated_gcn/gated_gcn_slots.h"
}

/* Rows with one pitch, which `shape` requires: the address of a row needs one multiplication. */
template <typename T> struct rows {
    T                            *at;
    int64_t                       pitch;
    __device__ __forceinline__ T *operator()(uint32_t r, int column) const { return at + r * pitch + column; }
};

template <typename T> static rows<T> rows_of(const mba_tensor *t, void *at)
{
    const rows<T> r = { t ? (T *)at : NULL, t ? mba_strided_view<T>(t, at).pitch : 0 };
    return r;
}

/* Arguments of all kernels. Nodes beyond the step's count are cleared. */
struct node_loop {
    gated_gcn_node_loop w;
    const int32_t      *ptr;
    int64_t             nodes, cols;
    const mba_step     *step;
    mba_count           kind;
};

/* Position of a thread: its group, and columns `column` .. + V - 1 of the group's node. */
struct place {
    int  group, column;
    bool active;
};

template <int V> static __device__ __forceinline__ place place_of(const node_loop &k)
{
    place p;
    p.group = threadIdx.x / k.w.lanes;
    p.column = (blockIdx.y * k.w.lanes + threadIdx.x % k.w.lanes) * V;
    p.active = p.group < k.w.groups && p.column < k.cols;
    return p;
}

static __device__ __forceinline__ int64_t real_nodes(const node_loop &k)
{
    return mba_step_rows(k.step, k.kind, k.nodes);
}

/* V values in their packed type, which takes half the registers of fp32 while a thread waits for the others. */
template <typename T, int V> struct packed_values {
    typename word<V * sizeof(T)>::type w;
    __device__ __forceinline__ void  load_from(const T *from) { w = *(const typename word<V * sizeof(T)>::type *)from; }
    __device__ __forceinline__ float value(int v) const
    {
        union {
            typename word<V * sizeof(T)>::type w;
            T                                  v[V];
        } u;
        u.w = w;
        return to_float(u.v[v]);
    }
};

/* Loads V values that may be fp32 and more than 16 bytes. */
template <int V, typename T> static __device__ __forceinline__ void load_wide(float (&to)[V], const T *from)
{
    constexpr int N = V * sizeof(T) > 16 ? 16 / sizeof(T) : V;
    float         part[N];
#pragma unroll
    for (int v = 0; v < V; v += N) {
        load(part, from + v);
#pragma unroll
        for (int u = 0; u < N; u++) to[v + u] = part[u];
    }
}

template <int V, typename T> static __device__ __forceinline__ void store_wide(T *to, const float (&from)[V])
{
    constexpr int N = V * sizeof(T) > 16 ? 16 / sizeof(T) : V;
    float         part[N];
#pragma unroll
    for (int v = 0; v < V; v += N) {
#pragma unroll
        for (int u = 0; u < N; u++) part[u] = from[v + u];
        store(to + v, part);
    }
}

template <int V, typename T>
static __device__ __forceinline__ void store_or_add(T *to, const float (&from)[V], bool adds)
{
    float x[V];
#pragma unroll
    for (int v = 0; v < V; v++) x[v] = 0;
    if (adds) load(x, to);
#pragma unroll
    for (int v = 0; v < V; v++) x[v] += from[v];
    store(to, x);
}

template <int V, typename T> static __device__ __forceinline__ void store_zeros(T *to)
{
    float zero[V];
#pragma unroll
    for (int v = 0; v < V; v++) zero[v] = 0;
    store_wide(to, zero);
}

/* Clears rows of edges beyond the last valid one, divided among the thread groups of the grid. */
template <int V, typename T>
static __device__ __forceinline__ void clear_edges(const rows<T> &x, const node_loop &k, int64_t edges)
{
    const place   p = place_of<V>(k);
    const int64_t step = (int64_t)gridDim.x * k.w.groups, first = (int64_t)blockIdx.x * k.w.groups + p.group;
    if (!p.active) return;
    for (int64_t r = k.ptr[real_nodes(k)] + first; r < edges; r += step) store_zeros<V>(x(r, p.column));
}

/* Adds the sums of `count` groups in order; the first group gets the total. Every thread of the block must call
 * this. */
template <int K, int V>
static __device__ __forceinline__ void gather(float (&sum)[K][V], int lanes, int count, bool first)
{
    __shared__ float shelf[K * V][GATED_GCN_THREADS];
    __syncthreads(); // all reads of the previous call are done
#pragma unroll
    for (int v = 0; v < K * V; v++) shelf[v][threadIdx.x] = sum[v / V][v % V];
    __syncthreads();
    if (!first) return;
    for (int s = 1; s < count; s++)
#pragma unroll
        for (int v = 0; v < K * V; v++) sum[v / V][v % V] += shelf[v][threadIdx.x + s * lanes];
}

template <int K, int V> static __device__ __forceinline__ void start(float (&sum)[K][V])
{
#pragma unroll
    for (int v = 0; v < K * V; v++) sum[v / V][v % V] = 0;
}

/* The edges of a node that one group takes: every stride-th. */
struct edge_list {
    uint32_t from, to, stride;
};

/* Calls f.edges(sum, node, column, list) to add edges to the K sums of a node, f.finish(node, column, sum) with the
 * totals, and f.clear(node, column) for nodes beyond the count. */
template <int K, int V, typename F> static __device__ __forceinline__ void for_each_node(const F &f, const node_loop &k)
{
    const place    p = place_of<V>(k);
    const int      slot = p.group / k.w.split, turn = p.group % k.w.split;
    const int      real = (int)real_nodes(k), first = blockIdx.x * k.w.nodes, own = first + slot;
    const int      last = real - first < k.w.nodes ? real : first + k.w.nodes;
    const bool     mine = p.active && slot < k.w.nodes && own < k.nodes;
    const uint32_t limit = (uint32_t)k.w.hub;
    float          sum[K][V];

    if (mine && own >= real && turn == 0) f.clear(own, p.column);
    /* Iteration first - 1: every node that is no hub, by its own groups. Then the hubs, each by all groups. */
    for (int i = first - 1; i < last; i++) {
        const bool     together = i >= first, takes_part = together ? p.active : mine && own < real;
        const int      node = together ? i : own;
        const uint32_t from = takes_part ? k.ptr[node] : 0, to = takes_part ? k.ptr[node + 1] : 0;
        const bool     hub = to - from > limit;
        if (together && !__syncthreads_or(hub)) continue;
        const int groups = together ? k.w.groups : k.w.split, number = together ? p.group : turn;
        start(sum);
        if (takes_part && hub == together) f.edges(sum, node, p.column, { from + number, to, (uint32_t)groups });
        if (groups > 1) gather(sum, k.w.lanes, groups, takes_part && number == 0);
        if (takes_part && hub == together && number == 0) f.finish(node, p.column, sum);
        if (!together && !__syncthreads_or(hub)) return;
    }
}

/* Edges whose rows a thread loads before it uses the first. */
template <typename T, int V> struct at_once {
    enum { N = V * sizeof(T) == 16 ? 2 : 4 };
};

/* ---- forward ---- */

enum { NUM, DEN };

template <typename T, int V> struct forward {
    rows<const T>  a, b, d, e, c;
    rows<T>        xt, eh;
    rows<float>    agg, rden;
    const int32_t *src;

    __device__ __forceinline__ void edges(float (&sum)[2][V], int node, int column, edge_list l) const
    {
        constexpr int       N = at_once<T, V>::N;
        packed_values<T, V> here, gate[N], message[N], edge[N];
        float               x[V];
        if (l.from >= l.to) return;
        here.load_from(d(node, column));
        for (uint32_t k = l.from; k < l.to; k += N * l.stride) {
#pragma unroll
            for (int u = 0; u < N; u++) {
                const uint32_t at = k + u * l.stride;
                if (at >= l.to) continue;
                const int j = src[at];
                gate[u].load_from(e(j, column));
                message[u].load_from(b(j, column));
                edge[u].load_from(c(at, column));
            }
#pragma unroll
            for (int u = 0; u < N; u++) {
                const uint32_t at = k + u * l.stride;
                if (at >= l.to) continue;
#pragma unroll
                for (int v = 0; v < V; v++) {
                    x[v] = here.value(v) + gate[u].value(v) + edge[u].value(v);
                    const float s = sigmoid(x[v]);
                    sum[NUM][v] += s * message[u].value(v);
                    sum[DEN][v] += s;
                }
                store(eh(at, column), x);
            }
        }
    }

    __device__ __forceinline__ void finish(int node, int column, float (&sum)[2][V]) const
    {
        float x[V];
        load(x, a(node, column));
#pragma unroll
        for (int v = 0; v < V; v++) {
            sum[DEN][v] =
                __fdividef(1.0f, sum[DEN][v] + (float)GATED_GCN_TINY); // 2 ulp; the denominator never approaches 2^126
            sum[NUM][v] *= sum[DEN][v];
            x[v] += sum[NUM][v];
        }
        store(xt(node, column), x);
        store_wide(agg(node, column), sum[NUM]);
        store_wide(rden(node, column), sum[DEN]);
    }

    __device__ __forceinline__ void clear(int node, int column) const
    {
        store_zeros<V>(xt(node, column));
        store_zeros<V>(agg(node, column));
        store_zeros<V>(rden(node, column));
    }
};

template <typename T, int V>
__global__ void __launch_bounds__(GATED_GCN_THREADS, 3) gated_gcn_nodes(forward<T, V> f, node_loop k, int64_t edges)
{
    clear_edges<V>(f.eh, k, edges);
    for_each_node<2, V>(f, k);
}

static node_loop node_loop_of(const mba_call *c, const mba_tensor *x, const void *ptr)
{
    const node_loop k = {
        gated_gcn_node_loop_of(c->node), (const int32_t *)ptr, mba_rows(x), mba_cols(x), c->step, x->type.count
    };
    return k;
}

template <typename T, int V> static mba_status run_forward(const mba_call *c)
{
    const mba_node     *n = c->node;
    const forward<T, V> f = { rows_of<const T>(n->in[A], c->in[A]),       rows_of<const T>(n->in[B], c->in[B]),
                              rows_of<const T>(n->in[D], c->in[D]),       rows_of<const T>(n->in[E], c->in[E]),
                              rows_of<const T>(n->in[C], c->in[C]),       rows_of<T>(n->out[XT], c->out[XT]),
                              rows_of<T>(n->out[EH], c->out[EH]),         rows_of<float>(n->out[AGG], c->out[AGG]),
                              rows_of<float>(n->out[RDEN], c->out[RDEN]), (const int32_t *)c->in[SRC] };
    MBA_KERNEL(c, 0, (gated_gcn_nodes<T, V>), f, node_loop_of(c, n->in[A], c->in[IN_PTR]), mba_rows(n->in[C]));
    return MBA_OK;
}

/* ---- backward, first half: gradients of edges, from their targets ---- */

template <typename T, int V> struct targets {
    rows<const T>     dxt, deh, b, eh; /* deh: at NULL if the edges have no gradient */
    rows<const float> agg, rden;
    rows<T>           da, dd, dc, t, m; /* m: s gn; t: only if dc adds and cannot hold it, else at NULL */
    const int32_t    *src;
    bool              da_adds, dd_adds;

    __device__ __forceinline__ void edges(float (&sum)[1][V], int node, int column, edge_list l) const
    {
        constexpr int       N = at_once<T, V>::N;
        packed_values<T, V> message[N], gate[N], grad[N];
        float               gn[V], mean[V], x[V], y[V];
        if (l.from >= l.to) return;
        load(gn, dxt(node, column));
        load_wide(mean, rden(node, column));
#pragma unroll
        for (int v = 0; v < V; v++) gn[v] *= mean[v];
        load_wide(mean, agg(node, column));
        for (uint32_t k = l.from; k < l.to; k += N * l.stride) {
#pragma unroll
            for (int u = 0; u < N; u++) {
                const uint32_t at = k + u * l.stride;
                if (at >= l.to) continue;
                message[u].load_from(b(src[at], column));
                gate[u].load_from(eh(at, column));
                if (deh.at) grad[u].load_from(deh(at, column));
            }
#pragma unroll
            for (int u = 0; u < N; u++) {
                const uint32_t at = k + u * l.stride;
                if (at >= l.to) continue;
#pragma unroll
                for (int v = 0; v < V; v++) {
                    const float s = sigmoid(gate[u].value(v));
                    x[v] = s * gn[v];
                    y[v] = x[v] * (1.0f - s) * (message[u].value(v) - mean[v]);
                    y[v] += deh.at ? grad[u].value(v) : 0.0f;
                    sum[0][v] += y[v];
                }
                store(m(at, column), x);
                if (t.at) store(t(at, column), y);
                store_or_add(dc(at, column), y, t.at != NULL);
            }
        }
    }

    __device__ __forceinline__ void finish(int node, int column, float (&sum)[1][V]) const
    {
        float g[V];
        load(g, dxt(node, column));
        store_or_add(da(node, column), g, da_adds);
        store_or_add(dd(node, column), sum[0], dd_adds);
    }

    __device__ __forceinline__ void clear(int node, int column) const
    {
        if (!da_adds) store_zeros<V>(da(node, column));
        if (!dd_adds) store_zeros<V>(dd(node, column));
    }
};

template <typename T, int V>
__global__ void __launch_bounds__(GATED_GCN_THREADS, V == 8 ? 2 : 3)
    gated_gcn_targets(targets<T, V> f, node_loop k, int64_t edges)
{
    if (!f.t.at) clear_edges<V>(f.dc, k, edges);
    for_each_node<1, V>(f, k);
}

/* ---- backward, second half: gradients of sources, from their edges ---- */

template <typename T, int V> struct sources {
    rows<const T>  m, t;
    rows<T>        db, de;
    const int32_t *out_edge;
    bool           db_adds, de_adds;

    __device__ __forceinline__ void edges(float (&sum)[2][V], int, int column, edge_list l) const
    {
        constexpr int       N = at_once<T, V>::N;
        packed_values<T, V> x[N], y[N];
        for (uint32_t p = l.from; p < l.to; p += N * l.stride) {
#pragma unroll
            for (int u = 0; u < N; u++) {
                if (p + u * l.stride >= l.to) continue;
                const int k = out_edge[p + u * l.stride];
                x[u].load_from(m(k, column));
                y[u].load_from(t(k, column));
            }
#pragma unroll
            for (int u = 0; u < N; u++) {
                if (p + u * l.stride >= l.to) continue;
#pragma unroll
                for (int v = 0; v < V; v++) {
                    sum[0][v] += x[u].value(v);
                    sum[1][v] += y[u].value(v);
                }
            }
        }
    }

    __device__ __forceinline__ void finish(int node, int column, float (&sum)[2][V]) const
    {
        store_or_add(db(node, column), sum[0], db_adds);
        store_or_add(de(node, column), sum[1], de_adds);
    }

    __device__ __forceinline__ void clear(int node, int column) const
    {
        if (!db_adds) store_zeros<V>(db(node, column));
        if (!de_adds) store_zeros<V>(de(node, column));
    }
};

template <typename T, int V>
__global__ void __launch_bounds__(GATED_GCN_THREADS, 3) gated_gcn_sources(sources<T, V> f, node_loop k)
{
    for_each_node<2, V>(f, k);
}

template <typename T, int V> static mba_status run_backward(const mba_call *c)
{
    const mba_node     *n = c->node;
    const int64_t       H = mba_cols(n->in[BB]);
    const rows<T>       m = { (T *)mba_cuda_scratch(c, 0), H }, dc = rows_of<T>(n->out[DC], c->out[DC]);
    const rows<T>       t = { mba_adds(n, DC) ? (T *)mba_cuda_scratch(c, 1) : NULL, H }, left = t.at ? t : dc;
    const targets<T, V> f = { rows_of<const T>(n->in[DXT], c->in[DXT]),
                              rows_of<const T>(n->in[DEH], c->in[DEH]),
                              rows_of<const T>(n->in[BB], c->in[BB]),
                              rows_of<const T>(n->in[EHB], c->in[EHB]),
                              rows_of<const float>(n->in[AGGB], c->in[AGGB]),
                              rows_of<const float>(n->in[RDENB], c->in[RDENB]),
                              rows_of<T>(n->out[DA], c->out[DA]),
                              rows_of<T>(n->out[DD], c->out[DD]),
                              dc,
                              t,
                              m,
                              (const int32_t *)c->in[SRCB],
                              mba_adds(n, DA),
                              mba_adds(n, DD) };
    MBA_KERNEL(c, 0, (gated_gcn_targets<T, V>), f, node_loop_of(c, n->in[BB], c->in[IN_PTRB]), mba_rows(n->in[EHB]));
    const sources<T, V> s = { { m.at, m.pitch },
                              { left.at, left.pitch },
                              rows_of<T>(n->out[DB], c->out[DB]),
                              rows_of<T>(n->out[DE], c->out[DE]),
                              (const int32_t *)c->in[OUT_EDGEB],
                              mba_adds(n, DB),
                              mba_adds(n, DE) };
    MBA_KERNEL(c, 1, (gated_gcn_sources<T, V>), s, node_loop_of(c, n->in[BB], c->in[OUT_PTRB]));
    return MBA_OK;
}

extern "C" mba_status gated_gcn_cuda(const mba_call *c)
{
    const int V = gated_gcn_node_loop_of(c->node).values;
    if (c->node->in[A]->type.dtype == MBA_F32) return V == 4 ? run_forward<float, 4>(c) : run_forward<float, 1>(c);
    return V == 8 ? run_forward<bf16, 8>(c) : V == 4 ? run_forward<bf16, 4>(c) : run_forward<bf16, 1>(c);
}

extern "C" mba_status gated_gcn_bwd_cuda(const mba_call *c)
{
    const int V = gated_gcn_node_loop_of(c->node).values;
    if (c->node->in[BB]->type.dtype == MBA_F32) return V == 4 ? run_backward<float, 4>(c) : run_backward<float, 1>(c);
    return V == 8 ? run_backward<bf16, 8>(c) : V == 4 ? run_backward<bf16, 4>(c) : run_backward<bf16, 1>(c);
}
