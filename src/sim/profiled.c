// SPDX-License-Identifier: Apache-2.0
/* profiled.c -- see profiled.h: parses tables of profiled kernels, derives error bands and scores predictions. */
#include "sim/profiled.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/aliases.h"
#include "core/lookup.h"
#include "core/sort.h"
#include "sim/engine.h"
#include "sim/serialize.h"
#include "sim/tsv.h"
#include "sim/counted_built_in.h" /* made by CMake from src/sim/data/kernels */

enum { FILE_BYTES_MAX = 1 << 24, ROWS_MAX = 1 << 14, GEOMETRY = 6 };

static mba_status bad(const char *where, int line, const char *what, const char *why)
{
    return mba_fail(MBA_E_FORMAT, "%s, line %d: %s\nwhy: %s\nfix: make it with tools/kernel_points", where, line, what,
                    why);
}

/* "-" stands for a counter that was not collected: NaN. */
static bool take_number(const char **at, const char *end, double *out)
{
    char cell[40], *stop;
    if (!mba_tsv_cell(at, end, cell, sizeof cell)) return false;
    *out = NAN;
    if (!strcmp(cell, "-")) return true;
    if (!*cell || strspn(cell, "0123456789.eE+-") != strlen(cell)) return false;
    *out = strtod(cell, &stop);
    return !*stop && isfinite(*out) && *out >= 0 && *out <= 1e15;
}

/* Number of counters per row: the last column, `behind`, is optional, and a comment line names it where it exists. */
static int columns_of(const char *text, size_t bytes)
{
    static const char last[] = "\tbehind\t";
    const char       *eol;
    for (; bytes && *text == '#' && (eol = memchr(text, '\n', bytes));
         bytes -= (size_t)(eol + 1 - text), text = eol + 1)
        if (memmem(text, (size_t)(eol - text), last, sizeof last - 1)) return MBA_N_KINDS;
    return MBA_N_BEHIND;
}

/* Tables of earlier releases have earlier names. */
static void rename_cell(char *cell, size_t space, const char *now)
{
    if (now != cell) snprintf(cell, space, "%s", now);
}

static mba_status take_row(mba_profiled_kernel *c, const char *where, int line, const char *at, const char *end,
                           int columns)
{
    double *const geometry[GEOMETRY] = { &c->launches, &c->grid, &c->block, &c->cluster, &c->regs, &c->smem_bytes };
    char          set[16], place[16];
    double        number;
    *c = (mba_profiled_kernel){ 0 };
    if (!mba_tsv_cell(&at, end, set, sizeof set) || !mba_tsv_cell(&at, end, c->workload, sizeof c->workload)
        || !mba_tsv_cell(&at, end, c->op, sizeof c->op) || !mba_tsv_cell(&at, end, c->variant, sizeof c->variant)
        || !mba_tsv_cell(&at, end, c->phase, sizeof c->phase) || !mba_tsv_cell(&at, end, place, sizeof place)
        || !mba_tsv_cell(&at, end, c->kernel, sizeof c->kernel) || !mba_tsv_cell(&at, end, c->shape, sizeof c->shape))
        return bad(where, line, "this is not a row of profiled kernels",
                   "a row begins with eight words, separated by tabs");
    rename_cell(c->variant, sizeof c->variant, mba_alias_variant(c->op, c->variant));
    rename_cell(c->kernel, sizeof c->kernel, mba_alias_kernel(c->kernel));
    for (int i = 0; i < GEOMETRY; i++)
        if (!take_number(&at, end, geometry[i]) || isnan(*geometry[i]))
            return bad(where, line, "there is no launch geometry", "six numbers follow the shape");
    c->n[MBA_N_BEHIND] = NAN;
    for (int i = 0; i < columns; i++)
        if (!take_number(&at, end, &c->n[i]))
            return bad(where, line, "counters are missing",
                       "33 numbers follow the geometry, 34 if the heading has `behind`");
    const char *p = place;
    if (!take_number(&at, end, &c->us) || !(c->us > 0) || end - at >= MBA_SIM_KERNEL_TEXT_BYTES
        || memchr(at, '\t', (size_t)(end - at)))
        return bad(where, line, "there is no time",
                   "the time in us follows the counters; then a serialized plan, or nothing");
    if (!take_number(&p, place + strlen(place), &number) || !(number < 1000) || c->grid < 1 || c->block < 1)
        return bad(where, line, "place, grid or block is missing", "the three are whole numbers");
    if (strcmp(set, "held") && strcmp(set, "fitted") && strcmp(set, "-"))
        return bad(where, line, "unknown set", "sets are held, fitted, or - for kernels that are not compared");
    if (at < end && !(c->program = strndup(at, (size_t)(end - at))))
        return mba_fail(MBA_E_NOMEM, "no memory for a serialized plan");
    c->place = (int)number;
    c->set = !strcmp(set, "held") ? MBA_POINT_HELD : *set == '-' ? MBA_POINT_UNCOUNTED : MBA_POINT_FITTED;
    return MBA_OK;
}

static mba_status add_row(mba_profiled_set *d, int64_t *room, const char *where, const mba_tsv_row *r, int columns)
{
    if (d->n == ROWS_MAX) return bad(where, r->line, "there are too many rows", "a table has at most 16384");
    mba_profiled_kernel *more = mba_grow(d->one, d->n, room, sizeof *more);
    if (!more) return mba_fail(MBA_E_NOMEM, "no memory for %d rows", d->n);
    d->one = more;
    return take_row(&d->one[d->n++], where, r->line, r->at, r->end, columns);
}

static bool same_point(const mba_profiled_kernel *a, const mba_profiled_kernel *b)
{
    return a->place == b->place && a->grid == b->grid && !strcmp(a->kernel, b->kernel) && !strcmp(a->op, b->op)
           && !strcmp(a->shape, b->shape) && !strcmp(a->variant, b->variant) && !strcmp(a->phase, b->phase);
}

static void mark_repeated(mba_profiled_set *d)
{
    for (int i = 0; i < d->n; i++)
        for (int j = 0; j < i && !d->one[i].again; j++) d->one[i].again = same_point(&d->one[i], &d->one[j]);
}

mba_status mba_profiled_parse(mba_profiled_set **out, const char *where, const char *text, size_t bytes)
{
    mba_profiled_set *d = calloc(1, sizeof *d);
    mba_tsv           rows = { text, text + bytes, 0 };
    mba_status        st = MBA_OK;
    int64_t           room = 0;
    if (!d) return mba_fail(MBA_E_NOMEM, "no memory for profiled kernels");
    const int columns = columns_of(text, bytes);
    for (mba_tsv_row r; st == MBA_OK && mba_tsv_next(&rows, &r);) st = add_row(d, &room, where, &r, columns);
    if (st == MBA_OK && !d->n)
        st = mba_fail(MBA_E_FORMAT,
                      "%s has no kernel\nwhy: a prediction cannot be compared with an empty table\n"
                      "fix: make it with tools/kernel_points",
                      where);
    mark_repeated(d);
    if (st == MBA_OK) *out = d;
    else mba_profiled_destroy(d);
    return st;
}

mba_status mba_profiled_load(mba_profiled_set **out, const char *path)
{
    mba_tsv_text t = { "the built-in counted kernels", (const char *)counted_h200, sizeof counted_h200, NULL };
    MBA_TRY(mba_tsv_open(&t, path, FILE_BYTES_MAX));
    const mba_status st = mba_profiled_parse(out, t.where, t.text, t.bytes);
    free(t.file);
    return st;
}

void mba_profiled_destroy(mba_profiled_set *d)
{
    for (int i = 0; d && i < d->n; i++) free(d->one[i].program);
    if (d) free(d->one);
    free(d);
}

/* ---- code of known kernels ---- */

/* How differently two launches of a kernel went through its code: logarithms of instructions per warp and of the shares
 * of their kinds. Infinite where they differ so much that the code must be another one: another mix, or far fewer
 * instructions than a plan can be cut down to. */
static double distance(const mba_profiled_kernel *a, const mba_profiled_kernel *b)
{
    static const double              TRIPS = 4, MIX = 1.5;
    static const mba_profiled_metric kinds[] = { MBA_N_ALU, MBA_N_FMA, MBA_N_XU, MBA_N_LSU, MBA_N_TENSOR };
    const double x = a->n[MBA_N_INST] / a->grid / a->block, y = b->n[MBA_N_INST] / b->grid / b->block;
    const double trips = fabs(log(x / y));
    double       sum = 0;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const double p = a->n[kinds[i]] / a->n[MBA_N_INST], q = b->n[kinds[i]] / b->n[MBA_N_INST];
        if (p > 0 && q > 0) sum += fabs(log(p / q));
        else if (!isnan(p + q) && (p > 0 || q > 0)) sum += 1; // NaN: not counted
    }
    return y <= TRIPS * x && sum <= MIX ? trips + sum : INFINITY;
}

bool mba_profiled_resemble(mba_profiled_kernel *c, const mba_profiled_set *known)
{
    static const double        OTHER = 1; // other registers: another code of the same name
    const mba_profiled_kernel *best = NULL;
    double                     least = INFINITY;
    for (int i = 0; i < known->n; i++) {
        const mba_profiled_kernel *k = &known->one[i];
        if (isnan(k->n[MBA_N_PATH]) || !(k->n[MBA_N_INST] > 0) || !k->program || k->block != c->block) continue;
        const double far = strcmp(k->kernel, c->kernel) ? INFINITY : distance(c, k) + (k->regs == c->regs ? 0 : OTHER);
        if (!(far < least)) continue;
        least = far;
        best = k;
    }
    char *program = best ? strdup(best->program) : NULL;
    if (!program) return false;
    for (int k = MBA_N_CODE; k < MBA_N_KINDS; k++) c->n[k] = best->n[k];
    c->program = program;
    c->like_blocks = c->grid / best->grid;
    c->like_trips = c->n[MBA_N_INST] / best->n[MBA_N_INST] / c->like_blocks;
    mba_assert(c->like_blocks > 0 && c->like_trips > 0);
    return true;
}

/* ---- bands ---- */

const char *const mba_sim_causes[MBA_SIM_LIMITERS] = { "memory", "tensor units", "vector units", "waiting" };

mba_sim_limiter mba_sim_limiter_of(int limit, double floor_us, double us)
{
    mba_assert(limit >= 0 && limit < MBA_LIMITS);
    if (!(floor_us > us / 2) || limit == MBA_LIMIT_LAUNCH) return MBA_SIM_LATENCY;
    return limit == MBA_P_MMA ? MBA_SIM_TENSOR : limit < MBA_PIPES ? MBA_SIM_VECTOR : MBA_SIM_MEMORY;
}

static bool is_of(const mba_profiled_kernel *c, mba_point_set set, int class)
{
    return !c->again && c->bound_us > 0 && c->set == set
           && (int)mba_sim_limiter_of(c->limit, c->floor_us, c->bound_us) == class;
}

/* The band of the held-out kernels of a class, without those of a workload (NULL: all). */
static mba_band band_without(double *off, const mba_profiled_set *d, int class, const char *workload)
{
    int n = 0;
    for (int i = 0; i < d->n; i++) {
        const mba_profiled_kernel *c = &d->one[i];
        if (is_of(c, MBA_POINT_HELD, class) && !(workload && !strcmp(c->workload, workload)))
            off[n++] = c->us / c->bound_us;
    }
    return mba_band_of_residuals(off, n);
}

mba_status mba_profiled_coverage(mba_coverage *out, const mba_profiled_set *d)
{
    double *off = calloc((size_t)d->n + 1, sizeof *off);
    if (!off) return mba_fail(MBA_E_NOMEM, "no memory for %d kernels", d->n);
    *out = (mba_coverage){ 0 };
    for (int class = 0; class < MBA_SIM_LIMITERS; class ++) {
        const char *workload = NULL;
        mba_band    b = { 1, 1 };
        for (int i = 0; i < d->n; i++) {
            const mba_profiled_kernel *c = &d->one[i];
            out->of[class].fitted += is_of(c, MBA_POINT_FITTED, class);
            if (!is_of(c, MBA_POINT_HELD, class)) continue;
            if (!workload || strcmp(workload, c->workload)) b = band_without(off, d, class, c->workload);
            workload = c->workload;
            out->of[class].held++;
            out->of[class].inside += c->us >= b.low * c->bound_us && c->us <= b.high * c->bound_us;
        }
        out->of[class].band = band_without(off, d, class, NULL);
        out->held += out->of[class].held;
        out->inside += out->of[class].inside;
    }
    mba_assert(out->inside <= out->held && out->held <= d->n);
    free(off);
    return MBA_OK;
}

/* ---- scores ---- */

mba_error_stats mba_profiled_score(const mba_profiled_set *d, mba_point_set set, bool planned)
{
    mba_error_stats s = { .mape = NAN, .p90 = NAN, .worst = NAN, .log_correlation = NAN, .roofline_mape = NAN };
    double *off = calloc((size_t)d->n + 1, sizeof *off), sum = 0, roof = 0, x = 0, y = 0, xx = 0, yy = 0, xy = 0;
    if (!off) return s;
    for (int i = 0; i < d->n; i++) {
        const mba_profiled_kernel *c = &d->one[i];
        const double               us = planned ? c->planned_us : c->bound_us;
        if (c->set != set || c->again || !(us > 0)) continue;
        mba_assert(c->us > 0);
        const double a = log(c->us), b = log(us);
        off[s.points] = 100 * fabs(us / c->us - 1);
        sum += off[s.points++];
        roof += 100 * fabs(c->roofline_us / c->us - 1);
        x += a;
        y += b;
        xx += a * a;
        yy += b * b;
        xy += a * b;
    }
    if (s.points) {
        const double v = (xx - x * x / s.points) * (yy - y * y / s.points);
        mba_assert(s.points <= d->n);
        mba_sort(off, s.points);
        s.mape = sum / s.points;
        s.p90 = off[(9 * s.points + 9) / 10 - 1];
        s.worst = off[s.points - 1];
        s.roofline_mape = roof / s.points;
        s.log_correlation = v > 0 ? (xy - x * y / s.points) / sqrt(v) : NAN;
    }
    free(off);
    return s;
}
