// SPDX-License-Identifier: Apache-2.0
/* conv1d_cpu.c -- conv1d on the CPU. Work items are (sequence, block of time, block of channels); vectors run along
 * channels.
 *
 * A tile is TILE steps of time, whose rows are processed together: each weight is loaded once per tile, and each input
 * row is fetched from memory once. Rows are pointers. Rows before time 0, rows of another document and gradients beyond
 * the end all point to a row of zeros, so the inner loops have no conditions. A tile in which ids change is processed
 * step by step. */
#include "device/cpu/simd.h"
#include "ops/conv1d/conv1d_slots.h"

enum { TILE = 8, SPAN_MAX = TILE + CONV1D_TAPS_MAX - 1 };

static const float zeros[CONV1D_CHANNELS];

/* Arguments common to all items. */
typedef struct conv {
    conv1d_dims       d;
    mba__rows         x, initial;
    const mba_tensor *ids_of;
    const int32_t    *ids;
    const float      *taps, *bias; // taps (W, C)
    bool              silu;
} conv;

/* One item: steps t0 .. t1-1 of channels c0 .. c0+n-1 of sequence b; `part` is the index of (b, block of time). */
typedef struct item {
    int64_t b, t0, t1, c0, n, part;
} item;

/* In a ragged batch the sequence ends with the valid rows. */
static conv1d_dims real_dims_of(const mba_call *c)
{
    conv1d_dims d = conv1d_dims_of(c->node);
    if (c->node->in[X]->type.steps != MBA_ALL) d.L = mba__valid_rows(c->node->in[X], c->step);
    return d;
}

static conv conv_of(const mba_call *c)
{
    const mba_node *n = c->node;
    return (conv){ .d = real_dims_of(c),
                   .x = mba__rows_of(n->in[X], c->in[X]),
                   .initial = mba__rows_of(n->in[INITIAL], c->in[INITIAL]),
                   .ids_of = n->in[IDS],
                   .ids = c->in[IDS],
                   .taps = mba__scratch(c, 0),
                   .bias = c->in[BIAS],
                   .silu = ((const conv1d_attr *)n->attr)->silu };
}

static void turn_taps(const mba_call *c)
{
    const conv1d_dims d = conv1d_dims_of(c->node);
    const float      *w = c->in[W];
    float            *taps = mba__scratch(c, 0);
    for (int64_t ch = 0; ch < d.C; ch++)
        for (int64_t k = 0; k < d.taps; k++) taps[k * d.C + ch] = w[ch * d.taps + k];
}

static int64_t parts_of(conv1d_dims d) { return d.B * mba_ceil(d.L, CONV1D_TIMES); }
static int64_t items_of(conv1d_dims d) { return parts_of(d) * mba_ceil(d.C, CONV1D_CHANNELS); }

static item item_of(conv1d_dims d, int64_t i)
{
    const int64_t blocks = mba_ceil(d.C, CONV1D_CHANNELS), times = mba_ceil(d.L, CONV1D_TIMES), part = i / blocks;
    item k = { .b = part / times, .t0 = part % times * CONV1D_TIMES, .c0 = i % blocks * CONV1D_CHANNELS, .part = part };
    k.t1 = k.t0 + CONV1D_TIMES < d.L ? k.t0 + CONV1D_TIMES : d.L;
    k.n = d.C - k.c0 < CONV1D_CHANNELS ? d.C - k.c0 : CONV1D_CHANNELS;
    return k;
}

/* ---- rows ---- */

static int32_t id_at(const conv *v, int64_t b, int64_t t)
{
    if (!v->ids) return 0;
    const int64_t i = b * v->d.L
                      + (t < 0        ? 0
                         : t < v->d.L ? t
                                      : v->d.L - 1); // outside the sequence: the id of the nearest token
    return v->ids[i / v->ids_of->run * v->ids_of->pitch + i % v->ids_of->run];
}

static const float *input_row(const conv *v, const item *k, int64_t t)
{
    if (t >= v->d.L) return zeros; // beyond the end
    if (t >= 0) return mba__row(v->x, k->b * v->d.L + t) + k->c0;
    return v->initial.at ? mba__row(v->initial, k->b * (v->d.taps - 1) + t + v->d.taps - 1) + k->c0 : zeros;
}

static bool one_document(const conv *v, int64_t b, int64_t from, int64_t end)
{
    if (!v->ids) return true;
    for (int64_t t = from + 1; t < end; t++)
        if (id_at(v, b, t) != id_at(v, b, from)) return false;
    return id_at(v, b, from) >= 0;
}

/* The number of steps from t on that are processed together: a tile, if it is complete and inside one document, else
 * 1. */
static int steps_at(const conv *v, int64_t b, int64_t t, int64_t end)
{
    return t + TILE <= end && one_document(v, b, t - v->d.past, t + TILE) ? TILE : 1;
}

/* row[j] is the input at time t-past+j. A single step gets zeros for rows of other documents. */
static void input_rows(const float *row[SPAN_MAX], const conv *v, const item *k, int64_t t, int steps)
{
    for (int64_t j = 0, s = t - v->d.past; s < t + steps + v->d.ahead; j++, s++)
        row[j] = steps == 1 && id_at(v, k->b, s) != id_at(v, k->b, t) ? zeros : input_row(v, k, s);
}

/* ---- tiles; `taps` and `steps` are compile-time constants in the frequent calls ---- */

/* to[j] = silu(start + sum_k w[k] row[j+k]), j < steps, for n channels. start is `bias`, or with `adds` the present
 * value. w is (taps, ldw). */
typedef struct tile {
    float       *to[TILE];
    const float *row[SPAN_MAX], *w, *bias;
    int64_t      ldw, n;
} tile;

MBA_SIMD void convolve_vector(const tile *f, bool adds, bool silu, int taps, int steps, int64_t i, int64_t m)
{
    const vf bias = vf_load_n(f->bias + i, m);
    vf       a[TILE], x[SPAN_MAX];
    for (int j = 0; j < taps + steps - 1; j++) x[j] = vf_load_n(f->row[j] + i, m);
    for (int j = 0; j < steps; j++) a[j] = adds ? vf_load_n(f->to[j] + i, m) : bias;
    for (int k = 0; k < taps; k++) {
        const vf w = vf_load_n(f->w + k * f->ldw + i, m);
        for (int j = 0; j < steps; j++) a[j] += w * x[j + k];
    }
    for (int j = 0; j < steps; j++) vf_store_n(f->to[j] + i, silu ? vf_silu(a[j]) : a[j], m);
}

MBA_SIMD void convolve_rows(tile f, bool adds, bool silu, int taps, int steps)
{
    int64_t i = 0;
    for (; i + MBA_LANES <= f.n; i += MBA_LANES) convolve_vector(&f, adds, silu, taps, steps, i, MBA_LANES);
    if (i < f.n) convolve_vector(&f, adds, silu, taps, steps, i, f.n - i);
}

MBA_SIMD void convolve_steps(const tile *f, bool adds, bool silu, int taps, int steps)
{
    if (steps == TILE && taps == 4) convolve_rows(*f, adds, silu, 4, TILE);
    else if (steps == TILE && taps == 3) convolve_rows(*f, adds, silu, 3, TILE);
    else if (steps == TILE) convolve_rows(*f, adds, silu, taps, TILE);
    else convolve_rows(*f, adds, silu, taps, 1);
}

static void convolve_silu(const tile *f, int taps, int steps) { convolve_steps(f, false, true, taps, steps); }
static void convolve_plain(const tile *f, int taps, int steps) { convolve_steps(f, false, false, taps, steps); }
static void convolve_onto(const tile *f, int taps, int steps) { convolve_steps(f, true, false, taps, steps); }

/* ---- forward ---- */

static tile tile_of(const conv *v, const item *k)
{
    return (tile){ .w = v->taps + k->c0, .bias = v->bias ? v->bias + k->c0 : zeros, .ldw = v->d.C, .n = k->n };
}

static void fwd_item(const conv *v, mba__rows y, const item *k)
{
    tile f = tile_of(v, k);
    for (int64_t t = k->t0, steps; t < k->t1; t += steps) {
        steps = steps_at(v, k->b, t, k->t1);
        input_rows(f.row, v, k, t, (int)steps);
        for (int64_t j = 0; j < steps; j++) f.to[j] = mba__row(y, k->b * v->d.L + t + j) + k->c0;
        if (id_at(v, k->b, t) < 0) memset(f.to[0], 0, sizeof(float) * (size_t)k->n);
        else if (v->silu) convolve_silu(&f, (int)v->d.taps, (int)steps);
        else convolve_plain(&f, (int)v->d.taps, (int)steps);
    }
}

/* Stores the last taps-1 inputs. */
static void keep_final(const conv *v, mba__rows final)
{
    const int64_t keep = v->d.taps - 1;
    for (int64_t r = 0; r < v->d.B * keep; r++)
        for (int64_t c0 = 0; c0 < v->d.C; c0 += CONV1D_CHANNELS) {
            const int64_t n = v->d.C - c0 < CONV1D_CHANNELS ? v->d.C - c0 : CONV1D_CHANNELS;
            const item    k = { .b = r / keep, .c0 = c0, .n = n };
            memcpy(mba__row(final, r) + c0, input_row(v, &k, v->d.L - keep + r % keep), sizeof(float) * (size_t)n);
        }
}

mba_status MBA_CPU_FN(conv1d_fwd)(const mba_call *c)
{
    const conv      v = conv_of(c);
    const mba__rows y = mba__rows_of(c->node->out[Y], c->out[Y]);
    turn_taps(c);
    MBA_PARALLEL_FOR(i, items_of(v.d))
    {
        const item k = item_of(v.d, i);
        fwd_item(&v, y, &k);
    }
    mba__zero_rows(y, v.d.B * v.d.L, mba_rows(c->node->out[Y]));
    if (c->node->out[FINAL]) keep_final(&v, mba__rows_of(c->node->out[FINAL], c->out[FINAL]));
    return MBA_OK;
}

/* ---- backward ---- */

typedef struct conv_grads {
    mba__rows dy, dfinal, dx, dinitial;
    bool      dx_adds, dinitial_adds;
    float    *parts; // (parts, taps + 1, C): dw, then dbias
} conv_grads;

/* Rows of g, the gradient before silu (without silu: dy). The row of time t is needed until dx of time t is
 * complete. */
typedef struct ring {
    int          rows;
    const float *at[SPAN_MAX];
    float        own[SPAN_MAX][CONV1D_CHANNELS];
} ring;

/* a = dy silu'(a) */
static void slope_row(float *a, const float *dy, int64_t n)
{
    enum { GROUP = 4 }; // independent vectors per iteration, to hide latency
    int64_t i = 0;
    vf      slope[GROUP];
    for (; i + GROUP * MBA_LANES <= n; i += GROUP * MBA_LANES) {
        for (int u = 0; u < GROUP; u++) vf_silu_and_slope(vf_load(a + i + u * MBA_LANES), &slope[u]);
        for (int u = 0; u < GROUP; u++) vf_store(a + i + u * MBA_LANES, vf_load(dy + i + u * MBA_LANES) * slope[u]);
    }
    for (; i < n; i += MBA_LANES) {
        vf_silu_and_slope(vf_load_n(a + i, n - i), slope);
        vf_store_n(a + i, vf_load_n(dy + i, n - i) * slope[0], n - i);
    }
}

/* dw[k] += sum_j g[j] row[j+k]; dbias, which follows dw, += sum_j g[j]. */
MBA_SIMD void weigh_vector(float *dw, int64_t ldw, const float *const g[], const float *const row[], int taps,
                           int steps, int64_t i, int64_t m)
{
    vf x[SPAN_MAX], d[TILE], sum = vf_load_n(dw + taps * ldw + i, m);
    for (int j = 0; j < taps + steps - 1; j++) x[j] = vf_load_n(row[j] + i, m);
    for (int j = 0; j < steps; j++) sum += d[j] = vf_load_n(g[j] + i, m);
    vf_store_n(dw + taps * ldw + i, sum, m);
    for (int k = 0; k < taps; k++) {
        vf s = vf_load_n(dw + k * ldw + i, m);
        for (int j = 0; j < steps; j++) s += d[j] * x[j + k];
        vf_store_n(dw + k * ldw + i, s, m);
    }
}

MBA_SIMD void weigh_rows(float *dw, const tile *f, const float *const g[], int taps, int steps)
{
    const int64_t n = f->n, ldw = f->ldw;
    int64_t       i = 0;
    for (; i + MBA_LANES <= n; i += MBA_LANES) weigh_vector(dw, ldw, g, f->row, taps, steps, i, MBA_LANES);
    if (i < n) weigh_vector(dw, ldw, g, f->row, taps, steps, i, n - i);
}

/* Computes g of times t .. t+steps-1, and adds their contribution to dw and dbias if they belong to this item. */
static void make_grads(const conv *v, const conv_grads *q, const item *k, ring *r, int64_t t, int steps)
{
    const int    taps = (int)v->d.taps;
    const float *g[TILE];
    float       *dw = q->parts + k->part * (taps + 1) * v->d.C + k->c0;
    tile         f = tile_of(v, k);
    input_rows(f.row, v, k, t, steps);
    for (int j = 0; j < steps; j++) f.to[j] = r->own[(t + j) % r->rows];
    if (v->silu) convolve_plain(&f, taps, steps);
    for (int j = 0; j < steps; j++) {
        g[j] = q->dy.at && id_at(v, k->b, t + j) >= 0 ? mba__row(q->dy, k->b * v->d.L + t + j) + k->c0 : zeros;
        if (v->silu) slope_row(f.to[j], g[j], k->n);
        r->at[(t + j) % r->rows] = g[j] = v->silu ? f.to[j] : g[j];
    }
    if (t < k->t0 || t >= k->t1) return;
    if (steps == TILE && taps == 4) weigh_rows(dw, &f, g, 4, TILE);
    else if (steps == TILE && taps == 3) weigh_rows(dw, &f, g, 3, TILE);
    else if (steps == TILE) weigh_rows(dw, &f, g, taps, TILE);
    else weigh_rows(dw, &f, g, taps, 1);
}

/* The row that receives the gradient of the input at time s. */
static float *dx_row(const conv *v, const conv_grads *q, const item *k, int64_t s)
{
    return k->c0
           + (s >= 0 ? mba__row(q->dx, k->b * v->d.L + s)
                     : mba__row(q->dinitial, k->b * (v->d.taps - 1) + s + v->d.taps - 1));
}

static void add_final(const conv *v, const conv_grads *q, const item *k, int64_t s, float *dx)
{
    const int64_t keep = v->d.taps - 1, j = s - (v->d.L - keep);
    if (!q->dfinal.at || j < 0) return;
    const float *d = mba__row(q->dfinal, k->b * keep + j) + k->c0;
    for (int64_t i = 0; i < k->n; i++) dx[i] += d[i];
}

/* dx[s] = sum_k w[k] g[s+past-k] for times s .. s+steps-1, which are all before 0 or all not. g must be complete from
 * time s-ahead to s+steps-1+past, as far as these are inside the sequence. A single step ignores other documents. */
static void make_dx(const conv *v, const conv_grads *q, const item *k, const ring *r, int64_t s, int steps)
{
    const int taps = (int)v->d.taps;
    tile      f = { .w = v->taps + k->c0 + (taps - 1) * v->d.C, .ldw = -v->d.C, .bias = zeros, .n = k->n };
    for (int64_t j = 0, t = s - v->d.ahead; t < s + steps + v->d.past; j++, t++) {
        const bool cut = steps == 1 && id_at(v, k->b, s) != id_at(v, k->b, t);
        f.row[j] = t < 0 || t >= v->d.L || cut ? zeros : r->at[t % r->rows];
    }
    for (int j = 0; j < steps; j++) f.to[j] = dx_row(v, q, k, s + j);
    if (s < 0 ? q->dinitial_adds : q->dx_adds) convolve_onto(&f, taps, steps);
    else convolve_plain(&f, taps, steps);
    for (int j = 0; j < steps; j++) add_final(v, q, k, s + j, f.to[j]);
}

/* Computes dx of times s .. end-1; returns end, or s if there is nothing to do. */
static int64_t make_dx_until(const conv *v, const conv_grads *q, const item *k, const ring *r, int64_t s, int64_t end)
{
    for (int64_t steps; s < end; s += steps) {
        const bool whole = s >= 0 && s + TILE <= end && one_document(v, k->b, s, s + TILE + v->d.past);
        steps = whole ? TILE : 1;
        make_dx(v, q, k, r, s, (int)steps);
    }
    return s;
}

/* g is computed `past` steps ahead of dx. g before the item (with taps ahead) and after its end is computed here again,
 * because dx at the ends of the item needs it. */
static void bwd_item(const conv *v, const conv_grads *q, const item *k)
{
    const int64_t past = v->d.past, end = k->t1 + past < v->d.L ? k->t1 + past : v->d.L;
    int64_t       s = k->t0 == 0 && q->dinitial.at ? -past : k->t0;
    float        *part = q->parts + k->part * (v->d.taps + 1) * v->d.C + k->c0;
    ring          r;
    r.rows = TILE + (int)v->d.taps - 1;
    for (int64_t i = 0; i <= v->d.taps; i++) memset(part + i * v->d.C, 0, sizeof(float) * (size_t)k->n);
    for (int64_t t = k->t0 > v->d.ahead ? k->t0 - v->d.ahead : 0, steps; t < end; t += steps) {
        steps = steps_at(v, k->b, t, t < k->t0 ? k->t0 : t < k->t1 ? k->t1 : end);
        make_grads(v, q, k, &r, t, (int)steps);
        s = make_dx_until(v, q, k, &r, s, t + steps - past < k->t1 ? t + steps - past : k->t1);
    }
    make_dx_until(v, q, k, &r, s, k->t1);
}

/* Transposes the sum (taps + 1, C) into dw (C, taps) and dbias. */
static void hand_out(const mba_call *c, const float *sum)
{
    const mba_node   *n = c->node;
    const conv1d_dims d = conv1d_dims_of(n);
    float            *dw = c->out[DW], *dbias = c->out[DBIAS];
    for (int64_t ch = 0; ch < d.C; ch++) {
        for (int64_t k = 0; k < d.taps; k++) {
            float *at = &dw[ch * d.taps + k];
            *at = sum[k * d.C + ch] + (mba_adds(n, DW) ? *at : 0);
        }
        if (dbias) dbias[ch] = sum[d.taps * d.C + ch] + (mba_adds(n, DBIAS) ? dbias[ch] : 0);
    }
}

mba_status MBA_CPU_FN(conv1d_bwd)(const mba_call *c)
{
    const mba_node  *n = c->node;
    const conv       v = conv_of(c);
    const conv_grads q = { .dy = mba__rows_of(n->in[DY], c->in[DY]),
                           .dx = mba__rows_of(n->out[DX], c->out[DX]),
                           .dfinal = mba__rows_of(n->in[DFINAL], c->in[DFINAL]),
                           .parts = mba__scratch(c, 1),
                           .dinitial = mba__rows_of(n->out[DINITIAL], c->out[DINITIAL]),
                           .dx_adds = mba_adds(n, DX),
                           .dinitial_adds = mba_adds(n, DINITIAL) };
    float           *sum = mba__scratch(c, 2);
    turn_taps(c);
    MBA_PARALLEL_FOR(i, items_of(v.d))
    {
        const item k = item_of(v.d, i);
        bwd_item(&v, &q, &k);
    }
    if (q.dx.at && !q.dx_adds) mba__zero_rows(q.dx, v.d.B * v.d.L, mba_rows(n->out[DX]));
    mba__sum_parts(sum, q.parts, parts_of(v.d), (v.d.taps + 1) * v.d.C, false);
    hand_out(c, sum);
    return MBA_OK;
}
