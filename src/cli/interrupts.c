/* interrupts.c -- see interrupts.h. */
#include "cli/interrupts.h"

#include <signal.h>

void mba_interrupts(void (*handler)(int number))
{
    struct sigaction was, act = { .sa_handler = handler };
    sigaction(SIGINT, &act, NULL);
    sigaction(SIGTERM, &act, NULL);
    if (sigaction(SIGHUP, NULL, &was) == 0 && was.sa_handler != SIG_IGN) sigaction(SIGHUP, &act, NULL);
}
