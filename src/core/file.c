// SPDX-License-Identifier: Apache-2.0
/* file.c -- see file.h: reading and mapping of regular files, writers that rename a complete file, directories. */
#include "core/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

_Static_assert(sizeof(size_t) == 8 && sizeof(off_t) == 8, "files are larger than 4 GiB");

/* ---- errors ---- */

static const char *fix_for(int error)
{
    switch (error) {
    case ENOSPC:
    case EDQUOT: return "free some space, or write to another disk";
    case EFBIG: return "raise the limit on file sizes (`ulimit -f`), or write to another disk";
    case EACCES:
    case EPERM: return "check the permissions of the file and its directory";
    case EROFS: return "write to a disk that is not mounted read-only";
    case ENOENT: return "check the path; the directory must exist";
    case ENOTDIR: return "check the path: a part of it is a file, not a directory";
    case EISDIR: return "name a file, not a directory";
    case EMFILE:
    case ENFILE: return "raise the limit on open files (`ulimit -n`)";
    case ENAMETOOLONG: return "choose a shorter name";
    case ENOMEM: return "close other programs, or use a machine with more memory";
    default: return "check the disk and try again";
    }
}

mba_status mba__file_failed(const char *verb, const char *path, int error)
{
    return mba_fail(error == ENOMEM ? MBA_E_NOMEM : MBA_E_IO, "cannot %s '%s'\nwhy: %s\nfix: %s", verb, path,
                    strerror(error), fix_for(error));
}

static mba_status failed(const char *verb, const char *path, int error) { return mba__file_failed(verb, path, error); }

/* ---- reading ---- */

/* Opens a regular file. O_NONBLOCK, because opening a pipe without a writer would block for ever. */
static mba_status open_regular(int *fd, size_t *bytes, const char *path)
{
    struct stat s;
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (*fd < 0) return failed("open", path, errno);
    int error = fstat(*fd, &s) ? errno : S_ISDIR(s.st_mode) ? EISDIR : 0;
    if (!error && S_ISREG(s.st_mode)) {
        *bytes = (size_t)s.st_size;
        return MBA_OK;
    }
    close(*fd);
    if (error) return failed("read", path, error);
    return mba_fail(MBA_E_IO, "cannot read '%s'\nwhy: it is a device or a pipe\nfix: name a regular file", path);
}

static mba_status too_large(const char *path, size_t limit)
{
    return mba_fail(MBA_E_FORMAT,
                    "'%s' is larger than the %s allowed here\n"
                    "why: files of this kind are small; this is probably another file\n"
                    "fix: check the path",
                    path, mba_size_of((double)limit).text);
}

/* Reads until the end of the file rather than st_size bytes: files in /proc report 0, and a log may grow meanwhile. */
static mba_status read_all(char **out, size_t *bytes, int fd, const char *path, size_t room, size_t limit)
{
    char  *text = malloc(room + 1);
    size_t n = 0;
    for (;;) {
        if (!text) return mba_fail(MBA_E_NOMEM, "no memory for %s to read '%s'", mba_size_of((double)room).text, path);
        const ssize_t k = read(fd, text + n, n < room ? room - n : 1); // 1: where the NUL will be
        if (k < 0 && errno == EINTR) continue;
        if (k == 0) break;
        mba_status st = k < 0 ? failed("read", path, errno) : n + (size_t)k > limit ? too_large(path, limit) : MBA_OK;
        if (st != MBA_OK) {
            free(text);
            return st;
        }
        n += (size_t)k;
        if (n > room) {
            room = room < limit / 2 ? 2 * room + 4096 : limit;
            char *wider = realloc(text, room + 1);
            if (!wider) free(text);
            text = wider;
        }
    }
    mba_assert(n <= room && n <= limit);
    text[n] = 0;
    *out = text;
    *bytes = n;
    return MBA_OK;
}

mba_status mba_file_read(char **out, size_t *bytes, const char *path, size_t limit_bytes)
{
    int    fd;
    size_t size = 0;
    mba_assert(limit_bytes < SIZE_MAX / 4);
    MBA_TRY(open_regular(&fd, &size, path));
    mba_status st = size > limit_bytes ? too_large(path, limit_bytes)
                                       : read_all(out, bytes, fd, path, size, limit_bytes);
    close(fd);
    return st;
}

/* Mapped files, for mba_mapped_path. Atomics, because a signal handler reads them. More than 256 are not noted. */
static struct {
    const char *_Atomic data;
    _Atomic size_t      bytes;
    char                path[256];
} mapped[256];
enum { MAPPED = sizeof mapped / sizeof *mapped };

static void note_mapped(const mba_map *m, const char *path)
{
    for (int i = 0; i < MAPPED; i++) {
        const char *none = NULL;
        if (!atomic_compare_exchange_strong(&mapped[i].data, &none, (const char *)m->data)) continue;
        snprintf(mapped[i].path, sizeof mapped[i].path, "%s", path);
        mapped[i].bytes = m->bytes; // last: with it, the entry is found
        return;
    }
}

static void forget_mapped(const mba_map *m)
{
    for (int i = 0; i < MAPPED; i++) {
        if (mapped[i].data != m->data) continue;
        mapped[i].bytes = 0;
        mapped[i].data = NULL;
        return;
    }
}

const char *mba_mapped_path(const void *address)
{
    const uintptr_t at = (uintptr_t)address;
    for (int i = 0; i < MAPPED; i++) {
        const uintptr_t first = (uintptr_t)mapped[i].data;
        if (first && at >= first && at - first < mapped[i].bytes) return mapped[i].path;
    }
    return NULL;
}

mba_status mba_file_map(mba_map *out, const char *path)
{
    int    fd;
    size_t bytes = 0;
    MBA_TRY(open_regular(&fd, &bytes, path));
    *out = (mba_map){ .data = "", .bytes = bytes }; // mmap refuses empty files
    if (bytes) out->data = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    const int error = errno;
    close(fd);
    if (out->data != MAP_FAILED) {
        if (bytes) note_mapped(out, path);
        return MBA_OK;
    }
    *out = (mba_map){ 0 };
    return failed("map", path, error);
}

void mba_file_unmap(mba_map *m)
{
    if (m->bytes) {
        forget_mapped(m);
        munmap((void *)m->data, m->bytes);
    }
    *m = (mba_map){ 0 };
}

/* ---- writing ---- */

enum { WRITE_BUFFER = 1 << 18, NAME_KEPT = 200, NAMES_TRIED = 10000 };

struct mba_writer {
    char  *path, *temporary;
    int    fd;    /* -1: not open */
    int    error; /* errno of the first failure: a file with a hole is never committed */
    bool   committed;
    size_t used; /* bytes waiting in the buffer */
    char   buffer[WRITE_BUFFER];
};

/* The last part of a path. */
static const char *base_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* Refuses targets that are not regular files: a rename replaces whatever has the name, for root even /dev/null. */
static mba_status check_target(const char *path)
{
    struct stat s;
    if (!*path) return failed("write", path, ENOENT);
    const bool there = stat(path, &s) == 0;
    if (!*base_of(path) || (there && S_ISDIR(s.st_mode))) return failed("write", path, EISDIR);
    if (there && !S_ISREG(s.st_mode))
        return mba_fail(MBA_E_IO,
                        "cannot write '%s'\nwhy: it is a device or a pipe, and would be replaced by a file\n"
                        "fix: name a regular file",
                        path);
    return MBA_OK;
}

/* Finds the file to replace: the target of a link, not the link. A rename would destroy /dev/stdout when it points to a
 * file, and a web server that finds a page by a link expects the page at the target. Returns 0 or an errno. */
static int find_target(char **out, const char *path)
{
    struct stat s;
    const bool  link = lstat(path, &s) == 0 && S_ISLNK(s.st_mode);
    errno = ENOMEM; // in case the calls do not set it
    *out = link ? realpath(path, NULL) : strdup(path);
    return *out ? 0 : errno;
}

/* Temporary files of open writers and lock files, for mba_writers_abandon. More than 16 are not noted and stay. */
static const char *_Atomic unfinished[16];
enum { UNFINISHED = sizeof unfinished / sizeof *unfinished };

void mba__unfinished(const char *was, const char *is)
{
    for (int i = 0; i < UNFINISHED; i++) {
        const char *expected = was;
        if (atomic_compare_exchange_strong(&unfinished[i], &expected, is)) return;
    }
}

void mba_writers_abandon(void)
{
    for (int i = 0; i < UNFINISHED; i++) {
        const char *name = unfinished[i];
        if (name) unlink(name);
    }
}

/* Creates a file with a new name beside the target, with the permissions that any new file gets. */
static int open_temporary(mba_writer *w)
{
    static _Atomic unsigned serial;
    const char             *base = base_of(w->path);
    const size_t            room = strlen(w->path) + 64;
    w->temporary = malloc(room);
    for (int i = 0; w->temporary && i < NAMES_TRIED; i++) {
        snprintf(w->temporary, room, "%.*s.%.*s.%ld.%u.tmp", (int)(base - w->path), w->path, NAME_KEPT, base,
                 (long)getpid(), serial++);
        w->fd = open(w->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (w->fd >= 0 || errno != EEXIST) break;
    }
    if (w->fd >= 0) mba__unfinished(NULL, w->temporary);
    return w->fd >= 0 ? 0 : w->temporary ? errno : ENOMEM;
}

/* Returns PID of a name "X.PID.SERIAL.tmp", and in *end where X ends; 0 for any other name. */
static long writer_of(const char *name, size_t *end)
{
    static const char digits[] = "0123456789", last[] = ".tmp";
    size_t            n = strlen(name);
    if (n < sizeof last || strcmp(name + n - (sizeof last - 1), last)) return 0;
    n -= sizeof last - 1;
    for (int part = 0; part < 2; part++) {
        const size_t was = n;
        while (n && strchr(digits, name[n - 1])) n--;
        if (n == was || !n || name[n - 1] != '.') return 0;
        n--;
    }
    *end = n;
    return strtol(name + n + 1, NULL, 10);
}

void mba__writers_sweep(const char *folder, const char *base)
{
    DIR *d = opendir(folder);
    for (const struct dirent *e; d && (e = readdir(d));) {
        size_t     end = 0;
        const long pid = *e->d_name == '.' ? writer_of(e->d_name, &end) : 0;
        if (pid <= 0 || (base && (end != strlen(base) + 1 || strncmp(e->d_name + 1, base, end - 1)))) continue;
        if (kill((pid_t)pid, 0) && errno == ESRCH) (void)unlinkat(dirfd(d), e->d_name, 0);
    }
    if (d) closedir(d);
}

mba_status mba_writer_create(mba_writer **out, const char *path)
{
    MBA_TRY(check_target(path));
    mba_writer *w = malloc(sizeof *w);
    if (!w) return mba_fail(MBA_E_NOMEM, "no memory to write '%s'", path);
    memset(w, 0, offsetof(mba_writer, buffer));
    w->fd = -1;
    int error = find_target(&w->path, path);
    if (!error) error = open_temporary(w);
    if (error) {
        mba_writer_destroy(w);
        return failed("write", path, error);
    }
    *out = w;
    return MBA_OK;
}

static mba_status write_failed(mba_writer *w, int error)
{
    if (!w->error) w->error = error;
    return failed("write", w->path, w->error);
}

static mba_status write_through(mba_writer *w, const char *bytes, size_t n)
{
    while (n) {
        const ssize_t k = write(w->fd, bytes, n);
        if (k < 0 && errno == EINTR) continue;
        if (k <= 0) return write_failed(w, k ? errno : ENOSPC);
        bytes += k;
        n -= (size_t)k;
    }
    return MBA_OK;
}

static mba_status flush(mba_writer *w)
{
    MBA_TRY(write_through(w, w->buffer, w->used));
    w->used = 0;
    return MBA_OK;
}

mba_status mba_writer_put(mba_writer *w, const void *bytes, size_t n)
{
    mba_assert(!w->committed);
    if (w->error) return write_failed(w, w->error);
    if (w->used + n > WRITE_BUFFER) MBA_TRY(flush(w));
    if (n > WRITE_BUFFER) return write_through(w, bytes, n);
    if (n) memcpy(w->buffer + w->used, bytes, n);
    w->used += n;
    mba_assert(w->used <= WRITE_BUFFER);
    return MBA_OK;
}

mba_status mba_writer_skip(mba_writer *w, size_t n)
{
    mba_assert(!w->committed);
    if (w->error) return write_failed(w, w->error);
    MBA_TRY(flush(w));
    const off_t end = lseek(w->fd, (off_t)n, SEEK_CUR);
    return end < 0 || ftruncate(w->fd, end) ? write_failed(w, errno) : MBA_OK;
}

mba_status mba_file_open_inside(int *fd, const char *path)
{
    *fd = open(path, O_WRONLY | O_CLOEXEC);
    return *fd < 0 ? failed("write", path, errno) : MBA_OK;
}

mba_status mba_file_put_at(int fd, const char *path, const void *bytes, size_t n, size_t at)
{
    for (const char *from = bytes; n;) {
        const ssize_t k = pwrite(fd, from, n, (off_t)at);
        if (k < 0 && errno == EINTR) continue;
        if (k <= 0) return failed("write", path, k ? errno : ENOSPC);
        from += k;
        at += (size_t)k;
        n -= (size_t)k;
    }
    return MBA_OK;
}

/* Returns 0 or an errno. A file system that cannot sync is not a failure. */
static int sync_to_disk(int fd)
{
    const int error = fsync(fd) ? errno : 0;
    return error == EINVAL || error == ENOSYS || error == ENOTSUP ? 0 : error;
}

static int sync_directory_of(const char *path)
{
    const size_t n = (size_t)(base_of(path) - path);
    char        *dir = n ? strndup(path, n) : strdup(".");
    if (!dir) return ENOMEM;
    const int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    free(dir);
    if (fd < 0) return errno == EACCES ? 0 : errno; // a directory can be writable but not readable
    const int error = sync_to_disk(fd);
    close(fd);
    return error;
}

mba_status mba_writer_commit(mba_writer *w)
{
    mba_assert(!w->committed);
    if (w->error) return write_failed(w, w->error);
    MBA_TRY(flush(w));
    mba_assert(w->fd >= 0 && w->used == 0);
    int error = sync_to_disk(w->fd);
    if (close(w->fd) && !error) error = errno;
    w->fd = -1;
    if (!error && rename(w->temporary, w->path)) error = errno;
    if (error) return write_failed(w, error);
    w->committed = true;
    error = sync_directory_of(w->path);
    return error ? write_failed(w, error) : MBA_OK;
}

void mba_writer_destroy(mba_writer *w)
{
    if (!w) return;
    const bool opened = w->fd >= 0 || w->error; // otherwise the name may belong to another process
    if (w->fd >= 0) close(w->fd);
    if (opened && !w->committed) unlink(w->temporary);
    if (w->temporary) mba__unfinished(w->temporary, NULL);
    free(w->temporary);
    free(w->path);
    free(w);
}

mba_status mba_file_sync(int fd, const char *path)
{
    const int error = sync_to_disk(fd);
    return error ? failed("write", path, error) : MBA_OK;
}

mba_status mba_name_sync(const char *path)
{
    const int error = sync_directory_of(path);
    return error ? failed("write", path, error) : MBA_OK;
}

mba_status mba_file_rename(const char *from, const char *to)
{
    return rename(from, to) ? failed("write", to, errno) : mba_name_sync(to);
}

/* ---- directories ---- */

static int make_one(const char *path)
{
    struct stat s;
    if (mkdir(path, 0777) == 0) return sync_directory_of(path);
    const int error = errno;
    // It exists, or its parent is not writable: what matters is that it is a directory.
    if (stat(path, &s) == 0) return S_ISDIR(s.st_mode) ? 0 : ENOTDIR;
    return error;
}

mba_status mba_mkdirs(const char *path)
{
    char *part = strdup(path);
    if (!part) return mba_fail(MBA_E_NOMEM, "no memory to make the directory '%s'", path);
    int error = 0;
    for (char *p = part + (*part == '/'); !error && *p; p++) {
        if (*p != '/') continue;
        *p = 0;
        error = make_one(part);
        *p = '/';
    }
    if (!error) error = make_one(part);
    free(part);
    return error ? failed("make the directory", path, error) : MBA_OK;
}

void mba_folder_remove(const char *path)
{
    DIR *d = opendir(path);
    for (const struct dirent *e; d && (e = readdir(d));)
        if (strcmp(e->d_name, ".") && strcmp(e->d_name, "..")) (void)unlinkat(dirfd(d), e->d_name, 0);
    if (d) closedir(d);
    (void)rmdir(path);
}

bool mba_library_find(char *out, size_t room, const char *from, const char *name)
{
    char          program[4096];
    const ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    mba_assert(room > 0 && *name);
    program[n > 0 ? n : 0] = 0;
    const char *end = strrchr(program, '/');
    for (int installed = 0; end && installed < 2; installed++) {
        const int length = snprintf(out, room, "%.*s/%s%s%s", (int)(end - program), program, installed ? from : "",
                                    installed ? "/" : "", name);
        if (length > 0 && (size_t)length < room && !access(out, R_OK)) return true;
    }
    return false;
}
