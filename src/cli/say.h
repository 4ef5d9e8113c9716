// SPDX-License-Identifier: Apache-2.0
/* say.h -- printf for sentences that contain names from outside: files, classes, tensors, kernels.
 *
 *     mba_say(stderr, "wrote %s\n", path);
 *
 * Control characters would act on a terminal. All but line breaks and tabs are printed as \x1b, and so are bytes that
 * are not UTF-8. Tables (table.h) do the same in their cells. Output for programs (JSON, CSV) keeps every byte and does
 * not use this. */
#ifndef MBA_SAY_H
#define MBA_SAY_H

#include <stdbool.h>
#include <stdio.h>

void mba_say(FILE *f, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Prints the message of an error, "what\nwhy: ..\nfix: ..", as a block on standard error, with colours on a
 * terminal. */
void mba_print_error(const char *story);

/* Whether a line of standard output is missing for lack of memory; main reports it. */
bool mba_say_lost(void);

#endif
