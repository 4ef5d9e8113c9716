// SPDX-License-Identifier: Apache-2.0
/* validation.c -- see validation.h. */
#include "study/validation.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/check.h"
#include "core/file.h"
#include "core/print.h"
#include "core/scan.h"
#include "scope/describe.h"
#include "sim/serialize.h"
#include "study/known_code.h"

/* ---- single operators with flushed caches ---- */

static mba_point *find_op(mba_measured *d, const char *operator, const char * note, int ordinal)
{
    for (int i = 0; i < d->n; i++) {
        mba_point  *p = &d->point[i];
        const char *which = p->which;
        int64_t     k;
        if (p->source == MBA_POINT_OP && !strcmp(p->operator, operator) && !strcmp(p->subject, note)
            && mba_scan_int(&which, &k) && k == ordinal)
            return p;
    }
    return NULL;
}

/* Predicts the nodes of the operator and of its backward operator, in the order of `bench op`. */
static mba_status predict_case(mba_measured *d, mba_sim *sim, const mba_gpu *m, const mba_machine *plans,
                               const mba_op *op, const mba_case *size)
{
    mba_case_graph o;
    mba_program   *p = NULL;
    mba_sim_step   r = { 0 };
    MBA_TRY(mba_case_build(&o, op, size, (mba_case_how){ .compute = MBA_BF16 }));
    mba_status st = mba_program_create(&p, o.g, &(mba_program_options){ .cuda = true, .machine = plans });
    if (st == MBA_OK)
        st = mba_sim_program(&r, sim, p, m,
                             &(mba_sim_how){ .passes = MBA_FORWARD | MBA_BACKWARD, .cold = true, .with_elided = true });
    for (int32_t i = 0; st == MBA_OK && i < o.g->nnodes; i++) {
        const mba_node *n = o.g->nodes[i];
        if (n->op != op && !(n->serves_node && n->serves_node->op == op && n->op->kind != MBA_MEMORY)) continue;
        int        ordinal = 0;
        mba_point *point = find_op(d, n->op->name, size->note, 0);
        while (point && point->predicted_ms > 0) point = find_op(d, n->op->name, size->note, ++ordinal);
        if (!point) continue;
        point->predicted_ms = 1e3 * r.node[i].seconds + 1e-3 * m->v[MBA_GPU_event_pair];
        point->roofline_ms = 1e3 * mba_sim_roofline(n, m);
        point->floor_ms = 1e3 * r.node[i].floor_s;
        point->limit = r.node[i].limit;
    }
    mba_sim_step_free(&r);
    mba_program_destroy(p);
    mba_graph_destroy(o.g);
    return st == MBA_OK ? st : mba_where(st, "%s, \"%s\"", op->name, size->note);
}

static bool has_case(const mba_measured *d, const char *note, bool held_alone)
{
    for (int i = 0; i < d->n; i++)
        if (d->point[i].source == MBA_POINT_OP && !strcmp(d->point[i].subject, note)
            && (!held_alone || d->point[i].set == MBA_POINT_HELD))
            return true;
    return false;
}

static mba_status predict_ops(mba_measured *d, mba_sim *sim, const mba_gpu *m, bool held_alone)
{
    const mba_machine plans = mba_gpu_for_plans(m);
    for (int i = 0; mba_ops[i]; i++)
        for (const mba_case *k = mba_ops[i]->sizes; k && k->note; k++)
            if (has_case(d, k->note, held_alone)) MBA_TRY(predict_case(d, sim, m, &plans, mba_ops[i], k));
    return MBA_OK;
}

/* ---- points ---- */

mba_status mba_validation_points(mba_measured **out, const char *path, const char *machine, const char *changes)
{
    mba_measured *d = NULL;
    mba_sim      *sim = NULL;
    mba_gpu       m;
    MBA_TRY(mba_gpu_load(&m, machine));
    MBA_TRY(mba_gpu_set(&m, changes));
    MBA_TRY(mba_measured_load(&d, path));
    mba_status st = mba_sim_create(&sim);
    if (st == MBA_OK) st = predict_ops(d, sim, &m, false);
    if (st == MBA_OK) st = mba_validation_steps(d, sim, machine, changes);
    mba_sim_destroy(sim);
    if (st == MBA_OK) *out = d;
    else mba_measured_destroy(d);
    return st;
}

/* ---- kernels with counters, simulated with the plans of this tree ---- */

typedef struct row_match {
    mba_profiled_set *d;
    const mba_gpu    *m;
    const char       *workload;
    bool              serialize;
} row_match;

/* Launches that differ only in their place in the plan share a row. */
static bool alike(const mba_plan *p, int a, int b)
{
    if (a == b) return true;
    if (a >= p->nlaunches || b >= p->nlaunches) return false;
    const mba_launch *x = &p->launch[a], *y = &p->launch[b];
    double            sum = 0;
    for (int i = 0; i < x->nphases && x->nphases == y->nphases; i++) sum += fabs(x->phase[i].n - y->phase[i].n);
    return !strcmp(x->kernel, y->kernel) && x->grid[0] * x->grid[1] * x->grid[2] == y->grid[0] * y->grid[1] * y->grid[2]
           && x->nphases == y->nphases && sum < 1e-6;
}

static mba_profiled_kernel *find_row(const row_match *b, const mba_program *p, int32_t node, int launch, bool exactly)
{
    const mba_node *n = p->graph->nodes[node];
    const char     *kernel = p->plan[node]->launch[launch].kernel;
    char            shape[sizeof b->d->one->shape];
    *shape = '\0';
    for (int i = 0; i < b->d->n; i++) {
        mba_profiled_kernel *c = &b->d->one[i];
        if (strcmp(c->op, n->op->name) || strcmp(c->workload, b->workload)) continue;
        if (exactly ? c->place != launch : !alike(p->plan[node], c->place, launch)) continue;
        if (strcmp(c->variant, p->plan[node]->variant) || strcmp(c->phase, mba_pass_name(n->pass))) continue;
        const bool ours = strncmp(kernel, "cu", 2) != 0; // library kernels have other names, and their SASS is not read
        if (ours ? strcmp(kernel, c->kernel) != 0 : !isnan(c->n[MBA_N_PATH])) continue;
        if (!*shape) mba_node_shape(shape, sizeof shape, n);
        if (!strcmp(c->shape, shape)) return c;
    }
    return NULL;
}

static mba_profiled_kernel *row_of(const row_match *b, const mba_program *p, int32_t node, int launch)
{
    mba_profiled_kernel *c = find_row(b, p, node, launch, true);
    return c ? c : find_row(b, p, node, launch, false);
}

mba_profiled_kernel *mba_validation_row(mba_profiled_set *d, const char *workload, const mba_program *p, int32_t node,
                                        int launch)
{
    return row_of(&(row_match){ .d = d, .workload = workload }, p, node, launch);
}

/* Serializes the first launch of a row before the counters change it, with what the L2 model found for it; then applies
 * the counters. */
static void apply_counters(void *of, const mba_program *p, int32_t node, int launch, mba_sim_kernel *k)
{
    const row_match     *b = of;
    mba_profiled_kernel *c = row_of(b, p, node, launch);
    char                 text[MBA_SIM_KERNEL_TEXT_BYTES];
    if (!c) return;
    if (b->serialize && !c->program && mba_sim_kernel_write(text, sizeof text, k)) c->program = strdup(text);
    mba_profiled_apply(k, c, b->m);
}

/* The time of the counted work at the rates of the data sheet alone. */
static double roofline_us(const mba_profiled_kernel *c, const mba_gpu *m)
{
    const double *v = m->v, hz = v[MBA_GPU_clk] * 1e9 * v[MBA_GPU_sm], lanes = 32;
    double        most = (c->n[MBA_N_DRAM_RD] + c->n[MBA_N_DRAM_WR]) / (v[MBA_GPU_hbm] * 1e9);
    const double  others[] = { c->n[MBA_N_TENSOR] / (v[MBA_GPU_mma16] * hz),
                               lanes * c->n[MBA_N_FMA] / (v[MBA_GPU_fma] * hz),
                               lanes * c->n[MBA_N_XU] / (v[MBA_GPU_xu] * hz) };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (others[i] > most) most = others[i];
    return 1e6 * most;
}

static void add_predictions(const row_match *b, const mba_program *p, const mba_sim_step *bound,
                            const mba_sim_step *plain)
{
    for (int64_t i = 0; i < plain->launches; i++) {
        const mba_sim_launch *l = &plain->launch[i];
        mba_profiled_kernel  *c = row_of(b, p, l->node, l->place);
        if (!c) continue;
        c->planned_us += 1e6 * l->seconds;
        c->dram_rd += l->dram_read;
        c->dram_wr += l->dram_write;
        c->bound_us += 1e6 * bound->launch[i].seconds;
        c->floor_us += 1e6 * bound->launch[i].floor_s;
        c->limit = bound->launch[i].limit;
        c->met++;
    }
}

static mba_status predict_kernels(mba_profiled_set *d, mba_sim *sim, const char *machine, const char *changes,
                                  const char *workload, bool serialize)
{
    char          words[sizeof d->one->workload];
    mba_workload  w = { .machine = machine, .changes = changes };
    mba_simulated r = { 0 };
    mba_sim_step  bound = { 0 };
    snprintf(words, sizeof words, "%s", workload);
    MBA_TRY(mba_workload_parse(&w, words));
    mba_status st = mba_simulated_run(&r, &w, sim);
    if (st == MBA_OK) {
        row_match b = { d, &r.gpu, workload, serialize };
        st = mba_sim_program(&bound, sim, r.session.program, &r.gpu,
                             &(mba_sim_how){ .passes = MBA_STEP, .before_launch = apply_counters, .of = &b });
        if (st == MBA_OK) add_predictions(&b, r.session.program, &bound, &r.step);
        for (int i = 0; i < d->n && st == MBA_OK; i++)
            if (!strcmp(d->one[i].workload, workload)) d->one[i].step_ms = 1e3 * bound.seconds;
    }
    mba_sim_step_free(&bound);
    mba_simulated_end(&r);
    return st == MBA_OK ? st : mba_where(st, "%s", workload);
}

/* ---- kernels with serialized launch plans ---- */

/* Launches of a library that no plan has are known by their counters alone. */
static mba_status predict_foreign(mba_profiled_kernel *c, const mba_gpu *m, int64_t load)
{
    mba_sim_kernel k;
    mba_sim_result r;
    MBA_TRY(mba_profiled_lower(&k, c, m));
    k.load = load;
    MBA_TRY(mba_sim_run(&r, &k, m, MBA_SIM_ONE_SM));
    c->bound_us = 1e6 * r.seconds;
    c->tensor_us = 1e6 * r.bound[MBA_P_MMA];
    c->floor_us = 1e6 * r.bound[r.limit];
    c->limit = r.limit;
    c->met = 1;
    c->between_us = m->v[MBA_GPU_gap_graph];
    return MBA_OK;
}

static mba_status predict_serialized(mba_profiled_kernel *c, const mba_gpu *m, int64_t load)
{
    mba_sim_kernel k;
    mba_sim_result plain, bound;
    MBA_TRY(mba_sim_kernel_parse(&k, c->program, m));
    k.load = load;
    MBA_TRY(mba_sim_run(&plain, &k, m, MBA_SIM_ONE_SM));
    mba_profiled_apply(&k, c, m);
    MBA_TRY(mba_sim_run(&bound, &k, m, MBA_SIM_ONE_SM));
    c->planned_us = 1e6 * plain.seconds;
    c->bound_us = 1e6 * bound.seconds;
    c->tensor_us = 1e6 * bound.bound[MBA_P_MMA];
    c->floor_us = 1e6 * bound.bound[bound.limit];
    c->dram_rd = plain.dram_read;
    c->dram_wr = plain.dram_write;
    c->limit = bound.limit;
    c->met = 1;
    c->between_us = m->v[MBA_GPU_gap_graph] + (k.resets ? m->v[MBA_GPU_gap_reset] : 0);
    return MBA_OK;
}

static mba_status predict_rows(mba_profiled_set *d, const mba_gpu *m, const char *workload, int64_t load)
{
    for (int i = 0; i < d->n; i++) {
        mba_profiled_kernel *c = &d->one[i];
        if (!strcmp(c->workload, workload) && (!load || c->tensor_us > 0))
            MBA_TRY(c->program ? predict_serialized(c, m, load) : predict_foreign(c, m, load));
    }
    return MBA_OK;
}

/* Utilisation of the tensor units in the step of these rows, in 256ths. */
static int64_t load_of(const mba_profiled_set *d, const char *workload)
{
    double busy = 0, all = 0;
    for (int i = 0; i < d->n; i++) {
        const mba_profiled_kernel *c = &d->one[i];
        if (strcmp(c->workload, workload)) continue;
        busy += c->launches * c->tensor_us;
        all += c->launches * c->bound_us;
    }
    return all > 0 ? (int64_t)(256 * busy / all + 0.5) : 0;
}

/* A step: its kernels, as often as they ran, and the gaps between them, in ms. */
static double step_of(const mba_profiled_set *d, const char *workload)
{
    double us = 0;
    for (int i = 0; i < d->n; i++) {
        const mba_profiled_kernel *c = &d->one[i];
        if (!strcmp(c->workload, workload)) us += c->launches * (c->met ? c->bound_us + c->between_us : c->us);
    }
    return 1e-3 * us;
}

/* Predicts the kernels of a workload from today's plans, with code that is known from other workloads or without.
 * Kernels that the tree no longer launches at that shape, and those whose code is not known, get no prediction. */
static mba_status predict_today(mba_profiled_set *d, mba_sim *sim, const char *machine, const char *changes,
                                const char *workload, mba_known_code *code)
{
    char          words[sizeof d->one->workload];
    mba_workload  w = { .machine = machine, .changes = changes, .code = code };
    mba_simulated r = { 0 };
    double       *us = calloc((size_t)d->n, sizeof *us);
    int          *met = calloc((size_t)d->n, sizeof *met);
    snprintf(words, sizeof words, "%s", workload);
    if (code) mba_known_code_leave_out(code, workload);
    mba_status st = us && met ? mba_workload_parse(&w, words) : mba_fail(MBA_E_NOMEM, "no memory for %d rows", d->n);
    if (st == MBA_OK) st = mba_simulated_run(&r, &w, sim);
    const row_match b = { .d = d, .workload = workload };
    for (int64_t i = 0; st == MBA_OK && i < r.step.launches; i++) {
        const mba_sim_launch      *l = &r.step.launch[i];
        const mba_profiled_kernel *c = row_of(&b, r.session.program, l->node, l->place);
        if (c && (!code || l->counted)) us[c - d->one] += 1e6 * l->seconds, met[c - d->one]++;
    }
    for (int i = 0; st == MBA_OK && i < d->n; i++)
        if (!strcmp(d->one[i].workload, workload))
            *(code ? &d->one[i].known_us : &d->one[i].planned_us) = met[i] ? us[i] / met[i] : 0;
    mba_simulated_end(&r);
    free(us);
    free(met);
    return st == MBA_OK ? st : mba_where(st, "%s", workload);
}

static bool mostly_serialized(const mba_profiled_set *d, const char *workload)
{
    int rows = 0, serialized = 0;
    for (int i = 0; i < d->n; i++)
        if (!strcmp(d->one[i].workload, workload)) rows++, serialized += d->one[i].program != NULL;
    return serialized * 2 > rows; // the rest are launches of libraries that no plan has
}

static mba_status predict_workload(mba_profiled_set *d, mba_sim *sim, const mba_gpu *m, const char *machine,
                                   const char *changes, const char *workload)
{
    if (!mostly_serialized(d, workload)) return predict_kernels(d, sim, machine, changes, workload, false);
    MBA_TRY(predict_rows(d, m, workload, 0));
    MBA_TRY(predict_rows(d, m, workload, load_of(d, workload)));
    const double ms = step_of(d, workload);
    for (int i = 0; i < d->n; i++)
        if (!strcmp(d->one[i].workload, workload)) d->one[i].step_ms = ms;
    return MBA_OK;
}

mba_status mba_validation_kernels(mba_profiled_set **out, const char *path, const char *machine, const char *changes)
{
    mba_profiled_set *d = NULL;
    mba_sim          *sim = NULL;
    mba_known_code   *code = NULL;
    mba_gpu           m;
    MBA_TRY(mba_gpu_load(&m, machine));
    MBA_TRY(mba_gpu_set(&m, changes));
    MBA_TRY(mba_profiled_load(&d, path));
    mba_status st = mba_sim_create(&sim);
    for (int i = 0; i < d->n && st == MBA_OK; i++)
        if (!i || strcmp(d->one[i].workload, d->one[i - 1].workload))
            st = predict_workload(d, sim, &m, machine, changes, d->one[i].workload);
    for (int i = 0; i < d->n && st == MBA_OK; i++) {
        mba_profiled_kernel *c = &d->one[i];
        c->roofline_us = roofline_us(c, &m);
        if (!c->met) continue;
        double *const sums[] = { &c->planned_us, &c->bound_us, &c->floor_us, &c->dram_rd, &c->dram_wr };
        for (size_t k = 0; k < sizeof sums / sizeof *sums; k++) *sums[k] /= c->met;
    }
    if (st == MBA_OK) st = mba_known_code_load(&code);
    for (int i = 0; i < d->n && st == MBA_OK; i++) {
        if (i && !strcmp(d->one[i].workload, d->one[i - 1].workload)) continue;
        st = predict_today(d, sim, machine, changes, d->one[i].workload, NULL);
        if (st == MBA_OK) st = predict_today(d, sim, machine, changes, d->one[i].workload, code);
    }
    mba_known_code_free(code);
    mba_sim_destroy(sim);
    if (st == MBA_OK) *out = d;
    else mba_profiled_destroy(d);
    return st;
}

static mba_status write_serialized(mba_writer *w, const mba_profiled_set *d, const char *text)
{
    int row = 0;
    for (const char *at = text; *at;) {
        const size_t n = strcspn(at, "\n");
        MBA_TRY(mba_writer_put(w, at, n));
        if (*at != '#' && n) {
            const char *program = d->one[row++].program;
            if (program) {
                MBA_TRY(mba_writer_put(w, "\t", 1));
                MBA_TRY(mba_writer_put(w, program, strlen(program)));
            }
        }
        MBA_TRY(mba_writer_put(w, "\n", 1));
        at += n + (at[n] == '\n');
    }
    return MBA_OK;
}

mba_status mba_validation_serialize(const char *out, const char *path, const char *machine)
{
    enum { FILE_BYTES_MAX = 1 << 24 };
    mba_profiled_set *d = NULL;
    mba_sim          *sim = NULL;
    mba_writer       *w = NULL;
    char             *text = NULL;
    size_t            bytes;
    MBA_TRY(mba_file_read(&text, &bytes, path, FILE_BYTES_MAX));
    mba_status st = mba_profiled_load(&d, path);
    for (int i = 0; st == MBA_OK && i < d->n; i++)
        if (d->one[i].program)
            st = mba_fail(MBA_E_ARG, "%s has plans already\nfix: serialize a file of tools/kernel_points", path);
    if (st == MBA_OK) st = mba_sim_create(&sim);
    for (int i = 0; st == MBA_OK && i < d->n; i++)
        if (!i || strcmp(d->one[i].workload, d->one[i - 1].workload))
            st = predict_kernels(d, sim, machine, NULL, d->one[i].workload, true);
    if (st == MBA_OK) st = mba_writer_create(&w, out);
    if (st == MBA_OK) st = write_serialized(w, d, text);
    if (st == MBA_OK) st = mba_writer_commit(w);
    mba_writer_destroy(w);
    mba_sim_destroy(sim);
    mba_profiled_destroy(d);
    free(text);
    return st;
}

/* ---- bands ---- */

/* Bands come from held-out operators. Constants were fitted to the others, so their errors are smaller than those of an
 * operator that is new to the simulator: only 60 % of the held-out operators lie in the bands of the fitted ones. */
mba_status mba_validation_operators(mba_error_bands *out, const mba_measured *d)
{
    mba_prediction_residual *r = calloc((size_t)d->n + 1, sizeof *r);
    int                      n = 0;
    if (!r) return mba_fail(MBA_E_NOMEM, "no memory for %d points", d->n);
    for (int i = 0; i < d->n; i++) {
        const mba_point *p = &d->point[i];
        if (p->set != MBA_POINT_HELD || p->source == MBA_POINT_TOTAL || !(p->predicted_ms > 0)) continue;
        r[n++] = (mba_prediction_residual){ p->operator, mba_sim_limiter_of(p->limit, p->floor_ms, p->predicted_ms),
                                            p->ms / p->predicted_ms };
    }
    const mba_status st = mba_error_bands_of(out, r, n);
    free(r);
    return st;
}

mba_status mba_validation_bands(mba_band *steps, mba_error_bands *operators, mba_sim *sim, mba_known_code *code)
{
    mba_measured *d;
    mba_gpu       m;
    MBA_TRY(mba_gpu_load(&m, "h200"));
    MBA_TRY(mba_measured_load(&d, NULL));
    mba_status st = operators || !code ? mba_validation_steps(d, sim, m.name, NULL) : MBA_OK;
    if (st == MBA_OK && code) st = mba_validation_with_code(d, sim, m.name, NULL, code);
    if (st == MBA_OK) st = mba_step_band_of(steps, d, code != NULL);
    if (st == MBA_OK && operators) st = predict_ops(d, sim, &m, true);
    if (st == MBA_OK && operators) st = mba_validation_operators(operators, d);
    mba_measured_destroy(d);
    return st;
}

static mba_status predict_as_foreign(mba_profiled_set *d, const mba_gpu *m)
{
    for (int i = 0; i < d->n; i++) {
        mba_profiled_drop_sass(&d->one[i]);
        if (mba_profiled_complete(&d->one[i])) MBA_TRY(predict_foreign(&d->one[i], m, 0));
    }
    return MBA_OK;
}

/* Every kernel and shape once, fitted and held out: no constant was fitted to kernels known by their counters alone. */
static mba_status foreign_bands(mba_error_bands *out, const mba_profiled_set *d)
{
    mba_prediction_residual *r = calloc((size_t)d->n + 1, sizeof *r);
    int                      n = 0;
    if (!r) return mba_fail(MBA_E_NOMEM, "no memory for %d kernels", d->n);
    for (int i = 0; i < d->n; i++) {
        const mba_profiled_kernel *c = &d->one[i];
        if (!c->met || c->again || c->set == MBA_POINT_UNCOUNTED) continue;
        r[n++] = (mba_prediction_residual){ c->op, mba_sim_limiter_of(c->limit, c->floor_us, c->bound_us),
                                            c->us / c->bound_us };
    }
    const mba_status st = mba_error_bands_of(out, r, n);
    free(r);
    return st;
}

mba_status mba_validation_foreign(mba_error_bands *kernels, mba_band *steps)
{
    mba_profiled_set *d;
    mba_gpu           m;
    double            took = 0, said = 0;
    MBA_TRY(mba_gpu_load(&m, "h200"));
    MBA_TRY(mba_profiled_load(&d, NULL));
    mba_status st = predict_as_foreign(d, &m);
    if (st == MBA_OK) st = foreign_bands(kernels, d);
    *steps = (mba_band){ 1, 1 };
    for (int i = 0; i < d->n && st == MBA_OK; i++) {
        const mba_profiled_kernel *c = &d->one[i];
        took += c->met ? c->launches * c->us : 0;
        said += c->met ? c->launches * c->bound_us : 0;
        if (i + 1 < d->n && !strcmp(c->workload, c[1].workload)) continue;
        if (said > 0) mba_band_take_in(steps, took / said);
        took = said = 0;
    }
    mba_profiled_destroy(d);
    return st;
}
