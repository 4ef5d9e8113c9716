// SPDX-License-Identifier: Apache-2.0
/* hf_config_write.c -- writes config.json for the public model class that can express a model (hf.h), or in our format
 * if none can. hf_config.c reads them. */
#include <math.h>
#include <string.h>

#include "train/hf.h"
#include "train/hf_vision.h"

static bool only(const mba_lm *c, const char *symbols) { return strspn(c->pattern, symbols) == strlen(c->pattern); }
static bool has(const mba_lm *c, char symbol) { return strchr(c->pattern, symbol) != NULL; }

/* True if the attention blocks are those with i % every == from, which is all that Jamba's config can express. */
static bool periodic(const mba_lm *c, int64_t *every, int64_t *from)
{
    for (*every = 1; *every <= c->layers; (*every)++)
        for (*from = 0; *from < *every; (*from)++) {
            bool fits = true;
            for (int64_t i = 0; i < c->layers && fits; i++) fits = (c->pattern[2 * i] == '*') == (i % *every == *from);
            if (fits) return true;
        }
    return false;
}

/* The public format for a language model. No public class allows another number of groups in the gated norm than in the
 * SSD, so such models get our format. */
static mba_hf_format lm_format(const mba_lm *c)
{
    int64_t every, from;
    if (!c->paired && !c->inner_norms && only(c, "m") && c->inner % c->width == 0) return MBA_HF_MAMBA;
    if (has(c, 'M') && c->norm_groups != c->groups) return MBA_HF_OURS;
    if (!c->paired && only(c, "M") && c->inner % c->width == 0) return MBA_HF_MAMBA2;
    if (c->attn_conv) return MBA_HF_OURS;
    if (!c->paired && only(c, "M*-") && !c->rotary && !c->attn_bias) return MBA_HF_NEMOTRON_H;
    if (c->paired && only(c, "M*+") && c->inner % c->width == 0 && c->attn_dim * c->q_heads == c->width && c->rotary)
        return MBA_HF_BAMBA;
    if (c->paired && only(c, "m*+") && c->inner_norms && !c->eps_inner && !c->rotary && !c->attn_bias && !c->mlp_bias
        && c->inner % c->width == 0 && c->attn_dim * c->q_heads == c->width && periodic(c, &every, &from))
        return MBA_HF_JAMBA;
    return MBA_HF_OURS;
}

mba_hf_format mba_hf_format_for(const mba_model *m)
{
    if (m->task == MBA_TASK_TEXT) return lm_format(&m->lm);
    if (m->task == MBA_TASK_GRAPHS) return MBA_HF_GRAPH;
    return mba__hf_vision_fits(&m->vision) ? MBA_HF_VISION : MBA_HF_VISION_OURS;
}

static void put_int(json_t *o, const char *key, int64_t v) { json_object_set_new(o, key, json_integer(v)); }
static void put_real(json_t *o, const char *key, double v) { json_object_set_new(o, key, json_real(v)); }
static void put_bool(json_t *o, const char *key, bool v) { json_object_set_new(o, key, json_boolean(v)); }
static void put_text(json_t *o, const char *key, const char *v) { json_object_set_new(o, key, json_string(v)); }

static void put_limits(json_t *o, const mba_lm *c)
{
    json_t *pair = json_array();
    json_array_append_new(pair, json_real(c->dt_min));
    json_array_append_new(pair, c->dt_max > 0 ? json_real(c->dt_max) : json_pack("{s:s}", "__float__", "Infinity"));
    json_object_set_new(o, "time_step_limit", pair);
}

static void put_attention(json_t *o, const mba_lm *c)
{
    put_int(o, "num_attention_heads", c->q_heads ? c->q_heads : 1);
    put_int(o, "num_key_value_heads", c->kv_heads ? c->kv_heads : 1);
    put_bool(o, "attention_bias", c->attn_bias);
}

static void write_mamba(json_t *o, const mba_lm *c)
{
    put_int(o, "num_hidden_layers", c->layers);
    put_int(o, "expand", c->inner / c->width);
    put_int(o, "intermediate_size", c->inner);
    put_int(o, "state_size", c->state);
    put_int(o, "conv_kernel", c->conv);
    put_int(o, "time_step_rank", c->dt_rank);
    put_bool(o, "use_bias", c->bias);
    put_bool(o, "use_conv_bias", !c->no_conv_bias);
    put_real(o, "layer_norm_epsilon", c->eps);
    put_text(o, "hidden_act", "silu");
    put_bool(o, "residual_in_fp32", true);
}

/* Writes "norm_groups" if there are several, because files without it are ambiguous (see norm_groups in
 * hf_config_text.c). transformers keeps the key and computes the same without it. */
static void put_norm_groups(json_t *o, const mba_lm *c)
{
    if (c->groups > 1) put_int(o, "norm_groups", c->norm_groups);
}

static void write_mamba2(json_t *o, const mba_lm *c)
{
    write_mamba(o, c);
    put_int(o, "num_heads", c->heads);
    put_int(o, "head_dim", c->head_dim);
    put_int(o, "n_groups", c->groups);
    put_norm_groups(o, c);
    put_int(o, "chunk_size", c->chunk);
    put_limits(o, c);
}

/* Writes a size that is 0 if the model has no such sub-layers as 1: readers of these formats require a positive
 * number. */
static void put_size(json_t *o, const char *key, int64_t n) { put_int(o, key, n ? n : 1); }

static void write_nemotron_h(json_t *o, const mba_lm *c)
{
    json_t *list = json_array();
    for (const char *s = c->pattern; *s; s++)
        json_array_append_new(list, json_string(*s == 'M' ? "linear_attention" : *s == '*' ? "full_attention" : "mlp"));
    json_object_set_new(o, "layers_block_type", list);
    put_size(o, "mamba_num_heads", c->heads);
    put_int(o, "mamba_head_dim", c->head_dim);
    put_int(o, "ssm_state_size", c->state);
    put_int(o, "n_groups", c->groups);
    put_int(o, "conv_kernel", c->conv);
    put_int(o, "chunk_size", c->chunk);
    put_size(o, "intermediate_size", c->mlp);
    put_attention(o, c);
    put_size(o, "head_dim", c->attn_dim);
    put_bool(o, "mlp_bias", c->mlp_bias);
    put_bool(o, "use_bias", c->bias);
    put_bool(o, "mamba_proj_bias", c->bias);
    put_bool(o, "use_conv_bias", !c->no_conv_bias);
    put_text(o, "mlp_hidden_act", "relu2");
    put_text(o, "mamba_hidden_act", "silu");
    put_real(o, "layer_norm_epsilon", c->eps);
    put_bool(o, "residual_in_fp32", true);
    put_limits(o, c);
    put_real(o, "time_step_min", c->dt_min > 0 ? c->dt_min : MBA_HF_NO_FLOOR); // transformers obeys only this key
}

/* Writes the keys that Bamba and Jamba share. */
static void write_paired(json_t *o, const mba_lm *c)
{
    put_int(o, "num_hidden_layers", c->layers);
    put_int(o, "intermediate_size", c->mlp);
    put_int(o, "mamba_expand", c->inner / c->width);
    put_int(o, "mamba_d_state", c->state);
    put_int(o, "mamba_d_conv", c->conv);
    put_bool(o, "mamba_proj_bias", c->bias);
    put_bool(o, "mamba_conv_bias", !c->no_conv_bias);
    put_real(o, "rms_norm_eps", c->eps);
    put_text(o, "hidden_act", "silu");
    json_object_set_new(o, "pad_token_id", json_null()); // the default is token 0, which would not be trained
    put_attention(o, c);
}

/* Readers round factor x width down, and 30 / 44 x 44 is less than 30 in floating point: takes the next number up. */
static double rotary_factor(const mba_lm *c)
{
    const double width = (double)c->attn_dim, factor = (double)c->rotary / width;
    return factor * width < (double)c->rotary ? nextafter(factor, 1) : factor;
}

static void write_bamba(json_t *o, const mba_lm *c)
{
    json_t *where = json_array();
    for (int64_t i = 0; i < c->layers; i++)
        if (c->pattern[2 * i] == '*') json_array_append_new(where, json_integer(i));
    json_object_set_new(o, "attn_layer_indices", where);
    write_paired(o, c);
    put_size(o, "mamba_n_heads", c->heads);
    put_int(o, "mamba_d_head", c->head_dim);
    put_int(o, "mamba_n_groups", c->groups);
    put_norm_groups(o, c);
    put_int(o, "mamba_chunk_size", c->chunk);
    put_bool(o, "mlp_bias", c->mlp_bias);
    json_object_set_new(o, "rope_parameters",
                        json_pack("{s:f, s:f, s:s}", "rope_theta", c->rope_base, "partial_rotary_factor",
                                  rotary_factor(c), "rope_type", "default"));
    put_limits(o, c);
}

static void write_jamba(json_t *o, const mba_lm *c)
{
    int64_t    every = 1, from = 0;
    const bool fits = periodic(c, &every, &from);
    mba_assert(fits);
    write_paired(o, c);
    put_int(o, "attn_layer_period", every);
    put_int(o, "attn_layer_offset", from);
    put_int(o, "num_experts", 1);
    put_int(o, "mamba_dt_rank", c->dt_rank);
}

/* ---- ours ---- */

static json_t *list_json(const int64_t *v, int n)
{
    json_t *a = json_array();
    while (n > 0 && !v[n - 1]) n--; // missing entries are 0
    for (int i = 0; i < n; i++) json_array_append_new(a, json_integer(v[i]));
    return a;
}

static void write_fields(json_t *o, const mba_field *fields, const void *config)
{
    for (const mba_field *f = fields; f->name; f++) {
        const void *at = mba_field_at(config, f);
        switch (f->kind) {
        case MBA_FIELD_INT: put_int(o, f->name, *(const int64_t *)at); break;
        case MBA_FIELD_BOOL: put_bool(o, f->name, *(const bool *)at); break;
        case MBA_FIELD_REAL: put_real(o, f->name, *(const double *)at); break;
        case MBA_FIELD_LIST: json_object_set_new(o, f->name, list_json(at, f->count)); break;
        case MBA_FIELD_WORD: put_text(o, f->name, f->words[*(const int *)at]); break;
        default: put_text(o, f->name, at); break;
        }
    }
}

static void write_ours(json_t *o, const mba_lm *c) { write_fields(o, mba_lm_fields, c); }

static json_t *write_lm(const mba_lm *c, mba_hf_format format)
{
    static void (*const write[])(json_t *, const mba_lm *) = {
        write_ours, write_mamba, write_mamba2, write_nemotron_h, write_bamba, write_jamba, write_ours,
    };
    static const char *const class[] = {
        NULL, "MambaForCausalLM", "Mamba2ForCausalLM", "NemotronHForCausalLM", "BambaForCausalLM", "JambaForCausalLM",
        NULL
    };
    if (format == MBA_HF_MAMBA_SSM) format = lm_format(c);
    json_t *o = json_object();
    put_text(o, "model_type", mba_hf_type(format));
    if (class[format]) {
        json_object_set_new(o, "architectures", json_pack("[s]", class[format]));
        put_text(o, "dtype", "float32");
        put_int(o, "hidden_size", c->width);
        put_int(o, "vocab_size", c->vocab);
        put_bool(o, "tie_word_embeddings", !c->untied);
    }
    write[format](o, c);
    return o;
}

json_t *mba_hf_config_write(const mba_model *m, mba_hf_format format)
{
    if (m->task == MBA_TASK_TEXT) return write_lm(&m->lm, format);
    json_t *o = json_object();
    put_text(o, "model_type", mba_hf_type(format));
    if (format == MBA_HF_VISION) mba__hf_vision_write(o, &m->vision);
    else write_fields(o, mba_task_fields(m->task), m->task == MBA_TASK_IMAGES ? (const void *)&m->vision : &m->graph);
    return o;
}
