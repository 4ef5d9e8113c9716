// SPDX-License-Identifier: Apache-2.0
/* config_fuzz.c -- any bytes as a config.json: read, completed, built as a graph, written and read again. */
#include "fuzz.h"

#include "data/json.h"
#include "train/hf.h"

static bool is_small(const mba_lm *c)
{
    return c->width <= 256 && c->inner <= 512 && c->vocab <= 1000 && c->state <= 256 && c->mlp <= 512
           && c->q_heads * c->attn_dim <= 512 && strlen(c->pattern) <= 12 && c->dt_rank <= 512 && c->groups <= 64;
}

static bool is_small_vision(const mba_vision *c)
{
    int64_t blocks = 0;
    for (int i = 0; i < MBA_STAGES; i++) blocks += c->depths[i];
    return blocks <= 12 && c->dim <= 64 && c->in_dim <= 64 && c->image <= 64 && c->classes <= 1000 && c->mlp_ratio <= 8
           && c->state <= 64 && c->windows[2] <= 16 && c->windows[3] <= 16;
}

static bool is_small_graph(const mba_graphnet *c)
{
    return c->layers <= 4 && c->width <= 128 && c->state <= 64 && c->node_rows <= 1000 && c->edge_rows <= 1000
           && c->node_reals <= 1000 && c->edge_reals <= 1000 && c->pe_count <= 64 && c->outputs <= 1000
           && c->head_layers <= 8 && c->pre_layers <= 8;
}

/* Configurations that fit a small machine are built, so that shapes nobody thought of meet the operators. */
static void build(mba_model m, mba_hf_format format)
{
    static const mba_batch_shape few[MBA_TASKS] = { { .batch = 1, .length = 3 },
                                                    { .batch = 1 },
                                                    { .graphs = 1, .nodes = 3, .edges = 2 } };
    mba_graph                   *g;
    if (m.task == MBA_TASK_TEXT     ? !is_small(&m.lm)
        : m.task == MBA_TASK_IMAGES ? !is_small_vision(&m.vision)
                                    : !is_small_graph(&m.graph))
        return;
    mba_assert(mba_model_shape(&m, &few[m.task]) == MBA_OK);
    mba_assert(mba_graph_create(&g) == MBA_OK);
    const mba_model_graph o = mba_model_build(g, &m);
    if (mba_graph_status(g) == MBA_OK) mba_assert(mba_backward(g, o.loss) == MBA_OK);
    for (int32_t i = 0; i < g->ntensors && mba_graph_status(g) == MBA_OK; i++) {
        mba_hf_slice piece[MBA_HF_SLICES_MAX];
        if (!mba_is_param(g->tensors[i])) continue;
        const mba_hf_format formats[] = { format, mba_hf_format_for(&m),
                                          m.task == MBA_TASK_TEXT ? MBA_HF_OURS : format };
        for (int f = 0; f < 3; f++) {
            const int n = mba_hf_slices(piece, formats[f], &m, g->tensors[i]);
            int64_t   rows = 0;
            for (int k = 0; k < n; k++) rows += piece[k].rows;
            mba_assert(rows == g->tensors[i]->type.dim[0]);
        }
    }
    mba_graph_destroy(g);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    json_t       *config = NULL;
    mba_model     m, again;
    mba_hf_format format, same;
    if (mba_json_parse(&config, "fuzz", (const char *)bytes, n, NULL) != MBA_OK) return 0;
    mba_status st = mba_hf_config_read(&m, &format, config);
    if (st == MBA_OK) st = mba_model_complete(&m);
    json_decref(config);
    if (st != MBA_OK) {
        mba_assert(mba_message()[0]);
        return 0;
    }
    json_t *written = mba_hf_config_write(&m, mba_hf_format_for(&m));
    mba_assert(mba_hf_config_read(&again, &same, written) == MBA_OK && mba_model_complete(&again) == MBA_OK);
    const mba_model_sizes a = mba_model_sizes_of(&m), b = mba_model_sizes_of(&again);
    mba_assert(a.width == b.width && a.layers == b.layers && a.outputs == b.outputs);
    if (m.task == MBA_TASK_TEXT) mba_assert(!strcmp(m.lm.pattern, again.lm.pattern));
    json_decref(written);
    build(m, format);
    return 0;
}
