/* collect_foreign.c -- `profile -- CMD`: runs a CUDA program with our library inside (inject.c), then stores what it
 * left. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "scope/collect.h"
#include "scope/describe.h"
#include "scope/foreign_store.h"

enum { PATH_ROOM = 4096 };
static const char LIBRARY[] = "libmambascope_inject.so";

/* Beside the program. */
static mba_status find_library(char *out)
{
    const ssize_t n = readlink("/proc/self/exe", out, PATH_ROOM - sizeof LIBRARY - 1);
    if (n > 0) {
        out[n] = 0;
        char *end = strrchr(out, '/');
        strcpy(end ? end + 1 : out, LIBRARY);
        if (!access(out, R_OK)) return MBA_OK;
    }
    return mba_fail(
        MBA_E_UNSUPPORTED,
        "cannot find %s\nwhy: it belongs beside the program\nfix: ./run build, and keep the two files together",
        LIBRARY);
}

/* Beside the store, and absolute: the program may go elsewhere. */
static mba_status name_trace(char *out, const char *store)
{
    char *whole = realpath(store, NULL);
    if (!whole) return mba_fail(MBA_E_IO, "cannot find the store '%s'\nwhy: %s", store, strerror(errno));
    const int n = snprintf(out, PATH_ROOM, "%s.trace", whole);
    free(whole);
    return n < PATH_ROOM ? MBA_OK : mba_fail(MBA_E_ARG, "the name of the store is too long");
}

static void set_number(const char *name, double value)
{
    char text[64];
    snprintf(text, sizeof text, "%.17g", value);
    if (value > 0) setenv(name, text, 1);
}

/* In the child: never returns. `told` closes where the program begins; else it says why it does not. */
static void become(const mba_foreign_options *o, const char *library, const char *trace, int told)
{
    signal(SIGINT, SIG_DFL);
    signal(SIGQUIT, SIG_DFL);
    setenv("CUDA_INJECTION64_PATH", library, 1);
    setenv("MAMBASCOPE_TRACE", trace, 1);
    set_number("MAMBASCOPE_SKIP_SECONDS", o->skip_s);
    set_number("MAMBASCOPE_SKIP_LAUNCHES", (double)o->skip_launches);
    set_number("MAMBASCOPE_SKIP_STEPS", (double)o->skip_steps);
    set_number("MAMBASCOPE_LAUNCHES", (double)o->launches);
    if (o->sets && *o->sets) setenv("MAMBASCOPE_SETS", o->sets, 1);
    if (o->range) {
        setenv("MAMBASCOPE_RANGE", o->range, 1);
        setenv("NVTX_INJECTION64_PATH", library, 1);         // which hands NVTX on to CUPTI, which reports to us
    }
    execvp(o->argv[0], o->argv);
    const int why = errno;
    _exit(write(told, &why, sizeof why) == sizeof why ? 127 : 126);
}

/* What the keyboard sends ends the program, not us: what it has left is stored. 0: it ran, else why it did not. */
static mba_status wait_for(pid_t child, int told, const char *name, int *status, int *why)
{
    void (*const interrupted)(int) = signal(SIGINT, SIG_IGN), (*const quit)(int) = signal(SIGQUIT, SIG_IGN);
    ssize_t    n;
    mba_status st = MBA_OK;
    while ((n = read(told, why, sizeof *why)) < 0 && errno == EINTR) continue;
    if (n != sizeof *why) *why = 0;
    while (waitpid(child, status, 0) < 0 && st == MBA_OK)
        if (errno != EINTR) st = mba_fail(MBA_E_IO, "cannot wait for '%s'\nwhy: %s", name, strerror(errno));
    signal(SIGINT, interrupted);
    signal(SIGQUIT, quit);
    return st;
}

static mba_status run_child(const mba_foreign_options *o, const char *library, const char *trace, int *status)
{
    int told[2], why = 0;
    if (pipe2(told, O_CLOEXEC)) return mba_fail(MBA_E_IO, "cannot make a pipe\nwhy: %s", strerror(errno));
    const pid_t child = fork();
    if (child == 0) become(o, library, trace, told[1]);
    mba_status st = child > 0 ? MBA_OK : mba_fail(MBA_E_IO, "cannot start '%s'\nwhy: %s", o->argv[0], strerror(errno));
    close(told[1]);
    if (st == MBA_OK) st = wait_for(child, told[0], o->argv[0], status, &why);
    close(told[0]);
    MBA_TRY(st);
    if (why)
        return mba_fail(MBA_E_ARG, "cannot run '%s'\nwhy: %s\nfix: mambascope profile [options] -- CMD", o->argv[0],
                        strerror(why));
    return MBA_OK;
}

static mba_status put_end(mba_store *s, int status)
{
    char text[96];
    if (WIFEXITED(status) && !WEXITSTATUS(status)) return MBA_OK;
    if (WIFEXITED(status)) snprintf(text, sizeof text, "the program ended with code %d", WEXITSTATUS(status));
    else                   snprintf(text, sizeof text, "the program was ended by signal %d", WTERMSIG(status));
    return mba_note_missing(s, "program", text, "");
}

/* After the child has gone, so that it had the GPU for itself. */
static mba_status describe(mba_store *s, const mba_foreign_options *o, const mba_machine **machine)
{
    const mba_device *d;
    mba_ceilings      c;
    *machine = NULL;
    MBA_TRY(mba_describe_run(s, o->command));
    MBA_TRY(mba_sheet_text(s, "run.foreign", "given", "%s", o->argv[0]));
    if (o->workload) MBA_TRY(mba_sheet_text(s, "run.workload", "given", "%s", o->workload));
    if (o->units > 0) MBA_TRY(mba_sheet_number(s, "run.units", "given", o->units, "tokens"));
    if (mba_device_cuda(&d, 0) != MBA_OK)
        return mba_note_missing(s, "gpu", "the GPU could not be asked after the run: no sheet, no ceilings",
                                "mambascope doctor");
    *machine = d->machine;
    MBA_TRY(mba_describe_device(s, d));
    if (mba_ceilings_measure_cuda(&c, MBA_BF16) != MBA_OK)
        return mba_note_missing(s, "ceilings", "the ceilings could not be measured", "mambascope bench ceilings");
    return mba_describe_ceilings(s, &c, d);
}

mba_status mba_collect_foreign(mba_store *store, const mba_foreign_options *o)
{
    char                library[PATH_ROOM], trace[PATH_ROOM];
    mba_rules          *rules;
    const mba_machine  *machine;
    mba_foreign_summary sum;
    int                 status = 0;
    MBA_TRY(find_library(library));
    MBA_TRY(name_trace(trace, mba_store_path(store)));
    MBA_TRY(mba_rules_open(&rules, o->rules));
    unlink(trace);
    mba_status st = run_child(o, library, trace, &status);
    if (st == MBA_OK) st = describe(store, o, &machine);
    if (st == MBA_OK) st = mba_foreign_store(store, trace, rules, machine, &sum);
    if (st == MBA_OK) st = put_end(store, status);
    unlink(trace);
    mba_rules_free(rules);
    if (st == MBA_OK && !sum.events)
        return mba_fail(
            MBA_E_DEVICE,
            "nothing was seen on the GPU\nwhy: %s\nfix: a shorter --skip-seconds, or another --range",
            *sum.note ? sum.note : "no kernel ran in what was watched");
    return st;
}
