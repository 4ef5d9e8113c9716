/* interrupts.h -- commands that have more to do when they are told to end.
 *
 *     static volatile sig_atomic_t stopped;
 *     static void on_signal(int number) { stopped = number; }
 *     ..
 *     mba_interrupts(on_signal);
 */
#ifndef MBA_INTERRUPTS_H
#define MBA_INTERRUPTS_H

/* Ctrl-C, `kill` and a closed terminal (unless under nohup) call `handler` from now on. (Scripts'
 * shells have background jobs ignore Ctrl-C: it counts all the same, so that `kill -INT` ends them.) */
void mba_interrupts(void (*handler)(int number));

#endif
