// SPDX-License-Identifier: Apache-2.0
/* show_ranks.c -- the tables of `show` about several ranks: each rank, each collective. */
#include <math.h>

#include "cli/show_tables.h"
#include "scope/ranks.h"

const mba_column mba_rank_columns[] = { { "rank", "rank", "%.0f" },
                                        { "host", "host", NULL },
                                        { "plain_ms", "plain step, ms", "%.2f" },
                                        { "step_ms", "step, ms", "%.2f" },
                                        { "compute_ms", "compute, ms", "%.2f" },
                                        { "comm_ms", "collectives, ms", "%.2f" },
                                        { "wait_ms", "of it wait, ms", "%.2f" },
                                        { "exposed_ms", "exposed, ms", "%.2f" },
                                        { "overlap", "overlap, %", "%.1f" },
                                        { "last", "last, %", "%.0f" },
                                        { "offset_us", "clock, us", "%.1f" },
                                        { "round_trip_us", "round trip, us", "%.1f" },
                                        { "remark", "remark", NULL },
                                        { 0 } };

static void rank_row(mba_table *t, const mba_ranks *r, int64_t k)
{
    const mba_rank_view *v = &r->rank[k];
    mba_table_number(t, (double)v->row->id);
    mba_table_text(t, "%s", v->row->host ? v->row->host : "");
    mba_table_number(t, 1e3 * v->row->plain_s);
    mba_table_number(t, 1e3 * v->step_s);
    mba_table_number(t, 1e3 * v->compute_s);
    mba_table_number(t, 1e3 * v->comm_s);
    mba_table_number(t, 1e3 * v->wait_s);
    mba_table_number(t, 1e3 * v->exposed_s);
    mba_table_number(t, v->comm_s > 0 ? 100 * (1 - v->exposed_s / v->comm_s) : NAN);
    mba_table_number(t, r->arrivals ? 100 * (double)v->last / (double)r->arrivals : NAN);
    mba_table_number(t, 1e-3 * (double)v->row->offset_ns);
    mba_table_number(t, 1e-3 * (double)v->row->round_trip_ns);
    mba_table_text(t, "%s", r->arrivals && k == r->straggler ? "straggler" : "");
}

mba_status mba_fill_ranks(mba_table *t, const mba_analysis *a, bool full)
{
    const mba_ranks *r = a->ranks;
    (void)full;
    for (int64_t k = 0; r && k < r->ranks; k++) rank_row(t, r, k);
    return MBA_OK;
}

const mba_column mba_collective_columns[] = { { "node", "node", "%.0f" },
                                              { "operator", "operator", NULL },
                                              { "mb", "MB", "%.2f" },
                                              { "skew_ms", "skew, ms", "%.3f" },
                                              { "skew_most_ms", "most, ms", "%.3f" },
                                              { "wait_ms", "wait, ms", "%.3f" },
                                              { "transfer_ms", "transfer, ms", "%.3f" },
                                              { "bus_gbs", "GB/s", "%.2f" },
                                              { 0 } };

mba_status mba_fill_collectives(mba_table *t, const mba_analysis *a, bool full)
{
    const mba_ranks *r = a->ranks;
    (void)full;
    for (int64_t k = 0; r && k < r->ncollectives; k++) {
        const mba_collective_view *c = &r->collective[k];
        mba_table_number(t, (double)c->node->id);
        mba_table_text(t, "%s", c->node->op);
        mba_table_number(t, 1e-6 * c->bytes);
        mba_table_number(t, 1e3 * c->skew_s);
        mba_table_number(t, 1e3 * c->skew_most_s);
        mba_table_number(t, 1e3 * c->wait_s);
        mba_table_number(t, 1e3 * c->transfer_s);
        mba_table_number(t, c->bus_gbs);
    }
    return MBA_OK;
}
