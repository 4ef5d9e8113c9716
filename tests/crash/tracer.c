// SPDX-License-Identifier: Apache-2.0
/* tracer.c -- see tracer.h. */
#include "tests/crash/tracer.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { AT_PATH = 1, HERE_PATH, BY_FD }; /* folder and path; a path; a descriptor */

/* Arm has only the calls that name a folder as well. `number`: which argument is the size or the offset, 0: none. */
typedef struct known {
    long      nr;
    call_kind kind;
    int       names, number;
} known;
static const known calls[] = {
    { SYS_openat, CALL_OPEN, AT_PATH, 0 },      { SYS_write, CALL_WRITE, BY_FD, 0 },
    { SYS_writev, CALL_WRITE, BY_FD, 0 },       { SYS_pwrite64, CALL_WRITE, BY_FD, 3 },
    { SYS_pwritev, CALL_WRITE, BY_FD, 3 },      { SYS_pwritev2, CALL_WRITE, BY_FD, 3 },
    { SYS_ftruncate, CALL_SIZE, BY_FD, 1 },     { SYS_truncate, CALL_SIZE, HERE_PATH, 1 },
    { SYS_fsync, CALL_SYNC, BY_FD, 0 },         { SYS_fdatasync, CALL_SYNC, BY_FD, 0 },
    { SYS_renameat2, CALL_RENAME, AT_PATH, 0 }, { SYS_linkat, CALL_LINK, AT_PATH, 0 },
    { SYS_unlinkat, CALL_UNLINK, AT_PATH, 0 },  { SYS_mkdirat, CALL_MKDIR, AT_PATH, 0 },
    { SYS_mmap, CALL_MAP, BY_FD, 0 },           { SYS_sendfile, CALL_OTHER, BY_FD, 0 },
    { SYS_fallocate, CALL_OTHER, BY_FD, 0 },    { SYS_newfstatat, CALL_LOOK, AT_PATH, 0 },
    { SYS_statx, CALL_LOOK, AT_PATH, 0 },       { SYS_faccessat, CALL_LOOK, AT_PATH, 0 },
    { SYS_faccessat2, CALL_LOOK, AT_PATH, 0 },  { SYS_flock, CALL_LOOK, BY_FD, 0 },
    { SYS_getdents64, CALL_LOOK, BY_FD, 0 },
#ifdef SYS_renameat
    { SYS_renameat, CALL_RENAME, AT_PATH, 0 },
#endif
#ifdef SYS_open
    { SYS_open, CALL_OPEN, HERE_PATH, 0 },      { SYS_rename, CALL_RENAME, HERE_PATH, 0 },
    { SYS_link, CALL_LINK, HERE_PATH, 0 },      { SYS_unlink, CALL_UNLINK, HERE_PATH, 0 },
    { SYS_rmdir, CALL_RMDIR, HERE_PATH, 0 },    { SYS_mkdir, CALL_MKDIR, HERE_PATH, 0 },
    { SYS_stat, CALL_LOOK, HERE_PATH, 0 },      { SYS_lstat, CALL_LOOK, HERE_PATH, 0 },
    { SYS_access, CALL_LOOK, HERE_PATH, 0 },
#endif
};

static void broken(const char *what)
{
    fprintf(stderr, "tracer: %s: %s\n", what, strerror(errno));
    abort();
}

/* ---- what a call names ---- */

static void read_text(char *out, size_t room, pid_t thread, uint64_t at)
{
    size_t n = 0;
    while (n + 1 < room) { // up to the end of a page at a time: what follows need not be there
        const size_t  left = 4096 - (size_t)((at + n) % 4096), want = left < room - 1 - n ? left : room - 1 - n;
        struct iovec  to = { out + n, want }, from = { (void *)(uintptr_t)(at + n), want };
        const ssize_t got = process_vm_readv(thread, &to, 1, &from, 1, 0);
        if (got <= 0) break;
        if (memchr(out + n, 0, (size_t)got)) return;
        n += (size_t)got;
    }
    out[n] = 0;
}

static void link_of(char *out, size_t room, pid_t thread, const char *what)
{
    static const char gone[] = " (deleted)";
    char              proc[64];
    snprintf(proc, sizeof proc, "/proc/%d/%s", (int)thread, what);
    const ssize_t n = readlink(proc, out, room - 1);
    out[n > 0 ? n : 0] = 0;
    const size_t k = strlen(out), g = sizeof gone - 1;
    if (k > g && !strcmp(out + k - g, gone)) out[k - g] = 0;
}

static void path_of_fd(char *out, pid_t thread, int fd)
{
    char what[32] = "cwd";
    if (fd != AT_FDCWD) snprintf(what, sizeof what, "fd/%d", fd);
    link_of(out, TRACER_PATH, thread, what);
}

/* Takes ".", ".." and double slashes out of an absolute path. */
static void clean(char *path)
{
    char *to = path;
    for (char *from = path; *from;) {
        const size_t n = strcspn(from + 1, "/");
        char        *next = from + 1 + n;
        if (n == 2 && !strncmp(from + 1, "..", 2)) {
            while (to > path && *--to != '/') continue;
        } else if (n && !(n == 1 && from[1] == '.')) {
            memmove(to, from, n + 1);
            to += n + 1;
        }
        from = next;
    }
    *to = 0;
}

static void path_at(char *out, pid_t thread, int folder, uint64_t at)
{
    char text[TRACER_PATH];
    read_text(text, sizeof text, thread, at);
    *out = 0;
    if (*text != '/') path_of_fd(out, thread, folder);
    const size_t n = strlen(out);
    snprintf(out + n, TRACER_PATH - n, "/%s", text);
    clean(out);
}

static bool below(const char *path, const char *root)
{
    const size_t n = strlen(root);
    return !strncmp(path, root, n) && (!path[n] || path[n] == '/');
}

/* Fills c of the call that the thread is about to make; false: it is none that changes or looks at the folder. */
static bool describe(call *c, const tracer *t, pid_t thread, const struct __ptrace_syscall_info *s)
{
    const known    *k = NULL;
    const uint64_t *a = s->entry.args;
    for (size_t i = 0; i < sizeof calls / sizeof *calls && !k; i++)
        if (calls[i].nr == (long)s->entry.nr) k = &calls[i];
    if (!k) return false;
    *c = (call){ .kind = k->kind, .thread = thread, .fd = -1, .number = k->number ? (int64_t)a[k->number] : -1 };
    const bool at = k->names == AT_PATH;
    if (k->kind == CALL_MAP) {
        if (!(a[2] & PROT_WRITE) || !(a[3] & MAP_SHARED) || (a[3] & MAP_ANONYMOUS)) return false;
        c->fd = (int)a[4];
    } else if (k->names == BY_FD) {
        c->fd = (int)a[0];
    }
    if (c->fd >= 0) path_of_fd(c->path, thread, c->fd);
    else path_at(c->path, thread, at ? (int)a[0] : AT_FDCWD, at ? a[1] : a[0]);
    if (k->kind == CALL_RENAME || k->kind == CALL_LINK)
        path_at(c->to, thread, at ? (int)a[2] : AT_FDCWD, at ? a[3] : a[1]);
    if (k->kind == CALL_UNLINK && at && (a[2] & AT_REMOVEDIR)) c->kind = CALL_RMDIR;
    if (k->kind == CALL_OPEN) {
        struct stat is;
        c->flags = (int)(at ? a[2] : a[1]);
        c->existed = lstat(c->path, &is) == 0;
    }
    return below(c->path, t->root) || (*c->to && below(c->to, t->root));
}

/* ---- running ---- */

static void option(pid_t pid)
{
    if (ptrace(PTRACE_SETOPTIONS, pid, 0,
               PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK
                   | PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL))
        broken("PTRACE_SETOPTIONS");
}

static pid_t start(char *const argv[], const char *said)
{
    const pid_t pid = fork();
    if (pid < 0) broken("fork");
    if (!pid) {
        const int fd = open(said, O_WRONLY | O_CREAT | O_TRUNC, 0666);
        if (fd < 0 || dup2(fd, 1) < 0 || dup2(fd, 2) < 0 || ptrace(PTRACE_TRACEME, 0, 0, 0)) _exit(126);
        raise(SIGSTOP);
        execv(argv[0], argv);
        _exit(127);
    }
    int status;
    if (waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status)) return -1;
    return pid;
}

bool tracer_works(void)
{
    struct __ptrace_syscall_info s;
    char *const                  argv[] = { "/bin/true", NULL };
    const pid_t                  pid = start(argv, "/dev/null");
    int                          status = 0;
    if (pid < 0) return false;
    option(pid);
    const bool goes = !ptrace(PTRACE_SYSCALL, pid, 0, 0) && waitpid(pid, &status, 0) == pid && WIFSTOPPED(status)
                      && ptrace(PTRACE_GET_SYSCALL_INFO, pid, (void *)sizeof s, &s) > 0
                      && s.op == PTRACE_SYSCALL_INFO_ENTRY;
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    return goes;
}

void tracer_start(tracer *t, char *const argv[], const char *root, const char *said)
{
    *t = (tracer){ .n = 0 };
    snprintf(t->root, sizeof t->root, "%s", root);
    t->pid = start(argv, said);
    if (t->pid < 0) broken("the program does not start");
    option(t->pid);
    t->thread[t->n++].thread = t->pid;
    t->last = t->pid;
}

static int find(const tracer *t, pid_t thread)
{
    int i = 0;
    while (i < t->n && t->thread[i].thread != thread) i++;
    return i < t->n ? i : -1;
}

static void go(pid_t thread, int signal)
{
    if (ptrace(PTRACE_SYSCALL, thread, 0, (void *)(uintptr_t)(unsigned)signal) && errno != ESRCH)
        broken("PTRACE_SYSCALL");
}

/* A thread stands at a call: true where it is one of ours. */
static bool at_call(tracer *t, int i, call *out)
{
    struct __ptrace_syscall_info s;
    const pid_t                  thread = t->thread[i].thread;
    call                        *c = &t->thread[i].at;
    if (ptrace(PTRACE_GET_SYSCALL_INFO, thread, (void *)sizeof s, &s) <= 0) return false;
    if (s.op == PTRACE_SYSCALL_INFO_ENTRY) {
        call is;
        *c = describe(&is, t, thread, &s) ? is : (call){ .kind = CALL_NONE };
    } else if (c->kind != CALL_NONE) {
        c->done = true;
        c->result = s.exit.rval;
    }
    if (c->kind == CALL_NONE) return false;
    *out = *c;
    if (c->done) c->kind = CALL_NONE;
    return true;
}

/* One report of a traced thread or of the other child; true: a call of ours. */
static bool take(tracer *t, pid_t thread, int status, call *out)
{
    int i = find(t, thread);
    if (thread == t->other && (WIFEXITED(status) || WIFSIGNALED(status))) {
        t->other_ended = true;
        t->other_status = status;
        return false;
    }
    if (WIFEXITED(status) || WIFSIGNALED(status)) {
        if (thread == t->pid) t->ended = true, t->status = status;
        if (i >= 0) t->thread[i] = t->thread[--t->n];
        return false;
    }
    if (!WIFSTOPPED(status)) return false;
    bool fresh = i < 0;
    if (fresh) {
        if (t->n == TRACER_THREADS) broken("too many threads");
        i = t->n++;
        t->thread[i].thread = thread;
        t->thread[i].at.kind = CALL_NONE;
    }
    const int signal = WSTOPSIG(status);
    if (signal == (SIGTRAP | 0x80) && at_call(t, i, out)) return true;
    const bool event = signal == SIGTRAP || signal == (SIGTRAP | 0x80) || (fresh && signal == SIGSTOP);
    go(thread, event ? 0 : signal);
    return false;
}

bool tracer_next(tracer *t, call *out)
{
    if (t->last) go(t->last, 0);
    t->last = 0;
    alarm(120); // whoever hangs is ended with its parent
    while (!t->ended) {
        int         status;
        const pid_t thread = waitpid(-1, &status, __WALL);
        if (thread < 0 && errno == EINTR) continue;
        if (thread < 0) broken("waitpid");
        if (!take(t, thread, status, out)) continue;
        t->last = thread;
        alarm(0);
        return true;
    }
    alarm(0);
    return false;
}

void tracer_kill(tracer *t)
{
    call c;
    t->last = 0;
    for (int i = 0; i < t->n; i++) kill(t->thread[i].thread, SIGKILL);
    for (int status; !t->ended;) {
        const pid_t thread = waitpid(-1, &status, __WALL);
        if (thread < 0) broken("waitpid");
        if (WIFSTOPPED(status)) kill(thread, SIGKILL);
        else take(t, thread, status, &c);
    }
}

const char *tracer_words(const call *c)
{
    static const char *const names[] = { "no call", "look at", "open",  "write", "resize", "fsync",          "rename",
                                         "link",    "unlink",  "mkdir", "rmdir", "mmap",   "another call on" };
    static char              text[2 * TRACER_PATH + 32];
    snprintf(text, sizeof text, "%s %s%s%s", names[c->kind], c->path, *c->to ? " to " : "", c->to);
    return text;
}
