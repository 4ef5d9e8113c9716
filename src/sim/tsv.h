/* tsv.h -- tables of text that the simulator reads: a row a line, `#` begins a remark, cells between tabs.
 *
 *     mba_tsv  all = { text, text + bytes, 0 };
 *     for (mba_tsv_row r; mba_tsv_next(&all, &r);) MBA_TRY(take_row(&x[n++], where, r.line, r.at, r.end)); */
#ifndef MBA_SIM_TSV_H
#define MBA_SIM_TSV_H

#include <stdbool.h>
#include <stddef.h>

typedef struct mba_tsv { const char *at, *end; int line; } mba_tsv;      /* what is left; lines so far */
typedef struct mba_tsv_row { const char *at, *end; int line; } mba_tsv_row;

bool mba_tsv_next(mba_tsv *rows, mba_tsv_row *row);      /* leaves out remarks and empty lines; false: no more */

/* The cell at `at`, up to a tab or `end`, into `out`, and `at` behind it; false: too long, or with a zero in it. */
bool mba_tsv_cell(const char **at, const char *end, char *out, size_t space);

/* Room for one more of n things of `bytes` each; *space: for how many there is. NULL: no memory, and they stay. */
void *mba_tsv_room(void *things, size_t bytes, int n, int *space);

#endif
