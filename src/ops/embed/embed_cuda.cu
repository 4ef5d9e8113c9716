// SPDX-License-Identifier: Apache-2.0
/* embed_cuda.cu -- embedding lookup, and its gradient without float atomics.
 *
 *   y[r,:] = table[token[r],:]        dtable[v,:] (+)= sum of dy[r,:] over the rows r with token[r] = v, in order of r
 *   tokens (R) i32     table, y fp32 or bf16     dy fp32 or bf16     dtable (V, M) fp32
 *
 * kernel     embed_fwd_rows     two vectors per thread: both tokens are loaded first, then both vectors
 * launch     grid ceil(R M / (512 W)), block 256, W = 4 values or one
 *
 * kernel     embed_bwd_sort     a block owns a range of the vocabulary: it counts the tokens below its range, gathers
 *                               its own in order, and sorts them by counting; no block waits for another
 * launch     grid max(SMs, ceil(V / 512)), block 1024, dynamic smem 24 KB and 132 bytes per token value of a range
 * moves      every block reads the R tokens from L2, once up to 16384 of them (registers), else twice; writes 8 R + V
 *            bytes in all. Bound by latency, so it also prefetches the last 20 MB of dy into L2 (sm_90)
 *
 * kernel     embed_bwd_sum      a block sums a chunk of 32 entries of the sorted order; it adds complete runs of equal
 *                               tokens to the table and leaves sums of runs that cross its borders in scratch. If the
 *                               gradient is stored, not added, further blocks clear 16 rows each where no token uses
 *                               them
 * launch     grid (ceil(R / 32) + ceil(V / 16)) ceil(M / (W threads)), when adding without the V / 16; block up to 256
 * kernel     embed_bwd_join     the block where a run that crosses borders begins adds its partial sums in order
 * launch     grid (ceil(R / 32), ceil(M / (W threads))), block up to 256. Both are dependent launches: their blocks
 *            start while the previous grid drains (dependent_launch.cuh)
 * moves      dy once, the touched rows of dtable once each way: bound by DRAM
 * resources  sm_90a, CUDA 13.0: embed_fwd_rows 30 to 40 registers, no spill  [docs]
 *            embed_bwd_sort 32 to 48 registers, 384 B of shared memory, no spill  [docs]
 *            embed_bwd_sum 48 to 64 registers, 272 B of shared memory, no spill  [docs]
 *            embed_bwd_join 30 to 32 registers, no spill  [docs]
 * measured   H200: embed_fwd_rows 36.1 us, 94 % of floor (memory), DRAM 75 % busy; mamba2-headline, 4 x 4096  [docs]
 *            embed_bwd_sort 6.3 us, ALU 42 % busy; mamba2-headline, 4 x 4096  [docs]
 *            embed_bwd_sum 47.5 us, 97 % of floor (memory), DRAM 76 % busy; mamba2-headline, 4 x 4096  [docs]
 *            embed_bwd_join 1.54 us, 69 % of floor (memory), ALU 8 % busy; mamba2-headline, 4 x 4096  [docs]
 * order      fixed: rows in order, partial sums at multiples of 32 of the sorted order */
#include <limits.h>

#include "device/cuda/dependent_launch.cuh"
#include "device/cuda/packed.cuh"
extern "C" {
#include "ops/embed/embed_slots.h"
}

/* ---- forward ---- */

/* The tokens of all vectors of a thread are loaded before the first is used, then the vectors. I holds the index of a
 * vector. */
template <typename TE, typename TY, int W, typename I>
__global__ void __launch_bounds__(EMBED_THREADS) embed_fwd_rows(strided_view<TY> y, strided_view<const int32_t> token,
                                                                const TE *table, int64_t ld, I rows, I per_row)
{
    constexpr int D = EMBED_DEPTH;
    const int64_t cols = (int64_t)per_row * W;
    I             row[D], col[D];
    bool          there[D];
    int           v[D];
    packed<TE, W> row_regs[D];
#pragma unroll
    for (int d = 0; d < D; d++) {
        const I j = ((I)blockIdx.x * D + d) * EMBED_THREADS + threadIdx.x;
        row[d] = j / per_row;
        there[d] = row[d] < rows;
        row[d] = there[d] ? row[d] : 0;
        col[d] = there[d] ? (j - row[d] * per_row) * W : 0;
    }
#pragma unroll
    for (int d = 0; d < D; d++) v[d] = *token.element((int64_t)row[d]);
#pragma unroll
    for (int d = 0; d < D; d++) fetch(row_regs[d], table + v[d] * ld + (int64_t)col[d], there[d]);
#pragma unroll
    for (int d = 0; d < D; d++) {
        float x[W];
        unpack(x, row_regs[d]);
        if (there[d]) store(y.row((int64_t)row[d], cols) + (int64_t)col[d], x);
    }
}

template <typename TE, typename TY, int W> static mba_status forward(const mba_call *c)
{
    const mba_node        *n = c->node;
    const int64_t          rows = mba_rows(n->out[Y]), per_row = mba_cols(n->out[Y]) / W, ld = mba_ld(n->in[TABLE]);
    const strided_view<TY> y = mba_strided_view<TY>(n->out[Y], c->out[Y]);
    const strided_view<const int32_t> token = mba_strided_view<const int32_t>(n->in[TOKEN], c->in[TOKEN]);
    const TE *const                   table = (const TE *)c->in[TABLE];
    if (mba_elems(n->out[Y]) < INT64_C(1) << 31)
        MBA_KERNEL(c, 0, (embed_fwd_rows<TE, TY, W, uint32_t>), y, token, table, ld, (uint32_t)rows, (uint32_t)per_row);
    else
        MBA_KERNEL(c, 0, (embed_fwd_rows<TE, TY, W, uint64_t>), y, token, table, ld, (uint64_t)rows, (uint64_t)per_row);
    return MBA_OK;
}

extern "C" mba_status embed_cuda(const mba_call *c)
{
    const mba_node *n = c->node;
    const bool      whole = embed_width(n) > 1;
    MBA_WITH_DTYPE(n->in[TABLE]->type.dtype, TE,
                   MBA_WITH_DTYPE(n->out[Y]->type.dtype, TY,
                                  return whole ? (forward<TE, TY, EMBED_WIDTH>(c)) : (forward<TE, TY, 1>(c))));
}

/* ---- backward: the sorted order of rows, by token, then by row ---- */

enum { SORT_WARPS = EMBED_SORT_THREADS / 32 };
static_assert(SORT_WARPS == 32, "sums over the warps of a block are sums over the lanes of a warp");

/* Exclusive prefix sum of x over the block; every thread calls it, once. `warps` has SORT_WARPS entries. */
static __device__ __forceinline__ int block_before(int x, int *warps)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int       upto = x;
#pragma unroll
    for (int d = 1; d < 32; d *= 2) {
        const int from = __shfl_up_sync(0xffffffffu, upto, d);
        if (lane >= d) upto += from;
    }
    if (lane == 31) warps[warp] = upto;
    __syncthreads();
    const int before = __reduce_add_sync(0xffffffffu, lane < warp ? warps[lane] : 0);
    return before + upto - x;
}

/* Arguments of the sort. order (R): rows, sorted; value (R): their tokens. kept (EMBED_KEPT), counts (SORT_WARPS, span)
 * and firsts (span) are in shared memory. The rows of a block's range and their tokens, in order of rows, are in
 * `kept`, or, if there are too many, in `mine` (R) at the positions of the sorted ones. */
struct embed_sort {
    int32_t       *order, *value;
    int2          *mine;
    uint8_t       *met; // (V): true if some token has this value
    const int32_t *token;
    int64_t        pitch; // distance between runs of tokens
    unsigned       run;
    int            rows, span, V;
    const char    *prefetch; // what the sums will read, prefetched into L2
    int64_t        prefetch_bytes;
    bool           early; // the sums may start while the last blocks of the sort write
};

/* Prefetches this block's share of the bytes, a multiple of 16, into L2 without waiting. One thread of each warp issues
 * the request, because requests of several lanes would be serialized. */
static __device__ __forceinline__ void prefetch_l2_share(const char *from, int64_t bytes)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    enum { CHUNK_BYTES = 8192 };
    if (threadIdx.x % 32) return;
    for (int64_t at = ((int64_t)blockIdx.x + (int64_t)gridDim.x * (threadIdx.x / 32)) * CHUNK_BYTES; at < bytes;
         at += (int64_t)gridDim.x * SORT_WARPS * CHUNK_BYTES) {
        const uint32_t n = (uint32_t)(bytes - at < CHUNK_BYTES ? bytes - at : CHUNK_BYTES);
        asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from + at), "r"(n) : "memory");
    }
#else
    (void)from, (void)bytes;
#endif
}

template <bool DENSE> __global__ void __launch_bounds__(EMBED_SORT_THREADS, 1) embed_bwd_sort(embed_sort a)
{
    constexpr int          AT_ONCE = DENSE ? 16 : 4, STEP = 32 * AT_ONCE;
    const int              rows = a.rows, span = a.span;
    extern __shared__ int2 kept[];
    __shared__ int2        warp_totals[SORT_WARPS];
    __shared__ int         warps[SORT_WARPS];
    int *const counts = (int *)(kept + EMBED_KEPT), *const firsts = counts + SORT_WARPS * span;
    const int      lane = threadIdx.x % 32, warp = threadIdx.x / 32, low = blockIdx.x * span;
    const uint32_t before_me = (1u << lane) - 1;
    const int      each = (rows + EMBED_SORT_THREADS - 1) / EMBED_SORT_THREADS * 32, from = warp * each,
              end = min(from + each, rows);
    int        v[AT_ONCE];             // tokens of rows r + lane + 32 u; INT_MAX (in no range) if there is no row
    const auto load_row = [&](int r) { // rows fit in 32 bits
        const int      mine = r + lane, left = end - mine;
        const int32_t *at = a.token + mine;
#pragma unroll
        for (int u = 0; u < AT_ONCE; u++) {
            const unsigned i = mine + 32 * u;
            v[u] = INT_MAX;
            if (32 * u < left) v[u] = DENSE ? at[32 * u] : a.token[(int64_t)(i / a.run) * a.pitch + i % a.run];
        }
    };
    const auto inside = [&](int u) { return (unsigned)(v[u] - low) < (unsigned)span; };

    // 1. count the tokens below the range and in it; a warp takes consecutive rows. Prefetching and clearing follow the
    // first loads of tokens, for which all threads wait
    load_row(from);
    prefetch_l2_share(a.prefetch, a.prefetch_bytes);
    for (int i = threadIdx.x; i < SORT_WARPS * span; i += EMBED_SORT_THREADS) counts[i] = 0;
    int below = 0, own = 0;
    for (int r = from; r < end; r += STEP) {
        if (r > from) load_row(r);
#pragma unroll
        for (int u = 0; u < AT_ONCE; u++) {
            below += v[u] < low;
            own += __popc(__ballot_sync(0xffffffffu, inside(u)));
        }
    }
    below = __reduce_add_sync(0xffffffffu, below);
    if (lane == 0) warp_totals[warp] = make_int2(below, own);
    __syncthreads();
    const int2 other = warp_totals[lane]; // counts of each warp: tokens below the range, and in it
    const int  base = __reduce_add_sync(0xffffffffu, other.x), count = __reduce_add_sync(0xffffffffu, other.y);
    int        at = __reduce_add_sync(0xffffffffu, lane < warp ? other.y : 0);

    // 2. gather them, in order of rows; if one step holds all, they are still in registers
    int2 *const list = count <= EMBED_KEPT ? kept : a.mine + base;
    for (int r = from; r < end; r += STEP) {
        if (each > STEP) load_row(r);
#pragma unroll
        for (int u = 0; u < AT_ONCE; u++) {
            const bool     in = inside(u);
            const uint32_t mask = __ballot_sync(0xffffffffu, in);
            if (!mask) continue;
            if (in) list[at + __popc(mask & before_me)] = make_int2(r + lane + 32 * u, v[u] - low);
            at += __popc(mask);
            __syncwarp(); // otherwise the compiler hoists all ballots and runs out of registers
        }
    }
    __syncthreads();

    // 3. count them by token; again a warp takes consecutive entries
    const int share = (count + EMBED_SORT_THREADS - 1) / EMBED_SORT_THREADS * 32, first = warp * share,
              last = min(first + share, count);
    int *my_counts = counts + warp * span;
    for (int i = first; i < last; i += 32) {
        const int      t = i + lane < last ? list[i + lane].y : -1;
        const uint32_t equal = __match_any_sync(0xffffffffu, t);
        if (t >= 0 && (equal & before_me) == 0) my_counts[t] += __popc(equal);
        __syncwarp();
    }
    __syncthreads();

    // 4. find where each token begins, and within it the offset of each warp
    const int mine = threadIdx.x; // a thread handles at most one token value of the range
    int       sum = 0;
    if (mine < span)
#pragma unroll 4
        for (int w = 0; w < SORT_WARPS && w * share < count; w++) {
            const int n = counts[w * span + mine];
            counts[w * span + mine] = sum;
            sum += n;
        }
    const int begin = block_before(sum, warps);
    if (mine < span) firsts[mine] = base + begin;
    if (mine < span && low + mine < a.V) a.met[low + mine] = sum > 0;
    __syncthreads();

    // 5. write them to their positions
    if (a.early) launch_dependents();
    for (int i = first; i < last; i += 32) {
        const int2     own_row = i + lane < last ? list[i + lane] : make_int2(0, -1);
        const int      t = own_row.y;
        const uint32_t equal = __match_any_sync(0xffffffffu, t);
        if (t >= 0) {
            const int to = firsts[t] + my_counts[t] + __popc(equal & before_me);
            a.order[to] = own_row.x;
            a.value[to] = t + low;
        }
        __syncwarp();
        if (t >= 0 && (equal & before_me) == 0) my_counts[t] += __popc(equal);
        __syncwarp();
    }
}

/* ---- backward: sums ---- */

template <typename TY> struct embed_sums {
    float                 *dtable; // (V, ld)
    int64_t                ld, cols;
    strided_view<const TY> dy;            // (R, M)
    const int32_t         *order, *value; // (R), sorted
    float                 *head, *tail;   // (chunks, M): sums of runs that begin before or end after the chunk
    const uint8_t         *met;           // (V)
    int                    rows, chunks, across, V,
        padding; // across: blocks per chunk; padding: the token whose rows are ignored, or -1
};

template <int W> static __device__ __forceinline__ void add_to(float (&sum)[W], const float (&x)[W])
{
#pragma unroll
    for (int w = 0; w < W; w++) sum[w] += x[w];
}

template <int W> static __device__ __forceinline__ void clear(float (&x)[W])
{
#pragma unroll
    for (int w = 0; w < W; w++) x[w] = 0;
}

/* Clears those of EMBED_CLEAR rows of the table from `first` on that no token uses. */
template <int W>
static __device__ __forceinline__ void zero_untouched_rows(float *dtable, int64_t ld, int64_t c, const uint8_t *met,
                                                           int first, int V)
{
    const float none[W] = {};
    union {
        uint4   word;
        uint8_t of[EMBED_CLEAR];
    } touched;
    touched.word = *(const uint4 *)(met + first);
#pragma unroll
    for (int k = 0; k < EMBED_CLEAR; k++)
        if (first + k < V && !touched.of[k]) store(dtable + (first + k) * ld + c, none);
}

template <typename TY, int W, bool ADDS> __global__ void __launch_bounds__(256, 4) embed_bwd_sum(embed_sums<TY> a)
{
    enum { CHUNK = EMBED_CHUNK, AHEAD = ADDS ? 4 : 8 }; // either way a thread has 32 values in flight
    __shared__ int rows[CHUNK], value[CHUNK + 2];       // value[1 + k] is that of entry k
    const int      chunk = blockIdx.x / a.across;
    const int64_t  c = ((int64_t)(blockIdx.x - chunk * a.across) * blockDim.x + threadIdx.x) * W;
    wait_for_prior_grids();
    if (!ADDS && chunk >= a.chunks) { // after the sums: these blocks balance the load of the SMs
        if (c < a.cols) zero_untouched_rows<W>(a.dtable, a.ld, c, a.met, (chunk - a.chunks) * EMBED_CLEAR, a.V);
        return;
    }
    const int first = chunk * CHUNK, n = min((int)CHUNK, a.rows - first);
    if ((int)threadIdx.x < n) rows[threadIdx.x] = a.order[first + threadIdx.x];
    for (int k = threadIdx.x; k < CHUNK + 2; k += blockDim.x) {
        const int i = first + k - 1;
        value[k] = i >= 0 && i < a.rows ? a.value[i] : -1; // no token has that value
    }
    __syncthreads();
    if (c >= a.cols) return;
    const bool late = value[0] == value[1]; // the first run begins before this chunk
    float      sum[W] = {};
    for (int k0 = 0; k0 < n; k0 += AHEAD) {
        float in[AHEAD][W], old[AHEAD][W];
#pragma unroll
        for (int j = 0; j < AHEAD; j++) {
            const int  k = k0 + j, v = k < n ? value[1 + k] : -1;
            const bool ends = k < n && v != value[2 + k], whole = ends && !(late && v == value[1]);
            if (k < n && v != a.padding) load(in[j], a.dy.row(rows[k], a.cols) + c);
            else clear(in[j]);
            if (ADDS && whole) load(old[j], a.dtable + v * a.ld + c);
        }
#pragma unroll
        for (int j = 0; j < AHEAD; j++) {
            const int k = k0 + j;
            if (k >= n) break;
            const int  v = value[1 + k];
            const bool ends = v != value[2 + k], before = late && v == value[1];
            add_to(sum, in[j]);
            if (!ends && k + 1 < n) continue;
            if (before) store(a.head + chunk * a.cols + c, sum);
            else if (!ends) store(a.tail + chunk * a.cols + c, sum);
            else {
                if (ADDS) add_to(sum, old[j]);
                store(a.dtable + v * a.ld + c, sum);
            }
            clear(sum);
        }
    }
    launch_dependents();
}

/* Returns the position after the run of token v. */
static __device__ __forceinline__ int run_end(const int32_t *value, int from, int rows, int v)
{
    int lo = from, hi = rows; // value[lo] == v; hi is after the run
    while (hi - lo > 1) {
        const int mid = lo + (hi - lo) / 2;
        if (value[mid] == v) lo = mid;
        else hi = mid;
    }
    return hi;
}

template <typename TY, int W, bool ADDS> __global__ void __launch_bounds__(256) embed_bwd_join(embed_sums<TY> a)
{
    const int     next = (blockIdx.x + 1) * EMBED_CHUNK, first = next - EMBED_CHUNK;
    const int64_t c = ((int64_t)blockIdx.y * blockDim.x + threadIdx.x) * W;
    const int     far = next + EMBED_CHUNK - 1; // the last entry of the next chunk
    int           v = -1, behind = -2, before = -1, beyond = -1;
    if (next < a.rows) { // results of the sort, which ended before any block of the sums proceeded: no wait needed
        v = __ldcg(a.value + next - 1);
        behind = __ldcg(a.value + next);
        before = first > 0 ? __ldcg(a.value + first - 1) : -1;
        beyond = far < a.rows ? __ldcg(a.value + far) : -1;
    }
    wait_for_prior_grids();
    if (behind != v || before == v || c >= a.cols) return; // no run crosses this border, or an earlier block adds it
    float *const to = a.dtable + v * a.ld + c;
    float        sum[W], in[W], old[W] = {};
    load(sum, a.tail + blockIdx.x * a.cols + c);
    load(in, a.head + (int64_t)(blockIdx.x + 1) * a.cols + c);
    if (ADDS) load(old, to);
    add_to(sum, in);
    if (beyond == v) { // the run extends beyond the next chunk
        const int chunks = (run_end(a.value, far, a.rows, v) - 1) / EMBED_CHUNK;
#pragma unroll 8
        for (int64_t d = blockIdx.x + 2; d <= chunks; d++) {
            load(in, a.head + d * a.cols + c);
            add_to(sum, in);
        }
    }
    if (ADDS) add_to(sum, old);
    store(to, sum);
}

template <typename TY, int W, bool ADDS> static mba_status sum_rows(const mba_call *c)
{
    const mba_node *n = c->node;
    embed_sums<TY>  a = {};
    a.dtable = (float *)c->out[DTABLE];
    a.ld = mba_ld(n->out[DTABLE]);
    a.cols = mba_cols(n->out[DTABLE]);
    a.dy = mba_strided_view<const TY>(n->in[DY], c->in[DY]);
    a.order = (const int32_t *)mba_cuda_scratch(c, EMBED_ORDER);
    a.value = (const int32_t *)mba_cuda_scratch(c, EMBED_VALUE);
    a.head = (float *)mba_cuda_scratch(c, EMBED_HEAD);
    a.tail = (float *)mba_cuda_scratch(c, EMBED_TAIL);
    a.met = (const uint8_t *)mba_cuda_scratch(c, EMBED_MET);
    a.rows = (int)mba_rows(n->in[DY]);
    a.chunks = (int)c->plan->launch[2].grid[0];
    a.across = (int)c->plan->launch[2].grid[1];
    a.V = (int)mba_rows(n->out[DTABLE]);
    a.padding = (int)((const embed_bwd_attr *)n->attr)->padding;
    MBA_KERNEL_DEPENDENT(c, 1, (embed_bwd_sum<TY, W, ADDS>), a);
    MBA_KERNEL_DEPENDENT(c, 2, (embed_bwd_join<TY, W, ADDS>), a);
    return MBA_OK;
}

extern "C" mba_status embed_bwd_cuda(const mba_call *c)
{
    const mba_node   *n = c->node;
    const mba_tensor *dt = n->out[DTABLE], *dy = n->in[DY];
    const bool        whole = embed_bwd_width(n) > 1;
    const int64_t     bytes = mba_dense(dy) && whole ? (int64_t)mba_tensor_bytes(dy) / 16 * 16 : 0;
    embed_sort        a = {};
    a.order = (int32_t *)mba_cuda_scratch(c, EMBED_ORDER);
    a.value = (int32_t *)mba_cuda_scratch(c, EMBED_VALUE);
    a.mine = (int2 *)mba_cuda_scratch(c, EMBED_MINE);
    a.met = (uint8_t *)mba_cuda_scratch(c, EMBED_MET);
    a.token = (const int32_t *)c->in[TOKENB];
    a.run = (unsigned)n->in[TOKENB]->run;
    a.pitch = n->in[TOKENB]->pitch;
    a.rows = (int)mba_rows(dy);
    a.V = (int)mba_rows(dt);
    a.span = (int)mba_ceil(mba_rows(dt), c->plan->launch[0].grid[0]);
    a.prefetch_bytes = bytes < EMBED_PREFETCH_BYTES ? bytes : EMBED_PREFETCH_BYTES;
    // the end of dy: its producer wrote it last, so in a step it is still in L2
    a.prefetch = (const char *)c->in[DY] + (bytes - a.prefetch_bytes);
    /* The sums start early only if blocks that write zeros balance the load of the SMs. Without those, SMs whose sort
     * ends first would get five blocks of sums and others one: 38 us instead of 35 for the sums (130m, H200). */
    a.early = !mba_adds(n, DTABLE);
    MBA_WITH_BOOL(mba_dense(n->in[TOKENB]), DENSE, MBA_KERNEL(c, 0, embed_bwd_sort<DENSE>, a));
    MBA_WITH_DTYPE(n->in[DY]->type.dtype, TY,
                   MBA_WITH_BOOL(mba_adds(n, DTABLE), ADDS, if (whole) return (sum_rows<TY, EMBED_WIDTH, ADDS>(c));
                                 else return (sum_rows<TY, 1, ADDS>(c))));
    return MBA_OK;
}
