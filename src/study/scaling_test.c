// SPDX-License-Identifier: Apache-2.0
/* scaling_test.c -- laws of a step over many ranks: what it sends, what hides it, what makes it longer. */
#include "tests/test.h"

#include "study/scaling.h"

typedef struct given {
    mba_session       one;
    mba_links         links;
    double           *node_s;
    mba_scaling_input in;
} given;

/* A small model whose operators take their compulsory bytes at 10 GB/s. */
static void set_up(given *g)
{
    *g = (given){ .in.add_bps = 1e12, .in.sms = 132, .in.overlap = true };
    g->in.rank = (mba_session_options){
        .backward = true, .update = true, .adamw = mba_adamw_defaults(), .bucket_bytes = 1 << 20
    };
    assert_ok(mba_model_preset(&g->in.rank.model, "mamba2-130m"));
    assert_ok(mba_model_set(&g->in.rank.model, "layers=2,vocab=4096"));
    assert_ok(mba_model_shape(&g->in.rank.model, &(mba_batch_shape){ .batch = 1, .length = 64 }));
    assert_ok(mba_session_outline(&g->one, &g->in.rank));
    assert_ok(mba_links_load(&g->links, "ib400"));
    g->node_s = calloc((size_t)g->one.graph->nnodes, sizeof *g->node_s);
    for (int32_t i = 0; i < g->one.graph->nnodes; i++) {
        const mba_cost c = g->one.graph->nodes[i]->op->cost(g->one.graph->nodes[i]);
        g->node_s[i] = (c.read_bytes + c.write_bytes) / 1e10;
        if (mba_runs(g->one.graph->nodes[i], MBA_STEP)) g->in.step_s += g->node_s[i];
    }
    g->in.one = &g->one, g->in.node_s = g->node_s, g->in.links = &g->links;
}

static void tear_down(given *g)
{
    free(g->node_s);
    mba_session_end(&g->one);
}

static mba_scaling_point at(const given *g, int64_t ranks)
{
    mba_scaling_point p;
    assert_ok(mba_scaling_at(&p, &g->in, ranks));
    return p;
}

static void a_rank_sends_what_its_collectives_say(void **state)
{
    given g;
    (void)state;
    set_up(&g);
    assert_true(at(&g, 1).step_s == g.in.step_s && at(&g, 1).comm_s == 0);
    for (int64_t ranks = 2; ranks <= 512; ranks *= 4) {
        const mba_scaling_point p = at(&g, ranks);
        const double            part = (double)(ranks - 1) / (double)ranks;
        const double            least = 4 * (double)mba_session_parameters(&g.one);
        assert_true(p.summed_bytes >= least && p.gathered_bytes >= least && p.buckets >= 2);
        assert_true(fabs((p.sums.node_bytes + p.sums.net_bytes) / (p.summed_bytes * part) - 1) < 1e-9);
        assert_true(p.gathers.node_bytes + p.gathers.net_bytes >= p.gathered_bytes * part);
        assert_true((p.sums.net_bytes > 0) == (ranks > 8));
    }
    tear_down(&g);
}

static void overlap_hides_and_never_adds(void **state)
{
    given g;
    (void)state;
    set_up(&g);
    g.links.v[MBA_LINK_comm_sms] = 0;
    for (int64_t ranks = 2; ranks <= 512; ranks *= 4) {
        g.in.overlap = false;
        const mba_scaling_point apart = at(&g, ranks);
        g.in.overlap = true;
        const mba_scaling_point beside = at(&g, ranks);
        assert_true(fabs(apart.exposed_s / apart.comm_s - 1) < 1e-6);
        assert_true(beside.exposed_s < apart.exposed_s && beside.step_s < apart.step_s);
        assert_true(fabs(beside.comm_s / apart.comm_s - 1) < 1e-9);
    }
    tear_down(&g);
}

static void faster_links_are_never_slower(void **state)
{
    static const mba_link_key faster[] = { MBA_LINK_node_link, MBA_LINK_net_link, MBA_LINK_nics_node },
                              slower[] = { MBA_LINK_node_lat, MBA_LINK_net_lat, MBA_LINK_start, MBA_LINK_skew };
    given g;
    (void)state;
    set_up(&g);
    const double base = at(&g, 64).step_s;
    for (size_t i = 0; i < sizeof faster / sizeof *faster; i++) {
        const double was = g.links.v[faster[i]];
        g.links.v[faster[i]] = 2 * was;
        assert_true(at(&g, 64).step_s <= base);
        g.links.v[faster[i]] = was;
    }
    for (size_t i = 0; i < sizeof slower / sizeof *slower; i++) {
        const double was = g.links.v[slower[i]];
        g.links.v[slower[i]] = 2 * was;
        assert_true(at(&g, 64).step_s >= base);
        g.links.v[slower[i]] = was;
    }
    tear_down(&g);
}

static void ranks_beyond_the_cores_take_turns(void **state)
{
    given g;
    (void)state;
    set_up(&g);
    g.in.overlap = false;
    g.links.v[MBA_LINK_gpus_node] = 4, g.links.v[MBA_LINK_cores_node] = 2, g.links.v[MBA_LINK_skew] = 0;
    assert_true(fabs(at(&g, 4).compute_s / at(&g, 2).compute_s - 2) < 1e-9);
    tear_down(&g);
}

static void impossible_worlds_are_refused(void **state)
{
    given             g;
    mba_scaling_point p;
    (void)state;
    set_up(&g);
    assert_int_equal(mba_scaling_at(&p, &g.in, 6), MBA_E_ARG);
    g.links.v[MBA_LINK_nics_node] = 0;
    assert_int_equal(mba_scaling_at(&p, &g.in, 16), MBA_E_ARG);
    assert_non_null(strstr(mba_message(), "\nfix: "));
    tear_down(&g);
}

MBA_TEST_MAIN(cmocka_unit_test(a_rank_sends_what_its_collectives_say), cmocka_unit_test(overlap_hides_and_never_adds),
              cmocka_unit_test(faster_links_are_never_slower), cmocka_unit_test(ranks_beyond_the_cores_take_turns),
              cmocka_unit_test(impossible_worlds_are_refused))
