/* gated_rmsnorm_cpu.c -- rows in parallel, each read from memory once: the second pass over a group finds it in L1.
 *
 * v may lie in the memory of y, dy in that of dv and dz in that of z: every vector is read before its place is
 * written. */
#include "device/cpu/simd.h"
#include "ops/gated_rmsnorm/gated_rmsnorm_slots.h"

/* v = q = y silu(z); returns q. */
MBA_SIMD vf gate(float *v, const float *y, const float *z, int64_t n)
{
    const vf q = vf_load_n(y, n) * vf_silu(vf_load_n(z, n));
    vf_store_n(v, q, n);
    return q;
}

MBA_SIMD float gated_group(float *v, const float *y, const float *z, const float *w, int64_t P, float eps)
{
    const int64_t L = MBA_LANES;
    vf            a = { 0 }, b = { 0 };
    int64_t       i = 0;
    for (; i + 2 * L <= P; i += 2 * L) {
        const vf q = gate(v + i, y + i, z + i, L), t = gate(v + i + L, y + i + L, z + i + L, L);
        a += q * q;
        b += t * t;
    }
    for (; i < P; i += L) {
        const vf q = gate(v + i, y + i, z + i, P - i);
        a += q * q;
    }
    const float rstd = 1 / __builtin_sqrtf(vf_sum(a + b) / (float)P + eps);
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
            rstd[r * G + g] = gated_group(mba__row(v, r) + g * P, mba__row(y, r) + g * P, mba__row(z, r) + g * P,
                                          w + g * P, P, eps);
    return MBA_OK;
}

typedef struct grads {
    const float *y, *z, *w, *dv;
    float       *silu, *slope;                    /* of the gate: made by the first pass, used by the second */
    float       *dy, *dz, *dw;
    bool         dy_adds, dz_adds;
} grads;

/* Returns q w dv. */
MBA_SIMD vf open_gate(const grads *g, int64_t i, int64_t n)
{
    vf       slope;
    const vf silu = vf_silu_and_slope(vf_load_n(g->z + i, n), &slope);
    vf_store_n(g->silu + i, silu, n);
    vf_store_n(g->slope + i, slope, n);
    return vf_load_n(g->y + i, n) * silu * vf_load_n(g->w + i, n) * vf_load_n(g->dv + i, n);
}

MBA_SIMD void gated_bwd_vector(const grads *g, float rstd, float mean, int64_t i, int64_t n)
{
    const vf y = vf_load_n(g->y + i, n), dv = vf_load_n(g->dv + i, n);
    const vf silu = vf_load_n(g->silu + i, n), qhat = y * silu * rstd;
    const vf dq = (vf_load_n(g->w + i, n) * dv - qhat * mean) * rstd;
    const vf dy = dq * silu, dz = dq * y * vf_load_n(g->slope + i, n);
    vf_store_n(g->dw + i, vf_load_n(g->dw + i, n) + dv * qhat, n);
    vf_store_n(g->dy + i, g->dy_adds ? vf_load_n(g->dy + i, n) + dy : dy, n);
    vf_store_n(g->dz + i, g->dz_adds ? vf_load_n(g->dz + i, n) + dz : dz, n);              // may be dy: read last
}

/* With qhat = q rstd and c = mean(qhat w dv): dq = rstd (w dv - qhat c), dw += dv qhat. */
MBA_SIMD void gated_bwd_group(grads g, float rstd, int64_t P)
{
    const int64_t L = MBA_LANES;
    vf            a = { 0 }, b = { 0 };
    int64_t       i = 0;
    for (; i + 2 * L <= P; i += 2 * L) {
        a += open_gate(&g, i, L);
        b += open_gate(&g, i + L, L);
    }
    for (; i < P; i += L) a += open_gate(&g, i, P - i);
    const float mean = vf_sum(a + b) * rstd / (float)P;
    for (i = 0; i + L <= P; i += L) gated_bwd_vector(&g, rstd, mean, i, L);
    if (i < P) gated_bwd_vector(&g, rstd, mean, i, P - i);
}

mba_status MBA_CPU_FN(gated_rmsnorm_bwd)(const mba_call *c)
{
    const mba_node *n  = c->node;
    const int64_t   R  = mba_rows(n->in[Y]), C = mba_cols(n->in[Y]), parts = mba__parts(R);
    const int64_t   G  = ((const gated_rmsnorm_attr *)n->attr)->groups, P = C / G;
    const mba__rows y  = mba__rows_of(n->in[Y], c->in[Y]), z = mba__rows_of(n->in[Z], c->in[Z]);
    const mba__rows dv = mba__rows_of(n->in[DV], c->in[DV]);
    const mba__rows dy = mba__rows_of(n->out[DY], c->out[DY]), dz = mba__rows_of(n->out[DZ], c->out[DZ]);
    const float    *w  = c->in[W], *rstd = c->in[RSTDB];
    float          *part = mba__scratch(c, 0), *gates = mba__scratch(c, 1);
    const bool      dy_adds = mba_adds(n, DY), dz_adds = mba_adds(n, DZ);
    MBA_PARALLEL_FOR(p, parts) {
        memset(part + p * C, 0, sizeof(float) * (size_t)C);
        for (int64_t r = p * MBA__PART_ROWS; r < R && r < (p + 1) * MBA__PART_ROWS; r++)
            for (int64_t g = 0, at = 0; g < G; g++, at += P) {
                const grads k = { .y = mba__row(y, r) + at, .z = mba__row(z, r) + at, .dv = mba__row(dv, r) + at,
                                  .dy = mba__row(dy, r) + at, .dz = mba__row(dz, r) + at, .w = w + at,
                                  .dw = part + p * C + at, .silu = gates + 2 * p * P, .slope = gates + (2 * p + 1) * P,
                                  .dy_adds = dy_adds, .dz_adds = dz_adds };
                gated_bwd_group(k, rstd[r * G + g], P);
            }
    }
    mba__sum_parts(c->out[DW], part, parts, C, mba_adds(n, DW));
    return MBA_OK;
}
