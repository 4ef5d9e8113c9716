// SPDX-License-Identifier: Apache-2.0
/* cliffs.c -- see cliffs.h. */
#include "study/cliffs.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "study/prediction_error.h"
#include "study/simulated_step.h"

/* A cliff is a variant more than SLOWER_LEAST times further from its floor than the best one, in an operator that takes
 * at least PART_LEAST of the step. */
static const double SLOWER_LEAST = 2, PART_LEAST = 0.02;

enum { MENDS_MAX = 512, OTHER_VALUES = 6 };

/* A change of one field; `by`: how far the value moves, as a factor. */
typedef struct mend {
    char   text[96];
    bool   precision; /* bf16 instead of fp32; no field */
    double by;
} mend;

typedef struct search {
    const mba_session_options *so;
    mba_simulated              here, there; /* the step as it is, and with the mend at hand */
    mba_sim                   *sim;
    mend                       mends[MENDS_MAX];
    int                        nmends;
} search;

/* ---- variants ---- */

static int rank_of(const mba_op *op, const char *variant)
{
    int k = 0;
    while (op->cuda[k].name && strcmp(op->cuda[k].name, variant)) k++;
    mba_assert(op->cuda[k].name);
    return k;
}

/* The last variant in order of preference that nodes of this operator run; -1: the step has no such node. */
static int worst_rank(const mba_session *s, const mba_op *op)
{
    int worst = -1;
    for (int32_t i = 0; i < s->graph->nnodes; i++) {
        const mba_node *n = s->graph->nodes[i];
        if (n->op != op || !mba_runs(n, MBA_STEP)) continue;
        const int k = rank_of(op, s->program->plan[i]->variant);
        if (k > worst) worst = k;
    }
    return worst;
}

static bool is_named(const char *variants, const char *op)
{
    const size_t n = strlen(op);
    for (const char *at = variants; at && (at = strstr(at, op)); at += n)
        if ((at == variants || at[-1] == ',') && at[n] == '=') return true;
    return false;
}

/* What the variant says about the first node that runs the one of rank `worst`: the first line of its refusal. */
static void ask_why(char *out, size_t room, const mba_session *s, const mba_op *op, int worst, int best)
{
    const mba_program *p = s->program;
    *out = 0;
    for (int32_t i = 0; i < s->graph->nnodes; i++) {
        const mba_node *n = s->graph->nodes[i];
        mba_plan        plan = { 0 };
        if (n->op != op || rank_of(op, p->plan[i]->variant) != worst) continue;
        const mba_plan *of = n->serves_node ? p->plan[n->serves_node->id] : NULL;
        if (mba_plan_variant(&plan, of, p->arena, n, &op->cuda[best], p->options.machine) != MBA_E_UNSUPPORTED)
            continue;
        snprintf(out, room, "%.*s", (int)strcspn(mba_message(), "\n"), mba_message());
        return;
    }
}

/* ---- mends ---- */

static int by_distance(const void *a, const void *b)
{
    const double x = ((const mend *)a)->by, y = ((const mend *)b)->by;
    return x < y ? -1 : x > y;
}

static void add_values(search *s, const mba_field *f, int64_t now)
{
    int64_t up = 1;
    while (up < now) up *= 2;
    const int64_t other[OTHER_VALUES] = { mba_ceil(now, 8) * 8, now / 8 * 8, mba_ceil(now, 64) * 64,
                                          now / 64 * 64,        up,          up / 2 };
    const int64_t most = f->most > 0 ? f->most : MBA_FIELD_MOST;
    for (int k = 0; k < OTHER_VALUES && s->nmends < MENDS_MAX; k++) {
        mend *m = &s->mends[s->nmends];
        bool  seen = other[k] == now || other[k] < 1 || other[k] < f->least || other[k] > most;
        for (int j = 0; j < k; j++) seen |= other[j] == other[k];
        if (seen) continue;
        *m = (mend){ .by = fabs(log((double)other[k] / (double)now)) };
        snprintf(m->text, sizeof m->text, "--set %s=%lld", f->name, (long long)other[k]);
        s->nmends++;
    }
}

/* Every number of the model that is a width, at the nearest multiples of 8 and 64 and powers of two; the nearest
 * first. How many layers, tokens or classes there are is what the user wants to train. */
static void list_mends(search *s)
{
    static const char *const kept[] = { "layers", "vocab", "image", "classes" };
    const mba_model         *m = &s->here.session.model;
    for (const mba_field *f = mba_task_fields(m->task); f->name; f++) {
        bool keep = f->kind != MBA_FIELD_INT || f->most == 1;
        for (size_t k = 0; k < sizeof kept / sizeof *kept; k++) keep |= !strcmp(f->name, kept[k]);
        const int64_t now = keep ? 0 : *(const int64_t *)mba_field_at(&m->lm, f);
        if (now > 0) add_values(s, f, now);
    }
    if (s->so->compute != MBA_BF16 && s->nmends < MENDS_MAX)
        s->mends[s->nmends++] = (mend){ .text = "--precision bf16", .precision = true, .by = INFINITY };
    qsort(s->mends, (size_t)s->nmends, sizeof *s->mends, by_distance);
}

static mba_status plan_with(mba_session *out, const search *s, const mba_device *d, const mend *m)
{
    mba_session_options so = *s->so;
    so.device = d;
    so.backward = so.update = true;
    so.memory_bytes = INT64_MAX; // memory decides about recomputation, not about variants
    if (m && m->precision) so.compute = MBA_BF16, so.tf32 = false;
    if (m && !m->precision) MBA_TRY(mba_model_set(&so.model, m->text + strlen("--set ")));
    return mba_session_plan(out, &so);
}

/* ---- comparing ---- */

/* The nodes of an operator in a simulated step: seconds, their floor, their part of the step. */
typedef struct amount {
    double seconds, floor_s, part;
} amount;

static amount amount_of(const mba_simulated *r, const mba_op *op)
{
    amount a = { 0 };
    for (int32_t i = 0; i < r->session.graph->nnodes; i++) {
        const mba_node *n = r->session.graph->nodes[i];
        if (n->op != op || !mba_runs(n, MBA_STEP)) continue;
        a.seconds += r->step.node[i].seconds;
        a.floor_s += mba_sim_roofline(n, &r->gpu);
    }
    a.part = a.seconds / r->step.seconds;
    return a;
}

/* How many times further from its floor. Another precision does the same work at another floor: there by time alone. */
static double slower_than(amount here, amount there, const mend *m)
{
    const double times = here.seconds / there.seconds;
    return m->precision || !(here.floor_s > 0) ? times : times * there.floor_s / here.floor_s;
}

static mba_status simulate(mba_simulated *r, mba_sim **sim)
{
    if (r->step.node) return MBA_OK;
    if (!*sim) MBA_TRY(mba_sim_create(sim));
    return mba_simulated_step(r, &(mba_workload){ 0 }, *sim);
}

static void forget(mba_simulated *r)
{
    mba_sim_step_free(&r->step);
    mba_session_end(&r->session);
    r->step = (mba_sim_step){ 0 };
}

/* Tries the nearest change with which the operator runs a better variant. *found: that is a cliff. */
static mba_status look(mba_cliff *c, bool *found, search *s, const mba_op *op, int worst)
{
    *found = false;
    MBA_TRY(simulate(&s->here, &s->sim));
    const amount here = amount_of(&s->here, op);
    if (here.part < PART_LEAST) return MBA_OK;
    for (int k = 0; k < s->nmends; k++) {
        const mend *m = &s->mends[k];
        if (here.seconds < SLOWER_LEAST * here.floor_s && !m->precision) continue; // no variant can be so much faster
        forget(&s->there);
        if (plan_with(&s->there.session, s, &s->there.device, m) != MBA_OK) continue; // not a possible model
        const int best = worst_rank(&s->there.session, op);
        if (best < 0 || best >= worst) continue;
        MBA_TRY(simulate(&s->there, &s->sim));
        *c = (mba_cliff){ .op = op->name,
                          .variant = op->cuda[worst].name,
                          .best = op->cuda[best].name,
                          .slower = slower_than(here, amount_of(&s->there, op), m),
                          .step_part = here.part };
        snprintf(c->mend, sizeof c->mend, "%s", m->text);
        ask_why(c->why, sizeof c->why, &s->here.session, op, worst, best);
        *found = c->slower > SLOWER_LEAST;
        return MBA_OK;
    }
    return MBA_OK;
}

static int by_part(const void *a, const void *b)
{
    const double x = ((const mba_cliff *)a)->step_part, y = ((const mba_cliff *)b)->step_part;
    return x > y ? -1 : x < y;
}

static mba_status find_all(mba_cliffs *out, search *s)
{
    for (int i = 0; mba_ops[i] && out->n < MBA_CLIFFS_MAX; i++) {
        const mba_op *op = mba_ops[i];
        bool          found;
        if (is_named(s->so->variants, op->name)) continue;
        const int worst = worst_rank(&s->here.session, op);
        if (worst < 1) continue;
        MBA_TRY(look(&out->of[out->n], &found, s, op, worst));
        out->n += found;
    }
    qsort(out->of, (size_t)out->n, sizeof *out->of, by_part);
    return MBA_OK;
}

mba_status mba_cliffs_find(mba_cliffs *out, const mba_session_options *so, const char *machine)
{
    search *s = calloc(1, sizeof *s);
    *out = (mba_cliffs){ .n = 0 };
    if (!s) return mba_fail(MBA_E_NOMEM, "no memory to compare variants");
    s->so = so;
    mba_status st = mba_simulated_machine(&s->here, machine, NULL);
    if (st == MBA_OK) st = mba_simulated_machine(&s->there, machine, NULL);
    if (st == MBA_OK) st = plan_with(&s->here.session, s, &s->here.device, NULL);
    if (st == MBA_OK) list_mends(s);
    if (st == MBA_OK) st = find_all(out, s);
    mba_simulated_end(&s->there);
    mba_simulated_end(&s->here);
    mba_sim_destroy(s->sim);
    free(s);
    return st;
}

const char *mba_cliffs_machine(const mba_machine *gpu)
{
    const char *name = gpu->name && gpu->cc ? mba_machine_for_gpu(gpu->name) : NULL;
    for (int i = 0; gpu->cc && !name && mba_gpu_name(i); i++) {
        mba_gpu m;
        if (mba_gpu_load(&m, mba_gpu_name(i)) == MBA_OK && mba_gpu_for_plans(&m).cc == gpu->cc) name = mba_gpu_name(i);
    }
    return name;
}
