// SPDX-License-Identifier: Apache-2.0
/* profiled.h -- kernels with what they were counted to do on a GPU, to judge the simulator by. tools/kernel_points
 * makes the file and says what the columns are.
 *
 *     mba_profiled_set *d;
 *     MBA_TRY(mba_profiled_load(&d, NULL));                // what comes with the program, or the path of another set
 *     mba_profiled_apply(&kernel, &d->one[0], gpu);        // a lowered plan does what was counted, in the plan's order
 *     mba_profiled_destroy(d);
 *
 * A row holds counts and launch geometry; its time is what a prediction is compared with and never enters one. */
#ifndef MBA_SIM_PROFILED_H
#define MBA_SIM_PROFILED_H

#include "sim/kernel.h"
#include "sim/measured.h"
#include "sim/uncertainty.h"

typedef enum mba_profiled_metric {
    MBA_N_INST,
    MBA_N_MOST, /* instructions of the sub-partition that had most of them */
    MBA_N_ALU,
    MBA_N_FMA,
    MBA_N_HEAVY,
    MBA_N_LSU,
    MBA_N_XU,
    MBA_N_CBU,
    MBA_N_ADU,
    MBA_N_UNIFORM,
    MBA_N_SHARED_LD,
    MBA_N_SHARED_ST,
    MBA_N_GLOBAL_LD,
    MBA_N_GLOBAL_ST,
    MBA_N_LDSM,
    MBA_N_LDGSTS, /* of warps */
    MBA_N_TENSOR, /* FLOPs */
    MBA_N_SHARED_WF,
    MBA_N_LSU_WF, /* wavefronts of 128 bytes */
    MBA_N_L2_RD,
    MBA_N_L2_WR, /* sectors of 32 bytes */
    MBA_N_DRAM_RD,
    MBA_N_DRAM_WR, /* bytes */
    MBA_N_L1_LD,   /* sectors that global loads ask L1 for */
    MBA_N_L2_SUM,  /* sectors that L2 adds to */
    MBA_N_CODE,    /* instructions of the compiled kernel */
    MBA_N_PATH,    /* cycles of a lone warp per instruction, read in SASS */
    MBA_N_WAITS,   /* waits for global loads per such load, read in SASS */
    MBA_N_TAIL,    /* cycles of the few warps that a block ends with, read in SASS */
    MBA_N_TAIL_WAITS,
    MBA_N_PRODUCTS, /* of 100 instructions, products of tensor units, read in SASS */
    MBA_N_STEP,     /* as MBA_N_PATH, of a warp whose block walks through the code beside it, in step at barriers */
    MBA_N_BESIDE,   /* what each further block on the SM adds to that, when all of them do */
    MBA_N_BEHIND,   /* cycles of a block behind the fence of what it has stored, read in SASS; in tables that name it */
    MBA_N_KINDS
} mba_profiled_metric;

typedef struct mba_profiled_kernel {
    mba_point_set set;
    char          workload[160], op[48], variant[24], phase[16], kernel[192], shape[1024];
    int           place; /* of the launch in the operator's plan */
    double        launches, grid, block, cluster, regs, smem_bytes, n[MBA_N_KINDS], us;
    /* what a simulation said; 0: nobody has */
    double bound_us, planned_us, roofline_us, dram_rd, dram_wr, step_ms, between_us; /* step: of all of it */
    double tensor_us, floor_us; /* of bound_us, at least; by the limit alone */
    int    limit, met;          /* met: launches of plans that were this row */
    char  *program;             /* the plan's launch when it was measured (serialize.h); NULL: nobody wrote it down */
    bool   again;               /* an earlier workload has the same kernel at the same shape */
} mba_profiled_kernel;

typedef struct mba_profiled_set {
    mba_profiled_kernel *one;
    int                  n;
} mba_profiled_set;

MBA_MUST mba_status mba_profiled_load(mba_profiled_set **out, const char *path);
MBA_MUST mba_status mba_profiled_parse(mba_profiled_set **out, const char *where, const char *text, size_t bytes);
void                mba_profiled_destroy(mba_profiled_set *d); /* NULL is fine */

/* The plan's order of work with the counted amounts: instructions of every pipe, bytes of L2 and DRAM. */
void mba_profiled_apply(mba_sim_kernel *k, const mba_profiled_kernel *c, const mba_gpu *m);

/* Whether instructions, loads and bytes from DRAM were counted: what is known of a kernel that has no plan. */
bool mba_profiled_complete(const mba_profiled_kernel *c);

/* What was read in the code is not known of a kernel that a store has. */
void mba_profiled_drop_sass(mba_profiled_kernel *c);

/* A kernel that has no plan: its blocks as they were launched, loads some stages ahead of what is done with them.
 * MBA_E_UNSUPPORTED where not enough was counted. */
MBA_MUST mba_status mba_profiled_lower(mba_sim_kernel *out, const mba_profiled_kernel *c, const mba_gpu *m);

/* What a kernel's time is made of decides how well it is known: its limit, if that is more than half of it. */
typedef enum mba_sim_limiter {
    MBA_SIM_MEMORY,
    MBA_SIM_TENSOR,
    MBA_SIM_VECTOR,
    MBA_SIM_LATENCY,
    MBA_SIM_LIMITERS
} mba_sim_limiter;
extern const char *const mba_sim_causes[MBA_SIM_LIMITERS];
mba_sim_limiter          mba_sim_limiter_of(int limit, double floor_us, double us);

/* The band of a prediction from counts: 80 % of the fitted kernels of its class lie in it. Held-out kernels do as
 * `inside` of `held` says; they have no part in making it. Spreads of the machine's numbers are in it, for the machine
 * whose times these are. */
typedef struct mba_coverage {
    struct {
        int      fitted, held, inside;
        mba_band band;
    } of[MBA_SIM_LIMITERS];
    int held, inside;
} mba_coverage;
MBA_MUST mba_status mba_profiled_coverage(mba_coverage *out, const mba_profiled_set *d);

/* Scores of predictions, every kernel and shape once: from counts, or (`planned`) from plans alone. */
mba_error_stats mba_profiled_score(const mba_profiled_set *d, mba_point_set set, bool planned);

#endif
