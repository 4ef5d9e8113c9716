// SPDX-License-Identifier: Apache-2.0
/* gpu_profile.h -- profiles a training step on the GPU: times, timeline, counters, energy. The struct between the
 * gpu_*.c measurements and gpu_store.h, which writes it into a store.
 *
 *     mba_gpu_profile *g;
 *     mba_gpu_options o = { .steps = 5, .nsets = 1, .set = { mba_metric_set_find("overview") } };
 *     MBA_TRY(mba_gpu_collect(&g, program, &step, &o));
 *     MBA_TRY(mba_gpu_store(store, program, g, units));               // gpu_store.h
 *     mba_gpu_profile_free(g);
 *
 * The program must be bound to the CUDA device and its inputs filled. Parameters do not change: every step runs with a
 * learning rate of zero. Plain times come first, before CUPTI is loaded; then the timeline of captured steps,
 * graph-traced and kernel-traced; then every distinct kernel with counters, launched node by node once per group of
 * counters. What cannot be measured becomes a note, not a failure. Includes no CUDA. */
#ifndef MBA_SCOPE_GPU_PROFILE_H
#define MBA_SCOPE_GPU_PROFILE_H

#include "core/program.h"
#include "scope/correlate.h"
#include "scope/metrics.h"

enum { MBA_GPU_SETS_MAX = 8, MBA_GPU_NOTES_MAX = 24, MBA_GPU_STEPS_MAX = 1000, MBA_GPU_PLAIN_MIN = 5 };

typedef struct mba_gpu_options {
    int                   steps;      /* of the timeline; 0: none */
    bool                  steps_only; /* plain steps, `steps` of them at least, and nothing else */
    bool                  energy;     /* steps_only: their energy too */
    const mba_metric_set *set[MBA_GPU_SETS_MAX];
    int                   nsets;
    double                plain_s; /* seconds of plain steps, half before the timeline and half in it; 0: 1.2 */
    const char           *deep;    /* a kernel or operator to profile per instruction; NULL: none */
    const char           *near;    /* for deep: temporary files are placed beside this file */
    int64_t               blocks;  /* blocks recorded per kernel, evenly spaced; 0: none */
    int                   warmup;  /* steps before that, at least 3: the second is captured */
} mba_gpu_options;

/* A distinct kernel: launch `launch` of a plan, which nodes with the same shapes share. `node` is the first of them. */
typedef struct mba_gpu_kernel {
    const char *name;
    int32_t     node, launch, grid[3], block[3];
    int64_t     launches;                                 /* measured */
    double      value[MBA_GPU_SETS_MAX][MBA_METRICS_MAX]; /* mean of its launches; NaN: not measured */
    double      data_flops;                               /* mean data-dependent FLOPs; NaN: the plan is exact */
} mba_gpu_kernel;

/* A count of the instruction at `pc` of a kernel of this node. */
typedef struct mba_gpu_instruction {
    const char *symbol, *file, *metric;
    int32_t     node, line;
    uint32_t    pc;
    double      value;
} mba_gpu_instruction;

/* A block of launch `launch` of a node: its SM, and its times relative to the first block of the launch. */
typedef struct mba_gpu_block {
    int32_t node, launch, sm;
    int64_t block, start_ns, end_ns;
} mba_gpu_block;

/* Cold-L2 bytes of launch `launch` of a node. */
typedef struct mba_gpu_isolated {
    int32_t node, launch, grid[3];
    double  read, written;
} mba_gpu_isolated;

/* Tensor FLOPs that launch `launch` of a node issues with the data of the step. */
typedef struct mba_gpu_data {
    int32_t node, launch;
    double  tensor_flops;
} mba_gpu_data;

typedef struct mba_gpu_cost {
    const char *mode, *set;
    int         passes;
    double      seconds;
    int64_t     launches, kernels, dropped;
} mba_gpu_cost;
/* The GPU's state by the driver while a step ran, at the end of a phase; -1: not known. */
typedef struct mba_gpu_clock {
    const char *when;
    int         sm_mhz;
    double      power_w;
    unsigned    throttled;
} mba_gpu_clock;
typedef struct mba_gpu_note {
    const char *topic;
    char        text[512], fix[256];
} mba_gpu_note;

typedef struct mba_gpu_profile {
    mba_events           events; /* with step, node and launch; without the warm-up steps */
    mba_correlate_report link;
    double               plain_s[MBA_GPU_STEPS_MAX], timeline_s[MBA_GPU_STEPS_MAX], pass_s[MBA_GPU_SETS_MAX];
    double               whole_s[MBA_GPU_STEPS_MAX], record_s[MBA_GPU_STEPS_MAX]; /* graph-traced: by host, by record */
    double               queued_s[MBA_GPU_STEPS_MAX]; /* plain, queued back to back, as in training */
    int                  nplain, ntimeline, nwhole, nrecords, nqueued;
    int                  nbefore; /* plain steps before the timeline */
    mba_gpu_clock        clock[4];
    int                  nclocks;
    double               record_cost_s;      /* delay of the next kernel by tracing one; NaN: unknown */
    double               energy_j, energy_s; /* NaN: no meter */
    int                  energy_steps;
    mba_gpu_kernel      *kernel;
    int64_t              nkernels;
    mba_events           names; /* owns the names of kernels */
    mba_gpu_block       *block;
    int64_t              nblocks; /* at most options.blocks of a kernel */
    mba_gpu_isolated    *settled;
    int64_t              nsettled;
    mba_gpu_data        *data;
    int64_t              ndata;
    mba_gpu_instruction *instruction;
    int64_t              ninstructions, instructions_room;
    const mba_metric_set *set[MBA_GPU_SETS_MAX];
    int                   nsets; /* measured sets */
    mba_gpu_cost          cost[MBA_GPU_SETS_MAX + 9];
    int                   ncosts;
    mba_gpu_note          note[MBA_GPU_NOTES_MAX];
    int                   nnotes;
} mba_gpu_profile;

MBA_MUST mba_status mba_gpu_collect(mba_gpu_profile **out, mba_program *p, const mba_step *step,
                                    const mba_gpu_options *o);
void                mba_gpu_profile_free(mba_gpu_profile *g); /* NULL is fine */

/* The measurements, one file each. */
static inline double mba_gpu_plain_s(const mba_gpu_options *o) { return o->plain_s > 0 ? o->plain_s / 2 : 0.6; }
MBA_MUST mba_status  mba_gpu_run_step(mba_program *p, const mba_step *step,
                                      double *took_s); /* and waits; NULL is fine */
MBA_MUST mba_status  mba_gpu_time_unprofiled(mba_gpu_profile *g, mba_program *p, const mba_step *step, int least,
                                             double for_s);
MBA_MUST mba_status  mba_gpu_read_clocks(mba_gpu_profile *g, mba_program *p, const mba_step *step, const char *when);
MBA_MUST mba_status  mba_gpu_timeline(mba_gpu_profile *g, mba_program *p, const mba_step *step,
                                      const mba_gpu_options *o);
MBA_MUST mba_status  mba_gpu_counters(mba_gpu_profile *g, mba_program *p, const mba_step *step,
                                      const mba_gpu_options *o);
MBA_MUST mba_status  mba_gpu_look_at_data(mba_gpu_profile *g, mba_program *p, const mba_step *step);
double               mba_gpu_data_flops(const mba_gpu_profile *g, int32_t node, int32_t launch); /* NaN: see the plan */
MBA_MUST mba_status  mba_gpu_measure_isolated(mba_gpu_profile *g, mba_program *p, const mba_step *step);
MBA_MUST mba_status  mba_gpu_deep(mba_gpu_profile *g, mba_program *p, const mba_step *step, const char *kernel);
bool                 mba_gpu_deep_is(const mba_node *n, const mba_plan *plan, const char *kernel);
const char *mba_gpu_deep_only(const mba_node *n, const char *kernel); /* kernels whose name contains this; NULL: all */
MBA_MUST mba_status mba_gpu_instruction_add(mba_gpu_profile *g, const mba_gpu_instruction *i); /* copies names */
MBA_MUST mba_status mba_gpu_samples(mba_gpu_profile *g, const char *near);                     /* by a second process */
MBA_MUST mba_status mba_gpu_samples_read(mba_gpu_profile *g, const char *path);                /* what it left */
MBA_MUST mba_status mba_gpu_blocks(mba_gpu_profile *g, mba_program *p, const mba_step *step, int64_t most);
void mba_gpu_note_add(mba_gpu_profile *g, const char *topic, const char *text, const char *fix); /* a note */
void mba_gpu_note_failure(mba_gpu_profile *g, const char *topic); /* the last error as a note */

#endif
