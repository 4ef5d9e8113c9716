/* findings.c -- the answer first: cards with one number each, and the claims of the study with verdicts. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/parts.h"

/* ---- cards ---- */

typedef struct card { const char *claim, *unit, *figure,
                      *link; double (*number)(const mba_analysis *a); const char *sentence; } card;

static double percent_gemm(const mba_analysis *a)
{
    return a->busy_s > 0 ? 100 * mba_kind_s(a, MBA_GEMM) / a->busy_s : NAN;
}

static double percent_ssm(const mba_analysis *a)
{
    return a->busy_s > 0 ? 100 * mba_kind_s(a, MBA_SSM) / a->busy_s : NAN;
}

static double percent_memory(const mba_analysis *a)
{
    return 100 * mba_bounds_of(a, MBA_ALL_KERNELS).share[MBA_BY_MEMORY];
}

static double percent_floor(const mba_analysis *a) { return mba_bounds_of(a, MBA_ALL_KERNELS).percent_of_floor; }
static double percent_vector(const mba_analysis *a) { return 100 * mba_vector_bound_of(a, MBA_SSM_KERNELS).floor_a; }

static double percent_bandwidth(const mba_analysis *a)
{
    return 100 * mba_bandwidth_of(a, MBA_SSM_KERNELS).mean / (isnan(a->sheet.dram) ? a->best.dram : a->sheet.dram);
}

static const card cards[] = {
    { "F1", "% GEMM", "fig1", "Operators", percent_gemm, NULL },
    { "F2", "% SSM operators", "fig1", "Operators", percent_ssm, NULL },
    { "F3", "% of the time bound by memory", "fig2", "Roofline", percent_memory, NULL },
    { "F4", "% of DRAM bandwidth, SSM mean", "fig4", "Bandwidth", percent_bandwidth, NULL },
    { "F7", "% vector-bound, mixed kernels", "fig7", "What binds", percent_vector, NULL },
    { NULL, "% of the floor", "floors", "Floors", percent_floor,
      "Floor of all kernels over their time: what the least work would take at the best known rates of this machine. "
      "The study does not say." },
};

static const mba_claim *claim_named(const mba_claim *all, const char *id)
{
    for (int i = 0; id && i < MBA_CLAIMS; i++) if (!strcmp(all[i].id, id)) return &all[i];
    return NULL;
}

/* Shares of the classes as small bars: shape only, numbers are in the sentence. */
static void spark(mba_canvas *c, const mba_analysis *a)
{
    mba_svg s = { c, &c->out, 250, 34, false };
    double  at = 0;
    if (!(a->busy_s > 0)) return;
    mba_buf_put(s.out, "<figure><svg class=\"spark\" viewBox=\"0 0 250 18\" role=\"img\" aria-label=\"shares of the "
                       "operator classes\">");
    for (int k = 0; k < MBA_BREAKDOWN_KINDS; k++) {
        const double w = 250 * mba_kind_s(a, k) / a->busy_s;
        if (w >= 0.5) mba_svg_bar(&s, at, 0, w, 18, "bar", mba_kind_paint(k), -1, NULL);
        at += w;
    }
    mba_buf_put(s.out, "</svg><figcaption>classes of the step, in the order of Fig. 1</figcaption></figure>");
}

static void one_card(mba_canvas *c, const card *k, const mba_analysis *a, const mba_claim *claims)
{
    mba_buf         *b = &c->out;
    const mba_claim *f = claim_named(claims, k->claim);
    const double     v = k->number(a);
    mba_buf_add(b, "<div class=\"find\"><div><span class=\"chip %s\">%s</span> <b>%s</b></div>", f
                ? mba_verdict_name(f->verdict) : isnan(v) ? "open" : "new",
                f ? mba_verdict_name(f->verdict) : isnan(v) ? "open" : "new", f ? f->id : "");
    mba_buf_add(b, "<div class=\"big\" data-v=\"%s\">%s <small>%s</small></div><p>", mba_exact(v).s, mba_num(v).s,
                k->unit);
    if (f) {
        mba_buf_put(b, "Claim: ");
        mba_buf_html(b, f->claim);
        mba_buf_put(b, ", ");
        mba_buf_html(b, f->target);
        mba_buf_put(b, ". ");
        mba_buf_html(b, *f->measured ? f->measured : "Not measured here");
        mba_buf_put(b, ".");
    } else {
        mba_buf_put(b, k->sentence);
    }
    mba_buf_put(b, "</p>");
    if (k->number == percent_gemm) spark(c, a);
    mba_buf_add(b, "<div class=\"foot\"><a href=\"#%s\">%s</a></div></div>", k->figure, k->link);
}

/* What doubling one number of the machine would give this model: simulated, and said so. */
static void help_card(mba_buf *b, const mba_stores *r, int run)
{
    const mba_whatif *w = r->whatif;
    double            best = 0;
    int               axis = 0, m = 0;
    while (w && m < w->nmodels && strcmp(w->model[m].name, r->run[run].a->workload)) m++;
    if (!w || m == w->nmodels) return;
    for (int k = 0; k < w->ncurves; k++)
        for (int i = 0; i < w->curve[k].n && strcmp(w->curve[k].key, "clock"); i++) {
            const double gain = w->model[m].base.ms / w->model[m].curve_ms[k][i];
            if (w->curve[k].value[i] == 2 && gain > best) best = gain, axis = k;
        }
    mba_buf_add(b, "<div class=\"find\"><div><span class=\"chip new\">new</span> <b>SIMULATED</b></div><div "
                "class=\"big\" "
                "data-v=\"%s\">%s <small>× with twice the %s</small></div><p>", mba_exact(best).s, mba_num(best).s,
                w->curve[axis].name);
    mba_buf_add(b, "Of the numbers of an %s that were doubled one at a time, this one gives most: %s instead of %s "
                "ms, ",
                w->machine, mba_num(w->model[m].base.ms / best).s, mba_num(w->model[m].base.ms).s);
    mba_buf_html(b, w->model[m].batch);
    mba_buf_add(b, ". Predicted steps are off by up to %s %%.",
                mba_num(100 * fmax(fabs(1 / w->low - 1), fabs(1 / w->high - 1))).s);
    mba_buf_put(b, "</p><div class=\"foot\"><a href=\"#fig13\">What-if</a></div></div>");
}

static void tally(mba_buf *b, const mba_claim *claims)
{
    mba_buf_put(b, "<div class=\"find tally\"><b>The eleven claims of the study</b><ul>");
    for (int v = 0; v < 4; v++) {
        const mba_verdict order[] = { MBA_REPRODUCED, MBA_DEPENDS, MBA_REFUTED, MBA_OPEN };
        int               n = 0;
        mba_buf_add(b, "<li><span class=\"chip %s\">%s</span> ", mba_verdict_name(order[v]),
                    mba_verdict_name(order[v]));
        for (int i = 0; i < MBA_CLAIMS; i++) if (claims[i].verdict == order[v]) mba_buf_add(b, "%s%s", n++ ? ", " : "",
                claims[i].id);
        mba_buf_put(b, n ? "</li>" : "none</li>");
    }
    mba_buf_put(b, "</ul><div class=\"foot\"><a href=\"#claims\">All claims with numbers</a></div></div>");
}

void mba_part_findings(mba_canvas *c, const mba_stores *r)
{
    mba_run_switch(&c->out, r);
    for (int i = 0; i < r->shown; i++) {
        mba_claim claims[MBA_CLAIMS];
        mba_claims_judge(r->run[i].a, claims);
        mba_run_open(&c->out, r, i);
        mba_buf_put(&c->out, "<div class=\"band\">");
        for (size_t k = 0; k < sizeof cards / sizeof *cards; k++) one_card(c, &cards[k], r->run[i].a, claims);
        help_card(&c->out, r, i);
        tally(&c->out, claims);
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
        mba_claims_judge(r->run[i].a, c);
        mba_run_open(b, r, i);
        mba_buf_put(b, "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"claims of ");
        mba_buf_html(b, mba_run_label(r, i));
        mba_buf_put(b, "\"><table class=\"claims\"><thead><tr><th scope=\"col\">id</th><th scope=\"col\">claim</th><th "
                       "scope=\"col\">target</th><th scope=\"col\">measured</th>"
                       "<th scope=\"col\">verdict</th><th scope=\"col\">needs</th></tr></thead><tbody>");
        for (int k = 0; k < MBA_CLAIMS; k++) {
            const char *cell[] = { c[k].id, c[k].claim, c[k].target, c[k].measured };
            mba_buf_put(b, "<tr>");
            for (int j = 0; j < 4; j++) {
                mba_buf_put(b, "<td>");
                mba_buf_html(b, *cell[j] ? cell[j] : "–");
                mba_buf_put(b, "</td>");
            }
            mba_buf_add(b, "<td><span class=\"chip %s\">%s</span></td><td>", mba_verdict_name(c[k].verdict),
                        mba_verdict_name(c[k].verdict));
            mba_buf_html(b, c[k].needs);
            mba_buf_put(b, "</td></tr>\n");
        }
        mba_buf_put(b, "</tbody></table></div>");
        mba_run_end(b);
    }
}
