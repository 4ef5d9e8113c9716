// SPDX-License-Identifier: Apache-2.0
/* first_screen.c -- see parts.h: the three cards below the verdicts: what limits each run, the kernel to fix, and the
 * hardware that helps. Numbers have two significant figures here; the sections have them all. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/parts.h"
#include "report/questions.h"
#include "study/advice.h"
#include "study/step_limits.h"

/* A gain counts as a finding if the lower end of its band is above it. */
static const double FINDING = 1.05;

static bool is_counted(const mba_run *run) { return run->a->ncounters > 0 && run->a->busy_s > 0 && run->a->sms > 0; }

/* The runs of the cards: those with sections of their own, and those that stand for a column of the matrix. */
typedef struct runs {
    const mba_run *run[MBA_RUNS_MAX];
    const char    *label[MBA_RUNS_MAX];
    int            n;
} runs;

static runs runs_of(const mba_stores *r, const mba_matrix *m)
{
    runs all = { .n = 0 };
    for (int i = 0; i < r->n; i++) {
        bool column = false;
        for (int c = 0; m && c < MBA_COLUMNS; c++) column |= m->store[c] == r->run[i].a;
        if (!is_counted(&r->run[i]) || (i >= r->shown && !column)) continue;
        all.run[all.n] = &r->run[i];
        all.label[all.n++] = mba_run_label(r, i);
    }
    return all;
}

static void card_open(mba_buf *b, const char *eyebrow)
{
    mba_buf_add(b, "<div class=\"fcard\"><p class=\"eyebrow\">%s</p>", eyebrow);
}

/* ---- what limits each run ---- */

static const char *const paints[MBA_STEP_LIMITS] = {
    "l-tensor", "l-dram", "l-chip", "l-latency", "l-host", "l-unknown"
};

/* A label that does not break at its hyphen. */
static void whole_label(mba_buf *b, const char *label)
{
    mba_buf_put(b, "<span class=\"nw\">");
    mba_buf_html(b, mba_short(label, 40).s);
    mba_buf_put(b, "</span>");
}

static const char *limit_words(int l)
{
    return l == MBA_STEP_CHIP ? "on-chip units" : mba_step_limit_name((mba_step_limit)l);
}

/* "unclear for D (matrix products 31 %, latency 34 %)": the runs whose largest parts are alike. */
static void unclear_words(mba_buf *b, const runs *r, bool any)
{
    for (int i = 0, n = 0; i < r->n; i++) {
        const mba_step_limits l = mba_step_limits_of(r->run[i]->a, MBA_BUSY_PCT);
        if (l.clear) continue;
        mba_buf_put(b, n++ ? ", " : any ? "; unclear for " : "Unclear for ");
        whole_label(b, r->label[i]);
        for (int k = 0, parts = 0; k < MBA_STEP_LIMITS; k++)
            if (mba_step_limit_is_large(&l, k))
                mba_buf_add(b, "%s%s %s\u00a0%%", parts++ ? ", " : " (", limit_words(k),
                            mba_two_digits(100 * l.share[k]).s);
        mba_buf_put(b, ")");
    }
}

/* "matrix products limit A and B, latency limits C": the runs by what takes most of their step. */
static void limits_words(mba_buf *b, const runs *r)
{
    mba_assert(r->n > 0 && r->n <= MBA_RUNS_MAX);
    bool any = false;
    for (int l = 0; l < MBA_STEP_LIMITS; l++) {
        int of[MBA_RUNS_MAX], n = 0;
        for (int i = 0; i < r->n; i++) {
            const mba_step_limits x = mba_step_limits_of(r->run[i]->a, MBA_BUSY_PCT);
            if (x.clear && (int)x.most == l) of[n++] = i;
        }
        if (!n) continue;
        const char *name = limit_words(l);
        const bool  lower = name[0] >= 'a' && name[0] <= 'z';
        mba_buf_put(b, any ? "; " : "");
        mba_buf_add(b, "%c%s", !any && lower ? name[0] - 'a' + 'A' : name[0], name + 1);
        mba_buf_put(b, l == MBA_STEP_PRODUCTS || l == MBA_STEP_CHIP ? " limit " : " limits ");
        for (int k = 0; k < n; k++) {
            mba_buf_put(b, !k ? "" : k == n - 1 ? " and " : ", ");
            whole_label(b, r->label[of[k]]);
        }
        any = true;
    }
    unclear_words(b, r, any);
}

static void limits_bar(mba_buf *b, const mba_run *run, const char *label)
{
    const mba_step_limits l = mba_step_limits_of(run->a, MBA_BUSY_PCT);
    mba_buf_put(b, "<div class=\"lr\"><b>");
    mba_buf_html(b, label);
    mba_buf_put(b, "</b><div class=\"sb\" role=\"img\" aria-label=\"");
    for (int k = 0; k < MBA_STEP_LIMITS; k++)
        if (l.share[k] >= 0.005)
            mba_buf_add(b, "%s %s %%; ", mba_step_limit_name((mba_step_limit)k), mba_two_digits(100 * l.share[k]).s);
    mba_buf_put(b, "\">");
    for (int k = 0; k < MBA_STEP_LIMITS; k++) {
        if (!(l.share[k] >= 0.005)) continue;
        mba_buf_add(b, "<i class=\"%s\" data-x=\"%s\" style=\"--w:%.1f\">", paints[k], mba_exact(100 * l.share[k]).s,
                    100 * l.share[k]);
        if (l.share[k] >= 0.07) mba_buf_add(b, "%.0f", 100 * l.share[k]);
        mba_buf_put(b, "</i>");
    }
    mba_buf_put(b, "</div></div>");
}

static void limits_card(mba_buf *b, const runs *r)
{
    card_open(b, "What limits each run");
    mba_buf_put(b, "<h2>");
    limits_words(b, r);
    mba_buf_put(b, "</h2><ul class=\"legend\">");
    for (int k = 0; k < MBA_STEP_LIMITS; k++) {
        bool seen = false;
        for (int i = 0; i < r->n; i++) seen |= mba_step_limits_of(r->run[i]->a, MBA_BUSY_PCT).share[k] >= 0.005;
        if (seen) mba_buf_add(b, "<li><i class=\"%s\"></i>%s</li>", paints[k], mba_step_limit_name((mba_step_limit)k));
    }
    mba_buf_put(b, "</ul><div class=\"lrs\">");
    for (int i = 0; i < r->n; i++) limits_bar(b, r->run[i], r->label[i]);
    mba_buf_add(b,
                "</div><p class=\"foot\">%% of the step. <b>Limited by</b>: the busiest unit of a kernel "
                "if it reaches %.0f %% of its peak; else latency. <b>Floor</b>: the least time that a kernel's "
                "work can take here, set by memory, tensor, vector or special work. On chip: L1/shared memory, issue "
                "slots, vector pipes, special functions. Host: gaps between kernels, copies. Unclear: the largest "
                "parts differ by at most %d %% of the step. <a href=\"#fig2\">Roofline</a></p></div>",
                MBA_BUSY_PCT, MBA_LEAD_PCT);
}

/* ---- the kernel to fix ---- */

static void fix_row(mba_buf *b, const mba_run *run, const char *label, bool top)
{
    const mba_distance d = mba_farthest_from_floor(run->a);
    mba_advice         tip[MBA_ADVICE_MAX];
    if (!d.kernel) return;
    const int n = mba_advice_of(run->a, d.kernel, tip);
    mba_buf_add(b, "<li%s><div class=\"fl\"><b>", top ? " class=\"top1\"" : "");
    mba_buf_html(b, label);
    mba_buf_put(b, "</b> <code>");
    mba_buf_html(b, mba_short(d.kernel->row->name, 40).s);
    mba_buf_add(b, "</code></div><div class=\"fn\"><b data-x=\"%s\">%s %%</b></div><p>", mba_exact(100 * d.part).s,
                mba_two_digits(100 * d.part).s);
    if (n) {
        mba_buf_add(b, "<b>%s</b>: ", tip[0].cause);
        mba_buf_html(b, tip[0].remedy);
        mba_buf_add(b, "; estimated to save <b data-x=\"%s\">%s %%</b> of the step.",
                    mba_exact(100 * tip[0].step_saved).s, mba_two_digits(100 * tip[0].step_saved).s);
    } else {
        mba_buf_put(b, "no rule finds a single cause.");
    }
    mba_buf_put(b, "</p></li>");
}

static void fix_card(mba_buf *b, const mba_stores *r, const runs *all)
{
    const mba_gain most = mba_most_to_gain(r);
    card_open(b, "The kernel to fix");
    mba_buf_put(b, "<h2><code>");
    mba_buf_html(b, most.kernel ? mba_short(most.kernel->row->name, 40).s : "none");
    mba_buf_put(b, "</code> of ");
    whole_label(b, most.kernel ? most.run->label : "these runs");
    mba_buf_add(b, " is worth most: %s %% of the step lie above its floor</h2><ul class=\"fx\">",
                mba_two_digits(100 * most.part).s);
    for (int i = 0; i < all->n; i++) fix_row(b, all->run[i], all->label[i], all->run[i] == most.run);
    mba_buf_put(
        b, "</ul><p class=\"foot\">Of each run the kernel farthest from its floor: the % of the step's GPU time above "
           "that floor, which no change of the kernel can exceed; below, what to try first. The cards of all "
           "kernels rank the rest. <a href=\"#explorer\">Kernels</a></p></div>");
}

/* ---- the hardware that helps ---- */

static double clock_doubled(const mba_whatif *w, int m)
{
    for (int k = 0; k < w->ncurves; k++)
        for (int i = 0; i < w->curve[k].n && !strcmp(w->curve[k].key, "clock"); i++)
            if (w->curve[k].value[i] == 2) return mba_wi_speedup(w, m, MBA_WI_STEP, k, i);
    return NAN;
}

/* What doubling gives a model: the best single number with its band (a gain is uncertain by the errors of both of its
 * times: the band of whole steps), and the clock. */
typedef struct gain {
    mba_doubled best;
    double      low, high, clock;
} gain;

static gain gain_of(const mba_whatif *w, int m)
{
    const mba_doubled best = mba_wi_doubled(w, m, MBA_WI_STEP);
    return (gain){ best, best.gain * w->low / w->high, best.gain * w->high / w->low, clock_doubled(w, m) };
}

/* How many models of the page are simulated, and how many of them one number helps. */
static int helped_of(const mba_stores *r, int *all)
{
    int helped = 0;
    *all = 0;
    for (int i = 0; i < r->shown; i++) {
        const int m = mba_run_model(r, i);
        if (m < 0) continue;
        ++*all;
        helped += gain_of(r->whatif, m).low > FINDING;
    }
    return helped;
}

static void hardware_words(mba_buf *b, const mba_stores *r)
{
    int       all;
    const int helped = helped_of(r, &all);
    if (!helped) mba_buf_put(b, "No single number but the clock");
    else mba_buf_add(b, "Twice one number of the GPU helps %d of %d models, if power does not limit", helped, all);
}

/* The places of a scale that all rows share, in percent of its width. */
static mba_scale scale_of(const mba_stores *r)
{
    double low = 1, high = 1;
    for (int i = 0; i < r->shown; i++) {
        if (mba_run_model(r, i) < 0) continue;
        const gain g = gain_of(r->whatif, mba_run_model(r, i));
        low = fmin(low, g.low);
        high = fmax(high, fmax(g.high, g.clock));
    }
    return mba_lin(low - 0.02, high + 0.02, 0, 100);
}

static void gain_row(mba_buf *b, const mba_whatif *w, int m, const char *label, mba_scale x)
{
    const gain  g = gain_of(w, m);
    const char *name = w->curve[g.best.axis].name;
    mba_buf_put(b, "<li><div class=\"fl\"><b>");
    mba_buf_html(b, label);
    mba_buf_put(b, "</b> ");
    if (g.low > FINDING) mba_buf_add(b, "twice the %s", name);
    else if (g.high < g.clock) mba_buf_put(b, "only the clock");
    else mba_buf_add(b, "unclear: twice the %s", name);
    mba_buf_add(b, "</div><div class=\"fn\"><b data-x=\"%s\">%s ×</b> <small>%s to %s</small></div>",
                mba_exact(g.best.gain).s, mba_two_digits(g.best.gain).s, mba_two_digits(g.low).s,
                mba_two_digits(g.high).s);
    mba_buf_add(b, "<div class=\"gb\" aria-hidden=\"true\"><i class=\"one\" style=\"--x:%.1f\"></i>", mba_at(x, 1));
    mba_buf_add(b, "<i class=\"rg\" style=\"--x:%.1f;--w:%.1f\"></i><i class=\"at\" style=\"--x:%.1f\"></i>",
                mba_at(x, g.low), mba_at(x, g.high) - mba_at(x, g.low), mba_at(x, g.best.gain));
    if (!isnan(g.clock)) mba_buf_add(b, "<i class=\"ck\" style=\"--x:%.1f\"></i>", mba_at(x, g.clock));
    mba_buf_put(b, "</div>");
    if (!isnan(g.clock)) mba_buf_add(b, "<p>Twice the clock: %s ×.</p>", mba_two_digits(g.clock).s);
    mba_buf_put(b, "</li>");
}

static void hardware_card(mba_buf *b, const mba_stores *r)
{
    const mba_whatif *w = r->whatif;
    const mba_scale   x = scale_of(r);
    card_open(b, "Hardware that helps · SIMULATED");
    mba_buf_put(b, "<h2>");
    hardware_words(b, r);
    mba_buf_put(b, "</h2><ul class=\"legend\"><li><i class=\"key at\"></i>best number but the clock, doubled, and "
                   "its band</li><li><i class=\"key ck\"></i>clock doubled</li></ul><ul class=\"fx\">");
    for (int i = 0; i < r->shown; i++)
        if (mba_run_model(r, i) >= 0) gain_row(b, w, mba_run_model(r, i), mba_run_label(r, i), x);
    mba_buf_add(b,
                "</ul><p class=\"foot\">On an %s; the line is 1 ×. Bands: errors of whole steps (measured over "
                "predicted %s to %s). ",
                w->machine, mba_two_digits(w->low).s, mba_two_digits(w->high).s);
    mba_effects_words(b, "What-ifs: ", w);
    mba_buf_put(b, ". Power is left out. <a href=\"#fig13\">What-if</a></p></div>");
}

/* ---- in words ---- */

void mba_part_limits(mba_buf *b, const mba_stores *r, const mba_matrix *m)
{
    const runs     all = runs_of(r, m);
    const mba_gain most = mba_most_to_gain(r);
    if (!all.n) return;
    mba_buf_put(b, "<b>");
    limits_words(b, &all);
    mba_buf_put(b, "</b>");
    if (most.kernel) {
        mba_buf_put(b, "; most to gain: ");
        mba_buf_html(b, mba_short(most.kernel->row->name, 40).s);
        mba_buf_put(b, " of ");
        whole_label(b, most.run->label);
        mba_buf_add(b, ", %s\u00a0%% of the step", mba_two_digits(100 * most.part).s);
    }
    if (r->whatif && r->whatif->nmodels) {
        int       of;
        const int helped = helped_of(r, &of);
        if (helped) mba_buf_add(b, "; doubling one number of the GPU helps %d of %d models (SIMULATED)", helped, of);
        else mba_buf_put(b, "; no single number of the GPU but its clock would help (SIMULATED)");
    }
    mba_buf_put(b, ". ");
}

void mba_part_cards(mba_buf *b, const mba_stores *r, const mba_matrix *m)
{
    const runs all = runs_of(r, m);
    if (!all.n) return;
    const bool simulated = r->whatif && r->whatif->nmodels;
    mba_buf_add(b, "<div class=\"fcards%s\">", simulated ? " three" : "");
    limits_card(b, &all);
    fix_card(b, r, &all);
    if (simulated) hardware_card(b, r);
    mba_buf_put(b, "</div>");
}
