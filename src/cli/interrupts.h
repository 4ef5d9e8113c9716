// SPDX-License-Identifier: Apache-2.0
/* interrupts.h -- commands that save their work when they are interrupted.
 *
 *     static volatile sig_atomic_t stopped;
 *     static void on_signal(int number) { stopped = number; }
 *     ..
 *     mba_interrupts(on_signal);
 */
#ifndef MBA_INTERRUPTS_H
#define MBA_INTERRUPTS_H

/* The first Ctrl-C, `kill` or closed terminal (unless under nohup) calls `handler` and announces on stderr that a
 * second one ends the process at once, if it comes a second or more later. SIGINT counts even where the shell of a
 * script has made a background job ignore it, so that `kill -INT` ends the job. */
void mba_interrupts(void (*handler)(int number));

/* Removes the temporary files of open writers and ends the process by this signal. It may be a signal handler. */
void mba_end_by_signal(int number);

/* From now on, a mapped file (core/file.h) that another program truncates ends the process with an error that names the
 * file and exit code 1, not by SIGBUS. */
void mba_mind_cut_files(void);

#endif
