// SPDX-License-Identifier: Apache-2.0
/* progress.c -- see progress.h. */
#include "cli/progress.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "core/scan.h"
#include "scope/clock.h"

enum { BAR_MOST = 24, BAR_LEAST = 4, USUAL_COLUMNS = 80 };
static const double EVERY_S = 0.1;

static bool is_clever_terminal(int fd)
{
    const char *term = getenv("TERM");
    return isatty(fd) && term && *term && strcmp(term, "dumb");
}

bool mba_on_terminal(void) { return is_clever_terminal(STDERR_FILENO); }

bool mba_colours_on(int fd)
{
    const char *none = getenv("NO_COLOR");
    return is_clever_terminal(fd) && !(none && *none);
}

static int columns(void)
{
    struct winsize is;
    const char    *given = getenv("COLUMNS");
    int64_t        n;
    if (ioctl(2, TIOCGWINSZ, &is) == 0 && is.ws_col) return is.ws_col;
    return given && mba_scan_int(&given, &n) && n > 0 && n <= INT_MAX ? (int)n : USUAL_COLUMNS;
}

mba_progress mba_progress_start(const char *title, int64_t total)
{
    return (mba_progress){
        .title = title, .total = total, .began = mba_clock_s(), .terminal = mba_on_terminal(), .from = -1
    };
}

void mba_progress_show(mba_progress *p, int64_t done, const char *note)
{
    const double now = mba_clock_s();
    if (p->from < 0) p->from = done;
    if (!p->terminal || (now - p->shown < EVERY_S && done < p->total)) return;
    p->shown = now;
    const double part = p->total > 0 ? (double)done / (double)p->total : 0;
    const double left = done > p->from ? (now - p->began) * (double)(p->total - done) / (double)(done - p->from) : 0;
    char         words[256], line[320], bar[BAR_MOST + 4] = "";
    snprintf(words, sizeof words, "%3.0f %%  %d:%02d left  %s", 100 * part, (int)left / 60, (int)left % 60,
             note ? note : "");
    const int room = columns() - 1, spare = room - (int)(strlen(p->title) + strlen(words) + strlen(" [] ")),
              n = spare < BAR_MOST ? spare : BAR_MOST;
    if (n >= BAR_LEAST) { // the note matters more than the bar
        memset(bar, '.', (size_t)n + 2);
        memset(bar + 1, '#', (size_t)(part * n));
        bar[0] = '[', bar[n + 1] = ']', bar[n + 2] = ' ';
    }
    snprintf(line, sizeof line, "%s %s%s", p->title, bar, words);
    fprintf(stderr, "\r%.*s\033[K", room, line); // a line that wraps could not be erased
    fflush(stderr);
}

void mba_progress_end(mba_progress *p)
{
    if (p->terminal && p->shown > 0) fputs("\r\033[K", stderr);
}
