// SPDX-License-Identifier: Apache-2.0
/* whatif_machines.c -- see whatif_parts.h: a step on every machine, with the software as it is and with equal
 * kernels. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "study/whatif_parts.h"

enum { NAME_ROOM = 48 };

/* Which variant of an operator each machine chooses, for the first of its nodes; "": the machine cannot run the step.
 * several: other nodes have another. */
typedef struct choice {
    char op[NAME_ROOM], variant[MBA_WI_MACHINES][NAME_ROOM];
    bool several[MBA_WI_MACHINES];
} choice;
typedef struct choices {
    choice one[MBA_WI_OPS];
    int    n;
} choices;

static choice *choice_of(choices *all, const char *op)
{
    for (int i = 0; i < all->n; i++)
        if (!strcmp(all->one[i].op, op)) return &all->one[i];
    if (all->n == MBA_WI_OPS) return NULL;
    choice *c = &all->one[all->n++];
    *c = (choice){ .op = "" };
    snprintf(c->op, sizeof c->op, "%s", op);
    return c;
}

static mba_wi_op *op_named(mba_wi_model *m, const char *name)
{
    for (int i = 0; i < m->nops; i++)
        if (!strcmp(m->op[i].name, name)) return &m->op[i];
    if (m->nops == MBA_WI_OPS) return NULL;
    mba_wi_op *o = &m->op[m->nops++];
    snprintf(o->name, sizeof o->name, "%s", name);
    return o;
}

/* The times of the operators, and the variants that were chosen. */
static void note_operators(mba_wi_model *m, choices *all, const mba_simulated *r, int machine)
{
    for (int32_t i = 0; i < r->session.graph->nnodes; i++) {
        const char *op = r->session.graph->nodes[i]->op->name, *variant = r->session.program->plan[i]->variant;
        mba_wi_op  *o = op_named(m, op);
        choice     *c = choice_of(all, op);
        if (o) o->ms[machine] += 1e3 * r->step.node[i].seconds;
        if (c && variant && !*c->variant[machine]) snprintf(c->variant[machine], NAME_ROOM, "%s", variant);
        if (c && variant) c->several[machine] |= strcmp(c->variant[machine], variant) != 0;
    }
}

/* The step with its band: the uncertainty of the machine's numbers, and the errors of steps on the H200. */
static mba_status band_of(mba_wi_on *out, const mba_simulated *r, const mba_whatif *w, const mba_workload *at,
                          mba_sim *sim)
{
    double times[MBA_GPU_SAMPLES];
    MBA_TRY(mba_simulated_draws(times, r, at, sim, NULL, 0));
    const mba_band band = mba_band_combine(mba_band_of_samples(times), (mba_band){ w->low, w->high });
    const double   ms = 1e3 * r->step.seconds;
    *out = (mba_wi_on){ ms, ms * band.low, ms * band.high };
    return MBA_OK;
}

/* Simulates one machine; `all` NULL: the operators are not noted. */
static mba_status on_machine(mba_wi_model *m, mba_wi_set set, choices *all, const mba_whatif *w, mba_sim *sim,
                             const mba_workload *base, int machine)
{
    mba_workload  at = *base;
    mba_simulated r = { 0 };
    at.machine = w->machines[machine];
    m->machine[set][machine] = (mba_wi_on){ NAN, NAN, NAN };
    mba_status st = mba_simulated_run(&r, &at, sim);
    if (st == MBA_OK && all) note_operators(m, all, &r, machine);
    if (st == MBA_OK) st = band_of(&m->machine[set][machine], &r, w, &at, sim);
    mba_simulated_end(&r);
    return st == MBA_E_UNSUPPORTED ? MBA_OK : st;
}

/* The variant that most machines choose, the first of equals; NULL: all choose the same. */
static const char *most_chosen(const choice *c, int machines)
{
    const char *best = NULL;
    int         most = 0;
    bool        differ = false;
    for (int i = 0; i < machines; i++) {
        int alike = 0;
        if (!*c->variant[i]) continue;
        for (int k = 0; k < machines; k++) {
            alike += !strcmp(c->variant[i], c->variant[k]);
            differ |= *c->variant[k] && strcmp(c->variant[i], c->variant[k]);
        }
        if (alike > most) most = alike, best = c->variant[i];
    }
    return differ ? best : NULL;
}

/* The machine chooses by itself what equal kernels would be: it was simulated with them. */
static bool has_equal_kernels(const choices *all, int machine, int machines)
{
    for (int i = 0; i < all->n; i++) {
        const choice *c = &all->one[i];
        const char   *variant = most_chosen(c, machines);
        if (variant && (c->several[machine] || strcmp(c->variant[machine], variant))) return false;
    }
    return all->n > 0;
}

mba_status mba__whatif_machines(mba_wi_model *m, const mba_whatif *w, mba_sim *sim, const mba_workload *base)
{
    choices all = { .n = 0 };
    for (int k = 0; k < w->nmachines; k++) MBA_TRY(on_machine(m, MBA_WI_AS_IT_IS, &all, w, sim, base, k));
    for (int i = 0; i < all.n; i++) {
        const char  *variant = most_chosen(&all.one[i], w->nmachines);
        const size_t used = strlen(m->equal);
        if (variant)
            snprintf(m->equal + used, sizeof m->equal - used, "%s%s=%s", used ? "," : "", all.one[i].op, variant);
    }
    mba_workload equal = *base;
    if (!*m->equal) memcpy(m->machine[MBA_WI_EQUAL], m->machine[MBA_WI_AS_IT_IS], sizeof m->machine[0]);
    if (!*m->equal) return MBA_OK;
    equal.model.variants = m->equal;
    for (int k = 0; k < w->nmachines; k++)
        if (has_equal_kernels(&all, k, w->nmachines)) m->machine[MBA_WI_EQUAL][k] = m->machine[MBA_WI_AS_IT_IS][k];
        else MBA_TRY(on_machine(m, MBA_WI_EQUAL, NULL, w, sim, &equal, k));
    return MBA_OK;
}
