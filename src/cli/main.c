// SPDX-License-Identifier: Apache-2.0
/* main.c -- the program: finds the command, runs it, reports errors. */
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/features.h"
#include "cli/interrupts.h"
#include "cli/progress.h"
#include "cli/say.h"
#include "core/file.h"
#include "core/nearest.h"
#include "core/version.h"
#include "device/cpu/environment.h"
#include "device/cpu/gemm.h"
#include "sim/machine.h"
#include "train/run_options.h"

#define COMMAND(name, about) mba_command_fn mba_command_##name;
#include "cli/commands.def"
#undef COMMAND

const mba_command mba_commands[] = {
#define COMMAND(name, about) { #name, about, mba_command_##name },
#include "cli/commands.def"
#undef COMMAND
    { 0 },
};

static void print_usage(FILE *f)
{
    fputs("mambascope " MBA_VERSION " (" MBA_COMMIT "): trains, profiles and simulates Mamba models\n\n"
          "usage: mambascope COMMAND [options]; every command has --help\n\n",
          f);
    for (const mba_command *c = mba_commands; c->name; c++) fprintf(f, "  %-10s %s\n", c->name, c->about);
    fputs("\nExamples\n  mambascope list models\n  mambascope train --model mamba2-130m --batch 1 --length 1024 "
          "--dry-run\n",
          f);
}

/* train, suite and data prepare install handlers of their own, to save their work. */
static void mind_signals(void)
{
    static const int ends[] = { SIGINT, SIGTERM, SIGHUP };
    struct sigaction was, act = { .sa_handler = mba_end_by_signal };
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (sigaction(ends[i], NULL, &was) == 0 && was.sa_handler != SIG_IGN) sigaction(ends[i], &act, NULL);
    mba_mind_cut_files();
    signal(SIGXFSZ, SIG_IGN); // a file that may not grow is an error that we report
}

/* Opens /dev/null for reading in place of a closed stdin, stdout or stderr (2>&-). Otherwise the next file that is
 * opened, such as the log of a run, would take the descriptor and receive what is printed. */
static void keep_descriptors(void)
{
    int fd;
    do fd = open("/dev/null", O_RDONLY);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0) close(fd);
}

/* Tells the user the new names of machine keys and variants: their old names are accepted for one release. */
static void note_renamed(void)
{
    char text[512];
    if (mba_gpu_keys_renamed(text, sizeof text))
        mba_say(stderr, "note: %s; the next release takes no old names\n", text);
    if (mba_run_options_renamed()) mba_say(stderr, "note: %s\n", mba_run_options_renamed());
}

/* Reports an error, if any; returns the exit code. */
static int finish(mba_status st)
{
    if (st == MBA_OK && (fflush(stdout) || ferror(stdout)))
        st = mba_fail(MBA_E_IO, "cannot write the output\nwhy: the disk is full, or the pipe is closed");
    note_renamed();
    if (st == MBA_OK && mba_say_lost())
        st = mba_fail(MBA_E_NOMEM, "no memory for the output\nwhy: a line is missing from it");
    if (st == MBA_OK) return mba_exit_code;
    mba_print_error(mba_message());
    return mba_exit_code ? mba_exit_code : st == MBA_E_ARG ? 2 : 1;
}

static mba_status no_command(const char *name)
{
    mba_nearest near = mba_nearest_to(name, strlen(name));
    for (const mba_command *c = mba_commands; c->name; c++) mba_nearest_try(&near, c->name, c->about);
    return mba_fail(MBA_E_ARG, "there is no command '%s'\nfix: %smambascope --help lists them", name,
                    mba_did_you_mean(&near).text);
}

/* OpenBLAS starts one thread per core when it is loaded, which we never use. Where the address space is limited (ulimit
 * -v), such a thread retries forever for its buffer, or takes the room that CUDA's registration of kernels needs, which
 * then crashes. So the program restarts without them before any constructor runs, and before a sanitizer is ready. */
enum { ENVIRONMENT_MOST = 4096 };
__attribute__((no_sanitize("address", "undefined", "thread"))) static void no_blas_threads(int argc, char **argv,
                                                                                           char **envp)
{
    static char   none[] = "OPENBLAS_NUM_THREADS=1";
    const size_t  name = sizeof "OPENBLAS_NUM_THREADS=" - 1;
    char         *env[ENVIRONMENT_MOST + 2];
    int           n = 0;
    struct rlimit l;
    (void)argc;
    if (getrlimit(RLIMIT_AS, &l) != 0 || l.rlim_cur == RLIM_INFINITY) return;
    for (; *envp; envp++) {
        size_t same = 0;
        while (none[same] && (*envp)[same] == none[same]) same++;
        if ((!none[same] && !(*envp)[same]) || n == ENVIRONMENT_MOST) return;
        if (same < name) env[n++] = *envp;
    }
    env[n++] = none;
    env[n] = NULL;
    execve("/proc/self/exe", argv, env); // if it fails, the program goes on with the threads
}
typedef void before_constructors(int argc, char **argv, char **envp);
__attribute__((section(".preinit_array"), used)) static before_constructors *first_of_all[] = { no_blas_threads };

int main(int argc, char **argv)
{
    keep_descriptors();
    mind_signals();
    if (mba_cpu_check_environment() != MBA_OK) return finish(MBA_E_ARG);
    mba_gemm_choose_kernels(argv);
    if (argc < 2) {
        print_usage(stderr);
        return 2;
    }
    char *swapped[] = { argv[0], argc > 2 ? argv[2] : NULL, "--help", NULL };
    if (argc == 3 && !strcmp(argv[1], "help")) argv = swapped; // `help train` is `train --help`
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) {
        print_usage(stdout);
        return finish(MBA_OK);
    }
    if (!strcmp(argv[1], "--version")) {
        mba_features_print(stdout);
        return finish(MBA_OK);
    }
    for (const mba_command *c = mba_commands; c->name; c++)
        if (!strcmp(c->name, argv[1])) return finish(c->run(argc - 1, argv + 1));
    return finish(no_command(argv[1]));
}
