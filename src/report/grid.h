// SPDX-License-Identifier: Apache-2.0
/* grid.h -- the numbers of a figure as one table, in HTML and as CSV. Drawing and table use the same values, so they
 * cannot disagree.
 *
 *     mba_grid g;
 *     mba_grid_begin(&g, (const mba_grid_column[]){ { "kernel", "kernel" }, { "time_us", "µs" }, { 0 } });
 *     mba_grid_text(&g, "chunk_scan_fwd");  mba_grid_number(&g, 12.5);          // cell by cell, row by row
 *     mba_grid_html(&g, &page, "Fig. 4");
 *     mba_grid_end(&g);
 */
#ifndef MBA_REPORT_GRID_H
#define MBA_REPORT_GRID_H

#include "report/buf.h"

typedef struct mba_grid_column {
    const char *key, *heading;
} mba_grid_column; /* key: the CSV name, with the unit */
/* text NULL: a number, or nothing (NaN). places: digits after the point; 0: as mba_num prints it. */
typedef struct mba_grid_cell {
    char  *text;
    double number;
    int    places;
} mba_grid_cell;
typedef struct mba_grid {
    const mba_grid_column *column;
    int                    ncolumns;
    mba_grid_cell         *cell;
    size_t                 n, room;
    bool                   failed; /* no memory for a cell; printing passes it on to the buffer */
} mba_grid;

void mba_grid_begin(mba_grid *g, const mba_grid_column *columns); /* they must outlive it */
void mba_grid_end(mba_grid *g);
void mba_grid_text(mba_grid *g, const char *text); /* copied; NULL: nothing */
void mba_grid_number(mba_grid *g, double v);
void mba_grid_fixed(mba_grid *g, double v, int places); /* with a fixed number of digits, for losses */

/* True if all rows are complete. */
static inline bool mba_grid_is_whole(const mba_grid *g) { return g->failed || g->n % (size_t)g->ncolumns == 0; }

/* An HTML table; numbers rounded, and exact in data-v. */
void mba_grid_html(const mba_grid *g, mba_buf *b, const char *caption);

/* CSV in two parts, so that grids of several runs make one table with a first column `run`; run NULL: no such
 * column. */
void mba_grid_csv_heading(const mba_grid *g, mba_buf *b, bool with_run);
void mba_grid_csv_rows(const mba_grid *g, mba_buf *b, const char *run);

#endif
