// SPDX-License-Identifier: Apache-2.0
/* graph_synthetic_images.c -- generators of graph_synthetic.h: superpixels (voc, coco) and nearest-neighbour graphs of
 * points (mnist, cifar10). */
#include <string.h>

#include "data/graph_draft.h"

/* ---- superpixels ---- */

enum { CELL = 16, REACH = 3, SPAN = 2 * REACH + 1, COLOURS = 3, VOC_FEATURES = 14, DISCS_MAX = 3 };

typedef struct grid {
    int64_t columns, rows, percent;
} grid;

static const grid grids[] = { { 25, 19, 40 }, { 19, 25, 10 }, { 27, 18, 20 }, { 18, 27, 8 },
                              { 24, 20, 8 },  { 22, 22, 8 },  { 21, 23, 6 } };

typedef struct image {
    int64_t  columns, rows, width, height, cells;
    double  *x, *y; // (cells): seeds, later centres
    int32_t *pixel; // (height, width): the region of each pixel
    int32_t *touch; // (cells, SPAN, SPAN): boundary length with the region that many cells away
} image;

static void choose_grid(image *m, mba_draft *d)
{
    int64_t percent = mba__draw_below(d, 100);
    int     k = 0;
    while (percent >= grids[k].percent) percent -= grids[k++].percent;
    m->columns = grids[k].columns;
    m->rows = grids[k].rows;
    m->width = CELL * m->columns;
    m->height = CELL * m->rows;
    m->cells = m->columns * m->rows;
    m->x = mba_arena_new(d->arena, double, m->cells);
    m->y = mba_arena_new(d->arena, double, m->cells);
    m->pixel = mba_arena_new(d->arena, int32_t, m->width * m->height);
    m->touch = mba_arena_new(d->arena, int32_t, m->cells * SPAN * SPAN);
    for (int64_t i = 0; i < m->cells; i++) {
        m->x[i] = CELL * ((double)(i % m->columns) + 0.5 + 0.84 * (mba__draw_unit(d) - 0.5));
        m->y[i] = CELL * ((double)(i / m->columns) + 0.5 + 0.84 * (mba__draw_unit(d) - 0.5));
    }
}

/* The nearest seed among the 3 x 3 cells around a pixel. */
static int32_t nearest_seed(const image *m, int64_t px, int64_t py)
{
    const int64_t cx = px / CELL, cy = py / CELL;
    const double  x = (double)px + 0.5, y = (double)py + 0.5;
    double        least = INFINITY;
    int64_t       best = 0;
    for (int64_t r = cy > 0 ? cy - 1 : 0; r <= cy + 1 && r < m->rows; r++)
        for (int64_t c = cx > 0 ? cx - 1 : 0; c <= cx + 1 && c < m->columns; c++) {
            const int64_t i = r * m->columns + c;
            const double  q = (m->x[i] - x) * (m->x[i] - x) + (m->y[i] - y) * (m->y[i] - y);
            if (q < least) {
                least = q;
                best = i;
            }
        }
    return (int32_t)best;
}

static int32_t *touch_of(image *m, int32_t a, int32_t b)
{
    const int64_t dx = b % m->columns - a % m->columns, dy = b / m->columns - a / m->columns;
    return m->touch + ((int64_t)a * SPAN + dy + REACH) * SPAN + dx + REACH;
}

/* Counts pixels of different regions that touch in the 8-neighbourhood; each pair is examined once. */
static void find_boundaries(image *m)
{
    static const int step[4][2] = { { 1, 0 }, { -1, 1 }, { 0, 1 }, { 1, 1 } };
    for (int64_t y = 0; y < m->height; y++)
        for (int64_t x = 0; x < m->width; x++)
            for (int k = 0; k < 4; k++) {
                const int64_t u = x + step[k][0], v = y + step[k][1];
                if (u < 0 || u >= m->width || v >= m->height) continue;
                const int32_t a = m->pixel[y * m->width + x], b = m->pixel[v * m->width + u];
                if (a == b) continue;
                ++*touch_of(m, a, b);
                ++*touch_of(m, b, a);
            }
}

static void move_to_centres(image *m, mba_draft *d)
{
    int64_t *count = mba_arena_new(d->arena, int64_t, m->cells);
    memset(m->x, 0, (size_t)m->cells * sizeof *m->x);
    memset(m->y, 0, (size_t)m->cells * sizeof *m->y);
    for (int64_t i = 0; i < m->width * m->height; i++) {
        const int32_t r = m->pixel[i];
        m->x[r] += (double)(i % m->width) + 0.5;
        m->y[r] += (double)(i / m->width) + 0.5;
        count[r]++;
    }
    for (int64_t i = 0; i < m->cells; i++) { // a seed is nearest to its own pixel: no region is empty
        m->x[i] /= (double)count[i];
        m->y[i] /= (double)count[i];
    }
}

/* Labels regions: discs, each with a class, later ones in front; the rest is background, class 0. */
static void label_regions(const image *m, mba_draft *d, int64_t classes)
{
    int32_t      *label = mba_arena_new(d->arena, int32_t, m->cells);
    const double  size = (double)(m->width < m->height ? m->width : m->height);
    const int64_t discs = 1 + mba__draw_below(d, DISCS_MAX);
    for (int64_t k = 0; k < discs; k++) {
        const double  x = (double)m->width * mba__draw_unit(d), y = (double)m->height * mba__draw_unit(d);
        const double  r = size * (0.12 + 0.2 * mba__draw_unit(d));
        const int64_t c = 1 + mba__draw_below(d, classes - 1);
        for (int64_t i = 0; i < m->cells; i++)
            if ((m->x[i] - x) * (m->x[i] - x) + (m->y[i] - y) * (m->y[i] - y) < r * r) label[i] = (int32_t)c;
    }
    d->label = label;
}

/* Features: mean, deviation, maximum, minimum of R, G, B, then the centre as a fraction of the image. */
static void colour_regions(const image *m, mba_draft *d)
{
    float         *feat = mba_arena_new(d->arena, float, m->cells *VOC_FEATURES);
    const int32_t *label = d->label;
    for (int64_t i = 0; i < m->cells; i++) {
        float *f = feat + i * VOC_FEATURES;
        for (int c = 0; c < COLOURS; c++) {
            const double base = mba__fixed_unit("class colours", (uint64_t)(label[i] * COLOURS + c));
            const double mean = base + 0.15 * mba__draw_normal(d), dev = fabs(0.1 * mba__draw_normal(d));
            f[c] = (float)mean;
            f[COLOURS + c] = (float)dev;
            f[2 * COLOURS + c] = (float)(mean + 2 * dev);
            f[3 * COLOURS + c] = (float)(mean - 2 * dev);
        }
        f[4 * COLOURS] = (float)(m->x[i] / (double)m->width);
        f[4 * COLOURS + 1] = (float)(m->y[i] / (double)m->height);
    }
    d->node_feat = feat;
}

/* Writes the edges by target, then source. Features: distance of the mean colours, number of boundary pixels. */
static void join_regions(const image *m, mba_draft *d)
{
    const float *colour = d->node_feat;
    float       *feat = mba_arena_new(d->arena, float, m->cells *SPAN *SPAN * 2);
    mba__draft_edges(d, m->cells * SPAN * SPAN);
    for (int64_t i = 0; i < m->cells; i++)
        for (int64_t k = 0; k < SPAN * SPAN; k++) {
            const int32_t pixels = m->touch[i * SPAN * SPAN + k];
            if (!pixels) continue;
            const int64_t j = i + (k / SPAN - REACH) * m->columns + k % SPAN - REACH;
            double        q = 0;
            for (int c = 0; c < COLOURS; c++) {
                const double diff = colour[i * VOC_FEATURES + c] - colour[j * VOC_FEATURES + c];
                q += diff * diff;
            }
            feat[2 * d->edges] = (float)sqrt(q);
            feat[2 * d->edges + 1] = (float)pixels;
            mba__draft_edge(d, j, i);
        }
    d->edge_feat = feat;
}

void mba__draft_superpixels(mba_draft *d, mba_synthetic kind)
{
    image m = { 0 };
    choose_grid(&m, d);
    for (int64_t i = 0; i < m.width * m.height; i++) m.pixel[i] = nearest_seed(&m, i % m.width, i / m.width);
    find_boundaries(&m);
    move_to_centres(&m, d);
    label_regions(&m, d, mba_synthetic_form(kind).classes);
    colour_regions(&m, d);
    join_regions(&m, d);
    d->nodes = m.cells;
}

/* ---- nearest-neighbour graphs ---- */

enum { NEAREST = 8, CLASSES = 10, BLOBS = 3 };

typedef struct points {
    int64_t  n;
    double  *x, *y, *scale;
    int64_t *near;
} points;

static double distance(const points *p, int64_t i, int64_t j) { return hypot(p->x[i] - p->x[j], p->y[i] - p->y[j]); }

/* Finds the 8 nearest neighbours of point i, nearest first; `scale` is their mean distance. */
static void find_nearest(points *p, int64_t i)
{
    int64_t *near = p->near + i * NEAREST, n = 0;
    for (int64_t j = 0; j < p->n; j++) {
        const double q = distance(p, i, j);
        int64_t      k = n;
        if (j == i || (n == NEAREST && q >= distance(p, i, near[n - 1]))) continue;
        if (n < NEAREST) n++;
        else k--;
        for (; k > 0 && q < distance(p, i, near[k - 1]); k--) near[k] = near[k - 1];
        near[k] = j;
    }
    for (int64_t k = 0; k < NEAREST; k++) p->scale[i] += distance(p, i, near[k]) / NEAREST;
}

static double alike(const points *p, int64_t i, int64_t j)
{
    const double q = distance(p, i, j) / p->scale[i];
    return exp(-q * q);
}

/* Three blobs per class and channel, with fixed positions and widths. */
static double intensity(double x, double y, int64_t class, int64_t channel)
{
    double sum = 0;
    for (int b = 0; b < BLOBS; b++) {
        const uint64_t i = (uint64_t)(((class * COLOURS + channel) * BLOBS + b) * 3);
        const double   u = x - mba__fixed_unit("blobs", i), v = y - mba__fixed_unit("blobs", i + 1);
        const double   w = 0.1 + 0.15 * mba__fixed_unit("blobs", i + 2);
        sum += exp(-(u * u + v * v) / (2 * w * w));
    }
    return sum < 1 ? sum : 1;
}

static void paint(const points *p, mba_draft *d, int64_t channels)
{
    float   *feat = mba_arena_new(d->arena, float, p->n *(channels + 2));
    int32_t *label = mba_arena_new(d->arena, int32_t, 1);
    *label = (int32_t)mba__draw_below(d, CLASSES);
    for (int64_t i = 0; i < p->n; i++) {
        float *f = feat + i * (channels + 2);
        for (int64_t c = 0; c < channels; c++)
            f[c] = (float)(intensity(p->x[i], p->y[i], *label, c) + 0.05 * mba__draw_normal(d));
        f[channels] = (float)p->x[i];
        f[channels + 1] = (float)p->y[i];
    }
    d->node_feat = feat;
    d->label = label;
}

void mba__draft_points(mba_draft *d, mba_synthetic kind)
{
    const bool   digits = kind == MBA_SYNTHETIC_MNIST;
    const double low = digits ? 40 : 85, high = digits ? 75 : 150;
    const double size = round(digits ? 70.57 + 4 * mba__draw_normal(d) : 117.63 + 8 * mba__draw_normal(d));
    points       p = { .n = (int64_t)(size < low ? low : size > high ? high : size) };
    p.x = mba_arena_new(d->arena, double, p.n);
    p.y = mba_arena_new(d->arena, double, p.n);
    p.scale = mba_arena_new(d->arena, double, p.n);
    p.near = mba_arena_new(d->arena, int64_t, p.n * NEAREST);
    for (int64_t i = 0; i < p.n; i++) {
        p.x[i] = mba__draw_unit(d);
        p.y[i] = mba__draw_unit(d);
    }
    for (int64_t i = 0; i < p.n; i++) find_nearest(&p, i);
    float *feat = mba_arena_new(d->arena, float, p.n *NEAREST);
    mba__draft_edges(d, p.n * NEAREST);
    for (int64_t i = 0; i < p.n; i++)
        for (int64_t k = 0; k < NEAREST; k++) {
            const int64_t j = p.near[i * NEAREST + k];
            feat[d->edges] = (float)(0.5 * (alike(&p, i, j) + alike(&p, j, i)));
            mba__draft_edge(d, i, j);
        }
    d->nodes = p.n;
    d->edge_feat = feat;
    paint(&p, d, digits ? 1 : COLOURS);
}
