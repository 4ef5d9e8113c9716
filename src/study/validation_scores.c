// SPDX-License-Identifier: Apache-2.0
/* validation_scores.c -- see validation_scores.h. */
#include "study/validation_scores.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/tsv.h"

/* ---- kernels ---- */

bool mba_is_ssm_operator(const char *op)
{
    for (int i = 0; mba_ops[i]; i++)
        if (!strcmp(mba_ops[i]->name, op)) return mba_ops[i]->kind == MBA_SSM;
    return false;
}

static bool counts(const mba_profiled_kernel *c, mba_score_of of, mba_score_set set, double us)
{
    if (c->again || c->set == MBA_POINT_UNCOUNTED || !(us > 0)) return false;
    if (set != MBA_SCORE_BOTH && c->set != (set == MBA_SCORE_HELD ? MBA_POINT_HELD : MBA_POINT_FITTED)) return false;
    return of == MBA_SCORE_ALL || mba_is_ssm_operator(c->op);
}

static double predicted_us(const mba_profiled_kernel *c, mba_score_mode mode)
{
    return mode == MBA_FROM_PLANS ? c->planned_us : mode == MBA_FROM_KNOWN_CODE ? c->known_us : c->bound_us;
}

mba_weighted_score mba_score_kernels(const mba_profiled_set *k, mba_score_of of, mba_score_set set, mba_score_mode mode)
{
    mba_weighted_score s = { 0, NAN, NAN, NAN, NAN, NAN, NAN };
    mba_coverage       v;
    double             weight = 0, error = 0, bias = 0, mean = 0, worst = 0, roof = 0;
    int                inside = 0;
    const bool         bands = mode == MBA_FROM_COUNTERS && mba_profiled_coverage(&v, k) == MBA_OK;
    for (int i = 0; i < k->n; i++) {
        const mba_profiled_kernel *c = &k->one[i];
        const double               us = predicted_us(c, mode), w = c->launches * c->us, off = 100 * (us / c->us - 1);
        if (!counts(c, of, set, us)) continue;
        mba_assert(c->us > 0 && w >= 0);
        s.points++;
        weight += w;
        error += w * fabs(off);
        bias += w * off;
        mean += fabs(off);
        worst = fmax(worst, fabs(off));
        roof += w * 100 * fabs(c->roofline_us / c->us - 1);
        if (!bands) continue;
        const mba_band b = v.of[mba_sim_limiter_of(c->limit, c->floor_us, c->bound_us)].band;
        inside += c->us / us >= b.low && c->us / us <= b.high;
    }
    if (!s.points || !(weight > 0)) return s;
    s.error = error / weight;
    s.bias = bias / weight;
    s.mean = mean / s.points;
    s.worst = worst;
    s.roofline = roof / weight;
    s.inside = bands ? 100.0 * inside / s.points : NAN;
    mba_assert(fabs(s.bias) <= s.error * (1 + 1e-9) && s.mean <= s.worst * (1 + 1e-9));
    return s;
}

/* ---- steps at every size ---- */

static bool same_model(const char *a, const char *b)
{
    const size_t n = strcspn(a, " ");
    return n == strcspn(b, " ") && !strncmp(a, b, n);
}

/* Tokens, images or graphs of a step, from the words of its workload; 0: they do not say. */
static double units_of(const char *subject)
{
    char         words[sizeof((mba_point *)0)->subject];
    mba_workload w = { 0 };
    snprintf(words, sizeof words, "%s", subject);
    if (mba_workload_parse(&w, words) != MBA_OK) return 0;
    const mba_batch_shape *s = &w.model.shape;
    if (s->graphs > 0) return (double)s->graphs;
    return (double)s->batch * (s->length > 0 ? (double)s->length : 1);
}

/* The step of the same model and variants in the base set. */
static const mba_point *base_of(const mba_measured *base, const mba_point *p)
{
    const char *variants = strstr(p->subject, " --op");
    for (int i = 0; i < base->n; i++) {
        const mba_point *b = &base->point[i];
        const char      *its = strstr(b->subject, " --op");
        if (b->source != MBA_POINT_TOTAL || !same_model(b->subject, p->subject)) continue;
        if ((!its && !variants) || (its && variants && !strcmp(its, variants))) return b;
    }
    return NULL;
}

static double unchanged_ms(const mba_measured *base, const mba_point *p)
{
    const mba_point *b = p->source == MBA_POINT_TOTAL ? base_of(base, p) : NULL;
    const double     here = units_of(p->subject), there = b ? units_of(b->subject) : 0;
    return b && b != p && here > 0 && there > 0 ? b->ms * here / there : NAN;
}

static int gather(mba_size_score *out, int n, mba_point_source source, const mba_measured *base, const mba_measured *d)
{
    for (int i = 0; i < d->n && n < MBA_SIZES_MAX; i++)
        if (d->point[i].source == source)
            out[n++] = (mba_size_score){ .point = &d->point[i], .unchanged_ms = unchanged_ms(base, &d->point[i]) };
    return n;
}

int mba_score_sizes(mba_size_score out[MBA_SIZES_MAX], mba_point_source source, const mba_measured *base,
                    const mba_measured *sizes)
{
    const int n = gather(out, gather(out, 0, source, base, base), source, base, sizes);
    for (int i = 0; i < n; i++) {
        const mba_point *p = out[i].point;
        double           others[MBA_SIZES_MAX];
        int              k = 0;
        for (int j = 0; j < n; j++)
            if (!same_model(out[j].point->subject, p->subject))
                others[k++] = out[j].point->ms / out[j].point->predicted_ms;
        out[i].band = mba_band_of_residuals(others, k);
        out[i].inside = p->ms / p->predicted_ms >= out[i].band.low && p->ms / p->predicted_ms <= out[i].band.high;
    }
    return n;
}

/* ---- variants ---- */

static mba_variant_score *variant_of(mba_variant_score *out, int *n, const mba_point *p)
{
    const char  *op = strstr(p->subject, " --op ssd=");
    const size_t shape = op ? (size_t)(op - p->subject) : 0;
    if (!op || shape >= sizeof out->shape) return NULL;
    const char *name = op + strlen(" --op ssd=");
    const int   length = (int)strcspn(name, ",");
    for (int i = 0; i < *n; i++)
        if (!strncmp(out[i].shape, p->subject, shape) && !out[i].shape[shape]
            && !strncmp(out[i].variant, name, (size_t)length) && !out[i].variant[length])
            return &out[i];
    if (*n == MBA_VARIANTS_MAX || length >= (int)sizeof out->variant) return NULL;
    mba_variant_score *v = &out[(*n)++];
    *v = (mba_variant_score){ 0 };
    snprintf(v->shape, sizeof v->shape, "%.*s", (int)shape, p->subject);
    snprintf(v->variant, sizeof v->variant, "%.*s", length, name);
    return v;
}

int mba_score_variants(mba_variant_score out[MBA_VARIANTS_MAX], const mba_measured *sizes)
{
    int n = 0;
    for (int i = 0; i < sizes->n; i++) {
        const mba_point   *p = &sizes->point[i];
        mba_variant_score *v = p->source == MBA_POINT_LAYER ? variant_of(out, &n, p) : NULL;
        if (!v) continue;
        v->measured_ms += p->ms;
        v->predicted_ms += p->predicted_ms;
    }
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            if (!strcmp(out[j].variant, "chunked") && !strcmp(out[i].shape, out[j].shape)) {
                out[i].measured = out[i].measured_ms / out[j].measured_ms;
                out[i].predicted = out[i].predicted_ms / out[j].predicted_ms;
            }
    return n;
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double mba_effect_share(double measured, double predicted)
{
    static const double LEAST = 0.03;
    if (!(measured > 0) || !(predicted > 0) || fabs(measured - 1) < LEAST) return NAN;
    return 1 - fabs(log(predicted / measured) / log(measured));
}

mba_effect_sum mba_effect_sum_of(const double *share, int n)
{
    double         sorted[MBA_EFFECTS_MAX];
    mba_effect_sum s = { 0, NAN, NAN };
    mba_assert(n <= MBA_EFFECTS_MAX);
    for (int i = 0; i < n; i++)
        if (!isnan(share[i])) sorted[s.effects++] = 100 * share[i];
    if (!s.effects) return s;
    qsort(sorted, (size_t)s.effects, sizeof *sorted, by_size);
    s.mean = 0;
    for (int i = 0; i < s.effects; i++) s.mean += sorted[i] / s.effects;
    s.median = (sorted[(s.effects - 1) / 2] + sorted[s.effects / 2]) / 2;
    return s;
}

/* ---- sealed sets ---- */

/* A signed number, or "-" for none. */
static bool take_score(const char **at, const char *end, double *out)
{
    char cell[32], *stop;
    if (!mba_tsv_cell(at, end, cell, sizeof cell)) return false;
    *out = NAN;
    if (!strcmp(cell, "-")) return true;
    if (!*cell || strspn(cell, "0123456789.eE+-") != strlen(cell)) return false;
    *out = strtod(cell, &stop);
    return !*stop && isfinite(*out);
}

int mba_sealed_history(mba_sealed_score out[MBA_SEALED_MAX], const char *text)
{
    mba_tsv rows = { text, text + strlen(text), 0 };
    int     n = 0;
    for (mba_tsv_row r; mba_tsv_next(&rows, &r); n++) {
        if (n == MBA_SEALED_MAX) return -1;
        mba_sealed_score *s = &out[n];
        double *const cells[] = { &s->steps, &s->error, &s->bias, &s->worst, &s->inside, &s->ssm_error, &s->ssm_bias };
        if (!mba_tsv_cell(&r.at, r.end, s->set, sizeof s->set)) return -1;
        for (size_t i = 0; i < sizeof cells / sizeof *cells; i++)
            if (!take_score(&r.at, r.end, cells[i])) return -1;
        if (r.at != r.end || !(s->steps > 0)) return -1;
    }
    return n;
}
