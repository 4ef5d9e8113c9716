// SPDX-License-Identifier: Apache-2.0
/* gather_rows.c -- y[r, :] = x[index[r], :] for a permutation: the declaration. The operator is its own gradient, with
 * the inverse. */
#include "ops/gather_rows/gather_rows.h"

#include "ops/add/add.h"
#include "ops/cast/cast.h"
#include "ops/gather_rows/gather_rows_slots.h"

static mba_status gather_rows_shape(const mba_node *n, mba_type *out)
{
    const mba_tensor *x = n->in[X];
    MBA_TRY(mba__need_rows("gather_rows", x));
    MBA_NEED(x->type.rank == 2, "gather_rows: %s is no matrix\nfix: reshape it to (rows, channels)", x->name);
    for (int k = INDEX; k <= INVERSE; k++) {
        const mba_tensor *i = n->in[k];
        MBA_NEED(i->type.dtype == MBA_I32 && i->bound > 0 && !i->may_ignore && mba_dense(i),
                 "gather_rows: %s is not a dense index\nfix: make it with mba_index", i->name);
        MBA_NEED(mba_elems(i) == mba_rows(x) && i->bound <= mba_rows(x),
                 "gather_rows: %s has %lld values below %lld, %s has %lld rows", i->name, (long long)mba_elems(i),
                 (long long)i->bound, x->name, (long long)mba_rows(x));
    }
    out[Y] = x->type;
    return MBA_OK;
}

mba_tensor *mba_gather_rows(mba_graph *g, mba_tensor *x, mba_tensor *index, mba_tensor *inverse)
{
    return MBA_APPEND(g, gather_rows, NULL, x, index, inverse)->out[Y];
}

static void gather_rows_grad(mba_graph *g, const mba_node *n, mba_tensor *const *d)
{
    mba_grad_add(g, n->in[X], MBA_APPEND(g, gather_rows, NULL, d[Y], n->in[INVERSE], n->in[INDEX])->out[Y]);
}

static mba_cost gather_rows_cost(const mba_node *n) // the kernel does not read the inverse
{
    return (mba_cost){ .read_bytes = mba_tensor_bytes(n->in[X]) + mba_tensor_bytes(n->in[INDEX]),
                       .write_bytes = mba_tensor_bytes(n->out[Y]) };
}

static mba_status gather_rows_vec16_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    MBA_REFUSE_IF(m->cc < 80, "a device of compute capability %d", m->cc);
    mba_plan_stream(p, n, "gather_rows_vec16",
                    mba_ceil(mba_elems(n->out[Y]),
                             256 * mba__columns_at_once((const mba_tensor *[]){ n->in[X], n->out[Y] }, 2)),
                    256, 32);
    return MBA_OK;
}

/* dims: R, C, views. The permutation is r -> 7 r + 3 mod R; 7 must not divide R. */
static void gather_rows_build(mba_graph *g, const mba_case *c)
{
    const int64_t R = c->dim[0], C = c->dim[1];
    mba_tensor   *x = mba_case_act(g, "x", MBA_TYPE(MBA_F32, R, C + 2 * c->dim[2]), MBA_INIT_NORMAL(1));
    mba_tensor   *index = mba_index(g, "index", MBA_TYPE(MBA_I32, R), R);
    mba_tensor   *inverse = mba_index(g, "inverse", MBA_TYPE(MBA_I32, R), R);
    double       *p = mba_arena_new(g->arena, double, R), *q = mba_arena_new(g->arena, double, R);
    for (int64_t r = 0; r < R; r++) {
        p[r] = (double)((7 * r + 3) % R);
        q[(7 * r + 3) % R] = (double)r;
    }
    mba_example(g, index, p);
    mba_example(g, inverse, q);
    if (!c->dim[2]) {
        mba_gather_rows(g, x, index, inverse);
        return;
    }
    mba_tensor *part = mba_slice(g, mba_add(g, x, x), 1, 1, C);
    mba_tensor *j = mba_concat(g, mba_gather_rows(g, part, index, inverse), mba_gather_rows(g, part, inverse, index));
    mba_add(g, j, j);
}

const mba_op mba_op_gather_rows = {
    .name = "gather_rows",
    .doc = "rows in the order of a permutation",
    .kind = MBA_MEMORY,
    .in = { [X] = MBA_SLOT("x"), [INDEX] = MBA_SLOT("index"), [INVERSE] = MBA_SLOT("inverse") },
    .out = { [Y] = MBA_SLOT("y", .cheap = true, .adds = true) },
    .shape = gather_rows_shape,
    .grad = gather_rows_grad,
    .cost = gather_rows_cost,
    .ref = gather_rows_ref,
    .cpu = (const mba_variant[]){ { "rows", mba__plan_f32, MBA_CPU(gather_rows_fwd) }, { 0 } },
    .cuda = (const mba_variant[]){ { "vec16", gather_rows_vec16_plan, MBA_CUDA(gather_rows_cuda) }, { 0 } },
    .build = gather_rows_build,
    .cases = (const mba_case[]){ { { 9, 5 }, "a permutation" },
                                 { { 1, 3 }, "one row" },
                                 { { 40, 96 }, "vectors of 16 bytes" },
                                 { { 6, 4, 1 }, "columns in and out, there and back; the gradient adds" },
                                 { { 0 }, NULL } },
    .sizes = (const mba_case[]){ { { 15341, 96 }, "PascalVOC-SP, 32 graphs" }, { { 0 }, NULL } },
};
