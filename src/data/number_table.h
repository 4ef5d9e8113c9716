// SPDX-License-Identifier: Apache-2.0
/* number_table.h -- reads tables of numbers from text: comma-separated values, edge lists, label files.
 *
 *     mba_number_table t;
 *     MBA_TRY(mba_number_table_load(&t, "raw/edge.csv.gz", &(mba_number_table_form){ .columns = 2, .whole = true }));
 *     use(t.value[row * t.columns + column]);
 *     mba_number_table_free(&t);                                    // a zeroed or freed one is fine
 *
 * A line is a row; a comma, blanks, or both separate fields. Lines end in LF or CRLF, the last one may end with the
 * file; empty lines are allowed after the last row. Numbers are finite and fit a float; integers are exact up to 2^53.
 * gzip and zstd are unpacked (reader.h), up to 64 times the size of the file, but at least 64 MiB and at most 4 GiB. */
#ifndef MBA_NUMBER_TABLE_H
#define MBA_NUMBER_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "data/reader.h"

typedef struct mba_number_table_form {
    int64_t columns;      /* 0: as many as the first row has */
    bool    whole;        /* a fraction is an error */
    bool    missing;      /* an empty field is NaN; then only commas separate fields */
    bool    may_be_empty; /* a table without rows is allowed */
    char    comment;      /* lines that begin with it are skipped; 0: none */
} mba_number_table_form;

typedef struct mba_number_table {
    int64_t rows, columns;
    bool    whole; /* all values are integers, and none is missing */
    double *value; // (rows, columns)
} mba_number_table;

/* A text and its name for messages; text NULL: there is none. */
typedef struct mba_named_text {
    const char *name, *text;
    size_t      bytes;
} mba_named_text;

/* Fails with MBA_E_FORMAT and the line and field that is wrong. */
MBA_MUST mba_status mba_number_table_read(mba_number_table *out, const mba_named_text *t,
                                          const mba_number_table_form *form);
MBA_MUST mba_status mba_number_table_load(mba_number_table *out, const char *path, const mba_number_table_form *form);
void                mba_number_table_free(mba_number_table *t);

/* A file as text, mapped or unpacked. */
typedef struct mba_text_file {
    mba_named_text text; /* its name is the caller's path */
    mba_reader    *reader;
} mba_text_file;

MBA_MUST mba_status mba_text_file_open(mba_text_file *out, const char *path);
void                mba_text_file_close(mba_text_file *f); /* a zeroed or closed one is fine */

#endif
