// SPDX-License-Identifier: Apache-2.0
/* public_numbers.h -- published measurements of the same work on two GPUs (src/sim/data/public.tsv), and the ratio that
 * the simulator predicts.
 *
 *     mba_public_number n[MBA_PUBLIC_MAX];
 *     int               count;
 *     MBA_TRY(mba_public_parse(n, &count, "table", mba_public_text));
 *     MBA_TRY(mba_public_predict(&n[0]));
 *     printf("%.2f for %.2f\n", n[0].predicted, n[0].measured);
 *
 * Work is a training step in words of `bench step`, or one operator: "matmul bf16 M N K", "attention bf16 B L heads
 * key/value-heads width" (not causal). Both machines run the same kernels wherever a plan for both exists: force a
 * variant with --op. */
#ifndef MBA_STUDY_PUBLIC_NUMBERS_H
#define MBA_STUDY_PUBLIC_NUMBERS_H

#include "core/status.h"

typedef struct mba_public_number {
    char   source[96], work[128], gpu[2][16], unit[16], remark[96];
    double figure[2];
    double measured;   /* speed of the second GPU over that of the first */
    double seconds[2]; /* simulated; 0: not yet */
    double predicted;
} mba_public_number;

enum { MBA_PUBLIC_MAX = 64 };
extern const char mba_public_text[]; /* the table that comes with the program */

MBA_MUST mba_status mba_public_parse(mba_public_number out[MBA_PUBLIC_MAX], int *n, const char *where,
                                     const char *text);

/* Simulates the work on both GPUs. */
MBA_MUST mba_status mba_public_predict(mba_public_number *p);

#endif
