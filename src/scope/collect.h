// SPDX-License-Identifier: Apache-2.0
/* collect.h -- profiles a bound session into a store: the interface of `profile` and of the collectors.
 *
 *     MBA_TRY(mba_session_bind(&session, 1));
 *     MBA_TRY(mba_store_create(&store, "run.db"));
 *     MBA_TRY(mba_collect(store, &session, &(mba_collect_options){ .steps = 5 }));
 *     MBA_TRY(mba_store_close(store));
 *
 * mba_collect writes what is known without measuring (describe.h), then calls the collector of the device. A collector
 * writes the tables kernel, event, counter, step, collection and, if it can, block, energy and instruction. What it
 * cannot measure becomes a row in `note` with the line that would enable it, never a failure. */
#ifndef MBA_COLLECT_H
#define MBA_COLLECT_H

#include "device/cpu/ceilings.h"
#include "scope/store.h"
#include "train/session.h"

typedef struct mba_collect_options {
    int64_t             steps, warmup; /* measured steps, and steps before them; 0: 5 and 3 */
    const char         *sets;          /* counter sets, "overview,roofline"; NULL: all; "": none */
    bool                steps_only;    /* CUDA: step times without ceilings, energy, timeline and counters */
    double              power_limit_w; /* CUDA: step times and energy under this power limit; 0: as it is */
    const char         *deep;          /* profile this kernel per instruction; NULL: none */
    int64_t             blocks;        /* record lifetimes of this many blocks per kernel, by our kernels; 0: none */
    const char         *command;       /* the command line, for the sheet; NULL: not known */
    mba_dtype           compute;       /* precision of the session; MBA_NONE: fp32 */
    const mba_ceilings *ceilings;      /* measured earlier; NULL: measure them here */
} mba_collect_options;

/* The input of a collector: inputs are filled, and the step can run any number of times. */
typedef struct mba_collecting {
    mba_store                 *store;
    mba_session               *session;
    mba_step                   step;
    double                     units;   /* tokens, images or graphs of a step */
    const mba_collect_options *options; /* steps and warmup are > 0 */
} mba_collecting;

MBA_MUST mba_status mba_collect(mba_store *store, mba_session *s, const mba_collect_options *o);

/* The collectors. `nodes` works on every device: one event per node, by the clock of the host or of the device; on the
 * CPU also the counters of perf_event. `cuda` uses CUPTI: kernels, counters, blocks; without CUPTI it writes a note and
 * calls `nodes`. */
typedef mba_status mba_collect_fn(mba_collecting *c);
mba_collect_fn     mba_collect_nodes, mba_collect_cuda;

/* The output path if this process only collects instruction samples for another one (gpu_samples.c); else NULL. */
const char         *mba_samples_wanted(void);
MBA_MUST mba_status mba_collect_samples(mba_collecting *c, const char *path);

/* External programs: runs argv with our library injected and writes the same tables, except node, operand and launch.
 * MBA_E_UNSUPPORTED if this build has no CUPTI. */
typedef struct mba_foreign_options {
    char *const *argv;          /* ends with NULL */
    double       skip_s;        /* warm-up to skip: seconds, */
    int64_t      skip_launches; /* or launches, */
    const char  *range;         /* or everything outside of this NVTX range, */
    int64_t      skip_steps;    /* and the first entries of that range */
    int64_t      launches;      /* recorded at most; 0: to the end */
    const char  *sets, *rules;  /* counter sets; NULL: none. Rules file; NULL: the built-in one */
    const char  *workload;      /* its workload, as other stores name it; NULL: not known */
    double       units;         /* tokens of a step; 0: not known */
    const char  *command;
    void (*told)(int number); /* called once, in the signal handler that ends the program; may be NULL */
} mba_foreign_options;

/* How the program ended, if it ran. */
typedef struct mba_foreign_end {
    int  code;        /* exit code, as in a shell: 128 + signal */
    bool stored;      /* events were recorded and are in the store */
    char story[1024]; /* lines for the terminal: how it ended, what is missing; may be "" */
} mba_foreign_end;
MBA_MUST mba_status mba_collect_foreign(mba_store *store, const mba_foreign_options *o, mba_foreign_end *end);

#endif
