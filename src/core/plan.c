// SPDX-License-Identifier: Apache-2.0
/* plan.c -- see plan.h: functions with which variants describe their launches, and mba_plan_variant, which asks a
 * variant for the plan of a node and checks it. */
#include "core/plan.h"

#include "core/program.h"

mba_launch *mba_plan_launch(mba_plan *p, const char *kernel, mba_class cls, int64_t grid, int block)
{
    mba_assert(p->nlaunches < MBA_LAUNCH_MAX);
    mba_assert(kernel && grid > 0 && block > 0);
    if (!p->launch) p->launch = mba_arena_new(p->arena, mba_launch, MBA_LAUNCH_MAX);
    mba_launch *l = &p->launch[p->nlaunches++];
    *l = (mba_launch){ .kernel = kernel,
                       .cls = cls,
                       .grid = { grid, 1, 1 },
                       .block = block,
                       .cluster = 1,
                       .role_warps = { block / 32 },
                       .nroles = 1 };
    l->phase = mba_arena_new(p->arena, mba_phase, MBA_PHASE_MAX);
    return l;
}

int mba_plan_scratch(mba_plan *p, const char *name, size_t bytes)
{
    mba_assert(p->nscratch < MBA_SCRATCH_MAX);
    p->scratch[p->nscratch] = (mba_scratch){ name, bytes, p->work_bytes };
    p->work_bytes += (bytes + MBA_ALIGN_BYTES - 1) / MBA_ALIGN_BYTES * MBA_ALIGN_BYTES;
    return p->nscratch++;
}

void mba_plan_exchange(mba_plan *p, int64_t distance, double bytes)
{
    mba_assert(p->nexchanges < MBA_EXCHANGE_MAX && distance > 0 && bytes >= 0);
    p->exchange[p->nexchanges++] = (mba_exchange){ distance, bytes };
}

int mba_launch_role(mba_launch *l, int warps)
{
    mba_assert(l->nroles < 4 && warps > 0 && warps < l->role_warps[0]);
    l->role_warps[0] -= warps;
    l->role_warps[l->nroles] = warps;
    return l->nroles++;
}

static void phase_add(mba_launch *l, mba_phase ph)
{
    mba_assert(l->nphases < MBA_PHASE_MAX);
    mba_assert(ph.n >= 0 || ph.work == MBA_LOOP);
    mba_assert(ph.operand >= -1 && ph.operand < MBA_ARG_SCRATCH(MBA_SCRATCH_MAX));
    ph.role = (int16_t)(l->nroles - 1);
    l->phase[l->nphases++] = ph;
}

void mba_phase_move(mba_launch *l, mba_work work, int operand, double bytes)
{
    phase_add(l, (mba_phase){ .work = work, .operand = (int16_t)operand, .share = 1, .n = bytes });
}

void mba_phase_out(mba_launch *l, const mba_node *n, int k, double bytes)
{
    if (mba_adds(n, k)) mba_phase_move(l, MBA_LOAD, MBA_ARG_OUT(k), bytes);
    mba_phase_move(l, MBA_STORE, MBA_ARG_OUT(k), bytes);
}

void mba_phase_share(mba_launch *l, int64_t blocks)
{
    mba_assert(l->nphases > 0 && blocks >= 1);
    l->phase[l->nphases - 1].share = (int32_t)blocks;
}

void mba_phase_work(mba_launch *l, mba_work work, double n, const char *mix)
{
    phase_add(l, (mba_phase){ .work = work, .operand = -1, .n = n, .mix = mix });
}

/* Refuses a plan whose block needs more shared memory than the machine has, even with a ring of one stage. How many
 * stages fit is decided later: the simulator shortens rings, libraries choose among tiles. */
static mba_status check_shared(const mba_plan *p, const mba_machine *m)
{
    for (int i = 0; i < p->nlaunches; i++) {
        const mba_launch *l = &p->launch[i];
        const int64_t     least = (int64_t)l->smem_bytes / (l->ring_depth > 1 ? l->ring_depth : 1);
        MBA_REFUSE_IF(least > m->smem_block_bytes,
                      "%s cannot run on %s\nwhy: a block needs %lld bytes of shared memory, the machine has %lld\n"
                      "fix: choose another machine, or another variant of the operator",
                      l->kernel, m->name, (long long)least, (long long)m->smem_block_bytes);
    }
    return MBA_OK;
}

mba_status mba_plan_variant(mba_plan *out, const mba_plan *of, mba_arena *a, const mba_node *n, const mba_variant *v,
                            const mba_machine *m)
{
    *out = (mba_plan){ .variant = v->name, .forward = of, .arena = a };
    if (!v->plan) return MBA_OK;
    mba_status st = v->plan(out, n, m);
    if (st == MBA_OK) st = check_shared(out, m);
    return st == MBA_OK ? st : mba_where(st, "%s, variant %s, on %s", n->op->name, v->name, m->name);
}

void mba_phases_evenly(mba_launch *l, const mba_node *n, double blocks)
{
    mba_assert(blocks >= 1);
    const mba_cost c = n->op->cost(n);
    for (int k = 0; k < MBA_IN_MAX; k++)
        if (n->in[k]) mba_phase_move(l, MBA_LOAD, MBA_ARG_IN(k), mba_tensor_bytes(n->in[k]) / blocks);
    for (int k = 0; k < MBA_OUT_MAX; k++) // a node reads what it adds to
        if (n->out[k] && mba_adds(n, k))
            mba_phase_move(l, MBA_LOAD, MBA_ARG_OUT(k), mba_tensor_bytes(n->out[k]) / blocks);
    mba_phase_work(l, MBA_FMA, c.vector_flops / 2 / blocks, NULL);
    if (c.special_ops > 0) mba_phase_work(l, MBA_SFU, c.special_ops / blocks, NULL);
    for (int k = 0; k < MBA_OUT_MAX; k++)
        if (n->out[k]) mba_phase_move(l, MBA_STORE, MBA_ARG_OUT(k), mba_tensor_bytes(n->out[k]) / blocks);
}

mba_launch *mba_plan_stream(mba_plan *p, const mba_node *n, const char *kernel, int64_t grid, int block, int regs)
{
    mba_launch *l = mba_plan_launch(p, kernel, MBA_VECTOR, grid, block);
    l->regs = regs;
    mba_phases_evenly(l, n, (double)grid);
    return l;
}

mba_status mba_plan_streaming(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    enum { BLOCK_BYTES = 16384, THREADS = 256 }; // 64 bytes per thread: four 16-byte loads in flight
    const mba_cost c = n->op->cost(n);
    const double   most = c.read_bytes > c.write_bytes ? c.read_bytes : c.write_bytes;
    MBA_REFUSE_IF(m->cc < 80, "needs compute capability 8.0 or higher, the device has %d.%d", m->cc / 10, m->cc % 10);
    mba_plan_stream(p, n, n->op->name, mba_ceil((int64_t)most + 1, BLOCK_BYTES), THREADS, 32); // registers: estimate
    return MBA_OK;
}
