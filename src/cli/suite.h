// SPDX-License-Identifier: Apache-2.0
/* suite.h -- the parts of the suite and its summary: one store per part, which says how it was made.
 *
 * A part profiles a training step of a workload and trains a smaller model of the same family. On a GPU, --full adds
 * parts in groups: baseline (the study's division into kernels), persistent, bc_fused, sizes, and mamba_ssm, a program
 * of others that is profiled by injection. A child process
 * writes a part's store under a temporary name; the store gets its final name when it is complete. Its environment
 * table has the part's options (`suite.part`, `suite.options`), so that a store of another call or another machine
 * counts once it is copied into the folder. */
#ifndef MBA_CLI_SUITE_H
#define MBA_CLI_SUITE_H

#include "cli/model_options.h"

enum { MBA_SUITE_PARTS_MAX = 40 };

/* What determines the parts. Zero and NULL: not given; mba_suite_defaults fills them in. */
typedef struct mba_suite_options {
    const char *scale, *device; /* "tiny", "quick", "full"; "cpu", "cuda", "cuda:1" */
    int64_t     length, repeats, steps, threads;
} mba_suite_options;

typedef struct mba_suite_part {
    char              name[32];           /* of its store, DIR/<name>.db */
    const char       *workload;           /* "mamba2": one of the five */
    const char       *group;              /* "baseline", "sizes", ..; NULL: the workload's main store */
    mba_model_options model;              /* the step that is profiled */
    int64_t           steps, train_steps; /* profiled; of the small model, 0: none is trained */
    const char       *sets;               /* counter sets; NULL: all */
    bool              steps_only;         /* step times and nothing else */
    bool              peer;               /* mamba_ssm's step, by tools/peers/train_nvtx.py */
    int64_t           layers;             /* peer: fewer layers than the model has; 0: all */
    const char       *small;              /* fields of the small model */
    mba_batch_shape   batch;              /* of the small model */
    double            lr, expect_s;       /* expect_s: on the machine where the suite was timed */
} mba_suite_part;

void mba_suite_defaults(mba_suite_options *o); /* all but the device */
/* Writes the parts, main ones first; returns their number. `o` must be complete. */
int mba_suite_plan(mba_suite_part part[MBA_SUITE_PARTS_MAX], const mba_suite_options *o);
/* Whether a part can run here: false for mamba_ssm where Python does not find it; `why` says what is missing. Runs
 * Python for a moment. */
bool mba_suite_part_possible(const mba_suite_part *p, char *why, size_t room);
/* All options that determine what a part measures: "profile --model .. ; train --set ..". */
void mba_suite_part_words(char *text, size_t room, const mba_suite_part *p);

/* Writes the store of a part to `path`. If this device cannot train the small model, the store has a note; the part
 * does not fail. */
MBA_MUST mba_status mba_suite_part_make(const mba_suite_part *p, const mba_suite_options *o, const char *path);

/* The state of a part's store. */
typedef enum mba_suite_state {
    MBA_PART_ABSENT,
    MBA_PART_DONE,
    MBA_PART_OTHER,
    MBA_PART_STRANGE,
    MBA_PART_BROKEN
} mba_suite_state; /* OTHER: made with other options; STRANGE: a store, but not of the suite */
/* OTHER: `have` gets the options of the store. BROKEN: mba_message() says why. Fails without memory or after a read
 * error, which say nothing about the store. */
MBA_MUST mba_status mba_suite_part_look(mba_suite_state *is, const mba_suite_part *p, const char *path, char *have,
                                        size_t room);

/* Prints tables and ten lines of summary, and writes report.html and summary.json. The first `shown` of `n` stores get
 * their own sections; comparisons show all. A store that cannot be read is reported and left out. `json`: stdout gets
 * only the tables, as JSON. */
MBA_MUST mba_status mba_suite_summary(const char *out, const char *const *path, int n, int shown, bool json);

#endif
