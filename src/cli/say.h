// SPDX-License-Identifier: Apache-2.0
/* say.h -- printf for sentences with names in them: of files, classes, tensors, kernels, as others chose them.
 *
 *     mba_say(stderr, "wrote %s\n", path);
 *
 * A terminal obeys control characters. All but line breaks and tabs are printed as \x1b, and so are bytes that are no
 * UTF-8. Tables (table.h) do the same for their cells; what programs read (JSON, CSV) keeps every byte and is not
 * printed by this. */
#ifndef MBA_SAY_H
#define MBA_SAY_H

#include <stdbool.h>
#include <stdio.h>

void mba_say(FILE *f, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* A line for the standard output is missing there, for lack of memory: whoever ends the program says so. */
bool mba_say_lost(void);

#endif
