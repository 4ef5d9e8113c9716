// SPDX-License-Identifier: Apache-2.0
/* ssd.c -- state-space duality, the sequence operator of Mamba-2: declaration, shapes, gradient, cost, cases (ssd.md).
 *
 * CPU: `streaming` processes the chunks of a head in sequence with the state in cache. CUDA: `fused` does the same on
 * Hopper with the state in registers (fused/). The multi-kernel variants (baseline/) have the kernels of mamba_ssm, by
 * the same names: `chunked` for bf16, `fma` for everything else. Variants differ from `chunked` in one thing
 * each: `persistent*` have persistent blocks, `bc_fused` computes C B^T where it is used. */
#include "ops/ssd/ssd.h"

#include <math.h>

#include "core/device.h"
#include "ops/cast/cast.h"
#include "ops/extremes.h"
#include "ops/heads.h"
#include "ops/matmul/matmul.h"
#include "ops/ssd/ssd_slots.h"

/* ---- shapes ---- */

ssd_dims ssd_dims_of(const mba_node *n)
{
    const ssd_attr   *a = n->attr;
    const int64_t    *x = n->in[X]->type.dim, *b = n->in[BM]->type.dim;
    const mba_tensor *D = n->in[SKIP];
    return (ssd_dims){ .B = x[0],
                       .L = x[1],
                       .H = x[2],
                       .P = x[3],
                       .G = b[2],
                       .N = b[3],
                       .J = x[2] / b[2],
                       .Q = a->chunk,
                       .C = !D                  ? 0
                            : D->type.rank == 1 ? 1
                                                : x[3],
                       .dt_min = a->dt_min,
                       .dt_max = a->dt_max };
}

static bool is(const mba_tensor *t, mba_dtype dtype, int64_t rank, const int64_t *dim)
{
    const mba_type want = { .dtype = dtype,
                            .rank = rank,
                            .dim = { dim[0], rank > 1 ? dim[1] : 0, rank > 2 ? dim[2] : 0, rank > 3 ? dim[3] : 0 } };
    return mba_type_equal(&t->type, &want);
}
#define IS(t, dtype, ...) \
    is((t), (dtype), (int64_t)(sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)), (const int64_t[]){ __VA_ARGS__ })

/* Whether tokens of a sequence have one stride, and the values of a head are contiguous. */
static bool has_regular_strides(const mba_tensor *t, int64_t L, int64_t token, int64_t head)
{
    return t->run == t->pitch || (t->run % head == 0 && (token % t->run == 0 || t->run % (L * token) == 0));
}

static mba_status check_views(const mba_node *n, int64_t L, int64_t HP, int64_t GN)
{
    const struct {
        int     slot;
        int64_t token, head;
    } w[] = {
        { X, HP, n->in[X]->type.dim[3] },
        { BM, GN, n->in[BM]->type.dim[3] },
        { CM, GN, n->in[BM]->type.dim[3] },
        { DT, n->in[X]->type.dim[2], 1 },
    };
    for (size_t i = 0; i < sizeof w / sizeof *w; i++)
        MBA_NEED(has_regular_strides(n->in[w[i].slot], L, w[i].token, w[i].head),
                 "ssd: the tokens of %s do not have one stride\nfix: slice whole columns, or copy it first",
                 n->op->in[w[i].slot].name);
    return MBA_OK;
}

static mba_status check_inputs(const mba_node *n)
{
    mba_tensor *const *in = n->in;
    MBA_NEED(in[X]->type.rank == 4 && in[BM]->type.rank == 4, "ssd: x is (B, L, H, P) and B is (B, L, G, N)");
    const mba_dtype T = in[X]->type.dtype;
    const int64_t   B = in[X]->type.dim[0], L = in[X]->type.dim[1], H = in[X]->type.dim[2], P = in[X]->type.dim[3],
                  G = in[BM]->type.dim[2], N = in[BM]->type.dim[3];
    MBA_NEED(T == MBA_F32 || T == MBA_BF16, "ssd: x holds integers");
    MBA_NEED(H % G == 0, "ssd: %lld heads do not share %lld groups\nfix: choose --groups so that it divides --heads",
             (long long)H, (long long)G);
    MBA_NEED(IS(in[BM], T, B, L, G, N) && IS(in[CM], T, B, L, G, N), "ssd: B and C are (B, L, G, N), of the type of x");
    MBA_NEED(IS(in[DT], T, B, L, H), "ssd: dt is (B, L, H), of the type of x");
    MBA_NEED(IS(in[A_LOG], MBA_F32, H), "ssd: A_log is (H), fp32");
    MBA_NEED(!in[SKIP] || IS(in[SKIP], MBA_F32, H) || IS(in[SKIP], MBA_F32, H, P), "ssd: D is (H) or (H, P), fp32");
    MBA_NEED(!in[DT_BIAS] || IS(in[DT_BIAS], MBA_F32, H), "ssd: dt_bias is (H), fp32");
    MBA_NEED(!in[IDS] || IS(in[IDS], MBA_I32, B, L), "ssd: ids is (B, L), i32");
    MBA_NEED(!in[INITIAL] || (IS(in[INITIAL], MBA_F32, B, H, P, N) && in[INITIAL]->run % N == 0),
             "ssd: the initial state is (B, H, P, N), fp32");
    for (int k = A_LOG; k <= DT_BIAS; k++)
        MBA_NEED(!in[k] || mba_dense(in[k]), "ssd: %s is a strided view\nwhy: kernels read it as a contiguous vector",
                 n->op->in[k].name);
    return check_views(n, L, H * P, G * N);
}

static mba_status ssd_shape(const mba_node *n, mba_type *out)
{
    const ssd_attr *a = n->attr;
    MBA_TRY(check_inputs(n));
    MBA_NEED(a->chunk > 0, "ssd: a chunk of %lld tokens", (long long)a->chunk);
    MBA_NEED(a->dt_min >= 0 && a->dt_min <= a->dt_max, "ssd: the step is to lie in %g .. %g", a->dt_min, a->dt_max);
    const int64_t *x = n->in[X]->type.dim;
    out[Y] = n->in[X]->type;
    if (a->final) out[FINAL] = MBA_TYPE(MBA_F32, x[0], x[2], x[3], n->in[BM]->type.dim[3]);
    return MBA_OK;
}

static const int input_of[] = { [DX] = X,         [DDT] = DT,     [DBM] = BM,           [DCM] = CM,
                                [DA_LOG] = A_LOG, [DSKIP] = SKIP, [DDT_BIAS] = DT_BIAS, [DINITIAL] = INITIAL };

static mba_status ssd_bwd_shape(const mba_node *n, mba_type *out)
{
    MBA_TRY(check_inputs(n));
    for (int k = DX; k <= DINITIAL; k++)
        if (n->in[input_of[k]]) out[k] = n->in[input_of[k]]->type;
    return MBA_OK;
}

/* ---- graph ---- */

mba_tensor *mba_ssd_(mba_graph *g, mba_ssd_args a)
{
    const ssd_attr  t = { .chunk = a.chunk ? a.chunk : 256,
                          .final = a.final != NULL,
                          .dt_min = a.dt_min,
                          .dt_max = a.dt_max > 0 ? a.dt_max : (double)INFINITY };
    const mba_node *n = MBA_APPEND(g, ssd, &t, a.x, a.dt, a.B, a.C, a.A_log, a.D, a.dt_bias, a.ids, a.initial);
    if (a.final) *a.final = n->out[FINAL];
    return n->out[Y];
}

static double bytes_of(const mba_type *t) { return (double)mba_type_elems(t) * (double)mba_dtype_bytes(t->dtype); }

/* Adds the outputs that only `fused` writes and reads. Where memory is short its backward pass recomputes them. */
static void save_states(mba_graph *g, const mba_node *n)
{
    const ssd_dims d = ssd_dims_of(n);
    mba_type       type[MBA_OUT_MAX] = { { 0 } };
    double         bytes = 0;
    if (!ssd_fused_shape(&d, n->in[X]->type.dtype)) return;
    ssd_saved_types(type, &d, n->in[IDS] != NULL);
    for (int k = KEPT_STATES; k <= KEPT_REACH; k++)
        if (type[k].dtype) bytes += bytes_of(&type[k]);
    if (mba_should_recompute(g, MBA_RECOMPUTED_STATES, bytes)) return;
    for (int k = KEPT_STATES; k <= KEPT_REACH; k++)
        if (type[k].dtype) mba_save_for_backward(g, n, k, type[k]);
}

static void ssd_grad(mba_graph *g, const mba_node *n, mba_tensor *const *d)
{
    mba_tensor *const *i = n->in;
    save_states(g, n);
    const mba_node *b = MBA_APPEND(g, ssd_bwd, n->attr, i[X], i[DT], i[BM], i[CM], i[A_LOG], i[SKIP], i[DT_BIAS],
                                   i[IDS], i[INITIAL], d[Y], d[FINAL], n->out[KEPT_STATES], n->out[KEPT_RECORDS],
                                   n->out[KEPT_PAIRS], n->out[KEPT_REACH]);
    for (int k = DX; k <= DINITIAL; k++)
        if (b->out[k]) mba_grad_add(g, i[input_of[k]], b->out[k]);
}

/* ---- cost: a lower bound for any implementation, at the chunk that minimises it (ssd.md, "Cost") ---- */

/* The alphabet of dimensions as doubles; T tokens. */
typedef struct sizes {
    double T, H, P, N, G;
} sizes;

static sizes sizes_of(const mba_node *n)
{
    const ssd_dims d = ssd_dims_of(n);
    return (sizes){ .T = (double)(d.B * d.L), .H = (double)d.H, .P = (double)d.P, .N = (double)d.N, .G = (double)d.G };
}

/* The chunk in 1 .. L that minimises pair * Q + state / Q. */
static double best_chunk(const mba_node *n, double pair, double state)
{
    return fmin(fmax(sqrt(state / pair), 1), (double)n->in[X]->type.dim[1]);
}

/* Bytes of operands, without what is saved for the backward pass: that could be recomputed. */
static mba_cost cost_io(const mba_node *n)
{
    mba_cost c = mba_cost_io(n);
    for (int k = 0; k < MBA_OUT_MAX; k++)
        if (n->out[k] && n->op->out[k].saved) c.write_bytes -= mba_tensor_bytes(n->out[k]);
    for (int k = STATES_IN; k <= REACH_IN; k++)
        if (n->in[k]) c.read_bytes -= mba_tensor_bytes(n->in[k]);
    return c;
}

static mba_cost ssd_cost(const mba_node *n)
{
    const sizes  s = sizes_of(n);
    const double TH = s.T * s.H, PN = s.P * s.N;
    const double Q = best_chunk(n, s.P + s.G * s.N / s.H + 2, PN);
    mba_cost     c = cost_io(n);
    c.tensor_flops = 4 * TH * PN + TH * (Q + 1) * s.P + s.T * s.G * (Q + 1) * s.N;
    c.vector_flops = TH * (2 * s.P + 1.5 * (Q + 1) + 6 + PN / Q);
    c.special_ops = TH * ((Q + 1) / 2 + 4);
    return c;
}

static mba_cost ssd_bwd_cost(const mba_node *n)
{
    const sizes  s = sizes_of(n);
    const double TH = s.T * s.H, PN = s.P * s.N;
    const double Q = best_chunk(n, 2 * s.P + 3 * s.G * s.N / s.H + 4.5, 4 * PN);
    mba_cost     c = cost_io(n);
    c.tensor_flops = 10 * TH * PN + 2 * TH * (Q + 1) * s.P + 3 * s.T * s.G * (Q + 1) * s.N;
    c.vector_flops = TH * (13 * s.P + 2 * s.N + 4 * (Q + 1) + 16 + 4 * PN / Q);
    c.special_ops = TH * ((Q + 1) / 2 + 6);
    return c;
}

/* Number of products behind a value, for tolerances: y sums over the state and all earlier tokens, and so on. */
static double ssd_terms(const mba_node *n, int out)
{
    const ssd_dims d = ssd_dims_of(n);
    return out == FINAL ? (double)d.L : (double)(d.L * d.N);
}

static double ssd_bwd_terms(const mba_node *n, int out)
{
    const ssd_dims d = ssd_dims_of(n);
    const double   L = (double)d.L, N = (double)d.N, P = (double)d.P;
    switch (out) {
    case DX: return L * N;
    case DBM:
    case DCM: return L * P * (double)d.J;
    case DINITIAL: return L;
    case DDT: return L * N * P;
    default: return L * N * P * (double)d.B;
    }
}

/* ---- CUDA: what the plans of all variants ask ---- */

bool ssd_axes_of(ssd_axes *a, const mba_tensor *t)
{
    const int rank = (int)t->type.rank;
    *a = (ssd_axes){ { 0 } };
    if (rank > 3 && t->run % t->type.dim[3]) return false;
    for (int i = 0; i < 3 && i < rank; i++)
        if (!mba_axis_stride(&a->axis[i], t, i)) return false;
    return true;
}

static bool is_param(const mba_node *n, const mba_tensor *t)
{
    return t == n->in[A_LOG] || t == n->in[SKIP] || t == n->in[DT_BIAS];
}

mba_status ssd_check_axes(const mba_node *n)
{
    ssd_axes a;
    for (int k = 0; k < MBA_IN_MAX; k++)
        MBA_REFUSE_IF(n->in[k] && !is_param(n, n->in[k]) && !ssd_axes_of(&a, n->in[k]),
                      "%s is a view without one stride per axis\n"
                      "fix: slice whole columns, or copy it first",
                      n->op->in[k].name);
    for (int k = 0; k < MBA_OUT_MAX; k++)
        MBA_REFUSE_IF(n->out[k] && n->out[k]->type.rank > 2 && !ssd_axes_of(&a, n->out[k]),
                      "%s is a view without one stride per axis", n->op->out[k].name);
    return MBA_OK;
}

bool ssd_rows_aligned(const mba_tensor *t)
{
    ssd_axes a;
    return !t || t->type.rank != 4 || t->type.dtype != MBA_BF16
           || (t->offset % 8 == 0 && ssd_axes_of(&a, t) && a.axis[0] % 8 == 0 && a.axis[1] % 8 == 0
               && a.axis[2] % 8 == 0);
}

bool ssd_vec_aligned(const mba_node *n)
{
    bool fits = true;
    for (int k = 0; k < MBA_IN_MAX; k++) fits = fits && ssd_rows_aligned(n->in[k]);
    for (int k = 0; k < MBA_OUT_MAX; k++) fits = fits && ssd_rows_aligned(n->out[k]);
    return fits;
}

void ssd_save_nothing(mba_plan *p)
{
    for (int k = KEPT_STATES; k <= KEPT_REACH; k++) p->leaves |= 1u << k;
}

/* ---- CPU ---- */

static int64_t rounded(int64_t n, int64_t to) { return mba_ceil(n, to) * to; }

/* Heads per work item. More heads save traffic for the partial sums of dB and dC; at least eight items keep several
 * cores busy. The number follows from the shape alone, because it decides the order of sums. */
static int64_t heads_per_item(const ssd_dims *d, int64_t slab)
{
    enum { MOST = 4, ITEMS = 8 };
    for (int64_t n = MOST; n > 1; n--)
        if (d->J % n == 0 && slab * d->H / n >= ITEMS) return n;
    return 1;
}

ssd_work ssd_work_of(const ssd_dims *d, bool backward)
{
    enum { Q = SSD_CHUNK, PAD = SSD_PAD, HEADS_IN_FLIGHT = 64 };
    ssd_work w = { .chunks = mba_ceil(d->L, Q), .P = rounded(d->P, PAD), .N = rounded(d->N, PAD), .ldq = Q + PAD };
    w.ldp = w.P + PAD;
    w.ldn = w.N + PAD;
    w.slab = mba_ceil(HEADS_IN_FLIGHT, d->H) < d->B ? mba_ceil(HEADS_IN_FLIGHT, d->H) : d->B;
    w.block = heads_per_item(d, w.slab);
    if (!backward) {
        w.packed = w.N * w.ldq + Q * w.ldn + Q * w.ldq;
        w.buffers = 3 * Q * w.ldp + Q * w.ldq + SSD_STEPS + w.block * w.N * w.ldp + Q * w.ldn + w.N * w.ldq;
        w.scratch_packed = 0;
        w.scratch_thread = 1;
    } else {
        w.packed = w.N * w.ldq + 2 * Q * w.ldn + Q * w.ldq;
        w.part = 2 * Q * w.ldn + Q * w.ldq;
        w.buffers = 4 * Q * w.ldp + 4 * w.P * w.ldq + 2 * Q * w.ldq + w.P * w.ldn + Q * w.ldn + 5 * Q
                    + w.block * (w.N * w.ldp + w.P + SSD_PAD) + w.N * w.ldq;
        w.states = w.block * w.chunks * (w.P * w.ldn + SSD_STEPS);
        w.scratch_packed = 0;
        w.scratch_part = 1;
        w.scratch_param = 2;
        w.scratch_thread = 3;
    }
    return w;
}

static mba_status cpu_plan(mba_plan *p, const mba_node *n, bool backward)
{
    const ssd_dims d = ssd_dims_of(n);
    const ssd_work w = ssd_work_of(&d, backward);
    MBA_REFUSE_IF(n->in[X]->type.dtype != MBA_F32, "x of two bytes\nwhy: the CPU computes in fp32");
    mba_plan_scratch(p, backward ? "B, C, B^T, C B^T" : "B, C^T, B C^T",
                     sizeof(float) * (size_t)(w.slab * d.G * w.chunks * w.packed));
    if (backward)
        mba_plan_scratch(p, "dB, dC, dCB per block of heads",
                         sizeof(float) * (size_t)(w.slab * d.H / w.block * w.chunks * w.part));
    if (backward) mba_plan_scratch(p, "dA, ddt, dD per sequence", sizeof(float) * (size_t)(d.B * d.H * (w.P + 2)));
    mba_plan_scratch(p, "per thread", sizeof(float) * (size_t)((int64_t)mba_cpu_threads() * (w.buffers + w.states)));
    return MBA_OK;
}

static mba_status ssd_cpu_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    (void)m;
    return cpu_plan(p, n, false);
}

static mba_status ssd_bwd_cpu_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    (void)m;
    return cpu_plan(p, n, true);
}

/* ---- cases ---- */

/* A case: B, L, H, P, G, N, chunk, options (ssd_slots.h), and which extreme of steps and decays. */

static mba_tensor *real(mba_graph *g, const char *name, mba_type type, double scale)
{
    return mba_param(g, name, type, MBA_INIT_NORMAL(scale), MBA_DECAY);
}

/* x, B and C as columns of one matrix and dt as columns of another, as in the model. */
static void slice_views(mba_graph *g, mba_ssd_args *a, const int64_t *d)
{
    const int64_t B = d[0], L = d[1], H = d[2], P = d[3], G = d[4], N = d[5];
    mba_tensor   *u = mba_case_act(g, "u", MBA_TYPE(MBA_F32, B, L, 2), MBA_INIT_NORMAL(1));
    mba_tensor   *xbc = mba_linear(g, u, real(g, "to xbc", MBA_TYPE(g->compute, H * P + 2 * G * N, 2), 1));
    mba_tensor   *zdt = mba_linear(g, u, real(g, "to zdt", MBA_TYPE(g->compute, 3 + H, 2), 1));
    a->x = mba_reshape(g, mba_slice(g, xbc, 2, 0, H * P), MBA_TYPE(g->compute, B, L, H, P));
    a->B = mba_reshape(g, mba_slice(g, xbc, 2, H * P, G * N), MBA_TYPE(g->compute, B, L, G, N));
    a->C = mba_reshape(g, mba_slice(g, xbc, 2, H * P + G * N, G * N), MBA_TYPE(g->compute, B, L, G, N));
    a->dt = mba_slice(g, zdt, 2, 3, H);
}

/* Distributions of dt, A_log and dt_bias. */
typedef struct distributions {
    double   dt;
    mba_init A_log, bias;
} distributions;

static distributions distributions_of(const mba_case *c)
{
    const int64_t     has = c->dim[7];
    const mba_extreme e = mba_extreme_of(c->dim[MBA_CASE_EXTREME]);
    if (e.what) return (distributions){ e.spread, MBA_INIT_LOG_UNIFORM(e.A_low, e.A_high), MBA_INIT_CONST(e.raw) };
    if (has & MODEL) return (distributions){ 0.5, MBA_INIT_LOG_UNIFORM(1, 16), MBA_INIT_STEP(1e-3, 0.1) };
    return (distributions){ 1, MBA_INIT_LOG_UNIFORM(0.2, has & STRONG ? 60 : 2), MBA_INIT_NORMAL(1) };
}

static void ssd_build(mba_graph *g, const mba_case *c)
{
    const distributions draw = distributions_of(c);
    const int64_t      *d = c->dim, B = d[0], L = d[1], H = d[2], P = d[3], G = d[4], N = d[5], has = d[7];
    mba_tensor         *last = NULL;
    mba_ssd_args        a = { .chunk = d[6], .final = has & STATES ? &last : NULL };
    if (has & WINDOWS) {
        slice_views(g, &a, d);
    } else {
        a.x = mba_case_act(g, "x", MBA_TYPE(MBA_F32, B, L, H, P), MBA_INIT_NORMAL(1));
        a.dt = mba_case_act(g, "dt", MBA_TYPE(MBA_F32, B, L, H), MBA_INIT_NORMAL(draw.dt));
        a.B = mba_case_act(g, "B", MBA_TYPE(MBA_F32, B, L, G, N), MBA_INIT_NORMAL(1));
        a.C = mba_case_act(g, "C", MBA_TYPE(MBA_F32, B, L, G, N), MBA_INIT_NORMAL(1));
    }
    a.A_log = mba_param(g, "A_log", MBA_TYPE(MBA_F32, H), draw.A_log, MBA_NO_DECAY);
    if (has & SKIP_HEAD) a.D = real(g, "D", MBA_TYPE(MBA_F32, H), 1);
    if (has & SKIP_FULL) a.D = real(g, "D", MBA_TYPE(MBA_F32, H, P), 1);
    if (has & BIAS) a.dt_bias = mba_param(g, "dt_bias", MBA_TYPE(MBA_F32, H), draw.bias, MBA_DECAY);
    if (has & RESETS) a.ids = mba_index(g, "ids", MBA_TYPE(MBA_I32, B, L), 2);
    if (has & STATES) a.initial = real(g, "initial", MBA_TYPE(MBA_F32, B, H, P, N), 1);
    if (has & LIMITS) {
        a.dt_min = 0.35;
        a.dt_max = 1.25;
    }
    mba_ssd_(g, a);
}

/* Shapes at which peers are measured, and those of published models with heads of other widths. */
// clang-format off
#define PUBLISHED(B, L, H, P, G, N, note) { { (B), (L), (H), (P), (G), (N), 256, SKIP_HEAD | BIAS | MODEL }, note }
#define PEER(B, L, H, note) PUBLISHED(B, L, H, 64, 1, 128, note)
// clang-format on
#define PEERS(H, model) \
    PEER(8, 2048, H, model ", 8 x 2048"), PEER(4, 4096, H, model ", 4 x 4096"), \
        PEER(1, 32768, H, model ", 1 x 32768"), PEER(32, 512, H, model ", 32 x 512")

/* Inputs of the forward pass, which the backward pass has too. */
// clang-format off
#define INPUTS \
    [X] = MBA_SLOT("x"), [DT] = MBA_SLOT("dt"), [BM] = MBA_SLOT("B"), [CM] = MBA_SLOT("C"), \
    [A_LOG] = MBA_SLOT("A_log"), [SKIP] = MBA_SLOT("D", .optional = true), \
    [DT_BIAS] = MBA_SLOT("dt_bias", .optional = true), [IDS] = MBA_SLOT("ids", .optional = true), \
    [INITIAL] = MBA_SLOT("initial", .optional = true)
#define FORWARD(name)  { #name, ssd_##name##_plan, MBA_CUDA(ssd_##name##_cuda) }
#define BACKWARD(name) { #name, ssd_bwd_##name##_plan, MBA_CUDA(ssd_bwd_##name##_cuda) }
// clang-format on

const mba_op mba_op_ssd = {
    .name = "ssd",
    .doc = "the state-space dual of Mamba-2: h = exp(dt A) h + dt x B^T, y = h C + D x",
    .kind = MBA_SSM,
    .tf32 = 2,
    .in = { INPUTS },
    .out = { [Y] = MBA_SLOT("y"),
             [FINAL] = MBA_SLOT("final"),
             [KEPT_STATES] = MBA_SLOT("states", .saved = true),
             [KEPT_RECORDS] = MBA_SLOT("records", .saved = true),
             [KEPT_PAIRS] = MBA_SLOT("CB", .saved = true),
             [KEPT_REACH] = MBA_SLOT("reach", .saved = true) },
    .attr_bytes = sizeof(ssd_attr),
    .shape = ssd_shape,
    .grad = ssd_grad,
    .cost = ssd_cost,
    .ref = ssd_ref,
    .ref_space = ssd_ref_space,
    .cpu = (const mba_variant[]){ { "streaming", ssd_cpu_plan, MBA_CPU(ssd_fwd) }, { 0 } },
    .cuda = (const mba_variant[]){ SSD_VARIANTS(FORWARD), { 0 } },
    .build = ssd_build,
    .terms = ssd_terms,
    .cases =
        (const mba_case[]){
            { { 1, 10, 2, 2, 1, 3, 4, SKIP_HEAD | BIAS | STATES }, "the golden shape" },
            { { 2, 67, 3, 5, 1, 7, 16, SKIP_HEAD | BIAS }, "nothing is a multiple of anything; two chunks of the CPU" },
            { { 1, 130, 4, 3, 2, 2, 64, SKIP_FULL | STATES }, "groups of heads, D per channel, three chunks" },
            { { 2, 70, 2, 2, 1, 3, 16, SKIP_HEAD | BIAS | RESETS | STATES }, "a reset at every other token" },
            { { 1, 66, 2, 3, 2, 2, 16, LIMITS | BIAS | RESETS }, "limits of the step at work, no D" },
            { { 2, 1, 2, 3, 1, 4, 16, SKIP_HEAD | STATES }, "a single token" },
            { { 2, 9, 4, 2, 2, 3, 4, SKIP_HEAD | BIAS | WINDOWS }, "views: x, B, C of one matrix, dt of another" },
            { { 1, 5, 1, 16, 1, 16, 4, SKIP_FULL | STATES | WINDOWS }, "whole vectors, views" },
            { { 1, 70, 3, 8, 1, 8, 64, SKIP_HEAD | BIAS | RESETS | STATES },
              "tensor cores: an odd head, a ragged chunk, resets" },
            { { 1, 136, 2, 8, 2, 8, 128, SKIP_FULL | LIMITS | WINDOWS }, "tensor cores: rows of 128, groups, views" },
            { { 1, 70, 4, 8, 2, 8, 64, SKIP_HEAD | BIAS | STRONG | RESETS | STATES },
              "wide-range chunks with resets and groups" },
            { { 2, 40, 4, 8, 2, 8, 64, SKIP_FULL | BIAS | STRONG | STATES | WINDOWS },
              "wide-range chunks in views, groups" },
#define X(name, what, ...) { { 1, 70, 2, 2, 1, 3, 16, SKIP_HEAD | BIAS, MBA_##name }, what },
            MBA_EXTREMES(X)
#undef X
                { { 0 }, NULL } },
    .device_cases =
        (const mba_case[]){
            // shapes of `fused`, each of its code paths once
            { { 2, 100, 4, 64, 2, 128, 64, SKIP_FULL | BIAS | WINDOWS }, "fused: a ragged chunk, groups, views" },
            { { 2, 200, 4, 64, 2, 128, 64, SKIP_HEAD | BIAS | RESETS | STATES },
              "fused: a reset at every other token" },
            { { 2, 200, 6, 64, 1, 128, 64, SKIP_HEAD | BIAS | STRONG }, "fused: wide-range chunks" },
            { { 2, 129, 4, 64, 1, 128, 64, SKIP_HEAD | BIAS | STRONG },
              "fused: wide-range chunks in every second pair" },
            { { 2, 200, 4, 64, 2, 128, 64, SKIP_HEAD | BIAS | STRONG | RESETS | STATES },
              "fused: wide-range chunks with resets and groups" },
            { { 2, 200, 4, 64, 2, 128, 64, SKIP_FULL | BIAS | STRONG | WINDOWS },
              "fused: wide-range chunks in views, groups" },
            { { 1, 1100, 4, 64, 1, 128, 256, SKIP_HEAD | BIAS | STRONG | STATES },
              "fused: segments, states, strong decays" },
            { { 2, 1000, 18, 64, 1, 128, 256, SKIP_FULL | BIAS | STATES }, "fused: split items, states recomputed" },
            { { 7, 160, 38, 64, 1, 128, 256, SKIP_HEAD | BIAS }, "fused: split items, states passed on" },
            // tiled shapes of `fused`
            { { 2, 100, 4, 64, 2, 64, 64, SKIP_FULL | BIAS | WINDOWS }, "tiled: half a state, groups, views" },
            { { 2, 200, 4, 80, 2, 128, 64, SKIP_FULL | BIAS | RESETS | STATES },
              "tiled: heads of a tile and a quarter, resets" },
            { { 1, 333, 3, 32, 1, 16, 64, SKIP_HEAD | BIAS | STATES }, "tiled: an odd head, narrow tiles" },
            { { 2, 200, 3, 128, 1, 128, 64, SKIP_HEAD | BIAS | STRONG }, "tiled: heads of two tiles, wide range" },
            { { 1, 150, 4, 80, 2, 200, 64, SKIP_HEAD | BIAS | STRONG | RESETS | STATES | WINDOWS },
              "tiled: wide range with resets, groups, views" },
            { { 1, 1100, 5, 136, 1, 72, 256, SKIP_FULL | BIAS | STRONG | STATES },
              "tiled: heads of three tiles, segments" },
            { { 2, 130, 6, 40, 3, 8, 64, LIMITS | WINDOWS }, "tiled: no D, limits, views" },
            { { 2, 137, 3, 50, 1, 20, 64, SKIP_FULL | BIAS | STATES | WINDOWS }, "tiled: padded rows, views" },
            { { 1, 150, 4, 33, 2, 130, 64, SKIP_HEAD | BIAS | RESETS }, "tiled: padded rows, a state of two tiles" },
            { { 2, 100, 4, 64, 2, 256, 64, SKIP_FULL | BIAS | WINDOWS }, "tiled: a state of two tiles, groups, views" },
            { { 1, 200, 3, 128, 1, 256, 64, SKIP_FULL | BIAS | RESETS | STATES },
              "tiled: heads of four tiles, resets" },
            { { 1, 200, 3, 48, 1, 200, 64, SKIP_HEAD | BIAS | STRONG | STATES },
              "tiled: a state of two tiles, wide range, an odd head" },
            { { 1, 1100, 4, 64, 1, 256, 256, SKIP_HEAD | BIAS | STATES }, "tiled: a state of two tiles, segments" },
#define X(name, what, ...) \
    { { 2, 137, 4, 64, 1, 128, 64, SKIP_HEAD | BIAS, MBA_##name }, "fused, a pair of nine tokens: " what },
            MBA_EXTREMES(X)
#undef X
                { { 2, 137, 4, 64, 1, 128, 64, SKIP_HEAD | BIAS | STATES, MBA_NEAR_FORGOTTEN },
                  "fused, a pair of nine tokens: steps near 8, a gradient of the final state" },
            { { 2, 137, 3, 128, 1, 256, 64, SKIP_HEAD | BIAS | STATES, MBA_NEAR_FORGOTTEN },
              "tiled, a pair of nine tokens: steps near 8, a gradient of the final state" },
            { { 0 }, NULL } },
    .sizes =
        (const mba_case[]){
            { { 1, 1024, 24, 64, 1, 128, 256, SKIP_HEAD | BIAS | MODEL }, "mamba2-130m, 1024 tokens" },
            { { 1, 4096, 24, 64, 1, 128, 256, SKIP_HEAD | BIAS | MODEL }, "mamba2-130m, 4096 tokens" },
            { { 1, 1024, 32, 64, 8, 128, 256, SKIP_HEAD | BIAS | MODEL }, "mamba2-headline, 1024 tokens" },
            PEERS(24, "mamba2-130m"),
            PEERS(64, "mamba2-1.3b"),
            PEERS(80, "mamba2-2.7b"),
            PUBLISHED(4, 4096, 80, 64, 1, 64, "zamba2-2.7b, 4 x 4096"),
            PUBLISHED(4, 4096, 64, 128, 1, 64, "plamo2-8b, 4 x 4096"),
            PUBLISHED(4, 4096, 128, 80, 8, 128, "nemotron-nano-9b, 4 x 4096"),
            PUBLISHED(4, 4096, 48, 32, 1, 128, "granite-4.0-h-350m, 4 x 4096"),
            PUBLISHED(8, 2048, 32, 128, 1, 128, "heads of 128, 8 x 2048"),
            PUBLISHED(8, 2048, 25, 64, 1, 128, "25 heads, 8 x 2048"),
            PUBLISHED(8, 2048, 48, 64, 1, 256, "falcon-h1-1.5b, 8 x 2048"),
            PUBLISHED(4, 4096, 24, 128, 1, 256, "falcon-h1-7b, 4 x 4096"),
            PUBLISHED(2, 4096, 256, 64, 8, 256, "nemotron-h-56b, 2 x 4096"),
            { { 0 }, NULL } },
};

const mba_op mba_op_ssd_bwd = {
    .name = "ssd_bwd",
    .doc = "gradients of all inputs of ssd; recomputes states that the forward pass did not save",
    .kind = MBA_SSM,
    .tf32 = 2,
    .no_grad = "a gradient",
    .in = { INPUTS, [DY] = MBA_SLOT("dy", .optional = true), [DFINAL] = MBA_SLOT("dfinal", .optional = true),
            [STATES_IN] = MBA_SLOT("states", .optional = true), [RECORDS_IN] = MBA_SLOT("records", .optional = true),
            [PAIRS_IN] = MBA_SLOT("CB", .optional = true), [REACH_IN] = MBA_SLOT("reach", .optional = true) },
    .out = { [DX] = MBA_SLOT("dx", .adds = true),
             [DDT] = MBA_SLOT("ddt", .adds = true),
             [DBM] = MBA_SLOT("dB", .adds = true),
             [DCM] = MBA_SLOT("dC", .adds = true),
             [DA_LOG] = MBA_SLOT("dA_log", .adds = true),
             [DSKIP] = MBA_SLOT("dD", .adds = true),
             [DDT_BIAS] = MBA_SLOT("ddt_bias", .adds = true),
             [DINITIAL] = MBA_SLOT("dinitial", .adds = true) },
    .attr_bytes = sizeof(ssd_attr),
    .shape = ssd_bwd_shape,
    .cost = ssd_bwd_cost,
    .ref = ssd_bwd_ref,
    .ref_space = ssd_ref_space,
    .terms = ssd_bwd_terms,
    .cpu = (const mba_variant[]){ { "streaming", ssd_bwd_cpu_plan, MBA_CPU(ssd_bwd) }, { 0 } },
    .cuda = (const mba_variant[]){ SSD_VARIANTS(BACKWARD), { 0 } },
};
