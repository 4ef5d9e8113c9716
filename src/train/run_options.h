// SPDX-License-Identifier: Apache-2.0
/* run_options.h -- a model and its run by name, as people write them: fills the options of a session.
 *
 *     mba_model_options m = { .name = "mamba2-130m", .shape = { .batch = 8, .length = 2048 }, .device = "cuda" };
 *     mba_session_options so = { .backward = true };
 *     MBA_TRY(mba_model_options_apply(&m, &so));
 *
 * NULL and 0 stand for the default. Fails with MBA_E_ARG where a name or a value is not known. */
#ifndef MBA_TRAIN_RUN_OPTIONS_H
#define MBA_TRAIN_RUN_OPTIONS_H

#include "train/session.h"

typedef struct mba_model_options {
    const char     *name, *set, *recompute, *variants, *device, *precision;
    mba_batch_shape shape;
    int64_t         memory, threads;
    int             local_rank; /* of several ranks on this host: `cuda` is the GPU of this number */
} mba_model_options;

/* Sets the model of a session and all that mba_run_options_apply sets. */
MBA_MUST mba_status mba_model_options_apply(const mba_model_options *m, mba_session_options *o);

/* Device, precision, memory, recompute, variants and threads only: where the model comes from a checkpoint. */
MBA_MUST mba_status mba_run_options_apply(const mba_model_options *m, mba_session_options *o);

/* Sets the precision alone: "fp32", "tf32" or "bf16", the last two only on a GPU; NULL: bf16 there, otherwise fp32. */
MBA_MUST mba_status mba_precision_apply(const char *text, bool gpu, mba_session_options *o);

/* The word for it. */
const char *mba_precision_name(mba_dtype compute, bool tf32);

/* "--op conv1d=walk: the variant is now called persistent": an earlier name that was used, for people; NULL: none. */
const char *mba_run_options_renamed(void);

#endif
