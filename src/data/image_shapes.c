// SPDX-License-Identifier: Apache-2.0
/* image_shapes.c -- "shapes": a synthetic task of ten classes at 32 x 32 that single pixels cannot solve.
 *
 *     0 disc   1 square   2 triangle   3 cross   4 ring      one, somewhere, 10 to 18 pixels wide
 *     5 two discs side by side   6 one above the other   7 three discs
 *     8 a square left of a disc   9 a disc left of a square
 *
 * The shapes are lighter or darker than the ground with equal probability and have any colour, so no single pixel
 * depends on the class: a linear model stays near guessing (docs/image-data.md has the figures), while a small
 * convolutional network solves it. Every image is computed from counters; nothing is stored. */
#include "data/image_set.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { SIDE = 32, CLASSES = 10, FINE = 3, FIGURES_MAX = 3 };

typedef enum outline { DISC, SQUARE, TRIANGLE, CROSS, RING } outline;

typedef struct figure {
    outline kind;
    float   x, y, r, c, s; /* centre, half width, cosine and sine of a small turn */
} figure;

typedef struct shapes {
    mba_image_set set;
    uint64_t      seed;
    bool          validation;
} shapes;

static const char *const names[CLASSES] = {
    "disc",
    "square",
    "triangle",
    "cross",
    "ring",
    "two discs side by side",
    "two discs one above the other",
    "three discs",
    "square left of disc",
    "disc left of square",
};

const char *mba_shapes_class(int32_t label) { return names[label]; }

static bool covers(const figure *f, float px, float py)
{
    const float dx = px - f->x, dy = py - f->y, x = (f->c * dx + f->s * dy) / f->r, y = (f->c * dy - f->s * dx) / f->r;
    const float ax = fabsf(x), ay = fabsf(y), square = x * x + y * y;
    switch (f->kind) {
    case DISC: return square < 1;
    case SQUARE: return ax < 0.9f && ay < 0.9f;
    case TRIANGLE: return y < 0.85f && ax < 0.55f * (y + 1);
    case CROSS: return (ax < 1 && ay < 0.3f) || (ay < 1 && ax < 0.3f);
    default: return square < 1 && square > 0.3f;
    }
}

static float between(mba_draw *d, float low, float high) { return (float)mba_draw_between(d, low, high); }

static figure draw_figure(mba_draw *d, outline kind, float low, float high)
{
    const float r = between(d, low, high), angle = between(d, -0.2f, 0.2f);
    return (figure){ .kind = kind,
                     .r = r,
                     .c = cosf(angle),
                     .s = sinf(angle),
                     .x = between(d, r + 1, SIDE - r - 1),
                     .y = between(d, r + 1, SIDE - r - 1) };
}

/* Two figures with a gap between them along one axis, nearly level along the other. */
static int draw_pair(figure f[2], mba_draw *d, outline first, outline second, bool across)
{
    float at[2][2], sum, level;
    f[0] = draw_figure(d, first, 3.5f, 5.5f);
    f[1] = draw_figure(d, second, 3.5f, 5.5f);
    sum = f[0].r + f[1].r;
    const float gap = between(d, 2, SIDE - 2 - 2 * sum), start = between(d, 1, SIDE - 1 - 2 * sum - gap);
    const float wide = f[0].r > f[1].r ? f[0].r : f[1].r;
    level = between(d, wide + 3, SIDE - wide - 3);
    at[0][0] = start + f[0].r;
    at[1][0] = start + 2 * f[0].r + gap + f[1].r;
    for (int i = 0; i < 2; i++) {
        at[i][1] = level + between(d, -2, 2);
        f[i].x = at[i][!across];
        f[i].y = at[i][across];
    }
    return 2;
}

/* Draws three discs, again and again until they do not touch. */
static int draw_three(figure f[3], mba_draw *d)
{
    for (;;) {
        float nearest = SIDE;
        for (int i = 0; i < 3; i++) f[i] = draw_figure(d, DISC, 3, 4.5f);
        for (int i = 0; i < 3; i++) {
            const figure *a = f + i, *b = f + (i + 1) % 3;
            const float   gap = hypotf(a->x - b->x, a->y - b->y) - a->r - b->r;
            if (gap < nearest) nearest = gap;
        }
        if (nearest > 1.5f) return 3;
    }
}

static int draw_class(figure f[FIGURES_MAX], mba_draw *d, int32_t label)
{
    switch (label) {
    case 5: return draw_pair(f, d, DISC, DISC, true);
    case 6: return draw_pair(f, d, DISC, DISC, false);
    case 7: return draw_three(f, d);
    case 8: return draw_pair(f, d, SQUARE, DISC, true);
    case 9: return draw_pair(f, d, DISC, SQUARE, true);
    default: f[0] = draw_figure(d, (outline)label, 5, 9); return 1;
    }
}

/* Two colours at least 50 grey levels apart in brightness, either way round. */
static void draw_colours(float ground[3], float ink[3], mba_draw *d)
{
    const float light = between(d, 130, 215), dark = light - between(d, 50, 110);
    const bool  swap = mba_draw_chance(d, 0.5);
    for (int k = 0; k < 3; k++) {
        ground[k] = (swap ? light : dark) + between(d, -25, 25);
        ink[k] = (swap ? dark : light) + between(d, -25, 25);
    }
}

static float coverage(const figure *f, int n, int x, int y)
{
    int hit = 0;
    for (int i = 0; i < FINE * FINE; i++) {
        const float px = (float)x + ((float)(i % FINE) + 0.5f) / FINE,
                    py = (float)y + ((float)(i / FINE) + 0.5f) / FINE;
        bool any = false;
        for (int k = 0; k < n; k++) any = any || covers(f + k, px, py);
        hit += any;
    }
    return (float)hit / (FINE * FINE);
}

static void shapes_close(mba_image_set *s) { free(s); }

static int32_t shapes_label(const mba_image_set *s, int64_t number) { return (int32_t)(number % s->classes); }

static mba_status shapes_read(const mba_image_set *s, int64_t number, mba_sample *out)
{
    const shapes *t = (const shapes *)s;
    mba_draw      d = mba_draw_start(t->seed, t->validation ? "shapes validation" : "shapes", 0, number);
    figure        f[FIGURES_MAX];
    float         ground[3], ink[3];
    snprintf(out->name, sizeof out->name, "shapes, image %" PRId64, number);
    out->label = shapes_label(s, number);
    MBA_TRY(mba_image_reshape(&out->image, SIDE, SIDE));
    const int n = draw_class(f, &d, out->label);
    draw_colours(ground, ink, &d);
    for (int y = 0; y < SIDE; y++)
        for (int x = 0; x < SIDE; x++) {
            const float part = coverage(f, n, x, y);
            for (int k = 0; k < 3; k++) {
                const float v = ground[k] + part * (ink[k] - ground[k]) + 8 * (float)mba_draw_normal(&d);
                out->image.rgb[(y * SIDE + x) * 3 + k] = (uint8_t)(v <= 0 ? 0 : v >= 255 ? 255 : (int)(v + 0.5f));
            }
        }
    return MBA_OK;
}

static const char *shapes_class(const mba_image_set *s, int32_t label)
{
    (void)s;
    return mba_shapes_class(label);
}

static const mba_image_kind kind = { "shapes", shapes_read, shapes_close, shapes_label, shapes_class };

mba_status mba_image_shapes_create(mba_image_set **out, const mba_image_set_options *o)
{
    const int64_t count = o->count ? o->count : o->validation ? 10000 : 50000;
    if (count < 1) return mba_fail(MBA_E_ARG, "a set of %" PRId64 " shapes is impossible", count);
    shapes *t = calloc(1, sizeof *t);
    if (!t) return mba_fail(MBA_E_NOMEM, "no memory for a set of shapes");
    *t = (shapes){ .set = { .kind = &kind,
                            .count = count,
                            .classes = CLASSES,
                            .W = SIDE,
                            .H = SIDE,
                            .made_up = true,
                            .colours = { { 0.5f, 0.5f, 0.5f }, { 0.25f, 0.25f, 0.25f } } },
                   .seed = o->seed,
                   .validation = o->validation };
    *out = &t->set;
    return MBA_OK;
}
