// SPDX-License-Identifier: Apache-2.0
/* collect.h -- from a session that is ready to run to a store: who watches, and what every watcher writes first.
 *
 *     MBA_TRY(mba_session_bind(&session, 1));
 *     MBA_TRY(mba_store_create(&store, "run.db"));
 *     MBA_TRY(mba_collect(store, &session, &(mba_collect_options){ .steps = 5 }));
 *     MBA_TRY(mba_store_close(store));
 *
 * mba_collect writes what is known without watching (describe.h), then hands over to the collector of the device. A
 * collector writes tables kernel, event, counter, step, collection and, where it can, block, energy and instruction;
 * what it cannot get is a row in `note` with the line that would enable it, never a failure. */
#ifndef MBA_COLLECT_H
#define MBA_COLLECT_H

#include "device/cpu/ceilings.h"
#include "scope/store.h"
#include "train/session.h"

typedef struct mba_collect_options {
    int64_t             steps, warmup; /* watched, and run before; 0: 5 and 3 */
    const char         *sets;          /* counter sets, "overview,roofline"; NULL: all; "": none */
    const char         *deep;          /* this kernel instruction by instruction; NULL: none */
    int64_t             blocks;        /* lifetimes of so many blocks of a kernel, from inside our kernels; 0: none */
    const char         *command;       /* how the program was called, for the sheet; NULL: not known */
    mba_dtype           compute;       /* precision of the session; MBA_NONE: fp32 */
    const mba_ceilings *ceilings;      /* measured before, NULL: they are measured here */
} mba_collect_options;

/* What a collector gets: inputs are filled, the step may be run as often as it likes. */
typedef struct mba_collecting {
    mba_store                 *store;
    mba_session               *session;
    mba_step                   step;
    double                     units;   /* tokens, images or graphs of a step */
    const mba_collect_options *options; /* steps and warmup are > 0 */
} mba_collecting;

MBA_MUST mba_status mba_collect(mba_store *store, mba_session *s, const mba_collect_options *o);

/* The collectors. `nodes` works on every device: one event per node, by the host's clock or the device's own; on the
 * CPU with the counters of perf_event. `cuda` is the one with CUPTI: kernels, counters, blocks; a build or machine
 * without CUPTI writes a note and hands over to `nodes`. */
typedef mba_status mba_collect_fn(mba_collecting *c);
mba_collect_fn     mba_collect_nodes, mba_collect_cuda;

/* A process that only takes samples of instructions for another (gpu_samples.c): where to; NULL: this is none. */
const char         *mba_samples_wanted(void);
MBA_MUST mba_status mba_collect_samples(mba_collecting *c, const char *path);

/* Programs that are not ours: runs argv with the collection injected and writes the same tables (no node, operand,
 * launch). MBA_E_UNSUPPORTED where this build has no CUPTI. */
typedef struct mba_foreign_options {
    char *const *argv;          /* ends with NULL */
    double       skip_s;        /* warm-up left out: by time, */
    int64_t      skip_launches; /* by launches, */
    const char  *range;         /* or all that is not inside this NVTX range, */
    int64_t      skip_steps;    /* and its first entries */
    int64_t      launches;      /* watched at most; 0: to the end */
    const char  *sets, *rules;  /* counter sets; NULL: none. Rules file; NULL: the one built in */
    const char  *workload;      /* what it runs, as stores beside it call it; NULL: not known */
    double       units;         /* tokens of a step; 0: not known */
    const char  *command;
    void (*told)(int number); /* in a signal handler, once: the program will end, and what it left is stored; NULL */
} mba_foreign_options;

/* How it went, where it ran at all. */
typedef struct mba_foreign_end {
    int  code;        /* of the program, as a shell has it: 128 + signal */
    bool stored;      /* something was seen and is in the store */
    char story[1024]; /* lines for the terminal: how it ended, what is missing; "": nothing to say */
} mba_foreign_end;
MBA_MUST mba_status mba_collect_foreign(mba_store *store, const mba_foreign_options *o, mba_foreign_end *end);

#endif
