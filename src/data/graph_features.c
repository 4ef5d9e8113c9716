// SPDX-License-Identifier: Apache-2.0
/* graph_features.c -- see graph_features.h: a symmetric eigensolver, Laplacians, random walks, degree profiles. */
#include "data/graph_features.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- symmetric matrices ---- */

/* One QL sweep: `count` rotations of the rows (first, first + 1), (first - 1, first), .. */
typedef struct sweep {
    int64_t first, count;
} sweep;
typedef struct rotation {
    double c, s;
} rotation;

typedef struct solver {
    int64_t   n;
    double   *a;                 // (n, n): the lower triangle, then a reflector in each row
    double   *diag, *off, *beta; // (n): off[i] couples i - 1 and i
    double   *work;              // (n)
    rotation *turn;
    sweep    *sweeps;
    int64_t   turns, turns_room, nsweeps, sweeps_room;
} solver;

static double dot(const double *x, const double *y, int64_t n)
{
    double s = 0;
#pragma omp simd reduction(+ : s)
    for (int64_t i = 0; i < n; i++) s += x[i] * y[i];
    return s;
}

/* p = A v for the leading m x m block, of which only the lower triangle is stored. */
static void multiply_lower(double *p, const double *a, int64_t n, const double *v, int64_t m)
{
    memset(p, 0, (size_t)m * sizeof *p);
    for (int64_t r = 0; r < m; r++) {
        const double *row = a + r * n, vr = v[r];
        double        s = 0;
#pragma omp simd reduction(+ : s)
        for (int64_t c = 0; c < r; c++) {
            s += row[c] * v[c];
            p[c] += row[c] * vr;
        }
        p[r] += s + row[r] * vr;
    }
}

/* A -= v w' + w v' on the lower triangle. */
static void update_lower(double *a, int64_t n, const double *v, const double *w, int64_t m)
{
    for (int64_t r = 0; r < m; r++) {
        double *row = a + r * n, vr = v[r], wr = w[r];
#pragma omp simd
        for (int64_t c = 0; c <= r; c++) row[c] -= vr * w[c] + wr * v[c];
    }
}

/* Proceeds from the last row upwards, so that each reflector is a contiguous row and is stored in place of its row. */
static void tridiagonalise(solver *s)
{
    const int64_t n = s->n;
    double        largest = 0;
    for (int64_t r = 0; r < n; r++)
        for (int64_t c = 0; c <= r; c++)
            if (fabs(s->a[r * n + c]) > largest) largest = fabs(s->a[r * n + c]);
    const double nothing = 1e-30 * largest * (1e-30 * largest);
    for (int64_t i = n - 1; i >= 1; i--) {
        double      *v = s->a + i * n;
        const double rest = dot(v, v, i - 1), last = v[i - 1];
        s->off[i] = last;
        s->beta[i] = 0;
        if (rest <= nothing) continue; // the row is tridiagonal already
        const double norm = sqrt(rest + last * last);
        s->off[i] = last > 0 ? -norm : norm;
        v[i - 1] = last - s->off[i];
        s->beta[i] = 2 / (rest + v[i - 1] * v[i - 1]);
        multiply_lower(s->work, s->a, n, v, i);
        const double half = 0.5 * s->beta[i] * s->beta[i] * dot(s->work, v, i);
        for (int64_t j = 0; j < i; j++) s->work[j] = s->beta[i] * s->work[j] - half * v[j];
        update_lower(s->a, n, v, s->work, i);
    }
    for (int64_t i = 0; i < n; i++) s->diag[i] = s->a[i * n + i];
}

static mba_status reserve_sweep(solver *s, int64_t length)
{
    if (s->turns + length > s->turns_room) {
        const int64_t room = 2 * s->turns_room + length + 1024;
        rotation     *wider = realloc(s->turn, (size_t)room * sizeof *wider);
        if (!wider) return mba_fail(MBA_E_NOMEM, "no memory for the eigenvectors of %" PRId64 " nodes", s->n);
        s->turn = wider;
        s->turns_room = room;
    }
    if (s->nsweeps == s->sweeps_room) {
        const int64_t room = 2 * s->sweeps_room + 1024;
        sweep        *wider = realloc(s->sweeps, (size_t)room * sizeof *wider);
        if (!wider) return mba_fail(MBA_E_NOMEM, "no memory for the eigenvectors of %" PRId64 " nodes", s->n);
        s->sweeps = wider;
        s->sweeps_room = room;
    }
    return MBA_OK;
}

/* One implicit QL sweep on rows first .. last; e[i] couples i and i + 1. */
static void sweep_once(solver *s, double *e, int64_t first, int64_t last)
{
    double      *d = s->diag;
    const double half = (d[first + 1] - d[first]) / (2 * e[first]);
    double       g = d[last] - d[first] + e[first] / (half + copysign(hypot(half, 1), half));
    double       sine = 1, cosine = 1, shift = 0;
    sweep        done = { last - 1, 0 };
    for (int64_t i = last - 1; i >= first; i--) {
        const double f = sine * e[i], b = cosine * e[i], r = hypot(f, g);
        e[i + 1] = r;
        if (r == 0) { // the matrix splits here: start again
            d[i + 1] -= shift;
            break;
        }
        sine = f / r;
        cosine = g / r;
        g = d[i + 1] - shift;
        const double t = (d[i] - g) * sine + 2 * cosine * b;
        shift = sine * t;
        d[i + 1] = g + shift;
        g = cosine * t - b;
        s->turn[s->turns++] = (rotation){ cosine, sine };
        done.count++;
    }
    if (done.count == last - first) {
        d[first] -= shift;
        e[first] = g;
    }
    e[last] = 0;
    s->sweeps[s->nsweeps++] = done;
}

static mba_status diagonalise(solver *s)
{
    enum { SWEEPS_MAX = 100 }; // per eigenvalue; two are usual
    double *d = s->diag, *e = s->off, norm = 0;
    memmove(e, e + 1, (size_t)(s->n - 1) * sizeof *e);
    e[s->n - 1] = 0;
    for (int64_t i = 0; i < s->n; i++)
        if (fabs(d[i]) + fabs(e[i]) > norm) norm = fabs(d[i]) + fabs(e[i]);
    for (int64_t first = 0; first < s->n; first++)
        for (int tries = 0;; tries++) {
            int64_t last = first;
            while (last < s->n - 1 && fabs(e[last]) > DBL_EPSILON * norm) last++;
            if (last == first) break;
            if (tries == SWEEPS_MAX)
                return mba_fail(MBA_E_FORMAT,
                                "the eigenvalues of %" PRId64 " nodes do not converge\n"
                                "why: the matrix has values that are not finite\nfix: check the graph",
                                s->n);
            MBA_TRY(reserve_sweep(s, last - first));
            sweep_once(s, e, first, last);
        }
    return MBA_OK;
}

/* y (n, k) = Q y: applies the recorded rotations, the last one first. */
static void play_backwards(const solver *s, double *y, int64_t k)
{
    if (!s->nsweeps) return; // it was diagonal
    const rotation *turn = s->turn + s->turns;
    for (int64_t i = s->nsweeps - 1; i >= 0; i--) {
        const sweep w = s->sweeps[i];
        for (int64_t row = w.first - w.count + 1; row <= w.first; row++) {
            const rotation t = *--turn;
            double        *a = y + row * k, *b = a + k;
#pragma omp simd
            for (int64_t j = 0; j < k; j++) {
                const double p = a[j], q = b[j];
                a[j] = t.c * p + t.s * q;
                b[j] = t.c * q - t.s * p;
            }
        }
    }
}

/* Applies the reflectors to vec (k, n), the last one first. */
static void reflect_back(const solver *s, double *vec, int64_t k)
{
    for (int64_t i = 1; i < s->n; i++) {
        const double *v = s->a + i * s->n;
        for (int64_t j = 0; s->beta[i] != 0 && j < k; j++) {
            double      *x = vec + j * s->n;
            const double t = s->beta[i] * dot(v, x, i);
#pragma omp simd
            for (int64_t c = 0; c < i; c++) x[c] -= t * v[c];
        }
    }
}

/* The index of the smallest value that is not taken yet; the lower index among equals. */
static int64_t take_smallest(const double *d, bool *taken, int64_t n)
{
    int64_t best = -1;
    for (int64_t i = 0; i < n; i++)
        if (!taken[i] && (best < 0 || d[i] < d[best])) best = i;
    taken[best] = true;
    return best;
}

static mba_status solve(double *val, double *vec, solver *s, int64_t k)
{
    const int64_t n = s->n;
    double       *y = calloc((size_t)(n * k), sizeof *y);
    bool         *taken = calloc((size_t)n, sizeof *taken);
    mba_status    st = y && taken ? MBA_OK : mba_fail(MBA_E_NOMEM, "no memory for %" PRId64 " eigenvectors", k);
    if (st == MBA_OK) {
        tridiagonalise(s);
        st = diagonalise(s);
    }
    for (int64_t j = 0; st == MBA_OK && j < k; j++) {
        const int64_t place = take_smallest(s->diag, taken, n);
        val[j] = s->diag[place];
        y[place * k + j] = 1;
    }
    if (st == MBA_OK) {
        play_backwards(s, y, k);
        for (int64_t j = 0; j < k; j++)
            for (int64_t i = 0; i < n; i++) vec[j * n + i] = y[i * k + j];
        reflect_back(s, vec, k);
    }
    free(y);
    free(taken);
    return st;
}

mba_status mba_symmetric_eigen(double *val, double *vec, double *a, int64_t n, int64_t k)
{
    mba_assert(n > 0 && k > 0 && k <= n);
    double *room = malloc(4 * (size_t)n * sizeof *room);
    if (!room) return mba_fail(MBA_E_NOMEM, "no memory for the eigenvalues of %" PRId64 " nodes", n);
    solver           s = { .n = n, .a = a, .diag = room, .off = room + n, .beta = room + 2 * n, .work = room + 3 * n };
    const mba_status st = solve(val, vec, &s, k);
    free(s.turn);
    free(s.sweeps);
    free(room);
    return st;
}

/* ---- Laplacian ---- */

static void fill_laplacian(double *a, int64_t n, int64_t edges, const uint32_t *src, const uint32_t *dst)
{
    for (int64_t k = 0; k < edges; k++) {
        const uint32_t low = src[k] < dst[k] ? src[k] : dst[k], high = src[k] < dst[k] ? dst[k] : src[k];
        if (low != high) a[high * (size_t)n + low] = -1;
    }
    for (int64_t r = 0; r < n; r++)
        for (int64_t c = 0; c < r; c++)
            if (a[r * n + c] != 0) {
                a[r * n + r]++;
                a[c * n + c]++;
            }
}

static void store_vectors(float *val, float *vec, const double *w, const double *v, int64_t n, int64_t k, int64_t K)
{
    for (int64_t j = 0; j < K; j++) {
        const double norm = j < k ? sqrt(dot(v + j * n, v + j * n, n)) : 0;
        const double scale = 1 / (norm > 1e-12 ? norm : 1e-12);
        val[j] = j >= k ? NAN : w[j] > 0 ? (float)w[j] : 0;
        for (int64_t i = 0; i < n; i++) vec[i * K + j] = j < k ? (float)(v[j * n + i] * scale) : NAN;
    }
}

mba_status mba_graph_lap(float *val, float *vec, int64_t nodes, int64_t edges, const uint32_t *src, const uint32_t *dst,
                         int64_t K)
{
    const int64_t n = nodes, k = K < n ? K : n;
    if (n > MBA_LAP_NODES_MAX)
        return mba_fail(MBA_E_UNSUPPORTED,
                        "a graph of %" PRId64 " nodes is too large for Laplacian features\n"
                        "why: they need a dense matrix, of at most %d nodes\nfix: use random-walk features "
                        "instead: --set pe_count=0,rw_count=16",
                        n, MBA_LAP_NODES_MAX);
    double    *a = calloc((size_t)(n * n + 1), sizeof *a), *w = malloc((size_t)(k * (n + 1) + 1) * sizeof *w);
    mba_status st = a && w ? MBA_OK : mba_fail(MBA_E_NOMEM, "no memory for a matrix of %" PRId64 " nodes", n);
    if (st == MBA_OK && n && k) {
        fill_laplacian(a, n, edges, src, dst);
        st = mba_symmetric_eigen(w, w + k, a, n, k);
    }
    if (st == MBA_OK) store_vectors(val, vec, w, w + k, n, k, K);
    free(a);
    free(w);
    return st;
}

/* ---- random walks ---- */

static void walk(float *out, double *p, double *q, const double *leave, int64_t v, int64_t nodes, int64_t edges,
                 const uint32_t *src, const uint32_t *dst, int64_t K)
{
    memset(p, 0, (size_t)nodes * sizeof *p);
    p[v] = 1;
    for (int64_t k = 0; k < K; k++) {
        memset(q, 0, (size_t)nodes * sizeof *q);
        for (int64_t e = 0; e < edges; e++) q[dst[e]] += p[src[e]] * leave[src[e]];
        out[v * K + k] = (float)q[v];
        double *t = p;
        p = q;
        q = t;
    }
}

mba_status mba_graph_rwse(float *out, int64_t nodes, int64_t edges, const uint32_t *src, const uint32_t *dst, int64_t K)
{
    double *leave = calloc(3 * (size_t)nodes + 1, sizeof *leave);
    if (!leave) return mba_fail(MBA_E_NOMEM, "no memory for the walks on %" PRId64 " nodes", nodes);
    double *p = leave + nodes, *q = p + nodes;
    for (int64_t e = 0; e < edges; e++) leave[src[e]]++;
    for (int64_t v = 0; v < nodes; v++) leave[v] = leave[v] > 0 ? 1 / leave[v] : 0;
    for (int64_t v = 0; v < nodes; v++) walk(out, p, q, leave, v, nodes, edges, src, dst, K);
    free(leave);
    return MBA_OK;
}

/* ---- degrees ---- */

mba_status mba_graph_degree_profile(float *out, int64_t nodes, int64_t edges, const uint32_t *src, const uint32_t *dst)
{
    typedef struct profile {
        double degree, min, max, sum, squares;
    } profile;
    profile *p = calloc((size_t)nodes + 1, sizeof *p);
    if (!p) return mba_fail(MBA_E_NOMEM, "no memory for the degrees of %" PRId64 " nodes", nodes);
    for (int64_t e = 0; e < edges; e++) p[src[e]].degree++;
    for (int64_t v = 0; v < nodes; v++) p[v].min = p[v].degree > 0 ? INFINITY : 0;
    for (int64_t e = 0; e < edges; e++) {
        profile     *v = &p[src[e]];
        const double d = p[dst[e]].degree;
        v->sum += d;
        if (d < v->min) v->min = d;
        if (d > v->max) v->max = d;
    }
    for (int64_t e = 0; e < edges; e++) {
        profile     *v = &p[src[e]];
        const double d = p[dst[e]].degree - v->sum / v->degree;
        v->squares += d * d;
    }
    for (int64_t v = 0; v < nodes; v++) {
        const double n = p[v].degree, below = (n > 2 ? n - 1 : 1) + 1e-6;
        const double mean = n > 0 ? p[v].sum / n : 0;
        const double row[MBA_DEGREE_PROFILE] = { n, p[v].min, p[v].max, mean, sqrt(p[v].squares / below) };
        for (int k = 0; k < MBA_DEGREE_PROFILE; k++) out[v * MBA_DEGREE_PROFILE + k] = (float)row[k];
    }
    free(p);
    return MBA_OK;
}

/* ---- whole collections ---- */

typedef mba_status feature_of(float *val, float *out, const mba_graph_item *g, int64_t K);

static mba_status laplace_of(float *val, float *out, const mba_graph_item *g, int64_t K)
{
    return mba_graph_lap(val, out, g->nodes, g->edges, g->src, g->dst, K);
}

static mba_status walks_of(float *val, float *out, const mba_graph_item *g, int64_t K)
{
    (void)val;
    return mba_graph_rwse(out, g->nodes, g->edges, g->src, g->dst, K);
}

/* Computes a feature for every graph in parallel. The message of a failure belongs to its thread, so this thread
 * repeats the graphs from the first failure on. */
static mba_status for_each(feature_of *f, float *val, float *out, const mba_graph_set *s, int64_t K)
{
    int64_t failed = s->graphs;
#pragma omp parallel for schedule(dynamic) reduction(min : failed)
    for (int64_t g = 0; g < s->graphs; g++) {
        const mba_graph_item item = mba_graph_set_item(s, g);
        if (f(val ? val + g * K : NULL, out + s->node_ptr[g] * (size_t)K, &item, K) != MBA_OK && g < failed) failed = g;
    }
    for (int64_t g = failed; g < s->graphs; g++) {
        const mba_graph_item item = mba_graph_set_item(s, g);
        const mba_status     st = f(val ? val + g * K : NULL, out + s->node_ptr[g] * (size_t)K, &item, K);
        if (st != MBA_OK) return mba_where(st, "graph %" PRId64, g);
    }
    return MBA_OK;
}

mba_status mba_graph_store_laplace(mba_graph_store *s, int64_t K)
{
    float *val, *vec;
    MBA_TRY(mba_graph_store_add_lap(&val, &vec, s, K));
    return for_each(laplace_of, val, vec, mba_graph_store_set(s), K);
}

mba_status mba_graph_store_walks(mba_graph_store *s, int64_t K)
{
    float *out;
    MBA_TRY(mba_graph_store_add_rwse(&out, s, K));
    return for_each(walks_of, NULL, out, mba_graph_store_set(s), K);
}
