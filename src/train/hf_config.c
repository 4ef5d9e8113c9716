/* hf_config.c -- config.json of every supported model type, read; hf_config_write.c writes them. */
#include <math.h>
#include <string.h>

#include "data/array.h"
#include "data/json.h"
#include "train/hf.h"

enum { MOST = 1 << 24 };

static const char *const types[] = {
#define X(format, type) type,
    MBA_HF_LIST(X)
#undef X
};

const char *mba_hf_type(mba_hf_format format) { return types[format]; }

/* ---- small words: one line per key below ---- */

static mba_status size(const json_t *o, const char *key, int64_t standard, int64_t *out)
{
    if (!standard) MBA_TRY(mba_json_require(o, key));
    return mba_json_int(o, key, standard, 1, MOST, out);
}

static mba_status flag(const json_t *o, const char *key, bool standard, int64_t *out)
{
    bool v;
    MBA_TRY(mba_json_bool(o, key, standard, &v));
    *out = v;
    return MBA_OK;
}

static mba_status no_flag(const json_t *o, const char *key, bool standard, int64_t *out)
{
    MBA_TRY(flag(o, key, standard, out));
    *out = !*out;
    return MBA_OK;
}

static mba_status must_be(const json_t *o, const char *key, const char *wanted)
{
    const char *v;
    MBA_TRY(mba_json_text(o, key, wanted, &v));
    if (!strcmp(v, wanted) || (!strcmp(wanted, "silu") && !strcmp(v, "swish"))) return MBA_OK;
    return mba_fail(MBA_E_UNSUPPORTED, "\"%s\" is \"%s\"\nwhy: only \"%s\" can be computed\n"
                    "fix: choose a checkpoint without it", key, mba_show(v).text, wanted);
}

static mba_status must_be_false(const json_t *o, const char *key)
{
    bool v;
    MBA_TRY(mba_json_bool(o, key, false, &v));
    return v ? mba_fail(MBA_E_UNSUPPORTED, "\"%s\" is true\nwhy: only false can be computed\n"
                        "fix: choose a checkpoint without it", key) : MBA_OK;
}

/* The rank of Mamba-1's steps: a number, or "auto", which is ours when it is not given. */
static mba_status step_rank(const json_t *o, const char *key, mba_lm *c)
{
    const json_t *rank = mba_json_get(o, key);
    if (!rank || (json_is_string(rank) && !strcmp(json_string_value(rank), "auto"))) return MBA_OK;
    return size(o, key, 0, &c->dt_rank);
}

static mba_status epsilon(const json_t *o, const char *key, double standard, double *out)
{
    return mba_json_real(o, key, standard, 1e-30, 1, out);
}

/* The gated norm has one group for each group of B and C, in transformers since 5.23 and in mamba_ssm. No class knows the
 * key "norm_groups": it is ours, for models of several groups that were trained with the norm over all channels. */
static mba_status norm_groups(const json_t *o, mba_lm *c)
{
    return size(o, "norm_groups", c->groups, &c->norm_groups);
}

/* [lo, hi], where hi may be infinite: limits of the step */
static mba_status step_limits(const json_t *o, const char *key, mba_lm *c)
{
    const json_t *pair = mba_json_get(o, key);
    double        hi = INFINITY;
    if (!pair) return MBA_OK;
    if (!json_is_array(pair) || json_array_size(pair) != 2 || !mba_json_number(json_array_get(pair, 0), &c->dt_min)
        || !mba_json_number(json_array_get(pair, 1), &hi) || !(c->dt_min >= 0) || !(hi >= c->dt_min && hi > 0))
        return mba_fail(MBA_E_FORMAT, "\"%s\" is not a pair of numbers, the smaller first, the larger above 0\n"
                        "fix: correct it, or leave it out", key);
    c->dt_max = isinf(hi) ? 0 : hi;
    return MBA_OK;
}

/* Angles as they are: no scaling of positions. The kind was once called "type". */
static mba_status plain_angles(const json_t *r)
{
    if (!r) return MBA_OK;
    MBA_TRY(must_be(r, "type", "default"));
    return must_be(r, "rope_type", "default");
}

/* Rotary settings stand in rope_parameters or, older, at the top, and what scales the positions in rope_scaling. */
static mba_status rotary(const json_t *o, mba_lm *c, double part_standard)
{
    const json_t *r = mba_json_get(o, "rope_parameters");
    double        part;
    MBA_TRY(plain_angles(r));
    MBA_TRY(plain_angles(mba_json_get(o, "rope_scaling")));
    MBA_TRY(mba_json_real(o, "partial_rotary_factor", part_standard, 0, 1, &part));
    if (!mba_json_get(r, "partial_rotary_factor") && part != part_standard)
        return mba_fail(MBA_E_UNSUPPORTED, "\"partial_rotary_factor\" is %g, outside of \"rope_parameters\"\n"
                        "why: transformers takes %g all the same\nfix: move it there, or leave it out", part,
                        part_standard);
    MBA_TRY(mba_json_real(r, "partial_rotary_factor", part_standard, 0, 1, &part));
    MBA_TRY(mba_json_real(mba_json_get(r, "rope_theta") ? r : o, "rope_theta", 10000, 1, 1e12, &c->rope_base));
    const int64_t dims = (int64_t)(part * (double)c->attn_dim);
    c->rotary = (dims + 1) / 2 * 2;
    /* The class has a pair for every even number below `dims`: an odd one turns one value more, by the same angles. */
    if (dims % 2) c->rope_base = pow(c->rope_base, (double)c->rotary / (double)dims);
    return MBA_OK;
}

/* `dim` is the standard of the class for the width of a head; 0: a share of the model's. Heads of keys and values that
 * are not given are 8 in all three classes; null means as many as there are queries. */
static mba_status attention(const json_t *o, mba_lm *c, int64_t dim)
{
    MBA_TRY(size(o, "num_attention_heads", 32, &c->q_heads));
    const bool null = json_is_null(json_object_get(o, "num_key_value_heads"));
    MBA_TRY(size(o, "num_key_value_heads", null ? c->q_heads : 8, &c->kv_heads));
    MBA_TRY(size(o, "head_dim", dim ? dim : c->width >= c->q_heads ? c->width / c->q_heads : 1, &c->attn_dim));
    if (mba_json_get(o, "attention_head_dim")) MBA_TRY(size(o, "attention_head_dim", 0, &c->attn_dim));
    return flag(o, "attention_bias", false, &c->attn_bias);
}

/* Bamba and Jamba: look-ups of this token give the embedding no gradient. By default 0; null: there is none. */
static mba_status padding(const json_t *o, mba_lm *c)
{
    int64_t id;
    if (json_is_null(json_object_get(o, "pad_token_id"))) return MBA_OK;
    MBA_TRY(mba_json_int(o, "pad_token_id", 0, -MOST, MOST, &id));
    c->padding = 1 + (id < 0 ? id + c->vocab : id);
    return MBA_OK;
}

static mba_status repeat(mba_lm *c, int64_t layers, const char *(*block)(const void *ctx, int64_t i), const void *ctx)
{
    size_t n = 0;
    c->pattern[0] = 0;
    for (int64_t i = 0; i < layers; i++) {
        const char *b = block(ctx, i);
        if (n + strlen(b) + 1 > MBA_PATTERN_MAX)
            return mba_fail(MBA_E_UNSUPPORTED, "%lld layers\nwhy: at most %d sub-layers\n"
                            "fix: choose a smaller checkpoint", (long long)layers, MBA_PATTERN_MAX - 1);
        strcpy(c->pattern + n, b);
        n += strlen(b);
    }
    return MBA_OK;
}

/* ---- one function per model type ---- */

static mba_status read_mamba(mba_lm *c, const json_t *o)
{
    int64_t expand;
    c->symbol = 'm';
    MBA_TRY(size(o, "hidden_size", 768, &c->width));
    MBA_TRY(size(o, "num_hidden_layers", 32, &c->layers));
    MBA_TRY(size(o, "vocab_size", 50280, &c->vocab));
    MBA_TRY(size(o, "expand", 2, &expand));
    MBA_TRY(size(o, "intermediate_size", expand * c->width, &c->inner));
    if (c->inner != expand * c->width)
        return mba_fail(MBA_E_FORMAT, "\"intermediate_size\" is %lld, but \"expand\" x \"hidden_size\" is %lld\n"
                        "fix: correct one of them", (long long)c->inner, (long long)(expand * c->width));
    MBA_TRY(size(o, "state_size", 16, &c->state));
    MBA_TRY(size(o, "conv_kernel", 4, &c->conv));
    MBA_TRY(step_rank(o, "time_step_rank", c));
    MBA_TRY(flag(o, "use_bias", false, &c->bias));
    MBA_TRY(no_flag(o, "use_conv_bias", true, &c->no_conv_bias));
    MBA_TRY(no_flag(o, "tie_word_embeddings", true, &c->untied));
    MBA_TRY(epsilon(o, "layer_norm_epsilon", 1e-5, &c->eps));
    return must_be(o, "hidden_act", "silu");
}

static mba_status read_mamba2(mba_lm *c, const json_t *o)
{
    int64_t expand;
    c->symbol = 'M';
    MBA_TRY(size(o, "hidden_size", 4096, &c->width));
    MBA_TRY(size(o, "num_hidden_layers", 64, &c->layers));
    MBA_TRY(size(o, "vocab_size", 32768, &c->vocab));
    MBA_TRY(size(o, "expand", 2, &expand));
    MBA_TRY(size(o, "head_dim", 64, &c->head_dim));
    MBA_TRY(size(o, "num_heads", 128, &c->heads));
    c->inner = expand * c->width;
    MBA_TRY(size(o, "state_size", 128, &c->state));
    MBA_TRY(size(o, "n_groups", 8, &c->groups));
    MBA_TRY(norm_groups(o, c));
    MBA_TRY(size(o, "conv_kernel", 4, &c->conv));
    MBA_TRY(size(o, "chunk_size", 256, &c->chunk));
    MBA_TRY(flag(o, "use_bias", false, &c->bias));
    MBA_TRY(no_flag(o, "use_conv_bias", true, &c->no_conv_bias));
    MBA_TRY(no_flag(o, "tie_word_embeddings", false, &c->untied));
    MBA_TRY(epsilon(o, "layer_norm_epsilon", 1e-5, &c->eps));
    MBA_TRY(step_limits(o, "time_step_limit", c));
    return must_be(o, "hidden_act", "silu");
}

static const char *nemotron_block(const void *ctx, int64_t i)
{
    const char *s = json_string_value(json_array_get(ctx, (size_t)i));
    return !s ? "?" : !strcmp(s, "linear_attention") || !strcmp(s, "mamba") ? "M"
         : !strcmp(s, "full_attention") || !strcmp(s, "attention") ? "*" : !strcmp(s, "mlp") ? "-" : "?";
}

static mba_status nemotron_pattern(mba_lm *c, const json_t *o)
{
    const json_t *list = mba_json_get(o, "layers_block_type");
    const char   *text;
    if (!list) list = mba_json_get(o, "layer_types");
    MBA_TRY(mba_json_text(o, "hybrid_override_pattern", NULL, &text));
    if (!list && !text)
        return mba_fail(MBA_E_FORMAT, "neither \"layers_block_type\" nor \"hybrid_override_pattern\"\nfix: add one");
    if (list && !json_is_array(list))
        return mba_fail(MBA_E_FORMAT, "\"layers_block_type\" is not a list\nfix: correct it");
    if (text && strlen(text) >= MBA_PATTERN_MAX)
        return mba_fail(MBA_E_UNSUPPORTED, "a pattern of %zu sub-layers\nwhy: at most %d\n"
                        "fix: choose a smaller checkpoint", strlen(text), MBA_PATTERN_MAX - 1);
    if (text) strcpy(c->pattern, text);
    if (list) {
        mba_lm from_list = *c;
        MBA_TRY(repeat(&from_list, (int64_t)json_array_size(list), nemotron_block, list));
        if (text && strcmp(text, from_list.pattern))
            return mba_fail(MBA_E_FORMAT,
                            "\"hybrid_override_pattern\" and \"layers_block_type\" contradict each other\n"
                            "fix: keep the right one");
        strcpy(c->pattern, from_list.pattern);
    }
    if (strspn(c->pattern, "M*-") != strlen(c->pattern) || !c->pattern[0])
        return mba_fail(MBA_E_UNSUPPORTED,
                        "the layers \"%s\"\nwhy: only Mamba-2, attention and dense MLPs can be computed\n"
                        "fix: choose a checkpoint of these alone", mba_show(c->pattern).text);
    int64_t layers;
    MBA_TRY(mba_json_int(o, "num_hidden_layers", (int64_t)strlen(c->pattern), 1, MOST, &layers));
    return layers == (int64_t)strlen(c->pattern) ? MBA_OK
         : mba_fail(MBA_E_FORMAT, "\"num_hidden_layers\" is %lld, the pattern has %zu\nfix: correct one of them",
                    (long long)layers, strlen(c->pattern));
}

/* The older name of a key, where a file has that: transformers takes it first. */
static const char *renamed(const json_t *o, const char *now, const char *before)
{
    return mba_json_get(o, before) ? before : now;
}

/* transformers' own class keeps the step above time_step_min where no limit is set, and so were its models trained;
 * NVIDIA's code, whose files have the pattern as a text, does not. (A limit that is set is obeyed in both.) */
static mba_status nemotron_steps(mba_lm *c, const json_t *o)
{
    double floor;
    MBA_TRY(step_limits(o, renamed(o, "time_step_limit", "mamba_dt_limit"), c));
    MBA_TRY(mba_json_real(o, renamed(o, "time_step_min", "mamba_dt_min"), 0.001, 0, 1e6, &floor));
    if (!mba_json_get(o, "hybrid_override_pattern") && !(c->dt_min > 0) && !(c->dt_max > 0) && floor > MBA_HF_NO_FLOOR)
        c->dt_min = floor;
    return MBA_OK;
}

static mba_status read_nemotron_h(mba_lm *c, const json_t *o)
{
    MBA_TRY(nemotron_pattern(c, o));
    MBA_TRY(size(o, "hidden_size", 4096, &c->width));
    MBA_TRY(size(o, "vocab_size", 131072, &c->vocab));
    MBA_TRY(size(o, "mamba_num_heads", 128, &c->heads));
    MBA_TRY(size(o, "mamba_head_dim", 64, &c->head_dim));
    c->inner = c->heads * c->head_dim;
    MBA_TRY(size(o, "ssm_state_size", 128, &c->state));
    MBA_TRY(size(o, renamed(o, "n_groups", "mamba_n_groups"), 8, &c->groups));
    MBA_TRY(size(o, renamed(o, "conv_kernel", "mamba_d_conv"), 4, &c->conv));
    MBA_TRY(size(o, renamed(o, "chunk_size", "mamba_chunk_size"), 128, &c->chunk));
    MBA_TRY(size(o, "intermediate_size", 21504, &c->mlp));
    MBA_TRY(attention(o, c, 128));
    MBA_TRY(flag(o, "mlp_bias", false, &c->mlp_bias));
    MBA_TRY(flag(o, "use_bias", false, &c->bias));   // "mamba_proj_bias" is written beside it, and obeyed by nobody
    MBA_TRY(no_flag(o, renamed(o, "use_conv_bias", "mamba_conv_bias"), true, &c->no_conv_bias));
    MBA_TRY(no_flag(o, "tie_word_embeddings", false, &c->untied));
    MBA_TRY(epsilon(o, "layer_norm_epsilon", 1e-5, &c->eps));
    MBA_TRY(nemotron_steps(c, o));
    if (mba_json_get(o, "sliding_window"))
        return mba_fail(MBA_E_UNSUPPORTED, "\"sliding_window\" is set\nwhy: attention here sees everything\n"
                        "fix: choose a checkpoint without it");
    MBA_TRY(must_be(o, "mamba_hidden_act", "silu"));
    return must_be(o, "mlp_hidden_act", "relu2");
}

static const char *bamba_block(const void *ctx, int64_t i)
{
    for (size_t k = 0; k < json_array_size(ctx); k++)
        if (json_integer_value(json_array_get(ctx, k)) == i) return "*+";
    return "M+";
}

static mba_status read_bamba(mba_lm *c, const json_t *o)
{
    int64_t       layers, expand;
    const json_t *where = mba_json_get(o, "attn_layer_indices");
    c->paired = 1;
    MBA_TRY(size(o, "hidden_size", 4096, &c->width));
    MBA_TRY(size(o, "num_hidden_layers", 32, &layers));
    MBA_TRY(size(o, "vocab_size", 128000, &c->vocab));
    MBA_TRY(repeat(c, layers, bamba_block, where));
    MBA_TRY(size(o, "mamba_n_heads", 128, &c->heads));
    MBA_TRY(size(o, "mamba_expand", 2, &expand));
    c->inner = expand * c->width;
    c->head_dim = c->inner / c->heads;
    if (!(json_is_string(mba_json_get(o, "mamba_d_head")))) MBA_TRY(size(o, "mamba_d_head", c->head_dim, &c->head_dim));
    MBA_TRY(size(o, "mamba_d_state", 256, &c->state));
    MBA_TRY(size(o, "mamba_n_groups", 1, &c->groups));
    MBA_TRY(norm_groups(o, c));
    MBA_TRY(size(o, "mamba_d_conv", 4, &c->conv));
    MBA_TRY(size(o, "mamba_chunk_size", 256, &c->chunk));
    MBA_TRY(size(o, "intermediate_size", 14336, &c->mlp));
    MBA_TRY(attention(o, c, 0));
    MBA_TRY(rotary(o, c, 0.5));
    MBA_TRY(padding(o, c));
    MBA_TRY(flag(o, "mlp_bias", false, &c->mlp_bias));
    MBA_TRY(flag(o, "mamba_proj_bias", false, &c->bias));
    MBA_TRY(no_flag(o, "mamba_conv_bias", true, &c->no_conv_bias));
    MBA_TRY(no_flag(o, "tie_word_embeddings", false, &c->untied));
    MBA_TRY(epsilon(o, "rms_norm_eps", 1e-5, &c->eps));
    MBA_TRY(step_limits(o, "time_step_limit", c));
    return must_be(o, "hidden_act", "silu");
}

typedef struct period { int64_t every, from; } period;

static const char *jamba_block(const void *ctx, int64_t i)
{
    const period *p = ctx;
    return i % p->every == p->from ? "*+" : "m+";
}

/* Experts stand in the layers i % period == offset: in none, where the offset lies behind the last. */
static mba_status no_experts(const json_t *o, int64_t layers)
{
    int64_t experts;
    period  p;
    MBA_TRY(mba_json_int(o, "num_experts", 16, 1, MOST, &experts));
    MBA_TRY(size(o, "expert_layer_period", 2, &p.every));
    MBA_TRY(mba_json_int(o, "expert_layer_offset", 1, 0, MOST, &p.from));
    if (experts == 1 || p.from >= p.every || p.from >= layers) return MBA_OK;
    return mba_fail(MBA_E_UNSUPPORTED, "a mixture of %lld experts\nwhy: only dense Jamba models can be computed\n"
                    "fix: choose a dense checkpoint", (long long)experts);
}

static mba_status read_jamba(mba_lm *c, const json_t *o)
{
    int64_t layers, expand;
    period  p;
    c->paired = c->inner_norms = 1;
    MBA_TRY(size(o, "hidden_size", 4096, &c->width));
    MBA_TRY(size(o, "num_hidden_layers", 32, &layers));
    MBA_TRY(no_experts(o, layers));
    MBA_TRY(size(o, "vocab_size", 65536, &c->vocab));
    MBA_TRY(size(o, "attn_layer_period", 8, &p.every));
    MBA_TRY(mba_json_int(o, "attn_layer_offset", 4, 0, p.every - 1, &p.from));
    MBA_TRY(repeat(c, layers, jamba_block, &p));
    MBA_TRY(size(o, "mamba_expand", 2, &expand));
    c->inner = expand * c->width;
    MBA_TRY(size(o, "mamba_d_state", 16, &c->state));
    MBA_TRY(size(o, "mamba_d_conv", 4, &c->conv));
    MBA_TRY(step_rank(o, "mamba_dt_rank", c));
    MBA_TRY(size(o, "intermediate_size", 14336, &c->mlp));
    MBA_TRY(attention(o, c, 0));
    MBA_TRY(padding(o, c));
    c->attn_bias = 0;                             // the class has none, whatever a file says
    MBA_TRY(flag(o, "mamba_proj_bias", false, &c->bias));
    MBA_TRY(no_flag(o, "mamba_conv_bias", true, &c->no_conv_bias));
    MBA_TRY(no_flag(o, "tie_word_embeddings", false, &c->untied));
    MBA_TRY(epsilon(o, "rms_norm_eps", 1e-6, &c->eps));
    return must_be(o, "hidden_act", "silu");
}

/* The authors' own files: {"d_model", "n_layer", "vocab_size", "ssm_cfg": {"layer": "Mamba2", ..}, ..} */
static const char *mamba_ssm_block(const void *ctx, int64_t i)
{
    const json_t *o = ctx, *where = mba_json_get(o, "attn_layer_idx");
    const json_t *layer = mba_json_get(mba_json_get(o, "ssm_cfg"), "layer");
    const bool    mlp = json_integer_value(mba_json_get(o, "d_intermediate")) > 0;
    const bool    two = layer && json_is_string(layer) && !strcmp(json_string_value(layer), "Mamba2");
    for (size_t k = 0; k < json_array_size(where); k++)
        if (json_integer_value(json_array_get(where, k)) == i) return mlp ? "*+" : "*";
    return two ? (mlp ? "M+" : "M") : mlp ? "m+" : "m";
}

static mba_status mamba_ssm_attention(mba_lm *c, const json_t *a)
{
    if (!a || !json_object_size(a)) return MBA_OK;
    MBA_TRY(size(a, "num_heads", 0, &c->q_heads));
    MBA_TRY(size(a, "num_heads_kv", c->q_heads, &c->kv_heads));
    MBA_TRY(size(a, "head_dim", c->width >= c->q_heads ? c->width / c->q_heads : 1, &c->attn_dim));
    MBA_TRY(mba_json_int(a, "rotary_emb_dim", 0, 0, MOST, &c->rotary));
    MBA_TRY(mba_json_real(a, "rotary_emb_base", 10000, 1, 1e12, &c->rope_base));
    MBA_TRY(must_be_false(a, "rotary_emb_interleaved"));
    if (json_is_false(mba_json_get(a, "causal")))
        return mba_fail(MBA_E_UNSUPPORTED, "attention is not causal\nwhy: a language model does not see what comes\n"
                        "fix: choose a checkpoint with \"causal\": true");
    MBA_TRY(mba_json_int(a, "d_conv", 0, 0, 16, &c->attn_conv));
    return flag(a, "qkv_proj_bias", false, &c->attn_bias);
}

static mba_status read_mamba_ssm(mba_lm *c, const json_t *o)
{
    const json_t *ssm = mba_json_get(o, "ssm_cfg");
    int64_t       layers, multiple, expand, layer_norm;
    MBA_TRY(no_flag(o, "rms_norm", true, &layer_norm));
    if (layer_norm) return mba_fail(MBA_E_UNSUPPORTED, "\"rms_norm\" is false\nwhy: only RMS norms can be computed\n"
                                    "fix: choose a checkpoint with them");
    MBA_TRY(size(o, "d_model", 0, &c->width));
    MBA_TRY(size(o, "n_layer", 0, &layers));
    MBA_TRY(size(o, "vocab_size", 50277, &c->vocab));
    MBA_TRY(size(o, "pad_vocab_size_multiple", 8, &multiple));
    c->vocab = (c->vocab + multiple - 1) / multiple * multiple;
    MBA_TRY(mba_json_int(o, "d_intermediate", 0, 0, MOST, &c->mlp));
    c->paired = c->mlp > 0;
    MBA_TRY(repeat(c, layers, mamba_ssm_block, o));
    MBA_TRY(size(ssm, "expand", 2, &expand));
    c->inner = expand * c->width;
    MBA_TRY(size(ssm, "d_state", strchr(c->pattern, 'M') ? 128 : 16, &c->state));
    MBA_TRY(size(ssm, "d_conv", 4, &c->conv));
    MBA_TRY(size(ssm, "headdim", 64, &c->head_dim));
    MBA_TRY(size(ssm, "ngroups", 1, &c->groups));
    MBA_TRY(size(ssm, "chunk_size", 256, &c->chunk));
    MBA_TRY(step_rank(ssm, "dt_rank", c));
    MBA_TRY(flag(ssm, "bias", false, &c->bias));
    MBA_TRY(no_flag(ssm, "conv_bias", true, &c->no_conv_bias));
    MBA_TRY(step_limits(ssm, "dt_limit", c));
    MBA_TRY(must_be_false(ssm, "norm_before_gate"));
    MBA_TRY(must_be(ssm, "activation", "silu"));
    MBA_TRY(no_flag(o, "tie_embeddings", true, &c->untied));
    return mamba_ssm_attention(c, mba_json_get(o, "attn_cfg"));
}

/* ---- ours: every field by its name ---- */

static mba_status read_list(const json_t *o, const mba_field *f, int64_t *to)
{
    const json_t *list = mba_json_get(o, f->name);
    if (!list) return MBA_OK;
    if (!json_is_array(list) || json_array_size(list) > (size_t)f->count)
        return mba_fail(MBA_E_FORMAT, "\"%s\" is not a list of at most %d numbers\nfix: correct it", f->name, f->count);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *v = json_array_get(list, i);
        if (!json_is_integer(v) || json_integer_value(v) < 0 || json_integer_value(v) > MOST)
            return mba_fail(MBA_E_FORMAT, "entry %zu of \"%s\" is not a number between 0 and %d\nfix: correct it",
                            i, f->name, MOST);
        to[i] = json_integer_value(v);
    }
    return MBA_OK;
}

static mba_status read_words(const json_t *o, const mba_field *f, void *to)
{
    const char *text;
    MBA_TRY(mba_json_text(o, f->name, f->kind == MBA_FIELD_WORD ? f->words[0] : "", &text));
    if (f->kind == MBA_FIELD_TEXT) {
        if (strlen(text) >= (size_t)f->count)
            return mba_fail(MBA_E_FORMAT, "\"%s\" has %zu letters\nfix: at most %d", f->name, strlen(text),
                            f->count - 1);
        strcpy(to, text);
        return MBA_OK;
    }
    *(int *)to = mba_field_word(f, text, strlen(text));
    if (*(int *)to >= 0) return MBA_OK;
    return mba_fail(MBA_E_FORMAT, "\"%s\" is \"%s\"\nwhy: %s\nfix: correct it", f->name, mba_show(text).text,
                    f->meaning);
}

static mba_status read_fields(void *config, const mba_field *fields, const json_t *o)
{
    for (const mba_field *f = fields; f->name; f++) {
        void *to = mba_field_at(config, f);
        switch (f->kind) {
        case MBA_FIELD_INT:  MBA_TRY(mba_json_int(o, f->name, 0, 0, MOST, to)); break;
        case MBA_FIELD_BOOL: MBA_TRY(mba_json_bool(o, f->name, false, to)); break;
        case MBA_FIELD_REAL: MBA_TRY(mba_json_real(o, f->name, 0, 0, 1e12, to)); break;
        case MBA_FIELD_LIST: MBA_TRY(read_list(o, f, to)); break;
        default:             MBA_TRY(read_words(o, f, to)); break;
        }
    }
    return MBA_OK;
}

static mba_status read_ours(mba_lm *c, const json_t *o)
{
    MBA_TRY(mba_json_require(o, "pattern"));
    return read_fields(c, mba_lm_fields, o);
}

static mba_status read_model(mba_model *m, mba_hf_format format, const json_t *config)
{
    static mba_status (*const read[])(mba_lm *, const json_t *) = {
        read_ours, read_mamba, read_mamba2, read_nemotron_h, read_bamba, read_jamba, read_mamba_ssm,
    };
    m->task = format == MBA_HF_VISION ? MBA_TASK_IMAGES : format == MBA_HF_GRAPH ? MBA_TASK_GRAPHS : MBA_TASK_TEXT;
    switch (m->task) {
    case MBA_TASK_TEXT:   return read[format](&m->lm, config);
    case MBA_TASK_IMAGES: return read_fields(&m->vision, mba_vision_fields, config);
    default:         m->graph.graphs = m->graph.nodes = m->graph.edges = 1;        // a file says nothing about batches
                     return read_fields(&m->graph, mba_graphnet_fields, config);
    }
}

/* A file without "model_type" may still name its class: "architectures": ["MambaForCausalLM"]. */
static const char *type_of_class(const json_t *config)
{
    static const char *const known[][2] = { { "Mamba", "mamba" }, { "Mamba2", "mamba2" }, { "NemotronH", "nemotron_h" },
                                            { "Bamba", "bamba" }, { "Jamba", "jamba" } };
    const char *name = json_string_value(json_array_get(mba_json_get(config, "architectures"), 0));
    for (size_t i = 0; name && i < sizeof known / sizeof *known; i++) {
        const size_t n = strlen(known[i][0]);
        if (!strncmp(name, known[i][0], n) && (!strcmp(name + n, "ForCausalLM") || !strcmp(name + n, "Model")))
            return known[i][1];
    }
    return NULL;
}

mba_status mba_hf_config_read(mba_model *m, mba_hf_format *format, const json_t *config)
{
    const char *type;
    *m = (mba_model){ 0 };
    MBA_TRY(mba_json_text(config, "model_type", NULL, &type));
    if (!type && mba_json_get(config, "d_model")) type = types[MBA_HF_MAMBA_SSM];
    if (!type && mba_json_get(config, "in_dim") && mba_json_get(config, "depths")) type = types[MBA_HF_VISION];
    if (!type) type = type_of_class(config);
    for (int f = 0; type && f < MBA_HF_FORMATS; f++)
        if (!strcmp(type, types[f])) {
            *format = (mba_hf_format)f;
            return read_model(m, *format, config);
        }
    if (!type)
        return mba_fail(MBA_E_FORMAT, "no \"model_type\"\nwhy: nothing says which model this is\nfix: add it");
    return mba_fail(MBA_E_UNSUPPORTED,
                    "the model type \"%s\"\n"
                    "why: known are mamba, mamba2, nemotron_h, bamba, jamba, mambavision, graphmamba and mambascope\n"
                    "fix: choose a checkpoint of one of them", mba_show(type).text);
}
