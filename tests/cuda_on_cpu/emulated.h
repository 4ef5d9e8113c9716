// SPDX-License-Identifier: Apache-2.0
/* emulated.h -- CUDA C for the host: what translate.py includes before a *_cuda.cu. Types come from the toolkit's
 * headers; launches, intrinsics and the runtime calls of launchers are here, PTX is in ptx.h.
 *
 * The kernels are those of sm_80. Of the host's part of a file nothing may depend on __CUDA_ARCH__. */
#ifndef MBA_TESTS_CUDA_ON_CPU_EMULATED_H
#define MBA_TESTS_CUDA_ON_CPU_EMULATED_H

#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <math.h>
#include <stdint.h>
#include <string.h>
#include <initializer_list>
#include <tuple>
#include <type_traits>

#include "tests/cuda_on_cpu/block.h"

#define __CUDA_ARCH__ 800
#undef __device__
#undef __host__
#undef __global__
#undef __constant__
#undef __shared__
#undef __forceinline__
#undef __launch_bounds__
#undef __grid_constant__
#undef __maxnreg__
#define __device__
#define __host__
#define __global__
#define __constant__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__
#define __maxnreg__(...)
#undef __align__ // of no system header: the preprocessor would say so on a line of its own
#undef NULL
#define __align__(bytes) __attribute__((aligned(bytes)))
#define NULL             __null

#define threadIdx          (emulated_now->index)
#define __expf             emulated_expf // names that the host's library has, too
#define __logf             logf
#define cudaLaunchKernelEx emulated_launch_by

/* Of numbers and of enumerations, of one type or of two. */
template <typename A, typename B> static inline auto min(A a, B b) -> decltype(+a + +b) { return b < a ? b : a; }
template <typename A, typename B> static inline auto max(A a, B b) -> decltype(+a + +b) { return a < b ? b : a; }

/* ---- launches ---- */

struct emulated_how {
    dim3   grid, block;
    size_t bytes;
};

static inline emulated_how emulated_setting(dim3 grid, dim3 block, size_t bytes = 0, cudaStream_t = NULL)
{
    return { grid, block, bytes };
}

template <typename... P> struct emulated_call {
    void (*kernel)(P...);
    std::tuple<std::decay_t<P>...> arguments;
};

template <typename... P> static void emulated_body(void *of)
{
    emulated_call<P...> *c = (emulated_call<P...> *)of;
    std::apply(c->kernel, c->arguments);
}

template <typename... P, typename... A>
static void emulated_launch(const char *name, emulated_how h, void (*kernel)(P...), A &&...arguments)
{
    emulated_call<P...> c = { kernel, { (std::decay_t<P>)arguments... } };
    emulated_run(name, { h.grid.x, h.grid.y, h.grid.z }, { h.block.x, h.block.y, h.block.z }, h.bytes,
                 emulated_body<P...>, &c);
}

template <typename... P, typename... A>
static cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t *how, void (*kernel)(P...), A &&...arguments)
{
    emulated_launch("of a dependent launch", { how->gridDim, how->blockDim, how->dynamicSmemBytes }, kernel,
                    arguments...);
    return cudaSuccess;
}

/* ---- calls of the runtime, under names of their own: the library may be linked, too ---- */

#define cudaGetLastError                 emulated_error
#define cudaMemsetAsync                  emulated_memset
#define cudaMemcpyToSymbolAsync          emulated_symbol
#define cudaGetDevice                    emulated_device
#define cudaDeviceGetAttribute           emulated_attribute
#define cudaGetDriverEntryPointByVersion emulated_entry

static inline cudaError_t emulated_error(void) { return cudaSuccess; }
static inline cudaError_t emulated_device(int *device) { return *device = 0, cudaSuccess; }
static inline cudaError_t emulated_memset(void *to, int byte, size_t bytes, cudaStream_t)
{
    memset(to, byte, bytes);
    return cudaSuccess;
}
template <typename T>
static cudaError_t emulated_symbol(T &to, const void *from, size_t bytes, size_t at, cudaMemcpyKind, cudaStream_t)
{
    memcpy((char *)&to + at, from, bytes);
    return cudaSuccess;
}
static inline cudaError_t emulated_attribute(int *value, cudaDeviceAttr which, int)
{
    *value = which == cudaDevAttrComputeCapabilityMajor ? 8 : 0;
    return cudaSuccess;
}
template <typename... A> static cudaError_t emulated_entry(A...)
{
    return cudaErrorNotSupported;
} // of tensor maps: sm_90

/* ---- barriers, warps ---- */

static inline void __syncthreads(void) { emulated_barrier(0, 0, true); }
static inline void __syncwarp(unsigned mask = ~0u) { emulated_meet(mask, NULL, NULL); }

static inline int __syncthreads_or(int yes)
{
    static emulated_place any;
    int                  *all = (int *)emulated_shared(&any, sizeof *all);
    __syncthreads();
    *all = 0;
    __syncthreads();
    if (yes) *all = 1;
    __syncthreads();
    yes = *all;
    __syncthreads();
    return yes;
}

/* A shuffle: every lane gives a value and names the lane whose value it takes. */
template <typename T> struct emulated_shuffle {
    T   give, take;
    int from;
};

template <typename T> static void emulated_shuffle_all(void *const at[EMULATED_WARP], unsigned mask)
{
    for (int k = 0; k < EMULATED_WARP; k++) {
        if (!(mask >> k & 1)) continue;
        emulated_shuffle<T> *s = (emulated_shuffle<T> *)at[k];
        if (!(mask >> s->from & 1)) emulated_fail("lane %d takes from lane %d, which is not there", k, s->from);
        s->take = ((emulated_shuffle<T> *)at[s->from])->give;
    }
}

template <typename T> static inline T emulated_take(unsigned mask, T give, int from)
{
    emulated_shuffle<T> s = { give, give, from };
    emulated_meet(mask, emulated_shuffle_all<T>, &s);
    return s.take;
}

static inline int emulated_lane(void) { return emulated_now->id % EMULATED_WARP; }

template <typename T> static inline T __shfl_sync(unsigned mask, T x, int from, int width = 32)
{
    return emulated_take(mask, x, (emulated_lane() & ~(width - 1)) + (from & (width - 1)));
}
template <typename T> static inline T __shfl_xor_sync(unsigned mask, T x, int bits, int width = 32)
{
    const int lane = emulated_lane(), from = lane ^ bits;
    return emulated_take(mask, x, from >= (lane & ~(width - 1)) + width ? lane : from);
}
template <typename T> static inline T __shfl_up_sync(unsigned mask, T x, unsigned by, int width = 32)
{
    const int lane = emulated_lane(), from = lane - (int)by;
    return emulated_take(mask, x, from < (lane & ~(width - 1)) ? lane : from);
}
template <typename T> static inline T __shfl_down_sync(unsigned mask, T x, unsigned by, int width = 32)
{
    const int lane = emulated_lane(), from = lane + (int)by;
    return emulated_take(mask, x, from >= (lane & ~(width - 1)) + width ? lane : from);
}

/* Every lane gives a value; every lane learns which lanes gave the same, and the sum. */
struct emulated_vote {
    unsigned give, same, sum;
};

static void emulated_count(void *const at[EMULATED_WARP], unsigned mask)
{
    for (int k = 0; k < EMULATED_WARP; k++) {
        if (!(mask >> k & 1)) continue;
        emulated_vote *v = (emulated_vote *)at[k];
        for (int j = 0; j < EMULATED_WARP; j++) {
            if (!(mask >> j & 1)) continue;
            const unsigned given = ((emulated_vote *)at[j])->give;
            v->same |= (unsigned)(given == v->give) << j;
            v->sum += given;
        }
    }
}

static inline emulated_vote emulated_counted(unsigned mask, unsigned give)
{
    emulated_vote v = { give, 0, 0 };
    emulated_meet(mask, emulated_count, &v);
    return v;
}

static inline unsigned __ballot_sync(unsigned mask, int yes)
{
    const emulated_vote v = emulated_counted(mask, yes != 0);
    return yes ? v.same : v.sum ? mask & ~v.same : 0;
}
static inline int      __any_sync(unsigned mask, int yes) { return __ballot_sync(mask, yes) != 0; }
static inline unsigned __match_any_sync(unsigned mask, unsigned x) { return emulated_counted(mask, x).same; }
static inline int      __reduce_add_sync(unsigned mask, int x) { return (int)emulated_counted(mask, (unsigned)x).sum; }

/* ---- memory ---- */

static inline size_t __cvta_generic_to_shared(const void *at) { return emulated_address(at); }
static inline void  *__cvta_shared_to_generic(size_t at) { return emulated_at_address((uint32_t)at); }
static inline void   __threadfence(void) {}
static inline void   __nanosleep(unsigned) { emulated_yield(); }
static inline void   __trap(void) { emulated_fail("__trap"); }

template <typename T> static inline T    __ldcg(const T *at) { return *at; }
template <typename T> static inline T    __ldcs(const T *at) { return *at; }
template <typename T> static inline T    __ldg(const T *at) { return *at; }
template <typename T> static inline void __stcs(T *at, T x) { *at = x; }
template <typename T> static inline void __stcg(T *at, T x) { *at = x; }

template <typename T, typename A> static inline T atomicAdd(T *at, A x)
{
    const T before = *at;
    *at = before + (T)x;
    return before;
}
template <typename T, typename A> static inline T atomicOr(T *at, A x)
{
    const T before = *at;
    *at = before | (T)x;
    return before;
}

/* ---- numbers ---- */

template <typename T, typename F> static inline T emulated_bits(F from)
{
    static_assert(sizeof(T) == sizeof(F), "the same bits");
    T to;
    memcpy(&to, &from, sizeof to);
    return to;
}
static inline float    emulated_flushed(float x) { return fabsf(x) < 1.17549435e-38f ? copysignf(0, x) : x; }
static inline float    __uint_as_float(uint32_t x) { return emulated_bits<float>(x); }
static inline uint32_t __float_as_uint(float x) { return emulated_bits<uint32_t>(x); }
static inline float    __int_as_float(int x) { return emulated_bits<float>(x); }
static inline int      __float_as_int(float x) { return emulated_bits<int>(x); }
static inline float    __expf(float x) { return emulated_flushed(exp2f(emulated_flushed(x * 1.44269504f))); }
static inline float    __fdividef(float a, float b) { return a / b; }
static inline float    __fmul_rn(float a, float b) { return a * b; }
static inline float    __fadd_rn(float a, float b) { return a + b; }
static inline float    rsqrtf(float x) { return (float)(1 / sqrt((double)x)); }
static inline double   rsqrt(double x) { return 1 / sqrt(x); }
static inline void     sincospi(double x, double *s, double *c) { sincos(x * 3.14159265358979323846, s, c); }
static inline int      __popc(unsigned x) { return __builtin_popcount(x); }
static inline int      __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }
static inline int      __ffs(int x) { return __builtin_ffs(x); }
static inline uint32_t __umulhi(uint32_t a, uint32_t b) { return (uint32_t)((uint64_t)a * b >> 32); }

#include "tests/cuda_on_cpu/ptx.h"

#endif
