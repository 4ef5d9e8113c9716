// SPDX-License-Identifier: Apache-2.0
/* terminal_test.c -- what people see: colours where they are wanted, a bar where it fits, lines where a bar cannot
 * be. */
#include "tests/test.h"

#include <pty.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/device.h"
#include "tests/scratch.h"

#define TRAIN \
    "train", "--model", "mamba2-130m", "--set", "width=32,layers=2,vocab=264,state=8,head_dim=16,chunk=16", "--batch", \
        "2", "--length", "32", "--steps", "200"

static char output[1 << 16];

/* Runs the program on a terminal of its own, which is called `term`, with NO_COLOR as told; returns its exit code. */
static int on_terminal(const char *term, const char *no_color, int columns, const char *const *args)
{
    int                  master, status;
    size_t               n = 0;
    const struct winsize size = { .ws_row = 24, .ws_col = (unsigned short)columns };
    const pid_t          child = forkpty(&master, NULL, NULL, &size);
    if (child < 0) skip(); /* a container without /dev/pts has no terminals */
    if (!child) {
        setenv("TERM", term, 1);
        if (no_color) setenv("NO_COLOR", no_color, 1);
        else unsetenv("NO_COLOR");
        const char *argv[32] = { "mambascope" };
        for (int i = 0; args[i]; i++) argv[i + 1] = args[i];
        execv(getenv("MBA_PROGRAM"), (char *const *)argv);
        _exit(127);
    }
    for (ssize_t got; n < sizeof output - 1 && (got = read(master, output + n, sizeof output - 1 - n)) > 0;)
        n += (size_t)got;
    output[n] = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    close(master);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* One record of CIFAR-10, of one colour: (200, 100, 50). */
static const char *picture(void)
{
    uint8_t record[1 + 3 * 1024] = { 3 };
    memset(record + 1, 200, 1024);
    memset(record + 1025, 100, 1024);
    memset(record + 2049, 50, 1024);
    scratch_put(scratch("colour.bin"), record, sizeof record);
    return scratch("colour.bin");
}

static void pictures_have_colours_where_they_are_wanted(void **state)
{
    (void)state;
    const char *const args[] = { "data", "inspect", picture(), NULL };
    assert_int_equal(on_terminal("xterm", NULL, 80, args), 0);
    assert_non_null(strstr(output, "\033[48;2;200;100;50m\033[38;2;200;100;50m\u2580"));
    assert_non_null(strstr(output, "\033[0m\r\n"));
    assert_int_equal(on_terminal("xterm", "", 80, args), 0); // empty: not set
    assert_non_null(strchr(output, '\033'));
    assert_int_equal(on_terminal("xterm", "1", 80, args), 0);
    assert_null(strchr(output, '\033'));
    assert_non_null(strstr(output, "========")); // shades instead
    assert_int_equal(on_terminal("dumb", NULL, 80, args), 0);
    assert_null(strchr(output, '\033'));
}

static void errors_are_red_where_colours_are_wanted(void **state)
{
    (void)state;
    const char *const args[] = { "eval", NULL };
    assert_int_equal(on_terminal("xterm", NULL, 80, args), 2);
    assert_non_null(strstr(output, "\033[31merror:\033[0m "));
    assert_int_equal(on_terminal("xterm", "1", 80, args), 2);
    assert_null(strchr(output, '\033'));
    assert_int_equal(on_terminal("dumb", NULL, 80, args), 2);
    assert_null(strchr(output, '\033'));
}

/* Where a line cannot be wiped, there is one every hundred steps, as in a pipe. */
static void a_dumb_terminal_sees_training_go_on(void **state)
{
    (void)state;
    const char *const args[] = { TRAIN, NULL };
    assert_int_equal(on_terminal("dumb", NULL, 80, args), 0);
    assert_null(strchr(output, '\033'));
    assert_non_null(strstr(output, "step 100  loss "));
    assert_non_null(strstr(output, "step 200  loss "));
}

static void quiet_is_quiet(void **state)
{
    (void)state;
    const char *const args[] = { TRAIN, "--quiet", NULL };
    assert_int_equal(on_terminal("xterm", NULL, 80, args), 0);
    assert_null(strstr(output, "training"));
    assert_int_equal(strncmp(output, "200 steps", 9), 0); // the result is the first that is said
}

/* A line that wraps could not be wiped. */
static void a_bar_fits_a_narrow_terminal(void **state)
{
    (void)state;
    enum { COLUMNS = 40 };
    const char *const args[] = { TRAIN, NULL };
    int               bars = 0;
    assert_int_equal(on_terminal("xterm", NULL, COLUMNS, args), 0);
    for (const char *at = output; (at = strstr(at, "\rtraining ")); bars++) {
        const char *end = strstr(++at, "\033[K");
        assert_non_null(end);
        assert_true(end - at < COLUMNS);
    }
    assert_true(bars > 0);
}

/* Without colours and a bar every escape that is seen is one of a name. */
static void no_name_commands_the_terminal(void **state)
{
    static const char evil[] = "a\033]0;owned\a\302\233mb\303\244.txt";
    const char       *path = scratch(evil), *none = scratch("none\033[2J\177");
    const char *const inspect[] = { "data", "inspect", path, NULL }, *const missing[] = { "data", "inspect", none,
                                                                                          NULL };
    const char *const prepare[] = { "data", "prepare", path, "--out", scratch("out\033[31m"), NULL };
    const char *const option[] = { "data", "inspect", "--\033[2J", NULL }, *const command[] = { "\033[2J", NULL };
    const struct {
        const char *const *args;
        int                code;
        const char        *words;
    } cases[] = { { inspect, 0, "a\\x1b]0;owned\\x07\\xc2\\x9bmb\303\244.txt: " },
                  { missing, 1, "none\\x1b[2J\\x7f" },
                  { prepare, 0, "out\\x1b[31m: " },
                  { option, 2, "no option --\\x1b[2J" },
                  { command, 2, "no command '\\x1b[2J'" } };
    (void)state;
    scratch_put(path, "some words\n", 11);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(on_terminal("dumb", NULL, 200, cases[i].args), cases[i].code);
        for (const char *s = output; *s; s++)
            if (*s == '\033' || *s == '\a' || *s == 0x7f || !strncmp(s, "\302\233", 2))
                fail_msg("the terminal sees %#x", *s);
        if (!strstr(output, cases[i].words)) fail_msg("no \"%s\" in: %s", cases[i].words, output);
    }
}

static void two_dashes_end_the_options(void **state)
{
    const char *const file[] = { "data", "inspect", "--", "--json.txt", NULL };
    const char *const both[] = { "data", "inspect", "--json", "--", "--json.txt", NULL };
    const char *const help[] = { "data", "inspect", "--", "--help", NULL };
    const char *const more[] = { "list", "--", "models", NULL }, *const none[] = { "train", "--", "--steps", NULL };
    char was[4096];
    (void)state;
    assert_non_null(getcwd(was, sizeof was));
    assert_int_equal(chdir(scratch_dir), 0);
    scratch_put("--json.txt", "some words\n", 11);
    assert_int_equal(on_terminal("dumb", NULL, 80, file), 0);
    assert_int_equal(strncmp(output, "--json.txt: ", 12), 0);
    assert_int_equal(on_terminal("dumb", NULL, 80, both), 0);
    assert_int_equal(output[0], '{');
    assert_int_equal(on_terminal("dumb", NULL, 80, help), 1);
    assert_non_null(strstr(output, "'--help'"));
    assert_int_equal(on_terminal("dumb", NULL, 80, more), 0);
    assert_int_equal(on_terminal("dumb", NULL, 80, none), 2);
    assert_non_null(strstr(output, "unexpected argument '--steps'"));
    assert_int_equal(chdir(was), 0);
}

static void unknown_choices_of_the_environment_are_refused(void **state)
{
    static const struct {
        const char *name, *value, *words;
    } cases[] = { { "MBA_GEMM", "pakced", "the environment has MBA_GEMM=pakced" },
                  { "MBA_GEMM", "packed", NULL },
                  { "MBA_GEMM", "openblas", NULL },
                  { "MBA_GEMM", "", NULL },
                  { "MBA_ISA", "base", NULL },
                  { "MBA_ISA", "", NULL },
                  { "MBA_ISA", "AVX2", "the environment has MBA_ISA=AVX2" },
                  { "MBA_ISA", "avx\033", "MBA_ISA=avx\\x1b" } };
    const char *const args[] = { "list", "models", NULL };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        setenv(cases[i].name, cases[i].value, 1);
        assert_int_equal(on_terminal("dumb", NULL, 80, args), cases[i].words ? 2 : 0);
        if (cases[i].words) assert_non_null(strstr(output, cases[i].words));
        unsetenv(cases[i].name);
    }
}

static void an_instruction_set_that_the_machine_has_not_is_refused(void **state)
{
    static const char *const names[] = { "base", "avx2", "avx512" };
    const char *const        args[] = { "list", "models", NULL };
    char                     words[96];
    (void)state;
    unsetenv("MBA_ISA");
    const int best = mba_cpu_isa();
    for (int i = 0; i < 3; i++) {
        setenv("MBA_ISA", names[i], 1);
        assert_int_equal(on_terminal("dumb", NULL, 80, args), i > best ? 2 : 0);
        snprintf(words, sizeof words, "the largest instruction set of this machine is %s", names[best]);
        if (i > best) assert_non_null(strstr(output, words));
    }
    unsetenv("MBA_ISA");
}

static int begin(void **state)
{
    (void)state;
    scratch_make();
    return 0;
}
static int end(void **state)
{
    (void)state;
    scratch_remove();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pictures_have_colours_where_they_are_wanted),
        cmocka_unit_test(errors_are_red_where_colours_are_wanted),
        cmocka_unit_test(a_dumb_terminal_sees_training_go_on),
        cmocka_unit_test(quiet_is_quiet),
        cmocka_unit_test(a_bar_fits_a_narrow_terminal),
        cmocka_unit_test(no_name_commands_the_terminal),
        cmocka_unit_test(two_dashes_end_the_options),
        cmocka_unit_test(unknown_choices_of_the_environment_are_refused),
        cmocka_unit_test(an_instruction_set_that_the_machine_has_not_is_refused),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
