// SPDX-License-Identifier: Apache-2.0
/* validate_scores.c -- see validate_scores.h. */
#include "cli/validate_scores.h"

#include <math.h>
#include <string.h>

#include "study/public_links.h"
#include "study/public_numbers.h"

/* Prints a table, in JSON as the member `key` of an object that is open. */
static mba_status print_member(mba_table *t, const char *key, mba_table_form form)
{
    if (form == MBA_TABLE_JSON) printf(",\n \"%s\": ", key);
    const mba_status st = mba_table_print(t, stdout, form);
    mba_table_destroy(t);
    return st;
}

/* ---- kernels, weighted by time ---- */

static const mba_column weighted_columns[] = { { "kernels", "kernels, weighted by time", NULL },
                                               { "mode", "from", NULL },
                                               { "set", "set", NULL },
                                               { "points", "points", "%.0f" },
                                               { "error", "error, %", "%.1f" },
                                               { "bias", "bias, %", "%+.1f" },
                                               { "mean", "unweighted, %", "%.1f" },
                                               { "worst", "worst, %", "%.1f" },
                                               { "roofline", "roofline's error, %", "%.1f" },
                                               { "inside", "in their band, %", "%.0f" },
                                               { 0 } };

static void weighted_row(mba_table *t, const mba_profiled_set *k, mba_score_of of, mba_score_set set,
                         mba_score_mode mode)
{
    static const char *const ofs[] = { "SSM", "all" }, *const sets[] = { "held out", "fitted", "both" },
                             *const modes[] = { "counters", "launch plans", "plans and known code" };
    const mba_weighted_score        s = mba_score_kernels(k, of, set, mode);
    mba_table_text(t, "%s", ofs[of]);
    mba_table_text(t, "%s", modes[mode]);
    mba_table_text(t, "%s", sets[set]);
    mba_table_number(t, s.points);
    mba_table_number(t, s.error);
    mba_table_number(t, s.bias);
    mba_table_number(t, s.mean);
    mba_table_number(t, s.worst);
    mba_table_number(t, s.roofline);
    mba_table_number(t, s.inside);
}

mba_status mba_print_weighted(const mba_profiled_set *k, mba_table_form form)
{
    mba_table *t = NULL;
    MBA_TRY(mba_table_create(&t, weighted_columns));
    for (int of = MBA_SCORE_SSM; of <= MBA_SCORE_ALL; of++)
        for (int mode = 0; mode < MBA_SCORE_MODES; mode++)
            for (int set = MBA_SCORE_HELD; set <= MBA_SCORE_FITTED; set++)
                weighted_row(t, k, (mba_score_of)of, (mba_score_set)set, (mba_score_mode)mode);
    const mba_status st = print_member(t, "weighted", form);
    if (form == MBA_TABLE_TEXT) putchar('\n');
    return st;
}

/* ---- steps at every size ---- */

static mba_status print_points(const mba_size_score *s, int n, const char *what, const char *key, mba_table_form form)
{
    const mba_column columns[] = { { "workload", what, NULL },
                                   { "measured_ms", "measured, ms", "%.2f" },
                                   { "planned_ms", "plan-driven, ms", "%.2f" },
                                   { "error", "error, %", "%+.1f" },
                                   { "known_ms", "with known code, ms", "%.2f" },
                                   { "known_error", "error, %", "%+.1f" },
                                   { "at_least_ms", "at least, ms", "%.2f" },
                                   { "at_most_ms", "at most", "%.2f" },
                                   { "inside", "inside", "%.0f" },
                                   { "roofline_error", "roofline, %", "%+.1f" },
                                   { "unchanged_error", "same time per unit, %", "%+.1f" },
                                   { 0 } };
    mba_table       *t = NULL;
    MBA_TRY(mba_table_create(&t, columns));
    for (int i = 0; i < n; i++) {
        const mba_point *p = s[i].point;
        mba_table_text(t, "%s", p->subject);
        mba_table_number(t, p->ms);
        mba_table_number(t, p->predicted_ms);
        mba_table_number(t, mba_error_percent(p->predicted_ms, p->ms));
        mba_table_number(t, p->known_ms > 0 ? p->known_ms : NAN);
        mba_table_number(t, mba_error_percent(p->known_ms, p->ms));
        mba_table_number(t, p->predicted_ms * s[i].band.low);
        mba_table_number(t, isfinite(s[i].band.high) ? p->predicted_ms * s[i].band.high : NAN);
        mba_table_number(t, s[i].inside);
        mba_table_number(t, mba_error_percent(p->roofline_ms, p->ms));
        mba_table_number(t, mba_error_percent(s[i].unchanged_ms, p->ms));
    }
    return print_member(t, key, form);
}

/* Predictions with the code of kernels that were counted in other workloads. */
static void say_known(const mba_size_score *s, int n, const char *what)
{
    double error = 0, bias = 0, worst = 0;
    for (int i = 0; i < n; i++) {
        const double off = mba_error_percent(s[i].point->known_ms, s[i].point->ms);
        if (isnan(off)) return;
        error += fabs(off) / n;
        bias += off / n;
        if (fabs(off) > fabs(worst)) worst = off;
    }
    printf("with known code, counted in other workloads: %d %s: mean error %.1f %%, bias %+.1f %%, worst %+.1f %%\n\n",
           n, what, error, bias, worst);
}

static void say_points(const mba_size_score *s, int n, const char *what)
{
    double error = 0, bias = 0, worst = 0, roof = 0, null = 0, ours = 0;
    int    inside = 0, others = 0;
    for (int i = 0; i < n; i++) {
        const double off = mba_error_percent(s[i].point->predicted_ms, s[i].point->ms),
                     same = mba_error_percent(s[i].unchanged_ms, s[i].point->ms);
        error += fabs(off) / n;
        bias += off / n;
        roof += fabs(mba_error_percent(s[i].point->roofline_ms, s[i].point->ms)) / n;
        if (fabs(off) > fabs(worst)) worst = off;
        inside += s[i].inside;
        if (isnan(same)) continue;
        others++;
        null += fabs(same);
        ours += fabs(off);
    }
    printf("%d %s: mean error %.1f %%, bias %+.1f %%, worst %+.1f %%; %d inside the 80 %% band of the other models; "
           "roofline %.1f %%",
           n, what, error, bias, worst, inside, roof);
    if (others)
        printf("; at %d other sizes of a model %.1f %%, with the same time per unit %.1f %%", others, ours / others,
               null / others);
    puts("\n");
    say_known(s, n, what);
}

/* ---- variants ---- */

static mba_status print_variants(const mba_variant_score *v, int n, mba_table_form form)
{
    static const mba_column columns[] = { { "shape", "one layer of SSD, both passes", NULL },
                                          { "variant", "variant", NULL },
                                          { "measured_ms", "measured, ms", "%.3f" },
                                          { "planned_ms", "plan-driven, ms", "%.3f" },
                                          { "error", "error, %", "%+.1f" },
                                          { "measured", "of chunked", "%.3f" },
                                          { "predicted", "predicted", "%.3f" },
                                          { "share", "share of the effect, %", "%.0f" },
                                          { 0 } };
    mba_table              *t = NULL;
    MBA_TRY(mba_table_create(&t, columns));
    for (int i = 0; i < n; i++) {
        mba_table_text(t, "%s", v[i].shape);
        mba_table_text(t, "%s", v[i].variant);
        mba_table_number(t, v[i].measured_ms);
        mba_table_number(t, v[i].predicted_ms);
        mba_table_number(t, mba_error_percent(v[i].predicted_ms, v[i].measured_ms));
        mba_table_number(t, v[i].measured);
        mba_table_number(t, v[i].predicted);
        mba_table_number(t, 100 * mba_effect_share(v[i].measured, v[i].predicted));
    }
    return print_member(t, "variants", form);
}

/* Shapes at which all variants come in the measured order. Pairs closer than 3 % have no order. */
static int shapes_in_order(const mba_variant_score *v, int n, int *shapes)
{
    int in_order = 0;
    *shapes = 0;
    for (int i = 0; i < n; i++) {
        bool first = true, right = true;
        for (int j = 0; j < i; j++) first &= strcmp(v[j].shape, v[i].shape) != 0;
        if (!first) continue;
        for (int a = 0; a < n; a++)
            for (int b = 0; b < n; b++)
                if (!strcmp(v[a].shape, v[i].shape) && !strcmp(v[b].shape, v[i].shape)
                    && v[a].measured_ms > 1.03 * v[b].measured_ms)
                    right &= v[a].predicted_ms > v[b].predicted_ms;
        ++*shapes;
        in_order += right;
    }
    return in_order;
}

static void say_variants(const mba_variant_score *v, int n)
{
    double error = 0, bias = 0, share[MBA_VARIANTS_MAX];
    int    signs = 0, shapes;
    for (int i = 0; i < n; i++) {
        const double off = mba_error_percent(v[i].predicted_ms, v[i].measured_ms);
        share[i] = mba_effect_share(v[i].measured, v[i].predicted);
        error += fabs(off) / n;
        bias += off / n;
        if (!isnan(share[i])) signs += (v[i].measured > 1) == (v[i].predicted > 1);
    }
    const int            in_order = shapes_in_order(v, n, &shapes);
    const mba_effect_sum s = mba_effect_sum_of(share, n);
    printf(
        "%d layers: mean error %.1f %%, bias %+.1f %%; %d effects of 3 %% or more: sign right in %d, share predicted "
        "%.0f %%, median %.0f %% (\"nothing changes\": 0 %%); order of the variants right at %d of %d shapes\n\n",
        n, error, bias, s.effects, signs, s.mean, s.median, in_order, shapes);
}

mba_status mba_print_sizes(const mba_measured *base, const mba_measured *sizes, mba_table_form form)
{
    mba_size_score    s[MBA_SIZES_MAX];
    mba_variant_score v[MBA_VARIANTS_MAX];
    const bool        text = form == MBA_TABLE_TEXT;
    int               n = mba_score_sizes(s, MBA_POINT_TOTAL, base, sizes);
    MBA_TRY(print_points(s, n, "step of", "sizes", form));
    if (text) say_points(s, n, "steps");
    n = mba_score_sizes(s, MBA_POINT_SSM, base, sizes);
    MBA_TRY(print_points(s, n, "SSM operators in a step of", "ssm_sizes", form));
    if (text) say_points(s, n, "sums of SSM operators");
    n = mba_score_variants(v, sizes);
    MBA_TRY(print_variants(v, n, form));
    if (text) say_variants(v, n);
    return MBA_OK;
}

/* ---- sealed sets ---- */

mba_status mba_print_sealed(mba_table_form form)
{
    static const mba_column columns[] = { { "set", "sealed set", NULL },
                                          { "steps", "steps", "%.0f" },
                                          { "error", "error, %", "%.1f" },
                                          { "bias", "bias, %", "%+.1f" },
                                          { "worst", "worst, %", "%+.1f" },
                                          { "inside", "in their band", "%.0f" },
                                          { "ssm_error", "SSM kernels by time, %", "%.1f" },
                                          { "ssm_bias", "bias, %", "%+.1f" },
                                          { 0 } };
    mba_sealed_score        s[MBA_SEALED_MAX];
    mba_table              *t = NULL;
    const int               n = mba_sealed_history(s, mba_sealed_text);
    mba_assert(n >= 0); // the table is built in, and a test parses it
    if (!n && form == MBA_TABLE_TEXT) {
        puts("no sealed set has been compared yet (tools/sealed)");
        return MBA_OK;
    }
    MBA_TRY(mba_table_create(&t, columns));
    for (int i = 0; i < n; i++) {
        mba_table_text(t, "%s", s[i].set);
        const double cells[] = { s[i].steps,  s[i].error,     s[i].bias,    s[i].worst,
                                 s[i].inside, s[i].ssm_error, s[i].ssm_bias };
        for (size_t c = 0; c < sizeof cells / sizeof *cells; c++) mba_table_number(t, cells[c]);
    }
    return print_member(t, "sealed", form);
}

/* ---- published numbers ---- */

static void public_row(mba_table *t, const mba_public_number *p)
{
    mba_table_text(t, "%s", p->source);
    mba_table_text(t, "%s", p->work);
    mba_table_text(t, "%s / %s", p->gpu[1], p->gpu[0]);
    mba_table_number(t, p->measured);
    mba_table_number(t, p->predicted);
    mba_table_number(t, mba_error_percent(p->predicted, p->measured));
    for (int i = 0; i < 2; i++) mba_table_number(t, 1e3 * p->seconds[i]);
    mba_table_text(t, "%s", p->remark);
}

mba_status mba_print_public(mba_table_form form)
{
    static const mba_column columns[] = { { "source", "source", NULL },         { "work", "work", NULL },
                                          { "gpus", "speed of", NULL },         { "measured", "published", "%.2f" },
                                          { "predicted", "simulated", "%.2f" }, { "error", "error, %", "%+.0f" },
                                          { "first_ms", "first, ms", "%.3f" },  { "second_ms", "second, ms", "%.3f" },
                                          { "remark", "remark", NULL },         { 0 } };
    mba_public_number       p[MBA_PUBLIC_MAX];
    mba_table              *t = NULL;
    int                     n, near = 0, null = 0;
    MBA_TRY(mba_public_parse(p, &n, "the built-in public numbers", mba_public_text));
    MBA_TRY(mba_table_create(&t, columns));
    mba_status st = MBA_OK;
    for (int i = 0; i < n && st == MBA_OK; i++) {
        st = mba_public_predict(&p[i]);
        if (st == MBA_OK) public_row(t, &p[i]);
        near += fabs(mba_error_percent(p[i].predicted, p[i].measured)) <= 20;
        null += fabs(mba_error_percent(1, p[i].measured)) <= 20;
    }
    if (st == MBA_OK) st = mba_table_print(t, stdout, form);
    if (st == MBA_OK && form == MBA_TABLE_TEXT)
        printf("%d of %d ratios between GPUs are within 20 %%; with \"all GPUs are equally fast\" %d are\n", near, n,
               null);
    mba_table_destroy(t);
    return st;
}

/* ---- published bandwidths of collectives ---- */

mba_status mba_print_public_links(mba_table_form form)
{
    static const mba_column columns[] = { { "source", "source", NULL },
                                          { "cluster", "cluster", NULL },
                                          { "collective", "collective", NULL },
                                          { "algorithm", "algorithm", NULL },
                                          { "gpus", "GPUs", "%.0f" },
                                          { "mib", "MiB", "%.0f" },
                                          { "published", "published, GB/s", "%.1f" },
                                          { "predicted", "formula, GB/s", "%.1f" },
                                          { "error", "error, %", "%+.1f" },
                                          { "simulated", "simulate, GB/s", "%.1f" },
                                          { "simulated_error", "error, %", "%+.1f" },
                                          { "remark", "remark", NULL },
                                          { 0 } };
    mba_public_link         p[MBA_PUBLIC_LINKS_MAX];
    mba_table              *t = NULL;
    int                     n, ours = 0, given = 0;
    double                  worst = 0, our_worst = 0;
    MBA_TRY(mba_public_links_read(p, &n, "the built-in bandwidths", mba_public_links_text));
    MBA_TRY(mba_table_create(&t, columns));
    for (int i = 0; i < n; i++) {
        const double error = mba_error_percent(p[i].predicted, p[i].published);
        const double our_error = mba_error_percent(p[i].simulated, p[i].published);
        given += p[i].gives;
        if (!p[i].gives) worst = fmax(worst, fabs(error));
        our_worst = fmax(our_worst, fabs(our_error)); // fmax passes over NaN
        ours += !isnan(our_error);
        mba_table_text(t, "%s", p[i].source);
        mba_table_text(t, "%s", p[i].cluster);
        mba_table_text(t, "%s", p[i].collective);
        mba_table_text(t, "%s", mba_nccl_algorithms[p[i].how]);
        mba_table_number(t, (double)p[i].ranks);
        mba_table_number(t, p[i].bytes / (1 << 20));
        mba_table_number(t, p[i].published);
        mba_table_number(t, p[i].predicted);
        mba_table_number(t, error);
        mba_table_number(t, p[i].simulated);
        mba_table_number(t, our_error);
        mba_table_text(t, "%s", p[i].remark);
    }
    const mba_status st = mba_table_print(t, stdout, form);
    if (st == MBA_OK && form == MBA_TABLE_TEXT)
        printf(
            "%d of %d bus bandwidths give a number of a cluster file; the largest error of the others is %.1f %% by "
            "the formulas\nof NCCL's algorithms. Of %d that say something about the exchanges of `simulate --gpus` it "
            "is %.1f %% by those.\nInside a node that is their bus bandwidth. Between nodes it is the rate of the "
            "network: halving uses the levels one\nafter the other, a ring at once\n",
            given, n, worst, ours, our_worst);
    mba_table_destroy(t);
    return st;
}
