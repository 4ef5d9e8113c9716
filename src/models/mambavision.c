// SPDX-License-Identifier: Apache-2.0
/* mambavision.c -- MambaVision: the network and the published sizes (arXiv 2407.08083).
 *
 *   stem      two strided convolutions, batch norm, ReLU
 *   stage 0,1 y = x + BN(conv(gelu(BN(conv(x)))))
 *   stage 2,3 on windows of tokens: x += Mix(LN(x)); x += MLP(LN(x)); the first half of the blocks scans, the rest
 *             attends
 *   head      batch norm, mean over positions, linear
 *
 * Between stages a strided convolution halves the image and doubles the channels. */
#include "models/mambavision.h"

#include <math.h>

#include "models/model.h"
#include "ops/attention/attention.h"
#include "ops/batchnorm/batchnorm.h"
#include "ops/bias/bias.h"
#include "ops/cast/cast.h"
#include "ops/conv1d/conv1d.h"
#include "ops/conv2d/conv2d.h"
#include "ops/gelu/gelu.h"
#include "ops/layernorm/layernorm.h"
#include "ops/matmul/matmul.h"
#include "ops/pool_mean/pool_mean.h"
#include "ops/residual/residual.h"
#include "ops/selective_scan/selective_scan.h"
#include "ops/soft_cross_entropy/soft_cross_entropy.h"
#include "ops/windows/windows.h"

#define TYPED(dtype, name, init, group, ...) mba_param(g, (name), MBA_TYPE((dtype), __VA_ARGS__), (init), (group))
#define PARAM(name, init, group, ...)        TYPED(MBA_F32, name, init, group, __VA_ARGS__)

/* What the blocks share during construction. */
typedef struct site {
    const mba_vision *c;
    int               block, blocks;
} site;

/* The end of a branch: x + f gamma v. The probability of dropping it grows with depth; a sample is an image or a
 * window. */
typedef struct branch {
    const char *drop;
    mba_tensor *x, *v, *gamma;
    int64_t     rows;
} branch;

static mba_tensor *join_branch(mba_graph *g, const site *s, branch b)
{
    const double drop = s->blocks > 1 ? s->c->drop_path * s->block / (s->blocks - 1) : 0;
    const bool   given = s->c->train && s->c->given_drop;
    return mba_residual(g, .x = b.x, .v = b.v, .gamma = b.gamma, .rows = b.rows, .drop = (float)drop,
                        .active = s->c->train,
                        .factor = given ? mba_input(g, b.drop, MBA_TYPE(MBA_F32, mba_rows(b.x) / b.rows)) : NULL);
}

/* y = x W^T (+ b), with weights in the type of x. */
static mba_tensor *linear(mba_graph *g, mba_tensor *x, const char *name, int64_t rows, bool bias)
{
    const char *weight = mba_arena_printf(g->arena, "%s.weight", name);
    mba_tensor *w = TYPED(x->type.dtype, weight, MBA_INIT_NORMAL(0.02), MBA_DECAY, rows, mba_cols(x));
    if (!bias) return mba_linear(g, x, w);
    return mba_linear_bias(g, x, w,
                           TYPED(x->type.dtype, mba_arena_printf(g->arena, "%s.bias", name), MBA_INIT_CONST(0),
                                 MBA_NO_DECAY, rows));
}

static mba_tensor *conv(mba_graph *g, mba_tensor *x, const char *name, int64_t Co, int stride, bool bias)
{
    const int64_t  Ci = mba_cols(x);
    const mba_init init = MBA_INIT_UNIFORM(1 / sqrt(9.0 * (double)Ci));
    const char    *weight = mba_arena_printf(g->arena, "%s.weight", name);
    mba_tensor    *w = TYPED(x->type.dtype, weight, init, MBA_DECAY, Co, Ci, 3, 3);
    return mba_conv2d(g, .x = x, .w = w, .stride = stride, .pad = 1,
                      .bias = bias ? PARAM(mba_arena_printf(g->arena, "%s.bias", name), init, MBA_NO_DECAY, Co) : NULL);
}

static mba_tensor *batchnorm(mba_graph *g, const site *s, mba_tensor *x, const char *name, double eps, bool relu)
{
    mba_tensor *w = PARAM(mba_arena_printf(g->arena, "%s.weight", name), MBA_INIT_CONST(1), MBA_NO_DECAY, mba_cols(x));
    mba_tensor *b = PARAM(mba_arena_printf(g->arena, "%s.bias", name), MBA_INIT_CONST(0), MBA_NO_DECAY, mba_cols(x));
    return mba_batchnorm(g, .x = x, .w = w, .b = b, .name = name, .eps = eps, .momentum = 0.1, .train = s->c->train,
                         .relu = relu);
}

static mba_tensor *layernorm(mba_graph *g, mba_tensor *x, const char *name)
{
    mba_tensor *w = PARAM(mba_arena_printf(g->arena, "%s.weight", name), MBA_INIT_CONST(1), MBA_NO_DECAY, mba_cols(x));
    mba_tensor *b = PARAM(mba_arena_printf(g->arena, "%s.bias", name), MBA_INIT_CONST(0), MBA_NO_DECAY, mba_cols(x));
    return mba_layernorm(g, x, w, b, 1e-5f);
}

/* ---- stages 0 and 1 ---- */

static mba_tensor *conv_block(mba_graph *g, const site *s, mba_tensor *x)
{
    const int64_t C = mba_cols(x);
    mba_tensor   *r = conv(g, x, "conv1", C, 1, true);
    r = mba_gelu(g, batchnorm(g, s, r, "norm1", 1e-5, false), true);
    r = conv(g, r, "conv2", C, 1, true);
    r = batchnorm(g, s, r, "norm2", 1e-5, false);
    return join_branch(g, s, (branch){ "drop_a", x, r, NULL, x->type.dim[1] * x->type.dim[2] });
}

/* ---- stages 2 and 3 ---- */

/* Scans one half of the channels; the other half bypasses the scan. Both are convolved around their token first. */
mba_tensor *mba__vision_mixer(mba_graph *g, mba_tensor *x, mba__mixer_size s)
{
    const int64_t  C = mba_cols(x), D = C / 2, N = s.state, R = s.rank, W = s.conv;
    const mba_init tap = MBA_INIT_UNIFORM(1 / sqrt((double)W));
    mba_tensor    *A_log = PARAM("A_log", MBA_INIT_LOG_INDEX(), MBA_DECAY, D, N);
    mba_tensor    *skip = PARAM("D", MBA_INIT_CONST(1), MBA_NO_DECAY, D);
    mba_tensor    *p = linear(g, x, "in_proj", C, false);
    mba_tensor    *px = mba_slice(g, p, 2, 0, D), *pz = mba_slice(g, p, 2, D, D);
    mba_tensor    *u = mba_conv1d(g, .x = px, .w = PARAM("conv1d_x.weight", tap, MBA_DECAY, D, 1, W), .silu = true,
                                  .ahead = (W - 1) / 2 + (W - 1) % 2);
    mba_tensor    *q = mba_align_rows(g, linear(g, u, "x_proj", R + 2 * N, false));
    mba_tensor    *beta = PARAM("dt_proj.bias", MBA_INIT_CONST(0), MBA_NO_DECAY, D);
    // The bias enters twice: here, and as dt_bias.
    mba_tensor *delta = mba_bias(g, linear(g, mba_slice(g, q, 2, 0, R), "dt_proj", D, false), beta);
    mba_tensor *y = mba_selective_scan(g, .u = u, .delta = delta, .A_log = A_log, .B = mba_slice(g, q, 2, R, N),
                                       .C = mba_slice(g, q, 2, R + N, N), .D = skip, .dt_bias = beta);
    mba_tensor *z = mba_conv1d(g, .x = pz, .w = PARAM("conv1d_z.weight", tap, MBA_DECAY, D, 1, W), .silu = true,
                               .ahead = (W - 1) / 2 + (W - 1) % 2);
    return linear(g, mba_concat(g, y, z), "out_proj", C, false);
}

static mba_tensor *attention_mixer(mba_graph *g, mba_tensor *x, int64_t heads) // (windows, L, C)
{
    const int64_t B = x->type.dim[0], L = x->type.dim[1], C = mba_cols(x), P = C / heads;
    mba_tensor   *qkv = linear(g, x, "qkv", 3 * C, true), *part[3];
    for (int k = 0; k < 3; k++)
        part[k] = mba_reshape(g, mba_slice(g, qkv, 2, k * C, C), MBA_TYPE(MBA_F32, B, L, heads, P));
    mba_tensor *o = mba_attention(g, .q = part[0], .k = part[1], .v = part[2], .causal = false);
    return linear(g, mba_reshape(g, o, MBA_TYPE(MBA_F32, B, L, C)), "proj", C, true);
}

static mba_tensor *scale_of(mba_graph *g, const site *s, const char *name, int64_t C)
{
    return s->c->layer_scale > 0 ? PARAM(name, MBA_INIT_CONST(s->c->layer_scale), MBA_NO_DECAY, C) : NULL;
}

static mba_tensor *token_block(mba_graph *g, const site *s, mba_tensor *x, int64_t heads, bool scans)
{
    const int64_t         C = mba_cols(x), L = x->type.dim[1];
    const mba__mixer_size size = { .state = s->c->state, .rank = (C + 15) / 16, .conv = s->c->conv };
    mba_tensor           *gamma1 = scale_of(g, s, "gamma_1", C), *gamma2 = scale_of(g, s, "gamma_2", C);
    mba_tensor           *u = layernorm(g, x, "norm1");
    mba_enter(g, "mixer");
    mba_tensor *m = scans ? mba__vision_mixer(g, u, size) : attention_mixer(g, u, heads);
    mba_leave(g);
    x = join_branch(g, s, (branch){ "drop_a", x, m, gamma1, L });
    u = layernorm(g, x, "norm2");
    mba_enter(g, "mlp");
    m = linear(g, mba_gelu(g, linear(g, u, "fc1", s->c->mlp_ratio * C, true), false), "fc2", C, true);
    mba_leave(g);
    return join_branch(g, s, (branch){ "drop_b", x, m, gamma2, L });
}

/* ---- the network ---- */

static mba_tensor *stem(mba_graph *g, const site *s, mba_tensor *x)
{
    mba_enter(g, "patch_embed.conv_down");
    x = batchnorm(g, s, conv(g, x, "0", s->c->in_dim, 2, false), "1", 1e-4, true);
    x = batchnorm(g, s, conv(g, x, "3", s->c->dim, 2, false), "4", 1e-4, true);
    mba_leave(g);
    return x;
}

static mba_tensor *stage(mba_graph *g, site *s, mba_tensor *x, int i)
{
    const int64_t n = s->c->depths[i], B = x->type.dim[0], H = x->type.dim[1], W = x->type.dim[2];
    mba_enter(g, "levels.%d", i);
    if (i >= 2) x = mba_window_partition(g, x, s->c->windows[i]);
    for (int64_t j = 0; j < n; j++, s->block++) {
        mba_enter(g, "blocks.%d", (int)j);
        x = i < 2 ? conv_block(g, s, x) : token_block(g, s, x, s->c->heads[i], j < (n + 1) / 2);
        mba_leave(g);
    }
    if (i >= 2) x = mba_window_reverse(g, x, B, H, W);
    if (i < 3) x = conv(g, x, "downsample.reduction.0", 2 * mba_cols(x), 2, false);
    mba_leave(g);
    return x;
}

mba_vision_graph mba_vision_build(mba_graph *g, const mba_vision *c)
{
    mba_vision_graph o = { .images = mba_input(g, "images", MBA_TYPE(MBA_F32, c->batch, c->image, c->image, 3)) };
    site             s = { .c = c };
    for (int i = 0; i < MBA_STAGES; i++) s.blocks += (int)c->depths[i];
    mba_tensor *x = stem(g, &s, mba_cast(g, o.images, c->compute));
    for (int i = 0; i < MBA_STAGES; i++) x = stage(g, &s, x, i);
    x = mba_pool_mean(g, batchnorm(g, &s, x, "norm", 1e-5, false));
    o.logits = mba_cast(g, linear(g, x, "head", c->classes, true), MBA_F32); // the loss is fp32
    if (c->soft_targets) o.soft = mba_input(g, "soft", MBA_TYPE(MBA_F32, c->batch, c->classes));
    else o.labels = mba_targets(g, "labels", MBA_TYPE(MBA_I32, c->batch), c->classes);
    o.loss = c->soft_targets ? mba_soft_cross_entropy(g, o.logits, o.soft)
                             : mba_label_cross_entropy(g, o.logits, o.labels, c->smoothing);
    if (c->keep_logits) mba_result(g, "logits", o.logits);
    mba_result(g, "loss", o.loss);
    return o;
}

/* ---- sizes ---- */

// clang-format off
#define SIZE(title, width, stem_width, d0, d1, d2, d3, h0, scale, path, part)                        \
    { .name = (title), .dim = (width), .in_dim = (stem_width), .depths = { (d0), (d1), (d2), (d3) }, \
      .heads = { (h0), 2 * (h0), 4 * (h0), 8 * (h0) }, .layer_scale = (scale), .drop_path = (path), .crop = (part) }
// clang-format on

static const mba_vision presets[] = {
    SIZE("mambavision-t", 80, 32, 1, 3, 8, 4, 2, 0, 0.2, 1),
    SIZE("mambavision-t2", 80, 32, 1, 3, 11, 4, 2, 0, 0.2, 0.98),
    SIZE("mambavision-s", 96, 64, 3, 3, 7, 5, 2, 0, 0.2, 0.93),
    SIZE("mambavision-b", 128, 64, 3, 3, 10, 5, 2, 1e-5, 0.3, 1),
    SIZE("mambavision-l", 196, 64, 3, 3, 10, 5, 4, 1e-5, 0.3, 1),
    { .name = NULL },
};

const mba_vision *mba_vision_presets(void) { return presets; }

const mba_family mba_family_mambavision = {
    .name = "mambavision",
    .doc = "images: convolutions, then windows that are scanned and attended to",
    .task = MBA_TASK_IMAGES,
    .vision = presets,
};

// clang-format off
#define FIELD(name, kind, ...) { #name, MBA_FIELD_##kind, offsetof(mba_vision, name), __VA_ARGS__ }
// clang-format on
const mba_field mba_vision_fields[] = {
    FIELD(image, INT, .standard = 224, .least = 1, .meaning = "side of the images, in pixels"),
    FIELD(classes, INT, .standard = 1000, .meaning = "classes (0: those of the data)"),
    FIELD(dim, INT, .meaning = "channels of the first stage; each stage doubles them"),
    FIELD(in_dim, INT, .meaning = "channels inside the stem"),
    FIELD(depths, LIST, .count = MBA_STAGES, .meaning = "blocks of each stage"),
    FIELD(heads, LIST, .count = MBA_STAGES, .meaning = "attention heads of each stage (the last two count)"),
    FIELD(windows, LIST, .count = MBA_STAGES, .meaning = "side of the windows of each stage (0:0:14:7)"),
    FIELD(mlp_ratio, INT, .standard = 4, .least = 1, .meaning = "hidden width of the MLPs, in channels of the stage"),
    FIELD(state, INT, .standard = 8, .least = 1, .meaning = "state size of the scans, N"),
    FIELD(conv, INT, .standard = 3, .least = 1, .meaning = "width of the convolutions in front of the scans"),
    FIELD(layer_scale, REAL, .meaning = "where the scales of the branches start; 0: none"),
    FIELD(drop_path, REAL, .meaning = "chance of the last block to be skipped; it grows with the depth"),
    FIELD(crop, REAL, .standard = 0.875, .meaning = "part of a photograph's shorter side that evaluation sees"),
    FIELD(squash, BOOL, .meaning = "1: evaluation makes photographs square first, whatever their shape"),
    { 0 },
};
#undef FIELD

static void complete_numbers(mba_vision *c)
{
    if (!c->compute) c->compute = MBA_F32;
    if (!c->batch) c->batch = 1;
    if (!c->image) c->image = 224;
    if (!c->classes) c->classes = 1000;
    if (!c->mlp_ratio) c->mlp_ratio = 4;
    if (!c->state) c->state = 8;
    if (!c->conv) c->conv = 3;
    if (!c->windows[2]) c->windows[2] = 14;
    if (!c->windows[3]) c->windows[3] = 7;
}

/* Larger sizes are typing errors or hostile files. */
static mba_status check_ranges(const mba_vision *c)
{
    const struct {
        const char *name;
        int64_t     value, least, most;
    } range[] = {
        { "batch", c->batch, 1, MBA_FIELD_MOST },
        { "image", c->image, 1, 1 << 14 },
        { "classes", c->classes, 2, MBA_FIELD_MOST },
        { "dim", c->dim, 1, 1 << 16 },
        { "in_dim", c->in_dim, 1, 1 << 16 },
        { "mlp_ratio", c->mlp_ratio, 1, 256 },
        { "state", c->state, 1, 4096 },
        { "conv", c->conv, 1, 16 },
    };
    for (size_t i = 0; i < sizeof range / sizeof *range; i++)
        if (range[i].value < range[i].least || range[i].value > range[i].most)
            return mba_fail(
                MBA_E_ARG,
                "%s = %lld is not possible\nfix: choose a number from %lld to %lld; mambascope list fields explains it",
                range[i].name, (long long)range[i].value, (long long)range[i].least, (long long)range[i].most);
    if (!(c->drop_path >= 0 && c->drop_path < 1))
        return mba_fail(MBA_E_ARG, "drop_path must be at least 0 and below 1, not %g", c->drop_path);
    if (c->crop != 0 && !(c->crop >= 0.1 && c->crop <= 1))
        return mba_fail(MBA_E_ARG, "crop must be from 0.1 to 1, not %g", c->crop);
    if (!(c->layer_scale >= 0 && c->layer_scale <= 1e6))
        return mba_fail(MBA_E_ARG, "layer_scale must be 0 (none) or larger, not %g", c->layer_scale);
    return MBA_OK;
}

mba_status mba_vision_complete(mba_vision *c)
{
    enum { BLOCKS_MAX = 512 }; // a graph's arena holds so many
    int64_t blocks = 0;
    complete_numbers(c);
    MBA_TRY(check_ranges(c));
    for (int i = 0; i < MBA_STAGES; i++) {
        const int64_t C = c->dim << i;
        blocks += c->depths[i];
        if (c->depths[i] < 1 || c->depths[i] > BLOCKS_MAX || blocks > BLOCKS_MAX)
            return mba_fail(MBA_E_ARG,
                            "stage %d has %lld blocks\nfix: --set depths=.. with at least 1 each, at "
                            "most %d in all",
                            i, (long long)c->depths[i], BLOCKS_MAX);
        if (i >= 2 && (C % 2 || c->heads[i] < 1 || C % c->heads[i] || c->windows[i] < 1))
            return mba_fail(MBA_E_ARG,
                            "stage %d cannot have %lld channels, %lld heads and windows of "
                            "%lld\nwhy: channels must be even and divisible by the heads\nfix: --set "
                            "dim=..,heads=..,windows=..",
                            i, (long long)C, (long long)c->heads[i], (long long)c->windows[i]);
    }
    return MBA_OK;
}
