// SPDX-License-Identifier: Apache-2.0
/* step_plan.c -- see step_plan.h. */
#include "cli/step_plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cliffs.h"
#include "cli/say.h"
#include "core/print.h"
#include "data/json.h"
#include "ops/collectives/collectives.h"

/* The keys of a batch: batch and length, batch and image, or graphs, max_nodes and max_edges. */
static void put_shape(json_t *o, const mba_model *m)
{
    const struct {
        const char *key;
        mba_task    task;
        int64_t     value;
    } shape[] = {
        { "batch", MBA_TASK_TEXT, m->lm.batch },          { "length", MBA_TASK_TEXT, m->lm.length },
        { "batch", MBA_TASK_IMAGES, m->vision.batch },    { "image", MBA_TASK_IMAGES, m->vision.image },
        { "graphs", MBA_TASK_GRAPHS, m->graph.graphs },   { "max_nodes", MBA_TASK_GRAPHS, m->graph.nodes },
        { "max_edges", MBA_TASK_GRAPHS, m->graph.edges },
    };
    for (size_t i = 0; i < sizeof shape / sizeof *shape; i++)
        if (shape[i].task == m->task) json_object_set_new(o, shape[i].key, json_integer((json_int_t)shape[i].value));
}

/* Bytes of activations that the backward pass could recompute: those that are saved, or those that are recomputed. */
static int64_t kept_bytes(const mba_session *s, bool kept)
{
    int64_t bytes = 0;
    for (int k = 0; k < MBA_RECOMPUTE_KINDS; k++) bytes += kept ? s->graph->kept[k] : s->graph->recomputed_bytes[k];
    return bytes;
}

static json_t *cost_json(const mba_session *s)
{
    const mba_cost         c = mba_graph_cost(s->graph, MBA_STEP);
    const mba_memory_plan *lay = &s->program->layout;
    json_t                *memory = json_object();
    for (int r = 0; r < MBA_ROLES; r++)
        if (lay->role_bytes[r])
            json_object_set_new(memory, mba_role_name((mba_role)r), json_integer((json_int_t)lay->role_bytes[r]));
    if (mba_program_ahead_bytes(s->program))
        json_object_set_new(memory, "inputs of the next run",
                            json_integer((json_int_t)mba_program_ahead_bytes(s->program)));
    json_object_set_new(memory, "step arena", json_integer((json_int_t)lay->arena_bytes[MBA_ACT]));
    json_t *o = json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:b, s:i, s:{s:f, s:f, s:f}, s:{s:f, s:f}, s:o}", "model",
                          mba_model_name(&s->model), "task", mba_task_name(s->model.task), "parameters",
                          (json_int_t)mba_session_parameters(s), "plan_bytes",
                          (json_int_t)mba_program_bytes(s->program), "kept_bytes", (json_int_t)kept_bytes(s, true),
                          "remade_bytes", (json_int_t)kept_bytes(s, false), "recompute", (int)s->recomputes, "nodes",
                          (int)s->graph->nnodes, "flops", "tensor", c.tensor_flops, "vector", c.vector_flops, "special",
                          c.special_ops, "bytes", "read", c.read_bytes, "write", c.write_bytes, "memory", memory);
    put_shape(o, &s->model);
    return o;
}

/* Replaces the first number after "layers." or "blocks." by a star. */
static void fold(char *out, size_t room, const char *name)
{
    static const char *const word[] = { "layers.", "blocks." };
    for (int i = 0; i < 2; i++) {
        const char  *at = strstr(name, word[i]), *number = at ? at + strlen(word[i]) : NULL;
        const size_t digits = number ? strspn(number, "0123456789") : 0;
        if (!digits) continue;
        snprintf(out, room, "%.*s*%s", (int)(number - name), name, number + digits);
        return;
    }
    snprintf(out, room, "%s", name);
}

typedef struct parameter_row {
    char    name[96];
    int64_t n, count;
} parameter_row;

static int collect_rows(parameter_row *rows, const mba_session *s)
{
    int n = 0;
    for (int32_t i = 0; i < s->graph->ntensors; i++) {
        const mba_tensor *t = s->graph->tensors[i];
        parameter_row     row = { .n = 0 };
        int               k = 0;
        if (!mba_is_param(t)) continue;
        fold(row.name, sizeof row.name, t->name);
        while (k < n && strcmp(rows[k].name, row.name)) k++;
        if (k == n) rows[n++] = row;
        rows[k].n += mba_elems(t);
        rows[k].count++;
    }
    return n;
}

/* Prints the parameters by name, all layers in one row. */
static mba_status print_parameters(FILE *f, const mba_session *s)
{
    parameter_row *rows = calloc((size_t)s->graph->ntensors, sizeof *rows);
    if (!rows) return mba_fail(MBA_E_NOMEM, "no memory for a table of the parameters");
    const int n = collect_rows(rows, s);
    fprintf(f, "%-40s %8s %14s\n", "parameter", "tensors", "elements");
    for (int k = 0; k < n; k++)
        fprintf(f, "%-40s %8lld %14lld\n", rows[k].name, (long long)rows[k].count, (long long)rows[k].n);
    fprintf(f, "%-40s %8s %14lld\n\n", "total", "", (long long)mba_session_parameters(s));
    free(rows);
    return MBA_OK;
}

static void print_cost(FILE *f, const mba_session *s)
{
    fprintf(f, "%-10s %14s %14s %14s %12s %12s\n", "pass", "tensor GFLOP", "vector GFLOP", "special Gop", "read GB",
            "written GB");
    for (unsigned pass = MBA_FORWARD; pass <= MBA_STEP; pass = pass == MBA_UPDATE ? MBA_STEP
                                                               : pass == MBA_STEP ? MBA_STEP + 1
                                                                                  : pass << 1) {
        const mba_cost c = mba_graph_cost(s->graph, pass);
        fprintf(f, "%-10s %14.3f %14.3f %14.3f %12.3f %12.3f\n",
                pass == MBA_STEP ? "step" : mba_pass_name((mba_pass)pass), c.tensor_flops / 1e9, c.vector_flops / 1e9,
                c.special_ops / 1e9, c.read_bytes / 1e9, c.write_bytes / 1e9);
    }
    fputs("(least work of any implementation; an FMA is 2 FLOP; a step needs less than the sum of its passes\n"
          " if the backward pass computes the loss as well)\n\n",
          f);
}

/* How much of the recomputable activations is saved; `--memory` decides (train/session.h). */
static void print_kept(FILE *f, const mba_session *s)
{
    static const char *const name[MBA_RECOMPUTE_KINDS] = { "gated norm outputs", "SSD states", "cheap activations" };
    const mba_size_unit      u = mba_size_unit_of(mba_program_bytes(s->program));
    for (int k = 0; k < MBA_RECOMPUTE_KINDS; k++)
        if (s->graph->kept[k] + s->graph->recomputed_bytes[k])
            fprintf(f, "%-22s %12.3f %s saved, %.3f %s recomputed\n", name[k], (double)s->graph->kept[k] / u.bytes,
                    u.name, (double)s->graph->recomputed_bytes[k] / u.bytes, u.name);
}

/* ---- one of several ranks ---- */

/* What a rank sends in a step, and in how many exchanges. */
typedef struct sent {
    double  summed, gathered, norms, states;
    int64_t buckets, exchanges;
} sent;

static sent sent_by(const mba_session *s)
{
    sent x = { 0 };
    for (int32_t i = 0; i < s->graph->nnodes; i++) {
        const mba_node *n = s->graph->nodes[i];
        const mba_cost  c = n->op->cost(n);
        mba_exchange    e[MBA_EXCHANGE_MAX];
        const bool      sums = n->op == &mba_op_reduce_scatter || n->op == &mba_op_allreduce;
        if (n->op->kind != MBA_COLLECTIVE) x.norms += c.link_bytes;
        else *(sums ? &x.summed : n->op == &mba_op_all_gather ? &x.gathered : &x.states) += c.link_bytes;
        if (n->op->kind == MBA_COLLECTIVE) x.exchanges += mba_collective_exchanges(e, n);
        x.buckets += sums;
    }
    return x;
}

static void print_ranks(FILE *f, const mba_session *s)
{
    const sent          x = sent_by(s);
    const double        all = x.summed + x.gathered + x.norms + x.states;
    const mba_size_unit u = mba_size_unit_of((int64_t)all);
    if (s->place.ranks < 2) return;
    fprintf(f, "\nrank %lld of %lld: the plan above is its memory; it sends %.3f %s a step in %lld exchanges\n",
            (long long)s->place.rank, (long long)s->place.ranks, all / u.bytes, u.name, (long long)x.exchanges);
    fprintf(f, "  gradients %.3f %s in %lld buckets, parameters %.3f %s, sums of squares %.6f %s\n", x.summed / u.bytes,
            u.name, (long long)x.buckets, x.gathered / u.bytes, u.name, x.norms / u.bytes, u.name);
    if (x.states > 0) fprintf(f, "  to the other parts of its sequences %.3f %s\n", x.states / u.bytes, u.name);
    fputs("  assumed: moments and update are divided among ranks (ZeRO-1; LAMB: not), exchanges with rank xor 1, 2, 4, "
          "..;\n"
          "  sums of several micro-batches need one more gradient per doubling of their number\n"
          "  (mambascope simulate --gpus says how long it takes)\n",
          f);
}

static json_t *ranks_json(const mba_session *s)
{
    const sent x = sent_by(s);
    return json_pack("{s:I, s:I, s:I, s:I, s:f, s:f, s:f, s:f}", "rank", (json_int_t)s->place.rank, "ranks",
                     (json_int_t)s->place.ranks, "buckets", (json_int_t)x.buckets, "exchanges", (json_int_t)x.exchanges,
                     "gradient_bytes", x.summed, "parameter_bytes", x.gathered, "norm_bytes", x.norms, "sequence_bytes",
                     x.states);
}

/* ---- on a machine that is not here ---- */

/* Tokens, images or graphs of an update. */
static double units_of(const mba_on_machine *m)
{
    return (double)m->micros * (double)mba_model_units(&m->sim.session.model);
}

static void print_on_machine(FILE *f, const mba_on_machine *m, bool alone)
{
    const char *name = m->sim.gpu.name;
    if (!m->fits) {
        mba_say(f,
                "does not fit in the %.4g GB of %s: it needs at least %.1f GB, and %.1f GB to save all activations\n"
                "a smaller --batch with more --micro-batches needs less\n",
                m->machine_gb, name, m->plan_gb, m->whole_gb);
        return;
    }
    if (m->whole_gb > m->limit_gb)
        mba_say(f,
                "does not fit in the %.4g GB of %s with all activations saved (%.1f GB): needs --memory %.4gGB\n"
                "the plan is then %.1f GB, and the backward pass recomputes the activations that are not saved\n",
                m->machine_gb, name, m->whole_gb, m->limit_gb, m->plan_gb);
    else if (m->whole_gb > m->plan_gb)
        mba_say(f, "fits in %.4g GB (%s): the plan is %.1f GB; --memory %.4gGB saves all activations (%.1f GB)\n",
                m->machine_gb, name, m->plan_gb, m->limit_gb, m->whole_gb);
    else
        mba_say(f, "fits in %.4g GB (%s): the plan is %.1f GB, all activations are saved\n", m->machine_gb, name,
                m->plan_gb);
    mba_say(
        f,
        "SIMULATED step on %s%s: %.1f ms, band %.1f to %.1f ms, %.0f %s/s (grade %c; mambascope simulate shows it by "
        "operator)\n",
        name, alone ? "" : ", without communication", 1e3 * m->seconds, 1e3 * m->seconds * m->band.low,
        1e3 * m->seconds * m->band.high, units_of(m) / m->seconds, mba_task_unit(m->sim.session.model.task),
        mba_simulated_grade(&m->sim.gpu));
}

static json_t *json_on_machine(const mba_on_machine *m)
{
    const double ms = 1e3 * m->seconds;
    json_t      *o = json_pack("{s:s, s:f, s:b, s:f, s:f}", "name", m->sim.gpu.name, "memory_gb", m->machine_gb, "fits",
                               (int)m->fits, "plan_gb", m->plan_gb, "whole_gb", m->whole_gb);
    if (m->fits)
        json_object_set_new(o, "simulated",
                            json_pack("{s:f, s:[f,f], s:f, s:s%}", "step_ms", ms, "band_ms", ms * m->band.low,
                                      ms * m->band.high, "units_per_s", units_of(m) / m->seconds, "grade",
                                      (char[]){ mba_simulated_grade(&m->sim.gpu), 0 }, (size_t)1));
    return o;
}

static json_t *cliffs_json(const mba_cliffs *c)
{
    json_t *a = json_array();
    for (int i = 0; i < c->n; i++) {
        const mba_cliff *k = &c->of[i];
        json_array_append_new(a, json_pack("{s:s, s:s, s:s, s:s, s:s, s:f, s:f}", "operator", k->op, "variant",
                                           k->variant, "best", k->best, "why", k->why, "fix", k->mend, "slower",
                                           k->slower, "step_part", k->step_part));
    }
    return a;
}

mba_status mba_step_plan_print(const mba_session *s, const mba_on_machine *there, const mba_cliffs *slow, bool json)
{
    if (json) {
        mba__json_begin();
        json_t *o = cost_json(s);
        if (there) json_object_set_new(o, "machine", json_on_machine(there));
        if (s->place.ranks > 1) json_object_set_new(o, "ranks", ranks_json(s));
        if (slow->n) json_object_set_new(o, "slow", cliffs_json(slow));
        const mba_status st = mba_json_print(stdout, o, 15);
        json_decref(o);
        return st;
    }
    const mba_status st = print_parameters(stdout, s);
    print_cost(stdout, s);
    mba_program_print_memory(stdout, s->program);
    print_kept(stdout, s);
    print_ranks(stdout, s);
    if (there) putchar('\n'), print_on_machine(stdout, there, s->place.ranks < 2);
    mba_cliffs_print(stdout, slow);
    return st;
}
