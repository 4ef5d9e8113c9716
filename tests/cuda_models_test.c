// SPDX-License-Identifier: Apache-2.0
/* cuda_models_test.c -- every kind of model builds, differentiates and has a plan for the GPU, in fp32 and in bf16; no
 * GPU is needed for that. */
#include "tests/test.h"

#include "core/program.h"
#include "models/model.h"
#include "ops/adamw/adamw.h"
#include "ops/ema/ema.h"
#include "ops/lamb/lamb.h"
#include "tests/machines.h"

typedef struct how {
    mba_dtype compute;
    bool      train, recompute;
} how;

static mba_status append_step(mba_graph *g, mba_task task, mba_tensor *loss)
{
    MBA_TRY(mba_backward(g, loss));
    if (task == MBA_TASK_IMAGES) {
        const mba_lamb_options o = mba_lamb_defaults();
        mba_lamb_all(g, &o);
        mba_ema_all(g, 0.9998);
    } else {
        const mba_adamw_options o = mba_adamw_defaults();
        mba_adamw_all(g, &o);
    }
    return mba_graph_status(g);
}

/* Kept in bf16 alone, for a faster backward where memory is plenty: states and y of the scans, states of ssd. */
static double kept_by_scans(const mba_graph *g)
{
    double bytes = 0;
    for (int32_t i = 0; i < g->nnodes; i++)
        for (int k = 0; k < MBA_OUT_MAX && g->nodes[i]->op->kind == MBA_SSM; k++)
            if (g->nodes[i]->out[k] && g->nodes[i]->op->out[k].saved)
                bytes += (double)mba_tensor_bytes(g->nodes[i]->out[k]);
    return bytes;
}

/* The bytes of all other activations, as if none shared memory with another; -1: no plan. */
static double plan_model(const char *name, how h)
{
    mba_model    m;
    mba_graph   *g;
    mba_program *p = NULL;
    double       bytes = -1;
    assert_ok(mba_model_preset(&m, name));
    mba_model_compute(&m, h.compute);
    mba_model_mode(&m, h.train, h.train);
    assert_ok(mba_model_complete(&m));
    assert_ok(mba_graph_create(&g));
    g->recompute = h.recompute;
    const mba_model_graph io = mba_model_build(g, &m);
    mba_status            st = mba_graph_status(g);
    if (st == MBA_OK) assert_true(io.loss->type.dtype == MBA_F32);
    if (st == MBA_OK && io.logits && m.task != MBA_TASK_TEXT) assert_true(io.logits->type.dtype == MBA_F32);
    if (st == MBA_OK && h.train) st = append_step(g, m.task, io.loss);
    if (st == MBA_OK) st = mba_program_create(&p, g, &(mba_program_options){ .cuda = true, .machine = &machines[1] });
    if (st == MBA_OK) bytes = (double)p->layout.role_bytes[MBA_ACT] - kept_by_scans(g);
    else printf("%s, %s: %s\n", name, h.compute == MBA_BF16 ? "bf16" : "fp32", mba_message());
    mba_program_destroy(p);
    mba_graph_destroy(g);
    return bytes;
}

/* At least one of each family: every mixer, every loss, layer scale, dropout, embeddings and real features. */
static const char *const models[] = {
    "mamba-130m",
    "mamba2-130m",
    "hybrid-130m",
    "hybrid-b-130m",
    "hybrid-a-130m",
    "hybrid-j-370m",
    "hybrid-peer-370m",
    "transformer-130m",
    "mambavision-t",
    "mambavision-b",
    "graphmamba-voc",
    "graphmamba-peptides-func",
    "graphmamba-peptides-struct",
    "graphmamba-mnist",
    "graphmamba-pattern",
    "graphmamba-cluster",
    "graphmamba-malnet",
};

static void every_model_has_a_plan_in_fp32_and_bf16(void **state)
{
    (void)state;
    int without = 0;
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        for (int k = 0; k < 3; k++) { // training, with recomputation, evaluation
            const bool   train = k < 2, recompute = k == 1;
            const double full = plan_model(models[i], (how){ MBA_F32, train, recompute });
            const double half = plan_model(models[i], (how){ MBA_BF16, train, recompute });
            without += (full < 0) + (half < 0);
            /* half the bytes, but for the residual stream and statistics, and what comes before and after the layers */
            if (full > 0 && half > 0) assert_true(half < 0.6 * full);
        }
    assert_int_equal(without, 0);
}

MBA_TEST_MAIN(cmocka_unit_test(every_model_has_a_plan_in_fp32_and_bf16))
