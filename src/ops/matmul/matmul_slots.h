// SPDX-License-Identifier: Apache-2.0
/* matmul_slots.h -- what the files of matmul share: slots by name, attributes and the declarations of variants. */
#ifndef MBA_MATMUL_SLOTS_H
#define MBA_MATMUL_SLOTS_H

#include "core/op.h"

enum { A, B, BIAS };
enum { C };
typedef struct matmul_attr {
    int       ta, tb;
    mba_dtype out;
} matmul_attr; /* ta: A is stored transposed */
typedef struct matmul_dims {
    int64_t m, n, k;
} matmul_dims;

matmul_dims matmul_dims_of(const mba_node *n);

void matmul_ref(const mba_ref_call *c);
MBA_CPU_DECLARE(matmul_fwd);
mba_launch_fn matmul_cuda, matmul_unsplit_cuda, matmul_unaligned_cuda, matmul_tiles_cuda;

#endif
