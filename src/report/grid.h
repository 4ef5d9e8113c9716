// SPDX-License-Identifier: Apache-2.0
/* grid.h -- the numbers of a figure as one table, on the page and as CSV. Drawing and table use the same values.
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
} mba_grid_column; /* key: of CSV, with the unit */
/* text NULL: a number, or nothing (NaN) */
typedef struct mba_grid_cell {
    char  *text;
    double number;
    int    places;
} mba_grid_cell; /* places: 0, as mba_num */
typedef struct mba_grid {
    const mba_grid_column *column;
    int                    ncolumns;
    mba_grid_cell         *cell;
    size_t                 n, room;
    bool                   failed; /* no memory for a cell; passed on to the output buffer */
} mba_grid;

void mba_grid_begin(mba_grid *g, const mba_grid_column *columns); /* they must outlive it */
void mba_grid_end(mba_grid *g);
void mba_grid_text(mba_grid *g, const char *text); /* copied; NULL: nothing */
void mba_grid_number(mba_grid *g, double v);
void mba_grid_fixed(mba_grid *g, double v, int places); /* with this many decimals, for losses */

/* <table>: numbers as people read them, and exactly in data-v. */
void mba_grid_html(const mba_grid *g, mba_buf *b, const char *caption);

/* CSV in two parts, so that grids of several runs form one table with a first column `run`. NULL: no such column. */
void mba_grid_csv_heading(const mba_grid *g, mba_buf *b, bool with_run);
void mba_grid_csv_rows(const mba_grid *g, mba_buf *b, const char *run);

#endif
