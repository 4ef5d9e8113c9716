/* print.c -- see print.h. */
#include "core/print.h"

#include <string.h>

const char *mba_pass_name(mba_pass p)
{
    return p == MBA_FORWARD ? "forward" : p == MBA_BACKWARD ? "backward" : "update";
}

const char *mba_kind_name(mba_kind kind)
{
    static const char *const name[] = {
#define X(kind, text) text,
        MBA_KIND_LIST(X)
#undef X
    };
    return name[kind];
}

const char *mba_role_name(mba_role role)
{
    static const char *const name[] = {
#define X(role, text) text,
        MBA_ROLE_LIST(X)
#undef X
    };
    return name[role];
}

double mba_filled(const mba_node *n, const mba_step *step)
{
    double most = 0, part = 1;
    for (int k = 0; k < MBA_IN_MAX + MBA_OUT_MAX; k++) {
        const mba_tensor *t = k < MBA_IN_MAX ? n->in[k] : n->out[k - MBA_IN_MAX];
        if (!t || (t->type.count == MBA_ALL && t->type.steps == MBA_ALL) || mba_tensor_bytes(t) <= most) continue;
        const bool    first = t->type.count != MBA_ALL;
        const int64_t all = t->type.dim[first ? 0 : 1];
        most = mba_tensor_bytes(t);
        part = (double)mba_step_rows(step, first ? t->type.count : t->type.steps, all) / (double)all;
    }
    return part;
}

mba_cost mba_cost_io(const mba_node *n)
{
    mba_cost c = { 0 };
    for (int k = 0; k < MBA_IN_MAX; k++)  if (n->in[k])  c.read_bytes  += mba_tensor_bytes(n->in[k]);
    for (int k = 0; k < MBA_OUT_MAX; k++) if (n->out[k]) c.write_bytes += mba_tensor_bytes(n->out[k]);
    for (int k = 0; k < MBA_OUT_MAX; k++) if (mba_adds(n, k)) c.read_bytes += mba_tensor_bytes(n->out[k]);
    return c;
}

mba_cost mba_cost_sum(mba_cost a, mba_cost b)
{
    return (mba_cost){ a.tensor_flops + b.tensor_flops, a.vector_flops + b.vector_flops, a.special_ops + b.special_ops,
                       a.read_bytes + b.read_bytes, a.write_bytes + b.write_bytes };
}

mba_cost mba_graph_cost(const mba_graph *g, unsigned passes)
{
    mba_cost c = { 0 };
    for (int32_t i = 0; i < g->nnodes; i++)
        if (mba_runs(g->nodes[i], passes)) c = mba_cost_sum(c, g->nodes[i]->op->cost(g->nodes[i]));
    return c;
}

static void print_tensor(FILE *f, const char *slot, const mba_tensor *t, bool adds)
{
    fprintf(f, " %s%s(", slot, adds ? "+=" : "=");
    for (int i = 0; i < t->type.rank; i++) fprintf(f, "%s%lld", i ? "," : "", (long long)t->type.dim[i]);
    fprintf(f, ")@%d", t->st->id);
    if (t->offset) fprintf(f, "+%lld", (long long)t->offset);
}

void mba_print_nodes(FILE *f, const mba_graph *g)
{
    for (int32_t i = 0; i < g->nnodes; i++) {
        const mba_node *n = g->nodes[i];
        fprintf(f, "%3d %-8s %-10s %-18s", i, mba_pass_name(n->pass), n->scope, n->op->name);
        for (int k = 0; k < MBA_OUT_MAX; k++)
            if (n->out[k]) print_tensor(f, n->op->out[k].name, n->out[k], mba_adds(n, k));
        fputs("  <-", f);
        for (int k = 0; k < MBA_IN_MAX; k++) if (n->in[k]) print_tensor(f, n->op->in[k].name, n->in[k], false);
        fputc('\n', f);
    }
}

void mba_program_print_memory(FILE *f, const mba_program *p)
{
    const mba_layout *lay = &p->layout;
    size_t total = 0;
    fprintf(f, "%-22s %12s %12s\n", "memory, bytes", "sum", "planned");
    for (int r = 0; r < MBA_ROLES; r++) {
        if (!lay->role_bytes[r]) continue;
        fprintf(f, "%-22s %12zu", mba_role_name((mba_role)r), lay->role_bytes[r]);
        if (r < MBA_ACT) fprintf(f, " %12zu\n", lay->arena_bytes[r]); else fputs("            |\n", f);
        total += r < MBA_ACT ? lay->arena_bytes[r] : 0;
    }
    fprintf(f, "%-22s %12zu %12zu   the least is %zu, at node %d (%s)\n", "step arena",
            lay->role_bytes[MBA_ACT] + lay->role_bytes[MBA_DACT] + lay->role_bytes[MBA_WORK], lay->arena_bytes[MBA_ACT],
            lay->live_bytes_max, lay->peak, p->graph->nodes[lay->peak]->op->name);
    fprintf(f, "%-22s %12s %12zu\n", "in all", "", total + lay->arena_bytes[MBA_ACT]);
}

void mba_print_plan(FILE *f, const mba_node *n, const mba_plan *p)
{
    static const char *const cls[]  = { "tensor", "vector", "mixed", "copy" };
    static const char *const work[] = { "load", "store", "async", "smem", "mma", "fma", "half2", "alu", "sfu",
                                        "barrier", "ring_fill", "ring_wait", "loop", "end" };
    fprintf(f, "%s, variant %s, scratch %zu bytes\n", n->op->name, p->variant, p->work_bytes);
    for (int i = 0; i < p->nlaunches; i++) {
        const mba_launch *l = &p->launch[i];
        fprintf(f, "  %s (%s)  grid %lld  block %d  smem %zu  regs %d  classes %d\n", l->kernel, cls[l->cls],
                (long long)l->grid[0], l->block, l->smem_bytes, l->regs, l->nblocks ? l->nblocks : 1);
        for (int k = 0; k < l->nphases; k++) {
            const mba_phase *ph = &l->phase[k];
            const char *what = ph->operand < 0 ? (ph->mix ? ph->mix : "estimated")
                             : ph->operand < MBA_IN_MAX ? n->op->in[ph->operand].name
                             : ph->operand < MBA_ARG_SCRATCH(0) ? n->op->out[ph->operand - MBA_IN_MAX].name
                             : p->scratch[ph->operand - MBA_ARG_SCRATCH(0)].name;
            fprintf(f, "    role %d  %-9s", ph->role, work[ph->work]);
            if (ph->work == MBA_LOOP && ph->n < 0) fputs(" by class\n", f);
            else if (ph->work >= MBA_BARRIER)      fprintf(f, " %8.0f\n", ph->n);
            else fprintf(f, " %8.0f  %s%s\n", ph->n, what, ph->share > 1 ? ", shared" : "");
        }
    }
}
