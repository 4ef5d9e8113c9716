// SPDX-License-Identifier: Apache-2.0
/* cliffs.h -- says which operators of a step run far below their best variant for want of a shape (study/cliffs.h). */
#ifndef MBA_CLI_CLIFFS_H
#define MBA_CLI_CLIFFS_H

#include <stdio.h>

#include "study/cliffs.h"

/* Finds them for the machine of that name, or, with NULL, for the device of the options; none on the CPU, on a GPU that
 * no machine stands for, and if the comparison fails: it must not end a run. */
void mba_cliffs_of(mba_cliffs *out, const mba_session_options *so, const char *machine);

/* Prints what, why and fix of each. */
void mba_cliffs_print(FILE *f, const mba_cliffs *c);

/* Both, to standard error. */
void mba_cliffs_tell(const mba_session_options *so);

#endif
