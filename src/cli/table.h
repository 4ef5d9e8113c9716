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
 * Units stand in the headings. JSON is an array of objects under the keys; an absent number is null. Text may be
 * anything: bytes that are not UTF-8 become U+FFFD, and control characters spaces where people read.
 * A table that found no memory for a cell is not printed: print, flow and status say MBA_E_NOMEM. */
#ifndef MBA_TABLE_H
#define MBA_TABLE_H

#include <stdbool.h>
#include <stdio.h>

#include "core/status.h"

typedef struct mba_table mba_table;
typedef enum mba_table_form { MBA_TABLE_TEXT, MBA_TABLE_CSV, MBA_TABLE_JSON } mba_table_form;
typedef struct mba_column {
    const char *key, *heading, *format;
} mba_column; /* format: of numbers; NULL: text */

MBA_MUST mba_status mba_table_create(mba_table **out, const mba_column *columns);
void                mba_table_destroy(mba_table *t);
void                mba_table_text(mba_table *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void                mba_table_cut(mba_table *t, const char *text, size_t most); /* at most so many bytes of it */
void                mba_table_number(mba_table *t, double v);                   /* NaN: absent */
void                mba_table_widen(mba_table *t, int column, int letters);     /* at least so wide, in text */
/* MBA_E_NOMEM if a cell found no memory: for callers that count rows or do not print the table. */
MBA_MUST mba_status mba_table_status(const mba_table *t);
size_t              mba_table_rows(const mba_table *t);
MBA_MUST mba_status mba_table_print(const mba_table *t, FILE *f, mba_table_form form);

/* The same row by row, for rows that take seconds: called after each it prints what is complete and new, and at the end
 * with `last`, of JSON what closes the array. Text is as wide as the headings, unless it was widened. */
MBA_MUST mba_status mba_table_flow(mba_table *t, FILE *f, mba_table_form form, bool last);

/* The flags --json and --csv of a command that prints one table. Giving both is an error (cli/options.h). */
#define MBA_TABLE_OPTIONS(json, csv) \
    { "--json", MBA_OPT_FLAG, json, NULL, "print JSON, an array of objects", 0, 0 }, \
    { \
        "--csv", MBA_OPT_FLAG, csv, NULL, "print CSV", 0, 0 \
    }
mba_table_form mba_table_form_of(bool json, bool csv);

/* `text` as a JSON string with quotes, for documents with more than tables. */
MBA_MUST mba_status mba_table_json_text(FILE *f, const char *text);

#endif
