// SPDX-License-Identifier: Apache-2.0
/* train_parts_test.c -- what a training run is made of, each by itself: the guard, schedules, LAMB, sampling. */
#include "tests/test.h"

#include "train/checkpoint.h"
#include "train/feed.h"
#include "train/generate.h"
#include "train/guard.h"
#include "train/schedule.h"
#include "train/session.h"

static void the_guard_skips_what_is_out_of_line(void **state)
{
    (void)state;
    mba_guard g = { .factor = 8 };
    assert_true(mba_guard_skips(&g, NAN, 1));
    assert_true(mba_guard_skips(&g, 1, INFINITY));
    assert_false(mba_guard_skips(&g, 1, 1e9)); // it has seen nothing yet
    for (int i = 0; i < 100; i++) mba_guard_note(&g, 3 - 0.01 * i, 1 + 0.1 * (i % 3));
    assert_false(mba_guard_skips(&g, 2.1, 5));
    assert_true(mba_guard_skips(&g, 2.1, 50));
    assert_true(mba_guard_skips(&g, 9, 1));
    const int before = g.n;
    mba_guard_note(&g, 9, 1);
    assert_int_equal(g.n, before);
    assert_int_equal(g.skipped, 1);
    assert_int_equal(g.in_a_row, 1);
}

/* The thresholds by hand: the median is the middle one of what came in any order, of an even number the upper one; the
 * spread of losses is the farthest from it, at least a twentieth of it. */
static void thresholds_of_the_guard_are_those_of_the_median(void **state)
{
    (void)state;
    mba_guard g = { .factor = 4 };
    for (int i = 0; i < 16; i++) {
        assert_true(mba_guard_norm_max(&g) == 0 && mba_guard_loss_max(&g) == 0);
        mba_guard_note(&g, 2, 1 + (i * 7) % 16); // norms 1 .. 16
    }
    assert_true(mba_guard_norm_max(&g) == 4 * 9);
    assert_near(mba_guard_loss_max(&g), 2 + 4 * 0.05 * 2, 1e-6);
    mba_guard_note(&g, 1.5, 17); // 1 .. 17
    assert_true(mba_guard_norm_max(&g) == 4 * 9);
    assert_near(mba_guard_loss_max(&g), 2 + 4 * 0.5, 1e-6);
    for (int i = 0; i < 32; i++) mba_guard_note(&g, 2, 3); // what was before is forgotten
    assert_true(mba_guard_norm_max(&g) == 4 * 3);
    assert_near(mba_guard_loss_max(&g), 2 + 4 * 0.05 * 2, 1e-6);
    assert_false(mba_guard_skips(&g, 2.39, 12));
    assert_true(mba_guard_skips(&g, 2.41, 12));
    assert_true(mba_guard_skips(&g, 2.39, 12.01));
    assert_int_equal(g.skipped, 0);
    g.factor = 0; // NaN alone
    assert_false(mba_guard_skips(&g, 1e30, 1e30));
    assert_true(mba_guard_skips(&g, NAN, 1));
}

static void the_learning_rate_warms_up_and_falls(void **state)
{
    (void)state;
    const mba_schedule s = { .lr = 1, .lr_min = 0.1, .warmup = 10, .steps = 110 };
    assert_near(mba_schedule_lr(&s, 0), 0.1, 1e-12);
    assert_near(mba_schedule_lr(&s, 9), 1, 1e-12);
    assert_near(mba_schedule_lr(&s, 10), 1, 1e-12);
    assert_near(mba_schedule_lr(&s, 60), 0.55, 1e-12);
    assert_near(mba_schedule_lr(&s, 110), 0.1, 1e-12);
}

static double length_of(const float *a, const float *b, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += pow((double)a[i] - (b ? (double)b[i] : 0), 2);
    return sqrt(sum);
}

/* Every tensor that decays goes as far as the rate times its length: as it is published, not the matrix of which it is
 * some rows here. With one length for q, k and v, or for gate and up,
 * none of them does. */
static void lamb_stretches_tensors_as_they_are_published(void **state)
{
    static const char *const from[] = { "tests/golden/bamba_gqa", "tests/golden/jamba_dense",
                                        "tests/golden/nemotron_h_gqa" };
    (void)state;
    for (size_t f = 0; f < sizeof from / sizeof *from; f++) {
        mba_session_options so = { .backward = true,
                                   .update = true,
                                   .optimizer = MBA_LAMB,
                                   .adamw = { .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .decay = 0.05, .clip = 5 } };
        mba_session         s = { 0 };
        mba_hf_format       format;
        mba_step            step = { .seed = 1, .lr = 1e-2f, .loss_scale = 1 };
        int                 cut = 0;
        assert_ok(mba_checkpoint_config(&so.model, &format, from[f]));
        so.model.lm.batch = 2;
        so.model.lm.length = 16;
        assert_ok(mba_session_plan(&s, &so));
        assert_ok(mba_session_bind(&s, 1));
        format = mba_hf_format_for(&s.model);
        assert_ok(mba_feed_example(&s, &step));
        step.lr = 1e-2f;
        const size_t bytes = s.program->layout.arena_bytes[MBA_PARAM];
        char        *before = malloc(bytes);
        assert_non_null(before);
        memcpy(before, s.program->memory[MBA_PARAM], bytes);
        assert_ok(mba_program_run(s.program, MBA_STEP, &step, NULL));
        for (int32_t i = 0; i < s.graph->ntensors; i++) {
            const mba_tensor *t = s.graph->tensors[i];
            mba_hf_slice      piece[MBA_HF_SLICES_MAX];
            if (!mba_is_param(t) || t->st != s.graph->params[MBA_DECAY]) continue;
            const int     n = mba_hf_slices(piece, format, &s.model, t);
            const float  *now = mba_program_at(s.program, t);
            const float  *then = (const float *)(before
                                                + ((const char *)now - (const char *)s.program->memory[MBA_PARAM]));
            const int64_t row = mba_elems(t) / t->type.dim[0];
            for (int k = 0; k < n; k++) {
                const float *p = then + piece[k].row * row;
                assert_near(length_of(now + piece[k].row * row, p, piece[k].rows * row)
                                / length_of(p, NULL, piece[k].rows * row),
                            1e-2, 2e-6);
            }
            cut += n > 1;
        }
        assert_true(cut > 0);
        free(before);
        mba_session_end(&s);
    }
}

/* Four tokens of probability 0.15, 0.5, 0.05 and 0.3, drawn at many positions: which of them come, and how often. */
static void a_nucleus_is_the_fewest_likeliest(void **state)
{
    enum { DRAWS = 20000 };
    const float logits[4] = { logf(0.15f), logf(0.5f), logf(0.05f), logf(0.3f) };
    const struct {
        double  p;
        int64_t top;
        double  want[4];
    } cases[] = {
        { 0, 0, { 0.15, 0.5, 0.05, 0.3 } },
        { 1, 0, { 0.15, 0.5, 0.05, 0.3 } },
        { 0.9, 0, { 0.15 / 0.95, 0.5 / 0.95, 0, 0.3 / 0.95 } },
        { 0.75, 0, { 0, 0.625, 0, 0.375 } },
        { 0.45, 0, { 0, 1, 0, 0 } },
        { 1e-6, 0, { 0, 1, 0, 0 } },
        { 0.75, 3, { 0, 0.625, 0, 0.375 } },
        { 0.6, 2, { 0, 1, 0, 0 } },
        { 0.7, 2, { 0, 0.625, 0, 0.375 } },
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const mba_generate_options o = { .temperature = 1, .top = cases[i].top, .top_p = cases[i].p, .seed = 3 };
        mba_choice                 space[4];
        int                        n[4] = { 0 };
        for (int k = 0; k < DRAWS; k++) n[mba_generate_draw(space, logits, 4, &o, k)]++;
        for (int t = 0; t < 4; t++) {
            assert_near((double)n[t] / DRAWS, cases[i].want[t], 0.018); // five standard deviations of a half
            assert_true((n[t] > 0) == (cases[i].want[t] > 0));
        }
    }
}

/* 100 steps, 10 of warm-up, 20 of cooldown: the rate is 1 from step 9 to step 80 and falls to 0.2. A quarter of the way
 * down the line has 0.75 of 0.8 left, 1 - sqrt the half. */
static void the_stable_rate_cools_down_at_the_end(void **state)
{
    (void)state;
    mba_schedule s = { .lr = 1, .lr_min = 0.2, .warmup = 10, .steps = 100, .kind = MBA_LR_WSD, .cooldown = 0.2 };
    const struct {
        int64_t step;
        double  line, root, constant;
    } want[] = {
        { 0, 0.1, 0.1, 0.1 },
        { 4, 0.5, 0.5, 0.5 },
        { 10, 1, 1, 1 },
        { 79, 1, 1, 1 },
        { 80, 1, 1, 1 },
        { 85, 0.8, 0.6, 1 },
        { 95, 0.4, 0.2 + 0.8 * (1 - 0.8660254037844386), 1 },
        { 99, 0.24, 0.2 + 0.8 * (1 - 0.9746794344808963), 1 },
        { 100, 0.2, 0.2, 1 },
        { 1000, 0.2, 0.2, 1 },
    };
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        s.kind = MBA_LR_WSD;
        assert_near(mba_schedule_lr(&s, want[i].step), want[i].line, 1e-12);
        s.kind = MBA_LR_WSD_SQRT;
        assert_near(mba_schedule_lr(&s, want[i].step), want[i].root, 1e-12);
        s.kind = MBA_LR_CONSTANT;
        assert_near(mba_schedule_lr(&s, want[i].step), want[i].constant, 1e-12);
    }
    s = (mba_schedule){
        .lr = 1, .warmup = 60, .steps = 100, .kind = MBA_LR_WSD, .cooldown = 1
    }; // it waits for the warm-up
    assert_near(mba_schedule_lr(&s, 59), 1, 1e-12);
    assert_near(mba_schedule_lr(&s, 60), 1, 1e-12);
    assert_near(mba_schedule_lr(&s, 80), 0.5, 1e-12);
    s.cooldown = 0;
    assert_near(mba_schedule_lr(&s, 99), 1, 1e-12);
}

MBA_TEST_MAIN(cmocka_unit_test(the_guard_skips_what_is_out_of_line),
              cmocka_unit_test(thresholds_of_the_guard_are_those_of_the_median),
              cmocka_unit_test(the_learning_rate_warms_up_and_falls),
              cmocka_unit_test(lamb_stretches_tensors_as_they_are_published),
              cmocka_unit_test(a_nucleus_is_the_fewest_likeliest),
              cmocka_unit_test(the_stable_rate_cools_down_at_the_end))
