// SPDX-License-Identifier: Apache-2.0
/* conv2d_winograd_cpu.c -- Winograd's algorithm for 3 x 3 taps with stride 1: 4 x 4 outputs by 36 products instead of
 * 144.
 *
 *   y = A^T [ (G w G^T) . (B^T x B) ] A             per tile; the dot is a product per point, summed over channels
 *   dx is the same of dy with the taps reversed;    dw = G^T [ sum over tiles (A dy A^T) . (B^T x B) ] G
 *
 * B^T, G and A^T evaluate polynomials at 0, +-3/4, +-3/2 and infinity (conv2d.md says why). Tiles are processed in
 * chunks, whose size depends only on the shape: all tiles of a chunk are transformed into 36 points, one GEMM per point
 * follows, and the points are transformed back into pixels. Points are stored as (tile, point, channel). */
#include "device/cpu/gemm.h"
#include "device/cpu/simd.h"
#include "ops/conv2d/conv2d_slots.h"

enum { SIDE = CONV2D_TILE + 2, POINTS = CONV2D_POINTS };
#define UNROLLED _Pragma("GCC unroll 6")

/* The points +-P and +-Q = +-2 P. Sums and products of them are exact in binary. */
static const float P1 = 0.75f, P2 = 0.5625f, P3 = 0.421875f, Q1 = 1.5f, Q2 = 2.25f, Q3 = 3.375f;
static const float PQ = 1.265625f, P_AND_Q = 2.8125f;             // P^2 Q^2, P^2 + Q^2
static const float AT_P = -0x1.0db20ap-1f, AT_Q = 0x1.0db20ap-3f; // 1 / (2 P^2 (P^2 - Q^2)), and for Q
static const float AT_0 = 0x1.948b10p-1f;                         // 1 / (P^2 Q^2)

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* ---- along one axis ---- */

/* B^T: six pixels to six points. */
MBA_SIMD void spread_six(vf *to, int64_t step, const vf *x)
{
    const vf even_q = x[4] - Q2 * x[2], odd_q = P1 * (x[3] - Q2 * x[1]);
    const vf even_p = x[4] - P2 * x[2], odd_p = Q1 * (x[3] - P2 * x[1]);
    to[0] = PQ * x[0] - P_AND_Q * x[2] + x[4];
    to[step] = even_q + odd_q;
    to[2 * step] = even_q - odd_q;
    to[3 * step] = even_p + odd_p;
    to[4 * step] = even_p - odd_p;
    to[5 * step] = PQ * x[1] - P_AND_Q * x[3] + x[5];
}

/* A: four pixels to six points. */
MBA_SIMD void spread_four(vf *to, int64_t step, const vf *x)
{
    const vf even_p = x[0] + P2 * x[2], odd_p = P1 * x[1] + P3 * x[3];
    const vf even_q = x[0] + Q2 * x[2], odd_q = Q1 * x[1] + Q3 * x[3];
    to[0] = x[0];
    to[step] = even_p + odd_p;
    to[2 * step] = even_p - odd_p;
    to[3 * step] = even_q + odd_q;
    to[4 * step] = even_q - odd_q;
    to[5 * step] = x[3];
}

/* A^T: six points to four pixels. */
MBA_SIMD void gather_four(vf *to, int64_t step, const vf *m)
{
    const vf even_p = m[1] + m[2], odd_p = m[1] - m[2], even_q = m[3] + m[4], odd_q = m[3] - m[4];
    to[0] = m[0] + even_p + even_q;
    to[step] = P1 * odd_p + Q1 * odd_q;
    to[2 * step] = P2 * even_p + Q2 * even_q;
    to[3 * step] = P3 * odd_p + Q3 * odd_q + m[5];
}

/* G: three taps to six points. */
MBA_SIMD void spread_taps(vf *to, int64_t step, const vf *w)
{
    const vf even_p = AT_P * (w[0] + P2 * w[2]), odd_p = (AT_P * P1) * w[1];
    const vf even_q = AT_Q * (w[0] + Q2 * w[2]), odd_q = (AT_Q * Q1) * w[1];
    to[0] = AT_0 * w[0];
    to[step] = even_p + odd_p;
    to[2 * step] = even_p - odd_p;
    to[3 * step] = even_q + odd_q;
    to[4 * step] = even_q - odd_q;
    to[5 * step] = w[2];
}

/* G^T: six points to three taps. */
MBA_SIMD void gather_taps(vf *to, int64_t step, const vf *u)
{
    const vf even_p = AT_P * (u[1] + u[2]), odd_p = (AT_P * P1) * (u[1] - u[2]);
    const vf even_q = AT_Q * (u[3] + u[4]), odd_q = (AT_Q * Q1) * (u[3] - u[4]);
    to[0] = AT_0 * u[0] + even_p + even_q;
    to[step] = odd_p + odd_q;
    to[2 * step] = P2 * even_p + Q2 * even_q + u[5];
}

/* ---- weights: (Co, Ci, 3, 3) to (point, Co, Ci) and back; vectors of Ci ---- */

/* Reversed: taps from the last to the first, for dx. */
static void spread_weights(float *to, const float *w, conv2d_dims d, bool reversed)
{
    MBA_PARALLEL_FOR(co, d.Co)
    for (int64_t c = 0; c < d.Ci; c += MBA_LANES) {
        const int64_t n = least(MBA_LANES, d.Ci - c);
        const float  *from = w + (co * d.Ci + c) * 9;
        vf            tap[9] = { 0 }, half[3 * SIDE], point[POINTS];
        for (int t = 0; t < 9; t++)
            for (int64_t l = 0; l < n; l++) tap[reversed ? 8 - t : t][l] = from[9 * l + t];
        for (int j = 0; j < 3; j++) spread_taps(half + j, 3, (vf[]){ tap[j], tap[3 + j], tap[6 + j] });
        for (int i = 0; i < SIDE; i++) spread_taps(point + i * SIDE, 1, half + 3 * i);
        for (int k = 0; k < POINTS; k++) vf_store_n(to + (k * d.Co + co) * d.Ci + c, point[k], n);
    }
}

static void gather_weights(float *dw, const float *sums, conv2d_dims d, bool adds)
{
    MBA_PARALLEL_FOR(co, d.Co)
    for (int64_t c = 0; c < d.Ci; c += MBA_LANES) {
        const int64_t n = least(MBA_LANES, d.Ci - c);
        float        *to = dw + (co * d.Ci + c) * 9;
        vf            point[POINTS], half[3 * SIDE], tap[9];
        for (int k = 0; k < POINTS; k++) point[k] = vf_load_n(sums + (k * d.Co + co) * d.Ci + c, n);
        for (int i = 0; i < SIDE; i++) gather_taps(half + i, SIDE, point + i * SIDE); // (tap, line of points)
        for (int j = 0; j < 3; j++) gather_taps(tap + j, 3, half + j * SIDE);
        for (int t = 0; t < 9; t++)
            for (int64_t l = 0; l < n; l++) to[9 * l + t] = tap[t][l] + (adds ? to[9 * l + t] : 0);
    }
}

/* ---- tiles ---- */

/* Images (B, H, W, C) with pixels `ld` apart, divided into th x tw tiles each; tile (u, v) begins at pixel (4 u + at, 4
 * v + at). */
typedef struct tiling {
    float  *pixels;
    int64_t ld, H, W, C, th, tw, at;
} tiling;

static const float nothing[MBA_LANES];

/* The `side` x `side` pixels of tile t. A pixel outside the image points to `nothing`, and its mask of 0 cancels the
 * channel offset. */
typedef struct corner {
    const float *at;
    int64_t      mask;
} corner;

static void find_pixels(corner *to, const tiling *s, int64_t t, int64_t side)
{
    const int64_t b = t / (s->th * s->tw);
    const int64_t y = t / s->tw % s->th * CONV2D_TILE + s->at, x = t % s->tw * CONV2D_TILE + s->at;
    for (int64_t i = 0; i < side; i++)
        for (int64_t j = 0; j < side; j++) {
            const bool inside = y + i >= 0 && y + i < s->H && x + j >= 0 && x + j < s->W;
            to[i * side + j] = inside ? (corner){ s->pixels + ((b * s->H + y + i) * s->W + x + j) * s->ld, -1 }
                                      : (corner){ nothing, 0 };
        }
}

/* Channels are processed in whole vectors; the last one overlaps the previous one. */
static int64_t channel_of(int64_t c, int64_t C) { return c + MBA_LANES <= C ? c : C - MBA_LANES; }

/* B^T x B of tile t: (point, C). */
static void spread_pixels(float *to, const tiling *s, int64_t t)
{
    corner p[POINTS];
    find_pixels(p, s, t, SIDE);
    for (int64_t k = 0; k < s->C; k += MBA_LANES) {
        const int64_t c = channel_of(k, s->C);
        vf            half[POINTS], x[SIDE], point[SIDE];
        UNROLLED for (int j = 0; j < SIDE; j++)
        {
            UNROLLED for (int i = 0; i < SIDE; i++) x[i] = vf_load(p[i * SIDE + j].at + (c & p[i * SIDE + j].mask));
            spread_six(half + j, SIDE, x);
        }
        UNROLLED for (int i = 0; i < SIDE; i++)
        {
            spread_six(point, 1, half + i * SIDE);
            UNROLLED for (int j = 0; j < SIDE; j++) vf_store(to + (i * SIDE + j) * s->C + c, point[j]);
        }
    }
}

/* A dy A^T of tile t: (point, C). */
static void spread_outputs(float *to, const tiling *s, int64_t t)
{
    enum { N = CONV2D_TILE };
    corner p[N * N];
    find_pixels(p, s, t, N);
    for (int64_t k = 0; k < s->C; k += MBA_LANES) {
        const int64_t c = channel_of(k, s->C);
        vf            half[SIDE * N], x[N], point[SIDE];
        UNROLLED for (int j = 0; j < N; j++)
        {
            UNROLLED for (int i = 0; i < N; i++) x[i] = vf_load(p[i * N + j].at + (c & p[i * N + j].mask));
            spread_four(half + j, N, x);
        }
        UNROLLED for (int i = 0; i < SIDE; i++)
        {
            spread_four(point, 1, half + i * N);
            UNROLLED for (int j = 0; j < SIDE; j++) vf_store(to + (i * SIDE + j) * s->C + c, point[j]);
        }
    }
}

/* A^T m A: the pixels of tile t that exist, with an optional bias, stored or added. */
static void gather_outputs(const tiling *s, int64_t t, const float *from, const float *bias, bool adds)
{
    enum { N = CONV2D_TILE };
    corner p[N * N];
    find_pixels(p, s, t, N);
    for (int64_t c = 0; c < s->C; c += MBA_LANES) {
        const int64_t n = s->C - c;
        const vf      more = bias ? vf_load_n(bias + c, n) : vf_set(0);
        vf            half[N * SIDE], m[SIDE], y[N * N];
        UNROLLED for (int j = 0; j < SIDE; j++)
        {
            UNROLLED for (int i = 0; i < SIDE; i++) m[i] = vf_load_n(from + (i * SIDE + j) * s->C + c, n);
            gather_four(half + j, SIDE, m);
        }
        UNROLLED for (int i = 0; i < N; i++) gather_four(y + i * N, 1, half + i * SIDE);
        for (int i = 0; i < N * N; i++) {
            if (!p[i].mask) continue;
            float *to = (float *)(uintptr_t)p[i].at + c;
            vf_store_n(to, y[i] + (adds ? vf_load_n(to, n) : more), n);
        }
    }
}

/* ---- y, and dx ---- */

/* to = `from` convolved with the transformed weights u, which the GEMM takes as (in, out) or transposed. */
typedef struct convolution {
    tiling       from, to;
    const float *u, *bias;
    float       *in, *out;
    bool         tb, adds;
} convolution;

static void convolve(const convolution *v, int64_t tiles)
{
    const int64_t Ci = v->from.C, Co = v->to.C, chunk = conv2d_chunk(tiles);
    for (int64_t first = 0; first < tiles; first += chunk) {
        const int64_t count = least(chunk, tiles - first);
        MBA_PARALLEL_FOR(t, count) spread_pixels(v->in + t * POINTS * Ci, &v->from, first + t);
        MBA_PARALLEL_TILES(k, POINTS)
        mba_gemm_serial(&(mba_gemm_args){ .m = count,
                                          .n = Co,
                                          .k = Ci,
                                          .tb = v->tb,
                                          .a = v->in + k * Ci,
                                          .lda = POINTS * Ci,
                                          .b = v->u + k * Ci * Co,
                                          .ldb = v->tb ? Ci : Co,
                                          .c = v->out + k * Co,
                                          .ldc = POINTS * Co });
        MBA_PARALLEL_FOR(t, count) gather_outputs(&v->to, first + t, v->out + t * POINTS * Co, v->bias, v->adds);
    }
}

static tiling tiling_of(const mba_tensor *t, void *pixels, int64_t th, int64_t tw, int64_t at)
{
    const int64_t *d = t->type.dim;
    return (tiling){ .pixels = pixels, .ld = mba_ld(t), .H = d[1], .W = d[2], .C = d[3], .th = th, .tw = tw, .at = at };
}

mba_status MBA_CPU_FN(conv2d_winograd_fwd)(const mba_call *c)
{
    MBA_TRY(mba_gemm_ready());
    const conv2d_dims d = conv2d_dims_of(c->node);
    const int64_t     th = mba_ceil(d.Ho, CONV2D_TILE), tw = mba_ceil(d.Wo, CONV2D_TILE);
    float            *u = mba__scratch(c, SCRATCH_WEIGHTS);
    spread_weights(u, c->in[W], d, false);
    convolve(&(convolution){ .from = tiling_of(c->node->in[X], c->in[X], th, tw, -d.pad),
                             .to = tiling_of(c->node->out[Y], c->out[Y], th, tw, 0),
                             .u = u,
                             .bias = c->in[BIAS],
                             .in = mba__scratch(c, SCRATCH_IN),
                             .out = mba__scratch(c, SCRATCH_OUT),
                             .tb = true },
             d.B * th * tw);
    return MBA_OK;
}

static void make_dx(const mba_call *c)
{
    const conv2d_dims d = conv2d_dims_of(c->node);
    const int64_t     th = mba_ceil(d.H, CONV2D_TILE), tw = mba_ceil(d.W, CONV2D_TILE);
    float            *u = mba__scratch(c, SCRATCH_WEIGHTS);
    spread_weights(u, c->in[W], d, true);
    convolve(&(convolution){ .from = tiling_of(c->node->in[DY], c->in[DY], th, tw, d.pad - 2),
                             .to = tiling_of(c->node->out[DX], c->out[DX], th, tw, 0),
                             .u = u,
                             .in = mba__scratch(c, SCRATCH_OUT),
                             .out = mba__scratch(c, SCRATCH_IN),
                             .adds = mba_adds(c->node, DX) },
             d.B * th * tw);
}

/* ---- dw and dbias ---- */

static void make_dw(const mba_call *c)
{
    const conv2d_dims d = conv2d_dims_of(c->node);
    const int64_t     th = mba_ceil(d.Ho, CONV2D_TILE), tw = mba_ceil(d.Wo, CONV2D_TILE), tiles = d.B * th * tw;
    const int64_t     chunk = conv2d_chunk(tiles);
    const tiling      sx = tiling_of(c->node->in[X], c->in[X], th, tw, -d.pad);
    const tiling      sy = tiling_of(c->node->in[DY], c->in[DY], th, tw, 0);
    float            *in = mba__scratch(c, SCRATCH_IN), *out = mba__scratch(c, SCRATCH_OUT);
    float            *sums = mba__scratch(c, SCRATCH_WEIGHTS);
    for (int64_t first = 0; first < tiles; first += chunk) {
        const int64_t count = least(chunk, tiles - first);
        MBA_PARALLEL_FOR(t, count)
        {
            spread_pixels(in + t * POINTS * d.Ci, &sx, first + t);
            spread_outputs(out + t * POINTS * d.Co, &sy, first + t);
        }
        MBA_PARALLEL_TILES(k, POINTS)
        mba_gemm_serial(&(mba_gemm_args){ .m = d.Co,
                                          .n = d.Ci,
                                          .k = count,
                                          .ta = true,
                                          .adds = first > 0,
                                          .a = out + k * d.Co,
                                          .lda = POINTS * d.Co,
                                          .b = in + k * d.Ci,
                                          .ldb = POINTS * d.Ci,
                                          .c = sums + k * d.Co * d.Ci,
                                          .ldc = d.Ci });
    }
    gather_weights(c->out[DW], sums, d, mba_adds(c->node, DW));
}

static void make_dbias(const mba_call *c)
{
    const conv2d_dims d = conv2d_dims_of(c->node);
    const int64_t     P = d.B * d.Ho * d.Wo, parts = mba_ceil(P, CONV2D_PART), ld = mba_ld(c->node->in[DY]);
    float            *part = mba__scratch(c, SCRATCH_DBIAS);
    MBA_PARALLEL_FOR(p, parts)
    {
        float *sum = part + p * d.Co;
        memset(sum, 0, sizeof(float) * (size_t)d.Co);
        for (int64_t r = p * CONV2D_PART; r < least(P, (p + 1) * CONV2D_PART); r++) {
            const float *dy = (const float *)c->in[DY] + r * ld;
            MBA_SIMD_LOOP
            for (int64_t i = 0; i < d.Co; i++) sum[i] += dy[i];
        }
    }
    mba__sum_parts(c->out[DBIAS], part, parts, d.Co, mba_adds(c->node, DBIAS));
}

mba_status MBA_CPU_FN(conv2d_winograd_bwd)(const mba_call *c)
{
    MBA_TRY(mba_gemm_ready());
    if (c->out[DX]) make_dx(c);
    make_dw(c);
    if (c->out[DBIAS]) make_dbias(c);
    return MBA_OK;
}
