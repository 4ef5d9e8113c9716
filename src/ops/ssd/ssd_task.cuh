// SPDX-License-Identifier: Apache-2.0
/* ssd_task.cuh -- arguments of the multi-kernel variants of ssd (sizes, strided operands, scratch) under the names of
 * ssd.md, and the loop over tiles of persistent blocks. ssd_fused.cuh uses the strided operands too.
 *
 * `task` is passed to every kernel by value; ssd_launch.cuh fills it from a call and its plan. */
#ifndef MBA_SSD_TASK_CUH
#define MBA_SSD_TASK_CUH

#include "device/cuda/common.cuh"
extern "C" {
#include "ops/ssd/ssd_slots.h"
}

/* A strided operand: row(b, l, h) points to the contiguous last axis. */
template <typename T> struct strided {
    T                            *at;
    int64_t                       axis[3];
    __device__ __forceinline__ T *row(int64_t b, int64_t l, int64_t h) const
    {
        return at + b * axis[0] + l * axis[1] + h * axis[2];
    }
};

/* ---- for launchers ---- */

template <typename T> static strided<T> strided_of(const mba_tensor *t, void *at)
{
    strided<T> s = { (T *)(t ? at : NULL), { 0, 0, 0 } };
    ssd_axes   a;
    if (t && ssd_axes_of(&a, t)) // the plan refuses other views
        for (int i = 0; i < 3; i++) s.axis[i] = a.axis[i];
    return s;
}

/* Takes n values from a scratch buffer and advances the pointer. */
template <typename T> static T *take(char *&from, int64_t n)
{
    T *p = (T *)from;
    from += n * (int64_t)sizeof(T);
    return p;
}

/* Sets the operands that the arguments of both rooms have under the same names. T: type of activations. */
template <typename T, typename A> static void set_inputs(A &a, const mba_call *c)
{
    const mba_node *n = c->node;
    const ssd_dims  d = ssd_dims_of(n);
    a.skip_cols = (int)d.C;
    a.dt_min = (float)d.dt_min;
    a.dt_max = (float)d.dt_max;
    a.x = strided_of<const T>(n->in[X], c->in[X]);
    a.dt = strided_of<const T>(n->in[DT], c->in[DT]);
    a.bm = strided_of<const T>(n->in[BM], c->in[BM]);
    a.cm = strided_of<const T>(n->in[CM], c->in[CM]);
    a.ids = strided_of<const int>(n->in[IDS], c->in[IDS]);
    a.initial = strided_of<const float>(n->in[INITIAL], c->in[INITIAL]);
    a.A_log = (const float *)c->in[A_LOG];
    a.skip = n->in[SKIP] ? (const float *)c->in[SKIP] : NULL;
    a.bias = n->in[DT_BIAS] ? (const float *)c->in[DT_BIAS] : NULL;
}
template <typename T, typename A> static void set_gradients(A &a, const mba_call *c)
{
    const mba_node *n = c->node;
    a.dy = strided_of<const T>(n->in[DY], c->in[DY]);
    a.dfinal = strided_of<const float>(n->in[DFINAL], c->in[DFINAL]);
    a.ddt = strided_of<T>(n->out[DDT], c->out[DDT]);
    a.dbm = strided_of<T>(n->out[DBM], c->out[DBM]);
    a.dcm = strided_of<T>(n->out[DCM], c->out[DCM]);
    a.dinitial = strided_of<float>(n->out[DINITIAL], c->out[DINITIAL]);
    a.dA_log = (float *)c->out[DA_LOG];
    a.dskip = n->out[DSKIP] ? (float *)c->out[DSKIP] : NULL;
    a.dbias = n->out[DDT_BIAS] ? (float *)c->out[DDT_BIAS] : NULL;
    for (int k = DX; k <= DINITIAL; k++) a.adds[k] = mba_adds(n, k);
}

/* ---- for kernels ---- */

/* Types: T of activations, CS of cumulative log decays, ST of states, C B^T and the gradients of both. */
template <typename TT, typename CC, typename SS> struct task {
    typedef TT T;
    typedef CC CS;
    typedef SS ST;
    enum { TENSOR = sizeof(SS) == 2 };                  /* tensor cores: ST is bf16 */
    int                  B, L, H, P, G, N, J, Q, K, KQ; /* K chunks of Q; KQ = K Q positions, padding included */
    int                  tiles, ptiles, ntiles;         /* tiles per chunk (of 64), per P, per N */
    int                  rtiles, xtiles;                /* row tiles per chunk: of dB and dC; of y and dx */
    int                  pairs;                         /* pairs of heads per group (tensor cores) */
    int                  cparts;                        /* partial sums of <H, G'> per (b, h, chunk) */
    int                  skip_cols;                     /* columns of D: 0, 1 or P */
    float                dt_min, dt_max;
    bool                 adds[DINITIAL + 1];
    strided<const T>     x, dt, bm, cm, dy; /* dy may be absent */
    strided<T>           y, dx, ddt, dbm, dcm;
    strided<const float> initial, dfinal; /* rows (b, h, p) */
    strided<float>       final, dinitial;
    strided<const int>   ids; /* (b, l) */
    const float         *A_log, *skip, *bias;
    float               *dA_log, *dskip, *dbias;
    /* scratch */
    float *step, *in, *out;  /* (B, H, KQ): dt; decay since the chunk began; until it ends */
    CS    *cs;               /* (B, H, KQ) */
    int   *since;            /* (B, KQ): first source that reaches a position; NULL: all */
    ST    *states, *dstates; /* (B, K, H, P, N) */
    ST    *cb, *dcb;         /* (B, K, G, Q, Q), tiles on and below the diagonal */
    ST    *cb_low;           /* TENSOR, backward: rounding residual of cb; or NULL */
    float *dbs, *dcs;        /* (B, KQ, G, N): dB and dC through the states */
    float *rowsum, *colsum;  /* (tiles, B, H, KQ): of M, without its diagonal */
    float *r, *q;            /* (ntiles, B, H, KQ) */
    float *dstep;            /* (ptiles, B, H, KQ): acc . x; TENSOR: (B, H, KQ), from M */
    float *ddA;              /* (B, H, KQ) */
    float *dchunk;           /* (B, H, K, cparts) */
    float *dpar;             /* (2, B K, H): partial sums of dA_log, ddt_bias */
    float *dD;               /* (B K xtiles, H, P), or (B K xtiles ptiles, H) */
    /* persistent blocks */
    unsigned *counter;  /* tiles taken from this launch's counter, 0 before it; NULL: tiles are assigned beforehand */
    bool      prefetch; /* the inputs of a block's next tile */
};

/* Takes the fastest index, of extent n, out of a linear block number. */
static __device__ __forceinline__ int unravel_next(unsigned &i, int n)
{
    const unsigned d = i % (unsigned)n;
    i /= (unsigned)n;
    return (int)d;
}

/* Calls f(tile, next) for each tile of this block: tile blockIdx.x, or with PERSISTENT several. Assigned beforehand, it
 * is one of every gridDim tiles, rotated by one in each round: the work of causal tiles is periodic, and a grid that is
 * a multiple of the period would give some blocks only the long tiles. With a counter the block takes the next number
 * when it begins a tile: thread 0 alone waits for it, while other warps load. next: where the number of the block's
 * next tile is, if its inputs are to be prefetched, and NULL otherwise. Barriers between tiles let each use all shared
 * memory. */
template <bool PERSISTENT, typename A, typename F>
static __device__ __forceinline__ void for_tiles(const A &a, unsigned tiles, const F &f)
{
    if constexpr (PERSISTENT) {
        __shared__ unsigned round, tile, after; // in shared memory, because registers are short
        if (threadIdx.x == 0) round = 0, tile = blockIdx.x;
        __syncthreads();
        while (tile < tiles) {
            if (threadIdx.x == 0) {
                round++;
                after = a.counter ? gridDim.x + atomicAdd(a.counter, 1u)
                                  : round * gridDim.x + (blockIdx.x + round) % gridDim.x;
            }
            const unsigned *next = NULL;
            if (a.prefetch) {
                __syncthreads(); // `after` is known to all; volatile: nobody else may read it
                if (*(volatile unsigned *)&after < tiles) next = &after;
            }
            f(tile, next);
            __syncthreads();
            if (threadIdx.x == 0) tile = after;
            __syncthreads();
        }
    } else {
        f(blockIdx.x, (const unsigned *)NULL);
    }
}

/* Inclusive sums over the lanes of a warp, or of each LANES of it: up to this lane, and from it on. */
template <int LANES = 32, typename N> static __device__ __forceinline__ N warp_prefix_sum(N x)
{
    const int lane = threadIdx.x & (LANES - 1);
#pragma unroll
    for (int d = 1; d < LANES; d *= 2) {
        const N v = __shfl_up_sync(0xffffffffu, x, d);
        if (lane >= d) x += v;
    }
    return x;
}
template <int LANES = 32, typename N> static __device__ __forceinline__ N warp_suffix_sum(N x)
{
    const int lane = threadIdx.x & (LANES - 1);
#pragma unroll
    for (int d = 1; d < LANES; d *= 2) {
        const N v = __shfl_down_sync(0xffffffffu, x, d);
        if (lane + d < LANES) x += v;
    }
    return x;
}

static __device__ __forceinline__ float softplus(float x) { return x > 20 ? x : log1pf(expf(x)); }

/* dt of a token before softplus, with its bias. */
template <typename A> static __device__ __forceinline__ float raw_step(const A &a, int b, int64_t l, int h)
{
    return to_float(*a.dt.row(b, l, h)) + (a.bias ? a.bias[h] : 0);
}

#endif
