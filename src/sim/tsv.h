// SPDX-License-Identifier: Apache-2.0
/* tsv.h -- reads the tables of the simulator: one row per line, cells separated by tabs, `#` starts a comment line.
 *
 *     mba_tsv  all = { text, text + bytes, 0 };
 *     for (mba_tsv_row r; mba_tsv_next(&all, &r);) MBA_TRY(take_row(&x[n++], where, r.line, r.at, r.end)); */
#ifndef MBA_SIM_TSV_H
#define MBA_SIM_TSV_H

#include <stdbool.h>
#include <stddef.h>

#include "core/status.h"

typedef struct mba_tsv {
    const char *at, *end;
    int         line;
} mba_tsv; /* the rest of the text; lines read so far */
typedef struct mba_tsv_row {
    const char *at, *end;
    int         line;
} mba_tsv_row;

bool mba_tsv_next(mba_tsv *rows, mba_tsv_row *row); /* skips comments and empty lines; false: no more rows */

/* Copies the cell at `at`, up to a tab or `end`, into `out` and moves `at` past it; false: too long, or with a zero
 * byte in it. */
bool mba_tsv_cell(const char **at, const char *end, char *out, size_t space);

/* Reads the cell at `at` as a plain decimal number from 0 to `most` and moves `at` past it; false: it is something
 * else. */
bool mba_tsv_number(const char **at, const char *end, double most, double *out);

/* A table and its name in messages. With a path, mba_tsv_open reads that file and the caller frees `file`; without one
 * it leaves the table alone, which is then the built-in one. */
typedef struct mba_tsv_text {
    const char *where, *text;
    size_t      bytes;
    char       *file;
} mba_tsv_text;
MBA_MUST mba_status mba_tsv_open(mba_tsv_text *t, const char *path, size_t bytes_max);

#endif
