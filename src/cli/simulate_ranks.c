// SPDX-License-Identifier: Apache-2.0
/* simulate_ranks.c -- see simulate_ranks.h: prints the assumptions, then one row per number of ranks. */
#include "cli/simulate_ranks.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/say.h"
#include "scope/describe.h"
#include "scope/store.h"
#include "sim/machine.h"
#include "study/scaling.h"

enum { COUNTS_MAX = 32 };

/* The step of one rank, simulated or measured. */
typedef struct one_rank {
    mba_simulated     sim;     /* where it is simulated */
    mba_session       session; /* where it is measured */
    double           *node_s;
    double            units;
    mba_scaling_input in;
} one_rank;

/* ---- the step of one rank ---- */

static mba_status simulate_one(one_rank *r, const mba_workload *w)
{
    mba_sim   *sim = NULL;
    mba_status st = mba_sim_create(&sim);
    if (st == MBA_OK) st = mba_simulated_run(&r->sim, w, sim);
    mba_sim_destroy(sim);
    if (st == MBA_OK) st = mba_simulated_options(&r->in.rank, &r->sim, w);
    if (st != MBA_OK) return st;
    const int32_t n = r->sim.session.graph->nnodes;
    if (!(r->node_s = calloc((size_t)n + 1, sizeof *r->node_s))) return mba_fail(MBA_E_NOMEM, "no memory for times");
    for (int32_t i = 0; i < n; i++) r->node_s[i] = r->sim.step.node[i].seconds;
    const mba_gpu *m = &r->sim.gpu;
    r->units = r->sim.units;
    r->in.node_s = r->node_s;
    r->in.one = &r->sim.session;
    r->in.step_s = r->sim.step.seconds;
    r->in.add_bps = 1e9 * m->v[MBA_GPU_hbm] * m->v[MBA_GPU_hbm_mix];
    r->in.sms = m->v[MBA_GPU_sm];
    return MBA_OK;
}

static mba_status other_workload(const char *path, const char *why)
{
    return mba_fail(
        MBA_E_ARG,
        "'%s' holds another step than the one that is asked for\nwhy: %s\nfix: give --model, --model-set and "
        "sizes as `profile` had them, of one rank",
        path, why);
}

/* The shortest time of every node over the steps of the timeline. */
static mba_status read_nodes(one_rank *r, mba_store *s, const char *path)
{
    mba_row_node  *node;
    mba_row_event *event;
    int64_t        nodes, events;
    MBA_TRY(mba_load_node(s, &node, &nodes));
    MBA_TRY(mba_load_event(s, &event, &events));
    if (nodes != r->session.graph->nnodes) return other_workload(path, "it has another number of operators");
    for (int64_t i = 0; i < nodes; i++) {
        char shape[1024]; // as scope/describe_program.c stores it
        mba_node_shape(shape, sizeof shape, r->session.graph->nodes[i]);
        if (strcmp(node[i].op, r->session.graph->nodes[i]->op->name))
            return other_workload(path, "its operators are others");
        if (strcmp(node[i].shape, shape)) return other_workload(path, "its operators have other shapes");
    }
    for (int64_t i = 0; i < nodes; i++) r->node_s[i] = NAN;
    for (int64_t i = 0; i < events; i++)
        if (event[i].node >= 0 && event[i].node < nodes
            && !(r->node_s[event[i].node] <= 1e-9 * (double)event[i].duration_ns))
            r->node_s[event[i].node] = 1e-9 * (double)event[i].duration_ns;
    for (int64_t i = 0; i < nodes; i++)
        if (isnan(r->node_s[i])) r->node_s[i] = 0;
    return MBA_OK;
}

static mba_status read_step(one_rank *r, mba_store *s, const char *path)
{
    mba_row_step    *step;
    mba_row_ceiling *ceiling;
    int64_t          steps, ceilings;
    MBA_TRY(mba_load_step(s, &step, &steps));
    MBA_TRY(mba_load_ceiling(s, &ceiling, &ceilings));
    r->in.step_s = NAN;
    for (int64_t i = 0; i < steps; i++)
        if (!strcmp(step[i].mode, "plain") && !(r->in.step_s <= step[i].seconds))
            r->in.step_s = step[i].seconds, r->units = step[i].units;
    for (int64_t i = 0; i < ceilings; i++)
        if (!strcmp(ceiling[i].name, "dram")) r->in.add_bps = ceiling[i].rate;
    if (!(r->in.step_s > 0) || !(r->in.add_bps > 0))
        return mba_fail(MBA_E_FORMAT, "'%s' has no plain step, or no memory ceiling\nfix: profile one rank again",
                        path);
    return MBA_OK;
}

static mba_status measured_one(one_rank *r, const mba_workload *w, const char *path)
{
    mba_store *s = NULL;
    r->in.rank = (mba_session_options){ .backward = true, .update = true, .adamw = mba_adamw_defaults() };
    MBA_TRY(mba_model_options_apply(&w->model, &r->in.rank));
    MBA_TRY(mba_session_outline(&r->session, &r->in.rank));
    r->node_s = calloc((size_t)r->session.graph->nnodes + 1, sizeof *r->node_s);
    if (!r->node_s) return mba_fail(MBA_E_NOMEM, "no memory for times");
    r->in.node_s = r->node_s;
    r->in.one = &r->session;
    MBA_TRY(mba_store_open(&s, path));
    mba_status st = read_nodes(r, s, path);
    if (st == MBA_OK) st = read_step(r, s, path);
    const mba_status closed = mba_store_close(s);
    return st == MBA_OK ? closed : st;
}

/* ---- the table ---- */

static const mba_column columns[] = { { "ranks", "GPUs", "%.0f" },
                                      { "node_gb", "sent in node, GB", "%.2f" },
                                      { "net_gb", "to others, GB", "%.2f" },
                                      { "sum_ms", "reduce-scatter, ms", "%.2f" },
                                      { "gather_ms", "all-gather, ms", "%.2f" },
                                      { "latency_ms", "latency, ms", "%.2f" },
                                      { "exposed_ms", "exposed, ms", "%.2f" },
                                      { "overlap", "overlap, %", "%.0f" },
                                      { "compute_ms", "passes, ms", "%.2f" },
                                      { "update_ms", "update, ms", "%.2f" },
                                      { "skew_ms", "skew, ms", "%.2f" },
                                      { "step_ms", "step, ms", "%.2f" },
                                      { "efficiency", "efficiency, %", "%.1f" },
                                      { "units", "per step", "%.0f" },
                                      { 0 } };

static void point_row(mba_table *t, const mba_scaling_point *p, double units)
{
    const mba_link_time *s = &p->sums, *g = &p->gathers;
    mba_table_number(t, (double)p->ranks);
    mba_table_number(t, (s->node_bytes + g->node_bytes) / 1e9);
    mba_table_number(t, (s->net_bytes + g->net_bytes) / 1e9);
    mba_table_number(t, 1e3 * (s->node_s + s->net_s + p->adding_s));
    mba_table_number(t, 1e3 * (g->node_s + g->net_s));
    mba_table_number(t, 1e3 * (s->latency_s + g->latency_s));
    mba_table_number(t, 1e3 * p->exposed_s);
    mba_table_number(t, p->comm_s > 0 ? 100 * (1 - p->exposed_s / p->comm_s) : NAN);
    mba_table_number(t, p->ranks > 1 ? 1e3 * p->compute_s : NAN);
    mba_table_number(t, p->ranks > 1 ? 1e3 * p->update_s : NAN);
    mba_table_number(t, 1e3 * p->skew_s);
    mba_table_number(t, 1e3 * p->step_s);
    mba_table_number(t, 100 * p->efficiency);
    mba_table_number(t, units * (double)p->ranks);
}

static void print_assumptions(const mba_simulate_ranks_options *o, const one_rank *r, const mba_links *c,
                              const mba_scaling_point *p)
{
    const mba_session *s = r->in.one;
    mba_say(stdout, "%s: %s, %s a rank, %s, cluster %s\n\n",
            o->measured ? "PREDICTED from one measured rank" : "SIMULATED", mba_model_name(&s->model),
            mba_model_batch_words(&s->model).text, o->measured ? o->measured : r->sim.gpu.name, c->name);
    printf("assumed: every rank has the same batch (weak scaling); ZeRO-1: %.2f GB of gradients are added in %lld "
           "buckets\nand %.2f GB of parameters gathered; moments and update are divided among ranks\n",
           p->summed_bytes / 1e9, (long long)p->buckets, p->gathered_bytes / 1e9);
    printf("exchanges by recursive halving and doubling, nearest rank first: latency + bytes / bandwidth, %.0f ranks a "
           "node:\n  node %.4g GB/s x %.3g, %.3g us; network %.0f x %.4g GB/s x %.3g a node, %.3g us; start %.3g us\n",
           c->v[MBA_LINK_gpus_node], c->v[MBA_LINK_node_link], c->v[MBA_LINK_node_eff], c->v[MBA_LINK_node_lat],
           c->v[MBA_LINK_nics_node], c->v[MBA_LINK_net_link], c->v[MBA_LINK_net_eff], c->v[MBA_LINK_net_lat],
           c->v[MBA_LINK_start]);
    printf(
        "received values are added at %.4g GB/s; full bisection, no other traffic; the slowest rank is behind by the "
        "mean\nof the largest of R normal draws of %.2g %% of the passes\n",
        r->in.add_bps / 1e9, 100 * c->v[MBA_LINK_skew]);
    if (r->in.overlap)
        printf("sums run beside the backward pass and gathers beside updates; meanwhile they take %.0f of %.0f SMs\n",
               c->v[MBA_LINK_comm_sms], r->in.sms);
    else puts("collectives and computation do not overlap");
    if (c->v[MBA_LINK_cores_node] > 0)
        printf("ranks of a node share %.0f cores: beyond that, work and messages take as many times longer; with all "
               "cores busy %.3g %%\n",
               c->v[MBA_LINK_cores_node], 100 * c->v[MBA_LINK_contention]);
    putchar('\n');
}

static void print_strong(const one_rank *r, const mba_scaling_point *p)
{
    const double target = 4194304;
    if (r->in.one->model.task != MBA_TASK_TEXT || !(r->units * (double)p->ranks > target)) return;
    printf("\na fixed global batch of 4 Mi tokens has one micro-batch a rank at %.0f ranks; beyond, batches grow\n",
           target / r->units);
}

static mba_status read_counts(int64_t *count, int *n, const char *text)
{
    for (*n = 0; *text; text += *text == ',') {
        char           *end;
        const long long v = strtoll(text, &end, 10);
        if (end == text || (*end && *end != ',') || v < 1 || v > 65536 || *n == COUNTS_MAX)
            return mba_fail(MBA_E_ARG, "--gpus '%s' is no list of numbers of ranks\nfix: --gpus 8,64,512", text);
        count[(*n)++] = v;
        text = end;
    }
    return *n ? MBA_OK : mba_fail(MBA_E_ARG, "--gpus is empty\nfix: --gpus 8,64,512");
}

static mba_status fill(mba_table *t, const mba_simulate_ranks_options *o, const one_rank *r)
{
    int64_t           count[COUNTS_MAX];
    int               n;
    mba_scaling_point p = { 0 };
    MBA_TRY(read_counts(count, &n, o->gpus));
    MBA_TRY(mba_scaling_at(&p, &r->in, 1));
    if (count[0] != 1) point_row(t, &p, r->units);
    mba_scaling_point first = p;
    for (int i = 0; i < n; i++) {
        MBA_TRY(mba_scaling_at(&p, &r->in, count[i]));
        point_row(t, &p, r->units);
        if (!first.buckets) first = p;
    }
    if (o->form == MBA_TABLE_TEXT) print_assumptions(o, r, r->in.links, &first);
    MBA_TRY(mba_table_print(t, stdout, o->form));
    if (o->form == MBA_TABLE_TEXT) print_strong(r, &p);
    return MBA_OK;
}

mba_status mba_simulate_ranks(const mba_simulate_ranks_options *o)
{
    one_rank   r = { .units = 0 };
    mba_links  links;
    mba_table *t = NULL;
    MBA_TRY(mba_links_load(&links, o->cluster ? o->cluster : "ib400"));
    r.in.links = &links;
    r.in.overlap = !o->serial && !o->measured;
    mba_status st = mba_table_create(&t, columns);
    if (st == MBA_OK) st = o->measured ? measured_one(&r, o->w, o->measured) : simulate_one(&r, o->w);
    if (st == MBA_OK) st = fill(t, o, &r);
    mba_table_destroy(t);
    free(r.node_s);
    mba_session_end(&r.session);
    mba_simulated_end(&r.sim);
    return st;
}
