// SPDX-License-Identifier: Apache-2.0
/* verdict_matrix.c -- see verdict_matrix.h. */
#include "study/verdict_matrix.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "study/claims_parts.h"

/* ---- columns ---- */

const char *mba_matrix_column_name(mba_matrix_column c)
{
    mba_assert(c < MBA_COLUMNS);
    return (
        const char *const[]){ "mamba_ssm", "baseline", "fused", "Mamba-1", "hybrid", "MambaVision", "GraphMamba" }[c];
}

const char *mba_matrix_column_title(mba_matrix_column c)
{
    mba_assert(c < MBA_COLUMNS);
    return (const char *const[]){
        "Mamba-2 (mamba_ssm)", "Mamba-2 (multi-kernel)", "Mamba-2 (fused)", "Mamba-1", "Hybrid", "MambaVision",
        "GraphMamba"
    }[c];
}

mba_matrix_column mba_matrix_column_of(const mba_analysis *a)
{
    const bool matrices = mba__has_matrices(a), scan = mba__has_scan(a);
    if (!a->nkernels) return MBA_COLUMN_NONE; // step times alone
    if (mba_env_find(a, "run.foreign")) return matrices ? MBA_COLUMN_MAMBA_SSM : MBA_COLUMN_NONE;
    if (!matrices && !scan) return MBA_COLUMN_NONE;
    if (!strcmp(a->unit, "images")) return MBA_COLUMN_VISION;
    if (!strcmp(a->unit, "graphs")) return MBA_COLUMN_GRAPHS;
    if (mba__kind_percent(a, MBA_ATTENTION) > 0) return MBA_COLUMN_HYBRID;
    if (!matrices) return MBA_COLUMN_MAMBA1;
    const mba_kernel_set set = mba__kernel_set_of(a);
    return set == MBA_OTHER_VARIANT ? MBA_COLUMN_NONE : set == MBA_BASELINE ? MBA_COLUMN_BASELINE : MBA_COLUMN_FUSED;
}

/* The power limit that a run was given; without one, more than any. */
static double power_limit(const mba_analysis *a)
{
    const double watts = mba_env_value(a, "run.power_limit");
    return isnan(watts) ? INFINITY : watts;
}

/* Of two stores of a column: the GPU with its own power limit; the larger step; then the workload that more stores of
 * the set have; then more counters; then the shorter step. */
static bool stands_before(const mba_analysis *a, const mba_analysis *b, mba_analysis *const *store, int n)
{
    int          alike = 0;
    const double watts = power_limit(a), other = power_limit(b);
    if (watts > other || watts < other) return watts > other;
    if (a->units != b->units) return a->units > b->units || isnan(b->units);
    for (int i = 0; i < n; i++)
        alike += !strcmp(store[i]->workload, a->workload) - !strcmp(store[i]->workload, b->workload);
    if (alike || a->ncounters != b->ncounters) return alike ? alike > 0 : a->ncounters > b->ncounters;
    return a->busy_s < b->busy_s;
}

/* ---- over the set ---- */

static bool decided(const mba_claim *c)
{
    return c->id && (c->here == MBA_REPRODUCED || c->here == MBA_REFUTED || c->here == MBA_DEPENDS);
}

/* How the decided cells of a claim divide, and the range of one of their numbers. */
typedef struct row_sum {
    int       n, of[MBA_VERDICTS], last; /* last: the last of these columns */
    double    least[MBA_CLAIM_NUMBERS], most[MBA_CLAIM_NUMBERS];
    mba_bound bound[MBA_CLAIM_NUMBERS]; /* what all of them agree on */
} row_sum;

static row_sum sum_row(const mba_matrix *m, int claim)
{
    row_sum s = { .n = 0 };
    for (int k = 0; k < MBA_CLAIM_NUMBERS; k++) s.least[k] = s.most[k] = NAN;
    for (int i = 0; i < MBA_COLUMNS; i++) {
        const mba_claim *c = &m->cell[claim][i];
        if (!decided(c)) continue;
        s.of[c->here]++;
        s.last = i;
        for (int k = 0; k < MBA_CLAIM_NUMBERS; k++) {
            s.least[k] = fmin(s.least[k], c->number[k]), s.most[k] = fmax(s.most[k], c->number[k]);
            s.bound[k] = !s.n || s.bound[k] == c->bound[k] ? c->bound[k] : MBA_BOUND_NONE;
        }
        s.n++;
    }
    return s;
}

/* "Up to" holds if the largest of the set is near the bound. A class is "the largest" in all columns or in some. */
static mba_verdict judge_gemm(const mba_matrix *m, int claim, const row_sum *s)
{
    (void)m, (void)claim;
    const claim_rules *r = &mba__claim_rules;
    if (!s->of[MBA_REPRODUCED]) return s->of[MBA_DEPENDS] == s->n ? MBA_DEPENDS : MBA_REFUTED;
    return s->of[MBA_REPRODUCED] == s->n && fabs(s->most[0] - r->gemm_most) <= r->gemm_off ? MBA_REPRODUCED
                                                                                           : MBA_DEPENDS;
}

static void say_gemm_rule(char *text, size_t room)
{
    mba__say(text, room,
             "reproduced if it holds in every column and the largest share is %.0f +- %.0f %%; refuted if it holds in "
             "none, unless all depend; else it depends",
             mba__claim_rules.gemm_most, mba__claim_rules.gemm_off);
}

static mba_verdict judge_ssm(const mba_matrix *m, int claim, const row_sum *s)
{
    (void)m, (void)claim;
    return fabs(s->most[0] - mba__claim_rules.ssm_most) <= mba__claim_rules.ssm_off ? MBA_REPRODUCED : MBA_REFUTED;
}

static void say_ssm_rule(char *text, size_t room)
{
    mba__say(text, room, "of the columns the largest share decides: reproduced if it is %.0f +- %.0f %%, else refuted",
             mba__claim_rules.ssm_most, mba__claim_rules.ssm_off);
}

/* One model that is not memory-bound by either rule refutes "all workloads". */
static mba_verdict judge_memory(const mba_matrix *m, int claim, const row_sum *s)
{
    (void)m, (void)claim;
    return s->of[MBA_REFUTED] ? MBA_REFUTED : s->of[MBA_REPRODUCED] == s->n ? MBA_REPRODUCED : MBA_DEPENDS;
}

static void say_memory_rule(char *text, size_t room)
{
    mba__say(text, room,
             "refuted by one column in which it does not hold; reproduced if it holds in every column; else "
             "it depends");
}

/* What holds in all columns holds, what holds in some depends on the kernels. Where it holds in none, mamba_ssm's
 * kernels decide, because the study saw those. */
static mba_verdict judge_row(const mba_matrix *m, int claim, const row_sum *s)
{
    const mba_claim *first = &m->cell[claim][MBA_COLUMN_MAMBA_SSM];
    if (s->of[MBA_REPRODUCED]) return s->of[MBA_REPRODUCED] == s->n ? MBA_REPRODUCED : MBA_DEPENDS;
    if (decided(first)) return first->here;
    return s->of[MBA_DEPENDS] ? MBA_DEPENDS : MBA_REFUTED;
}

static void say_row_rule(char *text, size_t room)
{
    mba__say(text, room,
             "reproduced if it holds in every column that decides, depends if in some; if in none, the column of %s "
             "decides; without that it depends if a column does, else it is refuted",
             mba_matrix_column_name(MBA_COLUMN_MAMBA_SSM));
}

typedef mba_verdict judge_fn(const mba_matrix *m, int claim, const row_sum *s);
static const struct {
    judge_fn *judge;
    void (*say)(char *text, size_t room);
} over[] = { { judge_gemm, say_gemm_rule },
             { judge_ssm, say_ssm_rule },
             { judge_memory, say_memory_rule },
             { judge_row, say_row_rule } }; /* all further claims */
enum { OVER = sizeof over / sizeof *over };

/* ---- sentences ---- */

typedef struct range_text {
    char s[48];
} range_text;

static range_text text_of_range(two_digits a, two_digits b)
{
    range_text t;
    if (!strcmp(a.s, b.s)) snprintf(t.s, sizeof t.s, "%s", a.s);
    else snprintf(t.s, sizeof t.s, "%s–%s", a.s, b.s);
    return t;
}

static range_text range_of(const row_sum *s, int number)
{
    return text_of_range(mba__two(s->least[number]), mba__two(s->most[number]));
}

/* "at least 78": of percent, where 0 and 100 need no such word. */
static range_text bound_of(const row_sum *s, int number)
{
    static const char *const words[] = {
        [MBA_BOUND_NONE] = "", [MBA_BOUND_LEAST] = "at least ", [MBA_BOUND_MOST] = "at most "
    };
    const range_text range = range_of(s, number);
    const bool       end = s->most[number] <= 0 || s->least[number] >= 99.5;
    range_text       t;
    snprintf(t.s, sizeof t.s, "%s%.36s", end ? "" : words[s->bound[number]], range.s);
    return t;
}

/* F7: the range of all four rules. */
static range_text range_of_all(const row_sum *s)
{
    row_sum all = *s;
    for (int k = 1; k < MBA_CLAIM_NUMBERS; k++)
        all.least[0] = fmin(all.least[0], s->least[k]), all.most[0] = fmax(all.most[0], s->most[k]);
    return range_of(&all, 0);
}

static void say_shares(char *text, size_t room, int claim, const row_sum *s)
{
    const int holds = s->of[MBA_REPRODUCED], n = s->n;
    switch (claim) {
    case 0: mba__say(text, room, "%s %% of GPU time; the largest class in %d of %d", range_of(s, 0).s, holds, n); break;
    case 1:
        mba__say(text, room, "%s %% of GPU time; above 25 %% in %d of %d", range_of(s, 0).s, s->of[MBA_REFUTED], n);
        break;
    case 2:
        mba__say(text, room, "DRAM is 60 %% busy for %s %% of a step; memory sets the floor for %s %%",
                 range_of(s, 0).s, range_of(s, 1).s);
        break;
    case 3:
        mba__say(text, room, "%s %% of peak by launch, %s %% by time; memory-bound and 33 to 65 %% in %d of %d",
                 range_of(s, 0).s, range_of(s, 1).s, holds, n);
        break;
    case 4:
        mba__say(text, room, "blocks that live %s times as long move %s times the bytes per second", range_of(s, 1).s,
                 text_of_range(mba__three(s->least[0]), mba__three(s->most[0])).s);
        break;
    case 5: mba__say(text, room, "all three classes in %d of %d, one class in %d", holds, n, s->of[MBA_REFUTED]); break;
    default: break;
    }
}

static void say_kernels(char *text, size_t room, int claim, const row_sum *s)
{
    const int holds = s->of[MBA_REPRODUCED], n = s->n;
    switch (claim) {
    case 6:
        mba__say(text, room, "%s %% of mixed kernels' time%s", range_of_all(s).s,
                 holds == n                ? ", by every rule"
                 : s->of[MBA_REFUTED] == n ? ", 85 % by no rule"
                                           : ": the counting rule decides");
        break;
    case 7: mba__say(text, room, "L1 hit rate %s %%; below 5 %% in %d of %d", range_of(s, 0).s, holds, n); break;
    case 8:
        mba__say(text, room, "of C·Bᵀ the scan finds %s %% in L2 at the smallest size, %s %% at the largest",
                 bound_of(s, 0).s, bound_of(s, 1).s);
        break;
    case 9:
        mba__say(text, room, "the scan takes %s times as long as matrices, which execute %s times the FLOPs",
                 range_of(s, 0).s, range_of(s, 1).s);
        break;
    case 10:
        mba__say(text, room, "DRAM limits %s %% of SSM time, latency %s %%; registers alone limit occupancy for %s %%",
                 range_of(s, 0).s, range_of(s, 1).s, range_of(s, 2).s);
        break;
    default: break;
    }
}

static void judge_claim(mba_matrix *m, int claim)
{
    const row_sum s = sum_row(m, claim);
    bool          any = false;
    int           columns = 0;
    for (int i = 0; i < MBA_COLUMNS; i++) {
        any |= m->cell[claim][i].id && m->cell[claim][i].here != MBA_NOT_APPLICABLE;
        columns += m->store[i] != NULL;
    }
    const int how = claim < OVER ? claim : OVER - 1;
    over[how].say(m->rule[claim], sizeof *m->rule);
    m->suite[claim] = s.n ? over[how].judge(m, claim, &s) : any ? MBA_OPEN : MBA_NOT_APPLICABLE;
    if (!s.n) return;
    if (s.n == 1 && columns > 1)
        mba__say(m->sentence[claim], sizeof *m->sentence, "in %s alone, ",
                 mba_matrix_column_title((mba_matrix_column)s.last));
    say_shares(m->sentence[claim], sizeof *m->sentence, claim, &s);
    say_kernels(m->sentence[claim], sizeof *m->sentence, claim, &s);
}

/* ---- all of it ---- */

static void judge_column(mba_matrix *m, int column, mba_analysis *const *store, int n)
{
    mba_analysis *beside[MBA_BESIDE_MAX];
    mba_claim     c[MBA_CLAIMS];
    mba_analysis  a = *m->store[column];
    int           others = 0;
    for (int i = 0; i < n; i++)
        if (store[i] != m->store[column]) beside[others++] = store[i];
    a.beside = beside;
    a.nbeside = others;
    mba_claims_judge_own(&a, c);
    for (int i = 0; i < MBA_CLAIMS; i++) m->cell[i][column] = c[i];
}

void mba_matrix_choose(const mba_analysis *out[MBA_COLUMNS], mba_analysis *const *store, int n)
{
    for (int c = 0; c < MBA_COLUMNS; c++) out[c] = NULL;
    for (int i = 0; i < n; i++) {
        const mba_matrix_column c = mba_matrix_column_of(store[i]);
        if (c == MBA_COLUMN_NONE) continue;
        if (!out[c] || stands_before(store[i], out[c], store, n)) out[c] = store[i];
    }
}

mba_status mba_matrix_create(mba_matrix **out, mba_analysis *const *store, int n)
{
    mba_assert(n > 0 && n <= 1 + MBA_BESIDE_MAX);
    mba_matrix *m = calloc(1, sizeof *m);
    *out = m;
    if (!m) return mba_fail(MBA_E_NOMEM, "no memory for the verdicts of %d stores", n);
    mba_matrix_choose(m->store, store, n);
    for (int c = 0; c < MBA_COLUMNS; c++)
        if (m->store[c]) judge_column(m, c, store, n);
    for (int i = 0; i < MBA_CLAIMS; i++) judge_claim(m, i);
    return MBA_OK;
}

void mba_matrix_destroy(mba_matrix *m) { free(m); }
