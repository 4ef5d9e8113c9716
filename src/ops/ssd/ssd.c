/* ssd.c -- the state-space dual of Mamba-2: declaration (ssd.md; specs/mamba2.md sections 3 to 8).
 *
 * CPU: `streaming`, the chunks of a head one after another with the state in cache. CUDA: `fused`, the same on Hopper
 * with the state in registers (plans in ssd_fused.c), and the multi-kernel baseline whose kernels carry the names of
 * the reference, as `chunked` on tensor cores and as `fma` for everything else. Between `chunked` and `fused` stand two
 * steps that change one thing each: `persistent` (blocks that stay) and `bc_fused` (C B^T made where it is used). */
#include "ops/ssd/ssd.h"

#include <math.h>

#include "core/device.h"
#include "ops/cast/cast.h"
#include "ops/heads.h"
#include "ops/matmul/matmul.h"
#include "ops/ssd/ssd_slots.h"

/* ---- shapes ---- */

ssd_dims ssd_dims_of(const mba_node *n)
{
    const ssd_attr   *a = n->attr;
    const int64_t    *x = n->in[X]->type.dim, *b = n->in[BM]->type.dim;
    const mba_tensor *D = n->in[SKIP];
    return (ssd_dims){ .B = x[0], .L = x[1], .H = x[2], .P = x[3], .G = b[2], .N = b[3], .J = x[2] / b[2],
                       .Q = a->chunk, .C = !D ? 0 : D->type.rank == 1 ? 1 : x[3],
                       .dt_min = a->dt_min, .dt_max = a->dt_max };
}

static bool is(const mba_tensor *t, mba_dtype dtype, int64_t rank, const int64_t *dim)
{
    const mba_type want = { .dtype = dtype, .rank = rank, .dim = { dim[0], rank > 1 ? dim[1] : 0, rank > 2 ? dim[2] : 0,
                                                                   rank > 3 ? dim[3] : 0 } };
    return mba_type_equal(&t->type, &want);
}
#define IS(t, dtype, ...) \
    is((t), (dtype), (int64_t)(sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)), (const int64_t[]){ __VA_ARGS__ })

/* Tokens of a sequence lie at one distance, and the numbers of a head side by side. */
static bool regular(const mba_tensor *t, int64_t L, int64_t token, int64_t head)
{
    return t->run == t->pitch || (t->run % head == 0 && (token % t->run == 0 || t->run % (L * token) == 0));
}

static mba_status check_windows(const mba_node *n, int64_t L, int64_t HP, int64_t GN)
{
    const struct { int slot; int64_t token, head; } w[] = {
        { X, HP, n->in[X]->type.dim[3] }, { BM, GN, n->in[BM]->type.dim[3] }, { CM, GN, n->in[BM]->type.dim[3] },
        { DT, n->in[X]->type.dim[2], 1 },
    };
    for (size_t i = 0; i < sizeof w / sizeof *w; i++)
        MBA_NEED(regular(n->in[w[i].slot], L, w[i].token, w[i].head),
                 "ssd: the tokens of %s do not lie at one distance\nfix: slice whole columns, or copy it first",
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
        MBA_NEED(!in[k] || mba_dense(in[k]), "ssd: %s is a window\nwhy: one number per head, side by side",
                 n->op->in[k].name);
    return check_windows(n, L, H * P, G * N);
}

static mba_status ssd_shape(const mba_node *n, mba_type *out)
{
    const ssd_attr *a = n->attr;
    MBA_TRY(check_inputs(n));
    MBA_NEED(a->chunk > 0, "ssd: a chunk of %lld tokens", (long long)a->chunk);
    MBA_NEED(a->dt_min >= 0 && a->dt_min < a->dt_max, "ssd: the step is to lie in %g .. %g", a->dt_min, a->dt_max);
    const int64_t *x = n->in[X]->type.dim;
    out[Y] = n->in[X]->type;
    if (a->final) out[FINAL] = MBA_TYPE(MBA_F32, x[0], x[2], x[3], n->in[BM]->type.dim[3]);
    return MBA_OK;
}

static const int input_of[] = { [DX] = X, [DDT] = DT, [DBM] = BM, [DCM] = CM, [DA_LOG] = A_LOG, [DSKIP] = SKIP,
                                [DDT_BIAS] = DT_BIAS, [DINITIAL] = INITIAL };

static mba_status ssd_bwd_shape(const mba_node *n, mba_type *out)
{
    MBA_TRY(check_inputs(n));
    for (int k = DX; k <= DINITIAL; k++) if (n->in[input_of[k]]) out[k] = n->in[input_of[k]]->type;
    return MBA_OK;
}

/* ---- graph ---- */

mba_tensor *mba_ssd_(mba_graph *g, mba_ssd_args a)
{
    const ssd_attr t = { .chunk = a.chunk ? a.chunk : 256, .final = a.final != NULL, .dt_min = a.dt_min,
                         .dt_max = a.dt_max > 0 ? a.dt_max : (double)INFINITY };
    const mba_node *n = MBA_APPEND(g, ssd, &t, a.x, a.dt, a.B, a.C, a.A_log, a.D, a.dt_bias, a.ids, a.initial);
    if (a.final) *a.final = n->out[FINAL];
    return n->out[Y];
}

/* What only one variant of a GPU writes and reads; where memory is short its backward makes it again. */
static void keep(mba_graph *g, const mba_node *n)
{
    const ssd_dims d = ssd_dims_of(n);
    mba_type       type[MBA_OUT_MAX] = { { 0 } };
    if (g->recompute || g->remake || !ssd_fused_shape(&d, n->in[X]->type.dtype)) return;
    ssd_kept_types(type, &d, n->in[IDS] != NULL);
    for (int k = KEPT_STATES; k <= KEPT_REACH; k++) if (type[k].dtype) mba_keep(g, n, k, type[k]);
}

static void ssd_grad(mba_graph *g, const mba_node *n, mba_tensor *const *d)
{
    mba_tensor *const *i = n->in;
    keep(g, n);
    const mba_node *b = MBA_APPEND(g, ssd_bwd, n->attr, i[X], i[DT], i[BM], i[CM], i[A_LOG], i[SKIP], i[DT_BIAS],
                                   i[IDS], i[INITIAL], d[Y], d[FINAL], n->out[KEPT_STATES], n->out[KEPT_RECORDS],
                                   n->out[KEPT_PAIRS], n->out[KEPT_REACH]);
    for (int k = DX; k <= DINITIAL; k++) if (b->out[k]) mba_grad_add(g, i[input_of[k]], b->out[k]);
}

/* ---- cost: the fused lower bound at the chunk that makes it smallest; derived in ssd.md ---- */

/* Under the names of the spec. */
typedef struct sizes { double T, H, P, N, G; } sizes;

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

/* What is kept need not move: it can be made again. */
static mba_cost cost_io(const mba_node *n)
{
    mba_cost c = mba_cost_io(n);
    for (int k = 0; k < MBA_OUT_MAX; k++)
        if (n->out[k] && n->op->out[k].saved) c.write_bytes -= mba_tensor_bytes(n->out[k]);
    for (int k = STATES_IN; k <= REACH_IN; k++) if (n->in[k]) c.read_bytes -= mba_tensor_bytes(n->in[k]);
    return c;
}

static mba_cost ssd_cost(const mba_node *n)
{
    const sizes s  = sizes_of(n);
    const double TH = s.T * s.H, PN = s.P * s.N;
    const double Q = best_chunk(n, s.P + s.G * s.N / s.H + 2, PN);
    mba_cost c = cost_io(n);
    c.tensor_flops = 4 * TH * PN + TH * (Q + 1) * s.P + s.T * s.G * (Q + 1) * s.N;
    c.vector_flops = TH * (2 * s.P + 1.5 * (Q + 1) + 6 + PN / Q);
    c.special_ops  = TH * ((Q + 1) / 2 + 4);
    return c;
}

static mba_cost ssd_bwd_cost(const mba_node *n)
{
    const sizes s  = sizes_of(n);
    const double TH = s.T * s.H, PN = s.P * s.N;
    const double Q = best_chunk(n, 2 * s.P + 3 * s.G * s.N / s.H + 4.5, 4 * PN);
    mba_cost c = cost_io(n);
    c.tensor_flops = 10 * TH * PN + 2 * TH * (Q + 1) * s.P + 3 * s.T * s.G * (Q + 1) * s.N;
    c.vector_flops = TH * (13 * s.P + 2 * s.N + 4 * (Q + 1) + 16 + 4 * PN / Q);
    c.special_ops  = TH * ((Q + 1) / 2 + 6);
    return c;
}

/* How many products stand behind a value: y sums over the state and over all tokens before, and so on. */
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
    case DX:                return L * N;
    case DBM: case DCM:     return L * P * (double)d.J;
    case DINITIAL:          return L;
    case DDT:               return L * N * P;
    default:                return L * N * P * (double)d.B;
    }
}

/* ---- CPU ---- */

static int64_t rounded(int64_t n, int64_t to) { return mba_ceil(n, to) * to; }

/* More heads in an item save traffic for the partial sums of dB and dC; a dozen items keep the cores of a workstation
 * busy. Both follow from the shape alone, since they decide the order of sums. */
static int64_t heads_together(const ssd_dims *d, int64_t slab)
{
    enum { MOST = 4, ITEMS = 8 };
    for (int64_t n = MOST; n > 1; n--) if (d->J % n == 0 && slab * d->H / n >= ITEMS) return n;
    return 1;
}

ssd_work ssd_work_of(const ssd_dims *d, bool backward)
{
    enum { Q = SSD_CHUNK, PAD = SSD_PAD, HEADS_IN_FLIGHT = 64 };
    ssd_work w = { .chunks = mba_ceil(d->L, Q), .P = rounded(d->P, PAD), .N = rounded(d->N, PAD), .ldq = Q + PAD };
    w.ldp  = w.P + PAD;
    w.ldn  = w.N + PAD;
    w.slab = mba_ceil(HEADS_IN_FLIGHT, d->H) < d->B ? mba_ceil(HEADS_IN_FLIGHT, d->H) : d->B;
    w.block = heads_together(d, w.slab);
    if (!backward) {
        w.packed = w.N * w.ldq + Q * w.ldn + Q * w.ldq;
        w.cells  = 3 * Q * w.ldp + Q * w.ldq + SSD_STEPS + w.block * w.N * w.ldp + Q * w.ldn + w.N * w.ldq;
        w.scratch_packed = 0; w.scratch_thread = 1;
    } else {
        w.packed = w.N * w.ldq + 2 * Q * w.ldn + Q * w.ldq;
        w.part   = 2 * Q * w.ldn + Q * w.ldq;
        w.cells  = 4 * Q * w.ldp + 4 * w.P * w.ldq + 2 * Q * w.ldq + w.P * w.ldn + Q * w.ldn + 5 * Q
                 + w.block * (w.N * w.ldp + w.P + SSD_PAD) + w.N * w.ldq;
        w.states = w.block * w.chunks * (w.P * w.ldn + SSD_STEPS);
        w.scratch_packed = 0; w.scratch_part = 1; w.scratch_param = 2; w.scratch_thread = 3;
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
    if (backward) mba_plan_scratch(p, "dB, dC, dCB per block of heads",
                                   sizeof(float) * (size_t)(w.slab * d.H / w.block * w.chunks * w.part));
    if (backward) mba_plan_scratch(p, "dA, ddt, dD per sequence", sizeof(float) * (size_t)(d.B * d.H * (w.P + 2)));
    mba_plan_scratch(p, "per thread", sizeof(float) * (size_t)((int64_t)mba_cpu_threads() * (w.cells + w.states)));
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

/* ---- CUDA: the multi-kernel baseline, and what differs from it in one thing ----
 *
 * `chunked`: products on tensor cores (ssd_mma.cuh), states and C B^T in bf16. `fma`: products in fp32 (ssd_fma.cuh),
 * everything else in fp32 too, cumulative decays in double. The vector kernels are the same (ssd_steps.cuh).
 * `persistent`: the launches of `chunked` with as many blocks as fit. `bc_fused`: one launch less, see draw_bc_scan. */

enum { WIDE = 128, MAX_CHUNK = 512, MAX_STATE = 256 };

ssd_cut ssd_cut_of(const ssd_dims *d, ssd_way way)
{
    const bool tensor = way != SSD_FMA;
    ssd_cut t = { .K = mba_ceil(d->L, d->Q), .tiles = mba_ceil(d->Q, SSD_TILE), .ptiles = mba_ceil(d->P, SSD_TILE),
                  .ntiles = mba_ceil(d->N, tensor ? WIDE : SSD_TILE),
                  .rows = tensor && d->Q % WIDE == 0 ? WIDE : SSD_TILE,
                  .pairs = tensor ? mba_ceil(d->J, 2) : d->J, .vec = tensor ? 8 : 1,
                  .cs_bytes = tensor ? 4 : 8, .st_bytes = tensor ? 2 : 4 };
    t.KQ     = t.K * d->Q;
    t.rtiles = mba_ceil(d->Q, t.rows);
    t.xrows  = way == SSD_BC_FUSED ? SSD_TILE : t.rows;
    t.xtiles = mba_ceil(d->Q, t.xrows);
    t.cparts = mba_ceil(d->P * d->N, 256 * t.vec) * 8;
    t.dD     = d->B * t.K * t.xtiles * d->H * (d->C > 1 ? d->P : d->C * t.ptiles);
    return t;
}

bool ssd_axes_of(ssd_axes *a, const mba_tensor *t)
{
    const int rank = (int)t->type.rank;
    *a = (ssd_axes){ { 0 } };
    if (rank > 3 && t->run % t->type.dim[3]) return false;
    for (int i = 0; i < 3 && i < rank; i++) if (!mba_axis_stride(&a->axis[i], t, i)) return false;
    return true;
}

/* What the functions below work on. */
typedef struct drawing {
    mba_plan *p;
    ssd_dims  d;
    ssd_cut   t;
    double    e, st;                              /* bytes of an activation, of a number of a state */
    int64_t   chunks;                             /* of all sequences */
    ssd_way   way;
    bool      tensor;
    const mba_machine *m;
} drawing;

static bool is_param(const mba_node *n, const mba_tensor *t)
{
    return t == n->in[A_LOG] || t == n->in[SKIP] || t == n->in[DT_BIAS];
}

mba_status ssd_check_axes(const mba_node *n)
{
    ssd_axes a;
    for (int k = 0; k < MBA_IN_MAX; k++)
        MBA_REFUSE_IF(n->in[k] && !is_param(n, n->in[k]) && !ssd_axes_of(&a, n->in[k]),
            "%s is a window without one distance per axis\n"
                      "fix: slice whole columns, or copy it first", n->op->in[k].name);
    for (int k = 0; k < MBA_OUT_MAX; k++)
        MBA_REFUSE_IF(n->out[k] && n->out[k]->type.rank > 2 && !ssd_axes_of(&a, n->out[k]),
            "%s is a window without one distance per axis",
                      n->op->out[k].name);
    return MBA_OK;
}

/* Rows begin at multiples of 16 bytes. */
static bool in_pieces(const mba_tensor *t)
{
    ssd_axes a;
    return !t || t->type.rank != 4 || t->type.dtype != MBA_BF16
        || (t->offset % 8 == 0 && ssd_axes_of(&a, t) && a.axis[0] % 8 == 0 && a.axis[1] % 8 == 0 && a.axis[2] % 8 == 0);
}

bool ssd_in_pieces(const mba_node *n)
{
    bool fits = true;
    for (int k = 0; k < MBA_IN_MAX; k++)  fits = fits && in_pieces(n->in[k]);
    for (int k = 0; k < MBA_OUT_MAX; k++) fits = fits && in_pieces(n->out[k]);
    return fits;
}

static mba_status check_tensor(const mba_node *n, const ssd_dims *d)
{
    MBA_REFUSE_IF(n->in[X]->type.dtype != MBA_BF16, "fp32 activations\nwhy: tensor cores would round them");
    MBA_REFUSE_IF(d->Q % SSD_TILE || d->Q > MAX_CHUNK,
        "a chunk of %lld\nwhy: tiles of 64 rows\nfix: --chunk 64, 128, 256 or 512", (long long)d->Q);
    MBA_REFUSE_IF(d->P % 8 || d->N % 8 || d->N > MAX_STATE,
        "heads of %lld, a state of %lld\nwhy: pieces of 8, a state of at most 256",
                  (long long)d->P, (long long)d->N);
    MBA_REFUSE_IF(!ssd_in_pieces(n), "rows that do not begin at multiples of 16 bytes");
    return MBA_OK;
}

static void draw_scratch(const drawing *w, bool ids, bool backward)
{
    const ssd_dims *d = &w->d;
    const ssd_cut  *t = &w->t;
    const int64_t   steps = d->B * d->H * t->KQ, states = w->chunks * d->H * d->P * d->N,
                    pairs = w->chunks * d->G * d->Q * d->Q;
    mba_plan       *p = w->p;
    mba_plan_scratch(p, "dt, decays",  (size_t)(3 * 4 * steps));
    mba_plan_scratch(p, "dA_cumsum",   (size_t)(t->cs_bytes * steps));
    mba_plan_scratch(p, "documents",   (size_t)(ids ? 4 * d->B * t->KQ : 0));
    mba_plan_scratch(p, "states",      (size_t)(t->st_bytes * states));
    mba_plan_scratch(p, "CB",          (size_t)(w->way == SSD_BC_FUSED ? 0 : t->st_bytes * pairs));
    if (!backward) return;
    mba_plan_scratch(p, "dstates",     (size_t)(t->st_bytes * states));
    mba_plan_scratch(p, "dCB",         (size_t)(t->st_bytes * pairs));
    mba_plan_scratch(p, "dB, dC of states", (size_t)(2 * 4 * d->B * t->KQ * d->G * d->N));
    mba_plan_scratch(p, "sums per token", (size_t)(4 * steps * (2 * t->tiles + 2 * t->ntiles + t->ptiles + 1)));
    mba_plan_scratch(p, "partial sums", (size_t)(4 * (d->B * d->H * t->K * t->cparts + 2 * w->chunks * d->H + t->dD)));
}

/* ---- tiles and blocks ---- */

/* Blocks that an SM holds: registers go to warps by 256; each block has 1 KB of the system's shared memory, and up to
 * 1 KB whose size is known when it is compiled. */
static int64_t resident(const mba_machine *m, const mba_launch *l)
{
    enum { OVERHEAD = 2048, MOST = 32 };
    const int64_t bound[] = { m->threads_sm / l->block, m->regs_sm / (rounded(l->regs, 8) * l->block),
                              m->smem_sm_bytes / ((int64_t)l->smem_bytes + OVERHEAD) };
    int64_t n = MOST;
    for (size_t i = 0; i < sizeof bound / sizeof *bound; i++) if (bound[i] < n) n = bound[i];
    return n > 1 ? n : 1;
}

/* A launch of so many tiles; the phases that follow, up to end_tiles, are those of one. A block takes one, or stays and
 * takes its share of them. */
static mba_launch *begin_tiles(const drawing *w, const char *kernel, mba_class cls, int64_t tiles, int block, int regs,
                               size_t smem_bytes)
{
    mba_launch *l = mba_plan_launch(w->p, kernel, cls, tiles, block);
    l->regs       = regs;
    l->smem_bytes = smem_bytes;
    if (w->way != SSD_PERSISTENT) return l;
    const int64_t most = w->m->sm * resident(w->m, l);
    l->persistent = true;
    l->tiles      = tiles;
    if (tiles > most) l->grid[0] = most;
    mba_phase_work(l, MBA_LOOP, (double)tiles / (double)l->grid[0], NULL);
    return l;
}

static void end_tiles(const drawing *w, mba_launch *l)
{
    if (w->way == SSD_PERSISTENT) mba_phase_work(l, MBA_END, 0, NULL);
}

/* ---- vector kernels ---- */

static void draw_steps(const drawing *w, const char *kernel, int regs, int from, double in, int to, double out,
                       double fma, double sfu)
{
    const double n = 8 * (double)w->d.Q;          // positions of a block: one warp per head and chunk
    mba_launch  *l = begin_tiles(w, kernel, MBA_VECTOR, w->chunks * mba_ceil(w->d.H, 8), 256, regs, 0);
    mba_phase_move(l, MBA_LOAD, from, n * in);
    mba_phase_work(l, MBA_FMA, n * fma, NULL);
    if (sfu > 0) mba_phase_work(l, MBA_SFU, n * sfu, NULL);
    mba_phase_move(l, MBA_STORE, to, n * out);
    end_tiles(w, l);
}

static void draw_passing(const drawing *w, bool backward)
{
    const double n = 256 * (double)w->t.vec;
    mba_launch  *l = begin_tiles(w, backward ? "state_passing_bwd" : "state_passing_fwd", MBA_VECTOR,
                                 w->d.B * w->d.H * mba_ceil(w->d.P * w->d.N, (int64_t)n), 256,
                                 w->tensor ? backward ? 99 : 62 : backward ? 40 : 48, 0);
    mba_phase_work(l, MBA_LOOP, (double)w->t.K, NULL);
    mba_phase_move(l, MBA_LOAD, MBA_ARG_SCRATCH(SSD_STATES_WORK), n * w->st);
    if (backward) mba_phase_move(l, MBA_LOAD, MBA_ARG_SCRATCH(SSD_DSTATES_WORK), n * w->st);
    mba_phase_work(l, MBA_FMA, backward ? 2 * n : n, NULL);
    mba_phase_move(l, MBA_STORE, MBA_ARG_SCRATCH(backward ? SSD_DSTATES_WORK : SSD_STATES_WORK), n * w->st);
    mba_phase_work(l, MBA_END, 0, NULL);
    end_tiles(w, l);
}

static void draw_parts(const drawing *w)
{
    const int64_t cols = w->d.C > 1 ? w->d.H * w->d.P : w->d.H;
    mba_launch   *l = begin_tiles(w, "ssd_sum_parts", MBA_VECTOR, 3 * mba_ceil(cols, 32), 256, 32, 0);
    mba_phase_move(l, MBA_LOAD, MBA_ARG_SCRATCH(SSD_PARTS_WORK), 32 * 4 * (double)(w->chunks * w->t.xtiles));
    mba_phase_move(l, MBA_STORE, MBA_ARG_OUT(DA_LOG), 32 * 4);
    end_tiles(w, l);
}

/* ---- products: a block multiplies (m, k) by (k, n) in steps through a ring, and scales on the way ---- */

typedef struct product {
    const char *kernel;                           /* its name with tensor cores, and without */
    const char *plain;
    int64_t     grid;
    int         block, regs, stages;
    size_t      smem_bytes;
    double      m, n, k, trips;                   /* k: of one step */
    int         left, right, to;                  /* operands; bytes of one step, of the result */
    double      left_bytes, right_bytes, to_bytes;
    double      fma, sfu;                         /* lane operations of one step besides the product */
    bool        triangle;                         /* row tile i takes trips + i + 1 steps */
    bool        makes_pairs;                      /* begins with a tile of C B^T */
} product;

enum { T = SSD_TILE, TILE_BYTES = SSD_TILE * SSD_TILE * 2 };

/* Tiles of C B^T, made in a block: a step has 64 columns of so many tiles of C and of B, and makes `tiles`. */
typedef struct made { double trips, c, b, tiles; } made;

static void draw_made_pairs(const drawing *w, mba_launch *l, made k)
{
    mba_phase_work(l, MBA_LOOP, k.trips, NULL);
    if (k.c > 0) mba_phase_move(l, MBA_ASYNC, MBA_ARG_IN(CM), k.c * T * T * w->e);
    if (k.b > 0) mba_phase_move(l, MBA_ASYNC, MBA_ARG_IN(BM), k.b * T * T * w->e);
    mba_phase_work(l, MBA_BARRIER, 1, NULL);
    mba_phase_work(l, MBA_MMA, k.tiles * 2 * T * T * T, NULL);
    mba_phase_work(l, MBA_END, 0, NULL);
}

static void draw_product(const drawing *w, const product *q)
{
    const mba_class cls = !w->tensor ? MBA_VECTOR : q->fma > 0 ? MBA_MIXED : MBA_TENSOR;
    const char     *kernel = w->tensor ? q->kernel : q->plain;
    mba_launch     *l = begin_tiles(w, kernel, cls, q->grid, w->tensor ? q->block : 256, w->tensor ? q->regs : 128,
                                    w->tensor ? q->smem_bytes : 0);      // registers without tensor cores: 71 to 165
    const int64_t classes = w->d.Q / w->t.rows < 8 ? mba_ceil(w->d.Q, w->t.rows) : 8;
    const bool    by_class = q->triangle && !l->persistent;              // a block that stays has tiles of all classes
    const double  mean = q->trips + (q->triangle ? (double)((classes + 1) * w->t.tiles) / (double)(2 * classes) : 0);
    l->ring_depth = w->tensor ? q->stages : 0;
    for (int64_t i = 0; by_class && i < classes; i++)
        l->blocks[l->nblocks++] = (mba_blocks){ q->grid / classes,
            { q->trips + (double)((i + 1) * w->t.tiles) / (double)classes } };
    if (q->makes_pairs) draw_made_pairs(w, l, (made){ (double)mba_ceil(w->d.N, T), .c = 1, .b = 1, .tiles = 1 });
    mba_phase_work(l, MBA_LOOP, by_class ? MBA_TRIPS(0) : mean, NULL);
    mba_phase_move(l, w->tensor ? MBA_ASYNC : MBA_LOAD, q->left, q->left_bytes);
    mba_phase_move(l, w->tensor ? MBA_ASYNC : MBA_LOAD, q->right, q->right_bytes);
    mba_phase_work(l, MBA_BARRIER, 1, NULL);
    mba_phase_work(l, w->tensor ? MBA_MMA : MBA_FMA, (w->tensor ? 2 : 1) * q->m * q->n * q->k, NULL);
    if (q->fma > 0) mba_phase_work(l, MBA_FMA, q->fma, NULL);
    if (q->sfu > 0) mba_phase_work(l, MBA_SFU, q->sfu, NULL);
    mba_phase_work(l, MBA_END, 0, NULL);
    mba_phase_move(l, MBA_STORE, q->to, q->to_bytes);
    end_tiles(w, l);
}

/* The sum over a chunk that makes a state, or the gradient of one. */
static void draw_state(const drawing *w, bool output)
{
    const ssd_dims *d = &w->d;
    const double    m = w->tensor ? 2 * T : T, n = w->tensor ? WIDE : T;
    draw_product(w, &(product){
        .kernel = output ? "chunk_scan_bwd_dstates" : "chunk_state_fwd",
        .plain = output ? "chunk_scan_bwd_dstates_fma" : "chunk_state_fwd_fma",
        .grid = w->chunks * d->G * w->t.pairs * w->t.ptiles * w->t.ntiles, .block = 256, .regs = 128, .stages = 3,
        .smem_bytes = (size_t)(3 * 4 * TILE_BYTES + 8 * d->Q), .m = m, .n = n, .k = T, .trips = (double)w->t.tiles,
        .left = MBA_ARG_IN(output ? DY : X), .left_bytes = m * T * w->e, .right = MBA_ARG_IN(output ? CM : BM),
        .right_bytes = n * T * w->e,
        .to = MBA_ARG_SCRATCH(output ? SSD_DSTATES_WORK : SSD_STATES_WORK), .to_bytes = m * n * w->st,
        .fma = m * T * (w->tensor ? 2 : 1) });
}

static void draw_bmm(const drawing *w)
{
    const int64_t t = w->t.tiles;
    draw_product(w, &(product){
        .kernel = "bmm_chunk_fwd", .plain = "bmm_chunk_fwd_fma", .grid = w->chunks * w->d.G * t * (t + 1) / 2,
        .block = 128, .regs = 80, .stages = 2,
        .smem_bytes = 4 * TILE_BYTES, .m = T, .n = T, .k = T, .trips = (double)mba_ceil(w->d.N, T),
        .left = MBA_ARG_IN(CM),
        .left_bytes = T * T * w->e, .right = MBA_ARG_IN(BM), .right_bytes = T * T * w->e,
        .to = MBA_ARG_SCRATCH(SSD_CB_WORK), .to_bytes = T * T * w->st });
}

/* The entering state and the sources of a tile of rows; backwards the leaving state and what a source feeds. */
static void draw_scan(const drawing *w, bool rev)
{
    const ssd_dims *d = &w->d;
    const double    m = (double)w->t.rows, n = w->tensor ? 2 * T : T;
    draw_product(w, &(product){
        .kernel = rev ? "chunk_scan_chunk_state_bwd_dx" : "chunk_scan_fwd",
        .plain = rev ? "chunk_scan_chunk_state_bwd_dx_fma" : "chunk_scan_fwd_fma",
        .grid = w->chunks * w->t.xtiles * d->G * w->t.pairs * w->t.ptiles, .block = 256,
        .regs = w->t.rows == WIDE ? 120 : 84, .stages = 3,
        .smem_bytes = (size_t)(3 * (w->t.rows / T + 2) * TILE_BYTES + 48 * d->Q), .m = m, .n = n, .k = T,
        .trips = (double)mba_ceil(d->N, T),
        .left = MBA_ARG_SCRATCH(SSD_CB_WORK), .left_bytes = m * T * w->st, .right = MBA_ARG_IN(rev ? DY : X),
        .right_bytes = n * T * w->e,
        .to = rev ? MBA_ARG_OUT(DX) : MBA_ARG_OUT(Y), .to_bytes = m * n * w->e, .fma = 4 * m * T,
        .sfu = w->tensor ? m * 32 : m * T, .triangle = true });
}

static size_t bc_smem_bytes(const ssd_dims *d)
{
    return (size_t)((6 + mba_ceil(d->N, T) + d->Q / T) * TILE_BYTES + 48 * d->Q);
}

/* The same with C B^T inside: a block makes it for 64 rows, in shared memory, and takes SSD_BC_PAIRS pairs of heads. */
static void draw_bc_scan(const drawing *w, bool rev)
{
    const ssd_dims *d = &w->d;
    const int64_t   tiles = w->t.tiles, parts = mba_ceil(w->t.pairs, SSD_BC_PAIRS),
                    grid = w->chunks * tiles * d->G * parts * w->t.ptiles;
    const double    slabs = (double)mba_ceil(d->N, T), n = 2 * T;
    mba_launch     *l = mba_plan_launch(w->p, rev ? "bc_chunk_scan_bwd_dx" : "bc_chunk_scan_fwd", MBA_MIXED, grid, 256);
    l->regs       = 122;
    l->ring_depth = 3;
    l->smem_bytes = bc_smem_bytes(d);
    for (int64_t i = 1; i <= tiles; i++)              // at most 8
        l->blocks[l->nblocks++] = (mba_blocks){ grid / tiles, { slabs * (double)i / 2, (double)i } };
    mba_phase_move(l, MBA_ASYNC, MBA_ARG_IN(rev ? BM : CM), slabs * T * T * w->e);
    draw_made_pairs(w, l, (made){ MBA_TRIPS(0), .c = rev ? 2 : 0, .b = rev ? 0 : 2, .tiles = 2 });
    mba_phase_work(l, MBA_LOOP, (double)w->t.pairs / (double)parts, NULL);
    mba_phase_work(l, MBA_LOOP, slabs, NULL);
    mba_phase_move(l, MBA_ASYNC, MBA_ARG_SCRATCH(rev ? SSD_DSTATES_WORK : SSD_STATES_WORK), n * T * w->st);
    mba_phase_work(l, MBA_BARRIER, 1, NULL);
    mba_phase_work(l, MBA_MMA, 2 * T * n * T, NULL);
    mba_phase_work(l, MBA_END, 0, NULL);
    mba_phase_work(l, MBA_LOOP, MBA_TRIPS(1), NULL);
    mba_phase_move(l, MBA_ASYNC, MBA_ARG_IN(rev ? DY : X), n * T * w->e);
    mba_phase_work(l, MBA_BARRIER, 1, NULL);
    mba_phase_work(l, MBA_MMA, 2 * T * n * T, NULL);
    mba_phase_work(l, MBA_FMA, 4.0 * T * T, NULL);
    mba_phase_work(l, MBA_SFU, 32.0 * T, NULL);
    mba_phase_work(l, MBA_END, 0, NULL);
    mba_phase_move(l, MBA_STORE, rev ? MBA_ARG_OUT(DX) : MBA_ARG_OUT(Y), T * n * w->e);
    mba_phase_work(l, MBA_END, 0, NULL);
}

/* Every head of a group in turn: dB or dC through the states. */
static void draw_heads(const drawing *w, bool output)
{
    const ssd_dims *d = &w->d;
    const double    m = (double)w->t.rows, n = w->tensor ? WIDE : T;
    draw_product(w, &(product){
        .kernel = output ? "chunk_scan_bwd_dc" : "chunk_state_bwd_db",
        .plain = output ? "chunk_scan_bwd_dc_fma" : "chunk_state_bwd_db_fma",
        .grid = w->chunks * d->G * w->t.rtiles * w->t.ntiles, .block = 256, .regs = w->t.rows == WIDE ? 254 : 178,
        .stages = 4,
        .smem_bytes = (size_t)(4 * ((w->t.rows / T + 2) * TILE_BYTES + 8 * w->t.rows) + 16 * w->t.rows), .m = m,
        .n = n, .k = T,
        .trips = (double)(d->J * w->t.ptiles), .left = MBA_ARG_IN(output ? DY : X), .left_bytes = m * T * w->e,
        .right = MBA_ARG_SCRATCH(output ? SSD_STATES_WORK : SSD_DSTATES_WORK), .right_bytes = n * T * w->st,
        .to = MBA_ARG_SCRATCH(SSD_DBC_WORK),
        .to_bytes = 4 * m * n, .fma = 2 * m * T + 2 * m * n });
}

static void draw_dcb(const drawing *w)
{
    const int64_t t = w->t.tiles;
    draw_product(w, &(product){
        .kernel = "chunk_scan_bwd_dcb", .plain = "chunk_scan_bwd_dcb_fma",
        .grid = w->chunks * w->d.G * t * (t + 1) / 2, .block = 128, .regs = 168,
        .stages = 3, .smem_bytes = 3 * (2 * TILE_BYTES + 1024) + 2048, .m = T, .n = T, .k = T,
        .trips = (double)(w->d.J * w->t.ptiles),
        .left = MBA_ARG_IN(DY), .left_bytes = T * T * w->e, .right = MBA_ARG_IN(X), .right_bytes = T * T * w->e,
        .to = MBA_ARG_SCRATCH(SSD_DCB_WORK), .to_bytes = T * T * w->st, .fma = 6 * T * T,
        .sfu = (double)(w->tensor ? 12 * 128 : T * T), .makes_pairs = w->way == SSD_BC_FUSED });
}

static void draw_bmm_bwd(const drawing *w, bool output)
{
    const double n = w->tensor ? WIDE : T;
    draw_product(w, &(product){
        .kernel = "bmm_chunk_bwd", .plain = "bmm_chunk_bwd_fma", .grid = w->chunks * w->d.G * w->t.tiles * w->t.ntiles,
        .block = 128, .regs = 130,
        .stages = 3, .smem_bytes = 9 * TILE_BYTES, .m = T, .n = n, .k = T, .trips = (double)(w->t.tiles + 1) / 2,
        .left = MBA_ARG_SCRATCH(SSD_DCB_WORK), .left_bytes = T * T * w->st, .right = MBA_ARG_IN(output ? BM : CM),
        .right_bytes = n * T * w->e,
        .to = MBA_ARG_OUT(output ? DCM : DBM), .to_bytes = T * n * w->e });
}

static mba_status begin_drawing(drawing *w, mba_plan *p, const mba_node *n, const mba_machine *m, ssd_way way,
                                bool backward)
{
    enum { STATIC_BYTES = 1024 };
    const ssd_dims d = ssd_dims_of(n);
    MBA_REFUSE_IF(m->cc < 80, "a device of compute capability %d", m->cc);
    MBA_TRY(ssd_check_axes(n));
    if (way != SSD_FMA) MBA_TRY(check_tensor(n, &d));
    MBA_REFUSE_IF(way == SSD_BC_FUSED && (int64_t)bc_smem_bytes(&d) + STATIC_BYTES > m->smem_block_bytes,
        "a chunk of %lld, a state of %lld\nwhy: C B^T and C of 64 rows do not fit into %lld bytes of shared memory\n"
        "fix: --op ssd=chunked, or a smaller --chunk", (long long)d.Q, (long long)d.N, (long long)m->smem_block_bytes);
    *w = (drawing){ .p = p, .d = d, .t = ssd_cut_of(&d, way), .way = way, .tensor = way != SSD_FMA, .m = m,
        .e = (double)mba_dtype_bytes(n->in[X]->type.dtype) };
    w->st     = (double)w->t.st_bytes;
    w->chunks = d.B * w->t.K;
    const double blocks = (double)(w->chunks * d.H) * (double)(w->t.tiles * (w->t.tiles + 1)) *
        (double)(w->t.ptiles * w->t.ntiles);
    MBA_REFUSE_IF(blocks > 2e9 || (double)(w->t.KQ + d.P * d.N) > 1e9,
        "more blocks or positions than a launch can number");
    draw_scratch(w, n->in[IDS] != NULL, backward);
    return MBA_OK;
}

static mba_status draw_fwd(mba_plan *p, const mba_node *n, const mba_machine *m, ssd_way way)
{
    drawing w;
    MBA_TRY(begin_drawing(&w, p, n, m, way, false));
    draw_steps(&w, "chunk_cumsum_fwd", 48, MBA_ARG_IN(DT), w.e, MBA_ARG_SCRATCH(SSD_STEPS_WORK),
        12 + (double)w.t.cs_bytes, 16, 5);
    draw_state(&w, false);
    draw_passing(&w, false);
    if (way == SSD_BC_FUSED) {
        draw_bc_scan(&w, false);
    } else {
        draw_bmm(&w);
        draw_scan(&w, false);
    }
    return MBA_OK;
}

/* Four kernels of the forward pass again, and eleven of its own. */
static mba_status draw_bwd(mba_plan *p, const mba_node *n, const mba_machine *m, ssd_way way)
{
    drawing w;
    MBA_TRY(begin_drawing(&w, p, n, m, way, true));
    const double parts = 4.0 * (double)(w.t.tiles + 1 + 2 * w.t.ntiles);
    draw_steps(&w, "chunk_cumsum_fwd", 48, MBA_ARG_IN(DT), w.e, MBA_ARG_SCRATCH(SSD_STEPS_WORK),
        12 + (double)w.t.cs_bytes, 16, 5);
    if (way != SSD_BC_FUSED) draw_bmm(&w);
    draw_state(&w, false);
    draw_passing(&w, false);
    draw_state(&w, true);
    draw_passing(&w, true);
    if (way == SSD_BC_FUSED) draw_bc_scan(&w, true);
    else                     draw_scan(&w, true);
    draw_heads(&w, false);
    draw_heads(&w, true);
    draw_dcb(&w);
    draw_bmm_bwd(&w, false);
    draw_bmm_bwd(&w, true);
    draw_steps(&w, "chunk_scan_bwd_ddacs_stable", 56, MBA_ARG_SCRATCH(SSD_SUMS_WORK), parts,
        MBA_ARG_SCRATCH(SSD_SUMS_WORK), 8, 24, 0);
    draw_steps(&w, "chunk_cumsum_bwd", 64, MBA_ARG_SCRATCH(SSD_SUMS_WORK), 12 + w.e, MBA_ARG_OUT(DDT), w.e, 12, 5);
    draw_parts(&w);
    return MBA_OK;
}

static mba_status ssd_chunked_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    return draw_fwd(p, n, m, SSD_CHUNKED);
}

static mba_status ssd_bwd_chunked_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    return draw_bwd(p, n, m, SSD_CHUNKED);
}

static mba_status ssd_persistent_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    return draw_fwd(p, n, m, SSD_PERSISTENT);
}

static mba_status ssd_bwd_persistent_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    return draw_bwd(p, n, m, SSD_PERSISTENT);
}

static mba_status ssd_bc_fused_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    return draw_fwd(p, n, m, SSD_BC_FUSED);
}

static mba_status ssd_bwd_bc_fused_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    return draw_bwd(p, n, m, SSD_BC_FUSED);
}

static mba_status ssd_fma_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    return draw_fwd(p, n, m, SSD_FMA);
}

static mba_status ssd_bwd_fma_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    return draw_bwd(p, n, m, SSD_FMA);
}

/* ---- cases ---- */

/* A case: B, L, H, P, G, N, chunk, and what it has (ssd_slots.h). */

static mba_tensor *real(mba_graph *g, const char *name, mba_type type, double scale)
{
    return mba_param(g, name, type, MBA_INIT_NORMAL(scale), MBA_DECAY);
}

/* x, B, C as columns of one matrix and dt as columns of another, as in the model. */
static void cut_windows(mba_graph *g, mba_ssd_args *a, const int64_t *d)
{
    const int64_t B = d[0], L = d[1], H = d[2], P = d[3], G = d[4], N = d[5];
    mba_tensor *u   = mba_case_act(g, "u", MBA_TYPE(MBA_F32, B, L, 2), MBA_INIT_NORMAL(1));
    mba_tensor *xbc = mba_linear(g, u, real(g, "to xbc", MBA_TYPE(g->compute, H * P + 2 * G * N, 2), 1));
    mba_tensor *zdt = mba_linear(g, u, real(g, "to zdt", MBA_TYPE(g->compute, 3 + H, 2), 1));
    a->x  = mba_reshape(g, mba_slice(g, xbc, 2, 0, H * P), MBA_TYPE(g->compute, B, L, H, P));
    a->B  = mba_reshape(g, mba_slice(g, xbc, 2, H * P, G * N), MBA_TYPE(g->compute, B, L, G, N));
    a->C  = mba_reshape(g, mba_slice(g, xbc, 2, H * P + G * N, G * N), MBA_TYPE(g->compute, B, L, G, N));
    a->dt = mba_slice(g, zdt, 2, 3, H);
}

static void ssd_build(mba_graph *g, const mba_case *c)
{
    const int64_t *d = c->dim, B = d[0], L = d[1], H = d[2], P = d[3], G = d[4], N = d[5], has = d[7];
    mba_tensor    *last = NULL;
    mba_ssd_args   a = { .chunk = d[6], .final = has & STATES ? &last : NULL };
    if (has & WINDOWS) {
        cut_windows(g, &a, d);
    } else {
        a.x  = mba_case_act(g, "x",  MBA_TYPE(MBA_F32, B, L, H, P), MBA_INIT_NORMAL(1));
        a.dt = mba_case_act(g, "dt", MBA_TYPE(MBA_F32, B, L, H), MBA_INIT_NORMAL(has & MODEL ? 0.5 : 1));
        a.B  = mba_case_act(g, "B",  MBA_TYPE(MBA_F32, B, L, G, N), MBA_INIT_NORMAL(1));
        a.C  = mba_case_act(g, "C",  MBA_TYPE(MBA_F32, B, L, G, N), MBA_INIT_NORMAL(1));
    }
    const mba_init decay = has & MODEL ? MBA_INIT_LOG_UNIFORM(1, 16) : MBA_INIT_LOG_UNIFORM(0.2, has & STRONG ? 60 : 2);
    a.A_log = mba_param(g, "A_log", MBA_TYPE(MBA_F32, H), decay, MBA_NO_DECAY);
    if (has & SKIP_HEAD) a.D = real(g, "D", MBA_TYPE(MBA_F32, H), 1);
    if (has & SKIP_FULL) a.D = real(g, "D", MBA_TYPE(MBA_F32, H, P), 1);
    if (has & BIAS)      a.dt_bias = mba_param(g, "dt_bias", MBA_TYPE(MBA_F32, H),
                                               has & MODEL ? MBA_INIT_STEP(1e-3, 0.1) : MBA_INIT_NORMAL(1), MBA_DECAY);
    if (has & RESETS)    a.ids = mba_index(g, "ids", MBA_TYPE(MBA_I32, B, L), 2);
    if (has & STATES)    a.initial = real(g, "initial", MBA_TYPE(MBA_F32, B, H, P, N), 1);
    if (has & LIMITS)    { a.dt_min = 0.35; a.dt_max = 1.25; }
    mba_ssd_(g, a);
}

/* The shapes at which the peers were measured. */
#define PEER(B, L, H, note) { { (B), (L), (H), 64, 1, 128, 256, SKIP_HEAD | BIAS | MODEL }, note }
#define PEERS(H, model) PEER(8, 2048, H, model ", 8 x 2048"), PEER(4, 4096, H, model ", 4 x 4096"), \
                        PEER(1, 32768, H, model ", 1 x 32768"), PEER(32, 512, H, model ", 32 x 512")

const mba_op mba_op_ssd = {
    .name  = "ssd", .doc = "the state-space dual of Mamba-2: h = exp(dt A) h + dt x B^T, y = h C + D x",
    .kind  = MBA_SSM,
    .in    = { [X] = MBA_SLOT("x"), [DT] = MBA_SLOT("dt"), [BM] = MBA_SLOT("B"), [CM] = MBA_SLOT("C"),
               [A_LOG] = MBA_SLOT("A_log"), [SKIP] = MBA_SLOT("D", .optional = true),
               [DT_BIAS] = MBA_SLOT("dt_bias", .optional = true), [IDS] = MBA_SLOT("ids", .optional = true),
               [INITIAL] = MBA_SLOT("initial", .optional = true) },
    .out   = { [Y] = MBA_SLOT("y"), [FINAL] = MBA_SLOT("final"), [KEPT_STATES] = MBA_SLOT("states", .saved = true),
               [KEPT_RECORDS] = MBA_SLOT("records", .saved = true), [KEPT_PAIRS] = MBA_SLOT("CB", .saved = true),
               [KEPT_REACH] = MBA_SLOT("reach", .saved = true) },
    .attr_bytes = sizeof(ssd_attr),
    .shape = ssd_shape, .grad = ssd_grad, .cost = ssd_cost, .ref = ssd_ref,
    .cpu   = (const mba_variant[]){ { "streaming", ssd_cpu_plan, MBA_CPU(ssd_fwd) }, { 0 } },
    .cuda  = (const mba_variant[]){ { "fused", ssd_fused_plan, MBA_CUDA(ssd_fused_cuda) },
                                    { "chunked", ssd_chunked_plan, MBA_CUDA(ssd_chunked_cuda) },
                                    { "persistent", ssd_persistent_plan, MBA_CUDA(ssd_persistent_cuda) },
                                    { "bc_fused", ssd_bc_fused_plan, MBA_CUDA(ssd_bc_fused_cuda) },
                                    { "fma", ssd_fma_plan, MBA_CUDA(ssd_fma_cuda) }, { 0 } },
    .build = ssd_build, .terms = ssd_terms,
    .cases = (const mba_case[]){
        { { 1,  10, 2,  2, 1,  3,  4, SKIP_HEAD | BIAS | STATES }, "the golden shape" },
        { { 2,  67, 3,  5, 1,  7, 16, SKIP_HEAD | BIAS }, "nothing is a multiple of anything; two chunks of the CPU" },
        { { 1, 130, 4,  3, 2,  2, 64, SKIP_FULL | STATES }, "groups of heads, D per channel, three chunks" },
        { { 2,  70, 2,  2, 1,  3, 16, SKIP_HEAD | BIAS | RESETS | STATES }, "a reset at every other token" },
        { { 1,  66, 2,  3, 2,  2, 16, LIMITS | BIAS | RESETS }, "limits of the step at work, no D" },
        { { 2,   1, 2,  3, 1,  4, 16, SKIP_HEAD | STATES }, "a single token" },
        { { 2,   9, 4,  2, 2,  3,  4, SKIP_HEAD | BIAS | WINDOWS }, "windows: x, B, C of one matrix, dt of another" },
        { { 1,   5, 1, 16, 1, 16,  4, SKIP_FULL | STATES | WINDOWS }, "whole vectors, windows" },
        { { 1,  70, 3,  8, 1,  8, 64, SKIP_HEAD | BIAS | RESETS | STATES },
            "tensor cores: an odd head, a ragged chunk, resets" },
        { { 1, 136, 2,  8, 2,  8, 128, SKIP_FULL | LIMITS | WINDOWS }, "tensor cores: rows of 128, groups, windows" },
        { { 0 }, NULL } },
    .sizes = (const mba_case[]){
        { { 1, 1024, 24, 64, 1, 128, 256, SKIP_HEAD | BIAS | MODEL }, "mamba2-130m, 1024 tokens" },
        { { 1, 4096, 24, 64, 1, 128, 256, SKIP_HEAD | BIAS | MODEL }, "mamba2-130m, 4096 tokens" },
        { { 1, 1024, 32, 64, 8, 128, 256, SKIP_HEAD | BIAS | MODEL }, "mamba2-headline, 1024 tokens" },
        PEERS(24, "mamba2-130m"), PEERS(64, "mamba2-1.3b"), PEERS(80, "mamba2-2.7b"),
        { { 0 }, NULL } },
};

const mba_op mba_op_ssd_bwd = {
    .name  = "ssd_bwd", .doc = "gradients of all inputs of ssd; makes its states again unless they were kept",
    .kind  = MBA_SSM,
    .no_grad = "a gradient",
    .in    = { [X] = MBA_SLOT("x"), [DT] = MBA_SLOT("dt"), [BM] = MBA_SLOT("B"), [CM] = MBA_SLOT("C"),
               [A_LOG] = MBA_SLOT("A_log"), [SKIP] = MBA_SLOT("D", .optional = true),
               [DT_BIAS] = MBA_SLOT("dt_bias", .optional = true), [IDS] = MBA_SLOT("ids", .optional = true),
               [INITIAL] = MBA_SLOT("initial", .optional = true), [DY] = MBA_SLOT("dy", .optional = true),
               [DFINAL] = MBA_SLOT("dfinal", .optional = true), [STATES_IN] = MBA_SLOT("states", .optional = true),
               [RECORDS_IN] = MBA_SLOT("records", .optional = true), [PAIRS_IN] = MBA_SLOT("CB", .optional = true),
               [REACH_IN] = MBA_SLOT("reach", .optional = true) },
    .out   = { [DX] = MBA_SLOT("dx", .adds = true), [DDT] = MBA_SLOT("ddt", .adds = true),
               [DBM] = MBA_SLOT("dB", .adds = true), [DCM] = MBA_SLOT("dC", .adds = true),
               [DA_LOG] = MBA_SLOT("dA_log", .adds = true), [DSKIP] = MBA_SLOT("dD", .adds = true),
               [DDT_BIAS] = MBA_SLOT("ddt_bias", .adds = true), [DINITIAL] = MBA_SLOT("dinitial", .adds = true) },
    .attr_bytes = sizeof(ssd_attr),
    .shape = ssd_bwd_shape, .cost = ssd_bwd_cost, .ref = ssd_bwd_ref, .terms = ssd_bwd_terms,
    .cpu   = (const mba_variant[]){ { "streaming", ssd_bwd_cpu_plan, MBA_CPU(ssd_bwd) }, { 0 } },
    .cuda  = (const mba_variant[]){ { "fused", ssd_bwd_fused_plan, MBA_CUDA(ssd_bwd_fused_cuda) },
                                    { "chunked", ssd_bwd_chunked_plan, MBA_CUDA(ssd_bwd_chunked_cuda) },
                                    { "persistent", ssd_bwd_persistent_plan, MBA_CUDA(ssd_bwd_persistent_cuda) },
                                    { "bc_fused", ssd_bwd_bc_fused_plan, MBA_CUDA(ssd_bwd_bc_fused_cuda) },
                                    { "fma", ssd_bwd_fma_plan, MBA_CUDA(ssd_bwd_fma_cuda) }, { 0 } },
};
