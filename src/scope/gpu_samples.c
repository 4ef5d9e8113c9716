// SPDX-License-Identifier: Apache-2.0
/* gpu_samples.c -- `profile --source KERNEL`, second half: samples of where the warps of one launch wait, and why.
 *
 * PC sampling sees only code that was loaded after it was enabled. Therefore a second process of the same command takes
 * the samples (mba_collect_samples, selected by MAMBASCOPE_SAMPLES) and writes them to a text file beside the store:
 *
 *     samples 25310 0 0                            // all, dropped, of unknown code
 *     failed CUPTI reports: ..                     // why samples are missing
 *     at 7 1808 214 96 smsp__pcsamp_.. _Z8ssd_scan.. ssd_fused.cuh
 *
 * where the numbers are node, pc, line and samples, and the words reason, kernel and file. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/file.h"
#include "scope/collect.h"
#include "scope/cupti_collect.h"
#include "scope/gpu_profile.h"

static const char VARIABLE[] = "MAMBASCOPE_SAMPLES";
enum { PATH_ROOM = 4096, NAME_ROOM = 8192, ARGS_MAX = 256, TEXT_MOST = 64 << 20 };

/* ---- in the process that samples ---- */

typedef struct sampling {
    FILE            *f;
    const char      *kernel, *only;
    int32_t          node;
    mba_samples_seen seen;
    mba_status       st;
} sampling;

static void before(void *ctx, const mba_node *n, const mba_plan *plan)
{
    sampling *x = ctx;
    if (x->node >= 0 || x->st != MBA_OK || !mba_gpu_deep_is(n, plan, x->kernel)) return;
    x->node = n->id;
    x->only = mba_gpu_deep_only(n, x->kernel);
    x->st = mba_samples_start();
}

static void write_sample(void *ctx, const mba_sass_count *c)
{
    sampling *x = ctx;
    fprintf(x->f, "at %d %u %d %.0f %s %s %s\n", (int)x->node, (unsigned)c->pc, c->line, c->value, c->metric,
            c->kernel ? c->kernel : "?", *c->file ? c->file : "-");
}

static void after(void *ctx, const mba_node *n, const mba_plan *plan)
{
    sampling *x = ctx;
    (void)plan;
    if (x->node == n->id && x->st == MBA_OK) x->st = mba_samples_stop(x->only, write_sample, x, &x->seen);
}

/* The first run loads all kernels; the second is sampled. */
static mba_status sample(mba_collecting *c, sampling *x)
{
    mba_program    *p = c->session->program;
    const mba_hooks h = { before, after, x };
    MBA_TRY(mba_samples_begin());
    MBA_TRY(mba_program_run(p, MBA_STEP, &c->step, NULL));
    MBA_TRY(p->device->wait());
    MBA_TRY(mba_program_run(p, MBA_STEP, &c->step, &h));
    MBA_TRY(p->device->wait());
    if (x->node < 0) return mba_fail(MBA_E_ARG, "this step has no kernel or operator '%s'", x->kernel);
    return x->st;
}

static void write_failure(FILE *f, const char *text)
{
    fputs("failed ", f);
    for (const char *c = text; *c; c++) fputc(*c == '\n' ? ' ' : *c, f);
    fputc('\n', f);
}

const char *mba_samples_wanted(void) { return getenv(VARIABLE); }

mba_status mba_collect_samples(mba_collecting *c, const char *path)
{
    sampling x = { .f = fopen(path, "w"), .kernel = c->options->deep, .node = -1 };
    if (!x.f) return mba_fail(MBA_E_IO, "cannot write '%s'\nwhy: %s", path, strerror(errno));
    if (!x.kernel) {
        fclose(x.f);
        return mba_fail(MBA_E_ARG, "no kernel is given\nfix: add --source KERNEL");
    }
    if (sample(c, &x) != MBA_OK) write_failure(x.f, mba_message()); // the parent process reports it
    fflush(x.f);                                                    // closing CUPTI may crash this process
    mba_samples_end(x.only, write_sample, &x, &x.seen);
    fprintf(x.f, "samples %" PRId64 " %" PRId64 " %" PRId64 "\n", x.seen.samples, x.seen.dropped, x.seen.foreign);
    return fclose(x.f) ? mba_fail(MBA_E_IO, "cannot write '%s'", path) : MBA_OK;
}

/* ---- in the process that profiles ---- */

/* Runs our own command again, with another store. Never returns. */
static void become(char *line, size_t bytes, char *text, char *store)
{
    char *arg[ARGS_MAX + 3];
    int   n = 0;
    for (char *a = line; a < line + bytes && n < ARGS_MAX; a += strlen(a) + 1) arg[n++] = a;
    arg[n++] = "--out";
    arg[n++] = store;
    arg[n] = NULL;
    setenv(VARIABLE, text, 1);
    execv("/proc/self/exe", arg);
    _exit(127);
}

static mba_status run_again(char *text, char *store)
{
    char         line[1 << 16];
    int          status = 0;
    FILE        *f = fopen("/proc/self/cmdline", "rb");
    const size_t n = f ? fread(line, 1, sizeof line - 1, f) : 0;
    if (f) fclose(f);
    line[n] = 0;
    const pid_t child = n ? fork() : -1;
    if (child < 0) return mba_fail(MBA_E_IO, "cannot start the process that takes samples\nwhy: %s", strerror(errno));
    if (child == 0) become(line, n, text, store);
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR) return mba_fail(MBA_E_IO, "cannot wait for samples\nwhy: %s", strerror(errno));
    if (WIFEXITED(status) && !WEXITSTATUS(status)) return MBA_OK;
    return mba_fail(MBA_E_UNSUPPORTED,
                    "the process that takes samples of instructions ended with %s %d\n"
                    "fix: counters must be permitted (mambascope doctor), and the model must fit in memory twice",
                    WIFEXITED(status) ? "code" : "signal", WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
}

static mba_status take_line(mba_gpu_profile *g, const char *line, mba_samples_seen *seen)
{
    int      node, source;
    unsigned pc;
    double   samples;
    char     reason[128], kernel[NAME_ROOM], file[512];
    if (sscanf(line, "samples %" SCNd64 " %" SCNd64 " %" SCNd64, &seen->samples, &seen->dropped, &seen->foreign) == 3)
        return MBA_OK;
    if (!strncmp(line, "failed ", 7)) {
        const char *fix = strstr(line, " fix: ");
        char        text[400];
        snprintf(text, sizeof text, "%.*s", (int)(fix ? fix - line - 7 : 399), line + 7);
        mba_gpu_note_add(g, "samples", text, fix ? fix + 6 : "");
        return MBA_OK;
    }
    if (sscanf(line, "at %d %u %d %lf %127s %8191s %511[^\n]", &node, &pc, &source, &samples, reason, kernel, file)
        != 7)
        return mba_fail(MBA_E_FORMAT, "not a line of samples: %.60s", line);
    return mba_gpu_instruction_add(g, &(mba_gpu_instruction){ .symbol = kernel,
                                                              .file = strcmp(file, "-") ? file : "",
                                                              .metric = reason,
                                                              .node = node,
                                                              .line = source,
                                                              .pc = pc,
                                                              .value = samples });
}

mba_status mba_gpu_samples_read(mba_gpu_profile *g, const char *path)
{
    char            *text;
    size_t           bytes;
    mba_samples_seen seen = { 0 };
    char             words[160];
    const int64_t    had = g->ninstructions;
    MBA_TRY(mba_file_read(&text, &bytes, path, TEXT_MOST));
    mba_status st = MBA_OK;
    for (char *save = NULL, *l = strtok_r(text, "\n", &save); l && st == MBA_OK; l = strtok_r(NULL, "\n", &save))
        st = take_line(g, l, &seen);
    free(text);
    MBA_TRY(st);
    if (g->ninstructions == had)
        return mba_fail(MBA_E_DEVICE,
                        "CUPTI has no samples of our code\nwhy: %lld samples, %lld of code it does not know",
                        (long long)seen.samples, (long long)seen.foreign);
    snprintf(words, sizeof words, "samples of instructions: %lld, %lld dropped by the hardware",
             (long long)seen.samples, (long long)seen.dropped);
    if (seen.dropped) mba_gpu_note_add(g, "deep", words, "");
    return MBA_OK;
}

mba_status mba_gpu_samples(mba_gpu_profile *g, const char *near)
{
    char text[PATH_ROOM], store[PATH_ROOM];
    if (snprintf(text, sizeof text, "%s.samples", near) >= PATH_ROOM
        || snprintf(store, sizeof store, "%s.samples.db", near) >= PATH_ROOM)
        return mba_fail(MBA_E_ARG, "the name of the store is too long");
    unlink(text);
    if (run_again(text, store) != MBA_OK) mba_gpu_note_failure(g, "samples"); // samples that it wrote still count
    const mba_status st = access(text, F_OK) ? MBA_OK : mba_gpu_samples_read(g, text);
    unlink(text);
    unlink(store);
    return st;
}
