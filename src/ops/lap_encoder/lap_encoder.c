// SPDX-License-Identifier: Apache-2.0
/* lap_encoder.c -- a small network per eigenvector, summed over eigenvectors: the declaration. */
#include "ops/lap_encoder/lap_encoder.h"

#include <math.h>

#include "ops/lap_encoder/lap_encoder_slots.h"

static mba_status lap_encoder_shape(const mba_node *n, mba_type *out)
{
    const mba_tensor *phi = n->in[PHI], *lam = n->in[LAM];
    const int64_t     p = mba_elems(n->in[BB]);
    MBA_TRY(mba__need_rows("lap_encoder", phi));
    MBA_TRY(mba__need_rows("lap_encoder", lam));
    MBA_NEED(phi->type.rank == 2 && mba_type_equal(&phi->type, &lam->type),
             "lap_encoder: %s and %s are not both (N, K)", phi->name, lam->name);
    MBA_NEED(!phi->needs_grad && !lam->needs_grad, "lap_encoder: %s or %s wants a gradient\nwhy: positions are inputs",
             phi->name, lam->name);
    for (int k = WA; k <= BB; k++) MBA_NEED(mba_dense(n->in[k]), "lap_encoder: %s is not dense", n->in[k]->name);
    MBA_NEED(mba_elems(n->in[WA]) == 4 * p && mba_elems(n->in[BA]) == 2 * p && mba_elems(n->in[WB]) == 2 * p * p,
             "lap_encoder: weights that do not fit %lld outputs\nwhy: they are (2p, 2), (2p), (p, 2p), (p)",
             (long long)p);
    MBA_NEED(2 * p <= LAP_HIDDEN_MAX, "lap_encoder: %lld outputs\nfix: at most %d", (long long)p, LAP_HIDDEN_MAX / 2);
    out[Y] = phi->type;
    out[Y].dim[1] = p;
    return MBA_OK;
}

static mba_status lap_encoder_bwd_shape(const mba_node *n, mba_type *out)
{
    for (int k = 0; k < 4; k++) out[DWA + k] = n->in[WA + k]->type;
    return MBA_OK;
}

mba_tensor *mba_lap_encoder_of(mba_graph *g, const mba_lap_encoder_args *a)
{
    const lap_encoder_attr attr = { a->flip };
    return MBA_APPEND(g, lap_encoder, &attr, a->phi, a->lam, a->wa, a->ba, a->wb, a->bb)->out[Y];
}

static void lap_encoder_grad(mba_graph *g, const mba_node *n, mba_tensor *const *d)
{
    const mba_node *b = MBA_APPEND(g, lap_encoder_bwd, n->attr, n->in[PHI], n->in[LAM], n->in[WA], n->in[BA], n->in[WB],
                                   n->in[BB], d[Y]);
    for (int k = 0; k < 4; k++) mba_grad_add(g, n->in[WA + k], b->out[DWA + k]);
}

/* Missing pairs cost nothing, but shapes do not show them, so all pairs are counted. */
static mba_cost lap_encoder_cost(const mba_node *n)
{
    mba_cost     c = mba_cost_io(n);
    const double pairs = (double)mba_elems(n->in[PHI]), p = (double)mba_elems(n->in[BB]);
    c.vector_flops = pairs * (n->in[DY] ? 3 : 1) * (4 * p * p + 12 * p);
    return c;
}

static double lap_encoder_terms(const mba_node *n, int out)
{
    (void)out;
    const double K = (double)mba_cols(n->in[PHI]);
    return (n->in[DY] ? (double)mba_rows(n->in[PHI]) : 2 * (double)mba_elems(n->in[BB])) * K;
}

/* Scratch of the CPU: the weights in padded rows, and their gradients per part of nodes. */
static mba_status lap_encoder_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    const int64_t out = mba_elems(n->in[BB]), M = lap_padded(2 * out), P = lap_padded(out);
    const int64_t grads = (3 + out) * M + P;
    MBA_TRY(mba__plan_f32(p, n, m));
    mba_plan_scratch(p, "weights", sizeof(float) * (size_t)((3 + out) * M + (2 * out + 1) * P + mba_cols(n->in[PHI])));
    if (!n->in[DY]) return MBA_OK;
    mba_plan_scratch(p, "gradient parts", sizeof(float) * (size_t)(mba__parts(mba_rows(n->in[PHI])) * grads));
    mba_plan_scratch(p, "gradient", sizeof(float) * (size_t)grads);
    return MBA_OK;
}

static mba_status all_f32(const mba_node *n, const mba_machine *m)
{
    MBA_REFUSE_IF(m->cc < 80, "a device of compute capability %d", m->cc);
    for (int k = PHI; k <= DY; k++)
        MBA_REFUSE_IF(n->in[k] && n->in[k]->type.dtype != MBA_F32, "%s is not fp32", n->in[k]->name);
    return MBA_OK;
}

/* CUDA: plans the second layer and its gradients, in steps of a warp. A step has two loads from shared memory, an FMA,
 * and what the compiler adds (counted on an H200: 2 FMA and 2.2 ALU per step forward, 3.8 and 3.5 backward, where
 * indices need divisions). Lanes without an output are idle. */
static void plan_layers(mba_launch *l, double steps, double fma, double alu)
{
    static const char mix[] = "lap_encoder";
    mba_phase_work(l, MBA_SMEM, 2 * 32 * 4 * steps, NULL);
    mba_phase_work(l, MBA_FMA, 32 * fma * steps, mix);
    mba_phase_work(l, MBA_ALU, 32 * alu * steps, mix);
}

static mba_launch *plan_nodes(mba_plan *p, const mba_node *n, const char *kernel, int64_t grid, int regs)
{
    mba_launch *l = mba_plan_launch(p, kernel, MBA_VECTOR, grid, LAP_WARPS * 32);
    l->regs = regs;
    for (int k = 0; k < MBA_IN_MAX; k++) // every block reads the weights
        if (n->in[k])
            mba_phase_move(l, MBA_LOAD, MBA_ARG_IN(k),
                           mba_tensor_bytes(n->in[k]) / (k == PHI || k == LAM || k == DY ? (double)grid : 1));
    mba_phase_work(l, MBA_BARRIER, 1, NULL);
    return l;
}

/* CUDA: one warp per node, the weights in shared memory. */
static mba_status lap_encoder_warps_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    const int64_t out = mba_elems(n->in[BB]), K = mba_cols(n->in[PHI]);
    const size_t  bytes = sizeof(float) * lap_fwd_floats(out, K);
    MBA_TRY(all_f32(n, m));
    MBA_REFUSE_IF((int64_t)bytes > m->smem_block_bytes, "%zu bytes of shared memory: %s has %lld", bytes, m->name,
                  (long long)m->smem_block_bytes);
    const int64_t grid = mba_ceil(mba_rows(n->in[PHI]), LAP_NODES);
    mba_launch   *l = plan_nodes(p, n, "lap_encoder_fwd_warps", grid, 40);
    l->smem_bytes = bytes;
    plan_layers(l, (double)(LAP_NODES * K * 2 * out * mba_ceil(out, 32)), 2, 2.2);
    mba_phase_move(l, MBA_STORE, MBA_ARG_OUT(0), mba_tensor_bytes(n->out[0]) / (double)grid);
    return MBA_OK;
}

/* CUDA: one block per part of nodes, then the parts in order. */
static mba_status lap_encoder_parts_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    const int64_t out = mba_elems(n->in[BB]), K = mba_cols(n->in[PHI]),
                  parts = mba_ceil(mba_rows(n->in[PHI]), LAP_NODES), grads = lap_grads(out);
    size_t bytes = sizeof(float) * lap_bwd_floats(out, K, LAP_PAIRS);
    MBA_TRY(all_f32(n, m));
    if ((int64_t)bytes > m->smem_block_bytes) bytes = sizeof(float) * lap_bwd_floats(out, K, LAP_PAIRS_FEW);
    MBA_REFUSE_IF((int64_t)bytes > m->smem_block_bytes, "%zu bytes of shared memory: %s has %lld", bytes, m->name,
                  (long long)m->smem_block_bytes);
    mba_plan_scratch(p, "gradient parts", sizeof(float) * (size_t)(parts * grads));
    mba_launch *l = plan_nodes(p, n, "lap_encoder_bwd_parts", parts, 42);
    l->smem_bytes = bytes;
    plan_layers(l, 3.0 * (double)(LAP_NODES * K * out * 2 * out) / 32, 3.8, 3.5);
    mba_phase_move(l, MBA_STORE, MBA_ARG_SCRATCH(0), 4.0 * (double)grads);
    mba_launch *t = mba_plan_launch(p, "column_totals", MBA_VECTOR, mba_ceil(grads, 32), 512);
    t->regs = 30;
    mba_phase_move(t, MBA_LOAD, MBA_ARG_SCRATCH(0), 4.0 * 32 * (double)parts);
    return MBA_OK;
}

/* dims: N, K, p, flip. Every third node has only one eigenvector, and node 4 has none. */
static void lap_encoder_build(mba_graph *g, const mba_case *c)
{
    const int64_t N = c->dim[0], K = c->dim[1], p = c->dim[2];
    mba_tensor *phi = mba_input(g, "phi", MBA_TYPE(MBA_F32, N, K)), *lam = mba_input(g, "lam", MBA_TYPE(MBA_F32, N, K));
    double     *x = mba_arena_new(g->arena, double, N *K), *l = mba_arena_new(g->arena, double, N *K);
    for (int64_t i = 0; i < N * K; i++) {
        const bool gone = (i / K % 3 == 2 && i % K) || i / K == 4;
        x[i] = gone ? (double)NAN : (float)sin(1.7 * (double)i + 0.3);
        l[i] = gone ? (double)NAN : (float)(0.4 * (double)(i % K) + 0.1);
    }
    mba_example(g, phi, x);
    mba_example(g, lam, l);
    mba_lap_encoder(g, .phi = phi, .lam = lam, .flip = c->dim[3],
                    .wa = mba_param(g, "wa", MBA_TYPE(MBA_F32, 2 * p, 2), MBA_INIT_NORMAL(1), MBA_DECAY),
                    .ba = mba_param(g, "ba", MBA_TYPE(MBA_F32, 2 * p), MBA_INIT_NORMAL(1), MBA_DECAY),
                    .wb = mba_param(g, "wb", MBA_TYPE(MBA_F32, p, 2 * p), MBA_INIT_NORMAL(1), MBA_DECAY),
                    .bb = mba_param(g, "bb", MBA_TYPE(MBA_F32, p), MBA_INIT_NORMAL(1), MBA_DECAY));
}

const mba_op mba_op_lap_encoder = {
    .name = "lap_encoder",
    .doc = "Laplacian positions through a small network, summed",
    .kind = MBA_EMBED_LOSS,
    .random = true,
    .in = { [PHI] = MBA_SLOT("phi"),
            [LAM] = MBA_SLOT("lam"),
            [WA] = MBA_SLOT("wa"),
            [BA] = MBA_SLOT("ba"),
            [WB] = MBA_SLOT("wb"),
            [BB] = MBA_SLOT("bb") },
    .out = { [Y] = MBA_SLOT("y") },
    .attr_bytes = sizeof(lap_encoder_attr),
    .shape = lap_encoder_shape,
    .grad = lap_encoder_grad,
    .cost = lap_encoder_cost,
    .ref = lap_encoder_ref,
    .terms = lap_encoder_terms,
    .cpu = (const mba_variant[]){ { "tiles", lap_encoder_plan, MBA_CPU(lap_encoder_fwd) }, { 0 } },
    .cuda = (const mba_variant[]){ { "warps", lap_encoder_warps_plan, MBA_CUDA(lap_encoder_cuda) }, { 0 } },
    .build = lap_encoder_build,
    .cases = (const mba_case[]){ { { 3, 2, 2 }, "a node without all of its eigenvectors" },
                                 { { 6, 5, 3, 1 }, "random signs, a full tile and a rest, a node without any" },
                                 { { 2, 3, 9 }, "hidden layer longer than a vector" },
                                 { { 35, 3, 4, 1 }, "two blocks of nodes" },
                                 { { 0 }, NULL } },
    .sizes = (const mba_case[]){ { { 15341, 10, 16, 1 }, "PascalVOC-SP, 32 graphs" }, { { 0 }, NULL } },
};

const mba_op mba_op_lap_encoder_bwd = {
    .name = "lap_encoder_bwd",
    .doc = "gradients of the weights of lap_encoder",
    .kind = MBA_EMBED_LOSS,
    .random = true,
    .no_grad = "a gradient",
    .in = { [PHI] = MBA_SLOT("phi"),
            [LAM] = MBA_SLOT("lam"),
            [WA] = MBA_SLOT("wa"),
            [BA] = MBA_SLOT("ba"),
            [WB] = MBA_SLOT("wb"),
            [BB] = MBA_SLOT("bb"),
            [DY] = MBA_SLOT("dy") },
    .out = { [DWA] = MBA_SLOT("dwa", .adds = true),
             [DBA] = MBA_SLOT("dba", .adds = true),
             [DWB] = MBA_SLOT("dwb", .adds = true),
             [DBB] = MBA_SLOT("dbb", .adds = true) },
    .attr_bytes = sizeof(lap_encoder_attr),
    .shape = lap_encoder_bwd_shape,
    .cost = lap_encoder_cost,
    .ref = lap_encoder_bwd_ref,
    .terms = lap_encoder_terms,
    .cpu = (const mba_variant[]){ { "tiles", lap_encoder_plan, MBA_CPU(lap_encoder_bwd) }, { 0 } },
    .cuda = (const mba_variant[]){ { "parts", lap_encoder_parts_plan, MBA_CUDA(lap_encoder_bwd_cuda) }, { 0 } },
};
