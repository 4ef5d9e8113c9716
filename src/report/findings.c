// SPDX-License-Identifier: Apache-2.0
/* findings.c -- see parts.h: the cards. Five answer the most common questions with one number each; then come the other
 * cards, and the claims of the study with their verdicts. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/cards.h"
#include "report/parts.h"

/* ---- cards ---- */

/* A card: a question (may be ""), the verdict on a claim (claim NULL: the study does not say), one number, a sentence,
 * a sparkline. */
typedef struct card {
    const char *question, *claim, *unit, *figure, *link;
    double (*number)(const mba_analysis *a);
    void (*say)(mba_buf *b, const mba_stores *r, int run);
    void (*spark)(mba_canvas *c, const mba_stores *r, int run);
} card;

static double percent_of(const mba_analysis *a, int kind)
{
    return a->busy_s > 0 ? 100 * mba_kind_s(a, kind) / a->busy_s : NAN;
}

/* F1 */

/* With the head's products, as claim F1 counts them. */
static double percent_gemm(const mba_analysis *a) { return a->busy_s > 0 ? 100 * mba_products_s(a) / a->busy_s : NAN; }

static void say_gemm(mba_buf *b, const mba_stores *r, int run)
{
    const mba_analysis *a = r->run[run].a;
    const double        head_s = mba_products_s(a) - mba_kind_s(a, MBA_GEMM);
    int                 top = MBA_GEMM;
    double              top_s = mba_products_s(a);
    for (int k = 0; k < MBA_BREAKDOWN_KINDS; k++) {
        const double s = mba_class_s(a, k);
        if (k != MBA_GEMM && s > top_s) top = k, top_s = s;
    }
    if (top == MBA_GEMM) mba_buf_add(b, "GEMM is the largest class of the %s", mba_step_word(a));
    else
        mba_buf_add(b, "The largest class is not GEMM but %s, %s %%", mba_kind_long(top),
                    mba_num(100 * top_s / a->busy_s).s);
    if (head_s > 0) mba_buf_put(b, " (matrix products of the head count as GEMM; Fig. 1 has them with the loss)");
    mba_buf_put(b, "; the study: the largest, up to about 60 %.");
}

static void spark_classes(mba_canvas *c, const mba_stores *r, int run)
{
    mba_bar_part p[MBA_BREAKDOWN_KINDS];
    for (int k = 0; k < MBA_BREAKDOWN_KINDS; k++)
        p[k] = (mba_bar_part){ mba_class_s(r->run[run].a, k) / r->run[run].a->busy_s, mba_kind_paint(k) };
    mba_spark_strip(c, p, MBA_BREAKDOWN_KINDS, "classes of the step, in the order of Fig. 1");
}

/* F2 */

static double percent_ssm(const mba_analysis *a) { return percent_of(a, MBA_SSM); }

static void say_ssm(mba_buf *b, const mba_stores *r, int run)
{
    int larger = 0;
    for (int k = 0; k < MBA_BREAKDOWN_KINDS; k++)
        larger += k != MBA_SSM && percent_of(r->run[run].a, k) > percent_ssm(r->run[run].a);
    mba_buf_put(b, "SSM operators come ");
    if (larger < 3) mba_buf_put(b, (const char *const[]){ "first", "second", "third" }[larger]);
    else mba_buf_add(b, "after %d other classes", larger);
    mba_buf_put(b, "; the study: second, up to about 20 %.");
}

static void spark_ssm(mba_canvas *c, const mba_stores *r, int run)
{
    mba_sticks k = { .line = 20, .dash = NAN };
    for (int i = 0; i < r->shown; i++) mba_spark_add(&k, percent_ssm(r->run[i].a), i == run ? "ssm" : "oth");
    if (r->shown > 1) mba_spark_sticks(c, &k, "SSM share of each run, this one in colour; line: 20 %");
}

/* F3 */

static double percent_memory(const mba_analysis *a)
{
    return 100 * mba_bounds_of(a, MBA_ALL_KERNELS).share[MBA_BY_MEMORY];
}

static void say_memory(mba_buf *b, const mba_stores *r, int run)
{
    static const double most = 3.5; // FLOP/byte, the study's limit
    const mba_intensity in = mba_intensity_of(r->run[run].a, MBA_ALL_KERNELS);
    const double        vector = isnan(in.least[1]) ? in.executed[1][0] : in.least[1];
    const double        both = isnan(in.least[2]) ? in.executed[2][0] : in.least[2];
    mba_buf_put(b,
                "Share of the kernel time in kernels whose floor memory sets. The study: all are memory-bound, below "
                "3.5 FLOP/byte.");
    if (isnan(both)) return;
    mba_buf_add(b, " Here %s with tensor FLOPs", mba_num(both).s);
    if (!isnan(vector)) mba_buf_add(b, ", %s with vector FLOPs only", mba_num(vector).s);
    if (both < most) mba_buf_put(b, ": below it in both cases.");
    else if (!isnan(vector) && vector < most) mba_buf_put(b, ": below it only without matrix products.");
    else mba_buf_put(b, ".");
}

static void spark_bounds(mba_canvas *c, const mba_stores *r, int run)
{
    static const char *const paints[MBA_FLOORS] = { "memory", "tensor", "vector", "sfu" };
    const mba_bounds         bound = mba_bounds_of(r->run[run].a, MBA_ALL_KERNELS);
    mba_bar_part             p[MBA_FLOORS];
    if (isnan(bound.percent_of_floor)) return;
    for (int k = 0; k < MBA_FLOORS; k++) p[k] = (mba_bar_part){ bound.share[k], paints[k] };
    mba_spark_strip(c, p, MBA_FLOORS, "kernel time by what sets the floor: memory, tensor, vector, special functions");
}

/* F4 */

static double of_bandwidth(const mba_analysis *a) { return isnan(a->sheet.dram) ? a->best.dram : a->sheet.dram; }

static double percent_bandwidth(const mba_analysis *a)
{
    return 100 * mba_bandwidth_of(a, MBA_SSM_KERNELS).mean / of_bandwidth(a);
}

static void say_bandwidth(mba_buf *b, const mba_stores *r, int run)
{
    const mba_analysis *a = r->run[run].a;
    const mba_bandwidth w = mba_bandwidth_of(a, MBA_SSM_KERNELS);
    mba_buf_add(b,
                "SSM kernels move %s%s GB/s, mean over launches; weighted by time %s (%s %%). The study: 57.5 %% of "
                "an H100's 3,350 GB/s, of which ours is %s %%.",
                w.least ? "at least " : "", mba_num(w.mean / 1e9).s, mba_num(w.weighted / 1e9).s,
                mba_num(100 * w.weighted / of_bandwidth(a)).s, mba_num(100 * w.mean / 3350e9).s);
}

static int by_bandwidth(const void *x, const void *y)
{
    const double a = *(const double *)x, b = *(const double *)y;
    return a < b ? 1 : a > b ? -1 : 0;
}

static bool is_counted_ssm(const mba_kernel_view *k)
{
    return mba_in_group(k, MBA_SSM_KERNELS) && k->counted.dram_bytes / k->counted.time_s > 0;
}

static void spark_bandwidth(mba_canvas *c, const mba_stores *r, int run)
{
    const mba_analysis *a = r->run[run].a;
    mba_chosen          k;
    mba_sticks          s = { .line = a->sheet.dram / 1e9, .dash = mba_bandwidth_of(a, MBA_SSM_KERNELS).mean / 1e9 };
    double              v[24];
    const mba_status    st = mba_choose(&k, a, is_counted_ssm, 24);
    mba_buf_fail(&c->out, st);
    if (st != MBA_OK) return;
    mba_assert(k.n <= 24);
    for (int i = 0; i < k.n; i++) v[i] = k.k[i]->counted.dram_bytes / k.k[i]->counted.time_s / 1e9;
    qsort(v, (size_t)k.n, sizeof *v, by_bandwidth);
    for (int i = 0; i < k.n; i++) mba_spark_add(&s, v[i], "ssm");
    mba_spark_sticks(c, &s, "GB/s of the SSM kernels, sorted; line: data sheet, dashes: mean");
    free(k.k);
}

/* F7 */

enum { READINGS = 4 };
static const double VECTOR_BOUND = 85; // the threshold of claim F7: 89 to 92 %, with a margin for timing

static void vector_readings(const mba_analysis *a, double v[READINGS])
{
    const mba_vector_bound b = mba_vector_bound_of(a, MBA_SSM_KERNELS);
    v[0] = 100 * b.floor_a, v[1] = 100 * b.floor_b, v[2] = 100 * b.pipe_fma, v[3] = 100 * b.pipe_any;
}

/* The largest of the four readings. */
double mba_percent_vector(const mba_analysis *a)
{
    double v[READINGS], most = NAN;
    vector_readings(a, v);
    for (int i = 0; i < READINGS; i++)
        if (!(most >= v[i]) && !isnan(v[i])) most = v[i];
    return most;
}

/* Adds what claim F7 ignores: memory sets floors too, as Fig. 7 shows. */
static void say_all_floors(mba_buf *b, const mba_analysis *a)
{
    const mba_bounds bound = mba_bounds_of(a, MBA_SSM_KERNELS);
    if (isnan(bound.percent_of_floor)) return;
    mba_buf_add(b,
                " Of all four floors, memory sets that of SSM kernels for %s %% of their time, vector work for %s %% "
                "(Fig. 7 has both).",
                mba_num(100 * bound.share[MBA_BY_MEMORY]).s, mba_num(100 * bound.share[MBA_BY_VECTOR]).s);
}

static void say_vector(mba_buf *b, const mba_stores *r, int run)
{
    static const char *const rule[READINGS] = { "executed arithmetic", "issue slots", "a busier FMA pipe",
                                                "any busier vector pipe" };
    double                   v[READINGS], lo = NAN, hi = NAN;
    int                      known = 0;
    vector_readings(r->run[run].a, v);
    mba_buf_put(b, "Share of the time of mixed SSM kernels, by the rule with the highest value; vector against tensor "
                   "work only. By ");
    for (int i = 0; i < READINGS; i++) {
        if (isnan(v[i])) continue;
        mba_buf_add(b, "%s%s %s %%", known++ ? ", " : "", rule[i], mba_num(v[i]).s);
        if (!(lo <= v[i])) lo = v[i];
        if (!(hi >= v[i])) hi = v[i];
    }
    mba_buf_put(b, "; the study: 89–92 %.");
    if (hi < VECTOR_BOUND) mba_buf_put(b, " No rule reaches that.");
    else if (lo < VECTOR_BOUND) mba_buf_put(b, " The counting rule decides.");
    say_all_floors(b, r->run[run].a);
}

static void spark_vector(mba_canvas *c, const mba_stores *r, int run)
{
    double     v[READINGS];
    mba_sticks k = { .top = 100, .line = 89, .dash = NAN };
    vector_readings(r->run[run].a, v);
    for (int i = 0; i < READINGS; i++) mba_spark_add(&k, v[i], "mixed");
    mba_spark_sticks(c, &k, "vector-bound share by each rule; line: the study's 89 %");
}

/* not in the study */

static double percent_floor(const mba_analysis *a) { return mba_bounds_of(a, MBA_ALL_KERNELS).percent_of_floor; }

static void say_floor(mba_buf *b, const mba_stores *r, int run)
{
    const mba_bounds bound = mba_bounds_of(r->run[run].a, MBA_ALL_KERNELS);
    const mba_stores alone = { .run = { r->run[run] }, .n = 1, .shown = 1 };
    const mba_gain   most = mba_most_to_gain(&alone);
    mba_buf_add(b, "%s at the ceilings of this machine would take %s of the %s ms of kernels.",
                bound.executed ? "The executed work (the least work is unknown)" : "The least work",
                mba_num(10 * bound.percent_of_floor * bound.time_s).s, mba_num(1e3 * bound.time_s).s);
    if (!most.kernel) return;
    mba_buf_put(b, " Largest possible gain: ");
    mba_buf_html(b, mba_short(most.kernel->row->name, 30).s);
    mba_buf_add(b, ", %s %% of the %s.", mba_num(100 * most.part).s, mba_step_word(r->run[run].a));
}

static bool has_floor(const mba_kernel_view *k) { return k->least_s > 0; }

static void spark_floor(mba_canvas *c, const mba_stores *r, int run)
{
    mba_chosen       k;
    mba_sticks       s = { .top = 100, .line = 100, .dash = NAN };
    const mba_status st = mba_choose(&k, r->run[run].a, has_floor, 24);
    mba_buf_fail(&c->out, st);
    if (st != MBA_OK) return;
    for (int i = 0; i < k.n; i++)
        mba_spark_add(&s, fmin(100, 100 * k.k[i]->least_s / k.k[i]->median_s), mba_kind_paint(k.k[i]->kind));
    mba_spark_sticks(c, &s, "% of floor of the longest kernels, the longest first");
    free(k.k);
}

/* The five questions: these three, why (why.c), and what would help (help_card). */
static const card answers[] = {
    { "GEMM share?", "F1", "% GEMM", "fig1", "Operators", percent_gemm, say_gemm, spark_classes },
    { "Mean bandwidth?", "F4", "% of DRAM bandwidth", "fig4", "Bandwidth", percent_bandwidth, say_bandwidth,
      spark_bandwidth },
    { "Vector-bound?", "F7", "% vector-bound", "fig7", "Vector-bound share", mba_percent_vector, say_vector,
      spark_vector },
};
static const card others[] = {
    { "", "F2", "% SSM operators", "fig1", "Operators", percent_ssm, say_ssm, spark_ssm },
    { "", "F3", "% of time, floor set by memory", "fig2", "Roofline", percent_memory, say_memory, spark_bounds },
    { "How far from the floor?", NULL, "% of the floor", "roofline_time", "Floors", percent_floor, say_floor,
      spark_floor },
};
enum { OF_FLOOR = sizeof others / sizeof *others - 1 };

static const mba_claim *claim_named(const mba_claim *all, const char *id)
{
    for (int i = 0; id && i < MBA_CLAIMS; i++)
        if (!strcmp(all[i].id, id)) return &all[i];
    return NULL;
}

/* True if SSM kernels were counted and none is mixed: claim F7 does not apply, although nothing is missing. */
static bool none_is_mixed(const mba_analysis *a)
{
    bool counted = false, mixed = false;
    for (int64_t i = 0; i < a->nkernels; i++) {
        if (!mba_in_group(&a->kernel[i], MBA_SSM_KERNELS)) continue;
        counted |= a->kernel[i].cls_counted;
        mixed |= a->kernel[i].cls == MBA_CLASS_MIXED;
    }
    return counted && !mixed;
}

static void one_card(mba_canvas *c, const card *k, const mba_stores *r, int run, const mba_claim *claims)
{
    mba_assert(run >= 0 && run < r->shown && k->number && k->say && k->spark);
    mba_buf         *b = &c->out;
    const mba_claim *f = claim_named(claims, k->claim);
    const bool       nothing = f && f->verdict == MBA_NOT_APPLICABLE;
    const double     v = nothing ? NAN : k->number(r->run[run].a);
    mba_card_head(b, k->question, f ? mba_verdict_name(f->verdict) : isnan(v) ? "open" : "new", f ? f->id : "");
    mba_card_big(b, v, k->unit);
    mba_buf_put(b, "<p>");
    if (!isnan(v)) {
        k->say(b, r, run);
    } else if (k->number == mba_percent_vector && none_is_mixed(r->run[run].a)) {
        mba_buf_put(b, "No SSM kernel of this model is mixed (tensor and vector work), so there is nothing to judge.");
    } else if (nothing) {
        mba_buf_put(b, "Not applicable: the run has no SSM kernels.");
    } else {
        mba_buf_put(b, "Not measured here");
        if (f && *f->needs) mba_buf_put(b, ": it needs "), mba_buf_html(b, f->needs);
        mba_buf_put(b, ".");
    }
    mba_buf_put(b, "</p>");
    if (!isnan(v)) k->spark(c, r, run);
    mba_card_end(b, k->figure, k->link);
}

/* ---- what would help: SIMULATED ---- */

static void say_help(mba_buf *b, const mba_whatif *w, int m, const mba_doubled *best)
{
    mba_assert(m >= 0 && m < w->nmodels && best->axis < w->ncurves);
    const double      ms = w->model[m].base.of[MBA_WI_STEP].ms;
    const mba_doubled ssm = mba_wi_doubled(w, m, MBA_WI_SSM);
    mba_buf_add(b,
                "<p>Of all numbers of an %s except the clock, doubling this one helps most: the SIMULATED "
                "step takes %s instead of %s ms",
                w->machine, mba_num(ms / best->gain).s, mba_num(ms).s);
    if (!isnan(w->model[m].measured_ms[MBA_WI_STEP]))
        mba_buf_add(b, " (measured %s)", mba_num(w->model[m].measured_ms[MBA_WI_STEP]).s);
    mba_buf_put(b, ", ");
    mba_buf_html(b, w->model[m].batch);
    mba_buf_put(b, ".");
    if (ssm.gain > 1)
        mba_buf_add(b, " SSM operators only: doubling the %s helps most, %s ×.", w->curve[ssm.axis].name,
                    mba_num(ssm.gain).s);
    const double off = fmax(fabs(1 / w->low - 1), fabs(1 / w->high - 1));
    mba_buf_add(b, " Predicted steps have errors of up to %s %%%s.</p>", mba_num(100 * off).s,
                best->gain - 1 < off ? "; this gain is smaller, so it is not a finding" : "");
}

static void spark_help(mba_canvas *c, const mba_whatif *w, int m, int best)
{
    mba_sticks s = { .line = NAN, .dash = NAN };
    for (int k = 0; k < w->ncurves; k++)
        for (int i = 0; i < w->curve[k].n && strcmp(w->curve[k].key, "clock"); i++)
            if (w->curve[k].value[i] == 2)
                mba_spark_add(
                    &s,
                    fmax(0, 100 * (w->model[m].base.of[MBA_WI_STEP].ms / w->model[m].curve_ms[MBA_WI_STEP][k][i] - 1)),
                    k == best ? "ssm" : "oth");
    mba_spark_sticks(c, &s, "% faster if each number is doubled, in the order of Fig. 13");
}

static void help_card(mba_canvas *c, const mba_stores *r, int run)
{
    mba_buf          *b = &c->out;
    const mba_whatif *w = r->whatif;
    const int         m = mba_run_model(r, run);
    const mba_doubled best = m < 0 ? (mba_doubled){ 0, 0, 0 } : mba_wi_doubled(w, m, MBA_WI_STEP);
    char              unit[128];
    if (!(best.gain > 0)) {
        mba_card_head(b, "What helps most?", "open", "");
        mba_buf_put(b, "<p>This model was not simulated");
        mba_buf_put(b, r->whatif ? "; What-if shows the models that were.</p>" : " (--no-simulation).</p>");
        mba_card_end(b, r->whatif ? "fig13" : "roofline_time", r->whatif ? "What-if" : "Floors");
        return;
    }
    mba_card_head(b, "What helps most?", "new", "SIMULATED");
    snprintf(unit, sizeof unit, "× with twice the %s", w->curve[best.axis].name);
    mba_card_big(b, best.gain, unit);
    say_help(b, w, m, &best);
    spark_help(c, w, m, best.axis);
    mba_card_end(b, "fig13", "What-if");
}

/* ---- bands ---- */

/* The claims of a run. Beside a matrix they are those of its column: only pairs with this store decide F5, F9 and F10.
 * F1 to F3 of one run are numbers; the matrix has the verdicts over all runs. */
static void judge_run(const mba_stores *r, int run, mba_claim out[MBA_CLAIMS])
{
    if (!mba_has_matrix(r)) {
        mba_claims_judge(r->run[run].a, out);
        return;
    }
    mba_claims_judge_own(r->run[run].a, out);
}

static void tally(mba_buf *b, const mba_analysis *a, const mba_claim *claims)
{
    int all = 0;
    mba_buf_put(b, "<div class=\"find tally\"><b>The eleven claims of the study</b><ul>");
    for (int v = 0; v < MBA_VERDICTS; v++) {
        const mba_verdict order[MBA_VERDICTS] = { MBA_REPRODUCED, MBA_DEPENDS, MBA_REFUTED,
                                                  MBA_NUMBER,     MBA_OPEN,    MBA_NOT_APPLICABLE };
        int               n = 0;
        for (int i = 0; i < MBA_CLAIMS; i++) n += claims[i].verdict == order[v];
        all += n;
        if (!n && (order[v] == MBA_NOT_APPLICABLE || order[v] == MBA_NUMBER)) continue;
        mba_buf_add(b, "<li><span class=\"chip %s\">%s</span> <b>%d</b>", mba_verdict_name(order[v]),
                    mba_verdict_name(order[v]), n);
        for (int i = 0; i < MBA_CLAIMS; i++)
            if (claims[i].verdict == order[v]) mba_buf_add(b, " %s", claims[i].id);
        mba_buf_put(b, "</li>");
    }
    mba_assert(all == MBA_CLAIMS); // every claim has one verdict
    mba_buf_put(b, "</ul>");
    if (!strcmp(a->device, "cpu"))
        mba_buf_put(b, "<p>They are about GPUs: a store from a GPU is needed to judge them.</p>");
    mba_buf_put(b, "<div class=\"foot\"><a href=\"#claims\">All claims with numbers</a></div></div>");
}

static void band(mba_canvas *c, const card *k, size_t n, const mba_stores *r, int run, const mba_claim *claims)
{
    for (size_t i = 0; i < n; i++) one_card(c, &k[i], r, run, claims);
}

void mba_part_answers(mba_canvas *c, const mba_stores *r)
{
    mba_run_switch(&c->out, r);
    for (int i = 0; i < r->shown; i++) {
        mba_claim claims[MBA_CLAIMS];
        judge_run(r, i, claims);
        mba_run_open(&c->out, r, i);
        mba_buf_put(&c->out, "<div class=\"band five\">");
        if (mba_run_is_cpu(r->run[i].a)) { // bandwidth, vector units, stalls and what-ifs are questions about a GPU
            band(c, answers, 1, r, i, claims);
            band(c, &others[OF_FLOOR], 1, r, i, claims);
        } else {
            band(c, answers, sizeof answers / sizeof *answers, r, i, claims);
            mba_card_why(c, r->run[i].a);
            help_card(c, r, i);
        }
        mba_buf_put(&c->out, "</div>");
        mba_run_end(&c->out);
    }
}

void mba_part_findings(mba_canvas *c, const mba_stores *r)
{
    mba_run_switch(&c->out, r);
    for (int i = 0; i < r->shown; i++) {
        mba_claim claims[MBA_CLAIMS];
        judge_run(r, i, claims);
        mba_run_open(&c->out, r, i);
        mba_buf_put(&c->out, "<div class=\"band\">");
        band(c, others, mba_run_is_cpu(r->run[i].a) ? OF_FLOOR : sizeof others / sizeof *others, r, i, claims);
        tally(&c->out, r->run[i].a, claims);
        mba_buf_put(&c->out, "</div>");
        mba_run_end(&c->out);
    }
}

/* ---- claims ---- */

#define CHIP "<span class=\"chip %s\">%s</span>" /* of a verdict, twice its name */

/* How each claim is judged, the same for every run, and over all of them (m NULL: not): a link of the matrix leads to
 * its row. */
static void rules(mba_buf *b, const mba_claim *c, const mba_matrix *m)
{
    static const char *const heading[] = { "id", "the study says", "rule for one store", "refuted by",
                                           "over all stores" };
    const int                n = m ? 5 : 4;
    mba_buf_put(b, "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"rules\"><table class=\"claims\">"
                   "<thead><tr>");
    for (int j = 0; j < n; j++) mba_buf_add(b, "<th scope=\"col\">%s</th>", heading[j]);
    mba_buf_put(b, "</tr></thead><tbody>");
    for (int k = 0; k < MBA_CLAIMS; k++) {
        const char *cell[] = { c[k].id, c[k].claim, c[k].rule, c[k].refuted_by, m ? m->rule[k] : "" };
        mba_buf_add(b, "<tr id=\"rule-%s\">", c[k].id);
        for (int j = 0; j < n; j++) {
            if (j < 2) mba_buf_put(b, "<td>");
            else mba_buf_add(b, "<td data-h=\"%s\">", heading[j]);
            if (j == 4) mba_buf_add(b, CHIP ": ", mba_verdict_name(m->suite[k]), mba_verdict_name(m->suite[k]));
            mba_buf_html(b, cell[j] && *cell[j] ? cell[j] : "–");
            mba_buf_put(b, "</td>");
        }
        mba_buf_put(b, "</tr>\n");
    }
    mba_buf_put(b, "</tbody></table></div>");
}

static void chip_cell(mba_buf *b, mba_verdict v)
{
    mba_buf_add(b, "<td>" CHIP "</td>", mba_verdict_name(v), mba_verdict_name(v));
}

/* Without a matrix (m NULL) a run has its verdict; with one, what holds in this run and the verdict over all. */
static void claim_row(mba_buf *b, const mba_claim *c, const mba_matrix *m, int i, bool lacking)
{
    const char *cell[] = { c->id, c->claim, c->target, c->measured };
    mba_buf_put(b, "<tr>");
    for (int j = 0; j < 4; j++) {
        mba_buf_put(b, "<td>");
        mba_buf_html(b, *cell[j] ? cell[j] : "–");
        if (j == 3 && *c->sensitivity)
            mba_buf_put(b, "<p class=\"small\">By another rule: "), mba_buf_html(b, c->sensitivity),
                mba_buf_put(b, ".</p>");
        mba_buf_put(b, "</td>");
    }
    chip_cell(b, c->verdict);
    if (m) chip_cell(b, m->suite[i]);
    if (lacking) mba_buf_put(b, "<td>"), mba_buf_html(b, c->needs), mba_buf_put(b, "</td>");
    mba_buf_put(b, "</tr>\n");
}

static void claims_of_run(mba_buf *b, const mba_stores *r, int run, const mba_matrix *m)
{
    mba_claim c[MBA_CLAIMS];
    bool      lacking = false; // some claim needs more data
    judge_run(r, run, c);
    for (int k = 0; k < MBA_CLAIMS; k++) lacking |= *c[k].needs != 0;
    mba_buf_put(b, "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"claims of ");
    mba_buf_html(b, mba_run_label(r, run));
    mba_buf_put(b, "\"><table class=\"claims\"><thead><tr><th scope=\"col\">id</th><th scope=\"col\">claim</th><th "
                   "scope=\"col\">target</th><th scope=\"col\">measured</th>");
    mba_buf_put(b, m ? "<th scope=\"col\">in this run</th><th scope=\"col\">over all runs</th>"
                     : "<th scope=\"col\">verdict</th>");
    mba_buf_put(b, lacking ? "<th scope=\"col\">needs</th></tr></thead><tbody>" : "</tr></thead><tbody>");
    for (int k = 0; k < MBA_CLAIMS; k++) claim_row(b, &c[k], m, k, lacking);
    mba_buf_put(b, "</tbody></table></div>");
}

mba_status mba_part_claims(mba_buf *b, const mba_stores *r)
{
    mba_claim   any[MBA_CLAIMS];
    mba_matrix *m;
    MBA_TRY(mba_matrix_of_stores(&m, r));
    mba_claims_judge(r->run[0].a, any);
    rules(b, any, m);
    if (m)
        mba_buf_put(b, "<p class=\"small\"><b>In this run</b>: what holds for it alone, as in its column of the <a "
                       "href=\"#verdicts\">matrix</a>. <b>Over all runs</b>: the verdict. They differ where a claim "
                       "is about several models (F1 to F3, of which a run has a number) or compares stores (F5, F9, "
                       "F10), and this run is not among those that decide.</p>");
    mba_run_switch(b, r);
    for (int i = 0; i < r->shown; i++) {
        mba_run_open(b, r, i);
        claims_of_run(b, r, i, m);
        mba_run_end(b);
    }
    mba_matrix_destroy(m);
    return MBA_OK;
}
