// SPDX-License-Identifier: Apache-2.0
/* foreign_cli_test.c -- `profile -- CMD` however CMD ends: what was seen is stored, its exit code is ours.
 *
 * No GPU is needed: the program stands beside an injection library that nobody loads, and CMD is a script that writes
 * the trace which the library would have written. */
#include "tests/program.h"

/* Ten times two kernels, one of them twice, or just a few; then $1 runs. `end` is there where a process ends by
 * itself. */
static const char SCRIPT[] =
    "{ echo mambascope-trace 2; echo name 0 gemm_of_theirs; echo name 1 add_of_theirs; i=0; t=1000\n"
    "n=30; [ $1 != once ] || n=4\n"
    "while [ $i -lt $n ]; do\n"
    "  k=$((i % 3 == 0)); echo kernel $k -1 $t $((t + 100)) 7 0 $i 0 0 1 1 1 32 1 1 0 0 0 16 0 0 0\n"
    "  i=$((i + 1)); t=$((t + 100 + 50 * (i % 3 == 0)))\n"
    "done; } >\"$MAMBASCOPE_TRACE\"\n"
    "case $1 in killed|waits|ignores) ;; *) echo end 0 >>\"$MAMBASCOPE_TRACE\" ;; esac\n"
    "case $1 in\n"
    "  code) exit 7 ;;\n"
    "  killed) kill -KILL $$ ;;\n"
    "  crashed) kill -SEGV $$ ;;\n"
    "  waits) : >begun; exec sleep 60 ;;\n"
    "  ignores) trap 'echo heard >>heard' TERM INT; : >begun; k=0; until [ -s heard ] || [ $k = 300 ]; do sleep 0.1; "
    "k=$((k + 1)); done; "
    "exit 3 ;;\n"
    "esac\n";

static int prepare(void **state)
{
    (void)state;
    char        line[2048];
    const char *program = program_path();
    scratch_make();
    snprintf(line, sizeof line, "{ ln '%s' '%s/mambascope' || cp '%s' '%s/mambascope'; } 2>/dev/null", program,
             scratch_dir, program, scratch_dir);
    put(scratch("libmambascope_inject.so"), "");
    put(scratch("cuda.sh"), SCRIPT);
    return shell(line);
}

static int clean(void **state)
{
    (void)state;
    scratch_remove();
    return 0;
}

/* A script in the scratch directory, where ./mambascope is the program. */
static int in_scratch(const char *script)
{
    char line[4096];
    snprintf(line, sizeof line,
             "cd '%s' && rm -f run.db* begun heard; export ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0; { %s; } 2>&1",
             scratch_dir, script);
    return shell(line);
}

static void shows(const char *what, const char *words)
{
    char line[512];
    snprintf(line, sizeof line, "cd '%s' && ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0 ./mambascope show run.db %s",
             scratch_dir, what);
    says(shell(line), 0, words);
}

#define BEGUN   "k=0; until [ -f begun ] || [ $k = 500 ]; do sleep 0.02; k=$((k + 1)); done; "
#define PROFILE "./mambascope profile --out run.db --metric-sets '' -- sh cuda.sh "

static void a_program_that_ends_well_is_stored(void **state)
{
    (void)state;
    says(in_scratch(PROFILE "well"), 0, "wrote run.db");
    says(0, 0, "steps: 10 found, each the same 3 launches, 100 % of the kernels' time");
    shows("environment", "ended with code 0");
    shows("kernels", "gemm_of_theirs");
}

/* The user's rules name a kernel of ours as an earlier release did: it still gets its operator, with a note. */
static void rules_with_an_earlier_kernel_name_still_match(void **state)
{
    (void)state;
    put(scratch("mine.rules"), "*norm_fwd_team* my_norm norm\n");
    says(in_scratch("sed s/gemm_of_theirs/_Z14norm_fwd_groupPf/ cuda.sh >ours.sh; ./mambascope profile --out run.db "
                    "--metric-sets '' --rules mine.rules -- sh ours.sh well"),
         0,
         "note: rules 'mine.rules', line 1: kernel norm_fwd_team is now called norm_fwd_group; the rule matches both");
    shows("kernels --csv", "norm_fwd_group,norm,"); // the class of the rule
}

/* No loop and no SSM: no step is spoken of, and nothing is judged that is not there. */
static void a_program_without_a_loop_is_called_a_whole(void **state)
{
    (void)state;
    says(in_scratch(PROFILE "once"), 0, "steps: none found, the store is of the whole program");
    shows("notes", "steps, missing: whole program: no loop was found");
    shows("claims", "F2  not applicable");
    shows("claims", "measured  the run has no SSM kernels");
}

static void its_exit_code_is_passed_on(void **state)
{
    (void)state;
    says(in_scratch(PROFILE "code"), 7, "the program ended with code 7 after ");
    says(0, 0, "wrote run.db");
    shows("notes", "the program ended with code 7 after ");
}

static void a_signal_is_passed_on_as_a_shell_does(void **state)
{
    (void)state;
    says(in_scratch(PROFILE "killed"), 128 + 9, "interrupted: the program was ended by signal 9 (Killed) after ");
    says(0, 0, "the last part of its timeline is missing");
    says(0, 0, "wrote run.db");
    shows("notes", "trace, missing: interrupted: the process did not end by itself");
    says(in_scratch(PROFILE "crashed"), 128 + 11,
         "interrupted: the program was ended by signal 11 (Segmentation fault)");
    shows("kernels", "gemm_of_theirs");
}

/* Ended from outside while it runs: the program hears it, and what it has left is stored. */
static void a_signal_to_us_ends_the_program_and_is_stored(void **state)
{
    static const struct {
        const char *name;
        int         number;
    } sent[] = { { "TERM", 15 }, { "INT", 2 }, { "HUP", 1 } };
    (void)state;
    for (size_t i = 0; i < sizeof sent / sizeof *sent; i++) {
        char script[768];
        snprintf(script, sizeof script, PROFILE "waits & p=$!; " BEGUN "kill -%s $p; wait $p", sent[i].name);
        says(in_scratch(script), 128 + sent[i].number,
             "interrupted: the records are stored when the program has ended");
        says(0, 0, "interrupted: the program was ended by signal");
        says(0, 0, "wrote run.db");
        shows("kernels", "gemm_of_theirs");
    }
}

/* Its own handler decides, and its code counts; we wait for it. */
static void a_program_may_end_in_its_own_way(void **state)
{
    (void)state;
    says(in_scratch(PROFILE "ignores & p=$!; " BEGUN "kill -TERM $p; wait $p"), 3,
         "interrupted: the program ended with code 3");
    shows("environment", "run.exit_code");
}

static void a_program_without_cuda_says_how_it_ended(void **state)
{
    (void)state;
    says(in_scratch("./mambascope profile --out run.db -- sh -c 'exit 7'"), 7, "why: it ended with code 7 after ");
    says(in_scratch("./mambascope profile --out run.db -- true; k=$?; ls; exit $k"), 1, "did not start CUDA");
    assert_null(strstr(output, "run.db\n"));
    says(in_scratch("./mambascope profile --out run.db -- ./nobody"), 2, "cannot run './nobody'");
}

/* The program as it is installed without CUPTI: nothing is run. */
static void a_build_without_cupti_says_so(void **state)
{
    (void)state;
#ifdef MBA_WITH_CUPTI
    skip();
#endif
    says(run("profile --out '%s/none.db' -- touch '%s/ran'", scratch_dir, scratch_dir), 1, "this build has no CUPTI");
    assert_int_not_equal(access(scratch("ran"), F_OK), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(a_program_that_ends_well_is_stored),
                                        cmocka_unit_test(rules_with_an_earlier_kernel_name_still_match),
                                        cmocka_unit_test(a_program_without_a_loop_is_called_a_whole),
                                        cmocka_unit_test(its_exit_code_is_passed_on),
                                        cmocka_unit_test(a_signal_is_passed_on_as_a_shell_does),
                                        cmocka_unit_test(a_signal_to_us_ends_the_program_and_is_stored),
                                        cmocka_unit_test(a_program_may_end_in_its_own_way),
                                        cmocka_unit_test(a_program_without_cuda_says_how_it_ended),
                                        cmocka_unit_test(a_build_without_cupti_says_so) };
    return cmocka_run_group_tests(tests, prepare, clean);
}
