// SPDX-License-Identifier: Apache-2.0
/* conv2d_cuda.cu -- convolutions of images, channels last: cuDNN (device/cuda/dnn.h) where it takes the shape, else
 * plain loops.
 *
 *   x, y, dx, dy (B, H, W, C) fp32 or bf16     w (Co, Ci, kh, kw) of the same type     bias, dw, dbias fp32
 *
 * kernel     conv2d_filter      w as (Co, kh, kw, Ci'), Ci' a multiple of 8 in bf16, as the library requires
 * kernel     conv2d_pixels      x with Ci' channels, for the three channels of the stem
 * kernel     conv2d_dfilter     dw back in its own layout, fp32, stored or added
 * kernel     conv2d_bias        y += bias, V channels per thread
 * kernel     conv2d_direct, conv2d_direct_dx, conv2d_direct_dw     one output per thread (dw: per block): for shapes
 *            that the library does not take, not for speed
 * moves      y again for its bias, dy again for its gradient; layouts are small, except for the pixels of the stem
 * measured   H200: conv2d_filter 3.04 us, 11 % of floor (special), ALU 25 % busy; mambavision-t, 128 images  [docs]
 *            conv2d_pixels 38.6 us, 92 % of floor (memory); mambavision-t, 128 images  [docs]
 *            conv2d_dfilter 9.89 us, 28 % of floor (memory), ALU 43 % busy; mambavision-t, 128 images  [docs]
 *            conv2d_bias 16.3 us, 100 % of floor (memory), L1/shared 80 % busy; mambavision-t, 128 images  [docs]
 *            not yet: conv2d_direct, conv2d_direct_dx, conv2d_direct_dw  [docs]
 * order      fixed: the library selects deterministic kernels; sums over positions use columns.cuh */
#include "device/cuda/columns.cuh"
#include "device/cuda/dnn.h"
extern "C" {
#include "ops/conv2d/conv2d_slots.h"
}

/* ---- layouts ---- */

template <typename T>
__global__ void __launch_bounds__(256)
    conv2d_filter(T *to, const T *w, int64_t Ci, int64_t padded, int64_t taps, int64_t all)
{
    const int64_t i = (int64_t)blockIdx.x * 256 + threadIdx.x, ci = i % padded, tap = i / padded % taps,
                  co = i / padded / taps;
    if (i < all) to[i] = ci < Ci ? w[(co * Ci + ci) * taps + tap] : from_float<T>(0);
}

template <typename T>
__global__ void __launch_bounds__(256)
    conv2d_dfilter(float *dw, const T *from, int64_t Ci, int64_t padded, int64_t taps, int64_t all, bool adds)
{
    const int64_t i = (int64_t)blockIdx.x * 256 + threadIdx.x, tap = i % taps, ci = i / taps % Ci, co = i / taps / Ci;
    if (i < all) dw[i] = to_float(from[(co * taps + tap) * padded + ci]) + (adds ? dw[i] : 0);
}

/* A thread writes a 16-byte vector of channels: all of a pixel of the stem. */
template <typename T>
__global__ void __launch_bounds__(256)
    conv2d_pixels(T *to, strided_view<const T> x, int64_t Ci, int64_t padded, int64_t vectors)
{
    constexpr int V = 16 / sizeof(T);
    const int64_t i = (int64_t)blockIdx.x * 256 + threadIdx.x, per = padded / V, pixel = i / per, first = i % per * V;
    if (i >= vectors) return;
    const T *from = x.row(pixel, Ci);
    float    v[V];
#pragma unroll
    for (int k = 0; k < V; k++) v[k] = first + k < Ci ? to_float(from[first + k]) : 0;
    store(to + i * V, v);
}

template <typename T, int V>
__global__ void __launch_bounds__(256) conv2d_bias(strided_view<T> y, const float *bias, int64_t rows, int64_t cols)
{
    const int64_t i = ((int64_t)blockIdx.x * 256 + threadIdx.x) * V, r = i / cols, c = i % cols;
    if (r >= rows) return;
    float v[V];
    load(v, y.row(r, cols) + c);
#pragma unroll
    for (int k = 0; k < V; k++) v[k] += bias[c + k];
    store(y.row(r, cols) + c, v);
}

/* ---- sums over positions: dbias ---- */

/* Launches kernel *k and the next one of the plan, if there is a bias. */
template <typename T> static mba_status dbias(const mba_call *c, int *k)
{
    const mba_node *n = c->node;
    if (!n->out[DBIAS]) return MBA_OK;
    const own_sums<T> f = { mba_strided_view<const T>(n->in[DY], c->in[DY]), mba_cols(n->in[DY]) };
    const keep_total  use = { (float *)c->out[DBIAS], mba_adds(n, DBIAS) };
    float            *part = (float *)mba_cuda_scratch(c, CUDA_PARTS);
    const int         first = *k;
    *k += 2;
    if (conv2d_bias_columns(n) > 1) return mba_column_sums<1, 16 / sizeof(T)>(c, first, n->in[DY], f, use, part);
    return mba_column_sums<1, 1>(c, first, n->in[DY], f, use, part);
}

/* ---- the library ---- */

template <typename T> static mba_cuda_conv prepare(const mba_call *c, mba_conv_kind kind)
{
    const mba_node   *n = c->node;
    const conv2d_dims d = conv2d_dims_of(n);
    const mba_tensor *y = n->in[DY] ? n->in[DY] : n->out[Y];
    mba_cuda_conv     k = {};
    k.B = d.B;
    k.H = d.H;
    k.W = d.W;
    k.Ci = conv2d_padded(n);
    k.Ho = d.Ho;
    k.Wo = d.Wo;
    k.Co = d.Co;
    k.kh = d.kh;
    k.kw = d.kw;
    k.stride = d.stride;
    k.pad = d.pad;
    k.pitch_x = d.Ci == k.Ci ? mba_ld(n->in[X]) : k.Ci;
    k.pitch_y = mba_ld(y);
    k.kind = kind;
    k.dtype = n->in[X]->type.dtype;
    k.tf32 = n->tf32;
    k.work = mba_cuda_scratch(c, CUDA_LIBRARY);
    k.stream = c->stream;
    k.x = d.Ci == k.Ci ? c->in[X] : mba_cuda_scratch(c, CUDA_PIXELS);
    k.w = mba_cuda_scratch(c, CUDA_WEIGHTS);
    k.y = n->in[DY] ? c->in[DY] : c->out[Y];
    return k;
}

/* Converts filters, and pixels if they need padding, to the layout of the library: the first launches of the plan. */
template <typename T> static mba_status lay_out(const mba_call *c, int *k)
{
    const mba_node   *n = c->node;
    const conv2d_dims d = conv2d_dims_of(n);
    const int64_t     padded = conv2d_padded(n), filter = d.Co * d.taps * padded, vectors = conv2d_pixel_vectors(n);
    MBA_KERNEL(c, (*k)++, conv2d_filter<T>, (T *)mba_cuda_scratch(c, CUDA_WEIGHTS), (const T *)c->in[W], d.Ci, padded,
               d.taps, filter);
    if (padded != d.Ci)
        MBA_KERNEL(c, (*k)++, conv2d_pixels<T>, (T *)mba_cuda_scratch(c, CUDA_PIXELS),
                   mba_strided_view<const T>(n->in[X], c->in[X]), d.Ci, padded, vectors);
    return MBA_OK;
}

template <typename T> static mba_status forward(const mba_call *c)
{
    const mba_node *n = c->node;
    int             k = 0;
    MBA_TRY(lay_out<T>(c, &k));
    const mba_cuda_conv conv = prepare<T>(c, MBA_CONV_FORWARD);
    MBA_TRY(mba_cuda_conv2d(&conv));
    k++;
    if (!n->in[BIAS]) return MBA_OK;
    const strided_view<T> y = mba_strided_view<T>(n->out[Y], c->out[Y]);
    const int64_t         rows = mba_rows(n->out[Y]), cols = mba_cols(n->out[Y]);
    if (conv2d_bias_columns(n) > 1)
        MBA_KERNEL(c, k, (conv2d_bias<T, 16 / sizeof(T)>), y, (const float *)c->in[BIAS], rows, cols);
    else MBA_KERNEL(c, k, (conv2d_bias<T, 1>), y, (const float *)c->in[BIAS], rows, cols);
    return MBA_OK;
}

template <typename T> static mba_status backward(const mba_call *c)
{
    const mba_node   *n = c->node;
    const conv2d_dims d = conv2d_dims_of(n);
    int               k = 0;
    MBA_TRY(lay_out<T>(c, &k));
    mba_cuda_conv conv = prepare<T>(c, MBA_CONV_FILTER);
    conv.w = mba_cuda_scratch(c, CUDA_DWEIGHTS);
    MBA_TRY(mba_cuda_conv2d(&conv));
    k++;
    MBA_KERNEL(c, k++, conv2d_dfilter<T>, (float *)c->out[DW], (const T *)conv.w, d.Ci, conv.Ci, d.taps,
               mba_elems(n->in[W]), mba_adds(n, DW));
    MBA_TRY(dbias<T>(c, &k));
    if (!n->out[DX]) return MBA_OK;
    conv = prepare<T>(c, MBA_CONV_DATA);
    conv.x = c->out[DX];
    conv.pitch_x = mba_ld(n->out[DX]);
    conv.adds = mba_adds(n, DX);
    return mba_cuda_conv2d(&conv);
}

extern "C" mba_status conv2d_cuda(const mba_call *c)
{
    MBA_WITH_DTYPE(c->node->in[X]->type.dtype, T, return forward<T>(c));
}
extern "C" mba_status conv2d_bwd_cuda(const mba_call *c)
{
    MBA_WITH_DTYPE(c->node->in[X]->type.dtype, T, return backward<T>(c));
}

/* ---- plain loops ---- */

template <typename T>
__global__ void __launch_bounds__(256)
    conv2d_direct(strided_view<T> y, strided_view<const T> x, const T *w, const float *bias, conv2d_dims d)
{
    const int64_t i = (int64_t)blockIdx.x * 256 + threadIdx.x, co = i % d.Co, at = i / d.Co, q = at % d.Wo,
                  p = at / d.Wo % d.Ho, b = at / d.Wo / d.Ho;
    if (b >= d.B) return;
    float sum = bias ? bias[co] : 0;
    for (int64_t tap = 0; tap < d.taps; tap++) {
        const int64_t v = d.stride * p + tap / d.kw - d.pad, u = d.stride * q + tap % d.kw - d.pad;
        if (v < 0 || v >= d.H || u < 0 || u >= d.W) continue;
        const T *from = x.row((b * d.H + v) * d.W + u, d.Ci);
        for (int64_t ci = 0; ci < d.Ci; ci++)
            sum = fmaf(to_float(w[(co * d.Ci + ci) * d.taps + tap]), to_float(from[ci]), sum);
    }
    y.row(at, d.Co)[co] = from_float<T>(sum);
}

template <typename T>
__global__ void __launch_bounds__(256)
    conv2d_direct_dx(strided_view<T> dx, strided_view<const T> dy, const T *w, conv2d_dims d, bool adds)
{
    const int64_t i = (int64_t)blockIdx.x * 256 + threadIdx.x, ci = i % d.Ci, at = i / d.Ci, u = at % d.W,
                  v = at / d.W % d.H, b = at / d.W / d.H;
    if (b >= d.B) return;
    float sum = 0;
    for (int64_t tap = 0; tap < d.taps; tap++) {
        const int64_t p = v + d.pad - tap / d.kw, q = u + d.pad - tap % d.kw;
        if (p < 0 || q < 0 || p % d.stride || q % d.stride || p / d.stride >= d.Ho || q / d.stride >= d.Wo) continue;
        const T *from = dy.row((b * d.Ho + p / d.stride) * d.Wo + q / d.stride, d.Co);
        for (int64_t co = 0; co < d.Co; co++)
            sum = fmaf(to_float(w[(co * d.Ci + ci) * d.taps + tap]), to_float(from[co]), sum);
    }
    T *to = dx.row(at, d.Ci) + ci;
    *to = from_float<T>(sum + (adds ? to_float(*to) : 0));
}

template <typename T>
__global__ void __launch_bounds__(256)
    conv2d_direct_dw(float *dw, strided_view<const T> dy, strided_view<const T> x, conv2d_dims d, bool adds)
{
    const int64_t i = blockIdx.x, tap = i % d.taps, ci = i / d.taps % d.Ci, co = i / d.taps / d.Ci,
                  all = d.B * d.Ho * d.Wo;
    float sum = 0;
    for (int64_t at = threadIdx.x; at < all; at += 256) {
        const int64_t q = at % d.Wo, p = at / d.Wo % d.Ho, b = at / d.Wo / d.Ho;
        const int64_t v = d.stride * p + tap / d.kw - d.pad, u = d.stride * q + tap % d.kw - d.pad;
        if (v < 0 || v >= d.H || u < 0 || u >= d.W) continue;
        sum = fmaf(to_float(dy.row(at, d.Co)[co]), to_float(x.row((b * d.H + v) * d.W + u, d.Ci)[ci]), sum);
    }
    sum = block_sum<256>(sum);
    if (threadIdx.x == 0) dw[i] = sum + (adds ? dw[i] : 0);
}

extern "C" mba_status conv2d_direct_cuda(const mba_call *c)
{
    const mba_node *n = c->node;
    MBA_WITH_DTYPE(n->in[X]->type.dtype, T,
                   MBA_KERNEL(c, 0, conv2d_direct<T>, mba_strided_view<T>(n->out[Y], c->out[Y]),
                              mba_strided_view<const T>(n->in[X], c->in[X]), (const T *)c->in[W],
                              (const float *)c->in[BIAS], conv2d_dims_of(n)));
    return MBA_OK;
}

extern "C" mba_status conv2d_direct_bwd_cuda(const mba_call *c)
{
    const mba_node   *n = c->node;
    const conv2d_dims d = conv2d_dims_of(n);
    MBA_WITH_DTYPE(n->in[X]->type.dtype, T,
                   const strided_view<const T> x = mba_strided_view<const T>(n->in[X], c->in[X]);
                   const strided_view<const T> dy = mba_strided_view<const T>(n->in[DY], c->in[DY]); int k = 0;
                   MBA_KERNEL(c, k++, conv2d_direct_dw<T>, (float *)c->out[DW], dy, x, d, mba_adds(n, DW));
                   MBA_TRY(dbias<T>(c, &k));
                   if (n->out[DX]) MBA_KERNEL(c, k, conv2d_direct_dx<T>, mba_strided_view<T>(n->out[DX], c->out[DX]),
                                              dy, (const T *)c->in[W], d, mba_adds(n, DX)));
    return MBA_OK;
}
