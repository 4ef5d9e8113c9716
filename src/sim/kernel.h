// SPDX-License-Identifier: Apache-2.0
/* kernel.h -- one launch of a plan made ready for the engine: whole numbers, checked, comparable as bytes.
 *
 *     mba_sim_kernel k;
 *     MBA_TRY(mba_sim_lower(&k, node, &plan->launch[i], plan, gpu));
 *     k.stream[0].hit = 128;                              // of 256: what the ledger found in L2
 *     MBA_TRY(mba_sim_run(&r, &k, gpu, MBA_SIM_ONE_SM));  // engine.h
 *
 * A role of a block is one team of warps that works through its operations; work of neighbouring phases that use
 * different pipes overlaps. What a plan estimates is completed here by what every kernel of ours does besides:
 * addresses, conversions of bf16, reading tiles of products from shared memory. */
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
    MBA_OP_MIX, /* n[] of every pipe, in `parts` pieces; at least `trips` cycles: latencies in a row */
    MBA_OP_LOAD,
    MBA_OP_ASYNC,
    MBA_OP_STORE, /* `bytes` of `stream`; async: `ahead` trips early; a store with `trips`: until in L2 (a fence) */
    MBA_OP_BARRIER,
    MBA_OP_DELAY, /* `parts` barriers; `parts` cycles that nothing shortens */
    MBA_OP_FILL,
    MBA_OP_COMMIT,
    MBA_OP_WAIT,
    MBA_OP_RELEASE, /* of ring `ring` */
    MBA_OP_LOOP,
    MBA_OP_END, /* `trips`; below 0: of the block's class, number -1 - trips */
    MBA_OP_EXIT
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
    double  moved, unique; /* bytes of the whole launch: asked for; different ones */
    int64_t hit;           /* of 256. Reads: found in L2. Writes: never reach DRAM */
} mba_sim_stream;

typedef struct mba_sim_kernel {
    char           name[64];
    int64_t        grid, threads, warps, regs, smem_bytes, nroles, nops, nclasses, nstreams, depth;
    int64_t        mma_flops; /* which rate: 16 or 32, +100 for warp-level products */
    int64_t        hidden;    /* trips of the loop that lowering made; 1: none */
    int64_t        fetch;     /* cycles until code that was not there is: once a launch */
    int64_t        resets;    /* 1: a counter of tiles is set back before it runs */
    int64_t        longest;   /* cycles of the longest chain of blocks by itself; 0: all alike */
    int64_t        products;  /* 1: it uses tensor units, if only a little */
    int64_t        evicts;    /* bytes of others that it drives from L2 to DRAM */
    int64_t        load;      /* of 256: how busy tensor units are in its step; 0: nobody knows */
    int64_t        counted;   /* 1: its instructions were counted, issue among them */
    int64_t        partly;    /* of 256: how much longer its stores take in L2: short runs of bytes */
    int64_t        busiest;   /* of 256: a block's busiest warp between barriers, beside the mean; 0: alike */
    int64_t        first[MBA_SIM_ROLES], role_warps[MBA_SIM_ROLES];
    int64_t        count[MBA_SIM_CLASSES], trips[MBA_SIM_CLASSES][2];
    mba_sim_op     op[MBA_SIM_OPS];
    mba_sim_stream stream[MBA_SIM_STREAMS];
    double         total[MBA_PIPES]; /* of the whole launch */
    double         piece;            /* of a block's work that is in work at a time: one tile of many; 0: all */
} mba_sim_kernel;

/* Refuses what no machine could run (loops without end, rings nobody fills) and what this one cannot hold. */
MBA_MUST mba_status mba_sim_lower(mba_sim_kernel *out, const mba_node *n, const mba_launch *l, const mba_plan *p,
                                  const mba_gpu *m);

/* Completes a kernel whose operations were written by hand or by a test: checks it, fills `total`, and cuts the ring to
 * what the machine's shared memory holds. */
MBA_MUST mba_status mba_sim_finish(mba_sim_kernel *k, const mba_gpu *m);

/* The one error of kernels that no machine could run. */
MBA_MUST mba_status mba_sim_impossible(const mba_sim_kernel *k, const char *why, const char *fix);

/* What if: blocks that stay and take the work of several in a loop (where all blocks are alike and there are more than
 * places); rings of another depth, with the shared memory that takes (as deep as the machine holds). */
void mba_sim_persist(mba_sim_kernel *k, const mba_gpu *m);
void mba_sim_set_ring(mba_sim_kernel *k, int64_t stages, const mba_gpu *m);

/* Blocks of it that an SM of m holds at a time; 0: none. */
int64_t mba_sim_resident(const mba_sim_kernel *k, const mba_gpu *m);

/* Cycles until blocks are at work, once a launch: all SMs ask for code and arguments at once (`each`: instructions of a
 * warp, those of loops once), and what comes from DRAM (`far_bytes`) begins slowly: what has left L2 has left
 * the caches of addresses too, and all blocks ask for their first bytes at the same time; so does, for a shorter while,
 * what passes L2 at all (`bytes`). */
int64_t mba_sim_fetch(double blocks, double each, double bytes, double far_bytes, const mba_gpu *m);

#endif
