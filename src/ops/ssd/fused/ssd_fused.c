// SPDX-License-Identifier: Apache-2.0
/* ssd_fused.c -- launch plans of the variants `fused` and `fused_mma` of ssd: which nodes they take, their scratch, and
 * for each launch the geometry and the work per block that the simulator reads. ssd_fused.cuh lists the kernels.
 *
 * `fused_mma` (ssd_fused_mma.cuh) has the tiles of `fused` at all shapes and no split scan; every warp copies and
 * multiplies, so its scans and ssd_mma_bc have one role.
 *
 * Blocks of whole-item scans never wait for each other: states between segments come from a launch of their own. In
 * split scans (ssd_split.c) a block waits for its predecessor, which has published before it waits itself or waits only
 * for earlier blocks. A block fills an SM and there are no more blocks than SMs, so all blocks are resident and no
 * cycle can form. */
#include <string.h>

#include "core/device.h"
#include "ops/ssd/ssd.h"
#include "ops/ssd/fused/ssd_fused_plan.h"

/* ---- what `fused` saves for the backward pass ---- */

static bool is_one_tile(const ssd_dims *d) { return d->P == P && d->N == N && d->J % SSD_HEADS == 0; }

ssd_padding ssd_padding_of(const mba_node *n)
{
    const ssd_dims d = ssd_dims_of(n);
    const bool     backward = n->op == &mba_op_ssd_bwd;
    ssd_padding    p = { d.P % SSD_PAD_TO != 0, d.N % SSD_PAD_TO != 0 };
    p.x |= !ssd_rows_aligned(n->in[X]) || !ssd_rows_aligned(n->out[backward ? DX : Y]);
    p.x |= backward && !ssd_rows_aligned(n->in[DY]);
    p.b |= !ssd_rows_aligned(n->in[BM]) || !ssd_rows_aligned(n->in[CM]);
    p.b |= backward && (!ssd_rows_aligned(n->out[DBM]) || !ssd_rows_aligned(n->out[DCM]));
    return p;
}
bool ssd_is_tiled(const mba_node *n)
{
    const ssd_dims    d = ssd_dims_of(n);
    const ssd_padding p = ssd_padding_of(n);
    return !is_one_tile(&d) || p.x || p.b;
}

ssd_dims ssd_tile_dims(const ssd_dims *d)
{
    ssd_dims t = *d;
    t.J = mba_ceil(d->J * mba_ceil(d->P, P), SSD_HEADS) * SSD_HEADS * mba_ceil(d->N, N);
    t.H = t.J * d->G;
    t.P = P;
    t.N = N;
    t.NT = mba_ceil(d->N, N);
    return t;
}

enum { MAX_P = 256, MAX_N = 2 * N };

static bool widths_fit(const ssd_dims *d) { return d->P <= MAX_P && d->N <= MAX_N; }
/* A tile beyond the heads fills up an odd group; with several groups it would be the next group's first. */
static bool groups_fit(const ssd_dims *d) { return d->G == 1 || d->J * mba_ceil(d->P, P) % SSD_HEADS == 0; }

static mba_status check_shape(const ssd_dims *d)
{
    MBA_REFUSE_IF(!widths_fit(d), "heads of %lld, a state of %lld\nwhy: they may have at most %d and %d",
                  (long long)d->P, (long long)d->N, MAX_P, MAX_N);
    MBA_REFUSE_IF(!groups_fit(d),
                  "%lld heads of %lld in each of several groups\nwhy: a block takes two tiles of 64 of one group",
                  (long long)d->J, (long long)d->P);
    return MBA_OK;
}

bool ssd_fused_shape(const ssd_dims *d, mba_dtype type) { return type == MBA_BF16 && widths_fit(d) && groups_fit(d); }

void ssd_saved_types(mba_type type[MBA_OUT_MAX], const ssd_dims *d, bool ids)
{
    const int64_t K = mba_ceil(d->L, 2 * Q) * 2;
    type[KEPT_STATES] = MBA_TYPE(MBA_BF16, d->B, ssd_tile_dims(d).H, K / 2, STATE);
    type[KEPT_RECORDS] = MBA_TYPE(MBA_F32, 2, d->B * d->H, K, SSD_RECORD);
    type[KEPT_PAIRS] = MBA_TYPE(MBA_BF16, 3, d->B * K / 2, d->G, Q * Q);
    if (ids) type[KEPT_REACH] = MBA_TYPE(MBA_BF16, 2, d->B * K * Q, d->G, mba_ceil(d->N, N) * N);
}

/* ---- which nodes it takes ---- */

/* Whether heads (or groups) of a token are contiguous, as TMA boxes over (width, L, B) need. */
static bool heads_contiguous(const mba_tensor *t, int64_t width)
{
    ssd_axes a;
    return !t || (ssd_axes_of(&a, t) && (a.axis[2] == width || t->type.dim[2] == 1));
}

static mba_status check_fused(const mba_node *n, const ssd_dims *d, const mba_machine *m, bool mma, bool backward)
{
    MBA_TRY(ssd_check_machine(m, mma, mba_ceil(d->N, N), backward));
    MBA_REFUSE_IF(n->in[X]->type.dtype != MBA_BF16, "fp32 activations\nwhy: tensor cores would round them");
    MBA_TRY(check_shape(d));
    MBA_TRY(ssd_check_axes(n));
    const double tokens = (double)d->B * (double)(d->L + 2 * Q);
    MBA_REFUSE_IF(tokens * (double)d->G > 1e9 || tokens * (double)ssd_tile_dims(d).H > 6e10,
                  "more tokens than a copy can number");
    return MBA_OK;
}

static mba_status check_heads(const mba_node *n, const int *in, const int *out, int count)
{
    for (int i = 0; i < count; i++) {
        const mba_tensor *a = in[i] < 0 ? NULL : n->in[in[i]], *b = out[i] < 0 ? NULL : n->out[out[i]];
        MBA_REFUSE_IF(!heads_contiguous(a, a ? a->type.dim[3] : 0) || !heads_contiguous(b, b ? b->type.dim[3] : 0),
                      "heads or groups that do not lie side by side");
    }
    return MBA_OK;
}

/* ---- launches ---- */

static void plan_scratch(const plan_builder *w)
{
    const ssd_dims *d = &w->d;
    const int64_t   pairs = w->chunks * d->G * Q * Q + (w->backward ? w->chunks / 2 * d->G * Q * Q : 0);
    const int64_t   uncut = w->r.segments > 1 ? d->B * w->t.H * w->r.segments * w->r.parts : 0;
    const int64_t   states = w->split.how ? SSD_HEADS * w->split.state_slots : uncut;
    const int64_t   records = !w->backward ? 1 : w->kept ? 0 : 3;
    mba_plan_scratch(w->p, "records", (size_t)(w->chunks * d->H * SSD_RECORD * 4 * records));
    mba_plan_scratch(w->p, "CB", (size_t)(w->kept ? 0 : pairs * 2));
    mba_plan_scratch(w->p, "B, C within reach",
                     (size_t)(w->ids && !w->kept ? 2 * 2 * w->chunks * Q * d->G * tiles_of_n(w) * N : 0));
    mba_plan_scratch(w->p, "states of segments", (size_t)(states * (STATE + 1) * 4));
}

/* ssd_prep. A block computes C B^T of a (chunk, group), for odd chunks also with B of the previous chunk (a second
 * pass), or the records of 32 heads, four per warp. Instructions per warp and pass, or head, are counted in the
 * SASS. */
static void plan_prep(const plan_builder *w)
{
    enum { WARPS = 8, ALU_PASS = 127, FMA_PASS = 84, LDS_PASS = 141, FMA_HEAD = 115, ALU_HEAD = 66, SFU_HEAD = 9 };
    const char     *mix = w->tiled ? "ssd_tiled_prep" : "ssd_prep";
    const ssd_dims *d = &w->d;
    const bool      all = w->backward || w->kept;
    const int64_t   parts = mba_ceil(d->H, 32), pairs = w->chunks * d->G;
    const double    heads = 32.0 / WARPS, passes = all ? 1.5 : 1; // mean passes per block of C B^T
    mba_launch     *l = mba_plan_launch(w->p, mix, MBA_MIXED, w->chunks * (d->G + parts), 32 * WARPS);
    l->regs = 64;
    l->blocks[l->nblocks++] = (mba_blocks){ all ? pairs / 2 : pairs, { 1, 0 } };
    if (all) l->blocks[l->nblocks++] = (mba_blocks){ pairs - pairs / 2, { 2, 0 } };
    l->blocks[l->nblocks++] = (mba_blocks){ w->chunks * parts, { 0, heads } };
    mba_phase_work(l, MBA_LOOP, MBA_TRIPS(0), NULL);
    mba_phase_move(l, MBA_LOAD, MBA_ARG_IN(BM), (double)(Q * d->N * 2));
    mba_phase_move(l, MBA_LOAD, MBA_ARG_IN(CM), (double)(Q * d->N * 2) / passes);
    mba_phase_work(l, MBA_BARRIER, 2, NULL);
    mba_phase_work(l, MBA_MMA, 2.0 * Q * Q * N * (double)tiles_of_n(w), NULL);
    mba_phase_work(l, MBA_SMEM, 32.0 * WARPS * LDS_PASS * 4 * (double)tiles_of_n(w), NULL);
    mba_phase_work(l, MBA_ALU, 32 * WARPS * ALU_PASS, mix);
    mba_phase_work(l, MBA_FMA, 32 * WARPS * FMA_PASS, mix);
    mba_phase_move(l, MBA_STORE, w->pairs, (double)TILE_BYTES);
    mba_phase_work(l, MBA_END, 0, NULL);
    mba_phase_work(l, MBA_LOOP, MBA_TRIPS(1), NULL);
    mba_phase_move(l, MBA_LOAD, MBA_ARG_IN(DT), 32 * Q * 2 / heads);
    mba_phase_work(l, MBA_SFU, 32 * WARPS * SFU_HEAD, mix);
    mba_phase_work(l, MBA_FMA, 32 * WARPS * FMA_HEAD, mix);
    mba_phase_work(l, MBA_ALU, 32 * WARPS * ALU_HEAD, mix);
    mba_phase_move(l, MBA_STORE, MBA_ARG_SCRATCH(SSD_RECORDS_WORK), 32 * SSD_RECORD * 4 / heads);
    if (all) mba_phase_move(l, MBA_STORE, w->records_back, 32 * SSD_RECORD * 4 * 2 / heads);
    mba_phase_work(l, MBA_END, 0, NULL);
}

/* A scan kernel. output: writes y or dx; saves: whether it saves states. */
typedef struct scan_launch {
    const char *kernel;
    bool        output, rev, saves;
} scan_launch;

/* Work of a scan kernel over all blocks: items or parts of items, chunks, states, chunks recomputed. */
typedef struct scan_work {
    int64_t grid, subranges, chunks, states_read, states_written, recomputed;
} scan_work;

static scan_work scan_work_of(const plan_builder *w)
{
    const ssd_segments *r = &w->r;
    const ssd_split    *c = &w->split;
    const int64_t       pairs = r->items / r->segments, folds = pairs * r->segments * (r->segments - 1) / 2 * r->parts;
    if (!c->how) return (scan_work){ r->grid, r->items, pairs * r->K, folds, 0, 0 };
    return (scan_work){ c->blocks, c->subranges, pairs * r->K, c->received, c->received, c->recomputed };
}

/* The copies of a chunk: for the state update, with x too, which the reverse scan needs for its sums; then for the
 * output. */
static void plan_chunk_copies(const plan_builder *w, mba_launch *l, bool rev, bool output)
{
    const double n = (double)tiles_of_n(w), x = SSD_HEADS / n * TILE_BYTES * real_share_p(w);
    const double bc = 2 * n * TILE_BYTES * real_share_n(w);
    mba_phase_move(l, MBA_ASYNC, MBA_ARG_IN(rev ? DY : X), x);
    if (rev && output) mba_phase_move(l, MBA_ASYNC, MBA_ARG_IN(X), x);
    mba_phase_move(l, MBA_ASYNC, rev ? w->records_back : MBA_ARG_SCRATCH(SSD_RECORDS_WORK),
                   SSD_HEADS / n * SSD_RECORD * 4);
    mba_phase_move(l, MBA_ASYNC, MBA_ARG_IN(rev ? CM : BM), bc);
    mba_phase_share(l, w->t.J / SSD_HEADS);
    if (!output) return;
    mba_phase_move(l, MBA_ASYNC, MBA_ARG_IN(rev ? BM : CM), bc);
    mba_phase_share(l, w->t.J / SSD_HEADS);
    mba_phase_move(l, MBA_ASYNC, w->pairs, (double)TILE_BYTES);
    mba_phase_share(l, w->t.J / SSD_HEADS);
}

/* The producer of a block of `fused`: chunks that are recomputed for the state alone, then the others. */
static void plan_scan_producer(const plan_builder *w, mba_launch *l, scan_launch k, double recomputed, double trips)
{
    mba_launch_role(l, 4);
    if (recomputed > 0) {
        mba_phase_work(l, MBA_LOOP, recomputed, NULL);
        mba_phase_work(l, MBA_RING_FILL, 0, NULL);
        plan_chunk_copies(w, l, k.rev, false);
        mba_phase_work(l, MBA_END, 0, NULL);
    }
    mba_phase_work(l, MBA_LOOP, trips, NULL);
    mba_phase_work(l, MBA_RING_FILL, 0, NULL);
    plan_chunk_copies(w, l, k.rev, k.output);
    mba_phase_work(l, MBA_END, 0, NULL);
}

static mba_launch *begin_scan(const plan_builder *w, scan_launch k, const scan_work *s)
{
    const int64_t stage = ssd_mma_stage_bytes(k.rev, k.output, tiles_of_n(w));
    const int     stages = ssd_mma_stages(MMA_PARTIAL_BYTES, stage, w->m);
    const char   *split = k.rev ? "ssd_scan_rev_split" : "ssd_scan_split";
    mba_launch   *l = mba_plan_launch(w->p, w->split.how ? split : k.kernel, MBA_MIXED, s->grid,
                                    w->mma ? 128 * SSD_HEADS : SCAN_THREADS);
    l->regs = !w->mma ? 168 : k.rev ? 244 : 214;
    l->smem_bytes = w->mma ? (size_t)(stages * stage + MMA_PARTIAL_BYTES) : SSD_SCAN_SMEM;
    l->ring_depth = w->mma ? stages : tiles_of_n(w) > 1 ? 2 : STAGES;
    l->persistent = true;
    l->tiles = s->subranges;
    return l;
}

/* In `fused_mma` each warp waits for the copies of a chunk, multiplies and stores. */
static void plan_fused_scan(const plan_builder *w, scan_launch k)
{
    const scan_work s = scan_work_of(w);
    const double    nt = (double)tiles_of_n(w), x = SSD_HEADS / nt * TILE_BYTES; // output of a chunk
    const double    grid = (double)s.grid, trips = (double)s.chunks / grid;      // means over blocks
    const double    recomputed = (double)s.recomputed / grid, state = SSD_HEADS * STATE * 4 / grid;
    const double    pairs = w->mma ? 10.0 / 16 : 1; // of C B^T: blocks on and below the diagonal
    const int       records = k.rev ? w->records_back : MBA_ARG_SCRATCH(SSD_RECORDS_WORK);
    mba_launch     *l = begin_scan(w, k, &s);
    if (!w->mma) mba_phase_move(l, MBA_LOAD, records, 32.0 * (double)(w->chunks * w->d.H) / grid); // flags
    if (s.states_read) mba_phase_move(l, MBA_LOAD, MBA_ARG_SCRATCH(SSD_SEGMENTS_WORK), (double)s.states_read * state);
    if (s.recomputed) {
        mba_phase_work(l, MBA_LOOP, recomputed, NULL);
        mba_phase_work(l, MBA_RING_WAIT, 0, NULL);
        mba_phase_work(l, MBA_FMA, SSD_HEADS * (STATE + P * Q / 2.0), NULL); // scaling of x is packed
        mba_phase_work(l, MBA_MMA, SSD_HEADS * 2.0 * STATE * Q, NULL);
        mba_phase_work(l, MBA_END, 0, NULL);
    }
    mba_phase_work(l, MBA_LOOP, trips, NULL);
    if (w->mma) plan_chunk_copies(w, l, k.rev, k.output);
    mba_phase_work(l, w->mma ? MBA_BARRIER : MBA_RING_WAIT, w->mma, NULL);
    mba_phase_work(l, MBA_FMA, SSD_HEADS * (STATE + (k.output ? 2.0 * P * Q : 0)), NULL);
    mba_phase_work(l, MBA_ALU, SSD_HEADS * (k.output ? STATE / 2 + P * Q : 0.0), NULL);
    mba_phase_work(l, MBA_HALF2, SSD_HEADS * P * Q, NULL);
    if (k.output) mba_phase_work(l, MBA_MMA, SSD_HEADS * 2.0 * (STATE * Q + pairs / nt * P * Q * Q), NULL);
    mba_phase_work(l, MBA_MMA, SSD_HEADS * 2.0 * STATE * Q, NULL);
    if (!w->mma) mba_phase_work(l, MBA_SMEM, (k.output ? 2 : 1) * x * 2, NULL);
    if (k.output) mba_phase_move(l, MBA_STORE, MBA_ARG_OUT(k.rev ? DX : Y), x * real_share_p(w));
    if (k.saves)
        mba_phase_move(l, MBA_STORE, k.rev ? MBA_ARG_SCRATCH(SSD_SAVED_REV_WORK) : w->saved, SSD_HEADS * STATE);
    mba_phase_work(l, MBA_END, 0, NULL);
    if (s.states_written)
        mba_phase_move(l, MBA_STORE, MBA_ARG_SCRATCH(SSD_SEGMENTS_WORK), (double)s.states_written * state);
    if (!w->mma) plan_scan_producer(w, l, k, recomputed, trips);
}

static void plan_state_sources(const plan_builder *w, mba_launch *l, bool rev)
{
    const int64_t n = ssd_state_heads(&w->t);
    mba_phase_move(l, MBA_ASYNC, MBA_ARG_IN(rev ? DY : X), (double)n * TILE_BYTES * real_share_p(w));
    mba_phase_move(l, MBA_ASYNC, rev ? w->records_back : MBA_ARG_SCRATCH(SSD_RECORDS_WORK), (double)n * SSD_RECORD * 4);
    mba_phase_move(l, MBA_ASYNC, MBA_ARG_IN(rev ? CM : BM), 2 * TILE_BYTES * real_share_n(w));
    mba_phase_share(l, w->t.J / n);
}

/* ssd_states: what each part of a sequence adds to the state; last segments need none. */
static void plan_states(const plan_builder *w, bool rev)
{
    const ssd_segments *r = &w->r;
    const int64_t       heads = ssd_state_heads(&w->t), blocks = r->state_blocks;
    const int64_t       each = rev ? r->K - r->per_segment : (r->segments - 1) * r->per_segment; // chunks per sequence
    const int64_t       all = r->items / r->segments * SSD_HEADS / heads * each;
    const double        trips = (double)all / (double)blocks, n = (double)heads; // means over blocks
    const char         *dense = rev ? "ssd_states_rev" : "ssd_states";
    const char         *tiled = rev ? "ssd_tiled_states_rev" : "ssd_tiled_states";
    const char         *kernel = w->mma ? (rev ? "ssd_mma_states_rev" : "ssd_mma_states") : w->tiled ? tiled : dense;
    const int64_t       stage = ssd_mma_stage_bytes(rev, false, tiles_of_n(w));
    const int           stages = ssd_mma_stages(MMA_PARTIAL_BYTES, stage, w->m);
    mba_launch         *l = mba_plan_launch(w->p, kernel, MBA_MIXED, blocks, w->mma ? 256 : 128 * (heads + 1));
    l->regs = w->mma ? 198 : heads > SSD_HEADS ? 96 : 147;
    l->smem_bytes = w->mma ? (size_t)(stages * stage) : SSD_STATES_SMEM;
    l->ring_depth = w->mma ? stages : 4;
    mba_phase_work(l, MBA_LOOP, trips, NULL);
    if (w->mma) plan_state_sources(w, l, rev);
    mba_phase_work(l, w->mma ? MBA_BARRIER : MBA_RING_WAIT, w->mma ? 1 : 0, NULL);
    mba_phase_work(l, MBA_FMA, n * STATE, NULL);
    mba_phase_work(l, MBA_HALF2, n * P * Q, NULL);
    mba_phase_work(l, MBA_SMEM, n * TILE_BYTES * 2, NULL);
    mba_phase_work(l, MBA_MMA, n * 2.0 * STATE * Q, NULL);
    mba_phase_work(l, MBA_END, 0, NULL);
    mba_phase_move(l, MBA_STORE, MBA_ARG_SCRATCH(SSD_SEGMENTS_WORK), n * STATE * 4);
    if (w->mma) return;
    mba_launch_role(l, 4);
    mba_phase_work(l, MBA_LOOP, trips, NULL);
    mba_phase_work(l, MBA_RING_FILL, 0, NULL);
    plan_state_sources(w, l, rev);
    mba_phase_work(l, MBA_END, 0, NULL);
}

static int operand(const plan_builder *w, int in, int out, int scratch)
{
    return !w->kept ? MBA_ARG_SCRATCH(scratch) : w->backward ? MBA_ARG_IN(in) : MBA_ARG_OUT(out);
}

bool ssd_has_saved(const mba_plan *p, const mba_node *n)
{
    return n->in[STATES_IN] && p->forward && !strcmp(p->forward->variant, p->variant)
           && !(p->forward->leaves >> KEPT_STATES & 1);
}

/* Whether the forward pass saves for a backward pass by the same variant. */
static bool saves_states(const mba_node *n, const mba_machine *m, bool mma)
{
    return !mma || ssd_mma_fits(m, mba_ceil(ssd_dims_of(n).N, N), true);
}

static plan_builder begin_plan(mba_plan *p, const mba_node *n, const mba_machine *m, bool mma, bool backward)
{
    const bool   kept = backward ? ssd_has_saved(p, n) : n->out[KEPT_STATES] && saves_states(n, m, mma);
    plan_builder w = {
        .p = p, .m = m, .d = ssd_dims_of(n), .ids = n->in[IDS] != NULL, .backward = backward, .mma = mma, .kept = kept
    };
    w.t = ssd_tile_dims(&w.d);
    w.tiled = mma || ssd_is_tiled(n);
    if (w.tiled) w.pad = ssd_padding_of(n);
    w.r = ssd_segments_of(&w.t, m->sm, backward || w.kept);
    if (!w.tiled) w.split = ssd_split_of(&w.t, m->sm, backward || w.kept);
    w.chunks = w.d.B * w.r.K;
    w.records_back = operand(&w, RECORDS_IN, KEPT_RECORDS, SSD_RECORDS_WORK);
    w.pairs = operand(&w, PAIRS_IN, KEPT_PAIRS, SSD_PAIRS_WORK);
    w.saved = operand(&w, STATES_IN, KEPT_STATES, SSD_SAVED_WORK);
    plan_scratch(&w);
    return w;
}

static bool launches_states(const plan_builder *w) { return !w->split.how && w->r.segments > 1; }

/* Values per token of a padded copy of x, of B; 0: not padded. */
static int64_t padded_x(const plan_builder *w)
{
    return w->pad.x ? w->d.H * mba_ceil(w->d.P, SSD_PAD_TO) * SSD_PAD_TO : 0;
}
static int64_t padded_b(const plan_builder *w)
{
    return w->pad.b ? w->d.G * mba_ceil(w->d.N, SSD_PAD_TO) * SSD_PAD_TO : 0;
}
static bool is_padded(const plan_builder *w) { return w->pad.x || w->pad.b; }

/* Scratch of padded copies: x, B, C, y; backward x, B, C, dy, dx, dB, dC. */
static void plan_padded(const plan_builder *w)
{
    const int64_t x = w->backward ? 3 : 2, b = w->backward ? 4 : 2;
    mba_plan_scratch(w->p, "padded rows", (size_t)(2 * w->d.B * w->d.L * (x * padded_x(w) + b * padded_b(w))));
}

/* ssd_tiled_pad, or with `out` ssd_tiled_unpad: copies of whole operands. */
static void plan_pad(const plan_builder *w, int64_t sms, bool out)
{
    enum { BLOCKS_PER_SM = 16, THREADS = 256 };
    static const int in_fwd[] = { MBA_ARG_IN(X), MBA_ARG_IN(BM), MBA_ARG_IN(CM), MBA_ARG_IN(DY) };
    static const int out_bwd[] = { MBA_ARG_OUT(DX), MBA_ARG_OUT(DBM), MBA_ARG_OUT(DCM) };
    const int        scratch = MBA_ARG_SCRATCH(w->backward ? SSD_PADDED_WORK : SSD_PADDED_FWD_WORK);
    const int        count = out ? (w->backward ? 3 : 1) : w->backward ? 4 : 3;
    const int64_t    blocks = sms * BLOCKS_PER_SM;
    mba_launch      *l = mba_plan_launch(w->p, out ? "ssd_tiled_unpad" : "ssd_tiled_pad", MBA_VECTOR, blocks, THREADS);
    l->grid[1] = count;
    l->regs = 40;
    for (int i = 0; i < count; i++) {
        const bool wide = i == 0 || i == 3; // x, dy, y, dx
        if (!(wide ? w->pad.x : w->pad.b)) continue;
        const double tokens = (double)(w->d.B * w->d.L) / (double)(blocks * count);
        const double dense = 2 * tokens * (double)(wide ? w->d.H * w->d.P : w->d.G * w->d.N);
        const double padded = 2 * tokens * (double)(wide ? padded_x(w) : padded_b(w));
        mba_phase_move(l, MBA_LOAD, out ? scratch : in_fwd[i], out ? padded : dense);
        mba_phase_move(l, MBA_STORE, !out ? scratch : w->backward ? out_bwd[i] : MBA_ARG_OUT(Y), out ? dense : padded);
    }
}

static const char *scan_kernel(const plan_builder *w, bool rev)
{
    if (w->mma) return rev ? "ssd_mma_scan_rev" : "ssd_mma_scan";
    if (w->tiled) return rev ? "ssd_tiled_scan_rev" : "ssd_tiled_scan";
    return rev ? "ssd_scan_rev" : "ssd_scan";
}

static mba_status plan_fwd(mba_plan *p, const mba_node *n, const mba_machine *m, bool mma)
{
    const ssd_dims d = ssd_dims_of(n);
    MBA_TRY(check_fused(n, &d, m, mma, false));
    if (!mma && !ssd_is_tiled(n)) MBA_TRY(check_heads(n, (const int[]){ X, BM, CM }, (const int[]){ Y, -1, -1 }, 3));
    const plan_builder w = begin_plan(p, n, m, mma, false);
    if (!w.kept) ssd_save_nothing(p);
    plan_padded(&w);
    if (is_padded(&w)) plan_pad(&w, m->sm, false);
    plan_prep(&w);
    if (launches_states(&w)) plan_states(&w, false);
    plan_fused_scan(&w, (scan_launch){ .kernel = scan_kernel(&w, false), .output = true, .saves = w.kept });
    if (w.pad.x) plan_pad(&w, m->sm, true);
    return MBA_OK;
}

mba_status ssd_fused_plan(mba_plan *p, const mba_node *n, const mba_machine *m) { return plan_fwd(p, n, m, false); }
mba_status ssd_fused_mma_plan(mba_plan *p, const mba_node *n, const mba_machine *m) { return plan_fwd(p, n, m, true); }

/* ---- backward: states if not saved, reverse scan, then sums over heads and over tokens ---- */

static int64_t max_subranges(const plan_builder *w) { return w->split.how ? w->split.segments : w->r.segments; }

static void plan_bwd_scratch(const plan_builder *w)
{
    const ssd_dims *d = &w->d;
    const int64_t   heads = d->B * w->t.H, tokens = heads * w->r.K * Q, pairs = w->r.K / 2;
    mba_plan_scratch(w->p, "states of pairs", (size_t)(w->kept ? 0 : 2 * heads * pairs * STATE));
    mba_plan_scratch(w->p, "their gradients", (size_t)(2 * heads * pairs * STATE));
    mba_plan_scratch(w->p, "sums per token", (size_t)(3 * 4 * tokens));
    mba_plan_scratch(w->p, "dB, dC beyond the range",
                     (size_t)((2 * 4 * 2 * Q * N + 8) * w->chunks / 2 * d->G * tiles_of_n(w)));
    mba_plan_scratch(w->p, "partial sums", (size_t)(4 * heads * ((SSD_ENDS + 2) * pairs + max_subranges(w) * P)));
}

/* ssd_bwd_slow of data without wide-range heads: blocks read the flags and return. How many such heads there are, and
 * so its loads and products, is in the data alone; ssd_data_flops.c counts the products. */
static void plan_bwd_slow(const plan_builder *w, int64_t sms)
{
    const int64_t blocks = w->chunks / 2 * w->d.G * tiles_of_n(w), grid = blocks < sms ? blocks : sms;
    const char   *kernel = w->tiled ? "ssd_tiled_slow" : "ssd_bwd_slow";
    mba_launch   *l = mba_plan_launch(w->p, kernel, MBA_MIXED, grid, 256);
    l->regs = 255;
    l->smem_bytes = SSD_SLOW_SMEM;
    mba_phase_move(l, MBA_LOAD, w->records_back, 32.0 * (double)(w->chunks * w->d.H) / (double)grid); // flags
}

/* Vector instructions of ssd_bwd_bc, times lanes of the eight consumer warps, counted in the SASS of sm_90a by
 * tools/sass_mix. Loop over heads: warps of chunk 0 have 320 FMA, 220 ALU and 96 half2, those of chunk 1 278, 208 and
 * 96. Outside: 500 FMA and 1180 ALU, of which 380 compute the mask of dCB. */
enum { BC_FMA_HEAD = 4 * 32 * (320 + 278), BC_ALU_HEAD = 4 * 32 * (220 + 208), BC_HALF2_HEAD = 8 * 32 * 96 };
enum { BC_FMA_BLOCK = 8 * 32 * 500, BC_ALU_BLOCK = 8 * 32 * 1180 };
enum { BC_TILES_READ = 10 }; /* per head, as left operands */

/* Heads, or tiles of p, of a group that a block of ssd_bwd_bc loops over. */
static int64_t group_heads(const plan_builder *w) { return w->d.J * mba_ceil(w->d.P, P); }

/* The copies of one head. */
static void plan_bc_sources(const plan_builder *w, mba_launch *l)
{
    const double x = 2 * TILE_BYTES * real_share_p(w), state = (double)(2 * TILE_BYTES);
    mba_phase_move(l, MBA_ASYNC, MBA_ARG_IN(X), x);
    mba_phase_move(l, MBA_ASYNC, MBA_ARG_IN(DY), x);
    mba_phase_move(l, MBA_ASYNC, w->saved, state);
    mba_phase_move(l, MBA_ASYNC, MBA_ARG_SCRATCH(SSD_SAVED_REV_WORK), state);
    mba_phase_move(l, MBA_ASYNC, w->records_back, 2 * SSD_RECORD * 4);
}

/* One head: a warpgroup scales, multiplies, waits for its products and sums the increments. Of its vector work only the
 * scaling of dy overlaps with its own products. */
static void plan_bc_head(const plan_builder *w, mba_launch *l, const char *mix)
{
    mba_phase_work(l, MBA_LOOP, (double)group_heads(w), NULL);
    if (w->mma) plan_bc_sources(w, l);
    mba_phase_work(l, w->mma ? MBA_BARRIER : MBA_RING_WAIT, w->mma ? 1 : 0, NULL);
    if (w->mma) mba_phase_work(l, MBA_FMA, STATE, NULL); // <H1, G1>
    mba_phase_work(l, MBA_HALF2, BC_HALF2_HEAD, mix);
    mba_phase_work(l, MBA_SMEM, BC_TILES_READ * TILE_BYTES, NULL);
    mba_phase_work(l, MBA_BARRIER, 1, NULL);
    mba_phase_work(l, MBA_MMA, 2.0 * (4 * STATE * Q + 3 * P * Q * Q), NULL);
    mba_phase_work(l, MBA_BARRIER, 1, NULL);
    mba_phase_work(l, MBA_FMA, BC_FMA_HEAD, mix);
    mba_phase_work(l, MBA_ALU, BC_ALU_HEAD, mix);
    mba_phase_work(l, MBA_SMEM, 3.0 * Q * N * 2 + 3 * Q * Q * 2, NULL);
    mba_phase_move(l, MBA_STORE, MBA_ARG_SCRATCH(SSD_TOKENS_WORK), 2.0 * 2 * Q * 4);
    mba_phase_work(l, MBA_END, 0, NULL);
}

static void plan_bc(const plan_builder *w, int64_t sms)
{
    const char   *mix = w->tiled ? "ssd_tiled_bc" : "ssd_bwd_bc";
    const int     stages = ssd_mma_stages(MMA_BC_REST, SSD_MMA_BC_STAGE, w->m);
    const int64_t blocks = w->chunks / 2 * w->d.G * tiles_of_n(w), grid = blocks < sms ? blocks : sms;
    const double  bc = 2.0 * Q * N * 2 * real_share_n(w), trips = (double)blocks / (double)grid;
    mba_launch   *l = mba_plan_launch(w->p, w->mma ? "ssd_mma_bc" : mix, MBA_MIXED, grid, w->mma ? 256 : SCAN_THREADS);
    l->regs = w->mma ? 255 : 168;
    l->smem_bytes = w->mma ? (size_t)(MMA_BC_REST + stages * SSD_MMA_BC_STAGE) : SSD_BC_SMEM;
    l->ring_depth = w->mma ? stages : 2;
    l->persistent = true;
    l->tiles = blocks;
    mba_phase_work(l, MBA_LOOP, trips, NULL);
    mba_phase_move(l, MBA_LOAD, MBA_ARG_IN(BM), bc);
    mba_phase_move(l, MBA_LOAD, MBA_ARG_IN(CM), bc);
    mba_phase_move(l, MBA_LOAD, w->pairs, (double)(3 * TILE_BYTES));
    plan_bc_head(w, l, mix);
    mba_phase_work(l, MBA_FMA, BC_FMA_BLOCK, mix);
    mba_phase_work(l, MBA_ALU, BC_ALU_BLOCK, mix);
    mba_phase_work(l, MBA_BARRIER, 4, NULL);
    mba_phase_work(l, MBA_MMA, 2.0 * 6 * Q * Q * N * 2, NULL); // dCB: value and residual
    mba_phase_work(l, MBA_BARRIER, 1, NULL);
    mba_phase_move(l, MBA_STORE, MBA_ARG_OUT(DBM), bc);
    mba_phase_move(l, MBA_STORE, MBA_ARG_OUT(DCM), bc);
    mba_phase_work(l, MBA_END, 0, NULL);
    if (w->mma) return;
    mba_launch_role(l, 4);
    mba_phase_work(l, MBA_LOOP, trips, NULL);
    mba_phase_work(l, MBA_LOOP, (double)group_heads(w), NULL);
    mba_phase_work(l, MBA_RING_FILL, 0, NULL);
    plan_bc_sources(w, l);
    mba_phase_work(l, MBA_FMA, STATE, NULL); // <H1, G1>
    mba_phase_work(l, MBA_END, 0, NULL);
    mba_phase_work(l, MBA_END, 0, NULL);
}

static void plan_finish(const plan_builder *w)
{
    const ssd_dims *d = &w->d;
    const double    values = 2 * Q * 32, tiles = (double)(mba_ceil(d->P, P) * tiles_of_n(w));
    const int64_t   pairs = d->B * w->r.K / 2;
    mba_launch     *l = mba_plan_launch(w->p, w->tiled ? "ssd_tiled_finish" : "ssd_finish", MBA_VECTOR,
                                        w->chunks / 2 * mba_ceil(d->H, 32), 1024);
    l->regs = 32;
    mba_phase_move(l, MBA_LOAD, MBA_ARG_IN(DT), values * 2);
    mba_phase_move(l, MBA_LOAD, MBA_ARG_SCRATCH(SSD_TOKENS_WORK), values * 12 * tiles);
    mba_phase_move(l, MBA_LOAD, MBA_ARG_SCRATCH(SSD_SMALL_WORK), 32.0 * SSD_ENDS * 4 * tiles);
    mba_phase_move(l, MBA_LOAD, w->records_back, 32.0 * 2 * 32); // flags: one sector each
    mba_phase_work(l, MBA_FMA, values * 24, NULL);
    mba_phase_work(l, MBA_SFU, values * 4, NULL);
    mba_phase_move(l, MBA_STORE, MBA_ARG_OUT(DDT), values * 2);
    l = mba_plan_launch(w->p, w->tiled ? "ssd_tiled_sums" : "ssd_sums", MBA_VECTOR,
                        mba_ceil(d->C > 1 ? d->H * d->P : d->H, SSD_SUM_COLS), 32 * SSD_SUM_COLS);
    l->grid[1] = 3;
    l->regs = 32;
    mba_phase_move(l, MBA_LOAD, MBA_ARG_SCRATCH(SSD_SMALL_WORK), SSD_SUM_COLS * 4 * (double)pairs);
    mba_phase_move(l, MBA_STORE, MBA_ARG_OUT(DA_LOG), SSD_SUM_COLS * 4);
}

static mba_status plan_bwd(mba_plan *p, const mba_node *n, const mba_machine *m, bool mma)
{
    const ssd_dims d = ssd_dims_of(n);
    MBA_TRY(check_fused(n, &d, m, mma, true));
    MBA_REFUSE_IF(!n->in[DY], "no gradient of y\nwhy: written for training, where there is one");
    MBA_REFUSE_IF(mba_adds(n, DX), "dx is added to what is there\nwhy: it leaves by copies of whole tiles");
    if (!mma && !ssd_is_tiled(n))
        MBA_TRY(check_heads(n, (const int[]){ X, BM, CM, DY }, (const int[]){ DX, DBM, DCM, -1 }, 4));
    const plan_builder w = begin_plan(p, n, m, mma, true);
    plan_bwd_scratch(&w);
    plan_padded(&w);
    if (is_padded(&w)) plan_pad(&w, m->sm, false);
    if (!w.kept) {
        plan_prep(&w);
        if (launches_states(&w)) plan_states(&w, false);
        plan_fused_scan(&w, (scan_launch){ .kernel = scan_kernel(&w, false), .saves = true });
    }
    if (launches_states(&w)) plan_states(&w, true);
    plan_fused_scan(&w, (scan_launch){ .kernel = scan_kernel(&w, true), .rev = true, .output = true, .saves = true });
    plan_bwd_slow(&w, m->sm);
    plan_bc(&w, m->sm);
    plan_finish(&w);
    if (is_padded(&w)) plan_pad(&w, m->sm, true);
    return MBA_OK;
}

mba_status ssd_bwd_fused_plan(mba_plan *p, const mba_node *n, const mba_machine *m) { return plan_bwd(p, n, m, false); }
mba_status ssd_bwd_fused_mma_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    return plan_bwd(p, n, m, true);
}
