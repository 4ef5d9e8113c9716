// SPDX-License-Identifier: Apache-2.0
/* command.h -- the type of a command; commands.def lists them, one file each.
 *
 * A command prints data to stdout and messages to stderr, and returns a status. main() prints the error message and
 * returns the exit code: 0 success, 1 failed, 2 wrong usage, or mba_exit_code if a command has set it. */
#ifndef MBA_COMMAND_H
#define MBA_COMMAND_H

#include "core/status.h"

typedef mba_status mba_command_fn(int argc, char **argv); /* argv[0]: the command's name */

typedef struct mba_command {
    const char     *name, *about;
    mba_command_fn *run;
} mba_command;

extern int               mba_exit_code;  /* of a program that a command ran, to be passed on; 0: our own */
extern const mba_command mba_commands[]; /* ends with an entry without a name */

#endif
