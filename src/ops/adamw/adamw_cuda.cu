// SPDX-License-Identifier: Apache-2.0
/* adamw_cuda.cu -- one pass over the parameters of a group, their gradients, moments and the compute copy.
 *
 *   the update of adamw.c, per element, with fp32 p, g, m, v (n) and an optional copy (n) in bf16 or fp32
 *
 * kernel     adamw_flat     a block takes `trips` times 1024 consecutive values, four of each operand per thread and
 *            trip
 * takes      any number of values
 * launch     grid ceil(n / (1024 trips)), eight trips, or fewer if the SMs would not be full (adamw_flat_plan), block
 *            256
 * resources  sm_90a, CUDA 13.0: 50 to 52 registers, 37 B of shared memory, no spill  [docs]
 * moves      reads 16n bytes, writes 12n (16n if gradients are cleared) and the copy: bound by DRAM
 * floor      n = 129e6 with a bf16 copy: 3.9 GB, 900 us at 4.3 TB/s
 * measured   H200: 2981 us, 103 % of floor (memory), DRAM 84 % busy; mamba2-headline, 4 x 4096  [docs]
 * order      no sums
 *
 * A block computes the factors of the step (powers of the betas, in double) once: per eight thousand values, not per
 * thousand. Why not four resident blocks per SM with equal shares: the SMs are then busy for 92 % of the time (H200,
 * counters: 692 of 748 thousand cycles), because memory does not serve all SMs equally and the kernel waits for the
 * slowest. */
#include "device/cuda/block_timestamps.cuh"
#include "device/cuda/common.cuh"
extern "C" {
#include "ops/adamw/adamw_slots.h"
}

/* The factors of adamw_cpu.c; the divisions by 1 - beta^t are done once per block. */
struct factors {
    float clip, b1, c1, b2, c2, rate, root, eps, shrink;
    bool  skip;
};

static __device__ factors factors_of(const adamw_attr &a, const mba_step *s, double norm, bool skip)
{
    const double t = (double)s->index + 1, clip = a.o.clip > 0 ? a.o.clip / (norm + 1e-6) : 1;
    factors      f;
    f.skip = skip;
    f.clip = (float)(clip < 1 ? clip : 1);
    f.b1 = (float)a.o.beta1;
    f.c1 = (float)(1 - a.o.beta1);
    f.b2 = (float)a.o.beta2;
    f.c2 = (float)(1 - a.o.beta2);
    f.rate = (float)(s->lr / (1 - pow(a.o.beta1, t)));
    f.root = (float)sqrt(1 / (1 - pow(a.o.beta2, t)));
    f.eps = (float)a.o.eps;
    f.shrink = (float)(s->lr * a.o.decay);
    return f;
}

struct group {
    float  *p, *g, *m, *v;
    void   *copy;
    int64_t n;
};

/* Updates N values at i. A skipped step writes only the copy and the cleared gradients. */
template <int N, typename T, bool COPIES>
static __device__ __forceinline__ void update(const group &x, const factors &f, bool zero, int64_t i)
{
    float p[N], g[N], m[N], v[N];
    load(p, x.p + i);
    load(g, x.g + i);
    load(m, x.m + i);
    load(v, x.v + i);
#pragma unroll
    for (int j = 0; j < N; j++) {
        const float d = g[j] * f.clip;
        m[j] = f.b1 * m[j] + f.c1 * d;
        v[j] = f.b2 * v[j] + f.c2 * d * d;
        if (!f.skip) p[j] -= f.rate * m[j] / (sqrtf(v[j]) * f.root + f.eps) + f.shrink * p[j];
        g[j] = 0;
    }
    if (!f.skip) {
        store(x.p + i, p);
        store(x.m + i, m);
        store(x.v + i, v);
    }
    if (COPIES) store((T *)x.copy + i, p);
    if (zero) store(x.g + i, g);
}

template <typename T, bool COPIES>
__global__ void __launch_bounds__(ADAMW_BLOCK)
    adamw_flat(group x, adamw_attr a, const float *norm, const mba_step *step, int trips)
{
    MBA_BLOCK_TIMESTAMPS;
    __shared__ factors shared;
    if (threadIdx.x == 0) shared = factors_of(a, step, (double)norm[0], norm[1] != 0);
    __syncthreads();
    const factors f = shared;
    const int64_t all = x.n / ADAMW_VALUES;
    int64_t       i = (int64_t)blockIdx.x * trips * ADAMW_BLOCK + threadIdx.x;
    for (int k = 0; k < trips && i < all; k++, i += ADAMW_BLOCK)
        update<ADAMW_VALUES, T, COPIES>(x, f, a.zero, i * ADAMW_VALUES);
    if (blockIdx.x == 0 && threadIdx.x < x.n % ADAMW_VALUES)
        update<1, T, COPIES>(x, f, a.zero, all * ADAMW_VALUES + threadIdx.x);
}

extern "C" mba_status adamw_cuda(const mba_call *c)
{
    const mba_node  *n = c->node;
    const adamw_attr a = *(const adamw_attr *)n->attr;
    const group      x = { (float *)c->out[PO], (float *)c->out[GO], (float *)c->out[MO],
                           (float *)c->out[VO], c->out[COPYO],       mba_elems(n->in[P]) };
    const mba_dtype  copy = n->in[COPY] ? n->in[COPY]->type.dtype : MBA_F32;
    const int        trips = (int)mba_ceil(mba_ceil(x.n, ADAMW_BLOCK * ADAMW_VALUES), c->plan->launch[0].grid[0]);
    MBA_WITH_DTYPE(copy, T,
                   MBA_WITH_BOOL(n->in[COPY] != NULL, COPIES, auto *kernel = adamw_flat<T, COPIES>;
                                 MBA_KERNEL(c, 0, kernel, x, a, (const float *)c->in[NORM], c->step, trips)));
    return MBA_OK;
}
