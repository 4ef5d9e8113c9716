// SPDX-License-Identifier: Apache-2.0
/* analysis.h -- what a store says: every quantity of the tables and figures, each under its named convention.
 *
 *     mba_analysis *a;
 *     MBA_TRY(mba_analysis_create(&a, store));                  // the store must outlive it
 *     const mba_kernel_view *k = &a->kernel[0];
 *     printf("%s %g us\n", k->row->name, 1e6 * k->median_s);
 *     mba_analysis_destroy(a);
 *
 * Plain C over rows: no GPU, no CUDA. NaN is "not measured", never 0. Conventions (docs/store.md, "How it is read"):
 *   - an FMA is 2 FLOPs; tensor, vector (FP32, packed half) and special functions are separate;
 *   - least: what any implementation must do (the graph's cost); executed: what counters saw;
 *   - vector work by two rules: (a) arithmetic FLOPs, (b) issue slots of the lanes x 2;
 *   - percent of floor uses the time of the timeline, utilisation that of the counter run. */
#ifndef MBA_ANALYSIS_H
#define MBA_ANALYSIS_H

#include "core/op.h"
#include "scope/store.h"

/* forward, backward, update, not known */
enum { MBA_PHASES = 4, MBA_OTHER = MBA_KINDS, MBA_BREAKDOWN_KINDS = MBA_KINDS + 1 };
enum { MBA_STEPS_MAX = 4096 }; /* steps of a timeline that are told apart */

/* The four floors: the least time by each resource. */
typedef enum mba_floor { MBA_BY_MEMORY, MBA_BY_TENSOR, MBA_BY_VECTOR, MBA_BY_SPECIAL, MBA_FLOORS } mba_floor;

/* Work of one launch; bytes are those of DRAM unless said otherwise. The least vector work of a planned launch is work
 * of the FMA lanes (mba_counted.lane_flops), for a lane takes as long for an add as for an FMA. */
typedef struct mba_work_counts {
    double tensor_flops, vector_flops, special_ops, bytes;
} mba_work_counts;

/* What counters saw of one launch. */
typedef struct mba_counted {
    double time_s, clock_hz, sm_cycles;    /* sm_cycles: active, mean over SMs */
    double dram_bytes, l2_bytes, l1_bytes; /* l1: through the L1/shared data path */
    double tensor_flops, fp32_flops, half_flops, special_ops, lane_slots;
    /* the same instructions as work of the FMA lanes: 2 an instruction, 4 a packed one, though an add is one FLOP */
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
    int64_t                ncounters;                     /* sorted by metric */
    int                    kind;                          /* MBA_GEMM .., or MBA_OTHER */
    int64_t                launches;                      /* on the whole timeline */
    double                 per_step, step_s;              /* launches and time of one step */
    double                 median_s, p10_s, p90_s, gap_s; /* of one launch; gap_s: mean idle time in front of it */
    mba_work_counts        least;                         /* of one launch; NaN in foreign programs */
    mba_counted            counted;
    double                 floor_s[MBA_FLOORS], least_s; /* least_s: the floor */
    mba_floor              bound;                        /* by its floor */
    bool                   from_counters; /* the floor is of executed work, because the least is not known */
    /* the unit with the highest utilisation, and how high; NULL: no counters */
    const char      *busiest;
    double           busiest_pct;
    mba_kernel_class cls;
    bool             cls_counted;      /* proved by counters; else by plan, rule or least work */
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

/* Steps that nobody recorded (of another program: with our library in it; else those of the timeline): 10th percentile,
 * median, 90th. Of fewer than 11 steps the shortest and the longest. how: which they are. NaN: fewer than two. */
typedef struct mba_step_spread {
    double      low_s, median_s, high_s;
    int64_t     n;
    const char *how;
} mba_step_spread;

typedef struct mba_analysis {
    mba_store  *store;
    const char *workload, *device, *unit;   /* "" where the sheet does not say */
    const char *parameters, *batch;         /* values it learns, shape of a batch, as Table I words them; "" */
    int64_t     steps;                      /* of the timeline */
    bool        steps_found, whole_program; /* of a foreign program without ranges: a loop was found, or is all one */
    double      sms, l2_bytes;
    mba_rates   best, measured, sheet;
    double      plain_s, plain_spread_s, timeline_s, units; /* of a step, medians */
    mba_step_spread spread;
    /* recorded as a whole: by the host's clock, and the record; what a record of a kernel costs; NaN: not measured */
    double whole_s, record_s, record_cost_s;
    double queued_s, records; /* unwatched, one behind the other; records of a step in the timeline */
    double attached_s;        /* of a foreign program: our library in it, nothing recorded */
    /* of a step of the timeline; idle_s is less what records cost, idle_seen_s as they have it */
    double              busy_s, idle_s, idle_seen_s;
    mba_kernel_view    *kernel;
    int64_t             nkernels;
    mba_operator_view **op;
    int                 nops; /* the longest first */
    /* of a step */
    double time_s[MBA_BREAKDOWN_KINDS][MBA_PHASES], launches[MBA_BREAKDOWN_KINDS][MBA_PHASES];
    double floor_s[MBA_BREAKDOWN_KINDS][MBA_PHASES];
    /* rows, for who wants more */
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
    struct mba_analysis *const *beside;
    int                         nbeside; /* for claims that need more than one store; the caller's */
} mba_analysis;

MBA_MUST mba_status mba_analysis_create(mba_analysis **out, mba_store *s);
void                mba_analysis_destroy(mba_analysis *a); /* NULL is fine */

const char *mba_step_word(const mba_analysis *a); /* "step", or "whole program" where none are told apart */
const char *mba_breakdown_kind_name(int kind);    /* "gemm", .., "other" */
const char *mba_mode_words(const char *mode);     /* a mode of the tables step and collection, for readers */
const char *mba_phase_name(int phase);            /* "forward", .., "-" */
const char *mba_floor_name(mba_floor f);          /* "memory", "tensor", "vector", "special" */
const char *mba_env_find(const mba_analysis *a, const char *key);            /* text of the sheet; NULL */
double      mba_env_value(const mba_analysis *a, const char *key);           /* number of the sheet; NaN */
const char *mba_env_unit(const mba_analysis *a, const char *key);            /* its unit; "" */
double      mba_counter_value(const mba_kernel_view *k, const char *metric); /* NaN */

/* Why the warps of a kernel wait: warps per issue by reason, the largest first. The names are lent, of `length`
 * characters. */
typedef struct mba_stall {
    const char *name;
    int         length;
    double      warps;
} mba_stall;
int mba_stalls_of(const mba_kernel_view *k, mba_stall *out, int room); /* how many */

/* ---- the timeline of one step ---- */

/* An event of a step, in the order of their start; start_s is since the first. kernel: an index of a->kernel, or -1. */
typedef struct mba_timeline_event {
    double      start_s, duration_s;
    int64_t     kernel, stream;
    int         kind, phase;
    const char *name, *scope;
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

/* Part of the time of mixed kernels that belongs to vector-bound ones, 0 .. 1, by each reading. NaN: not measured. */
typedef struct mba_vector_bound {
    double floor_a, floor_b;   /* vector floor above tensor floor, rules (a) and (b) */
    double pipe_fma, pipe_any; /* FMA pipe (or the busiest of FMA, ALU, XU) busier than the tensor pipe */
    double mixed_s;            /* time of mixed kernels of a step */
} mba_vector_bound;
mba_vector_bound mba_vector_bound_of(const mba_analysis *a, mba_group_of g);

/* Part of the group's time in kernels whose floor is by each resource, and the floor of all over the time of all.
 * executed: for some of it the least work is not known (a foreign program), and the floor is of what ran. */
typedef struct mba_bounds {
    double share[MBA_FLOORS], percent_of_floor, time_s;
    bool   executed;
} mba_bounds;
mba_bounds mba_bounds_of(const mba_analysis *a, mba_group_of g);
double     mba_percent_of_least(const mba_analysis *a, mba_group_of g); /* NaN where the floor is of executed work */

/* ---- claims of the study ---- */
enum { MBA_CLAIMS = 11, MBA_BESIDE_MAX = 23 }; /* all that a page has but one */
/* Not applicable: the claim is about SSM kernels, and the program has none. */
typedef enum mba_verdict {
    MBA_OPEN,
    MBA_REPRODUCED,
    MBA_REFUTED,
    MBA_DEPENDS,
    MBA_NOT_APPLICABLE,
    MBA_VERDICTS
} mba_verdict;
typedef struct mba_claim {
    const char *id, *claim, *target;
    mba_verdict verdict;
    char        measured[256], needs[192];
} mba_claim;
const char *mba_verdict_name(mba_verdict v);
/* Some claims need other stores beside this one (a->beside): another variant (F5), other sizes (F9), the other Mamba
 * (F10). */
void mba_claims_judge(const mba_analysis *a, mba_claim out[MBA_CLAIMS]);

#endif
