/* ssd_plans_test.c -- what plans of the CUDA variants claim of each other, and how the walks of `fused` are cut. No GPU
 * is needed. */
#include "tests/test.h"

#include "core/check.h"
#include "core/program.h"
#include "ops/ssd/ssd.h"
#include "ops/ssd/ssd_slots.h"
#include "tests/machines.h"

/* Launches of the same kernels: `persistent` has the tiles of `chunked` in fewer blocks, `bc_fused` one launch less and
 * no C B^T among its scratch. */
static void steps_of_the_ladder_differ_from_chunked_in_one_thing(void **state)
{
    (void)state;
    static const mba_case peer = { { 4, 4096, 64, 64, 1, 128, 256, SKIP_HEAD | BIAS | MODEL }, "mamba2-1.3b" };
    enum { WAYS = 3 };                            // chunked, persistent, bc_fused follow `fused` in the list
    mba_case_graph o;
    assert_ok(mba_case_build(&o, &mba_op_ssd, &peer, (mba_case_how){ .compute = MBA_BF16 }));
    for (size_t m = 0; m < sizeof machines / sizeof *machines; m++)
        for (int32_t i = 0; i < o.g->nnodes; i++) {
            const mba_node *n = o.g->nodes[i];
            mba_plan        plan[WAYS];
            if (n->op != &mba_op_ssd && n->op != &mba_op_ssd_bwd) continue;
            for (int k = 0; k < WAYS; k++)
                assert_ok(mba_plan_variant(&plan[k], NULL, o.g->arena, n, &n->op->cuda[1 + k], &machines[m]));
            assert_string_equal(plan[1].variant, "persistent");
            assert_int_equal(plan[1].nlaunches, plan[0].nlaunches);
            assert_int_equal(plan[2].nlaunches, plan[0].nlaunches - 1);
            assert_int_equal(plan[2].scratch[SSD_CB_WORK].bytes, 0);
            for (int k = 0; k < plan[1].nlaunches; k++) {
                const mba_launch *all = &plan[0].launch[k], *few = &plan[1].launch[k];
                assert_string_equal(few->kernel, all->kernel);
                assert_int_equal(few->tiles, all->grid[0]);
                assert_true(few->persistent && few->grid[0] <= few->tiles && few->grid[0] > 0);
                assert_true(few->grid[0] == few->tiles || few->grid[0] % machines[m].sm == 0);
            }
        }
    mba_graph_destroy(o.g);
}

/* Whether the backward of a case begins by making again what the forward has had. */
static bool remakes(const mba_case *c, mba_case_how how, const char *variants)
{
    mba_case_graph o;
    mba_program   *p;
    bool           prepares = false, keeps = false;
    assert_ok(mba_case_build(&o, &mba_op_ssd, c, how));
    assert_ok(mba_program_create(&p, o.g, &(mba_program_options){ .cuda = true, .machine = &machines[1],
                                                                  .variants = variants }));
    for (int32_t i = 0; i < o.g->nnodes; i++) {
        const mba_node *n = o.g->nodes[i];
        if (n->op == &mba_op_ssd)     keeps = n->out[KEPT_STATES] != NULL;
        if (n->op == &mba_op_ssd_bwd) prepares = !strcmp(p->plan[i]->launch[0].kernel, "ssd_prep");
        if (n->op == &mba_op_ssd_bwd) assert_string_equal(p->plan[i]->variant, "fused");
    }
    assert_int_equal(keeps, !how.recompute);
    mba_program_destroy(p);
    mba_graph_destroy(o.g);
    return prepares;
}

static void backward_takes_what_its_own_forward_kept(void **state)
{
    (void)state;
    const mba_case c = { { 2, 200, 4, 64, 2, 128, 64, SKIP_HEAD | BIAS | RESETS }, "fused" };
    assert_false(remakes(&c, (mba_case_how){ .compute = MBA_BF16 }, NULL));
    assert_true(remakes(&c, (mba_case_how){ .compute = MBA_BF16 }, "ssd=chunked"));        // which writes none of it
    assert_true(remakes(&c, (mba_case_how){ .compute = MBA_BF16, .recompute = true }, NULL));
}

/* ---- how the walks of `fused` are cut ---- */

static void check_cuts(const ssd_cuts *r, int64_t sms)
{
    int64_t again = 0;
    assert_in_range(r->blocks, 1, sms);
    assert_int_equal(r->at[0], 0);
    assert_int_equal(r->at[r->blocks], r->items * r->K);
    assert_int_equal(r->handed, r->how == SSD_HANDED ? r->blocks : 0);
    assert_true((r->how == SSD_AGAIN) == (r->blocks > r->items));      // by this a launcher knows
    for (int64_t j = 0; j < r->blocks; j++) {
        const int64_t before = r->at[j] % r->K;
        assert_true(r->at[j] < r->at[j + 1]);
        if (!before) continue;
        assert_true(r->at[j - r->before[j]] <= r->at[j] - before);
        if (r->how == SSD_HANDED) assert_int_equal(r->before[j], 1);   // the block before begins the item: no chain
        else                      assert_int_equal(before % 2, 0);     // what is walked again goes by two
        again += before;
    }
    assert_int_equal(r->again, r->how == SSD_AGAIN ? again : 0);
}

static void cuts_cover_every_chunk_once(void **state)
{
    (void)state;
    const int64_t batch[] = { 1, 2, 3, 4, 8, 300 }, heads[] = { 2, 4, 24, 32, 64, 80, 128 };
    const int64_t length[] = { 1, 64, 65, 300, 512, 1100, 2048, 4096, 32768, 131072 };
    const int64_t sms[] = { 1, 2, 3, 7, 114, 132, 400 };
    int           seen[3] = { 0 };
    for (int i = 0; i < 6 * 10 * 7 * 7 * 2; i++) {
        const bool     backward = i / 420 % 2;
        const int64_t  n = sms[i / 840 % 7];
        const int64_t  H = heads[i / 60 % 7];
        const ssd_dims d = { .B = batch[i % 6], .L = length[i / 6 % 10], .H = H, .P = 64, .N = 128, .G = 1, .J = H };
        const ssd_cuts r = ssd_cuts_of(&d, n, backward);
        seen[r.how]++;
        if (r.how == SSD_UNCUT) continue;
        check_cuts(&r, n);
        const ssd_cuts again = ssd_cuts_as(&d, r.how, r.blocks, backward);
        assert_memory_equal(&again, &r, sizeof r);     // what a launcher makes of the plan
    }
    for (int k = 0; k < 3; k++) assert_true(seen[k] > 0);
}

MBA_TEST_MAIN(cmocka_unit_test(steps_of_the_ladder_differ_from_chunked_in_one_thing),
              cmocka_unit_test(backward_takes_what_its_own_forward_kept), cmocka_unit_test(cuts_cover_every_chunk_once))
