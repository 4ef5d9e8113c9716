// SPDX-License-Identifier: Apache-2.0
/* hybrid.c -- Mamba-Transformer hybrids: attention, the MLPs, and families of trainable sizes.
 *
 *   N  flat, as Nemotron-H: Mamba-2, grouped-query attention without positions, squared-ReLU MLPs
 *   B  paired, as Bamba: Mamba-2 or rotary attention, then SwiGLU
 *   A  no MLP, as mamba2attn: attention with rotary positions and a convolution on q, k, v
 *   J  paired, as Jamba (dense): Mamba-1 with inner norms or attention without positions, then SwiGLU
 *   and the Transformer of equal size: attention and MLP only */
#include <math.h>

#include "models/model.h"
#include "ops/attention/attention.h"
#include "ops/conv1d/conv1d.h"
#include "ops/relu2/relu2.h"
#include "ops/rotary/rotary.h"
#include "ops/swiglu/swiglu.h"

#define PARAM(name, init, group, ...) mba_param(g, (name), MBA_TYPE(MBA_F32, __VA_ARGS__), (init), (group))

static mba_tensor *attention_mixer(mba_graph *g, const mba_lm *c, const mba_lm_site *s)
{
    const int64_t   B = c->batch, L = c->length, Hq = c->q_heads, Hk = c->kv_heads, E = c->attn_dim, W = c->attn_conv;
    const int64_t   rows = (Hq + 2 * Hk) * E;
    const mba_dtype T = c->compute;

    // One projection, whose columns are q | k | v.
    mba_tensor *qkv = mba_lm_linear(g, c, s, .x = s->u, .name = "in_proj", .rows = rows, .bias = c->attn_bias);
    if (W) {
        const mba_init tap = MBA_INIT_UNIFORM(1 / sqrt((double)W));
        mba_lm_state   past = mba_lm_state_in(g, c, "past", MBA_TYPE(MBA_F32, B, W - 1, rows));
        qkv = mba_conv1d(g, .x = qkv, .w = PARAM("conv1d.weight", tap, MBA_DECAY, rows, 1, W),
                         .bias = PARAM("conv1d.bias", tap, MBA_NO_DECAY, rows), .ids = s->ids, .initial = past.in,
                         .final = past.in ? &past.out : NULL);
        mba_lm_state_out(g, c, &past);
    }
    mba_tensor *q = mba_reshape(g, mba_slice(g, qkv, 2, 0, Hq * E), MBA_TYPE(T, B, L, Hq, E));
    mba_tensor *k = mba_reshape(g, mba_slice(g, qkv, 2, Hq * E, Hk * E), MBA_TYPE(T, B, L, Hk, E));
    mba_tensor *v = mba_reshape(g, mba_slice(g, qkv, 2, (Hq + Hk) * E, Hk * E), MBA_TYPE(T, B, L, Hk, E));
    if (c->rotary) {
        q = mba_rotary_from(g, q, c->sequence.rank * L, c->rotary, c->rope_base, false);
        k = mba_rotary_from(g, k, c->sequence.rank * L, c->rotary, c->rope_base, false);
    }
    if (c->sequence.ranks > 1) {
        k = mba_gather_prefix(g, k, c->sequence);
        v = mba_gather_prefix(g, v, c->sequence);
    }
    mba_tensor *o = mba_attention(g, .q = q, .k = k, .v = v, .ids = s->ids, .causal = true);
    o = mba_reshape(g, o, MBA_TYPE(T, B, L, Hq * E));
    return mba_lm_linear(g, c, s, .x = o, .name = "out_proj", .rows = c->width, .bias = c->attn_bias, .last = true);
}

static mba_tensor *relu2_mixer(mba_graph *g, const mba_lm *c, const mba_lm_site *s)
{
    mba_tensor *a = mba_lm_linear(g, c, s, .x = s->u, .name = "up_proj", .rows = c->mlp, .bias = c->mlp_bias);
    return mba_lm_linear(g, c, s, .x = mba_relu2(g, a), .name = "down_proj", .rows = c->width, .bias = c->mlp_bias,
                         .last = true);
}

static mba_tensor *swiglu_mixer(mba_graph *g, const mba_lm *c, const mba_lm_site *s)
{
    const int64_t F = c->mlp;
    // The first half of fc1 is the value, the second the gate.
    mba_tensor *vg = mba_lm_linear(g, c, s, .x = s->u, .name = "fc1", .rows = 2 * F, .bias = c->mlp_bias,
                                   .sliced = true);
    mba_tensor *a = mba_swiglu(g, mba_slice(g, vg, 2, 0, F), mba_slice(g, vg, 2, F, F));
    return mba_lm_linear(g, c, s, .x = a, .name = "fc2", .rows = c->width, .bias = c->mlp_bias, .last = true);
}

/* ---- checks ---- */

static mba_status check_attention(const mba_lm *c)
{
    MBA_TRY(mba_lm_need(c->q_heads >= 1 && c->attn_dim >= 1, "q_heads", c->q_heads, "the pattern has attention"));
    MBA_TRY(mba_lm_need(c->kv_heads >= 1 && c->q_heads % c->kv_heads == 0, "kv_heads", c->kv_heads,
                        "it must divide the query heads"));
    MBA_TRY(mba_lm_need(c->rotary % 2 == 0 && c->rotary <= c->attn_dim, "rotary", c->rotary,
                        "an even number within the head"));
    if (c->carry)
        return mba_fail(MBA_E_UNSUPPORTED,
                        "attention cannot carry its state to the next batch\nwhy: its state "
                        "consists of all keys and values\nfix: leave --carry out, or use a model without "
                        "attention");
    return MBA_OK;
}

static mba_status check_mlp(const mba_lm *c) { return mba_lm_need(c->mlp >= 1, "mlp", c->mlp, "the pattern has MLPs"); }

/* ---- sizes ---- */

#define COMMON(title, M, heads_q, hd, width_mlp, V, L) \
    .name = (title), .width = (M), .q_heads = (heads_q), .attn_dim = (hd), .mlp = (width_mlp), .vocab = (V), \
    .length = (L)
// clang-format off
#define N_FAMILY(title, M, heads_q, hd, list) \
    { COMMON(title, M, heads_q, hd, 4 * (M), 50288, 2048), .kv_heads = 4, .pattern = list }
#define B_FAMILY(title, M, heads_q, hd, f, list)                                     \
    { COMMON(title, M, heads_q, hd, f, 50288, 2048), .kv_heads = 4, .paired = 1, \
      .rotary = (hd) / 2, .pattern = list }
#define A_FAMILY(title, M, heads_q, hd, rot, list) \
    { COMMON(title, M, heads_q, hd, 0, 50288, 2048), .attn_conv = 4, .rotary = (rot), .pattern = list }
#define J_FAMILY(title, M, heads_q, hd, f, list)                                                  \
    { COMMON(title, M, heads_q, hd, f, 50280, 2048), .kv_heads = 4, .paired = 1, .state = 16, \
      .inner_norms = 1, .eps = 1e-6, .pattern = list }
// clang-format on
#define B_FAMILY(title, M, heads_q, hd, f, list) \
    { \
        COMMON(title, M, heads_q, hd, f, 50288, 2048), .kv_heads = 4, .paired = 1, .rotary = (hd) / 2, .pattern = list \
    }
#define A_FAMILY(title, M, heads_q, hd, rot, list) \
    { \
        COMMON(title, M, heads_q, hd, 0, 50288, 2048), .attn_conv = 4, .rotary = (rot), .pattern = list \
    }
#define J_FAMILY(title, M, heads_q, hd, f, list) \
    { \
        COMMON(title, M, heads_q, hd, f, 50280, 2048), .kv_heads = 4, .paired = 1, .state = 16, .inner_norms = 1, \
                                                       .eps = 1e-6, .pattern = list \
    }
#define BLOCKS4(x) x x x x
#define BLOCKS8(x) BLOCKS4(x) BLOCKS4(x)

const mba_family mba_family_hybrid = {
    .name = "hybrid",
    .doc = "Mamba and attention in one stack, and the Transformer control",
    .mixers = (const mba_lm_mixer[]){ { '*', false, "attention", attention_mixer, check_attention },
                                      { '-', true, "squared-ReLU MLP", relu2_mixer, check_mlp },
                                      { '+', true, "SwiGLU MLP", swiglu_mixer, check_mlp },
                                      { 0 } },
    .lm =
        (const mba_lm[]){
            N_FAMILY("hybrid-130m", 768, 12, 64, "M-M-M-M*-M-M-M-M*-M-M-M-"),
            N_FAMILY("hybrid-370m", 1024, 16, 64, "M-M-M-M*-M-M-M-M*-M-M-M-M*-M-M-M-M*-M-M-M-M-"),
            N_FAMILY("hybrid-1b", 2048, 16, 128, "M-M-M-M*-M-M-M*-M-M-M-M*-M-M-M-"),
            B_FAMILY("hybrid-b-130m", 768, 12, 64, 2048,
                     BLOCKS4("M+") "*+" BLOCKS4("M+") "*+"
                                                      "M+M+"),
            B_FAMILY("hybrid-b-370m", 1024, 16, 64, 2304,
                     BLOCKS4("M+") "M+M+*+" BLOCKS4("M+") "M+M+*+" BLOCKS4("M+") "M+M+*+"
                                                                                 "M+M+M+"),
            B_FAMILY("hybrid-b-1b", 2048, 16, 128, 5632, BLOCKS4("M+") "*+" BLOCKS4("M+") "*+" BLOCKS4("M+") "*+M+"),
            A_FAMILY("hybrid-a-130m", 768, 12, 64, 32,
                     "MMMMM*"
                     "MMMMM*"
                     "MMMMM*"
                     "MMMMMM"),
            A_FAMILY("hybrid-a-370m", 1024, 16, 64, 32,
                     BLOCKS8("M") "*MMMMMMM"
                                  "*MMMMMMM"
                                  "*MMMMMMM"
                                  "*MMMMMMM"
                                  "*MMMMMMM"),
            A_FAMILY("hybrid-a-1.3b", 2048, 16, 128, 64,
                     BLOCKS8("M") "*MMMMMMM"
                                  "*MMMMMMM"
                                  "*MMMMMMM"
                                  "*MMMMMMM"
                                  "*MMMMMMM"),
            J_FAMILY("hybrid-j-370m", 1024, 16, 64, 2048,
                     BLOCKS4("m+") "*+m+m+m+" BLOCKS4("m+") "*+m+m+m+" BLOCKS4("m+") "*+m+m+m+"),
            J_FAMILY("hybrid-j-1b", 2048, 16, 128, 5632, BLOCKS4("m+") "*+m+m+m+" BLOCKS4("m+") "*+m+m+m+"),
            /* the study's hybrid: attention ratio 0.08, MLP ratio 0.5, placed as mba_lm_place does */
            { COMMON("hybrid-headline", 1024, 16, 64, 4096, 50288, 4096), .kv_heads = 8, .groups = 8, .batch = 4,
              .pattern = "M-M-M--M-*M-M-M-M--*M-M-M-M-*M--M-M-M-*M-M--M-M-" },
            /* the peers' table: Mamba-2 370m with 6 of 48 layers attention, convolution on q, k, v, no rotary */
            A_FAMILY("hybrid-peer-370m", 1024, 16, 64, 0,
                     "MMMMMMM*"
                     "MMMMMMM*"
                     "MMMMMMM*"
                     "MMMMMMM*"
                     "MMMMMMM*"
                     "MMMMMMM*"),
            /* about as many parameters as the others (131, 366 and 959 million): attention and MLP only, rotary */
            { COMMON("transformer-130m", 768, 12, 64, 3072, 50288, 2048), .rotary = 64,
              .pattern = BLOCKS8("*-") BLOCKS4("*-") "*-" },
            { COMMON("transformer-370m", 1024, 16, 64, 4096, 50288, 2048), .rotary = 64,
              .pattern = BLOCKS8("*-") BLOCKS8("*-") BLOCKS8("*-") "*-" },
            { COMMON("transformer-1b", 2048, 16, 128, 8192, 50288, 2048), .rotary = 128,
              .pattern = BLOCKS8("*-") BLOCKS8("*-") "*-" },
            { .name = NULL },
        },
};
