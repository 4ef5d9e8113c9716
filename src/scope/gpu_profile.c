/* gpu_profile.c -- see gpu_profile.h. */
#include "scope/gpu_profile.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "scope/cupti_collect.h"
#include "scope/nvml.h"
#include "scope/watch.h"

/* A job: what the parts below share. */
typedef struct job { mba_gpu_profile *g; mba_program *p; mba_step step; const mba_gpu_options *o; } job;

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The story of a failure becomes a note: what it is, and its `fix:`. */
static void note(mba_gpu_profile *g, const char *topic, const char *text, const char *fix)
{
    if (g->nnotes == MBA_GPU_NOTES_MAX) return;
    mba_gpu_note *n = &g->note[g->nnotes++];
    n->topic = topic;
    snprintf(n->text, sizeof n->text, "%s", text);
    snprintf(n->fix, sizeof n->fix, "%s", fix);
}

static void note_failure(mba_gpu_profile *g, const char *topic)
{
    char        text[512];
    const char *fix = strstr(mba_message(), "\nfix: ");
    snprintf(text, sizeof text, "%.*s", (int)(fix ? fix - mba_message() : 400), mba_message());
    for (char *c = text; *c; c++) if (*c == '\n') *c = ' ';
    note(g, topic, text, fix ? fix + 6 : "");
}

/* ---- one step ---- */

static mba_status run_step(job *j, bool one_by_one, double *took_s)
{
    static const mba_hooks none = { NULL, NULL, NULL };       // a run with hooks is not a captured one
    const double           began = seconds();
    MBA_TRY(mba_program_run(j->p, MBA_STEP, &j->step, one_by_one ? &none : NULL));
    MBA_TRY(j->p->device->wait());
    if (took_s) *took_s = seconds() - began;
    return MBA_OK;
}

/* ---- plain ---- */

static mba_status measure_plain(job *j)
{
    mba_gpu_profile *g = j->g;
    const double     enough_s = j->o->plain_s > 0 ? j->o->plain_s : 1;
    double           before = NAN, after = NAN;
    for (int i = 0; i < (j->o->warmup > 3 ? j->o->warmup : 3); i++) MBA_TRY(run_step(j, false, NULL));      // libraries, capture, clocks
    if (mba_nvml_energy(&before) != MBA_OK) note_failure(g, "energy");
    const double began = seconds();
    while (g->nplain < 5 || (seconds() - began < enough_s && g->nplain < MBA_GPU_STEPS_MAX))
        MBA_TRY(run_step(j, false, &g->plain_s[g->nplain++]));
    g->energy_s = seconds() - began;
    if (before == before && mba_nvml_energy(&after) == MBA_OK) g->energy_j = after - before;
    g->energy_steps = g->nplain;
    g->cost[g->ncosts++] = (mba_gpu_cost){ .mode = "plain", .passes = g->nplain, .seconds = g->energy_s };
    return MBA_OK;
}

/* ---- timeline ---- */

typedef struct gathering { mba_events *to; mba_status st; } gathering;

static void gather(void *ctx, const mba_event *e)
{
    gathering *x = ctx;
    if (x->st == MBA_OK) x->st = mba_events_add(x->to, e);
}

/* The first step with CUPTI is a warm-up: its events go, later ones count from 0. */
static void drop_warm_up(mba_gpu_profile *g)
{
    int64_t n = 0;
    for (int64_t i = 0; i < g->events.n; i++) {
        mba_event e = g->events.event[i];
        if (e.step < 1) continue;
        e.step--;
        g->events.event[n++] = e;
    }
    g->events.n = n;
}

static void judge_links(mba_gpu_profile *g, const job *j)
{
    char text[256];
    if (g->link.steps != j->o->steps + 1) {
        snprintf(text, sizeof text, "the timeline shows %d captured steps of %d", g->link.steps, j->o->steps + 1);
        note(g, "timeline", text, "");
    }
    if (g->link.unlinked) {
        snprintf(text, sizeof text, "%lld events have no operator: a step was captured with %lld kernels, %lld copies, %lld sets and ran %lld, %lld, %lld",
                 (long long)g->link.unlinked, (long long)g->link.expected[0], (long long)g->link.expected[1], (long long)g->link.expected[2],
                 (long long)g->link.got[0], (long long)g->link.got[1], (long long)g->link.got[2]);
        note(g, "timeline", text, "");
    }
}

static mba_status measure_timeline(job *j)
{
    mba_gpu_profile *g = j->g;
    gathering        to = { &g->events, MBA_OK };
    int64_t          dropped = 0;
    const double     began = seconds();
    MBA_TRY(mba_activity_begin(gather, &to));
    mba_status st = run_step(j, false, NULL);
    for (int i = 0; i < j->o->steps && st == MBA_OK; i++) st = run_step(j, false, &g->timeline_s[g->ntimeline++]);
    const mba_status ended = mba_activity_end(&dropped);
    if (st == MBA_OK) st = ended != MBA_OK ? ended : to.st;
    if (st == MBA_OK) st = mba_link(&g->events, mba_watch_counts(), j->p->graph->nnodes, &g->link);
    MBA_TRY(st);
    judge_links(g, j);
    drop_warm_up(g);
    g->cost[g->ncosts++] = (mba_gpu_cost){ .mode = "timeline", .passes = j->o->steps + 1, .seconds = seconds() - began, .launches = g->events.n,
                                           .dropped = dropped };
    return MBA_OK;
}

/* ---- counters ---- */

/* Launches of one eager step, in their order: the ranges of the profiler come in the same. */
typedef struct launches { job *j; int64_t *kernel, n, room; int32_t node, place; bool recording; mba_status st; } launches;

static int64_t kernel_of(mba_gpu_profile *g, const mba_program *p, int32_t node, int32_t place, const mba_launch_seen *l)
{
    for (int64_t i = g->nkernels - 1; i >= 0; i--) {
        const mba_gpu_kernel *k = &g->kernel[i];
        const bool same_plan = node < 0 || k->node < 0 ? node == k->node : p->plan[node] == p->plan[k->node];
        if (same_plan && k->launch == place && !strcmp(k->name, l->name) && !memcmp(k->grid, l->grid, sizeof k->grid)) return i;
    }
    const int64_t name = mba_events_name(&g->names, l->name);
    mba_gpu_kernel *more = name < 0 ? NULL : realloc(g->kernel, (size_t)(g->nkernels + 1) * sizeof *more);
    if (!more) return -1;
    g->kernel = more;
    mba_gpu_kernel *k = &g->kernel[g->nkernels];
    *k = (mba_gpu_kernel){ .name = g->names.names[name], .node = node, .launch = place };
    memcpy(k->grid, l->grid, sizeof k->grid);
    memcpy(k->block, l->block, sizeof k->block);
    for (int s = 0; s < MBA_GPU_SETS_MAX; s++)
        for (int m = 0; m < MBA_METRICS_MAX; m++) k->value[s][m] = NAN;
    return g->nkernels++;
}

static void saw_launch(void *ctx, const mba_launch_seen *l)
{
    launches *x = ctx;
    if (!x->recording || l->is_graph || x->st != MBA_OK) return;
    const int32_t node = mba_watch_node();
    x->place = node == x->node ? x->place + 1 : 0;
    x->node  = node;
    if (x->n == x->room) {
        x->room = x->room ? 2 * x->room : 1024;
        int64_t *more = realloc(x->kernel, (size_t)x->room * sizeof *more);
        if (!more) x->st = mba_fail(MBA_E_NOMEM, "no memory for launches");
        else       x->kernel = more;
    }
    const int64_t k = x->st == MBA_OK ? kernel_of(x->j->g, x->j->p, node, x->place, l) : -1;
    if (k < 0 && x->st == MBA_OK) x->st = mba_fail(MBA_E_NOMEM, "no memory for kernels");
    if (x->st != MBA_OK) return;
    x->kernel[x->n++] = k;
    x->j->g->kernel[k].launches++;
}

/* Means over the launches of each kernel. */
static mba_status take_values(mba_gpu_profile *g, mba_counters *s, const launches *l, int set)
{
    double v[MBA_METRICS_MAX];
    int64_t *seen = calloc((size_t)g->nkernels + 1, sizeof *seen);
    if (!seen) return mba_fail(MBA_E_NOMEM, "no memory for counters");
    mba_status st = MBA_OK;
    for (int64_t i = 0; i < l->n && st == MBA_OK; i++) {
        mba_gpu_kernel *k = &g->kernel[l->kernel[i]];
        const double    n = (double)++seen[l->kernel[i]];
        st = mba_counters_values(s, i, v);
        for (int m = 0; m < g->set[set]->n && st == MBA_OK; m++) {
            const double was = n > 1 ? k->value[set][m] : 0;
            k->value[set][m] = was + (v[m] - was) / n;
        }
    }
    free(seen);
    return st;
}

static mba_status run_passes(job *j, mba_counters *s, int set)
{
    bool all = false;
    for (int pass = 0; !all; pass++) {
        if (pass > 64) return mba_fail(MBA_E_DEVICE, "CUPTI wants more than 64 passes\nwhy: it said %d\nfix: leave this set out", mba_counters_passes(s));
        MBA_TRY(mba_counters_start(s));
        const mba_status st = run_step(j, true, &j->g->pass_s[set]);
        const mba_status stopped = mba_counters_stop(s, &all);
        MBA_TRY(st);
        MBA_TRY(stopped);
    }
    return MBA_OK;
}

static mba_status measure_set(job *j, const mba_metric_set *m, const launches *l)
{
    mba_gpu_profile *g = j->g;
    mba_counters    *s = NULL;
    const double     began = seconds();
    const int        set = g->nsets;
    int64_t          ranges = 0;
    g->set[g->nsets++] = m;
    MBA_TRY(mba_counters_open(&s, m->metric, m->n, l->n));
    mba_status st = run_passes(j, s, set);
    if (st == MBA_OK) st = mba_counters_decode(s, &ranges);
    if (st == MBA_OK && ranges != l->n)
        st = mba_fail(MBA_E_DEVICE, "CUPTI has counters of %lld kernels\nwhy: %lld were launched one by one\nfix: a bug of ours; the timeline is not "
                      "concerned", (long long)ranges, (long long)l->n);
    if (st == MBA_OK) st = take_values(g, s, l, set);
    const int passes = mba_counters_passes(s);
    mba_counters_close(s);
    g->cost[g->ncosts++] = (mba_gpu_cost){ .mode = "counters", .set = m->name, .passes = passes, .seconds = seconds() - began, .launches = l->n,
                                           .kernels = g->nkernels };
    return st;
}

static mba_status measure_counters(job *j)
{
    launches l = { .j = j, .node = -2 };
    MBA_TRY(mba_launches_begin(saw_launch, NULL, &l));
    l.recording = true;
    mba_status st = run_step(j, true, NULL);
    l.recording = false;
    mba_launches_end();
    if (st == MBA_OK) st = l.st;
    for (int i = 0; i < j->o->nsets && st == MBA_OK; i++) st = measure_set(j, j->o->set[i], &l);
    free(l.kernel);
    return st;
}

/* ---- all of it ---- */

static mba_status collect(job *j)
{
    MBA_TRY(mba_watch_begin(j->p));
    mba_status st = measure_plain(j);
    if (st == MBA_OK && j->o->steps > 0 && measure_timeline(j) != MBA_OK) note_failure(j->g, "timeline");
    if (st == MBA_OK && j->o->nsets > 0 && measure_counters(j) != MBA_OK) note_failure(j->g, "counters");
    mba_watch_end();
    return st;
}

mba_status mba_gpu_collect(mba_gpu_profile **out, mba_program *p, const mba_step *step, const mba_gpu_options *o)
{
    *out = NULL;
    if (!p->device || strcmp(p->device->name, "cuda"))
        return mba_fail(MBA_E_ARG, "the program is not on the GPU\nfix: --device cuda");
    if (o->steps > MBA_GPU_STEPS_MAX) return mba_fail(MBA_E_ARG, "a timeline has at most %d steps", MBA_GPU_STEPS_MAX);
    job j = { .g = calloc(1, sizeof *j.g), .p = p, .step = *step, .o = o };
    if (!j.g) return mba_fail(MBA_E_NOMEM, "no memory for a profile");
    j.step.lr = 0;
    j.g->energy_j = NAN;
    const mba_status st = collect(&j);
    if (st == MBA_OK) *out = j.g;
    else              mba_gpu_profile_free(j.g);
    return st;
}

void mba_gpu_profile_free(mba_gpu_profile *g)
{
    if (!g) return;
    mba_events_free(&g->events);
    mba_events_free(&g->names);
    free(g->kernel);
    free(g);
}
