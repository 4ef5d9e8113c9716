// SPDX-License-Identifier: Apache-2.0
/* emulated_operators.c -- see emulated_operators.h. */
#include "study/emulated_operators.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/lookup.h"
#include "core/print.h"
#include "sim/engine.h"
#include "sim/profiled.h"
#include "sim/serialize.h"
#include "sim/tsv.h"

const mba_emulated_operator mba_emulated_operators[] = {
    { "mamba2-headline --batch 4 --length 4096 --op ssd=chunked,ssd_bwd=chunked",
      "ssd",
      "ssd=chunked,ssd_bwd=chunked",
      "mamba2-headline, 1024 tokens",
      { 4, 4096, 32 } },
    { "mamba-370m --batch 4 --length 4096", "selective_scan", NULL, "4 x 4096, 1536 channels", { 4, 4096, 2048 } },
    { "mamba2-headline --batch 4 --length 4096",
      "ssd",
      "ssd=fused,ssd_bwd=fused",
      "mamba2-headline, 1024 tokens",
      { 4, 4096, 32 } },
    { 0 },
};

const mba_emulated_machine mba_emulated_machines[] = {
    { "SMs, 33 parked", { .kind = MBA_DISTURB_PARK, .sms = 33 } },
    { "SMs, 66 parked", { .kind = MBA_DISTURB_PARK, .sms = 66 } },
    { "registers", { .kind = MBA_DISTURB_SLEEP, .warps = 16 } },
    { "shared memory, size", { .kind = MBA_DISTURB_SLEEP, .warps = 1, .smem_kb = 64 } },
    { "FMA", { .kind = MBA_DISTURB_FMA, .warps = 8 } },
    { "special functions", { .kind = MBA_DISTURB_XU, .warps = 4 } },
    { "tensor", { .kind = MBA_DISTURB_MMA, .warps = 8 } },
    { "shared memory, rate", { .kind = MBA_DISTURB_SMEM, .warps = 4 } },
    { "DRAM", { .kind = MBA_DISTURB_COPY, .warps = 4 } },
    { 0 },
};

mba_disturb_how mba_emulated_base(const mba_emulated_machine *e)
{
    const mba_disturb_kind k = e->how.kind;
    if (k < MBA_DISTURB_SLEEP || e->how.smem_kb) return (mba_disturb_how){ .kind = MBA_DISTURB_NOTHING };
    return (mba_disturb_how){ .kind = MBA_DISTURB_SLEEP, .warps = k == MBA_DISTURB_SLEEP ? 1 : e->how.warps };
}

static const double RESIDENT_KB = 1.5;       // shared memory of a resident block that holds none for its work
enum { FILE_WORDS = 65536, BODY_REGS = 32 }; // registers of an SM; of a thread of a resident block, as allocated

static double registers_of(double threads, double regs) { return 32 * ceil(threads / 32) * 8 * ceil(regs / 8); }

mba_emulated_reason mba_emulated_no_room(const mba_disturb_how *how, const mba_emulated_block *b, const char *kernel,
                                         const mba_gpu *m)
{
    const double        KB = 1024, SYSTEM_KB = 1, threads = 32.0 * how->warps; // SYSTEM_KB: of every block
    mba_emulated_reason r = { "" };
    const char         *what = NULL;
    if (how->kind < MBA_DISTURB_SLEEP) return r;
    if (b->threads + threads > 32 * m->v[MBA_GPU_warps_max]) what = "threads";
    if (b->smem_bytes / KB + SYSTEM_KB + how->smem_kb + RESIDENT_KB > m->v[MBA_GPU_smem_sm]) what = "shared memory";
    if (registers_of(b->threads, b->regs) + registers_of(threads, BODY_REGS) > FILE_WORDS) what = "registers";
    if (what) snprintf(r.text, sizeof r.text, "no room: %s beside %.60s", what, kernel);
    return r;
}

const char *mba_emulated_fault(const mba_disturb_how *how, const mba_disturbed *taken, const mba_disturb_fate *fate,
                               const mba_gpu *m)
{
    if (how->kind == MBA_DISTURB_NOTHING) return NULL;
    if (fate->ended) return "resident blocks ended before the measurement";
    if (fate->sms != fate->blocks) return "resident blocks shared an SM";
    if (how->kind < MBA_DISTURB_SLEEP) return NULL;
    if (fate->sms < m->v[MBA_GPU_sm]) return "SMs without a resident block";
    if (how->kind > MBA_DISTURB_SLEEP && taken->busy < fate->blocks) return "resident blocks made no progress";
    return NULL;
}

mba_disturbed mba_emulated_planned(const mba_disturb_how *how, const mba_gpu *m)
{
    const double *v = m->v, warps = how->warps;
    mba_disturbed t = { .regs = 32 * warps * BODY_REGS };
    const double  latency = how->kind == MBA_DISTURB_FMA   ? v[MBA_GPU_lat_alu]
                            : how->kind == MBA_DISTURB_XU  ? v[MBA_GPU_lat_xu]
                            : how->kind == MBA_DISTURB_MMA ? v[MBA_GPU_lat_mma]
                                                           : v[MBA_GPU_lat_smem],
                 units = how->kind == MBA_DISTURB_MMA    ? 4096
                         : how->kind == MBA_DISTURB_SMEM ? 512
                                                         : 32;
    if (how->kind == MBA_DISTURB_COPY) t.rate = 0.5e9 * v[MBA_GPU_hbm] * v[MBA_GPU_hbm_mix];
    if (how->kind > MBA_DISTURB_COPY) {
        t.rate = warps * units / latency;
        t.issue = warps * 32 / latency;
    }
    return t;
}

/* Appends ",key=xF", where F is what remains if `taken` of `all` is gone. */
static void less_of(mba_emulated_text *t, const char *key, double taken, double all)
{
    const size_t at = strlen(t->text);
    const double left = 1 - taken / all;
    if (!(taken > 0)) return;
    snprintf(t->text + at, sizeof t->text - at, "%s%s=x%.4g", at ? "," : "", key, left > 0.02 ? left : 0.02);
}

mba_emulated_text mba_emulated_changes(const mba_disturb_how *how, const mba_disturbed *taken, const mba_gpu *m)
{
    const double     *v = m->v;
    mba_emulated_text t = { "" };
    if (how->kind == MBA_DISTURB_PARK) less_of(&t, "sm", how->sms, v[MBA_GPU_sm]);
    if (how->kind < MBA_DISTURB_SLEEP) return t;
    less_of(&t, "rf", ceil(taken->regs / (32.0 * how->warps) / 8) * 8 * 32 * how->warps, FILE_WORDS);
    less_of(&t, "warps_max", how->warps, v[MBA_GPU_warps_max]);
    less_of(&t, "smem_sm", how->smem_kb + RESIDENT_KB, v[MBA_GPU_smem_sm]);
    less_of(&t, "issue", taken->issue, v[MBA_GPU_issue]);
    switch (how->kind) {
    case MBA_DISTURB_FMA: less_of(&t, "fma", taken->rate, v[MBA_GPU_fma]); break;
    case MBA_DISTURB_XU: less_of(&t, "xu", taken->rate, v[MBA_GPU_xu]); break;
    case MBA_DISTURB_MMA: less_of(&t, "mma16", taken->rate, v[MBA_GPU_mma16] * v[MBA_GPU_mma_sync]); break;
    case MBA_DISTURB_SMEM: less_of(&t, "smem_bw", taken->rate, v[MBA_GPU_smem_bw]); break;
    case MBA_DISTURB_COPY:
        less_of(&t, "hbm", taken->rate, 1e9 * v[MBA_GPU_hbm] * v[MBA_GPU_hbm_mix]);
        less_of(&t, "l2_rd", taken->rate / 2, 1e9 * v[MBA_GPU_l2_rd]);
        less_of(&t, "l2_wr", taken->rate / 2, 1e9 * v[MBA_GPU_l2_wr]);
        break;
    default: break;
    }
    return t;
}

/* ---- rows ---- */

void mba_emulated_rows_destroy(mba_emulated_rows *d)
{
    if (!d) return;
    free(d->row);
    free(d);
}

static mba_status add_row(mba_emulated_rows *d, const mba_emulated_row *r)
{
    mba_emulated_row *more = mba_grow(d->row, d->n, &d->room, sizeof *more);
    if (!more) return mba_fail(MBA_E_NOMEM, "no memory for emulated machines");
    d->row = more;
    d->row[d->n++] = *r;
    return MBA_OK;
}

static mba_status take_row(mba_emulated_rows *d, const char *where, const mba_tsv_row *t)
{
    const char      *at = t->at;
    mba_emulated_row r = { .predicted = NAN };
    double           place = 0;
    if (!mba_tsv_cell(&at, t->end, r.machine, sizeof r.machine)
        || !mba_tsv_cell(&at, t->end, r.workload, sizeof r.workload) || !mba_tsv_cell(&at, t->end, r.op, sizeof r.op)
        || !mba_tsv_number(&at, t->end, 64, &place) || !mba_tsv_cell(&at, t->end, r.kernel, sizeof r.kernel)
        || !mba_tsv_cell(&at, t->end, r.base, sizeof r.base) || !mba_tsv_cell(&at, t->end, r.changes, sizeof r.changes)
        || !mba_tsv_number(&at, t->end, 1e9, &r.us) || !mba_tsv_number(&at, t->end, 1e9, &r.emulated_us)
        || !mba_tsv_cell(&at, t->end, r.note, sizeof r.note) || !*r.note || at != t->end)
        return mba_fail(MBA_E_FORMAT,
                        "%s, line %d: this is not a row of emulated operators\nwhy: a row has machine, workload, "
                        "operator, place, kernel, changes of the baseline, changes, us, us emulated and a note\nfix: "
                        "make the file with mambascope calibrate --emulate-operators",
                        where, t->line);
    r.place = (int)place;
    if (!strcmp(r.note, "-")) *r.note = 0;
    r.measured = !*r.note && r.us > 0 && r.emulated_us > 0 ? r.emulated_us / r.us : NAN;
    return add_row(d, &r);
}

mba_status mba_emulated_rows_parse(mba_emulated_rows **out, const char *where, const char *text, size_t bytes)
{
    mba_tsv            rows = { text, text + bytes, 0 };
    mba_emulated_rows *d = calloc(1, sizeof *d);
    mba_status         st = d ? MBA_OK : mba_fail(MBA_E_NOMEM, "no memory for emulated machines");
    for (mba_tsv_row r; st == MBA_OK && mba_tsv_next(&rows, &r);) st = take_row(d, where, &r);
    if (st == MBA_OK) *out = d;
    else mba_emulated_rows_destroy(d);
    return st;
}

mba_status mba_emulated_rows_load(mba_emulated_rows **out, const char *path)
{
    enum { FILE_BYTES_MAX = 1 << 20 };
    mba_tsv_text t = { "the built-in emulated operators", mba_emulated_operators_text,
                       strlen(mba_emulated_operators_text), NULL };
    MBA_TRY(mba_tsv_open(&t, path, FILE_BYTES_MAX));
    const mba_status st = mba_emulated_rows_parse(out, t.where, t.text, t.bytes);
    free(t.file);
    return st;
}

static bool is_of(const mba_profiled_kernel *c, const mba_emulated_operator *o, const char *phase)
{
    return !strcmp(c->workload, o->workload) && !strncmp(c->op, o->op, strlen(o->op)) && !strcmp(c->phase, phase);
}

/* Kernels of a few microseconds show the noise of the timer rather than a machine. */
static bool is_long(const mba_profiled_kernel *c)
{
    const double US_MIN = 20;
    return c->us >= US_MIN && c->program;
}

/* A pass is measured as a whole: there must be room for each of its kernels. */
static mba_emulated_reason no_room_in(const mba_profiled_set *k, const mba_emulated_operator *o, const char *phase,
                                      const mba_disturb_how *how, const mba_gpu *m)
{
    mba_emulated_reason none = { "" };
    for (int i = 0; i < k->n && !*none.text; i++) {
        const mba_profiled_kernel *c = &k->one[i];
        const mba_emulated_block   b = { c->block, c->regs, c->smem_bytes };
        if (is_of(c, o, phase)) none = mba_emulated_no_room(how, &b, c->kernel, m);
    }
    return none;
}

static mba_status plan_rows(mba_emulated_rows *d, const mba_profiled_set *k, const mba_gpu *m)
{
    for (const mba_emulated_machine *e = mba_emulated_machines; e->name; e++) {
        const mba_disturb_how base = mba_emulated_base(e);
        const mba_disturbed   now = mba_emulated_planned(&e->how, m), then = mba_emulated_planned(&base, m);
        for (const mba_emulated_operator *o = mba_emulated_operators; o->workload; o++)
            for (int i = 0; i < k->n; i++) {
                const mba_profiled_kernel *c = &k->one[i];
                if (!is_of(c, o, c->phase) || !is_long(c)) continue;
                if (*no_room_in(k, o, c->phase, &e->how, m).text) continue;
                mba_emulated_row r = { .place = c->place, .measured = NAN, .predicted = NAN };
                snprintf(r.machine, sizeof r.machine, "%s", e->name);
                snprintf(r.workload, sizeof r.workload, "%s", c->workload);
                snprintf(r.op, sizeof r.op, "%s", c->op);
                snprintf(r.kernel, sizeof r.kernel, "%.63s", c->kernel);
                snprintf(r.base, sizeof r.base, "%s", mba_emulated_changes(&base, &then, m).text);
                snprintf(r.changes, sizeof r.changes, "%s", mba_emulated_changes(&e->how, &now, m).text);
                MBA_TRY(add_row(d, &r));
            }
    }
    return MBA_OK;
}

mba_status mba_emulated_rows_planned(mba_emulated_rows **out)
{
    mba_profiled_set  *k = NULL;
    mba_gpu            m;
    mba_emulated_rows *d = calloc(1, sizeof *d);
    if (!d) return mba_fail(MBA_E_NOMEM, "no memory for emulated machines");
    mba_status st = mba_gpu_load(&m, "h200");
    if (st == MBA_OK) st = mba_profiled_load(&k, NULL);
    if (st == MBA_OK) st = plan_rows(d, k, &m);
    mba_profiled_destroy(k);
    if (st == MBA_OK) *out = d;
    else mba_emulated_rows_destroy(d);
    return st;
}

/* ---- predictions ---- */

static const mba_profiled_kernel *kernel_of(const mba_profiled_set *k, const mba_emulated_row *r)
{
    for (int i = 0; i < k->n; i++) {
        const mba_profiled_kernel *c = &k->one[i];
        if (c->program && c->place == r->place && !strcmp(c->workload, r->workload) && !strcmp(c->op, r->op)
            && !strncmp(c->kernel, r->kernel, sizeof r->kernel - 1))
            return c;
    }
    return NULL;
}

/* What runs beside the launches of a row: blocks of its machine, or of the baseline of that. */
static mba_disturb_how blocks_beside(const mba_emulated_row *r, bool base)
{
    for (const mba_emulated_machine *e = mba_emulated_machines; e->name; e++)
        if (!strcmp(e->name, r->machine)) return base ? mba_emulated_base(e) : e->how;
    return (mba_disturb_how){ .kind = MBA_DISTURB_NOTHING };
}

/* Sets the clock beside resident blocks. Launches that lie apart leave the GPU its highest clock. Blocks that work keep
 * it as busy as a step does, and tensor work lowers the clock of all kernels. */
static void set_clock(mba_gpu *m, const mba_gpu *whole, mba_disturb_kind kind)
{
    const double SECONDS = 1, *v = whole->v; // blocks work all the time
    const double taken = 1 - m->v[MBA_GPU_mma16] / v[MBA_GPU_mma16];
    const double tensor = mba_sim_clock_of(whole, v[MBA_GPU_mma_sync] * taken, SECONDS, 0);
    m->v[MBA_GPU_clk] = m->v[MBA_GPU_clk_tc] = kind <= MBA_DISTURB_SLEEP ? v[MBA_GPU_clk_boost]
                                               : kind == MBA_DISTURB_MMA ? tensor
                                                                         : v[MBA_GPU_clk];
}

/* The engine runs the copy beside the kernel, so that it takes what DRAM and L2 leave it. What it was measured to take
 * is in the changes of its row and not used here. */
static mba_status copy_beside(mba_sim_kernel *k, const mba_gpu *m, int warps)
{
    mba_sim_result alone;
    MBA_TRY(mba_sim_run(&alone, k, m, MBA_SIM_ONE_SM));
    mba_sim_copy_beside(k, m, warps, MBA_DISTURB_COPIED, alone.seconds);
    return MBA_OK;
}

static void keep_memory(mba_gpu *m, const mba_gpu *whole)
{
    static const mba_gpu_key keys[] = { MBA_GPU_hbm, MBA_GPU_l2_rd, MBA_GPU_l2_wr };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) m->v[keys[i]] = whole->v[keys[i]];
}

/* Of a launch between two events, as it was measured. */
static mba_status seconds_with(double *out, const mba_profiled_kernel *c, const mba_gpu *whole, const char *changes,
                               mba_disturb_how beside)
{
    mba_sim_kernel k;
    mba_sim_result r;
    mba_gpu        m = *whole;
    if (*changes && strcmp(changes, "-")) MBA_TRY(mba_gpu_set(&m, changes));
    set_clock(&m, whole, beside.kind);
    if (beside.kind == MBA_DISTURB_COPY) keep_memory(&m, whole);
    MBA_TRY(mba_sim_kernel_parse(&k, c->program, &m));
    mba_profiled_apply(&k, c, &m);
    if (beside.kind == MBA_DISTURB_COPY) MBA_TRY(copy_beside(&k, &m, beside.warps));
    MBA_TRY(mba_sim_run(&r, &k, &m, MBA_SIM_ONE_SM));
    *out = r.seconds + 1e-6 * m.v[MBA_GPU_event_pair];
    return MBA_OK;
}

mba_status mba_emulated_rows_predict(mba_emulated_rows *d, const char *machine)
{
    mba_profiled_set *k = NULL;
    mba_gpu           m;
    MBA_TRY(mba_gpu_load(&m, machine));
    MBA_TRY(mba_profiled_load(&k, NULL));
    mba_status st = MBA_OK;
    for (int64_t i = 0; i < d->n && st == MBA_OK; i++) {
        mba_emulated_row          *r = &d->row[i];
        const mba_profiled_kernel *c = kernel_of(k, r);
        double                     base = 0, now = 0;
        if (!c) continue; // not counted, or another kernel has taken its place
        st = seconds_with(&base, c, &m, r->base, blocks_beside(r, true));
        if (st == MBA_OK) st = seconds_with(&now, c, &m, r->changes, blocks_beside(r, false));
        if (st == MBA_OK) r->predicted = now / base;
    }
    mba_profiled_destroy(k);
    return st;
}

mba_effects_score mba_emulated_rows_score(const mba_emulated_rows *d, const char *machine)
{
    mba_effects_score s = { 0 };
    double            shares[MBA_EFFECTS_MAX];
    for (int64_t i = 0; i < d->n; i++) {
        const mba_emulated_row *r = &d->row[i];
        if ((machine && strcmp(machine, r->machine)) || isnan(r->measured) || isnan(r->predicted)) continue;
        const double share = mba_effect_share(r->measured, r->predicted);
        mba_assert(s.rows < MBA_EFFECTS_MAX);
        shares[s.rows++] = share;
        s.near += fabs(r->predicted / r->measured - 1) <= 0.1;
        s.null_near += fabs(1 / r->measured - 1) <= 0.1;
        if (isnan(share)) continue;
        s.effects++;
        s.right += (r->measured > 1) == (r->predicted > 1) && r->predicted != 1;
    }
    const mba_effect_sum sum = mba_effect_sum_of(shares, s.rows);
    s.share = sum.mean;
    s.median = sum.median;
    return s;
}
