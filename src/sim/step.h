// SPDX-License-Identifier: Apache-2.0
/* step.h -- simulates a whole program, such as a training step, on any machine: every launch of every node, L2 across
 * launches, the gaps between them, the copies of inputs.
 *
 *     mba_sim *s;
 *     MBA_TRY(mba_sim_create(&s));                            // a cache of simulated kernels, for sweeps
 *     mba_sim_step r;
 *     MBA_TRY(mba_sim_program(&r, s, program, &gpu, &(mba_sim_how){ .passes = MBA_STEP }));
 *     printf("%.1f ms\n", 1e3 * r.seconds);
 *     mba_sim_step_free(&r);
 *     mba_sim_destroy(s);
 *
 * The program is planned (never bound) for mba_gpu_for_plans of the same machine. A kernel is simulated once per set of
 * machine numbers that can change its time; new kernels run in parallel. The result does not depend on the number of
 * threads. */
#ifndef MBA_SIM_STEP_H
#define MBA_SIM_STEP_H

#include "core/program.h"
#include "sim/engine.h"

typedef struct mba_sim mba_sim;
MBA_MUST mba_status    mba_sim_create(mba_sim **out);
void                   mba_sim_destroy(mba_sim *s); /* NULL is fine */

typedef struct mba_sim_how {
    unsigned         passes;
    bool             cold;             /* flush L2 before every node, as `bench op` does */
    bool             flush_per_launch; /* flush it before every launch too, as for cold-L2 bytes (scope) */
    bool             with_elided;      /* also run nodes whose outputs another pass recomputes */
    bool             stream;           /* launched one by one instead of as a captured graph */
    mba_sim_fidelity fidelity;         /* MBA_SIM_BOUNDS (0) means MBA_SIM_ONE_SM unless `bounds` */
    bool             bounds;
    bool             persistent; /* what if every kernel were persistent: mba_sim_persist */
    int64_t          load;       /* of 256: tensor utilisation, if known; 0: found by a first pass */
    int64_t          ring;       /* what if every ring had this many stages; 0: as planned */
    /* What if scratch of this name ("CB", "all") stayed on the chip: an upper limit of what fusing its producer and its
     * consumers could save. */
    const char *keep;
    /* Called for every launch after the L2 model and before the simulation; it may change the kernel. */
    void (*before_launch)(void *of, const mba_program *p, int32_t node, int launch, mba_sim_kernel *k);
    void *of;
} mba_sim_how;

/* Sums over the launches of one node. */
typedef struct mba_sim_node {
    double seconds, kernels_s;             /* with the gaps between its launches; without */
    double dram_read, dram_write, floor_s; /* floor: the largest bound of each launch */
    double busy[MBA_PIPES];                /* utilisation, weighted by time */
    int    launches, limit;                /* limit: of its longest launch */
} mba_sim_node;

/* One launch. */
typedef struct mba_sim_launch {
    int32_t node;
    int     place, limit;
    double  seconds, dram_read, dram_write, floor_s;
    bool    counted; /* its instructions come from counters */
    double  stored;  /* distinct bytes written: they reach DRAM in this launch or later */
} mba_sim_launch;

typedef struct mba_sim_step {
    double          seconds, kernels_s, resets_s, dram_read, dram_write;
    double          work[MBA_PIPES], l2_bytes, cycles; /* of all launches; cycles: their durations at their clocks */
    double          inputs_s;                          /* part of `seconds` of whole steps: copies of inputs */
    int64_t         launches, unique, events;          /* unique: simulated now, not found in the cache */
    int64_t         load;                              /* of 256: tensor utilisation */
    mba_sim_node   *node;                              /* per node of the graph */
    mba_sim_launch *launch;                            /* `launches` of them, in order */
} mba_sim_step;

MBA_MUST mba_status mba_sim_program(mba_sim_step *out, mba_sim *s, const mba_program *p, const mba_gpu *m,
                                    const mba_sim_how *how);
void                mba_sim_step_free(mba_sim_step *r);

/* The roofline time of a node: its least FLOPs, special functions and bytes at the peak rates of the machine. */
double mba_sim_roofline(const mba_node *n, const mba_gpu *m);

#endif
