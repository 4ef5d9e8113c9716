// SPDX-License-Identifier: Apache-2.0
/* cliffs_test.c -- which operators of a step are told to run far below their best variant, and the field that mends
 * it, on machines that are not here. */
#include "study/cliffs.h"

#include "tests/test.h"

static mba_session_options options(const char *model, const char *set, mba_dtype compute)
{
    mba_session_options so = { .backward = true, .update = true, .adamw = mba_adamw_defaults(), .compute = compute };
    assert_ok(mba_model_preset(&so.model, model));
    assert_ok(mba_model_set(&so.model, set));
    if (so.model.task != MBA_TASK_GRAPHS)
        assert_ok(
            mba_model_shape(&so.model, &(mba_batch_shape){ .batch = so.model.task == MBA_TASK_IMAGES ? 128 : 8 }));
    return so;
}

static mba_cliffs found(const mba_session_options *so)
{
    mba_cliffs c;
    assert_ok(mba_cliffs_find(&c, so, "h200"));
    return c;
}

static const mba_cliff *cliff_of(const mba_cliffs *c, const char *op)
{
    for (int i = 0; i < c->n; i++)
        if (!strcmp(c->of[i].op, op)) return &c->of[i];
    return NULL;
}

/* Published widths run their best variants, and so does a head of 128, whose in_proj has 3340 columns: its rows are
 * padded to 3344. */
static void ordinary_models_have_no_cliff(void **state)
{
    static const struct {
        const char *model, *set;
    } rows[] = {
        { "mamba2-130m", "layers=2" }, { "mamba2-130m", "layers=2,head_dim=128" },
        { "mamba-130m", "layers=2" },  { "mambavision-t", "classes=1000" },
        { "graphmamba-voc", NULL },
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const mba_session_options so = options(rows[i].model, rows[i].set, MBA_BF16);
        const mba_cliffs          c = found(&so);
        for (int k = 0; k < c.n; k++)
            print_error("%s %s: %s %s\n", rows[i].model, rows[i].set, c.of[k].op, c.of[k].mend);
        assert_int_equal(c.n, 0);
    }
}

/* A head of 60 and a state of 512 leave the tensor cores, five taps the tiles of the convolution. */
static void a_cliff_names_the_variants_the_reason_and_the_field(void **state)
{
    static const struct {
        const char *model, *set, *op, *variant, *best, *why, *mend;
    } rows[] = {
        { "hybrid-130m", "attn_dim=60", "attention_bwd", "plain", "wgmma", "heads of 60 values", "--set attn_dim=64" },
        { "mamba2-130m", "layers=2,state=512", "ssd_bwd", "fma", "fused", "a state of 512", "--set state=256" },
        { "mamba2-130m", "layers=2,conv=5", "conv1d", "any", "tiles", "other taps", "--set conv=4" },
        { "mamba-130m", "layers=2,inner=1538", "matmul", "unaligned", "cublaslt", "multiples of 16 bytes",
          "--set inner=1536" },
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const mba_session_options so = options(rows[i].model, rows[i].set, MBA_BF16);
        const mba_cliffs          c = found(&so);
        const mba_cliff          *k = cliff_of(&c, rows[i].op);
        assert_non_null(k);
        assert_string_equal(k->variant, rows[i].variant);
        assert_string_equal(k->best, rows[i].best);
        assert_string_equal(k->mend, rows[i].mend);
        assert_non_null(strstr(k->why, rows[i].why));
        assert_null(strchr(k->why, '\n'));
        assert_true(k->slower > 2 && k->step_part > 0 && k->step_part < 1);
        for (int j = 1; j < c.n; j++) assert_true(c.of[j].step_part <= c.of[j - 1].step_part);
    }
}

static void fp32_is_told_beside_bf16(void **state)
{
    const mba_session_options so = options("mamba2-130m", "layers=2", MBA_F32);
    const mba_cliffs          c = found(&so);
    const mba_cliff          *k = cliff_of(&c, "ssd_bwd");
    (void)state;
    assert_non_null(k);
    assert_string_equal(k->mend, "--precision bf16");
    assert_non_null(strstr(k->why, "fp32"));
}

/* Whoever names a variant wants it. */
static void a_variant_that_was_asked_for_is_no_cliff(void **state)
{
    mba_session_options so = options("mamba2-130m", "layers=2,state=512", MBA_BF16);
    so.variants = "ssd=fma,ssd_bwd=fma";
    (void)state;
    const mba_cliffs c = found(&so);
    assert_null(cliff_of(&c, "ssd"));
    assert_null(cliff_of(&c, "ssd_bwd"));
}

/* What no field mends is not told: an A100 has no warp groups at any shape. */
static void what_the_machine_lacks_is_no_cliff(void **state)
{
    mba_cliffs                c;
    const mba_session_options so = options("mamba2-130m", "layers=2", MBA_BF16);
    (void)state;
    assert_ok(mba_cliffs_find(&c, &so, "a100"));
    assert_int_equal(c.n, 0);
    assert_fails(mba_cliffs_find(&c, &so, "a1000"), MBA_E_ARG, "a1000");
}

static void a_gpu_is_found_by_its_name_or_its_capability(void **state)
{
    (void)state;
    assert_string_equal(mba_cliffs_machine(&(mba_machine){ .name = "NVIDIA H200", .cc = 90 }), "h200");
    assert_non_null(mba_cliffs_machine(&(mba_machine){ .name = "NVIDIA GH200 480GB", .cc = 90 }));
    assert_null(mba_cliffs_machine(&(mba_machine){ .name = "NVIDIA GTX 1080", .cc = 61 }));
    assert_null(mba_cliffs_machine(&(mba_machine){ .name = "host" }));
}

MBA_TEST_MAIN(cmocka_unit_test(ordinary_models_have_no_cliff),
              cmocka_unit_test(a_cliff_names_the_variants_the_reason_and_the_field),
              cmocka_unit_test(fp32_is_told_beside_bf16), cmocka_unit_test(a_variant_that_was_asked_for_is_no_cliff),
              cmocka_unit_test(what_the_machine_lacks_is_no_cliff),
              cmocka_unit_test(a_gpu_is_found_by_its_name_or_its_capability))
