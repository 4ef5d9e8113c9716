// SPDX-License-Identifier: Apache-2.0
/* fig_memory.c -- the memory of a step: bytes alive at every node, and bytes by role. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "report/figure.h"
#include "scope/memory.h"

static bool has_memory(const mba_stores *r, int run) { return r->run[run].a->nnodes > 0 && r->run[run].operands > 0; }

static const mba_grid_column memory_columns[] = {
    { "role", "role" }, { "storages", "storages" }, { "mb", "MB, all of them" }, { "lives", "lives" }, { 0 }
};

static mba_status memory_numbers(mba_grid *g, const mba_stores *r, int run)
{
    mba_memory *m;
    MBA_TRY(mba_memory_of(r->run[run].a, &m));
    mba_assert(m->nroles <= MBA_MEMORY_ROLES && m->peak < r->run[run].a->nnodes);
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

/* The unit of bytes: GB from 10 GB on, else MB. */
typedef struct sized {
    double      by;
    const char *name;
} sized;
static sized unit_of(const mba_memory *m)
{
    return m->peak_bytes >= 1e10 ? (sized){ 1e9, "GB" } : (sized){ 1e6, "MB" };
}

static void memory_heading(mba_buf *b, const mba_stores *r, int run)
{
    mba_memory      *m;
    const mba_status st = mba_memory_of(r->run[run].a, &m);
    mba_buf_fail(b, st);
    if (st != MBA_OK) return;
    const sized unit = unit_of(m);
    if (!isnan(m->planned_bytes))
        mba_buf_add(b, "A step needs %s %s; tensors", mba_num(m->planned_bytes / unit.by).s, unit.name);
    else mba_buf_put(b, "Values");
    mba_buf_add(b, " of %s %s are live at its peak, at ", mba_num(m->peak_bytes / unit.by).s, unit.name);
    mba_buf_html(b, r->run[run].a->node[m->peak].op);
    // the peak counts every value, even if two share their bytes
    if (m->peak_bytes > m->planned_bytes)
        mba_buf_put(b, ": some share memory, such as results that overwrite their inputs, and activations in the "
                       "memory of later gradients");
    mba_memory_destroy(m);
}

/* Bars in the drawing; each shows the highest of the nodes it stands for. */
enum { POINTS = 120 };

static void draw_level(mba_svg *s, mba_scale x, mba_scale y, double v, const char *cls)
{
    mba_svg_line(s, x.a, mba_at(y, v), x.b, mba_at(y, v), cls, NULL);
}

static void draw_alive(mba_svg *s, mba_scale x, mba_scale y, const mba_analysis *a, const mba_memory *m, int points)
{
    const sized unit = unit_of(m);
    mba_assert(points > 0 && m->nnodes <= a->nnodes);
    const int64_t nodes = m->nnodes / points + 1;
    for (int64_t i = 0; i < m->nnodes; i += nodes) {
        int64_t at = i;
        for (int64_t k = i; k < i + nodes && k < m->nnodes; k++)
            if (m->alive_bytes[k] > m->alive_bytes[at]) at = k;
        const mba_row_node *n = &a->node[at];
        const double        v = m->alive_bytes[at] / unit.by, from = mba_at(x, (double)i);
        mba_svg_bar(s, from, mba_at(y, v), mba_at(x, (double)(i + nodes)) - from, y.a - mba_at(y, v), "",
                    mba_kind_paint(MBA_CONV),
                    mba_tip(s->c, "%s%s%s|%s %s alive at node %lld", n->op ? n->op : "?", n->scope ? ", " : "",
                            n->scope ? n->scope : "", mba_num(v).s, unit.name, (long long)n->id),
                    NULL);
    }
}

static mba_status memory_draw(mba_canvas *c, double w, const mba_stores *r, int run, int view)
{
    const double left = 56, right = w - 8, top = 20, bottom = 210;
    double       tick[16];
    mba_memory  *m;
    (void)view;
    MBA_TRY(mba_memory_of(r->run[run].a, &m));
    const sized     unit = unit_of(m);
    const double    planned = m->planned_bytes / unit.by, kept = m->kept_bytes / unit.by;
    const double    hi = 1.05 * fmax(m->peak_bytes / unit.by, isnan(planned) ? 0 : planned);
    const mba_scale x = mba_lin(0, (double)m->nnodes, left, right), y = mba_lin(0, hi, bottom, top);
    mba_svg         s = mba_svg_begin(c, w, bottom + 40, "Bytes alive at each node of a step");
    const int       ticks = mba_ticks(y, tick);
    for (int i = 0; i < ticks; i++) {
        draw_level(&s, x, y, tick[i], "g");
        mba_svg_text(&s, left - 5, mba_at(y, tick[i]) + 4, "t3", 'e', "%s", mba_num(tick[i]).s);
    }
    mba_svg_axis(&s, x, bottom, bottom, "operator, in the order they run");
    mba_svg_text(&s, 0, 11, "t2", 's', "%s alive", unit.name);
    draw_alive(&s, x, y, r->run[run].a, m, mba_marks_max(r, POINTS));
    draw_level(&s, x, y, kept, "ref dash");
    mba_svg_text(&s, left + 4, mba_at(y, kept) + (kept > 0.15 * hi ? 12 : -4), "t3 halo", 's', "always there %s %s",
                 mba_num(kept).s, unit.name);
    if (!isnan(planned)) {
        draw_level(&s, x, y, planned, "ref");
        mba_svg_text(&s, right - 2, mba_at(y, planned) - 4, "t3 halo", 'e', "plan %s %s", mba_num(planned).s,
                     unit.name);
    }
    mba_svg_end(&s);
    mba_memory_destroy(m);
    return MBA_OK;
}

const mba_figure mba_figure_memory = {
    "memory",
    "Memory plan",
    "Memory plan · live tensors",
    "Live tensors at each operator, from the graph: parameters, gradients and optimizer state always, "
    "activations from first to last use.",
    "Every tensor counts separately, from its first to its last use. The line is the size of the {memory plan}: "
    "alignment and scratch raise it, operators that overwrite their inputs lower it.",
    "operands of the graph: a store of our own models, not reduced with export --store",
    false,
    NULL,
    memory_columns,
    has_memory,
    memory_heading,
    memory_numbers,
    memory_draw,
    NULL
};
