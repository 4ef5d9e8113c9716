// SPDX-License-Identifier: Apache-2.0
/* ssd_plan.c -- launch plans of ssd's multi-kernel variants: `chunked`, `persistent*`, `bc_fused` and `fma`.
 *
 * `chunked`: bf16 products on tensor cores (ssd_mma*.cuh), states and C B^T in bf16. `fma`: three TF32 products for one
 * in fp32 (ssd_fma.cuh), or one if the node says TF32, everything else in fp32, cumulative decays in double. The vector
 * kernels are the same (ssd_steps.cuh). `persistent*`: the launches of `chunked` with as many blocks as fit.
 * `bc_fused`: one launch less, see plan_bc_scan. Instruction counts per lane are counted in the SASS where a phase
 * names a kernel. */
#include "core/device.h"
#include "ops/heads.h"
#include "ops/ssd/ssd.h"
#include "ops/ssd/ssd_slots.h"

enum { WIDE = 128, MAX_CHUNK = 512, MAX_STATE = 256 };

ssd_tiling ssd_tiling_of(const ssd_dims *d, ssd_baseline_kind kind)
{
    const bool tensor = kind != SSD_FMA;
    ssd_tiling t = { .K = mba_ceil(d->L, d->Q),
                     .tiles = mba_ceil(d->Q, SSD_TILE),
                     .ptiles = mba_ceil(d->P, SSD_TILE),
                     .ntiles = mba_ceil(d->N, tensor ? WIDE : SSD_TILE),
                     .rows = tensor && d->Q % WIDE == 0 ? WIDE : SSD_TILE,
                     .pairs = tensor ? mba_ceil(d->J, 2) : d->J,
                     .vec = tensor ? 8 : 1,
                     .cs_bytes = tensor ? 4 : 8,
                     .st_bytes = tensor ? 2 : 4 };
    t.KQ = t.K * d->Q;
    t.rtiles = mba_ceil(d->Q, t.rows);
    t.xrows = kind == SSD_BC_FUSED ? SSD_TILE : t.rows;
    t.xtiles = mba_ceil(d->Q, t.xrows);
    t.cparts = mba_ceil(d->P * d->N, 256 * t.vec) * 8;
    t.dD = d->B * t.K * t.xtiles * d->H * (d->C > 1 ? d->P : d->C * t.ptiles);
    return t;
}

/* What the functions below read. */
typedef struct plan_builder {
    mba_plan          *p;
    ssd_dims           d;
    ssd_tiling         t;
    double             e, st;  /* bytes of an activation, of a state value */
    int64_t            chunks; /* chunks of all sequences */
    ssd_baseline_kind  kind;
    bool               tensor;
    bool               tf32; /* `fma` with one TF32 product for one in fp32 */
    const mba_machine *m;
} plan_builder;

static bool has_persistent_blocks(const plan_builder *w)
{
    return w->kind == SSD_PERSISTENT || w->kind == SSD_PERSISTENT_DYNAMIC || w->kind == SSD_PERSISTENT_PREFETCH;
}

/* Whether the backward pass stores the rounding residual of C B^T. */
static bool keeps_low(const plan_builder *w) { return w->kind == SSD_CHUNKED || has_persistent_blocks(w); }

static mba_status check_tensor(const mba_node *n, const ssd_dims *d)
{
    MBA_REFUSE_IF(n->in[X]->type.dtype != MBA_BF16, "fp32 activations\nwhy: tensor cores would round them");
    MBA_REFUSE_IF(d->Q % SSD_TILE || d->Q > MAX_CHUNK,
                  "a chunk of %lld\nwhy: tiles of 64 rows\nfix: --chunk 64, 128, 256 or 512", (long long)d->Q);
    MBA_REFUSE_IF(d->P % 8 || d->N % 8 || d->N > MAX_STATE,
                  "heads of %lld, a state of %lld\nwhy: both must be multiples of 8, the state at most 256",
                  (long long)d->P, (long long)d->N);
    MBA_REFUSE_IF(!ssd_vec_aligned(n), "rows that do not begin at multiples of 16 bytes");
    return MBA_OK;
}

static void plan_scratch(const plan_builder *w, bool ids, bool backward)
{
    const ssd_dims   *d = &w->d;
    const ssd_tiling *t = &w->t;
    const int64_t     steps = d->B * d->H * t->KQ, states = w->chunks * d->H * d->P * d->N,
                  pairs = w->chunks * d->G * d->Q * d->Q;
    const size_t counters = w->kind == SSD_PERSISTENT_DYNAMIC ? SSD_LAUNCHES_MAX * sizeof(unsigned) : 0;
    mba_plan    *p = w->p;
    mba_plan_scratch(p, "dt, decays", (size_t)(3 * 4 * steps) + counters);
    mba_plan_scratch(p, "dA_cumsum", (size_t)(t->cs_bytes * steps));
    mba_plan_scratch(p, "documents", (size_t)(ids ? 4 * d->B * t->KQ : 0));
    mba_plan_scratch(p, "states", (size_t)(t->st_bytes * states));
    mba_plan_scratch(p, "CB", (size_t)(w->kind == SSD_BC_FUSED ? 0 : t->st_bytes * pairs));
    if (!backward) return;
    mba_plan_scratch(p, "dstates", (size_t)(t->st_bytes * states));
    mba_plan_scratch(p, "dCB", (size_t)(t->st_bytes * pairs));
    mba_plan_scratch(p, "dB, dC of states", (size_t)(2 * 4 * d->B * t->KQ * d->G * d->N));
    mba_plan_scratch(p, "sums per token",
                     (size_t)(4 * steps * (2 * t->tiles + 2 * t->ntiles + (w->tensor ? 1 : t->ptiles) + 1)));
    mba_plan_scratch(p, "partial sums", (size_t)(4 * (d->B * d->H * t->K * t->cparts + 2 * w->chunks * d->H + t->dD)));
    mba_plan_scratch(p, "CB, lower halves", (size_t)(keeps_low(w) ? t->st_bytes * pairs : 0));
}

/* ---- tiles and blocks ---- */

/* Blocks per SM. Registers are allocated to warps in units of 256. OVERHEAD per block: 1 KB of shared memory that the
 * system reserves, and up to 1 KB of static shared memory. */
static int64_t resident(const mba_machine *m, const mba_launch *l)
{
    enum { OVERHEAD = 2048, MOST = 32 };
    const int64_t bound[] = { m->threads_sm / l->block, m->regs_sm / (mba_ceil(l->regs, 8) * 8 * l->block),
                              m->smem_sm_bytes / ((int64_t)l->smem_bytes + OVERHEAD) };
    int64_t       n = MOST;
    for (size_t i = 0; i < sizeof bound / sizeof *bound; i++)
        if (bound[i] < n) n = bound[i];
    return n > 1 ? n : 1;
}

/* Begins a launch over `tiles` tiles. The phases up to end_tiles() are those of one tile. A block takes one tile, or,
 * if persistent, its share of them. */
static mba_launch *begin_tiles(const plan_builder *w, const char *kernel, mba_class cls, int64_t tiles, int block,
                               int regs, size_t smem_bytes)
{
    mba_launch *l = mba_plan_launch(w->p, kernel, cls, tiles, block);
    l->regs = regs;
    l->smem_bytes = smem_bytes;
    if (!has_persistent_blocks(w)) return l;
    const int64_t most = w->m->sm * resident(w->m, l);
    l->persistent = true;
    l->tiles = tiles;
    if (tiles > most) l->grid[0] = most;
    mba_phase_work(l, MBA_LOOP, (double)tiles / (double)l->grid[0], NULL);
    return l;
}

static void end_tiles(const plan_builder *w, mba_launch *l)
{
    if (has_persistent_blocks(w)) mba_phase_work(l, MBA_END, 0, NULL);
}

/* ---- vector kernels ---- */

typedef struct operand {
    int    arg;
    double bytes;
} operand;

/* A vector kernel with one warp per (chunk, head), 32 positions at a time. waits: round trips to memory per 32
 * positions; from, to, cs: bytes per position; issued: FMA, ALU and special instructions per position, counted in the
 * SASS. */
typedef struct steps {
    const char *kernel;
    int         regs, waits, parts; /* parts: stores that share a sector of the result */
    operand     from, to;
    double      cs, issued[3]; /* cs: cumulative decays, which are written too */
} steps;

static void plan_steps(const plan_builder *w, const steps *s)
{
    const double waits = (double)(s->waits * mba_ceil(w->d.Q, 32)), n = 8 * (double)w->d.Q / waits;
    mba_launch  *l = begin_tiles(w, s->kernel, MBA_VECTOR, w->chunks * mba_ceil(w->d.H, 8), 256, s->regs, 0);
    mba_phase_work(l, MBA_LOOP, waits, NULL);
    mba_phase_move(l, MBA_LOAD, s->from.arg, n * s->from.bytes);
    mba_phase_work(l, MBA_FMA, n * s->issued[0], s->kernel);
    mba_phase_work(l, MBA_ALU, n * s->issued[1], s->kernel);
    mba_phase_work(l, MBA_SFU, n * s->issued[2], s->kernel);
    mba_phase_move(l, MBA_STORE, s->to.arg, n * s->to.bytes);
    if (s->parts > 1) mba_phase_share(l, s->parts);
    if (s->cs > 0) mba_phase_move(l, MBA_STORE, MBA_ARG_SCRATCH(SSD_CS_WORK), n * s->cs);
    mba_phase_work(l, MBA_END, 0, NULL);
    end_tiles(w, l);
}

/* chunk_cumsum_fwd: one pass for cumulative decays, one for the decays until the chunk ends. */
static void plan_cumsum(const plan_builder *w)
{
    plan_steps(w, &(steps){ .kernel = "chunk_cumsum_fwd",
                            .regs = 48,
                            .waits = 2,
                            .from = { MBA_ARG_IN(DT), w->e },
                            .to = { MBA_ARG_SCRATCH(SSD_STEPS_WORK), 12 },
                            .cs = (double)w->t.cs_bytes,
                            .issued = { 70, 79, 9 } });
}

/* One pass from the end of the chunk, one from its beginning with two waits: for the sums of tiles, then for the values
 * that they are added to. */
static void plan_ddacs(const plan_builder *w)
{
    plan_steps(w,
               &(steps){ .kernel = "chunk_scan_bwd_ddacs_stable",
                         .regs = 56,
                         .waits = 3,
                         .from = { MBA_ARG_SCRATCH(SSD_SUMS_WORK),
                                   4.0 * (double)(w->t.tiles + 1 + 2 * w->t.ntiles + 2) }, // plus dt and its gradient
                         .to = { MBA_ARG_SCRATCH(SSD_SUMS_WORK), 8 },
                         .issued = { 120, 95, 3 } });
}

static void plan_cumsum_bwd(const plan_builder *w)
{
    plan_steps(w, &(steps){ .kernel = "chunk_cumsum_bwd",
                            .regs = 64,
                            .waits = 1,
                            .from = { MBA_ARG_SCRATCH(SSD_SUMS_WORK), 12 + w->e },
                            .to = { MBA_ARG_OUT(DDT), w->e },
                            .parts = (int)(32 / w->e),
                            .issued = { 67, 52, 4 } });
}

static void plan_passing(const plan_builder *w, bool backward)
{
    const double n = 256 * (double)w->t.vec;
    mba_launch  *l = begin_tiles(w, backward ? "state_passing_bwd" : "state_passing_fwd", MBA_VECTOR,
                                 w->d.B * w->d.H * mba_ceil(w->d.P * w->d.N, (int64_t)n), 256,
                                w->tensor  ? backward ? 99 : 62
                                 : backward ? 40
                                            : 48,
                                 0);
    mba_phase_work(l, MBA_LOOP, (double)w->t.K, NULL);
    mba_phase_move(l, MBA_LOAD, MBA_ARG_SCRATCH(SSD_STATES_WORK), n * w->st);
    if (backward) mba_phase_move(l, MBA_LOAD, MBA_ARG_SCRATCH(SSD_DSTATES_WORK), n * w->st);
    mba_phase_work(l, MBA_FMA, backward ? 2 * n : n, NULL);
    mba_phase_move(l, MBA_STORE, MBA_ARG_SCRATCH(backward ? SSD_DSTATES_WORK : SSD_STATES_WORK), n * w->st);
    mba_phase_work(l, MBA_END, 0, NULL);
    end_tiles(w, l);
}

static void plan_parts(const plan_builder *w)
{
    const int64_t cols = w->d.C > 1 ? w->d.H * w->d.P : w->d.H;
    mba_launch   *l = begin_tiles(w, "ssd_sum_parts", MBA_VECTOR, 3 * mba_ceil(cols, 32), 256, 32, 0);
    mba_phase_move(l, MBA_LOAD, MBA_ARG_SCRATCH(SSD_PARTS_WORK), 32 * 4 * (double)(w->chunks * w->t.xtiles));
    mba_phase_move(l, MBA_STORE, MBA_ARG_OUT(DA_LOG), 32 * 4);
    end_tiles(w, l);
}

/* ---- products: a block multiplies (m, k) by (k, n) in steps through a ring, and scales operands ---- */

typedef struct product {
    const char *kernel[2]; /* of `fma`, of the others */
    int64_t     grid;
    int         block, regs[3], stages; /* regs: as `kernel`; of `fma` with one TF32 product */
    size_t      smem_bytes;
    double      tile[2], trips;  /* m, n: a step multiplies (m, 64) by (64, n) */
    double      share;           /* share_of k */
    operand     left, right, to; /* bytes per step; of the result per block */
    double      fma, sfu;        /* lane operations per step besides the product */
    double      alu;             /* set where they are counted in the SASS */
    bool        triangle;        /* row tile i takes i + 1 more steps, with left2 and right2 */
    int         left2, right2;
    int         sharers;               /* blocks that share left2 */
    operand     reads, reads2, writes; /* besides; bytes per block */
    bool        computes_cb;           /* begins by computing a tile of C B^T */
    bool        reads_low;             /* also reads the residuals of a tile of C B^T */
    double      low_bytes;             /* bytes of residuals written with the result */
    double      tables;                /* steps that it loads first and turns into factors */
    int         parts;                 /* stores that share a sector: bf16 fragments fill half of one */
    int         ends;                  /* passes over the result at the end; each waits for its loads */
} product;

enum { T = SSD_TILE, TILE_BYTES = SSD_TILE * SSD_TILE * 2 };

/* Steps of `fma`, of 16 of k, for one of 64. */
static double share_of(int64_t k) { return (double)mba_ceil(k, 16) / (double)mba_ceil(k, T); }

/* Mean number of tiles of sources beyond the diagonal that the four warps of a block skip. */
static double beyond_diagonal(double rows) { return 0.375 * rows / T; }

/* C B^T computed in a block: a step loads 64 columns of c tiles of C and b tiles of B, and multiplies `tiles` tiles. */
typedef struct made {
    double trips, c, b, tiles;
} made;

static void plan_made_pairs(const plan_builder *w, mba_launch *l, made k)
{
    mba_phase_work(l, MBA_LOOP, k.trips, NULL);
    if (k.c > 0) mba_phase_move(l, MBA_ASYNC, MBA_ARG_IN(CM), k.c * T * T * w->e);
    if (k.b > 0) mba_phase_move(l, MBA_ASYNC, MBA_ARG_IN(BM), k.b * T * T * w->e);
    mba_phase_work(l, MBA_BARRIER, 1, NULL);
    mba_phase_work(l, MBA_MMA, k.tiles * 2 * T * T * T, NULL);
    mba_phase_work(l, MBA_END, 0, NULL);
}

/* scan_factors: loads decays and steps of two heads, then computes two factors per pair of sources and row of warps; in
 * the SASS 88 ALU, 65 FMA and 7 special instructions per pair. */
static void plan_tables(mba_launch *l, double numbers)
{
    static const char mix[] = "scan_factors";
    mba_phase_move(l, MBA_LOAD, MBA_ARG_SCRATCH(SSD_STEPS_WORK), 8 * numbers);
    mba_phase_work(l, MBA_ALU, 24 * numbers, mix);
    mba_phase_work(l, MBA_BARRIER, 1, NULL);
    mba_phase_work(l, MBA_ALU, 2 * 88 * numbers, mix);
    mba_phase_work(l, MBA_FMA, 2 * 65 * numbers, mix);
    mba_phase_work(l, MBA_SFU, 2 * 7 * numbers, mix);
    mba_phase_work(l, MBA_BARRIER, 1, NULL);
}

/* The loop over steps. done: share of the products that is not skipped. */
static void plan_steps_of(const plan_builder *w, mba_launch *l, const product *q, double trips, int left, int right,
                          double done)
{
    const mba_work copy = w->tensor || w->e == 4 ? MBA_ASYNC : MBA_LOAD;
    const double   k = w->tensor ? 1 : 0.25; // of the 64 that are given for a step
    mba_phase_work(l, MBA_LOOP, trips, NULL);
    mba_phase_move(l, copy, left, k * q->left.bytes);
    if (q->sharers) mba_phase_share(l, q->sharers);
    mba_phase_move(l, copy, right, k * q->right.bytes);
    mba_phase_work(l, MBA_BARRIER, 1, NULL);
    mba_phase_work(l, MBA_MMA, (w->tensor || w->tf32 ? 2 : 3 * 2) * k * q->tile[0] * q->tile[1] * T * done, NULL);
    // A thread and 16 of k: 40 operands in two parts each, 32 sums; TF32: 40 operands, rounded by two instructions.
    if (!w->tensor) mba_phase_work(l, MBA_ALU, (w->tf32 ? 5 : 6) * k * T * T * done, NULL);
    if (!w->tensor) mba_phase_work(l, MBA_FMA, (w->tf32 ? 5 : 9) * k * T * T * done, NULL);
    const char *mix = q->alu > 0 ? q->kernel[1] : NULL;
    if (q->fma > 0) mba_phase_work(l, MBA_FMA, k * q->fma, mix);
    if (q->alu > 0) mba_phase_work(l, MBA_ALU, k * q->alu, mix);
    if (q->sfu > 0) mba_phase_work(l, MBA_SFU, k * q->sfu, mix);
    mba_phase_work(l, MBA_END, 0, NULL);
}

static void plan_product(const plan_builder *w, const product *q)
{
    const mba_class cls = !w->tensor || q->fma > 0 ? MBA_MIXED : MBA_TENSOR;
    mba_launch     *l = begin_tiles(w, q->kernel[w->tensor], cls, q->grid, w->tensor ? q->block : 128,
                                    q->regs[w->tf32 ? 2 : w->tensor], w->tensor ? q->smem_bytes : 0);
    const int64_t   classes = w->d.Q / w->t.rows < 8 ? mba_ceil(w->d.Q, w->t.rows) : 8;
    const bool      by_class = q->triangle && !l->persistent; // a persistent block has tiles of all classes
    const double    per_tile = w->tensor ? 1 : 4;             // steps of 64 of k
    product         first = *q;
    if (q->triangle && !w->tensor) first.fma = first.sfu = 0; // decays of pairs
    l->ring_depth = w->tensor ? q->stages : 3;
    for (int64_t i = 0; by_class && i < classes; i++)
        l->blocks[l->nblocks++] = (mba_blocks){ q->grid / classes,
                                                { per_tile * (double)((i + 1) * w->t.tiles) / (double)classes } };
    if (q->tables > 0) plan_tables(l, q->tables);
    if (q->computes_cb) plan_made_pairs(w, l, (made){ (double)mba_ceil(w->d.N, T), .c = 1, .b = 1, .tiles = 1 });
    plan_steps_of(w, l, &first, w->tensor ? q->trips : q->trips * q->share, q->left.arg, q->right.arg, 1);
    if (q->triangle) {
        const double mean = (double)((classes + 1) * w->t.tiles) / (double)(2 * classes);
        const double done = 1 - beyond_diagonal(q->tile[0]) / mean;
        plan_steps_of(w, l, q, by_class ? MBA_TRIPS(0) : per_tile * mean, q->left2, q->right2, done);
    }
    const double passes = q->ends > 1 && w->tensor ? q->ends : 1;
    if (passes > 1) mba_phase_work(l, MBA_LOOP, passes, NULL);
    if (q->reads.bytes > 0) mba_phase_move(l, MBA_LOAD, q->reads.arg, q->reads.bytes / passes);
    if (q->reads2.bytes > 0) mba_phase_move(l, MBA_LOAD, q->reads2.arg, q->reads2.bytes / passes);
    if (q->writes.bytes > 0) mba_phase_move(l, MBA_STORE, q->writes.arg, q->writes.bytes / passes);
    if (q->reads_low) mba_phase_move(l, MBA_LOAD, MBA_ARG_SCRATCH(SSD_CB_LOW_WORK), T * T * w->st / passes);
    const int64_t parts = w->tensor && q->parts > 1 ? q->parts : 1;
    mba_phase_move(l, MBA_STORE, q->to.arg, q->to.bytes / passes);
    mba_phase_share(l, parts);
    if (q->low_bytes > 0) {
        mba_phase_move(l, MBA_STORE, MBA_ARG_SCRATCH(SSD_CB_LOW_WORK), q->low_bytes / passes);
        mba_phase_share(l, parts);
    }
    if (passes > 1) mba_phase_work(l, MBA_END, 0, NULL);
    end_tiles(w, l);
}

/* The sum over a chunk that gives its state, or the gradient of one. */
static void plan_state(const plan_builder *w, bool output)
{
    const ssd_dims *d = &w->d;
    const double    m = w->tensor ? 2 * T : T, n = w->tensor ? WIDE : T;
    plan_product(w, &(product){ .kernel = { output ? "chunk_scan_bwd_dstates_fma" : "chunk_state_fwd_fma",
                                            output ? "chunk_scan_bwd_dstates" : "chunk_state_fwd" },
                                .grid = w->chunks * d->G * w->t.pairs * w->t.ptiles * w->t.ntiles,
                                .block = 256,
                                .regs = { 146, 128, 102 },
                                .stages = 3,
                                .smem_bytes = (size_t)(3 * 4 * TILE_BYTES + 8 * d->Q),
                                .tile = { m, n },
                                .trips = (double)w->t.tiles,
                                .share = share_of(d->Q),
                                .left = { MBA_ARG_IN(output ? DY : X), m * T * w->e },
                                .right = { MBA_ARG_IN(output ? CM : BM), n * T * w->e },
                                .to = { MBA_ARG_SCRATCH(output ? SSD_DSTATES_WORK : SSD_STATES_WORK), m * n * w->st },
                                .fma = m * T * (w->tensor ? 2 : 1) });
}

static void plan_bmm(const plan_builder *w, bool backward)
{
    const int64_t t = w->t.tiles;
    plan_product(w, &(product){ .kernel = { "bmm_chunk_fwd_fma", "bmm_chunk_fwd" },
                                .grid = w->chunks * w->d.G * t * (t + 1) / 2,
                                .block = 128,
                                .regs = { 128, 80, 102 },
                                .stages = 2,
                                .smem_bytes = 4 * TILE_BYTES,
                                .tile = { T, T },
                                .trips = (double)mba_ceil(w->d.N, T),
                                .share = share_of(w->d.N),
                                .left = { MBA_ARG_IN(CM), T * T * w->e },
                                .right = { MBA_ARG_IN(BM), T * T * w->e },
                                .to = { MBA_ARG_SCRATCH(SSD_CB_WORK), T * T * w->st },
                                .parts = 2,
                                .low_bytes = backward && keeps_low(w) ? T * T * w->st : 0 });
}

/* y of a tile of rows: the entering state and the sources. rev, dx: the leaving state and the destinations. */
static void plan_scan(const plan_builder *w, bool rev)
{
    const ssd_dims *d = &w->d;
    const double    m = (double)w->t.rows, n = w->tensor ? 2 * T : T;
    plan_product(w, &(product){ .kernel = { rev ? "chunk_scan_chunk_state_bwd_dx_fma" : "chunk_scan_fwd_fma",
                                            rev ? "chunk_scan_chunk_state_bwd_dx" : "chunk_scan_fwd" },
                                .grid = w->chunks * w->t.xtiles * d->G * w->t.pairs * w->t.ptiles,
                                .block = 256,
                                .regs = { rev ? 162 : 156, w->t.rows == WIDE ? 120 : 84, rev ? 128 : 124 },
                                .stages = 3,
                                .smem_bytes = (size_t)(3 * (w->t.rows / T + 2) * TILE_BYTES + 48 * d->Q),
                                .tile = { m, n },
                                .trips = (double)mba_ceil(d->N, T),
                                .share = share_of(d->N),
                                .left = { MBA_ARG_IN(rev ? BM : CM), m * T * w->e },
                                .right = { MBA_ARG_SCRATCH(rev ? SSD_DSTATES_WORK : SSD_STATES_WORK), n * T * w->e },
                                .triangle = true,
                                .left2 = MBA_ARG_SCRATCH(SSD_CB_WORK),
                                .right2 = MBA_ARG_IN(rev ? DY : X),
                                .sharers = (int)(w->t.pairs * w->t.ptiles),
                                .reads = { MBA_ARG_IN(X), m * n * w->e }, // for D x and dD
                                .reads2 = { MBA_ARG_IN(DY), rev ? m * n * w->e : 0 },
                                .writes = { MBA_ARG_SCRATCH(SSD_SUMS_WORK), rev ? m * n / T * 4 : 0 },
                                .tables = w->tensor ? 2 * (double)d->Q : 0,
                                .ends = (int)(m / 32) * 2, // 32 rows per pass
                                .to = { rev ? MBA_ARG_OUT(DX) : MBA_ARG_OUT(Y), m * n * w->e },
                                .fma = (w->tensor ? 4 : 5) * m * T,
                                .sfu = m * (w->tensor ? 32 : T) });
}

/* Products of warps of 16 rows: per FLOP they read 1/16 - 1/32 bytes more than those of 32, which the simulator
 * counts. */
static void plan_narrow(mba_launch *l, double flops)
{
    mba_phase_work(l, MBA_MMA, flops, NULL);
    mba_phase_work(l, MBA_SMEM, flops / 32, NULL);
}

static size_t bc_smem_bytes(const ssd_dims *d)
{
    return (size_t)((6 + mba_ceil(d->N, T) + d->Q / T) * TILE_BYTES + 48 * d->Q);
}

/* Passes over the results: x (REV: dy too) is read for D x, and the rows are stored. */
static void plan_ends(mba_launch *l, bool rev, double passes, double bytes)
{
    mba_phase_work(l, MBA_LOOP, passes, NULL);
    mba_phase_move(l, MBA_LOAD, MBA_ARG_IN(X), bytes / passes);
    if (rev) mba_phase_move(l, MBA_LOAD, MBA_ARG_IN(DY), bytes / passes);
    mba_phase_move(l, MBA_STORE, rev ? MBA_ARG_OUT(DX) : MBA_ARG_OUT(Y), bytes / passes);
    mba_phase_work(l, MBA_END, 0, NULL);
}

/* The same with C B^T inside: a block computes it for 64 rows in shared memory and uses it for SSD_BC_PAIRS pairs. */
static void plan_bc_scan(const plan_builder *w, bool rev)
{
    const ssd_dims *d = &w->d;
    const int64_t   tiles = w->t.tiles, parts = mba_ceil(w->t.pairs, SSD_BC_PAIRS),
                  grid = w->chunks * tiles * d->G * parts * w->t.ptiles;
    const double slabs = (double)mba_ceil(d->N, T), n = 2 * T;
    mba_launch  *l = mba_plan_launch(w->p, rev ? "bc_chunk_scan_bwd_dx" : "bc_chunk_scan_fwd", MBA_MIXED, grid, 256);
    l->regs = 122;
    l->ring_depth = 3;
    l->smem_bytes = bc_smem_bytes(d);
    for (int64_t i = 1; i <= tiles; i++) // at most 8
        l->blocks[l->nblocks++] = (mba_blocks){ grid / tiles, { slabs * (double)i / 2, (double)i } };
    mba_phase_move(l, MBA_ASYNC, MBA_ARG_IN(rev ? BM : CM), slabs * T * T * w->e);
    plan_made_pairs(w, l, (made){ MBA_TRIPS(0), .c = rev ? 2 : 0, .b = rev ? 0 : 2, .tiles = 2 });
    mba_phase_work(l, MBA_LOOP, (double)w->t.pairs / (double)parts, NULL);
    plan_tables(l, 2 * (double)d->Q);
    mba_phase_work(l, MBA_LOOP, slabs, NULL);
    mba_phase_move(l, MBA_ASYNC, MBA_ARG_SCRATCH(rev ? SSD_DSTATES_WORK : SSD_STATES_WORK), n * T * w->st);
    mba_phase_work(l, MBA_BARRIER, 1, NULL);
    plan_narrow(l, 2 * T * n * T);
    mba_phase_work(l, MBA_END, 0, NULL);
    mba_phase_work(l, MBA_LOOP, MBA_TRIPS(1), NULL);
    mba_phase_move(l, MBA_ASYNC, MBA_ARG_IN(rev ? DY : X), n * T * w->e);
    mba_phase_work(l, MBA_BARRIER, 1, NULL);
    plan_narrow(l, 2 * T * n * T * (1 - beyond_diagonal(T) / ((double)(tiles + 1) / 2)));
    mba_phase_work(l, MBA_FMA, 4.0 * T * T, NULL);
    mba_phase_work(l, MBA_SFU, 32.0 * T, NULL);
    mba_phase_work(l, MBA_END, 0, NULL);
    plan_ends(l, rev, 4, T * n * w->e); // 32 rows of two heads
    mba_phase_work(l, MBA_END, 0, NULL);
}

/* dB or dC through the states: a block loops over the heads of a group. */
static void plan_heads(const plan_builder *w, bool output)
{
    const ssd_dims *d = &w->d;
    const double    m = (double)w->t.rows, n = w->tensor ? WIDE : T;
    plan_product(w, &(product){
                        .kernel = { output ? "chunk_scan_bwd_dc_fma" : "chunk_state_bwd_db_fma",
                                    output ? "chunk_scan_bwd_dc" : "chunk_state_bwd_db" },
                        .grid = w->chunks * d->G * w->t.rtiles * w->t.ntiles,
                        .block = 256,
                        .regs = { 128, w->t.rows == WIDE ? 254 : 178, 114 },
                        .stages = 4,
                        .smem_bytes = (size_t)(4 * ((w->t.rows / T + 2) * TILE_BYTES + 8 * w->t.rows) + 16 * w->t.rows),
                        .tile = { m, n },
                        .trips = (double)(d->J * w->t.ptiles),
                        .share = share_of(d->P),
                        .left = { MBA_ARG_IN(output ? DY : X), m * T * w->e },
                        .right = { MBA_ARG_SCRATCH(output ? SSD_STATES_WORK : SSD_DSTATES_WORK), n * T * w->st },
                        .reads = { MBA_ARG_IN(output ? CM : BM), m * n * w->e },
                        .writes = { MBA_ARG_SCRATCH(SSD_SUMS_WORK), 4 * m * (double)d->J },
                        .to = { MBA_ARG_SCRATCH(SSD_DBC_WORK), 4 * m * n },
                        .fma = w->tensor ? 2 * m * T + 2 * m * n : 3 * m * n });
}

/* Per head a thread has 542 FMA, 339 ALU and 46 special instructions in the SASS. Off the diagonal it executes 12 of
 * the special ones, and on average 445 FMA (counted on an H200). The 64 FMA and 96 ALU around its 32 products count
 * there. */
static void plan_dcb(const plan_builder *w)
{
    enum { THREADS = 128, FMA = 445 - 64, ALU = 339 - 96, SFU_DIAGONAL = 46, SFU = 12 };
    const int64_t t = w->t.tiles;
    const double  diagonal = 2 / (double)(t + 1); // share of all tiles
    plan_product(w, &(product){ .kernel = { "chunk_scan_bwd_dcb_fma", "chunk_scan_bwd_dcb" },
                                .grid = w->chunks * w->d.G * t * (t + 1) / 2,
                                .block = 128,
                                .regs = { 128, 168, 128 },
                                .stages = 3,
                                .smem_bytes = 3 * (2 * TILE_BYTES + 1024) + 2048,
                                .tile = { T, T },
                                .trips = (double)(w->d.J * w->t.ptiles),
                                .share = share_of(w->d.P),
                                .left = { MBA_ARG_IN(DY), T * T * w->e },
                                .right = { MBA_ARG_IN(X), T * T * w->e },
                                .reads = { MBA_ARG_SCRATCH(SSD_CB_WORK), w->kind == SSD_BC_FUSED ? 0 : T * T * w->st },
                                .writes = { MBA_ARG_SCRATCH(SSD_SUMS_WORK), 2.0 * T * 4 * (double)w->d.J },
                                .to = { MBA_ARG_SCRATCH(SSD_DCB_WORK), T * T * w->st },
                                .parts = 2,
                                .fma = w->tensor ? THREADS * FMA : 9 * T * T,
                                .alu = w->tensor ? THREADS * ALU : 0,
                                .sfu = w->tensor ? THREADS * (SFU + (SFU_DIAGONAL - SFU) * diagonal) : T * T,
                                .computes_cb = w->kind == SSD_BC_FUSED,
                                .reads_low = keeps_low(w) });
}

static void plan_bmm_bwd(const plan_builder *w, bool output)
{
    const double n = w->tensor ? WIDE : T;
    plan_product(w, &(product){ .kernel = { "bmm_chunk_bwd_fma", "bmm_chunk_bwd" },
                                .grid = w->chunks * w->d.G * w->t.tiles * w->t.ntiles,
                                .block = 128,
                                .regs = { 136, 130, 98 },
                                .stages = 3,
                                .smem_bytes = 9 * TILE_BYTES,
                                .tile = { T, n },
                                .trips = (double)(w->t.tiles + 1) / 2,
                                .share = share_of(w->d.Q),
                                .left = { MBA_ARG_SCRATCH(SSD_DCB_WORK), T * T * w->st },
                                .right = { MBA_ARG_IN(output ? BM : CM), n * T * w->e },
                                .reads = { MBA_ARG_SCRATCH(SSD_DBC_WORK), T * n * 4 },
                                .ends = 2 * 8 * 2, // one value, one store at a time
                                .to = { MBA_ARG_OUT(output ? DCM : DBM), T * n * w->e },
                                .parts = 2 });
}

/* Whether 32 bits have the distance between tokens of all inputs, as the products of `fma` ask. */
static bool tokens_near(const mba_node *n)
{
    ssd_axes a;
    for (int k = 0; k < MBA_IN_MAX; k++)
        if (n->in[k] && ssd_axes_of(&a, n->in[k]) && a.axis[1] > INT32_MAX) return false;
    return true;
}

static mba_status begin_plan(plan_builder *w, mba_plan *p, const mba_node *n, const mba_machine *m,
                             ssd_baseline_kind kind, bool backward)
{
    enum { STATIC_BYTES = 1024, FMA_BYTES = 4 * (3 * 2 * 16 + 4 + 12 + 64) * SSD_TILE }; // fma_tiles, fma_totals
    const ssd_dims d = ssd_dims_of(n);
    MBA_REFUSE_IF(m->cc < 80, "a device of compute capability %d", m->cc);
    MBA_TRY(ssd_check_axes(n));
    if (kind != SSD_FMA) MBA_TRY(check_tensor(n, &d));
    MBA_REFUSE_IF(kind == SSD_FMA && FMA_BYTES > m->smem_block_bytes,
                  "ssd in fp32\nwhy: a block needs %d bytes of shared memory, the machine has %lld", FMA_BYTES,
                  (long long)m->smem_block_bytes);
    MBA_REFUSE_IF(
        kind == SSD_BC_FUSED && (int64_t)bc_smem_bytes(&d) + STATIC_BYTES > m->smem_block_bytes,
        "a chunk of %lld, a state of %lld\nwhy: C B^T and C of 64 rows do not fit into %lld bytes of shared memory\n"
        "fix: --op ssd=chunked, or a smaller --chunk",
        (long long)d.Q, (long long)d.N, (long long)m->smem_block_bytes);
    *w = (plan_builder){ .p = p,
                         .d = d,
                         .t = ssd_tiling_of(&d, kind),
                         .kind = kind,
                         .tensor = kind != SSD_FMA,
                         .tf32 = kind == SSD_FMA && n->tf32 && n->in[X]->type.dtype == MBA_F32,
                         .m = m,
                         .e = (double)mba_dtype_bytes(n->in[X]->type.dtype) };
    w->st = (double)w->t.st_bytes;
    w->chunks = d.B * w->t.K;
    const double blocks = (double)(w->chunks * d.H) * (double)(w->t.tiles * (w->t.tiles + 1))
                          * (double)(w->t.ptiles * w->t.ntiles);
    MBA_REFUSE_IF(blocks > 2e9 || (double)(w->t.KQ + d.P * d.N) > 1e9,
                  "more blocks or positions than a launch can number");
    MBA_REFUSE_IF(kind == SSD_FMA && !tokens_near(n),
                  "tokens of a view are 2^31 elements apart or more\nfix: copy it first");
    plan_scratch(w, n->in[IDS] != NULL, backward);
    return MBA_OK;
}

static mba_status plan_fwd(mba_plan *p, const mba_node *n, const mba_machine *m, ssd_baseline_kind kind)
{
    plan_builder w;
    MBA_TRY(begin_plan(&w, p, n, m, kind, false));
    ssd_save_nothing(p);
    plan_cumsum(&w);
    plan_state(&w, false);
    plan_passing(&w, false);
    if (kind == SSD_BC_FUSED) {
        plan_bc_scan(&w, false);
    } else {
        plan_bmm(&w, false);
        plan_scan(&w, false);
    }
    return MBA_OK;
}

/* Four kernels of the forward pass once more, and eleven of its own. */
static mba_status plan_bwd(mba_plan *p, const mba_node *n, const mba_machine *m, ssd_baseline_kind kind)
{
    plan_builder w;
    MBA_TRY(begin_plan(&w, p, n, m, kind, true));
    plan_cumsum(&w);
    if (kind != SSD_BC_FUSED) plan_bmm(&w, true);
    plan_state(&w, false);
    plan_passing(&w, false);
    plan_state(&w, true);
    plan_passing(&w, true);
    if (kind == SSD_BC_FUSED) plan_bc_scan(&w, true);
    else plan_scan(&w, true);
    plan_heads(&w, false);
    plan_heads(&w, true);
    plan_dcb(&w);
    plan_bmm_bwd(&w, false);
    plan_bmm_bwd(&w, true);
    plan_ddacs(&w);
    plan_cumsum_bwd(&w);
    plan_parts(&w);
    return MBA_OK;
}

#define PLANS(NAME, WAY) \
    mba_status ssd_##NAME##_plan(mba_plan *p, const mba_node *n, const mba_machine *m) \
    { \
        return plan_fwd(p, n, m, WAY); \
    } \
    mba_status ssd_bwd_##NAME##_plan(mba_plan *p, const mba_node *n, const mba_machine *m) \
    { \
        return plan_bwd(p, n, m, WAY); \
    }

PLANS(chunked, SSD_CHUNKED)
PLANS(persistent, SSD_PERSISTENT)
PLANS(persistent_dynamic, SSD_PERSISTENT_DYNAMIC)
PLANS(persistent_prefetch, SSD_PERSISTENT_PREFETCH)
PLANS(bc_fused, SSD_BC_FUSED)
PLANS(fma, SSD_FMA)
