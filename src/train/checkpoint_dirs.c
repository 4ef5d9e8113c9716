// SPDX-License-Identifier: Apache-2.0
/* checkpoint_dirs.c -- see checkpoint_dirs.h and the second half of checkpoint.h: directories that appear complete or
 * not at all, and the step-* and best directories of a run. */
#include "train/checkpoint_dirs.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/file.h"
#include "data/json.h"
#include "data/listing.h"
#include "train/checkpoint.h"
#include "train/checksums.h"

enum { PATH_ROOM = 4096 };

mba_status mba__directory_begin(char *building, size_t room, const char *directory)
{
    if (snprintf(building, room, "%s.partial", directory) >= (int)room)
        return mba_fail(MBA_E_ARG, "the path '%s' is too long\nfix: choose a shorter --out", directory);
    mba_folder_remove(building); // left by a killed run
    if (mba_is_folder(building))
        return mba_fail(MBA_E_IO,
                        "cannot remove '%s'\nwhy: a killed run left it, and its files would become "
                        "part of the new checkpoint\nfix: remove it by hand",
                        building);
    return mba_mkdirs(building);
}

/* A run that is killed between the two renames leaves the old directory as DIRECTORY.old and nothing under its name;
 * the next commit removes it. The new name is on the disk before anything older is removed, here and by
 * --keep-checkpoints. */
mba_status mba__directory_commit(const char *building, const char *directory)
{
    char old[PATH_ROOM];
    if (snprintf(old, sizeof old, "%s.old", directory) >= PATH_ROOM)
        return mba_fail(MBA_E_ARG, "the path '%s' is too long\nfix: choose a shorter --out", directory);
    if (access(directory, F_OK) == 0) mba_folder_remove(old);
    const bool replaced = rename(directory, old) == 0;
    if (rename(building, directory)) {
        const int why = errno;
        if (replaced) (void)!rename(old, directory);
        return mba_fail(MBA_E_IO, "cannot rename the checkpoint to '%s'\nwhy: %s\nfix: remove what has this name",
                        directory, strerror(why));
    }
    MBA_TRY(mba_name_sync(directory));
    mba_folder_remove(old);
    return MBA_OK;
}

static mba_status link_files(const char *to, const char *from)
{
    char        a[PATH_ROOM], b[PATH_ROOM] = ".";
    mba_listing l = { 0 };
    mba_status  st = mba_listing_read(&l, from, NULL);
    for (int64_t i = 0; st == MBA_OK && i < l.n; i++)
        if (snprintf(a, sizeof a, "%s/%s", from, l.name[i]) >= PATH_ROOM
            || snprintf(b, sizeof b, "%s/%s", to, l.name[i]) >= PATH_ROOM || link(a, b))
            st = mba_fail(MBA_E_IO, "cannot link '%s/%s' into '%s'\nwhy: %s\nfix: use a file system with hard links",
                          from, l.name[i], to, strerror(errno));
    mba_listing_free(&l);
    return st == MBA_OK ? mba_name_sync(b) : st;
}

mba_status mba_checkpoint_link(const char *directory, const char *from)
{
    char building[PATH_ROOM];
    MBA_TRY(mba__directory_begin(building, sizeof building, directory));
    mba_status st = link_files(building, from);
    if (st == MBA_OK) st = mba__directory_commit(building, directory);
    if (st != MBA_OK) mba_folder_remove(building);
    return st;
}

/* The last part of a path; that of "a/b/" is "b/". */
static const char *last_part(const char *path)
{
    const char *p = path + strlen(path);
    while (p > path && p[-1] == '/') p--;
    while (p > path && p[-1] != '/') p--;
    return p;
}

/* Returns N of a name that begins with "step-N", and in *rest what follows; -1 for other names and overflow. */
static int64_t step_at_start(const char *name, char **rest)
{
    static const char start[] = "step-";
    const char       *digits = name + sizeof start - 1;
    if (strncmp(name, start, sizeof start - 1) || !strspn(digits, "0123456789")) return -1;
    errno = 0;
    const long long step = strtoll(digits, rest, 10);
    return errno ? -1 : step;
}

int64_t mba__step_named(const char *directory)
{
    char         *rest;
    const int64_t step = step_at_start(last_part(directory), &rest);
    return step >= 0 && rest[strspn(rest, "/")] ? -1 : step;
}

static bool names_step(const char *name) { return mba__step_named(name) >= 0; }

static int by_step(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Lists the steps of a run's step-* directories in ascending order; the caller frees the list. A missing directory has
 * none; one that cannot be read is an error. */
static mba_status steps_of(int64_t **out, int64_t *n, const char *run)
{
    mba_listing l = { 0 };
    *out = NULL;
    *n = 0;
    if (!mba_is_folder(run) && (errno == ENOENT || errno == ENOTDIR || mba_is_file(run))) return MBA_OK;
    mba_status st = mba_listing_read(&l, run, names_step);
    if (st == MBA_OK && l.n && !(*out = malloc((size_t)l.n * sizeof **out)))
        st = mba_fail(MBA_E_NOMEM, "no memory for the checkpoints of '%s'", run);
    for (int64_t i = 0; st == MBA_OK && i < l.n; i++) (*out)[(*n)++] = mba__step_named(l.name[i]);
    if (*n) qsort(*out, (size_t)*n, sizeof **out, by_step);
    mba_listing_free(&l);
    return st;
}

static const char gone[] = ".gone";

/* Removes the directories that a killed run was about to remove. */
static void remove_gone(const char *run)
{
    char path[PATH_ROOM];
    DIR *d = opendir(run);
    for (const struct dirent *e; d && (e = readdir(d));) {
        char *rest;
        if (step_at_start(e->d_name, &rest) < 0 || strcmp(rest, gone)) continue;
        if (snprintf(path, sizeof path, "%s/%s", run, e->d_name) < PATH_ROOM) mba_folder_remove(path);
    }
    if (d) closedir(d);
}

/* Renames a directory before it removes its files, so that none is ever seen with only some of them. */
mba_status mba_checkpoint_prune(const char *run, int64_t keep, int64_t newest)
{
    int64_t n, *steps;
    char    path[PATH_ROOM], to[PATH_ROOM];
    MBA_TRY(steps_of(&steps, &n, run));
    while (n > 0 && steps[n - 1] > newest) n--;
    for (int64_t i = 0; i + keep < n; i++)
        if (snprintf(path, sizeof path, "%s/step-%06lld", run, (long long)steps[i]) < PATH_ROOM
            && snprintf(to, sizeof to, "%s/step-%06lld%s", run, (long long)steps[i], gone) < PATH_ROOM
            && rename(path, to))
            mba_folder_remove(path); // the rename failed
    free(steps);
    remove_gone(run);
    return MBA_OK;
}

/* Returns NAME of a path ORG/NAME if there is no directory ORG: the user probably means the Hugging Face Hub. Else
 * NULL. */
static const char *hub_name(const char *path)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.";
    const size_t      org = strspn(path, letters);
    const char       *name = path + org + 1;
    char              before[PATH_ROOM];
    if (*path == '.' || !org || path[org] != '/' || !*name || strspn(name, letters) != strlen(name)) return NULL;
    snprintf(before, sizeof before, "%.*s", (int)org, path);
    return access(before, F_OK) ? name : NULL;
}

static mba_status no_checkpoint(const char *path)
{
    const char *name = hub_name(path);
    if (name)
        return mba_fail(MBA_E_IO,
                        "there is no checkpoint in '%s'\nwhy: there is no such folder, and mambascope "
                        "downloads nothing\nfix: hf download %s --local-dir %s, then give the folder %s",
                        path, path, name, name);
    if (mba_is_file(path))
        return mba_fail(MBA_E_IO,
                        "there is no checkpoint in '%s'\nwhy: it is a file\nfix: give the folder that "
                        "holds it and config.json",
                        path);
    return mba_fail(MBA_E_IO,
                    "there is no checkpoint in '%s'\nwhy: %s\nfix: give the folder of a run or of a checkpoint", path,
                    access(path, F_OK) ? "there is no such folder" : "it has neither config.json nor a step-* folder");
}

mba_status mba_checkpoint_latest(char *out, size_t room, const char *run)
{
    int64_t n, *steps;
    MBA_TRY(steps_of(&steps, &n, run));
    const int used = n ? snprintf(out, room, "%s/step-%06lld", run, (long long)steps[n - 1]) : 0;
    free(steps);
    if (!n) MBA_TRY(mba_weights_no_pickle(run));
    if (!n) return no_checkpoint(run);
    if (used < (int)room) return MBA_OK;
    return mba_fail(MBA_E_ARG, "the path '%s' is too long\nfix: choose a shorter path", run);
}

mba_status mba_checkpoint_find(char *out, size_t room, const char *path)
{
    const int  n = snprintf(out, room, "%s/config.json", path);
    const bool itself = n < (int)room && access(out, F_OK) == 0;
    if (!itself) return mba_checkpoint_latest(out, room, path);
    out[strlen(path)] = 0;
    return MBA_OK;
}

mba_status mba_checkpoint_require_empty(const char *run)
{
    char    newest[PATH_ROOM];
    int64_t n, *steps;
    MBA_TRY(steps_of(&steps, &n, run));
    free(steps);
    if (!n) return MBA_OK;
    MBA_TRY(mba_checkpoint_latest(newest, sizeof newest, run));
    return mba_fail(MBA_E_ARG,
                    "'%s' already has checkpoints of a run\nwhy: '%s' would be taken for one of the "
                    "new run\nfix: use --resume %s to continue it, or choose another --out",
                    run, newest, run);
}

/* True if `directory` is the parent of `path`, whatever their names. */
static bool lies_in(const char *path, const char *directory)
{
    char        above[PATH_ROOM];
    struct stat a, b;
    const bool  fits = snprintf(above, sizeof above, "%s/..", path) < PATH_ROOM;
    return fits && stat(above, &a) == 0 && stat(directory, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/* Finds the newest step that could be resumed; -1: none. A folder without a configuration is left by a killed run. */
static mba_status newest_complete(int64_t *newest, const char *run)
{
    int64_t n, *steps;
    char    path[PATH_ROOM];
    *newest = -1;
    MBA_TRY(steps_of(&steps, &n, run));
    while (n-- > 0 && *newest < 0)
        if (snprintf(path, sizeof path, "%s/step-%06lld/config.json", run, (long long)steps[n]) < PATH_ROOM
            && access(path, F_OK) == 0)
            *newest = steps[n];
    free(steps);
    return MBA_OK;
}

/* Finds the newest sound checkpoint beside `directory` with fewer steps than `below`; false: there is none. */
static bool older_sound(char *out, size_t room, const char *directory, int64_t below)
{
    char above[PATH_ROOM];
    int  end = (int)(last_part(directory) - directory);
    while (end > 1 && directory[end - 1] == '/') end--;
    if (snprintf(above, sizeof above, "%.*s", end ? end : 1, end ? directory : ".") >= PATH_ROOM) return false;
    int64_t n, *steps;
    bool    sound = false;
    if (steps_of(&steps, &n, above) != MBA_OK) return false;
    while (n-- > 0 && !sound)
        sound = steps[n] < below && snprintf(out, room, "%s/step-%06lld", above, (long long)steps[n]) < (int)room
                && mba_checkpoint_check(out) == MBA_OK;
    free(steps);
    return sound;
}

mba_status mba_checkpoint_verify(const char *directory, bool resumes)
{
    char             story[1024], older[PATH_ROOM];
    const mba_status st = mba_checksums_verify(directory, resumes);
    if (st != MBA_E_FORMAT) return st;
    snprintf(story, sizeof story, "%s", mba_message());
    const char   *fix = strstr(story, "\nfix: ");
    const int64_t step = mba__step_named(directory);
    if (!fix || !older_sound(older, sizeof older, directory, step >= 0 ? step : INT64_MAX))
        return mba_fail(st, "%s", story);
    return mba_fail(st,
                    "%.*s\nwhy: it was changed after it was saved, by the disk, a copy or a person\nfix: "
                    "use '%s', the newest older checkpoint without damage",
                    (int)(fix - story), story, older);
}

mba_status mba_checkpoint_newest_sound(char *out, size_t room, char *broken, size_t broken_room, const char *run)
{
    int64_t    n, *steps;
    char       aside[PATH_ROOM];
    bool       sound = false;
    size_t     told = 0;
    mba_status st = MBA_OK;
    *broken = 0;
    MBA_TRY(steps_of(&steps, &n, run));
    while (n-- > 0 && !sound && st == MBA_OK) {
        if (snprintf(out, room, "%s/step-%06lld", run, (long long)steps[n]) >= (int)room - 16 || room > sizeof aside)
            st = mba_fail(MBA_E_ARG, "the path '%s' is too long\nfix: choose a shorter --out", run);
        else st = mba_checkpoint_check(out);
        sound = st == MBA_OK;
        if (st != MBA_E_FORMAT) continue; // other failures say nothing about the files
        st = MBA_OK;
        told += (size_t)snprintf(broken + told, broken_room - told, "%.*s\n", (int)strcspn(mba_message(), "\n"),
                                 mba_message());
        if (told >= broken_room) told = broken_room - 1;
        snprintf(aside, sizeof aside, "%s.broken", out);
        mba_folder_remove(aside);
        if (rename(out, aside))
            st = mba_fail(MBA_E_IO, "cannot rename the damaged checkpoint '%s'\nwhy: %s\nfix: remove it", out,
                          strerror(errno));
    }
    if (!sound) *out = 0;
    free(steps);
    return st;
}

/* The step of a sound checkpoint; -1: it is damaged or missing. */
static int64_t step_in(const char *directory)
{
    char    path[PATH_ROOM];
    json_t *trainer = NULL;
    int64_t step = -1;
    if (mba_checkpoint_check(directory) != MBA_OK
        || snprintf(path, sizeof path, "%s/trainer.json", directory) >= PATH_ROOM
        || mba_json_load(&trainer, path, NULL) != MBA_OK
        || mba_json_int(trainer, "step", -1, -1, INT64_MAX, &step) != MBA_OK)
        step = -1;
    json_decref(trainer);
    return step;
}

mba_status mba_checkpoint_best_missing(bool *missing, const char *run, int64_t step)
{
    char best[PATH_ROOM], old[PATH_ROOM], taken[PATH_ROOM];
    if (snprintf(taken, sizeof taken, "%s/step-%06lld", run, (long long)step) >= PATH_ROOM
        || snprintf(best, sizeof best, "%s/best", run) >= PATH_ROOM
        || snprintf(old, sizeof old, "%s/best.old", run) >= PATH_ROOM)
        return mba_fail(MBA_E_ARG, "the path '%s' is too long\nfix: choose a shorter --out", run);
    if (access(best, F_OK) && access(old, F_OK) == 0 && rename(old, best))
        return mba_fail(MBA_E_IO, "cannot rename '%s'\nwhy: %s\nfix: make the folder writable", old, strerror(errno));
    const int64_t is = step_in(best);
    *missing = access(taken, F_OK) == 0 && is != step;
    if (is < 0 || access(old, F_OK)) return MBA_OK;
    MBA_TRY(mba_name_sync(best));
    mba_folder_remove(old);
    return MBA_OK;
}

mba_status mba_checkpoint_require_successor(const char *run, const char *from, int64_t step)
{
    int64_t newest;
    MBA_TRY(newest_complete(&newest, run));
    if (newest >= 0 && !lies_in(from, run)) return mba_checkpoint_require_empty(run);
    if (newest <= step) return MBA_OK;
    return mba_fail(MBA_E_ARG,
                    "'%s/step-%06lld' is later than step %lld, where this run would continue\nwhy: "
                    "the next --resume would use it, and the log would be truncated here\nfix: choose another "
                    "--out, or remove the later checkpoints",
                    run, (long long)newest, (long long)step);
}
