// SPDX-License-Identifier: Apache-2.0
/* shell.h -- a command line run by a test, and what it said.
 *
 *     says(shell("ls -l"), 0, "total");                   // exit code and words, or the whole of what was said
 */
#ifndef MBA_SHELL_H
#define MBA_SHELL_H

#include <stdio.h>
#include <sys/wait.h>

#include "tests/test.h"

static char output[1 << 20]; // stdout of the last command, and stderr where it was sent there

/* Runs a line in the shell and returns its exit code: it may fail, it never crashes. */
static inline int shell(const char *line)
{
    FILE *f = popen(line, "r");
    assert_non_null(f);
    const size_t n = fread(output, 1, sizeof output - 1, f);
    output[n] = 0;
    const int status = pclose(f);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static inline void says(int exit_code, int wanted, const char *words)
{
    if (exit_code == wanted && strstr(output, words)) return;
    print_error("exit %d (wanted %d), wanted \"%s\" in:\n%s\n", exit_code, wanted, words, output);
    fail();
}

#endif
