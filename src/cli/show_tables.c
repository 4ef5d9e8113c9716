// SPDX-License-Identifier: Apache-2.0
/* show_tables.c -- see show_tables.h: tables about the whole run; show_kernels.c has those with a row per kernel. */
#include "cli/show_tables.h"

#include <stdlib.h>
#include <string.h>

#include "scope/blocks.h"
#include "scope/doubts.h"
#include "scope/energy.h"
#include "study/verdict_matrix.h"

enum { ROWS_OF_TEXT = 24 };
static const double H100_BYTES = 3350e9;

static void words(mba_table *t, const char *text) { mba_table_text(t, "%s", text ? text : "-"); }

static void cut(mba_table *t, const char *text, size_t most, bool full)
{
    mba_table_cut(t, text ? text : "-", full ? SIZE_MAX : most);
}

/* ---- what ran on what ---- */

static const mba_column environment_columns[] = { { "key", "key", NULL },          { "text", "value", NULL },
                                                  { "number", "number", "%.12g" }, { "unit", "unit", NULL },
                                                  { "how", "how", NULL },          { 0 } };

static mba_status environment(mba_table *t, const mba_analysis *a, bool full)
{
    for (int64_t i = 0; i < a->nsheet; i++) {
        words(t, a->sheet_row[i].key);
        cut(t, a->sheet_row[i].text, 60, full);
        mba_table_number(t, a->sheet_row[i].number);
        words(t, a->sheet_row[i].unit);
        words(t, a->sheet_row[i].how);
    }
    return MBA_OK;
}

static const mba_column parameter_columns[] = {
    { "name", "parameter", NULL }, { "value", "value", NULL }, { "meaning", "meaning", NULL }, { 0 }
};

static mba_status parameters(mba_table *t, const mba_analysis *a, bool full)
{
    mba_row_parameter *r;
    int64_t            n;
    MBA_TRY(mba_load_parameter(a->store, &r, &n));
    for (int64_t i = 0; i < n; i++) {
        words(t, r[i].name);
        words(t, r[i].value);
        cut(t, r[i].meaning, 60, full);
    }
    return MBA_OK;
}

static const mba_column ceiling_columns[] = { { "name", "ceiling", NULL }, { "rate", "rate", "%.4g" },
                                              { "unit", "unit", NULL },    { "how", "how", NULL },
                                              { "note", "of what", NULL }, { 0 } };

static mba_status ceilings(mba_table *t, const mba_analysis *a, bool full)
{
    mba_row_ceiling *r;
    int64_t          n;
    (void)full;
    MBA_TRY(mba_load_ceiling(a->store, &r, &n));
    for (int64_t i = 0; i < n; i++) {
        words(t, r[i].name);
        mba_table_number(t, r[i].rate);
        words(t, r[i].unit);
        words(t, r[i].how);
        words(t, r[i].note);
    }
    return MBA_OK;
}

/* ---- steps ---- */

static const mba_column step_columns[] = {
    { "what", "a step", NULL }, { "value", "value", "%.6g" }, { "unit", "unit", NULL }, { 0 }
};

static void fact(mba_table *t, const char *what, double value, const char *unit)
{
    if (isnan(value)) return;
    words(t, what);
    mba_table_number(t, value);
    words(t, unit);
}

static mba_status energy_facts(mba_table *t, const mba_analysis *a)
{
    mba_energy e;
    char       why[200];
    MBA_TRY(mba_energy_of(&e, a));
    if (!e.mode) return MBA_OK;
    if (isnan(e.step_j)) {
        snprintf(why, sizeof why, "energy: %s; window", e.why);
        fact(t, why, e.window_s, "s");
        return MBA_OK;
    }
    fact(t, "energy per step", e.step_j, "J");
    fact(t, "energy per unit", 1e3 * e.unit_j, "mJ");
    fact(t, "mean power", e.watts, "W");
    fact(t, "work per energy", e.units_per_j, "units/J");
    return MBA_OK;
}

/* Kernel-traced steps run back to back. Their overhead is relative to steps without profiler that run back to back, if
 * the store has them. */
static void kernel_traced(mba_table *t, const mba_analysis *a)
{
    const double base_s = isnan(a->queued_s) ? a->plain_s : a->queued_s, less_s = a->records * a->record_cost_s;
    fact(t, "without profiler, back to back", 1e3 * a->queued_s, "ms");
    fact(t, "kernel-traced step", 1e3 * a->timeline_s, "ms");
    fact(t, "overhead of kernel tracing", 100 * (a->timeline_s / base_s - 1), "%");
    fact(t, "cost of one record", 1e6 * a->record_cost_s, "us");
    fact(t, "kernel-traced step, corrected for records", 1e3 * (a->timeline_s - less_s), "ms");
    fact(t, "overhead after the correction", 100 * ((a->timeline_s - less_s) / base_s - 1), "%");
}

static mba_status steps(mba_table *t, const mba_analysis *a, bool full)
{
    const mba_bounds b = mba_bounds_of(a, MBA_ALL_KERNELS);
    char             rate[64];
    (void)full;
    snprintf(rate, sizeof rate, "%.60s/s", *a->unit ? a->unit : "units");
    fact(t, "step time, without profiler", 1e3 * a->plain_s, "ms");
    fact(t, "spread (quartiles)", 1e3 * a->plain_spread_s, "ms");
    fact(t, "with our library attached, nothing recorded", 1e3 * a->attached_s, "ms");
    fact(t, "graph-traced step", 1e3 * a->whole_s, "ms");
    fact(t, "overhead of graph tracing", 100 * (a->whole_s / a->plain_s - 1), "%");
    fact(t, "graph-traced step, on the GPU", 1e3 * a->record_s, "ms");
    kernel_traced(t, a);
    if (a->steps) fact(t, "kernels and copies", 1e3 * a->busy_s, "ms");
    if (a->steps) fact(t, "gaps between kernels", 1e3 * a->idle_s, "ms");
    if (a->steps && a->idle_seen_s > a->idle_s) fact(t, "gaps, with the cost of records", 1e3 * a->idle_seen_s, "ms");
    fact(t, b.executed ? "floor of executed work / time of all kernels" : "floor / time of all kernels",
         b.percent_of_floor, "%");
    fact(t, *a->unit ? a->unit : "units", a->units, "per step");
    fact(t, "rate", a->units / a->plain_s, rate);
    return energy_facts(t, a);
}

/* ---- energy ---- */

static const mba_column energy_columns[] = { { "what", "of a step", NULL },
                                             { "ms", "ms", "%.3f" },
                                             { "joules", "J", "%.4g" },
                                             { "percent", "%", "%.1f" },
                                             { "mj_unit", "mJ/unit", "%.4g" },
                                             { "watts", "W", "%.0f" },
                                             { "units_per_j", "units/J", "%.4g" },
                                             { 0 } };

static void energy_row(mba_table *t, const mba_analysis *a, const mba_energy *e, const char *what, double s,
                       double joules, double watts)
{
    words(t, what);
    mba_table_number(t, 1e3 * s);
    mba_table_number(t, joules);
    mba_table_number(t, 100 * joules / e->step_j);
    mba_table_number(t, 1e3 * joules / a->units);
    mba_table_number(t, watts);
    mba_table_number(t, watts > 0 ? e->units_per_j : NAN);
}

/* The step as the meter saw it, then its classes and gaps by their time. */
static mba_status energy(mba_table *t, const mba_analysis *a, bool full)
{
    mba_energy e;
    (void)full;
    MBA_TRY(mba_energy_of(&e, a));
    if (isnan(e.step_j)) return MBA_OK;
    energy_row(t, a, &e, "step, by the meter", e.step_j / e.watts, e.step_j, e.watts);
    for (int k = 0; k < MBA_BREAKDOWN_KINDS; k++)
        if (mba_kind_s(a, k) > 0)
            energy_row(t, a, &e, mba_breakdown_kind_name(k), mba_kind_s(a, k), mba_energy_kind_j(&e, a, k), NAN);
    if (mba_energy_gaps_j(&e, a) > 0)
        energy_row(t, a, &e, "gaps between kernels", a->idle_s, mba_energy_gaps_j(&e, a), NAN);
    return MBA_OK;
}

static const mba_column collection_columns[] = { { "mode", "mode", NULL },
                                                 { "set", "counter set", NULL },
                                                 { "passes", "passes", "%.0f" },
                                                 { "seconds", "s", "%.2f" },
                                                 { "kernels", "kernels", "%.0f" },
                                                 { "dropped", "dropped", "%.0f" },
                                                 { 0 } };

static double whole(int64_t v) { return v == MBA_ABSENT ? NAN : (double)v; }

static mba_status collections(mba_table *t, const mba_analysis *a, bool full)
{
    mba_row_collection *r;
    int64_t             n;
    MBA_TRY(mba_load_collection(a->store, &r, &n));
    for (int64_t i = 0; i < n; i++) {
        words(t, full ? r[i].mode : mba_mode_words(r[i].mode));
        words(t, r[i].metric_set);
        mba_table_number(t, whole(r[i].passes));
        mba_table_number(t, r[i].seconds);
        mba_table_number(t, whole(r[i].kernels));
        mba_table_number(t, whole(r[i].dropped));
    }
    return MBA_OK;
}

/* ---- where the time goes ---- */

static const mba_column breakdown_columns[] = { { "class", "class", NULL },
                                                { "phase", "phase", NULL },
                                                { "step_ms", "ms/step", "%.3f" },
                                                { "percent", "%", "%.1f" },
                                                { "launches", "launches", "%.0f" },
                                                { "percent_of_floor", "% of floor", "%.1f" },
                                                { 0 } };

static void breakdown_row(mba_table *t, const mba_analysis *a, int kind, const char *phase, double s, double launches,
                          double floor_s)
{
    words(t, mba_breakdown_kind_name(kind));
    words(t, phase);
    mba_table_number(t, 1e3 * s);
    mba_table_number(t, 100 * s / a->busy_s);
    mba_table_number(t, launches);
    mba_table_number(t, 100 * floor_s / s);
}

static mba_status breakdown(mba_table *t, const mba_analysis *a, bool full)
{
    bool done[MBA_BREAKDOWN_KINDS] = { false };
    (void)full;
    for (int i = 0; i < MBA_BREAKDOWN_KINDS; i++) {
        double s = 0, launches = 0, floor_s = 0, most = 0;
        int    top = -1, phases = 0;
        for (int k = 0; k < MBA_BREAKDOWN_KINDS; k++) {
            double sum = 0;
            for (int p = 0; p < MBA_PHASES; p++) sum += a->time_s[k][p];
            if (!done[k] && sum > most) most = sum, top = k;
        }
        if (top < 0) break;
        done[top] = true;
        for (int p = 0; p < MBA_PHASES; p++) {
            if (!(a->launches[top][p] > 0)) continue;
            s += a->time_s[top][p], launches += a->launches[top][p], floor_s += a->floor_s[top][p];
            phases++;
        }
        breakdown_row(t, a, top, "all", s, launches, floor_s);
        for (int p = 0; p < MBA_PHASES && phases > 0; p++)
            if (a->launches[top][p] > 0)
                breakdown_row(t, a, top, mba_phase_name(p), a->time_s[top][p], a->launches[top][p], a->floor_s[top][p]);
    }
    return MBA_OK;
}

static const mba_column operator_columns[] = { { "operator", "operator", NULL },
                                               { "class", "class", NULL },
                                               { "phase", "phase", NULL },
                                               { "launches", "launches", "%.0f" },
                                               { "step_ms", "ms/step", "%.3f" },
                                               { "spread_ms", "spread, ms", "%.3f" },
                                               { "percent", "%", "%.1f" },
                                               { "percent_of_floor", "% of floor", "%.1f" },
                                               { 0 } };

static mba_status operators(mba_table *t, const mba_analysis *a, bool full)
{
    for (int i = 0; i < a->nops && (full || i < ROWS_OF_TEXT); i++) {
        const mba_operator_view *o = a->op[i];
        cut(t, o->op, 34, full);
        words(t, mba_breakdown_kind_name(o->kind));
        words(t, mba_phase_name(o->phase));
        mba_table_number(t, o->per_step);
        mba_table_number(t, 1e3 * o->median_s);
        mba_table_number(t, 1e3 * o->spread_s);
        mba_table_number(t, 100 * o->median_s / a->busy_s);
        mba_table_number(t, 100 * o->least_s / o->median_s);
    }
    return MBA_OK;
}

/* ---- conventions side by side ---- */

static const mba_column intensity_columns[] = { { "kernels", "kernels", NULL },
                                                { "flops", "FLOPs", NULL },
                                                { "least", "least/least", "%.2f" },
                                                { "dram", "/DRAM", "%.2f" },
                                                { "l2", "/L2", "%.2f" },
                                                { "l1", "/L1", "%.2f" },
                                                { "below", "< 3.5", NULL },
                                                { 0 } };

static mba_status intensity(mba_table *t, const mba_analysis *a, bool full)
{
    static const char *const flops[] = { "tensor", "vector", "both" };
    (void)full;
    for (int g = 0; a->steps && g < MBA_KERNEL_GROUPS; g++) {
        const mba_intensity in = mba_intensity_of(a, (mba_group_of)g);
        if (mba_bounds_of(a, (mba_group_of)g).time_s <= 0) continue;
        for (int f = 0; f < 3; f++) {
            bool below = in.least[f] < 3.5;
            words(t, mba_group_name((mba_group_of)g));
            words(t, flops[f]);
            mba_table_number(t, in.least[f]);
            for (int l = 0; l < 3; l++) {
                mba_table_number(t, in.executed[f][l]);
                below |= in.executed[f][l] < 3.5;
            }
            words(t, below ? "yes" : "no");
        }
    }
    return MBA_OK;
}

static const mba_column bandwidth_columns[] = { { "kernels", "kernels", NULL },
                                                { "mean", "mean", NULL },
                                                { "bytes", "bytes", NULL },
                                                { "gb_s", "GB/s", "%.1f" },
                                                { "percent_measured", "% measured", "%.1f" },
                                                { "percent_sheet", "% data sheet", "%.1f" },
                                                { "percent_h100", "% of 3350", "%.1f" },
                                                { "counted_percent", "counted, % of time", "%.1f" },
                                                { 0 } };

static mba_status bandwidth(mba_table *t, const mba_analysis *a, bool full)
{
    (void)full;
    for (int g = 0; g < MBA_KERNEL_GROUPS; g++) {
        const mba_bandwidth w = mba_bandwidth_of(a, (mba_group_of)g);
        for (int m = 0; m < 2 && !isnan(w.mean); m++) {
            const double rate = m ? w.weighted : w.mean;
            words(t, mba_group_name((mba_group_of)g));
            words(t, m ? "time-weighted" : "over launches");
            words(t, w.least ? "compulsory" : "counted");
            mba_table_number(t, rate / 1e9);
            mba_table_number(t, 100 * rate / a->measured.dram);
            mba_table_number(t, 100 * rate / a->sheet.dram);
            mba_table_number(t, 100 * rate / H100_BYTES);
            mba_table_number(t, 100 * w.of_time);
        }
    }
    return MBA_OK;
}

static const mba_column bound_columns[] = {
    { "kernels", "kernels", NULL }, { "reading", "rule", NULL }, { "percent", "% of their time", "%.1f" }, { 0 }
};

static void bound_row(mba_table *t, const char *group, const char *reading, double share)
{
    if (isnan(share)) return;
    words(t, group);
    words(t, reading);
    mba_table_number(t, 100 * share);
}

static mba_status bounds(mba_table *t, const mba_analysis *a, bool full)
{
    (void)full;
    for (int g = 0; g < MBA_KERNEL_GROUPS; g++) {
        const char            *name = mba_group_name((mba_group_of)g);
        const mba_bounds       b = mba_bounds_of(a, (mba_group_of)g);
        const mba_vector_bound v = mba_vector_bound_of(a, (mba_group_of)g);
        for (int f = 0; f < MBA_FLOORS; f++) {
            char text[48];
            snprintf(text, sizeof text, "floor by %s", mba_floor_name((mba_floor)f));
            bound_row(t, name, text, b.share[f]);
        }
        if (g == MBA_GEMM_KERNELS) continue;
        bound_row(t, name, "mixed: vector floor above tensor floor, rule (a)", v.floor_a);
        bound_row(t, name, "mixed: vector floor above tensor floor, rule (b)", v.floor_b);
        bound_row(t, name, "mixed: FMA pipe busier than tensor pipe", v.pipe_fma);
        bound_row(t, name, "mixed: busiest vector pipe busier than tensor pipe", v.pipe_any);
    }
    return MBA_OK;
}

/* ---- reuse ---- */

static const mba_column reuse_columns[] = { { "from", "last used by", NULL },
                                            { "to", "read by", NULL },
                                            { "reads", "reads", "%.0f" },
                                            { "mb", "MB/step", "%.1f" },
                                            { "reach_percent", "% within reach", "%.1f" },
                                            { 0 } };

static mba_status reuse(mba_table *t, const mba_analysis *a, bool full)
{
    mba_reuse   *r;
    int64_t      n;
    const double cache = isnan(a->l2_bytes) ? mba_env_value(a, "cpu.llc") : a->l2_bytes;
    if (isnan(cache)) return MBA_OK;
    MBA_TRY(mba_reuse_of(a, cache, &r, &n));
    for (int64_t i = 0; i < n && (full || i < 16); i++) {
        words(t, r[i].from);
        words(t, r[i].to);
        mba_table_number(t, (double)r[i].reads);
        mba_table_number(t, r[i].bytes / 1e6);
        mba_table_number(t, 100 * r[i].reach_bytes / r[i].bytes);
    }
    free(r);
    return MBA_OK;
}

/* ---- claims and notes ---- */

static const mba_column claim_columns[] = { { "id", "id", NULL },
                                            { "claim", "claim", NULL },
                                            { "target", "target", NULL },
                                            { "rule", "rule", NULL },
                                            { "refuted_by", "refuted by", NULL },
                                            { "measured", "measured", NULL },
                                            { "verdict", "verdict", NULL },
                                            { "here", "here", NULL },
                                            { "cell", "number", NULL },
                                            { "numbers", "numbers", NULL },
                                            { "sensitivity", "sensitivity", NULL },
                                            { "needs", "needs", NULL },
                                            { 0 } };

/* The numbers that decide, parted by blanks. */
static void numbers(mba_table *t, const mba_claim *c)
{
    char   text[MBA_CLAIM_NUMBERS * 24] = "";
    size_t n = 0;
    for (int i = 0; i < MBA_CLAIM_NUMBERS && n < sizeof text; i++)
        if (!isnan(c->number[i]))
            n += (size_t)snprintf(text + n, sizeof text - n, "%s%.9g", n ? " " : "", c->number[i]);
    words(t, *text ? text : "-");
}

static mba_status claims(mba_table *t, const mba_analysis *a, bool full)
{
    mba_claim c[MBA_CLAIMS];
    (void)full;
    mba_claims_judge(a, c);
    for (int i = 0; i < MBA_CLAIMS; i++) {
        words(t, c[i].id);
        words(t, c[i].claim);
        words(t, c[i].target);
        words(t, c[i].rule);
        words(t, c[i].refuted_by);
        words(t, *c[i].measured ? c[i].measured : "-");
        words(t, mba_verdict_name(c[i].verdict));
        words(t, mba_verdict_name(c[i].here));
        words(t, c[i].cell);
        numbers(t, &c[i]);
        words(t, *c[i].sensitivity ? c[i].sensitivity : "-");
        words(t, *c[i].needs ? c[i].needs : "-");
    }
    return MBA_OK;
}

static const mba_column matrix_columns[] = { { "id", "id", NULL },
                                             { "claim", "claim", NULL },
                                             { "column", "column", NULL },
                                             { "cell", "number", NULL },
                                             { "verdict", "verdict", NULL },
                                             { "unit", "of what", NULL },
                                             { "numbers", "numbers", NULL },
                                             { "measured", "measured", NULL },
                                             { "sensitivity", "sensitivity", NULL },
                                             { "store", "store", NULL },
                                             { 0 } };

static void suite_row(mba_table *t, const mba_matrix *m, int claim, const mba_claim *of)
{
    words(t, of->id);
    words(t, of->claim);
    words(t, "suite");
    words(t, "");
    words(t, mba_verdict_name(m->suite[claim]));
    words(t, of->target);
    words(t, "");
    words(t, m->sentence[claim]);
    words(t, "");
    words(t, "");
}

static void cell_row(mba_table *t, const mba_analysis *a, mba_matrix_column column, const mba_claim *c)
{
    words(t, c->id);
    words(t, c->claim);
    words(t, mba_matrix_column_name(column));
    words(t, c->cell);
    words(t, mba_verdict_name(c->here));
    words(t, c->unit);
    numbers(t, c);
    words(t, *c->measured ? c->measured : "-");
    words(t, *c->sensitivity ? c->sensitivity : "-");
    words(t, mba_store_path(a->store));
}

/* The store and those of --compare. Of each claim: a row per column, then the verdict on the whole set. */
static mba_status matrix(mba_table *t, const mba_analysis *a, bool full)
{
    mba_analysis *store[1 + MBA_BESIDE_MAX] = { (mba_analysis *)a };
    mba_matrix   *m;
    int           n = 1;
    (void)full;
    if (!a->nbeside) return MBA_OK;
    for (int i = 0; i < a->nbeside && n < 1 + MBA_BESIDE_MAX; i++) store[n++] = a->beside[i];
    MBA_TRY(mba_matrix_create(&m, store, n));
    for (int i = 0; i < MBA_CLAIMS; i++) {
        const mba_claim *of = NULL;
        for (int c = 0; c < MBA_COLUMNS; c++) {
            if (!m->store[c]) continue;
            cell_row(t, m->store[c], (mba_matrix_column)c, of = &m->cell[i][c]);
        }
        if (of) suite_row(t, m, i, of);
    }
    mba_matrix_destroy(m);
    return MBA_OK;
}

static const mba_column note_columns[] = { { "topic", "topic", NULL },
                                           { "severity", "", NULL },
                                           { "text", "what", NULL },
                                           { "fix", "how to get it", NULL },
                                           { 0 } };

static mba_status notes(mba_table *t, const mba_analysis *a, bool full)
{
    (void)full;
    for (int64_t i = 0; i < a->nnotes; i++) {
        words(t, a->note[i].topic);
        words(t, a->note[i].severity);
        words(t, a->note[i].text);
        words(t, a->note[i].fix);
    }
    return MBA_OK;
}

/* ---- all of them ---- */

const mba_show_table mba_show_tables[] = {
    { "environment", "Environment", "", environment_columns, environment },
    { "parameters", "Table I: the workload", "", parameter_columns, parameters },
    { "ceilings", "Ceilings", "floors use measured ceilings, else those of the data sheet", ceiling_columns, ceilings },
    { "steps", "Steps", "medians, without warm-up", step_columns, steps },
    { "energy", "Energy",
      "of the step by the driver's meter; of classes by their time: the meter does not separate kernels",
      energy_columns, energy },
    { "collection", "Profiler overhead", "seconds, with set-up", collection_columns, collections },
    { "breakdown", "Fig. 1: where the step goes", "% of the GPU time; floor: least work at the ceilings",
      breakdown_columns, breakdown },
    { "operators", "Operators", "median over the steps profiled; spread: distance between the quartiles",
      operator_columns, operators },
    { "ranks", "Ranks", "wait: for the last; exposed: nothing is computed", mba_rank_columns, mba_fill_ranks },
    { "collectives", "Collectives", "skew: last start less first", mba_collective_columns, mba_fill_collectives },
    { "unmatched", "Kernels that match no rule", "longest time per step first", mba_unmatched_columns,
      mba_fill_unmatched },
    { "kernels", "Kernels",
      "distinct (kernel, shape), longest time per step first; * floor of the executed work, because the least work is "
      "unknown",
      mba_kernel_columns, mba_fill_kernels },
    { "counters", "Counters, one launch each",
      "pipes: % of active cycles; DRAM and L1/shared data path: % of elapsed time", mba_counter_columns,
      mba_fill_counters },
    { "roofline", "Fig. 2: roofline and the four floors",
      "GFLOP/s and FLOP/byte of the least work; * executed, by counters (tensor + vector FLOPs)", mba_roofline_columns,
      mba_fill_roofline },
    { "intensity", "Arithmetic intensity by convention",
      "FLOP/byte, an FMA counts as 2; least/least: least FLOPs over compulsory bytes", intensity_columns, intensity },
    { "classes", "Table II: classes of SSM kernels",
      "mixed: FMA pipe at least half as busy as the tensor pipe (without pipes: 16 x vector FLOPs >= tensor FLOPs / "
      "10)",
      mba_class_columns, mba_fill_classes },
    { "caches", "Figs. 3, 4, 9: caches, DRAM, sectors per request", "one launch", mba_cache_columns, mba_fill_caches },
    { "reuse", "Reuse between operators", "within reach: the bytes touched in between fit in the last-level cache",
      reuse_columns, reuse },
    { "bandwidth", "Fig. 4: DRAM bandwidth, both means",
      "counted: measured bytes over the time of the counter run; compulsory: a lower bound", bandwidth_columns,
      bandwidth },
    { "blocks", "Fig. 5: block lifetimes", "", mba_block_columns, mba_fill_blocks },
    { "ratio", "Fig. 6: tensor : vector : special", "(a) arithmetic FLOPs, (b) issue slots x 2", mba_ratio_columns,
      mba_fill_ratio },
    { "bounds", "Fig. 7: what sets the floors, and vector against tensor work", "", bound_columns, bounds },
    { "occupancy", "Fig. 8: occupancy and stalls", "", mba_occupancy_columns, mba_fill_occupancy },
    { "source", "One kernel, line by line (profile --source)",
      "samples: positions of warps during one launch; warp instructions: counted in another launch", mba_source_columns,
      mba_fill_source },
    { "advice", "What to try, by the counters of each kernel",
      "saved: an upper estimate, % of the time of the kernel and of the step", mba_advice_columns, mba_fill_advice },
    { "claims", "Claims of the study", "", claim_columns, claims },
    { "matrix", "Claims of the study over a set of stores", "", matrix_columns, matrix },
    { "notes", "Missing measurements, and how to get them", "", note_columns, notes },
    { 0 },
};

const mba_show_table *mba_show_table_find(const char *name)
{
    for (const mba_show_table *s = mba_show_tables; s->name; s++)
        if (!strcmp(s->name, name)) return s;
    return NULL;
}
