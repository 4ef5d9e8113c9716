// SPDX-License-Identifier: Apache-2.0
/* describe_program.c -- see describe.h: writes the graph and its launch plans as rows of node, operand and launch. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/plan_work.h"
#include "core/print.h"
#include "scope/describe.h"

/* ---- words ---- */

static const char *dtype_name(mba_dtype t) { return t == MBA_BF16 ? "bf16" : t == MBA_I32 ? "i32" : "f32"; }

static void type_text(char *text, size_t room, const mba_tensor *t)
{
    int n = snprintf(text, room, "%s ", dtype_name(t->type.dtype));
    for (int i = 0; i < t->type.rank && n > 0 && (size_t)n < room; i++)
        n += snprintf(text + n, room - (size_t)n, "%s%lld", i ? "x" : "", (long long)t->type.dim[i]);
}

static void append(char *text, size_t room, const char *between, const char *slot, const mba_tensor *t)
{
    char         type[96];
    const size_t n = strlen(text);
    mba_assert(n < room);
    type_text(type, sizeof type, t);
    snprintf(text + n, room - n, "%s%s %s", between, slot, type);
}

void mba_node_shape(char *text, size_t room, const mba_node *n)
{
    const char *between = "";
    *text = 0;
    for (int k = 0; k < MBA_IN_MAX; k++)
        if (n->in[k]) {
            append(text, room, between, n->op->in[k].name, n->in[k]);
            between = ", ";
        }
    between = " -> ";
    for (int k = 0; k < MBA_OUT_MAX; k++)
        if (n->out[k]) {
            append(text, room, between, n->op->out[k].name, n->out[k]);
            between = ", ";
        }
}

/* "layers.3.mixer" is in layer 3. */
static int64_t layer_of(const char *scope)
{
    for (const char *c = scope; c && *c; c++)
        if (isdigit((unsigned char)*c) && (c == scope || c[-1] == '.')) return strtoll(c, NULL, 10);
    return MBA_ABSENT;
}

/* ---- nodes and operands ---- */

static mba_status put_node(mba_store *s, const mba_program *p, const mba_node *n, const mba_step *step)
{
    char           shape[1024];
    const mba_cost c = n->op->cost(n);
    mba_node_shape(shape, sizeof shape, n);
    return mba_put_node(s, &(mba_row_node){ .id = n->id,
                                            .op = n->op->name,
                                            .kind = mba_kind_name(n->op->kind),
                                            .scope = n->scope,
                                            .layer = layer_of(n->scope),
                                            .phase = mba_pass_name(n->pass),
                                            .serves = n->serves_node ? n->serves_node->id : MBA_ABSENT,
                                            .variant = p->plan[n->id]->variant,
                                            .shape = shape,
                                            .tensor_flops = c.tensor_flops,
                                            .vector_flops = c.vector_flops,
                                            .special_ops = c.special_ops,
                                            .read_bytes = c.read_bytes,
                                            .write_bytes = c.write_bytes,
                                            .filled = mba_valid_fraction(n, step) });
}

static mba_status put_operand(mba_store *s, const mba_node *n, const char *slot, bool output, const mba_tensor *t)
{
    char shape[96];
    type_text(shape, sizeof shape, t);
    return mba_put_operand(s, &(mba_row_operand){ .node = n->id,
                                                  .slot = slot,
                                                  .output = output,
                                                  .tensor = t->id,
                                                  .storage = t->st->id,
                                                  .role = mba_role_name(t->st->role),
                                                  .shape = shape,
                                                  .bytes = mba_tensor_bytes(t) });
}

static mba_status put_operands(mba_store *s, const mba_node *n)
{
    for (int k = 0; k < MBA_IN_MAX; k++)
        if (n->in[k]) MBA_TRY(put_operand(s, n, n->op->in[k].name, false, n->in[k]));
    for (int k = 0; k < MBA_OUT_MAX; k++)
        if (n->out[k]) MBA_TRY(put_operand(s, n, n->op->out[k].name, true, n->out[k]));
    return MBA_OK;
}

/* ---- launches ---- */

enum { OPERANDS = MBA_WORK_OPERANDS };

/* Bytes of an operand or of scratch. */
static double footprint(const mba_node *n, const mba_plan *p, int operand)
{
    mba_debug_assert(operand >= 0 && operand < OPERANDS);
    if (operand >= MBA_ARG_SCRATCH(0)) return (double)p->scratch[operand - MBA_ARG_SCRATCH(0)].bytes;
    const mba_tensor *t = operand >= MBA_ARG_OUT(0) ? n->out[operand - MBA_ARG_OUT(0)] : n->in[operand];
    return t ? mba_tensor_bytes(t) : 0;
}

/* Bytes that a launch reads and writes of each operand, each byte once and at most what is moved. */
typedef struct footprints {
    const mba_node *node;
    const mba_plan *plan;
    double          of[OPERANDS][2];
} footprints;

static footprints footprints_of(const mba_work_sums *sum, const mba_node *n, const mba_plan *p)
{
    footprints f = { .node = n, .plan = p };
    for (int k = 0; k < OPERANDS; k++)
        for (int way = 0; way < 2; way++) {
            const double moved = sum->operand[k][way], once = moved > 0 ? footprint(n, p, k) : 0;
            f.of[k][way] = moved < once ? moved : once;
        }
    return f;
}

static const mba_tensor *tensor_of(const mba_node *n, int operand)
{
    if (operand >= MBA_ARG_SCRATCH(0)) return NULL;
    return operand >= MBA_ARG_OUT(0) ? n->out[operand - MBA_ARG_OUT(0)] : n->in[operand];
}

/* The same view of a storage, or the same scratch of one node. */
static bool same_memory(const footprints *a, int k, const footprints *b, int j)
{
    const mba_tensor *x = tensor_of(a->node, k), *y = tensor_of(b->node, j);
    if (x && y) return x->st == y->st && x->offset == y->offset;
    return !x && !y && k == j && a->node == b->node && k >= MBA_ARG_SCRATCH(0);
}

/* recent_bytes: what a launch reads and one of the two launches before it read or wrote, so that L2 may still hold it.
 * Launches that are too small to evict anything are skipped. */
enum { BEFORE = 2 };
static const double SMALL_BYTES = 1e6;

static double met_before(const footprints *now, int k, const footprints *before)
{
    double met = 0;
    for (int j = 0; before->node && j < OPERANDS; j++)
        for (int way = 0; way < 2; way++)
            if (before->of[j][way] > met && same_memory(now, k, before, j)) met = before->of[j][way];
    return met;
}

static double recent_bytes(const footprints *now, const footprints *before)
{
    double sum = 0;
    for (int k = 0; k < OPERANDS; k++) {
        double met = 0;
        for (int b = 0; b < BEFORE && now->of[k][0] > 0; b++) {
            const double here = met_before(now, k, &before[b]);
            if (here > met) met = here;
        }
        sum += met < now->of[k][0] ? met : now->of[k][0];
    }
    return sum;
}

static mba_status put_launch(mba_store *s, int64_t id, const mba_node *n, int k, const mba_plan *p, footprints *before)
{
    mba_assert(k >= 0 && k < p->nlaunches);
    const mba_launch        *l = &p->launch[k];
    static const char *const cls[] = { "tensor", "vector", "mixed", "copy" };
    mba_work_sums            sum;
    double                   least = 0;
    mba_launch_sums(&sum, l);
    const footprints f = footprints_of(&sum, n, p);
    for (int i = 0; i < OPERANDS; i++) least += f.of[i][0] + f.of[i][1];
    const double recent = recent_bytes(&f, before);
    if (least >= SMALL_BYTES) {
        before[1] = before[0];
        before[0] = f;
    }
    return mba_put_launch(s, &(mba_row_launch){ .id = id,
                                                .node = n->id,
                                                .place = k,
                                                .kernel = l->kernel,
                                                .class = cls[l->cls],
                                                .grid_x = l->grid[0],
                                                .grid_y = l->grid[1],
                                                .grid_z = l->grid[2],
                                                .block = l->block,
                                                .cluster = l->cluster,
                                                .regs = l->regs,
                                                .smem_bytes = (int64_t)l->smem_bytes,
                                                .persistent = l->persistent,
                                                .tensor_flops = sum.of[MBA_MMA],
                                                .fma_ops = sum.of[MBA_FMA],
                                                .half2_ops = sum.of[MBA_HALF2],
                                                .alu_ops = sum.of[MBA_ALU],
                                                .special_ops = sum.of[MBA_SFU],
                                                .load_bytes = sum.of[MBA_LOAD] + sum.of[MBA_ASYNC],
                                                .store_bytes = sum.of[MBA_STORE],
                                                .smem_moved_bytes = sum.of[MBA_SMEM],
                                                .least_bytes = least,
                                                .recent_bytes = recent });
}

int64_t mba_launch_number(const mba_program *p, int32_t node, int k)
{
    int64_t n = k;
    mba_assert(node >= 0 && node < p->graph->nnodes);
    for (int32_t i = 0; i < node; i++) n += p->plan[i]->nlaunches;
    return n;
}

mba_status mba_describe_program_at(mba_store *s, const mba_program *p, const mba_step *step)
{
    int64_t    launch = 0;
    footprints before[BEFORE] = { 0 };
    for (int32_t i = 0; i < p->graph->nnodes; i++) {
        const mba_node *n = p->graph->nodes[i];
        MBA_TRY(put_node(s, p, n, step));
        MBA_TRY(put_operands(s, n));
        for (int k = 0; k < p->plan[i]->nlaunches; k++) MBA_TRY(put_launch(s, launch++, n, k, p->plan[i], before));
    }
    return MBA_OK;
}

mba_status mba_describe_program(mba_store *s, const mba_program *p)
{
    static const mba_step full = { .seed = 0 };
    return mba_describe_program_at(s, p, &full);
}
