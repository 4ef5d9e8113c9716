// SPDX-License-Identifier: Apache-2.0
/* csv.h -- what stands before a text cell of CSV. A spreadsheet takes a cell that begins with = + - @, a tab or a
 * carriage return for a formula, quoted or not, and a name of a kernel or file may be one. Such a cell begins with an
 * apostrophe:
 *
 *     "'=cmd|' /C calc'!A0"
 *
 * Numbers and single characters ("-") are not changed, and JSON never is. */
#ifndef MBA_CSV_H
#define MBA_CSV_H

#include <stdlib.h>
#include <string.h>

static inline const char *mba_csv_guard(const char *cell)
{
    char *end;
    if (!*cell || !cell[1] || !strchr("=+-@\t\r", *cell)) return "";
    (void)strtod(cell, &end);
    return *end ? "'" : "";
}

#endif
