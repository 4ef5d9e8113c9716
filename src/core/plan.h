// SPDX-License-Identifier: Apache-2.0
/* plan.h -- the launch plan of one node: its kernel launches, the work of one block of each, its scratch memory.
 *
 *     static mba_status norm_warp_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
 *     {
 *         MBA_REFUSE_IF(C % 256, "rows of %lld channels: wants a multiple of 256", (long long)C);
 *         mba_launch *l = mba_plan_launch(p, "norm_fwd_warp", MBA_VECTOR, mba_ceil(R, 4), 128);
 *         l->regs = 34;
 *         mba_phase_move(l, MBA_LOAD,  MBA_ARG_IN(X),  4 * C * 2);      // bytes of one block
 *         mba_phase_work(l, MBA_FMA,   4 * 2 * C, "sum_squares");       // lane operations of one block
 *         mba_phase_move(l, MBA_STORE, MBA_ARG_OUT(Y), 4 * C * 2);
 *         return MBA_OK;
 *     }
 *
 * Pure C without device headers. The launcher obeys the plan, the profiler compares counters with it, and the
 * simulator runs it for GPUs that are not present. Equal nodes (same operator, attributes, types and
 * strided views) share one plan, which is also the simulator's cache key. */
#ifndef MBA_PLAN_H
#define MBA_PLAN_H

#include "core/arena.h"
#include "core/tensor.h"

struct mba_node;
enum {
    MBA_IN_MAX = 16,
    MBA_OUT_MAX = 10,
    MBA_SCRATCH_MAX = 12,
    MBA_LAUNCH_MAX = 72,
    MBA_PHASE_MAX = 40,
    MBA_EXCHANGE_MAX = 32
};

/* The part of a machine file that plans may read. Only the simulator reads the rest. */
typedef struct mba_machine {
    const char *name;
    int         cc; /* 90: sm_90; 0: not a CUDA device */
    int         sm, warp, regs_sm, threads_sm;
    int64_t     smem_block_bytes, smem_sm_bytes, l2_bytes;
    double      clock_ghz, dram_gbs;
    int64_t     memory_bytes; /* 0: unknown */
} mba_machine;

typedef enum mba_class { MBA_TENSOR, MBA_VECTOR, MBA_MIXED, MBA_COPYING } mba_class;

/* One phase of a block. A block has roles (a producer warp, consumer warps). A role runs its phases
 * in order; LOOP .. END repeats. `mix` names the part of the compiled kernel whose instructions do the work. Without a
 * name the instruction counts are an estimate, and predictions from them get a lower grade. */
typedef enum mba_work {
    MBA_LOAD,
    MBA_STORE,
    MBA_ASYNC, /* n bytes between an operand and the block */
    MBA_SMEM,  /* n bytes from or to shared memory */
    MBA_MMA,
    MBA_FMA,
    MBA_HALF2,
    MBA_ALU,
    MBA_SFU, /* MMA: n tensor FLOPs; the others: n lane operations */
    MBA_BARRIER,
    MBA_RING_FILL,
    MBA_RING_WAIT, /* RING: of ring n */
    MBA_LOOP,
    MBA_END /* LOOP: n trips, or MBA_TRIPS(k) */
} mba_work;

typedef struct mba_phase {
    mba_work    work;
    int16_t     role, operand; /* operand: MBA_ARG_*, or -1 */
    int32_t     share;         /* load: neighbouring blocks that read the same bytes; store: parts in
                                                   * which a sector is written */
    double      n;             /* amount: see mba_work */
    const char *mix;
} mba_phase;

/* A class of equal blocks. Blocks of a launch may differ in trip counts (causal tiles): a LOOP with n = MBA_TRIPS(k)
 * takes its count from trips[k] of the block's class. */
typedef struct mba_blocks {
    int64_t count;
    double  trips[2];
} mba_blocks;
#define MBA_TRIPS(k) (-1 - (k))

#define MBA_ARG_IN(k)      (k)
#define MBA_ARG_OUT(k)     (MBA_IN_MAX + (k))
#define MBA_ARG_SCRATCH(k) (MBA_IN_MAX + MBA_OUT_MAX + (k))

typedef struct mba_launch {
    const char *kernel; /* as it appears in the profile */
    mba_class   cls;
    int64_t     grid[3];
    int         block, regs, cluster, ring_depth; /* ring_depth: stages of asynchronous copies */
    bool        persistent;                       /* grid = resident blocks, each of which loops over tiles */
    int64_t     tiles;                            /* of a persistent launch; its phases still describe one block */
    size_t      smem_bytes;
    int         role_warps[4], nroles;
    double      busiest; /* instructions of a block's busiest warp between barriers over those
                                                   * of the mean warp; 0: all warps are equal */
    mba_blocks  blocks[8];
    int         nblocks; /* classes of blocks; none: all blocks are equal */
    mba_phase  *phase;
    int         nphases;
} mba_launch;

typedef struct mba_scratch {
    const char *name;
    size_t      bytes, offset;
} mba_scratch;

/* One exchange of a collective: the rank sends `bytes` to the rank whose number differs by `distance`, and receives as
 * many. They take place one after the other. */
typedef struct mba_exchange {
    int64_t distance;
    double  bytes;
} mba_exchange;

typedef struct mba_plan {
    const char            *variant;
    const struct mba_plan *forward; /* plan of the forward node that a backward node serves, or NULL */
    uint32_t               leaves;  /* bit k: this variant does not write the saved output k, which then
                                                   * gets no memory */
    int                    nlaunches, nscratch;
    mba_launch            *launch;
    mba_scratch            scratch[MBA_SCRATCH_MAX]; /* named, so that the simulator can follow their reuse */
    size_t                 work_bytes;               /* of all scratch */
    mba_exchange           exchange[MBA_EXCHANGE_MAX];
    int                    nexchanges;
    mba_arena             *arena; /* that launches and phases come from */
} mba_plan;

/* Adds a launch with one role that holds all warps. */
mba_launch *mba_plan_launch(mba_plan *p, const char *kernel, mba_class cls, int64_t grid, int block);

/* Adds scratch memory to the node; returns its number, for MBA_ARG_SCRATCH and mba_call. */
int mba_plan_scratch(mba_plan *p, const char *name, size_t bytes);

void mba_plan_exchange(mba_plan *p, int64_t distance, double bytes);

/* Moves warps from the first role to a new one; phases that follow belong to the new role. Returns its number. */
int  mba_launch_role(mba_launch *l, int warps);
void mba_phase_move(mba_launch *l, mba_work work, int operand, double bytes);

/* Stores output k; also loads it first if the node adds to it. */
void mba_phase_out(mba_launch *l, const struct mba_node *n, int k, double bytes);

/* Sets `share` of the load or store that was added last. */
void mba_phase_share(mba_launch *l, int64_t blocks);
void mba_phase_work(mba_launch *l, mba_work work, double n, const char *mix);

/* The plan of a kernel that streams each operand once: element-wise and row-wise operators. It reads
 * what the node reads, writes what it writes, and computes what `cost` says. An mba_plan_fn. */
mba_status mba_plan_streaming(mba_plan *p, const struct mba_node *n, const mba_machine *m);

/* Adds one such launch with the kernel's own geometry. Returns it, so that the caller can add more. */
mba_launch *mba_plan_stream(mba_plan *p, const struct mba_node *n, const char *kernel, int64_t grid, int block,
                            int regs);

/* Adds the phases of a launch whose blocks share equally what the node reads, adds to and writes, and the work of its
 * `cost`. */
void mba_phases_evenly(mba_launch *l, const struct mba_node *n, double blocks);

static inline int64_t mba_ceil(int64_t a, int64_t b) { return (a + b - 1) / b; }

#endif
