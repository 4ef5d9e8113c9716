// SPDX-License-Identifier: Apache-2.0
/* tsv.h -- tables of text that the simulator reads: a row a line, `#` begins a remark, cells between tabs.
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
} mba_tsv; /* what is left; lines so far */
typedef struct mba_tsv_row {
    const char *at, *end;
    int         line;
} mba_tsv_row;

bool mba_tsv_next(mba_tsv *rows, mba_tsv_row *row); /* leaves out remarks and empty lines; false: no more */

/* The cell at `at`, up to a tab or `end`, into `out`, and `at` behind it; false: too long, or with a zero in it. */
bool mba_tsv_cell(const char **at, const char *end, char *out, size_t space);

/* A table, and what messages call it. With a path, that file's: `file` is the caller's to free. Without, what stands
 * there already: the table that comes with the program. */
typedef struct mba_tsv_text {
    const char *where, *text;
    size_t      bytes;
    char       *file;
} mba_tsv_text;
MBA_MUST mba_status mba_tsv_open(mba_tsv_text *t, const char *path, size_t bytes_max);

#endif
