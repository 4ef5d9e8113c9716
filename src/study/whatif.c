// SPDX-License-Identifier: Apache-2.0
/* whatif.c -- see whatif.h. */
#include "study/whatif.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/print.h"
#include "core/scan.h"
#include "study/emulated_operators.h"
#include "study/prediction_error.h"
#include "study/simulated_step.h"
#include "study/sweep.h"
#include "study/validation.h"
#include "study/whatif_parts.h"

/* ---- axes ---- */

/* An axis multiplies these numbers of the machine by its value. */
typedef struct machine_axis {
    mba_wi_axis axis;
    const char *numbers;
} machine_axis;
#define FACTORS \
    6, { 0.5, 0.75, 1, 1.5, 2, 4 }

static const machine_axis sliders[MBA_WI_SLIDERS] = {
    { { "hbm", "DRAM bandwidth", FACTORS }, "hbm" },
    { { "tensor", "tensor rate", 4, { 0.5, 1, 2, 4 } }, "mma16,mma32" },
    { { "vector", "vector rate, special functions too", 3, { 0.5, 1, 2 } }, "fma,alu,half2,xu,issue" },
};

static const machine_axis curves[] = {
    { { "hbm", "DRAM bandwidth", FACTORS }, "hbm" },
    { { "tensor", "tensor rate", FACTORS }, "mma16,mma32" },
    { { "vector", "vector rate", FACTORS }, "fma,alu,half2,issue" },
    { { "special", "special functions", FACTORS }, "xu" },
    { { "l2", "L2 bandwidth", FACTORS }, "l2_rd,l2_wr,sm_l2_read,sm_l2_write" },
    { { "l2_size", "L2 size", FACTORS }, "l2" },
    { { "smem", "shared-memory bandwidth", FACTORS }, "smem_bw" },
    { { "registers", "registers", 4, { 0.75, 1, 1.5, 2 } }, "rf" },
    { { "launch", "cost of launches and blocks", FACTORS },
      "t_kernel,block_start,block_start_warp,block_exit,gap_graph" },
    { { "clock", "clock", 4, { 0.75, 1, 1.5, 2 } }, "clk,clk_tc,clk_busy,clk_mma" },
};
enum { CURVES = sizeof curves / sizeof *curves };

static const mba_wi_axis sizes[] = {
    { "length", "tokens of a sequence, as many of a step", 6, { 512, 2048, 4096, 8192, 16384, 65536 } },
    { "batch", "sequences of a step", 6, { 1, 2, 4, 8, 16, 32 } },
    { "chunk", "SSD chunk", 4, { 32, 64, 128, 256 } },
    { "state", "state size", 4, { 16, 32, 64, 128 } },
    { "head_dim", "Mamba-2 head width", 3, { 32, 64, 128 } },
};
enum { SIZES = sizeof sizes / sizeof *sizes, SSD_SIZES = 2 }; /* axes from SSD_SIZES on exist for Mamba-2 only */
_Static_assert((int)CURVES <= (int)MBA_WI_CURVES && (int)SIZES <= (int)MBA_WI_SIZES, "room for every axis");

/* Appends "hbm=x2" to the changes in `text`. */
static void multiply(char *text, size_t room, const char *numbers, double factor)
{
    for (const char *at = numbers; *at;) {
        const size_t n = strcspn(at, ","), used = strlen(text);
        snprintf(text + used, room - used, "%s%.*s=x%g", used ? "," : "", (int)n, at, factor);
        at += n + (at[n] == ',');
    }
}

/* ---- one point ---- */

const char *const mba_wi_bounds[MBA_WI_BOUNDS] = { "DRAM",          "L2",    "tensor", "vector", "special functions",
                                                   "shared memory", "launch" };

/* The index in mba_wi_bounds of a limit of the simulator (mba_sim_limits). */
static int bound_of(int limit)
{
    switch (limit) {
    case MBA_LIMIT_HBM: return 0;
    case MBA_LIMIT_RD:
    case MBA_LIMIT_WR:
    case MBA_LIMIT_L2: return 1;
    case MBA_P_MMA: return 2;
    case MBA_P_XU: return 4;
    case MBA_P_SMEM: return 5;
    case MBA_LIMIT_LAUNCH: return 6;
    default: return 3;
    }
}

static void step_of(mba_wi_step *out, const mba_simulated *r)
{
    mba_wi_time *all = &out->of[MBA_WI_STEP], *ssm = &out->of[MBA_WI_SSM];
    *out = (mba_wi_step){ 0 };
    for (int32_t i = 0; i < r->session.graph->nnodes; i++) {
        const double ms = 1e3 * r->step.node[i].seconds;
        const int    bound = bound_of(r->step.node[i].limit);
        all->share[bound] += ms;
        if (r->session.graph->nodes[i]->op->kind == MBA_SSM) ssm->ms += ms, ssm->share[bound] += ms;
    }
    all->ms = 1e3 * r->step.seconds;
    for (int p = 0; p < MBA_WI_PARTS; p++)
        for (int k = 0; k < MBA_WI_BOUNDS && out->of[p].ms > 0; k++) out->of[p].share[k] /= out->of[p].ms;
}

/* A step of the model on the machine with some of its numbers changed. */
enum { CHANGES_ROOM = 512, POINTS_MAX = 160 };
typedef struct point {
    char        changes[CHANGES_ROOM];
    mba_wi_step step;
} point;

/* Keeps the last memory and launch plans: most changes of a machine do not affect them. And the points of a model:
 * sliders and curves share several. */
typedef struct planner {
    mba_sim      *sim;
    mba_simulated last;
    bool          there;
    point        *point; /* POINTS_MAX of them */
    int           points;
} planner;

static bool plans_alike(const mba_machine *a, const mba_machine *b)
{
    return a->cc == b->cc && a->sm == b->sm && a->warp == b->warp && a->regs_sm == b->regs_sm
           && a->threads_sm == b->threads_sm && a->smem_block_bytes == b->smem_block_bytes
           && a->smem_sm_bytes == b->smem_sm_bytes && a->l2_bytes == b->l2_bytes && a->clock_ghz == b->clock_ghz
           && a->dram_gbs == b->dram_gbs && a->memory_bytes == b->memory_bytes;
}

static void forget(planner *p)
{
    if (p->there) mba_simulated_end(&p->last);
    p->there = false;
}

static mba_status run_planned(mba_wi_step *out, planner *p, const mba_workload *w)
{
    mba_gpu gpu;
    MBA_TRY(mba_gpu_load(&gpu, w->machine));
    MBA_TRY(mba_gpu_set(&gpu, w->changes));
    const mba_machine seen = mba_gpu_for_plans(&gpu);
    if (!p->there || !plans_alike(&seen, &p->last.machine)) {
        forget(p);
        p->there = true; // also frees a plan that failed
        MBA_TRY(mba_simulated_plan(&p->last, w));
    }
    MBA_TRY(
        mba_sim_program(&p->last.step, p->sim, p->last.session.program, &gpu, &(mba_sim_how){ .passes = MBA_STEP }));
    step_of(out, &p->last);
    mba_sim_step_free(&p->last.step);
    return MBA_OK;
}

/* A machine that cannot run a kernel gives NaN, not an error. */
static mba_status simulate(mba_wi_step *out, planner *p, const mba_workload *w)
{
    *out = (mba_wi_step){ { { .ms = NAN }, { .ms = NAN } } };
    const mba_status st = run_planned(out, p, w);
    if (st != MBA_OK) forget(p);
    return st == MBA_E_UNSUPPORTED || st == MBA_E_ARG || st == MBA_E_SHAPE ? MBA_OK : st;
}

/* The same for the model itself, each change once. */
static mba_status simulate_once(mba_wi_step *out, planner *p, const mba_workload *w)
{
    const char *changes = w->changes ? w->changes : "";
    for (int i = 0; i < p->points; i++)
        if (!strcmp(p->point[i].changes, changes)) {
            *out = p->point[i].step;
            return MBA_OK;
        }
    MBA_TRY(simulate(out, p, w));
    if (p->points == POINTS_MAX) return MBA_OK;
    mba_assert(strlen(changes) < CHANGES_ROOM);
    snprintf(p->point[p->points].changes, CHANGES_ROOM, "%s", changes);
    p->point[p->points++].step = *out;
    return MBA_OK;
}

/* ---- a model ---- */

static mba_status fill_grid(mba_wi_model *m, const mba_whatif *w, planner *p, const mba_workload *base)
{
    const int n = mba_wi_grid_size(w);
    for (int i = 0; i < n; i++) {
        char         changes[CHANGES_ROOM] = "";
        mba_workload at = *base;
        for (int k = MBA_WI_SLIDERS - 1, rest = i; k >= 0; rest /= w->slider[k].n, k--) {
            const double factor = w->slider[k].value[rest % w->slider[k].n];
            if (factor != 1) multiply(changes, sizeof changes, sliders[k].numbers, factor);
        }
        at.changes = *changes ? changes : NULL;
        MBA_TRY(simulate_once(&m->grid[i], p, &at));
    }
    return MBA_OK;
}

static mba_status fill_curves(mba_wi_model *m, planner *p, const mba_workload *base)
{
    for (int k = 0; k < CURVES; k++)
        for (int i = 0; i < curves[k].axis.n; i++) {
            char         changes[256] = "";
            mba_workload at = *base;
            mba_wi_step  step;
            multiply(changes, sizeof changes, curves[k].numbers, curves[k].axis.value[i]);
            at.changes = curves[k].axis.value[i] == 1 ? NULL : changes;
            MBA_TRY(simulate_once(&step, p, &at));
            for (int part = 0; part < MBA_WI_PARTS; part++) m->curve_ms[part][k][i] = step.of[part].ms;
        }
    return MBA_OK;
}

/* An axis of several numbers changes them together. */
static mba_status fill_elasticities(mba_wi_model *m, planner *p, const mba_workload *base)
{
    for (int k = 0; k < CURVES; k++) {
        double ms[2];
        for (int side = 0; side < 2; side++) {
            char         changes[256] = "";
            mba_workload at = *base;
            mba_wi_step  step;
            multiply(changes, sizeof changes, curves[k].numbers, 1 + (side ? -0.01 : 0.01) * MBA_ELASTICITY_PCT);
            at.changes = changes;
            MBA_TRY(simulate(&step, p, &at));
            ms[side] = step.of[MBA_WI_STEP].ms;
        }
        m->elasticity[k] = mba_elasticity(ms[0], ms[1]);
    }
    return MBA_OK;
}

static bool has_op(const mba_wi_model *m, const char *name)
{
    for (int i = 0; i < m->nops; i++)
        if (!strcmp(m->op[i].name, name)) return true;
    return false;
}

static mba_status fill_sizes(mba_wi_model *m, planner *p, const mba_workload *base)
{
    const int64_t tokens = base->model.shape.batch * base->model.shape.length;
    for (int k = 0; k < SIZES; k++)
        for (int i = 0; i < sizes[k].n; i++) {
            const double v = sizes[k].value[i];
            char         set[64];
            mba_workload at = *base;
            mba_wi_step  step;
            double       units = (double)tokens;
            m->size_us[k][i] = NAN;
            if (k >= SSD_SIZES && !has_op(m, "ssd")) continue;
            if (!strcmp(sizes[k].key, "length")) {
                at.model.shape.length = (int64_t)v;
                at.model.shape.batch = tokens > (int64_t)v ? tokens / (int64_t)v : 1;
                units = (double)(at.model.shape.batch * at.model.shape.length);
            } else if (!strcmp(sizes[k].key, "batch")) {
                at.model.shape.batch = (int64_t)v;
                units = v * (double)at.model.shape.length;
            } else {
                snprintf(set, sizeof set, "%s=%g", sizes[k].key, v);
                at.model.set = set;
            }
            forget(p); // another model
            MBA_TRY(simulate(&step, p, &at));
            m->size_us[k][i] = 1e3 * step.of[MBA_WI_STEP].ms / units;
        }
    return MBA_OK;
}

static mba_status fill_model(mba_wi_model *m, const mba_whatif *w, mba_sim *sim, const mba_workload *base)
{
    mba_simulated r = { 0 };
    mba_status    st = mba_simulated_run(&r, base, sim);
    if (st == MBA_OK) {
        step_of(&m->base, &r);
        m->text = r.session.model.task == MBA_TASK_TEXT;
        m->units = r.units;
        snprintf(m->name, sizeof m->name, "%s", base->model.name);
        snprintf(m->batch, sizeof m->batch, "%s", mba_model_batch_words(&r.session.model).text);
        snprintf(m->unit, sizeof m->unit, "%s", mba_task_unit(r.session.model.task));
    }
    mba_simulated_end(&r);
    planner p = { .sim = sim, .point = calloc(POINTS_MAX, sizeof *p.point) };
    if (st == MBA_OK && !p.point) st = mba_fail(MBA_E_NOMEM, "no memory for %d points of a what-if", POINTS_MAX);
    if (st == MBA_OK) st = fill_grid(m, w, &p, base);
    if (st == MBA_OK) st = fill_curves(m, &p, base);
    if (st == MBA_OK) st = fill_elasticities(m, &p, base);
    if (st == MBA_OK) st = mba__whatif_machines(m, w, sim, base);
    if (st == MBA_OK && m->text) st = fill_sizes(m, &p, base);
    forget(&p);
    free(p.point);
    return st == MBA_OK ? st : mba_where(st, "simulating %s", base->model.name);
}

/* ---- which models, on which machine ---- */

const char *mba_machine_of_run(const mba_analysis *a)
{
    const char *gpu = mba_env_find(a, "gpu.name");
    return gpu && strcmp(a->device, "cpu") ? mba_machine_for_gpu(gpu) : NULL;
}

/* Parses "batch 4 x length 4096", "batch 128 of 224 x 224 pixels" or "at most 128 graphs, .."; false for other
 * texts. */
static bool parse_shape(mba_batch_shape *s, const char *text)
{
    *s = (mba_batch_shape){ 0 };
    if (mba_scan_text(&text, "at most ")) return mba_scan_int(&text, &s->graphs) && mba_scan_text(&text, " graphs");
    if (!mba_scan_text(&text, "batch ") || !mba_scan_int(&text, &s->batch)) return false;
    return mba_scan_text(&text, " x length ") ? mba_scan_int(&text, &s->length) : mba_scan_text(&text, " of ");
}

/* The shape of the batch that a store has as text. *known: the text is a shape. */
static mba_status shape_of(mba_batch_shape *s, bool *known, mba_store *store)
{
    mba_row_parameter *p;
    int64_t            n;
    *known = false;
    MBA_TRY(mba_load_parameter(store, &p, &n));
    for (int64_t i = 0; i < n; i++) {
        if (!p[i].name || !p[i].value || strcmp(p[i].name, "batch")) continue;
        *known = parse_shape(s, p[i].value);
        return MBA_OK;
    }
    return MBA_OK;
}

/* True for unchanged presets only: a store does not say which fields of a model were changed. */
static bool is_preset(const mba_analysis *a)
{
    const char *command = mba_env_find(a, "run.command");
    mba_model   m;
    return *a->workload
           && (!command || (!strstr(command, "--set ") && !strstr(command, "--tiny") && !strstr(command, "--op ")))
           && mba_model_preset(&m, a->workload) == MBA_OK;
}

static bool is_there(const mba_workload *all, int n, const mba_workload *w)
{
    for (int i = 0; i < n; i++)
        if (!strcmp(all[i].model.name, w->model.name)
            && !memcmp(&all[i].model.shape, &w->model.shape, sizeof w->model.shape))
            return true;
    return false;
}

static mba_status workloads_of(mba_workload out[MBA_WI_MODELS], double measured_ms[MBA_WI_MODELS][MBA_WI_PARTS],
                               int *count, const mba_analysis *const *run, int runs)
{
    int n = 0;
    for (int i = 0; i < runs && n < MBA_WI_MODELS; i++) {
        const mba_analysis *a = run[i];
        const char         *machine = mba_machine_of_run(a);
        mba_workload        w = { .machine = machine, .model = { .name = a->workload } };
        bool                known;
        if (!machine || !is_preset(a)) continue;
        MBA_TRY(shape_of(&w.model.shape, &known, a->store));
        if (!known) continue;
        if (n && strcmp(out[0].machine, machine)) continue; // all models of a page are simulated on one machine
        if (is_there(out, n, &w)) continue;
        measured_ms[n][MBA_WI_STEP] = 1e3 * a->plain_s;
        measured_ms[n][MBA_WI_SSM] = 1e3 * mba_kind_s(a, MBA_SSM);
        out[n++] = w;
    }
    const bool none = n == 0;
    for (const mba_model_options *m = mba_full_size; none && m->name && n < MBA_WI_MODELS; m++) {
        measured_ms[n][MBA_WI_STEP] = measured_ms[n][MBA_WI_SSM] = NAN;
        out[n++] = (mba_workload){ .machine = "h200", .model = *m };
    }
    *count = n;
    return MBA_OK;
}

/* ---- validation ---- */

static mba_wi_score score_of(const mba_measured *d, mba_point_set set, const char *name)
{
    const mba_error_stats s = mba_measured_score(d, set);
    return (mba_wi_score){ name, s.points, s.mape, s.p90, s.worst, s.log_correlation, s.roofline_mape };
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The error that holds for what-ifs: slow-downs on machines that were imitated on an H200 (sim/emulate.h). */
static mba_status validate_changes(mba_whatif *w)
{
    mba_emulated_set        *d = calloc(1, sizeof *d);
    mba_emulation_agreement *a = calloc(1, sizeof *a);
    mba_gpu                  h200;
    double                   error[MBA_EMULATED_MAX];
    mba_wi_score             s = { .name = "what-ifs: machines imitated", .correlation = NAN, .roofline = NAN };
    mba_status               st = d && a ? MBA_OK : mba_fail(MBA_E_NOMEM, "no memory for the imitated machines");
    if (st == MBA_OK) st = mba_emulated_load(d, NULL);
    if (st == MBA_OK) st = mba_gpu_load(&h200, "h200");
    if (st == MBA_OK) st = mba_emulation_compare(a, d, &h200);
    for (int i = 0; st == MBA_OK && i < d->n; i++) {
        error[i] = fabs(mba_error_percent(a->predicted[i], d->one[i].slower));
        s.mean += error[i] / d->n;
    }
    if (st == MBA_OK && d->n) {
        qsort(error, (size_t)d->n, sizeof *error, ascending);
        s.points = d->n;
        s.p90 = error[(9 * d->n - 1) / 10];
        s.worst = error[d->n - 1];
        w->score[2] = s;
    }
    free(d);
    free(a);
    return st;
}

/* The same for SSM kernels, beside which resident blocks emulated the machine. */
static mba_status validate_effects(mba_whatif *w)
{
    mba_emulated_rows *d = NULL;
    MBA_TRY(mba_emulated_rows_load(&d, NULL));
    const mba_status st = mba_emulated_rows_predict(d, "h200");
    if (st == MBA_OK) {
        const mba_effects_score s = mba_emulated_rows_score(d, NULL);
        w->effects = s.effects;
        w->effects_right = s.right;
        w->effects_share = s.share;
    }
    mba_emulated_rows_destroy(d);
    return st;
}

static mba_status validate(mba_whatif *w)
{
    mba_measured *d;
    MBA_TRY(mba_validation_points(&d, NULL, "h200", NULL));
    w->score[0] = score_of(d, MBA_POINT_HELD, "held out");
    w->score[1] = score_of(d, MBA_POINT_FITTED, "fitted");
    w->low = w->high = 1; // as mba_validation_bands
    for (int i = 0; i < d->n && w->nsteps < MBA_WI_STEPS; i++) {
        const mba_point *p = &d->point[i];
        if (p->source != MBA_POINT_TOTAL) continue;
        mba_wi_measured *s = &w->step[w->nsteps++];
        snprintf(s->subject, sizeof s->subject, "%s", p->subject);
        s->measured_ms = p->ms;
        s->predicted_ms = p->predicted_ms;
        w->low = fmin(w->low, p->ms / p->predicted_ms);
        w->high = fmax(w->high, p->ms / p->predicted_ms);
    }
    mba_measured_destroy(d);
    MBA_TRY(validate_changes(w));
    return validate_effects(w);
}

static mba_status axes(mba_whatif *w)
{
    for (int k = 0; k < MBA_WI_SLIDERS; k++) w->slider[k] = sliders[k].axis;
    for (int k = 0; k < CURVES; k++) w->curve[k] = curves[k].axis;
    for (int k = 0; k < SIZES; k++) w->size[k] = sizes[k];
    w->ncurves = CURVES;
    w->nsizes = SIZES;
    for (int i = 0; mba_gpu_name(i) && w->nmachines < MBA_WI_MACHINES; i++) {
        mba_gpu m;
        MBA_TRY(mba_gpu_load(&m, mba_gpu_name(i)));
        if (m.card) continue; // the machine whose clocks it takes is in the list
        w->grades[w->nmachines] = mba_simulated_grade(&m);
        snprintf(w->machines[w->nmachines++], sizeof w->machines[0], "%s", mba_gpu_name(i));
    }
    return MBA_OK;
}

mba_status mba_whatif_make(mba_whatif *out, const mba_analysis *const *run, int runs)
{
    mba_workload base[MBA_WI_MODELS];
    double       measured_ms[MBA_WI_MODELS][MBA_WI_PARTS];
    mba_gpu      m;
    mba_sim     *sim = NULL;
    *out = (mba_whatif){ 0 };
    MBA_TRY(workloads_of(base, measured_ms, &out->nmodels, run, runs));
    snprintf(out->machine, sizeof out->machine, "%s", base[0].machine);
    MBA_TRY(mba_gpu_load(&m, out->machine));
    out->grade = mba_simulated_grade(&m);
    MBA_TRY(axes(out));
    MBA_TRY(validate(out));
    MBA_TRY(mba_sim_create(&sim));
    mba_status st = MBA_OK;
    for (int i = 0; i < out->nmodels && st == MBA_OK; i++) {
        st = fill_model(&out->model[i], out, sim, &base[i]);
        memcpy(out->model[i].measured_ms, measured_ms[i], sizeof measured_ms[i]);
    }
    if (st == MBA_OK) st = mba_best_ratio_find(&out->ratio, sim, base, out->nmodels);
    mba_sim_destroy(sim);
    return st;
}

/* ---- answers ---- */

int mba_wi_base(const mba_wi_axis *a)
{
    for (int i = 0; i < a->n; i++)
        if (a->value[i] == 1) return i;
    return -1;
}

int mba_wi_grid_size(const mba_whatif *w)
{
    int n = 1;
    for (int k = 0; k < MBA_WI_SLIDERS; k++) n *= w->slider[k].n;
    return n;
}

double mba_wi_speedup(const mba_whatif *w, int model, mba_wi_of part, int axis, int i)
{
    return w->model[model].base.of[part].ms / w->model[model].curve_ms[part][axis][i];
}

mba_doubled mba_wi_doubled(const mba_whatif *w, int model, mba_wi_of part)
{
    mba_doubled best = { 0, 0, 0 };
    for (int m = model < 0 ? 0 : model; m < (model < 0 ? w->nmodels : model + 1); m++)
        for (int k = 0; k < w->ncurves; k++)
            for (int i = 0; i < w->curve[k].n && strcmp(w->curve[k].key, "clock"); i++)
                if (w->curve[k].value[i] == 2 && mba_wi_speedup(w, m, part, k, i) > best.gain)
                    best = (mba_doubled){ mba_wi_speedup(w, m, part, k, i), k, m };
    return best;
}

double mba_whatif_gain(const mba_whatif *w, const mba_wi_model *m, int *axis)
{
    double best = -INFINITY;
    *axis = 0;
    for (int k = 0; k < w->ncurves; k++) {
        if (!strcmp(w->curve[k].key, "clock") || !(m->elasticity[k] > best)) continue;
        best = m->elasticity[k];
        *axis = k;
    }
    return best;
}
