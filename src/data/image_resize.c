// SPDX-License-Identifier: Apache-2.0
/* image_resize.c -- the antialiased resampler of image_ops.h.
 *
 * For one axis, input length n, output length m: scale = n/m, the filter is stretched by s = max(scale, 1). Output i
 * depends on the inputs within support * s of (i + 0.5) * scale. Weights are normalised and have 22 fractional bits, so
 * that the sum of a full row of white pixels stays below 2^31. */
#include "data/image_ops.h"

#include <stdlib.h>
#include <string.h>

enum { POINT = 22 };

static double bilinear(double x)
{
    x = fabs(x);
    return x < 1 ? 1 - x : 0;
}

static double bicubic(double x)
{
    const double a = -0.5;
    x = fabs(x);
    if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
    if (x < 2) return (((x - 5) * x + 8) * x - 4) * a;
    return 0;
}

/* ---- memory ---- */

static mba_status reserve(int32_t **p, size_t *room, size_t need)
{
    if (need <= *room) return MBA_OK;
    int32_t *q = malloc(need * sizeof *q);
    if (!q) return mba_fail(MBA_E_NOMEM, "no memory for the weights of a resize");
    free(*p);
    *p = q;
    *room = need;
    return MBA_OK;
}

void mba_resampler_free(mba_resampler *r)
{
    free(r->weight);
    free(r->first);
    free(r->sum);
    mba_image_free(&r->wide);
    *r = (mba_resampler){ 0 };
}

/* ---- weights ---- */

/* One axis: the box from `from`, of length `length`, becomes m samples. */
typedef struct axis {
    double  from, length;
    int32_t m, taps;   /* taps: room per output */
    int32_t low, high; /* whole pixels that the box touches */
} axis;

static axis make_axis(double from, double length, int32_t n, int32_t m, mba_filter filter)
{
    const double scale = length / m, wide = (filter == MBA_BICUBIC ? 2 : 1) * (scale > 1 ? scale : 1);
    axis         a = { .from = from, .length = length, .m = m, .taps = (int32_t)ceil(wide) * 2 + 1 };
    a.low = (int32_t)floor(from);
    a.high = (int32_t)ceil(from + length);
    if (a.high > n) a.high = n;
    mba_assert(a.low >= 0 && a.low < a.high);
    if (a.taps > a.high - a.low) a.taps = a.high - a.low;
    return a;
}

static mba_status make_weights(mba_resampler *r, const axis *a, mba_filter filter)
{
    double (*const f)(double) = filter == MBA_BICUBIC ? bicubic : bilinear;
    const double scale = a->length / a->m, s = scale > 1 ? scale : 1, wide = (filter == MBA_BICUBIC ? 2 : 1) * s;
    MBA_TRY(reserve(&r->weight, &r->weights_room, (size_t)a->m * (size_t)a->taps));
    MBA_TRY(reserve(&r->first, &r->spans_room, (size_t)a->m * 2));
    r->count = r->first + a->m;
    for (int32_t i = 0; i < a->m; i++) {
        const double c = a->from - a->low + (i + 0.5) * scale; // from the box's first pixel: small, so exact
        int32_t      lo = (int32_t)floor(c - wide + 0.5), hi = (int32_t)floor(c + wide + 0.5);
        if (lo < 0) lo = 0;
        if (hi > a->high - a->low) hi = a->high - a->low;
        mba_assert(hi - lo >= 1 && hi - lo <= a->taps);
        double sum = 0;
        for (int32_t j = lo; j < hi; j++) sum += f((j - c + 0.5) / s);
        for (int32_t j = lo; j < hi; j++)
            r->weight[i * a->taps + j - lo] = (int32_t)lround((sum != 0 ? f((j - c + 0.5) / s) / sum : 1.0 / (hi - lo))
                                                              * (1 << POINT));
        r->first[i] = a->low + lo;
        r->count[i] = hi - lo;
    }
    return MBA_OK;
}

/* ---- passes ---- */

static inline uint8_t rounded(int32_t sum)
{
    const int32_t v = sum >> POINT;
    return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
}

/* Resamples rows [low, high) of `in` horizontally, to rows of `out` that are counted from 0. */
static void pass_along(mba_image *out, const mba_image *in, const mba_resampler *r, const axis *x, int32_t low)
{
    for (int32_t y = 0; y < out->H; y++) {
        const uint8_t *row = in->rgb + (size_t)(low + y) * (size_t)in->W * 3;
        uint8_t       *to = out->rgb + (size_t)y * (size_t)out->W * 3;
        for (int32_t i = 0; i < out->W; i++) {
            const uint8_t *p = row + (size_t)r->first[i] * 3;
            const int32_t *w = r->weight + (size_t)i * (size_t)x->taps;
            int32_t        red = 1 << (POINT - 1), green = red, blue = red;
            for (int32_t j = 0; j < r->count[i]; j++, p += 3) {
                red += w[j] * p[0];
                green += w[j] * p[1];
                blue += w[j] * p[2];
            }
            to[3 * i] = rounded(red);
            to[3 * i + 1] = rounded(green);
            to[3 * i + 2] = rounded(blue);
        }
    }
}

static void add_row(int32_t *restrict sum, const uint8_t *restrict p, int32_t w, int32_t n)
{
    for (int32_t i = 0; i < n; i++) sum[i] += w * p[i];
}

static void add_rows(int32_t *restrict sum, const uint8_t *restrict p, const uint8_t *restrict q, int32_t v, int32_t w,
                     int32_t n)
{
    for (int32_t i = 0; i < n; i++) sum[i] += v * p[i] + w * q[i];
}

static void pass_down(mba_image *out, const mba_image *in, mba_resampler *r, const axis *y, int32_t low)
{
    const int32_t n = out->W * 3;
    for (int32_t i = 0; i < out->H; i++) {
        const uint8_t *p = in->rgb + (size_t)(r->first[i] - low) * (size_t)n;
        const int32_t *w = r->weight + (size_t)i * (size_t)y->taps;
        uint8_t       *to = out->rgb + (size_t)i * (size_t)n;
        int32_t        j = 0;
        for (int32_t k = 0; k < n; k++) r->sum[k] = 1 << (POINT - 1);
        for (; j + 1 < r->count[i]; j += 2)
            add_rows(r->sum, p + (size_t)j * (size_t)n, p + (size_t)(j + 1) * (size_t)n, w[j], w[j + 1], n);
        if (j < r->count[i]) add_row(r->sum, p + (size_t)j * (size_t)n, w[j], n);
        for (int32_t k = 0; k < n; k++) to[k] = rounded(r->sum[k]);
    }
}

mba_status mba_image_resize(mba_resampler *r, mba_image *out, const mba_image *in, mba_box box, int32_t W, int32_t H,
                            mba_filter filter)
{
    mba_assert(out != in && W > 0 && H > 0 && box.W > 0 && box.H > 0);
    const axis x = make_axis(box.x, box.W, in->W, W, filter), y = make_axis(box.y, box.H, in->H, H, filter);
    MBA_TRY(mba_image_reshape(&r->wide, W, y.high - y.low));
    MBA_TRY(mba_image_reshape(out, W, H));
    MBA_TRY(reserve(&r->sum, &r->sums_room, (size_t)W * 3));
    MBA_TRY(make_weights(r, &x, filter));
    pass_along(&r->wide, in, r, &x, y.low);
    MBA_TRY(make_weights(r, &y, filter));
    pass_down(out, &r->wide, r, &y, y.low);
    return MBA_OK;
}
