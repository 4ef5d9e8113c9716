// SPDX-License-Identifier: Apache-2.0
/* stores_cli_test.c -- `show`, `diff` and `export` on stores of an H200, as a person meets them. */
#include <sqlite3.h>

#include "cli/suite.h"
#include "tests/program.h"

#define STORES "tests/data/stores/h200_"

/* A copy of the store of mamba2, changed. */
static void changed(const char *name, const char *sql)
{
    char     line[2048];
    sqlite3 *db;
    snprintf(line, sizeof line, "cp " STORES "mamba2.db '%s'", scratch(name));
    assert_int_equal(shell(line), 0);
    assert_int_equal(sqlite3_open(scratch(name), &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

/* A gate that compares a batch with a quarter of it must say so. */
static void diff_tells_what_is_not_alike(void **state)
{
    (void)state;
    says(run("diff " STORES "chunked.db " STORES "chunked_small.db"), 0,
         "note: the batch differs: batch 4 x length 4096, batch 1 x length 1024\n");
    says(run("diff " STORES "mamba2.db " STORES "peer_small.db"), 0, "note: the units of a step differ: 16384, 1024\n");
    says(run("diff " STORES "mamba2.db " STORES "hybrid.db"), 0, "note: the parameters differ: ");
    says(run("diff " STORES "mamba2.db " STORES "chunked.db"), 0, "ssd");
    assert_null(strstr(output, "differ"));
}

/* A timeline that was lost on the way must not pass for operators that are as fast as before. */
static void a_gate_says_what_it_did_not_see(void **state)
{
    (void)state;
    changed("lost.db", "DELETE FROM event");
    says(run("diff " STORES "mamba2.db '%s' --gate 3%%", scratch("lost.db")), 0, "--gate compared the step only\n");
    says(run("diff " STORES "mamba2.db " STORES "mamba2.db --gate 3%%"), 0, "ssd");
    assert_null(strstr(output, "step only"));
}

/* Whoever adds up the rows of a terminal must know that some are not there. */
static void long_tables_say_where_they_end(void **state)
{
    (void)state;
    says(run("show " STORES "mamba2.db kernels"), 0,
         "(24 of 57 rows; mambascope show " STORES "mamba2.db kernels --csv");
    says(run("show " STORES "mamba2.db breakdown"), 0, "gemm");
    assert_null(strstr(output, "rows;"));
    says(run("diff " STORES "vision.db " STORES "vision.db"), 0, " rows; --csv prints all)");
}

/* Throttled clocks and steps that spread stand on top of every table, and of two stores side by side. */
static void numbers_come_with_their_doubts(void **state)
{
    (void)state;
    says(run("show " STORES "mamba2.db breakdown"), 0,
         "note: clocks were throttled: the GPU ran at 1500 to 1650 of 1980 MHz (power limit)");
    says(run("show " STORES "peer.db kernels"), 0,
         "note: step times spread by 27 %: 248.3 to 336.8 ms around a median of 330 ms");
    says(run("show " STORES "mamba2.db steps --json"), 0, "{\"doubts\": [\"clocks were throttled");
    says(run("show " STORES "vision.db steps"), 0, "Steps\n");
    assert_null(strstr(output, "note:"));
    says(run("diff " STORES "chunked.db " STORES "mamba2.db"), 0, "note: clock of B / A: 1.026 (1530 and 1570 MHz");
    says(run("diff " STORES "chunked.db " STORES "mamba2.db"), 0,
         "take 1.075 times as long in B (median): the machine causes this, not the code\n");
    says(run("diff " STORES "chunked.db " STORES "mamba2.db"), 0, "note: A: step times spread by 13 %");
    says(run("diff " STORES "vision.db " STORES "vision.db"), 0, "conv2d");
    assert_null(strstr(output, "same kernel"));
}

/* A meter that ran for 0.7 s says 772 W of a card limited to 700 W: it is not told. */
static void energy_of_short_windows_is_not_told(void **state)
{
    (void)state;
    says(run("show " STORES "mamba2.db steps"), 0, "energy: not reported, the meter needs 5 s but ran for");
    assert_null(strstr(output, "mean power"));
}

/* A window that counts: the step by the meter, then classes and gaps, which add up to it; and its figures on a page. */
static void energy_is_divided_by_time(void **state)
{
    (void)state;
    changed("energy.db", "UPDATE energy SET seconds = 2, joules = 1380, steps = 20, units = 327680, source = "
                         "'nvmlDeviceGetTotalEnergyConsumption, between its changes'");
    says(run("show '%s' steps", scratch("energy.db")), 0, "mean power");
    assert_non_null(strstr(output, "690  W"));
    says(run("show '%s' energy --csv", scratch("energy.db")), 0, "\"step, by the meter\",100,69,100,");
    double sum = 0;
    for (const char *at = strstr(output, "step, by the meter"); (at = strchr(at, '\n')) && at[1];) {
        double ms, joules;
        at++;
        assert_int_equal(sscanf(at + strcspn(at, ","), ",%lf,%lf", &ms, &joules), 2);
        sum += joules;
    }
    print_message("classes and gaps: %.6f J\n", sum);
    assert_true(fabs(sum - 69) < 1e-3);
    changed("hot.db", "UPDATE energy SET seconds = 6, joules = 4206");
    says(run("show '%s' steps", scratch("hot.db")), 0,
         "energy: not reported, the meter shows more than the card's limit");
    assert_null(strstr(output, "mean power"));
}

static void what_is_above_its_floor_is_explained(void **state)
{
    (void)state;
    says(run("show " STORES "mamba2.db kernels"), 0,
         "(above 100 % of floor, adamw_flat and 2 more: the floor uses the rate of a large copy, "
         "3.96 of the data sheet's 4.81 TB/s");
    says(run("show " STORES "graph.db operators"), 0,
         ": L2 held part of the operands, but the floor counts all of them as DRAM traffic)");
    says(run("show " STORES "chunked.db kernels"), 0,
         "an 8192^3 matrix product, whose clock the power limit lowers, 796 of the data sheet's 1071 TFLOP/s");
}

/* What was asked for and is not there has a reason in the notes; where nothing lacks, nobody is sent to them. */
/* The variant that differs from the baseline in the lives of its blocks alone decides whether these are the cause; one
 * that moves half of the bytes does not. */
static void short_lives_are_judged_by_a_persistent_variant(void **state)
{
    (void)state;
    says(run("show " STORES "chunked.db claims --compare " STORES "persistent.db"), 0, "F5  refuted");
    says(run("show " STORES "chunked.db claims --compare " STORES "mamba2.db"), 0, "F5  open");
    says(run("show " STORES "mamba2.db claims --compare " STORES "chunked.db," STORES "persistent.db"), 0,
         "F5  refuted"); // the pair need not include the judged store
}

/* "Up to" and "all workloads" are judged over a set of stores, each in the column that its contents name. */
static void a_set_of_stores_is_judged_as_a_whole(void **state)
{
    static const char set[] = STORES "chunked.db," STORES "mamba1.db," STORES "persistent.db," STORES "peer.db," STORES
                                     "vision.db";
    char command[1024];
    (void)state;
    snprintf(command, sizeof command, "show " STORES "mamba2.db matrix --compare %s", set);
    says(run("%s", command), 0, "F2  refuted ");
    says(run("%s", command), 0, "mamba_ssm 36- baseline 46- fused 21+ Mamba-1 43- MambaVision 3.8~");
    says(run("%s", command), 0, "F5  refuted ");
    snprintf(command, sizeof command, "show " STORES "mamba2.db matrix --csv --compare %s", set);
    says(run("%s", command), 0, "F2,SSM operators take up to a fifth,suite,,refuted,");
    snprintf(command, sizeof command, "show " STORES "mamba2.db matrix --json --compare %s", set);
    says(run("%s", command), 0, "\"column\": \"mamba_ssm\"");
    says(run("show " STORES "mamba2.db matrix"), 0, "needs several stores");
    says(run("show " STORES "mamba2.db claims"), 0, "F2  number ");
}

/* Of a convolution that is one launch of several nobody knows the least FLOPs: no ratio to nothing. */
static void a_ratio_to_what_is_not_known_is_none(void **state)
{
    (void)state;
    says(run("verify " STORES "vision.db --csv"), 0, "xmma_fprop");
    assert_null(strstr(output, ",inf,"));
}

static void what_a_cpu_has_not_is_noted(void **state)
{
    char path[512];
    (void)state;
    snprintf(path, sizeof path, "%s", scratch("cpu.db"));
    says(run("profile --model mamba2-130m --set width=16,layers=1,vocab=64,state=8,head_dim=8,chunk=8 --batch 1 "
             "--length 8 "
             "--steps 1 --warmup 1 --metric-sets '' --blocks --source ssd --out '%s'",
             path),
         0, "wrote");
    says(run("show '%s' notes", path), 0, "blocks, missing: --blocks: a CPU runs no thread blocks");
    says(run("show '%s' notes", path), 0, "mambascope profile --device cuda --source KERNEL");
    says(run("show '%s' blocks", path), 0, "notes` says why");
    says(run("profile --model mamba2-130m --set width=16,layers=1,vocab=64,state=8,head_dim=8,chunk=8 --batch 1 "
             "--length 8 "
             "--steps 1 --warmup 1 --metric-sets '' --out '%s'",
             path),
         0, "wrote");
    says(run("show '%s' notes", path), 0, "(none)\n");
    says(run("show '%s' blocks", path), 0, "no rows for it)\n");
}

/* suite.options says how to make a part's store by hand: behind all of its words only one that is none is wrong. */
static void words_of_the_suite_can_be_typed(void **state)
{
    static const struct {
        const char *scale, *device;
    } suites[] = { { "full", "cuda" }, { "quick", "cpu" }, { "tiny", "cpu" } };
    bool blocks = false;
    (void)state;
    for (size_t i = 0; i < sizeof suites / sizeof *suites; i++) {
        mba_suite_options o = { .scale = suites[i].scale, .device = suites[i].device };
        mba_suite_part    part[MBA_SUITE_PARTS_MAX];
        char              words[1024];
        mba_suite_defaults(&o);
        for (int n = mba_suite_plan(part, &o); n-- > 0;) {
            mba_suite_part_words(words, sizeof words, &part[n]);
            blocks |= strstr(words, "--blocks 512") != NULL;
            char *training = strstr(words, " ; ");
            if (training) *training = 0;
            char *program = strstr(words, " -- "); // what follows is for another program
            if (program) *program = 0;
            says(run("%s --dance", words), 2, "no option --dance");
        }
    }
    assert_true(blocks);
    says(run("profile --blocks 0 --dance"), 2, "--blocks must be a whole number from 1 to 8192, not 0");
    says(run("profile --blocks=many --dance"), 2, "--blocks must be a whole number from 1 to 8192, not many");
    says(run("profile --dance --blocks"), 2, "no option --dance");
    says(run("profile --blocks"), 2, "profile what?");
    says(run("profile --model mamba2-130m --power-limit 300"), 2, "--power-limit needs a GPU");
}

/* `--steps 3 -- python train.py` would watch all of it, and `--source` nothing. */
static void a_program_takes_no_options_of_a_model(void **state)
{
    static const char *const options[] = { "--steps 3",           "--warmup 2",     "--blocks",     "--source ssd_scan",
                                           "--model mamba2-130m", "--op ssd=fused", "--device cuda" };
    (void)state;
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        says(run("profile %s --out '%s' -- true", options[i], scratch("none.db")), 2,
             " and -- CMD cannot be combined\n");
    says(run("profile --batch 4 --out '%s' -- true", scratch("none.db")), 2, "a size and -- CMD cannot be combined\n");
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

/* The rows of ssd_scan, against what the committed store holds of it: 128 blocks of 384 threads, 168 registers, 227
 * KiB, 154660480 + 126979968 bytes of DRAM in 80.624 us, 324806 sectors in 82246 loads, 21474836480 operations of
 * tensor cores. */
static void tables_of_kernels_hold_the_counters(void **state)
{
    (void)state;
    says(run("show " STORES "mamba2.db counters --csv"), 0,
         "\nssd_scan,\"(128, 1, 1)\",384,80.624,281.640448,70.18676361,56.25284438,");
    says(0, 0, ",168,227,0.9696969697,\"long_scoreboard 3.4, wait 1.2\"\n");
    says(run("show " STORES "mamba2.db caches --csv"), 0,
         "\nssd_scan,34.30361234,56.25284438,306.315264,281.640448,535.757392,");
    says(0, 0, ",3493.258186,3.949201177,16\n"); // 281.640448 MB in 80.624 us; 324806 / 82246; 1048576 / 65536
    says(run("show " STORES "mamba2.db occupancy --csv"), 0,
         "\nssd_scan,128,384,168,227,0,0.9696969697,14.18889891,18.75,grid,23.73990004,");
    says(run("show " STORES "mamba2.db ratio --csv"), 0,
         "\nssd_scan,tensor,77.61546812,28.62480934,6837.377891,16,tensor\n");
    says(run("show " STORES "mamba2.db blocks --csv"), 0,
         "\nssd_scan,counters,128,74.24520547,,,,,2200316\n"); // per block: 281640448 / 128
    says(run("show " STORES "mamba2.db ratio"), 0, "ssd_scan");
}

/* Four blocks of ssd_scan lived 1, 2, 3 and 10 us; a tenth of each was spent before the work and two tenths after. */
static void lives_of_blocks_come_from_their_records(void **state)
{
    (void)state;
    changed("blocks.db",
            "INSERT INTO block(kernel, event, block, sm, start_ns, end_ns, work_start_ns, work_end_ns) VALUES"
            " (6, 1, 0, 0, 0, 1000, 100, 800), (6, 1, 1, 1, 0, 2000, 200, 1600),"
            " (6, 1, 2, 2, 500, 3500, 800, 2900), (6, 1, 3, 3, 0, 10000, 1000, 8000)");
    says(run("show '%s' blocks --csv", scratch("blocks.db")), 0, "\nssd_scan,records,4,4,2.5,3,10,20,2200316\n");
}

/* Lines in the order of their samples, each with what warps waited for; what was not measured adds to no line. */
static void lines_of_source_have_their_waits(void **state)
{
    (void)state;
    changed("source.db", "INSERT INTO instruction(kernel, pc, sass, file, line, metric, value) VALUES"
                         " (6, 0, 'LDG', '/x/scan.cu', 10, 'smsp__pcsamp_warps_issue_stalled_barrier', 10),"
                         " (6, 0, 'LDG', '/x/scan.cu', 10, 'smsp__sass_inst_executed', 100),"
                         " (6, 8, 'LDG', '/x/scan.cu', 20, 'smsp__sass_inst_executed', NULL),"
                         " (6, 8, 'LDG', '/x/scan.cu', 20, 'smsp__pcsamp_warps_issue_stalled_wait', 20),"
                         " (6, 8, 'LDG', '/x/scan.cu', 20, 'smsp__pcsamp_warps_issue_stalled_wait_not_issued', 7),"
                         " (6, 16, 'LDG', '/x/scan.cu', 20, 'smsp__pcsamp_warps_issue_stalled_long_scoreboard', 60),"
                         " (6, 16, 'LDG', '/x/scan.cu', 20, 'smsp__pcsamp_warps_issue_stalled_barrier', 10),"
                         " (6, 16, 'LDG', '/x/scan.cu', 20, 'smsp__sass_inst_executed', 300)");
    says(run("show '%s' source --csv", scratch("source.db")), 0,
         "\nssd_scan,/x/scan.cu,20,90,90,\"long_scoreboard 67 %, wait 22 %\",300,75\n"
         "ssd_scan,/x/scan.cu,10,10,10,barrier 100 %,100,25\n");
    says(run("show '%s' source", scratch("source.db")), 0, "scan.cu");
    assert_null(strstr(output, "/x/scan.cu"));
}

/* `verify` counts what agrees; a kernel that executed twice its plan differs, and a store without counters is no
 * proof. */
static void plans_are_held_to_their_counters(void **state)
{
    (void)state;
    says(run("verify " STORES "mamba2.db"), 0,
         "tensor FLOPs of our kernels: 6 agree exactly (2 as counted from the data), 0 at most, 0 differ;");
    says(0, 0, "matrix products of libraries execute 1.000 to 1.026 times the least FLOPs\n");
    says(0, 0, "the same with a cold L2: 20 within 5 %, 0 with rereads, 0 differ\n");
    changed("twice.db", "UPDATE counter SET value = 2 * value WHERE kernel = 6 AND metric LIKE 'sm__ops_path_tensor%'");
    says(run("verify '%s'", scratch("twice.db")), 0,
         "5 agree exactly (2 as counted from the data), 0 at most, 1 differ;");
    changed("none.db", "DELETE FROM counter");
    says(run("verify '%s'", scratch("none.db")), 1, "the store has no counters");
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(diff_tells_what_is_not_alike),
                                        cmocka_unit_test(tables_of_kernels_hold_the_counters),
                                        cmocka_unit_test(lives_of_blocks_come_from_their_records),
                                        cmocka_unit_test(lines_of_source_have_their_waits),
                                        cmocka_unit_test(plans_are_held_to_their_counters),
                                        cmocka_unit_test(a_gate_says_what_it_did_not_see),
                                        cmocka_unit_test(numbers_come_with_their_doubts),
                                        cmocka_unit_test(energy_of_short_windows_is_not_told),
                                        cmocka_unit_test(energy_is_divided_by_time),
                                        cmocka_unit_test(what_is_above_its_floor_is_explained),
                                        cmocka_unit_test(long_tables_say_where_they_end),
                                        cmocka_unit_test(short_lives_are_judged_by_a_persistent_variant),
                                        cmocka_unit_test(a_set_of_stores_is_judged_as_a_whole),
                                        cmocka_unit_test(a_ratio_to_what_is_not_known_is_none),
                                        cmocka_unit_test(what_a_cpu_has_not_is_noted),
                                        cmocka_unit_test(a_program_takes_no_options_of_a_model),
                                        cmocka_unit_test(words_of_the_suite_can_be_typed) };
    return cmocka_run_group_tests(tests, prepare, clean);
}
