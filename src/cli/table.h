// SPDX-License-Identifier: Apache-2.0
/* table.h -- one table, printed as aligned text, CSV or JSON.
 *
 *     mba_table *t;
 *     MBA_TRY(mba_table_create(&t, (const mba_column[]){ { "model", "model", NULL }, { "ms", "step, ms", "%.1f" },
 *                                                        { 0 } }));
 *     mba_table_text(t, "mamba2-130m");  mba_table_number(t, 12.5);     // cell by cell, row by row
 *     mba_status st = mba_table_print(t, stdout, MBA_TABLE_TEXT);
 *     mba_table_destroy(t);
 *
 * Headings have the units. JSON is an array of objects with the keys of the columns; an absent number is null. Cells
 * may hold any text: bytes that are not UTF-8 become U+FFFD, and in text output control characters become spaces.
 * A table without memory for a cell is not printed: print, flow and status return MBA_E_NOMEM. */
#ifndef MBA_TABLE_H
#define MBA_TABLE_H

#include <stdbool.h>
#include <stdio.h>

#include "core/status.h"

typedef struct mba_table mba_table;
typedef enum mba_table_form { MBA_TABLE_TEXT, MBA_TABLE_CSV, MBA_TABLE_JSON } mba_table_form;
typedef struct mba_column {
    const char *key, *heading, *format;
} mba_column; /* format: of its numbers; NULL: the column is text */

MBA_MUST mba_status mba_table_create(mba_table **out, const mba_column *columns);
void                mba_table_destroy(mba_table *t);
void                mba_table_text(mba_table *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void                mba_table_cut(mba_table *t, const char *text, size_t most); /* at most `most` bytes of it */
void                mba_table_number(mba_table *t, double v);                   /* NaN: absent */
void                mba_table_widen(mba_table *t, int column, int letters);     /* least width in text output */
/* MBA_E_NOMEM if there was no memory for a cell: for callers that count rows or do not print the table. */
MBA_MUST mba_status mba_table_status(const mba_table *t);
size_t              mba_table_rows(const mba_table *t);
MBA_MUST mba_status mba_table_print(const mba_table *t, FILE *f, mba_table_form form);

/* Prints the table row by row, for rows that take seconds. Call it after each row: it prints the complete rows that it
 * has not printed yet. Call it with `last` at the end: it closes the array of JSON. Columns of text are as wide as
 * their headings, unless mba_table_widen widens them. */
MBA_MUST mba_status mba_table_flow(mba_table *t, FILE *f, mba_table_form form, bool last);

/* The flags --json and --csv of a command that prints one table. Giving both is an error (cli/options.h). */
#define MBA_TABLE_OPTIONS(json, csv) \
    { "--json", MBA_OPT_FLAG, json, NULL, "print JSON, an array of objects", 0, 0 }, \
    { \
        "--csv", MBA_OPT_FLAG, csv, NULL, "print CSV", 0, 0 \
    }
mba_table_form mba_table_form_of(bool json, bool csv);

/* Prints `text` as a JSON string with quotes, for documents that hold more than tables. */
MBA_MUST mba_status mba_table_json_text(FILE *f, const char *text);

#endif
