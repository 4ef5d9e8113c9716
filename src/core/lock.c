// SPDX-License-Identifier: Apache-2.0
/* lock.c -- see lock.h: a file with the holder's process number, locked by flock. */
#include "core/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/file.h"

enum { PID_ROOM = 24, NAME_KEPT = 200, TRIES = 100 };

struct mba_lock {
    int   fd;
    char *path;
    char *folder; /* the folder that the lock protects and lies in; NULL: it lies beside a file */
    bool  made;   /* the folder was created for the lock */
    bool  shared; /* a reader's lock */
};

/* Opens the lock file, and creates it if needed. One that another user left can be read and locked, but not written. */
static int open_file(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
    if (fd >= 0 || errno != EACCES) return fd;
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) errno = EACCES;
    return fd;
}

/* False for a file that only happens to have the name of a lock: it is neither written nor removed. */
static bool is_lock_file(int fd)
{
    struct stat s;
    return fstat(fd, &s) == 0 && S_ISREG(s.st_mode) && s.st_size < PID_ROOM;
}

/* False if the previous holder has removed the file since it was opened. */
static bool is_named(int fd, const char *path)
{
    struct stat a, b;
    return fstat(fd, &a) == 0 && lstat(path, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

static void write_pid(int fd)
{
    char      text[PID_ROOM];
    const int n = snprintf(text, sizeof text, "%ld\n", (long)getpid());
    mba_assert(n > 0 && n < (int)sizeof text);
    if (ftruncate(fd, 0) == 0) (void)!pwrite(fd, text, (size_t)n, 0); // for messages only: may fail
}

/* The process that holds the lock; 0: unknown. */
static long holder(int fd)
{
    char          text[PID_ROOM + 1] = "";
    const ssize_t n = pread(fd, text, PID_ROOM, 0);
    const long    pid = n > 0 ? strtol(text, NULL, 10) : 0;
    return pid > 0 && (kill((pid_t)pid, 0) == 0 || errno == EPERM) ? pid : 0;
}

static mba_status held(const char *what, const char *path, long pid)
{
    char who[48] = "another process";
    if (pid) snprintf(who, sizeof who, "process %ld", pid);
    return mba_fail(MBA_E_ARG,
                    "another mambascope is writing to '%s'\nwhy: %s holds the lock '%s'\n"
                    "fix: wait until it ends, or choose another --out",
                    what, who, path);
}

/* Removes the temporary files of killed processes: those in the folder, or those of the file that the lock protects. */
static void sweep(const mba_lock *l)
{
    enum { ENDS = sizeof ".lock" - 1 };
    if (l->folder) {
        mba__writers_sweep(l->folder, NULL);
        return;
    }
    char *copy = strdup(l->path), *slash = copy ? strrchr(copy, '/') : NULL, *base = slash ? slash + 1 : copy;
    if (!copy) return;
    mba_assert(base[0] == '.' && strlen(base) > ENDS && !strcmp(base + strlen(base) - ENDS, ".lock"));
    base[strlen(base) - ENDS] = 0;
    if (slash) *slash = 0;
    mba__writers_sweep(slash ? copy[0] ? copy : "/" : ".", base + 1);
    free(copy);
}

/* Opens and locks the file of that name. Tries again if the previous holder removed it between the two. */
static mba_status take(mba_lock *l, const char *what)
{
    for (int i = 0; i < TRIES; i++) {
        l->fd = open_file(l->path);
        if (l->fd < 0 && errno == ENOENT && l->folder) { // its last holder has removed the empty folder
            MBA_TRY(mba_mkdirs(l->folder));
            l->made = true;
            continue;
        }
        if (l->fd < 0) return mba__file_failed("write", l->path, errno);
        if (!is_lock_file(l->fd))
            return mba_fail(MBA_E_IO,
                            "cannot lock '%s'\nwhy: '%s' exists and is not a lock\nfix: move it away, "
                            "or choose another --out",
                            what, l->path);
        if (flock(l->fd, (l->shared ? LOCK_SH : LOCK_EX) | LOCK_NB) && errno == EWOULDBLOCK)
            return held(what, l->path, holder(l->fd));
        if (is_named(l->fd, l->path)) {
            if (l->shared) return MBA_OK;
            write_pid(l->fd);
            mba__unfinished(NULL, l->path);
            sweep(l);
            return MBA_OK;
        }
        close(l->fd);
        l->fd = -1;
    }
    return held(what, l->path, 0);
}

static void forget(mba_lock *l)
{
    if (l->fd >= 0) close(l->fd);
    if (l->made) (void)rmdir(l->folder); // fails, as it should, if the folder is not empty
    free(l->folder);
    free(l->path);
    free(l);
}

/* Takes ownership of `path` and `folder`, also when it fails. */
static mba_status create(mba_lock **out, char *path, char *folder, mba_lock how, const char *what)
{
    mba_lock *l = path ? malloc(sizeof *l) : NULL;
    if (!l) {
        free(path);
        free(folder);
        return mba_fail(MBA_E_NOMEM, "no memory to lock '%s'", what);
    }
    *l = (mba_lock){ .fd = -1, .path = path, .folder = folder, .made = how.made, .shared = how.shared };
    const mba_status st = take(l, what);
    if (st == MBA_OK) *out = l;
    else forget(l);
    return st;
}

mba_status mba_lock_folder(mba_lock **out, const char *folder)
{
    char      *path = NULL, *copy = strdup(folder);
    const bool made = access(folder, F_OK) != 0;
    if (!copy || asprintf(&path, "%s/.lock", folder) < 0) {
        free(copy);
        return mba_fail(MBA_E_NOMEM, "no memory to lock '%s'", folder);
    }
    const mba_status st = mba_mkdirs(folder);
    if (st == MBA_OK) return create(out, path, copy, (mba_lock){ .made = made }, folder);
    free(path);
    free(copy);
    return st;
}

mba_status mba_lock_beside(mba_lock **out, const char *path)
{
    struct stat s;
    char       *leads = lstat(path, &s) == 0 && S_ISLNK(s.st_mode) ? realpath(path, NULL) : NULL, *file = NULL;
    const char *target = leads ? leads : path, *slash = strrchr(target, '/');
    const char *base = slash ? slash + 1 : target;
    if (asprintf(&file, "%.*s.%.*s.lock", (int)(base - target), target, NAME_KEPT, base) < 0) file = NULL;
    free(leads);
    return create(out, file, NULL, (mba_lock){ 0 }, path);
}

mba_status mba_lock_shared(mba_lock **out, const char *folder)
{
    char *path = NULL;
    *out = NULL;
    if (asprintf(&path, "%s/.lock", folder) < 0) return mba_fail(MBA_E_NOMEM, "no memory to lock '%s'", folder);
    const mba_status st = create(out, path, NULL, (mba_lock){ .shared = true }, folder);
    return st == MBA_E_IO ? MBA_OK : st;
}

/* Removes the name before the lock ends: a process that opened the file earlier and locks it later then sees that it
 * has no name. Of several readers, the last removes it. */
void mba_lock_release(mba_lock *l)
{
    if (!l) return;
    mba_assert(l->fd >= 0);
    const bool last = !l->shared || flock(l->fd, LOCK_EX | LOCK_NB) == 0;
    if (last && is_named(l->fd, l->path)) (void)unlink(l->path);
    if (!l->shared) mba__unfinished(l->path, NULL);
    forget(l);
}
