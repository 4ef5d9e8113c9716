// SPDX-License-Identifier: Apache-2.0
/* mamba1.c -- Mamba-1: the mixer and the published sizes (arXiv 2312.00752).
 *
 *   x | z = u W_in;  x = silu(conv(x));  dt | B | C = x W_x;  delta = dt W_dt
 *   y = scan(x, delta, A, B, C) + D x;  out = (y silu(z)) W_out
 *
 * Jamba normalises dt, B and C between W_x and the scan. */
#include <math.h>

#include "models/model.h"
#include "ops/conv1d/conv1d.h"
#include "ops/rmsnorm/rmsnorm.h"
#include "ops/selective_scan/selective_scan.h"

#define PARAM(name, init, group, ...) mba_param(g, (name), MBA_TYPE(MBA_F32, __VA_ARGS__), (init), (group))

static mba_tensor *inner_norm(mba_graph *g, const mba_lm *c, mba_tensor *x, const char *name)
{
    if (!c->inner_norms) return x;
    mba_tensor *w = PARAM(name, MBA_INIT_CONST(1), MBA_NO_DECAY, mba_cols(x));
    return mba_rmsnorm(g, x, w, (float)(c->eps_inner > 0 ? c->eps_inner : c->eps));
}

static mba_tensor *mamba1_mixer(mba_graph *g, const mba_lm *c, const mba_lm_site *s)
{
    const int64_t  B = c->batch, D = c->inner, N = c->state, R = c->dt_rank, W = c->conv;
    const mba_init tap = MBA_INIT_UNIFORM(1 / sqrt((double)W));

    mba_tensor *xz = mba_lm_linear(g, c, s, .x = s->u, .name = "in_proj", .rows = 2 * D, .bias = c->bias,
                                   .sliced = true);
    mba_tensor *x = mba_slice(g, xz, 2, 0, D); // (B, L, D)
    mba_tensor *z = mba_slice(g, xz, 2, D, D);

    mba_lm_state past = mba_lm_state_in(g, c, "past", MBA_TYPE(MBA_F32, B, W - 1, D));
    x = mba_conv1d(g, .x = x, .w = PARAM("conv1d.weight", tap, MBA_DECAY, D, 1, W), .silu = true, .ids = s->ids,
                   .bias = c->no_conv_bias ? NULL : PARAM("conv1d.bias", tap, MBA_NO_DECAY, D), .initial = past.in,
                   .final = past.in ? &past.out : NULL);
    mba_lm_state_out(g, c, &past);

    mba_tensor *dbc = mba_lm_linear(g, c, s, .x = x, .name = "x_proj", .rows = R + 2 * N, .sliced = true);
    mba_tensor *low = inner_norm(g, c, mba_slice(g, dbc, 2, 0, R), "dt_layernorm.weight");
    mba_tensor *Bm = inner_norm(g, c, mba_slice(g, dbc, 2, R, N), "b_layernorm.weight");
    mba_tensor *Cm = inner_norm(g, c, mba_slice(g, dbc, 2, R + N, N), "c_layernorm.weight");
    mba_tensor *delta = mba_lm_linear(g, c, s, .x = low, .name = "dt_proj", .rows = D);
    mba_cheap(delta); // of low rank: cheap to recompute

    mba_lm_state h = mba_lm_state_in(g, c, "state", MBA_TYPE(MBA_F32, B, D, N));
    mba_tensor  *y = mba_selective_scan(g, .u = x, .delta = delta, .B = Bm, .C = Cm, .z = z, .ids = s->ids,
                                        .A_log = PARAM("A_log", MBA_INIT_LOG_INDEX(), MBA_NO_DECAY, D, N),
                                        .D = PARAM("D", MBA_INIT_CONST(1), MBA_NO_DECAY, D),
                                        .dt_bias = PARAM("dt_proj.bias", MBA_INIT_STEP(1e-3, 0.1), MBA_NO_DECAY, D),
                                        .initial = h.in, .final = h.in ? &h.out : NULL);
    mba_lm_state_out(g, c, &h);
    return mba_lm_linear(g, c, s, .x = y, .name = "out_proj", .rows = c->width, .bias = c->bias, .last = true);
}

// clang-format off
#define MAMBA1(title, M, blocks) \
    { .name = (title), .symbol = 'm', .width = (M), .layers = (blocks), .state = 16, .vocab = 50280, .length = 2048 }
// clang-format on

const mba_family mba_family_mamba1 = {
    .name = "mamba1",
    .doc = "homogeneous Mamba-1: the selective scan",
    .mixers = (const mba_lm_mixer[]){ { 'm', false, "Mamba-1", mamba1_mixer, NULL }, { 0 } },
    .lm =
        (const mba_lm[]){
            MAMBA1("mamba-130m", 768, 24),
            MAMBA1("mamba-370m", 1024, 48),
            MAMBA1("mamba-790m", 1536, 48),
            MAMBA1("mamba-1.4b", 2048, 48),
            MAMBA1("mamba-2.8b", 2560, 64),
            { .name = NULL },
        },
};
