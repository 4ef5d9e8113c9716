// SPDX-License-Identifier: Apache-2.0
/* hf_names.c -- the names of parameters in published checkpoints, and how they are split into slices (hf.h). One
 * function per family: attention, gated MLPs, Bamba and Jamba, Graph-Mamba. */
#include <stdio.h>
#include <string.h>

#include "train/hf.h"

static void slice(mba_hf_slice *p, const mba_tensor *t, int64_t row, int64_t rows, const char *prefix, const char *name)
{
    mba_assert(row >= 0 && rows > 0 && row + rows <= t->type.dim[0]);
    *p = (mba_hf_slice){ .row = row, .rows = rows, .type = t->type };
    p->type.dim[0] = rows;
    const int n = snprintf(p->name, sizeof p->name, "%s%s", prefix, name);
    mba_assert(n > 0 && n < MBA_HF_NAME_MAX);
}

static int whole(mba_hf_slice *p, const mba_tensor *t, const char *prefix, const char *name)
{
    slice(p, t, 0, t->type.dim[0], prefix, name);
    return 1;
}

/* The last word of a name: ".weight" or ".bias" */
static const char *last_word(const char *name) { return strrchr(name, '.'); }

static int attention(mba_hf_slice *p, const mba_lm *c, const mba_tensor *t, const char *prefix, const char *rest)
{
    const int64_t q = c->q_heads * c->attn_dim, k = c->kv_heads * c->attn_dim;
    char          name[64];
    const char   *word = last_word(rest);
    if (!strncmp(rest, "out_proj.", 9)) {
        snprintf(name, sizeof name, "o_proj%s", word);
        return whole(p, t, prefix, name);
    }
    if (strncmp(rest, "in_proj.", 8)) return whole(p, t, prefix, rest);
    const struct {
        const char *name;
        int64_t     row, rows;
    } part[] = { { "q_proj", 0, q }, { "k_proj", q, k }, { "v_proj", q + k, k } };
    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "%s%s", part[i].name, word);
        slice(&p[i], t, part[i].row, part[i].rows, prefix, name);
    }
    return 3;
}

static int gated_mlp(mba_hf_slice *p, const mba_lm *c, const mba_tensor *t, const char *prefix, const char *rest)
{
    char        name[64];
    const char *word = last_word(rest);
    if (!strncmp(rest, "fc2.", 4)) {
        snprintf(name, sizeof name, "down_proj%s", word);
        return whole(p, t, prefix, name);
    }
    snprintf(name, sizeof name, "up_proj%s", word);
    slice(&p[0], t, 0, c->mlp, prefix, name);
    snprintf(name, sizeof name, "gate_proj%s", word);
    slice(&p[1], t, c->mlp, c->mlp, prefix, name);
    return 2;
}

/* Names of Bamba and Jamba: model.layers.I. */
static int paired(mba_hf_slice *p, const mba_lm *c, const mba_tensor *t, int layer, const char *rest)
{
    char       prefix[96];
    const bool attends = c->pattern[2 * layer] == '*';
    snprintf(prefix, sizeof prefix, "model.layers.%d.", layer);
    if (!strcmp(rest, "norm.weight")) return whole(p, t, prefix, "input_layernorm.weight");
    if (!strcmp(rest, "norm2.weight")) return whole(p, t, prefix, "pre_ff_layernorm.weight");
    if (!strncmp(rest, "mlp.", 4)) {
        strcat(prefix, "feed_forward.");
        return gated_mlp(p, c, t, prefix, rest + 4);
    }
    strcat(prefix, attends ? "self_attn." : "mamba.");
    return attends ? attention(p, c, t, prefix, rest + 6) : whole(p, t, prefix, rest + 6); // after "mixer."
}

static int lm_slices(mba_hf_slice out[MBA_HF_SLICES_MAX], mba_hf_format format, const mba_lm *c, const mba_tensor *t)
{
    int layer = 0, used = 0;
    if (sscanf(t->name, "backbone.layers.%d.%n", &layer, &used) == 1 && used) {
        const char *rest = t->name + used;
        if (format == MBA_HF_BAMBA || format == MBA_HF_JAMBA) return paired(out, c, t, layer, rest);
        if (format == MBA_HF_NEMOTRON_H && c->pattern[layer] == '*' && !strncmp(rest, "mixer.", 6)) {
            char prefix[96];
            snprintf(prefix, sizeof prefix, "backbone.layers.%d.mixer.", layer);
            return attention(out, c, t, prefix, rest + 6);
        }
        return whole(out, t, "", t->name);
    }
    if (format == MBA_HF_BAMBA || format == MBA_HF_JAMBA) {
        if (!strcmp(t->name, "backbone.embeddings.weight")) return whole(out, t, "model.", "embed_tokens.weight");
        if (!strcmp(t->name, "backbone.norm_f.weight")) return whole(out, t, "model.", "final_layernorm.weight");
    }
    if (format == MBA_HF_MAMBA_SSM && !strcmp(t->name, "backbone.embeddings.weight"))
        return whole(out, t, "backbone.", "embedding.weight");
    return whole(out, t, "", t->name);
}

/* ---- graphs: the names of the released code ---- */

/* Embedding tables that are stacked in one parameter: one slice for each. */
static int tables(mba_hf_slice *p, const mba_tensor *t, const int64_t *rows, const char *prefix)
{
    int     n = 0;
    int64_t row = 0;
    for (; n < MBA_TABLES_MAX && rows[n]; row += rows[n++]) {
        char name[32];
        snprintf(name, sizeof name, "%d.weight", n);
        slice(&p[n], t, row, rows[n], prefix, name);
    }
    return n;
}

/* Names of node_encoder.: for features alone, for features beside positions, and for features as linear_x of the
 * position encoder. */
static int node_encoder(mba_hf_slice *p, const mba_graphnet *c, const mba_tensor *t, const char *rest)
{
    const bool positions = c->pe_width > 0, alone = positions && c->pe_alone && c->node_reals;
    if (alone && !strncmp(rest, "encoder.", 8)) return whole(p, t, "encoder.node_encoder.linear_x.", rest + 8);
    if (alone) return whole(p, t, "encoder.node_encoder.", rest);
    if (!strncmp(rest, "embedding.", 10))
        return tables(p, t, c->node_tables,
                      positions ? "encoder.node_encoder.encoder1.atom_embedding_list."
                                : "encoder.node_encoder.atom_embedding_list.");
    if (!strncmp(rest, "encoder.", 8))
        return whole(p, t, positions ? "encoder.node_encoder.encoder1." : "encoder.node_encoder.", rest);
    return whole(p, t, "encoder.node_encoder.encoder2.", rest);
}

static int edge_encoder(mba_hf_slice *p, const mba_graphnet *c, const mba_tensor *t, const char *rest)
{
    if (strncmp(rest, "embedding.", 10)) return whole(p, t, "encoder.edge_encoder.", rest);
    if (!c->edge_tables[0]) return whole(p, t, "encoder.edge_encoder.encoder.", rest + 10);
    return tables(p, t, c->edge_tables, "encoder.edge_encoder.bond_embedding_list.");
}

/* Names of layers.I.local_model.: A, B, D and E are rows of one matrix. */
static int graph_layer(mba_hf_slice *p, const mba_graphnet *c, const mba_tensor *t)
{
    static const char letter[] = "ABDE";
    const char       *at = strstr(t->name, "local_model.ABDE.");
    if (!at) return whole(p, t, "", t->name);
    char prefix[96];
    snprintf(prefix, sizeof prefix, "%.*slocal_model.", (int)(at - t->name), t->name);
    for (int i = 0; i < 4; i++) {
        char name[32];
        snprintf(name, sizeof name, "%c%s", letter[i], last_word(t->name));
        slice(&p[i], t, i * c->width, c->width, prefix, name);
    }
    return 4;
}

static int graph_head(mba_hf_slice *p, const mba_graphnet *c, const mba_tensor *t, int layer)
{
    char prefix[96];
    if (layer + 1 < c->head_layers)
        snprintf(prefix, sizeof prefix, "post_mp.layer_post_mp.model.0.Layer_%d.layer.model", layer);
    else snprintf(prefix, sizeof prefix, "post_mp.layer_post_mp.model.%d.model", c->head_layers > 1);
    return whole(p, t, prefix, last_word(t->name));
}

static int graph_slices(mba_hf_slice *p, const mba_graphnet *c, const mba_tensor *t)
{
    char prefix[96];
    int  layer = 0, used = 0;
    if (!strncmp(t->name, "node_encoder.", 13)) return node_encoder(p, c, t, t->name + 13);
    if (!strncmp(t->name, "edge_encoder.", 13)) return edge_encoder(p, c, t, t->name + 13);
    if (!strncmp(t->name, "node_encoder_bn.", 16)) return whole(p, t, "encoder.node_encoder_bn.bn.", t->name + 16);
    if (sscanf(t->name, "post_mp.%d.%n", &layer, &used) == 1 && used) return graph_head(p, c, t, layer);
    if (sscanf(t->name, "pre_mp.%d.%n", &layer, &used) == 1 && used) {
        const bool norm = !strncmp(t->name + used, "bn.", 3);
        snprintf(prefix, sizeof prefix, "pre_mp.Layer_%d.%s", layer, norm ? "post_layer.0" : "layer.model");
        return whole(p, t, prefix, last_word(t->name));
    }
    return graph_layer(p, c, t);
}

int mba_hf_slices(mba_hf_slice out[MBA_HF_SLICES_MAX], mba_hf_format format, const mba_model *m, const mba_tensor *t)
{
    if (m->task == MBA_TASK_TEXT) return lm_slices(out, format, &m->lm, t);
    if (m->task == MBA_TASK_GRAPHS) return graph_slices(out, &m->graph, t);
    return whole(out, t, format == MBA_HF_VISION ? "model." : "", t->name); // on the Hub, a module wraps the model
}
