// SPDX-License-Identifier: Apache-2.0
/* embed_sum_slots.h -- what the files of embed_sum share: slots by name, attributes and the declarations of
 * variants. */
#ifndef MBA_EMBED_SUM_SLOTS_H
#define MBA_EMBED_SUM_SLOTS_H

#include "ops/columns.h"
#include "ops/rows.h"

enum { INDEX, TABLE }; /* forward: in, out */
enum { Y };
enum { INDEXB, DY }; /* backward: in, out */
enum { DTABLE };
typedef struct embed_sum_bwd_attr {
    mba_type table;
} embed_sum_bwd_attr;

enum { EMBED_SUM_PARTS = 8 }; /* CPU backward: parts of the rows, each with a table of its own */

void embed_sum_ref(const mba_ref_call *c);
void embed_sum_bwd_ref(const mba_ref_call *c);
MBA_CPU_DECLARE(embed_sum_fwd);
MBA_CPU_DECLARE(embed_sum_bwd);
mba_launch_fn embed_sum_cuda, embed_sum_bwd_cuda;

/* CUDA backward: a block owns 32 columns of up to 512 rows of the table and loops over one part of the index. */
enum {
    EMBED_SUM_COLS = 32,
    EMBED_SUM_TABLE_ROWS = 512,
    EMBED_SUM_PART_ROWS = 128,
    EMBED_SUM_PARTS_MAX = 256,
    EMBED_SUM_PART_FLOATS = 1 << 24
};

static inline int64_t embed_sum_parts(int64_t rows, int64_t table_elems)
{
    const int64_t want = mba_ceil(rows, EMBED_SUM_PART_ROWS), room = mba_ceil(EMBED_SUM_PART_FLOATS, table_elems);
    const int64_t most = room < EMBED_SUM_PARTS_MAX ? room : EMBED_SUM_PARTS_MAX;
    return want < most ? want : most;
}

static inline int64_t embed_sum_table_rows(int64_t rows)
{
    return rows < EMBED_SUM_TABLE_ROWS ? rows : EMBED_SUM_TABLE_ROWS;
}

#endif
