// SPDX-License-Identifier: Apache-2.0
/* overview.c -- see parts.h: the first screen: what was measured and on which machine, the findings in a few sentences,
 * and a picture of all runs. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/version.h"
#include "report/parts.h"

/* ---- the top line ---- */

static void item(mba_buf *b, const char *text)
{
    mba_buf_put(b, "<span>");
    mba_buf_html(b, text);
    mba_buf_put(b, "</span>");
}

static void hardware(mba_buf *b, const mba_analysis *a)
{
    if (a->sms > 0 && !isnan(a->sheet.dram)) {
        mba_buf_add(b, "<span>%s SMs · %s GB/s</span>", mba_num(a->sms).s, mba_num(a->sheet.dram / 1e9).s);
        return;
    }
    const double threads = mba_env_value(a, "cpu.threads");
    if (threads > 0) mba_buf_add(b, "<span>%s thread%s</span>", mba_num(threads).s, threads > 1 ? "s" : "");
}

void mba_part_top(mba_buf *b, const mba_stores *r)
{
    mba_assert(r->n > 0 && r->shown > 0 && r->shown <= r->n);
    const mba_analysis *a = r->run[0].a;
    const char         *date = mba_env_find(a, "run.date"), *commit = mba_env_find(a, "program.commit"),
               *precision = mba_env_find(a, "run.precision");
    mba_buf_put(b, "<header class=\"top\"><b>mambascope " MBA_VERSION "</b>");
    item(b, *mba_run_device(a) ? mba_run_device(a) : "unknown device");
    hardware(b, a);
    if (precision) item(b, precision);
    char day[11];
    snprintf(day, sizeof day, "%s", date ? date : "");
    if (date) item(b, day);
    const char *sources = mba_env_find(a, "program.sources");
    if (commit) mba_buf_put(b, "<span>measured by "), mba_buf_html(b, commit);
    if (commit && sources && *sources) mba_buf_put(b, ", sources "), mba_buf_html(b, mba_short(sources, 12).s);
    if (commit) mba_buf_put(b, "</span>");
    mba_buf_put(b, "<span class=\"sp\"></span><button id=\"theme\" class=\"noprint\">theme: auto</button></header>");
}

/* ---- title and summary ---- */

static bool one_device(const mba_stores *r)
{
    for (int i = 1; i < r->shown; i++)
        if (strcmp(mba_run_device(r->run[i].a), mba_run_device(r->run[0].a))) return false;
    return *mba_run_device(r->run[0].a) != 0;
}

static void title(mba_buf *b, const mba_stores *r)
{
    mba_buf_put(b, "<p class=\"eyebrow\">Characterization of training · ");
    if (r->shown == 1) mba_buf_html(b, mba_run_label(r, 0));
    else mba_buf_add(b, "%d models", r->shown);
    mba_buf_put(b, "</p><h1>What holds training back");
    if (one_device(r)) mba_buf_put(b, " on the "), mba_buf_html(b, mba_short(mba_run_device(r->run[0].a), 40).s);
    mba_buf_put(b, r->whatif && r->whatif->nmodels ? ", and what would help</h1>" : "</h1>");
}

typedef double part_fn(const mba_analysis *a);
typedef struct spread {
    double lo, hi;
    int    known;
} spread;

/* Percent of a class; NaN if most of the time has no class, because the shares would mean nothing. */
static double class_part(const mba_analysis *a, int kind)
{
    return mba_kind_s(a, MBA_OTHER) > 0.5 * a->busy_s ? NAN : 100 * mba_kind_s(a, kind) / a->busy_s;
}

/* With the head's products, as everywhere on the page but in tables by operator class. */
static double gemm_part(const mba_analysis *a)
{
    return isnan(class_part(a, MBA_GEMM)) ? NAN : 100 * mba_products_s(a) / a->busy_s;
}
static double ssm_part(const mba_analysis *a) { return class_part(a, MBA_SSM); }
static double ssm_gb_s(const mba_analysis *a)
{
    const mba_bandwidth w = mba_bandwidth_of(a, MBA_SSM_KERNELS);
    return w.least ? NAN : w.mean / 1e9; // least bytes give a bound, not a bandwidth
}
static double floor_part(const mba_analysis *a) { return mba_percent_of_least(a, MBA_ALL_KERNELS); }

static spread spread_of(const mba_stores *r, part_fn *part)
{
    spread s = { NAN, NAN, 0 };
    for (int i = 0; i < r->shown; i++) {
        const double v = part(r->run[i].a);
        if (isnan(v)) continue;
        s.known++;
        if (!(s.lo <= v)) s.lo = v;
        if (!(s.hi >= v)) s.hi = v;
    }
    mba_assert(s.known == 0 || s.lo <= s.hi);
    return s;
}

/* "21.2 %", or "10.1 to 45.5 %". */
static void put_spread(mba_buf *b, spread s, const char *unit)
{
    mba_buf_add(b, "<b>%s", mba_num(s.lo).s);
    if (strcmp(mba_num(s.lo).s, mba_num(s.hi).s)) mba_buf_add(b, " to %s", mba_num(s.hi).s);
    mba_buf_add(b, "\u00a0%s</b>", unit);
}

static void what_was_measured(mba_buf *b, const mba_stores *r)
{
    const mba_analysis *a = r->run[0].a;
    const bool          foreign = r->shown == 1 && mba_run_is_foreign(a);
    mba_buf_add(b, "Measured: %s of ",
                a->whole_program ? "the whole run"
                : foreign        ? "a step"
                                 : "a training step (forward, loss, backward, optimizer)");
    mba_buf_put(b, foreign ? "an external program" : r->shown == 1 ? "this model" : "each model");
    if (!isnan(a->measured.dram)) mba_buf_add(b, "; this machine copies %s GB/s", mba_num(a->measured.dram / 1e9).s);
    if (!isnan(a->measured.tensor))
        mba_buf_add(b, " and multiplies matrices at %s TFLOP/s", mba_num(a->measured.tensor / 1e12).s);
    mba_buf_put(b, ".");
}

/* The study's two other numbers, if counters have them. */
static void how_ssm_runs(mba_buf *b, const mba_stores *r)
{
    const spread moved = spread_of(r, ssm_gb_s), vector = spread_of(r, mba_percent_vector);
    if (moved.known) {
        mba_buf_put(b, " SSM kernels move ");
        put_spread(b, moved, "GB/s");
        mba_buf_put(b, " to and from DRAM (mean over launches)");
        mba_buf_put(b, vector.known
                           ? "; by the rule with the highest value, vector work takes longer than tensor work for "
                           : ".");
    }
    if (!moved.known || !vector.known) return;
    put_spread(b, vector, "%");
    mba_buf_put(b, " of the time of the mixed ones.");
}

static void what_was_found(mba_buf *b, const mba_stores *r)
{
    const spread   gemm = spread_of(r, gemm_part), ssm = spread_of(r, ssm_part), met = spread_of(r, floor_part);
    const mba_gain most = mba_most_to_gain(r);
    if (!gemm.known) return;
    mba_buf_put(b, " GEMM takes ");
    put_spread(b, gemm, "%");
    mba_buf_put(b, " of the kernel time");
    if (ssm.hi > 0) mba_buf_put(b, ", SSM operators "), put_spread(b, ssm, "%");
    else mba_buf_put(b, "; there are no SSM kernels");
    mba_buf_put(b, ".");
    how_ssm_runs(b, r);
    if (met.known) {
        mba_buf_put(b, " The kernels of a step run at ");
        put_spread(b, met, "%");
        mba_buf_put(b, " of their floor, the time for the least work at the measured ceilings.");
    }
    if (most.kernel) {
        mba_buf_put(b, " Largest possible gain: <b>");
        mba_buf_html(b, mba_short(most.kernel->row->name, 40).s);
        mba_buf_put(b, "</b>");
        if (r->shown > 1) mba_buf_put(b, " in "), mba_buf_html(b, most.run->label);
        mba_buf_add(b, ", %s\u00a0%% of the step above its floor, which %s sets.", mba_num(100 * most.part).s,
                    mba_floor_words(most.kernel->bound));
    }
}

static void what_would_help(mba_buf *b, const mba_stores *r)
{
    const mba_whatif *w = r->whatif;
    if (!w || !w->nmodels) return;
    const mba_doubled d = mba_wi_doubled(w, -1, MBA_WI_STEP);
    if (!(d.gain > 1)) return;
    mba_buf_add(b,
                " SIMULATED: of all numbers of an %s except its clock, doubling the %s helps most, <b>%s "
                "×</b> for ",
                w->machine, w->curve[d.axis].name, mba_num(d.gain).s);
    mba_buf_html(b, mba_model_label(r, d.model));
    mba_buf_put(b, ".");
}

/* ---- the picture: each run as one stacked bar of its classes ---- */

static bool any_time(const mba_stores *r)
{
    for (int i = 0; i < r->shown; i++)
        if (r->run[i].a->busy_s > 0) return true;
    return false;
}

static void strip(mba_svg *s, const mba_run *run, double left, double right, double y, double h)
{
    const mba_analysis *a = run->a;
    double              at = left;
    for (int k = 0; k < MBA_BREAKDOWN_KINDS; k++) {
        const double part = mba_class_s(a, k) / a->busy_s, w = (right - left) * part;
        if (w >= 0.6)
            mba_svg_bar(s, at, y, w, h, "bar", mba_kind_paint(k),
                        mba_tip(s->c, "%s · %s|%s ms, %s %% of the kernel time", run->label, mba_kind_long(k),
                                mba_num(1e3 * mba_class_s(a, k)).s, mba_num(100 * part).s),
                        NULL);
        if (w > 30)
            mba_svg_text(s, at + w / 2, y + h / 2 + 4, mba_kind_is_light(k) ? "inv2" : "inv", 'm', "%.0f", 100 * part);
        at += w;
    }
}

/* The text beside a bar: step time, rate, percent of floor. */
static void facts(mba_svg *s, const mba_run *run, double y)
{
    const mba_analysis *a = run->a;
    const double        met = floor_part(a), ms = 1e3 * a->plain_s;
    char                rate[96] = "";
    if (a->plain_s > 0 && a->units > 0)
        snprintf(rate, sizeof rate, "%s %s/s", mba_num(a->units / a->plain_s).s, *a->unit ? a->unit : "units");
    if (s->narrow) {
        mba_svg_text(s, 0, y + 11, "b", 's', "%s", mba_short(run->label, 28).s);
        mba_svg_text(s, s->w, y + 11, "", 'e', "%s ms", mba_num(ms).s);
        mba_svg_text(s, 0, y + 46, "t3", 's', "%s", rate);
        if (!isnan(met)) mba_svg_text(s, s->w, y + 46, "t3", 'e', "%s %% of floor", mba_num(met).s);
        return;
    }
    mba_svg_text(s, 206, y + 15, "b", 'e', "%s", mba_short(run->label, 24).s);
    mba_svg_text(s, 656, y + 15, "b", 'e', "%s ms", mba_num(ms).s);
    mba_svg_text(s, 772, y + 15, "t2", 'e', "%s", rate);
    if (!isnan(met)) mba_svg_text(s, 860, y + 15, "t2", 'e', "%s %%", mba_num(met).s);
}

static void picture(mba_canvas *c, const mba_stores *r, double w)
{
    const bool   narrow = w <= MBA_NARROW;
    const double rh = narrow ? 56 : 25, top = narrow ? 2 : 18;
    mba_svg      s = mba_svg_begin(c, w, top + rh * r->shown, "A step of every run by operator class");
    if (!narrow) {
        mba_svg_text(&s, 216, 12, "t3", 's', "kernel time of a step by class, %%; GEMM with the head");
        mba_svg_text(&s, 656, 12, "t3", 'e', "step, without profiler");
        mba_svg_text(&s, 772, 12, "t3", 'e', "rate");
        mba_svg_text(&s, 860, 12, "t3", 'e', "of floor");
    }
    for (int i = 0; i < r->shown; i++) {
        const double y = top + rh * i;
        facts(&s, &r->run[i], y);
        if (!(r->run[i].a->busy_s > 0)) continue;
        if (narrow) strip(&s, &r->run[i], 0, w, y + 16, 18);
        else strip(&s, &r->run[i], 216, 590, y + 3, 18);
    }
    mba_svg_end(&s);
}

/* Lists the times of a step that appear on the page, and how each was measured. An external program always has our
 * library attached. */
static void step_times(mba_buf *b, const mba_stores *r, int run)
{
    const mba_analysis *a = r->run[run].a;
    const mba_whatif   *w = r->whatif;
    const bool          plain = !isnan(a->plain_s), attached = !isnan(a->attached_s);
    if (!plain && !attached && isnan(a->timeline_s)) return;
    mba_buf_put(b, "<p class=\"small\">Times of a step of ");
    mba_buf_html(b, mba_run_label(r, run));
    if (plain)
        mba_buf_add(b, ": <b>%s ms</b> without profiler (step times and rates of this page)",
                    mba_num(1e3 * a->plain_s).s);
    else if (attached)
        mba_buf_add(b, ": <b>%s ms</b> with our library attached and nothing recorded", mba_num(1e3 * a->attached_s).s);
    if (!isnan(a->timeline_s)) {
        mba_buf_put(b, plain || attached ? "; " : ": ");
        mba_buf_add(b, "<b>%s ms</b> kernel-traced (Timeline and shares of classes; %s ms of it are kernels)",
                    mba_num(1e3 * a->timeline_s).s, mba_num(1e3 * a->busy_s).s);
        if (!isnan(a->queued_s))
            mba_buf_add(b, ", back to back, where steps without profiler take %s ms", mba_num(1e3 * a->queued_s).s);
    }
    const int m = mba_run_model(r, run);
    if (m >= 0 && !isnan(w->model[m].measured_ms[MBA_WI_STEP]))
        mba_buf_add(b, "; <b>%s ms</b> SIMULATED (What-if only)", mba_num(w->model[m].base.of[MBA_WI_STEP].ms).s);
    mba_buf_put(b, ".</p>");
}

void mba_part_title(mba_buf *b, const mba_stores *r) { title(b, r); }

void mba_part_lead(mba_buf *b, const mba_stores *r)
{
    mba_buf_put(b, "<p class=\"lead\">");
    what_was_measured(b, r);
    mba_buf_put(b, "</p>");
}

void mba_part_overview(mba_canvas *c, const mba_stores *r)
{
    mba_buf *b = &c->out;
    if (any_time(r)) {
        mba_buf_put(b, "<div class=\"plot\" id=\"overview\"><ul class=\"legend\">");
        for (int k = 0; k < MBA_BREAKDOWN_KINDS; k++) {
            bool seen = false;
            for (int i = 0; i < r->shown; i++) seen |= mba_kind_s(r->run[i].a, k) > 0;
            if (seen) mba_legend_item(b, mba_kind_paint(k), mba_kind_long(k));
        }
        mba_buf_put(b, "</ul>");
        picture(c, r, MBA_WIDE);
        picture(c, r, MBA_NARROW);
        mba_buf_put(b, "</div>");
    }
    for (int i = 0; i < r->shown; i++) {
        mba_run_open(b, r, i);
        step_times(b, r, i);
        mba_run_end(b);
    }
    mba_buf_put(b, "<p class=\"lead\">");
    if (r->shown > 1) mba_buf_put(b, "All models:");
    what_was_found(b, r);
    what_would_help(b, r);
    mba_buf_put(b, "</p>");
}
