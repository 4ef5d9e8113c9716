/* progress.c -- see progress.h. */
#include "cli/progress.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { BAR = 24 };
static const double EVERY_S = 0.1;

double mba_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

mba_progress mba_progress_start(const char *title, int64_t total)
{
    return (mba_progress){ .title = title, .total = total, .began = mba_seconds(), .terminal = isatty(2), .from = -1 };
}

void mba_progress_show(mba_progress *p, int64_t done, const char *note)
{
    const double now = mba_seconds();
    if (p->from < 0) p->from = done;
    if (!p->terminal || (now - p->shown < EVERY_S && done < p->total)) return;
    p->shown = now;
    const double part = p->total > 0 ? (double)done / (double)p->total : 0;
    const double left = done > p->from ? (now - p->began) * (double)(p->total - done) / (double)(done - p->from) : 0;
    char bar[BAR + 1];
    memset(bar, '.', BAR);
    memset(bar, '#', (size_t)(part * BAR));
    bar[BAR] = 0;
    fprintf(stderr, "\r%s [%s] %3.0f %%  %s  %d:%02d left\033[K", p->title, bar, 100 * part, note ? note : "",
            (int)left / 60,
            (int)left % 60);
    fflush(stderr);
}

void mba_progress_end(mba_progress *p)
{
    if (p->terminal && p->shown > 0) fputs("\r\033[K", stderr);
}
