// SPDX-License-Identifier: Apache-2.0
/* claims.h -- the eleven claims of the study (docs/glossary.md) against a store.
 *
 *     mba_claim claim[MBA_CLAIMS];
 *     mba_claims_judge(analysis, claim);
 *     printf("%s: %s\n", claim[0].id, mba_verdict_name(claim[0].verdict));
 *
 * A verdict stands only on numbers that the store has. Without them the claim is open, and `needs` says what is
 * missing. "Up to" and "all workloads" are statements about several models: F1 to F3 of one store are numbers without a
 * verdict, and verdict_matrix.h judges them over a set of stores. */
#ifndef MBA_STUDY_CLAIMS_H
#define MBA_STUDY_CLAIMS_H

#include "scope/analysis.h"

enum { MBA_CLAIMS = 11, MBA_BESIDE_MAX = 39 }; /* stores beside one: all that a page has but that one */
enum { MBA_CLAIM_NUMBERS = 4 };

typedef enum mba_verdict {
    MBA_OPEN,
    MBA_REPRODUCED,
    MBA_REFUTED,
    MBA_DEPENDS,
    MBA_NOT_APPLICABLE, /* the claim is about kernels that the program does not have */
    MBA_NUMBER,         /* a statement about several models: one store has a number, the set of stores a verdict */
    MBA_VERDICTS
} mba_verdict;

/* A number that counters only bound. */
typedef enum mba_bound { MBA_BOUND_NONE, MBA_BOUND_LEAST, MBA_BOUND_MOST } mba_bound;

typedef struct mba_claim {
    const char *id, *claim, *target; /* what the study says, in few words, and its number */
    const char *rule;                /* how a store is judged */
    const char *refuted_by;          /* what would refute it */
    const char *unit;                /* what the numbers are, as a row heading says it */
    mba_verdict verdict;
    mba_verdict here;                      /* as if this store were all there is; equal to `verdict` but for F1 to F3 */
    double      number[MBA_CLAIM_NUMBERS]; /* those that decide; NaN: none */
    mba_bound   bound[MBA_CLAIM_NUMBERS];
    char        cell[24]; /* the same with two significant digits; "–": not applicable, "open": not measured */
    char        measured[320], needs[192];
    char        sensitivity[192]; /* what becomes of the verdict if the rule is another; "" without one */
} mba_claim;

const char *mba_verdict_name(mba_verdict v);

/* Some claims need other stores beside this one (a->beside): another variant (F5), other sizes (F9), the other Mamba
 * (F10). A pair with this store is preferred; else any pair of stores that have its kind of SSM decides. Which one is a
 * matter of their contents, never of their order: the longest difference in lifetime (F5), the sizes furthest apart
 * (F9), the fastest scan and matrices of one set of kernels (F10). */
void mba_claims_judge(const mba_analysis *a, mba_claim out[MBA_CLAIMS]);

/* The same for a column of the verdict matrix: only pairs with this store decide. */
void mba_claims_judge_own(const mba_analysis *a, mba_claim out[MBA_CLAIMS]);

#endif
