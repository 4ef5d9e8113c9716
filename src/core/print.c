// SPDX-License-Identifier: Apache-2.0
/* print.c -- see print.h. mba_cost_io and mba_valid_fraction, which op.h declares, are here too. */
#include "core/print.h"

#include <string.h>

const char *mba_pass_name(mba_pass p)
{
    mba_assert(p == MBA_FORWARD || p == MBA_BACKWARD || p == MBA_UPDATE);
    return p == MBA_FORWARD ? "forward" : p == MBA_BACKWARD ? "backward" : "update";
}

const char *mba_kind_name(mba_kind kind)
{
    static const char *const name[] = {
#define X(kind, text) text,
        MBA_KIND_LIST(X)
#undef X
    };
    mba_assert((unsigned)kind < MBA_KINDS);
    return name[kind];
}

const char *mba_role_name(mba_role role)
{
    static const char *const name[] = {
#define X(role, text) text,
        MBA_ROLE_LIST(X)
#undef X
    };
    mba_assert((unsigned)role < MBA_ROLES);
    return name[role];
}

double mba_valid_fraction(const mba_node *n, const mba_step *step)
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
    mba_assert(part >= 0 && part <= 1); // no batch exceeds the capacity of a shape
    return part;
}

mba_cost mba_cost_io(const mba_node *n)
{
    mba_cost c = { 0 };
    for (int k = 0; k < MBA_IN_MAX; k++)
        if (n->in[k]) c.read_bytes += mba_tensor_bytes(n->in[k]);
    for (int k = 0; k < MBA_OUT_MAX; k++)
        if (n->out[k]) c.write_bytes += mba_tensor_bytes(n->out[k]);
    for (int k = 0; k < MBA_OUT_MAX; k++)
        if (mba_adds(n, k)) c.read_bytes += mba_tensor_bytes(n->out[k]);
    return c;
}

mba_cost mba_cost_sum(mba_cost a, mba_cost b)
{
    return (mba_cost){ a.tensor_flops + b.tensor_flops, a.vector_flops + b.vector_flops, a.special_ops + b.special_ops,
                       a.read_bytes + b.read_bytes,     a.write_bytes + b.write_bytes,   a.link_bytes + b.link_bytes };
}

mba_cost mba_graph_cost(const mba_graph *g, unsigned passes)
{
    mba_cost c = { 0 };
    for (int32_t i = 0; i < g->nnodes; i++)
        if (mba_runs(g->nodes[i], passes)) c = mba_cost_sum(c, g->nodes[i]->op->cost(g->nodes[i]));
    return c;
}

mba_size_unit mba_size_unit_of(size_t bytes)
{
    return bytes < 100000000 ? (mba_size_unit){ 1e6, "MB" } : (mba_size_unit){ 1e9, "GB" };
}

void mba_program_print_memory(FILE *f, const mba_program *p)
{
    const mba_memory_plan *lay = &p->layout;
    const mba_size_unit    u = mba_size_unit_of(mba_program_bytes(p));
    char                   heading[32];
    size_t                 total = 0;
    snprintf(heading, sizeof heading, "memory, %s", u.name);
    fprintf(f, "%-22s %12s %12s\n", heading, "sum", "planned");
    for (int r = 0; r < MBA_ROLES; r++) {
        if (!lay->role_bytes[r]) continue;
        fprintf(f, "%-22s %12.3f", mba_role_name((mba_role)r), (double)lay->role_bytes[r] / u.bytes);
        if (r < MBA_ACT) fprintf(f, " %12.3f\n", (double)lay->arena_bytes[r] / u.bytes);
        else fputs("            |\n", f);
        total += r < MBA_ACT ? lay->arena_bytes[r] : 0;
    }
    fprintf(f, "%-22s %12.3f %12.3f   lower bound %.3f, at node %d (%s)\n", "step arena",
            (double)(lay->role_bytes[MBA_ACT] + lay->role_bytes[MBA_DACT] + lay->role_bytes[MBA_WORK]) / u.bytes,
            (double)lay->arena_bytes[MBA_ACT] / u.bytes, (double)lay->live_bytes_max / u.bytes, lay->peak,
            p->graph->nodes[lay->peak]->op->name);
    if (mba_program_ahead_bytes(p))
        fprintf(f, "%-22s %12s %12.3f   copied while a step runs\n", "inputs of the next run", "",
                (double)mba_program_ahead_bytes(p) / u.bytes);
    fprintf(f, "%-22s %12s %12.3f\n", "total", "",
            (double)(total + mba_program_ahead_bytes(p) + lay->arena_bytes[MBA_ACT]) / u.bytes);
}
