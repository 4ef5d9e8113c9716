// SPDX-License-Identifier: Apache-2.0
/* features.h -- what this program was built from and for: `mambascope --version`, and the rows of `doctor` about
 * libraries. */
#ifndef MBA_FEATURES_H
#define MBA_FEATURES_H

#include <stdio.h>

typedef struct mba_feature {
    const char *name, *found, *advice; /* advice: what a better build needs, "" where nothing is amiss */
} mba_feature;

/* The libraries that it was linked with, up to one without a name; static. */
const mba_feature *mba_features_libraries(void);

/* The first line is for programs: name, version, and the commit where git knew it. Then one feature a line. */
void mba_features_print(FILE *f);

#endif
