// SPDX-License-Identifier: Apache-2.0
/* gated_rmsnorm_cpu.c -- gated_rmsnorm on the CPU: rows in parallel, each read from memory once, because the second
 * pass over a group finds it in L1.
 *
 * v may share the memory of y, dy that of dv, and dz that of z: every vector is read before it is overwritten. */
#include "device/cpu/simd.h"
#include "ops/gated_rmsnorm/gated_rmsnorm_slots.h"

enum { UNROLL = 4 }; /* independent vectors per iteration, written as whole cache lines */

MBA_SIMD float sum4(const vf a[UNROLL]) { return vf_sum((a[0] + a[1]) + (a[2] + a[3])); }

/* v = q = y silu(z); adds the squares of q to a. */
MBA_SIMD void gate(vf a[], float *v, const float *y, const float *z, int vectors, int64_t n)
{
    vf q[UNROLL];
    for (int u = 0; u < vectors; u++) q[u] = vf_load_n(y + u * MBA_LANES, n) * vf_silu(vf_load_n(z + u * MBA_LANES, n));
    for (int u = 0; u < vectors; u++) a[u] += q[u] * q[u];
    for (int u = 0; u < vectors; u++) vf_store_n(v + u * MBA_LANES, q[u], n);
}

MBA_SIMD float gated_group(float *v, const float *y, const float *z, const float *w, int64_t P, float eps)
{
    const int64_t L = MBA_LANES;
    vf            a[UNROLL] = { { 0 } };
    int64_t       i = 0;
    for (; i + UNROLL * L <= P; i += UNROLL * L) gate(a, v + i, y + i, z + i, UNROLL, L);
    for (; i < P; i += L) gate(a, v + i, y + i, z + i, 1, P - i);
    const float rstd = 1 / __builtin_sqrtf(sum4(a) / (float)P + eps);
    for (i = 0; i + L <= P; i += L) vf_store(v + i, vf_load(v + i) * rstd * vf_load(w + i));
    for (; i < P; i++) v[i] = v[i] * rstd * w[i];
    return rstd;
}

mba_status MBA_CPU_FN(gated_rmsnorm_fwd)(const mba_call *c)
{
    const mba_node *n = c->node;
    const mba__rows y = mba__rows_of(n->in[Y], c->in[Y]), z = mba__rows_of(n->in[Z], c->in[Z]);
    const mba__rows v = mba__rows_of(n->out[V], c->out[V]);
    const int64_t   G = ((const gated_rmsnorm_attr *)n->attr)->groups, P = y.cols / G;
    const float     eps = (float)((const gated_rmsnorm_attr *)n->attr)->eps, *w = c->in[W];
    float          *rstd = c->out[RSTD];
    MBA_PARALLEL_FOR(r, mba_rows(n->in[Y]))
    for (int64_t g = 0; g < G; g++)
        rstd[r * G + g] = gated_group(mba__row(v, r) + g * P, mba__row(y, r) + g * P, mba__row(z, r) + g * P, w + g * P,
                                      P, eps);
    return MBA_OK;
}

typedef struct grads {
    const float *y, *z, *w, *dv;
    float       *silu, *slope;     /* of the gate: the first pass writes them, the second reads them */
    float       *dy, *dz, *dw, *v; /* v: NULL if it is not needed */
    bool         dy_adds, dz_adds;
} grads;

/* Computes silu and slope of the gate, and adds q w dv to a. */
MBA_SIMD void open_gate(vf a[], grads g, int vectors, int64_t i, int64_t n)
{
    vf silu[UNROLL], slope[UNROLL];
    for (int u = 0; u < vectors; u++) silu[u] = vf_silu_and_slope(vf_load_n(g.z + i + u * MBA_LANES, n), &slope[u]);
    for (int u = 0; u < vectors; u++) {
        const int64_t j = i + u * MBA_LANES;
        a[u] += vf_load_n(g.y + j, n) * silu[u] * (vf_load_n(g.w + j, n) * vf_load_n(g.dv + j, n));
        vf_store_n(g.silu + j, silu[u], n);
        vf_store_n(g.slope + j, slope[u], n);
    }
}

/* v = q rstd w, as in the forward pass. */
MBA_SIMD void make_again(grads g, float rstd, int vectors, int64_t i, int64_t n)
{
    for (int u = 0; u < vectors; u++) {
        const int64_t j = i + u * MBA_LANES;
        vf_store_n(g.v + j, vf_load_n(g.y + j, n) * vf_load_n(g.silu + j, n) * rstd * vf_load_n(g.w + j, n), n);
    }
}

/* dq = w dv rstd - q back, dw += q dv rstd. */
MBA_SIMD void close_gate(grads g, float rstd, float back, int vectors, int64_t i, int64_t n)
{
    const int64_t L = MBA_LANES;
    vf            dy[UNROLL], dz[UNROLL], dw[UNROLL];
    if (g.v) make_again(g, rstd, vectors, i, n);
    for (int u = 0; u < vectors; u++) {
        const int64_t j = i + u * L;
        const vf      y = vf_load_n(g.y + j, n), silu = vf_load_n(g.silu + j, n), q = y * silu;
        const vf      t = vf_load_n(g.dv + j, n) * rstd, dq = vf_load_n(g.w + j, n) * t - q * back;
        dw[u] = vf_load_n(g.dw + j, n) + q * t;
        dy[u] = dq * silu;
        dz[u] = dq * y * vf_load_n(g.slope + j, n);
    }
    for (int u = 0; u < vectors; u++) vf_store_n(g.dw + i + u * L, dw[u], n);
    for (int u = 0; u < vectors && g.dy_adds; u++) dy[u] += vf_load_n(g.dy + i + u * L, n);
    for (int u = 0; u < vectors; u++) vf_store_n(g.dy + i + u * L, dy[u], n);
    for (int u = 0; u < vectors && g.dz_adds; u++) dz[u] += vf_load_n(g.dz + i + u * L, n); // dz may be dy: read last
    for (int u = 0; u < vectors; u++) vf_store_n(g.dz + i + u * L, dz[u], n);
}

/* With qhat = q rstd and c = mean(qhat w dv): dq = rstd (w dv - qhat c), dw += dv qhat. */
MBA_SIMD void gated_bwd_group(grads g, float rstd, int64_t P)
{
    const int64_t L = MBA_LANES;
    vf            a[UNROLL] = { { 0 } };
    int64_t       i = 0;
    for (; i + UNROLL * L <= P; i += UNROLL * L) open_gate(a, g, UNROLL, i, L);
    for (; i < P; i += L) open_gate(a, g, 1, i, P - i);
    const float back = sum4(a) / (float)P * rstd * rstd * rstd;
    for (i = 0; i + UNROLL * L <= P; i += UNROLL * L) close_gate(g, rstd, back, UNROLL, i, L);
    for (; i < P; i += L) close_gate(g, rstd, back, 1, i, P - i);
}

mba_status MBA_CPU_FN(gated_rmsnorm_bwd)(const mba_call *c)
{
    const mba_node *n = c->node;
    const int64_t   R = mba_rows(n->in[Y]), C = mba_cols(n->in[Y]);
    const int64_t   G = ((const gated_rmsnorm_attr *)n->attr)->groups, P = C / G;
    const mba__rows y = mba__rows_of(n->in[Y], c->in[Y]), z = mba__rows_of(n->in[Z], c->in[Z]);
    const mba__rows dv = mba__rows_of(n->in[DV], c->in[DV]);
    const mba__rows dy = mba__rows_of(n->out[DY], c->out[DY]), dz = mba__rows_of(n->out[DZ], c->out[DZ]);
    const mba__rows v = n->out[V_AGAIN] ? mba__rows_of(n->out[V_AGAIN], c->out[V_AGAIN]) : dy;
    const float    *w = c->in[W], *rstd = c->in[RSTDB];
    float          *part = mba__scratch(c, 0), *gates = mba__scratch(c, 1);
    const bool      dy_adds = mba_adds(n, DY), dz_adds = mba_adds(n, DZ);
    MBA_PARALLEL_FOR(p, mba__parts(R))
    {
        memset(part + p * C, 0, sizeof(float) * (size_t)C);
        for (int64_t r = p * MBA__PART_ROWS; r < mba__part_end(p, R); r++)
            for (int64_t g = 0, at = 0; g < G; g++, at += P) {
                const grads k = { .y = mba__row(y, r) + at,
                                  .z = mba__row(z, r) + at,
                                  .dv = mba__row(dv, r) + at,
                                  .dy = mba__row(dy, r) + at,
                                  .dz = mba__row(dz, r) + at,
                                  .w = w + at,
                                  .v = n->out[V_AGAIN] ? mba__row(v, r) + at : NULL,
                                  .dw = part + p * C + at,
                                  .silu = gates + 2 * p * P,
                                  .slope = gates + (2 * p + 1) * P,
                                  .dy_adds = dy_adds,
                                  .dz_adds = dz_adds };
                gated_bwd_group(k, rstd[r * G + g], P);
            }
    }
    mba__sum_parts(c->out[DW], part, mba__parts(R), C, mba_adds(n, DW));
    return MBA_OK;
}
