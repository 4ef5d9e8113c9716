// SPDX-License-Identifier: Apache-2.0
/* gpu_deep.c -- `profile --source KERNEL`, first half: execution counts of every instruction, for one launch.
 * gpu_samples.c has the second half, samples of the program counter. */
#include <string.h>

#include "core/lookup.h"
#include "scope/cupti_collect.h"
#include "scope/gpu_profile.h"

typedef struct counting {
    mba_gpu_profile *g;
    const char      *kernel, *only;
    mba_status       st;
    int32_t          node;
} counting;

/* True if the operator has that name, or the plan has a kernel whose name contains it. */
bool mba_gpu_deep_is(const mba_node *n, const mba_plan *plan, const char *kernel)
{
    bool yes = !strcmp(n->op->name, kernel);
    for (int i = 0; i < plan->nlaunches; i++) yes |= strstr(plan->launch[i].kernel, kernel) != NULL;
    return yes;
}

/* NULL if `kernel` names the operator: then all its kernels count. */
const char *mba_gpu_deep_only(const mba_node *n, const char *kernel)
{
    return strcmp(n->op->name, kernel) ? kernel : NULL;
}

static void before(void *ctx, const mba_node *n, const mba_plan *plan)
{
    counting *x = ctx;
    if (x->node >= 0 || x->st != MBA_OK || !mba_gpu_deep_is(n, plan, x->kernel)) return;
    x->st = mba_sass_begin();
    x->only = mba_gpu_deep_only(n, x->kernel);
    x->node = n->id;
}

mba_status mba_gpu_instruction_add(mba_gpu_profile *g, const mba_gpu_instruction *i)
{
    const int64_t name = mba_events_name(&g->names, i->symbol), file = mba_events_name(&g->names, i->file),
                  metric = mba_events_name(&g->names, i->metric);
    mba_gpu_instruction *more = mba_grow(g->instruction, g->ninstructions, &g->instructions_room, sizeof *more);
    if (more) g->instruction = more;
    if (name < 0 || file < 0 || metric < 0 || !more) return mba_fail(MBA_E_NOMEM, "no memory for instructions");
    mba_assert(g->ninstructions < g->instructions_room);
    g->instruction[g->ninstructions] = *i;
    g->instruction[g->ninstructions].symbol = g->names.names[name];
    g->instruction[g->ninstructions].file = g->names.names[file];
    g->instruction[g->ninstructions++].metric = g->names.names[metric];
    return MBA_OK;
}

static void keep(void *ctx, const mba_sass_count *c)
{
    counting *x = ctx;
    if (x->st != MBA_OK) return;
    x->st = mba_gpu_instruction_add(x->g, &(mba_gpu_instruction){ .symbol = c->kernel ? c->kernel : "?",
                                                                  .file = c->file,
                                                                  .metric = c->metric,
                                                                  .node = x->node,
                                                                  .line = c->line,
                                                                  .pc = c->pc,
                                                                  .value = c->value });
}

static void after(void *ctx, const mba_node *n, const mba_plan *plan)
{
    counting *x = ctx;
    (void)plan;
    if (x->node != n->id || x->st != MBA_OK) return;
    const mba_status ended = mba_sass_end(x->only, keep, x);
    if (x->st == MBA_OK) x->st = ended;
    if (x->st == MBA_OK && !x->g->ninstructions)
        x->st = mba_fail(MBA_E_DEVICE, "CUPTI counted no instruction of '%s'", x->kernel);
}

mba_status mba_gpu_deep(mba_gpu_profile *g, mba_program *p, const mba_step *step, const char *kernel)
{
    counting        x = { .g = g, .kernel = kernel, .st = MBA_OK, .node = -1 };
    const mba_hooks h = { before, after, &x };
    MBA_TRY(mba_program_run(p, MBA_STEP, step, &h));
    MBA_TRY(p->device->wait());
    if (x.node < 0)
        return mba_fail(
            MBA_E_ARG,
            "this step has no kernel or operator '%s'\nfix: use a name from `mambascope show FILE.db kernels`", kernel);
    return x.st;
}
