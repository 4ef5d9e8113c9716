// SPDX-License-Identifier: Apache-2.0
/* step.c -- see step.h: a cache of simulated kernels, one pass over the launches of a program, and the sums over it.
 *
 * A pass lowers each launch, asks the L2 model for its hits, and looks the kernel up in the cache; new kernels run in
 * parallel afterwards. If the tensor load of the step is not given, a first pass finds it and a second one uses it. */
#include "sim/step.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/lookup.h"
#include "sim/l2_model.h"
#include "sim/rates.h"

/* ---- the cache of results, keyed by a hash of the kernel and of the machine numbers that it depends on ---- */

typedef struct key {
    uint64_t a, b;
} key;
typedef struct known {
    key            key;
    mba_sim_result r;
} known;

struct mba_sim {
    known     *known;
    int64_t    n, room;
    mba_lookup by_key;
};

mba_status mba_sim_create(mba_sim **out)
{
    mba_sim *s = calloc(1, sizeof *s);
    if (!s) return mba_fail(MBA_E_NOMEM, "no memory for a simulation");
    *out = s;
    return MBA_OK;
}

void mba_sim_destroy(mba_sim *s)
{
    if (!s) return;
    free(s->known);
    mba_lookup_free(&s->by_key);
    free(s);
}

/* Hashes 8 bytes at a time: all hashed structs consist of 8-byte words without padding. */
static void mix_in(key *h, const void *bytes, size_t n)
{
    const unsigned char *p = bytes;
    mba_assert(n % sizeof(uint64_t) == 0);
    for (size_t i = 0; i < n; i += sizeof(uint64_t)) {
        uint64_t w;
        memcpy(&w, p + i, sizeof w);
        h->a = (h->a ^ w) * 0x9e3779b97f4a7c15u;
        h->a ^= h->a >> 32;
        h->b = (h->b ^ w) * 0xd6e8feb86659fd93u;
        h->b ^= h->b >> 29;
    }
}

/* True if the time of this kernel can depend on a number of the machine; a sweep over the others hits the cache. */
static bool depends_on(const mba_sim_kernel *k, int number, bool misses, bool copies)
{
    static const struct {
        int number, pipe;
    } pipes[] = { { MBA_GPU_fma, MBA_P_FMA },      { MBA_GPU_alu, MBA_P_ALU },    { MBA_GPU_xu, MBA_P_XU },
                  { MBA_GPU_half2, MBA_P_H2 },     { MBA_GPU_mma16, MBA_P_MMA },  { MBA_GPU_mma32, MBA_P_MMA },
                  { MBA_GPU_mma_sync, MBA_P_MMA }, { MBA_GPU_clk_tc, MBA_P_MMA }, { MBA_GPU_clk_busy, MBA_P_MMA },
                  { MBA_GPU_clk_mma, MBA_P_MMA },  { MBA_GPU_t_power, MBA_P_MMA } };
    for (size_t i = 0; i < sizeof pipes / sizeof *pipes; i++)
        if (pipes[i].number == number) return k->total[pipes[i].pipe] > 0;
    if (number >= MBA_GPU_l2_dirty) return false; // lowering or the L2 model has put it into the kernel
    if (number >= MBA_GPU_hbm && number <= MBA_GPU_hbm_turnaround) return misses;
    if (number == MBA_GPU_async_kb || number == MBA_GPU_async_lat) return copies;
    return number != MBA_GPU_cc && number != MBA_GPU_plan_cc && number != MBA_GPU_l2 && number != MBA_GPU_l2_half_reuse
           && number != MBA_GPU_l2_slope && number != MBA_GPU_memory && number != MBA_GPU_gap_stream
           && number != MBA_GPU_gap_graph && number != MBA_GPU_gap_reset && number != MBA_GPU_h2d;
}

static key key_of(const mba_sim_kernel *k, const mba_gpu *m, mba_sim_fidelity fidelity)
{
    key h = { 0xcbf29ce484222325u, 0x84222325cbf29ce4u };
    mba_assert(k->nops > 0 && k->nops <= MBA_SIM_OPS && k->nstreams <= MBA_SIM_STREAMS);
    mix_in(&h, &(int64_t){ fidelity }, sizeof(int64_t));
    mix_in(&h, &k->grid, offsetof(mba_sim_kernel, op) - offsetof(mba_sim_kernel, grid));
    mix_in(&h, k->op, sizeof *k->op * (size_t)k->nops);
    mix_in(&h, k->stream, sizeof *k->stream * (size_t)k->nstreams);
    bool misses = false, copies = false;
    for (int64_t i = 0; i < k->nstreams; i++) misses |= k->stream[i].hit < 256;
    for (int64_t i = 0; i < k->nops; i++) copies |= k->op[i].work == MBA_OP_ASYNC;
    for (int i = 0; i < MBA_GPU_KEYS; i++)
        if (depends_on(k, i, misses, copies)) mix_in(&h, &m->v[i], sizeof m->v[i]);
    return h;
}

/* Index of the result of a key, or -1. */
static int64_t find_known(const mba_sim *s, key h)
{
    int64_t at = 0, i;
    while ((i = mba_lookup_next(&s->by_key, h.a, &at)) >= 0 && s->known[i].key.b != h.b) continue;
    mba_assert(i < s->n);
    return i;
}

/* ---- one pass over a program ---- */

typedef struct job {
    mba_sim_kernel kernel;
    mba_status     st;
} job;
typedef struct lowered {
    const mba_plan *plan;
    mba_sim_kernel *kernel;
} lowered; /* one array of launches per plan */

typedef struct step_run {
    mba_sim           *sim;
    const mba_program *p;
    const mba_gpu     *m;
    const mba_sim_how *how;
    mba_sim_fidelity   fidelity;
    mba_l2_model      *l2;
    int64_t            base[MBA_ROLES]; /* first address of every arena; arenas lie one after the other */
    lowered           *plans;
    int64_t            nplans;
    job               *jobs;
    int64_t            njobs, space, ran;
    int64_t            first; /* job j computes result first + j of the cache */
    int64_t           *known;
    int64_t            nlaunches; /* per launch, in order: index of its result */
    bool              *resets;    /* per launch: a tile counter is cleared before it */
    bool              *counted;   /* per launch: its instructions come from counters */
    double            *stored;    /* per launch: distinct bytes written */
    int64_t            load;      /* of 256: tensor utilisation by the previous pass; 0: first pass */
} step_run;

static int64_t lay_arenas(step_run *w)
{
    int64_t at = 0;
    for (int r = 0; r < MBA_ROLES; r++) {
        w->base[r] = at;
        at += (int64_t)w->p->layout.arena_bytes[r];
    }
    return at;
}

static mba_address_range place_of_tensor(const step_run *w, const mba_tensor *t)
{
    const int64_t e = (int64_t)mba_dtype_bytes(t->type.dtype), runs = t->run > 0 ? mba_elems(t) / t->run : 1;
    const int     arena = t->st->role >= MBA_ACT ? MBA_ACT : (int)t->st->role;
    mba_debug_assert(runs > 0 && t->offset >= 0);
    return (mba_address_range){ w->base[arena] + (int64_t)w->p->layout.offset[t->st->id] + t->offset * e,
                                ((runs - 1) * t->pitch + t->run) * e };
}

/* Sets the address range of each stream of a launch; a stream without an operand has none. */
static void find_places(const step_run *w, int32_t i, const mba_sim_kernel *k, mba_address_range *place)
{
    const mba_node *n = w->p->graph->nodes[i];
    for (int64_t s = 0; s < k->nstreams; s++) {
        const int         operand = k->stream[s].operand;
        const mba_tensor *t = operand < 0 || operand >= MBA_ARG_SCRATCH(0) ? NULL
                              : operand < MBA_IN_MAX                       ? n->in[operand]
                                                                           : n->out[operand - MBA_IN_MAX];
        place[s] = (mba_address_range){ 0, 0 };
        if (t) place[s] = place_of_tensor(w, t);
        else if (operand >= MBA_ARG_SCRATCH(0)) {
            const mba_scratch *c = &w->p->plan[i]->scratch[operand - MBA_ARG_SCRATCH(0)];
            place[s] = (mba_address_range){ w->base[MBA_ACT] + (int64_t)w->p->layout.work_offset[i]
                                                + (int64_t)c->offset,
                                            (int64_t)k->stream[s].unique };
        }
    }
}

/* Refuses a name that no plan has: it would have no effect, silently. */
static mba_status check_keep(const mba_program *p, const char *name)
{
    char names[256] = ",", word[72];
    if (!name || !strcmp(name, "all")) return MBA_OK;
    for (int32_t i = 0; i < p->graph->nnodes; i++)
        for (int k = 0; k < p->plan[i]->nscratch; k++) {
            const char *scratch = p->plan[i]->scratch[k].name;
            if (!strcmp(scratch, name)) return MBA_OK;
            snprintf(word, sizeof word, ", %s,", scratch);
            const size_t n = strlen(names);
            if (!strstr(names, word) && n + strlen(word) < sizeof names)
                snprintf(names + n, sizeof names - n, "%s", word + 1);
        }
    names[strlen(names) - 1] = '\0';
    return mba_fail(MBA_E_ARG,
                    "there is no scratch '%s' to keep on the chip\nwhy: the scratch buffers of this step are: %s\n"
                    "fix: name one of them, all or none; --op chooses other kernels",
                    name, *names ? names + 2 : "none");
}

/* Removes the loads and stores of scratch that a fused kernel would hold in registers or shared memory. */
static mba_status keep_on_chip(mba_sim_kernel *k, const mba_plan *plan, const char *name, const mba_gpu *m)
{
    for (int64_t i = 0; i < k->nops; i++) {
        const int operand = k->op[i].stream < 0 ? -1 : k->stream[k->op[i].stream].operand;
        if (operand < MBA_ARG_SCRATCH(0)) continue;
        const char *scratch = plan->scratch[operand - MBA_ARG_SCRATCH(0)].name;
        if (!strcmp(name, "all") || !strcmp(name, scratch)) k->op[i].bytes = 0;
    }
    return mba_sim_finish(k, m);
}

/* Sets the start-up time of a launch by the hits that the L2 model found. */
static void set_fetch(mba_sim_kernel *k, const mba_gpu *m)
{
    const double issued = k->total[MBA_P_ISSUE] / 32 / (double)(k->grid * k->warps);
    double       far = 0, moved = 0;
    for (int64_t s = 0; s < k->nstreams; s++) {
        moved += k->stream[s].moved;
        if (!k->stream[s].writes) far += k->stream[s].moved * (double)(256 - k->stream[s].hit) / 256;
    }
    k->fetch = mba_sim_fetch((double)k->grid, issued, moved, far, m) + (int64_t)m->v[MBA_GPU_planned_start];
}

/* The lowered kernels of a node's plan; nodes that share a plan share them. */
static mba_status kernels_of(step_run *w, int32_t i, mba_sim_kernel **out)
{
    const mba_plan *plan = w->p->plan[i];
    for (int64_t k = 0; k < w->nplans; k++)
        if (w->plans[k].plan == plan) {
            *out = w->plans[k].kernel;
            return MBA_OK;
        }
    mba_sim_kernel *all = calloc((size_t)plan->nlaunches + 1, sizeof *all);
    if (!all) return mba_fail(MBA_E_NOMEM, "no memory for %d kernels", plan->nlaunches);
    mba_assert(w->nplans < w->p->graph->nnodes);
    w->plans[w->nplans++] = (lowered){ plan, all };
    for (int l = 0; l < plan->nlaunches; l++) {
        const mba_status st = mba_sim_lower(&all[l], w->p->graph->nodes[i], &plan->launch[l], plan, w->m);
        if (st != MBA_OK) return mba_where(st, "node %d, %s, launch %d", i, w->p->graph->nodes[i]->op->name, l);
        if (w->how->keep) MBA_TRY(keep_on_chip(&all[l], plan, w->how->keep, w->m));
        if (w->how->ring) mba_sim_set_ring(&all[l], w->how->ring, w->m);
        if (w->how->persistent) mba_sim_persist(&all[l], w->m);
    }
    *out = all;
    return MBA_OK;
}

/* Adds a kernel to the cache and to the jobs; run_jobs computes its result. */
static mba_status add_job(step_run *w, const mba_sim_kernel *k, key h)
{
    mba_sim *s = w->sim;
    job     *jobs = mba_grow(w->jobs, w->njobs, &w->space, sizeof *jobs);
    known   *more = mba_grow(s->known, s->n, &s->room, sizeof *more);
    if (jobs) w->jobs = jobs;
    if (more) s->known = more;
    if (!jobs || !more || !mba_lookup_add(&s->by_key, h.a))
        return mba_fail(MBA_E_NOMEM, "no memory for %lld kernels", (long long)s->n);
    s->known[s->n++].key = h;
    w->jobs[w->njobs++].kernel = *k;
    return MBA_OK;
}

static double unique_stored(const mba_sim_kernel *k)
{
    double sum = 0;
    for (int64_t s = 0; s < k->nstreams; s++) sum += k->stream[s].writes ? k->stream[s].unique : 0;
    return sum;
}

/* True if a node runs in the simulated passes: a node whose outputs another pass recomputes does not run with it
 * (mba_node_elide: the loss with its product, in training). */
static bool runs(const step_run *w, int32_t i)
{
    const mba_node *n = w->p->graph->nodes[i];
    return (n->pass & w->how->passes) && (w->how->with_elided || !(n->elided_in & w->how->passes));
}

static mba_status simulate_node(step_run *w, int32_t i)
{
    mba_sim_kernel   *all = NULL;
    mba_address_range place[MBA_SIM_STREAMS];
    MBA_TRY(kernels_of(w, i, &all));
    if (w->how->cold) mba_l2_model_flush(w->l2);
    for (int l = 0; l < w->p->plan[i]->nlaunches; l++) {
        if (w->how->flush_per_launch) mba_l2_model_flush(w->l2);
        find_places(w, i, &all[l], place);
        mba_l2_model_access(w->l2, &all[l], place);
        set_fetch(&all[l], w->m);
        mba_sim_kernel changed;
        if (w->how->before_launch) { // nodes share a plan's kernels, so the hook changes a copy
            changed = all[l];
            w->how->before_launch(w->how->of, w->p, i, l, &changed);
        }
        mba_sim_kernel *k = w->how->before_launch ? &changed : &all[l];
        k->load = k->total[MBA_P_MMA] > 0 && k->mma_flops % 100 != 32 ? w->load : 0;
        const key     h = key_of(k, w->m, w->fidelity);
        const int64_t of = find_known(w->sim, h);
        w->resets[w->nlaunches] = k->resets;
        w->stored[w->nlaunches] = unique_stored(k);
        w->counted[w->nlaunches] = k->counted;
        w->known[w->nlaunches++] = of < 0 ? w->sim->n : of;
        if (of < 0) MBA_TRY(add_job(w, k, h));
    }
    return MBA_OK;
}

/* Messages are per thread, so the calling thread repeats a failed job to set its own. */
static mba_status run_jobs(step_run *w)
{
    known *of = w->sim->known;
    mba_assert(w->first + w->njobs == w->sim->n && w->ran <= w->njobs);
#pragma omp parallel for schedule(dynamic, 1)
    for (int64_t j = w->ran; j < w->njobs; j++)
        w->jobs[j].st = mba_sim_run(&of[w->first + j].r, &w->jobs[j].kernel, w->m, w->fidelity);
    for (; w->ran < w->njobs; w->ran++)
        if (w->jobs[w->ran].st != MBA_OK)
            return mba_sim_run(&of[w->first + w->ran].r, &w->jobs[w->ran].kernel, w->m, w->fidelity);
    return MBA_OK;
}

static void add_launch(mba_sim_step *out, mba_sim_node *n, const mba_sim_result *r, double gap, double reset,
                       double *longest)
{
    n->seconds += r->seconds + (n->launches ? gap : 0) + reset;
    n->kernels_s += r->seconds;
    n->dram_read += r->dram_read;
    n->dram_write += r->dram_write;
    n->floor_s += r->bound[r->limit];
    for (int p = 0; p < MBA_PIPES; p++) n->busy[p] += r->busy[p] * r->seconds;
    if (r->seconds > *longest) {
        *longest = r->seconds;
        n->limit = r->limit;
    }
    n->launches++;
    out->seconds += r->seconds + gap + reset;
    out->resets_s += reset;
    out->kernels_s += r->seconds;
    out->dram_read += r->dram_read;
    out->dram_write += r->dram_write;
    out->l2_bytes += r->l2_read + r->l2_write;
    out->cycles += r->cycles;
    for (int p = 0; p < MBA_PIPES; p++) out->work[p] += r->work[p];
    out->launches++;
}

/* The next inputs come from the host while a step of `seconds` runs; before it they are copied to where it reads. */
static double inputs_of(const step_run *w, double seconds)
{
    const double *v = w->m->v, bytes = (double)w->p->layout.arena_bytes[MBA_INPUT],
                 host = bytes / (1e9 * v[MBA_GPU_h2d]), copy = 2 * bytes / (1e9 * v[MBA_GPU_hbm] * v[MBA_GPU_hbm_mix]);
    return copy + (host > seconds ? host - seconds : 0);
}

/* Sums the results of all launches over nodes and over the step. */
static void add_up(mba_sim_step *out, const step_run *w)
{
    const double gap = 1e-6 * w->m->v[w->how->stream ? MBA_GPU_gap_stream : MBA_GPU_gap_graph],
                 reset = 1e-6 * w->m->v[MBA_GPU_gap_reset];
    int64_t at = 0;
    for (int32_t i = 0; i < w->p->graph->nnodes; i++) {
        double longest = -1;
        if (!runs(w, i)) continue;
        for (int l = 0; l < w->p->plan[i]->nlaunches; l++) {
            const mba_sim_result *r = &w->sim->known[w->known[at++]].r;
            out->launch[out->launches] = (mba_sim_launch){
                .node = i,
                .place = l,
                .limit = r->limit,
                .seconds = r->seconds,
                .dram_read = r->dram_read,
                .dram_write = r->dram_write,
                .floor_s = r->bound[r->limit],
                .counted = w->counted[at - 1],
                .stored = w->stored[at - 1],
            };
            add_launch(out, &out->node[i], r, gap, w->resets[at - 1] ? reset : 0, &longest);
        }
        for (int p = 0; p < MBA_PIPES && out->node[i].kernels_s > 0; p++)
            out->node[i].busy[p] /= out->node[i].kernels_s;
    }
    mba_assert(at == w->nlaunches && out->launches == at); // every launch counts once
    if ((w->how->passes & MBA_STEP) == MBA_STEP) out->inputs_s = inputs_of(w, out->seconds);
    out->seconds += out->inputs_s;
    out->unique = w->njobs;
    for (int64_t j = 0; j < w->njobs; j++) out->events += w->sim->known[w->first + j].r.events;
}

/* Tensor utilisation of a whole step, of 256; 0: it has no tensor work, or it is not a whole step. */
static int64_t load_of(const step_run *w)
{
    double busy = 0, all = 0;
    if ((w->how->passes & MBA_STEP) != MBA_STEP) return 0;
    for (int64_t i = 0; i < w->nlaunches; i++) {
        const mba_sim_result *r = &w->sim->known[w->known[i]].r;
        busy += r->bound[MBA_P_MMA];
        all += r->seconds;
    }
    return all > 0 ? (int64_t)(256 * busy / all + 0.5) : 0;
}

/* One pass: all launches in order, then the kernels that are not in the cache. */
static mba_status simulate_nodes(step_run *w)
{
    mba_status st = mba_l2_model_create(&w->l2, lay_arenas(w), w->m);
    w->nlaunches = 0;
    for (int32_t i = 0; i < w->p->graph->nnodes && st == MBA_OK; i++)
        if (runs(w, i)) st = simulate_node(w, i);
    if (st == MBA_OK) st = run_jobs(w);
    mba_l2_model_destroy(w->l2);
    w->l2 = NULL;
    return st;
}

/* Removes the results after the first `done` from the cache: their jobs did not run to the end. */
static void forget_undone(mba_sim *s, int64_t done)
{
    mba_assert(done <= s->n);
    mba_lookup_free(&s->by_key);
    for (s->n = 0; s->n < done && mba_lookup_add(&s->by_key, s->known[s->n].key.a); s->n++) continue;
}

mba_status mba_sim_program(mba_sim_step *out, mba_sim *s, const mba_program *p, const mba_gpu *m,
                           const mba_sim_how *how)
{
    step_run w = { .sim = s,
                   .first = s->n,
                   .p = p,
                   .m = m,
                   .how = how,
                   .load = how->load,
                   .fidelity = how->bounds     ? MBA_SIM_BOUNDS
                               : how->fidelity ? how->fidelity
                                               : MBA_SIM_ONE_SM };
    int64_t  launches = 0;
    *out = (mba_sim_step){ 0 };
    MBA_TRY(check_keep(p, how->keep));
    for (int32_t i = 0; i < p->graph->nnodes; i++) launches += p->plan[i]->nlaunches;
    *out = (mba_sim_step){ .node = calloc((size_t)p->graph->nnodes + 1, sizeof *out->node),
                           .launch = calloc((size_t)launches + 1, sizeof *out->launch) };
    w.plans = calloc((size_t)p->graph->nnodes + 1, sizeof *w.plans);
    w.known = calloc((size_t)launches + 1, sizeof *w.known);
    w.resets = calloc((size_t)launches + 1, sizeof *w.resets);
    w.stored = calloc((size_t)launches + 1, sizeof *w.stored);
    w.counted = calloc((size_t)launches + 1, sizeof *w.counted);
    mba_status st = out->node && out->launch && w.plans && w.known && w.resets && w.stored && w.counted
                        ? MBA_OK
                        : mba_fail(MBA_E_NOMEM, "no memory for %lld launches", (long long)launches);
    if (st == MBA_OK) st = simulate_nodes(&w);
    if (st == MBA_OK && !how->load && (w.load = load_of(&w)) > 0) st = simulate_nodes(&w);
    out->load = w.load;
    if (st == MBA_OK) add_up(out, &w);
    else forget_undone(s, w.first + w.ran);
    for (int64_t k = 0; k < w.nplans; k++) free(w.plans[k].kernel);
    free(w.plans);
    free(w.known);
    free(w.resets);
    free(w.stored);
    free(w.counted);
    free(w.jobs);
    if (st != MBA_OK) mba_sim_step_free(out);
    return st;
}

void mba_sim_step_free(mba_sim_step *r)
{
    free(r->node);
    free(r->launch);
    r->node = NULL;
    r->launch = NULL;
}

double mba_sim_roofline(const mba_node *n, const mba_gpu *m)
{
    const mba_cost c = n->op->cost(n);
    bool           half = false;
    for (int k = 0; k < MBA_IN_MAX; k++) half |= n->in[k] && n->in[k]->type.dtype == MBA_BF16;
    const double *v = m->v, hz = v[MBA_GPU_clk] * 1e9 * v[MBA_GPU_sm];
    const double  tensor = c.tensor_flops
                          / (mba_sim_product_rate(half      ? 16
                                                  : n->tf32 ? 19
                                                            : 32,
                                                  m)
                             * hz),
                 vector = c.vector_flops / (2 * v[MBA_GPU_fma] * hz), special = c.special_ops / (v[MBA_GPU_xu] * hz),
                 bytes = (c.read_bytes + c.write_bytes) / (v[MBA_GPU_hbm] * 1e9);
    double most = bytes;
    if (tensor > most) most = tensor;
    if (vector > most) most = vector;
    if (special > most) most = special;
    return most;
}
