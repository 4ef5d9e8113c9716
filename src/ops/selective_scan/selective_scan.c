// SPDX-License-Identifier: Apache-2.0
/* selective_scan.c -- the selective scan of Mamba-1: declaration, shapes, gradient, cost, CPU plans, cases.
 *
 *   forward   out, final            = scan(u, delta, A_log, B, C, D, z, dt_bias, initial, ids)
 *   backward  the gradient of each  = from the same inputs, dout and dfinal; most states are recomputed
 *
 * CUDA variants: `specialized` (bf16, 8 or 16 states), `chunked` (1 to 4 states), `tiles` (everything); their plans are
 * in selective_scan_*plan.c. */
#include "ops/selective_scan/selective_scan.h"

#include "core/device.h"
#include "ops/add/add.h"
#include "ops/cast/cast.h"
#include "ops/extremes.h"
#include "ops/selective_scan/selective_scan_lines.h"

scan_dims scan_dims_of(const mba_node *n)
{
    const mba_type *u = &n->in[U]->type, *b = &n->in[BM]->type;
    return (scan_dims){
        .B = u->dim[0], .L = u->dim[1], .D = u->dim[2], .N = mba_cols(n->in[BM]), .G = b->rank == 4 ? b->dim[2] : 1
    };
}

/* ---- what the forward pass saves ---- */

/* Whether rows have one stride over the whole batch. */
bool scan_even_rows(const mba_tensor *t, int64_t width) { return !t || t->run == width || t->run == mba_elems(t); }

/* Items of the saved states. Packs the fewest sequences per item that waste at most a sixteenth of their tiles, if
 * enough packs remain to fill a GPU. */
static int64_t saved_items(const mba_node *n, scan_dims d)
{
    if (n->in[INITIAL] || ((const scan_attr *)n->attr)->final) return d.B;
    if (!scan_even_rows(n->in[U], d.D) || !scan_even_rows(n->in[DELTA], d.D) || !scan_even_rows(n->in[Z], d.D)
        || !scan_even_rows(n->in[BM], d.G * d.N) || !scan_even_rows(n->in[CM], d.G * d.N)
        || !scan_even_rows(n->in[IDS], 1))
        return d.B;
    for (int64_t k = 1; k <= PACK_MAX && mba_ceil(d.B, k) * mba_ceil(d.D, TILE_CHANNELS) >= PACKS_MIN; k++)
        if (16 * (mba_ceil(k * d.L, TILE) * TILE - k * d.L) <= k * d.L) return mba_ceil(d.B, k);
    return d.B;
}

/* ---- shapes ---- */

static bool has_dims(const mba_tensor *t, int64_t rank, int64_t a, int64_t b, int64_t c)
{
    const int64_t *d = t->type.dim;
    return t->type.rank == rank && d[0] == a && (rank < 2 || d[1] == b) && (rank < 3 || d[2] == c);
}

/* Whether rows have one stride within a sequence (a row is a token, or a channel's state). */
static bool has_rows(const mba_tensor *t, int64_t rows, int64_t width)
{
    return t->run == width || t->run % (rows * width) == 0;
}

/* Activations have one type; parameters and states are fp32. */
static mba_status check_reals(const mba_node *n)
{
    static const bool activation[MBA_IN_MAX] = {
        [U] = true, [DELTA] = true, [BM] = true, [CM] = true, [Z] = true, [DOUT] = true, [YS_IN] = true
    };
    const mba_dtype type = n->in[U]->type.dtype;
    MBA_NEED(type == MBA_F32 || type == MBA_BF16, "selective_scan: u is neither fp32 nor bf16");
    for (int k = 0; k < MBA_IN_MAX; k++) {
        if (!n->in[k] || k == IDS) continue;
        MBA_NEED(n->in[k]->type.dtype == (activation[k] ? type : MBA_F32), "selective_scan: %s is not %s",
                 n->op->in[k].name, activation[k] ? "of the type of u" : "fp32");
    }
    return MBA_OK;
}

static mba_status check_sequences(const mba_node *n, scan_dims d)
{
    static const int like_u[] = { U, DELTA, Z, DOUT };
    for (int i = 0; i < 4; i++) {
        const mba_tensor *t = n->in[like_u[i]];
        MBA_NEED(!t || (has_dims(t, 3, d.B, d.L, d.D) && has_rows(t, d.L, d.D)),
                 "selective_scan: %s is not (%lld, %lld, %lld) like u, with whole rows", n->op->in[like_u[i]].name,
                 (long long)d.B, (long long)d.L, (long long)d.D);
    }
    for (int k = BM; k <= CM; k++) {
        const mba_tensor *t = n->in[k];
        MBA_NEED((t->type.rank == 3 || t->type.rank == 4) && t->type.dim[0] == d.B && t->type.dim[1] == d.L
                     && mba_cols(t) == d.N && mba_elems(t) == d.B * d.L * d.G * d.N && has_rows(t, d.L, d.G * d.N),
                 "selective_scan: %s is not (%lld, %lld, %lld, %lld), with whole rows", n->op->in[k].name,
                 (long long)d.B, (long long)d.L, (long long)d.G, (long long)d.N);
    }
    const mba_tensor *ids = n->in[IDS];
    MBA_NEED(!ids || (ids->type.dtype == MBA_I32 && has_dims(ids, 2, d.B, d.L, 0) && has_rows(ids, d.L, 1)),
             "selective_scan: ids are not (%lld, %lld) i32", (long long)d.B, (long long)d.L);
    return MBA_OK;
}

static mba_status check_channels(const mba_node *n, scan_dims d)
{
    MBA_NEED(d.D % d.G == 0, "selective_scan: %lld channels do not split into %lld groups", (long long)d.D,
             (long long)d.G);
    MBA_NEED(has_dims(n->in[A_LOG], 2, d.D, d.N, 0) && has_rows(n->in[A_LOG], d.D, d.N),
             "selective_scan: A_log is not (%lld, %lld)", (long long)d.D, (long long)d.N);
    for (int k = SKIP; k <= DT_BIAS; k += DT_BIAS - SKIP)
        MBA_NEED(!n->in[k] || (has_dims(n->in[k], 1, d.D, 0, 0) && mba_dense(n->in[k])),
                 "selective_scan: %s is not (%lld)", n->op->in[k].name, (long long)d.D);
    for (int k = INITIAL; k <= DFINAL; k += DFINAL - INITIAL)
        MBA_NEED(!n->in[k] || (has_dims(n->in[k], 3, d.B, d.D, d.N) && has_rows(n->in[k], d.D, d.N)),
                 "selective_scan: %s is not (%lld, %lld, %lld)", n->op->in[k].name, (long long)d.B, (long long)d.D,
                 (long long)d.N);
    return MBA_OK;
}

static mba_status check(const mba_node *n)
{
    MBA_NEED(n->in[U]->type.rank == 3, "selective_scan: u is not (B, L, D)");
    const scan_dims d = scan_dims_of(n);
    MBA_TRY(check_reals(n));
    MBA_TRY(check_sequences(n, d));
    return check_channels(n, d);
}

static mba_status selective_scan_shape(const mba_node *n, mba_type *out)
{
    MBA_TRY(check(n));
    const scan_dims d = scan_dims_of(n);
    out[OUT] = n->in[U]->type;
    if (((const scan_attr *)n->attr)->final) out[FINAL] = MBA_TYPE(MBA_F32, d.B, d.D, d.N);
    return MBA_OK;
}

static mba_status selective_scan_bwd_shape(const mba_node *n, mba_type *out)
{
    MBA_TRY(check(n));
    for (int k = 0; k < GRADS; k++)
        if (((const scan_bwd_attr *)n->attr)->wants >> k & 1) out[k] = n->in[k]->type;
    return MBA_OK;
}

/* ---- building ---- */

mba_tensor *mba_selective_scan_of(mba_graph *g, const mba_selective_scan_args *a)
{
    const scan_attr t = { .final = a->final != NULL };
    const mba_node *n = MBA_APPEND(g, selective_scan, &t, a->u, a->delta, a->A_log, a->B, a->C, a->D, a->z, a->dt_bias,
                                   a->initial, a->ids);
    if (a->final) *a->final = n->out[FINAL];
    return n->out[OUT];
}

/* Adds what the forward saves. bf16: states and y (selective_scan_slots.h); with --recompute they are recomputed. fp32:
 * states between segments, which only the CPU uses; a hundredth of what a layer saves anyway. */
static void save_states(mba_graph *g, const mba_node *n)
{
    const scan_dims d = scan_dims_of(n);
    if (n->in[U]->type.dtype == MBA_F32 && scan_segments(d) > 1)
        mba_save_for_backward(g, n, STARTS, MBA_TYPE(MBA_F32, d.B, scan_segments(d) - 1, d.D, d.N));
    const bool few = d.N <= CHUNKED_STATES;
    if (g->recompute || n->in[U]->type.dtype != MBA_BF16) return;
    if (!few && ((d.N != 8 && d.N != 16) || d.D / d.G % 4)) return;
    const int64_t items = few ? d.B : saved_items(n, d);
    mba_save_for_backward(g, n, KEPT,
                          MBA_TYPE(MBA_F32, items, mba_ceil(mba_ceil(d.B, items) * d.L, SAVE_EVERY), d.D, d.N));
    if (!few && mba_wants(n->in[Z])) mba_save_for_backward(g, n, YS, n->in[U]->type);
}

static void selective_scan_grad(mba_graph *g, const mba_node *n, mba_tensor *const *d)
{
    mba_tensor   *in[MBA_IN_MAX] = { [DOUT] = d[OUT], [DFINAL] = d[FINAL] };
    scan_bwd_attr t = { 0 };
    save_states(g, n);
    in[KEPT_IN] = n->out[KEPT];
    in[YS_IN] = n->out[YS];
    in[STARTS_IN] = n->out[STARTS];
    for (int k = 0; k <= IDS; k++) in[k] = n->in[k];
    for (int k = 0; k < GRADS; k++)
        if (mba_wants(n->in[k])) t.wants |= 1u << k;
    const mba_node *b = mba_append(g, &mba_op_selective_scan_bwd, &t, in);
    for (int k = 0; k < GRADS; k++)
        if (t.wants >> k & 1) mba_grad_add(g, n->in[k], b->out[k]);
}

/* ---- cost: the least work of any implementation (selective_scan.md) ---- */

/* Bytes of operands without the CPU's states between segments, which could be recomputed. */
static mba_cost cost_io(const mba_node *n)
{
    mba_cost c = mba_cost_io(n);
    if (n->op == &mba_op_selective_scan && n->out[STARTS]) c.write_bytes -= mba_tensor_bytes(n->out[STARTS]);
    if (n->op != &mba_op_selective_scan && n->in[STARTS_IN]) c.read_bytes -= mba_tensor_bytes(n->in[STARTS_IN]);
    return c;
}

static mba_cost selective_scan_cost(const mba_node *n)
{
    const scan_dims d = scan_dims_of(n);
    const double    tokens = (double)(d.B * d.L * d.D);
    mba_cost        c = cost_io(n);
    c.vector_flops = tokens * (6.0 * (double)d.N + 8);           // bias, softplus, step times u, skip, gate
    c.special_ops = tokens * ((double)d.N + (n->in[Z] ? 4 : 2)); // softplus: exp, log; gate: exp, reciprocal
    return c;
}

static mba_cost selective_scan_bwd_cost(const mba_node *n)
{
    const scan_dims d = scan_dims_of(n);
    const double    tokens = (double)(d.B * d.L * d.D);
    mba_cost        c = cost_io(n);
    c.vector_flops = tokens * (23.0 * (double)d.N + 16);
    c.special_ops = tokens * ((double)d.N + (n->in[Z] ? 5 : 3)); // one more reciprocal: derivative of softplus
    return c;
}

/* A value is a sum over states (or over the channels of a group, or over sequences) of sums over time. */
static double selective_scan_terms(const mba_node *n, int out)
{
    const scan_dims d = scan_dims_of(n);
    (void)out;
    return (double)(d.L * d.N);
}

static double selective_scan_bwd_terms(const mba_node *n, int out)
{
    const scan_dims d = scan_dims_of(n);
    const int64_t   group = d.D / d.G;
    if (out == DB || out == DC) return (double)(d.L * group);
    if (out == DA_LOG || out == DSKIP || out == DDT_BIAS) return (double)(d.B * d.L * d.N);
    return (double)(d.L * d.N);
}

/* ---- CPU plans: scratch only; a launch never uses more threads than scratch has room for ---- */

/* Floats per thread: A and the state of a strip, and three values per channel and step of a segment. */
size_t selective_scan_fwd_thread_floats(scan_dims d) { return (size_t)(2 * d.N * STRIP + 3 * scan_line_floats(d)); }

/* Floats per thread: A, the state before a segment, the adjoint, sums over a sequence; nine values per channel and step
 * of a segment; decays and states of one vector of channels. */
size_t selective_scan_bwd_thread_floats(scan_dims d)
{
    const int64_t lanes = 4 << mba_cpu_isa();
    return (size_t)(STRIP * (4 * d.N + 2) + 9 * scan_line_floats(d) + scan_segment(d) * 2 * GROUP * lanes);
}

#define CPU_TAKES(n) \
    MBA_REFUSE_IF((n)->in[U]->type.dtype != MBA_F32, "bf16 activations\nwhy: the CPU scan computes in fp32 only")

static mba_status selective_scan_fwd_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    const size_t floats = selective_scan_fwd_thread_floats(scan_dims_of(n));
    (void)m;
    CPU_TAKES(n);
    mba_plan_scratch(p, "threads", sizeof(float) * floats * (size_t)mba_cpu_threads());
    return MBA_OK;
}

static mba_status selective_scan_bwd_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    const scan_dims d = scan_dims_of(n);
    (void)m;
    CPU_TAKES(n);
    MBA_REFUSE_IF(scan_segments(d) > 1 && !n->in[STARTS_IN], "a forward pass that kept no states");
    const int64_t items = d.B * d.G * scan_strips(d);
    mba_plan_scratch(p, "threads", sizeof(float) * selective_scan_bwd_thread_floats(d) * (size_t)mba_cpu_threads());
    mba_plan_scratch(p, "dB, dC", sizeof(float) * (size_t)(items * scan_groups(d) * d.L * 2 * GROUP));
    mba_plan_scratch(p, "sums", sizeof(float) * (size_t)(items * (d.N + 2) * STRIP));
    return MBA_OK;
}

/* ---- cases ---- */

static mba_tensor *activation(mba_graph *g, const char *name, mba_type type)
{
    return mba_case_act(g, name, type, MBA_INIT_NORMAL(1));
}

static mba_tensor *normal(mba_graph *g, const char *name, mba_type type)
{
    return mba_param(g, name, type, MBA_INIT_NORMAL(1), MBA_DECAY);
}

/* Views as in a model: u and z are halves of one matrix, B and C columns of another, after its first `before`
 * columns. */
static void cut_windows(mba_graph *g, mba_selective_scan_args *a, scan_dims d, int64_t before)
{
    mba_tensor *uz = activation(g, "uz", MBA_TYPE(MBA_F32, d.B, d.L, 2 * d.D));
    mba_tensor *bc = activation(g, "bc", MBA_TYPE(MBA_F32, d.B, d.L, before + 2 * d.G * d.N));
    uz = mba_add(g, uz, uz);
    bc = mba_add(g, bc, bc);
    a->u = mba_slice(g, uz, 2, 0, d.D);
    a->z = mba_slice(g, uz, 2, d.D, d.D);
    const mba_type type = MBA_TYPE(g->compute, d.B, d.L, d.G, d.N);
    a->B = mba_reshape(g, mba_slice(g, bc, 2, before, d.G * d.N), type);
    a->C = mba_reshape(g, mba_slice(g, bc, 2, before + d.G * d.N, d.G * d.N), type);
}

static void selective_scan_build(mba_graph *g, const mba_case *c)
{
    const scan_dims         d = { c->dim[0], c->dim[1], c->dim[2], c->dim[3], c->dim[4] };
    const int64_t           f = c->dim[5];
    const mba_type          x = MBA_TYPE(MBA_F32, d.B, d.L, d.D);
    const mba_type          s = f & RANK3 ? MBA_TYPE(MBA_F32, d.B, d.L, d.N) : MBA_TYPE(MBA_F32, d.B, d.L, d.G, d.N);
    const mba_extreme       e = mba_extreme_of(c->dim[MBA_CASE_EXTREME]);
    const mba_init          decay = e.what ? MBA_INIT_LOG_UNIFORM(e.A_low, e.A_high) : MBA_INIT_LOG_UNIFORM(0.2, 3);
    mba_selective_scan_args a = { .delta = mba_case_act(g, "delta", x, MBA_INIT_NORMAL(e.what ? e.spread : 1)) };
    a.A_log = mba_param(g, "A_log", MBA_TYPE(MBA_F32, d.D, d.N), decay, MBA_NO_DECAY);
    if (f & WINDOWS) {
        cut_windows(g, &a, d, c->dim[6] ? c->dim[6] : 3);
    } else {
        a.u = activation(g, "u", x);
        a.B = activation(g, "B", s);
        a.C = activation(g, "C", s);
        if (!(f & NO_Z)) a.z = activation(g, "z", x);
    }
    if (!(f & NO_SKIP)) a.D = normal(g, "D", MBA_TYPE(MBA_F32, d.D));
    if (!(f & NO_BIAS))
        a.dt_bias = mba_param(g, "dt_bias", MBA_TYPE(MBA_F32, d.D), e.what ? MBA_INIT_CONST(e.raw) : MBA_INIT_NORMAL(1),
                              MBA_DECAY);
    if (f & WITH_INITIAL) a.initial = normal(g, "initial", MBA_TYPE(MBA_F32, d.B, d.D, d.N));
    if (f & WITH_IDS) a.ids = mba_index(g, "ids", MBA_TYPE(MBA_I32, d.B, d.L), 2);
    mba_tensor *final;
    if (f & WITH_FINAL) a.final = &final;
    mba_selective_scan_of(g, &a);
}

#define SCAN_INPUTS \
    [U] = MBA_SLOT("u"), [DELTA] = MBA_SLOT("delta"), [A_LOG] = MBA_SLOT("A_log"), [BM] = MBA_SLOT("B"), \
    [CM] = MBA_SLOT("C"), [SKIP] = MBA_SLOT("D", .optional = true), [Z] = MBA_SLOT("z", .optional = true), \
    [DT_BIAS] = MBA_SLOT("dt_bias", .optional = true), [INITIAL] = MBA_SLOT("initial", .optional = true), \
    [IDS] = MBA_SLOT("ids", .optional = true)

const mba_op mba_op_selective_scan = {
    .name = "selective_scan",
    .doc = "h = exp(dt A) h + dt u B, out = (C h + D u) silu(z)",
    .kind = MBA_SSM,
    .in = { SCAN_INPUTS },
    .out = { [OUT] = MBA_SLOT("out"),
             [FINAL] = MBA_SLOT("final"),
             [KEPT] = MBA_SLOT("kept", .saved = true),
             [YS] = MBA_SLOT("y", .saved = true),
             [STARTS] = MBA_SLOT("starts", .saved = true) },
    .attr_bytes = sizeof(scan_attr),
    .shape = selective_scan_shape,
    .grad = selective_scan_grad,
    .cost = selective_scan_cost,
    .ref = selective_scan_ref,
    .ref_space = selective_scan_ref_space,
    .cpu = (const mba_variant[]){ { "strips", selective_scan_fwd_plan, MBA_CPU(selective_scan_fwd) }, { 0 } },
    .cuda = (const mba_variant[]){ { "specialized", selective_scan_specialized_plan,
                                     MBA_CUDA(selective_scan_specialized_cuda) },
                                   { "chunked", selective_scan_chunked_plan, MBA_CUDA(selective_scan_chunked_cuda) },
                                   { "tiles", selective_scan_tiles_plan, MBA_CUDA(selective_scan_tiles_cuda) },
                                   { 0 } },
    .build = selective_scan_build,
    .terms = selective_scan_terms,
    .cases =
        (const mba_case[]){
            { { 1, 5, 2, 3, 1 }, "the golden shape" },
            { { 2, 7, 5, 16, 1 }, "sixteen states, fewer channels than a strip" },
            { { 1, 1, 3, 4, 1, WITH_INITIAL | WITH_FINAL }, "one token between two states" },
            { { 2, 6, 6, 1, 3, NO_Z }, "three groups, one state, no gate" },
            { { 1, 4, 19, 3, 1, NO_SKIP | NO_BIAS | RANK3 }, "a strip and three channels; neither skip nor bias" },
            { { 2, 9, 4, 5, 2, WITH_IDS | WITH_INITIAL | WITH_FINAL }, "documents, from state to state, two groups" },
            { { 2, 8, 3, 2, 1, WITH_IDS | WINDOWS }, "documents; u, z, B and C are windows" },
            { { 3, 4, 34, 6, 2, WINDOWS | WITH_FINAL }, "windows of grouped states; two strips in a group" },
            { { 2, 17, 8, 16, 1, WITH_IDS | WITH_INITIAL | WITH_FINAL },
              "sixteen states: documents, from state to state, a tile and a token" },
            { { 5, 7, 8, 8, 2, NO_Z }, "eight states: short sequences, two groups, no gate" },
            { { 2, 9, 4, 16, 1, WINDOWS | WITH_IDS }, "sixteen states: windows, B and C not aligned" },
            { { 1, 1, 32, 16, 1 }, "sixteen states: one token, a block of channels" },
            { { 1, 33, 4, 8, 1, WITH_IDS | WITH_INITIAL | WITH_FINAL },
              "eight states: documents, from state to state, two tiles and a token" },
            { { 1, 35, 5, 2, 1, WITH_IDS | WITH_INITIAL | WITH_FINAL },
              "two states: documents, from state to state, four chunks and three tokens" },
#define X(name, what, ...) { { 1, 40, 4, 16, 1, 0, 0, 0, MBA_##name }, what },
            MBA_EXTREMES(X)
#undef X
                { { 0 }, NULL },
        },
    .device_cases =
        (const mba_case[]){
#define X(name, what, ...) { { 1, 1100, 32, 16, 1, 0, 0, 0, MBA_##name }, "a sequence cut into pieces: " what },
            MBA_EXTREMES(X)
#undef X
                { { 0 }, NULL },
        },
    .sizes = (const mba_case[]){ { { 1, 1024, 1536, 16, 1 }, "mamba-130m, 1024 tokens" },
                                 { { 1, 4096, 1536, 16, 1 }, "mamba-130m, 4096 tokens" },
                                 { { 8, 2048, 1536, 16, 1 }, "8 x 2048, 1536 channels" },
                                 { { 4, 4096, 1536, 16, 1 }, "4 x 4096, 1536 channels" },
                                 { { 1, 32768, 1536, 16, 1 }, "1 x 32768, 1536 channels" },
                                 { { 32, 512, 1536, 16, 1 }, "32 x 512, 1536 channels" },
                                 { { 8, 2048, 4096, 16, 1 }, "8 x 2048, 4096 channels" },
                                 { { 4, 4096, 4096, 16, 1 }, "4 x 4096, 4096 channels" },
                                 { { 1, 32768, 4096, 16, 1 }, "1 x 32768, 4096 channels" },
                                 { { 32, 512, 4096, 16, 1 }, "32 x 512, 4096 channels" },
                                 { { 1024, 49, 320, 8, 1, NO_Z }, "windows of 49 tokens, 320 channels, 8 states" },
                                 { { 0 }, NULL } },
};

const mba_op mba_op_selective_scan_bwd = {
    .name = "selective_scan_bwd",
    .doc = "all gradients of selective_scan, by the adjoint recurrence",
    .kind = MBA_SSM,
    .no_grad = "a gradient",
    .in = { SCAN_INPUTS, [DOUT] = MBA_SLOT("dout", .optional = true), [DFINAL] = MBA_SLOT("dfinal", .optional = true),
            [KEPT_IN] = MBA_SLOT("kept", .optional = true), [YS_IN] = MBA_SLOT("y", .optional = true),
            [STARTS_IN] = MBA_SLOT("starts", .optional = true) },
    .out = { [DU] = MBA_SLOT("du", .adds = true),
             [DDELTA] = MBA_SLOT("ddelta", .adds = true),
             [DA_LOG] = MBA_SLOT("dA_log", .adds = true),
             [DB] = MBA_SLOT("dB", .adds = true),
             [DC] = MBA_SLOT("dC", .adds = true),
             [DSKIP] = MBA_SLOT("dD", .adds = true),
             [DZ] = MBA_SLOT("dz", .adds = true),
             [DDT_BIAS] = MBA_SLOT("ddt_bias", .adds = true),
             [DINITIAL] = MBA_SLOT("dinitial", .adds = true) },
    .attr_bytes = sizeof(scan_bwd_attr),
    .shape = selective_scan_bwd_shape,
    .cost = selective_scan_bwd_cost,
    .ref = selective_scan_bwd_ref,
    .ref_space = selective_scan_ref_space,
    .terms = selective_scan_bwd_terms,
    .cpu = (const mba_variant[]){ { "strips", selective_scan_bwd_plan, MBA_CPU(selective_scan_bwd) }, { 0 } },
    .cuda = (const mba_variant[]){ { "specialized", selective_scan_bwd_specialized_plan,
                                     MBA_CUDA(selective_scan_bwd_specialized_cuda) },
                                   { "chunked", selective_scan_bwd_chunked_plan,
                                     MBA_CUDA(selective_scan_bwd_chunked_cuda) },
                                   { "tiles", selective_scan_bwd_tiles_plan, MBA_CUDA(selective_scan_bwd_tiles_cuda) },
                                   { 0 } },
};
