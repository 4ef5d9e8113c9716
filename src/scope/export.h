// SPDX-License-Identifier: Apache-2.0
/* export.h -- a store in other forms: CSV by table, JSON, a trace for Perfetto. Rows are streamed: any size, little
 * memory.
 *
 *     MBA_TRY(mba_export_trace(stdout, store));
 *
 * Whether the writing worked is the caller's to ask of `f`. */
#ifndef MBA_EXPORT_H
#define MBA_EXPORT_H

#include <stdio.h>

#include "scope/store.h"

typedef mba_status mba_export_fn(FILE *f, mba_store *s);

/* Absent is empty. The heading has names with units: "duration_ns [ns]". */
MBA_MUST mba_status mba_export_csv(FILE *f, mba_store *s, mba_store_rows table);

/* {"version": 1, "node": [{..}, ..], ..}: absent is null. */
MBA_MUST mba_status mba_export_json(FILE *f, mba_store *s);

/* Trace event format: one lane (thread) per stream; blocks with records as a second process with one lane per SM. What
 * overlaps on a stream or SM has a lane of its own, `stream 7 (2)`. */
MBA_MUST mba_status mba_export_trace(FILE *f, mba_store *s);

/* A smaller store, of the version of this program: the first `steps` of the timeline, no operands, blocks or
 * instructions. What the analysis says of a step stays what it was, but for medians over fewer steps and reuse. */
MBA_MUST mba_status mba_export_store(mba_store *from, const char *path, int64_t steps);

/* A string as JSON wants it, with its quotes; bytes that are not UTF-8 become U+FFFD. */
void mba_export_string(FILE *f, const char *text);

#endif
