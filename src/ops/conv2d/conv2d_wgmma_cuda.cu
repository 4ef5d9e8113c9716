// SPDX-License-Identifier: Apache-2.0
/* conv2d_wgmma_cuda.cu -- convolutions of 3 x 3 taps, stride 1, padding 1, by wgmma, for Hopper.
 *
 *   x, y (B, H, W, C) bf16, channels contiguous     w (Co, Ci, 3, 3) bf16     bias fp32
 *
 * The im2col matrix is never built: a patch of pixels lies in shared memory once, and the rows that ldmatrix gathers
 * are its pixels, moved by the tap. conv2d_wgmma.h says how images are divided.
 *
 * kernel     conv2d_wgmma_filter   w in the order of the stages of conv2d_wgmma
 * kernel     conv2d_wgmma          y = bias + w * x: tiles of 512 pixels x 80 channels, 256 of the pixels per warpgroup
 * takes      sm_90a, bf16, Ci % 16 == 0, Co % 80 == 0, pixels and a bias that begin at multiples of 16 bytes, images
 *            that are not too low
 * launch     grid min(tiles, SMs), block 256, dynamic smem: four stages of a patch and a filter of 16 channels in
 * resources  sm_90a, CUDA 13.0: 18 (filter) and 219 registers, no spill
 * moves      x with its neighbours (1.4 to 1.6 times) and the filter for every tile, mostly from L2; y once
 * measured   not yet  [docs]
 * order      fixed: a thread adds channels in and taps in order */
#include "device/cuda/mma_fragments.cuh"
#include "device/cuda/wgmma.cuh"
extern "C" {
#include "ops/conv2d/conv2d_wgmma.h"
}

enum { BLOCKS = WG_CHANNELS / 16, TAP_BYTES = 2 * WG_CHANNELS * WG_VECTOR_BYTES };

/* A lane's sums: of four columns of 16 rows of pixels, in pairs of 8 channels. */
typedef float sums[WG_COLUMNS][2 * BLOCKS][4];

/* ---- the filter: (parts, chunks, taps, 2, 80, 8) ---- */

/* A lane has two adjacent columns of each of two products of 8 channels. The columns of 16 channels are permuted, so
 * that the lane's four values are four adjacent channels. */
static __device__ __forceinline__ int channel_of(int column) // of 16
{
    return (column & 7) / 2 * 4 + (column >> 3) * 2 + (column & 1);
}

/* One vector of eight channels in per thread. */
__global__ void __launch_bounds__(WG_THREADS) conv2d_wgmma_filter(bf16 *to, const bf16 *w, int chunks, int all)
{
    const int i = blockIdx.x * WG_THREADS + threadIdx.x, row = i % WG_CHANNELS, half = i / WG_CHANNELS & 1,
              tap = i / (2 * WG_CHANNELS) % WG_TAPS, at = i / (2 * WG_CHANNELS) / WG_TAPS;
    if (i >= all) return;
    const int   co = at / chunks * WG_CHANNELS + (row & ~15) + channel_of(row & 15), ci = at % chunks * WG_K + half * 8;
    const bf16 *from = w + ((int64_t)co * (chunks * WG_K) + ci) * WG_TAPS + tap;
    union {
        uint4 vec;
        bf16  v[8];
    } u;
#pragma unroll
    for (int e = 0; e < 8; e++) u.v[e] = from[e * WG_TAPS];
    ((uint4 *)to)[i] = u.vec;
}

/* ---- tiles ---- */

struct image_args : conv2d_tiles {
    bf16        *y;
    const bf16  *x, *filter;
    const float *bias;
    int          B, H, W, step_y, step_x; // steps: elements from pixel to pixel
};

/* Tile `at`: the pixels of eight warps in a strip and a part of the channels out. Tiles that share pixels run at the
 * same time. */
typedef struct image_tile {
    int part, left, first, row; // channels out; first column; first warp's pixels; first row q
} image_tile;

static __device__ __forceinline__ image_tile tile_of(const image_args &k, int at)
{
    image_tile t;
    t.part = at % k.parts;
    t.left = at / k.parts % k.strips * k.quads * WG_COLUMNS;
    t.first = at / k.parts / k.strips * WG_WARPS;
    const int s = t.first / k.quads * WG_ROWS;
    t.row = s + s / k.H + 1;
    return t;
}

/* The first pixel of row q of the stack with its rows of zeros, or -1. */
static __device__ __forceinline__ int pixel_of_row(int q, int B, int H, int W)
{
    const int b = q / (H + 1), h = q - b * (H + 1) - 1;
    return h >= 0 && b < B ? (b * H + h) * W : -1;
}

/* ---- stages ---- */

/* A stage is filled while the second before it is multiplied. This warpgroup waits until the other has copied its share
 * of stage next - 1, and says that its own share of stage `next` is here. So neither is more than a stage ahead, and
 * the end of a stage of one is hidden by the products of the other. */
static __device__ __forceinline__ void meet_warpgroup(int next, bool arrives)
{
    enum { FIRST = 1, SECOND = 3 }; // barriers: who waits
    cp_wait<WG_STAGES - 4>();
    fence_proxy_async();
    if (threadIdx.x < WG_THREADS / 2) {
        if (next > 0) barrier_wait<FIRST>(next - 1, WG_THREADS);
        if (arrives) barrier_arrive<SECOND>(next, WG_THREADS);
    } else {
        if (next > 0) barrier_wait<SECOND>(next - 1, WG_THREADS);
        if (arrives) barrier_arrive<FIRST>(next, WG_THREADS);
    }
}

/* After the copies of the first two stages. */
static __device__ __forceinline__ void begin_warpgroups()
{
    if (threadIdx.x == 0) {
        barrier_begin<1>(WG_THREADS);
        barrier_begin<3>(WG_THREADS);
    }
    __syncthreads();
    meet_warpgroup(0, true);
}

/* Copies stage by stage what is multiplied, ahead of it. A warp copies one row or two of a patch at once, two lanes the
 * 32 bytes of a pixel. Lane i has the source of the i-th row of its warp. */
struct image_copies {
    int          tile, chunk, slot, row, pixel, at_once; // pixel: of this lane in a row; -1: outside the image
    const uint4 *filter;

    __device__ __forceinline__ void begin(const image_args &k)
    {
        const int        lane = threadIdx.x & 31, warp = threadIdx.x >> 5, wide = k.quads * WG_COLUMNS + 2;
        const image_tile t = tile_of(k, tile < k.all ? tile : 0);
        const int        x = t.left + (lane >> 1) % wide - 1;
        at_once = k.quads == 1 ? 2 : 1;
        row = pixel_of_row(t.row - 1 + (lane / at_once * WG_WARPS + warp) * at_once + lane % at_once, k.B, k.H, k.W);
        pixel = x >= 0 && x < k.W ? x : -1;
        filter = (const uint4 *)k.filter + (int64_t)t.part * k.chunks * WG_FILTER;
        chunk = 0;
    }

    /* The next stage, if there is one. */
    __device__ __forceinline__ void next(const image_args &k, unsigned char *smem)
    {
        const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, half = lane & 1, wide = k.quads * WG_COLUMNS + 2;
        const int lower = (lane >> 1) >= wide, column = (lane >> 1) - (lower ? wide : 0); // in the lower of two rows
        if (tile < k.all) {
            unsigned char *to = smem + slot * k.stage;
#pragma unroll
            for (int i = 0; i < WG_FILTER; i += WG_THREADS) {
                const int v = i + threadIdx.x;
                if (i + WG_THREADS <= WG_FILTER || v < WG_FILTER)
                    cp_async16(to + v * WG_VECTOR_BYTES, filter + v, true);
            }
            to += WG_FILTER * WG_VECTOR_BYTES + half * k.plane
                  + ((warp * at_once + lower) * k.pitch + column) * WG_VECTOR_BYTES;
            const bf16 *x = k.x + chunk * WG_K + half * 8;
            const int   step = WG_WARPS * at_once, copied = lower < at_once && column < wide ? k.rows : 0;
            int         i = lower;
            for (int r = 0; r < k.rows; r += step, i += at_once) {
                const int  from = __shfl_sync(0xffffffffu, row, i & 31);
                const bool there = from >= 0 && pixel >= 0;
                if (r + warp * at_once + lower < copied)
                    cp_async16(to + r * k.pitch * WG_VECTOR_BYTES, x + (int64_t)(from + pixel) * k.step_x, there);
            }
            filter += WG_FILTER;
            slot = slot + 1 < WG_STAGES ? slot + 1 : 0;
            if (++chunk == k.chunks) {
                tile += gridDim.x;
                begin(k);
            }
        }
        cp_commit();
    }
};

/* ---- products ---- */

/* Sums that begin with the bias; returns where the lane's first pixel of a tile is in a stage. */
static __device__ __forceinline__ int begin_tile(sums &acc, const image_args &k, const image_tile &t)
{
    const int    lane = threadIdx.x & 31, at = t.first + (threadIdx.x >> 5), band = at / k.quads;
    const int    s = band * WG_ROWS + (lane & 15), column = (at - band * k.quads) * WG_COLUMNS;
    const float *bias = k.bias + t.part * WG_CHANNELS + (lane & 3) * 4;
#pragma unroll
    for (int p = 0; p < BLOCKS; p++) {
        const float4 v = k.bias ? *(const float4 *)(bias + p * 16) : make_float4(0, 0, 0, 0);
#pragma unroll
        for (int m = 0; m < WG_COLUMNS; m++) {
            acc[m][2 * p][0] = acc[m][2 * p][2] = v.x;
            acc[m][2 * p][1] = acc[m][2 * p][3] = v.y;
            acc[m][2 * p + 1][0] = acc[m][2 * p + 1][2] = v.z;
            acc[m][2 * p + 1][1] = acc[m][2 * p + 1][3] = v.w;
        }
    }
    return (WG_FILTER + (s + s / k.H + 1 - t.row) * k.pitch + column) * WG_VECTOR_BYTES + (lane >> 4) * k.plane;
}

/* Three columns of pixels: the first or second half of those that the taps of a row need. */
static __device__ __forceinline__ void load_columns(uint32_t (&a)[3][4], const unsigned char *pixels, int half)
{
#pragma unroll
    for (int f = 0; f < 3; f++) ldmatrix(a[f], pixels + (3 * half + f) * WG_VECTOR_BYTES);
}

/* Column f of the pixels is what tap j of a row multiplies for column f - j of the sums. */
static __device__ __forceinline__ void multiply_columns(sums &acc, const uint32_t (&a)[3][4], int half, uint64_t filter)
{
#pragma unroll
    for (int f = 3 * half; f < 3 * half + 3; f++)
#pragma unroll
        for (int j = 0; j < 3; j++)
            if (f - j >= 0 && f - j < WG_COLUMNS) wgmma_rows(acc[f - j], a[f - 3 * half], step(filter, j * TAP_BYTES));
}

static __device__ __forceinline__ void store_tile(const image_args &k, const image_tile &t, const sums &acc)
{
    const int lane = threadIdx.x & 31, at = t.first + (threadIdx.x >> 5), band = at / k.quads,
              left = t.left + (at - band * k.quads) * WG_COLUMNS;
#pragma unroll
    for (int half = 0; half < 2; half++) { // eight rows
        const int s = band * WG_ROWS + half * 8 + (lane >> 2);
        bf16     *to = k.y + (int64_t)(s * k.W + left) * k.step_y + t.part * WG_CHANNELS + (lane & 3) * 4;
#pragma unroll
        for (int m = 0; m < WG_COLUMNS; m++, to += k.step_y)
            if (s < k.B * k.H && left + m < k.W)
#pragma unroll
                for (int p = 0; p < BLOCKS; p++) {
                    const float *lower = acc[m][2 * p] + half * 2, *upper = acc[m][2 * p + 1] + half * 2;
                    *(uint2 *)(to + p * 16) = make_uint2(pack(lower[0], lower[1]), pack(upper[0], upper[1]));
                }
    }
}

/* A persistent block: its tiles one after the other, each in chunks of 16 channels in; the copies of the next tile
 * begin while the last chunks of this one are multiplied. Pixels come from registers, the filter from shared memory. A
 * column of pixels is loaded once for the three taps of a row, while the columns before it are multiplied. A stage is
 * filled while the second before it is multiplied, when neither warpgroup reads it. */
__global__ void __launch_bounds__(WG_THREADS, 1) conv2d_wgmma(image_args k)
{
    MBA_DYNAMIC_SMEM(smem);
    image_copies copies;
    sums         acc;
    uint32_t     a[2][3][4];
    const int    turns = (k.all - (int)blockIdx.x + (int)gridDim.x - 1) / (int)gridDim.x * k.chunks;
    int          turn = 0;
    copies.tile = blockIdx.x;
    copies.slot = 0;
    copies.begin(k);
    for (int i = 0; i + 2 < WG_STAGES; i++) copies.next(k, smem);
    begin_warpgroups();
    for (int tile = blockIdx.x; tile < k.all; tile += gridDim.x) {
        const image_tile t = tile_of(k, tile);
        const int        at = begin_tile(acc, k, t);
        for (int chunk = 0; chunk < k.chunks; chunk++, turn++) {
            meet_warpgroup(turn + 1, turn + 1 < turns);
            const unsigned char *stage = smem + turn % WG_STAGES * k.stage;
            const uint64_t       filter = vectors(stage, TAP_BYTES / 2, 8 * WG_VECTOR_BYTES);
            load_columns(a[0], stage + at, 0);
#pragma unroll
            for (int g = 0; g < 6; g++) { // rows of taps, halves of the columns
                warpgroup_arrive();
                multiply_columns(acc, a[g & 1], g & 1, step(filter, g / 2 * 3 * TAP_BYTES));
                warpgroup_commit_batch();
                if (g == 0) copies.next(k, smem);
                warpgroup_wait<1>(); // the products before these: their pixels are replaced
                if (g < 5)
                    load_columns(a[(g + 1) & 1], stage + at + (g + 1) / 2 * k.pitch * WG_VECTOR_BYTES, (g + 1) & 1);
            }
            warpgroup_wait<0>();
#pragma unroll
            for (int m = 0; m < WG_COLUMNS; m++) opt_barrier(acc[m]);
        }
        store_tile(k, t, acc);
    }
    cp_wait<0>();
}

extern "C" mba_status conv2d_wgmma_cuda(const mba_call *c)
{
    const mba_node   *n = c->node;
    const conv2d_dims d = conv2d_dims_of(n);
    bf16             *filter = (bf16 *)mba_cuda_scratch(c, CUDA_WEIGHTS);
    image_args        a = {};
    (conv2d_tiles &)a = conv2d_tiles_of(d);
    a.y = (bf16 *)c->out[Y];
    a.x = (const bf16 *)c->in[X];
    a.filter = filter;
    a.bias = (const float *)c->in[BIAS];
    a.B = (int)d.B;
    a.H = (int)d.H;
    a.W = (int)d.W;
    a.step_y = (int)mba_ld(n->out[Y]);
    a.step_x = (int)mba_ld(n->in[X]);
    MBA_KERNEL(c, 0, conv2d_wgmma_filter, filter, (const bf16 *)c->in[W], a.chunks, (int)(mba_elems(n->in[W]) / 8));
    MBA_KERNEL(c, 1, conv2d_wgmma, a);
    return MBA_OK;
}
