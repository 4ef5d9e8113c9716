// SPDX-License-Identifier: Apache-2.0
/* ssd_task.cuh -- what every kernel of this folder gets: sizes, windows, and scratch, under the names of ssd.md. */
#ifndef MBA_SSD_TASK_CUH
#define MBA_SSD_TASK_CUH

#include "device/cuda/common.cuh"
extern "C" {
#include "ops/ssd/ssd_slots.h"
}

/* Element (b, l, h) and what follows it: three distances, the last axis side by side. */
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
    if (t && ssd_axes_of(&a, t)) // the plan has refused what is not so
        for (int i = 0; i < 3; i++) s.axis[i] = a.axis[i];
    return s;
}

/* Takes n numbers from a piece of scratch. */
template <typename T> static T *take(char *&from, int64_t n)
{
    T *p = (T *)from;
    from += n * (int64_t)sizeof(T);
    return p;
}

/* ---- for kernels ---- */

/* T: activations. CS: the cumulative log decay. ST: states, their gradients, C B^T and its gradient. */
template <typename TT, typename CC, typename SS> struct task {
    typedef TT T;
    typedef CC CS;
    typedef SS ST;
    enum { TENSOR = sizeof(SS) == 2 };                  /* products on tensor cores: ST is rounded to bf16 */
    int                  B, L, H, P, G, N, J, Q, K, KQ; /* K chunks of Q; KQ = K Q positions, padding included */
    int                  tiles, ptiles, ntiles;         /* of a chunk by 64; of P, of N */
    int                  rtiles, xtiles;                /* of the rows of a chunk: per block of dB, dC; of scan, dx */
    int                  pairs;                         /* of heads of a group (tensor cores) */
    int                  cparts;                        /* partial sums of <H, G'> per (b, h, chunk) */
    int                  skip_cols;                     /* of D: 0, 1 or P */
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
    float *step, *in, *out;  /* (B, H, KQ): dt; decay of the entering state; decay up to the end */
    CS    *cs;               /* (B, H, KQ) */
    int   *since;            /* (B, KQ): the first source that reaches a position; NULL: all do */
    ST    *states, *dstates; /* (B, K, H, P, N) */
    ST    *cb, *dcb;         /* (B, K, G, Q, Q), tiles on and below the diagonal */
    ST    *cb_low;           /* TENSOR, backward: what cb lost; NULL: nobody wants it */
    float *dbs, *dcs;        /* (B, KQ, G, N): dB and dC through the states */
    float *rowsum, *colsum;  /* (tiles, B, H, KQ): of M, without its diagonal */
    float *r, *q;            /* (ntiles, B, H, KQ) */
    float *dstep;            /* (ptiles, B, H, KQ): acc . x; TENSOR: (B, H, KQ), from M */
    float *ddA;              /* (B, H, KQ) */
    float *dchunk;           /* (B, H, K, cparts) */
    float *dpar;             /* (2, B K, H): parts of dA_log, ddt_bias */
    float *dD;               /* (B K xtiles, H, P), or (B K xtiles ptiles, H) */
};

/* A block (or warp) number as digits: the last one runs fastest. */
static __device__ __forceinline__ int unravel_next(unsigned &i, int n)
{
    const unsigned d = i % (unsigned)n;
    i /= (unsigned)n;
    return (int)d;
}

/* f for the tiles of a block: its own, or, where blocks stay (STAYS), one of every gridDim tiles. Which one moves on by
 * one from round to round: causal tiles differ in work with a period, and a grid that is a multiple of it would give
 * some blocks the long ones always. A tile may use shared memory as if it were the only one. */
template <bool STAYS, typename F> static __device__ __forceinline__ void for_tiles(unsigned tiles, const F &f)
{
    if constexpr (STAYS) {
        __shared__ unsigned round, next; // beside the sums of a tile there are no registers for them
        if (threadIdx.x == 0) round = 0, next = blockIdx.x;
        __syncthreads();
        while (next < tiles) {
            f(next);
            __syncthreads();
            if (threadIdx.x == 0) {
                round++;
                next = round * gridDim.x + (blockIdx.x + round) % gridDim.x;
            }
            __syncthreads();
        }
    } else {
        f(blockIdx.x);
    }
}

static __device__ __forceinline__ float softplus(float x) { return x > 20 ? x : log1pf(expf(x)); }

/* The raw step of a token, its bias included. */
template <typename A> static __device__ __forceinline__ float raw_step(const A &a, int b, int64_t l, int h)
{
    return to_float(*a.dt.row(b, l, h)) + (a.bias ? a.bias[h] : 0);
}

#endif
