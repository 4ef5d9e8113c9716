// SPDX-License-Identifier: Apache-2.0
/* fig_ranks.c -- one step on all ranks, side by side: what they compute, where they wait for the last, what they
 * exchange. Only stores of several ranks have it. */
#include <math.h>

#include "report/parts.h"
#include "scope/ranks.h"

static const double HAIR = 0.8; /* px: marks of a kind that are closer are one bar */

static bool has_ranks(const mba_stores *r, int run) { return r->run[run].a->ranks && r->run[run].a->ranks->nevents; }

static const mba_grid_column columns[] = { { "rank", "rank" },
                                           { "host", "host" },
                                           { "step_ms", "step, ms" },
                                           { "compute_ms", "compute, ms" },
                                           { "comm_ms", "collectives, ms" },
                                           { "wait_ms", "of it wait, ms" },
                                           { "exposed_ms", "exposed, ms" },
                                           { "overlap_pct", "overlap, %" },
                                           { "last_pct", "last, %" },
                                           { "clock_us", "clock, µs" },
                                           { 0 } };

static mba_status numbers(mba_grid *g, const mba_stores *r, int run)
{
    const mba_ranks *m = r->run[run].a->ranks;
    for (int64_t k = 0; k < m->ranks; k++) {
        const mba_rank_view *v = &m->rank[k];
        mba_grid_number(g, (double)v->row->id);
        mba_grid_text(g, v->row->host ? v->row->host : "");
        mba_grid_number(g, 1e3 * v->step_s);
        mba_grid_number(g, 1e3 * v->compute_s);
        mba_grid_number(g, 1e3 * v->comm_s);
        mba_grid_number(g, 1e3 * v->wait_s);
        mba_grid_number(g, 1e3 * v->exposed_s);
        mba_grid_number(g, v->comm_s > 0 ? 100 * (1 - v->exposed_s / v->comm_s) : NAN);
        mba_grid_number(g, m->arrivals ? 100 * (double)v->last / (double)m->arrivals : NAN);
        mba_grid_number(g, 1e-3 * (double)v->row->offset_ns);
    }
    return MBA_OK;
}

static void heading(mba_buf *b, const mba_stores *r, int run)
{
    const mba_ranks *m = r->run[run].a->ranks;
    double           step = 0, comm = 0, exposed = 0;
    for (int64_t k = 0; k < m->ranks; k++)
        step += m->rank[k].step_s, comm += m->rank[k].comm_s, exposed += m->rank[k].exposed_s;
    mba_buf_add(b, "%lld ranks: %s %% of a step is exposed communication, %s %% of communication is hidden",
                (long long)m->ranks, mba_num(step > 0 ? 100 * exposed / step : 0).s,
                mba_num(comm > 0 ? 100 * (1 - exposed / comm) : 0).s);
    if (m->arrivals)
        mba_buf_add(b, "; rank %lld is last most often, median skew %s ms", (long long)m->straggler,
                    mba_num(1e3 * m->skew_s).s);
}

/* ---- the drawing ---- */

typedef enum part { COMPUTE, WAIT, TRANSFER, PARTS } part;
static const char *const part_words[PARTS] = { "computes", "waits for the last rank", "exchanges" };

/* "ceil" and the like are colours of report.css. */
static const char *part_paint(part p)
{
    return p == COMPUTE ? mba_kind_paint(MBA_GEMM)
           : p == WAIT  ? mba_kind_paint(MBA_OTHER)
                        : mba_kind_paint(MBA_COLLECTIVE);
}

static int64_t step_shown(const mba_ranks *m) { return m->steps / 2; }

/* When the last rank starts a node in the step that is shown. */
static int64_t last_start(const mba_ranks *m, int64_t node)
{
    int64_t last = INT64_MIN;
    for (int64_t i = 0; i < m->nevents; i++)
        if (m->event[i].node == node && m->event[i].step == step_shown(m) && m->event[i].start_ns > last)
            last = m->event[i].start_ns;
    return last;
}

/* The part of an event that is drawn as p, in ns; false: none. */
static bool part_of(int64_t *from, int64_t *to, const mba_ranks *m, const mba_row_rank_event *e, part p)
{
    const int64_t end = e->start_ns + e->duration_ns;
    *from = e->start_ns, *to = end;
    if (!m->communicates[e->node]) return p == COMPUTE;
    if (p == COMPUTE) return false;
    int64_t last = last_start(m, e->node);
    if (last > end) last = end;
    *(p == WAIT ? to : from) = last;
    return *to > *from;
}

static void draw_part(mba_svg *s, const mba_ranks *m, int64_t rank, part p, mba_scale x, double y, double h)
{
    mba_buf bars = { 0 };
    double  from = NAN, to = NAN, sum = 0;
    for (int64_t i = 0; i < m->nevents; i++) {
        int64_t a, b;
        if (m->event[i].rank != rank || m->event[i].step != step_shown(m) || !part_of(&a, &b, m, &m->event[i], p))
            continue;
        const double at = mba_at(x, 1e-6 * (double)a), end = mba_at(x, 1e-6 * (double)b);
        sum += 1e-6 * (double)(b - a);
        if (!isnan(from) && (at > to + HAIR || at < from)) {
            mba_svg_bar_path(&bars, from, y, fmax(to - from, 0.4), h);
            from = NAN;
        }
        if (isnan(from)) from = at, to = end;
        to = fmax(to, end);
    }
    if (!isnan(from)) {
        mba_svg_bar_path(&bars, from, y, fmax(to - from, 0.4), h);
        mba_svg_bars(s, bars.s, part_paint(p),
                     mba_tip(s->c, "rank %lld|%s: %s ms", (long long)rank, part_words[p], mba_num(sum).s));
    }
    s->out->failed |= bars.failed;
    mba_buf_free(&bars);
}

static mba_status draw(mba_canvas *c, double w, const mba_stores *r, int run, int view)
{
    const mba_ranks *m = r->run[run].a->ranks;
    const double     left = 64, pitch = 30, h = 20, bottom = 12 + pitch * (double)m->ranks;
    int64_t          from = INT64_MAX, to = INT64_MIN;
    (void)view;
    for (int64_t i = 0; i < m->nevents; i++) {
        if (m->event[i].step != step_shown(m)) continue;
        const int64_t end = m->event[i].start_ns + m->event[i].duration_ns;
        if (m->event[i].start_ns < from) from = m->event[i].start_ns;
        if (end > to) to = end;
    }
    mba_svg         s = mba_svg_begin(c, w, bottom + 44, "One step on all ranks");
    const mba_scale x = mba_lin(1e-6 * (double)from, 1e-6 * (double)to, left, w - 8);
    for (int64_t k = 0; k < m->ranks && to > from; k++) {
        const double y = 12 + pitch * (double)k;
        mba_svg_text(&s, left - 6, y + h / 2 + 4, "t2", 'e', "rank %lld", (long long)k);
        mba_svg_line(&s, left, y + h / 2, w - 8, y + h / 2, "g", NULL);
        for (part p = COMPUTE; p < PARTS; p++) draw_part(&s, m, k, p, x, y, h);
    }
    if (to > from)
        mba_svg_axis(&s, mba_lin(0, 1e-6 * (double)(to - from), left, w - 8), 12, bottom,
                     "ms since the first rank began");
    mba_svg_end(&s);
    return MBA_OK;
}

static void legend(mba_buf *b, const mba_stores *r, int run)
{
    (void)r, (void)run;
    for (part p = COMPUTE; p < PARTS; p++) mba_legend_item(b, part_paint(p), part_words[p]);
}

const mba_figure mba_figure_ranks = {
    .name = "ranks",
    .nav = "Ranks",
    .eyebrow = "Ranks · one step",
    .sub = "One step on every rank, by the clock of rank 0, to scale.",
    .reading =
        "A rank that starts a collective early waits until the last one starts it; the rest is transfer. What is "
        "neither is idle. Communication is {exposed|exposed communication} while its rank computes nothing. Clocks are "
        "compared by "
        "messages: no rank leaves a collective before the last enters, and what contradicts that is clock "
        "error.",
    .needs = "several ranks: mpirun -np 4 mambascope profile --model NAME --out run.db",
    .columns = columns,
    .has = has_ranks,
    .heading = heading,
    .numbers = numbers,
    .draw = draw,
    .legend = legend,
};
