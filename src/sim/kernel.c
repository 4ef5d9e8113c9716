// SPDX-License-Identifier: Apache-2.0
/* kernel.c -- see kernel.h: checks and totals of a simulated kernel, its occupancy, its start-up time, and the what-if
 * changes (persistent blocks, deeper rings). */
#include "sim/kernel.h"

#include <math.h>
#include <string.h>

#include "sim/l2_model.h"

mba_status mba_sim_impossible(const mba_sim_kernel *k, const char *why, const char *fix)
{
    return mba_fail(MBA_E_UNSUPPORTED, "the simulator cannot run %s\nwhy: %s\nfix: %s", k->name, why, fix);
}

/* ---- checks and totals ---- */

int64_t mba_sim_resident(const mba_sim_kernel *k, const mba_gpu *m)
{
    enum { REGS_GRAIN = 256, SMEM_GRAIN = 128, SMEM_RESERVED = 1024 };
    const double *v = m->v;
    const int64_t each = mba_ceil(k->regs * 32, REGS_GRAIN)
                         * REGS_GRAIN; // per warp; a sub-partition has a quarter of the file
    const int64_t warps = each > 0 ? (int64_t)(v[MBA_GPU_rf] * 64) / each * 4 : INT64_MAX;
    const int64_t smem = mba_ceil(k->smem_bytes, SMEM_GRAIN) * SMEM_GRAIN + SMEM_RESERVED;
    const int64_t threads = (int64_t)(v[MBA_GPU_warps_max] * v[MBA_GPU_warp]);
    int64_t       n = (int64_t)v[MBA_GPU_blocks_max];
    if (k->smem_bytes > (int64_t)(v[MBA_GPU_smem_block] * 1024) || k->warps * 32 > threads) return 0;
    if (n > threads / (k->warps * 32)) n = threads / (k->warps * 32);
    if (n > warps / k->warps) n = warps / k->warps;
    const int64_t sm = (int64_t)(v[MBA_GPU_smem_sm] * 1024);
    if (k->smem_bytes > sm) return 0;
    if (k->smem_bytes > 0 && n > sm / smem) n = sm / smem > 0 ? sm / smem : 1; // one block may use the reserved bytes
    return n;
}

/* Removes ring stages until a block fits. */
static void cut_ring(mba_sim_kernel *k, const mba_gpu *m)
{
    const int64_t stages = k->depth;
    const int64_t all = k->smem_bytes;
    mba_assert(stages > 0);
    while (k->depth > 1 && !mba_sim_resident(k, m)) {
        k->depth--;
        k->smem_bytes = all * k->depth / stages;
    }
    for (int64_t i = 0; i < k->nops; i++)
        if (k->op[i].ahead >= k->depth && k->depth > 0) k->op[i].ahead = (int32_t)k->depth - 1;
}

/* Trips of the loop that opens at `o`, averaged over the classes of blocks. */
static double trips_of(const mba_sim_kernel *k, const mba_sim_op *o)
{
    if (o->trips >= 0) return (double)o->trips;
    double sum = 0, blocks = 0;
    for (int64_t c = 0; c < k->nclasses; c++) {
        sum += (double)k->count[c] * (double)k->trips[c][-1 - o->trips];
        blocks += (double)k->count[c];
    }
    return blocks > 0 ? sum / blocks : 0;
}

/* Every lane operation takes an issue slot; a shared-memory instruction moves 16 bytes per lane. */
static void count_issue(mba_sim_op *o)
{
    o->n[MBA_P_ISSUE] = o->n[MBA_P_FMA] + o->n[MBA_P_ALU] + o->n[MBA_P_XU] + o->n[MBA_P_H2] + o->n[MBA_P_SMEM] / 16;
}

/* Checks the operations of one role and adds its work to the totals, loops multiplied out. */
static mba_status add_up_role(mba_sim_kernel *k, int64_t role, double *filled, double *emptied)
{
    mba_assert(role >= 0 && role < k->nroles && k->first[role] >= 0);
    double times[MBA_SIM_LOOPS + 1] = { 1 };
    int    depth = 0;
    for (int64_t i = k->first[role];; i++) {
        if (i >= k->nops)
            return mba_sim_impossible(k, "the operations of a warp role do not end", "correct its launch plan");
        const mba_sim_op *o = &k->op[i];
        const double      t = times[depth];
        if (o->work == MBA_OP_EXIT) break;
        if (o->work == MBA_OP_LOOP) {
            if (depth == MBA_SIM_LOOPS)
                return mba_sim_impossible(k, "its loops are nested too deeply",
                                          "nest at most four loops in its launch plan");
            if (o->trips < -2 || (o->trips < 0 && !k->nclasses))
                return mba_sim_impossible(k, "a loop takes its trip count from a block class that does not exist",
                                          "declare the block classes in its launch plan");
            times[++depth] = t * trips_of(k, o);
        }
        if (o->work == MBA_OP_END && depth-- == 0)
            return mba_sim_impossible(k, "a loop ends that did not begin", "correct its launch plan");
        if (o->work >= MBA_OP_FILL && o->work <= MBA_OP_RELEASE && (o->ring < 0 || o->ring >= MBA_SIM_RINGS))
            return mba_sim_impossible(k, "it uses a ring that does not exist", "use rings 0 to 3 in its launch plan");
        if (o->work == MBA_OP_COMMIT) filled[o->ring] += t;
        if (o->work == MBA_OP_WAIT) emptied[o->ring] += t;
        if (o->stream >= k->nstreams)
            return mba_sim_impossible(k, "it uses an operand that does not exist", "correct its launch plan");
        mba_debug_assert(depth >= 0 && depth <= MBA_SIM_LOOPS);
        if (o->stream >= 0) k->stream[o->stream].moved += t * (double)o->bytes * (double)k->grid;
        for (int p = 0; p < MBA_PIPES; p++) k->total[p] += t * (double)o->n[p] * (double)k->grid;
    }
    return depth ? mba_sim_impossible(k, "a loop does not end", "correct its launch plan") : MBA_OK;
}

mba_status mba_sim_finish(mba_sim_kernel *k, const mba_gpu *m)
{
    double filled[MBA_SIM_RINGS] = { 0 }, emptied[MBA_SIM_RINGS] = { 0 };
    mba_assert(k->nroles <= MBA_SIM_ROLES && k->nops <= MBA_SIM_OPS);
    mba_assert(k->nstreams <= MBA_SIM_STREAMS && k->nclasses <= MBA_SIM_CLASSES);
    if (k->grid < 1 || k->grid > (int64_t)1 << 40 || k->threads < 1)
        return mba_sim_impossible(k, "it has no blocks", "correct its launch plan");
    if (k->depth < 1) k->depth = 1;
    cut_ring(k, m);
    if (!mba_sim_resident(k, m))
        return mba_fail(
            MBA_E_UNSUPPORTED,
            "%s cannot run on %s\nwhy: a block needs %lld threads with %lld registers each and %lld bytes of shared "
            "memory; the machine has %lld bytes for a block\n"
            "fix: choose another machine, or another variant of the operator with --op",
            k->name, m->name, (long long)k->threads, (long long)k->regs, (long long)k->smem_bytes,
            (long long)(1024 * fmin(m->v[MBA_GPU_smem_block], m->v[MBA_GPU_smem_sm])));
    for (int p = 0; p < MBA_PIPES; p++) k->total[p] = 0;
    for (int64_t s = 0; s < k->nstreams; s++) k->stream[s].moved = 0;
    for (int64_t i = 0; i < k->nops; i++)
        if (k->op[i].work == MBA_OP_MIX && !k->counted) count_issue(&k->op[i]);
    for (int64_t r = 0; r < k->nroles; r++) MBA_TRY(add_up_role(k, r, filled, emptied));
    for (int r = 0; r < MBA_SIM_RINGS; r++)
        if (fabs(filled[r] - emptied[r]) > 0.5)
            return mba_sim_impossible(k, "a ring is filled and emptied different numbers of times: a deadlock",
                                      "correct its launch plan");
    for (int64_t s = 0; s < k->nstreams; s++)
        if (k->stream[s].unique <= 0 || k->stream[s].unique > k->stream[s].moved)
            k->stream[s].unique = k->stream[s].moved;
    return MBA_OK;
}

int64_t mba_sim_fetch(double blocks, double each, double bytes, double far_bytes, const mba_gpu *m)
{
    const double *v = m->v, wide = blocks < v[MBA_GPU_sm] ? blocks / v[MBA_GPU_sm] : 1,
                 near = bytes > 0 ? bytes / (bytes + 1e6 * v[MBA_GPU_fetch_l2_mb]) : 0,
                 far = far_bytes > 0 ? far_bytes / (far_bytes + 1e6 * v[MBA_GPU_fetch_dram_mb]) : 0;
    return (int64_t)(v[MBA_GPU_fetch_sms] * wide + v[MBA_GPU_fetch_inst] * each + v[MBA_GPU_fetch_l2] * near
                     + v[MBA_GPU_fetch_dram] * far);
}

/* ---- what-if changes ---- */

static bool can_persist(const mba_sim_kernel *k, int64_t resident_all)
{
    int depth = 0, most = 0;
    for (int64_t i = 0; i < k->nops; i++) {
        depth += (k->op[i].work == MBA_OP_LOOP) - (k->op[i].work == MBA_OP_END);
        if (depth > most) most = depth;
    }
    return k->grid > resident_all && !k->nclasses && most < MBA_SIM_LOOPS && k->nops + 2 * k->nroles <= MBA_SIM_OPS;
}

void mba_sim_persist(mba_sim_kernel *k, const mba_gpu *m)
{
    const int64_t resident_all = mba_sim_resident(k, m) * (int64_t)m->v[MBA_GPU_sm];
    if (!can_persist(k, resident_all)) return;
    mba_assert(resident_all > 0);
    const mba_sim_kernel was = *k;
    const double         trips = (double)k->grid / (double)resident_all;
    k->nops = 0;
    k->grid = resident_all;
    k->tile_share = (was.tile_share > 0 ? was.tile_share : 1) / trips;
    for (int64_t i = 0, role = -1; i < was.nops; i++) {
        const bool starts = role + 1 < was.nroles && was.first[role + 1] == i,
                   keeps = starts && was.op[i].work == MBA_OP_DELAY;
        if (starts) k->first[++role] = k->nops;
        if (keeps) k->op[k->nops++] = was.op[i]; // the prologue stays outside of the loop
        if (starts)
            k->op[k->nops++] = (mba_sim_op){
                .work = MBA_OP_LOOP, .stream = -1, .ring = -1, .parts = 1, .trips = (int64_t)(trips + 0.999)
            };
        if (was.op[i].work == MBA_OP_EXIT)
            k->op[k->nops++] = (mba_sim_op){ .work = MBA_OP_END, .stream = -1, .ring = -1, .parts = 1 };
        if (!keeps) k->op[k->nops++] = was.op[i];
    }
    mba_assert(k->nops <= MBA_SIM_OPS);
    for (int64_t i = 0; i < k->nops; i++) { // trips are rounded up; the total work stays the same
        const double part = trips / (double)(int64_t)(trips + 0.999);
        k->op[i].bytes = (uint64_t)((double)k->op[i].bytes * part);
        for (int p = 0; p < MBA_PIPES; p++) k->op[i].n[p] = (uint64_t)((double)k->op[i].n[p] * part);
    }
    if (mba_sim_finish(k, m) != MBA_OK) *k = was;
}

void mba_sim_set_ring(mba_sim_kernel *k, int64_t stages, const mba_gpu *m)
{
    const mba_sim_kernel was = *k;
    mba_assert(k->depth <= MBA_SIM_STAGES);
    if (k->depth < 2 || k->smem_bytes == 0) return;
    k->depth = stages < 1 ? 1 : stages > MBA_SIM_STAGES ? MBA_SIM_STAGES : stages;
    k->smem_bytes = was.smem_bytes * k->depth / was.depth;
    for (int64_t i = 0; i < k->nops; i++)
        if (k->op[i].ahead) k->op[i].ahead = (int32_t)k->depth - 1;
    if (mba_sim_finish(k, m) != MBA_OK) *k = was;
}

void mba_sim_copy_beside(mba_sim_kernel *k, const mba_gpu *m, int64_t warps, int64_t bytes, double seconds)
{
    mba_assert(warps > 0 && bytes > 0 && seconds >= 0);
    double asked = 0, distinct = 0, missed = 0;
    for (int64_t s = 0; s < k->nstreams; s++) {
        const mba_sim_stream *t = &k->stream[s];
        if (t->writes) continue;
        asked += t->moved;
        distinct += fmin(t->moved, t->unique);
        missed += t->moved * (double)(256 - t->hit) / 256;
    }
    const double streamed = 1e9 * m->v[MBA_GPU_hbm] * m->v[MBA_GPU_hbm_mix] * seconds,
                 stays = mba_l2_model_hit_rate(m, streamed),
                 misses = fmax(missed, stays * missed + (1 - stays) * distinct);
    for (int64_t s = 0; s < k->nstreams; s++) {
        mba_sim_stream *t = &k->stream[s];
        if (t->writes) t->hit = 0;
        else if (asked > 0) t->hit = (int64_t)(256 * (1 - misses / asked));
        mba_assert(t->hit >= 0 && t->hit <= 256);
    }
    k->copiers = warps;
    k->copied = bytes;
}
