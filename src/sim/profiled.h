// SPDX-License-Identifier: Apache-2.0
/* profiled.h -- kernels with their hardware counters: profile-driven predictions, and the set that validates them.
 * tools/kernel_points makes the table and defines its columns.
 *
 *     mba_profiled_set *d;
 *     MBA_TRY(mba_profiled_load(&d, NULL));                // NULL: the built-in set; else a path
 *     mba_profiled_apply(&kernel, &d->one[0], gpu);         // counted amounts of work, in the order of the plan
 *     mba_profiled_destroy(d);
 *
 * A row holds counters and launch geometry. Its measured time is only compared with predictions and never enters one.
 * profiled.c reads and scores sets, profiled_apply.c turns counters into a mba_sim_kernel. */
#ifndef MBA_SIM_PROFILED_H
#define MBA_SIM_PROFILED_H

#include "sim/kernel.h"
#include "sim/measured.h"
#include "sim/uncertainty.h"

typedef enum mba_profiled_metric {
    MBA_N_INST,
    MBA_N_MOST, /* instructions of the busiest sub-partition */
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
    MBA_N_LDGSTS, /* up to here: warp instructions */
    MBA_N_TENSOR, /* FLOPs */
    MBA_N_SHARED_WF,
    MBA_N_LSU_WF, /* wavefronts of 128 bytes */
    MBA_N_L2_RD,
    MBA_N_L2_WR, /* sectors of 32 bytes */
    MBA_N_DRAM_RD,
    MBA_N_DRAM_WR,    /* bytes */
    MBA_N_L1_LD,      /* sectors that global loads request from L1 */
    MBA_N_L2_SUM,     /* sectors of reductions in L2 (red, atom) */
    MBA_N_CODE,       /* instructions of the compiled kernel; from here on read in SASS */
    MBA_N_PATH,       /* cycles per instruction of a warp that runs alone */
    MBA_N_WAITS,      /* waits for global loads per global load */
    MBA_N_TAIL,       /* cycles behind the last barrier, when only few warps of the block still work */
    MBA_N_TAIL_WAITS, /* waits for global loads in the tail */
    MBA_N_PRODUCTS,   /* tensor instructions, percent of all */
    MBA_N_STEP,       /* as MBA_N_PATH, for a warp that runs with the other warps of its block, in step at barriers */
    MBA_N_BESIDE,     /* cycles that each further block on the SM adds to MBA_N_STEP */
    MBA_N_BEHIND,     /* cycles of a block behind the fence of its stores; an optional column */
    MBA_N_KINDS
} mba_profiled_metric;

typedef struct mba_profiled_kernel {
    mba_point_set set;
    char          workload[160], op[48], variant[24], phase[16], kernel[192], shape[1024];
    int           place; /* index of the launch in the operator's plan */
    double        launches, grid, block, cluster, regs, smem_bytes, n[MBA_N_KINDS], us; /* n: NaN if not counted */
    /* Predictions; 0: none. bound_us: profile-driven; planned_us: by today's plan; known_us: by today's plan and the
     * counters of other workloads; step_ms: of the whole step. */
    double bound_us, planned_us, known_us, roofline_us, dram_rd, dram_wr, step_ms, between_us;
    double tensor_us, floor_us; /* parts of bound_us: tensor time; largest bound */
    int    limit, met;          /* met: launches of plans that matched this row */
    char  *program;             /* the serialized kernel of the plan when it was measured (serialize.h); NULL: none */
    double like_blocks, like_trips; /* blocks, and trips of their loops, against those of `program`, which is the plan
                                       of another launch of the kernel; 0: it is its own */
    bool   again;                   /* an earlier row has the same kernel at the same shape */
} mba_profiled_kernel;

typedef struct mba_profiled_set {
    mba_profiled_kernel *one;
    int                  n;
} mba_profiled_set;

MBA_MUST mba_status mba_profiled_load(mba_profiled_set **out, const char *path);
MBA_MUST mba_status mba_profiled_parse(mba_profiled_set **out, const char *where, const char *text, size_t bytes);
void                mba_profiled_destroy(mba_profiled_set *d); /* NULL is fine */

/* Replaces the amounts of work of a lowered plan by the counted ones: instructions of every pipe, bytes of L2 and DRAM.
 * The order of work stays that of the plan. Counters that no kernel of this machine can have leave the plan alone. */
void mba_profiled_apply(mba_sim_kernel *k, const mba_profiled_kernel *c, const mba_gpu *m);

/* True if instructions, global loads and DRAM reads were counted: what mba_profiled_lower needs. */
bool mba_profiled_complete(const mba_profiled_kernel *c);

/* Removes what was read in SASS, as for a kernel of a store that has only counters. */
void mba_profiled_drop_sass(mba_profiled_kernel *c);

/* Takes the launch plan and what was read in SASS from the launch in `known` of the kernel of the same name, with as
 * many threads, that executes most nearly the same instructions per warp, in number and mix, if possible with as many
 * registers. The plan is stretched to the counted blocks and instructions. `program` belongs to the caller. False:
 * there is none, and nothing changes. */
bool mba_profiled_resemble(mba_profiled_kernel *c, const mba_profiled_set *known);

/* A kernel without a plan, from counters alone: its blocks as they were launched, with loads some stages ahead of their
 * use. MBA_E_UNSUPPORTED if mba_profiled_complete is false. */
MBA_MUST mba_status mba_profiled_lower(mba_sim_kernel *out, const mba_profiled_kernel *c, const mba_gpu *m);

/* Classes of kernels for error bands: the resource of the largest bound if that is more than half of the predicted
 * time, else latency. */
typedef enum mba_sim_limiter {
    MBA_SIM_MEMORY,
    MBA_SIM_TENSOR,
    MBA_SIM_VECTOR,
    MBA_SIM_LATENCY,
    MBA_SIM_LIMITERS
} mba_sim_limiter;
extern const char *const mba_sim_causes[MBA_SIM_LIMITERS];
mba_sim_limiter          mba_sim_limiter_of(int limit, double floor_us, double us);

/* The error band of profile-driven predictions, per class: 80 % of the held-out kernels lie in it, for constants were
 * fitted to the others. `inside` of `held` lie in the band that those of other workloads make. The band includes the
 * uncertainty of the machine's numbers, for the machine on which the times were measured. */
typedef struct mba_coverage {
    struct {
        int      fitted, held, inside;
        mba_band band;
    } of[MBA_SIM_LIMITERS];
    int held, inside;
} mba_coverage;
MBA_MUST mba_status mba_profiled_coverage(mba_coverage *out, const mba_profiled_set *d);

/* Errors of the profile-driven or (`planned`) plan-driven predictions of a set; each kernel and shape counts once. */
mba_error_stats mba_profiled_score(const mba_profiled_set *d, mba_point_set set, bool planned);

#endif
