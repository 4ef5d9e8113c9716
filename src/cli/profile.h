// SPDX-License-Identifier: Apache-2.0
/* profile.h -- profiles a model: for `profile`, and for `suite`, which profiles five. */
#ifndef MBA_PROFILE_H
#define MBA_PROFILE_H

#include "cli/model_options.h"
#include "scope/collect.h"

/* Adds rows of the caller to a store that is still open. */
typedef mba_status mba_profile_more_fn(void *ctx, mba_store *s);

/* Profiles training steps of a model and writes the store `out`. o->compute is set here; `more` may be NULL. */
MBA_MUST mba_status mba_profile_model(const mba_model_options *m, const mba_collect_options *o, const char *out,
                                      mba_profile_more_fn *more, void *ctx);

/* Profiles an external program and writes the store `out`; the exit code of the program becomes ours. A program that
 * recorded nothing leaves no store. */
MBA_MUST mba_status mba_profile_program(const mba_foreign_options *o, const char *out, mba_profile_more_fn *more,
                                        void *ctx);

#endif
