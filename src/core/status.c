// SPDX-License-Identifier: Apache-2.0
/* status.c -- see status.h. */
#include "core/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Thread_local char story[2048];

static void story_add(size_t at, const char *fmt, va_list ap)
{
    if (at < sizeof story) vsnprintf(story + at, sizeof story - at, fmt, ap);
}

mba_status mba_fail(mba_status code, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    story_add(0, fmt, ap);
    va_end(ap);
    return code;
}

mba_status mba_where(mba_status code, const char *fmt, ...)
{
    va_list      ap;
    const size_t n = strlen(story);
    const int    k = snprintf(story + n, sizeof story - n, "\nwhere: ");
    va_start(ap, fmt);
    story_add(n + (size_t)k, fmt, ap);
    va_end(ap);
    return code;
}

const char *mba_message(void) { return story; }

const char *mba_status_name(mba_status code)
{
    static const char *const name[] = { "OK",
#define X(code, text) #code,
                                        MBA_STATUS_LIST(X)
#undef X
    };
    return name[code];
}

void mba__assert_failed(const char *fact, const char *file, int line)
{
    fprintf(stderr, "%s:%d: this must hold and does not: %s\n", file, line, fact);
    abort();
}

mba_size mba_size_of(double bytes)
{
    mba_size s;
    if (bytes < 1e4) snprintf(s.text, sizeof s.text, "%.0f bytes", bytes);
    else if (bytes < 1e7) snprintf(s.text, sizeof s.text, "%.0f KB", bytes / 1e3);
    else if (bytes < 1e9) snprintf(s.text, sizeof s.text, "%.2f MB", bytes / 1e6);
    else snprintf(s.text, sizeof s.text, "%.2f GB", bytes / 1e9);
    return s;
}
