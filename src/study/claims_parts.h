// SPDX-License-Identifier: Apache-2.0
/* claims_parts.h -- what the files of the claims share: thresholds, the stores at hand, and how a claim is filled. */
#ifndef MBA_STUDY_CLAIMS_PARTS_H
#define MBA_STUDY_CLAIMS_PARTS_H

#include "study/claims.h"

/* All choices of all rules, in percent unless the comment says otherwise. mba_claims_judge tries other values of some
 * of them to see what becomes of a verdict. */
typedef struct claim_rules {
    double head;                            /* 1: the head's matrix products count as GEMM; 0: as loss */
    double gemm_most, gemm_off;             /* "up to about 60" */
    double ssm_most, ssm_off;               /* "up to about 20" */
    double busy;                            /* from here on a unit limits a kernel */
    double majority, third;                 /* of time */
    double bandwidth_least, bandwidth_most; /* "57.5 %": less is latency, more is not "little" */
    double lives_longer, rises;             /* factors: of block lifetime and of bandwidth */
    double noise;                           /* factor of bandwidth within which nothing rose: what steps vary by */
    double bytes_alike;                     /* 0 to 1: variants that move the same bytes */
    double vector_bound;                    /* from here on a rule calls mixed kernels vector-bound */
    double l1_low, l1_high;                 /* hit rates */
    double sizes_alike;                     /* factor of parameters */
    double registers;                       /* 1: latency where registers alone limit occupancy is a limit of F11 */
} claim_rules;
extern const claim_rules mba__claim_rules;

/* The store that is judged, then those beside it. */
typedef struct claim_stores {
    const mba_analysis *store[1 + MBA_BESIDE_MAX];
    int                 n;
    bool                own; /* only pairs with the first store decide */
} claim_stores;

typedef void claim_judge(const claim_stores *all, const claim_rules *r, mba_claim *c);
claim_judge  mba__claim_f1, mba__claim_f2, mba__claim_f3, mba__claim_f4, mba__claim_f6, mba__claim_f7, mba__claim_f8,
    mba__claim_f11;                                       /* claims_one.c: of one store */
claim_judge mba__claim_f5, mba__claim_f9, mba__claim_f10; /* claims_pairs.c: of several */

void mba__say(char *text, size_t room, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
#define MEASURED(c, ...) mba__say((c)->measured, sizeof(c)->measured, __VA_ARGS__)
#define NEEDS(c, ...)    mba__say((c)->needs, sizeof(c)->needs, __VA_ARGS__)
#define CELL(c, ...)     mba__say((c)->cell, sizeof(c)->cell, __VA_ARGS__)

/* A number with two or three significant digits; "open" if it is NaN. */
typedef struct two_digits {
    char s[16];
} two_digits;
two_digits mba__two(double v);
two_digits mba__three(double v); /* for factors near 1 */

double mba__kind_percent(const mba_analysis *a, int kind);
bool   mba__has_matrices(const mba_analysis *a);  /* SSD, in any variant, ours or mamba_ssm's */
bool   mba__has_scan(const mba_analysis *a);      /* the selective scan of Mamba-1 */
bool   mba__has_other_ssm(const mba_analysis *a); /* SSM kernels, and none of SSD */

/* Which SSM kernels a program ran. The baseline divides SSD and the scan into several kernels as the study's do; a
 * variant of SSD that changes one thing more is neither that nor a default. */
typedef enum mba_kernel_set { MBA_DEFAULTS, MBA_BASELINE, MBA_OF_MAMBA_SSM, MBA_OTHER_VARIANT } mba_kernel_set;
mba_kernel_set mba__kernel_set_of(const mba_analysis *a);

#endif
