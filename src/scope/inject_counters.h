// SPDX-License-Identifier: Apache-2.0
/* inject_counters.h -- hardware counters inside an external process: one group of metrics after the other, each over a
 * number of launches in which every distinct kernel is read twice.
 *
 *     mba_inject_count_begin("overview,pipes", 4096, put_counter, put_cost, ctx);
 *     MBA_TRY(mba_inject_count(launch));                    // before every launch that may be read
 *     mba_inject_count_end();                               // the last group may be short
 */
#ifndef MBA_SCOPE_INJECT_COUNTERS_H
#define MBA_SCOPE_INJECT_COUNTERS_H

#include "scope/cupti_collect.h"
#include "scope/trace_file.h"

typedef void mba_put_counter_fn(void *ctx, const mba_trace_counter *c);
typedef void mba_put_cost_fn(void *ctx, const mba_trace_cost *c);

void mba_inject_count_begin(const char *sets, int64_t launches, mba_put_counter_fn *put, mba_put_cost_fn *cost,
                            void *ctx);
MBA_MUST mba_status mba_inject_count(const mba_launch_seen *l);
void                mba_inject_count_end(void);
bool                mba_inject_count_done(void); /* all groups are read, or reading failed */

#endif
