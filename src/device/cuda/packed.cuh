// SPDX-License-Identifier: Apache-2.0
/* packed.cuh -- loads in two steps, so that many are in flight before the first is used.
 *
 *     packed<T, V> p[N];
 *     for (..) fetch(p[i], from + i * apart, i < n);   // predicated: zeros if the condition is false
 *     for (..) unpack(values, p[i]);                   // waits for the load
 *
 * The compiler waits for a load that is converted at once, or that has a branch of its own, before it issues the next
 * one. Measured: the forward pass of gated_rmsnorm then runs at half the copy rate. */
#ifndef MBA_PACKED_CUH
#define MBA_PACKED_CUH

#include "device/cuda/common.cuh"

template <typename T, int N> struct packed {
    typename word<N * sizeof(T)>::type w;
};

template <int N, typename T>
static __device__ __forceinline__ void fetch(packed<T, N> &to, const T *from, bool there = true)
{
    typedef typename word<N * sizeof(T)>::type W;
    to.w = W();
    if (there) to.w = *(const W *)from;
}

template <int N, typename T> static __device__ __forceinline__ void unpack(float (&to)[N], const packed<T, N> &from)
{
    union {
        typename word<N * sizeof(T)>::type w;
        T                                  v[N];
    } u;
    u.w = from.w;
    spread(to, u.v);
}

/* Loads V values of a per-channel fp32 vector, aligned to 16 bytes if V > 1. */
template <int V> static __device__ __forceinline__ void load_weights(float (&to)[V], const float *from)
{
    if constexpr (V > 4) {
#pragma unroll
        for (int i = 0; i < V; i += 4) {
            const float4 w = *(const float4 *)(from + i);
            to[i] = w.x;
            to[i + 1] = w.y;
            to[i + 2] = w.z;
            to[i + 3] = w.w;
        }
    } else {
        load(to, from);
    }
}

#endif
