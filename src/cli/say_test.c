// SPDX-License-Identifier: Apache-2.0
/* say_test.c -- messages leave in one piece, and nothing in them acts on a terminal. */
#include "cli/say.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "tests/test.h"

static char   written[8192];
static size_t pieces;

/* Runs `speak` with its standard error in a pipe that keeps each write apart. */
static void hear(void (*speak)(void))
{
    int  end[2];
    long n;
    pieces = 0;
    assert_int_equal(pipe2(end, O_DIRECT), 0);
    const int saved = dup(STDERR_FILENO);
    assert_true(saved >= 0 && dup2(end[1], STDERR_FILENO) >= 0);
    speak();
    fflush(stderr);
    assert_true(dup2(saved, STDERR_FILENO) >= 0);
    close(saved);
    close(end[1]);
    size_t have = 0;
    while ((n = read(end[0], written + have, sizeof written - 1 - have)) > 0) {
        have += (size_t)n;
        pieces++;
    }
    assert_int_equal(n, 0);
    written[have] = 0;
    close(end[0]);
}

static void speak_error(void)
{
    mba_print_error("rank 1 (host) is lost\nwhy: it answers, but has done nothing for 8 s\nfix: start the run again");
}

static void speak_name(void) { mba_say(stderr, "wrote %s\n", "a\033[2Jb\xc3\xa4\xff"); }

static char long_name[1501];

static void speak_long(void)
{
    memset(long_name, 1, sizeof long_name - 1);
    mba_say(stderr, "%s|", long_name);
}

static void a_message_leaves_in_one_piece(void **state)
{
    (void)state;
    hear(speak_error);
    assert_string_equal(written, "error: rank 1 (host) is lost\n"
                                 "  why: it answers, but has done nothing for 8 s\n"
                                 "  fix: start the run again\n");
    assert_int_equal(pieces, 1);
}

static void bytes_that_act_on_a_terminal_are_shown(void **state)
{
    (void)state;
    hear(speak_name);
    assert_string_equal(written, "wrote a\\x1b[2Jb\xc3\xa4\\xff\n");
    assert_int_equal(pieces, 1);
}

static void a_message_longer_than_a_piece_is_whole(void **state)
{
    (void)state;
    hear(speak_long); // each byte becomes four
    assert_int_equal(strlen(written), 4 * 1500 + 1);
    for (size_t i = 0; i < 6000; i += 4) assert_memory_equal(written + i, "\\x01", 4);
    assert_string_equal(written + 6000, "|");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_leaves_in_one_piece),
        cmocka_unit_test(bytes_that_act_on_a_terminal_are_shown),
        cmocka_unit_test(a_message_longer_than_a_piece_is_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
