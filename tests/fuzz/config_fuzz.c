/* config_fuzz.c -- any bytes as a config.json: read, completed, built as a graph, written and read again. */
#include "fuzz.h"

#include "data/json.h"
#include "train/hf.h"

/* Configurations that fit a small machine are built, so that shapes nobody thought of meet the operators. */
static void build(mba_lm c, mba_hf_format format)
{
    mba_graph *g;
    if (c.width > 256 || c.inner > 512 || c.vocab > 1000 || c.state > 256 || c.mlp > 512 || c.q_heads * c.attn_dim > 512
        || strlen(c.pattern) > 12 || c.dt_rank > 512 || c.groups > 64) return;
    c.batch  = 1;
    c.length = 3;
    mba_assert(mba_graph_create(&g) == MBA_OK);
    const mba_lm_graph m = mba_lm_build(g, &c);
    if (mba_graph_status(g) == MBA_OK) mba_assert(mba_backward(g, m.loss) == MBA_OK);
    for (int32_t i = 0; i < g->ntensors && mba_graph_status(g) == MBA_OK; i++) {
        mba_piece piece[MBA_PIECES_MAX];
        if (!mba_is_param(g->tensors[i])) continue;
        const mba_hf_format formats[] = { format, mba_hf_format_for(&c), MBA_HF_OURS };
        for (int f = 0; f < 3; f++) {
            const int n = mba_hf_pieces(piece, formats[f], &c, g->tensors[i]);
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
    mba_lm        c, again;
    mba_hf_format format, same;
    if (mba_json_parse(&config, "fuzz", (const char *)bytes, n, NULL) != MBA_OK) return 0;
    mba_status st = mba_hf_config_read(&c, &format, config);
    if (st == MBA_OK) st = mba_lm_complete(&c);
    json_decref(config);
    if (st != MBA_OK) {
        mba_assert(mba_message()[0]);
        return 0;
    }
    json_t *written = mba_hf_config_write(&c, mba_hf_format_for(&c));
    mba_assert(mba_hf_config_read(&again, &same, written) == MBA_OK && mba_lm_complete(&again) == MBA_OK);
    mba_assert(!strcmp(c.pattern, again.pattern) && c.width == again.width && c.vocab == again.vocab);
    json_decref(written);
    build(c, format);
    return 0;
}
