/* ssd.c -- the state-space dual of Mamba-2: declaration (ssd.md; specs/mamba2.md sections 3 to 8).
 *
 * CPU: `streaming`, the chunks of a head one after another with the state in cache. CUDA: `chunked`, the multi-kernel
 * baseline whose kernels carry the names of the reference. */
#include "ops/ssd/ssd.h"

#include <math.h>

#include "core/device.h"
#include "ops/matmul/matmul.h"
#include "ops/ssd/ssd_slots.h"

/* ---- shapes ---- */

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

static void ssd_grad(mba_graph *g, const mba_node *n, mba_tensor *const *d)
{
    mba_tensor *const *i = n->in;
    const mba_node *b = MBA_APPEND(g, ssd_bwd, n->attr, i[X], i[DT], i[BM], i[CM], i[A_LOG], i[SKIP], i[DT_BIAS],
                                   i[IDS], i[INITIAL], d[Y], d[FINAL]);
    for (int k = DX; k <= DINITIAL; k++) if (b->out[k]) mba_grad_add(g, i[input_of[k]], b->out[k]);
}

/* ---- cost: the fused lower bound at the chunk that makes it smallest; derived in ssd.md ---- */

/* Under the names of the spec. S: elements of one set of chunk states at the chunk of the node. */
typedef struct sizes { double T, H, P, N, G, Q, S; int64_t b, c; } sizes;

static sizes sizes_of(const mba_node *n)
{
    const ssd_dims d = ssd_dims_of(n);
    const int64_t  c = mba_ceil(d.L, d.Q);
    return (sizes){ .T = (double)(d.B * d.L), .H = (double)d.H, .P = (double)d.P, .N = (double)d.N, .G = (double)d.G,
                    .Q = (double)d.Q, .S = (double)(d.B * c * d.H * d.P * d.N), .b = d.B, .c = c };
}

/* The chunk in 1 .. L that minimises pair * Q + state / Q. */
static double best_chunk(const mba_node *n, double pair, double state)
{
    return fmin(fmax(sqrt(state / pair), 1), (double)n->in[X]->type.dim[1]);
}

static mba_cost ssd_cost(const mba_node *n)
{
    const sizes s  = sizes_of(n);
    const double TH = s.T * s.H, PN = s.P * s.N;
    const double Q = best_chunk(n, s.P + s.G * s.N / s.H + 2, PN);
    mba_cost c = mba_cost_io(n);
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
    mba_cost c = mba_cost_io(n);
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

/* ---- CUDA, chunked: five kernels forward ---- */

/* Tiles of the mixed kernels: 64 rows of the chunk by the whole head, two consumer warp groups. */
enum { TILE_M = 64, TILE_K = 64, STAGES = 3 };

static mba_status ssd_chunked_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    const sizes   s     = sizes_of(n);
    const int64_t cells = s.b * s.c * (int64_t)s.H, Q = (int64_t)s.Q;
    MBA_REFUSE_IF(m->cc < 80, "a device of compute capability %d", m->cc);
    MBA_REFUSE_IF(Q % TILE_M || Q > 8 * TILE_M, "a chunk of %lld\nwhy: tiles of 64 rows\n"
                  "fix: --chunk 64, 128, 256 or 512", (long long)Q);
    const int dA = mba_plan_scratch(p, "dt, dA_cumsum", (size_t)(8 * s.T * s.H));
    const int st = mba_plan_scratch(p, "states",        (size_t)(4 * s.S));
    const int hs = mba_plan_scratch(p, "states in",     (size_t)(2 * s.S));
    const int cb = mba_plan_scratch(p, "CB",            (size_t)(4 * s.T * s.G * s.Q));

    mba_launch *l = mba_plan_launch(p, "chunk_cumsum_fwd", MBA_VECTOR, mba_ceil(cells, 4), 128);
    mba_phase_move(l, MBA_LOAD,  MBA_ARG_IN(DT), 4 * 2 * s.Q);
    mba_phase_work(l, MBA_FMA,   4 * 4 * s.Q, NULL);
    mba_phase_work(l, MBA_SFU,   4 * 2 * s.Q, NULL);
    mba_phase_move(l, MBA_STORE, MBA_ARG_SCRATCH(dA), 4 * 8 * s.Q);

    l = mba_plan_launch(p, "chunk_state_fwd", MBA_MIXED, cells * mba_ceil((int64_t)s.N, 128), 128);
    l->ring_depth = STAGES;
    mba_phase_work(l, MBA_LOOP,  s.Q / TILE_K, NULL);
    mba_phase_move(l, MBA_ASYNC, MBA_ARG_IN(X),  2 * TILE_K * s.P);
    mba_phase_move(l, MBA_ASYNC, MBA_ARG_IN(BM), 2 * TILE_K * s.N);
    mba_phase_work(l, MBA_FMA,   TILE_K * s.N, "decay_b");
    mba_phase_work(l, MBA_SFU,   TILE_K, NULL);
    mba_phase_work(l, MBA_MMA,   2 * s.P * s.N * TILE_K, NULL);
    mba_phase_work(l, MBA_END, 0, NULL);
    mba_phase_move(l, MBA_STORE, MBA_ARG_SCRATCH(st), 4 * s.P * s.N);

    l = mba_plan_launch(p, "state_passing_fwd", MBA_VECTOR, mba_ceil((int64_t)(s.S / (double)s.c), 512), 128);
    mba_phase_work(l, MBA_LOOP,  (double)s.c, NULL);
    mba_phase_move(l, MBA_LOAD,  MBA_ARG_SCRATCH(st), 4 * 512);
    mba_phase_work(l, MBA_FMA,   512, NULL);
    mba_phase_move(l, MBA_STORE, MBA_ARG_SCRATCH(hs), 2 * 512);
    mba_phase_work(l, MBA_END, 0, NULL);

    const int64_t side = mba_ceil(Q, 128);
    l = mba_plan_launch(p, "bmm_chunk_fwd", MBA_TENSOR, s.b * s.c * (int64_t)s.G * side * side, 128);
    mba_phase_move(l, MBA_ASYNC, MBA_ARG_IN(CM), 2 * 128 * s.N);
    mba_phase_move(l, MBA_ASYNC, MBA_ARG_IN(BM), 2 * 128 * s.N);
    mba_phase_work(l, MBA_MMA,   2 * 128 * 128 * s.N, NULL);
    mba_phase_move(l, MBA_STORE, MBA_ARG_SCRATCH(cb), 4 * 128 * 128);

    l = mba_plan_launch(p, "chunk_scan_fwd", MBA_MIXED, cells * (Q / TILE_M), 160);
    l->ring_depth = STAGES;
    l->regs       = 168;
    l->smem_bytes = (size_t)(STAGES * (4 * TILE_M * TILE_K + 2 * TILE_K * s.P));
    mba_phase_move(l, MBA_LOAD, MBA_ARG_SCRATCH(hs), 2 * s.P * s.N);
    mba_phase_move(l, MBA_LOAD, MBA_ARG_IN(CM), 2 * TILE_M * s.N);
    mba_phase_work(l, MBA_MMA,  2 * TILE_M * s.P * s.N, NULL);
    for (int64_t i = 0; i < Q / TILE_M; i++) {                         // the triangle: row tile i has i+1 tiles
        mba_assert(l->nblocks < 8);
        l->blocks[l->nblocks++] = (mba_blocks){ cells, { (double)(i + 1) } };
    }
    mba_phase_work(l, MBA_LOOP, MBA_TRIPS(0), NULL);
    mba_phase_work(l, MBA_RING_WAIT, 0, NULL);
    mba_phase_work(l, MBA_FMA,  4 * TILE_M * TILE_K, "decay");         // sub, min, mul, mul, select, convert
    mba_phase_work(l, MBA_SFU,  TILE_M * TILE_K, "decay");
    mba_phase_work(l, MBA_MMA,  2.0 * TILE_M * TILE_K * s.P, NULL);
    mba_phase_work(l, MBA_END, 0, NULL);
    mba_phase_move(l, MBA_STORE, MBA_ARG_OUT(Y), 2 * TILE_M * s.P);
    mba_launch_role(l, 1);                                             // the producer warp
    mba_phase_work(l, MBA_LOOP, MBA_TRIPS(0), NULL);
    mba_phase_work(l, MBA_RING_FILL, 0, NULL);
    mba_phase_move(l, MBA_ASYNC, MBA_ARG_SCRATCH(cb), 4 * TILE_M * TILE_K);
    mba_phase_share(l, (int64_t)(s.H / s.G));                          // CB is one per group of heads
    mba_phase_move(l, MBA_ASYNC, MBA_ARG_IN(X), 2 * TILE_K * s.P);
    mba_phase_work(l, MBA_END, 0, NULL);
    return MBA_OK;
}

/* ---- CUDA, chunked: the backward, four kernels of the forward again and ten of its own ---- */

static mba_status ssd_bwd_chunked_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    const sizes s = sizes_of(n);
    const double T = s.T, H = s.H, P = s.P, N = s.N, G = s.G, Q = s.Q, S = s.S;
    const struct { const char *kernel; mba_class cls; double mma, fma, sfu, bytes; } k[] = {
        { "chunk_cumsum_fwd",    MBA_VECTOR, 0, 3.5*T*H, 2*T*H, 10*T*H },
        { "bmm_chunk_fwd",       MBA_TENSOR, 2*T*G*Q*N, 0, 0, 4*T*G*N + 4*T*G*Q },
        { "chunk_state_fwd",     MBA_MIXED,  2*T*H*P*N, T*H*N/2, T*H, 2*T*H*P + 2*T*G*N + 8*T*H + 4*S },
        { "state_passing_fwd",   MBA_VECTOR, 0, S, T*H/Q, 8*S },
        { "chunk_scan_bwd_dstates", MBA_MIXED, 2*T*H*P*N, T*H*P/2, T*H, 2*T*H*P + 2*T*G*N + 4*T*H + 4*S },
        { "state_passing_bwd",   MBA_VECTOR, 0, 2*S, T*H/Q, 12*S },
        { "chunk_scan_chunk_state_bwd_dx", MBA_MIXED, 2*T*H*P*N + T*H*(Q+1)*P, T*H*(4*P + 0.75*Q), T*H*(Q+1)/2,
          6*T*H*P + 2*T*G*N + 4*T*G*Q + 12*T*H + 2*S },
        { "chunk_state_bwd_db",  MBA_MIXED,  2*T*H*P*N, 2*T*H*N, T*H, 2*T*H*P + 6*T*G*N + 12*T*H + 2*S },
        { "chunk_scan_bwd_dc",   MBA_MIXED,  2*T*H*P*N, 2*T*H*N, T*H, 2*T*H*P + 6*T*G*N + 8*T*H + 2*S },
        { "chunk_scan_bwd_dcb",  MBA_MIXED,  T*H*(Q+1)*P, 1.25*T*H*Q, T*H*(Q+1)/2, 4*T*H*P + 4*T*G*Q + 8*T*H },
        { "bmm_chunk_bwd",       MBA_TENSOR, T*G*(Q+1)*N, 0, 0, 8*T*G*N + 4*T*G*Q },
        { "bmm_chunk_bwd",       MBA_TENSOR, T*G*(Q+1)*N, 0, 0, 8*T*G*N + 4*T*G*Q },
        { "chunk_scan_bwd_ddacs_stable", MBA_MIXED, T*H*(Q-1)*P, 1.75*T*H*Q, T*H*(Q-1)/2, 4*T*H*P + 4*T*G*Q + 8*T*H },
        { "chunk_cumsum_bwd",    MBA_VECTOR, 0, 6.5*T*H, 4*T*H, 12*T*H },
    };
    MBA_REFUSE_IF(m->cc < 80, "a device of compute capability %d", m->cc);
    mba_plan_scratch(p, "dt, dA_cumsum",   (size_t)(8 * T * H));
    mba_plan_scratch(p, "states, dstates", (size_t)(12 * S));
    mba_plan_scratch(p, "CB, dCB",         (size_t)(8 * T * G * Q));
    for (size_t i = 0; i < sizeof k / sizeof *k; i++) {                // phases still to be written per kernel
        const int64_t grid = s.b * s.c * (int64_t)H;
        mba_launch   *l    = mba_plan_launch(p, k[i].kernel, k[i].cls, grid, 128);
        mba_phase_move(l, MBA_LOAD, MBA_ARG_IN(X), k[i].bytes / (double)grid);
        if (k[i].mma > 0) mba_phase_work(l, MBA_MMA, k[i].mma / (double)grid, NULL);
        mba_phase_work(l, MBA_FMA, k[i].fma / (double)grid, NULL);
        mba_phase_work(l, MBA_SFU, k[i].sfu / (double)grid, NULL);
    }
    return MBA_OK;
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
    mba_tensor *u   = real(g, "u", MBA_TYPE(MBA_F32, B, L, 2), 1);
    mba_tensor *xbc = mba_linear(g, u, real(g, "to xbc", MBA_TYPE(MBA_F32, H * P + 2 * G * N, 2), 1));
    mba_tensor *zdt = mba_linear(g, u, real(g, "to zdt", MBA_TYPE(MBA_F32, 3 + H, 2), 1));
    a->x  = mba_reshape(g, mba_slice(g, xbc, 2, 0, H * P), MBA_TYPE(MBA_F32, B, L, H, P));
    a->B  = mba_reshape(g, mba_slice(g, xbc, 2, H * P, G * N), MBA_TYPE(MBA_F32, B, L, G, N));
    a->C  = mba_reshape(g, mba_slice(g, xbc, 2, H * P + G * N, G * N), MBA_TYPE(MBA_F32, B, L, G, N));
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
        a.x  = real(g, "x",  MBA_TYPE(MBA_F32, B, L, H, P), 1);
        a.dt = real(g, "dt", MBA_TYPE(MBA_F32, B, L, H), 1);
        a.B  = real(g, "B",  MBA_TYPE(MBA_F32, B, L, G, N), 1);
        a.C  = real(g, "C",  MBA_TYPE(MBA_F32, B, L, G, N), 1);
    }
    a.A_log = mba_param(g, "A_log", MBA_TYPE(MBA_F32, H), MBA_INIT_LOG_UNIFORM(0.2, 2), MBA_NO_DECAY);
    if (has & SKIP_HEAD) a.D = real(g, "D", MBA_TYPE(MBA_F32, H), 1);
    if (has & SKIP_FULL) a.D = real(g, "D", MBA_TYPE(MBA_F32, H, P), 1);
    if (has & BIAS)      a.dt_bias = real(g, "dt_bias", MBA_TYPE(MBA_F32, H), 1);
    if (has & RESETS)    a.ids = mba_index(g, "ids", MBA_TYPE(MBA_I32, B, L), 2);
    if (has & STATES)    a.initial = real(g, "initial", MBA_TYPE(MBA_F32, B, H, P, N), 1);
    if (has & LIMITS)    { a.dt_min = 0.35; a.dt_max = 1.25; }
    mba_ssd_(g, a);
}

const mba_op mba_op_ssd = {
    .name  = "ssd", .doc = "the state-space dual of Mamba-2: h = exp(dt A) h + dt x B^T, y = h C + D x",
    .kind  = MBA_SSM,
    .in    = { [X] = MBA_SLOT("x"), [DT] = MBA_SLOT("dt"), [BM] = MBA_SLOT("B"), [CM] = MBA_SLOT("C"),
               [A_LOG] = MBA_SLOT("A_log"), [SKIP] = MBA_SLOT("D", .optional = true),
               [DT_BIAS] = MBA_SLOT("dt_bias", .optional = true), [IDS] = MBA_SLOT("ids", .optional = true),
               [INITIAL] = MBA_SLOT("initial", .optional = true) },
    .out   = { [Y] = MBA_SLOT("y"), [FINAL] = MBA_SLOT("final") },
    .attr_bytes = sizeof(ssd_attr),
    .shape = ssd_shape, .grad = ssd_grad, .cost = ssd_cost, .ref = ssd_ref,
    .cpu   = (const mba_variant[]){ { "streaming", ssd_cpu_plan, MBA_CPU(ssd_fwd) }, { 0 } },
    .cuda  = (const mba_variant[]){ { "chunked", ssd_chunked_plan, { NULL } }, { 0 } },
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
        { { 0 }, NULL } },
    .sizes = (const mba_case[]){
        { { 1, 1024, 24, 64, 1, 128, 256, SKIP_HEAD | BIAS }, "mamba2-130m, 1024 tokens" },
        { { 1, 4096, 24, 64, 1, 128, 256, SKIP_HEAD | BIAS }, "mamba2-130m, 4096 tokens" },
        { { 1, 1024, 32, 64, 8, 128, 256, SKIP_HEAD | BIAS }, "mamba2-headline, 1024 tokens" },
        { { 0 }, NULL } },
};

const mba_op mba_op_ssd_bwd = {
    .name  = "ssd_bwd", .doc = "gradients of all inputs of ssd; recomputes its states", .kind = MBA_SSM,
    .no_grad = "a gradient",
    .in    = { [X] = MBA_SLOT("x"), [DT] = MBA_SLOT("dt"), [BM] = MBA_SLOT("B"), [CM] = MBA_SLOT("C"),
               [A_LOG] = MBA_SLOT("A_log"), [SKIP] = MBA_SLOT("D", .optional = true),
               [DT_BIAS] = MBA_SLOT("dt_bias", .optional = true), [IDS] = MBA_SLOT("ids", .optional = true),
               [INITIAL] = MBA_SLOT("initial", .optional = true), [DY] = MBA_SLOT("dy", .optional = true),
               [DFINAL] = MBA_SLOT("dfinal", .optional = true) },
    .out   = { [DX] = MBA_SLOT("dx", .adds = true), [DDT] = MBA_SLOT("ddt", .adds = true),
               [DBM] = MBA_SLOT("dB", .adds = true), [DCM] = MBA_SLOT("dC", .adds = true),
               [DA_LOG] = MBA_SLOT("dA_log", .adds = true), [DSKIP] = MBA_SLOT("dD", .adds = true),
               [DDT_BIAS] = MBA_SLOT("ddt_bias", .adds = true), [DINITIAL] = MBA_SLOT("dinitial", .adds = true) },
    .attr_bytes = sizeof(ssd_attr),
    .shape = ssd_bwd_shape, .cost = ssd_bwd_cost, .ref = ssd_bwd_ref, .terms = ssd_bwd_terms,
    .cpu   = (const mba_variant[]){ { "streaming", ssd_bwd_cpu_plan, MBA_CPU(ssd_bwd) }, { 0 } },
    .cuda  = (const mba_variant[]){ { "chunked", ssd_bwd_chunked_plan, { NULL } }, { 0 } },
};
