// SPDX-License-Identifier: Apache-2.0
/* conv2d_cpu.c -- conv2d on the CPU by im2col: the patches of a block of positions form a matrix, which one GEMM
 * (device/cpu/gemm.h) multiplies.
 *
 *   forward   y  (positions, Co) = patches of x (positions, (i, j, ci))  w^T          w stored as (Co, (i, j, ci))
 *   dx        dx (positions, Ci) = patches of dy (positions, (i, j, co)) w            w stored as ((i, j, co), Ci)
 *   dw        dw (Co, (i, j, ci)) = dy^T (Co, positions) patches of x                 summed over blocks in order
 *
 * A pixel (y, x) of dx depends only on taps i with (y + pad - i) % stride == 0. So the pixels form stride^2 classes by
 * (y % stride, x % stride), and within a class dx is a convolution of dy with stride 1. */
#include <omp.h>

#include "core/device.h"
#include "device/cpu/gemm.h"
#include "device/cpu/simd.h"
#include "ops/conv2d/conv2d_slots.h"

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* ---- patches ---- */

/* Position (b, u, v) uses the pixels (stride u + oy + i, stride v + ox + j), i < nh, j < nw, of image b. */
typedef struct view {
    const float *pixels; // (B, H, W, C), pixels `ld` apart
    int64_t      ld, H, W, C, U, V, stride, oy, ox, nh, nw;
} view;

MBA_SIMD void copy(float *to, const float *from, int64_t n)
{
    if (n < MBA_LANES) {
        for (int64_t i = 0; i < n; i++) to[i] = from[i];
        return;
    }
    for (int64_t i = 0; i + MBA_LANES <= n; i += MBA_LANES) vf_store(to + i, vf_load(from + i));
    vf_store(to + n - MBA_LANES, vf_load(from + n - MBA_LANES));
}

static void zero(float *to, int64_t n) { memset(to, 0, sizeof(float) * (size_t)n); }

/* Copies nw pixels of a line from column x on; pixels outside the image are 0. */
static void gather_edge(float *to, const view *s, const float *line, int64_t x)
{
    for (int64_t j = x; j < x + s->nw; j++, to += s->C) {
        if (j < 0 || j >= s->W) zero(to, s->C);
        else copy(to, line + j * s->ld, s->C);
    }
}

/* Copies what positions v0 .. v1-1 of one row need of line y of image b: nw pixels each, `pitch` apart. */
static void gather_line(float *to, int64_t pitch, const view *s, int64_t b, int64_t y, int64_t v0, int64_t v1)
{
    const int64_t n = s->nw * s->C;
    if (y < 0 || y >= s->H) {
        for (int64_t v = v0; v < v1; v++, to += pitch) zero(to, n);
        return;
    }
    const float *line = s->pixels + (b * s->H + y) * s->W * s->ld;
    for (int64_t v = v0, x = s->stride * v0 + s->ox; v < v1; v++, x += s->stride, to += pitch) {
        if (s->ld == s->C && x >= 0 && x + s->nw <= s->W) copy(to, line + x * s->C, n);
        else gather_edge(to, s, line, x);
    }
}

/* Copies rows i0 .. i1-1 of the patches of `count` positions from `from` on: (count, (i1 - i0) nw C), `pitch` apart. */
static void gather(float *to, int64_t pitch, const view *s, int64_t from, int64_t count, int64_t i0, int64_t i1)
{
    for (int64_t done = 0, run; done < count; done += run, to += run * pitch) {
        const int64_t at = from + done, v = at % s->V, u = at / s->V % s->U, b = at / s->V / s->U;
        run = least(s->V - v, count - done);
        for (int64_t i = i0; i < i1; i++)
            gather_line(to + (i - i0) * s->nw * s->C, pitch, s, b, s->stride * u + s->oy + i, v, v + run);
    }
}

/* The patches of x from which y is computed. */
static view view_of_x(const mba_call *c)
{
    const conv2d_dims d = conv2d_dims_of(c->node);
    return (view){ .pixels = c->in[X],
                   .ld = mba_ld(c->node->in[X]),
                   .H = d.H,
                   .W = d.W,
                   .C = d.Ci,
                   .U = d.Ho,
                   .V = d.Wo,
                   .stride = d.stride,
                   .oy = -d.pad,
                   .ox = -d.pad,
                   .nh = d.kh,
                   .nw = d.kw };
}

/* ---- threads: as many as the plan has scratch for; the assignment of blocks to threads changes no bit ---- */

static int threads_of(const mba_call *c, int64_t floats)
{
    const int planned = (int)(c->plan->scratch[SCRATCH_THREADS].bytes / (sizeof(float) * (size_t)floats));
    return planned < mba_cpu_threads() ? planned : mba_cpu_threads();
}

static float *space_of(const mba_call *c, int64_t floats)
{
    return (float *)mba__scratch(c, SCRATCH_THREADS) + floats * omp_get_thread_num();
}

/* ---- forward ---- */

/* Reorders (Co, Ci, taps) to (Co, taps, Ci). */
static void order_weights(float *to, const float *w, conv2d_dims d)
{
    MBA_PARALLEL_FOR(co, d.Co)
    for (int64_t t = 0; t < d.taps; t++)
        for (int64_t ci = 0; ci < d.Ci; ci++) to[(co * d.taps + t) * d.Ci + ci] = w[(co * d.Ci + ci) * d.taps + t];
}

static void fwd_block(const mba_call *c, const view *s, float *patches, int64_t from, int64_t count)
{
    const conv2d_dims d = conv2d_dims_of(c->node);
    const int64_t     K = d.taps * d.Ci, ld = mba_ld(c->node->out[Y]);
    float            *y = (float *)c->out[Y] + from * ld;
    gather(patches, K, s, from, count, 0, d.kh);
    for (int64_t r = 0; c->in[BIAS] && r < count; r++) copy(y + r * ld, c->in[BIAS], d.Co);
    mba_gemm_serial(&(mba_gemm_args){ .m = count,
                                      .n = d.Co,
                                      .k = K,
                                      .tb = true,
                                      .adds = c->in[BIAS],
                                      .a = patches,
                                      .lda = K,
                                      .b = mba__scratch(c, SCRATCH_WEIGHTS),
                                      .ldb = K,
                                      .c = y,
                                      .ldc = ld });
}

mba_status MBA_CPU_FN(conv2d_fwd)(const mba_call *c)
{
    MBA_TRY(mba_gemm_ready());
    const conv2d_dims d = conv2d_dims_of(c->node);
    const view        s = view_of_x(c);
    const int64_t     P = d.B * d.Ho * d.Wo, block = conv2d_block(d.taps * d.Ci);
    const int64_t     floats = conv2d_thread_floats(d, false);
    order_weights(mba__scratch(c, SCRATCH_WEIGHTS), c->in[W], d);
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads_of(c, floats))
    for (int64_t i = 0; i < mba_ceil(P, block); i++)
        fwd_block(c, &s, space_of(c, floats), i * block, least(block, P - i * block));
    return MBA_OK;
}

/* ---- dx ---- */

/* Pixels r, r + stride, .. of an axis: there are `pixels` of them, and `taps` taps reach them: first, first + stride,
 * .. Pixel number u uses rows u + offset, u + offset + 1, .. of dy, the last tap first. */
typedef struct axis {
    int64_t pixels, first, taps, offset;
} axis;

static axis axis_of(int64_t length, int64_t k, int64_t r, conv2d_dims d)
{
    axis a = { .pixels = mba_ceil(length - r, d.stride), .first = (r + d.pad) % d.stride };
    if (length <= r) a.pixels = 0;
    a.taps = a.first < k ? mba_ceil(k - a.first, d.stride) : 0;
    a.offset = (r + d.pad) / d.stride - (a.taps - 1);
    return a;
}

/* One class of pixels. Its weights (rows (i, j, co), Ci columns) follow those of `before` taps. */
typedef struct pixels {
    int64_t ry, rx, before, block, blocks;
    axis    y, x;
} pixels;

static pixels pixels_of(conv2d_dims d, int64_t r)
{
    pixels p = { .ry = r / d.stride, .rx = r % d.stride };
    p.y = axis_of(d.H, d.kh, p.ry, d);
    p.x = axis_of(d.W, d.kw, p.rx, d);
    p.block = conv2d_block(p.y.taps * p.x.taps * d.Co + 1); // + 1, because a class may have no taps
    p.blocks = mba_ceil(d.B * p.y.pixels * p.x.pixels, p.block);
    for (int64_t k = 0; k < r; k++)
        p.before += axis_of(d.H, d.kh, k / d.stride, d).taps * axis_of(d.W, d.kw, k % d.stride, d).taps;
    return p;
}

/* Reorders the weights of a class, from the last tap to the first. */
static void order_class(float *to, const float *w, conv2d_dims d, const pixels *p)
{
    MBA_PARALLEL_FOR(co, d.Co)
    for (int64_t t = 0; t < p->y.taps * p->x.taps; t++) {
        const int64_t i = p->y.first + (p->y.taps - 1 - t / p->x.taps) * d.stride;
        const int64_t j = p->x.first + (p->x.taps - 1 - t % p->x.taps) * d.stride;
        float        *row = to + ((p->before + t) * d.Co + co) * d.Ci;
        for (int64_t ci = 0; ci < d.Ci; ci++) row[ci] = w[((co * d.Ci + ci) * d.kh + i) * d.kw + j];
    }
}

/* Copies the rows of a class to their positions in dx. */
static void deal_out(const mba_call *c, conv2d_dims d, const pixels *p, const float *rows, int64_t from, int64_t count)
{
    const int64_t ld = mba_ld(c->node->out[DX]), U = p->y.pixels, V = p->x.pixels;
    for (int64_t k = 0; k < count; k++, rows += d.Ci) {
        const int64_t at = from + k, b = at / V / U, y = at / V % U * d.stride + p->ry, x = at % V * d.stride + p->rx;
        float        *dx = (float *)c->out[DX] + ((b * d.H + y) * d.W + x) * ld;
        if (mba_adds(c->node, DX))
            for (int64_t i = 0; i < d.Ci; i++) dx[i] += rows[i];
        else copy(dx, rows, d.Ci);
    }
}

static void dx_block(const mba_call *c, const pixels *p, float *patches, int64_t number)
{
    const conv2d_dims d = conv2d_dims_of(c->node);
    const int64_t     from = number * p->block, count = least(p->block, d.B * p->y.pixels * p->x.pixels - from);
    const int64_t     K = p->y.taps * p->x.taps * d.Co, ld = mba_ld(c->node->out[DX]);
    const bool        straight = d.stride == 1, adds = straight && mba_adds(c->node, DX);
    const view        s = { .pixels = c->in[DY],
                            .ld = mba_ld(c->node->in[DY]),
                            .H = d.Ho,
                            .W = d.Wo,
                            .C = d.Co,
                            .U = p->y.pixels,
                            .V = p->x.pixels,
                            .stride = 1,
                            .oy = p->y.offset,
                            .ox = p->x.offset,
                            .nh = p->y.taps,
                            .nw = p->x.taps };
    float            *rows = straight ? (float *)c->out[DX] + from * ld : patches + count * K;
    if (K) {
        gather(patches, K, &s, from, count, 0, s.nh);
        mba_gemm_serial(&(mba_gemm_args){ .m = count,
                                          .n = d.Ci,
                                          .k = K,
                                          .adds = adds,
                                          .a = patches,
                                          .lda = K,
                                          .b = (float *)mba__scratch(c, SCRATCH_WEIGHTS) + p->before * d.Co * d.Ci,
                                          .ldb = d.Ci,
                                          .c = rows,
                                          .ldc = straight ? ld : d.Ci });
    } else {
        zero(rows, count * d.Ci); // a class has no taps only if stride > 1, so rows is scratch
    }
    if (!straight) deal_out(c, d, p, rows, from, count);
}

/* Processes block `number`, counted over all classes. */
static void dx_item(const mba_call *c, float *space, int64_t number)
{
    const conv2d_dims d = conv2d_dims_of(c->node);
    int64_t           r = 0;
    pixels            p = pixels_of(d, r);
    for (; number >= p.blocks; p = pixels_of(d, ++r)) number -= p.blocks;
    dx_block(c, &p, space, number);
}

static void make_dx(const mba_call *c)
{
    const conv2d_dims d = conv2d_dims_of(c->node);
    const int64_t     floats = conv2d_thread_floats(d, true);
    int64_t           blocks = 0;
    for (int64_t r = 0; r < d.stride * d.stride; r++) {
        const pixels p = pixels_of(d, r);
        order_class(mba__scratch(c, SCRATCH_WEIGHTS), c->in[W], d, &p);
        blocks += p.blocks;
    }
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads_of(c, floats))
    for (int64_t i = 0; i < blocks; i++) dx_item(c, space_of(c, floats), i);
}

/* ---- dw and dbias ---- */

static void add_rows(float *sum, const float *rows, int64_t ld, int64_t count, int64_t n)
{
    for (int64_t r = 0; r < count; r++)
        for (int64_t i = 0; i < n; i++) sum[i] += rows[r * ld + i];
}

/* Computes slice `slice` of part `part`: the product over the part's blocks, in order. The first slice also sums
 * dbias. */
static void dw_item(const mba_call *c, const view *s, float *patches, int64_t part, int64_t slice)
{
    const conv2d_dims    d = conv2d_dims_of(c->node);
    const conv2d_columns k = conv2d_columns_of(d);
    const int64_t        P = d.B * d.Ho * d.Wo, block = conv2d_block(k.pitch), blocks = mba_ceil(P, block);
    const int64_t        parts = conv2d_parts(d), first = part * blocks / parts * block;
    const int64_t        end = least(P, (part + 1) * blocks / parts * block), ld = mba_ld(c->node->in[DY]);
    float               *dw = (float *)mba__scratch(c, SCRATCH_PARTS) + part * (k.all + 1) * d.Co;
    float               *dbias = dw + k.all * d.Co;
    if (slice == 0) zero(dbias, d.Co);
    for (int64_t from = first; from < end; from += block) {
        const int64_t count = least(block, end - from);
        const float  *dy = (const float *)c->in[DY] + from * ld;
        gather(patches, k.pitch, s, from, count, slice * d.kh / k.slices, (slice + 1) * d.kh / k.slices);
        for (int64_t r = 0; r < count; r++)
            for (int64_t i = k.width; i < k.pitch; i++) patches[r * k.pitch + i] = 0;
        mba_gemm_serial(&(mba_gemm_args){ .m = d.Co,
                                          .n = k.pitch,
                                          .k = count,
                                          .ta = true,
                                          .adds = from > first,
                                          .a = dy,
                                          .lda = ld,
                                          .b = patches,
                                          .ldb = k.pitch,
                                          .c = dw + slice * k.pitch,
                                          .ldc = k.all });
        if (slice == 0 && c->out[DBIAS]) add_rows(dbias, dy, ld, count, d.Co);
    }
}

/* Reorders the columns (slice, tap, ci) to dw (ci, taps), and stores dbias. */
static void hand_out(const mba_call *c, const float *sum)
{
    const conv2d_dims    d = conv2d_dims_of(c->node);
    const conv2d_columns k = conv2d_columns_of(d);
    const int64_t        taps = d.taps / k.slices; // per slice
    const bool           adds = mba_adds(c->node, DW);
    float               *dw = c->out[DW], *dbias = c->out[DBIAS];
    MBA_PARALLEL_FOR(co, d.Co)
    {
        for (int64_t t = 0; t < d.taps; t++) {
            const float *from = sum + co * k.all + t / taps * k.pitch + t % taps * d.Ci;
            float       *to = dw + co * d.Ci * d.taps + t;
            for (int64_t ci = 0; ci < d.Ci; ci++) to[ci * d.taps] = from[ci] + (adds ? to[ci * d.taps] : 0);
        }
        if (dbias) dbias[co] = sum[d.Co * k.all + co] + (mba_adds(c->node, DBIAS) ? dbias[co] : 0);
    }
}

static void make_dw(const mba_call *c)
{
    const conv2d_dims d = conv2d_dims_of(c->node);
    const view        s = view_of_x(c);
    const int64_t     parts = conv2d_parts(d), slices = conv2d_columns_of(d).slices;
    const int64_t     each = (conv2d_columns_of(d).all + 1) * d.Co, floats = conv2d_thread_floats(d, true);
    float            *sum = mba__scratch(c, SCRATCH_PARTS);
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads_of(c, floats))
    for (int64_t i = 0; i < parts * slices; i++) dw_item(c, &s, space_of(c, floats), i / slices, i % slices);
    mba__sum_parts(sum, sum, parts, each, false); // the result replaces part 0
    hand_out(c, sum);
}

mba_status MBA_CPU_FN(conv2d_bwd)(const mba_call *c)
{
    MBA_TRY(mba_gemm_ready());
    if (c->out[DX]) make_dx(c);
    make_dw(c);
    return MBA_OK;
}
