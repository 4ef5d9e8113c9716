// SPDX-License-Identifier: Apache-2.0
/* checksums.h -- checksums of a checkpoint's files, in a file beside them, so that public formats stay unchanged.
 *
 *     MBA_TRY(mba_checksums_write("run/step-000006.partial", 6));           // before the folder gets its name
 *     MBA_TRY(mba_checksums_verify("run/step-000006", true));
 *
 *   checksums.json    { "step": 6, "files": { "config.json": { "bytes": 512, "algorithm": "xxh64",
 *                                                              "value": "44bc2cf5ad770999" }, .. } }
 *
 * It covers every file of the folder except itself. */
#ifndef MBA_CHECKSUMS_H
#define MBA_CHECKSUMS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/status.h"

/* A negative `step`: the folder holds a model without the state of a run. */
MBA_MUST mba_status mba_checksums_write(const char *folder, int64_t step);

/* Fails with MBA_E_FORMAT if a file differs from what was written, or the folder has the name of another step. The
 * first line of the message names the file, the expected and the actual value. If `resumes` is false, only the model
 * and its tokenizer are checked, not the optimizer. A folder without checksums.json (from other programs) is MBA_OK. */
MBA_MUST mba_status mba_checksums_verify(const char *folder, bool resumes);

#endif
