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
    if (g->nnotes == MBA_GPU_NOTES_MAX || (g->nnotes && !strcmp(g->note[g->nnotes - 1].text, text)))
        return; // once is enough
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
    for (int i = 0; i < (j->o->warmup > 3 ? j->o->warmup : 3); i++)
        MBA_TRY(run_step(j, false, NULL)); // libraries, capture, clocks
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
        snprintf(text, sizeof text,
                 "%lld events have no operator: a step was captured with %lld kernels, %lld copies, %lld sets and ran "
                 "%lld, %lld, %lld",
                 (long long)g->link.unlinked, (long long)g->link.expected[0], (long long)g->link.expected[1],
                 (long long)g->link.expected[2], (long long)g->link.got[0], (long long)g->link.got[1],
                 (long long)g->link.got[2]);
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
    g->cost[g->ncosts++] = (mba_gpu_cost){ .mode = "timeline",
                                           .passes = j->o->steps + 1,
                                           .seconds = seconds() - began,
                                           .launches = g->events.n,
                                           .dropped = dropped };
    return MBA_OK;
}

/* ---- counters ---- */

/* Kernels of one step in the order they are launched: the ranges of the profiler come in the same. They are known twice, from
 * the driver's calls and from the timeline; what CUPTI counts decides which of them it follows. */
typedef struct launched { const char *name; int32_t node, place, grid[3], block[3]; } launched;
typedef struct launches { mba_gpu_profile *g; launched *l; int64_t n, room; mba_status st; } launches;

static void add_launch(launches *x, launched l)
{
    const int64_t name = mba_events_name(&x->g->names, l.name);
    if (x->n == x->room) {
        const int64_t room = x->room ? 2 * x->room : 1024;
        launched     *more = realloc(x->l, (size_t)room * sizeof *more);
        if (more) {
            x->l = more;
            x->room = room;
        }
    }
    if (name < 0 || x->n == x->room) {
        x->st = mba_fail(MBA_E_NOMEM, "no memory for the launches of a step");
        return;
    }
    l.name = x->g->names.names[name];
    x->l[x->n++] = l;
}

static void saw_launch(void *ctx, const mba_launch_seen *s)
{
    launches      *x = ctx;
    const int32_t  node = mba_watch_node();
    const launched *last = x->n ? &x->l[x->n - 1] : NULL;
    launched        l = { .name = s->name, .node = node, .place = last && last->node == node ? last->place + 1 : 0 };
    if (s->is_graph || x->st != MBA_OK) return;
    memcpy(l.grid, s->grid, sizeof l.grid);
    memcpy(l.block, s->block, sizeof l.block);
    add_launch(x, l);
}

static void from_timeline(launches *x)
{
    for (int64_t i = 0; i < x->g->events.n; i++) {
        const mba_event *e = &x->g->events.event[i];
        launched         l = { .name = e->name, .node = e->node, .place = e->launch };
        if (e->kind != MBA_EVENT_KERNEL || !e->graph || e->step != 0 || x->st != MBA_OK) continue;
        memcpy(l.grid, e->grid, sizeof l.grid);
        memcpy(l.block, e->block, sizeof l.block);
        add_launch(x, l);
    }
}

static int64_t kernel_of(mba_gpu_profile *g, const mba_program *p, const launched *l)
{
    for (int64_t i = g->nkernels - 1; i >= 0; i--) {
        const mba_gpu_kernel *k = &g->kernel[i];
        const bool same_plan = l->node < 0 || k->node < 0 ? l->node == k->node : p->plan[l->node] == p->plan[k->node];
        if (same_plan && k->launch == l->place && k->name == l->name && !memcmp(k->grid, l->grid, sizeof k->grid))
            return i;
    }
    mba_gpu_kernel *more = realloc(g->kernel, (size_t)(g->nkernels + 1) * sizeof *more);
    if (!more) return -1;
    g->kernel = more;
    mba_gpu_kernel *k = &g->kernel[g->nkernels];
    *k = (mba_gpu_kernel){ .name = l->name, .node = l->node, .launch = l->place };
    memcpy(k->grid, l->grid, sizeof k->grid);
    memcpy(k->block, l->block, sizeof k->block);
    for (int s = 0; s < MBA_GPU_SETS_MAX; s++)
        for (int m = 0; m < MBA_METRICS_MAX; m++) k->value[s][m] = NAN;
    return g->nkernels++;
}

/* Running means over the launches of each kernel. */
static mba_status take_values(job *j, mba_counters *s, const launches *l, int set)
{
    double v[MBA_METRICS_MAX];
    for (int64_t i = 0; i < j->g->nkernels; i++) j->g->kernel[i].launches = 0;
    for (int64_t i = 0; i < l->n; i++) {
        const int64_t at = kernel_of(j->g, j->p, &l->l[i]);
        if (at < 0) return mba_fail(MBA_E_NOMEM, "no memory for kernels");
        MBA_TRY(mba_counters_values(s, i, v));
        mba_gpu_kernel *k = &j->g->kernel[at];
        const double    n = (double)++k->launches;
        for (int m = 0; m < j->g->set[set]->n; m++) {
            const double was = n > 1 ? k->value[set][m] : 0;
            k->value[set][m] = was + (v[m] - was) / n;
        }
    }
    return MBA_OK;
}

static mba_status run_passes(job *j, mba_counters *s, int set)
{
    bool all = false;
    for (int pass = 0; !all; pass++) {
        if (pass > 64)
            return mba_fail(MBA_E_DEVICE, "CUPTI wants more than 64 passes\nwhy: it said %d\nfix: leave this set out",
                            mba_counters_passes(s));
        MBA_TRY(mba_counters_start(s));
        const mba_status st = run_step(j, true, &j->g->pass_s[set]);
        const mba_status stopped = mba_counters_stop(s, &all);
        MBA_TRY(st);
        MBA_TRY(stopped);
    }
    return MBA_OK;
}

/* seen: by calls and by the timeline. */
static mba_status read_set(job *j, mba_counters *s, const launches seen[2], int set, int64_t *ranges)
{
    MBA_TRY(run_passes(j, s, set));
    MBA_TRY(mba_counters_decode(s, ranges));
    const launches *l = *ranges == seen[0].n ? &seen[0] : *ranges == seen[1].n ? &seen[1] : NULL;
    if (!l)
        return mba_fail(
            MBA_E_DEVICE,
            "CUPTI has counters of %lld kernels\nwhy: the driver was called for %lld, the timeline shows %lld\n"
            "fix: a bug of ours; the timeline is not concerned",
            (long long)*ranges, (long long)seen[0].n, (long long)seen[1].n);
    return take_values(j, s, l, set);
}

static mba_status measure_set(job *j, const mba_metric_set *m, const launches seen[2])
{
    mba_gpu_profile *g = j->g;
    mba_counters    *s = NULL;
    const double     began = seconds();
    const int        set = g->nsets;
    const int64_t    room = seen[0].n > seen[1].n ? seen[0].n : seen[1].n;
    int64_t          ranges = 0;
    MBA_TRY(mba_counters_open(&s, m->metric, m->n, room + 16));
    g->set[g->nsets++] = m;
    const mba_status st = read_set(j, s, seen, set, &ranges);
    const int        passes = mba_counters_passes(s);
    mba_counters_close(s);
    g->cost[g->ncosts++] = (mba_gpu_cost){ .mode = "counters",
                                           .set = m->name,
                                           .passes = passes,
                                           .seconds = seconds() - began,
                                           .launches = ranges,
                                           .kernels = g->nkernels };
    return st;
}

static mba_status measure_counters(job *j)
{
    launches seen[2] = { { .g = j->g }, { .g = j->g } };
    MBA_TRY(mba_launches_begin(saw_launch, NULL, &seen[0]));
    mba_status st = run_step(j, true, NULL);
    mba_launches_end();
    from_timeline(&seen[1]);
    if (st == MBA_OK) st = seen[0].st;
    if (st == MBA_OK) st = seen[1].st;
    for (int i = 0; i < j->o->nsets && st == MBA_OK; i++)
        if (measure_set(j, j->o->set[i], seen) != MBA_OK) note_failure(j->g, "counters");    // the next may do better
    free(seen[0].l);
    free(seen[1].l);
    return st;
}

/* ---- all of it ---- */

static mba_status measure_blocks(job *j)
{
    const double began = seconds();
    MBA_TRY(mba_gpu_blocks(j->g, j->p, &j->step));
    j->g->cost[j->g->ncosts++] = (mba_gpu_cost){
        .mode = "blocks", .passes = 1, .seconds = seconds() - began, .kernels = j->g->nkernels
    };
    return MBA_OK;
}

static mba_status measure_deep(job *j)
{
    const double began = seconds();
    MBA_TRY(mba_gpu_deep(j->g, j->p, &j->step, j->o->deep));
    j->g->cost[j->g->ncosts++] = (mba_gpu_cost){
        .mode = "deep", .passes = 1, .seconds = seconds() - began, .kernels = 1
    };
    return MBA_OK;
}

static mba_status collect(job *j)
{
    MBA_TRY(mba_watch_begin(j->p));
    mba_status st = measure_plain(j);
    if (st == MBA_OK && j->o->steps > 0 && measure_timeline(j) != MBA_OK) note_failure(j->g, "timeline");
    if (st == MBA_OK && j->o->nsets > 0 && measure_counters(j) != MBA_OK) note_failure(j->g, "counters");
    if (st == MBA_OK && j->o->blocks && measure_blocks(j) != MBA_OK) note_failure(j->g, "blocks");
    if (st == MBA_OK && j->o->deep && measure_deep(j) != MBA_OK) note_failure(j->g, "deep");
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
    free(g->instruction);
    free(g->block);
    free(g);
}
