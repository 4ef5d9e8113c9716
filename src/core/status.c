// SPDX-License-Identifier: Apache-2.0
/* status.c -- see status.h: the message of each thread, names of status codes, the end of a failed assertion. */
#include "core/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Thread_local char message[2048];

static void message_add(size_t at, const char *fmt, va_list ap)
{
    if (at < sizeof message) vsnprintf(message + at, sizeof message - at, fmt, ap);
}

mba_status mba_fail(mba_status code, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    message_add(0, fmt, ap);
    va_end(ap);
    return code;
}

mba_status mba_where(mba_status code, const char *fmt, ...)
{
    va_list      ap;
    const size_t n = strlen(message);
    const int    k = snprintf(message + n, sizeof message - n, "\nwhere: ");
    mba_assert(n < sizeof message && k > 0);
    va_start(ap, fmt);
    message_add(n + (size_t)k, fmt, ap);
    va_end(ap);
    return code;
}

const char *mba_message(void) { return message; }

const char *mba_status_name(mba_status code)
{
    static const char *const name[] = { "OK",
#define X(code, text) #code,
                                        MBA_STATUS_LIST(X)
#undef X
    };
    mba_assert((size_t)code < sizeof name / sizeof *name);
    return name[code];
}

void mba__assert_failed(const char *fact, const char *file, int line)
{
    fprintf(stderr, "%s:%d: assertion failed: %s\n", file, line, fact);
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
