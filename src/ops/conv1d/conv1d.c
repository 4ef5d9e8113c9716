// SPDX-License-Identifier: Apache-2.0
/* conv1d.c -- y = silu(bias + sum_k w[k] x[t-(W-1)+ahead+k]) for each channel, a depthwise convolution over time: the
 * declaration. */
#include "ops/conv1d/conv1d.h"

#include "ops/add/add.h"
#include "ops/cast/cast.h"
#include "ops/conv1d/conv1d_slots.h"

static mba_status check_shapes(const mba_node *n)
{
    const mba_tensor *x = n->in[X], *w = n->in[W], *bias = n->in[BIAS], *ids = n->in[IDS], *initial = n->in[INITIAL];
    MBA_TRY(mba__need_rows("conv1d", x));
    MBA_NEED(x->type.rank == 3, "conv1d: %s has %lld axes\nfix: (batch, length, channels)", x->name,
             (long long)x->type.rank);
    const conv1d_dims d = conv1d_dims_of(n);
    MBA_NEED(mba_dense(w) && d.taps * d.C == mba_elems(w) && d.taps > 0,
             "conv1d: %lld channels, a weight of %lld elements", (long long)d.C, (long long)mba_elems(w));
    MBA_NEED(d.taps <= CONV1D_TAPS_MAX, "conv1d: %lld taps\nwhy: no more than %d are kept at hand", (long long)d.taps,
             CONV1D_TAPS_MAX);
    MBA_NEED(!bias || (mba_dense(bias) && mba_elems(bias) == d.C), "conv1d: %lld channels, a bias of %lld",
             (long long)d.C, (long long)mba_elems(bias));
    MBA_NEED(!ids || (ids->type.dtype == MBA_I32 && mba_elems(ids) == d.B * d.L),
             "conv1d: ids are (batch, length) i32, one per row of %s", x->name);
    MBA_NEED(!initial || initial->type.dtype == MBA_F32, "conv1d: %s is not fp32\nwhy: states are", initial->name);
    MBA_NEED(!initial || (mba_elems(initial) == d.B * (d.taps - 1) * d.C && mba_cols(initial) == d.C),
             "conv1d: the initial inputs are (%lld, %lld, %lld)", (long long)d.B, (long long)d.taps - 1,
             (long long)d.C);
    MBA_NEED(d.ahead >= 0 && d.ahead < d.taps, "conv1d: %lld taps, %lld of them ahead", (long long)d.taps,
             (long long)d.ahead);
    MBA_NEED(d.ahead == 0 || !(ids || initial || ((const conv1d_attr *)n->attr)->final),
             "conv1d: %lld taps look ahead of a sequence in pieces or documents\n"
             "why: what comes behind a piece is not known yet\nfix: leave out ids, initial and final",
             (long long)d.ahead);
    return initial ? mba__need_rows("conv1d", initial) : MBA_OK;
}

static mba_status conv1d_shape(const mba_node *n, mba_type *out)
{
    MBA_TRY(check_shapes(n));
    const conv1d_dims d = conv1d_dims_of(n);
    out[Y] = n->in[X]->type;
    if (!((const conv1d_attr *)n->attr)->final) return MBA_OK;
    MBA_NEED(d.taps > 1, "conv1d: a convolution of one tap leaves no state");
    out[FINAL] = MBA_TYPE(MBA_F32, d.B, d.taps - 1, d.C);
    return MBA_OK;
}

static mba_status conv1d_bwd_shape(const mba_node *n, mba_type *out)
{
    out[DX] = n->in[X]->type;
    out[DW] = n->in[W]->type;
    out[DW].dtype = MBA_F32;
    if (n->in[BIAS]) out[DBIAS] = MBA_TYPE(MBA_F32, mba_elems(n->in[BIAS]));
    if (n->in[INITIAL]) out[DINITIAL] = n->in[INITIAL]->type;
    return MBA_OK;
}

mba_tensor *mba_conv1d_(mba_graph *g, mba_conv1d_args a)
{
    const conv1d_attr t = { .silu = a.silu, .final = a.final != NULL, .ahead = (int32_t)a.ahead };
    const mba_node   *n = MBA_APPEND(g, conv1d, &t, a.x, a.w, a.bias, a.ids, a.initial);
    if (a.final) *a.final = n->out[FINAL];
    return n->out[Y];
}

static void conv1d_grad(mba_graph *g, const mba_node *n, mba_tensor *const *d)
{
    mba_tensor *const *i = n->in;
    const mba_node    *b = MBA_APPEND(g, conv1d_bwd, n->attr, i[X], i[W], i[BIAS], i[IDS], i[INITIAL], d[Y], d[FINAL]);
    mba_grad_add(g, i[X], b->out[DX]);
    mba_grad_add(g, i[W], b->out[DW]);
    if (i[BIAS]) mba_grad_add(g, i[BIAS], b->out[DBIAS]);
    if (i[INITIAL]) mba_grad_add(g, i[INITIAL], b->out[DINITIAL]);
}

static mba_cost conv1d_cost(const mba_node *n)
{
    const double silu = ((const conv1d_attr *)n->attr)->silu, taps = (double)conv1d_dims_of(n).taps;
    const double x = (double)mba_elems(n->in[X]);
    mba_cost     c = mba_cost_io(n);
    c.vector_flops = x * (n->in[DY] ? 6 * taps + 1 + 6 * silu : 2 * taps + 2 * silu);
    c.special_ops = x * 2 * silu;
    return c;
}

static double conv1d_terms(const mba_node *n, int out) { return out == Y ? (double)conv1d_dims_of(n).taps : 1; }

static double conv1d_bwd_terms(const mba_node *n, int out)
{
    const conv1d_dims d = conv1d_dims_of(n);
    return (double)(out == DW || out == DBIAS ? d.B * d.L : d.taps);
}

/* CPU, forward: scratch for the weight as (taps, C), so that vectors run along channels. */
static mba_status conv1d_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    MBA_TRY(mba__plan_f32(p, n, m));
    mba_plan_scratch(p, "taps", sizeof(float) * (size_t)mba_elems(n->in[W]));
    return MBA_OK;
}

/* CPU, backward: the same, and partial sums of dw and dbias per block of time, and their total. */
static mba_status conv1d_bwd_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    const conv1d_dims d = conv1d_dims_of(n);
    const int64_t     parts = d.B * mba_ceil(d.L, CONV1D_TIMES), each = (d.taps + 1) * d.C;
    MBA_TRY(conv1d_plan(p, n, m));
    mba_plan_scratch(p, "dw and dbias parts", sizeof(float) * (size_t)(parts * each));
    mba_plan_scratch(p, "dw and dbias", sizeof(float) * (size_t)each);
    return MBA_OK;
}

/* ---- CUDA: ops/conv1d/conv1d_cuda.cu ---- */

/* What "persistent" takes: rows of whole vectors at one pitch, and a number of taps for which a kernel is compiled. */
static bool fits_persistent(const mba_node *n)
{
    const conv1d_dims d = conv1d_dims_of(n);
    const bool        bwd = n->op == &mba_op_conv1d_bwd;
    const mba_tensor *rows[] = { n->in[X],
                                 n->in[INITIAL],
                                 bwd ? n->in[DY] : NULL,
                                 bwd ? n->in[DFINAL] : NULL,
                                 n->out[0],
                                 bwd ? n->out[DINITIAL] : NULL };
    bool              fits = d.taps == 4;
    for (int k = 0; k < 6; k++) // out[0] is y or dx
        fits &= !rows[k]
                || (rows[k]->type.rank == 3 && conv1d_steps_of(rows[k]).row && conv1d_steps_of(rows[k]).row < 1 << 29
                    && mba__vec_aligned(rows[k], CONV1D_PERSISTENT));
    return fits;
}

/* What "tiles" takes: the shapes that models train with. */
static bool in_tiles(const mba_node *n)
{
    const conv1d_dims d = conv1d_dims_of(n);
    const bool        bwd = n->op == &mba_op_conv1d_bwd;
    const mba_tensor *rows[] = { n->in[X], bwd ? n->in[DY] : n->in[X], n->out[0] };
    const mba_tensor *state = bwd ? n->in[DFINAL] : n->out[FINAL], *bias = n->in[BIAS];
    const int64_t     lane = 16 / (int64_t)mba_dtype_bytes(n->in[X]->type.dtype); // backward reads 16 bytes per lane
    bool              fits = d.taps == 4 || (d.taps == 3 && ((const conv1d_attr *)n->attr)->silu);
    fits = fits && !n->in[IDS] && !n->in[INITIAL] && !state && !(bwd && mba_adds(n, DX));
    fits = fits && n->in[W]->offset % 4 == 0 && (!bias || bias->offset % 4 == 0);
    for (int k = 0; k < 3; k++)
        fits = fits && rows[k] && rows[k]->type.rank == 3 && conv1d_steps_of(rows[k]).row
               && mba__vec_aligned(rows[k], bwd && k < 2 ? lane : CONV1D_PERSISTENT);
    return fits;
}

/* Refuses what no CUDA kernel takes. */
static mba_status check_cuda(const mba_node *n, const mba_machine *m)
{
    const conv1d_dims d = conv1d_dims_of(n);
    const mba_tensor *ids = n->in[IDS];
    MBA_REFUSE_IF(m->cc < 80, "a device of compute capability %d", m->cc);
    MBA_REFUSE_IF(ids && !mba_dense(ids) && ids->run != d.L, "ids that do not lie sequence by sequence");
    MBA_REFUSE_IF(d.L >= 1 << 30 || d.B * mba_ceil(d.L, CONV1D_STEPS_MIN) >= INT32_MAX || d.C >= 1 << 30
                      || n->in[X]->pitch >= INT32_MAX,
                  "%lld sequences of %lld steps of %lld channels", (long long)d.B, (long long)d.L, (long long)d.C);
    return MBA_OK;
}

/* Warps of a block that have channels. */
static int64_t busy_warps(const mba_node *n, const conv1d_partition *k, int channels)
{
    return mba_ceil(mba_ceil(mba_ceil(mba_cols(n->in[X]), channels), k->across), 32);
}

/* Plans a block of the persistent kernels: for each of its items it processes some rows at a time while the next ones
 * are being copied. Operations per thread and row of four channels are counts from an H200 (documents, 96 channels). */
static void plan_persistent_items(mba_launch *l, const mba_node *n, const conv1d_partition *k, int channels,
                                  bool staged)
{
    static const struct {
        double fma, alu, sfu;
    } forward = { 40, 31, 8 }, backward = { 92, 92, 9 };
    const bool    bwd = n->op == &mba_op_conv1d_bwd;
    const int64_t rows = staged ? CONV1D_ROWS_AHEAD : 1;
    const double  blocks = (double)(k->parts * k->across), items = (double)k->items / (double)k->parts,
                 inner = (double)(k->seg / rows), all = blocks * items * inner,
                 each = (double)(rows * channels) / 4 * 32 * (double)busy_warps(n, k, channels);
    const char *mix = "conv1d persistent";
    mba_phase_work(l, MBA_LOOP, items, NULL);
    for (int i = 0; i < MBA_IN_MAX; i++) // taps, and rows before time 0
        if (n->in[i] && i != DY && i != X)
            mba_phase_move(l, MBA_LOAD, MBA_ARG_IN(i), mba_tensor_bytes(n->in[i]) / blocks / items);
    mba_phase_work(l, MBA_LOOP, inner, NULL);
    for (int i = X; i <= DY; i++)
        if ((i == X || (bwd && i == DY)) && n->in[i])
            mba_phase_move(l, staged ? MBA_ASYNC : MBA_LOAD, MBA_ARG_IN(i), mba_tensor_bytes(n->in[i]) / all);
    mba_phase_work(l, MBA_FMA, each * (bwd ? backward.fma : forward.fma), mix);
    mba_phase_work(l, MBA_ALU, each * (bwd ? backward.alu : forward.alu), mix);
    mba_phase_work(l, MBA_SFU, each * (bwd ? backward.sfu : forward.sfu), mix);
    mba_phase_out(l, n, 0, mba_tensor_bytes(n->out[0]) / all);
    mba_phase_work(l, MBA_END, 0, NULL);
    for (int i = 1; i < MBA_OUT_MAX; i++)
        if (n->out[i]) mba_phase_out(l, n, i, mba_tensor_bytes(n->out[i]) / blocks / items);
    mba_phase_work(l, MBA_END, 0, NULL);
}

/* Warps without a channel exit at once, so a block holds only the resources of the others. */
static void leave_warps(mba_launch *l, const mba_node *n, const conv1d_partition *k, int channels)
{
    const int64_t busy = busy_warps(n, k, channels);
    if (busy < CONV1D_THREADS / 32) mba_launch_role(l, CONV1D_THREADS / 32 - (int)busy);
}

/* Plans one launch of as many blocks as are resident on the machine. A thread needs `regs` registers and `staged` bytes
 * of shared memory. */
static conv1d_partition plan_persistent(mba_plan *p, const char *kernel, const mba_node *n, const mba_machine *m,
                                        int channels, int regs, int64_t staged)
{
    enum { BLOCKS_SM = 32 };
    const int64_t smem = CONV1D_THREADS * staged;
    int64_t       resident = m->regs_sm / (CONV1D_THREADS * mba_ceil(regs, 8) * 8);
    if (resident > m->smem_sm_bytes / (smem + 1024)) resident = m->smem_sm_bytes / (smem + 1024);
    if (resident > BLOCKS_SM) resident = BLOCKS_SM;
    const conv1d_partition k = conv1d_partition_of(n, m->sm * resident, channels);
    mba_launch            *l = mba_plan_launch(p, kernel, MBA_VECTOR, k.parts * k.across, CONV1D_THREADS);
    l->regs = regs;
    l->smem_bytes = (size_t)smem;
    l->ring_depth = staged ? 2 : 0;
    l->persistent = true;
    l->tiles = k.items * k.across;
    plan_persistent_items(l, n, &k, channels, staged > 0);
    return k;
}

static mba_status plan_fwd(mba_plan *p, const mba_node *n, const mba_machine *m, int channels, int regs)
{
    const int64_t e = (int64_t)mba_dtype_bytes(n->in[X]->type.dtype);
    MBA_TRY(check_cuda(n, m));
    const conv1d_partition k = plan_persistent(p, "conv1d_fwd_persistent", n, m, channels, regs,
                                               channels > 1 ? 2 * CONV1D_ROWS_AHEAD * channels * e : 0);
    leave_warps(&p->launch[0], n, &k, channels);
    if (!n->out[FINAL]) return MBA_OK;
    mba_launch *l = mba_plan_launch(p, "conv1d_final", MBA_VECTOR, mba_ceil(mba_elems(n->out[FINAL]), 256), 256);
    l->regs = 40;
    mba_phase_move(l, MBA_LOAD, MBA_ARG_IN(X), 256.0 * (double)e);
    mba_phase_move(l, MBA_STORE, MBA_ARG_OUT(FINAL), 256.0 * 4);
    return MBA_OK;
}

static mba_status plan_bwd(mba_plan *p, const mba_node *n, const mba_machine *m, int channels, int regs)
{
    const conv1d_dims d = conv1d_dims_of(n);
    const int64_t     e = (int64_t)mba_dtype_bytes(n->in[X]->type.dtype);
    MBA_TRY(check_cuda(n, m));
    const conv1d_partition k = plan_persistent(p, "conv1d_bwd_persistent", n, m, channels, regs,
                                               channels > 1 ? 4 * CONV1D_ROWS_AHEAD * channels * e : 0);
    const int              scratch = mba_plan_scratch(p, "dw and dbias parts",
                                                      sizeof(float) * (size_t)(k.parts * (d.taps + 1) * d.C));
    mba_phase_move(&p->launch[0], MBA_STORE, MBA_ARG_SCRATCH(scratch),
                   4.0 * (double)((d.taps + 1) * d.C) / (double)k.across);
    leave_warps(&p->launch[0], n, &k, channels);
    mba__plan_column_totals(p, scratch, k.parts, 1, (d.taps + 1) * d.C);
    return MBA_OK;
}

/* Registers by ptxas for sm_90; backward in fp32 or with documents uses a few more. */
enum {
    REGS_FWD_PERSISTENT = 72,
    REGS_FWD_ANY = 87,
    REGS_BWD_PERSISTENT = 128,
    REGS_BWD_PERSISTENT_MORE = 151,
    REGS_BWD_ANY = 158
};

/* Plans one launch of small tiles, many more than are resident. Per element the compiled tiles have some 6 (forward)
 * and 10 (backward) instructions beyond those of the convolution (16 and 31 in all, counted on an H200), not those of a
 * loop per tap. */
static void plan_tiles(mba_plan *p, const char *kernel, const mba_node *n, int64_t blocks, int warps, int regs,
                       int64_t smem)
{
    const double beside = n->op == &mba_op_conv1d_bwd ? 10 : 6;
    mba_launch  *l = mba_plan_launch(p, kernel, MBA_VECTOR, blocks, 32 * warps);
    l->regs = regs;
    l->smem_bytes = (size_t)smem;
    l->ring_depth = smem ? 2 : 0;
    mba_phases_evenly(l, n, (double)blocks);
    for (int i = 0; i < l->nphases; i++)
        if (l->phase[i].work == MBA_FMA || l->phase[i].work == MBA_SFU) l->phase[i].mix = "conv1d tiles";
    mba_phase_work(l, MBA_ALU, beside * (double)mba_elems(n->in[X]) / (double)blocks, "conv1d tiles");
}

static mba_status conv1d_tiles_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    enum { REGS = 80 };
    const conv1d_dims d = conv1d_dims_of(n);
    MBA_TRY(check_cuda(n, m));
    MBA_REFUSE_IF(!in_tiles(n), "documents, a state, rows that are not whole vectors at one pitch, or other taps");
    const conv1d_tile_grid k = conv1d_tile_grid_of(&d, CONV1D_TILE_WARPS,
                                                   CONV1D_TILE_ROWS(mba_dtype_bytes(n->in[X]->type.dtype)));
    plan_tiles(p, "conv1d_fwd_tiles", n, d.B * k.segs * k.across, CONV1D_TILE_WARPS, REGS, 0);
    return MBA_OK;
}

static mba_status conv1d_bwd_tiles_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    enum { REGS = 128, REGS_F32 = 168 };
    const conv1d_dims d = conv1d_dims_of(n);
    const int64_t     e = (int64_t)mba_dtype_bytes(n->in[X]->type.dtype), each = (d.taps + 1) * d.C;
    MBA_TRY(check_cuda(n, m));
    MBA_REFUSE_IF(!in_tiles(n), "documents, a state, a dx that is added to, rows that are not whole vectors at one"
                                " pitch, or other taps");
    const conv1d_bwd_tile t = conv1d_bwd_tile_of(n);
    const conv1d_bwd_grid k = conv1d_bwd_grid_of(&d, t);
    plan_tiles(p, "conv1d_bwd_tiles", n, k.parts * k.across, t.warps, e == 4 ? REGS_F32 : REGS,
               4 * CONV1D_ROWS_AHEAD * CONV1D_PERSISTENT * e * 32 * t.warps);
    const int scratch = mba_plan_scratch(p, "dw and dbias parts", sizeof(float) * (size_t)(k.parts * each));
    mba_phase_move(&p->launch[0], MBA_STORE, MBA_ARG_SCRATCH(scratch),
                   4.0 * (double)((d.taps + 1) * 32 * CONV1D_PERSISTENT));
    mba__plan_column_totals(p, scratch, k.parts, 1, each);
    return MBA_OK;
}

static mba_status conv1d_persistent_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    MBA_REFUSE_IF(!fits_persistent(n), "rows that are not whole vectors at one pitch, or not four taps");
    return plan_fwd(p, n, m, CONV1D_PERSISTENT, REGS_FWD_PERSISTENT);
}

static mba_status conv1d_bwd_persistent_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    MBA_REFUSE_IF(!fits_persistent(n), "rows that are not whole vectors at one pitch, or not four taps");
    return plan_bwd(p, n, m, CONV1D_PERSISTENT,
                    n->in[IDS] || n->in[X]->type.dtype == MBA_F32 ? REGS_BWD_PERSISTENT_MORE : REGS_BWD_PERSISTENT);
}

static mba_status conv1d_any_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    return plan_fwd(p, n, m, 1, REGS_FWD_ANY);
}
static mba_status conv1d_bwd_any_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    return plan_bwd(p, n, m, 1, REGS_BWD_ANY);
}

/* dims: B, L, C, taps, bits (options below), taps ahead. */
enum { PLAIN = 1, NO_BIAS = 2, WITH_IDS = 4, WITH_INITIAL = 8, WITH_FINAL = 16, COLUMNS = 32, TWICE = 64 };

static void conv1d_build(mba_graph *g, const mba_case *c)
{
    const int64_t   B = c->dim[0], L = c->dim[1], C = c->dim[2], taps = c->dim[3], how = c->dim[4];
    const mba_init  random = MBA_INIT_NORMAL(1);
    mba_tensor     *final = NULL;
    const int64_t   gap = C % 4 ? 2 : C % 8 ? 4 : 8;
    mba_tensor     *x = mba_case_act(g, "x", MBA_TYPE(MBA_F32, B, L, how & COLUMNS ? C + 2 * gap : C), random);
    mba_conv1d_args a = {
        .x = x, .silu = !(how & PLAIN), .final = how & WITH_FINAL ? &final : NULL, .ahead = c->dim[5]
    };
    a.w = mba_param(g, "w", MBA_TYPE(MBA_F32, C, 1, taps), random, MBA_NO_DECAY);
    if (!(how & NO_BIAS)) a.bias = mba_param(g, "bias", MBA_TYPE(MBA_F32, C), random, MBA_NO_DECAY);
    if (how & WITH_IDS) a.ids = mba_index(g, "ids", MBA_TYPE(MBA_I32, B, L), 2);
    if (how & WITH_INITIAL) a.initial = mba_param(g, "initial", MBA_TYPE(MBA_F32, B, taps - 1, C), random, MBA_DECAY);
    if (how & COLUMNS) a.x = mba_slice(g, mba_add(g, x, x), 2, gap, C);
    mba_tensor *y = mba_conv1d_(g, a);
    if (!(how & TWICE)) return;
    a.silu = !a.silu;
    a.final = NULL;
    mba_tensor *j = mba_concat(g, y, mba_conv1d_(g, a));
    mba_add(g, j, j);
}

const mba_op mba_op_conv1d = {
    .name = "conv1d",
    .doc = "depthwise convolution over time, silu behind it",
    .kind = MBA_CONV,
    .in = { [X] = MBA_SLOT("x"),
            [W] = MBA_SLOT("w"),
            [BIAS] = MBA_SLOT("bias", .optional = true),
            [IDS] = MBA_SLOT("ids", .optional = true),
            [INITIAL] = MBA_SLOT("initial", .optional = true) },
    .out = { [Y] = MBA_SLOT("y", .cheap = true), [FINAL] = MBA_SLOT("final", .cheap = true) },
    .attr_bytes = sizeof(conv1d_attr),
    .shape = conv1d_shape,
    .grad = conv1d_grad,
    .cost = conv1d_cost,
    .ref = conv1d_ref,
    .terms = conv1d_terms,
    .cpu = (const mba_variant[]){ { "tiles", conv1d_plan, MBA_CPU(conv1d_fwd) }, { 0 } },
    .cuda = (const mba_variant[]){ { "tiles", conv1d_tiles_plan, MBA_CUDA(conv1d_tiles_cuda) },
                                   { "persistent", conv1d_persistent_plan, MBA_CUDA(conv1d_cuda) },
                                   { "any", conv1d_any_plan, MBA_CUDA(conv1d_any_cuda) },
                                   { 0 } },
    .build = conv1d_build,
    .cases =
        (const mba_case[]){
            { { 2, 9, 5, 4 }, "four taps, two sequences" },
            { { 1, 140, 3, 4 }, "more than one item of time" },
            { { 2, 7, 6, 4, PLAIN | NO_BIAS }, "neither silu nor bias" },
            { { 2, 11, 5, 1 }, "one tap" },
            { { 2, 11, 5, 3 }, "three taps" },
            { { 1, 13, 5, 8 }, "eight taps" },
            { { 2, 8, 5, 4, WITH_INITIAL | WITH_FINAL }, "a piece of a longer sequence" },
            { { 2, 2, 5, 4, WITH_INITIAL | WITH_FINAL }, "a piece shorter than the state" },
            { { 2, 2, 5, 4, WITH_FINAL }, "the first piece, shorter than the state" },
            { { 2, 17, 5, 4, WITH_IDS }, "documents side by side" },
            { { 2, 17, 5, 4, WITH_IDS | WITH_INITIAL | WITH_FINAL | PLAIN }, "documents in a piece" },
            { { 1, 135, 2, 2, WITH_IDS | WITH_INITIAL }, "documents across items of time" },
            { { 2, 6, 5, 4, COLUMNS | TWICE }, "columns in and out, added to" },
            { { 2, 6, 5, 4, COLUMNS | TWICE | WITH_INITIAL }, "an initial state used twice" },
            { { 2, 9, 5, 3, NO_BIAS, 1 }, "one of three taps ahead: mambavision" },
            { { 1, 140, 3, 3, 0, 1 }, "one ahead, more than one item of time" },
            { { 1, 133, 2, 4, PLAIN, 3 }, "all taps but the last ahead" },
            { { 2, 2, 3, 5, NO_BIAS, 2 }, "two ahead, shorter than the window" },
            { { 2, 6, 5, 3, COLUMNS | TWICE, 1 }, "one ahead, columns in and out, added to" },
            { { 2, 9, 8, 4 }, "whole vectors: four taps" },
            { { 1, 77, 4, 4 }, "whole vectors, more than one item of time" },
            { { 1, 3, 132, 4 }, "whole vectors, more than one tile of channels" },
            { { 1, 17, 136, 4 }, "vectors of 16 bytes, more than one tile of channels" },
            { { 1, 2, 848, 4 }, "vectors of 16 bytes, totals by lines of few parts" },
            { { 1, 120, 8, 4, NO_BIAS }, "vectors of 16 bytes, more than one tile of time" },
            { { 2, 20, 8, 4, COLUMNS }, "vectors of 16 bytes, columns in" },
            { { 1, 257, 8, 4, NO_BIAS }, "vectors of 16 bytes, blocks of eight warps" },
            { { 3, 70, 8, 4 }, "vectors of 16 bytes, a block that goes on into the next sequence" },
            { { 1, 130, 4, 4, NO_BIAS }, "whole vectors, more than one tile of time" },
            { { 2, 21, 8, 4, WITH_INITIAL | WITH_FINAL | PLAIN | NO_BIAS },
              "whole vectors, a piece of a longer sequence" },
            { { 2, 2, 4, 4, WITH_INITIAL | WITH_FINAL }, "whole vectors, shorter than the state" },
            { { 2, 69, 4, 4, WITH_IDS | WITH_INITIAL | WITH_FINAL }, "whole vectors, documents across items of time" },
            { { 2, 17, 4, 4, WITH_IDS | PLAIN }, "whole vectors, documents, no silu" },
            { { 2, 30, 4, 4, COLUMNS | TWICE }, "whole vectors, columns in and out, added to" },
            { { 2, 70, 4, 3, NO_BIAS, 1 }, "whole vectors, one of three taps ahead" },
            { { 1, 70, 4, 4, 0, 2 }, "whole vectors, two of four taps ahead" },
            { { 0 }, NULL } },
    .sizes = (const mba_case[]){ { { 1, 4096, 1792, 4 }, "mamba2-130m, 4096 tokens" },
                                 { { 8, 2048, 1792, 4 }, "mamba2-130m, 16384 tokens" },
                                 { { 8, 2048, 4352, 4 }, "mamba2-1.3b, 16384 tokens" },
                                 { { 8, 196, 160, 3, NO_BIAS, 1 }, "mambavision-t stage 2, batch 8" },
                                 { { 128, 196, 160, 3, NO_BIAS, 1 }, "mambavision-t stage 2, batch 128" },
                                 { { 0 }, NULL } },
};

const mba_op mba_op_conv1d_bwd = {
    .name = "conv1d_bwd",
    .doc = "gradients of conv1d",
    .kind = MBA_CONV,
    .no_grad = "a gradient",
    .in = { [X] = MBA_SLOT("x"),
            [W] = MBA_SLOT("w"),
            [BIAS] = MBA_SLOT("bias", .optional = true),
            [IDS] = MBA_SLOT("ids", .optional = true),
            [INITIAL] = MBA_SLOT("initial", .optional = true),
            [DY] = MBA_SLOT("dy", .optional = true),
            [DFINAL] = MBA_SLOT("dfinal", .optional = true) },
    .out = { [DX] = MBA_SLOT("dx", .adds = true),
             [DW] = MBA_SLOT("dw", .adds = true),
             [DBIAS] = MBA_SLOT("dbias", .adds = true),
             [DINITIAL] = MBA_SLOT("dinitial", .adds = true) },
    .attr_bytes = sizeof(conv1d_attr),
    .shape = conv1d_bwd_shape,
    .cost = conv1d_cost,
    .ref = conv1d_bwd_ref,
    .terms = conv1d_bwd_terms,
    .cpu = (const mba_variant[]){ { "tiles", conv1d_bwd_plan, MBA_CPU(conv1d_bwd) }, { 0 } },
    .cuda = (const mba_variant[]){ { "tiles", conv1d_bwd_tiles_plan, MBA_CUDA(conv1d_bwd_tiles_cuda) },
                                   { "persistent", conv1d_bwd_persistent_plan, MBA_CUDA(conv1d_bwd_cuda) },
                                   { "any", conv1d_bwd_any_plan, MBA_CUDA(conv1d_bwd_any_cuda) },
                                   { 0 } },
};
