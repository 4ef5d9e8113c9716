/* export_store.c -- a smaller store from a large one: fewer steps, without what is kept for looking closely. */
#include <string.h>

#include "scope/export.h"

typedef struct copying { mba_store *to; mba_store_rows table; int64_t steps; } copying;

static mba_status copy_row(void *ctx, const void *row)
{
    const copying *c = ctx;
    if (c->table == MBA_ROWS_event && ((const mba_row_event *)row)->step >= c->steps) return MBA_OK;
    return mba_store_put(c->to, c->table, row);
}

mba_status mba_export_store(mba_store *from, const char *path, int64_t steps)
{
    copying    c = { .steps = steps };
    mba_status st = MBA_OK;
    if (!strcmp(path, mba_store_path(from)))
        return mba_fail(MBA_E_ARG, "'%s' cannot be its own copy\nfix: name another file", path);
    MBA_TRY(mba_store_create(&c.to, path));
    for (int t = 0; t < MBA_ROWS_COUNT && st == MBA_OK; t++) {
        c.table = (mba_store_rows)t;
        if (t != MBA_ROWS_operand && t != MBA_ROWS_block && t != MBA_ROWS_instruction)
            st = mba_store_each(from, c.table, NULL, copy_row, &c);
    }
    const mba_status closed = mba_store_close(c.to);
    return st == MBA_OK ? closed : st;
}
