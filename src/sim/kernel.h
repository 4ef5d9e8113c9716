// SPDX-License-Identifier: Apache-2.0
/* kernel.h -- the simulator's form of one kernel launch: operations, streams and geometry as whole numbers, checked and
 * comparable as bytes. lower.c makes it from a launch plan, profiled_apply.c from counters; engine.h runs it.
 *
 *     mba_sim_kernel k;
 *     MBA_TRY(mba_sim_lower(&k, node, &plan->launch[i], plan, gpu));
 *     k.stream[0].hit = 128;                              // of 256: hits that the L2 model found
 *     MBA_TRY(mba_sim_run(&r, &k, gpu, MBA_SIM_ONE_SM));  // engine.h
 *
 * The warps of a block that play one role execute the operations of that role in order; work of neighbouring phases
 * that use different pipes overlaps. Lowering adds what plans leave out and every kernel does: address arithmetic,
 * conversions of bf16, reading the tiles of matrix products from shared memory. */
#ifndef MBA_SIM_KERNEL_H
#define MBA_SIM_KERNEL_H

#include "core/program.h"
#include "sim/machine.h"

typedef enum mba_sim_pipe {
    MBA_P_FMA,
    MBA_P_ALU,
    MBA_P_XU,
    MBA_P_H2,
    MBA_P_MMA,
    MBA_P_SMEM,
    MBA_P_ISSUE,
    MBA_PIPES
} mba_sim_pipe;

typedef enum mba_sim_work {
    MBA_OP_MIX,     /* n[] lane operations, FLOPs or bytes per pipe, in `parts`; at least `trips` cycles of latencies */
    MBA_OP_LOAD,    /* `bytes` of `stream`, in `parts` that a warp waits for one after the other */
    MBA_OP_ASYNC,   /* an asynchronous copy, issued `ahead` trips early */
    MBA_OP_STORE,   /* with `trips`: waits until the bytes are in L2, as a fence does */
    MBA_OP_BARRIER, /* `parts` barriers of the block */
    MBA_OP_DELAY,   /* `parts` cycles, on any machine */
    MBA_OP_FILL,    /* producer of ring `ring`: waits for an empty stage */
    MBA_OP_COMMIT,  /* marks the stage full when its copies have arrived */
    MBA_OP_WAIT,    /* consumer: waits for a full stage */
    MBA_OP_RELEASE, /* marks the stage empty */
    MBA_OP_LOOP,    /* `trips` times up to the END; if negative, trips number -1 - trips of the block's class */
    MBA_OP_END,
    MBA_OP_EXIT /* ends a role */
} mba_sim_work;

typedef struct mba_sim_op { /* no padding: hashed as bytes */
    int32_t  work, stream, ring, ahead;
    int64_t  trips, parts;
    uint64_t bytes, n[MBA_PIPES];
} mba_sim_op;

enum {
    MBA_SIM_OPS = 128,
    MBA_SIM_STREAMS = 24,
    MBA_SIM_ROLES = 4,
    MBA_SIM_RINGS = 4,
    MBA_SIM_STAGES = 8,
    MBA_SIM_LOOPS = 4,
    MBA_SIM_CLASSES = 8
};

typedef struct mba_sim_stream {
    int32_t operand; /* MBA_ARG_*; -1: none */
    int32_t writes;
    double  moved, unique; /* bytes of the whole launch: requested; distinct */
    int64_t hit;           /* of 256. Reads: found in L2. Writes: never reach DRAM */
} mba_sim_stream;

typedef struct mba_sim_kernel {
    char       name[64];
    int64_t    grid, threads, warps, regs, smem_bytes, nroles, nops, nclasses, nstreams, depth;
    int64_t    mma_flops;       /* tensor rate: 16, 19 (TF32) or 32 bits, +100 for warp-level products; 0: no */
    int64_t    implied_trips;   /* trips of the loop that lowering added; 1: none */
    int64_t    fetch;           /* cycles until code and first data arrive, once per launch */
    int64_t    resets;          /* 1: a tile counter is cleared before it runs */
    int64_t    longest;         /* cycles of the longest chain of blocks; 0: blocks are alike */
    int64_t    uses_tensor;     /* 1: it executes some tensor instructions */
    int64_t    evicts;          /* dirty bytes of other kernels that it evicts from L2 to DRAM */
    int64_t    copiers, copied; /* warps of a copy from DRAM to DRAM beside it on every SM; bytes each has in flight */
    int64_t    load;            /* of 256: tensor utilisation of the step around it; 0: unknown */
    int64_t    counted;         /* 1: its instructions come from counters, issue slots included */
    int64_t    partial_stores;  /* of 256: extra L2 time of its stores, for partly written lines */
    int64_t    wavefronts;      /* counted passes through shared memory and L1, 128 bytes each; 0: not counted */
    int64_t    requests;        /* counted instructions of the load/store units; 0: not counted */
    int64_t    busiest;         /* of 256: busiest warp over the mean, between barriers; 0: alike */
    int64_t    first[MBA_SIM_ROLES], role_warps[MBA_SIM_ROLES];
    int64_t    count[MBA_SIM_CLASSES], trips[MBA_SIM_CLASSES][2];
    mba_sim_op op[MBA_SIM_OPS];
    mba_sim_stream stream[MBA_SIM_STREAMS];
    double         total[MBA_PIPES]; /* of the whole launch */
    double         tile_share;       /* of a block's data in use at a time: one tile of many; 0: all */
} mba_sim_kernel;

/* Lowers one launch of a plan. Fails with MBA_E_UNSUPPORTED for what no machine could run (loops that do not end, rings
 * that are never filled) and for what this machine cannot hold. */
MBA_MUST mba_status mba_sim_lower(mba_sim_kernel *out, const mba_node *n, const mba_launch *l, const mba_plan *p,
                                  const mba_gpu *m);

/* Completes a kernel whose operations are set: checks it, computes `total` and the bytes of its streams, and shortens
 * the ring to what the machine's shared memory holds. Call it after every change of operations. */
MBA_MUST mba_status mba_sim_finish(mba_sim_kernel *k, const mba_gpu *m);

/* The error for kernels that no machine could run. */
MBA_MUST mba_status mba_sim_impossible(const mba_sim_kernel *k, const char *why, const char *fix);

/* What-if changes. Persistent: resident blocks loop over the work of all (if blocks are alike and do not all fit at
 * once). Ring: another number of stages and the shared memory for them, as deep as the machine holds. */
void mba_sim_persist(mba_sim_kernel *k, const mba_gpu *m);
void mba_sim_set_ring(mba_sim_kernel *k, int64_t stages, const mba_gpu *m);

/* Lets a copy run beside k: `warps` on every SM, each with `bytes` in flight. What it streams through L2 in `seconds`,
 * k's time without it, displaces what earlier kernels left there; and L2 is full of lines to be written, so every line
 * that k writes evicts one. */
void mba_sim_copy_beside(mba_sim_kernel *k, const mba_gpu *m, int64_t warps, int64_t bytes, double seconds);

/* Resident blocks per SM of m; 0: a block does not fit. */
int64_t mba_sim_resident(const mba_sim_kernel *k, const mba_gpu *m);

/* Cycles until blocks run at full rate, once per launch. All SMs fetch code and arguments at once (`each`: instructions
 * of a warp, those of loops once). Reads from DRAM (`far_bytes`) start slowly, because data that left L2 left the TLBs
 * too and all blocks request their first bytes at the same time. So do, for less time, all bytes through L2
 * (`bytes`). */
int64_t mba_sim_fetch(double blocks, double each, double bytes, double far_bytes, const mba_gpu *m);

#endif
