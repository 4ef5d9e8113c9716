/* tsv.c -- see tsv.h. */
#include "sim/tsv.h"

#include <stdlib.h>
#include <string.h>

bool mba_tsv_next(mba_tsv *rows, mba_tsv_row *row)
{
    while (rows->at < rows->end) {
        const char *eol = memchr(rows->at, '\n', (size_t)(rows->end - rows->at));
        *row     = (mba_tsv_row){ rows->at, eol ? eol : rows->end, ++rows->line };
        rows->at = eol ? eol + 1 : rows->end;
        if (row->end > row->at && *row->at != '#') return true;
    }
    return false;
}

bool mba_tsv_cell(const char **at, const char *end, char *out, size_t space)
{
    const char  *tab = memchr(*at, '\t', (size_t)(end - *at));
    const size_t n = (size_t)((tab ? tab : end) - *at);
    if (n >= space) return false;
    memcpy(out, *at, n);
    out[n] = '\0';
    *at = tab ? tab + 1 : end;
    return !memchr(out, '\0', n);
}

void *mba_tsv_room(void *things, size_t bytes, int n, int *space)
{
    if (n < *space) return things;
    const int wanted = *space ? 2 * *space : 64;
    void     *more = realloc(things, bytes * (size_t)wanted);
    if (more) *space = wanted;
    return more;
}
