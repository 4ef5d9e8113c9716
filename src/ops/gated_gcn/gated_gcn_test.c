// SPDX-License-Identifier: Apache-2.0
/* gated_gcn_test.c -- reference vectors of a whole GatedGCN layer, counts, edges without a gradient, same bits. */
#include "tests/rig.h"

#include "ops/gated_gcn/gated_gcn.h"

/* ---- a whole layer: linear layers and batch norms around the operator, in plain double ---- */

enum { N = 5, H = 3, EDGES = 8 };
static const int source[EDGES] = { 0, 1, 1, 2, 3, 2, 3, 0 }, target[EDGES] = { 1, 0, 2, 1, 2, 3, 4, 3 };

static void fill(double *x, int n, uint32_t *counter)
{
    for (int k = 0; k < n; k++) {
        uint32_t a = (*counter)++ * 0x9E3779B9u;
        a ^= a >> 16;
        a *= 0x85EBCA6Bu;
        a ^= a >> 13;
        a *= 0xC2B2AE35u;
        a ^= a >> 16;
        x[k] = a / 2147483648.0 - 1;
    }
}

typedef struct layer {
    double h[N * H], e[EDGES * H], W[5][H * H], b[5][H], Gh[N * H], Ge[EDGES * H]; /* A, B, C, D, E */
    /* edge_of: from the order by target to the given order */
    int in_ptr[N + 1], src[EDGES], out_ptr[N + 1], out_edge[EDGES], edge_of[EDGES];
} layer;

static layer make_layer(void)
{
    layer    l = { .in_ptr = { 0 } };
    uint32_t counter = 1;
    fill(l.h, N * H, &counter);
    fill(l.e, EDGES * H, &counter);
    for (int k = 0; k < 5; k++) {
        fill(l.W[k], H * H, &counter);
        fill(l.b[k], H, &counter);
    }
    fill(l.Gh, N * H, &counter);
    fill(l.Ge, EDGES * H, &counter);
    for (int i = 0, at = 0; i < N; i++) {
        for (int k = 0; k < EDGES; k++)
            if (target[k] == i) {
                l.edge_of[at] = k;
                l.src[at++] = source[k];
            }
        l.in_ptr[i + 1] = at;
    }
    for (int j = 0, at = 0; j < N; j++) {
        for (int k = 0; k < EDGES; k++)
            if (l.src[k] == j) l.out_edge[at++] = k;
        l.out_ptr[j + 1] = at;
    }
    return l;
}

static void linear(double *y, const double *x, const double *W, const double *b, int rows)
{
    for (int i = 0; i < rows * H; i++) {
        y[i] = b[i % H];
        for (int k = 0; k < H; k++) y[i] += W[i % H * H + k] * x[i / H * H + k];
    }
}

/* xhat of a batch norm over rows with scale 1 and shift 0; rstd per channel. */
static void normalise(double *xhat, double *rstd, const double *x, int rows)
{
    for (int c = 0; c < H; c++) {
        double mean = 0, var = 0;
        for (int r = 0; r < rows; r++) mean += x[r * H + c] / rows;
        for (int r = 0; r < rows; r++) var += pow(x[r * H + c] - mean, 2) / rows;
        rstd[c] = 1 / sqrt(var + 1e-5);
        for (int r = 0; r < rows; r++) xhat[r * H + c] = (x[r * H + c] - mean) * rstd[c];
    }
}

/* The gradient of relu(norm(x)) with respect to x. */
static void normalise_back(double *dx, const double *dy, const double *xhat, const double *rstd, int rows)
{
    for (int c = 0; c < H; c++) {
        double sum = 0, dot = 0;
        for (int i = c; i < rows * H; i += H) {
            const double g = xhat[i] > 0 ? dy[i] : 0;
            sum += g;
            dot += g * xhat[i];
        }
        for (int i = c; i < rows * H; i += H)
            dx[i] = rstd[c] * ((xhat[i] > 0 ? dy[i] : 0) - sum / rows - xhat[i] * dot / rows);
    }
}

/* dx += dy W;  dW = dy^T x. */
static void linear_back(double *dx, double *dW, const double *dy, const double *x, const double *W, int rows)
{
    memset(dW, 0, sizeof(double) * H * H);
    for (int r = 0; r < rows; r++)
        for (int i = 0; i < H * H; i++) {
            dx[r * H + i % H] += dy[r * H + i / H] * W[i];
            dW[i] += dy[r * H + i / H] * x[r * H + i % H];
        }
}

typedef struct vectors {
    double first[3], sum, squares;
} vectors;

static void assert_vectors(const double *x, int n, vectors want, double tolerance)
{
    double sum = 0, squares = 0;
    for (int i = 0; i < n; i++) sum += x[i], squares += x[i] * x[i];
    for (int i = 0; i < 3; i++) assert_near(x[i], want.first[i], tolerance);
    assert_near(sum, want.sum, 10 * tolerance);
    if (want.squares > 0) assert_near(squares, want.squares, 40 * tolerance);
}

typedef struct layer_rig {
    rig               r;
    mba_tensor       *n4, *c, *dxt, *deh;
    mba_gated_gcn_out o;
} layer_rig;

static layer_rig make_rig(const layer *l)
{
    layer_rig  x;
    mba_graph *g = graph();
    x.n4 = mba_param(g, "n4", MBA_TYPE(MBA_F32, N, 4 * H), MBA_INIT_CONST(0), MBA_DECAY);
    x.c = mba_param(g, "c", MBA_TYPE(MBA_F32, EDGES, H), MBA_INIT_CONST(0), MBA_DECAY);
    mba_tensor *src = mba_index(g, "src", MBA_TYPE(MBA_I32, EDGES), N),
               *in = mba_index(g, "in", MBA_TYPE(MBA_I32, N + 1), EDGES + 1);
    mba_tensor *edge = mba_index(g, "edge", MBA_TYPE(MBA_I32, EDGES), EDGES),
               *out = mba_index(g, "out", MBA_TYPE(MBA_I32, N + 1), EDGES + 1);
    x.o = mba_gated_gcn(g, .a = mba_slice(g, x.n4, 1, 0, H), .b = mba_slice(g, x.n4, 1, H, H),
                        .d = mba_slice(g, x.n4, 1, 2 * H, H), .e = mba_slice(g, x.n4, 1, 3 * H, H), .c = x.c,
                        .src = src, .in_ptr = in, .out_ptr = out, .out_edge = edge);
    x.dxt = mba_input(g, "dxt", x.o.x->type);
    x.deh = mba_input(g, "deh", x.o.eh->type);
    x.r = rig_create(g, 2, (mba_tensor *[]){ x.o.x, x.o.eh }, (mba_tensor *[]){ x.dxt, x.deh });
    for (int k = 0; k < EDGES; k++) rig_set(&x.r, src, k, l->src[k]), rig_set(&x.r, edge, k, l->out_edge[k]);
    for (int k = 0; k <= N; k++) rig_set(&x.r, in, k, l->in_ptr[k]), rig_set(&x.r, out, k, l->out_ptr[k]);
    return x;
}

static double get(rig *r, const mba_tensor *t, int i, bool fast)
{
    return fast ? (double)rig_have(r, t, i) : rig_want(r, t, i);
}

/* The vectors come from independent code and have nine digits: a tolerance of 1e-8 for the reference, which is in
 * double. */
static void check_layer(bool fast)
{
    layer            l = make_layer();
    layer_rig        x = make_rig(&l);
    double           y[EDGES * H], ein[EDGES * H];
    static const int column[5] = { 0, 1, -1, 2, 3 }; // index of A, B, C, D, E in n4
    const double     tol = fast ? 2e-5 : 1e-8;
    for (int k = 0; k < EDGES * H; k++) ein[k] = l.e[l.edge_of[k / H] * H + k % H];
    for (int w = 0; w < 5; w++) {
        linear(y, w == 2 ? ein : l.h, l.W[w], l.b[w], w == 2 ? EDGES : N);
        for (int i = 0; i < (w == 2 ? EDGES : N) * H; i++)
            rig_set(&x.r, w == 2 ? x.c : x.n4, w == 2 ? i : i / H * 4 * H + column[w] * H + i % H, y[i]);
    }
    rig_run(&x.r);
    double xt[N * H], eh[EDGES * H], xhat[N * H], ehat[EDGES * H], rx[H], re[H], hl[N * H], en[EDGES * H], gxt[N * H],
        geh[EDGES * H];
    double ge_in[EDGES * H];
    for (int i = 0; i < N * H; i++) xt[i] = get(&x.r, x.o.x, i, fast);
    for (int i = 0; i < EDGES * H; i++) eh[i] = get(&x.r, x.o.eh, i, fast);
    normalise(xhat, rx, xt, N);
    normalise(ehat, re, eh, EDGES);
    for (int i = 0; i < N * H; i++) hl[i] = l.h[i] + fmax(0, xhat[i]);
    for (int i = 0; i < EDGES * H; i++) {
        en[l.edge_of[i / H] * H + i % H] = ein[i] + fmax(0, ehat[i]);
        ge_in[i] = l.Ge[l.edge_of[i / H] * H + i % H];
    }
    assert_vectors(hl, N * H, (vectors){ { 0.244566777, 0.113868400, -0.788437152 }, 2.740504563, 7.749066951 }, tol);
    assert_near(hl[4 * H], -0.666704439, tol);
    assert_near(hl[4 * H + 1], 1.902181891, tol);
    assert_near(hl[4 * H + 2], 0.196049030, tol);
    assert_vectors(en, EDGES * H, (vectors){ { 1.985559702, -0.047149112, -0.991839349 }, 11.380021771, 26.183888875 },
                   tol);

    normalise_back(gxt, l.Gh, xhat, rx, N);
    normalise_back(geh, ge_in, ehat, re, EDGES);
    for (int i = 0; i < N * H; i++) rig_set(&x.r, x.dxt, i, gxt[i]);
    for (int i = 0; i < EDGES * H; i++) rig_set(&x.r, x.deh, i, geh[i]);
    rig_run(&x.r);
    double gh[N * H], ge[EDGES * H], gy[EDGES * H], gW[5][H * H], by_edge[EDGES * H];
    memcpy(gh, l.Gh, sizeof gh);
    memcpy(ge, ge_in, sizeof ge);
    for (int w = 0; w < 5; w++) {
        for (int i = 0; i < (w == 2 ? EDGES : N) * H; i++)
            gy[i] = get(&x.r, rig_grad(&x.r, w == 2 ? x.c : x.n4), w == 2 ? i : i / H * 4 * H + column[w] * H + i % H,
                        fast);
        linear_back(w == 2 ? ge : gh, gW[w], gy, w == 2 ? ein : l.h, l.W[w], w == 2 ? EDGES : N);
    }
    for (int i = 0; i < EDGES * H; i++) by_edge[l.edge_of[i / H] * H + i % H] = ge[i];
    assert_vectors(gh, N * H, (vectors){ { -0.125678475, -0.436389590, -1.324151296 }, 3.590813717, 18.088220213 },
                   tol);
    assert_vectors(by_edge, EDGES * H,
                   (vectors){ { 0.147807655, -0.328377854, 0.827971129 }, -1.461272191, 23.242413560 }, tol);
    const vectors want[5] = { { { -1.371932457, -0.160925922, 1.536710566 }, 0.978608335, 0 },
                              { { 0.619068203, 0.991844551, -2.608544598 }, 1.536634944, 0 },
                              { { -0.682668725, -0.369083175, -0.819191107 }, -3.599120959, 0 },
                              { { -0.761416537, 0.196662015, 1.108181178 }, 0.085685653, 0 },
                              { { 0.418711570, 1.457453625, -1.083173945 }, -1.711776953, 0 } };
    for (int w = 0; w < 5; w++) assert_vectors(gW[w], H * H, want[w], tol);
    rig_destroy(&x.r);
}

static void gated_gcn_layer_has_its_reference_vectors(void **state)
{
    (void)state;
    check_layer(false);
    check_layer(true);
}

/* ---- counts, missing gradients, same bits ---- */

enum { CAP = 100, REAL = 83, ECAP = 400, EREAL = 350, W = 37 };

typedef struct ragged {
    rig               r;
    mba_tensor       *n4, *c, *dx, *deh;
    mba_gated_gcn_out o;
} ragged;

/* A random graph in the first rows. `through`: 1 gradients through x, 2 through eh, 3 both. */
static ragged make_ragged(int through)
{
    ragged     x;
    mba_graph *g = graph();
    mba_type   nodes = MBA_TYPE(MBA_F32, CAP, 4 * W), edges = MBA_TYPE(MBA_F32, ECAP, W);
    nodes.count = MBA_NODES;
    edges.count = MBA_EDGES;
    x.n4 = mba_param(g, "n4", nodes, MBA_INIT_NORMAL(1), MBA_DECAY);
    x.c = mba_param(g, "c", edges, MBA_INIT_NORMAL(1), MBA_DECAY);
    mba_tensor *src = mba_index(g, "src", MBA_TYPE(MBA_I32, ECAP), CAP),
               *in = mba_index(g, "in", MBA_TYPE(MBA_I32, CAP + 1), ECAP + 1);
    mba_tensor *edge = mba_index(g, "edge", MBA_TYPE(MBA_I32, ECAP), ECAP),
               *out = mba_index(g, "out", MBA_TYPE(MBA_I32, CAP + 1), ECAP + 1);
    x.o = mba_gated_gcn(g, .a = mba_slice(g, x.n4, 1, 0, W), .b = mba_slice(g, x.n4, 1, W, W),
                        .d = mba_slice(g, x.n4, 1, 2 * W, W), .e = mba_slice(g, x.n4, 1, 3 * W, W), .c = x.c,
                        .src = src, .in_ptr = in, .out_ptr = out, .out_edge = edge);
    x.dx = through & 1 ? mba_input(g, "dx", x.o.x->type) : NULL;
    x.deh = through & 2 ? mba_input(g, "deh", x.o.eh->type) : NULL;
    mba_tensor *o[] = { x.o.x, x.o.eh }, *seed[] = { x.dx, x.deh };
    x.r = rig_create(g, through == 3 ? 2 : 1, o + (through == 2), seed + (through == 2));
    x.r.step.count[MBA_NODES] = REAL;
    x.r.step.count[MBA_EDGES] = EREAL;
    int sources[EREAL], at = 0;
    // the last node has no out-edges
    for (int k = 0; k < EREAL; k++) sources[k] = (k * 37 + k * k * 11) % (REAL - 1);
    for (int k = 0; k < EREAL; k++) rig_set(&x.r, src, k, sources[k]);
    for (int i = 0; i < CAP + 1; i++)
        rig_set(&x.r, in, i, i <= REAL ? (int)((int64_t)i * i * EREAL / (REAL * REAL)) : 7 + i);
    for (int j = 0; j < CAP + 1; j++) {
        rig_set(&x.r, out, j, j <= REAL ? at : 3);
        for (int k = 0; k < EREAL && j < REAL; k++)
            if (sources[k] == j) rig_set(&x.r, edge, at++, k);
    }
    assert_int_equal(at, EREAL);
    for (int k = EREAL; k < ECAP; k++) rig_set(&x.r, src, k, -12345678), rig_set(&x.r, edge, k, 87654321);
    if (x.dx) rig_sines(&x.r, x.dx, 1, 0.37, 0.2);
    if (x.deh) rig_sines(&x.r, x.deh, 1, 0.71, 0.4);
    return x;
}

static void poison_tail(ragged *x)
{
    for (int i = REAL * 4 * W; i < CAP * 4 * W; i++) rig_set(&x->r, x->n4, i, NAN);
    for (int i = EREAL * W; i < ECAP * W; i++) rig_set(&x->r, x->c, i, NAN);
    for (int i = EREAL * W; i < ECAP * W && x->deh; i++) rig_set(&x->r, x->deh, i, NAN);
    for (int i = REAL * W; i < CAP * W && x->dx; i++) rig_set(&x->r, x->dx, i, NAN);
}

static void gated_gcn_does_not_look_beyond_the_counts(void **state)
{
    (void)state;
    for (int through = 1; through <= 3; through++) {
        ragged x = make_ragged(through);
        rig_run(&x.r);
        double before = 0, after = 0;
        for (int i = 0; i < REAL * 4 * W; i++) before += rig_want(&x.r, rig_grad(&x.r, x.n4), i) * (i % 7);
        poison_tail(&x);
        memset(x.r.p->memory[MBA_GRAD], 0xff, x.r.p->layout.arena_bytes[MBA_GRAD]);
        rig_run(&x.r);
        for (int i = 0; i < REAL * 4 * W; i++) after += rig_want(&x.r, rig_grad(&x.r, x.n4), i) * (i % 7);
        assert_near(after, before, 0);
        assert_close(&x.r);
        assert_same_bits(&x.r);
        for (int i = REAL * 4 * W; i < CAP * 4 * W; i++) assert_near(rig_have(&x.r, rig_grad(&x.r, x.n4), i), 0, 0);
        for (int i = EREAL * W; i < ECAP * W; i++) assert_near(rig_have(&x.r, rig_grad(&x.r, x.c), i), 0, 0);
        for (int i = EREAL * W; i < ECAP * W && through > 1; i++) assert_near(rig_have(&x.r, x.o.eh, i), 0, 0);
        rig_destroy(&x.r);
    }
}

static void gated_gcn_refuses_what_does_not_fit(void **state)
{
    (void)state;
    mba_graph  *g = graph();
    mba_tensor *x = mba_input(g, "x", MBA_TYPE(MBA_F32, 4, 2)), *c = mba_input(g, "c", MBA_TYPE(MBA_F32, 6, 2));
    mba_tensor *edge = mba_index(g, "edge", MBA_TYPE(MBA_I32, 6), 4),
               *ptr = mba_index(g, "ptr", MBA_TYPE(MBA_I32, 4), 7);
    mba_gated_gcn(g, .a = x, .b = x, .d = x, .e = x, .c = c, .src = edge, .in_ptr = ptr, .out_ptr = ptr,
                  .out_edge = edge);
    assert_fails(mba_graph_status(g), MBA_E_SHAPE, "ptr has 4 values");
    mba_graph_destroy(g);
}

MBA_TEST_MAIN(cmocka_unit_test(gated_gcn_layer_has_its_reference_vectors),
              cmocka_unit_test(gated_gcn_does_not_look_beyond_the_counts),
              cmocka_unit_test(gated_gcn_refuses_what_does_not_fit))
