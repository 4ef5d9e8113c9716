// SPDX-License-Identifier: Apache-2.0
/* library.h -- opens NVIDIA's libraries when they are first needed: hundreds of megabytes that a run on the CPU or
 * `--help` should not load, and that need not be installed.
 *
 *     #define FUNCTIONS(X) X(cublasLtCreate) X(cublasLtMatmul)
 *     typedef struct functions { FUNCTIONS(MBA_LIBRARY_FIELD) } functions;
 *     #define ENTRY(f) MBA_LIBRARY_ENTRY(functions, f)
 *     const mba_library_name names[] = { FUNCTIONS(ENTRY) { NULL, 0 } };
 *     functions lt;
 *     MBA_TRY(mba_library_open("libcublasLt.so.13", names, &lt));          // fills the table, or returns an error
 */
#ifndef MBA_CUDA_LIBRARY_H
#define MBA_CUDA_LIBRARY_H

#include <stddef.h>

#include "core/status.h"

typedef struct mba_library_name {
    const char *name;
    size_t      field;
} mba_library_name;

#define MBA_LIBRARY_FIELD(f)        __typeof__(&f) f;
#define MBA_LIBRARY_ENTRY(table, f) { #f, offsetof(table, f) },

MBA_MUST mba_status mba_library_open(const char *file, const mba_library_name *names, void *table);

#endif
