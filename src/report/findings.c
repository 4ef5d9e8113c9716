/* findings.c -- the answer first: cards with one number each, and the claims of the study with verdicts. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/parts.h"

/* ---- sparklines: shape only, the numbers are in the sentence and the figure ---- */

enum { SPARK_W = 250, SPARK_H = 34 };

static mba_svg spark_begin(mba_canvas *c, int h, const char *label)
{
    mba_svg s = { c, &c->out, SPARK_W, h, false };
    mba_buf_add(s.out, "<figure><svg class=\"spark\" viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"%s\">", SPARK_W, h,
                label);
    return s;
}

static void spark_end(mba_svg *s, const char *caption)
{
    mba_buf_add(s->out, "</svg><figcaption>%s</figcaption></figure>", caption);
}

/* NaN: no line */
typedef struct sticks { double v[24]; const char *paint[24]; int n; double top, line, dash; } sticks;

static void add_stick(sticks *k, double v, const char *paint)
{
    if (k->n == 24 || isnan(v)) return;
    k->v[k->n] = v;
    k->paint[k->n++] = paint;
    if (v > k->top) k->top = v;
}

static void spark_sticks(mba_canvas *c, const sticks *k, const char *caption)
{
    if (!k->n) return;
    mba_svg         s = spark_begin(c, SPARK_H, caption);
    const double    step = (double)SPARK_W / (k->n < 4 ? 4 : k->n);
    const mba_scale y = mba_lin(0, fmax(k->top, fmax(isnan(k->line) ? 0 : k->line, isnan(k->dash) ? 0 : k->dash)),
                                SPARK_H, 1);
    for (int i = 0; i < k->n; i++) {
        const double at = mba_at(y, k->v[i]);
        mba_svg_bar(&s, step * i, at, step - 1.5, SPARK_H - at, "", k->paint[i], -1, NULL);
    }
    if (!isnan(k->line)) mba_svg_line(&s, 0, mba_at(y, k->line), SPARK_W, mba_at(y, k->line), "ref", NULL);
    if (!isnan(k->dash)) mba_svg_line(&s, 0, mba_at(y, k->dash), SPARK_W, mba_at(y, k->dash), "ref dash", NULL);
    spark_end(&s, caption);
}

/* One bar, cut: classes of the step, or what binds its kernels. */
typedef struct piece { double part; const char *paint; } piece;

static void spark_strip(mba_canvas *c, const piece *p, int n, const char *caption)
{
    mba_svg s = spark_begin(c, 18, caption);
    double  at = 0;
    for (int i = 0; i < n; i++) {
        const double w = SPARK_W * p[i].part;
        if (w >= 0.5) mba_svg_bar(&s, at, 0, w, 18, "bar", p[i].paint, -1, NULL);
        if (w > 0) at += w;
    }
    spark_end(&s, caption);
}

/* ---- cards ---- */

/* A card: the verdict on a claim (or something the study does not say), one number, a sentence, a sparkline. */
typedef struct card {
    const char *claim, *unit, *figure, *link;
    double (*number)(const mba_analysis *a);
    void   (*say)(mba_buf *b, const mba_stores *r, int run);
    void   (*spark)(mba_canvas *c, const mba_stores *r, int run);
} card;

static double percent_of(const mba_analysis *a, int kind)
{
    return a->busy_s > 0 ? 100 * mba_kind_s(a, kind) / a->busy_s : NAN;
}

/* F1 */

static double percent_gemm(const mba_analysis *a) { return percent_of(a, MBA_GEMM); }

static void say_gemm(mba_buf *b, const mba_stores *r, int run)
{
    const mba_analysis *a = r->run[run].a;
    int                 top = 0;
    for (int k = 1; k < MBA_BREAKDOWN_KINDS; k++) if (mba_kind_s(a, k) > mba_kind_s(a, top)) top = k;
    if (top == MBA_GEMM) mba_buf_put(b, "GEMM is the largest class of the step");
    else mba_buf_add(b, "The largest class is not GEMM but %s, %s %%", mba_kind_long(top),
                     mba_num(percent_of(a, top)).s);
    mba_buf_put(b, "; the study: the largest, up to about 60 %.");
}

static void spark_classes(mba_canvas *c, const mba_stores *r, int run)
{
    piece p[MBA_BREAKDOWN_KINDS];
    for (int k = 0; k < MBA_BREAKDOWN_KINDS; k++)
        p[k] = (piece){ percent_of(r->run[run].a, k) / 100, mba_kind_paint(k) };
    spark_strip(c, p, MBA_BREAKDOWN_KINDS, "classes of the step, in the order of Fig. 1");
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
    else            mba_buf_add(b, "behind %d other classes", larger);
    mba_buf_put(b, "; the study: second, up to about 20 %.");
}

static void spark_ssm(mba_canvas *c, const mba_stores *r, int run)
{
    sticks k = { .line = 20, .dash = NAN };
    for (int i = 0; i < r->shown; i++) add_stick(&k, percent_ssm(r->run[i].a), i == run ? "ssm" : "oth");
    if (r->shown > 1) spark_sticks(c, &k, "SSM share of each run, this one in colour; line: 20 %");
}

/* F3 */

static double percent_memory(const mba_analysis *a)
{
    return 100 * mba_bounds_of(a, MBA_ALL_KERNELS).share[MBA_BY_MEMORY];
}

static void say_memory(mba_buf *b, const mba_stores *r, int run)
{
    static const double most = 3.5;                                  // of the study
    const mba_intensity in = mba_intensity_of(r->run[run].a, MBA_ALL_KERNELS);
    const double        vector = isnan(in.least[1]) ? in.executed[1][0] : in.least[1];
    const double        both = isnan(in.least[2]) ? in.executed[2][0] : in.least[2];
    mba_buf_put(b, "Of the kernel time, in kernels whose floor is memory. The study: all memory-bound, under 3.5 "
                   "FLOP/byte.");
    if (isnan(both)) return;
    mba_buf_add(b, " Here %s with tensor FLOPs", mba_num(both).s);
    if (!isnan(vector)) mba_buf_add(b, ", %s of vector FLOPs alone", mba_num(vector).s);
    if (both < most)                          mba_buf_put(b, ": under it either way.");
    else if (!isnan(vector) && vector < most) mba_buf_put(b, ": under it only without products of matrices.");
    else                                      mba_buf_put(b, ".");
}

static void spark_bounds(mba_canvas *c, const mba_stores *r, int run)
{
    static const char *const paints[MBA_FLOORS] = { "memory", "tensor", "vector", "sfu" };
    const mba_bounds         bound = mba_bounds_of(r->run[run].a, MBA_ALL_KERNELS);
    piece                    p[MBA_FLOORS];
    if (isnan(bound.percent_of_floor)) return;
    for (int k = 0; k < MBA_FLOORS; k++) p[k] = (piece){ bound.share[k], paints[k] };
    spark_strip(c, p, MBA_FLOORS, "kernel time by what its floor is: memory, tensor, vector, special functions");
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
    mba_buf_add(b, "SSM kernels move %s%s GB/s, mean over launches; weighted by time %s (%s %%). The study: 57.5 %% of "
                   "an H100's 3,350 GB/s, of which ours is %s %%.", w.least ? "at least " : "",
                mba_num(w.mean / 1e9).s, mba_num(w.weighted / 1e9).s, mba_num(100 * w.weighted / of_bandwidth(a)).s,
                mba_num(100 * w.mean / 3350e9).s);
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
    sticks              s = { .line = a->sheet.dram / 1e9, .dash = mba_bandwidth_of(a, MBA_SSM_KERNELS).mean / 1e9 };
    double              v[24];
    if (mba_choose(&k, a, is_counted_ssm, 24) != MBA_OK) return;
    for (int i = 0; i < k.n; i++) v[i] = k.k[i]->counted.dram_bytes / k.k[i]->counted.time_s / 1e9;
    qsort(v, (size_t)k.n, sizeof *v, by_bandwidth);
    for (int i = 0; i < k.n; i++) add_stick(&s, v[i], "ssm");
    spark_sticks(c, &s, "GB/s of the SSM kernels, sorted; line: data sheet, dashes: mean");
    free(k.k);
}

/* F7 */

enum { READINGS = 4 };
static const double VECTOR_BOUND = 85;             // as claim F7 is judged: 89 - 92, with room for how times are taken

static void vector_readings(const mba_analysis *a, double v[READINGS])
{
    const mba_vector_bound b = mba_vector_bound_of(a, MBA_SSM_KERNELS);
    v[0] = 100 * b.floor_a, v[1] = 100 * b.floor_b, v[2] = 100 * b.pipe_fma, v[3] = 100 * b.pipe_any;
}

/* The largest reading: whether any rule comes to the study's number. */
double mba_percent_vector(const mba_analysis *a)
{
    double v[READINGS], most = NAN;
    vector_readings(a, v);
    for (int i = 0; i < READINGS; i++) if (!(most >= v[i]) && !isnan(v[i])) most = v[i];
    return most;
}

static void say_vector(mba_buf *b, const mba_stores *r, int run)
{
    static const char *const rule[READINGS] = { "least arithmetic", "issue slots", "a busier FMA pipe",
                                                "any busier vector pipe" };
    double v[READINGS], lo = NAN, hi = NAN;
    int    known = 0;
    vector_readings(r->run[run].a, v);
    mba_buf_put(b, "At most, of the time of mixed SSM kernels. By ");
    for (int i = 0; i < READINGS; i++) {
        if (isnan(v[i])) continue;
        mba_buf_add(b, "%s%s %s %%", known++ ? ", " : "", rule[i], mba_num(v[i]).s);
        if (!(lo <= v[i])) lo = v[i];
        if (!(hi >= v[i])) hi = v[i];
    }
    mba_buf_put(b, "; the study: 89–92 %.");
    if (hi < VECTOR_BOUND)   mba_buf_put(b, " No rule comes to that.");
    else if (lo < VECTOR_BOUND) mba_buf_put(b, " The counting rule decides.");
}

static void spark_vector(mba_canvas *c, const mba_stores *r, int run)
{
    double v[READINGS];
    sticks k = { .top = 100, .line = 89, .dash = NAN };
    vector_readings(r->run[run].a, v);
    for (int i = 0; i < READINGS; i++) add_stick(&k, v[i], "mixed");
    spark_sticks(c, &k, "vector-bound share by each rule; line: the study's 89 %");
}

/* beyond the study */

static double percent_floor(const mba_analysis *a) { return mba_bounds_of(a, MBA_ALL_KERNELS).percent_of_floor; }

static void say_floor(mba_buf *b, const mba_stores *r, int run)
{
    const mba_bounds bound = mba_bounds_of(r->run[run].a, MBA_ALL_KERNELS);
    const mba_stores alone = { .run = { r->run[run] }, .n = 1, .shown = 1 };
    const mba_gain   most = mba_most_to_gain(&alone);
    mba_buf_add(b, "The least work at the best rates of this machine would take %s of the %s ms of kernels.",
                mba_num(10 * bound.percent_of_floor * bound.time_s).s, mba_num(1e3 * bound.time_s).s);
    if (!most.kernel) return;
    mba_buf_put(b, " Most to gain: ");
    mba_buf_html(b, mba_short(most.kernel->row->name, 30).s);
    mba_buf_add(b, ", %s %% of the step.", mba_num(100 * most.part).s);
}

static bool has_floor(const mba_kernel_view *k) { return k->least_s > 0; }

static void spark_floor(mba_canvas *c, const mba_stores *r, int run)
{
    mba_chosen k;
    sticks     s = { .top = 100, .line = 100, .dash = NAN };
    if (mba_choose(&k, r->run[run].a, has_floor, 24) != MBA_OK) return;
    for (int i = 0; i < k.n; i++)
        add_stick(&s, fmin(100, 100 * k.k[i]->least_s / k.k[i]->median_s), mba_kind_paint(k.k[i]->kind));
    spark_sticks(c, &s, "% of floor of the longest kernels, the longest first");
    free(k.k);
}

static const card cards[] = {
    { "F1", "% GEMM", "fig1", "Operators", percent_gemm, say_gemm, spark_classes },
    { "F2", "% SSM operators", "fig1", "Operators", percent_ssm, say_ssm, spark_ssm },
    { "F3", "% bound by memory", "fig2", "Roofline", percent_memory, say_memory, spark_bounds },
    { "F4", "% of DRAM bandwidth", "fig4", "Bandwidth", percent_bandwidth, say_bandwidth, spark_bandwidth },
    { "F7", "% vector-bound", "fig7", "What binds", mba_percent_vector, say_vector, spark_vector },
    { NULL, "% of the floor", "floors", "Floors", percent_floor, say_floor, spark_floor },
};

static const mba_claim *claim_named(const mba_claim *all, const char *id)
{
    for (int i = 0; id && i < MBA_CLAIMS; i++) if (!strcmp(all[i].id, id)) return &all[i];
    return NULL;
}

static void card_head(mba_buf *b, const char *verdict, const char *id)
{
    mba_buf_add(b, "<div class=\"find\"><div><span class=\"chip %s\">%s</span> <b>%s</b></div>", verdict, verdict, id);
}

/* Counters saw the SSM kernels, and none of them does both: claim F7 has no object, which is not a lack of data. */
static bool none_is_mixed(const mba_analysis *a)
{
    bool counted = false, mixed = false;
    for (int64_t i = 0; i < a->nkernels; i++) {
        if (!mba_in_group(&a->kernel[i], MBA_SSM_KERNELS)) continue;
        counted |= a->kernel[i].cls_counted;
        mixed   |= a->kernel[i].cls == MBA_CLASS_MIXED;
    }
    return counted && !mixed;
}

static void one_card(mba_canvas *c, const card *k, const mba_stores *r, int run, const mba_claim *claims)
{
    mba_buf         *b = &c->out;
    const mba_claim *f = claim_named(claims, k->claim);
    const double     v = k->number(r->run[run].a);
    card_head(b, f ? mba_verdict_name(f->verdict) : isnan(v) ? "open" : "new", f ? f->id : "");
    mba_buf_add(b, "<div class=\"big\" data-v=\"%s\">%s <small>%s</small></div><p>", mba_exact(v).s, mba_num(v).s,
                k->unit);
    if (!isnan(v)) {
        k->say(b, r, run);
    } else if (k->number == mba_percent_vector && none_is_mixed(r->run[run].a)) {
        mba_buf_put(b, "No SSM kernel of this model does tensor and vector work at once: there is nothing to judge.");
    } else {
        mba_buf_put(b, "Not measured here");
        if (f && *f->needs) mba_buf_put(b, ": it needs "), mba_buf_html(b, f->needs);
        mba_buf_put(b, ".");
    }
    mba_buf_put(b, "</p>");
    if (!isnan(v)) k->spark(c, r, run);
    mba_buf_add(b, "<div class=\"foot\"><a href=\"#%s\">%s</a></div></div>", k->figure, k->link);
}

/* What doubling one number of the machine would give this model: simulated, and said so. */
static void help_card(mba_canvas *c, const mba_stores *r, int run)
{
    mba_buf          *b = &c->out;
    const mba_whatif *w = r->whatif;
    sticks            s = { .line = NAN, .dash = NAN };
    int               m = 0;
    while (w && m < w->nmodels && strcmp(w->model[m].name, r->run[run].a->workload)) m++;
    if (!w || m == w->nmodels) return;
    const mba_doubled best = mba_wi_doubled(w, m);
    if (!(best.gain > 0)) return;
    card_head(b, "new", "SIMULATED");
    mba_buf_add(b, "<div class=\"big\" data-v=\"%s\">%s <small>× with twice the %s</small></div><p>",
                mba_exact(best.gain).s, mba_num(best.gain).s, w->curve[best.axis].name);
    mba_buf_add(b, "The most of the numbers of an %s, its clock aside, doubled one at a time: %s instead of %s ms, ",
                w->machine, mba_num(w->model[m].base.ms / best.gain).s, mba_num(w->model[m].base.ms).s);
    mba_buf_html(b, w->model[m].batch);
    mba_buf_add(b, ". Predicted steps are off by up to %s %%.</p>",
                mba_num(100 * fmax(fabs(1 / w->low - 1), fabs(1 / w->high - 1))).s);
    for (int k = 0; k < w->ncurves; k++)
        for (int i = 0; i < w->curve[k].n && strcmp(w->curve[k].key, "clock"); i++)
            if (w->curve[k].value[i] == 2)
                add_stick(&s, fmax(0, 100 * (w->model[m].base.ms / w->model[m].curve_ms[k][i] - 1)),
                          k == best.axis ? "ssm" : "oth");
    spark_sticks(c, &s, "% faster by each number doubled, in the order of Fig. 13");
    mba_buf_put(b, "<div class=\"foot\"><a href=\"#fig13\">What-if</a></div></div>");
}

static void tally(mba_buf *b, const mba_analysis *a, const mba_claim *claims)
{
    mba_buf_put(b, "<div class=\"find tally\"><b>The eleven claims of the study</b><ul>");
    for (int v = 0; v < 4; v++) {
        const mba_verdict order[] = { MBA_REPRODUCED, MBA_DEPENDS, MBA_REFUTED, MBA_OPEN };
        int               n = 0;
        for (int i = 0; i < MBA_CLAIMS; i++) n += claims[i].verdict == order[v];
        mba_buf_add(b, "<li><span class=\"chip %s\">%s</span> <b>%d</b>", mba_verdict_name(order[v]),
                    mba_verdict_name(order[v]), n);
        for (int i = 0; i < MBA_CLAIMS; i++) if (claims[i].verdict == order[v]) mba_buf_add(b, " %s", claims[i].id);
        mba_buf_put(b, "</li>");
    }
    mba_buf_put(b, "</ul>");
    if (!strcmp(a->device, "cpu")) mba_buf_put(b, "<p>They are about GPUs: a store of one judges them.</p>");
    mba_buf_put(b, "<div class=\"foot\"><a href=\"#claims\">All claims with numbers</a></div></div>");
}

void mba_part_findings(mba_canvas *c, const mba_stores *r)
{
    mba_run_switch(&c->out, r);
    for (int i = 0; i < r->shown; i++) {
        mba_claim claims[MBA_CLAIMS];
        mba_claims_judge(r->run[i].a, claims);
        mba_run_open(&c->out, r, i);
        mba_buf_put(&c->out, "<div class=\"band\">");
        for (size_t k = 0; k < sizeof cards / sizeof *cards; k++) one_card(c, &cards[k], r, i, claims);
        help_card(c, r, i);
        tally(&c->out, r->run[i].a, claims);
        mba_buf_put(&c->out, "</div>");
        mba_run_end(&c->out);
    }
}

/* ---- claims ---- */

void mba_part_claims(mba_buf *b, const mba_stores *r)
{
    mba_run_switch(b, r);
    for (int i = 0; i < r->shown; i++) {
        mba_claim c[MBA_CLAIMS];
        bool      lacking = false;                                     // a claim needs something
        mba_claims_judge(r->run[i].a, c);
        for (int k = 0; k < MBA_CLAIMS; k++) lacking |= *c[k].needs != 0;
        mba_run_open(b, r, i);
        mba_buf_put(b, "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"claims of ");
        mba_buf_html(b, mba_run_label(r, i));
        mba_buf_put(b, "\"><table class=\"claims\"><thead><tr><th scope=\"col\">id</th><th scope=\"col\">claim</th><th "
                       "scope=\"col\">target</th><th scope=\"col\">measured</th>"
                       "<th scope=\"col\">verdict</th>");
        mba_buf_put(b, lacking ? "<th scope=\"col\">needs</th></tr></thead><tbody>" : "</tr></thead><tbody>");
        for (int k = 0; k < MBA_CLAIMS; k++) {
            const char *cell[] = { c[k].id, c[k].claim, c[k].target, c[k].measured };
            mba_buf_put(b, "<tr>");
            for (int j = 0; j < 4; j++) {
                mba_buf_put(b, "<td>");
                mba_buf_html(b, *cell[j] ? cell[j] : "–");
                mba_buf_put(b, "</td>");
            }
            mba_buf_add(b, "<td><span class=\"chip %s\">%s</span></td>", mba_verdict_name(c[k].verdict),
                        mba_verdict_name(c[k].verdict));
            if (lacking) mba_buf_put(b, "<td>"), mba_buf_html(b, c[k].needs), mba_buf_put(b, "</td>");
            mba_buf_put(b, "</tr>\n");
        }
        mba_buf_put(b, "</tbody></table></div>");
        mba_run_end(b);
    }
}
