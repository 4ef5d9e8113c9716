// SPDX-License-Identifier: Apache-2.0
/* export.h -- writes a store in other formats: CSV per table, JSON, a Perfetto trace, a smaller store. Rows are
 * streamed, so memory is bounded.
 *
 *     MBA_TRY(mba_export_trace(stdout, store));
 *
 * The caller checks `f` for write errors. */
#ifndef MBA_EXPORT_H
#define MBA_EXPORT_H

#include <stdio.h>

#include "scope/store.h"

typedef mba_status mba_export_fn(FILE *f, mba_store *s);

/* Absent values are empty. The heading has names with units: "duration_ns [ns]". */
MBA_MUST mba_status mba_export_csv(FILE *f, mba_store *s, mba_store_rows table);

/* {"version": 1, "node": [{..}, ..], ..}; absent values are null. */
MBA_MUST mba_status mba_export_json(FILE *f, mba_store *s);

/* Trace event format: one lane (thread) per stream; recorded blocks as a second process with one lane per SM. Slices
 * that overlap on a stream or SM get a lane of their own, `stream 7 (2)`. */
MBA_MUST mba_status mba_export_trace(FILE *f, mba_store *s);

/* A smaller store, in the version of this program: the first `steps` steps of the timeline, without operands, blocks
 * and instructions. The analysis of a step stays the same, except for medians over fewer steps and for reuse. */
MBA_MUST mba_status mba_export_store(mba_store *from, const char *path, int64_t steps);

/* Writes a JSON string with its quotes; bytes that are not UTF-8 become U+FFFD. */
void mba_export_string(FILE *f, const char *text);

#endif
