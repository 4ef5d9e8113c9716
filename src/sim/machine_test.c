// SPDX-License-Identifier: Apache-2.0
/* machine_test.c -- machine files: those that come with the program load, what is wrong is refused with a reason. */
#include "tests/test.h"

#include "sim/kernel.h"
#include "sim/machine.h"
#include "sim/step.h"
#include "tests/scratch.h"

static void expect_refusal(const char *text, const char *word)
{
    mba_gpu m;
    assert_int_equal(mba_gpu_parse(&m, "bad.ini", text, strlen(text)), MBA_E_FORMAT);
    if (!strstr(mba_message(), word)) fail_msg("'%s' is not in: %s", word, mba_message());
    assert_non_null(strstr(mba_message(), "\nfix: "));
}

static void built_in_machines_load(void **state)
{
    static const char *const known[] = { "a100", "a100-pcie-40gb", "a100-sxm4-40gb", "b200", "h100", "h100-pcie",
                                         "h20",  "h200",           "mi300x",         "v100" };
    (void)state;
    for (int n = 0; mba_gpu_name(n); n++) {
        mba_gpu m;
        assert_ok(mba_gpu_load(&m, mba_gpu_name(n)));
        assert_true(m.built_in && m.v[MBA_GPU_hbm] > 0 && m.v[MBA_GPU_sm] >= 1 && m.v[MBA_GPU_hbm_mix] <= 1);
    }
    for (size_t k = 0; k < sizeof known / sizeof *known; k++) { // a new file in machines/ adds to them
        int n = 0;
        while (mba_gpu_name(n) && strcmp(mba_gpu_name(n), known[k])) n++;
        if (!mba_gpu_name(n)) fail_msg("%s is not built in", known[k]);
    }
}

/* d, m, f or a, as h100.ini explains them; what is assumed has a spread, but for whole numbers of a kind. */
static void every_number_has_its_source(void **state)
{
    char line[512], path[64];
    (void)state;
    for (int n = 0; mba_gpu_name(n); n++) {
        snprintf(path, sizeof path, "machines/%s.ini", mba_gpu_name(n));
        FILE *f = fopen(path, "r");
        if (!f) fail_msg("no %s", path);
        while (fgets(line, sizeof line, f)) {
            const char *source = strchr(line, '#');
            if (line[0] == '#' || line[0] == '\n' || !strncmp(line, "include", 7)) continue;
            if (!source || !strchr("dmfa", source[2]) || !strchr(",;: \n", source[3])) fail_msg("%s: %s", path, line);
            if (source[2] == 'a' && !strstr(line, "+-") && !strstr(line, " count ")) fail_msg("%s: %s", path, line);
        }
        assert_int_equal(fclose(f), 0);
    }
}

static void bad_machine_files_are_refused_with_a_reason(void **state)
{
    (void)state;
    mba_gpu m;
    expect_refusal("include = h200\nhmb = 5000 GB/s\n", "unknown key 'hmb'");
    expect_refusal("include = h200\nhbm = 5000\n", "hbm has no unit");
    expect_refusal("include = h200\nhbm = 5000 +- 3\n", "hbm has no unit");
    expect_refusal("include = h200\nhbm = 5 TB/s\n", "its unit is GB/s");
    expect_refusal("include = h200\nsm = 1.5 count\n", "a whole number");
    expect_refusal("include = h200\nhbm = -5 GB/s\n", "not negative");
    expect_refusal("include = h200\nhbm = nan GB/s\n", "no number follows the =");
    expect_refusal("include = h200\nhbm = 1 GB/s\nhbm = 2 GB/s\n", "twice");
    expect_refusal("include = h200\nhbm = 1 GB/s +- x\n", "no number follows +-");
    expect_refusal("include = h200\nl2_slope = 6.3 ratio\n", "multiples of 0.5");
    expect_refusal("hbm = 1 GB/s\ninclude = h200\n", "after other keys");
    expect_refusal("include = h900\n", "no machine 'h900'");
    expect_refusal("hbm = 5000 GB/s\n", "has no cc");
    expect_refusal("", "has no cc");
    expect_refusal("include = h200\nhbm 5000 GB/s\n", "no = follows");
    assert_int_equal(mba_gpu_load(&m, "h900"), MBA_E_ARG);
    assert_ok(mba_gpu_load(&m, "h200"));
    assert_int_equal(mba_gpu_set(&m, "hbm=x-1"), MBA_E_ARG);
    assert_int_equal(mba_gpu_set(&m, "hbm=5TB"), MBA_E_ARG);
    assert_int_equal(mba_gpu_set(&m, "hbm"), MBA_E_ARG);
    assert_int_equal(mba_gpu_set(&m, "sm=1.5"), MBA_E_ARG);
    assert_ok(mba_gpu_set(&m, "hbm=x2,xu=32lanes/clk"));
    assert_true(m.v[MBA_GPU_hbm] == 9600 && m.v[MBA_GPU_xu] == 32 && m.changed);
}

/* The model looks at the half point alone: a change of l2 that left it where it is would do nothing. */
static void another_l2_has_another_half_point(void **state)
{
    static const char twice[] = "include = h200\nl2 = 120 MB\n",
                      both[] = "include = h200\nl2 = 120 MB\nl2_half_reuse = 70 MB\n";
    mba_gpu h200, m;
    (void)state;
    assert_ok(mba_gpu_load(&h200, "h200"));
    const double c50 = h200.v[MBA_GPU_l2_half_reuse];
    m = h200;
    assert_ok(mba_gpu_set(&m, "l2=x0.5"));
    assert_true(m.v[MBA_GPU_l2_half_reuse] == c50 / 2);
    m = h200;
    assert_ok(mba_gpu_set(&m, "l2_half_reuse=70,l2=x0.5"));
    assert_true(m.v[MBA_GPU_l2_half_reuse] == 70);
    assert_ok(mba_gpu_parse(&m, "twice.ini", twice, sizeof twice - 1));
    assert_true(m.v[MBA_GPU_l2_half_reuse] == 2 * c50);
    assert_ok(mba_gpu_parse(&m, "both.ini", both, sizeof both - 1));
    assert_true(m.v[MBA_GPU_l2_half_reuse] == 70);
    m = h200;
    assert_ok(mba_gpu_set(&m, "sm=x0.7"));
    assert_true(m.v[MBA_GPU_sm] == 92);
}

/* A block cannot have more than the SM it is on. */
static void shared_memory_of_an_sm_bounds_that_of_a_block(void **state)
{
    mba_gpu m;
    (void)state;
    assert_ok(mba_gpu_load(&m, "h200"));
    assert_ok(mba_gpu_set(&m, "smem_sm=48"));
    assert_int_equal(mba_gpu_for_plans(&m).smem_block_bytes, 48 * 1024);
    const mba_sim_kernel k = { .warps = 4, .threads = 128, .regs = 32, .smem_bytes = 100 * 1024 };
    assert_int_equal(mba_sim_resident(&k, &m), 0);
}

/* A machine file of one line that includes another. */
static void write_including(const char *path, const char *other)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fprintf(f, "include = %s\n", other) > 0);
    assert_int_equal(fclose(f), 0);
}

static void a_machine_that_includes_itself_is_refused(void **state)
{
    (void)state;
    mba_gpu m;
    scratch_make();
    const char *a = scratch("a.ini"), *b = scratch("b.ini");
    write_including(a, "b.ini");
    write_including(b, "a.ini");
    assert_int_equal(mba_gpu_load(&m, a), MBA_E_FORMAT);
    assert_non_null(strstr(mba_message(), "includes itself"));
    scratch_remove();
}

/* Files from anybody: what they include is in their own folder, wherever the program was started. */
static void a_machine_includes_no_file_outside_of_its_folder(void **state)
{
    (void)state;
    mba_gpu m;
    scratch_make();
    const char *a = scratch("sets/a.ini"), *other = scratch("other.ini");
    assert_int_equal(mkdir(scratch("sets"), 0777), 0);
    assert_int_equal(mkdir(scratch("sets/below"), 0777), 0);
    write_including(scratch("sets/below/b.ini"), "h200");
    write_including(other, "h200");
    write_including(a, "below/b.ini");
    assert_ok(mba_gpu_load(&m, a));
    assert_int_equal(symlink("../other.ini", scratch("sets/link.ini")), 0);
    const char *const outside[] = { "../other.ini", "below/../../other.ini", "/etc/passwd", "link.ini" };
    for (size_t i = 0; i < sizeof outside / sizeof *outside; i++) {
        write_including(a, outside[i]);
        assert_fails(mba_gpu_load(&m, a), MBA_E_FORMAT, "the included file is outside of this file's folder");
    }
    write_including(a, "none.ini");
    assert_fails(mba_gpu_load(&m, a), MBA_E_IO, "cannot find");
    scratch_remove();
}

static void a_machine_that_nobody_knows_has_a_neighbour(void **state)
{
    (void)state;
    mba_gpu m;
    assert_fails(mba_gpu_load(&m, "h2000"), MBA_E_ARG, "did you mean h200?");
    assert_fails(mba_gpu_load(&m, "mi30x"), MBA_E_ARG, "did you mean mi300x?");
    expect_refusal("include = h200\nhmb = 5000 GB/s\n", "did you mean hbm");
}

/* A release ago keys had other names: files, changes and sweeps take them still, and the user learns the new ones. */
static void old_names_of_keys_are_taken_with_a_note(void **state)
{
    static const struct {
        const char *old, *now;
    } of[] = {
#define RENAMED(old, new) { #old, #new },
#include "sim/machine_renamed.def"
#undef RENAMED
    };
    mba_gpu h200, m;
    char    text[512], note[512];
    (void)state;
    assert_false(mba_gpu_keys_renamed(note, sizeof note));
    assert_ok(mba_gpu_load(&h200, "h200"));
    assert_false(mba_gpu_keys_renamed(note, sizeof note)); // ours have the new names
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        const int    k = mba_gpu_key_find(of[i].now);
        const double v = 2 * h200.v[k];
        assert_true(k >= 0 && !strcmp(mba_gpu_keys[k].name, of[i].now) && !strcmp(mba_gpu_key_seed(k), of[i].old));
        snprintf(text, sizeof text, "include = h200\n%s = %g %s\n", of[i].old, v, mba_gpu_keys[k].unit);
        assert_ok(mba_gpu_parse(&m, "old.ini", text, strlen(text)));
        assert_true(m.v[k] == v);
        m = h200;
        snprintf(text, sizeof text, "%s=x2", of[i].old);
        assert_ok(mba_gpu_set(&m, text));
        assert_true(m.v[k] == v);
        snprintf(text, sizeof text, "%s is now %s", of[i].old, of[i].now);
        assert_true(mba_gpu_keys_renamed(note, sizeof note) && strstr(note, text) && !strchr(note, '\n'));
    }
    assert_true(mba_gpu_keys_renamed(text, 8) && strlen(text) == 7); // cut, not overrun
    expect_refusal("include = h200\nbar = 20 cycles\nbarrier = 20 cycles\n", "twice");
    assert_string_equal(mba_gpu_key_seed(MBA_GPU_hbm), "hbm");
}

static mba_cost work;
static mba_cost work_of(const mba_node *n)
{
    (void)n;
    return work;
}

/* The roofline that `validate` sets the simulator against: the longest of four floors, each on paper. */
static void the_roofline_is_the_longest_floor(void **state)
{
    (void)state;
    mba_gpu        m;
    const mba_op   op = { .cost = work_of };
    mba_tensor     x = { .type = MBA_TYPE(MBA_F32, 1) }, h = { .type = MBA_TYPE(MBA_BF16, 1) };
    const mba_node full = { .op = &op, .in = { &x } }, half = { .op = &op, .in = { &x, &h } },
                   tf32 = { .op = &op, .in = { &x }, .tf32 = true };
    assert_ok(mba_gpu_load(&m, "h200"));
    m.v[MBA_GPU_clk] = 2, m.v[MBA_GPU_sm] = 100, m.v[MBA_GPU_mma16] = 4096, m.v[MBA_GPU_mma32] = 256,
    m.v[MBA_GPU_fma] = 128, m.v[MBA_GPU_xu] = 16, m.v[MBA_GPU_hbm] = 4000; // GHz, .., GB/s
    work = (mba_cost){ .read_bytes = 3e9, .write_bytes = 1e9 };
    assert_near(mba_sim_roofline(&full, &m), 1e-3, 1e-15);
    work.tensor_flops = 256 * 2e11 * 2e-3;
    assert_near(mba_sim_roofline(&full, &m), 2e-3, 1e-15);
    assert_near(mba_sim_roofline(&half, &m), 1e-3, 1e-15); // sixteen times as fast: memory
    work.tensor_flops *= 32;
    assert_near(mba_sim_roofline(&half, &m), 4e-3, 1e-15);
    assert_near(mba_sim_roofline(&tf32, &m), 8e-3, 1e-15); // half as fast as bf16
    work.vector_flops = 2 * 128 * 2e11 * 5e-3;
    assert_near(mba_sim_roofline(&half, &m), 5e-3, 1e-15);
    work.special_ops = 16 * 2e11 * 6e-3;
    assert_near(mba_sim_roofline(&half, &m), 6e-3, 1e-15);
}

MBA_TEST_MAIN(cmocka_unit_test(built_in_machines_load), cmocka_unit_test(every_number_has_its_source),
              cmocka_unit_test(bad_machine_files_are_refused_with_a_reason),
              cmocka_unit_test(another_l2_has_another_half_point),
              cmocka_unit_test(shared_memory_of_an_sm_bounds_that_of_a_block),
              cmocka_unit_test(a_machine_that_includes_itself_is_refused),
              cmocka_unit_test(a_machine_includes_no_file_outside_of_its_folder),
              cmocka_unit_test(a_machine_that_nobody_knows_has_a_neighbour),
              cmocka_unit_test(old_names_of_keys_are_taken_with_a_note),
              cmocka_unit_test(the_roofline_is_the_longest_floor))
