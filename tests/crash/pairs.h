// SPDX-License-Identifier: Apache-2.0
/* pairs.h -- two commands on one folder or store: the first is stopped before each of its file-system calls, the second
 * runs to its end or until it waits, and the first goes on; or is killed there, before the second starts. Part of
 * crash_test.c. */
#ifndef MBA_CRASH_PAIRS_H
#define MBA_CRASH_PAIRS_H

typedef struct outcome {
    int  code[2];
    bool killed;
} outcome; /* exit codes; of one that was killed -1 */

typedef struct pair {
    const char *name, *setup;   /* a line of shell in the folder, $M is the program; NULL: none */
    const char *first, *second; /* their arguments; the folder is the current one */
    const char *(*sound)(const char *folder, const outcome *o); /* NULL, or what is wrong */
    int sample;                                                 /* stops in the ordinary run; 0: none */
    int every;                                                  /* with MBA_CRASH_ALL one stop in so many */
} pair;

static const char *begun(const char *text, int number)
{
    static char line[2][4096];
    snprintf(line[number], sizeof line[number],
             "cd '%s/pair' && export ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0 M='%s' && exec \"$M\" %s", scratch_dir,
             getenv("MBA_PROGRAM"), text);
    return line[number];
}

static pid_t start_second(const char *line)
{
    const pid_t pid = fork();
    if (pid) return pid;
    const int fd = open(scratch("said2"), O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (fd < 0 || dup2(fd, 1) < 0 || dup2(fd, 2) < 0) _exit(126);
    execl("/bin/sh", "sh", "-c", line, (char *)NULL);
    _exit(127);
}

static int code_of(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status); }

/* The second, until it ends or seems to wait; false: it waits, and is t->other. */
static bool second_ends(tracer *t, pid_t second, int *code)
{
    enum { TRIES = 1500 };
    int status;
    for (int i = 0; i < TRIES; i++) {
        if (waitpid(second, &status, WNOHANG) == second) {
            *code = code_of(status);
            return true;
        }
        usleep(2000);
    }
    t->other = second;
    return false;
}

static void end_of_second(tracer *t, pid_t second, int *code)
{
    int status = t->other_status;
    alarm(60);
    if (!t->other_ended && waitpid(second, &status, 0) != second) fail_msg("the second command is gone");
    alarm(0);
    *code = code_of(status);
}

static void fresh_folder(void)
{
    char line[1024];
    snprintf(line, sizeof line, "rm -rf '%s/pair'; cp -r '%s/template' '%s/pair'", scratch_dir, scratch_dir,
             scratch_dir);
    assert_int_equal(shell(line), 0);
}

/* One stop; `k` counts from 1. Returns false where the first has no such call. */
static bool one_stop(const pair *p, int k, bool killed, outcome *o, char *where, size_t room)
{
    char  *argv[] = { "/bin/sh", "-c", (char *)(uintptr_t)begun(p->first, 0), NULL };
    tracer t;
    call   c;
    bool   there = false;
    *o = (outcome){ .killed = killed };
    fresh_folder();
    tracer_start(&t, argv, scratch("pair"), scratch("said1"));
    for (int n = 0; !there && tracer_next(&t, &c);) there = !c.done && ++n == k;
    if (!there) {
        o->code[0] = code_of(t.status);
        return false;
    }
    snprintf(where, room, "%s", tracer_words(&c));
    if (killed) tracer_kill(&t);
    const pid_t second = start_second(begun(p->second, 1));
    const bool  ended = second_ends(&t, second, &o->code[1]);
    while (!killed && tracer_next(&t, &c)) continue;
    if (!ended) end_of_second(&t, second, &o->code[1]);
    o->code[0] = killed ? -1 : code_of(t.status);
    return true;
}

/* Whoever does not succeed says why; at least one of two that live succeeds. */
static const char *said_well(const outcome *o)
{
    static char why[4096];
    char        line[512];
    for (int i = 0; i < 2; i++) {
        if (o->code[i] <= 0) continue;
        snprintf(line, sizeof line, "cat '%s/said%d'", scratch_dir, i + 1);
        shell(line);
        snprintf(why, sizeof why, "command %d ended with %d: %.3000s", i + 1, o->code[i], output);
        if (o->code[i] > 2 || !strstr(output, "error: ") || !strstr(output, "fix: ")) return why;
        if (!o->killed && o->code[1 - i] != 0) return why;
    }
    return NULL;
}

static void interleave(const pair *p, int *stops, int *bad)
{
    char    line[4096], where[2048] = "";
    outcome o;
    int     calls = 0;
    snprintf(line, sizeof line,
             "rm -rf '%s/template'; mkdir '%s/template' && cd '%s/template' && export M='%s' && { %s\n} 2>&1",
             scratch_dir, scratch_dir, scratch_dir, getenv("MBA_PROGRAM"), p->setup ? p->setup : ":");
    if (shell(line)) fail_msg("%s: %s", p->name, output);
    fresh_folder();
    tracer t;
    char  *argv[] = { "/bin/sh", "-c", (char *)(uintptr_t)begun(p->first, 0), NULL };
    tracer_start(&t, argv, scratch("pair"), scratch("said1"));
    for (call c; tracer_next(&t, &c);) calls += !c.done;
    const int step = is_long ? p->every : calls / p->sample + 1;
    int       taken = 0, lost = 0;
    for (int k = is_long ? 1 : 1 + step / 2; k <= calls; k += step)
        for (int killed = 0; killed < 2; killed++) {
            if (!is_long && killed != (k / step) % 2) continue;
            if (!one_stop(p, k, killed, &o, where, sizeof where)) continue;
            const char *why = said_well(&o);
            if (!why) why = p->sound(scratch("pair"), &o);
            taken++;
            if (why && lost++ < 5)
                print_error("%s, the first %s before call %d (%s), exits %d and %d: %s\n", p->name,
                            killed ? "killed" : "stopped", k, where, o.code[0], o.code[1], why);
        }
    print_message("interleavings, %s: %d calls, %d states, %d bad\n", p->name, calls, taken, lost);
    *stops += taken;
    *bad += lost;
}

/* ---- what must hold ---- */

static int64_t kept_seed(const char *run)
{
    json_t *options = NULL;
    if (mba_run_options_load(&options, run) != MBA_OK || !options) return -1;
    const json_t *seed = json_object_get(options, "--seed");
    const int64_t is = json_is_number(seed) ? (int64_t)json_number_value(seed) : -1;
    json_decref(options);
    return is;
}

/* Names that a command makes on its way and takes away. */
static const char *litter_in(const char *folder)
{
    static char              why[512];
    static const char *const ends[] = {
        ".lock", ".tmp", ".partial", ".old", ".gone", ".new", "-journal", ".unfinished"
    };
    DIR *d = opendir(folder);
    bool found = false;
    for (const struct dirent *e; d && !found && (e = readdir(d));) {
        const size_t n = strlen(e->d_name);
        for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
            found |= n > strlen(ends[i]) - 1 && !strcmp(e->d_name + n - strlen(ends[i]), ends[i]);
        found |= strstr(e->d_name, ".partial-") != NULL;
        snprintf(why, sizeof why, "'%s' is left behind", e->d_name);
    }
    if (d) closedir(d);
    return found ? why : NULL;
}

/* A run is of one seed, its checkpoints are sound, its log has every step once. Seed 1 makes 4 steps, seed 2 makes
 * 2. */
static const char *run_is_one(const char *folder, const outcome *o)
{
    static char why[512];
    char        run[1024];
    memccpy(run, in(folder, "run"), 0, sizeof run);
    const int64_t seed = kept_seed(run);
    int64_t       newest = 0;
    DIR          *d = opendir(run);
    if (!d) return "there is no run";
    for (const struct dirent *e; (e = readdir(d));) {
        const int64_t step = mba__step_named(e->d_name);
        if (step < 0) continue;
        if (step > newest) newest = step;
        snprintf(why, sizeof why, "'%s' is not of this run", e->d_name);
        json_t       *t = json_load_file(in(in(run, e->d_name), "trainer.json"), 0, NULL);
        const int64_t its = t ? (int64_t)json_integer_value(json_object_get(t, "seed")) : -2;
        json_decref(t);
        if (its != seed || mba_checkpoint_check(in(run, e->d_name)) != MBA_OK) newest = -1;
        if (newest < 0) break;
    }
    closedir(d);
    if (newest < 0) return why;
    const bool complete = !o->killed || o->code[1] == 0;
    if (complete && newest != (seed == 1 ? 4 : 2)) return "the run is not complete";
    if (!log_reaches(run, newest)) return "the log lacks steps";
    if (complete && log_reaches(run, newest + 1)) return "the log has more steps than the run";
    return complete ? litter_in(run) : NULL;
}

/* The best model is that of the step which the newest checkpoint says has the least loss. */
static const char *run_has_its_best(const char *folder, const outcome *o)
{
    const char   *why = run_is_one(folder, o);
    json_t       *t = why || o->code[1] ? NULL : json_load_file(in(folder, "run/step-000004/trainer.json"), 0, NULL);
    const int64_t best = (int64_t)json_integer_value(json_object_get(json_object_get(t, "best"), "step"));
    json_decref(t);
    if (!t) return why;
    return best < 1 || mba_checkpoint_check(in(folder, "run/best")) != MBA_OK || step_in(in(folder, "run/best")) != best
               ? "the best model is lost"
               : NULL;
}

/* That which went on elsewhere has its checkpoint, and the other is whole. */
static const char *both_runs(const char *folder, const outcome *o)
{
    char    damaged[256], newest[1024];
    json_t *options = NULL;
    if (mba_checkpoint_newest_sound(newest, sizeof newest, damaged, sizeof damaged, in(folder, "run")) != MBA_OK
        || !*newest || *damaged)
        return "the first run has no sound checkpoint";
    if (!log_reaches(in(folder, "run"), mba__step_named(newest))) return "the log of the first run lacks steps";
    if (!mba_is_folder(in(folder, "branch")))
        return !o->killed && !o->code[0] && !o->code[1] ? "the branch is not there" : NULL;
    if (mba_checkpoint_newest_sound(newest, sizeof newest, damaged, sizeof damaged, in(folder, "branch")) != MBA_OK
        || *damaged)
        return "the branch has a damaged checkpoint";
    if (mba_run_options_load(&options, in(folder, "branch")) != MBA_OK) return "the options of the branch are damaged";
    json_decref(options);
    return !o->killed ? litter_in(in(folder, "run")) : NULL;
}

static const char *store_is_one(const char *folder, const outcome *o)
{
    char *words = store_words(in(folder, "run.db"));
    if (!words) return "the store is lost";
    sqlite3_free(words);
    return !o->killed ? litter_in(folder) : NULL;
}

/* The second is a profile too: what the first left is gone. */
static const char *store_is_clean(const char *folder, const outcome *o)
{
    const char *why = store_is_one(folder, o);
    return why ? why : litter_in(folder);
}

static const char *page_is_whole(const char *folder, const outcome *o)
{
    mba_map map;
    (void)o;
    if (mba_file_map(&map, in(folder, "page.html")) != MBA_OK) return "there is no page";
    const bool whole = memmem(map.data, map.bytes, "</html>", 7) != NULL;
    mba_file_unmap(&map);
    return whole ? litter_in(folder) : "the page is cut";
}

static const char *data_are_one(const char *folder, const outcome *o)
{
    static char why[1024];
    char        line[2048];
    snprintf(line, sizeof line, "cd '%s' && diff -r shards text >/dev/null || diff -r shards made 2>&1", folder);
    const int differs = shell(line);
    snprintf(why, sizeof why, "the data is neither's: %.900s", output);
    return differs ? why : o->code[1] == 0 || !o->killed ? litter_in(folder) : NULL;
}

/* Training with data that is just being made has none, or all of it. */
static const char *data_and_run(const char *folder, const outcome *o)
{
    char damaged[256], newest[1024];
    if (!o->code[1]
        && (mba_checkpoint_newest_sound(newest, sizeof newest, damaged, sizeof damaged, in(folder, "run")) != MBA_OK
            || !*newest))
        return "the run has no checkpoint";
    return o->killed ? NULL : data_are_one(folder, o);
}

static const char *suite_is_one(const char *folder, const outcome *o)
{
    char *words = store_words(in(folder, "suite/graphmamba.db"));
    if (!words && (!o->killed || !o->code[1])) return "the store of the suite is lost";
    sqlite3_free(words);
    return o->code[1] == 0 ? litter_in(in(folder, "suite")) : NULL;
}

#define NEW(seed, steps) \
    "train " MODEL " --data ../tokens --seed " seed " --steps " steps " --save-every 1 --quiet --out run"
#define JUDGED         " --valid-fraction 0.2 --valid-every 1 --valid-batches 1"
#define BEGUN          "\"$M\" " NEW("1", "4") " --stop-after 2"
#define MEASURE(steps) "profile " MODEL " --metric-sets '' --steps " steps " --warmup 1 --out "
#define TINY           "suite --tiny --only graphmamba --out suite"

static const pair pairs[] = {
    { "train and train", NULL, NEW("1", "4"), NEW("2", "2"), run_is_one, 6, 1 },
    { "train and train --resume", NULL, NEW("1", "4"), NEW("1", "4") " --resume auto", run_is_one, 6, 1 },
    { "train with validation and train --resume", NULL, NEW("1", "4") JUDGED, NEW("1", "4") JUDGED " --resume auto",
      run_has_its_best, 6, 1 },
    { "train --resume and train", BEGUN, "train --resume run --quiet", NEW("2", "2"), run_is_one, 4, 1 },
    { "train --resume twice", BEGUN, "train --resume run --quiet", "train --resume run --quiet", run_is_one, 6, 1 },
    { "train --resume and a branch", BEGUN, "train --resume run --keep-checkpoints 1 --quiet",
      "train --resume run --out branch --quiet", both_runs, 6, 1 },
    { "a branch and train --resume", BEGUN, "train --resume run --out branch --quiet",
      "train --resume run --keep-checkpoints 1 --quiet", both_runs, 6, 1 },
    { "prepare and prepare",
      "\"$M\" data prepare --out text ../text.txt && \"$M\" data prepare --out made --synthetic 9K",
      "data prepare --out shards ../text.txt", "data prepare --out shards --synthetic 9K", data_are_one, 6, 1 },
    { "prepare and train", "\"$M\" data prepare --out text ../text.txt", "data prepare --out shards ../text.txt",
      "train " MODEL " --data shards --steps 1 --quiet --out run", data_and_run, 4, 1 },
    { "report and report", "cp ../store.db run.db", "report --no-simulation run.db --out page.html",
      "report --no-simulation run.db --out page.html", page_is_whole, 4, 1 },
    { "profile and show", "cp ../store.db run.db", MEASURE("2") "run.db", "show run.db", store_is_one, 0, 4 },
    { "profile and profile", "cp ../store.db run.db", MEASURE("2") "run.db", MEASURE("3") "run.db", store_is_clean, 1,
      4 },
    { "suite and suite", NULL, TINY, TINY, suite_is_one, 0, 40 },
};

static void two_commands_at_once_lose_nothing(void **state)
{
    const char *only = getenv("MBA_CRASH_PAIR");
    int         stops = 0, bad = 0;
    (void)state;
    need_tracer();
    assert_int_equal(run(MEASURE("1") "'%s/store.db'", scratch_dir), 0);
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if ((is_long || pairs[i].sample) && (!only || !strcmp(only, pairs[i].name)))
            interleave(&pairs[i], &stops, &bad);
    print_message("interleavings: %d states, %d bad\n", stops, bad);
    assert_int_equal(bad, 0);
}

#endif
