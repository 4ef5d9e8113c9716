// SPDX-License-Identifier: Apache-2.0
/* tsv.c -- see tsv.h. */
#include "sim/tsv.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/file.h"

bool mba_tsv_next(mba_tsv *rows, mba_tsv_row *row)
{
    while (rows->at < rows->end) {
        const char *eol = memchr(rows->at, '\n', (size_t)(rows->end - rows->at));
        *row = (mba_tsv_row){ rows->at, eol ? eol : rows->end, ++rows->line };
        rows->at = eol ? eol + 1 : rows->end;
        if (row->end > row->at && *row->at != '#') return true;
    }
    return false;
}

bool mba_tsv_cell(const char **at, const char *end, char *out, size_t space)
{
    mba_assert(*at <= end && space > 0);
    const char  *tab = memchr(*at, '\t', (size_t)(end - *at));
    const size_t n = (size_t)((tab ? tab : end) - *at);
    if (n >= space) return false;
    memcpy(out, *at, n);
    out[n] = '\0';
    *at = tab ? tab + 1 : end;
    return !memchr(out, '\0', n);
}

bool mba_tsv_number(const char **at, const char *end, double most, double *out)
{
    char cell[64], *stop;
    if (!mba_tsv_cell(at, end, cell, sizeof cell)) return false;
    if (!*cell || strspn(cell, "0123456789.eE+-") != strlen(cell)) return false;
    *out = strtod(cell, &stop);
    return !*stop && isfinite(*out) && *out >= 0 && *out <= most;
}

mba_status mba_tsv_open(mba_tsv_text *t, const char *path, size_t bytes_max)
{
    if (!path) return MBA_OK;
    MBA_TRY(mba_file_read(&t->file, &t->bytes, path, bytes_max));
    t->where = path;
    t->text = t->file;
    return MBA_OK;
}
