// SPDX-License-Identifier: Apache-2.0
/* foreign_child.h -- runs a program that is not ours, waits for it, and passes on the signals that are meant for it.
 *
 *     mba_child_end end;
 *     MBA_TRY(mba_child_run(argv, set_environment, ctx, told, &end));           // the program had its course
 *     store_what_it_left();                                                     // one signal does not end this
 *     mba_child_forget();                                                       // signals are as they were
 *
 * While the program runs, a signal ends the program and not us: what the terminal sends has reached it already, what a
 * process sends is passed on. After that the first signal is told and the second, a second or more later, does what it
 * did before. SIGKILL cannot be passed on. */
#ifndef MBA_SCOPE_FOREIGN_CHILD_H
#define MBA_SCOPE_FOREIGN_CHILD_H

#include <stddef.h>
#include <stdint.h>

#include "core/status.h"

typedef struct mba_child_end {
    int     code;     /* as a shell has it: the program's own, or 128 + signal */
    int     signal;   /* that ended it; 0: it ended by itself */
    int     told;     /* the first signal that came for us; 0: none */
    double  seconds;  /* it ran */
    int64_t ended_ns; /* mba_clock_ns */
} mba_child_end;

/* `prepare` runs in the child before the program begins; `told`, which may be NULL, in a signal handler at the first
 * one. */
MBA_MUST mba_status mba_child_run(char *const *argv, void (*prepare)(const void *ctx), const void *ctx,
                                  void (*told)(int number), mba_child_end *end);
void                mba_child_forget(void);

/* "ended with code 7", "was ended by signal 9 (Killed)". */
void mba_child_words(char *out, size_t room, const mba_child_end *end);

#endif
