// SPDX-License-Identifier: Apache-2.0
/* lanes_test.c -- collectives beside the backward pass: where they stand in a step planned for GPUs, and that nothing
 * which runs beside them touches their memory. Plans need no GPU. */
#include "tests/test.h"

#include "ops/collectives/collectives.h"
#include "tests/machines.h"
#include "train/run_options.h"

static const mba_device gpu = { .name = "cuda", .machine = &machines[1] };

/* A step of mamba2-130m with four layers and buckets of 2 MB. */
static void plan(mba_session *s, int64_t ranks, bool accumulate)
{
    mba_session_options so = { .backward = true, .update = true };
    so.adamw = mba_adamw_defaults();
    assert_ok(mba_model_options_apply(&(mba_model_options){ .name = "mamba2-130m",
                                                            .set = "layers=4,vocab=1024",
                                                            .shape = { .batch = 2, .length = 512 } },
                                      &so));
    so.device = &gpu;
    so.compute = MBA_BF16;
    so.memory_bytes = INT64_C(100) << 30;
    so.accumulate = accumulate;
    so.place = (mba_place){ ranks - 1, ranks };
    so.bucket_bytes = 2 << 20;
    assert_ok(mba_session_plan(s, &so));
}

typedef struct range {
    int    arena; /* -1: none */
    size_t from, to;
} range;

static range range_of(const mba_program *p, const mba_tensor *t)
{
    if (!t || p->layout.first[t->st->id] < 0) return (range){ .arena = -1 };
    const size_t e = mba_dtype_bytes(t->type.dtype), at = p->layout.offset[t->st->id] + e * (size_t)t->offset;
    return (range){ p->layout.arena[t->st->id], at,
                    at + e * (size_t)((mba_elems(t) / t->run - 1) * t->pitch + t->run) };
}

enum { OPERANDS = MBA_IN_MAX + MBA_OUT_MAX + 1 };

/* The k-th operand of a node; the last is its scratch. */
static range operand(const mba_program *p, int32_t i, int k)
{
    const mba_node *n = p->graph->nodes[i];
    const size_t    work = p->plan[i]->work_bytes;
    if (k < MBA_IN_MAX) return range_of(p, n->in[k]);
    if (k < MBA_IN_MAX + MBA_OUT_MAX) return range_of(p, n->out[k - MBA_IN_MAX]);
    return work ? (range){ MBA_ACT, p->layout.work_offset[i], p->layout.work_offset[i] + work }
                : (range){ .arena = -1 };
}

static bool overlap(range a, range b) { return a.arena >= 0 && a.arena == b.arena && a.from < b.to && b.from < a.to; }

static bool conflict(const mba_program *p, int32_t i, int32_t j)
{
    for (int a = 0; a < OPERANDS; a++)
        for (int b = 0; b < OPERANDS; b++)
            if (overlap(operand(p, i, a), operand(p, j, b))) return true;
    return false;
}

/* Between a node of the lane and where it joins, no other node touches its operands or its scratch. */
static int lane_is_apart(const mba_program *p)
{
    const mba_graph *g = p->graph;
    int              nodes = 0;
    for (int32_t i = 0; i < g->nnodes; i++) {
        if (g->nodes[i]->lane != MBA_COMM) continue;
        nodes++;
        assert_int_equal(g->nodes[i]->pass, MBA_UPDATE);
        for (int32_t j = i + 1; j < mba_node_joins(g, i); j++)
            if (g->nodes[j]->lane != MBA_COMM && conflict(p, i, j)) {
                print_error("%s (%d) and %s (%d) of %s\n", g->nodes[i]->op->name, i, g->nodes[j]->op->name, j,
                            g->nodes[j]->scope);
                assert_false("a node beside the lane has its memory to itself");
            }
    }
    return nodes;
}

static void nothing_beside_the_lane_touches_its_memory(void **state)
{
    (void)state;
    for (int64_t ranks = 1; ranks <= 8; ranks *= 2) {
        mba_session s = { 0 };
        setenv("MBA_ZERO", ranks == 1 ? "1" : "", 1);
        for (int accumulate = 0; accumulate < 2; accumulate++) {
            plan(&s, ranks, accumulate);
            assert_true(lane_is_apart(s.program) > 10);
            mba_session_end(&s);
        }
    }
    unsetenv("MBA_ZERO");
}

/* The last node of the backward pass that writes to what node i adds. */
static int32_t completed_by(const mba_graph *g, int32_t i)
{
    const mba_tensor *sum = g->nodes[i]->in[0];
    int32_t           last = -1;
    for (int32_t j = 0; j < g->nnodes; j++)
        for (int k = 0; k < MBA_OUT_MAX; k++) {
            const mba_tensor *t = g->nodes[j]->out[k];
            const int64_t     span = t ? (mba_elems(t) / t->run - 1) * t->pitch + t->run : 0;
            if (t && g->nodes[j]->pass == MBA_BACKWARD && t->st == sum->st && t->offset < sum->offset + mba_elems(sum)
                && sum->offset < t->offset + span)
                last = j;
        }
    return last;
}

static void a_bucket_goes_out_when_it_is_complete(void **state)
{
    (void)state;
    mba_session s = { 0 };
    int32_t     backward = 0, sums = 0, beside = 0;
    plan(&s, 4, true);
    const mba_graph *g = s.graph;
    for (int32_t i = 0; i < g->nnodes; i++)
        if (g->nodes[i]->pass == MBA_BACKWARD) backward = i;
    for (int32_t i = 0; i < g->nnodes; i++) {
        if (g->nodes[i]->op != &mba_op_reduce_scatter) continue;
        const int32_t by = completed_by(g, i);
        assert_true(by >= 0 && by < i);
        for (int32_t j = by + 1; j < i; j++)
            assert_int_equal(g->nodes[j]->lane, MBA_COMM); // other buckets of that node
        sums++;
        beside += i < backward;
    }
    assert_true(sums > 8 && beside >= sums - 4); // all but those that the last nodes complete
    mba_session_end(&s);
}

static void a_world_of_one_has_no_lane(void **state)
{
    (void)state;
    mba_session s = { 0 };
    plan(&s, 1, false);
    assert_int_equal(lane_is_apart(s.program), 0);
    mba_session_end(&s);
}

MBA_TEST_MAIN(cmocka_unit_test(nothing_beside_the_lane_touches_its_memory),
              cmocka_unit_test(a_bucket_goes_out_when_it_is_complete), cmocka_unit_test(a_world_of_one_has_no_lane))
