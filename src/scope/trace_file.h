// SPDX-License-Identifier: Apache-2.0
/* trace_file.h -- the trace that an injected process (inject.c) writes for `profile -- CMD`: a text file, line by line.
 *
 *     mambascope-trace 2
 *     note counters another profiler holds this process
 *     name 0 _chunk_scan_fwd_kernel
 *     kernel 0 STEP START END STREAM DEVICE CORRELATION GRAPH GRAPH_NODE GX GY GZ BX BY BZ CX CY CZ REGS STATIC DYNAMIC
 *              LOCAL                                                         (one line)
 *     copy 1 STEP START END STREAM DEVICE CORRELATION GRAPH GRAPH_NODE BYTES (set: the same)
 *     counter 0 GX GY GZ BX BY BZ DYNAMIC LAUNCHES SET METRIC VALUE          (mean of launches; DYNAMIC -1: not known)
 *     cost SET PASSES SECONDS LAUNCHES
 *     step MODE SECONDS END                                                  (of the range, by the host's clock)
 *     alive NOW DEVICE_NOW RECORDS                                           (host and event clock; RECORDS 0: no more)
 *     memory ASKED FREE TOTAL                                                (a failed allocation, in bytes)
 *     end DROPPED                                                            (missing: the process was killed)
 *
 * A name is defined before its first use. Times are nanoseconds; STEP is -1 if steps are not marked. A file that ends
 * in the middle of a line is read up to there. */
#ifndef MBA_SCOPE_TRACE_FILE_H
#define MBA_SCOPE_TRACE_FILE_H

#include <stdbool.h>
#include <stdio.h>

#include "scope/events.h"

enum { MBA_TRACE_NAMES_MAX = 1 << 20, MBA_TRACE_LINE_MAX = 1 << 16 };

typedef struct mba_trace_counter {
    const char *name, *set, *metric;
    int32_t     grid[3], block[3];
    int32_t     smem_dynamic; /* bytes; -1: not known */
    int64_t     launches;
    double      value;
} mba_trace_counter;

/* An allocation on the GPU that failed; free and total -1: not known. */
typedef struct mba_trace_memory {
    int64_t asked, free, total;
} mba_trace_memory;

typedef struct mba_trace_cost {
    const char *set;
    int64_t     passes, launches;
    double      seconds;
} mba_trace_cost;

/* Callbacks; any may be NULL. Their arguments live for one call. */
typedef struct mba_trace_reader {
    void *ctx;
    mba_status (*event)(void *ctx, const mba_event *e);
    mba_status (*counter)(void *ctx, const mba_trace_counter *c);
    mba_status (*cost)(void *ctx, const mba_trace_cost *c);
    mba_status (*step)(void *ctx, const char *mode, double seconds, int64_t end_ns);
    mba_status (*note)(void *ctx, const char *topic, const char *text);
    mba_status (*memory)(void *ctx, const mba_trace_memory *m);
    bool    complete;                  /* out: the file has its end line */
    int64_t dropped;                   /* out: records that CUPTI dropped */
    int64_t alive_ns, alive_device_ns; /* out: time of the last `alive`, by two clocks; 0: none */
    bool    recorded;                  /* out: the timeline had ended by then and is complete */
} mba_trace_reader;

/* Reads a file of any size, line by line, from its beginning. The caller closes `f`. */
MBA_MUST mba_status mba_trace_read(mba_trace_reader *r, const char *name, FILE *f);

/* ---- writing; one thread at a time ---- */
typedef struct mba_trace_writer {
    FILE      *f;
    mba_events names;
} mba_trace_writer;

MBA_MUST mba_status mba_trace_create(mba_trace_writer *w, const char *path);
void                mba_trace_event(mba_trace_writer *w, const mba_event *e);
void                mba_trace_counter_row(mba_trace_writer *w, const mba_trace_counter *c);
void                mba_trace_cost_row(mba_trace_writer *w, const mba_trace_cost *c);
void                mba_trace_step(mba_trace_writer *w, const char *mode, double seconds, int64_t end_ns);
void                mba_trace_memory_row(mba_trace_writer *w, const mba_trace_memory *m);
void                mba_trace_alive(mba_trace_writer *w, int64_t now_ns, int64_t device_ns, bool records);
void mba_trace_note(mba_trace_writer *w, const char *topic, const char *text); /* line ends become spaces */
void mba_trace_end(mba_trace_writer *w, int64_t dropped);                      /* closes */

#endif
