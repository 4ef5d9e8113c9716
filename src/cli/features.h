// SPDX-License-Identifier: Apache-2.0
/* features.h -- compiler, libraries and targets of this build, for `mambascope --version` and `doctor`. */
#ifndef MBA_FEATURES_H
#define MBA_FEATURES_H

#include <stdio.h>

typedef struct mba_feature {
    const char *name, *found, *advice; /* advice: what a better build needs; "": nothing */
} mba_feature;

/* The linked libraries; the last entry has no name. Static. */
const mba_feature *mba_features_libraries(void);

/* The first line is for programs: name, version, and the commit if git knew it. Then one feature per line. */
void mba_features_print(FILE *f);

#endif
