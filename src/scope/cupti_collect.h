// SPDX-License-Identifier: Apache-2.0
/* cupti_collect.h -- what CUPTI measures in this process: the timeline, launches, hardware counters, executed
 * instructions, and samples of the program counter. One section per cupti_*.c file.
 *
 *     MBA_TRY(mba_activity_begin(on_event, ctx));           // every kernel, copy and set, as buffers fill
 *     ..
 *     MBA_TRY(mba_activity_end(&dropped));                  // waits for the rest
 *
 *     mba_counters *s;
 *     MBA_TRY(mba_counters_open(&s, names, n, ranges));     // a context must be current
 *     do { MBA_TRY(mba_counters_start(s)); work(); MBA_TRY(mba_counters_stop(s, &all)); } while (!all);
 *     MBA_TRY(mba_counters_decode(s, &ranges));             // one per kernel, in the order of launches
 *     MBA_TRY(mba_counters_values(s, i, values));
 *     mba_counters_close(s);
 *
 * `work` runs once per pass and must launch the same kernels every time; memory is not saved and restored
 * (docs/scope.md). Kernels of a captured graph have no ranges: launch them one by one. No CUDA header is needed to
 * include this. */
#ifndef MBA_SCOPE_CUPTI_COLLECT_H
#define MBA_SCOPE_CUPTI_COLLECT_H

#include <stdbool.h>

#include "scope/events.h"
#include "scope/metrics.h"

const char         *mba_cupti_file(void);            /* libcupti.so.13: of the toolkit this was built with */
MBA_MUST mba_status mba_cupti_version(int *version); /* opens it */

/* ---- timeline ---- */
MBA_MUST mba_status mba_activity_begin(mba_event_fn *fn, void *ctx);
/* Records each graph launch as one event, at almost no cost. Only for graphs that are instantiated while this is on:
 * CUPTI crashes on older ones. */
MBA_MUST mba_status mba_activity_begin_graphs(mba_event_fn *fn, void *ctx);
MBA_MUST mba_status mba_activity_end(int64_t *dropped);
MBA_MUST mba_status mba_activity_stop(void);  /* no new records; pending ones are still delivered */
void                mba_activity_flush(void); /* delivers complete records now; for a process that ends */
/* Delivers the buffers whose records are all complete, while kernels run; returns CUPTI's clock, 0: not known. Small
 * buffers become complete sooner: for a process that may be killed. */
int64_t mba_activity_hand_over(void);
void    mba_activity_small_buffers(void);
int64_t mba_activity_dropped(void);

/* ---- launches, as the host makes them ---- */
typedef struct mba_launch_seen {
    const char *name;
    int32_t     grid[3], block[3];
    int32_t     smem_dynamic;
    const void *function; /* the driver's handle: distinguishes kernels of equal name */
    uint32_t    correlation;
    bool        is_graph;
} mba_launch_seen;
typedef void mba_launch_seen_fn(void *ctx, const mba_launch_seen *l);
typedef void mba_range_seen_fn(void *ctx, const char *name, bool begins); /* NVTX; name NULL: the innermost ends */
/* An allocation on the GPU that failed with out-of-memory; free and total -1: not known. */
typedef void mba_short_of_memory_fn(void *ctx, int64_t asked, int64_t free, int64_t total);
/* Any of the three may be NULL. */
MBA_MUST mba_status mba_launches_begin(mba_launch_seen_fn *fn, mba_range_seen_fn *range, mba_short_of_memory_fn *memory,
                                       void *ctx);
void                mba_launches_end(void);

/* ---- counters ---- */
typedef struct mba_counters mba_counters;
MBA_MUST mba_status         mba_counters_open(mba_counters **out, const char *const *metric, int n, int64_t ranges);
MBA_MUST mba_status         mba_counters_start(mba_counters *s);
MBA_MUST mba_status         mba_counters_stop(mba_counters *s, bool *all);
MBA_MUST mba_status         mba_counters_decode(mba_counters *s, int64_t *ranges);
MBA_MUST mba_status         mba_counters_values(mba_counters *s, int64_t range, double *values);
int                         mba_counters_passes(const mba_counters *s);
void                        mba_counters_close(mba_counters *s); /* NULL is fine */

/* The number of passes that these metrics take; chip NULL: the current GPU, else a name like "GH100", for which no GPU
 * is needed. Fails if a metric is not known. */
MBA_MUST mba_status mba_counters_count_passes(int *passes, const char *chip, const char *const *metric, int n);

/* Groups the metrics of a set so that one pass reads a group; a metric that takes several passes is a group of its own.
 * Appends to `out`, which has *n groups and room for `most`; chip as above. */
typedef struct mba_counter_group {
    const mba_metric_set *set;
    const char           *metric[MBA_METRICS_MAX];
    int                   place[MBA_METRICS_MAX], n, passes; /* place: index in the set */
} mba_counter_group;
MBA_MUST mba_status mba_counters_group(mba_counter_group *out, int *n, int most, const char *chip,
                                       const mba_metric_set *s);

/* ---- executed instructions of a kernel ---- */
/* Every kernel launched between begin and end is patched and runs up to 100 times slower; the device must be idle at
 * both. */
enum { MBA_SASS_METRICS = 2 };
extern const char *const mba_sass_metrics[MBA_SASS_METRICS]; /* warp and thread instructions executed */
typedef struct mba_sass_count {
    const char *kernel, *file, *metric;
    uint32_t    pc;
    int         line;
    double      value;
} mba_sass_count; /* file "": not known */
typedef void mba_sass_fn(void *ctx, const mba_sass_count *c);
/* `only`: kernels whose name contains this; NULL: all. Finding a source line takes most of a millisecond. */
MBA_MUST mba_status mba_sass_begin(void);
MBA_MUST mba_status mba_sass_end(const char *only, mba_sass_fn *fn, void *ctx);
bool                mba_sass_is(const char *kernel, const char *only);

/* Samples of the program counter: per instruction, how often warps wait and why; `metric` is the stall reason. Call
 * begin before the first kernel of the process runs; start and stop with an idle device. `foreign`: samples of code
 * that was loaded before begin. */
typedef struct mba_samples_seen {
    int64_t samples, dropped, foreign;
} mba_samples_seen;
MBA_MUST mba_status mba_samples_begin(void);
MBA_MUST mba_status mba_samples_start(void);
/* Both deliver the samples so far and add to `seen`; end also delivers what CUPTI had buffered. */
MBA_MUST mba_status mba_samples_stop(const char *only, mba_sass_fn *fn, void *ctx, mba_samples_seen *seen);
void                mba_samples_end(const char *only, mba_sass_fn *fn, void *ctx, mba_samples_seen *seen);

/* Keeps the code that the process loads from now on, for source lines. Never fails: without it, lines are missing. */
void mba_modules_watch(void);
void mba_modules_line(uint64_t crc, const char *function, uint64_t pc, char *file, size_t room,
                      int *line); /* "" and 0: not known */
void mba_modules_forget(void);

/* The source line of an instruction, by the line table of its code (compiled with -lineinfo). Needs no GPU. */
MBA_MUST mba_status mba_sass_line(const void *code, size_t n, const char *function, uint32_t pc, char *file,
                                  size_t room, int *line);

#endif
