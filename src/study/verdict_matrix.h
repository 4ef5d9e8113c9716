// SPDX-License-Identifier: Apache-2.0
/* verdict_matrix.h -- the claims of the study over a set of stores: claims x columns, and a verdict on each claim for
 * the whole set.
 *
 *     mba_matrix *m;
 *     MBA_TRY(mba_matrix_create(&m, analyses, n));              // the analyses must outlive it
 *     printf("F1: %s. %s\n", mba_verdict_name(m->suite[0]), m->sentence[0]);
 *     mba_matrix_destroy(m);
 *
 * A store belongs to the column that its contents name: an external program with the SSD kernels of mamba_ssm; our
 * model with the multi-kernel SSD (the study's division of work) or the fused one; Mamba-1; a hybrid with attention;
 * images; graphs. The largest of a column stands for it. Others, and stores without a column (a persistent variant, an
 * external Mamba-1), serve the claims that compare stores. */
#ifndef MBA_STUDY_VERDICT_MATRIX_H
#define MBA_STUDY_VERDICT_MATRIX_H

#include "study/claims.h"

typedef enum mba_matrix_column {
    MBA_COLUMN_MAMBA_SSM,
    MBA_COLUMN_BASELINE,
    MBA_COLUMN_FUSED,
    MBA_COLUMN_MAMBA1,
    MBA_COLUMN_HYBRID,
    MBA_COLUMN_VISION,
    MBA_COLUMN_GRAPHS,
    MBA_COLUMNS,
    MBA_COLUMN_NONE = MBA_COLUMNS
} mba_matrix_column;
const char       *mba_matrix_column_name(mba_matrix_column c);  /* "mamba_ssm", "baseline", .. in files */
const char       *mba_matrix_column_title(mba_matrix_column c); /* "Mamba-2 (mamba_ssm)", .. for readers */
mba_matrix_column mba_matrix_column_of(const mba_analysis *a);

typedef struct mba_matrix {
    const mba_analysis *store[MBA_COLUMNS];            /* NULL: the set has none */
    mba_claim           cell[MBA_CLAIMS][MBA_COLUMNS]; /* id NULL where the column has no store */
    mba_verdict         suite[MBA_CLAIMS];
    char                sentence[MBA_CLAIMS][192]; /* why; "" if the claim is open */
    char                rule[MBA_CLAIMS][320];     /* how the columns make the verdict on the whole set */
} mba_matrix;

/* The store that stands for each column; NULL: none. */
void mba_matrix_choose(const mba_analysis *out[MBA_COLUMNS], mba_analysis *const *store, int n);

/* At most 1 + MBA_BESIDE_MAX stores. */
MBA_MUST mba_status mba_matrix_create(mba_matrix **out, mba_analysis *const *store, int n);
void                mba_matrix_destroy(mba_matrix *m); /* NULL is fine */

#endif
