/* gpu_profile.c -- see gpu_profile.h. */
#include "scope/gpu_profile.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scope/clock.h"
#include "scope/cupti_collect.h"
#include "scope/nvml.h"
#include "scope/watch.h"

static const double OVERHEAD_MOST = 0.02;          // of the timeline; beyond, the store has a note

/* A job: what the parts below share. */
typedef struct job { mba_gpu_profile *g; mba_program *p; mba_step step; const mba_gpu_options *o; } job;

/* The story of a failure becomes a note: what it is, and its `fix:`. */
void mba_gpu_say(mba_gpu_profile *g, const char *topic, const char *text, const char *fix)
{
    if (g->nnotes == MBA_GPU_NOTES_MAX || (g->nnotes && !strcmp(g->note[g->nnotes - 1].text, text)))
        return; // once is enough
    mba_gpu_note *n = &g->note[g->nnotes++];
    n->topic = topic;
    snprintf(n->text, sizeof n->text, "%s", text);
    snprintf(n->fix, sizeof n->fix, "%s", fix);
}

void mba_gpu_say_failure(mba_gpu_profile *g, const char *topic)
{
    char        text[512];
    const char *fix = strstr(mba_message(), "\nfix: ");
    snprintf(text, sizeof text, "%.*s", (int)(fix ? fix - mba_message() : 400), mba_message());
    for (char *c = text; *c; c++) if (*c == '\n') *c = ' ';
    mba_gpu_say(g, topic, text, fix ? fix + 6 : "");
}

/* ---- one step ---- */

static mba_status run_step(job *j, double *took_s)
{
    const double           began = mba_clock_s();
    MBA_TRY(mba_program_run(j->p, MBA_STEP, &j->step, NULL));
    MBA_TRY(j->p->device->wait());
    if (took_s) *took_s = mba_clock_s() - began;
    return MBA_OK;
}

/* ---- plain ---- */

static mba_status measure_plain(job *j)
{
    mba_gpu_profile *g = j->g;
    const double     enough_s = j->o->plain_s > 0 ? j->o->plain_s : 1;
    double           before = NAN, after = NAN;
    for (int i = 0; i < (j->o->warmup > 3 ? j->o->warmup : 3); i++)
        MBA_TRY(run_step(j, NULL)); // libraries, capture, clocks
    if (mba_nvml_energy(&before) != MBA_OK) mba_gpu_say_failure(g, "energy");
    const double began = mba_clock_s();
    while (g->nplain < 5 || (mba_clock_s() - began < enough_s && g->nplain < MBA_GPU_STEPS_MAX))
        MBA_TRY(run_step(j, &g->plain_s[g->nplain++]));
    g->energy_s = mba_clock_s() - began;
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
        mba_gpu_say(g, "timeline", text, "");
    }
    if (g->link.unlinked) {
        snprintf(text, sizeof text,
                 "%lld events have no operator: a step was captured with %lld kernels, %lld copies, %lld sets and ran "
                 "%lld, %lld, %lld",
                 (long long)g->link.unlinked, (long long)g->link.expected[0], (long long)g->link.expected[1],
                 (long long)g->link.expected[2], (long long)g->link.got[0], (long long)g->link.got[1],
                 (long long)g->link.got[2]);
        mba_gpu_say(g, "timeline", text, "");
    }
}

static int ascending(const void *x, const void *y)
{
    const double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

static double median(const double *x, int n)
{
    double sorted[MBA_GPU_STEPS_MAX];
    memcpy(sorted, x, (size_t)n * sizeof *x);
    qsort(sorted, (size_t)n, sizeof *sorted, ascending);
    return sorted[n / 2];
}

/* CUPTI stamps both ends of every kernel of a graph, on the GPU: the next one begins a little later for it. Where
 * kernels are short that shows, so the store says how much of the step it is and what the kernels themselves take. */
static void judge_overhead(mba_gpu_profile *g)
{
    char   text[400];
    double busy_s = 0;
    if (!g->nplain || !g->ntimeline || !g->events.n) return;
    for (int64_t i = 0; i < g->events.n; i++)
        busy_s += 1e-9 * (double)(g->events.event[i].end_ns - g->events.event[i].start_ns) / g->ntimeline;
    const double plain_s = median(g->plain_s, g->nplain), watched_s = median(g->timeline_s, g->ntimeline);
    const double per_step = (double)g->events.n / g->ntimeline;
    if (watched_s < (1 + OVERHEAD_MOST) * plain_s) return;
    snprintf(text, sizeof text,
             "a step under the timeline takes %+.1f %%: %.2f us for each of %.0f kernels and copies, by the stamps "
             "that CUPTI puts between them on the GPU; their own times add up to %.1f %% of a plain step, gaps are too "
             "long",
             100 * (watched_s / plain_s - 1), 1e6 * (watched_s - plain_s) / per_step, per_step,
             100 * busy_s / plain_s);
    mba_gpu_say(g, "timeline", text, "times of steps are those of mode plain");
}

static mba_status measure_timeline(job *j)
{
    mba_gpu_profile *g = j->g;
    gathering        to = { &g->events, MBA_OK };
    int64_t          dropped = 0;
    const double     began = mba_clock_s();
    MBA_TRY(mba_activity_begin(gather, &to));
    mba_status st = run_step(j, NULL);
    for (int i = 0; i < j->o->steps && st == MBA_OK; i++) st = run_step(j, &g->timeline_s[g->ntimeline++]);
    const mba_status ended = mba_activity_end(&dropped);
    if (st == MBA_OK) st = ended != MBA_OK ? ended : to.st;
    if (st == MBA_OK) st = mba_link(&g->events, mba_watch_counts(), j->p->graph->nnodes, &g->link);
    MBA_TRY(st);
    judge_links(g, j);
    drop_warm_up(g);
    judge_overhead(g);
    g->cost[g->ncosts++] = (mba_gpu_cost){ .mode = "timeline",
                                           .passes = j->o->steps + 1,
                                           .seconds = mba_clock_s() - began,
                                           .launches = g->events.n,
                                           .dropped = dropped };
    return MBA_OK;
}

/* ---- all of it ---- */

static mba_status measure_blocks(job *j)
{
    const double began = mba_clock_s();
    MBA_TRY(mba_gpu_blocks(j->g, j->p, &j->step));
    j->g->cost[j->g->ncosts++] = (mba_gpu_cost){
        .mode = "blocks", .passes = 1, .seconds = mba_clock_s() - began, .kernels = j->g->nkernels
    };
    return MBA_OK;
}

static mba_status measure_deep(job *j)
{
    const double began = mba_clock_s();
    MBA_TRY(mba_gpu_deep(j->g, j->p, &j->step, j->o->deep));
    j->g->cost[j->g->ncosts++] = (mba_gpu_cost){
        .mode = "deep", .passes = 1, .seconds = mba_clock_s() - began, .kernels = 1
    };
    return MBA_OK;
}

static mba_status collect(job *j)
{
    MBA_TRY(mba_watch_begin(j->p));
    mba_status st = measure_plain(j);
    if (st == MBA_OK && j->o->steps > 0 && measure_timeline(j) != MBA_OK) mba_gpu_say_failure(j->g, "timeline");
    if (st == MBA_OK && j->o->nsets > 0 && mba_gpu_counters(j->g, j->p, &j->step, j->o) != MBA_OK)
        mba_gpu_say_failure(j->g, "counters");
    if (st == MBA_OK && j->o->blocks && measure_blocks(j) != MBA_OK) mba_gpu_say_failure(j->g, "blocks");
    if (st == MBA_OK && j->o->deep && measure_deep(j) != MBA_OK) mba_gpu_say_failure(j->g, "deep");
    if (st == MBA_OK && j->o->deep && j->o->near && mba_gpu_samples(j->g, j->o->near) != MBA_OK)
        mba_gpu_say_failure(j->g, "samples");
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
