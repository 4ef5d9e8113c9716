/* suite.c -- placeholder of the day: replaced below. */
#include "cli/command.h"
mba_status mba_command_suite(int argc, char **argv) { (void)argc, (void)argv; return MBA_OK; }
