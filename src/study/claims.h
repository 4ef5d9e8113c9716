// SPDX-License-Identifier: Apache-2.0
/* claims.h -- the eleven claims of the study (docs/glossary.md) against a store.
 *
 *     mba_claim claim[MBA_CLAIMS];
 *     mba_claims_judge(analysis, claim);
 *     printf("%s: %s\n", claim[0].id, mba_verdict_name(claim[0].verdict));
 *
 * A verdict stands only on numbers that the store has. Without them the claim is open, and `needs` says what is
 * missing. */
#ifndef MBA_STUDY_CLAIMS_H
#define MBA_STUDY_CLAIMS_H

#include "scope/analysis.h"

enum { MBA_CLAIMS = 11, MBA_BESIDE_MAX = 23 }; /* stores beside one: all that a page has but that one */
/* Not applicable: the claim is about SSM kernels, and the program has none. */
typedef enum mba_verdict {
    MBA_OPEN,
    MBA_REPRODUCED,
    MBA_REFUTED,
    MBA_DEPENDS,
    MBA_NOT_APPLICABLE,
    MBA_VERDICTS
} mba_verdict;
typedef struct mba_claim {
    const char *id, *claim, *target;
    mba_verdict verdict;
    char        measured[256], needs[192];
} mba_claim;

const char *mba_verdict_name(mba_verdict v);

/* Some claims need other stores beside this one (a->beside): another variant (F5), other sizes (F9), the other Mamba
 * (F10). */
void mba_claims_judge(const mba_analysis *a, mba_claim out[MBA_CLAIMS]);

#endif
