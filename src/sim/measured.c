// SPDX-License-Identifier: Apache-2.0
/* measured.c -- see measured.h: parses the table of measured times, and scores predictions against it. */
#include "sim/measured.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/lookup.h"
#include "core/sort.h"
#include "sim/measured_built_in.h" /* made by CMake from src/sim/data/measured.tsv */
#include "sim/tsv.h"

enum { FILE_BYTES_MAX = 1 << 22, POINTS_MAX = 1 << 14, COLUMNS = 7 };

static mba_status bad(const char *where, int line, const char *what, const char *why)
{
    return mba_fail(MBA_E_FORMAT, "%s, line %d: %s\nwhy: %s\nfix: make it with tools/measured_points", where, line,
                    what, why);
}

const char *const mba_point_sources[MBA_POINT_SOURCES] = { "op", "step", "total", "ssm", "layer" };

static int word_of(const char *word, const char *const *words, int n)
{
    for (int i = 0; i < n; i++)
        if (!strcmp(words[i], word)) return i;
    return -1;
}

static bool number_of(const char *word, double *out)
{
    char *end;
    if (!*word || strspn(word, "0123456789.eE+-") != strlen(word)) return false;
    *out = strtod(word, &end);
    return !*end && isfinite(*out) && *out >= 0 && *out <= 1e9;
}

static mba_status take_row(mba_point *p, bool *stale, const char *where, int line, const char *at, const char *end)
{
    static const char *const sets[] = { "fitted", "held", "coarse", "stale", "-" };
    char                     set[16], source[16], nodes[32], ms[32];
    if (!mba_tsv_cell(&at, end, set, sizeof set) || !mba_tsv_cell(&at, end, source, sizeof source)
        || !mba_tsv_cell(&at, end, p->subject, sizeof p->subject)
        || !mba_tsv_cell(&at, end, p->operator, sizeof p->operator)
        || !mba_tsv_cell(&at, end, p->which, sizeof p->which) || !mba_tsv_cell(&at, end, nodes, sizeof nodes)
        || !mba_tsv_cell(&at, end, ms, sizeof ms) || at != end)
        return bad(where, line, "this is not a row of measured times", "a row has seven columns, separated by tabs");
    const int s = word_of(set, sets, 5), c = word_of(source, mba_point_sources, MBA_POINT_SOURCES);
    if (s < 0 || c < 0)
        return bad(where, line, "unknown set or source",
                   "sets are fitted, held, coarse, stale; sources are op, step, total, ssm, layer");
    if (!number_of(nodes, &p->nodes) || !number_of(ms, &p->ms))
        return bad(where, line, "nodes or ms is not a number", "both are numbers that are not negative");
    if (s < 2 && !(p->ms > 0)) return bad(where, line, "the time is 0 ms", "a prediction cannot be compared with it");
    p->set = s < 2 ? (mba_point_set)s : MBA_POINT_UNCOUNTED;
    p->source = (mba_point_source)c;
    *stale = s == 3;
    return MBA_OK;
}

static mba_status add_row(mba_measured *d, int64_t *room, const char *where, const mba_tsv_row *r)
{
    if (d->n == POINTS_MAX) return bad(where, r->line, "there are too many points", "a table has at most 16384");
    mba_point *more = mba_grow(d->point, d->n, room, sizeof *more);
    if (!more) return mba_fail(MBA_E_NOMEM, "no memory for %d points", d->n);
    d->point = more;
    d->point[d->n] = (mba_point){ 0 };
    bool stale = false;
    MBA_TRY(take_row(&d->point[d->n], &stale, where, r->line, r->at, r->end));
    d->n += !stale || d->point[d->n].source <= MBA_POINT_STEP; // a step that this tree's kernels no longer run
    return MBA_OK;
}

mba_status mba_measured_parse(mba_measured **out, const char *where, const char *text, size_t bytes)
{
    mba_measured *d = calloc(1, sizeof *d);
    mba_tsv       rows = { text, text + bytes, 0 };
    mba_status    st = MBA_OK;
    int64_t       room = 0;
    if (!d) return mba_fail(MBA_E_NOMEM, "no memory for a measured set");
    for (mba_tsv_row r; st == MBA_OK && mba_tsv_next(&rows, &r);) st = add_row(d, &room, where, &r);
    if (st == MBA_OK && !d->n)
        st = mba_fail(MBA_E_FORMAT,
                      "%s has no point\nwhy: a prediction cannot be compared with an empty table\nfix: make it with "
                      "tools/measured_points",
                      where);
    if (st == MBA_OK) *out = d;
    else mba_measured_destroy(d);
    return st;
}

mba_status mba_measured_load(mba_measured **out, const char *path)
{
    mba_tsv_text t = { "the built-in measured set", (const char *)measured_h200, sizeof measured_h200, NULL };
    MBA_TRY(mba_tsv_open(&t, path, FILE_BYTES_MAX));
    const mba_status st = mba_measured_parse(out, t.where, t.text, t.bytes);
    free(t.file);
    return st;
}

mba_status mba_measured_sizes(mba_measured **out)
{
    return mba_measured_parse(out, "the built-in measured sizes", (const char *)sizes_h200, sizeof sizes_h200);
}

void mba_measured_destroy(mba_measured *d)
{
    if (d) free(d->point);
    free(d);
}

/* ---- scores ---- */

/* Correlation of log measured and log predicted time over the n predicted points of a set. */
static double correlation(const mba_measured *d, mba_point_set set, int n)
{
    mba_assert(n > 0 && n <= d->n);
    double x = 0, y = 0, xx = 0, yy = 0, xy = 0;
    for (int i = 0; i < d->n; i++) {
        const mba_point *p = &d->point[i];
        if (p->set != set || p->source == MBA_POINT_TOTAL || !(p->predicted_ms > 0)) continue;
        const double a = log(p->ms), b = log(p->predicted_ms);
        x += a;
        y += b;
        xx += a * a;
        yy += b * b;
        xy += a * b;
    }
    const double v = (xx - x * x / n) * (yy - y * y / n);
    return v > 0 ? (xy - x * y / n) / sqrt(v) : NAN;
}

mba_error_stats mba_measured_score(const mba_measured *d, mba_point_set set)
{
    mba_error_stats s = { .mape = NAN, .p90 = NAN, .worst = NAN, .log_correlation = NAN, .roofline_mape = NAN };
    double         *off = calloc((size_t)d->n + 1, sizeof *off), sum = 0, roof = 0;
    if (!off) return s;
    for (int i = 0; i < d->n; i++) {
        const mba_point *p = &d->point[i];
        if (p->set != set || p->source == MBA_POINT_TOTAL || !(p->predicted_ms > 0)) continue;
        mba_assert(p->ms > 0 || set == MBA_POINT_UNCOUNTED);
        const double error = 100 * fabs(p->predicted_ms / p->ms - 1);
        if (!s.points || error > s.worst) {
            s.worst = error;
            s.worst_point = p;
        }
        off[s.points++] = error;
        sum += error;
        roof += 100 * fabs(p->roofline_ms / p->ms - 1);
    }
    if (s.points) {
        mba_sort(off, s.points);
        mba_assert(off[s.points - 1] == s.worst);
        s.mape = sum / s.points;
        s.p90 = off[(9 * s.points + 9) / 10 - 1];
        s.roofline_mape = roof / s.points;
        s.log_correlation = correlation(d, set, s.points);
    }
    free(off);
    return s;
}
