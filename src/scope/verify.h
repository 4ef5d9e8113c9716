// SPDX-License-Identifier: Apache-2.0
/* verify.h -- plan against counters: does a kernel do the work its plan promises, and move the bytes the analysis
 * counts?
 *
 *     mba_verification *v; int64_t n;
 *     MBA_TRY(mba_verify(&v, &n, analysis));                 // one per kernel that has counters; the caller frees v
 *
 * Our kernels: tensor FLOPs must be the plan's, exactly. Two launches of a node in a row under one name share items
 * as the data has it (ssd_scan: those beyond the range of a fast formula go to the first); they are judged by their
 * sum. ssd_states leaves out chunks that are forgotten before anybody wants them: then the number is the one counted
 * from the data of the step (gpu_data.c), exactly; of a store without it, at most what is planned. So is a walk in
 * pieces (ssd_scan_split), which makes again what is not forgotten of the piece before.
 * A plan counts what warps issue, padded tiles included: over the least of the node it is our padding factor. Library
 * kernels: measured over least is theirs.
 *
 * Bytes are judged where operands are more than twice the L2: DRAM traffic within 5 % of operands once each. Else reads
 * and writes are judged by themselves. Writes may be off by half the L2: what a kernel leaves dirty there is written
 * while the next ones run (the H200 has held 28 of 60 MB; over a whole step writes agree, see mba_verified_writes).
 *   lags    reads agree
 *   kept    reads are missing, no more of them than the two launches before have touched, nor than half the L2
 *   again   blocks read operands more than once (as planned), and some of that missed L2
 * That is in a step, among neighbours. A store that has settled bytes (gpu_isolated.c: every launch between two sweeps
 * of L2) is judged by them too, and there nothing lags and nothing is kept: within 5 %, or `again`, or it differs. */
#ifndef MBA_SCOPE_VERIFY_H
#define MBA_SCOPE_VERIFY_H

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
    bool                   shared;  /* tensor_ratio and tensor are of both launches */
    bool                   by_data; /* tensor_expected is what the data leaves of the plan */
    double                 padding; /* of ours: tensor FLOPs of all launches of its node over the least */
    double                 bytes_expected, bytes_measured, bytes_ratio;
    double                 write_expected, write_measured; /* of the bytes */
    double                 recent;                         /* of the reads: what the two launches before have touched */
    double                 loads;                          /* what blocks read, as planned: operands again and again */
    double                 settled_bytes, settled_ratio;   /* between two sweeps of L2; NaN: not measured */
    mba_agreement          tensor, bytes, settled;
} mba_verification;

MBA_MUST mba_status mba_verify(mba_verification **out, int64_t *n, const mba_analysis *a);

/* DRAM writes of a whole step, over those of all plans and nodes: what lags in one kernel is written in another. NaN:
 * not all kernels were counted, or not all nodes are there. */
double mba_verified_writes(const mba_analysis *a);

#endif
