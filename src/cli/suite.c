// SPDX-License-Identifier: Apache-2.0
/* suite.c -- `mambascope suite`: profiles and trains every workload, writes a store for each, and one page.
 *
 * This process plans, waits and reports. A child process makes each part (suite.h), so that a crash or a kill costs
 * only that part, and every part finds an unused GPU. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/interrupts.h"
#include "cli/options.h"
#include "cli/progress.h"
#include "cli/say.h"
#include "cli/suite.h"
#include "core/device.h"
#include "core/file.h"
#include "core/lock.h"
#include "scope/clock.h"

enum { PATH_MAX_BYTES = 4096, CANNOT_RUN = 77 }; // CANNOT_RUN: exit code of a part that this machine cannot run

typedef struct suite {
    mba_suite_options o;
    const char       *out, *only, *make;
    bool              resume, json, quick, full, tiny;
    mba_suite_part    part[MBA_SUITE_PARTS_MAX];
    bool              wanted[MBA_SUITE_PARTS_MAX], done[MBA_SUITE_PARTS_MAX];
    int               n, failed, skipped;
    int               code;                  /* of the last child process */
    int               widest;                /* length of the longest name of a wanted part */
    char              device[16], scale[16]; /* o's texts if they come from a file */
    char              failures[256];
    double            expected_s, spent_s, gauge; /* time of the parts finished in this call: expected, taken, ratio */
    mba_progress      bar;
} suite;

static volatile sig_atomic_t stopped;
static void                  on_signal(int number) { stopped = number; }

static void path_of(char path[PATH_MAX_BYTES], const suite *u, const char *before, const char *name, const char *after)
{
    snprintf(path, PATH_MAX_BYTES, "%s/%s%s%s", u->out, before, name, after);
}

/* ---- options: given now, or when the suite was started ---- */

static mba_status differs(const suite *u, const char *what, const char *was, const char *is)
{
    return mba_fail(
        MBA_E_ARG,
        "the suite in '%s' was started with %s %s, not %s\nwhy: --resume continues with the options of the start\n"
        "fix: give the same options or none, choose another --out, or leave --resume out to start again",
        u->out, what, was, is);
}

static mba_status agree_text(suite *u, json_t *j, const char *key, const char **value, char *kept, size_t room)
{
    const char *was = json_string_value(json_object_get(j, key));
    if (!was) return MBA_OK;
    if (*value && strncmp(*value, was, strlen(was))) return differs(u, key, was, *value);
    snprintf(kept, room, "%s", was);
    if (!*value) *value = kept;
    return MBA_OK;
}

static mba_status agree_number(const suite *u, json_t *j, const char *key, int64_t *value)
{
    json_t *was = json_object_get(j, key);
    char    a[24], b[24];
    if (!json_is_integer(was)) return MBA_OK;
    snprintf(a, sizeof a, "%lld", (long long)json_integer_value(was));
    snprintf(b, sizeof b, "%lld", (long long)*value);
    if (*value && strcmp(a, b)) return differs(u, key, a, b);
    *value = json_integer_value(was);
    return MBA_OK;
}

static mba_status read_begun(suite *u)
{
    char         path[PATH_MAX_BYTES], *text = NULL;
    size_t       bytes;
    json_error_t e;
    path_of(path, u, "", "suite", ".json");
    if (access(path, F_OK)) return MBA_OK;
    MBA_TRY(mba_file_read(&text, &bytes, path, 1 << 16));
    json_t *j = json_loadb(text, bytes, 0, &e);
    free(text);
    if (!j)
        return mba_fail(MBA_E_FORMAT,
                        "'%s' is damaged\nwhy: %s\nfix: remove it, and give the options of the suite "
                        "again",
                        path, e.text);
    mba_status st = agree_text(u, j, "scale", &u->o.scale, u->scale, sizeof u->scale);
    if (st == MBA_OK) st = agree_text(u, j, "device", &u->o.device, u->device, sizeof u->device);
    if (st == MBA_OK) st = agree_number(u, j, "length", &u->o.length);
    if (st == MBA_OK) st = agree_number(u, j, "repeats", &u->o.repeats);
    if (st == MBA_OK) st = agree_number(u, j, "steps", &u->o.steps);
    json_decref(j);
    return st;
}

static mba_status write_begun(const suite *u)
{
    char        path[PATH_MAX_BYTES], text[512];
    mba_writer *w = NULL;
    path_of(path, u, "", "suite", ".json");
    const int  n = snprintf(text, sizeof text,
                            "{\"scale\": \"%s\", \"device\": \"%s\", \"length\": %lld, \"repeats\": %lld, "
                             "\"steps\": %lld}\n",
                            u->o.scale, strncmp(u->o.device, "cuda", 4) ? "cpu" : "cuda", (long long)u->o.length,
                            (long long)u->o.repeats, (long long)u->o.steps);
    mba_status st = mba_writer_create(&w, path);
    if (st == MBA_OK) st = mba_writer_put(w, text, (size_t)n);
    if (st == MBA_OK) st = mba_writer_commit(w);
    mba_writer_destroy(w);
    return st;
}

/* A child process looks for the GPU: a process that has opened it keeps memory on it. */
static mba_status has_gpu(bool *has)
{
    int         status = 1;
    const pid_t child = fork();
    if (child < 0)
        return mba_fail(MBA_E_IO,
                        "cannot start a process that looks for a GPU\nwhy: %s\nfix: add --device cpu or --device cuda",
                        strerror(errno));
    if (child == 0) {
        const mba_device *gpu;
        _exit(mba_device_cuda(&gpu, 0) == MBA_OK ? 0 : 1);
    }
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    *has = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    return MBA_OK;
}

static bool is_device(const char *name)
{
    if (!strcmp(name, "cpu") || !strcmp(name, "cuda")) return true;
    return !strncmp(name, "cuda:", 5) && name[5] && strspn(name + 5, "0123456789") == strlen(name + 5);
}

static mba_status settle_options(suite *u)
{
    if (u->quick + u->full + u->tiny > 1)
        return mba_fail(MBA_E_ARG, "--quick, --full and --tiny cannot be combined\nfix: choose one of them");
    if (u->quick) u->o.scale = "quick";
    if (u->full) u->o.scale = "full";
    if (u->tiny) u->o.scale = "tiny";
    if (u->o.device && !is_device(u->o.device))
        return mba_fail(MBA_E_ARG, "--device must be cpu, cuda or cuda:N, not %s", u->o.device);
    if (u->resume || u->only) MBA_TRY(read_begun(u));
    bool gpu = false;
    if (!u->o.device) MBA_TRY(has_gpu(&gpu));
    if (!u->o.device) u->o.device = gpu ? "cuda" : "cpu";
    mba_suite_defaults(&u->o);
    u->n = mba_suite_plan(u->part, &u->o);
    return MBA_OK;
}

static bool is_word(const char *name, const char *at, size_t n)
{
    return name && strlen(name) == n && !strncmp(name, at, n);
}

/* --only mamba2,sizes,mamba1-tiles: by workload, with all its parts, by group, or by part. */
static mba_status choose_parts(suite *u)
{
    for (int i = 0; i < u->n; i++) u->wanted[i] = !u->only;
    for (const char *at = u->only; at && (*at || at == u->only);) {
        const size_t n = strcspn(at, ",");
        int          hits = 0;
        for (int i = 0; i < u->n; i++) {
            const mba_suite_part *p = &u->part[i];
            if (!is_word(p->workload, at, n) && !is_word(p->group, at, n) && !is_word(p->name, at, n)) continue;
            u->wanted[i] = true;
            hits++;
        }
        if (!hits)
            return mba_fail(
                MBA_E_ARG,
                "--only: there is no workload '%.*s'\nfix: mamba1, mamba2, hybrid, mambavision, graphmamba, "
                "or several of them with commas; with --full on a GPU also baseline, persistent, bc_fused, sizes, "
                "power, mamba_ssm",
                (int)n, at);
        at += n + (at[n] == ',');
    }
    return MBA_OK;
}

/* ---- what is there already ---- */

static void set_aside(const suite *u, const mba_suite_part *p)
{
    char path[PATH_MAX_BYTES], kept[PATH_MAX_BYTES + 16];
    path_of(path, u, "", p->name, ".db");
    snprintf(kept, sizeof kept, "%s.broken", path);
    mba_say(stderr, "%s cannot be read: %.*s; it is renamed %s\n", path, (int)strcspn(mba_message(), "\n"),
            mba_message(), kept);
    if (rename(path, kept)) fprintf(stderr, "  could not rename it: %s\n", strerror(errno));
}

static mba_status look_at(suite *u, int i)
{
    const mba_suite_part *p = &u->part[i];
    char                  path[PATH_MAX_BYTES], have[1024], want[1024];
    path_of(path, u, "", p->name, ".db");
    mba_suite_part_words(want, sizeof want, p);
    mba_suite_state is;
    MBA_TRY(mba_suite_part_look(&is, p, path, have, sizeof have));
    switch (is) {
    case MBA_PART_ABSENT: return MBA_OK;
    case MBA_PART_BROKEN: set_aside(u, p); return MBA_OK;
    case MBA_PART_STRANGE:
        return mba_fail(MBA_E_ARG,
                        "'%s' is a store that the suite did not write\nwhy: the suite would replace it\n"
                        "fix: choose another --out, or move the store away",
                        path);
    case MBA_PART_OTHER:
        if (!u->resume && u->wanted[i]) break;
        return mba_fail(
            MBA_E_ARG,
            "'%s' was recorded with other options\nwhy: it has `%s`, this suite asks for `%s`\nfix: give the "
            "same options, choose another --out, or move it away",
            path, have, want);
    case MBA_PART_DONE:
        if (!u->resume && u->wanted[i]) break;
        u->done[i] = true;
        return MBA_OK;
    }
    if (unlink(path))
        return mba_fail(MBA_E_IO,
                        "cannot remove '%s'\nwhy: %s\nfix: remove it by hand, or choose "
                        "another --out",
                        path, strerror(errno));
    return MBA_OK;
}

/* ---- making parts ---- */

/* Removes temporary files of a killed suite; the lock guarantees that nobody writes them now. A file that cannot be
 * listed stays and only takes space: the next writer of that name replaces it. */
static void sweep(const suite *u, const char *start)
{
    char           path[PATH_MAX_BYTES];
    DIR           *folder = opendir(u->out);
    struct dirent *e;
    while (folder && (e = readdir(folder))) {
        if (strncmp(e->d_name, start, strlen(start))) continue;
        path_of(path, u, "", e->d_name, "");
        unlink(path);
    }
    if (folder) closedir(folder);
}

/* Removes the unfinished store of a part, with its journals. */
static void sweep_part(const suite *u, const mba_suite_part *p)
{
    char start[64];
    snprintf(start, sizeof start, ".%s.part.db", p->name);
    sweep(u, start);
}

static void become_part(const suite *u, const mba_suite_part *p, pid_t parent)
{
    char  scale[24], length[24], repeats[24], steps[24], threads[24];
    char *argv[24] = { "mambascope", "suite",        scale,      "--device",    (char *)u->o.device,
                       "--out",      (char *)u->out, "--length", length,        "--repeats",
                       repeats,      "--steps",      steps,      "--make-part", (char *)p->name };
    int   n = 15;
    snprintf(scale, sizeof scale, "--%s", u->o.scale);
    snprintf(length, sizeof length, "%lld", (long long)u->o.length);
    snprintf(repeats, sizeof repeats, "%lld", (long long)u->o.repeats);
    snprintf(steps, sizeof steps, "%lld", (long long)u->o.steps);
    snprintf(threads, sizeof threads, "%lld", (long long)u->o.threads);
    if (u->o.threads) argv[n++] = "--threads", argv[n++] = threads;
    prctl(PR_SET_PDEATHSIG, SIGKILL); // a killed suite leaves no child that writes
    if (getppid() != parent) _exit(1);
    const int null = open("/dev/null", O_WRONLY);
    if (null >= 0) dup2(null, STDOUT_FILENO);
    execv("/proc/self/exe", argv);
    fprintf(stderr, "error: cannot start %s: %s\n", p->name, strerror(errno));
    _exit(127);
}

/* Seconds left: the expected ones, scaled by the pace of the finished parts. */
static double left_s(const suite *u)
{
    double s = 0;
    for (int i = 0; i < u->n; i++)
        if (u->wanted[i] && !u->done[i]) s += u->part[i].expect_s;
    return s * u->gauge;
}

static bool wait_for(suite *u, const mba_suite_part *p, pid_t child)
{
    const double began = mba_clock_s(), all = u->spent_s + left_s(u);
    int          status = 0;
    bool         told = false;
    u->code = 1;
    for (pid_t got; (got = waitpid(child, &status, WNOHANG)) != child;) {
        if (got < 0 && errno != EINTR) return false;
        if (stopped && !told) told = kill(child, SIGTERM) == 0;
        const double now = u->spent_s + fmin(mba_clock_s() - began, p->expect_s * u->gauge);
        mba_progress_show(&u->bar, (int64_t)(1000 * now / fmax(all, 1e-3)), p->name);
        nanosleep(&(struct timespec){ .tv_nsec = 20 * 1000 * 1000 }, NULL);
    }
    u->spent_s += mba_clock_s() - began;
    u->expected_s += p->expect_s;
    if (WIFSIGNALED(status) && !stopped)
        fprintf(stderr, "error: %s was ended by signal %d (%s)\n", p->name, WTERMSIG(status),
                strsignal(WTERMSIG(status)));
    u->code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return u->code == 0;
}

/* A store gets its final name when it is complete. */
static bool give_name(const suite *u, const mba_suite_part *p)
{
    char from[PATH_MAX_BYTES], to[PATH_MAX_BYTES];
    path_of(from, u, ".", p->name, ".part.db");
    path_of(to, u, "", p->name, ".db");
    if (mba_file_rename(from, to) == MBA_OK) return true;
    mba_say(stderr, "error: %s\n", mba_message());
    return false;
}

static int digits(int n) { return n > 9 ? 2 : 1; }

static void make_part(suite *u, int i, int number, int of)
{
    mba_suite_part *p = &u->part[i];
    const double    began = mba_clock_s();
    sweep_part(u, p);
    const pid_t parent = getpid(), child = fork();
    if (child == 0) become_part(u, p, parent);
    if (child < 0) fprintf(stderr, "error: cannot start %s: %s\n", p->name, strerror(errno));
    const bool made = child > 0 && wait_for(u, p, child) && give_name(u, p);
    mba_progress_end(&u->bar);
    if (made) {
        const double took = mba_clock_s() - began;
        u->done[i] = true;
        u->gauge = u->spent_s / u->expected_s;
        const int left = (int)(left_s(u) + 0.5);
        fprintf(stderr, "[%*d/%d] %-*s %5.1f s%s", digits(of), number, of, u->widest, p->name, took, left ? "" : "\n");
        if (left) fprintf(stderr, "; about %d:%02d left\n", left / 60, left % 60);
        return;
    }
    sweep_part(u, p);
    if (stopped) return;
    if (child > 0 && u->code == CANNOT_RUN) {
        u->skipped++;
        u->wanted[i] = false;
        fprintf(stderr, "[%*d/%d] %-*s skipped: the lines above say why\n", digits(of), number, of, u->widest, p->name);
        return;
    }
    u->failed++;
    snprintf(u->failures + strlen(u->failures), sizeof u->failures - strlen(u->failures), "%s%s",
             *u->failures ? ", " : "", p->name);
    fprintf(stderr, "[%*d/%d] %-*s failed; the others continue\n", digits(of), number, of, u->widest, p->name);
}

/* A part that this machine cannot run, though nothing is wrong: it is counted, and the report lacks it. */
static bool skip_part(suite *u, int i, int number, int of)
{
    char why[200];
    if (mba_suite_part_possible(&u->part[i], why, sizeof why)) return false;
    u->skipped++;
    u->wanted[i] = false;
    mba_say(stderr, "[%*d/%d] %-*s skipped: %s\n", digits(of), number, of, u->widest, u->part[i].name, why);
    return true;
}

static void make_parts(suite *u)
{
    int of = 0, number = 0, kept = 0;
    for (int i = 0; i < u->n; i++) {
        const int name = (int)strlen(u->part[i].name);
        if (u->wanted[i] && name > u->widest) u->widest = name;
        of += u->wanted[i] && !u->done[i];
        kept += u->done[i];
    }
    const int left = (int)left_s(u);
    if (kept) fprintf(stderr, "%d of %d parts are finished and kept\n", kept, u->n);
    if (of)
        mba_say(stderr, "suite --%s on %s: %d parts, about %d:%02d\n", u->o.scale, u->o.device, of, left / 60,
                left % 60);
    u->bar = mba_progress_start("suite", 1000);
    for (int i = 0; i < u->n && !stopped; i++)
        if (u->wanted[i] && !u->done[i] && !skip_part(u, i, ++number, of)) make_part(u, i, number, of);
    if (u->skipped) fprintf(stderr, "%d of %d parts were skipped, see above\n", u->skipped, u->n);
}

/* ---- the end ---- */

static mba_status finish(suite *u)
{
    char        path[MBA_SUITE_PARTS_MAX][PATH_MAX_BYTES];
    const char *paths[MBA_SUITE_PARTS_MAX];
    int         n = 0, main_parts = 0, done = 0;
    for (int i = 0; i < u->n; i++) done += u->done[i];
    if (stopped)
        return mba_fail(MBA_E_IO, "interrupted; %d of %d parts are finished\nfix: mambascope suite --resume --out %s",
                        done, u->n, u->out);
    for (int i = 0; i < u->n; i++) {
        if (!u->done[i]) continue;
        path_of(path[n], u, "", u->part[i].name, ".db");
        paths[n] = path[n];
        n++;
        main_parts += !u->part[i].group;
    }
    if (!n)
        return mba_fail(MBA_E_IO,
                        "every part of the suite failed\nwhy: the lines above say why\nfix: mambascope doctor");
    MBA_TRY(mba_suite_summary(u->out, paths, n, main_parts, u->json));
    if (!u->failed) return MBA_OK;
    return mba_fail(MBA_E_IO,
                    "%d of %d parts failed: %s\nwhy: the lines above say why; the report has the others\n"
                    "fix: mambascope suite --resume --out %s",
                    u->failed, u->n, u->failures, u->out);
}

/* Runs one part, in the child process. */
static mba_status make_named(suite *u)
{
    char path[PATH_MAX_BYTES];
    for (int i = 0; i < u->n; i++) {
        if (strcmp(u->part[i].name, u->make)) continue;
        path_of(path, u, ".", u->make, ".part.db");
        const mba_status st = mba_suite_part_make(&u->part[i], &u->o, path);
        if (u->part[i].group && (st == MBA_E_UNSUPPORTED || st == MBA_E_NOMEM)) mba_exit_code = CANNOT_RUN;
        return st == MBA_OK ? st : mba_where(st, "part %s of the suite", u->make);
    }
    return mba_fail(MBA_E_ARG, "there is no part '%s'\nfix: mambascope suite --only takes parts and workloads",
                    u->make);
}

/* Finished parts of another machine need no GPU here; missing ones do. */
static mba_status find_device(const suite *u)
{
    bool missing = false;
    for (int i = 0; i < u->n; i++) missing |= u->wanted[i] && !u->done[i];
    if (!missing || strncmp(u->o.device, "cuda", 4)) return MBA_OK;
    bool gpu;
    MBA_TRY(has_gpu(&gpu));
    if (gpu) return MBA_OK;
    return mba_fail(MBA_E_UNSUPPORTED,
                    "there is no GPU here for the missing parts of '%s'\nwhy: `mambascope doctor` "
                    "says more\nfix: use --device cpu, or run them on a machine with a GPU, then --resume here",
                    u->out);
}

static mba_status run_suite(suite *u)
{
    mba_lock *lock = NULL;
    MBA_TRY(choose_parts(u));
    MBA_TRY(mba_lock_folder(&lock, u->out));
    mba_status st = MBA_OK;
    for (int i = 0; i < u->n && st == MBA_OK; i++) st = look_at(u, i);
    if (st == MBA_OK) st = find_device(u);
    if (st == MBA_OK) {
        sweep(u, ".suite.json.");
        sweep(u, ".report.html.");
        sweep(u, ".summary.json.");
        for (int i = 0; i < u->n; i++) sweep_part(u, &u->part[i]);
        st = write_begun(u);
    }
    if (st == MBA_OK) {
        mba_interrupts(on_signal);
        make_parts(u);
        st = finish(u);
    }
    mba_lock_release(lock);
    return st;
}

mba_status mba_command_suite(int argc, char **argv)
{
    suite            u = { .out = "results/suite", .gauge = 1 };
    bool             help;
    const mba_option options[] = {
        { "--quick", MBA_OPT_FLAG, &u.quick, NULL, "run for a few minutes [default]", 0, 0 },
        { "--full", MBA_OPT_FLAG, &u.full, NULL,
          "run more steps; on a GPU also other kernel variants, sequence lengths, and mamba_ssm if Python finds it", 0,
          0 },
        { "--tiny", MBA_OPT_FLAG, &u.tiny, NULL,
          "run toy models for seconds: to try the suite, not to quote its numbers", 0, 0 },
        { "--only", MBA_OPT_TEXT, &u.only, "W,..",
          "run only these workloads, groups (baseline, persistent, bc_fused, sizes, mamba_ssm) or parts; the report "
          "still has all finished ones",
          0, 0 },
        { "--device", MBA_OPT_TEXT, &u.o.device, "WHERE", "cpu, cuda or cuda:N [cuda if there is a GPU]", 0, 0 },
        { "--out", MBA_OPT_TEXT, &u.out, "FOLDER",
          "write the stores, report.html and summary.json here [results/suite]", 0, 0 },
        { "--resume", MBA_OPT_FLAG, &u.resume, NULL,
          "keep the finished parts in --out, also those of another machine, and run the rest", 0, 0 },
        { "--length", MBA_OPT_INT, &u.o.length, "L", "CPU: tokens of the measured step [256; --full 1024]", 1,
          1 << 20 },
        { "--repeats", MBA_OPT_INT, &u.o.repeats, "N",
          "number of measured steps, of which the median counts [3; --full 5]", 1, 100 },
        { "--steps", MBA_OPT_INT, &u.o.steps, "N", "training steps of the small models [120; --full 400]", 1, 1000000 },
        { "--threads", MBA_OPT_INT, &u.o.threads, "N", "CPU threads [OMP_NUM_THREADS, or one per core]", 1, 4096 },
        { "--json", MBA_OPT_FLAG, &u.json, NULL, "print the summary as JSON: step, operators, training", 0, 0 },
        { "--make-part", MBA_OPT_TEXT, &u.make, "PART", "internal: run one part, as the suite calls itself", 0, 0 },
        { 0 },
    };
    const mba_usage usage = {
        "suite", "[--quick|--full] [--only W] [--device D] [--out DIR] [--resume] [options]",
        "Measures a training step of the five workloads (mamba1 mamba2 hybrid mambavision\n"
        "graphmamba), trains a small model of each, and simulates them on GPUs. Writes one\n"
        "store per workload, report.html and summary.json. After an interruption --resume\n"
        "runs the parts that are missing, also on another machine if you copy the folder.",
        options,
        "mambascope suite\nmambascope suite --full --device cuda --out h200\nmambascope suite --resume --out h200\n"
        "mambascope suite --full --only mamba2,hybrid --out h200\nmambascope show results/suite/mamba2.db\n"
    };
    MBA_TRY(mba_options_parse(&usage, argc, argv, NULL, &help));
    if (help) return MBA_OK;
    MBA_TRY(settle_options(&u));
    return u.make ? make_named(&u) : run_suite(&u);
}
