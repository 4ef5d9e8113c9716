// SPDX-License-Identifier: Apache-2.0
/* rank_merge.c -- see rank_merge.h. */
#include "scope/rank_merge.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "scope/analysis_parts.h"
#include "scope/clock.h"

enum { PINGS = 32, PATH_ROOM = 4096 };

/* ---- clocks ---- */

/* One rank at a time answers rank 0 with its clock. */
static mba_status ping(mba_rank_clocks *c, mba_world *w, int k)
{
    for (int i = 0; i < PINGS; i++) {
        int64_t theirs = 0, sent = mba_clock_ns();
        if (w->rank == k) {
            MBA_TRY(w->exchange(w, NULL, -1, &theirs, 0, sizeof theirs));
            theirs = mba_clock_ns();
            MBA_TRY(w->exchange(w, &theirs, 0, NULL, -1, sizeof theirs));
        } else if (w->rank == 0) {
            MBA_TRY(w->exchange(w, &sent, k, NULL, -1, sizeof sent));
            MBA_TRY(w->exchange(w, NULL, -1, &theirs, k, sizeof theirs));
            const int64_t now = mba_clock_ns();
            if (i && now - sent >= c->round_trip_ns[k]) continue;
            c->round_trip_ns[k] = now - sent;
            c->offset_ns[k] = theirs - (sent + (now - sent) / 2);
        }
    }
    return MBA_OK;
}

mba_status mba_rank_clocks_compare(mba_rank_clocks *c, mba_world *w)
{
    const size_t n = (size_t)w->ranks;
    char         host[MBA_RANK_HOST] = "";
    *c = (mba_rank_clocks){ calloc(n, sizeof *c->offset_ns), calloc(n, sizeof *c->round_trip_ns),
                            calloc(n, sizeof *c->host) };
    if (!c->offset_ns || !c->round_trip_ns || !c->host)
        return mba_fail(MBA_E_NOMEM, "no memory for the clocks of %d ranks", w->ranks);
    if (gethostname(host, sizeof host - 1)) snprintf(host, sizeof host, "?");
    MBA_TRY(w->gather_all(w, c->host, host, sizeof host));
    for (int k = 1; k < w->ranks; k++) MBA_TRY(ping(c, w, k));
    return mba_world_barrier(w);
}

void mba_rank_clocks_free(mba_rank_clocks *c)
{
    free(c->offset_ns);
    free(c->round_trip_ns);
    free(c->host);
    *c = (mba_rank_clocks){ 0 };
}

/* ---- stores ---- */

bool mba_rank_store_path(char *path, size_t room, const char *out, int rank)
{
    const size_t n = strlen(out), stem = n > 3 && !strcmp(out + n - 3, ".db") ? n - 3 : n;
    const int    made = rank ? snprintf(path, room, "%.*s.rank-%04d%s", (int)stem, out, rank, out + stem)
                             : snprintf(path, room, "%s", out);
    return made > 0 && (size_t)made < room;
}

/* The start of the timeline by the clock of that rank; absent: its device has a clock of its own. */
static mba_status timeline_start(int64_t *ns, const char **device, mba_store *s)
{
    mba_row_sheet *sheet;
    int64_t        n;
    *ns = MBA_ABSENT;
    *device = NULL;
    MBA_TRY(mba_load_sheet(s, &sheet, &n));
    for (int64_t i = 0; i < n; i++) {
        if (!strcmp(sheet[i].key, "run.timeline_start")) *ns = (int64_t)sheet[i].number;
        if (!strcmp(sheet[i].key, "gpu.name") || (!*device && !strcmp(sheet[i].key, "cpu.name")))
            *device = sheet[i].text;
    }
    return MBA_OK;
}

static mba_status plain_median(double *out, mba_store *s)
{
    mba_row_step *step;
    int64_t       n, plain = 0;
    MBA_TRY(mba_load_step(s, &step, &n));
    double *all = calloc((size_t)n + 1, sizeof *all);
    if (!all) return mba_fail(MBA_E_NOMEM, "no memory for the steps of a rank");
    for (int64_t i = 0; i < n; i++)
        if (!strcmp(step[i].mode, "plain")) all[plain++] = step[i].seconds;
    *out = plain ? mba__median(all, plain) : NAN;
    free(all);
    return MBA_OK;
}

/* Fails if the graphs of two ranks differ: one table of nodes serves all. */
static mba_status same_graph(mba_store *a, mba_store *b, int rank)
{
    mba_row_node *x, *y;
    int64_t       n, m;
    MBA_TRY(mba_load_node(a, &x, &n));
    MBA_TRY(mba_load_node(b, &y, &m));
    int64_t i = 0;
    while (i < n && i < m && !strcmp(x[i].op, y[i].op) && !strcmp(x[i].shape, y[i].shape)) i++;
    return i == n && n == m ? MBA_OK
                            : mba_fail(MBA_E_ARG,
                                       "rank %d has another graph than rank 0\nwhy: operator %lld is %s, not %s\nfix: "
                                       "start all ranks by one command",
                                       rank, (long long)i, i < m ? y[i].op : "missing", i < n ? x[i].op : "missing");
}

typedef struct merge {
    mba_store             *into; /* of rank 0 */
    const mba_rank_clocks *before, *after;
    int64_t                began_ns; /* the start of its timeline */
} merge;

static mba_status add_rank(const merge *g, mba_store *from, int rank)
{
    mba_row_event *event;
    mba_row_rank   row = mba_no_rank;
    int64_t        began, n;
    const int64_t  offset = g->before->offset_ns[rank];
    MBA_TRY(timeline_start(&began, &row.device, from));
    MBA_TRY(mba_load_event(from, &event, &n));
    MBA_TRY(plain_median(&row.plain_s, from));
    row.id = rank, row.host = g->before->host[rank], row.offset_ns = offset;
    row.drift_ns = g->after->offset_ns[rank] - offset, row.round_trip_ns = g->before->round_trip_ns[rank];
    MBA_TRY(mba_put_rank(g->into, &row));
    const int64_t shift = began == MBA_ABSENT || g->began_ns == MBA_ABSENT ? 0 : began - offset - g->began_ns;
    for (int64_t i = 0; i < n; i++)
        if (event[i].node != MBA_ABSENT)
            MBA_TRY(mba_put_rank_event(g->into, &(mba_row_rank_event){ .rank = rank,
                                                                       .step = event[i].step,
                                                                       .node = event[i].node,
                                                                       .stream = event[i].stream,
                                                                       .start_ns = event[i].start_ns + shift,
                                                                       .duration_ns = event[i].duration_ns }));
    if (began == MBA_ABSENT && rank)
        MBA_TRY(
            mba_put_note(g->into, &(mba_row_note){ .topic = "ranks",
                                                   .severity = "note",
                                                   .text = "the timeline of a rank is by a clock that nobody "
                                                           "compared: waits and skew between ranks are not known" }));
    return MBA_OK;
}

static mba_status add_file(const merge *g, const char *out, int rank)
{
    char       path[PATH_ROOM];
    mba_store *s;
    mba_assert(mba_rank_store_path(path, sizeof path, out, rank)); // it has been written
    if (access(path, R_OK))
        return mba_fail(MBA_E_IO,
                        "rank 0 does not see '%s'\nwhy: rank %d has written it on %s\nfix: --out on a file system that "
                        "all ranks share",
                        path, rank, g->before->host[rank]);
    MBA_TRY(mba_store_open(&s, path));
    mba_status st = same_graph(g->into, s, rank);
    if (st == MBA_OK) st = add_rank(g, s, rank);
    const mba_status closed = mba_store_close(s);
    return st == MBA_OK ? closed : st;
}

mba_status mba_rank_merge(mba_store *into, int ranks, const char *out, const mba_rank_clocks *before,
                          const mba_rank_clocks *after)
{
    merge       g = { .into = into, .before = before, .after = after };
    const char *device;
    MBA_TRY(timeline_start(&g.began_ns, &device, into));
    MBA_TRY(add_rank(&g, into, 0));
    for (int k = 1; k < ranks; k++) MBA_TRY(add_file(&g, out, k));
    return MBA_OK;
}
