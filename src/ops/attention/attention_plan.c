// SPDX-License-Identifier: Apache-2.0
/* attention_plan.c -- plans of the CUDA variants of attention: which variant takes which heads, and what a block
 * does. */
#include "core/op.h"
#include "ops/attention/attention_slots.h"
#include "ops/heads.h"

enum { PLAIN_TILE = 32, PLAIN_THREADS = 128, CLASSES = 8, WARPGROUP_ROWS = 64, INT_MOST = 1 << 30 };

/* Bytes of columns that may stay in L2 for blocks of queries and of keys. The rows of a wave of blocks stream through
 * L2 at the same time: for queries, with gradients and outputs, 17 MB on an H200. */
static const int64_t QUERIES_MEET = 10000000, KEYS_MEET = 24000000;

int64_t attention_together(const attention_dims *d, int64_t value_bytes, bool keys)
{
    const int64_t heads = d->B * (keys ? d->Hk : d->H), met = 2 * d->B * (keys ? d->H * d->L : d->Hk * d->Lk) * d->P;
    const int64_t turns = mba_ceil(met * value_bytes, keys ? KEYS_MEET : QUERIES_MEET);
    if (turns <= 1) return heads;
    return attention_round(mba_ceil(heads, turns), keys ? 1 : d->group); // heads of a group share keys
}

/* ---- what a variant takes ---- */

static mba_status takes(const attention_dims *d, const mba_machine *m)
{
    MBA_REFUSE_IF(m->cc < 80, "a device of compute capability %d", m->cc);
    MBA_REFUSE_IF(d->past, "queries that begin at key %lld under a causal mask", (long long)d->past);
    MBA_REFUSE_IF(d->L > INT_MOST || d->Lk > INT_MOST || d->B * d->H * mba_ceil(d->L + d->Lk, PLAIN_TILE) > INT_MOST,
                  "more than 2^30 blocks of queries");
    return MBA_OK;
}

static bool vec_aligned(const mba_tensor *t)
{
    mba_heads h;
    return !t || (mba_heads_of(&h, t) && t->offset % 8 == 0 && h.batch % 8 == 0 && h.row % 8 == 0 && h.head % 8 == 0);
}

/* Limits of both tensor-core variants. The scale must be positive: masked scores are -inf, which a negative scale would
 * turn into the maximum. */
static mba_status tensor_takes(const mba_node *n, const attention_dims *d, const mba_machine *m)
{
    const double scale = ((const attention_attr *)n->attr)->scale;
    MBA_TRY(takes(d, m));
    MBA_REFUSE_IF(n->in[Q]->type.dtype != MBA_BF16,
                  "heads that are not bf16\nwhy: fp32 products do not run on the tensor cores");
    MBA_REFUSE_IF(d->P % 8 || d->P > 128, "heads of %lld values: wants a multiple of 8, at most 128", (long long)d->P);
    MBA_REFUSE_IF(!(scale > 1e-6 && scale < 1e6), "a scale of %g: wants one between 1e-6 and 1e6", scale);
    for (int k = 0; k < MBA_IN_MAX; k++)
        MBA_REFUSE_IF(k != IDS && k != LSES && !vec_aligned(n->in[k]),
                      "heads of %s that do not begin at multiples of 16 bytes", n->op->in[k].name);
    for (int k = 0; k < MBA_OUT_MAX; k++)
        MBA_REFUSE_IF(n->out[k] && n->out[k]->type.rank == 4 && !vec_aligned(n->out[k]),
                      "heads of %s that do not begin at multiples of 16 bytes", n->op->out[k].name);
    return MBA_OK;
}

static mba_status wgmma_takes(const mba_node *n, const attention_dims *d, const mba_machine *m)
{
    MBA_TRY(tensor_takes(n, d, m));
    MBA_REFUSE_IF(m->cc != 90, "a device of compute capability %d: wgmma is of 9.0 alone", m->cc);
    MBA_REFUSE_IF(d->P != 64 && d->P != 128, "heads of %lld values: wants 64 or 128", (long long)d->P);
    MBA_REFUSE_IF(d->L < ATT_WGMMA_ROWS || d->Lk < ATT_WGMMA_ROWS,
                  "%lld queries, %lld keys: wants a block of %d of each", (long long)d->L, (long long)d->Lk,
                  ATT_WGMMA_ROWS);
    return MBA_OK;
}

static mba_status plain_takes(const attention_dims *d, const mba_machine *m)
{
    MBA_TRY(takes(d, m));
    MBA_REFUSE_IF(d->P > 256, "heads of %lld values: at most 256", (long long)d->P);
    return MBA_OK;
}

static mba_status fits(size_t smem, const mba_machine *m)
{
    MBA_REFUSE_IF((int64_t)smem > m->smem_block_bytes, "blocks of %zu bytes of shared memory: it has %lld", smem,
                  (long long)m->smem_block_bytes);
    return MBA_OK;
}

/* ---- launches ---- */

/* Widths of heads that the kernels are compiled for. */
static int64_t padded(int64_t P, bool tensor)
{
    static const int64_t wide[] = { 32, 48, 64, 96, 128 }, plain[] = { 32, 64, 128, 256 };
    const int64_t       *w = tensor ? wide : plain;
    while (*w < P) w++;
    return *w;
}

static bool is_causal(const mba_node *n) { return ((const attention_attr *)n->attr)->causal; }

/* A pass over scores: forward, or backward over rows of queries (dq) or keys (dk, dv). Operands by MBA_ARG_*. */
typedef struct pass_kind {
    bool back, keys;       /* keys: rows are keys, columns the queries of a group */
    int  products, scores; /* products with scores; those that must finish before the vector work */
    int  a1, a2, b1, b2;   /* rows, columns; -1: none */
    int  out1, out2;
} pass_kind;
// clang-format off
static const pass_kind
    //               back   keys   products  a1             a2                b1             b2                out
    forward      = { false, false, 2, 1,    MBA_ARG_IN(Q), -1,               MBA_ARG_IN(K), MBA_ARG_IN(V),    LSE, O },
    over_queries = { true,  false, 3, 2,    MBA_ARG_IN(Q), MBA_ARG_IN(DOUT), MBA_ARG_IN(K), MBA_ARG_IN(V),    DQ, -1 },
    over_keys    = { true,  true,  4, 2,    MBA_ARG_IN(K), MBA_ARG_IN(V),    MBA_ARG_IN(Q), MBA_ARG_IN(DOUT), DK, DV };
// clang-format on

/* One launch: a block processes `rows` rows of a head and loops over the columns of `b1` and `b2` in tiles. A warp or
 * warpgroup (`together` rows) skips steps of `step` columns that none of its rows sees. */
typedef struct pass {
    const char      *kernel;
    const pass_kind *of;
    bool             tensor, causal;
    bool             group;                  /* products by warpgroups (wgmma) */
    int64_t          rows, columns, threads; /* rows and threads per block, columns per tile */
    int64_t          together, step;
    int              regs, ring;
    size_t           smem;
} pass;

/* Tiles of `width` columns that are visible to some of `rows` rows from `row` on; 0 beyond the end. */
static int64_t tiles_seen(const attention_dims *d, const pass *s, int64_t row, int64_t rows, int64_t width)
{
    const int64_t columns = s->of->keys ? d->L : d->Lk, all = mba_ceil(columns, width);
    if (row >= (s->of->keys ? d->Lk : d->L)) return 0;
    if (!s->causal) return all;
    if (s->of->keys) return row / width < all ? all - row / width : 0;
    const int64_t visible = (row + rows - 1) / width + 1;
    return visible < all ? visible : all;
}

/* Scores that the warps of a head compute, including masked ones. */
static double scores_made(const attention_dims *d, const pass *s)
{
    int64_t sum = 0;
    for (int64_t r = 0; r < (s->of->keys ? d->Lk : d->L); r += s->together)
        sum += tiles_seen(d, s, r, s->together, s->step);
    return (double)(sum * s->together * s->step);
}

/* Mean number of tiles of blocks `from` .. `to`, in the order in which the blocks of a turn start: longest first. */
static double tiles_of(const attention_dims *d, const pass *s, int64_t blocks, int64_t from, int64_t to)
{
    int64_t sum = 0;
    for (int64_t i = from; i < to; i++)
        sum += tiles_seen(d, s, (s->of->keys ? i : blocks - 1 - i) * s->rows, s->rows, s->columns);
    return (double)sum / (double)(to - from);
}

/* Causal blocks differ in length, so they are grouped into classes of similar length. Returns the trip count for the
 * loop phase; *sum gets the trips of all blocks. */
static double plan_trips(mba_launch *l, const attention_dims *d, const pass *s, double *sum)
{
    const int64_t tiles = mba_ceil(s->of->keys ? d->Lk : d->L, s->rows), classes = tiles < CLASSES ? tiles : CLASSES;
    const int64_t per = l->grid[0] / tiles; // heads
    const double  heads = s->of->keys ? (double)d->group : 1;
    const double  trips = heads * (double)mba_ceil(s->of->keys ? d->L : d->Lk, s->columns);
    *sum = s->causal ? 0 : trips * (double)l->grid[0];
    for (int64_t i = 0; i < classes && s->causal; i++) {
        const int64_t from = tiles * i / classes, to = tiles * (i + 1) / classes;
        const double  mean = heads * tiles_of(d, s, tiles, from, to);
        l->blocks[l->nblocks++] = (mba_blocks){ (to - from) * per, { mean } };
        *sum += mean * (double)((to - from) * per);
    }
    return s->causal ? MBA_TRIPS(0) : trips;
}

enum { DELTA = ATT_DNN_SUMS }; /* scratch of the backward pass */

/* delta = <do, o>. The pass over queries computes it; on the plain variant a separate launch does so before. */
static void plan_delta_of_rows(mba_launch *l, const pass *s, double rows)
{
    mba_phase_move(l, MBA_LOAD, MBA_ARG_IN(LSES), 4 * (double)s->rows);
    if (s->tensor) mba_phase_move(l, MBA_LOAD, MBA_ARG_IN(OUT), rows);
    mba_phase_move(l, s->tensor ? MBA_STORE : MBA_LOAD, MBA_ARG_SCRATCH(DELTA), 4 * (double)s->rows);
}

/* Plans the work of one tile. Warpgroups wait for their scores, compute the softmax, and wait for the product with it,
 * so only different blocks overlap. Warps with mma.sync are not synchronized. */
static void plan_tile(mba_launch *l, const pass *s, double macs, double scores)
{
    const double first = s->group ? (double)s->of->scores / s->of->products : 1;
    mba_phase_work(l, s->tensor ? MBA_MMA : MBA_FMA, (s->tensor ? 2 : 1) * macs * first, NULL);
    if (s->group) mba_phase_work(l, MBA_BARRIER, 1, NULL);
    mba_phase_work(l, MBA_SFU, scores, NULL);
    mba_phase_work(l, MBA_FMA, 4 * scores, NULL);
    if (!s->group) return;
    mba_phase_work(l, MBA_BARRIER, 1, NULL);
    mba_phase_work(l, MBA_MMA, 2 * macs * (1 - first), NULL);
    mba_phase_work(l, MBA_BARRIER, 1, NULL);
}

/* Plans one pass. Products are those that warps issue, as a mean over the tiles of all blocks. */
static void plan_pass(mba_plan *p, const mba_node *n, const attention_dims *d, const pass_kind *of, pass t)
{
    const pass *s = &t;
    t.of = of;
    t.causal = is_causal(n);
    const int64_t length = of->keys ? d->Lk : d->L, heads = d->B * (of->keys ? d->Hk : d->H);
    const double  e = (double)mba_dtype_bytes(n->in[Q]->type.dtype), rows = (double)(s->rows * d->P) * e,
                 columns = (double)(s->columns * d->P) * e;
    const mba_work copy = s->ring ? MBA_ASYNC : MBA_LOAD;
    mba_launch    *l = mba_plan_launch(p, s->kernel, s->tensor ? MBA_TENSOR : MBA_VECTOR,
                                       heads * mba_ceil(length, s->rows), (int)s->threads);
    double         trips;
    const double   loop = plan_trips(l, d, s, &trips), times = (double)(heads * (of->keys ? d->group : 1));
    const double   scores = times * scores_made(d, s) / trips,
                 macs = of->products * scores * (double)padded(d->P, s->tensor);
    l->smem_bytes = s->smem;
    l->regs = s->regs;
    l->ring_depth = s->ring;
    mba_phase_move(l, copy, of->a1, rows);
    if (of->a2 >= 0) mba_phase_move(l, copy, of->a2, rows);
    if (of->back && !of->keys) plan_delta_of_rows(l, s, rows);
    mba_phase_work(l, MBA_LOOP, loop, NULL);
    mba_phase_move(l, copy, of->b1, columns);
    if (!of->keys) mba_phase_share(l, d->group);
    mba_phase_move(l, copy, of->b2, columns);
    if (!of->keys) mba_phase_share(l, d->group);
    if (of->back && of->keys) mba_phase_move(l, copy, MBA_ARG_IN(LSES), 4 * (double)s->columns);
    if (of->back && of->keys) mba_phase_move(l, copy, MBA_ARG_SCRATCH(DELTA), 4 * (double)s->columns);
    mba_phase_work(l, MBA_BARRIER, s->tensor ? 1 : 2, NULL);
    plan_tile(l, s, macs, scores);
    mba_phase_work(l, MBA_END, 0, NULL);
    mba_phase_out(l, n, of->out1, of->back ? rows : (double)s->rows * 4); // forward: LSE only
    if (of->out2 >= 0) mba_phase_out(l, n, of->out2, rows);
}

static void plan_delta(mba_plan *p, const attention_dims *d)
{
    mba_plan_scratch(p, "delta", sizeof(float) * (size_t)(d->B * d->H * d->L));
}

/* ---- forward ---- */

/* Blocks of 128 queries at most: three fit on an SM, one of 256 alone would wait for its copies. */
mba_status attention_mma_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    const attention_dims d = attention_dims_of(n);
    MBA_TRY(tensor_takes(n, &d, m));
    const int64_t PP = padded(d.P, true), rows = d.L < ATT_MMA_THREADS ? attention_round(d.L, 32) : ATT_MMA_THREADS;
    const size_t  smem = (size_t)((rows + 4 * ATT_MMA_COLUMNS) * (PP + 8) * 2 + 8 * ATT_MMA_COLUMNS);
    MBA_TRY(fits(smem, m));
    plan_pass(p, n, &d, &forward,
              (pass){ .kernel = "attention_fwd_mma",
                      .tensor = true,
                      .rows = rows,
                      .columns = ATT_MMA_COLUMNS,
                      .threads = rows,
                      .together = 32,
                      .step = PP <= 96 ? 32 : 16,
                      .regs = PP <= 64 ? 168 : 222,
                      .ring = 2,
                      .smem = smem });
    return MBA_OK;
}

mba_status attention_plain_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    const attention_dims d = attention_dims_of(n);
    MBA_TRY(plain_takes(&d, m));
    const int64_t PP = padded(d.P, false);
    plan_pass(p, n, &d, &forward,
              (pass){ .kernel = "attention_fwd_plain",
                      .rows = PLAIN_TILE,
                      .columns = PLAIN_TILE,
                      .threads = PLAIN_THREADS,
                      .together = PLAIN_TILE,
                      .step = PLAIN_TILE,
                      .regs = PP <= 64 ? 117 : 165,
                      .smem = (size_t)(96 * (PP + 4) * 4 + 32 * 33 * 4 + 128) });
    return MBA_OK;
}

/* ---- backward: a launch for dq (and delta), one for dk and dv ---- */

mba_status attention_bwd_mma_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    const attention_dims d = attention_dims_of(n);
    MBA_TRY(tensor_takes(n, &d, m));
    const int64_t PP = padded(d.P, true), rows = PP <= 64 ? 128 : 64, C = ATT_MMA_COLUMNS;
    pass          s = { .kernel = "attention_bwd_mma",
                        .tensor = true,
                        .rows = rows,
                        .columns = C,
                        .threads = ATT_MMA_THREADS,
                        .together = rows / (ATT_MMA_THREADS / 32),
                        .step = 32,
                        .regs = PP <= 64 ? 238 : 165,
                        .ring = 2,
                        .smem = (size_t)((2 * rows + 4 * C) * (PP + 8) * 2 + 8 * rows + 24 * C) };
    MBA_TRY(fits(s.smem, m));
    plan_delta(p, &d);
    plan_pass(p, n, &d, &over_queries, s);
    s.regs = 244;
    if (PP == 64) s.step = 16;
    plan_pass(p, n, &d, &over_keys, s);
    return MBA_OK;
}

mba_status attention_bwd_plain_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    const attention_dims d = attention_dims_of(n);
    MBA_TRY(plain_takes(&d, m));
    const int64_t PP = padded(d.P, false);
    plan_delta(p, &d);
    mba_launch *l = mba_plan_launch(p, "attention_delta_rows", MBA_VECTOR, mba_ceil(d.B * d.L * d.H, 8), 256);
    l->regs = 32;
    mba_phase_move(l, MBA_LOAD, MBA_ARG_IN(OUT), mba_tensor_bytes(n->in[OUT]) / (double)l->grid[0]);
    mba_phase_move(l, MBA_LOAD, MBA_ARG_IN(DOUT), mba_tensor_bytes(n->in[DOUT]) / (double)l->grid[0]);
    mba_phase_work(l, MBA_FMA, 8 * (double)d.P, NULL);
    mba_phase_move(l, MBA_STORE, MBA_ARG_SCRATCH(DELTA), 32);
    pass s = { .kernel = "attention_bwd_plain",
               .rows = PLAIN_TILE,
               .columns = PLAIN_TILE,
               .threads = PLAIN_THREADS,
               .together = PLAIN_TILE,
               .step = PLAIN_TILE,
               .regs = PP <= 64 ? 138 : 168,
               .smem = (size_t)(128 * (PP + 4) * 4 + 2 * 32 * 33 * 4 + 384) };
    plan_pass(p, n, &d, &over_queries, s);
    s.regs = PP <= 64 ? 168 : 243;
    plan_pass(p, n, &d, &over_keys, s);
    return MBA_OK;
}

/* Short rows: a block takes a whole head and reads it once. If there are more than four tiles of 32 rows, half as many
 * warps process them: two blocks per SM then hide each other's loads behind products. */
mba_status attention_bwd_one_tile_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    const attention_dims d = attention_dims_of(n);
    MBA_TRY(tensor_takes(n, &d, m));
    const int64_t PP = padded(d.P, true), most = d.L > d.Lk ? d.L : d.Lk, tiles = mba_ceil(most, 32),
                  warps = tiles <= 4 ? tiles : mba_ceil(tiles, 2);
    const size_t smem = (size_t)(32 * tiles * (4 * (PP + 8) * 2 + 12));
    MBA_REFUSE_IF(most > ATT_WHOLE, "rows of %lld: at most %d", (long long)most, ATT_WHOLE);
    MBA_REFUSE_IF(d.P > 64, "heads of %lld values: at most 64", (long long)d.P);
    MBA_REFUSE_IF(d.group > 1, "key heads that %lld query heads share", (long long)d.group);
    MBA_TRY(fits(smem, m));
    mba_launch  *l = mba_plan_launch(p, "attention_bwd_one_tile", MBA_TENSOR, d.B * d.H, (int)(32 * warps));
    const pass   rows = { .of = &over_queries, .causal = is_causal(n), .together = 32, .step = 16 };
    const pass   columns = { .of = &over_keys, .causal = is_causal(n), .together = 32, .step = 16 };
    const double queries = scores_made(&d, &rows), keys = scores_made(&d, &columns);
    const double q = (double)(d.L * d.P) * 2, k = (double)(d.Lk * d.P) * 2;
    l->smem_bytes = smem;
    l->regs = PP <= 48 ? 200 : 250;
    for (int i = DOUT; i >= OUT; i--)
        if (i != LSES) mba_phase_move(l, i == OUT ? MBA_LOAD : MBA_ASYNC, MBA_ARG_IN(i), q);
    for (int i = Q; i <= V; i++) mba_phase_move(l, MBA_ASYNC, MBA_ARG_IN(i), i == Q ? q : k);
    mba_phase_work(l, MBA_BARRIER, 2, NULL);
    mba_phase_work(l, MBA_MMA, 2 * (3 * queries + 4 * keys) * (double)PP, NULL);
    mba_phase_work(l, MBA_SFU, queries + keys, NULL);
    mba_phase_work(l, MBA_FMA, 3 * (queries + keys), NULL);
    for (int i = DQ; i <= DV; i++) mba_phase_out(l, n, i, i == DQ ? q : k);
    return MBA_OK;
}

/* ---- wgmma: warpgroups of 64 rows ---- */

mba_status attention_wgmma_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    const attention_dims d = attention_dims_of(n);
    const int64_t        R = ATT_WGMMA_ROWS, C = ATT_WGMMA_COLUMNS, ring = ATT_WGMMA_STAGES;
    MBA_TRY(wgmma_takes(n, &d, m));
    plan_pass(p, n, &d, &forward,
              (pass){ .kernel = "attention_fwd_wgmma",
                      .tensor = true,
                      .group = true,
                      .rows = R,
                      .columns = C,
                      .threads = 2 * R,
                      .regs = d.P == 64 ? 127 : 161,
                      .ring = (int)ring,
                      .together = WARPGROUP_ROWS,
                      .step = C,
                      .smem = (size_t)((R + 2 * ring * C) * d.P * 2 + 4 * ring * C) });
    return MBA_OK;
}

mba_status attention_bwd_wgmma_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    const attention_dims d = attention_dims_of(n);
    const int64_t        R = ATT_WGMMA_ROWS, C = ATT_WGMMA_COLUMNS, ring = ATT_WGMMA_STAGES;
    MBA_TRY(wgmma_takes(n, &d, m));
    plan_delta(p, &d);
    pass s = { .kernel = "attention_bwd_wgmma",
               .tensor = true,
               .group = true,
               .rows = R,
               .columns = C,
               .threads = 2 * R,
               .regs = d.P == 64 ? 128 : 184,
               .ring = (int)ring,
               .together = WARPGROUP_ROWS,
               .step = C,
               .smem = (size_t)((2 * R + 2 * ring * C) * d.P * 2 + 8 * R + 12 * ring * C) };
    plan_pass(p, n, &d, &over_queries, s);
    if (d.P == 64) s.rows = ATT_WGMMA_KEYS;
    s.threads = 2 * s.rows;
    s.regs = d.P == 64 ? 166 : 238;
    s.smem = (size_t)((2 * s.rows + 2 * ring * C) * d.P * 2 + 8 * s.rows + 12 * ring * C);
    plan_pass(p, n, &d, &over_keys, s);
    return MBA_OK;
}

/* ---- cuDNN: one kernel forward; backward a few, with two bytes of scratch per score, which make it deterministic
 * ---- */

static const double DNN_SCORES_MOST = 4e9; /* bytes */
enum { DNN_WORK_BYTES = 1 << 20, DNN_TILE = 128 };

static mba_status dnn_takes(const mba_node *n, const attention_dims *d, const mba_machine *m)
{
    MBA_TRY(tensor_takes(n, d, m));
    MBA_REFUSE_IF(n->in[IDS], "documents\nwhy: the library masks by order alone");
    return MBA_OK;
}

static pass dnn_pass(const char *kernel, const attention_dims *d)
{
    return (pass){ .kernel = kernel,
                   .tensor = true,
                   .group = true,
                   .rows = DNN_TILE,
                   .columns = DNN_TILE,
                   .threads = 384,
                   .regs = 168,
                   .ring = 2,
                   .together = WARPGROUP_ROWS,
                   .step = DNN_TILE,
                   .smem = (size_t)(6 * DNN_TILE * d->P * 2) }; // estimates: the library does not document its kernels
}

mba_status attention_dnn_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    const attention_dims d = attention_dims_of(n);
    MBA_TRY(dnn_takes(n, &d, m));
    mba_plan_scratch(p, "work", DNN_WORK_BYTES);
    plan_pass(p, n, &d, &forward, dnn_pass("cudnn_attention", &d));
    return MBA_OK;
}

/* Gradients of scores, then dq as a product with them. For shared key heads the library sums over the query heads. */
mba_status attention_bwd_dnn_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    const attention_dims d = attention_dims_of(n);
    const double         scores = 2 * (double)(d.B * d.H * attention_round(d.L, DNN_TILE))
                          * (double)attention_round(d.Lk, DNN_TILE),
                 shared = d.group > 1 ? 4 * (double)(d.B * d.H * d.Lk * d.P) : 0;
    MBA_TRY(dnn_takes(n, &d, m));
    MBA_REFUSE_IF(mba_adds(n, DQ) || mba_adds(n, DK) || mba_adds(n, DV),
                  "gradients that are added to\nwhy: the library writes them");
    MBA_REFUSE_IF(
        scores > DNN_SCORES_MOST,
        "%lld heads of %lld x %lld scores\nwhy: for the same bits in every run the library keeps two bytes for each, "
        "%.1f GB; at most %.0f",
        (long long)(d.B * d.H), (long long)d.L, (long long)d.Lk, scores / 1e9, DNN_SCORES_MOST / 1e9);
    plan_delta(p, &d);
    mba_plan_scratch(p, "scores", (size_t)(scores + shared) + DNN_WORK_BYTES);
    plan_pass(p, n, &d, &over_keys, dnn_pass("cudnn_attention_bwd", &d));
    mba_launch  *l = &p->launch[p->nlaunches - 1];
    const double score_bytes = 2 * d.pairs;
    mba_phase_move(l, MBA_STORE, MBA_ARG_SCRATCH(ATT_DNN_WORK), score_bytes / (double)l->grid[0]);
    l = mba_plan_launch(p, "cudnn_attention_dq", MBA_TENSOR, d.B * d.H * mba_ceil(d.L, DNN_TILE), 384);
    l->regs = 168;
    mba_phase_move(l, MBA_ASYNC, MBA_ARG_SCRATCH(ATT_DNN_WORK), score_bytes / (double)l->grid[0]);
    mba_phase_move(l, MBA_ASYNC, MBA_ARG_IN(K), score_bytes * (double)d.P / DNN_TILE / (double)l->grid[0]);
    mba_phase_work(l, MBA_MMA, 2 * d.pairs * (double)d.P / (double)l->grid[0], NULL);
    mba_phase_out(l, n, DQ, 2 * (double)(DNN_TILE * d.P));
    return MBA_OK;
}
