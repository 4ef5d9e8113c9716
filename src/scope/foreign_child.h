// SPDX-License-Identifier: Apache-2.0
/* foreign_child.h -- runs an external program, waits for it, and forwards signals to it.
 *
 *     mba_child_end end;
 *     MBA_TRY(mba_child_run(argv, set_environment, ctx, told, &end));           // the program has ended
 *     store_the_trace();                                                        // one signal does not interrupt this
 *     mba_child_forget();                                                       // restores the signal handlers
 *
 * While the program runs, a signal ends the program and not us. Signals of the terminal reach the program directly;
 * those of a process are forwarded. After the program has ended, the first signal is only reported (`told`), and
 * another one a second or more later has its original effect. SIGKILL cannot be forwarded. */
#ifndef MBA_SCOPE_FOREIGN_CHILD_H
#define MBA_SCOPE_FOREIGN_CHILD_H

#include <stddef.h>
#include <stdint.h>

#include "core/status.h"

typedef struct mba_child_end {
    int     code;     /* as in a shell: the program's exit code, or 128 + signal */
    int     signal;   /* the signal that ended it; 0: it exited */
    int     told;     /* the first signal that we received; 0: none */
    double  seconds;  /* run time */
    int64_t ended_ns; /* mba_clock_ns */
} mba_child_end;

/* `prepare` runs in the child before the program starts; `told`, which may be NULL, in the handler of the first
 * signal. */
MBA_MUST mba_status mba_child_run(char *const *argv, void (*prepare)(const void *ctx), const void *ctx,
                                  void (*told)(int number), mba_child_end *end);
void                mba_child_forget(void);

/* "ended with code 7", "was ended by signal 9 (Killed)". */
void mba_child_words(char *out, size_t room, const mba_child_end *end);

#endif
