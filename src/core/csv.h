// SPDX-License-Identifier: Apache-2.0
/* csv.h -- protects text cells of CSV files against spreadsheets that would run them.
 *
 *     "'=cmd|' /C calc'!A0"
 *
 * A spreadsheet takes a cell that begins with = + - @, a tab or a carriage return for a formula, quoted or not, and the
 * name of a kernel or of a file can begin so. mba_csv_guard returns the apostrophe that must precede such a cell, else
 * "". Numbers and single characters ("-") stay as they are. JSON needs no guard. */
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
