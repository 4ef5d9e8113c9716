// SPDX-License-Identifier: Apache-2.0
/* suite.h -- what the suite consists of, and how it ends: one store per part, and the store itself says how it was
 * made.
 *
 * A part is a training step that is watched and a small relative of the model that is trained. It is made by a process
 * of its own under another name; its store gets its name when it is complete, and carries the part's options in its
 * sheet (`suite.part`, `suite.options`), so that a part made by another call or on another machine counts: copying the
 * store is all it takes. */
#ifndef MBA_CLI_SUITE_H
#define MBA_CLI_SUITE_H

#include "cli/model_options.h"

enum { MBA_SUITE_PARTS_MAX = 24 };

/* What determines the parts. Zero and NULL: not given; mba_suite_defaults fills them in. */
typedef struct mba_suite_options {
    const char *scale, *device; /* "tiny", "quick", "full"; "cpu", "cuda", "cuda:1" */
    int64_t     length, repeats, steps, threads;
} mba_suite_options;

typedef struct mba_suite_part {
    char              name[32];           /* of its store, DIR/<name>.db */
    const char       *workload;           /* "mamba2": which of the five it belongs to */
    bool              aside;              /* not the workload's main store: another variant or size */
    mba_model_options model;              /* the step that is profiled */
    int64_t           steps, train_steps; /* profiled; of the small model, 0: none is trained */
    const char       *sets;               /* counter sets; NULL: all; "": the timeline only */
    const char       *small;              /* fields of the small model */
    mba_batch_shape   batch;              /* of the small model */
    double            lr, expect_s;       /* expect_s: on the machine where the suite was timed */
} mba_suite_part;

void mba_suite_defaults(mba_suite_options *o); /* all but the device */
/* The parts, main ones first; how many. Options must be complete. */
int mba_suite_plan(mba_suite_part part[MBA_SUITE_PARTS_MAX], const mba_suite_options *o);
/* All options that determine what a part measures: "profile --model .. ; train --set ..". */
void mba_suite_part_words(char *text, size_t room, const mba_suite_part *p);

/* Writes the store of a part to `path`. If this device cannot train the small model, the store has a note; the part
 * does not fail. */
MBA_MUST mba_status mba_suite_part_make(const mba_suite_part *p, const mba_suite_options *o, const char *path);

/* What a part's store is. */
typedef enum mba_suite_state {
    MBA_PART_ABSENT,
    MBA_PART_DONE,
    MBA_PART_OTHER,
    MBA_PART_STRANGE,
    MBA_PART_BROKEN
} mba_suite_state; /* OTHER: other options; STRANGE: a store, but not the suite's */
/* `have` gets the options of a store that has other ones; after BROKEN, mba_message() says why. Fails where a store
 * cannot be looked at for lack of memory or by an error of input, which says nothing about the store. */
MBA_MUST mba_status mba_suite_part_look(mba_suite_state *is, const mba_suite_part *p, const char *path, char *have,
                                        size_t room);

/* From stores to tables on the terminal, report.html, summary.json and ten lines. Of `n` stores the first `shown` get
 * sections of their own and the others stand beside them. A store that cannot be read is told and left out. `json`: the
 * tables as JSON on stdout, and nothing else there. */
MBA_MUST mba_status mba_suite_summary(const char *out, const char *const *path, int n, int shown, bool json);

#endif
