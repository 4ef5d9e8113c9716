// SPDX-License-Identifier: Apache-2.0
/* validation_steps.c -- see validation.h: predicts whole steps, their operators and single layers from launch plans, at
 * every size that was measured, and derives the band of steps. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/print.h"
#include "study/known_code.h"
#include "study/validation.h"

mba_status mba_workload_parse(mba_workload *w, char *words)
{
    char *rest = NULL;
    w->model.name = strtok_r(words, " ", &rest);
    for (char *key = strtok_r(NULL, " ", &rest); key; key = strtok_r(NULL, " ", &rest)) {
        char    *value = strtok_r(NULL, " ", &rest);
        int64_t *number = !strcmp(key, "--batch")    ? &w->model.shape.batch
                          : !strcmp(key, "--length") ? &w->model.shape.length
                          : !strcmp(key, "--graphs") ? &w->model.shape.graphs
                          : !strcmp(key, "--image")  ? &w->model.shape.image
                                                     : NULL;
        if (value && number) *number = strtoll(value, NULL, 10);
        else if (value && !strcmp(key, "--set")) w->model.set = value;
        else if (value && !strcmp(key, "--op")) w->model.variants = value;
        else if (value && !strcmp(key, "--precision")) w->model.precision = value;
        else
            return mba_fail(MBA_E_FORMAT,
                            "a measured step has the unknown option '%s'\nfix: use --set, --op, --batch, "
                            "--length, --graphs, --image or --precision",
                            key);
    }
    return w->model.name ? MBA_OK
                         : mba_fail(MBA_E_FORMAT,
                                    "a measured step names no model\nfix: write the file with tools/measured_points");
}

/* ---- predictions ---- */

static bool belongs(const mba_point *p, const mba_node *n)
{
    if (p->source == MBA_POINT_TOTAL) return true;
    if (p->source == MBA_POINT_SSM) return n->op->kind == MBA_SSM;
    return !strcmp(n->op->name, p->operator) && !strcmp(mba_pass_name(n->pass), p->which);
}

/* Sums the nodes of a point. Operators are timed between events (MBA_POINT_STEP); a layer is the mean node. */
static void predict_nodes(mba_point *p, const mba_simulated *r)
{
    double longest = -1, nodes = 0, ms = 0;
    for (int32_t i = 0; i < r->session.graph->nnodes; i++) {
        const mba_node     *n = r->session.graph->nodes[i];
        const mba_sim_node *s = &r->step.node[i];
        if (!belongs(p, n)) continue;
        nodes++;
        ms += 1e3 * s->seconds + (p->source == MBA_POINT_STEP ? 1e-3 * r->gpu.v[MBA_GPU_event_pair] : 0);
        if (p->source == MBA_POINT_STEP || s->launches) p->roofline_ms += 1e3 * mba_sim_roofline(n, &r->gpu);
        p->floor_ms += 1e3 * s->floor_s;
        if (s->seconds > longest) {
            longest = s->seconds;
            p->limit = s->limit;
        }
    }
    const double each = p->source == MBA_POINT_LAYER && nodes > 0 ? 1 / nodes : 1;
    p->predicted_ms = each * ms;
    p->roofline_ms *= each;
    p->floor_ms *= each;
}

static void predict_point(mba_point *p, const mba_simulated *r)
{
    predict_nodes(p, r);
    if (p->source != MBA_POINT_TOTAL) return;
    p->predicted_ms = 1e3 * r->step.seconds;
    p->inputs_ms = 1e3 * r->step.inputs_s;
    p->dram_bytes = r->step.dram_read + r->step.dram_write;
}

static bool seen_before(const mba_measured *d, int i)
{
    for (int j = 0; j < i; j++)
        if (d->point[j].source != MBA_POINT_OP && !strcmp(d->point[j].subject, d->point[i].subject)) return true;
    return false;
}

/* With the code of kernels that were counted in other workloads. */
static void predict_known(mba_point *p, const mba_simulated *r)
{
    mba_point with = *p;
    predict_point(&with, r);
    p->known_ms = with.predicted_ms;
}

static mba_status predict_steps(mba_measured *d, mba_sim *sim, const char *machine, const char *changes,
                                mba_known_code *code)
{
    mba_status st = MBA_OK;
    for (int i = 0; i < d->n && st == MBA_OK; i++) {
        if (d->point[i].source == MBA_POINT_OP || seen_before(d, i)) continue;
        char          words[sizeof d->point->subject];
        mba_workload  w = { .machine = machine, .changes = changes, .code = code };
        mba_simulated r = { 0 };
        memcpy(words, d->point[i].subject, sizeof words);
        if (code) mba_known_code_leave_out(code, d->point[i].subject);
        st = mba_workload_parse(&w, words);
        if (st == MBA_OK) st = mba_simulated_run(&r, &w, sim);
        for (int j = i; j < d->n && st == MBA_OK; j++)
            if (d->point[j].source != MBA_POINT_OP && !strcmp(d->point[j].subject, d->point[i].subject))
                (code ? predict_known : predict_point)(&d->point[j], &r);
        mba_simulated_end(&r);
        if (st != MBA_OK) st = mba_where(st, "%s", d->point[i].subject);
    }
    return st;
}

mba_status mba_validation_steps(mba_measured *d, mba_sim *sim, const char *machine, const char *changes)
{
    return predict_steps(d, sim, machine, changes, NULL);
}

mba_status mba_validation_with_code(mba_measured *d, mba_sim *sim, const char *machine, const char *changes,
                                    mba_known_code *code)
{
    const mba_status st = predict_steps(d, sim, machine, changes, code);
    mba_known_code_leave_out(code, NULL);
    return st;
}

mba_status mba_validation_known_code(mba_measured *d, const char *machine, const char *changes)
{
    mba_known_code *code = NULL;
    mba_sim        *sim = NULL;
    mba_status      st = mba_known_code_load(&code);
    if (st == MBA_OK) st = mba_sim_create(&sim);
    if (st == MBA_OK) st = mba_validation_with_code(d, sim, machine, changes, code);
    mba_sim_destroy(sim);
    mba_known_code_free(code);
    return st;
}

mba_status mba_validation_sizes(mba_measured **out, const char *machine, const char *changes)
{
    mba_measured *d = NULL;
    mba_sim      *sim = NULL;
    MBA_TRY(mba_measured_sizes(&d));
    mba_status st = mba_sim_create(&sim);
    if (st == MBA_OK) st = mba_validation_steps(d, sim, machine, changes);
    mba_sim_destroy(sim);
    if (st == MBA_OK) *out = d;
    else mba_measured_destroy(d);
    return st;
}

/* ---- bands of steps ---- */

void mba_band_take_in(mba_band *b, double times)
{
    if (times < b->low) b->low = times;
    if (times > b->high) b->high = times;
}

mba_status mba_step_band_of(mba_band *out, const mba_measured *d, bool known)
{
    int steps = 0;
    *out = (mba_band){ 1, 1 }; // the band contains the prediction
    for (int i = 0; i < d->n; i++) {
        const mba_point *p = &d->point[i];
        if (p->source != MBA_POINT_TOTAL) continue;
        mba_band_take_in(out, p->ms / (known ? p->known_ms : p->predicted_ms));
        steps++;
    }
    return steps ? MBA_OK
                 : mba_fail(MBA_E_FORMAT, "the measured set has no whole step\nwhy: the band needs at least "
                                          "one\nfix: write the file with tools/measured_points");
}
