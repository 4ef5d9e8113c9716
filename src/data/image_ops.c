// SPDX-License-Identifier: Apache-2.0
/* image_ops.c -- see image_ops.h: crops, flips, mixing, normalisation and erasing. image_resize.c resizes, image_rand.c
 * has RandAugment. */
#include "data/image_ops.h"

#include <string.h>

/* ---- crops ---- */

static mba_box central(double W, double H, int32_t w, int32_t h)
{
    return (mba_box){ .x = ((int32_t)W - w) / 2, .y = ((int32_t)H - h) / 2, .W = w, .H = h };
}

mba_box mba_random_crop(mba_draw *d, int32_t W, int32_t H)
{
    const double low = 3.0 / 4, high = 4.0 / 3;
    for (int i = 0; i < 10; i++) {
        const double area = mba_draw_between(d, 0.08, 1) * W * H, ratio = exp(mba_draw_between(d, log(low), log(high)));
        const int32_t w = (int32_t)lrint(sqrt(area * ratio)), h = (int32_t)lrint(sqrt(area / ratio));
        if (w < 1 || h < 1 || w > W || h > H) continue;
        const double y = mba_draw_below(d, (uint32_t)(H - h + 1)), x = mba_draw_below(d, (uint32_t)(W - w + 1));
        return (mba_box){ .x = x, .y = y, .W = w, .H = h };
    }
    const double ratio = (double)W / H;
    int32_t      w = W, h = H;
    if (ratio < low) h = (int32_t)lrint(W / low);
    if (ratio > high) w = (int32_t)lrint(H * high);
    return central(W, H, w, h);
}

mba_centre mba_centre_crop(int32_t W, int32_t H, int32_t size, double fraction)
{
    const int32_t shorter = W < H ? W : H, longer = W < H ? H : W;
    const int64_t wide = (int64_t)(size / fraction) * longer / shorter, most = INT32_MAX / 2;
    const int32_t S = (int32_t)(size / fraction), other = (int32_t)(wide < most ? wide : most);
    mba_centre    c = { .W = W < H ? S : other, .H = W < H ? other : S };
    c.left = (int32_t)lrint((c.W - size) / 2.0);
    c.top = (int32_t)lrint((c.H - size) / 2.0);
    return c;
}

mba_status mba_image_cut(mba_image *out, const mba_image *in, int32_t left, int32_t top, int32_t size)
{
    MBA_TRY(mba_image_reshape(out, size, size));
    const int32_t x0 = left < 0 ? -left : 0, x1 = left + size > in->W ? in->W - left : size;
    memset(out->rgb, 0, (size_t)size * (size_t)size * 3);
    for (int32_t y = 0; y < size; y++) {
        if (top + y < 0 || top + y >= in->H || x0 >= x1) continue;
        memcpy(out->rgb + ((size_t)y * (size_t)size + (size_t)x0) * 3,
               in->rgb + ((size_t)(top + y) * (size_t)in->W + (size_t)(left + x0)) * 3, (size_t)(x1 - x0) * 3);
    }
    return MBA_OK;
}

void mba_image_flip(mba_image *m)
{
    for (int32_t y = 0; y < m->H; y++) {
        uint8_t *a = m->rgb + (size_t)y * (size_t)m->W * 3, *b = a + (size_t)m->W * 3 - 3;
        for (; a < b; a += 3, b -= 3)
            for (int k = 0; k < 3; k++) {
                const uint8_t v = a[k];
                a[k] = b[k];
                b[k] = v;
            }
    }
}

/* ---- pairs of images ---- */

/* Gamma(shape, 1) for shape >= 1 by Marsaglia and Tsang (2000): a transformed normal, rejected now and then. */
static double gamma_of(mba_draw *d, double shape)
{
    const double a = shape - 1.0 / 3, c = 1 / sqrt(9 * a);
    for (;;) {
        const double x = mba_draw_normal(d), t = 1 + c * x, v = t * t * t;
        if (t > 0 && log(mba_draw_unit(d)) < 0.5 * x * x + a - a * v + a * log(v)) return a * v;
    }
}

double mba_draw_beta(mba_draw *d, double alpha)
{
    double g[2];
    for (int i = 0; i < 2; i++) {
        g[i] = gamma_of(d, alpha < 1 ? alpha + 1 : alpha);
        if (alpha < 1) g[i] *= pow(mba_draw_unit(d), 1 / alpha);
    }
    return g[0] + g[1] > 0 ? g[0] / (g[0] + g[1]) : 0.5; // both may underflow for a tiny alpha
}

static int32_t clipped(int32_t v, int32_t high) { return v < 0 ? 0 : v > high ? high : v; }

static void draw_box(mba_mix *m, mba_draw *d, int32_t W, int32_t H)
{
    const double  side = sqrt(1 - m->lam);
    const int32_t w = (int32_t)(W * side), h = (int32_t)(H * side);
    const int32_t cy = (int32_t)mba_draw_below(d, (uint32_t)H), cx = (int32_t)mba_draw_below(d, (uint32_t)W);
    m->y0 = clipped(cy - h / 2, H);
    m->y1 = clipped(cy + h / 2, H);
    m->x0 = clipped(cx - w / 2, W);
    m->x1 = clipped(cx + w / 2, W);
    m->lam = 1 - (double)(m->y1 - m->y0) * (m->x1 - m->x0) / ((double)W * H);
}

mba_mix mba_mix_draw(mba_draw *d, double mixup_alpha, double cutmix_alpha, int32_t W, int32_t H)
{
    mba_mix m = { .kind = MBA_MIX_NONE, .lam = 1 };
    if (mixup_alpha <= 0 && cutmix_alpha <= 0) return m;
    const int cut = cutmix_alpha > 0 && (mixup_alpha <= 0 || mba_draw_chance(d, 0.5));
    m.kind = cut ? MBA_MIX_CUT : MBA_MIX_UP;
    m.lam = mba_draw_beta(d, cut ? cutmix_alpha : mixup_alpha);
    if (cut) draw_box(&m, d, W, H);
    return m;
}

void mba_mix_images(uint8_t *to, const uint8_t *image, const uint8_t *partner, const mba_mix *m, int32_t W, int32_t H)
{
    const int64_t n = (int64_t)W * H * 3;
    if (m->kind == MBA_MIX_UP) {
        const float a = (float)m->lam, b = 1 - a;
        for (int64_t i = 0; i < n; i++) to[i] = (uint8_t)(int32_t)(a * image[i] + b * partner[i] + 0.5f);
        return;
    }
    if (to != image) memcpy(to, image, (size_t)n);
    if (m->kind == MBA_MIX_CUT)
        for (int32_t y = m->y0; y < m->y1; y++) {
            const size_t at = ((size_t)y * (size_t)W + (size_t)m->x0) * 3;
            memcpy(to + at, partner + at, (size_t)(m->x1 - m->x0) * 3);
        }
}

void mba_mix_targets(float *t, int32_t label, int32_t partner_label, double lam, int64_t K, double eps)
{
    const double off = eps / (double)K;
    for (int64_t k = 0; k < K; k++)
        t[k] = (float)(off + (1 - eps) * (lam * (k == label) + (1 - lam) * (k == partner_label)));
}

/* ---- numbers for the model ---- */

const mba_colours mba_colours_imagenet = { { 0.485f, 0.456f, 0.406f }, { 0.229f, 0.224f, 0.225f } };

typedef struct line {
    float factor[3], shift[3];
} line;

static line make_line(const mba_colours *c)
{
    line l;
    for (int k = 0; k < 3; k++) {
        l.factor[k] = (float)(1 / (255 * (double)c->deviation[k]));
        l.shift[k] = (float)(-(double)c->mean[k] / (double)c->deviation[k]);
    }
    return l;
}

/* Processes sixteen pixels at a time with constants repeated sixteen times, so that the compiler sees 48 equal
 * lanes. */
void mba_normalise(float *restrict x, const uint8_t *restrict rgb, int64_t pixels, const mba_colours *c)
{
    enum { RUN = 48 };
    const line l = make_line(c);
    float      factor[RUN], shift[RUN];
    int64_t    i = 0;
    for (int k = 0; k < RUN; k++) {
        factor[k] = l.factor[k % 3];
        shift[k] = l.shift[k % 3];
    }
    for (; i + RUN <= 3 * pixels; i += RUN)
        for (int k = 0; k < RUN; k++) x[i + k] = rgb[i + k] * factor[k] + shift[k];
    for (; i < 3 * pixels; i++) x[i] = rgb[i] * l.factor[i % 3] + l.shift[i % 3];
}

/* Uses both numbers of every Box-Muller pair. */
static void fill_noise(float *x, int64_t n, mba_draw *d)
{
    for (int64_t i = 0; i < n; i += 2) {
        const float r = sqrtf(-2 * logf((float)mba_draw_unit(d))), a = 6.28318531f * (float)mba_draw_unit(d);
        x[i] = r * cosf(a);
        if (i + 1 < n) x[i + 1] = r * sinf(a);
    }
}

void mba_erase(float *x, int32_t W, int32_t H, mba_draw *d)
{
    for (int i = 0; i < 10; i++) {
        const double area = mba_draw_between(d, 0.02, 1.0 / 3) * W * H,
                     ratio = exp(mba_draw_between(d, log(0.3), -log(0.3)));
        const int32_t h = (int32_t)lrint(sqrt(area * ratio)), w = (int32_t)lrint(sqrt(area / ratio));
        if (h >= H || w >= W) continue;
        const int32_t top = (int32_t)mba_draw_below(d, (uint32_t)(H - h + 1));
        const int32_t left = (int32_t)mba_draw_below(d, (uint32_t)(W - w + 1));
        for (int32_t y = top; y < top + h; y++) fill_noise(x + ((int64_t)y * W + left) * 3, (int64_t)w * 3, d);
        return;
    }
}
