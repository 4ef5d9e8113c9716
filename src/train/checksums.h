// SPDX-License-Identifier: Apache-2.0
/* checksums.h -- the checksums of a checkpoint's files, in a side file: formats that others read stay as they are.
 *
 *     MBA_TRY(mba_checksums_write("run/step-000006.partial", 6));           // before the folder gets its name
 *     MBA_TRY(mba_checksums_verify("run/step-000006", true));
 *
 *   checksums.json    { "step": 6, "files": { "config.json": { "bytes": 512, "algorithm": "xxh64", "value":
 *   "44bc2cf5ad770999" }, .. } }
 *
 * It covers every file of the folder but itself. */
#ifndef MBA_CHECKSUMS_H
#define MBA_CHECKSUMS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/status.h"

/* `step` below 0: the model alone, of no step. */
MBA_MUST mba_status mba_checksums_write(const char *folder, int64_t step);

/* MBA_E_FORMAT where a file is not the one that was written, or the folder is named after another step; its first line
 * has the file, what is expected and what is seen. `resumes` false: of the model and its tokenizer alone, the optimizer
 * is not read. A folder without checksums.json, of others or of older versions, is MBA_OK. */
MBA_MUST mba_status mba_checksums_verify(const char *folder, bool resumes);

#endif
