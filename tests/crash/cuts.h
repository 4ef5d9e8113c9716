// SPDX-License-Identifier: Apache-2.0
/* cuts.h -- power cuts: the program's changes to the disk are recorded, and what POSIX allows to be left of them after
 * each is looked at with the program's own functions. Part of crash_test.c. */
#ifndef MBA_CRASH_CUTS_H
#define MBA_CRASH_CUTS_H

#include <sqlite3.h>

#include "scope/store.h"
#include "tests/crash/disk.h"
#include "train/checkpoint.h"
#include "train/checkpoint_dirs.h"
#include "train/run_folder.h"

enum { BEST = 100000 }; /* said of a run: the step that is saved, and BEST times the best one */

typedef struct traced_run {
    int64_t logged, renamed, best;
} traced_run;

/* What the program tells by going on: a checkpoint is saved when the line of the next step is written, or it ends. */
static void follow_run(traced_run *r, disk *d, const call *c)
{
    const char *name = strrchr(*c->to ? c->to : c->path, '/') + 1;
    long long   step;
    if (c->kind == CALL_RENAME && sscanf(name, "step-%lld", &step) == 1 && !strchr(name, '.')) r->renamed = step;
    if (c->kind == CALL_RENAME && !strcmp(name, "best")) r->best = r->logged;
    if (c->kind != CALL_WRITE || strcmp(name, "log.jsonl")) return;
    r->logged++;
    disk_say(d, r->renamed + BEST * r->best);
}

/* Runs `mambascope ARGS` and records it; it must end well. */
static void record(disk *d, const char *folder, traced_run *r, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
static void record(disk *d, const char *folder, traced_run *r, const char *fmt, ...)
{
    char    args[2048], line[4096];
    char   *argv[] = { "/bin/sh", "-c", line, NULL };
    va_list ap;
    tracer  t;
    va_start(ap, fmt);
    vsnprintf(args, sizeof args, fmt, ap);
    va_end(ap);
    snprintf(line, sizeof line, "ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0 exec '%s' %s", getenv("MBA_PROGRAM"), args);
    tracer_start(&t, argv, folder, scratch("said"));
    for (call c; tracer_next(&t, &c);) {
        if (!c.done || c.result < 0) continue;
        disk_note(d, &c);
        if (r) follow_run(r, d, &c);
    }
    if (!WIFEXITED(t.status) || WEXITSTATUS(t.status)) {
        snprintf(line, sizeof line, "cat '%s/said'", scratch_dir);
        shell(line);
        fail_msg("mambascope %s: %s", args, output);
    }
    disk_say(d, r ? r->renamed + BEST * r->best : 1);
}

/* ---- what must hold in every state ---- */

/* A path, valid for the next few calls. */
static const char *in(const char *folder, const char *name)
{
    static char paths[8][1024];
    static int  next;
    char        path[sizeof paths[0]], *p = paths[next++ % 8]; // the folder may be one of them
    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path) abort();
    return memcpy(p, path, sizeof path);
}

/* NULL, or what is lost in `folder`; `d` has the whole record. */
typedef const char *sound_fn(const char *folder, int64_t said, disk *d);

static int64_t step_in(const char *checkpoint)
{
    json_t       *t = json_load_file(in(checkpoint, "trainer.json"), 0, NULL);
    const int64_t step = t ? (int64_t)json_integer_value(json_object_get(t, "step")) : -1;
    json_decref(t);
    return step;
}

/* The lines of steps 1 to `step` are there, whole and in order. */
static bool log_reaches(const char *run, int64_t step)
{
    char      line[4096];
    FILE     *f = fopen(in(run, "log.jsonl"), "r");
    long long at = 0, n;
    while (f && at < step && fgets(line, sizeof line, f) && sscanf(line, "{\"step\": %lld,", &n) == 1 && n == at + 1
           && strlen(line) > 2 && !strcmp(line + strlen(line) - 2, "}\n"))
        at++;
    if (f) fclose(f);
    return at == step;
}

/* The best model so far, under its name, under that from which --resume gives it back, or as a step. */
static bool has_best(const char *run, int64_t best, int64_t step)
{
    static const char *const names[] = { "best", "best.old" };
    char                     name[32];
    for (int i = 0; i < 2; i++)
        if (mba_checkpoint_check(in(run, names[i])) == MBA_OK && step_in(in(run, names[i])) >= best) return true;
    snprintf(name, sizeof name, "step-%06lld", (long long)step);
    return step >= best && mba_checkpoint_check(in(run, name)) == MBA_OK;
}

/* One of so many states is gone on with. */
static bool goes_on(const char *run_folder)
{
    static int states;
    return states++ % (is_long ? 20 : 60) || run("train --resume '%s' --stop-after 1 --quiet", run_folder) == 0;
}

static const char *run_is_sound(const char *folder, int64_t said, disk *d)
{
    static char why[512];
    char        run[1024], newest[1024], damaged[2048];
    json_t     *options = NULL;
    (void)d;
    memccpy(run, in(folder, "run"), 0, sizeof run);
    const int64_t saved = said < 0 ? 0 : said % BEST, best = said < 0 ? 0 : said / BEST;
    if (mba_checkpoint_newest_sound(newest, sizeof newest, damaged, sizeof damaged, run) != MBA_OK)
        return mba_message();
    const int64_t step = *newest ? mba__step_named(newest) : 0;
    snprintf(why, sizeof why, "step %lld was saved, step %lld is found: %.300s", (long long)saved, (long long)step,
             damaged);
    if (step < saved) return why;
    if (!log_reaches(run, step)) return "the log lacks steps before the checkpoint";
    if (mba_run_options_load(&options, run) != MBA_OK) return mba_message();
    const bool kept = options != NULL;
    json_decref(options);
    if (step && !kept) return "the options are lost";
    snprintf(why, sizeof why, "the best model, of step %lld, is lost", (long long)best);
    if (best && !has_best(run, best, step)) return why;
    if (mba_is_folder(in(run, "best")) && mba_checkpoint_check(in(run, "best")) != MBA_OK)
        return "the best checkpoint is not whole";
    return !step || goes_on(run) ? NULL : output;
}

/* Rows of a store, and the command that made it; NULL: it is damaged. */
static char *store_words(const char *path)
{
    sqlite3      *db = NULL;
    sqlite3_stmt *q = NULL;
    char         *words = NULL;
    bool          whole = sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL) == SQLITE_OK
                 && sqlite3_prepare_v2(db, "PRAGMA integrity_check", -1, &q, NULL) == SQLITE_OK
                 && sqlite3_step(q) == SQLITE_ROW && !strcmp((const char *)sqlite3_column_text(q, 0), "ok");
    sqlite3_finalize(q);
    q = NULL;
    whole = whole
            && sqlite3_prepare_v2(
                   db,
                   "SELECT (SELECT count(*) FROM sheet), (SELECT count(*) FROM note), (SELECT count(*) FROM "
                   "launch), (SELECT count(*) FROM ceiling), (SELECT text FROM sheet WHERE key = 'run.command')",
                   -1, &q, NULL)
                   == SQLITE_OK
            && sqlite3_step(q) == SQLITE_ROW;
    if (whole)
        words = sqlite3_mprintf("%lld %lld %lld %lld %s", sqlite3_column_int64(q, 0), sqlite3_column_int64(q, 1),
                                sqlite3_column_int64(q, 2), sqlite3_column_int64(q, 3), sqlite3_column_text(q, 4));
    sqlite3_finalize(q);
    sqlite3_close(db);
    return words;
}

static char *store_before, *store_after; /* their words; before NULL: there was none */

static const char *store_is_sound(const char *folder, int64_t said, disk *d)
{
    static char why[2048];
    const char *path = in(folder, "run.db");
    mba_store  *s = NULL;
    (void)d;
    if (mba_store_may_replace(path) != MBA_OK) return "the store of this name could not be made again";
    if (access(path, F_OK)) return store_before || said > 0 ? "there is no store" : NULL;
    if (mba_store_open(&s, path) != MBA_OK || mba_store_close(s) != MBA_OK) return mba_message();
    char *words = store_words(path);
    if (!words) return "the store is damaged";
    const bool is_old = store_before && !strcmp(words, store_before), is_new = !strcmp(words, store_after);
    snprintf(why, sizeof why, "the store has '%s', the old one '%s', the new one '%s'", words,
             store_before ? store_before : "-", store_after);
    sqlite3_free(words);
    return is_new || (said <= 0 && (is_old || !store_before)) ? NULL : why;
}

/* Of the files whose path begins so, all are there as the program has left them in the end, or none is. */
static const char *whole_start;
static const char *whole_or_absent(const char *folder, int64_t said, disk *d)
{
    static char       why[1024];
    const disk_files *end = disk_after(d, disk_changes(d), DISK_ALL, 0);
    int               there = 0, same = 0, all = 0;
    for (int i = 0; i < end->n; i++) {
        const disk_file *f = &end->file[i];
        struct stat      s;
        if (strncmp(f->path, whole_start, strlen(whole_start)) || !f->bytes) continue;
        all++;
        if (stat(in(folder, f->path), &s)) continue;
        there++;
        mba_map map;
        if (mba_file_map(&map, in(folder, f->path)) != MBA_OK) continue;
        same += map.bytes == f->n && !memcmp(map.data, f->bytes, map.bytes);
        mba_file_unmap(&map);
    }
    snprintf(why, sizeof why, "of %d files of '%s' %d are there and %d whole", all, whole_start, there, same);
    return all && same == there && (same == all || (!there && said <= 0)) ? NULL : why;
}

/* ---- all states of a record ---- */

static void cut_everywhere(disk *d, const char *what, sound_fn *sound)
{
    const int every = is_long ? 1 : 7, seeds = is_long ? 16 : 3;
    int64_t   states = 0, lost = 0;
    for (int i = disk_begin(d); i <= disk_changes(d);
         i += i < disk_changes(d) && i + every > disk_changes(d) ? disk_changes(d) - i : every)
        for (int k = 0; k < DISK_ANY + seeds; k++) {
            const disk_how    how = k < DISK_ANY ? (disk_how)k : DISK_ANY;
            const int64_t     said = disk_said(d, i);
            const disk_files *f = disk_after(d, i, how, (uint64_t)k);
            if (!disk_is_new(d, f, said)) continue;
            assert_int_equal(mkdir(scratch("state"), 0777), 0);
            disk_write(f, scratch("state"));
            const char *why = sound(scratch("state"), said, d);
            states++;
            if (why && lost++ < 5)
                print_error("%s: a power cut after %d of %d changes, way %d: %s\n", what, i - disk_begin(d),
                            disk_changes(d) - disk_begin(d), k, why);
            nftw(scratch("state"), scratch_remove_one, 16, FTW_DEPTH | FTW_PHYS);
        }
    print_message("power cuts, %s: %d changes, %lld states, %lld lost\n", what, disk_changes(d) - disk_begin(d),
                  (long long)states, (long long)lost);
    assert_int_equal(lost, 0);
}

static disk *begin_record(const char *name)
{
    assert_int_equal(mkdir(scratch(name), 0777), 0);
    return disk_create(scratch(name));
}

#define MODEL "--model mamba2-130m --set width=16,layers=1,vocab=264,state=8,head_dim=16,chunk=16 --batch 2 --length 16"

/* Several saves, the best of several validations, stopped and gone on with; text that is prepared on the way. */
static void a_power_cut_loses_no_checkpoint(void **state)
{
    static const char *const data[] = { "tokens", "text.txt" };
    (void)state;
    need_tracer();
    for (int keep = 1; keep <= 2; keep++) {
        char name[32], what[64];
        snprintf(name, sizeof name, "keep%d", keep);
        disk      *d = begin_record(name);
        traced_run r = { 0 };
        record(d, scratch(name), &r,
               "train " MODEL
               " --data '%s/%s' --valid-fraction 0.2 --steps 10 --save-every 2 --valid-every 2 --valid-batches 2 "
               "--keep-checkpoints %d --stop-after 5 --quiet --out '%s/%s/run'",
               scratch_dir, data[keep - 1], keep, scratch_dir, name);
        record(d, scratch(name), &r, "train --resume '%s/%s/run' --quiet", scratch_dir, name);
        snprintf(what, sizeof what, "train --keep-checkpoints %d", keep);
        cut_everywhere(d, what, run_is_sound);
        disk_destroy(d);
    }
}

static void a_power_cut_loses_no_store(void **state)
{
    (void)state;
    need_tracer();
    disk *d = begin_record("stores");
    store_before = NULL;
    record(d, scratch("stores"), NULL,
           "profile " MODEL " --metric-sets '' --steps 1 --warmup 1 --out '%s/stores/run.db'", scratch_dir);
    store_after = store_words(scratch("stores/run.db"));
    assert_non_null(store_after);
    cut_everywhere(d, "profile", store_is_sound);
    disk_destroy(d);
    d = disk_create(scratch("stores"));
    store_before = store_after;
    record(d, scratch("stores"), NULL,
           "profile " MODEL " --metric-sets '' --steps 2 --warmup 1 --out '%s/stores/run.db'", scratch_dir);
    store_after = store_words(scratch("stores/run.db"));
    assert_non_null(store_after);
    assert_string_not_equal(store_after, store_before);
    cut_everywhere(d, "profile over an older store", store_is_sound);
    disk_destroy(d);
    d = disk_create(scratch("stores"));
    record(d, scratch("stores"), NULL, "report --no-simulation '%s/stores/run.db' --out '%s/stores/page.html'",
           scratch_dir, scratch_dir);
    whole_start = "page.html";
    cut_everywhere(d, "report", whole_or_absent);
    disk_destroy(d);
    sqlite3_free(store_before);
    sqlite3_free(store_after);
}

static void a_power_cut_leaves_prepared_data_whole_or_absent(void **state)
{
    (void)state;
    need_tracer();
    disk *d = begin_record("prepared");
    record(d, scratch("prepared"), NULL, "data prepare --out '%s/prepared/shards' --shard 5000 '%s/text.txt'",
           scratch_dir, scratch_dir);
    whole_start = "shards/";
    cut_everywhere(d, "data prepare", whole_or_absent);
    disk_destroy(d);
}

#endif
