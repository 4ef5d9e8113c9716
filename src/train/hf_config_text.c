// SPDX-License-Identifier: Apache-2.0
/* hf_config_text.c -- reads the published config.json of language models (hf.h): one function per model type, and the
 * keys that they share. hf_config.c calls mba__hf_text_read once it knows the type. */
#include <math.h>
#include <string.h>

#include "data/array.h"
#include "train/hf_source.h"

/* ---- kinds of keys: the readers below take one line per key ---- */

static mba_status size(const mba_source *o, const char *key, int64_t standard, int64_t *out)
{
    if (!standard) MBA_TRY(mba__source_require(o, key));
    return mba__source_int(o, key, standard, 1, MBA_FIELD_MOST, out);
}

static mba_status flag(const mba_source *o, const char *key, bool standard, int64_t *out)
{
    bool v;
    MBA_TRY(mba__source_bool(o, key, standard, &v));
    *out = v;
    return MBA_OK;
}

static mba_status no_flag(const mba_source *o, const char *key, bool standard, int64_t *out)
{
    MBA_TRY(flag(o, key, standard, out));
    *out = !*out;
    return MBA_OK;
}

static mba_status must_be(const mba_source *o, const char *key, const char *wanted)
{
    const char *v;
    MBA_TRY(mba__source_text(o, key, wanted, &v));
    if (!strcmp(v, wanted) || (!strcmp(wanted, "silu") && !strcmp(v, "swish"))) return MBA_OK;
    return mba_fail(MBA_E_UNSUPPORTED,
                    "\"%s\" is \"%s\"\nwhy: only \"%s\" can be computed\n"
                    "fix: choose a checkpoint without it",
                    key, mba_quote(v).text, wanted);
}

static mba_status must_be_bool(const mba_source *o, const char *key, bool wanted)
{
    bool v;
    MBA_TRY(mba__source_bool(o, key, wanted, &v));
    return v == wanted ? MBA_OK
                       : mba_fail(MBA_E_UNSUPPORTED,
                                  "\"%s\" is %s\nwhy: only %s can be computed\n"
                                  "fix: choose a checkpoint with that",
                                  key, v ? "true" : "false", wanted ? "true" : "false");
}

/* Notes a key that acts only in training and is 0 in nearly all files. */
static mba_status only_zero_in_training(const mba_source *o, const char *key)
{
    double v;
    MBA_TRY(mba__source_real(o, key, 0, -1e12, 1e12, &v));
    if (v != 0) mba__source_note(o, "\"%s\" is %g in config.json; training here does without it", key, v);
    return MBA_OK;
}

/* Reads a number. *out keeps its value if the key is absent or "auto": the rank of Mamba-1's steps, the width of
 * heads. */
static mba_status number_or_auto(const mba_source *o, const char *key, int64_t *out)
{
    const json_t *v = mba__source_get(o, key);
    if (!v || (json_is_string(v) && !strcmp(json_string_value(v), "auto"))) return MBA_OK;
    return size(o, key, 0, out);
}

static mba_status epsilon(const mba_source *o, const char *key, double standard, double *out)
{
    return mba__source_real(o, key, standard, 1e-30, 1, out);
}

/* Reads "norm_groups". In transformers since 5.23 and in mamba_ssm, the gated norm has one group for each group of B
 * and C. The key is ours, for models of several groups that were trained with the norm over all channels; no class
 * reads it. A file without it and without the version of transformers is ambiguous: a note says so. */
static mba_status norm_groups(const mba_source *o, mba_lm *c)
{
    if (c->groups > 1 && !mba__source_get(o, "norm_groups") && !mba__source_get(o, "transformers_version"))
        mba__source_note(o,
                         "the gated norm has %lld groups, as in transformers since 5.23 and in mamba_ssm; a model that "
                         "an older mambascope trained with the norm over all channels needs \"norm_groups\": 1 in its "
                         "config.json",
                         (long long)c->groups);
    return size(o, "norm_groups", c->groups, &c->norm_groups);
}

/* Reads the limits of the step, [lo, hi], where hi may be infinite. */
static mba_status step_limits(const mba_source *o, const char *key, mba_lm *c)
{
    const json_t *pair = mba__source_get(o, key);
    double        hi = INFINITY;
    if (!pair) return MBA_OK;
    if (!json_is_array(pair) || json_array_size(pair) != 2 || !mba_json_number(json_array_get(pair, 0), &c->dt_min)
        || !mba_json_number(json_array_get(pair, 1), &hi) || !(c->dt_min >= 0) || !(hi >= c->dt_min && hi > 0))
        return mba_fail(MBA_E_FORMAT,
                        "\"%s\" is not a pair of numbers, the smaller first, the larger above 0\n"
                        "fix: correct it, or leave it out",
                        key);
    c->dt_max = isinf(hi) ? 0 : hi;
    return MBA_OK;
}

/* Refuses any scaling of positions. Older files call the kind "type". */
static mba_status plain_angles(const mba_source *r)
{
    MBA_TRY(must_be(r, "type", "default"));
    return must_be(r, "rope_type", "default");
}

/* Reads rotary settings: in rope_parameters, in older files at the top, and the scaling of positions in
 * rope_scaling. */
static mba_status rotary(const mba_source *o, mba_lm *c, double part_standard)
{
    const mba_source r = mba__source_within(o, "rope_parameters"), scaling = mba__source_within(o, "rope_scaling");
    double           part;
    MBA_TRY(plain_angles(&r));
    MBA_TRY(plain_angles(&scaling));
    MBA_TRY(mba__source_real(o, "partial_rotary_factor", part_standard, 0, 1, &part));
    if (!mba__source_get(&r, "partial_rotary_factor") && part != part_standard)
        return mba_fail(MBA_E_UNSUPPORTED,
                        "\"partial_rotary_factor\" is %g, outside of \"rope_parameters\"\n"
                        "why: transformers uses %g nevertheless\nfix: move it there, or leave it out",
                        part, part_standard);
    MBA_TRY(mba__source_real(&r, "partial_rotary_factor", part_standard, 0, 1, &part));
    MBA_TRY(mba__source_real(o, "rope_theta", 10000, 1, 1e12, &c->rope_base));
    MBA_TRY(mba__source_real(&r, "rope_theta", c->rope_base, 1, 1e12, &c->rope_base));
    const int64_t dims = (int64_t)(part * (double)c->attn_dim);
    c->rotary = (dims + 1) / 2 * 2;
    // The class has a pair for every even number below `dims`: if that is odd, one value more turns, by the same
    // angles.
    if (dims % 2) c->rope_base = pow(c->rope_base, (double)c->rotary / (double)dims);
    return MBA_OK;
}

/* Reads attention. `dim` is the class's default for the width of a head; 0: the model's width divided by its heads. The
 * default number of key and value heads is 8 in all three classes; null means as many as query heads. */
static mba_status attention(const mba_source *o, mba_lm *c, int64_t dim)
{
    MBA_TRY(size(o, "num_attention_heads", 32, &c->q_heads));
    const bool null = mba__source_null(o, "num_key_value_heads");
    MBA_TRY(size(o, "num_key_value_heads", null ? c->q_heads : 8, &c->kv_heads));
    MBA_TRY(size(o, "head_dim", dim ? dim : c->width >= c->q_heads ? c->width / c->q_heads : 1, &c->attn_dim));
    if (mba__source_get(o, "attention_head_dim")) MBA_TRY(size(o, "attention_head_dim", 0, &c->attn_dim));
    return flag(o, "attention_bias", false, &c->attn_bias);
}

/* Reads the padding token of Bamba and Jamba, whose look-ups give the embedding no gradient. Default 0; null: none. */
static mba_status padding(const mba_source *o, mba_lm *c)
{
    int64_t id;
    if (mba__source_null(o, "pad_token_id")) return MBA_OK;
    MBA_TRY(mba__source_int(o, "pad_token_id", 0, -MBA_FIELD_MOST, MBA_FIELD_MOST, &id));
    c->padding = 1 + (id < 0 ? id + c->vocab : id);
    return MBA_OK;
}

/* Builds the pattern of sub-layers: block(ctx, i) for every layer i. */
static mba_status repeat(mba_lm *c, int64_t layers, const char *(*block)(const void *ctx, int64_t i), const void *ctx)
{
    size_t n = 0;
    c->pattern[0] = 0;
    for (int64_t i = 0; i < layers; i++) {
        const char *b = block(ctx, i);
        if (n + strlen(b) + 1 > MBA_PATTERN_MAX)
            return mba_fail(MBA_E_UNSUPPORTED,
                            "%lld layers are too many\nwhy: at most %d sub-layers are "
                            "supported\nfix: choose a smaller checkpoint",
                            (long long)layers, MBA_PATTERN_MAX - 1);
        strcpy(c->pattern + n, b);
        n += strlen(b);
    }
    return MBA_OK;
}

/* ---- one function per model type ---- */

static mba_status read_mamba(mba_lm *c, const mba_source *o)
{
    int64_t expand;
    c->symbol = 'm';
    MBA_TRY(size(o, "hidden_size", 768, &c->width));
    MBA_TRY(size(o, "num_hidden_layers", 32, &c->layers));
    MBA_TRY(size(o, "vocab_size", 50280, &c->vocab));
    MBA_TRY(size(o, "expand", 2, &expand));
    MBA_TRY(size(o, "intermediate_size", expand * c->width, &c->inner));
    if (c->inner != expand * c->width)
        return mba_fail(MBA_E_FORMAT,
                        "\"intermediate_size\" is %lld, but \"expand\" x \"hidden_size\" is %lld\n"
                        "fix: correct one of them",
                        (long long)c->inner, (long long)(expand * c->width));
    MBA_TRY(size(o, "state_size", 16, &c->state));
    MBA_TRY(size(o, "conv_kernel", 4, &c->conv));
    MBA_TRY(number_or_auto(o, "time_step_rank", &c->dt_rank));
    MBA_TRY(flag(o, "use_bias", false, &c->bias));
    MBA_TRY(no_flag(o, "use_conv_bias", true, &c->no_conv_bias));
    MBA_TRY(no_flag(o, "tie_word_embeddings", true, &c->untied));
    MBA_TRY(epsilon(o, "layer_norm_epsilon", 1e-5, &c->eps));
    return must_be(o, "hidden_act", "silu");
}

static mba_status read_mamba2(mba_lm *c, const mba_source *o)
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
    return !s                                                        ? "?"
           : !strcmp(s, "linear_attention") || !strcmp(s, "mamba")   ? "M"
           : !strcmp(s, "full_attention") || !strcmp(s, "attention") ? "*"
           : !strcmp(s, "mlp")                                       ? "-"
                                                                     : "?";
}

static mba_status nemotron_pattern(mba_lm *c, const mba_source *o)
{
    const json_t *list = mba__source_get(o, "layers_block_type"), *other = mba__source_get(o, "layer_types");
    const char   *text;
    if (list && other && !json_equal(list, other))
        return mba_fail(MBA_E_FORMAT, "\"layers_block_type\" and \"layer_types\" contradict each other\n"
                                      "fix: keep the right one");
    if (!list) list = other;
    MBA_TRY(mba__source_text(o, "hybrid_override_pattern", NULL, &text));
    if (!list && !text)
        return mba_fail(MBA_E_FORMAT,
                        "\"layers_block_type\" and \"hybrid_override_pattern\" are both missing\nfix: add one of them");
    if (list && !json_is_array(list))
        return mba_fail(MBA_E_FORMAT, "\"layers_block_type\" is not a list\nfix: correct it");
    if (text && strlen(text) >= MBA_PATTERN_MAX)
        return mba_fail(MBA_E_UNSUPPORTED,
                        "a pattern of %zu sub-layers is too long\nwhy: at most %d are "
                        "supported\nfix: choose a smaller checkpoint",
                        strlen(text), MBA_PATTERN_MAX - 1);
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
                        "the layers \"%s\" are not supported\nwhy: only Mamba-2, attention and dense MLPs can "
                        "be computed\nfix: choose a checkpoint with only these",
                        mba_quote(c->pattern).text);
    int64_t layers;
    MBA_TRY(mba__source_int(o, "num_hidden_layers", (int64_t)strlen(c->pattern), 1, MBA_FIELD_MOST, &layers));
    return layers == (int64_t)strlen(c->pattern)
               ? MBA_OK
               : mba_fail(MBA_E_FORMAT, "\"num_hidden_layers\" is %lld, the pattern has %zu\nfix: correct one of them",
                          (long long)layers, strlen(c->pattern));
}

/* Returns the older name of a key if the file has it: transformers prefers it. */
static const char *renamed(const mba_source *o, const char *now, const char *before)
{
    return mba__source_get(o, before) ? before : now;
}

/* Reads limits of the step. Without "time_step_limit", the class of transformers keeps the step above time_step_min,
 * and its models were trained so; NVIDIA's code, whose files have the pattern as a string, does not. A limit that is
 * set is obeyed for files of both. */
static mba_status nemotron_steps(mba_lm *c, const mba_source *o)
{
    double floor;
    MBA_TRY(step_limits(o, renamed(o, "time_step_limit", "mamba_dt_limit"), c));
    MBA_TRY(mba__source_real(o, renamed(o, "time_step_min", "mamba_dt_min"), 0.001, 0, 1e6, &floor));
    if (c->dt_max > 0 || (c->dt_min > 0 && c->dt_min != floor))
        mba__source_note(o, "\"time_step_limit\" is obeyed, as in NVIDIA's code; transformers (5.23) ignores it in "
                            "nemotron_h and obeys \"time_step_min\" alone: its numbers differ");
    if (!mba__source_get(o, "hybrid_override_pattern") && !(c->dt_min > 0) && !(c->dt_max > 0)
        && floor > MBA_HF_NO_FLOOR)
        c->dt_min = floor;
    return MBA_OK;
}

static mba_status read_nemotron_h(mba_lm *c, const mba_source *o)
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
    MBA_TRY(flag(o, "use_bias", false, &c->bias)); // files also have "mamba_proj_bias", which no class obeys
    MBA_TRY(no_flag(o, renamed(o, "use_conv_bias", "mamba_conv_bias"), true, &c->no_conv_bias));
    MBA_TRY(no_flag(o, "tie_word_embeddings", false, &c->untied));
    MBA_TRY(epsilon(o, "layer_norm_epsilon", 1e-5, &c->eps));
    MBA_TRY(nemotron_steps(c, o));
    MBA_TRY(mba__source_absent(o, "sliding_window", "attention here sees everything"));
    MBA_TRY(only_zero_in_training(o, "attention_dropout"));
    MBA_TRY(only_zero_in_training(o, "hidden_dropout"));
    MBA_TRY(must_be(o, "mamba_hidden_act", "silu"));
    return must_be(o, "mlp_hidden_act", "relu2");
}

/* Reads the list of layers that have attention. NULL (absent or null) means none. */
static mba_status attention_layers(const mba_source *o, const char *key, const json_t **out)
{
    bool whole = true;
    *out = mba__source_get(o, key);
    for (size_t k = 0; k < json_array_size(*out); k++) whole &= json_is_integer(json_array_get(*out, k));
    if (!*out || (json_is_array(*out) && whole)) return MBA_OK;
    return mba_fail(MBA_E_FORMAT,
                    "\"%s\" is not a list of whole numbers\nwhy: it says which layers have attention\n"
                    "fix: correct it; without it, or with null, there are none",
                    key);
}

static bool listed(const json_t *list, int64_t i)
{
    for (size_t k = 0; k < json_array_size(list); k++)
        if (json_integer_value(json_array_get(list, k)) == i) return true;
    return false;
}

static const char *bamba_block(const void *ctx, int64_t i) { return listed(ctx, i) ? "*+" : "M+"; }

static mba_status read_bamba(mba_lm *c, const mba_source *o)
{
    int64_t       layers, expand;
    const json_t *where;
    c->paired = 1;
    MBA_TRY(attention_layers(o, "attn_layer_indices", &where));
    MBA_TRY(size(o, "hidden_size", 4096, &c->width));
    MBA_TRY(size(o, "num_hidden_layers", 32, &layers));
    MBA_TRY(size(o, "vocab_size", 128000, &c->vocab));
    MBA_TRY(repeat(c, layers, bamba_block, where));
    MBA_TRY(size(o, "mamba_n_heads", 128, &c->heads));
    MBA_TRY(size(o, "mamba_expand", 2, &expand));
    c->inner = expand * c->width;
    c->head_dim = c->inner / c->heads;
    MBA_TRY(number_or_auto(o, "mamba_d_head", &c->head_dim));
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
    MBA_TRY(only_zero_in_training(o, "attention_dropout"));
    MBA_TRY(only_zero_in_training(o, "z_loss_coefficient"));
    return must_be(o, "hidden_act", "silu");
}

typedef struct period {
    int64_t every, from;
} period;

static const char *jamba_block(const void *ctx, int64_t i)
{
    const period *p = ctx;
    return i % p->every == p->from ? "*+" : "m+";
}

/* Refuses mixtures of experts. Layers with i % period == offset have experts: none, if the offset is beyond the
 * last. */
static mba_status no_experts(const mba_source *o, int64_t layers)
{
    int64_t experts;
    period  p;
    MBA_TRY(mba__source_int(o, "num_experts", 16, 1, MBA_FIELD_MOST, &experts));
    MBA_TRY(size(o, "expert_layer_period", 2, &p.every));
    MBA_TRY(mba__source_int(o, "expert_layer_offset", 1, 0, MBA_FIELD_MOST, &p.from));
    if (experts == 1 || p.from >= p.every || p.from >= layers) return MBA_OK;
    return mba_fail(MBA_E_UNSUPPORTED,
                    "a mixture of %lld experts is not supported\nwhy: only dense Jamba "
                    "models can be computed\nfix: choose a dense checkpoint",
                    (long long)experts);
}

static mba_status read_jamba(mba_lm *c, const mba_source *o)
{
    int64_t layers, expand;
    period  p;
    c->paired = c->inner_norms = 1;
    MBA_TRY(size(o, "hidden_size", 4096, &c->width));
    MBA_TRY(size(o, "num_hidden_layers", 32, &layers));
    MBA_TRY(no_experts(o, layers));
    MBA_TRY(size(o, "vocab_size", 65536, &c->vocab));
    MBA_TRY(size(o, "attn_layer_period", 8, &p.every));
    MBA_TRY(mba__source_int(o, "attn_layer_offset", 4, 0, p.every - 1, &p.from));
    MBA_TRY(repeat(c, layers, jamba_block, &p));
    MBA_TRY(size(o, "mamba_expand", 2, &expand));
    c->inner = expand * c->width;
    MBA_TRY(size(o, "mamba_d_state", 16, &c->state));
    MBA_TRY(size(o, "mamba_d_conv", 4, &c->conv));
    MBA_TRY(number_or_auto(o, "mamba_dt_rank", &c->dt_rank));
    MBA_TRY(size(o, "intermediate_size", 14336, &c->mlp));
    MBA_TRY(attention(o, c, 0));
    MBA_TRY(padding(o, c));
    c->attn_bias = 0; // the class has none, whatever the file says
    MBA_TRY(flag(o, "mamba_proj_bias", false, &c->bias));
    MBA_TRY(no_flag(o, "mamba_conv_bias", true, &c->no_conv_bias));
    MBA_TRY(no_flag(o, "tie_word_embeddings", false, &c->untied));
    MBA_TRY(epsilon(o, "rms_norm_eps", 1e-6, &c->eps));
    MBA_TRY(mba__source_absent(o, "sliding_window", "attention here sees everything"));
    MBA_TRY(must_be_bool(o, "mamba_inner_layernorms", true));
    MBA_TRY(only_zero_in_training(o, "attention_dropout"));
    return must_be(o, "hidden_act", "silu");
}

/* mamba_ssm, the authors' own format: {"d_model", "n_layer", "vocab_size", "ssm_cfg": {"layer": "Mamba2", ..}, ..} */
typedef struct native {
    const json_t *attention;
    const char   *mixer;
    bool          mlp;
} native;

static const char *native_block(const void *ctx, int64_t i)
{
    const native *n = ctx;
    if (listed(n->attention, i)) return n->mlp ? "*+" : "*";
    return !strcmp(n->mixer, "Mamba2") ? (n->mlp ? "M+" : "M") : n->mlp ? "m+" : "m";
}

/* Reads "attn_cfg". Defaults are those of their class: biases in both projections, and attention that is not causal. */
static mba_status native_attention(mba_lm *c, const mba_source *a)
{
    int64_t out_bias, mlp;
    bool    causal;
    if (!strchr(c->pattern, '*')) return MBA_OK;
    MBA_TRY(size(a, "num_heads", 0, &c->q_heads));
    MBA_TRY(size(a, "num_heads_kv", c->q_heads, &c->kv_heads));
    MBA_TRY(size(a, "head_dim", c->width >= c->q_heads ? c->width / c->q_heads : 1, &c->attn_dim));
    MBA_TRY(mba__source_int(a, "rotary_emb_dim", 0, 0, MBA_FIELD_MOST, &c->rotary));
    MBA_TRY(mba__source_real(a, "rotary_emb_base", 10000, 1, 1e12, &c->rope_base));
    MBA_TRY(must_be_bool(a, "rotary_emb_interleaved", false));
    MBA_TRY(mba__source_absent(a, "softmax_scale", "only one over the root of head_dim can be computed"));
    MBA_TRY(mba__source_int(a, "mlp_dim", 0, 0, MBA_FIELD_MOST, &mlp));
    if (mlp) MBA_TRY(mba__source_absent(a, "mlp_dim", "an MLP inside of attention cannot be computed"));
    MBA_TRY(mba__source_bool(a, "causal", false, &causal));
    if (!causal)
        return mba_fail(MBA_E_UNSUPPORTED, "attention is not causal\nwhy: a language model must be causal, and "
                                           "mamba_ssm assumes false if \"causal\" is missing\n"
                                           "fix: choose a checkpoint with \"causal\": true in \"attn_cfg\"");
    MBA_TRY(mba__source_int(a, "d_conv", 0, 0, 16, &c->attn_conv));
    MBA_TRY(flag(a, "qkv_proj_bias", true, &c->attn_bias));
    MBA_TRY(flag(a, "out_proj_bias", true, &out_bias));
    if (out_bias == c->attn_bias) return MBA_OK;
    return mba_fail(MBA_E_UNSUPPORTED,
                    "\"qkv_proj_bias\" and \"out_proj_bias\" differ\nwhy: attention here has "
                    "biases in both projections or in none, and mamba_ssm assumes true if one is missing\n"
                    "fix: choose a checkpoint in which they are the same");
}

static mba_status native_ssm(mba_lm *c, const mba_source *ssm)
{
    const bool two = strchr(c->pattern, 'M') != NULL;
    int64_t    expand, inner;
    MBA_TRY(size(ssm, "expand", 2, &expand));
    c->inner = expand * c->width;
    MBA_TRY(size(ssm, "d_state", two ? 128 : 16, &c->state));
    MBA_TRY(size(ssm, "d_conv", 4, &c->conv));
    if (two) {
        MBA_TRY(size(ssm, "headdim", 64, &c->head_dim));
        MBA_TRY(size(ssm, "ngroups", 1, &c->groups));
        MBA_TRY(size(ssm, "chunk_size", 256, &c->chunk));
        MBA_TRY(step_limits(ssm, "dt_limit", c));
        MBA_TRY(must_be_bool(ssm, "norm_before_gate", false));
        MBA_TRY(must_be_bool(ssm, "rmsnorm", true));
        MBA_TRY(must_be_bool(ssm, "D_has_hdim", false));
        MBA_TRY(size(ssm, "d_ssm", c->inner, &inner));
        if (inner != c->inner) MBA_TRY(mba__source_absent(ssm, "d_ssm", "the SSM here has all channels"));
    } else {
        MBA_TRY(number_or_auto(ssm, "dt_rank", &c->dt_rank));
    }
    MBA_TRY(must_be(ssm, "activation", "silu"));
    MBA_TRY(flag(ssm, "bias", false, &c->bias));
    return no_flag(ssm, "conv_bias", true, &c->no_conv_bias);
}

static mba_status read_mamba_ssm(mba_lm *c, const mba_source *o)
{
    const mba_source ssm = mba__source_within(o, "ssm_cfg"), attention = mba__source_within(o, "attn_cfg");
    native           n;
    int64_t          layers, multiple, layer_norm;
    MBA_TRY(attention_layers(o, "attn_layer_idx", &n.attention));
    MBA_TRY(no_flag(o, "rms_norm", true, &layer_norm));
    if (layer_norm)
        return mba_fail(MBA_E_UNSUPPORTED, "\"rms_norm\" is false\nwhy: only RMS norms can be computed\n"
                                           "fix: choose a checkpoint with them");
    MBA_TRY(size(o, "d_model", 0, &c->width));
    MBA_TRY(size(o, "n_layer", 0, &layers));
    MBA_TRY(size(o, "vocab_size", 50277, &c->vocab));
    MBA_TRY(size(o, "pad_vocab_size_multiple", 8, &multiple));
    c->vocab = (c->vocab + multiple - 1) / multiple * multiple;
    MBA_TRY(mba__source_int(o, "d_intermediate", 0, 0, MBA_FIELD_MOST, &c->mlp));
    c->mlp = (c->mlp + 127) / 128 * 128; // as their GatedMLP rounds it
    c->paired = n.mlp = c->mlp > 0;
    MBA_TRY(mba__source_text(&ssm, "layer", "Mamba1", &n.mixer));
    if (strcmp(n.mixer, "Mamba1") && strcmp(n.mixer, "Mamba2"))
        return mba_fail(MBA_E_UNSUPPORTED,
                        "the layer \"%s\" of \"ssm_cfg\" is not supported\nwhy: only Mamba1 "
                        "and Mamba2 can be computed\nfix: choose a checkpoint with these",
                        mba_quote(n.mixer).text);
    MBA_TRY(repeat(c, layers, native_block, &n));
    MBA_TRY(native_ssm(c, &ssm));
    MBA_TRY(no_flag(o, "tie_embeddings", true, &c->untied));
    return native_attention(c, &attention);
}

mba_status mba__hf_text_read(mba_lm *c, mba_hf_format format, const mba_source *o)
{
    static mba_status (*const read[MBA_HF_FORMATS])(mba_lm *, const mba_source *) = {
        [MBA_HF_MAMBA] = read_mamba, [MBA_HF_MAMBA2] = read_mamba2, [MBA_HF_NEMOTRON_H] = read_nemotron_h,
        [MBA_HF_BAMBA] = read_bamba, [MBA_HF_JAMBA] = read_jamba,   [MBA_HF_MAMBA_SSM] = read_mamba_ssm,
    };
    mba_assert((unsigned)format < MBA_HF_FORMATS && read[format]);
    return read[format](c, o);
}
