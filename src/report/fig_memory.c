/* fig_memory.c -- the memory of a step: what is alive at every node, and who owns it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "report/figure.h"
#include "scope/memory.h"

/* Operands are many; they are counted only once per question. */
static bool has_memory(const mba_stores *r, int run)
{
    int64_t n = 0;
    return r->run[run].a->nnodes > 0 && mba_store_count(r->run[run].store, MBA_ROWS_operand, &n) == MBA_OK && n > 0;
}

static const mba_grid_column memory_columns[] = { { "role", "role" }, { "storages", "storages" }, { "mb", "MB, all" },
                                                  { "lives", "lives" }, { 0 } };

static mba_status memory_numbers(mba_grid *g, const mba_stores *r, int run)
{
    mba_memory *m;
    MBA_TRY(mba_memory_of(r->run[run].a, &m));
    for (int i = 0; i < m->nroles; i++) {
        mba_grid_text(g, m->role[i].name);
        mba_grid_number(g, (double)m->role[i].storages);
        mba_grid_number(g, m->role[i].bytes / 1e6);
        mba_grid_text(g, m->role[i].kept ? "always" : "from first to last use");
    }
    mba_grid_text(g, "alive at the peak");
    mba_grid_number(g, NAN);
    mba_grid_number(g, m->peak_bytes / 1e6);
    mba_grid_text(g, r->run[run].a->node[m->peak].op);
    mba_grid_text(g, "planned");
    mba_grid_number(g, NAN);
    mba_grid_number(g, m->planned_bytes / 1e6);
    mba_grid_text(g, "memory of a step, as planned");
    mba_memory_destroy(m);
    return MBA_OK;
}

static void memory_heading(mba_buf *b, const mba_stores *r, int run)
{
    mba_memory *m;
    if (mba_memory_of(r->run[run].a, &m) != MBA_OK) {
        mba_buf_put(b, "Memory of a step");
        return;
    }
    mba_buf_add(b, "At its peak %s MB are alive, at ", mba_num(m->peak_bytes / 1e6).s);
    mba_buf_html(b, r->run[run].a->node[m->peak].op);
    if (!isnan(m->planned_bytes)) mba_buf_add(b, "; the plan takes %s MB", mba_num(m->planned_bytes / 1e6).s);
    mba_memory_destroy(m);
}

/* At most this many points: the highest of its stretch each. */
enum { POINTS = 120 };

static mba_status memory_draw(mba_canvas *c, double w, const mba_stores *r, int run, int view)
{
    const mba_analysis *a = r->run[run].a;
    const double        left = 56, right = w - 8, top = 20, bottom = 210;
    double              tick[16], px[POINTS], py[POINTS];
    mba_memory         *m;
    int                 n = 0;
    (void)view;
    MBA_TRY(mba_memory_of(a, &m));
    const double    hi = 1.05 * fmax(m->peak_bytes, isnan(m->planned_bytes) ? 0 : m->planned_bytes) / 1e6;
    const mba_scale x = mba_lin(0, (double)m->nnodes, left, right), y = mba_lin(0, hi, bottom, top);
    mba_svg         s = mba_svg_begin(c, w, bottom + 40, "Megabytes alive at each node of a step");
    const int       ticks = mba_ticks(y, tick);
    for (int i = 0; i < ticks; i++) {
        mba_svg_line(&s, left, mba_at(y, tick[i]), right, mba_at(y, tick[i]), "g", NULL);
        mba_svg_text(&s, left - 5, mba_at(y, tick[i]) + 4, "t3", 'e', "%s", mba_num(tick[i]).s);
    }
    mba_svg_axis(&s, x, bottom, bottom, "operator, in the order they run");
    mba_svg_text(&s, 0, 11, "t2", 's', "MB alive");
    const int64_t stretch = m->nnodes / mba_most(r, POINTS) + 1;
    for (int64_t i = 0; i < m->nnodes && n < POINTS; i += stretch) {
        int64_t at = i;
        for (int64_t k = i; k < i + stretch && k < m->nnodes; k++) if (m->alive_bytes[k] > m->alive_bytes[at]) at = k;
        const double mb = m->alive_bytes[at] / 1e6;
        px[n] = mba_at(x, (double)at), py[n] = mba_at(y, mb), n++;
        mba_svg_bar(&s, mba_at(x, (double)i), mba_at(y, mb), mba_at(x, (double)(i + stretch)) - mba_at(x, (double)i),
                    bottom - mba_at(y, mb), "",
                    mba_kind_paint(MBA_CONV), mba_tip(c, "%s%s%s|%s MB alive at node %lld", a->node[at].op
                                                      ? a->node[at].op : "?", a->node[at].scope ? ", " : "",
                    a->node[at].scope ? a->node[at].scope : "", mba_num(mb).s, (long long)a->node[at].id), NULL);
    }
    mba_svg_polyline(&s, px, py, n, "gemm");
    mba_svg_line(&s, left, mba_at(y, m->kept_bytes / 1e6), right, mba_at(y, m->kept_bytes / 1e6), "ref dash", NULL);
    mba_svg_text(&s, left + 4, mba_at(y, m->kept_bytes / 1e6) + (m->kept_bytes / 1e6 > 0.15 * hi ? 12 : -4), "t3 halo",
                 's', "always there %s MB", mba_num(m->kept_bytes / 1e6).s);
    if (!isnan(m->planned_bytes)) {
        mba_svg_line(&s, left, mba_at(y, m->planned_bytes / 1e6), right, mba_at(y, m->planned_bytes / 1e6), "ref",
                     NULL);
        mba_svg_text(&s, right - 2, mba_at(y, m->planned_bytes / 1e6) - 4, "t3 halo", 'e', "plan %s MB",
                     mba_num(m->planned_bytes / 1e6).s);
    }
    mba_svg_end(&s);
    mba_memory_destroy(m);
    return MBA_OK;
}

const mba_figure mba_figure_memory = {
    "memory", "Memory plan", "Memory plan · what is alive",
    "Megabytes alive at each operator, from the graph: parameters, gradients and optimizer state all the time, "
    "activations from first to last use.",
    "Every value counts by itself, from its first to its last use. The line is what the plan really takes: "
    "alignment and scratch lift it, operators that write over what they read lower it.",
    "operands of the graph: a store of our own models, not one made smaller with export --store",
    false, NULL, memory_columns, has_memory, memory_heading, memory_numbers, memory_draw, NULL };
