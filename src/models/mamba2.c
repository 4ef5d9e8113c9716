// SPDX-License-Identifier: Apache-2.0
/* mamba2.c -- Mamba-2: the mixer and the published sizes (arXiv 2405.21060).
 *
 *   z | xBC | dt = u W_in;  x | B | C = silu(conv(xBC));  y = SSD(x, dt, A, B, C) + D x
 *   out = GatedRMSNorm(y, z) W_out */
#include <math.h>

#include "models/model.h"
#include "ops/conv1d/conv1d.h"
#include "ops/gated_rmsnorm/gated_rmsnorm.h"
#include "ops/ssd/ssd.h"

#define PARAM(name, init, group, ...) mba_param(g, (name), MBA_TYPE(MBA_F32, __VA_ARGS__), (init), (group))

static mba_tensor *mamba2_mixer(mba_graph *g, const mba_lm *c, const mba_lm_site *s)
{
    const int64_t B = c->batch, L = c->length, H = c->heads, P = c->head_dim, N = c->state, G = c->groups, W = c->conv,
                  D = H * P, K = D + 2 * G * N;
    const mba_dtype T = c->compute;
    const mba_init  tap = MBA_INIT_UNIFORM(1 / sqrt((double)W));

    // One projection, whose columns are z | x B C | dt.
    mba_tensor *zxbcdt = mba_lm_linear(g, c, s, .x = s->u, .name = "in_proj", .rows = D + K + H, .bias = c->bias,
                                       .sliced = true);
    mba_tensor *z = mba_slice(g, zxbcdt, 2, 0, D);
    mba_tensor *xBC = mba_slice(g, zxbcdt, 2, D, K);
    mba_tensor *dt = mba_slice(g, zxbcdt, 2, D + K, H);

    // One convolution for x, B and C.
    mba_lm_state past = mba_lm_state_in(g, c, "past", MBA_TYPE(MBA_F32, B, W - 1, K));
    xBC = mba_conv1d(g, .x = xBC, .w = PARAM("conv1d.weight", tap, MBA_DECAY, K, 1, W), .silu = true, .ids = s->ids,
                     .bias = c->no_conv_bias ? NULL : PARAM("conv1d.bias", tap, MBA_NO_DECAY, K), .initial = past.in,
                     .final = past.in ? &past.out : NULL);
    mba_lm_state_out(g, c, &past);
    mba_tensor *x = mba_reshape(g, mba_slice(g, xBC, 2, 0, D), MBA_TYPE(T, B, L, H, P));
    mba_tensor *Bm = mba_reshape(g, mba_slice(g, xBC, 2, D, G * N), MBA_TYPE(T, B, L, G, N));
    mba_tensor *Cm = mba_reshape(g, mba_slice(g, xBC, 2, D + G * N, G * N), MBA_TYPE(T, B, L, G, N));

    mba_lm_state h = mba_lm_state_in(g, c, "state", MBA_TYPE(MBA_F32, B, H, P, N));
    mba_tensor  *y = mba_ssd(g, .x = x, .dt = dt, .B = Bm, .C = Cm, .ids = s->ids, .chunk = c->chunk,
                             .dt_min = c->dt_min, .dt_max = c->dt_max,
                             .A_log = PARAM("A_log", MBA_INIT_LOG_UNIFORM(1, 16), MBA_NO_DECAY, H),
                             .D = PARAM("D", MBA_INIT_CONST(1), MBA_NO_DECAY, H),
                             .dt_bias = PARAM("dt_bias", MBA_INIT_STEP(1e-3, 0.1), MBA_NO_DECAY, H), .initial = h.in,
                             .final = h.in ? &h.out : NULL);
    mba_lm_state_out(g, c, &h);

    y = mba_reshape(g, y, MBA_TYPE(T, B, L, D));
    y = mba_gated_rmsnorm(g, y, z, PARAM("norm.weight", MBA_INIT_CONST(1), MBA_NO_DECAY, D), c->norm_groups,
                          (float)c->eps);
    return mba_lm_linear(g, c, s, .x = y, .name = "out_proj", .rows = c->width, .bias = c->bias, .last = true);
}

static mba_status check_mamba2(const mba_lm *c)
{
    MBA_TRY(mba_lm_need(c->heads >= 1 && c->heads * c->head_dim == c->inner, "heads", c->heads,
                        "heads x head_dim must be the inner width"));
    MBA_TRY(mba_lm_need(c->heads % c->groups == 0, "groups", c->groups, "it must divide the heads"));
    MBA_TRY(
        mba_lm_need(c->inner % c->norm_groups == 0, "norm_groups", c->norm_groups, "it must divide the inner width"));
    if (c->dt_min < 0 || (c->dt_max > 0 && c->dt_max < c->dt_min))
        return mba_fail(MBA_E_ARG, "the step limits %g .. %g are not possible\nfix: choose 0 <= dt_min <= dt_max",
                        c->dt_min, c->dt_max);
    return MBA_OK;
}

// clang-format off
#define MAMBA2(title, M, blocks) \
    { .name = (title), .symbol = 'M', .width = (M), .layers = (blocks), .vocab = 50288, .length = 2048 }
// clang-format on

const mba_family mba_family_mamba2 = {
    .name = "mamba2",
    .doc = "homogeneous Mamba-2: the state-space dual (SSD)",
    .mixers = (const mba_lm_mixer[]){ { 'M', false, "Mamba-2", mamba2_mixer, check_mamba2 }, { 0 } },
    .lm =
        (const mba_lm[]){
            MAMBA2("mamba2-130m", 768, 24),
            MAMBA2("mamba2-370m", 1024, 48),
            MAMBA2("mamba2-780m", 1536, 48),
            MAMBA2("mamba2-1.3b", 2048, 48),
            MAMBA2("mamba2-2.7b", 2560, 64),
            { .name = "mamba2-headline",
              .symbol = 'M',
              .width = 1024,
              .layers = 48,
              .groups = 8,
              .vocab = 50288,
              .batch = 4,
              .length = 4096 },
            { .name = NULL },
        },
};
