// SPDX-License-Identifier: Apache-2.0
/* crash_test.c -- nothing is lost by power cuts, by two commands at once, by kill -9 at any moment. The ordinary run
 * takes a sample; with MBA_CRASH_ALL it takes all. */
#include <fcntl.h>
#include <time.h>

#include "tests/program.h"

#include "core/file.h"
#include "data/listing.h"
#include "tests/crash/tracer.h"

static bool is_long;

static void need_tracer(void)
{
    if (!tracer_works()) {
        print_message("this machine lets nobody trace a process\n");
        skip();
    }
}

#include "tests/crash/cuts.h"
#include "tests/crash/pairs.h"
#include "tests/crash/kills.h"

static int begin(void **state)
{
    const char *asked = getenv("MBA_CRASH_ALL");
    char        line[1024];
    is_long = asked && *asked;
    if (make_data(state)) return -1;
    snprintf(
        line, sizeof line,
        "for i in $(seq 400); do echo \"line $i of a text that is long enough to be held out\"; done >'%s/text.txt'",
        scratch_dir);
    return shell(line);
}

/* The sanitizers' run has the first alone: the others start the program hundreds of times. */
int main(void)
{
    const struct CMUnitTest brief[] = { cmocka_unit_test(a_power_cut_loses_no_checkpoint) };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_power_cut_loses_no_checkpoint),
        cmocka_unit_test(a_power_cut_loses_no_store),
        cmocka_unit_test(a_power_cut_leaves_prepared_data_whole_or_absent),
        cmocka_unit_test(two_commands_at_once_lose_nothing),
        cmocka_unit_test(a_killed_run_ends_as_one_left_alone),
        cmocka_unit_test(a_killed_profile_costs_no_store),
    };
    cmocka_set_test_filter(getenv("MBA_TEST_ONLY"));
    setenv("OMP_NUM_THREADS", "1", 1);
    setenv("OPENBLAS_NUM_THREADS", "1", 1);
    if (!getenv("TMPDIR") && access("/dev/shm", W_OK) == 0) setenv("TMPDIR", "/dev/shm", 1);
    return getenv("MBA_TEST_SANITIZED") ? cmocka_run_group_tests(brief, begin, remove_data)
                                        : cmocka_run_group_tests(tests, begin, remove_data);
}
