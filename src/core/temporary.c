// SPDX-License-Identifier: Apache-2.0
/* temporary.c -- see temporary.h. */
#include "core/temporary.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/file.h"

#define PREFIX "mambascope-"

enum {
    PREFIX_BYTES = sizeof PREFIX - 1,
    RANDOM_BYTES = 6,
    NAME_BYTES = PREFIX_BYTES + RANDOM_BYTES,
    TRIES = 8,
    DIR_MOST = 200
};

static const char *place(void)
{
    const char *tmp = getenv("TMPDIR");
    return tmp && *tmp && strlen(tmp) < DIR_MOST ? tmp : "/tmp";
}

/* A name as mkdtemp makes it of the template. */
static bool is_ours(const char *name)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    return strlen(name) == NAME_BYTES && !strncmp(name, PREFIX, PREFIX_BYTES)
           && strspn(name + PREFIX_BYTES, letters) == RANDOM_BYTES;
}

/* Folders in it, one level deep, and all files; never what a link leads to. What cannot be listed or removed stays: no
 * new folder takes its name. */
static void clear(const char *path)
{
    char        inner[4096];
    struct stat s;
    DIR        *d = opendir(path);
    for (const struct dirent *e; d && (e = readdir(d));)
        if (strcmp(e->d_name, ".") && strcmp(e->d_name, "..")
            && fstatat(dirfd(d), e->d_name, &s, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(s.st_mode)
            && snprintf(inner, sizeof inner, "%s/%s", path, e->d_name) < (int)sizeof inner)
            mba_folder_remove(inner);
    if (d) closedir(d);
    mba_folder_remove(path);
}

/* The lock of a folder of this user that nobody holds any more; -1 where somebody does, or there is none. */
static int lock_of_dead(int parent, const char *name)
{
    struct stat s;
    const int   folder = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int         lock = -1;
    if (folder >= 0 && fstat(folder, &s) == 0 && s.st_uid == geteuid())
        lock = openat(folder, ".lock", O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (lock >= 0 && flock(lock, LOCK_EX | LOCK_NB)) {
        close(lock);
        lock = -1;
    }
    if (folder >= 0) close(folder);
    return lock;
}

static void sweep(const char *in)
{
    char path[sizeof((mba_temporary *)0)->path];
    DIR *d = opendir(in);
    for (const struct dirent *e; d && (e = readdir(d));) {
        const int lock = is_ours(e->d_name) ? lock_of_dead(dirfd(d), e->d_name) : -1;
        if (lock < 0) continue;
        if (snprintf(path, sizeof path, "%s/%s", in, e->d_name) < (int)sizeof path) clear(path);
        close(lock);
    }
    if (d) closedir(d);
}

/* Another process may sweep the folder away before it is locked: then there is one more try. */
mba_status mba_temporary_create(mba_temporary *out, const char *what, const char *instead)
{
    const char *in = place();
    mba_status  st = MBA_OK;
    sweep(in);
    for (int i = 0; i < TRIES; i++) {
        snprintf(out->path, sizeof out->path, "%s/" PREFIX "XXXXXX", in);
        if (!mkdtemp(out->path)) {
            st = mba_fail(MBA_E_IO, "cannot write %s in '%s'\nwhy: %s\nfix: set TMPDIR, or %s", what, in,
                          strerror(errno), instead);
            break;
        }
        st = mba_lock_folder(&out->lock, out->path);
        if (st == MBA_OK) return MBA_OK;
        (void)rmdir(out->path);
    }
    out->path[0] = 0;
    return st;
}

void mba_temporary_remove(mba_temporary *t)
{
    if (t->path[0]) clear(t->path);
    mba_lock_release(t->lock);
    *t = (mba_temporary){ 0 };
}
