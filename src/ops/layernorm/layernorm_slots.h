// SPDX-License-Identifier: Apache-2.0
/* layernorm_slots.h -- what the files of layernorm share: slots by name, attributes and the declarations of
 * variants. */
#ifndef MBA_LAYERNORM_SLOTS_H
#define MBA_LAYERNORM_SLOTS_H

#include "ops/norm_plan.h"
#include "ops/rows.h"

enum { X, W, B }; /* forward: in, out */
enum { Y, MEAN, RSTD };
enum { DY, XB, WB, MEANB, RSTDB }; /* backward: in, out */
enum { DX, DW, DB };

typedef struct layernorm_attr {
    float eps;
} layernorm_attr;

/* How threads share rows on CUDA: fewest idle threads, then most vectors per thread. Rows of MambaVision have 320 and
 * 640 values: five vectors of 8 (forward, bf16) for each of 8 and 16 threads, or of 4 (backward, whose sums stay in
 * registers) for each of 16 and 32. vectors is 0 if rows do not fit. */
enum { LAYERNORM_THREADS = 256, LAYERNORM_VECTORS = 5, LAYERNORM_BWD_WIDTH = 4, LAYERNORM_STAGES = 3 };

static inline mba__thread_group layernorm_threads(int64_t cols, int width)
{
    mba__thread_group best = { width, 0, 0 };
    for (int n = cols % width ? 0 : LAYERNORM_VECTORS; n >= 1; n--) {
        const int64_t need = mba_ceil(cols / width, n);
        int64_t       threads = n > 1 ? 8 : 1; // fewer adjacent threads would waste parts of sectors
        while (threads < need && threads < 32) threads *= 2;
        if (need > 32) threads = mba_ceil(need, 32) * 32;
        if (threads > LAYERNORM_THREADS || (best.vectors && threads * n >= best.threads * best.vectors)) continue;
        best.vectors = n;
        best.threads = (int)threads;
    }
    return best;
}

static inline mba__thread_group layernorm_fwd_group(const mba_tensor *x)
{
    return layernorm_threads(mba_cols(x), 16 / (int)mba_dtype_bytes(x->type.dtype));
}
static inline mba__thread_group layernorm_bwd_group(const mba_tensor *x)
{
    return layernorm_threads(mba_cols(x), LAYERNORM_BWD_WIDTH);
}

void layernorm_ref(const mba_ref_call *c);
void layernorm_bwd_ref(const mba_ref_call *c);
MBA_CPU_DECLARE(layernorm_fwd);
MBA_CPU_DECLARE(layernorm_bwd);
mba_launch_fn layernorm_cuda, layernorm_loop_cuda, layernorm_bwd_cuda, layernorm_bwd_loop_cuda;

#endif
