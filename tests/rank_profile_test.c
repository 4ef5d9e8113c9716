// SPDX-License-Identifier: Apache-2.0
/* rank_profile_test.c -- `mpirun -np 4 mambascope profile` and `bench links`: one store of four ranks, on a page; links
 * as a cluster file that `simulate` reads. Skips itself where there is no Open MPI. */
#include "tests/program.h"

static int ranks(int n, const char *args)
{
    char line[4096];
    snprintf(line, sizeof line,
             "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMP_NUM_THREADS=1 timeout 120 mpirun "
             "--oversubscribe --bind-to none -np %d '%s' %s 2>&1",
             n, program_path(), args);
    return shell(line);
}

static void four_ranks_make_one_store_and_a_page(void **state)
{
    char args[1024];
    (void)state;
    snprintf(args, sizeof args, "profile " SMALL " --steps 2 --warmup 1 --out '%s/four.db'", scratch_dir);
    says(ranks(4, args), 0, "wrote");
    says(run("show '%s/four.db' ranks --csv", scratch_dir), 0, "straggler");
    says(run("show '%s/four.db' collectives", scratch_dir), 0, "reduce_scatter");
    says(run("show '%s/four.rank-0003.db' steps", scratch_dir), 0, "without profiler");
    says(run("report '%s/four.db' --no-simulation --out '%s/four.html'", scratch_dir, scratch_dir), 0, "wrote");
    snprintf(args, sizeof args, "grep -c '<article id=\"ranks\"' '%s/four.html'", scratch_dir);
    assert_int_equal(shell(args), 0);
}

static void links_are_measured_and_simulated(void **state)
{
    char args[1024];
    (void)state;
    snprintf(args, sizeof args, "bench links --repeats 2 --out '%s/here.ini'", scratch_dir);
    says(ranks(2, args), 0, "latency");
    says(run("profile " SMALL " --steps 2 --warmup 1 --out '%s/one.db'", scratch_dir), 0, "wrote");
    says(run("simulate --model mamba2-130m --model-set width=32,layers=2,vocab=264,state=8,head_dim=16,chunk=16 "
             "--batch 2 --length 32 --gpus 1,2 --cluster '%s/here.ini' --measured '%s/one.db'",
             scratch_dir, scratch_dir),
         0, "PREDICTED from one measured rank");
    says(run("simulate --model mamba2-130m --model-set width=32,layers=2,vocab=264,state=8,head_dim=16,chunk=16 "
             "--batch 2 --length 48 --gpus 1,2 --cluster '%s/here.ini' --measured '%s/one.db'",
             scratch_dir, scratch_dir),
         2, "its operators have other shapes");
    says(run("simulate --gpus 1,2 --measured one.db --machine h100"), 2, "--measured and --machine cannot be combined");
    says(run("simulate --gpus 1,2 --measured one.db --set sm.count=9"), 2, "--measured and --set cannot be combined");
    says(run("simulate --gpus 1,2 --power-limit 300"), 2, "--gpus and --power-limit cannot be combined");
    says(run("bench links"), 2, "bench links needs several ranks");
    says(run("bench links --device cpu"), 2, "bench links does not use --device");
    says(run("bench links --threads 2"), 2, "bench links does not use --threads");
    says(ranks(2, "profile " SMALL " --device cuda"), 1, "only ranks on the CPU are profiled together");
}

static int prepare(void **state)
{
    (void)state;
    return scratch_make() == NULL;
}

static int clean(void **state)
{
    (void)state;
    scratch_remove();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(four_ranks_make_one_store_and_a_page),
                                        cmocka_unit_test(links_are_measured_and_simulated) };
    if (shell("command -v mpirun") || run("--version") || !strstr(output, "plug-in, opened for several ranks")) {
        print_message("skipped: mpirun, or the plug-in of MPI, is not here\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, prepare, clean);
}
