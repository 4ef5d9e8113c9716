// SPDX-License-Identifier: Apache-2.0
/* windows_cuda.cu -- copies rows of an image to rows of windows, and back.
 *
 *   tokens (M, w*w, C) and image (B, H, W, C), fp32 or bf16; padding is read as zeros and never written back
 *
 * kernel     window_rows     a thread copies 16 bytes of an output row; it computes the source row
 * takes      everything; one value per thread where rows are not whole 16-byte vectors
 * launch     grid ceil(rows * C / V / 256), block 256
 * resources  sm_90a, CUDA 13.0: 30 to 36 registers, no spill  [docs]
 * moves      both operands once: bound by DRAM
 * measured   H200: window_partition 48 us, 68 % of the copy rate;  [docs: op window_*]
 *              mambavision-t stage 2 at 448 px, batch 128  [docs]
 *            window_reverse 40 us, 81 % of the copy rate; mambavision-t stage 2 at 448 px, batch 128  [docs]
 * order      no sums */
#include "device/cuda/common.cuh"
extern "C" {
#include "ops/windows/windows_slots.h"
}

/* windows_pixel of windows_slots.h and its inverse, for kernels. */
struct geometry {
    int64_t H, W, w, down, across;
};

static __device__ __forceinline__ int64_t pixel_of(geometry a, int64_t r)
{
    const int64_t token = r % (a.w * a.w), m = r / (a.w * a.w);
    const int64_t y = m / a.across % a.down * a.w + token / a.w, x = m % a.across * a.w + token % a.w;
    return y < a.H && x < a.W ? (m / a.across / a.down * a.H + y) * a.W + x : -1;
}

static __device__ __forceinline__ int64_t token_of(geometry a, int64_t r)
{
    const int64_t x = r % a.W, y = r / a.W % a.H, b = r / a.W / a.H;
    return ((b * a.down + y / a.w) * a.across + x / a.w) * a.w * a.w + y % a.w * a.w + x % a.w;
}

template <typename T, int V, bool CUT, bool ADDS>
__global__ void __launch_bounds__(256)
    window_rows(strided_view<T> to, strided_view<const T> from, geometry a, int64_t rows, int64_t cols)
{
    const int64_t i = ((int64_t)blockIdx.x * 256 + threadIdx.x) * V, r = i / cols, c = i % cols;
    if (r >= rows) return;
    const int64_t source = CUT ? pixel_of(a, r) : token_of(a, r);
    float         v[V], old[V];
#pragma unroll
    for (int k = 0; k < V; k++) v[k] = 0;
    if (source >= 0) load(v, from.row(source, cols) + c);
    if (ADDS) {
        load(old, to.row(r, cols) + c);
#pragma unroll
        for (int k = 0; k < V; k++) v[k] += old[k];
    }
    store(to.row(r, cols) + c, v);
}

template <typename T, int V, bool CUT> static mba_status launch(const mba_call *c)
{
    const mba_node             *n = c->node;
    const windows_attr         *t = (const windows_attr *)n->attr;
    const geometry              a = { t->H, t->W, t->w, windows_down(t), windows_across(t) };
    const int64_t               rows = mba_rows(n->out[TO]), cols = mba_cols(n->out[TO]);
    const unsigned              grid = (unsigned)mba_ceil(rows * cols, 256 * V);
    const strided_view<T>       to = mba_strided_view<T>(n->out[TO], c->out[TO]);
    const strided_view<const T> from = mba_strided_view<const T>(n->in[FROM], c->in[FROM]);
    MBA_WITH_BOOL(mba_adds(n, TO), ADDS,
                  (window_rows<T, V, CUT, ADDS><<<grid, 256, 0, mba_cuda_stream(c)>>>(to, from, a, rows, cols)));
    return mba__cuda_launch_check(c, 0);
}

template <bool CUT> static mba_status move(const mba_call *c)
{
    const mba_tensor *from = c->node->in[FROM], *to = c->node->out[TO];
    MBA_WITH_DTYPE(to->type.dtype, T, constexpr int V = 16 / sizeof(T);
                   if (mba_vec_aligned(from, c->in[FROM], V)
                       && mba_vec_aligned(to, c->out[TO], V)) return launch<T, V, CUT>(c);
                   else return launch<T, 1, CUT>(c));
}

extern "C" mba_status window_partition_cuda(const mba_call *c) { return move<true>(c); }
extern "C" mba_status window_reverse_cuda(const mba_call *c) { return move<false>(c); }
