/* main.c -- the program: finds the command, runs it, prints what went wrong. Only cli/ prints or exits. */
#include <stdio.h>

int main(void)
{
    puts("mambascope: no commands yet");
    return 2;
}
