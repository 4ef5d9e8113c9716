// SPDX-License-Identifier: Apache-2.0
/* lower.c -- see kernel.h: lowers one launch of a plan to operations of the simulator.
 *
 * A plan lists phases of work per block (core/plan.h). Lowering maps phases to operations, merges arithmetic that
 * overlaps into mixes, adds the instructions that plans leave out, and makes explicit the loops that a plan only
 * implies. Library GEMMs have no phases of their own: lower_library models how a good library would run them. */
#include "sim/kernel.h"

#include "core/plan_work.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* What estimates leave out: instructions of our kernels, whatever the machine. What depends on the machine has a key
 * (machine_keys.def). Derived from how our kernels are written, not fitted. */
static const double ADDRESS_OPS = 4; /* integer operations of a lane around a 16-byte access */
static const double UNPACK_OPS = 1;  /* per bf16 read; packing two takes one operation */
static const double BESIDE_MMA_ALU = 3.0 * 32 / 4096,
                    BESIDE_MMA_FMA = 2.0 * 32 / 4096; /* lanes per FLOP of warp-level products: what SASS
                                          * of the SSD kernels has per HMMA.16816 beyond what their plans count */
/* Chosen by the fitted points of src/sim/data/measured.tsv, but for BESIDE_BODY (SASS). */
static const double BESIDE_FMA =
    1.5; /* selects, conversions, loop counters per multiply-add that an operator needs at least */
static const double BESIDE_SFU = 8; /* the rest of exp, division, erf per special function it needs at least */
static const double BESIDE_BODY =
    0.8; /* per multiply-add where a plan counts the body of a loop: SASS of the scans has 0.2 to 1.05 */
/* Bytes of a thread: in flight in a loop; as much needs no loop. */
enum { BYTES_A_TRIP = 32, BYTES_STRAIGHT = 32 };
static const double TILE_BYTES = 0.055; /* shared memory per FLOP of warp-level products of 32 x 64 tiles */

typedef struct lowering {
    mba_sim_kernel   *k;
    const mba_node   *n;
    const mba_plan   *plan;
    const mba_launch *l;
    const mba_gpu    *m;
    double            scale;                  /* of phases: a part of a block, in loops that the plan leaves out */
    double            body[MBA_SIM_LOOPS];    /* of loops whose trips are no whole number */
    int64_t           parts[MBA_SIM_STREAMS]; /* that sectors of a stream are stored in; 0: whole ones */
    double            owed;                   /* integer operations that loads bring along, due in the next mix */
    int               depth;
    bool              dealt;   /* outer loops take their trips from the classes of deal_tiles */
    bool              counted; /* the plan counts a loop's body, not the least work of the operator */
    mba_status        st;
} lowering;

/* ---- operations ---- */

static mba_sim_op *add_op(lowering *w, mba_sim_work work)
{
    mba_sim_kernel *k = w->k;
    mba_debug_assert(k->nops >= 0 && k->nops <= MBA_SIM_OPS);
    if (k->nops == MBA_SIM_OPS) {
        w->st = mba_sim_impossible(k, "its plan has too many phases", "plan fewer phases, or raise MBA_SIM_OPS");
        k->nops--;
    }
    mba_sim_op *o = &k->op[k->nops++];
    *o = (mba_sim_op){ .work = (int32_t)work, .stream = -1, .ring = -1, .parts = 1 };
    return o;
}

static bool is_arithmetic(mba_work w)
{
    return w == MBA_SMEM || w == MBA_MMA || w == MBA_FMA || w == MBA_HALF2 || w == MBA_ALU || w == MBA_SFU;
}

static int64_t cycles(const lowering *w, mba_gpu_key key) { return (int64_t)w->m->v[key]; }

static uint64_t whole(double n) { return n > 0 ? (uint64_t)(n + 0.5) : 0; }

/* The mix at the end of the operations, or a new one: neighbouring arithmetic overlaps in one mix. */
static mba_sim_op *mix_of(lowering *w)
{
    mba_sim_kernel *k = w->k;
    mba_debug_assert(k->nroles > 0 && w->owed >= 0);
    const bool  open = k->nops > k->first[k->nroles - 1] && k->op[k->nops - 1].work == MBA_OP_MIX;
    mba_sim_op *o = open ? &k->op[k->nops - 1] : add_op(w, MBA_OP_MIX);
    o->n[MBA_P_ALU] += whole(w->owed);
    w->owed = 0;
    return o;
}

/* Factor from a phase of the plan to one execution of its operation. */
static double scale_of(const lowering *w)
{
    mba_debug_assert(w->depth >= 0 && w->depth <= MBA_SIM_LOOPS);
    double s = w->scale;
    for (int i = 0; i < w->depth; i++) s *= w->body[i];
    return s;
}

static const mba_tensor *tensor_of(const mba_node *n, int operand)
{
    if (operand < 0 || operand >= MBA_ARG_SCRATCH(0) || !n) return NULL;
    return operand < MBA_IN_MAX ? n->in[operand] : n->out[operand - MBA_IN_MAX];
}

static bool is_half(const lowering *w, int operand)
{
    const mba_tensor *t = tensor_of(w->n, operand);
    return t && t->type.dtype == MBA_BF16;
}

static double operand_bytes(const lowering *w, int operand)
{
    const mba_tensor *t = tensor_of(w->n, operand);
    if (t) return mba_tensor_bytes(t);
    const int s = operand - MBA_ARG_SCRATCH(0);
    return w->plan && s >= 0 && s < w->plan->nscratch ? (double)w->plan->scratch[s].bytes : 0;
}

static int stream_of(lowering *w, int operand, bool writes)
{
    mba_sim_kernel *k = w->k;
    for (int i = 0; i < k->nstreams; i++)
        if (k->stream[i].operand == operand && k->stream[i].writes == writes) return i;
    if (k->nstreams == MBA_SIM_STREAMS) {
        w->st = mba_sim_impossible(k, "it has too many operands", "raise MBA_SIM_STREAMS");
        return 0;
    }
    k->stream[k->nstreams] =
        (mba_sim_stream){ .operand = operand, .writes = writes, .unique = operand_bytes(w, operand) };
    return (int)k->nstreams++;
}

/* ---- phases ---- */

static void lower_arithmetic(lowering *w, const mba_phase *ph)
{
    const double n = ph->n * scale_of(w);
    mba_sim_op  *o = mix_of(w);
    switch (ph->work) {
    case MBA_FMA:
        o->n[MBA_P_FMA] += whole(n);
        if (!ph->mix) o->n[MBA_P_ALU] += whole((w->counted ? BESIDE_BODY : BESIDE_FMA) * n);
        break;
    case MBA_ALU: o->n[MBA_P_ALU] += whole(n); break;
    case MBA_SFU:
        o->n[MBA_P_XU] += whole(n);
        if (ph->mix || w->counted) break;
        o->n[MBA_P_FMA] += whole(BESIDE_SFU / 2 * n);
        o->n[MBA_P_ALU] += whole(BESIDE_SFU / 2 * n);
        break;
    case MBA_HALF2: o->n[MBA_P_H2] += whole(n); break;
    case MBA_SMEM: o->n[MBA_P_SMEM] += whole(n); break;
    default:
        o->n[MBA_P_MMA] += whole(n);
        if (w->k->mma_flops < 100) break;
        o->n[MBA_P_SMEM] += whole(TILE_BYTES * n);
        o->n[MBA_P_ALU] += whole(BESIDE_MMA_ALU * n);
        o->n[MBA_P_FMA] += whole(BESIDE_MMA_FMA * n);
        o->trips = cycles(w, MBA_GPU_mma_path);
    }
}

static bool inside_loop(const lowering *w) { return w->depth > 0; }

static void lower_move(lowering *w, const mba_phase *ph, bool ahead)
{
    const double bytes = ph->n * scale_of(w), vectors = bytes / 16;
    const bool   store = ph->work == MBA_STORE, async = (ph->work == MBA_ASYNC || (ahead && !store)) && inside_loop(w);
    const bool   half = is_half(w, ph->operand);
    const int    s = stream_of(w, ph->operand, store);
    mba_sim_op  *o;
    if (!(bytes > 0)) return;
    if (store) { // values are packed before they are stored
        o = mix_of(w);
        o->n[MBA_P_ALU] += whole(vectors * ADDRESS_OPS + (half ? bytes / 4 * UNPACK_OPS : 0));
    }
    o = add_op(w, store ? MBA_OP_STORE : async ? MBA_OP_ASYNC : MBA_OP_LOAD);
    o->stream = s;
    o->bytes = whole(bytes) ? whole(bytes) : 1;
    if (store && ph->share > 1) w->parts[s] = ph->share;
    o->ahead = async && w->k->depth > 1 ? (int32_t)w->k->depth - 1 : 0;
    if (!store) w->owed += vectors * ADDRESS_OPS + (half && w->k->mma_flops == 0 ? bytes / 2 * UNPACK_OPS : 0);
}

/* Trips come from class number `by_class` of the block if that is not negative. Fractional trips are rounded, and the
 * body is scaled by the difference. */
static void open_loop(lowering *w, double trips, int by_class)
{
    if (w->depth == MBA_SIM_LOOPS) {
        w->st = mba_sim_impossible(w->k, "its loops are nested too deeply",
                                   "nest at most four loops in its launch plan");
        return;
    }
    const double n = trips < 1 ? 1 : floor(trips + 0.5);
    mba_sim_op  *o = add_op(w, MBA_OP_LOOP);
    o->trips = by_class >= 0 ? -1 - by_class : (int64_t)n;
    w->body[w->depth++] = by_class >= 0 ? 1 : trips / n;
}

static void close_loop(lowering *w)
{
    if (!w->depth) {
        w->st = mba_sim_impossible(w->k, "a loop ends that did not begin", "correct its launch plan");
        return;
    }
    add_op(w, MBA_OP_END);
    w->depth--;
}

/* The last asynchronous copy after FILL phase `i` in the same loop, or -1: the stage is committed after it. */
static int last_copy(const mba_launch *l, int i)
{
    int last = -1;
    for (int j = i + 1; j < l->nphases && l->phase[j].role == l->phase[i].role && l->phase[j].work != MBA_END
                        && l->phase[j].work != MBA_RING_FILL;
         j++)
        if (l->phase[j].work == MBA_ASYNC) last = j;
    return last;
}

typedef struct rings {
    int fill, commit_at, held;
} rings; /* ring being filled; phase after which it is committed; ring being read; -1: none */

static void lower_phase(lowering *w, int i, rings *r, bool ahead)
{
    const mba_launch *l = w->l;
    const mba_phase  *ph = &l->phase[i];
    mba_assert(i >= 0 && i < l->nphases);
    if (is_arithmetic(ph->work)) lower_arithmetic(w, ph);
    else if (ph->work == MBA_LOAD || ph->work == MBA_STORE || ph->work == MBA_ASYNC) lower_move(w, ph, ahead);
    else if (ph->work == MBA_BARRIER) add_op(w, MBA_OP_BARRIER)->parts = ph->n >= 1 ? (int64_t)ph->n : 1;
    else if (ph->work == MBA_LOOP)
        open_loop(w, ph->n, ph->n < 0 ? (int)(-1 - ph->n) : w->dealt && !inside_loop(w) ? 0 : -1);
    else if (ph->work == MBA_RING_FILL) {
        add_op(w, MBA_OP_FILL)->ring = r->fill = (int32_t)ph->n;
        r->commit_at = last_copy(l, i) < 0 ? i : last_copy(l, i);
    } else if (ph->work == MBA_RING_WAIT) {
        add_op(w, MBA_OP_WAIT)->ring = r->held = (int32_t)ph->n;
    } else if (ph->work == MBA_END) {
        if (r->held >= 0) add_op(w, MBA_OP_RELEASE)->ring = (int32_t)r->held;
        r->held = -1;
        close_loop(w);
    }
    if (r->fill >= 0 && r->commit_at == i) {
        add_op(w, MBA_OP_COMMIT)->ring = (int32_t)r->fill;
        r->fill = -1;
    }
}

/* Trips of the loop that a plan without loops implies: over the tiles of a persistent block, or over the data of a
 * block that loads more than it can have in flight. */
static double implied_trips(const mba_launch *l, int64_t grid)
{
    double bytes = 0;
    for (int i = 0; i < l->nphases; i++) {
        if (l->phase[i].work == MBA_LOOP) return 1;
        if (l->phase[i].work == MBA_LOAD) bytes += l->phase[i].n;
    }
    if (l->persistent && l->tiles > grid) return ceil((double)l->tiles / (double)grid);
    const double thread = bytes / (double)l->block;
    return thread > BYTES_STRAIGHT ? ceil(thread / BYTES_A_TRIP) : 1;
}

/* A launch that stores less than an eighth of what it loads reduces: it ends with sums over threads and warps. */
static bool reduces(const mba_launch *l)
{
    double in = 0, out = 0;
    for (int i = 0; i < l->nphases; i++) {
        if (l->phase[i].work == MBA_LOOP) return false;
        if (l->phase[i].work == MBA_LOAD) in += l->phase[i].n;
        if (l->phase[i].work == MBA_STORE) out += l->phase[i].n;
    }
    return out < in / 8;
}

static void lower_role(lowering *w, int role)
{
    mba_sim_kernel *k = w->k;
    const double    trips = w->l->nroles == 1 ? implied_trips(w->l, k->grid) : 1;
    rings           r = { -1, -1, -1 };
    mba_assert(role >= 0 && role < MBA_SIM_ROLES && w->depth == 0);
    k->first[role] = k->nops;
    k->role_warps[role] = w->l->role_warps[role] > 0 ? w->l->role_warps[role] : 1;
    k->nroles = role + 1;
    add_op(w, MBA_OP_DELAY)->parts = cycles(w, MBA_GPU_block_prologue);
    k->implied_trips = (int64_t)trips;
    if (trips > 1) {
        w->scale = k->tile_share = 1 / trips;
        open_loop(w, trips, -1);
    }
    for (int i = 0; i < w->l->nphases && w->st == MBA_OK; i++)
        if (w->l->phase[i].role == role) lower_phase(w, i, &r, trips > 1 && w->l->ring_depth > 1);
    if (trips > 1) close_loop(w);
    if (reduces(w->l)) add_op(w, MBA_OP_DELAY)->parts = cycles(w, MBA_GPU_block_reduce);
    if (w->depth && w->st == MBA_OK) w->st = mba_sim_impossible(k, "a loop does not end", "correct its launch plan");
    add_op(w, MBA_OP_EXIT);
    w->scale = 1;
    w->owed = 0;
}

/* ---- library GEMMs ---- */

/* Cycles of the reduction kernel behind a split-K product: its fp32 partial sums come from L2 and return there. */
static double split_k_cycles(double parts, double sums_bytes, const mba_gpu *m)
{
    if (parts < 2) return 0;
    return m->v[MBA_GPU_library_split] + (parts + 1) * sums_bytes / (m->v[MBA_GPU_l2_wr] / m->v[MBA_GPU_clk]);
}

/* What the plan of a library GEMM says: its 128 x 128 x 64 tiles as one block of the plan computes them. */
typedef struct gemm_plan {
    double steps, flops, in[2], out, old; /* trips over K; per trip; bytes per trip; stored; of C read before */
    int    a[2], c, copies;               /* operands; how many of `in` there are */
} gemm_plan;

static gemm_plan read_gemm(const mba_launch *l)
{
    gemm_plan g = { .steps = 1, .a = { -1, -1 }, .c = -1 };
    for (int i = 0; i < l->nphases; i++) {
        const mba_phase *ph = &l->phase[i];
        if (ph->work == MBA_LOOP) g.steps = ph->n < 1 ? 1 : ph->n;
        if (ph->work == MBA_MMA) g.flops = ph->n;
        if (ph->work == MBA_STORE) {
            g.out = ph->n;
            g.c = ph->operand;
        }
        if (ph->work == MBA_LOAD) g.old = ph->n;
        if (ph->work == MBA_ASYNC && g.copies < 2) {
            g.in[g.copies] = ph->n;
            g.a[g.copies++] = ph->operand;
        }
    }
    return g;
}

/* The consumer role: multiplies, stores all but the last tile of a block in the loop, and the last one behind it. */
static void add_gemm_consumer(lowering *w, const gemm_plan *g, double trips, double tiles, const mba_gpu *m)
{
    enum { T = 128 };
    const double last = tiles < 1 ? tiles : 1; // nothing overlaps with the store of a block's last tile
    w->k->first[0] = 0;
    w->k->role_warps[0] = 8;
    w->k->nroles = 1;
    add_op(w, MBA_OP_DELAY)->parts = cycles(w, MBA_GPU_library_start);
    open_loop(w, trips, -1);
    add_op(w, MBA_OP_WAIT)->ring = 0;
    mix_of(w)->n[MBA_P_MMA] = whole(g->flops * scale_of(w) / m->v[MBA_GPU_library_share]);
    add_op(w, MBA_OP_RELEASE)->ring = 0;
    const double sums = 4 * T * T * (double)w->l->grid[0] * (double)w->l->grid[1];
    if (tiles > last)
        lower_move(w, &(mba_phase){ .work = MBA_STORE, .operand = (int16_t)g->c, .n = g->out * (tiles - last) / trips },
                   false);
    close_loop(w);
    lower_move(w, &(mba_phase){ .work = MBA_STORE, .operand = (int16_t)g->c, .n = g->out * last }, false);
    const double more = split_k_cycles(1 / tiles, sums < operand_bytes(w, g->c) ? sums : operand_bytes(w, g->c), m);
    if (more > 0) add_op(w, MBA_OP_DELAY)->parts = (int64_t)more;
    add_op(w, MBA_OP_EXIT);
}

/* The producer role: copies both operands into the ring. Pairs of blocks share copies, but each byte is read once. */
static void add_gemm_producer(lowering *w, const gemm_plan *g, double trips, double tiles)
{
    mba_sim_kernel *k = w->k;
    k->first[1] = k->nops;
    k->role_warps[1] = 4;
    k->nroles = 2;
    add_op(w, MBA_OP_DELAY)->parts = cycles(w, MBA_GPU_library_start);
    open_loop(w, trips, -1);
    add_op(w, MBA_OP_FILL)->ring = 0;
    for (int i = 0; i < g->copies; i++) {
        const double once = operand_bytes(w, g->a[i]) / trips / (double)k->grid,
                     n = g->in[i] / 2 > once ? g->in[i] / 2 : once;
        lower_move(w, &(mba_phase){ .work = MBA_ASYNC, .operand = (int16_t)g->a[i], .n = n }, false);
    }
    if (g->old > 0)
        lower_move(w, &(mba_phase){ .work = MBA_ASYNC, .operand = (int16_t)g->c, .n = g->old * tiles / trips }, false);
    for (int64_t i = k->first[1]; i < k->nops; i++) k->op[i].ahead = 0;
    add_op(w, MBA_OP_COMMIT)->ring = 0;
    close_loop(w);
    add_op(w, MBA_OP_EXIT);
}

/* A library GEMM: tiles of 128 x 256, pairs of blocks that share copies, and the steps of all tiles dealt evenly to as
 * many blocks as the machine has SMs, as good libraries do (split-K or stream-K). */
static mba_status lower_library(lowering *w, const mba_gpu *m)
{
    enum { STEPS_LEAST = 8, THREADS = 384 };
    mba_sim_kernel *k = w->k;
    const gemm_plan g = read_gemm(w->l);
    k->resets = k->grid > (int64_t)m->v[MBA_GPU_sm]; // more tiles than SMs: a counter deals them
    const double all = g.steps * (double)k->grid;
    double       blocks = m->v[MBA_GPU_sm];
    if (blocks > all / STEPS_LEAST) blocks = ceil(all / STEPS_LEAST);
    if (blocks < (double)k->grid && (double)k->grid < m->v[MBA_GPU_sm]) blocks = (double)k->grid;
    const double trips = all / blocks, tiles = (double)k->grid / blocks;
    k->tile_share = tiles > 1 ? 1 / tiles : 1;
    k->grid = (int64_t)blocks;
    k->threads = THREADS;
    k->warps = THREADS / 32;
    mba_assert(k->grid > 0 && trips > 0 && tiles > 0);
    add_gemm_consumer(w, &g, trips, tiles, m);
    add_gemm_producer(w, &g, trips, tiles);
    return w->st;
}

/* ---- a whole launch ---- */

/* mba_sim_kernel.mma_flops of a launch: by the type of its operands, and by whether warp groups or single warps issue
 * the products. Those of fp32 operands are TF32 in our kernels; libraries use the FMA units, unless the node says
 * TF32. */
static int64_t mma_rate_of(const mba_node *n, const mba_launch *l)
{
    bool half = false, products = false;
    for (int i = 0; i < l->nphases; i++) {
        const mba_tensor *t = tensor_of(n, l->phase[i].operand);
        products |= l->phase[i].work == MBA_MMA;
        half |= (t && t->type.dtype == MBA_BF16) || !n;
    }
    if (!products) return 0;
    for (int k = 0; n && k < MBA_IN_MAX; k++) half |= n->in[k] && n->in[k]->type.dtype == MBA_BF16;
    const bool library = !strncmp(l->kernel, "cublas", 6) || !strncmp(l->kernel, "cudnn", 5);
    const bool groups = (library && !strstr(l->kernel, "unaligned")) || l->nroles > 1
                        || strstr(l->kernel, "wgmma"); // products of warp groups
    return !half && library && !n->tf32 ? 32 : (half ? 16 : 19) + (groups ? 0 : 100);
}

/* Persistent blocks take whole tiles. If the tiles do not divide evenly, some blocks take one more than others: two
 * classes. If there are fewer tiles than blocks, the idle blocks are left out. The plan states the mean trips. */
static void deal_tiles(mba_sim_kernel *k, const mba_launch *l)
{
    double trips = 0;
    int    depth = 0;
    for (int i = 0; i < l->nphases; i++) {
        if (l->phase[i].work == MBA_LOOP && depth++ == 0) {
            if (l->phase[i].n < 1 || (trips > 0 && l->phase[i].n != trips)) return;
            trips = l->phase[i].n;
        }
        depth -= l->phase[i].work == MBA_END;
    }
    if (!l->persistent || l->nblocks || l->tiles < 1 || l->tiles % k->grid == 0 || !(trips > 0)) return;
    const double  each = trips * (double)k->grid / (double)l->tiles;
    const int64_t least = l->tiles / k->grid, more = l->tiles % k->grid;
    if (!least) k->grid = more; // idle blocks
    k->count[0] = more;
    k->trips[0][0] = (int64_t)floor(each * (double)(least + 1) + 0.5);
    k->nclasses = least ? 2 : 1;
    if (!least) return;
    k->count[1] = k->grid - more;
    k->trips[1][0] = (int64_t)floor(each * (double)least + 0.5);
    mba_assert(k->count[0] + k->count[1] == k->grid);
    mba_assert(k->count[0] * (least + 1) + k->count[1] * least == l->tiles); // every tile is dealt once
}

/* Lowers the distinct bytes of an operand to what the plan says that blocks read of it: half of C B^T is never read. */
static void bound_unique(mba_sim_kernel *k, const mba_launch *l)
{
    mba_work_sums sum;
    mba_launch_sums(&sum, l);
    for (int64_t i = 0; i < k->nstreams; i++) {
        mba_sim_stream *t = &k->stream[i];
        if (t->writes || t->operand < 0 || t->operand >= MBA_WORK_OPERANDS) continue;
        const double once = sum.operand[t->operand][0];
        if (once > 0 && t->unique > once) t->unique = once;
    }
}

/* A sector that comes in parts is one to L2 for each of them, alone of its line. */
static void set_partial_stores(mba_sim_kernel *k, const int64_t *parts, const mba_gpu *m)
{
    double bytes = 0, more = 0;
    for (int64_t i = 0; i < k->nstreams; i++) {
        if (!k->stream[i].writes) continue;
        bytes += k->stream[i].moved;
        if (parts[i]) more += k->stream[i].moved * ((double)parts[i] * (1 + m->v[MBA_GPU_l2_alone]) - 1);
    }
    if (more > 0) k->partial_stores = (int64_t)(256 * more / bytes + 0.5);
}

mba_status mba_sim_lower(mba_sim_kernel *k, const mba_node *n, const mba_launch *l, const mba_plan *p, const mba_gpu *m)
{
    mba_assert(l->nroles > 0 && l->nroles <= MBA_SIM_ROLES && l->nblocks <= MBA_SIM_CLASSES && l->block > 0);
    memset(k, 0, sizeof *k);
    snprintf(k->name, sizeof k->name, "%s", l->kernel);
    lowering w = { .k = k, .n = n, .plan = p, .l = l, .m = m, .scale = 1, .st = MBA_OK };
    k->grid = l->grid[0] * l->grid[1] * l->grid[2];
    k->threads = l->block;
    k->warps = mba_ceil(l->block, 32);
    k->regs = l->regs;
    k->smem_bytes = (int64_t)l->smem_bytes;
    k->depth = l->ring_depth > MBA_SIM_STAGES ? MBA_SIM_STAGES : l->ring_depth;
    k->mma_flops = mma_rate_of(n, l);
    k->busiest = l->busiest > 1 ? (int64_t)(256 * l->busiest + 0.5) : 0;
    for (int i = 0; i < l->nphases; i++) w.counted |= l->phase[i].work == MBA_LOOP;
    k->nclasses = l->nblocks;
    for (int i = 0; i < l->nblocks; i++) {
        k->count[i] = l->blocks[i].count;
        for (int t = 0; t < 2; t++) k->trips[i][t] = (int64_t)floor(l->blocks[i].trips[t] + 0.5);
    }
    deal_tiles(k, l);
    w.dealt = k->nclasses > l->nblocks;
    if (!strcmp(l->kernel, "cublaslt_gemm")) MBA_TRY(lower_library(&w, m));
    else
        for (int r = 0; r < l->nroles && w.st == MBA_OK; r++) lower_role(&w, r);
    MBA_TRY(w.st);
    MBA_TRY(mba_sim_finish(k, m));
    bound_unique(k, l);
    set_partial_stores(k, w.parts, m);
    k->fetch = mba_sim_fetch((double)k->grid, k->total[MBA_P_ISSUE] / 32 / (double)(k->grid * k->warps), 0, 0, m)
               + (int64_t)m->v[MBA_GPU_planned_start];
    return MBA_OK;
}
