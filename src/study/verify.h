// SPDX-License-Identifier: Apache-2.0
/* verify.h -- compares launch plans with counters: whether a kernel does the work of its plan and moves the bytes that
 * the analysis counts.
 *
 *     mba_verification *v; int64_t n;
 *     MBA_TRY(mba_verify(&v, &n, analysis));                 // one per kernel that has counters; the caller frees v
 *
 * Tensor FLOPs of our kernels must be those of the plan, exactly. Exceptions:
 *   - Two launches of a node in a row under one name share work items as the data decides (ssd_scan: wide-range chunks
 *     go to the first launch). They are judged by their sum.
 *   - ssd_states skips chunks whose state decays before anything reads it, and ssd_scan_split recomputes what has not
 *     decayed of the segment before. They must match the number counted from the data of the step (gpu_data.c) exactly;
 *     in a store without that number, at most the plan.
 *   - ssd_bwd_slow multiplies wide-range heads only, and its plan has no products. It must match the number counted
 *     from the data; in a store without that number it is not judged.
 * A plan counts what warps issue, padded tiles included. Our padding factor is that number over the least work of the
 * node; that of library kernels is measured over least work.
 *
 * Bytes are judged where operands are more than twice the L2: DRAM traffic within 5 % of all operands moved once. If
 * not, reads and writes are judged separately. Writes may be off by half the L2, because dirty lines are written back
 * while the next kernels run (an H200 has held 28 of 60 MB; over a whole step writes agree: mba_verified_writes).
 *   lags    reads agree
 *   kept    reads are missing, but no more than the two launches before have touched, nor than half the L2
 *   again   blocks read operands more than once (as planned), and some of those reads missed L2
 * These judgements hold inside a step, where other kernels run before and after. A store with cold-L2 bytes
 * (gpu_isolated.c) is judged by them, too. There nothing lags and nothing is kept: a kernel is within 5 %, or `again`,
 * or it differs. */
#ifndef MBA_STUDY_VERIFY_H
#define MBA_STUDY_VERIFY_H

#include "scope/analysis.h"

typedef enum mba_agreement {
    MBA_NOT_JUDGED,
    MBA_AGREES,
    MBA_AT_MOST,
    MBA_LAGS,
    MBA_KEPT,
    MBA_AGAIN,
    MBA_DIFFERS,
    MBA_AGREEMENTS
} mba_agreement;

typedef struct mba_verification {
    const mba_kernel_view *kernel;
    const mba_row_launch  *launch; /* NULL: the plan does not have it (a library's second kernel) */
    const mba_row_node    *node;
    bool                   ours;
    double                 tensor_expected, tensor_measured, tensor_ratio; /* FLOP of a launch; NaN: not measured */
    bool                   shared;  /* tensor_ratio and tensor are those of both launches */
    bool                   by_data; /* tensor_expected is counted from the data of the step */
    double                 padding; /* of ours: tensor FLOPs of all launches of its node over the least */
    double                 bytes_expected, bytes_measured, bytes_ratio;
    double                 write_expected, write_measured; /* of the bytes */
    double                 recent;                         /* bytes read that the two previous launches touched */
    double                 loads;                          /* bytes that blocks read as planned, repetitions included */
    double                 settled_bytes, settled_ratio;   /* cold-L2 bytes; NaN: not measured */
    mba_agreement          tensor, bytes, settled;
} mba_verification;

MBA_MUST mba_status mba_verify(mba_verification **out, int64_t *n, const mba_analysis *a);

/* DRAM writes of a whole step over those of all plans and nodes: writes that lag behind one kernel happen during
 * another. NaN: some kernel has no counters, or some node is missing. */
double mba_verified_writes(const mba_analysis *a);

#endif
