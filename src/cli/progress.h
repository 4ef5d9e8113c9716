// SPDX-License-Identifier: Apache-2.0
/* progress.h -- a bar on a terminal, nothing in a pipe.
 *
 *     mba_progress p = mba_progress_start("training", 1000);
 *     mba_progress_show(&p, done, "loss 2.31  4.1k tokens/s");      // as often as you like
 *     mba_progress_end(&p);
 */
#ifndef MBA_PROGRESS_H
#define MBA_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct mba_progress {
    const char *title;
    int64_t     total, from;
    double      began, shown;
    bool        terminal;
} mba_progress;

bool         mba_on_terminal(void);  /* stderr is a terminal that can erase a line */
bool         mba_colours_on(int fd); /* it is a terminal with colours, and NO_COLOR is not set */
mba_progress mba_progress_start(const char *title, int64_t total);
void         mba_progress_show(mba_progress *p, int64_t done, const char *note);
void         mba_progress_end(mba_progress *p);

#endif
