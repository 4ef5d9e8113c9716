// SPDX-License-Identifier: Apache-2.0
/* step.h -- a whole program on a machine that need not be there: every launch of every node, L2 between them, gaps.
 *
 *     mba_sim *s;
 *     MBA_TRY(mba_sim_create(&s));                            // remembers kernels it has simulated, for sweeps
 *     mba_sim_step r;
 *     MBA_TRY(mba_sim_program(&r, s, program, &gpu, &(mba_sim_how){ .passes = MBA_STEP }));
 *     printf("%.1f ms\n", 1e3 * r.seconds);
 *     mba_sim_step_free(&r);
 *     mba_sim_destroy(s);
 *
 * The program is planned (never bound) for mba_gpu_for_plans of the same machine. Kernels that cannot be told apart, on
 * a machine whose numbers they cannot tell apart, are simulated once; unknown ones in parallel. The answer does not
 * depend on threads. */
#ifndef MBA_SIM_STEP_H
#define MBA_SIM_STEP_H

#include "core/program.h"
#include "sim/engine.h"

typedef struct mba_sim mba_sim;
MBA_MUST mba_status    mba_sim_create(mba_sim **out);
void                   mba_sim_destroy(mba_sim *s); /* NULL is fine */

typedef struct mba_sim_how {
    unsigned         passes;
    bool             cold;             /* L2 is swept before every node, as `bench op` does */
    bool             flush_per_launch; /* and before every launch, as for settled bytes (scope) */
    bool             with_elided;      /* run nodes too whose outputs another pass makes: each by itself */
    bool             stream;           /* launched one by one instead of as a captured graph */
    mba_sim_fidelity tier;             /* MBA_SIM_BOUNDS (0) stands for MBA_SIM_ONE_SM unless `bounds` */
    bool             bounds;
    bool             persistent; /* imagine every kernel with blocks that stay: mba_sim_persist */
    int64_t          load;       /* of 256: how busy tensor units are, if a walk has told; else it walks twice */
    int64_t          ring;       /* imagine every ring with so many stages; 0: as planned */
    /* Imagine that scratch of this name ("CB", "all") stays on the chip: what merging its maker and its readers could
     * save at most. */
    const char *keep;
    /* Told of every launch after the ledger, before it is simulated: may change the kernel. */
    void (*before_launch)(void *of, const mba_program *p, int32_t node, int launch, mba_sim_kernel *k);
    void *of;
} mba_sim_how;

/* Of one node: all its launches. */
typedef struct mba_sim_node {
    double seconds, kernels_s;             /* with the gaps between its launches; without */
    double dram_read, dram_write, floor_s; /* floor: by the longest bound of each launch */
    double busy[MBA_PIPES];                /* weighted by time */
    int    launches, limit;                /* limit: of its longest launch */
} mba_sim_node;

/* Of one launch of it. */
typedef struct mba_sim_launch {
    int32_t node;
    int     place, limit;
    double  seconds, dram_read, dram_write, floor_s;
    double  stored; /* different bytes written: they reach DRAM now or later */
} mba_sim_launch;

typedef struct mba_sim_step {
    double          seconds, kernels_s, resets_s, dram_read, dram_write;
    double          inputs_s;                 /* of `seconds`: inputs come from the host, in steps */
    int64_t         launches, unique, events; /* unique: simulated now, not remembered */
    int64_t         load;                     /* of 256: how busy tensor units were */
    mba_sim_node   *node;                     /* per node of the graph */
    mba_sim_launch *launch;                   /* `launches` of them, in order */
} mba_sim_step;

MBA_MUST mba_status mba_sim_program(mba_sim_step *out, mba_sim *s, const mba_program *p, const mba_gpu *m,
                                    const mba_sim_how *how);
void                mba_sim_step_free(mba_sim_step *r);

/* The least time by FLOPs, special functions and bytes of the data sheet alone: what is printed beside predictions. */
double mba_sim_roofline(const mba_node *n, const mba_gpu *m);

#endif
