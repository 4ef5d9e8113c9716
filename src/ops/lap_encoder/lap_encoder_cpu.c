// SPDX-License-Identifier: Apache-2.0
/* lap_encoder_cpu.c -- lap_encoder on the CPU: parts of nodes in parallel, four pairs of a node at a time, so that a
 * weight is loaded once for four. Rows of weights are copied once per launch and padded with zeros to whole vectors.
 * The backward pass recomputes the hidden vectors, which is cheaper than storing them, and sums the gradients of the
 * weights per part. */
#include "device/cpu/simd.h"
#include "ops/lap_encoder/lap_encoder_slots.h"

enum { TILE = 4 };

typedef struct weights {
    int64_t p, M, P;        /* outputs; hidden and outputs, padded */
    float  *wa0, *wa1, *ba; /* (M) */
    float  *wb;             /* (p, M) */
    float  *wbt;            /* (2p, P) */
    float  *bb;             /* (P) */
    float  *sign;           /* (K) */
} weights;

typedef struct tile {
    int   n; /* pairs in the tile */
    float in[TILE][2], hidden[TILE][LAP_HIDDEN_MAX];
} tile;

static weights copy_weights(const mba_call *c, float *at)
{
    const mba_node *n = c->node;
    const float    *wa = c->in[WA], *ba = c->in[BA], *wb = c->in[WB], *bb = c->in[BB];
    const int64_t   p = mba_elems(n->in[BB]), H = 2 * p, K = mba_cols(n->in[PHI]), M = lap_padded(H), P = lap_padded(p);
    const weights   w = { p,
                          M,
                          P,
                          at,
                          at + M,
                          at + 2 * M,
                          at + 3 * M,
                          at + (3 + p) * M,
                          at + (3 + p) * M + H * P,
                          at + (3 + p) * M + (H + 1) * P };
    memset(at, 0, sizeof(float) * (size_t)((3 + p) * M + (H + 1) * P));
    for (int64_t m = 0; m < H; m++) {
        w.wa0[m] = wa[2 * m];
        w.wa1[m] = wa[2 * m + 1];
        w.ba[m] = ba[m];
        for (int64_t o = 0; o < p; o++) w.wbt[m * P + o] = w.wb[o * M + m] = wb[o * H + m];
    }
    memcpy(w.bb, bb, sizeof(float) * (size_t)p);
    for (int64_t k = 0; k < K; k++) w.sign[k] = lap_sign(n, c->step, k);
    return w;
}

/* Fills the tile with the next existing pairs of a node, from *k on. */
static void fill_tile(tile *t, const weights *w, const float *phi, const float *lam, int64_t *k, int64_t K)
{
    memset(t->in, 0, sizeof t->in);
    for (t->n = 0; *k < K && t->n < TILE; (*k)++) {
        if (phi[*k] != phi[*k] || lam[*k] != lam[*k]) continue; // NaN: a missing eigenvector
        t->in[t->n][0] = phi[*k] * w->sign[*k];
        t->in[t->n++][1] = lam[*k];
    }
    for (int j = 0; j < TILE; j++)
        for (int64_t m = 0; m < w->M; m += MBA_LANES) {
            const vf h = vf_load(w->wa0 + m) * t->in[j][0] + vf_load(w->wa1 + m) * t->in[j][1] + vf_load(w->ba + m);
            vf_store(t->hidden[j] + m, vf_max(vf_set(0), h));
        }
}

/* wb hidden + bb of all pairs of a tile, for one vector of outputs from o on. */
MBA_SIMD void second_layer(vf s[TILE], const tile *t, const weights *w, int64_t o)
{
    for (int j = 0; j < TILE; j++) s[j] = vf_load(w->bb + o);
    for (int64_t m = 0; m < 2 * w->p; m++) {
        const vf row = vf_load(w->wbt + m * w->P + o);
        for (int j = 0; j < TILE; j++) s[j] += t->hidden[j][m] * row;
    }
}

static void node_fwd(float *y, const weights *w, const float *phi, const float *lam, int64_t K)
{
    tile t;
    memset(y, 0, sizeof(float) * (size_t)w->p);
    for (int64_t k = 0; k < K;) {
        fill_tile(&t, w, phi, lam, &k, K);
        for (int64_t o = 0; o < w->p && t.n; o += MBA_LANES) {
            vf s[TILE], sum = vf_load_n(y + o, w->p - o);
            second_layer(s, &t, w, o);
            for (int j = 0; j < t.n; j++) sum += vf_max(vf_set(0), s[j]);
            vf_store_n(y + o, sum, w->p - o);
        }
    }
}

mba_status MBA_CPU_FN(lap_encoder_fwd)(const mba_call *c)
{
    const mba_node *n = c->node;
    const mba__rows phi = mba__rows_of(n->in[PHI], c->in[PHI]), lam = mba__rows_of(n->in[LAM], c->in[LAM]);
    const mba__rows y = mba__rows_of(n->out[Y], c->out[Y]);
    const int64_t   N = mba__valid_entries(n->in[PHI], c->step);
    const weights   w = copy_weights(c, mba__scratch(c, 0));
    MBA_PARALLEL_FOR(part, mba__parts(N))
    for (int64_t v = part * MBA__PART_ROWS; v < mba__part_end(part, N); v++)
        node_fwd(mba__row(y, v), &w, mba__row(phi, v), mba__row(lam, v), phi.cols);
    mba__zero_rows(y, N, mba_rows(n->out[Y]));
    return MBA_OK;
}

/* ---- backward ---- */

typedef struct grads {
    float *wa0, *wa1, *ba, *wb, *bb;
} grads; /* of one part, in the layout of the weights */

static grads grads_at(float *at, const weights *w)
{
    return (grads){ at, at + w->M, at + 2 * w->M, at + 3 * w->M, at + (3 + w->p) * w->M };
}

static int64_t grad_floats(const weights *w) { return (3 + w->p) * w->M + w->P; }

/* dout[j] = dy where the output of pair j is positive, else 0; adds all of them to db. */
static void open_outputs(float dout[TILE][LAP_HIDDEN_MAX], grads g, const tile *t, const weights *w, const float *dy)
{
    for (int64_t o = 0; o < w->p; o += MBA_LANES) {
        const vf d = vf_load_n(dy + o, w->p - o);
        vf       s[TILE], sum = vf_load(g.bb + o);
        second_layer(s, t, w, o);
        for (int j = 0; j < TILE; j++) {
            const vf open = j < t->n ? vf_select(s[j] > 0.0f, d, vf_set(0)) : vf_set(0);
            vf_store(dout[j] + o, open);
            sum += open;
        }
        vf_store(g.bb + o, sum);
    }
}

static void tile_bwd(grads g, const tile *t, const weights *w, const float *dy)
{
    float dout[TILE][LAP_HIDDEN_MAX];
    open_outputs(dout, g, t, w, dy);
    for (int64_t m = 0; m < w->M; m += MBA_LANES) {
        vf h[TILE], dh[TILE] = { { 0 } };
        for (int j = 0; j < TILE; j++) h[j] = vf_load(t->hidden[j] + m);
        for (int64_t o = 0; o < w->p; o++) {
            const vf row = vf_load(w->wb + o * w->M + m);
            vf       dw = vf_load(g.wb + o * w->M + m);
            for (int j = 0; j < TILE; j++) {
                dw += dout[j][o] * h[j];
                dh[j] += dout[j][o] * row;
            }
            vf_store(g.wb + o * w->M + m, dw);
        }
        vf a0 = vf_load(g.wa0 + m), a1 = vf_load(g.wa1 + m), b = vf_load(g.ba + m);
        for (int j = 0; j < TILE; j++) {
            const vf d = vf_select(h[j] > 0.0f, dh[j], vf_set(0));
            a0 += d * t->in[j][0];
            a1 += d * t->in[j][1];
            b += d;
        }
        vf_store(g.wa0 + m, a0);
        vf_store(g.wa1 + m, a1);
        vf_store(g.ba + m, b);
    }
}

static void put(float *out, int64_t i, float v, bool adds) { out[i] = v + (adds ? out[i] : 0); }

/* Copies gradients from padded rows to the parameters' layout. */
static void write_grads(const mba_call *c, const weights *w, grads g)
{
    const mba_node *n = c->node;
    for (int64_t m = 0; m < 2 * w->p; m++) {
        put(c->out[DWA], 2 * m, g.wa0[m], mba_adds(n, DWA));
        put(c->out[DWA], 2 * m + 1, g.wa1[m], mba_adds(n, DWA));
        put(c->out[DBA], m, g.ba[m], mba_adds(n, DBA));
        for (int64_t o = 0; o < w->p; o++) put(c->out[DWB], o * 2 * w->p + m, g.wb[o * w->M + m], mba_adds(n, DWB));
    }
    for (int64_t o = 0; o < w->p; o++) put(c->out[DBB], o, g.bb[o], mba_adds(n, DBB));
}

mba_status MBA_CPU_FN(lap_encoder_bwd)(const mba_call *c)
{
    const mba_node *n = c->node;
    const mba__rows phi = mba__rows_of(n->in[PHI], c->in[PHI]), lam = mba__rows_of(n->in[LAM], c->in[LAM]);
    const mba__rows dy = mba__rows_of(n->in[DY], c->in[DY]);
    const int64_t   N = mba__valid_entries(n->in[PHI], c->step), K = phi.cols;
    const weights   w = copy_weights(c, mba__scratch(c, 0));
    float          *parts = mba__scratch(c, 1), *sum = mba__scratch(c, 2);
    MBA_PARALLEL_FOR(part, mba__parts(N))
    {
        const grads g = grads_at(parts + part * grad_floats(&w), &w);
        tile        t;
        memset(g.wa0, 0, sizeof(float) * (size_t)grad_floats(&w));
        for (int64_t v = part * MBA__PART_ROWS; v < mba__part_end(part, N); v++)
            for (int64_t k = 0; k < K;) {
                fill_tile(&t, &w, mba__row(phi, v), mba__row(lam, v), &k, K);
                if (t.n) tile_bwd(g, &t, &w, mba__row(dy, v));
            }
    }
    mba__sum_parts(sum, parts, mba__parts(N), grad_floats(&w), false);
    write_grads(c, &w, grads_at(sum, &w));
    return MBA_OK;
}
