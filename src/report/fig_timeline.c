// SPDX-License-Identifier: Apache-2.0
/* fig_timeline.c -- the timeline of one step: strips that are drawn here, and the events as JSON, which the script
 * zooms. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "report/parts.h"

enum { EVENTS_MAX = 6000 };
static const double HAIR = 0.8; /* px: events of a class that are closer in a strip are one bar */

static int64_t step_shown(const mba_analysis *a) { return a->steps / 2; }

static bool has_events(const mba_stores *r, int run) { return r->run[run].a->steps > 0 && r->run[run].a->busy_s > 0; }

static double end_of(const mba_timeline_event *m, int64_t n)
{
    double end = 0;
    for (int64_t i = 0; i < n; i++)
        if (m[i].start_s + m[i].duration_s > end) end = m[i].start_s + m[i].duration_s;
    return end;
}

static const mba_grid_column timeline_columns[] = { { "phase", "phase" },      { "events", "events" },
                                                    { "from_us", "from, µs" }, { "to_us", "to, µs" },
                                                    { "busy_us", "busy, µs" }, { "idle_us", "idle, µs" },
                                                    { "idle_pct", "idle, %" }, { 0 } };

/* Sums over one phase of the step, or all of it (phase -1). Kernels may overlap, so idle time is what no event covers,
 * not the total minus the durations. */
typedef struct phase_sums {
    int64_t events;
    double  from_s, to_s, busy_s, idle_s;
} phase_sums;

static phase_sums phase_sums_of(const mba_timeline_event *m, int64_t n, int phase)
{
    phase_sums t = { 0, NAN, NAN, 0, 0 };
    for (int64_t i = 0; i < n; i++) {
        if (phase >= 0 && m[i].phase != phase) continue;
        const double end = m[i].start_s + m[i].duration_s;
        if (m[i].start_s > t.to_s) t.idle_s += m[i].start_s - t.to_s; // events are sorted by start
        if (!(t.from_s <= m[i].start_s)) t.from_s = m[i].start_s;
        if (!(t.to_s >= end)) t.to_s = end;
        t.busy_s += m[i].duration_s;
        t.events++;
    }
    mba_assert(t.idle_s >= 0 && t.events <= n);
    return t;
}

static mba_status timeline_numbers(mba_grid *g, const mba_stores *r, int run)
{
    mba_timeline_event *m;
    int64_t             n;
    MBA_TRY(mba_timeline_of(r->run[run].a, step_shown(r->run[run].a), &m, &n));
    for (int p = -1; p < MBA_PHASES; p++) {
        const phase_sums t = phase_sums_of(m, n, p);
        if (!t.events) continue;
        mba_grid_text(g, p < 0 ? "the step" : p == MBA_PHASES - 1 ? "not known" : mba_phase_name(p));
        mba_grid_number(g, (double)t.events);
        mba_grid_number(g, 1e6 * t.from_s);
        mba_grid_number(g, 1e6 * t.to_s);
        mba_grid_number(g, 1e6 * t.busy_s);
        const double idle = p == MBA_PHASES - 1 ? NAN : t.idle_s; // copies around the step are not a phase
        mba_grid_number(g, 1e6 * idle);
        mba_grid_number(g, idle == 0 ? 0 : 100 * idle / (t.to_s - t.from_s));
    }
    free(m);
    return MBA_OK;
}

static void timeline_heading(mba_buf *b, const mba_stores *r, int run)
{
    const mba_analysis *a = r->run[run].a;
    mba_buf_add(b, "%s is %s ms of kernels in %s launches and %s ms of gaps",
                a->whole_program ? "The whole program" : "A step", mba_num(1e3 * a->busy_s).s,
                mba_num(mba_launches_of(a)).s, mba_num(1e3 * a->idle_s).s);
}

/* Draws the events of one class in a strip as one path: the strips give an overview, the zoom has tooltips per event.
 */
static void draw_class(mba_svg *s, const mba_timeline_event *m, int64_t n, mba_scale x, double y, double h, int kind)
{
    double  busy = 0, from = NAN, to = NAN;
    int64_t events = 0;
    mba_buf bars = { 0 };
    for (int64_t i = 0; i <= n; i++) {
        if (i < n && (m[i].kind != kind || m[i].start_s + m[i].duration_s < x.lo || m[i].start_s >= x.hi)) continue;
        const double a = i < n ? mba_at(x, m[i].start_s) : INFINITY,
                     b = i < n ? mba_at(x, m[i].start_s + m[i].duration_s) : INFINITY;
        if (a > to + HAIR || i == n) {
            if (!isnan(from)) mba_svg_bar_path(&bars, from, y, fmax(to - from, 0.4), h);
            from = a;
        }
        if (isnan(from)) from = a;
        to = b;
        if (i < n) busy += m[i].duration_s, events++;
    }
    if (events)
        mba_svg_bars(s, bars.s, mba_kind_paint(kind),
                     mba_tip(s->c, "%s|%s µs in %lld events of this strip", mba_kind_long(kind), mba_num(1e6 * busy).s,
                             (long long)events));
    s->out->failed |= bars.failed;
    mba_buf_free(&bars);
}

static void draw_phases(mba_svg *s, const mba_timeline_event *m, int64_t n, mba_scale x, double y)
{
    for (int p = 0; p < MBA_PHASES - 1; p++) {
        const phase_sums t = phase_sums_of(m, n, p);
        if (!t.events || t.to_s < x.lo || t.from_s >= x.hi) continue;
        const double from = mba_at(x, t.from_s), to = mba_at(x, t.to_s);
        mba_svg_line(s, from, y - 3, to, y - 3, "ax", NULL);
        if (to - from > MBA_LETTER * 10)
            mba_svg_text(s, (from + to) / 2, y - 7, "t3 halo", 'm', "%s", mba_phase_name(p));
    }
}

static mba_status timeline_draw(mba_canvas *c, double w, const mba_stores *r, int run, int view)
{
    const bool          narrow = w <= MBA_NARROW;
    const int           strips = narrow ? 4 : 2;
    const double        h = 34, pitch = 78;
    mba_timeline_event *m;
    int64_t             n;
    (void)view;
    MBA_TRY(mba_timeline_of(r->run[run].a, step_shown(r->run[run].a), &m, &n));
    const double end = end_of(m, n);
    mba_svg      s = mba_svg_begin(c, w, strips * pitch + 24, "Timeline of a step");
    for (int i = 0; i < strips; i++) {
        const mba_scale x = mba_lin(end * i / strips, end * (i + 1) / strips, 4, w - 4);
        const double    y = 18 + pitch * i;
        double          tick[16];
        const mba_scale us = mba_lin(1e6 * x.lo, 1e6 * x.hi, x.a, x.b);
        const double    step = mba_round_up((us.hi - us.lo) / (narrow ? 4 : 8));
        int             ticks = 0;
        for (double v = ceil(us.lo / step) * step; v <= us.hi && ticks < 16; v += step) tick[ticks++] = v;
        mba_svg_line(&s, 4, y + h / 2, w - 4, y + h / 2, "g", NULL);
        for (int k = 0; k < MBA_BREAKDOWN_KINDS; k++) draw_class(&s, m, n, x, y, h, k);
        draw_phases(&s, m, n, x, y);
        for (int k = 0; k < ticks; k++) {
            const double at = mba_at(us, tick[k]);
            mba_svg_line(&s, at, y + h, at, y + h + 4, "ax", NULL);
            mba_svg_text(&s, at, y + h + 15, "t3", at < 30 ? 's' : at > w - 30 ? 'e' : 'm', "%s", mba_num(tick[k]).s);
        }
    }
    mba_svg_text(&s, w / 2, strips * pitch + 18, "t2", 'm', "µs since the start of the step");
    mba_svg_end(&s);
    free(m);
    return MBA_OK;
}

static void timeline_legend(mba_buf *b, const mba_stores *r, int run)
{
    for (int k = 0; k < MBA_BREAKDOWN_KINDS; k++)
        if (mba_kind_s(r->run[run].a, k) > 0) mba_legend_item(b, mba_kind_paint(k), mba_kind_long(k));
}

const mba_figure mba_figure_timeline = {
    "timeline",
    "Timeline",
    "Timeline · one step",
    "Every kernel and copy of one step, to scale, in consecutive strips; gaps are empty.",
    "The strips show the whole step. The zoom below shows phases, layers and every kernel with its name and time: "
    "drag, "
    "or use the buttons; arrow keys move, + and − zoom.",
    "a timeline: mambascope profile --model NAME --out run.db",
    false,
    NULL,
    timeline_columns,
    has_events,
    timeline_heading,
    timeline_numbers,
    timeline_draw,
    timeline_legend
};

/* ---- for the script ---- */

/* From, to and number of each layer, in ns: as long as events of one phase belong to it. */
static void layers_json(mba_buf *b, const mba_timeline_event *m, int64_t n)
{
    bool any = false;
    mba_buf_put(b, "],\"layers\":[");
    for (int64_t i = 0, k; i < n; i = k) {
        double end = 0;
        for (k = i; k < n && m[k].layer == m[i].layer && m[k].phase == m[i].phase; k++)
            end = fmax(end, m[k].start_s + m[k].duration_s);
        mba_assert(k > i);
        if (m[i].layer == MBA_ABSENT) continue;
        mba_buf_add(b, "%s%.0f,%.0f,%lld", any ? "," : "", 1e9 * m[i].start_s, 1e9 * end, (long long)m[i].layer);
        any = true;
    }
}

/* Each name once; five numbers per event: start relative to the previous event and duration in ns, name, class, phase.
 */
mba_status mba_timeline_json(mba_buf *b, const mba_analysis *a)
{
    mba_timeline_event *m = NULL;
    int64_t             n = 0;
    MBA_TRY(mba_timeline_of(a, step_shown(a), &m, &n));
    const int64_t shown = n < EVENTS_MAX ? n : EVENTS_MAX;
    const char  **name = calloc((size_t)shown + 1, sizeof *name);
    int           names = 0;
    if (!name) {
        free(m);
        return mba_fail(MBA_E_NOMEM, "no memory for the names of %lld events", (long long)n);
    }
    mba_buf_add(b, "{\"step\":%lld,\"left_out\":%lld,\"events\":[", (long long)step_shown(a), (long long)(n - shown));
    for (int64_t i = 0; i < shown; i++) {
        int at = 0;
        while (at < names && name[at] != m[i].name) at++; // the same row gives the same pointer
        if (at == names) name[names++] = m[i].name;
        mba_debug_assert(names <= shown);
        const int64_t start = llround(1e9 * m[i].start_s), before = i ? llround(1e9 * m[i - 1].start_s) : 0;
        mba_buf_add(b, "%s%lld,%.0f,%d,%d,%d", i ? "," : "", (long long)(start - before), 1e9 * m[i].duration_s, at,
                    m[i].kind, m[i].phase);
    }
    layers_json(b, m, shown);
    mba_buf_put(b, "],\"names\":[");
    for (int i = 0; i < names; i++) {
        if (i) mba_buf_put(b, ",");
        mba_buf_json(b, name[i]);
    }
    mba_buf_put(b, "]}");
    free(name);
    free(m);
    return MBA_OK;
}
