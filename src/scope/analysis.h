// SPDX-License-Identifier: Apache-2.0
/* analysis.h -- derives every quantity of the tables and figures from the rows of a store, each under a named
 * convention.
 *
 *     mba_analysis *a;
 *     MBA_TRY(mba_analysis_create(&a, store));                  // the store must outlive it
 *     const mba_kernel_view *k = &a->kernel[0];
 *     printf("%s %g us\n", k->row->name, 1e6 * k->median_s);
 *     mba_analysis_destroy(a);
 *
 * Plain C over rows: no GPU, no CUDA. NaN means "not measured", never 0. Conventions (docs/store.md, "How it is read"):
 *   - an FMA is 2 FLOPs; tensor, vector (FP32, packed half) and special functions are counted separately;
 *   - least: what any implementation must do (the graph's cost); executed: what hardware counters saw;
 *   - vector work is counted by two rules: (a) arithmetic FLOPs, (b) issue slots of the lanes x 2;
 *   - percent of floor uses the times of the timeline, utilisation those of the counter run. */
#ifndef MBA_ANALYSIS_H
#define MBA_ANALYSIS_H

#include "core/op.h"
#include "scope/store.h"

/* forward, backward, update, not known */
enum { MBA_PHASES = 4, MBA_OTHER = MBA_KINDS, MBA_BREAKDOWN_KINDS = MBA_KINDS + 1 };
enum { MBA_STEPS_MAX = 4096 }; /* steps of a timeline; more is an error */

/* The four floors: the least time by each resource. */
typedef enum mba_floor { MBA_BY_MEMORY, MBA_BY_TENSOR, MBA_BY_VECTOR, MBA_BY_SPECIAL, MBA_FLOORS } mba_floor;

/* Work of one launch; bytes are DRAM bytes unless said otherwise. The least vector work of a planned launch is counted
 * as mba_counted.lane_flops is, because a lane takes as long for an add as for an FMA. */
typedef struct mba_work_counts {
    double tensor_flops, vector_flops, special_ops, bytes;
} mba_work_counts;

/* Hardware counters of one launch. */
typedef struct mba_counted {
    double time_s, clock_hz, sm_cycles;    /* sm_cycles: active, mean over SMs */
    double dram_bytes, l2_bytes, l1_bytes; /* l1: through the L1/shared data path */
    double tensor_flops, fp32_flops, half_flops, special_ops, lane_slots;
    /* the same instructions in time of the FMA lanes: 2 per instruction, 4 per packed one, though an add is one FLOP */
    double      lane_flops;
    double      dram_pct, l1_pct, tensor_pct, fma_pct, alu_pct, xu_pct, issue_pct;
    double      l1_hit_pct, l2_hit_pct, occupancy_pct, sectors_per_load, sectors_per_store;
    double      blocks, block_s; /* mean lifetime */
    const char *stall[2];        /* the two largest reasons, */
    double      stalled[2];      /* warps per issue */
} mba_counted;

typedef enum mba_kernel_class {
    MBA_CLASS_UNKNOWN,
    MBA_CLASS_TENSOR,
    MBA_CLASS_VECTOR,
    MBA_CLASS_MIXED,
    MBA_CLASS_COPY
} mba_kernel_class;
const char *mba_kernel_class_name(mba_kernel_class c);

typedef struct mba_kernel_view {
    const mba_row_kernel  *row;
    const mba_row_counter *counter;
    int64_t                ncounters; /* sorted by metric */
    int                    kind;      /* MBA_GEMM .., or MBA_OTHER */
    bool                   product;   /* a matrix product: class gemm, or a library product of the head (class loss) */
    int64_t                launches;  /* in the whole timeline */
    double                 per_step, step_s;              /* launches and time of one step */
    double                 median_s, p10_s, p90_s, gap_s; /* of one launch; gap_s: mean idle time before it */
    mba_work_counts        least;                         /* of one launch; NaN in external programs */
    mba_counted            counted;
    double                 floor_s[MBA_FLOORS], least_s; /* least_s: the floor */
    mba_floor              bound;                        /* by its floor */
    bool                   from_counters; /* the floor is that of executed work; least work is not known */
    /* the unit with the highest utilisation, and that utilisation; NULL: no counters */
    const char      *busiest;
    double           busiest_pct;
    mba_kernel_class cls;
    bool             cls_counted;      /* by counters; else by plan, rule or least work */
    double           ratio_a, ratio_b; /* tensor : vector FLOPs by rules (a) and (b); NaN without both */
} mba_kernel_view;

/* An operator in a phase, over the steps of the timeline. */
typedef struct mba_operator_view {
    const char *op;
    int         kind, phase;
    int64_t     events;
    double      per_step, median_s, spread_s; /* of a step; spread: quartile distance */
    double      least_s;
    double      step_s[]; /* per step */
} mba_operator_view;

/* Rates: the best known (measured before data sheet), and both. NaN: not known. */
typedef struct mba_rates {
    double dram, l2, l1, tensor, fma, special;
} mba_rates;

/* 10th percentile, median and 90th percentile of plain steps; of an external program, of steps with our library
 * attached; without those, of kernel-traced steps. With fewer than 11 steps, shortest and longest. how: which steps
 * they are. NaN: fewer than two. */
typedef struct mba_step_spread {
    double      low_s, median_s, high_s;
    int64_t     n;
    const char *how;
} mba_step_spread;

typedef struct mba_analysis {
    mba_store      *store;
    const char     *workload, *device, *unit;   /* "" if the sheet does not say */
    const char     *parameters, *batch;         /* parameter count and batch shape, as printed in Table I; "" */
    int64_t         steps;                      /* of the timeline */
    bool            steps_found, whole_program; /* external program without ranges: steps by a repeated loop; none */
    double          sms, l2_bytes;
    mba_rates       best, measured, sheet;
    double          plain_s, plain_spread_s, timeline_s, units; /* of a step, medians */
    mba_step_spread spread;
    /* graph-traced steps: by the host's clock, and by the record; what tracing one kernel costs; NaN: not measured */
    double whole_s, record_s, record_cost_s;
    double queued_s, records; /* plain, queued back to back; records per step of the timeline */
    double attached_s;        /* external program: our library attached, nothing recorded */
    /* of a step of the timeline; idle_s is without the cost of tracing, idle_seen_s with it */
    double              busy_s, idle_s, idle_seen_s;
    mba_kernel_view    *kernel;
    int64_t             nkernels;
    mba_operator_view **op;
    int                 nops; /* the longest first */
    /* of a step */
    double time_s[MBA_BREAKDOWN_KINDS][MBA_PHASES], launches[MBA_BREAKDOWN_KINDS][MBA_PHASES];
    double floor_s[MBA_BREAKDOWN_KINDS][MBA_PHASES];
    /* the rows themselves */
    mba_row_node               *node;
    int64_t                     nnodes;
    mba_row_launch             *launch;
    int64_t                     nlaunches;
    mba_row_counter            *counter;
    int64_t                     ncounters;
    mba_row_sheet              *sheet_row;
    int64_t                     nsheet;
    mba_row_note               *note;
    int64_t                     nnotes;
    struct mba_ranks           *ranks; /* of a store of several ranks (ranks.h); NULL: of one */
    struct mba_analysis *const *beside;
    int                         nbeside; /* for claims that need more than one store; the caller's */
} mba_analysis;

MBA_MUST mba_status mba_analysis_create(mba_analysis **out, mba_store *s);
void                mba_analysis_destroy(mba_analysis *a); /* NULL is fine */

const char *mba_step_word(const mba_analysis *a);        /* "step", or "whole program" where none are told apart */
const char *mba_breakdown_kind_name(int kind);           /* "gemm", .., "other" */
double      mba_kind_s(const mba_analysis *a, int kind); /* of a step, all phases */
double      mba_products_s(const mba_analysis *a);       /* of a step, in matrix products: class gemm and the head's */
double      mba_hardware_ratio(const mba_analysis *a);   /* tensor : vector FLOP/s, by the data sheet if known; NaN */
const char *mba_phase_name(int phase);                   /* "forward", .., "-" */
const char *mba_floor_name(mba_floor f);                 /* "memory", "tensor", "vector", "special" */
const char *mba_mode_words(const char *mode);            /* a mode of the tables step and collection, for readers */
const char *mba_env_find(const mba_analysis *a, const char *key);            /* text of the sheet; NULL */
double      mba_env_value(const mba_analysis *a, const char *key);           /* number of the sheet; NaN */
const char *mba_env_unit(const mba_analysis *a, const char *key);            /* its unit; "" */
double      mba_counter_value(const mba_kernel_view *k, const char *metric); /* NaN */

/* Stall reasons of a kernel: stalled warps per issue, the largest first. Names point into the rows and have `length`
 * characters. */
typedef struct mba_stall {
    const char *name;
    int         length;
    double      warps;
} mba_stall;
int mba_stalls_of(const mba_kernel_view *k, mba_stall *out, int room); /* how many */

/* ---- the timeline of one step ---- */

/* An event of a step, in the order of their start; start_s is since the first. kernel: an index of a->kernel, or -1.
 * layer: of its node; MBA_ABSENT where it belongs to none, or the store merged nodes that are alike. */
typedef struct mba_timeline_event {
    double      start_s, duration_s;
    int64_t     kernel, stream;
    int         kind, phase;
    const char *name, *scope;
    int64_t     layer;
} mba_timeline_event;
MBA_MUST mba_status mba_timeline_of(const mba_analysis *a, int64_t step, mba_timeline_event **out,
                                    int64_t *n); /* free(*out) */

/* ---- sums over kernels, per step ---- */

/* Which kernels a sum is over. */
typedef enum mba_group_of { MBA_ALL_KERNELS, MBA_SSM_KERNELS, MBA_GEMM_KERNELS, MBA_KERNEL_GROUPS } mba_group_of;
const char *mba_group_name(mba_group_of g);
bool        mba_in_group(const mba_kernel_view *k, mba_group_of g);

/* Intensity, FLOP/byte: {tensor, vector, both} x {DRAM, L2, L1} executed, and least FLOPs over least bytes. NaN where a
 * kernel of the group was not counted. */
typedef struct mba_intensity {
    double executed[3][3], least[3];
} mba_intensity;
mba_intensity mba_intensity_of(const mba_analysis *a, mba_group_of g);

/* DRAM bandwidth, byte/s: mean over launches, and all bytes over all time. `of_time`: the part of the group's time
 * that was counted. Where there are no counters, from the least bytes: a lower bound of what moved (`least` is
 * true). */
typedef struct mba_bandwidth {
    double mean, weighted, of_time;
    bool   least;
} mba_bandwidth;
mba_bandwidth mba_bandwidth_of(const mba_analysis *a, mba_group_of g);

/* Vector-bound share: the part, 0 to 1, of the time of mixed kernels that is spent in vector-bound ones, by each of
 * four counting rules. NaN: not measured. Rules (a) and (b) compare the work with the ratio of the hardware
 * (mba_hardware_ratio) and not with measured ceilings, because a power limit lowers the measured tensor rate alone. */
typedef struct mba_vector_bound {
    double floor_a, floor_b;   /* fewer tensor FLOPs per vector FLOP than the hardware has, rules (a) and (b) */
    double pipe_fma, pipe_any; /* FMA pipe (or the busiest of FMA, ALU, XU) busier than the tensor pipe */
    double mixed_s;            /* time of mixed kernels of a step */
} mba_vector_bound;
mba_vector_bound mba_vector_bound_of(const mba_analysis *a, mba_group_of g);

/* Part of the group's time in kernels bound by each resource, and the sum of floors over the sum of times. executed:
 * the least work of some kernels is not known (external program), so their floor is that of executed work. */
typedef struct mba_bounds {
    double share[MBA_FLOORS], percent_of_floor, time_s;
    bool   executed;
} mba_bounds;
mba_bounds mba_bounds_of(const mba_analysis *a, mba_group_of g);
double     mba_percent_of_least(const mba_analysis *a, mba_group_of g); /* NaN where the floor is of executed work */

#endif
