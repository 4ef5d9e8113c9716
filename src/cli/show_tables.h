// SPDX-License-Identifier: Apache-2.0
/* show_tables.h -- the tables of `show`. Each is filled from an analysis of a store. */
#ifndef MBA_SHOW_TABLES_H
#define MBA_SHOW_TABLES_H

#include "cli/table.h"
#include "scope/analysis.h"

/* Fills a table; `full`: whole names and all rows, for programs. A table without rows is not printed. */
typedef struct mba_show_table {
    const char       *name, *title, *convention;
    const mba_column *columns;
    mba_status (*fill)(mba_table *t, const mba_analysis *a, bool full);
} mba_show_table;

extern const mba_show_table mba_show_tables[]; /* ends with an entry without a name */
const mba_show_table       *mba_show_table_find(const char *name);

/* show_kernels.c */
extern const mba_column mba_kernel_columns[], mba_roofline_columns[], mba_class_columns[], mba_ratio_columns[],
    mba_cache_columns[], mba_occupancy_columns[], mba_block_columns[], mba_counter_columns[], mba_unmatched_columns[],
    mba_advice_columns[];
mba_status mba_fill_kernels(mba_table *t, const mba_analysis *a, bool full);
mba_status mba_fill_unmatched(mba_table *t, const mba_analysis *a, bool full);
mba_status mba_fill_roofline(mba_table *t, const mba_analysis *a, bool full);
mba_status mba_fill_classes(mba_table *t, const mba_analysis *a, bool full);
mba_status mba_fill_ratio(mba_table *t, const mba_analysis *a, bool full);
mba_status mba_fill_caches(mba_table *t, const mba_analysis *a, bool full);
mba_status mba_fill_occupancy(mba_table *t, const mba_analysis *a, bool full);
mba_status mba_fill_counters(mba_table *t, const mba_analysis *a, bool full);
mba_status mba_fill_blocks(mba_table *t, const mba_analysis *a, bool full);
mba_status mba_fill_advice(mba_table *t, const mba_analysis *a, bool full);

/* show_ranks.c: stores of several ranks */
extern const mba_column mba_rank_columns[], mba_collective_columns[];
mba_status              mba_fill_ranks(mba_table *t, const mba_analysis *a, bool full);
mba_status              mba_fill_collectives(mba_table *t, const mba_analysis *a, bool full);

/* show_source.c */
extern const mba_column mba_source_columns[];
mba_status              mba_fill_source(mba_table *t, const mba_analysis *a, bool full);

#endif
