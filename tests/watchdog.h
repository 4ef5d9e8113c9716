// SPDX-License-Identifier: Apache-2.0
/* watchdog.h -- a test that hangs says where and fails, instead of waiting for ctest. test.h includes it: a group of
 * tests that cmocka_run_group_tests runs is watched by a process of its own.
 *
 * A case hangs when its processes use no processor for two minutes, or more than five minutes of it. Neither depends on
 * how busy the machine is; with sanitizers it may compute five times as long. MBA_TEST_IDLE_S and MBA_TEST_CPU_S in the
 * environment say other limits. Who watches writes the name of the case and the state of every thread of the test and
 * of what it started, asks the test for a backtrace, and ends them all: the test exits with 1. */
#ifndef MBA_TEST_WATCHDOG_H
#define MBA_TEST_WATCHDOG_H

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#ifdef __GLIBC__
#include <execinfo.h>
#endif

enum { WATCH_IDLE_S = 120, WATCH_CPU_S = 300, WATCH_SANITIZED = 5, WATCH_PROCESSES = 256 };

typedef struct watch_shared {
    char name[128];
    int  cases;
} watch_shared; /* in memory that both processes have */
static watch_shared            *watch_now;
static const struct CMUnitTest *watch_tests;
static int                      watch_next;

/* ---- what the processes of a test do ---- */

typedef struct watch_process {
    pid_t  pid, parent;
    double cpu_s;
} watch_process;

static inline size_t watch_read(char *out, size_t room, const char *path)
{
    const int     fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd < 0 ? -1 : read(fd, out, room - 1);
    if (fd >= 0) close(fd);
    out[n > 0 ? n : 0] = 0;
    for (ssize_t i = 0; i + 1 < n; i++)
        if (!out[i]) out[i] = ' '; // arguments of a command line
    return n > 0 ? (size_t)n : 0;
}

static inline bool watch_stat(watch_process *p, const char *pid)
{
    char          path[64], text[1024];
    unsigned long user, system;
    long          waited_user, waited_system;
    snprintf(path, sizeof path, "/proc/%.16s/stat", pid);
    const char *at = watch_read(text, sizeof text, path) ? strrchr(text, ')') : NULL;
    if (!at
        || sscanf(at + 1, " %*c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu %ld %ld", &p->parent, &user, &system,
                  &waited_user, &waited_system)
               != 5)
        return false;
    p->pid = (pid_t)atol(pid);
    p->cpu_s = (double)(user + system + (unsigned long)(waited_user + waited_system)) / (double)sysconf(_SC_CLK_TCK);
    return true;
}

/* The test and all that descends from it, but for this process; parents come before their children. */
static inline int watch_tree(watch_process out[WATCH_PROCESSES], pid_t test)
{
    static watch_process all[8192];
    int                  n = 0, found = 0;
    DIR                 *d = opendir("/proc");
    for (const struct dirent *e; d && (e = readdir(d)) && n < 8192;)
        n += isdigit((unsigned char)e->d_name[0]) && watch_stat(&all[n], e->d_name);
    if (d) closedir(d);
    for (int i = 0; i < n; i++)
        if (all[i].pid == test) out[found++] = all[i];
    for (int k = 0; k < found; k++)
        for (int i = 0; i < n && found < WATCH_PROCESSES; i++)
            if (all[i].parent == out[k].pid && all[i].pid != getpid() && all[i].pid != test) out[found++] = all[i];
    return found;
}

static inline void watch_tell(const watch_process *p)
{
    char path[300], text[4096], kind[300];
    snprintf(path, sizeof path, "/proc/%d/cmdline", (int)p->pid);
    watch_read(text, sizeof text, path);
    fprintf(stderr, "process %d of %d, %.1f s of processor: %.300s\n", (int)p->pid, (int)p->parent, p->cpu_s, text);
    snprintf(path, sizeof path, "/proc/%d/task", (int)p->pid);
    DIR *d = opendir(path);
    for (const struct dirent *e; d && (e = readdir(d));) {
        if (e->d_name[0] == '.') continue;
        static const char *const files[] = { "comm", "wchan", "syscall", "stack" };
        snprintf(path, sizeof path, "/proc/%d/task/%.16s/stat", (int)p->pid, e->d_name);
        const char *state = watch_read(text, sizeof text, path) ? strrchr(text, ')') : NULL;
        fprintf(stderr, "  thread %s, state %c", e->d_name, state && state[1] ? state[2] : '?');
        for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
            snprintf(path, sizeof path, "/proc/%d/task/%.16s/%s", (int)p->pid, e->d_name, files[i]);
            const size_t n = watch_read(kind, sizeof kind, path);
            if (n) kind[n - (kind[n - 1] == '\n')] = 0;
            if (n) fprintf(stderr, ", %s %s", files[i], kind);
        }
        fputc('\n', stderr);
    }
    if (d) closedir(d);
}

/* ---- who watches ---- */

static inline double watch_clock(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static inline double watch_limit(const char *name, int usual)
{
    const char *text = getenv(name);
    return text && *text ? atof(text) : usual;
}

static inline int watch_signal(void) { return SIGRTMAX - 3; }

static inline void watch_end(pid_t test, const char *name, const char *why, double seconds)
{
    static watch_process tree[WATCH_PROCESSES];
    const int            n = watch_tree(tree, test);
    fprintf(stderr, "\nHANGS: %s: %s for %.0f s\n", name, why, seconds);
    for (int i = 0; i < n; i++) watch_tell(&tree[i]);
    fflush(stderr);
    prctl(PR_SET_PDEATHSIG, 0);
    syscall(SYS_tgkill, test, test, watch_signal()); // its main thread tells where it is, and exits
    for (int i = 0; i < 200 && getppid() == test; i++) usleep(10000);
    if (getppid() == test) kill(test, SIGKILL);
    for (int i = n - 1; i > 0; i--) kill(tree[i].pid, SIGKILL);
    _exit(1);
}

static inline void watch_over(pid_t test)
{
    static watch_process tree[WATCH_PROCESSES];
    const int            slower = getenv("MBA_TEST_SANITIZED") ? WATCH_SANITIZED : 1;
    const double         idle_s = watch_limit("MBA_TEST_IDLE_S", WATCH_IDLE_S),
                 cpu_s = watch_limit("MBA_TEST_CPU_S", WATCH_CPU_S * slower);
    int    last = -1;
    double began_cpu = 0, busy_at = 0, busy_cpu = 0;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (; getppid() == test; usleep(500000)) {
        double    cpu = 0;
        const int n = watch_tree(tree, test), now = watch_now->cases;
        if (!n) continue; // no /proc: nobody can say anything
        for (int i = 0; i < n; i++) cpu += tree[i].cpu_s;
        if (now != last) began_cpu = cpu;
        if (now != last || cpu > busy_cpu + 0.5 || cpu < busy_cpu) busy_at = watch_clock(), busy_cpu = cpu;
        last = now;
        if (watch_clock() - busy_at > idle_s) watch_end(test, watch_now->name, "nothing runs", watch_clock() - busy_at);
        if (cpu - began_cpu > cpu_s) watch_end(test, watch_now->name, "it computes", cpu - began_cpu);
    }
    _exit(0);
}

/* ---- in the test ---- */

static inline void watch_backtrace(int number)
{
#ifdef __GLIBC__
    static const char words[] = "the test's main thread is at (addr2line -e tells the lines):\n";
    void             *at[64];
    (void)!write(STDERR_FILENO, words, sizeof words - 1);
    backtrace_symbols_fd(at, backtrace(at, 64), STDERR_FILENO);
#endif
    (void)number;
    _exit(1);
}

static inline int watch_case(void **state)
{
    const struct CMUnitTest *t = &watch_tests[watch_next++];
    snprintf(watch_now->name, sizeof watch_now->name, "%s", t->name);
    watch_now->cases++;
    return t->setup_func ? t->setup_func(state) : 0;
}

static inline int watch_group(const char *name, const struct CMUnitTest *tests, size_t n, CMFixtureFunction setup,
                              CMFixtureFunction teardown)
{
    struct CMUnitTest *copies = calloc(n, sizeof *copies);
    void              *first[1];
    watch_now = mmap(NULL, sizeof *watch_now, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (!copies || watch_now == MAP_FAILED) abort();
    watch_tests = tests;
    watch_next = 0;
    snprintf(watch_now->name, sizeof watch_now->name, "the group's setup");
    for (size_t i = 0; i < n; i++) copies[i] = tests[i], copies[i].setup_func = watch_case;
#ifdef __GLIBC__
    (void)backtrace(first, 1); // loads what it needs: no time for that in a handler
#endif
    (void)first;
    signal(watch_signal(), watch_backtrace);
    fflush(NULL);
    const pid_t test = getpid(), watcher = fork();
    if (watcher == 0) watch_over(test);
    const int failed = _cmocka_run_group_tests(name, copies, n, setup, teardown);
    if (watcher > 0) {
        kill(watcher, SIGKILL);
        waitpid(watcher, NULL, 0);
    }
    munmap(watch_now, sizeof *watch_now);
    free(copies);
    return failed;
}

#undef cmocka_run_group_tests
#define cmocka_run_group_tests(group, setup, teardown) \
    watch_group(#group, group, sizeof(group) / sizeof *(group), setup, teardown)

#endif
