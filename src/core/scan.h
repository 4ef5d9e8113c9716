// SPDX-License-Identifier: Apache-2.0
/* scan.h -- matches fixed text and whole numbers at a position in a string, and moves the position past them.
 *
 *     const char *at = "batch 4 x length 4096";
 *     int64_t     batch, length;
 *     bool        known = mba_scan_text(&at, "batch ") && mba_scan_int(&at, &batch) && mba_scan_text(&at, " x length ")
 *                         && mba_scan_int(&at, &length);
 *
 * A function that returns false leaves the position and the number as they are. */
#ifndef MBA_SCAN_H
#define MBA_SCAN_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static inline bool mba_scan_text(const char **at, const char *text)
{
    const size_t n = strlen(text);
    if (strncmp(*at, text, n)) return false;
    *at += n;
    return true;
}

/* A decimal number with or without a sign, after any white space; false also for one that 64 bits do not hold. */
static inline bool mba_scan_int(const char **at, int64_t *out)
{
    char *end;
    errno = 0;
    const long long v = strtoll(*at, &end, 10);
    if (end == *at || errno) return false;
    *out = v;
    *at = end;
    return true;
}

#endif
