// SPDX-License-Identifier: Apache-2.0
/* image_synthetic.c -- synthetic photographs, to measure throughput and to see a loss fall. Every class has three
 * gratings; every image shifts them, changes the contrast, covers parts with rectangles and adds noise. Images are
 * computed from counters: image i is always the same, and nothing is stored. */
#include "data/image_set.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GRATINGS = 3, SIDE_LOW = 256, SIDE_HIGH = 512, BOXES_MAX = 4, SIDE_MAX = 4096 };

typedef struct synthetic {
    mba_image_set set;
    uint64_t      seed;
    int32_t       size;
    bool          validation;
} synthetic;

typedef struct grating {
    float fx, fy, amplitude[3];
} grating;

/* Draws the gratings of a class: 2 .. 40 cycles in 512 pixels, any direction. */
static void draw_class(grating g[GRATINGS], uint64_t seed, int32_t label)
{
    mba_draw d = mba_draw_start(seed, "image class", 0, label);
    for (int i = 0; i < GRATINGS; i++) {
        const double turns = mba_draw_between(&d, 2, 40) / 512, angle = mba_draw_between(&d, 0, 6.283185307179586);
        g[i].fx = (float)(6.283185307179586 * turns * cos(angle));
        g[i].fy = (float)(6.283185307179586 * turns * sin(angle));
        for (int k = 0; k < 3; k++) g[i].amplitude[k] = (float)mba_draw_between(&d, -45, 45);
    }
}

/* Tabulates sin(fx x + p) for all x, then cos. With sin(a + b) = sin a cos b + cos a sin b the rest are
 * multiplications. */
static void waves(float *to, const grating g[GRATINGS], const float phase[GRATINGS], int32_t W)
{
    for (int i = 0; i < GRATINGS; i++)
        for (int32_t x = 0; x < W; x++) {
            to[(2 * i) * W + x] = sinf(g[i].fx * (float)x + phase[i]);
            to[(2 * i + 1) * W + x] = cosf(g[i].fx * (float)x + phase[i]);
        }
}

/* Four nearly normal numbers from 16 random bytes: each is the standardised sum of four bytes. */
static void noise4(float n[4], mba_draw *d)
{
    uint32_t u[4];
    mba_philox(u, d->key, d->hi, d->lo++);
    for (int i = 0; i < 4; i++) {
        const uint32_t sum = (u[i] & 255) + (u[i] >> 8 & 255) + (u[i] >> 16 & 255) + (u[i] >> 24);
        n[i] = ((float)sum - 510) * (1 / 147.8f);
    }
}

static void paint_row(uint8_t *row, const float *wave, const grating g[GRATINGS], int32_t W, int32_t y, float contrast,
                      float offset, mba_draw *d)
{
    float s[GRATINGS], c[GRATINGS], n[4];
    for (int i = 0; i < GRATINGS; i++) {
        s[i] = sinf(g[i].fy * (float)y);
        c[i] = cosf(g[i].fy * (float)y);
    }
    for (int32_t x = 0; x < W; x++) {
        float v[3] = { offset, offset, offset };
        for (int i = 0; i < GRATINGS; i++) {
            const float w = contrast * (wave[(2 * i) * W + x] * c[i] + wave[(2 * i + 1) * W + x] * s[i]);
            for (int k = 0; k < 3; k++) v[k] += w * g[i].amplitude[k];
        }
        noise4(n, d);
        for (int k = 0; k < 3; k++) {
            const float w = v[k] + 12 * n[k];
            row[3 * x + k] = (uint8_t)(w <= 0 ? 0 : w >= 255 ? 255 : (int32_t)(w + 0.5f));
        }
    }
}

static void paint_box(mba_image *m, mba_draw *d)
{
    const int32_t w = 1 + (int32_t)mba_draw_below(d, (uint32_t)m->W / 3 + 1),
                  h = 1 + (int32_t)mba_draw_below(d, (uint32_t)m->H / 3 + 1);
    const int32_t  left = (int32_t)mba_draw_below(d, (uint32_t)m->W), top = (int32_t)mba_draw_below(d, (uint32_t)m->H);
    const uint32_t colour = mba_draw_word(d);
    for (int32_t y = top; y < top + h && y < m->H; y++)
        for (int32_t x = left; x < left + w && x < m->W; x++)
            for (int k = 0; k < 3; k++)
                m->rgb[((size_t)y * (size_t)m->W + (size_t)x) * 3 + (size_t)k] = (uint8_t)(colour >> 8 * k);
}

static void synthetic_close(mba_image_set *s) { free(s); }

static int32_t synthetic_label(const mba_image_set *s, int64_t number) { return (int32_t)(number % s->classes); }

static mba_status synthetic_read(const mba_image_set *s, int64_t number, mba_sample *out)
{
    const synthetic *t = (const synthetic *)s;
    mba_draw         d = mba_draw_start(t->seed, t->validation ? "image validation" : "image", 0, number);
    grating          g[GRATINGS];
    float            phase[GRATINGS];
    out->label = synthetic_label(s, number);
    const int32_t W = t->size ? t->size : SIDE_LOW + (int32_t)mba_draw_below(&d, SIDE_HIGH - SIDE_LOW + 1);
    const int32_t H = t->size ? t->size : SIDE_LOW + (int32_t)mba_draw_below(&d, SIDE_HIGH - SIDE_LOW + 1);
    snprintf(out->name, sizeof out->name, "synthetic image %" PRId64, number);
    MBA_TRY(mba_image_reshape(&out->image, W, H));
    float *wave = malloc((size_t)W * 2 * GRATINGS * sizeof *wave);
    if (!wave) return mba_fail(MBA_E_NOMEM, "no memory for a synthetic image");
    draw_class(g, t->seed, out->label);
    for (int i = 0; i < GRATINGS; i++) phase[i] = (float)mba_draw_between(&d, 0, 6.283185307179586);
    waves(wave, g, phase, W);
    const float contrast = (float)mba_draw_between(&d, 0.5, 1.5), offset = (float)mba_draw_between(&d, 96, 160);
    for (int32_t y = 0; y < H; y++)
        paint_row(out->image.rgb + (size_t)y * (size_t)W * 3, wave, g, W, y, contrast, offset, &d);
    free(wave);
    for (uint32_t i = mba_draw_below(&d, BOXES_MAX + 1); i > 0; i--) paint_box(&out->image, &d);
    return MBA_OK;
}

static const mba_image_kind kind = { "synthetic", synthetic_read, synthetic_close, synthetic_label, NULL };

mba_status mba_image_synthetic_create(mba_image_set **out, const mba_image_set_options *o)
{
    const int64_t classes = o->classes ? o->classes : 10, count = o->count ? o->count : o->validation ? 10000 : 50000;
    if (classes < 1 || classes > INT32_MAX || count < 1 || o->size < 0 || o->size > SIDE_MAX)
        return mba_fail(MBA_E_ARG,
                        "a synthetic set of %" PRId64 " images in %" PRId64 " classes, side %d, is impossible\n"
                        "why: it has at least one of each, and sides of at most %d",
                        count, classes, o->size, SIDE_MAX);
    synthetic *t = calloc(1, sizeof *t);
    if (!t) return mba_fail(MBA_E_NOMEM, "no memory for a synthetic set");
    *t = (synthetic){ .set = { .kind = &kind,
                               .count = count,
                               .classes = classes,
                               .W = o->size,
                               .H = o->size,
                               .made_up = true,
                               .colours = mba_colours_imagenet },
                      .seed = o->seed,
                      .size = o->size,
                      .validation = o->validation };
    *out = &t->set;
    return MBA_OK;
}
