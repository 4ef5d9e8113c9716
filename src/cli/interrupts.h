// SPDX-License-Identifier: Apache-2.0
/* interrupts.h -- commands that have more to do when they are told to end.
 *
 *     static volatile sig_atomic_t stopped;
 *     static void on_signal(int number) { stopped = number; }
 *     ..
 *     mba_interrupts(on_signal);
 */
#ifndef MBA_INTERRUPTS_H
#define MBA_INTERRUPTS_H

/* The first Ctrl-C, `kill` or closed terminal (unless under nohup) calls `handler` and says on stderr that a second
 * one, a second or more later, ends the process at once, whatever it does. (Scripts' shells have background jobs ignore
 * Ctrl-C: it counts all the same, so that `kill -INT` ends them.) */
void mba_interrupts(void (*handler)(int number));

/* Ends the process by this signal, without the temporary files of open writers: a handler, too. */
void mba_end_by_signal(int number);

/* From now on a mapped file (core/file.h) that another program cuts short ends the process with an error that names it
 * and exit code 1, not by SIGBUS. */
void mba_mind_cut_files(void);

#endif
