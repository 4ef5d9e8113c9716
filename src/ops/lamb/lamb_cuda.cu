// SPDX-License-Identifier: Apache-2.0
/* lamb_cuda.cu -- the two passes of LAMB over a flat group, in blocks of one tensor each.
 *
 *   block b  16384 values of one tensor, or the rest of it: its position, its sums of p^2 and u^2 (lamb_block)
 *   p, g, m, v (n) fp32     copy (n) bf16 or fp32, optional     by (tensors) fp32: |p| / |u|
 *
 * kernel     lamb_block_table     a block per tensor writes the table of its blocks; the starts of tensors are
 *            arguments
 * kernel     lamb_moments     first pass: the moments, and both sums of squares
 * kernel     lamb_trust_ratio     a warp per tensor adds the sums of its blocks, in double
 * kernel     lamb_move        second pass: recomputes the update from the moments and applies it
 * takes      any number of values; tensors begin at multiples of 64 values, parts of divided tensors anywhere
 * launch     grid tensors (at most 240 at a time), blocks, tensors, blocks; block 128, 256, 32, 256
 * resources  sm_90a, CUDA 13.0: lamb_block_table 34 registers, no spill  [docs]
 *            lamb_moments 40 registers, 64 B of shared memory, no spill  [docs]
 *            lamb_trust_ratio 62 registers, no spill  [docs]
 *            lamb_move 32 to 35 registers, no spill  [docs]
 * moves      reads 16n + 12n bytes, writes 8n + 4n (4n more if gradients are cleared) and the copy: bound by DRAM
 * floor      n = 32e6: 1.3 GB, 300 us at 4.3 TB/s
 * measured   not yet  [docs]
 * order      fixed: a thread adds its values in ascending order, a tree adds the threads; a lane adds blocks of a
 *            tensor 32 apart in ascending order
 *
 * The host cannot copy the table (a captured step copies nothing but inputs). The starts of the tensors are known when
 * the step is captured, so they are kernel arguments, which cost nothing later. */
#include "device/cuda/common.cuh"
extern "C" {
#include "ops/lamb/lamb_slots.h"
}

enum { VALUES = 4 };

/* The factors of lamb_cpu.c. */
struct factors {
    float clip, b1, c1, b2, c2, unbias, root, eps, decay, lr;
    bool  skip;
};

static __device__ factors factors_of(const lamb_attr &a, const mba_step *s, double norm, bool skip)
{
    const double t = (double)s->index + 1, outer = a.o.clip > 0 ? fmin(1.0, a.o.clip / (norm + 1e-6)) : 1;
    const double own = a.o.own_clip > 0 ? 1 / fmax(1.0, norm * outer / a.o.own_clip) : 1;
    factors      f;
    f.skip = skip;
    f.clip = (float)(outer * own);
    f.b1 = (float)a.o.beta1;
    f.c1 = (float)(1 - a.o.beta1);
    f.b2 = (float)a.o.beta2;
    f.c2 = (float)(1 - a.o.beta2);
    f.unbias = (float)(1 / (1 - pow(a.o.beta1, t)));
    f.root = (float)sqrt(1 / (1 - pow(a.o.beta2, t)));
    f.eps = (float)a.o.eps;
    f.decay = (float)a.o.decay;
    f.lr = s->lr;
    return f;
}

/* Tensors first .. first + n-1 of the group: the start of each, and its first block; one more entry for the end. */
struct table {
    int64_t first, n, start[LAMB_TABLE + 1], block[LAMB_TABLE + 1];
};

__global__ void __launch_bounds__(128)
    lamb_block_table(lamb_block *b, int64_t *block_of, factors *f, const __grid_constant__ table t, lamb_attr a,
                     const float *norm, const mba_step *step)
{
    const int     k = (int)blockIdx.x;
    const int64_t end = t.start[k + 1], blocks = t.block[k + 1] - t.block[k];
    for (int64_t i = threadIdx.x; i < blocks; i += 128) {
        lamb_block *to = b + t.block[k] + i;
        to->from = t.start[k] + i * LAMB_BLOCK;
        to->count = end - to->from < LAMB_BLOCK ? end - to->from : LAMB_BLOCK;
        to->tensor = t.first + k;
    }
    if (threadIdx.x) return;
    block_of[t.first + k] = t.block[k];
    if (k == t.n - 1) block_of[t.first + t.n] = t.block[t.n];
    if (t.first + k == 0) *f = factors_of(a, step, (double)norm[0], norm[1] != 0);
}

static __device__ __forceinline__ float direction(float p, float m, float v, const factors &f)
{
    return f.unbias * m / (sqrtf(v) * f.root + f.eps) + f.decay * p;
}

struct group {
    float *p, *g, *m, *v;
    void  *copy;
};

/* The number of values before the first aligned 16-byte vector of a block: a part of a tensor may begin anywhere. */
static __device__ __forceinline__ int unaligned(int64_t from, int count)
{
    const int n = (int)((VALUES - from % VALUES) % VALUES);
    return n < count ? n : count;
}

template <int N>
static __device__ __forceinline__ void moments(float &pp, float &uu, const group &x, const factors &f, bool zero,
                                               int64_t i)
{
    float p[N], g[N], m[N], v[N];
    if (!f.skip) {
        load(p, x.p + i);
        load(g, x.g + i);
        load(m, x.m + i);
        load(v, x.v + i);
#pragma unroll
        for (int j = 0; j < N; j++) {
            const float d = g[j] * f.clip;
            m[j] = f.b1 * m[j] + f.c1 * d;
            v[j] = f.b2 * v[j] + f.c2 * d * d;
            const float u = direction(p[j], m[j], v[j], f);
            pp += p[j] * p[j];
            uu += u * u;
        }
        store(x.m + i, m);
        store(x.v + i, v);
    }
#pragma unroll
    for (int j = 0; j < N; j++) g[j] = 0;
    if (zero) store(x.g + i, g);
}

__global__ void __launch_bounds__(256) lamb_moments(group x, lamb_block *blocks, const factors *scratch, bool zero)
{
    lamb_block   *b = blocks + blockIdx.x;
    const factors f = *scratch;
    const int64_t from = b->from;
    const int     count = (int)b->count, head = unaligned(from, count);
    float         pp = 0, uu = 0;
    if ((int)threadIdx.x < head) moments<1>(pp, uu, x, f, zero, from + threadIdx.x);
    for (int i = head + (int)threadIdx.x * VALUES; i + VALUES <= count; i += 256 * VALUES)
        moments<VALUES>(pp, uu, x, f, zero, from + i);
    const int rest = head + (count - head) / VALUES * VALUES + (int)threadIdx.x;
    if (rest < count) moments<1>(pp, uu, x, f, zero, from + rest);
    const double p2 = block_sum<256>((double)pp), u2 = block_sum<256>((double)uu);
    if (threadIdx.x) return;
    b->pp = p2;
    b->uu = u2;
}

/* The ratio is 1 if either norm is 0, or if no update is scaled. */
__global__ void __launch_bounds__(32)
    lamb_trust_ratio(float *by, const lamb_block *b, const int64_t *block_of, bool any)
{
    double pp = 0, uu = 0;
    for (int64_t i = block_of[blockIdx.x] + threadIdx.x; i < block_of[blockIdx.x + 1]; i += 32) {
        pp += b[i].pp;
        uu += b[i].uu;
    }
    pp = warp_sum(pp);
    uu = warp_sum(uu);
    if (threadIdx.x == 0) by[blockIdx.x] = any && pp > 0 && uu > 0 ? (float)sqrt(pp / uu) : 1;
}

template <int N, typename T, bool COPIES>
static __device__ __forceinline__ void move(const group &x, const factors &f, float rate, int64_t i)
{
    float p[N], m[N], v[N];
    load(p, x.p + i);
    if (!f.skip) {
        load(m, x.m + i);
        load(v, x.v + i);
#pragma unroll
        for (int j = 0; j < N; j++) p[j] -= rate * direction(p[j], m[j], v[j], f);
        store(x.p + i, p);
    }
    if (COPIES) store((T *)x.copy + i, p);
}

template <typename T, bool COPIES>
__global__ void __launch_bounds__(256)
    lamb_move(group x, const lamb_block *blocks, const factors *scratch, const float *by)
{
    const lamb_block *b = blocks + blockIdx.x;
    const factors     f = *scratch;
    const int64_t     from = b->from;
    const int         count = (int)b->count, head = unaligned(from, count);
    const int         rest = head + (count - head) / VALUES * VALUES + (int)threadIdx.x;
    const float       rate = f.lr * by[b->tensor];
    if ((int)threadIdx.x < head) move<1, T, COPIES>(x, f, rate, from + threadIdx.x);
    for (int i = head + (int)threadIdx.x * VALUES; i + VALUES <= count; i += 256 * VALUES)
        move<VALUES, T, COPIES>(x, f, rate, from + i);
    if (rest < count) move<1, T, COPIES>(x, f, rate, from + rest);
}

/* The next tensors of the group, from *first on; *block counts their blocks. */
static table next_table(const mba_tensor *p, int64_t *first, int64_t *block)
{
    table t = {};
    t.first = *first;
    for (; *first < lamb_tensors(p) && t.n < LAMB_TABLE; ++*first, t.n++) {
        t.start[t.n] = lamb_start(p, *first);
        t.block[t.n] = *block;
        *block += mba_ceil(lamb_start(p, *first + 1) - lamb_start(p, *first), LAMB_BLOCK);
    }
    t.start[t.n] = lamb_start(p, *first);
    t.block[t.n] = *block;
    return t;
}

extern "C" mba_status lamb_cuda(const mba_call *c)
{
    const mba_node *n = c->node;
    const lamb_attr a = *(const lamb_attr *)n->attr;
    const group     x = { (float *)c->out[PO], (float *)c->out[GO], (float *)c->out[MO], (float *)c->out[VO],
                          c->out[COPYO] };
    lamb_block     *b = (lamb_block *)mba_cuda_scratch(c, BLOCKS);
    int64_t        *block_of = (int64_t *)mba_cuda_scratch(c, BLOCK_OF);
    float          *by = (float *)mba_cuda_scratch(c, STRETCH);
    factors        *f = (factors *)mba_cuda_scratch(c, FACTORS);
    const mba_dtype copy = n->in[COPY] ? n->in[COPY]->type.dtype : MBA_F32;
    int             k = 0;
    for (int64_t first = 0, block = 0; first < lamb_tensors(n->in[P]); k++) {
        const table t = next_table(n->in[P], &first, &block);
        MBA_KERNEL(c, k, lamb_block_table, b, block_of, f, t, a, (const float *)c->in[NORM], c->step);
    }
    MBA_KERNEL(c, k, lamb_moments, x, b, f, a.zero != 0);
    MBA_KERNEL(c, k + 1, lamb_trust_ratio, by, b, block_of, a.o.decay > 0);
    MBA_WITH_DTYPE(copy, T,
                   MBA_WITH_BOOL(n->in[COPY] != NULL, COPIES, auto *kernel = lamb_move<T, COPIES>;
                                 MBA_KERNEL(c, k + 2, kernel, x, b, f, by)));
    return MBA_OK;
}
