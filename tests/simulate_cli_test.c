// SPDX-License-Identifier: Apache-2.0
/* simulate_cli_test.c -- `simulate`, `sweep` and `validate` as a person or a script meets them: the error beside every
 * answer, nothing ignored in silence, documents that parse. */
#include "sim/profiled.h"
#include "tests/program.h"

#define STORE "tests/data/stores/h200_mamba2.db"
#define SHORT "--model mamba2-130m --batch 1 --length 64"

static json_t *rows_of(const char *args)
{
    assert_int_equal(run("%s 2> /dev/null | cat", args), 0);
    return json_output();
}

static double of(const json_t *row, const char *key)
{
    const json_t *v = json_object_get(row, key);
    return json_is_number(v) ? json_number_value(v) : NAN;
}

/* Kernels of a store are known by their counts alone, which is worse than what `validate` says of kernels whose code
 * was read; the store has their times, so the error is known where it was made, whatever machine is asked for. */
static void kernels_of_a_store_have_their_error_beside_them(void **state)
{
    (void)state;
    json_t *there = rows_of("simulate --json --machine h200 --store " STORE),
           *away = rows_of("simulate --json --machine h100 --store " STORE);
    double mean = 0;
    for (size_t i = 0; i < json_array_size(there); i++) {
        const json_t *a = json_array_get(there, i), *b = json_array_get(away, i);
        const double  error = 100 * (of(a, "us") / of(a, "measured_us") - 1);
        assert_true(fabs(of(a, "error") - error) < 1e-3);
        assert_true(of(a, "error") == of(b, "error"));
        mean += fabs(error) / (double)json_array_size(there);
    }
    char said[96];
    snprintf(said, sizeof said, "where they were measured: %.0f %% on average", mean);
    assert_true(mean > 1 && mean < 30);
    says(run("simulate --machine h100 --store " STORE), 0, said);
    json_decref(there);
    json_decref(away);
    says(run("simulate --counted src/sim/data/peers_counted.tsv"), 0, "error, held out, of ");
    says(run("simulate --signatures src/sim/data/peers_signatures.tsv"), 0, "error: not measured for these kernels");
}

/* Stores of other programs, with whatever sets they were profiled: counts that they lack are estimated. */
static void every_store_of_a_peer_can_be_simulated(void **state)
{
    static const char *const peers[] = { "peer", "peer_1.3b", "peer_mamba1", "peer_small" };
    (void)state;
    for (size_t i = 0; i < sizeof peers / sizeof *peers; i++) {
        char line[160];
        snprintf(line, sizeof line, "simulate --json --machine h200 --store tests/data/stores/h200_%s.db", peers[i]);
        json_t *rows = rows_of(line);
        double  said = 0, took = 0;
        for (size_t k = 0; k < json_array_size(rows); k++) {
            const json_t *r = json_array_get(rows, k);
            said += of(r, "launches") * of(r, "us");
            took += of(r, "launches") * of(r, "measured_us");
        }
        printf("%s: %zu kernels, %+.1f %%\n", peers[i], json_array_size(rows), 100 * (said / took - 1));
        assert_true(json_array_size(rows) > 50 && fabs(said / took - 1) < 0.2);
        json_decref(rows);
    }
}

/* No constant was fitted to the peers' kernels; bench/results/simulated/peers.csv has what this prints. */
static void kernels_of_peers_are_held_out_beside_their_times(void **state)
{
    mba_profiled_set *d;
    (void)state;
    assert_ok(mba_profiled_load(&d, "src/sim/data/peers_counted.tsv"));
    assert_int_equal(d->n, 15);
    for (int i = 0; i < d->n; i++) assert_int_equal(d->one[i].set, MBA_POINT_HELD);
    json_t *rows = rows_of("simulate --json --counted src/sim/data/peers_counted.tsv");
    for (int i = 0; i < d->n; i++) assert_near(of(json_array_get(rows, (size_t)i), "measured_us"), d->one[i].us, 1e-6);
    json_decref(rows);
    mba_profiled_destroy(d);
}

/* Of two axes that move one number the last would win, and the row would say what was never simulated. */
static void axes_move_different_things(void **state)
{
    static const char *const pairs[][2] = { { "batch=1", "batch=2" },           { "hbm=x2", "hbm=6000" },
                                            { "clk=x2", "clock=x2" },           { "ratio=32", "mma16=x2" },
                                            { "launch=x2", "block_start=0" },   { "launch=x2", "t_blk=0" },
                                            { "l2_c50=x2", "l2_half_reuse=x4" } };
    (void)state;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        says(run("sweep --model mamba2-130m --axis %s --by %s", pairs[i][0], pairs[i][1]), 2,
             "both change the same number");
    says(run("sweep " SHORT " --axis l2=x2 --by l2_half_reuse=x2 --csv"), 0, "mamba2-130m,x2,x2,");
}

/* The table of a cluster: what is sent follows from the parameters, efficiency falls, and the text has its
 * assumptions. */
static void a_cluster_has_a_scaling_table(void **state)
{
    static const int gpus[] = { 1, 8, 64, 512, 4096 };
    (void)state;
    json_t *rows = rows_of("simulate --model mamba2-1.3b --batch 4 --length 2048 --gpus 8,64,512,4096 --cluster ib400 "
                           "--json");
    assert_int_equal(json_array_size(rows), 5);
    for (size_t i = 0; i < 5; i++) {
        const json_t *r = json_array_get(rows, i);
        const double  R = gpus[i], node = R < 8 ? R : 8;
        assert_true(of(r, "ranks") == R && of(r, "units") == 8192 * R);
        assert_true(of(r, "efficiency") <= 100 && of(r, "efficiency") > 50);
        assert_true(of(r, "exposed_ms") <= of(r, "sum_ms") + of(r, "gather_ms"));
        if (!i) continue;
        assert_true(of(r, "efficiency") <= of(json_array_get(rows, i - 1), "efficiency") + 1);
        /* 5.38 GB of gradients and 8.07 GB of parameters, of which the ranks of a node exchange 1 - 1 / 8 */
        assert_true(fabs(of(r, "node_gb") / (13.45 * (1 - 1 / node)) - 1) < 0.06);
        assert_true((of(r, "net_gb") > 0) == (R > 8));
    }
    json_decref(rows);
    says(run("simulate --model mamba2-1.3b --batch 4 --length 2048 --gpus 8,64 --cluster ib400"), 0,
         "assumed: every rank has the same batch");
}

/* The names that keys had a release ago mean the same, and one line says so where people read. */
static void old_names_of_keys_are_noted(void **state)
{
    (void)state;
    says(run("simulate " SHORT " --set t_blk=x2,bar=40"), 0,
         "note: bar is now barrier, t_blk is now block_start; the next release takes no old names");
    assert_int_equal(run("simulate " SHORT " --set block_start=x2 2>&1 | grep -q '^note: '"), 1);
    json_t *now = rows_of("sweep --json " SHORT " --axis block_start=x2"),
           *old = rows_of("sweep --json " SHORT " --axis t_blk=x2");
    assert_true(json_array_size(now) == 1
                && of(json_array_get(now, 0), "step_ms") == of(json_array_get(old, 0), "step_ms"));
    json_decref(now);
    json_decref(old);
}

static void what_would_be_ignored_is_refused(void **state)
{
    (void)state;
    says(run("sweep --experiment q1 --axis hbm=x2"), 2, "--experiment q1 and --axis");
    says(run("sweep --experiment q1 --elasticity"), 2, "--experiment q1 and --elasticity");
    says(run("sweep --elasticity --by hbm=x2"), 2, "--elasticity and --by");
    says(run("sweep " SHORT " --axis chunk=0"), 2, "--axis chunk=0");
    says(run("sweep " SHORT " --axis chunk=64:128"), 2, "the ssd kernels that run always use chunks of 64");
    says(run("sweep " SHORT " --axis chunk=64:128 --op ssd=chunked,ssd_bwd=chunked --csv"), 0, "mamba2-130m,128,");
    says(run("sweep --model mamba-130m --batch 1 --length 256 --axis chunk=64"), 2, "this model has no ssd");
    says(run("simulate --store " STORE " --model mamba-130m"), 2, "--store and --model");
    says(run("simulate --store " STORE " --batch 3"), 2, "--store and a size cannot be combined");
    says(run("simulate --counted x.tsv --op ssd=chunked"), 2, "--counted and --op");
    says(run("simulate --keys --json"), 2, "--keys and --json");
    says(run("simulate " SHORT " --uncertainty --json"), 2, "--uncertainty and --json");
    says(run("simulate " SHORT " --set ''"), 0, ", on h200 (grade B)");
}

/* Events are simulated in the time that simulating them takes; bands and their draws are not among them. */
static void the_rate_of_events_is_that_of_simulating(void **state)
{
    (void)state;
    says(run("sweep " SHORT " --axis hbm=x1"), 0, " events, ");
    double rate = 0;
    assert_int_equal(sscanf(strstr(output, " events, ") + 9, "%lf", &rate), 1);
    assert_true(rate > 0);
}

static void documents_parse_whatever_files_are_called(void **state)
{
    char path[512];
    (void)state;
    snprintf(path, sizeof path, "%s", scratch("a \"machine\".ini"));
    put(path, "include = h200\nhbm = 5000 GB/s  # source: a test\n");
    assert_int_equal(run("simulate " SHORT " --json --machine '%s' 2> /dev/null | cat", path), 0);
    json_t *j = json_output();
    assert_string_equal(json_string_value(json_object_get(j, "machine")), "a \"machine\".ini");
    json_decref(j);
}

/* A prediction of no change where there was one has no sign to be right. */
static void signs_of_imitated_machines_are_counted_apart(void **state)
{
    (void)state;
    int     missed = 0, opposite = 0;
    json_t *rows = rows_of("validate --counterfactual - --json");
    assert_int_equal(json_array_size(rows), 20);
    for (size_t i = 0; i < 20; i++) {
        const double was = of(json_array_get(rows, i), "measured"), said = of(json_array_get(rows, i), "predicted");
        missed += fabs(was - 1) > 0.01 && fabs(said - 1) <= 0.01;
        opposite += (was > 1.01 && said < 0.99) || (was < 0.99 && said > 1.01);
    }
    json_decref(rows);
    char words[160];
    snprintf(words, sizeof words,
             "%d of 20 predictions have the opposite sign, %d changes of more than 1 %% were not predicted", opposite,
             missed);
    says(run("validate --counterfactual -"), 0, words);
}

/* The example of its --help, read as CSV: where one table ends and another begins must show. */
static void tables_of_csv_are_apart(void **state)
{
    (void)state;
    assert_int_equal(run("validate --points --csv | grep -n -B 1 '^set,source'"), 0);
    assert_non_null(strstr(output, "-\n"));
    says(run("validate"), 0, "worst held out: kernel ");
    assert_null(strstr(output, "note: "));
}

/* Errors against an H200's measurements look like those of the model where the machine is another. */
static void points_of_an_h200_test_no_other_gpu(void **state)
{
    (void)state;
    says(run("validate --set sm=66 --csv"), 0,
         "note: the points were measured on an H200 (132 SMs, 4800 GB/s), the machine here has 66 SMs");
}

static int prepare(void **state)
{
    (void)state;
    scratch_make();
    return 0;
}
static int clean(void **state)
{
    (void)state;
    scratch_remove();
    return 0;
}

/* The first command of the guide for people who train was refused where there is no GPU, and memory came in bytes. */
static void a_dry_run_says_whether_it_fits_a_machine(void **state)
{
    (void)state;
    says(run("train --model mamba2-370m --device cuda --batch 8 --length 2048 --dry-run --machine h100"), 0,
         "fits in 80 GB (h100)");
    assert_non_null(strstr(output, "memory, GB "));
    assert_non_null(strstr(output, "SIMULATED step on h100: "));
    says(run("train --model mamba2-370m --batch 8 --length 2048 --dry-run --machine h100 --json"), 0, "\"fits\": true");
    json_t      *j = json_output(), *s = json_object_get(json_object_get(j, "machine"), "simulated");
    const double step = of(s, "step_ms"), low = json_number_value(json_array_get(json_object_get(s, "band_ms"), 0));
    assert_true(fabs(of(json_object_get(j, "machine"), "plan_gb") - of(j, "plan_bytes") / 1e9) < 1e-9);
    assert_true(low > 0.5 * step && low < step);
    json_decref(j);
    // it is the step that `simulate` predicts, and one of several micro-batches takes as many times as long, less the
    // updates
    says(run("simulate --machine h100 --model mamba2-370m --batch 8 --length 2048 --json"), 0, "step_ms");
    assert_true(fabs(number("step_ms") / step - 1) < 1e-4);
    says(run("train --model mamba2-370m --batch 8 --length 2048 --micro-batches 3 --dry-run --machine h100 --json"), 0,
         "band_ms");
    j = json_output();
    const double three = of(json_object_get(json_object_get(j, "machine"), "simulated"), "step_ms");
    assert_true(three > 2.5 * step && three < 3.1 * step);
    json_decref(j);
}

static void a_dry_run_names_the_field_that_mends_a_slow_width(void **state)
{
    (void)state;
    says(run("train --model hybrid-130m --set attn_dim=60 --dry-run --machine h200"), 0,
         "  why: 'wgmma' does not take heads of 60 values");
    says(run("train --model hybrid-130m --set attn_dim=60 --dry-run --machine h200 --json"), 0, "\"slow\"");
    json_t       *j = json_output();
    const json_t *first = json_array_get(json_object_get(j, "slow"), 0);
    assert_string_equal(json_string_value(json_object_get(first, "operator")), "attention_bwd");
    assert_string_equal(json_string_value(json_object_get(first, "fix")), "--set attn_dim=64");
    assert_true(of(first, "slower") > 2);
    json_decref(j);
    assert_int_equal(run("train --model hybrid-130m --dry-run --machine h200 --json 2> /dev/null | cat"), 0);
    j = json_output();
    assert_null(json_object_get(j, "slow"));
    json_decref(j);
}

static void a_dry_run_says_what_to_do_where_it_does_not_fit(void **state)
{
    (void)state;
    says(run("train --model mamba2-1.3b --batch 12 --length 2048 --dry-run --machine h100"), 0, "needs --memory 72GB");
    says(run("train --model mamba2-1.3b --batch 64 --length 2048 --dry-run --machine h100"), 0,
         "does not fit in the 80 GB of h100: it needs");
    assert_null(strstr(output, "SIMULATED"));
    says(run("train --model mamba2-1.3b --batch 64 --length 2048 --dry-run --machine h100 --json"), 0,
         "\"fits\": false");
    says(run("train --model mamba2-130m --machine h100"), 2, "--machine needs --dry-run");
    says(run("train --model mamba2-130m --device cpu --dry-run --machine h100"), 2, "machines are GPUs");
    says(run("train --model mamba2-130m --dry-run --machine none"), 2, "no machine 'none'");
}

/* Every distinct launch once, none below what its pipes and its memory need, with the shape that it was planned for. */
static void kernels_are_told_one_by_one(void **state)
{
    (void)state;
    json_t       *j = rows_of("simulate " SHORT " --model-set layers=1 --machine h200 --kernels --json");
    const json_t *rows = json_is_array(j) ? j : json_object_get(j, "kernels");
    bool          scan = false;
    assert_true(json_array_size(rows) > 20);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *r = json_array_get(rows, i);
        assert_true(of(r, "us") > of(r, "bound_us") && of(r, "bound_us") > 0);
        assert_true(of(r, "grid") >= 1 && of(r, "threads") >= 32 && of(r, "resident") >= 1);
        scan |= !strcmp(json_string_value(json_object_get(r, "kernel")), "ssd_scan") && of(r, "smem") == 227;
    }
    assert_true(scan);
    json_decref(j);
}

/* A machine whose numbers are certain has no spread of its own; `--keys` tells what `--set` made of them. */
static void a_machine_tells_its_numbers_and_their_spread(void **state)
{
    double percent = 0, most = 0;
    char   key[32];
    (void)state;
    says(run("simulate " SHORT " --model-set layers=1 --machine h200 --uncertainty"), 0,
         "uncertainty of the machine's numbers: +- ");
    assert_int_equal(sscanf(strstr(output, "numbers: +- "), "numbers: +- %lf %% of the step, most of it by %31s (%lf",
                            &percent, key, &most),
                     3);
    assert_true(percent > 0.1 && percent < 20 && most > 0 && most <= percent);
    says(run("simulate --machine h200 --keys --set hbm=x2"), 0,
         "\nhbm              =       9600 GB/s       +- 0        # DRAM bandwidth");
    says(run("simulate --machine h200 --keys"), 0, "\nhbm              =       4800 GB/s ");
    says(run("simulate --store " STORE " --counted x.tsv"), 2, "cannot be combined");
}

/* Blocks that stay save what starting blocks costs: a step of many small blocks is faster with them, its traffic the
 * same. */
static void blocks_that_stay_start_once(void **state)
{
    (void)state;
    json_t *j = rows_of(
        "sweep --model mamba2-130m --model-set layers=1 --batch 4 --length 1024 --machine h200 --set block_start=2000"
        " --axis persistent=0:1 --json");
    const json_t *rows = json_is_array(j) ? j : json_object_get(j, "points");
    assert_int_equal(json_array_size(rows), 2);
    const double not = of(json_array_get(rows, 0), "step_ms"), stay = of(json_array_get(rows, 1), "step_ms");
    assert_true(stay > 0 && stay < not );
    json_decref(j);
    says(run("sweep " SHORT " --axis persistent=2"), 2, "persistent=2 cannot be used\n  why: it is a switch");
}

/* `--serialize` writes the plans of this build behind the rows that were measured with it, and changes nothing else. */
static void measured_kernels_are_frozen_with_their_plans(void **state)
{
    char line[4096], bare[512];
    (void)state;
    snprintf(bare, sizeof bare, "%s", scratch("bare.tsv"));
    snprintf(line, sizeof line, "cut -f 1-49 src/sim/data/kernels/10_mamba2-130m.tsv > '%s'; wc -l < '%s'", bare, bare);
    says(shell(line), 0, "39");
    says(run("validate --kernels '%s' --serialize '%s'", bare, scratch("frozen.tsv")), 0, "");
    snprintf(line, sizeof line, "cut -f 1-49 '%s' | cmp - '%s' && cut -f 50 '%s' | grep -c ' '", scratch("frozen.tsv"),
             bare, scratch("frozen.tsv"));
    says(shell(line), 0, "");
    assert_true(atoi(output) > 20); // products of libraries have no plan to write
    says(run("validate --kernels '%s' --serialize '%s'", scratch("frozen.tsv"), scratch("again.tsv")), 2,
         "has plans already");
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(kernels_of_a_store_have_their_error_beside_them),
                                        cmocka_unit_test(kernels_of_peers_are_held_out_beside_their_times),
                                        cmocka_unit_test(every_store_of_a_peer_can_be_simulated),
                                        cmocka_unit_test(kernels_are_told_one_by_one),
                                        cmocka_unit_test(a_machine_tells_its_numbers_and_their_spread),
                                        cmocka_unit_test(blocks_that_stay_start_once),
                                        cmocka_unit_test(measured_kernels_are_frozen_with_their_plans),
                                        cmocka_unit_test(axes_move_different_things),
                                        cmocka_unit_test(a_cluster_has_a_scaling_table),
                                        cmocka_unit_test(old_names_of_keys_are_noted),
                                        cmocka_unit_test(what_would_be_ignored_is_refused),
                                        cmocka_unit_test(the_rate_of_events_is_that_of_simulating),
                                        cmocka_unit_test(documents_parse_whatever_files_are_called),
                                        cmocka_unit_test(signs_of_imitated_machines_are_counted_apart),
                                        cmocka_unit_test(tables_of_csv_are_apart),
                                        cmocka_unit_test(points_of_an_h200_test_no_other_gpu),
                                        cmocka_unit_test(a_dry_run_says_whether_it_fits_a_machine),
                                        cmocka_unit_test(a_dry_run_names_the_field_that_mends_a_slow_width),
                                        cmocka_unit_test(a_dry_run_says_what_to_do_where_it_does_not_fit) };
    return cmocka_run_group_tests(tests, prepare, clean);
}
