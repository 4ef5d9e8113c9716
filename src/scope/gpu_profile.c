// SPDX-License-Identifier: Apache-2.0
/* gpu_profile.c -- see gpu_profile.h: runs all measurements in order, and has those of plain steps and of energy. */
#include "scope/gpu_profile.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scope/clock.h"
#include "scope/energy.h"
#include "scope/launch_trace.h"
#include "scope/meter.h"
#include "scope/nvml.h"

/* What the measurements below share. */
typedef struct job {
    mba_gpu_profile       *g;
    mba_program           *p;
    mba_step               step;
    const mba_gpu_options *o;
} job;

void mba_gpu_note_add(mba_gpu_profile *g, const char *topic, const char *text, const char *fix)
{
    mba_assert(g->nnotes >= 0 && g->nnotes <= MBA_GPU_NOTES_MAX);
    if (g->nnotes == MBA_GPU_NOTES_MAX || (g->nnotes && !strcmp(g->note[g->nnotes - 1].text, text)))
        return; // full, or the same note again
    mba_gpu_note *n = &g->note[g->nnotes++];
    n->topic = topic;
    snprintf(n->text, sizeof n->text, "%s", text);
    snprintf(n->fix, sizeof n->fix, "%s", fix);
}

/* Turns the last error message into a note: its text, and its `fix:` line. */
void mba_gpu_note_failure(mba_gpu_profile *g, const char *topic)
{
    char        text[512];
    const char *fix = strstr(mba_message(), "\nfix: ");
    snprintf(text, sizeof text, "%.*s", (int)(fix ? fix - mba_message() : 400), mba_message());
    for (char *c = text; *c; c++)
        if (*c == '\n') *c = ' ';
    mba_gpu_note_add(g, topic, text, fix ? fix + 6 : "");
}

/* ---- one step ---- */

mba_status mba_gpu_run_step(mba_program *p, const mba_step *step, double *took_s)
{
    const double began = mba_clock_s();
    MBA_TRY(mba_program_repeat(p, MBA_STEP, step));
    MBA_TRY(p->device->wait());
    if (took_s) *took_s = mba_clock_s() - began;
    return MBA_OK;
}

/* ---- plain ---- */

/* Reads the clocks while a step runs, because an idle GPU has others. */
mba_status mba_gpu_read_clocks(mba_gpu_profile *g, mba_program *p, const mba_step *step, const char *when)
{
    mba_nvml_state n;
    MBA_TRY(mba_program_repeat(p, MBA_STEP, step));
    if (g->nclocks < (int)(sizeof g->clock / sizeof *g->clock) && mba_nvml_read(&n, p->device->bus_id) == MBA_OK)
        g->clock[g->nclocks++] = (mba_gpu_clock){ when, n.sm_mhz, n.power_w, n.throttled };
    return p->device->wait();
}

mba_status mba_gpu_time_unprofiled(mba_gpu_profile *g, mba_program *p, const mba_step *step, int least, double for_s)
{
    const double began = mba_clock_s();
    for (int n = 0; g->nplain < MBA_GPU_STEPS_MAX && (n < least || mba_clock_s() - began < for_s); n++)
        MBA_TRY(mba_gpu_run_step(p, step, &g->plain_s[g->nplain++]));
    mba_assert(g->nplain <= MBA_GPU_STEPS_MAX);
    return MBA_OK;
}

/* Warm-up covers libraries, capture and clocks. After the GEMMs that measure the ceilings, clocks may stay low for most
 * of a second: plain steps of the vision model took 19.9 ms for 0.8 s, then 18.0 ms. Therefore plain steps are measured
 * again in the timeline. */
static mba_status measure_plain(job *j)
{
    static const double WARM_S = 0.5;
    mba_gpu_profile    *g = j->g;
    double              began = mba_clock_s();
    for (int i = 0; i < (j->o->warmup > 3 ? j->o->warmup : 3) || mba_clock_s() - began < WARM_S; i++)
        MBA_TRY(mba_gpu_run_step(j->p, &j->step, NULL));
    began = mba_clock_s();
    const int least = j->o->steps_only ? j->o->steps : MBA_GPU_PLAIN_MIN;
    MBA_TRY(mba_gpu_time_unprofiled(g, j->p, &j->step, least, mba_gpu_plain_s(j->o)));
    g->nbefore = g->nplain;
    g->cost[g->ncosts++] = (mba_gpu_cost){ .mode = "plain", .passes = g->nplain, .seconds = mba_clock_s() - began };
    return mba_gpu_read_clocks(g, j->p, &j->step, "plain");
}

/* Runs steps for ENERGY_S, a little more than a window needs to count (energy.h): the meter's first and last changes
 * lie within it. */
static const double ENERGY_S = MBA_ENERGY_SAMPLED_S_MIN + 0.2;
static mba_status   measure_energy(job *j)
{
    mba_gpu_profile *g = j->g;
    mba_meter       *m;
    mba_status       st = MBA_OK;
    if (mba_meter_start(&m, j->p->device->bus_id) != MBA_OK) {
        mba_gpu_note_failure(g, "energy");
        return MBA_OK;
    }
    const double began = mba_clock_s();
    for (; mba_clock_s() - began < ENERGY_S && st == MBA_OK; g->energy_steps++)
        st = mba_gpu_run_step(j->p, &j->step, NULL);
    g->energy_s = mba_clock_s() - began;
    mba_meter_stop(m);
    g->energy_j = g->energy_s * mba_meter_mean_w(m, began, began + g->energy_s);
    mba_meter_destroy(m);
    if (isnan(g->energy_j))
        mba_gpu_note_add(g, "energy", "the energy meter did not change, or shows more than the card's limit", "");
    g->cost[g->ncosts++] = (mba_gpu_cost){ .mode = "energy", .passes = g->energy_steps, .seconds = g->energy_s };
    return st;
}

/* ---- all of it ---- */

static mba_status measure_blocks(job *j)
{
    const double began = mba_clock_s();
    MBA_TRY(mba_gpu_blocks(j->g, j->p, &j->step, j->o->blocks));
    j->g->cost[j->g->ncosts++] =
        (mba_gpu_cost){ .mode = "blocks", .passes = 1, .seconds = mba_clock_s() - began, .kernels = j->g->nkernels };
    return MBA_OK;
}

/* True if plans can be compared with counters: the roofline set has the tensor FLOPs. */
static bool verifies_plans(const mba_gpu_options *o)
{
    for (int i = 0; i < o->nsets; i++)
        if (!strcmp(o->set[i]->name, "roofline")) return true;
    return false;
}

static mba_status look_at_data(job *j)
{
    const double     began = mba_clock_s();
    const mba_status st = mba_gpu_look_at_data(j->g, j->p, &j->step);
    if (j->g->ndata)
        j->g->cost[j->g->ncosts++] =
            (mba_gpu_cost){ .mode = "data", .passes = 1, .seconds = mba_clock_s() - began, .launches = j->g->ndata };
    return st;
}

static mba_status measure_isolated(job *j)
{
    const double     began = mba_clock_s();
    const mba_status st = mba_gpu_measure_isolated(j->g, j->p, &j->step);
    j->g->cost[j->g->ncosts++] =
        (mba_gpu_cost){ .mode = "settled", .passes = 2, .seconds = mba_clock_s() - began, .kernels = j->g->nsettled };
    return st;
}

static mba_status measure_deep(job *j)
{
    const double began = mba_clock_s();
    MBA_TRY(mba_gpu_deep(j->g, j->p, &j->step, j->o->deep));
    j->g->cost[j->g->ncosts++] =
        (mba_gpu_cost){ .mode = "deep", .passes = 1, .seconds = mba_clock_s() - began, .kernels = 1 };
    return MBA_OK;
}

static mba_status collect(job *j)
{
    MBA_TRY(mba_launch_trace_begin(j->p));
    mba_status st = measure_plain(j);
    if (st == MBA_OK && (j->o->energy || !j->o->steps_only)) st = measure_energy(j);
    if (st == MBA_OK && j->o->steps_only) {
        mba_launch_trace_end();
        return MBA_OK;
    }
    if (st == MBA_OK && j->o->steps > 0 && mba_gpu_timeline(j->g, j->p, &j->step, j->o) != MBA_OK)
        mba_gpu_note_failure(j->g, "timeline");
    if (st == MBA_OK && verifies_plans(j->o) && look_at_data(j) != MBA_OK) mba_gpu_note_failure(j->g, "data");
    if (st == MBA_OK && j->o->nsets > 0 && mba_gpu_counters(j->g, j->p, &j->step, j->o) != MBA_OK)
        mba_gpu_note_failure(j->g, "counters");
    if (st == MBA_OK && verifies_plans(j->o) && measure_isolated(j) != MBA_OK) mba_gpu_note_failure(j->g, "settled");
    if (st == MBA_OK && j->o->blocks && measure_blocks(j) != MBA_OK) mba_gpu_note_failure(j->g, "blocks");
    if (st == MBA_OK && j->o->deep && measure_deep(j) != MBA_OK) mba_gpu_note_failure(j->g, "deep");
    if (st == MBA_OK && j->o->deep && j->o->near && mba_gpu_samples(j->g, j->o->near) != MBA_OK)
        mba_gpu_note_failure(j->g, "samples");
    mba_launch_trace_end();
    mba_assert(j->g->ncosts <= (int)(sizeof j->g->cost / sizeof *j->g->cost));
    return st;
}

mba_status mba_gpu_collect(mba_gpu_profile **out, mba_program *p, const mba_step *step, const mba_gpu_options *o)
{
    *out = NULL;
    if (!p->device || strcmp(p->device->name, "cuda"))
        return mba_fail(MBA_E_ARG, "the program does not run on the GPU\nfix: add --device cuda");
    if (o->steps > MBA_GPU_STEPS_MAX) return mba_fail(MBA_E_ARG, "a timeline has at most %d steps", MBA_GPU_STEPS_MAX);
    job j = { .g = calloc(1, sizeof *j.g), .p = p, .step = *step, .o = o };
    if (!j.g) return mba_fail(MBA_E_NOMEM, "no memory for a profile");
    j.step.lr = 0;
    j.g->energy_j = j.g->record_cost_s = NAN;
    const mba_status st = collect(&j);
    if (st == MBA_OK) *out = j.g;
    else mba_gpu_profile_free(j.g);
    return st;
}

void mba_gpu_profile_free(mba_gpu_profile *g)
{
    if (!g) return;
    mba_events_free(&g->events);
    mba_events_free(&g->names);
    free(g->kernel);
    free(g->instruction);
    free(g->block);
    free(g->settled);
    free(g->data);
    free(g);
}
