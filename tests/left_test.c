// SPDX-License-Identifier: Apache-2.0
/* left_test.c -- what one variant keeps for its gradient takes no memory where another one runs. */
#include "tests/test.h"

#include "core/check.h"
#include "ops/ssd/ssd.h"
#include "ops/ssd/ssd_slots.h"
#include "tests/machines.h"
#include "train/session.h"

enum { SM_80, SM_90 };

static const mba_case heads = { { 2, 512, 4, 64, 1, 128, 256, SKIP_HEAD | BIAS }, "heads of mamba2" };

static const mba_node *ssd_of(const mba_graph *g)
{
    for (int32_t i = 0; i < g->nnodes; i++)
        if (g->nodes[i]->op == &mba_op_ssd) return g->nodes[i];
    return NULL;
}

/* Bytes of the plan, and whether it has a place for the states. */
static size_t planned(const mba_machine *m, const char *variants, bool recompute, bool *states)
{
    mba_case_graph o;
    mba_program   *p;
    assert_ok(mba_case_build(&o, &mba_op_ssd, &heads, (mba_case_how){ .compute = MBA_BF16, .recompute = recompute }));
    assert_ok(mba_program_create(&p, o.g, &(mba_program_options){ .cuda = true, .machine = m, .variants = variants }));
    const mba_tensor *t = ssd_of(o.g)->out[KEPT_STATES];
    const size_t      bytes = mba_program_bytes(p);
    *states = t && p->layout.first[t->st->id] >= 0;
    mba_program_destroy(p);
    mba_graph_destroy(o.g);
    return bytes;
}

static void states_of_fused_have_no_place_beside_other_variants(void **state)
{
    (void)state;
    bool         kept;
    const char  *chunked = "ssd=chunked,ssd_bwd=chunked";
    const size_t least = planned(&machines[SM_80], chunked, true, &kept);
    assert_false(kept); // nothing is kept that can be made again
    planned(&machines[SM_90], NULL, false, &kept);
    assert_true(kept);
    planned(&machines[SM_80], NULL, false, &kept); // fused_mma keeps them as fused does
    assert_true(kept);
    assert_int_equal(planned(&machines[SM_80], chunked, false, &kept), least);
    assert_false(kept);
    planned(&machines[SM_90], chunked, false, &kept);
    assert_false(kept);
    planned(&machines[SM_90], "ssd=chunked,ssd_bwd=fused", false, &kept); // it makes them itself
    assert_false(kept);
    planned(&machines[SM_90], "ssd=fused,ssd_bwd=chunked", false, &kept); // written, whoever reads them
    assert_true(kept);
}

/* The same of a whole model: its plan is that of a run told to make states again, and says so. */
static void plan_of_model(mba_session *s, const mba_device *d, const char *variants, mba_recompute how)
{
    mba_session_options o = {
        .device = d, .compute = MBA_BF16, .backward = true, .variants = variants, .recompute = how
    };
    assert_ok(mba_model_preset(&o.model, "mamba2-130m"));
    o.model.lm.layers = 2;
    o.model.lm.batch = 2;
    o.model.lm.length = 512;
    assert_ok(mba_session_plan(s, &o));
}

static void a_model_says_what_it_keeps(void **state)
{
    (void)state;
    const mba_device h200 = { .name = "planned", .machine = &machines[SM_90] };
    mba_session      s = { 0 };
    plan_of_model(&s, &h200, NULL, MBA_RECOMPUTE_OFF);
    const int64_t states = s.graph->kept[MBA_RECOMPUTED_STATES];
    const size_t  fused = mba_program_bytes(s.program);
    assert_true(states > 0 && s.graph->recomputed_bytes[MBA_RECOMPUTED_STATES] == 0);
    plan_of_model(&s, &h200, "ssd=chunked,ssd_bwd=chunked", MBA_RECOMPUTE_OFF);
    assert_int_equal(s.graph->kept[MBA_RECOMPUTED_STATES], 0);
    assert_int_equal(s.graph->recomputed_bytes[MBA_RECOMPUTED_STATES], states);
    assert_true((double)mba_program_bytes(s.program) < (double)fused - 0.5 * (double)states);
    mba_session_end(&s);
}

/* Between all that is kept and nothing of it, whatever is allowed is held to, and no more is given up than that
 * takes. */
static void as_little_is_given_up_as_will_do(void **state)
{
    (void)state;
    enum { PARTS = 30 };
    const mba_device    h200 = { .name = "planned", .machine = &machines[SM_90] };
    mba_session         s = { 0 };
    mba_session_options o = { .device = &h200, .compute = MBA_BF16, .backward = true };
    int64_t             before = 0, different = 0;
    assert_ok(mba_model_preset(&o.model, "mamba2-130m"));
    o.model.lm.layers = 7, o.model.lm.batch = 2, o.model.lm.length = 512, o.model.lm.vocab = 512;
    o.recompute = MBA_RECOMPUTE_OFF;
    assert_ok(mba_session_plan(&s, &o));
    const size_t most = mba_program_bytes(s.program);
    o.recompute = MBA_RECOMPUTE_STATES;
    assert_ok(mba_session_plan(&s, &o));
    const size_t least = mba_program_bytes(s.program);
    assert_true(least < most);
    o.recompute = MBA_RECOMPUTE_AUTO;
    for (int i = PARTS; i >= 0; i--) {
        o.memory_bytes = (int64_t)(least + (most - least) * (size_t)i / PARTS);
        assert_ok(mba_session_plan(&s, &o));
        const int64_t remade = s.graph->recomputed_bytes[MBA_RECOMPUTED_STATES]
                               + s.graph->recomputed_bytes[MBA_RECOMPUTED_ROWS];
        assert_true((int64_t)mba_program_bytes(s.program) <= o.memory_bytes);
        assert_false(s.graph->recompute); // not all of it
        assert_true(i < PARTS || remade == 0);
        assert_true(remade >= before);
        different += remade > before;
        before = remade;
    }
    assert_true(different >= 3);
    o.memory_bytes = (int64_t)least / 8;
    assert_fails(mba_session_plan(&s, &o), MBA_E_NOMEM, "or a larger --memory");
    mba_session_end(&s);
}

MBA_TEST_MAIN(cmocka_unit_test(states_of_fused_have_no_place_beside_other_variants),
              cmocka_unit_test(a_model_says_what_it_keeps), cmocka_unit_test(as_little_is_given_up_as_will_do))
