// SPDX-License-Identifier: Apache-2.0
/* image_rand.c -- the fifteen operations of RandAugment, "increasing" set; see image_ops.h.
 *
 * u in 0 .. 1 is the severity. Colour operations follow Pillow's tables, but round where Pillow truncates. Geometric
 * ones map output pixels to input positions, with pixel centres at half-integers; pixels from outside are the mean
 * colour. */
#include "data/image_ops.h"

#include <stdbool.h>
#include <string.h>

static const uint8_t fill[3] = { 124, 116, 104 };

static uint8_t to_byte(float v) { return (uint8_t)(v <= 0 ? 0 : v >= 255 ? 255 : (int32_t)(v + 0.5f)); }

static int32_t grey_of(const uint8_t *p) { return (19595 * p[0] + 38470 * p[1] + 7471 * p[2] + 32768) >> 16; }

static int64_t pixels_of(const mba_image *m) { return (int64_t)m->W * m->H; }

static mba_status copy(mba_image *to, const mba_image *from)
{
    MBA_TRY(mba_image_reshape(to, from->W, from->H));
    memcpy(to->rgb, from->rgb, (size_t)pixels_of(from) * 3);
    return MBA_OK;
}

/* ---- tables: each value independently ---- */

static void apply_table(mba_image *m, uint8_t table[3][256])
{
    for (int64_t i = 0; i < pixels_of(m); i++)
        for (int k = 0; k < 3; k++) m->rgb[3 * i + k] = table[k][m->rgb[3 * i + k]];
}

static void histogram(int64_t count[3][256], const mba_image *m)
{
    memset(count, 0, 3 * 256 * sizeof count[0][0]);
    for (int64_t i = 0; i < pixels_of(m); i++)
        for (int k = 0; k < 3; k++) count[k][m->rgb[3 * i + k]]++;
}

static void stretch_table(uint8_t *table, const int64_t *count)
{
    int low = 0, high = 255;
    while (low < 255 && !count[low]) low++;
    while (high > 0 && !count[high]) high--;
    for (int v = 0; v < 256; v++)
        table[v] = high > low ? to_byte((float)(v - low) * 255 / (float)(high - low)) : (uint8_t)v;
}

/* Histogram equalisation as usual: steps of (pixels - pixels of the brightest value) / 255, cumulated from half a
 * step. */
static void equal_table(uint8_t *table, const int64_t *count)
{
    int64_t all = 0, last = 0;
    for (int v = 0; v < 256; v++) {
        all += count[v];
        if (count[v]) last = count[v];
    }
    const int64_t step = (all - last) / 255;
    int64_t       n = step / 2;
    for (int v = 0; v < 256; v++) {
        const int64_t to = step ? n / step : v;
        table[v] = (uint8_t)(to > 255 ? 255 : to);
        n += count[v];
    }
}

static void by_histogram(mba_image *m, void (*make)(uint8_t *, const int64_t *))
{
    int64_t count[3][256];
    uint8_t table[3][256];
    histogram(count, m);
    for (int k = 0; k < 3; k++) make(table[k], count[k]);
    apply_table(m, table);
}

static uint8_t by_value(mba_rand_op op, int v, double u)
{
    switch (op) {
    case MBA_RAND_invert: return (uint8_t)(255 - v);
    case MBA_RAND_posterise: {
        const int bits = 4 - (int)(4 * u);
        return (uint8_t)(v & (255 << (8 - bits) & 255));
    }
    case MBA_RAND_solarise: {
        const int from = 256 - (int)(256 * u);
        return (uint8_t)(v < from ? v : 255 - v);
    }
    default: { /* solarise-add */
        const int add = (int)(110 * u), sum = v + add;
        return (uint8_t)(v >= 128 ? v : sum > 255 ? 255 : sum);
    }
    }
}

static void map_values(mba_image *m, mba_rand_op op, double u)
{
    uint8_t table[3][256];
    for (int v = 0; v < 256; v++) table[0][v] = table[1][v] = table[2][v] = by_value(op, v, u);
    apply_table(m, table);
}

/* ---- blends: d + f (v - d), d the image without colour, contrast, light or detail ---- */

static void blend_colour(mba_image *m, float f)
{
    for (int64_t i = 0; i < pixels_of(m); i++) {
        uint8_t    *p = m->rgb + 3 * i;
        const float d = (float)grey_of(p);
        for (int k = 0; k < 3; k++) p[k] = to_byte(d + f * (p[k] - d));
    }
}

/* Blends with one grey level; 0 is black. */
static void blend_level(mba_image *m, float f, float d)
{
    uint8_t table[3][256];
    for (int v = 0; v < 256; v++) table[0][v] = table[1][v] = table[2][v] = to_byte(d + f * ((float)v - d));
    apply_table(m, table);
}

static float mean_grey(const mba_image *m)
{
    int64_t sum = 0;
    for (int64_t i = 0; i < pixels_of(m); i++) sum += grey_of(m->rgb + 3 * i);
    return (float)floor((double)sum / (double)pixels_of(m) + 0.5);
}

static void blend_smooth(mba_image *m, const mba_image *from, float f)
{
    const size_t row = (size_t)m->W * 3;
    for (int32_t y = 1; y < m->H - 1; y++) {
        const uint8_t *p = from->rgb + (size_t)y * row;
        uint8_t       *to = m->rgb + (size_t)y * row;
        for (size_t i = 3; i + 3 < row; i++) {
            const int32_t nine = p[i - row - 3] + p[i - row] + p[i - row + 3] + p[i - 3] + p[i] + p[i + 3]
                                 + p[i + row - 3] + p[i + row] + p[i + row + 3];
            const float d = (float)((2 * (nine + 4 * p[i]) + 13) / 26); // rounded
            to[i] = to_byte(d + f * (p[i] - d));
        }
    }
}

/* ---- geometry ---- */

/* Input position of an output pixel: (xx x + xy y + x0, yx x + yy y + y0). */
typedef struct affine {
    double xx, xy, x0, yx, yy, y0;
} affine;

/* Four weights for the samples at -1, 0, 1, 2. Pillow warps with a = -1, though it resizes with -0.5. */
static void cubic_weights(float w[4], float d)
{
    w[0] = d * (-1 + d * (2 - d));
    w[1] = 1 + d * d * (d - 2);
    w[2] = d * (1 + d * (1 - d));
    w[3] = d * d * (d - 1);
}

static void linear_weights(float w[4], float d)
{
    w[0] = w[3] = 0;
    w[1] = 1 - d;
    w[2] = d;
}

static int32_t inside(int32_t v, int32_t n) { return v < 0 ? 0 : v >= n ? n - 1 : v; }

static void sample(uint8_t *to, const mba_image *in, float x, float y, mba_filter filter)
{
    const int32_t ix = (int32_t)floorf(x), iy = (int32_t)floorf(y), first = filter == MBA_BILINEAR,
                  last = first ? 2 : 3;
    float   wx[4], wy[4], sum[3] = { 0 };
    int32_t at[4];
    (first ? linear_weights : cubic_weights)(wx, x - (float)ix);
    (first ? linear_weights : cubic_weights)(wy, y - (float)iy);
    for (int j = first; j <= last; j++) at[j] = 3 * inside(ix - 1 + j, in->W);
    for (int i = first; i <= last; i++) {
        const uint8_t *row = in->rgb + (size_t)inside(iy - 1 + i, in->H) * (size_t)in->W * 3;
        float          part[3] = { 0 };
        for (int j = first; j <= last; j++)
            for (int k = 0; k < 3; k++) part[k] += wx[j] * row[at[j] + k];
        for (int k = 0; k < 3; k++) sum[k] += wy[i] * part[k];
    }
    for (int k = 0; k < 3; k++) to[k] = to_byte(sum[k]);
}

static void warp(mba_image *out, const mba_image *in, const affine *a, mba_filter filter)
{
    for (int32_t y = 0; y < out->H; y++)
        for (int32_t x = 0; x < out->W; x++) {
            const double sx = a->xx * (x + 0.5) + a->xy * (y + 0.5) + a->x0;
            const double sy = a->yx * (x + 0.5) + a->yy * (y + 0.5) + a->y0;
            uint8_t     *to = out->rgb + ((size_t)y * (size_t)out->W + (size_t)x) * 3;
            if (sx < 0 || sy < 0 || sx >= in->W || sy >= in->H) memcpy(to, fill, 3);
            else sample(to, in, (float)(sx - 0.5), (float)(sy - 0.5), filter);
        }
}

static affine geometry(mba_rand_op op, double v, int32_t W, int32_t H)
{
    affine a = { .xx = 1, .yy = 1 };
    switch (op) {
    case MBA_RAND_shear_x: a.xy = 0.3 * v; break;
    case MBA_RAND_shear_y: a.yx = 0.3 * v; break;
    case MBA_RAND_translate_x: a.x0 = 0.45 * v * W; break;
    case MBA_RAND_translate_y: a.y0 = 0.45 * v * H; break;
    default: { /* rotate: about the centre */
        const double angle = v * 30 * 3.141592653589793 / 180, c = cos(angle), s = sin(angle), cx = W / 2.0,
                     cy = H / 2.0;
        a = (affine){ c, -s, cx - c * cx + s * cy, s, c, cy - s * cx - c * cy };
    }
    }
    return a;
}

/* ---- dispatch ---- */

static const char *const names[] = {
#define X(name) #name,
    MBA_RAND_LIST(X)
#undef X
};

const char *mba_rand_name(mba_rand_op op) { return names[op]; }

mba_status mba_rand_apply(mba_image *m, mba_image *spare, mba_rand_op op, double u, int sign, mba_filter filter)
{
    const double more = 1 + sign * 0.9 * u;
    const float  f = (float)(more > 0.1 ? more : 0.1);
    switch (op) {
    case MBA_RAND_auto_contrast: by_histogram(m, stretch_table); break;
    case MBA_RAND_equalise: by_histogram(m, equal_table); break;
    case MBA_RAND_colour: blend_colour(m, f); break;
    case MBA_RAND_contrast: blend_level(m, f, mean_grey(m)); break;
    case MBA_RAND_brightness: blend_level(m, f, 0); break;
    case MBA_RAND_sharpness:
        MBA_TRY(copy(spare, m));
        blend_smooth(m, spare, f);
        break;
    case MBA_RAND_rotate:
    case MBA_RAND_shear_x:
    case MBA_RAND_shear_y:
    case MBA_RAND_translate_x:
    case MBA_RAND_translate_y: {
        const affine a = geometry(op, sign * u, m->W, m->H);
        MBA_TRY(copy(spare, m));
        warp(m, spare, &a, filter);
        break;
    }
    default: map_values(m, op, u);
    }
    return MBA_OK;
}

mba_status mba_rand_augment(mba_image *m, mba_image *spare, mba_draw *d, const mba_rand_options *o)
{
    for (int i = 0; i < o->operations; i++) {
        const mba_rand_op op = (mba_rand_op)mba_draw_below(d, MBA_RAND_OPS);
        if (!mba_draw_chance(d, 0.5)) continue;
        double           level = o->magnitude + o->deviation * mba_draw_normal(d);
        const int        sign = mba_draw_chance(d, 0.5) ? -1 : 1;
        const mba_filter by = mba_draw_chance(d, 0.5) ? MBA_BICUBIC : MBA_BILINEAR;
        level = level < 0 ? 0 : level > 10 ? 10 : level;
        MBA_TRY(mba_rand_apply(m, spare, op, level / 10, sign, by));
    }
    return MBA_OK;
}
