// SPDX-License-Identifier: Apache-2.0
/* fail.c -- the n-th call of a class fails. A library for LD_PRELOAD, for any program on glibc; tests/faults/faults.py
 * starts it.
 *
 *     MBA_FAULT_COUNTS=counts                       a file of uint64_t, one for each class below and a last one: calls
 *                                                   that were failed. It is shared by a program and the processes that
 *                                                   it starts.
 *     MBA_FAULT='write 7 once 28'                   the 7th of them fails with ENOSPC; `on`: so do all that follow;
 *                                                   `short`: it moves half of its bytes (reads, writes)
 *     MBA_FAULT_TRACE=trace                         where that was: the stack, in this file
 *     MBA_FAULT_MARKS=marks                         what fail_mark writes: its argument and the counts so far
 *
 * Calls before main and of the dynamic loader do not count, nor what goes to the standard error, where a program says
 * what is wrong. Streams of stdio are made anew over read and write below, so their buffers are filled and emptied by
 * calls that count. */
#undef _FORTIFY_SOURCE /* its inline functions would be what is defined here */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define OUTSIDE __attribute__((visibility("default")))

/* In the order of the counts. */
typedef enum kind { ALLOC, OPEN, READ, WRITE, SYNC, NAME, MAP, SIZE, THREAD, PROCESS, KINDS } kind;
static const char *const kinds[KINDS] = { "alloc", "open", "read", "write",  "sync",
                                          "name",  "map",  "size", "thread", "process" };

static struct {
    _Atomic uint64_t *count; /* NULL: before main, or nobody asked */
    kind              kind;
    uint64_t          n;        /* 0: none fails, all are counted */
    bool              on, part; /* from the n-th on; half of the bytes */
    int               error;
    uintptr_t         loader, loader_end; /* where the dynamic loader's code lies */
} fault = { .kind = KINDS };

/* Set while a call of ours is under way; in the thread's own block, which nobody needs to allocate. */
static __thread bool inside __attribute__((tls_model("initial-exec")));

static void tell_where(void)
{
    const char *path = getenv("MBA_FAULT_TRACE");
    const int   fd = path ? (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666)
                          : -1;
    void       *frame[48];
    if (fd < 0) return;
    inside = true;
    backtrace_symbols_fd(frame, backtrace(frame, 48), fd);
    inside = false;
    syscall(SYS_close, fd);
}

/* Counts a call; true where it is to fail, with errno set. */
static bool strikes(kind k, const void *caller)
{
    const uintptr_t from = (uintptr_t)caller;
    if (!fault.count || inside || (from >= fault.loader && from < fault.loader_end)) return false;
    const uint64_t n = atomic_fetch_add(&fault.count[k], 1) + 1;
    if (k != fault.kind || !fault.n || (fault.on ? n < fault.n : n != fault.n)) return false;
    if (atomic_fetch_add(&fault.count[KINDS], 1) == 0) tell_where();
    errno = fault.error;
    return true;
}

#define STRIKES(k) strikes(k, __builtin_return_address(0))

/* tools/mutate compiles calls of it into a function: with 1 where it begins, with 0 where it ends. The counts between
 * say which calls the function makes. The first ones are enough: a function may be called a million times. */
void         fail_mark(int begins);
OUTSIDE void fail_mark(int begins)
{
    static _Atomic int marks;
    const char        *path = getenv("MBA_FAULT_MARKS");
    uint64_t           row[KINDS + 1] = { (uint64_t)begins };
    if (!path || !fault.count || atomic_fetch_add(&marks, 1) >= 4096) return;
    for (int k = 0; k < KINDS; k++) row[k + 1] = fault.count[k];
    const int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (fd < 0) return;
    if (syscall(SYS_write, fd, row, sizeof row) != (long)sizeof row) _exit(99);
    syscall(SYS_close, fd);
}

/* The same call of the library behind this one. */
#define NEXT(name) ((__typeof__(&name))next(#name))
static uintptr_t next(const char *name)
{
    inside = true;
    const uintptr_t f = (uintptr_t)dlsym(RTLD_NEXT, name);
    inside = false;
    if (!f) _exit(99);
    return f;
}

/* ---- memory: the sanitizer's where it is there, else the C library's ---- */

extern void *__libc_malloc(size_t n), *__libc_calloc(size_t n, size_t size), *__libc_realloc(void *p, size_t n),
    *__libc_memalign(size_t align, size_t n);
extern void *__interceptor_malloc(size_t n) __attribute__((weak));
extern void *__interceptor_calloc(size_t n, size_t size) __attribute__((weak));
extern void *__interceptor_realloc(void *p, size_t n) __attribute__((weak));
extern void *__interceptor_memalign(size_t align, size_t n) __attribute__((weak));

OUTSIDE void *malloc(size_t n)
{
    return STRIKES(ALLOC) ? NULL : __interceptor_malloc ? __interceptor_malloc(n) : __libc_malloc(n);
}

OUTSIDE void *calloc(size_t n, size_t size)
{
    return STRIKES(ALLOC) ? NULL : __interceptor_calloc ? __interceptor_calloc(n, size) : __libc_calloc(n, size);
}

OUTSIDE void *realloc(void *p, size_t n)
{
    return STRIKES(ALLOC) ? NULL : __interceptor_realloc ? __interceptor_realloc(p, n) : __libc_realloc(p, n);
}

static void *aligned(size_t align, size_t n)
{
    return __interceptor_memalign ? __interceptor_memalign(align, n) : __libc_memalign(align, n);
}
OUTSIDE void *memalign(size_t align, size_t n) { return STRIKES(ALLOC) ? NULL : aligned(align, n); }
OUTSIDE void *aligned_alloc(size_t align, size_t n) { return STRIKES(ALLOC) ? NULL : aligned(align, n); }

OUTSIDE int posix_memalign(void **out, size_t align, size_t n)
{
    void *p = STRIKES(ALLOC) ? NULL : aligned(align, n);
    if (p) *out = p;
    return p ? 0 : ENOMEM;
}

/* ---- files by their numbers; errno is what the system or the fault says ---- */

static ssize_t get(int fd, void *to, size_t n, const void *caller)
{
    if (strikes(READ, caller)) {
        if (!fault.part) return -1;
        n = n > 1 ? n / 2 : n;
    }
    return syscall(SYS_read, fd, to, n);
}

static ssize_t put(int fd, const void *from, size_t n, const void *caller)
{
    if (fd != STDERR_FILENO && strikes(WRITE, caller)) {
        if (!fault.part) return -1;
        n = n > 1 ? n / 2 : n;
    }
    return syscall(SYS_write, fd, from, n);
}

static int open_at(int folder, const char *path, int flags, mode_t mode, const void *caller)
{
    return strikes(OPEN, caller) ? -1 : (int)syscall(SYS_openat, folder, path, flags, mode);
}

static mode_t mode_of(int flags, va_list ap) { return flags & (O_CREAT | O_TMPFILE) ? (mode_t)va_arg(ap, int) : 0; }

#define OPEN_LIKE(name, folder, ...) \
    OUTSIDE int name(__VA_ARGS__, const char *path, int flags, ...); \
    OUTSIDE int name(__VA_ARGS__, const char *path, int flags, ...) \
    { \
        va_list ap; \
        va_start(ap, flags); \
        const mode_t mode = mode_of(flags, ap); \
        va_end(ap); \
        return open_at(folder, path, flags, mode, __builtin_return_address(0)); \
    }
OPEN_LIKE(openat, folder, int folder)
OPEN_LIKE(openat64, folder, int folder)

#define OPEN_HERE(name) \
    OUTSIDE int name(const char *path, int flags, ...) \
    { \
        va_list ap; \
        va_start(ap, flags); \
        const mode_t mode = mode_of(flags, ap); \
        va_end(ap); \
        return open_at(AT_FDCWD, path, flags, mode, __builtin_return_address(0)); \
    }
OPEN_HERE(open)
OPEN_HERE(open64)

/* What a hardened program calls in their place. */
int         __open_2(const char *path, int flags), __open64_2(const char *path, int flags);
int         __openat_2(int folder, const char *path, int flags), __openat64_2(int folder, const char *path, int flags);
OUTSIDE int __open_2(const char *path, int flags)
{
    return open_at(AT_FDCWD, path, flags, 0, __builtin_return_address(0));
}
OUTSIDE int __open64_2(const char *path, int flags)
{
    return open_at(AT_FDCWD, path, flags, 0, __builtin_return_address(0));
}
OUTSIDE int __openat_2(int f, const char *path, int flags)
{
    return open_at(f, path, flags, 0, __builtin_return_address(0));
}
OUTSIDE int __openat64_2(int f, const char *path, int flags)
{
    return open_at(f, path, flags, 0, __builtin_return_address(0));
}

OUTSIDE ssize_t read(int fd, void *to, size_t n) { return get(fd, to, n, __builtin_return_address(0)); }
OUTSIDE ssize_t write(int fd, const void *from, size_t n) { return put(fd, from, n, __builtin_return_address(0)); }
ssize_t         __read_chk(int fd, void *to, size_t n, size_t room),
    __pread_chk(int fd, void *to, size_t n, off_t at, size_t room),
    __pread64_chk(int fd, void *to, size_t n, off_t at, size_t room);
OUTSIDE ssize_t __read_chk(int fd, void *to, size_t n, size_t room)
{
    if (n > room) abort();
    return get(fd, to, n, __builtin_return_address(0));
}

static ssize_t get_at(int fd, void *to, size_t n, off_t at, const void *caller)
{
    if (strikes(READ, caller)) {
        if (!fault.part) return -1;
        n = n > 1 ? n / 2 : n;
    }
    return syscall(SYS_pread64, fd, to, n, at);
}
OUTSIDE ssize_t pread(int fd, void *to, size_t n, off_t at)
{
    return get_at(fd, to, n, at, __builtin_return_address(0));
}
OUTSIDE ssize_t pread64(int fd, void *to, size_t n, off_t at)
{
    return get_at(fd, to, n, at, __builtin_return_address(0));
}
OUTSIDE ssize_t __pread_chk(int fd, void *to, size_t n, off_t at, size_t room)
{
    if (n > room) abort();
    return get_at(fd, to, n, at, __builtin_return_address(0));
}
OUTSIDE ssize_t __pread64_chk(int fd, void *to, size_t n, off_t at, size_t room)
{
    if (n > room) abort();
    return get_at(fd, to, n, at, __builtin_return_address(0));
}

static ssize_t put_at(int fd, const void *from, size_t n, off_t at, const void *caller)
{
    if (strikes(WRITE, caller)) {
        if (!fault.part) return -1;
        n = n > 1 ? n / 2 : n;
    }
    return syscall(SYS_pwrite64, fd, from, n, at);
}
OUTSIDE ssize_t pwrite(int fd, const void *from, size_t n, off_t at)
{
    return put_at(fd, from, n, at, __builtin_return_address(0));
}
OUTSIDE ssize_t pwrite64(int fd, const void *from, size_t n, off_t at)
{
    return put_at(fd, from, n, at, __builtin_return_address(0));
}

OUTSIDE ssize_t writev(int fd, const struct iovec *v, int n)
{
    if (!STRIKES(WRITE)) return syscall(SYS_writev, fd, v, n);
    return fault.part && n ? syscall(SYS_write, fd, v[0].iov_base, v[0].iov_len) : -1;
}

OUTSIDE int fsync(int fd) { return STRIKES(SYNC) ? -1 : (int)syscall(SYS_fsync, fd); }
OUTSIDE int fdatasync(int fd) { return STRIKES(SYNC) ? -1 : (int)syscall(SYS_fdatasync, fd); }

OUTSIDE int ftruncate(int fd, off_t n) { return STRIKES(SIZE) ? -1 : (int)syscall(SYS_ftruncate, fd, n); }
OUTSIDE int ftruncate64(int fd, off_t n) { return STRIKES(SIZE) ? -1 : (int)syscall(SYS_ftruncate, fd, n); }
OUTSIDE int truncate(const char *path, off_t n) { return STRIKES(SIZE) ? -1 : (int)syscall(SYS_truncate, path, n); }
OUTSIDE int truncate64(const char *path, off_t n) { return STRIKES(SIZE) ? -1 : (int)syscall(SYS_truncate, path, n); }

OUTSIDE void *mmap(void *at, size_t n, int may, int flags, int fd, off_t from)
{
    return STRIKES(MAP) ? MAP_FAILED : (void *)syscall(SYS_mmap, at, n, may, flags, fd, from);
}
OUTSIDE void *mmap64(void *at, size_t n, int may, int flags, int fd, off_t from)
{
    return STRIKES(MAP) ? MAP_FAILED : (void *)syscall(SYS_mmap, at, n, may, flags, fd, from);
}

/* ---- names ---- */

OUTSIDE int rename(const char *a, const char *b) { return STRIKES(NAME) ? -1 : NEXT(rename)(a, b); }
OUTSIDE int link(const char *a, const char *b) { return STRIKES(NAME) ? -1 : NEXT(link)(a, b); }
OUTSIDE int unlink(const char *a) { return STRIKES(NAME) ? -1 : NEXT(unlink)(a); }
OUTSIDE int unlinkat(int folder, const char *a, int flags)
{
    return STRIKES(NAME) ? -1 : NEXT(unlinkat)(folder, a, flags);
}
OUTSIDE int            remove(const char *a) { return STRIKES(NAME) ? -1 : NEXT(remove)(a); }
OUTSIDE int            rmdir(const char *a) { return STRIKES(NAME) ? -1 : NEXT(rmdir)(a); }
OUTSIDE int            mkdir(const char *a, mode_t mode) { return STRIKES(NAME) ? -1 : NEXT(mkdir)(a, mode); }
OUTSIDE char          *mkdtemp(char *a) { return STRIKES(NAME) ? NULL : NEXT(mkdtemp)(a); }
OUTSIDE DIR           *opendir(const char *a) { return STRIKES(OPEN) ? NULL : NEXT(opendir)(a); }
OUTSIDE struct dirent *readdir(DIR *d) { return STRIKES(READ) && !fault.part ? NULL : NEXT(readdir)(d); }

/* ---- threads and processes ---- */

OUTSIDE int pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*work)(void *), void *arg)
{
    return STRIKES(THREAD) ? EAGAIN : NEXT(pthread_create)(t, a, work, arg);
}
OUTSIDE pid_t fork(void) { return STRIKES(PROCESS) ? -1 : NEXT(fork)(); }
OUTSIDE int   execv(const char *path, char *const argv[]) { return STRIKES(PROCESS) ? -1 : NEXT(execv)(path, argv); }
OUTSIDE int   execvp(const char *file, char *const argv[]) { return STRIKES(PROCESS) ? -1 : NEXT(execvp)(file, argv); }

/* ---- streams ---- */

static int number(const void *cookie) { return (int)(intptr_t)cookie - 1; }

static ssize_t stream_read(void *cookie, char *to, size_t n) { return get(number(cookie), to, n, NULL); }

/* As stdio itself: until all of it is out, or one write fails. */
static ssize_t stream_write(void *cookie, const char *from, size_t n)
{
    size_t done = 0;
    while (done < n) {
        const ssize_t some = put(number(cookie), from + done, n - done, NULL);
        if (some < 0) break;
        done += (size_t)some;
    }
    return (ssize_t)done;
}

static int stream_seek(void *cookie, off64_t *at, int whence)
{
    const off64_t now = lseek64(number(cookie), *at, whence);
    if (now >= 0) *at = now;
    return now < 0 ? -1 : 0;
}

/* By number: the streams that are open. */
static FILE *_Atomic streams[1024];

static int stream_close(void *cookie)
{
    if (number(cookie) < 1024) streams[number(cookie)] = NULL;
    return close(number(cookie));
}

static FILE *stream(int fd, const char *mode)
{
    FILE *f = fopencookie((void *)((intptr_t)fd + 1), mode,
                          (cookie_io_functions_t){
                              .read = stream_read, .write = stream_write, .seek = stream_seek, .close = stream_close });
    if (fd >= 0 && fd < 1024) streams[fd] = f;
    return f;
}

OUTSIDE int fileno(FILE *f)
{
    for (int fd = 0; fd < 1024; fd++)
        if (streams[fd] == f) return fd;
    return NEXT(fileno)(f);
}

OUTSIDE FILE *fdopen(int fd, const char *mode) { return STRIKES(OPEN) ? NULL : stream(fd, mode); }

static FILE *open_stream(const char *path, const char *mode, const void *caller)
{
    int flags = strchr(mode, '+') ? O_RDWR : mode[0] == 'r' ? O_RDONLY : O_WRONLY;
    if (mode[0] == 'w') flags |= O_CREAT | O_TRUNC;
    if (mode[0] == 'a') flags |= O_CREAT | O_APPEND;
    if (strchr(mode, 'x')) flags |= O_EXCL;
    if (strchr(mode, 'e')) flags |= O_CLOEXEC;
    const int fd = open_at(AT_FDCWD, path, flags, 0666, caller);
    FILE     *f = fd < 0 ? NULL : stream(fd, mode);
    if (fd >= 0 && !f) {
        const int error = errno;
        close(fd);
        errno = error;
    }
    return f;
}
OUTSIDE FILE *fopen(const char *path, const char *mode) { return open_stream(path, mode, __builtin_return_address(0)); }
OUTSIDE FILE *fopen64(const char *path, const char *mode)
{
    return open_stream(path, mode, __builtin_return_address(0));
}

/* ---- from main on ---- */

static int find_loader(struct dl_phdr_info *info, size_t size, void *arg)
{
    (void)size;
    (void)arg;
    const char *name = strrchr(info->dlpi_name, '/');
    if (!name || strncmp(name, "/ld-linux", 9)) return 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        if (p->p_type != PT_LOAD || !(p->p_flags & PF_X)) continue;
        fault.loader = info->dlpi_addr + p->p_vaddr;
        fault.loader_end = fault.loader + p->p_memsz;
    }
    return 1;
}

static void begin(void)
{
    const char *counts = getenv("MBA_FAULT_COUNTS"), *asked = getenv("MBA_FAULT");
    const int   fd = counts ? (int)syscall(SYS_openat, AT_FDCWD, counts, O_RDWR | O_CREAT | O_CLOEXEC, 0666) : -1;
    char        what[16] = "", how[16] = "";
    unsigned long long n = 0;
    void              *frame[4];
    if (fd < 0) return;
    if (syscall(SYS_ftruncate, fd, (KINDS + 1) * sizeof(uint64_t))) _exit(99);
    void *map = (void *)syscall(SYS_mmap, NULL, (KINDS + 1) * sizeof(uint64_t), PROT_READ | PROT_WRITE, MAP_SHARED, fd,
                                0);
    syscall(SYS_close, fd);
    if (map == MAP_FAILED) _exit(99);
    if (asked && sscanf(asked, "%15s %llu %15s %d", what, &n, how, &fault.error) != 4) _exit(99);
    for (int k = 0; asked && k < KINDS; k++)
        if (!strcmp(what, kinds[k])) fault.kind = (kind)k;
    if (asked && fault.kind == KINDS) _exit(99);
    fault.n = n;
    fault.on = !strcmp(how, "on");
    fault.part = !strcmp(how, "short");
    dl_iterate_phdr(find_loader, NULL);
    (void)backtrace(frame, 4); // which loads what it needs for it
    FILE *in = stream(STDIN_FILENO, "r"), *out = stream(STDOUT_FILENO, "w");
    if (!in || !out) _exit(99);
    stdin = in;
    stdout = out;
    fault.count = map;
}

typedef int           main_function(int argc, char **argv, char **environment);
static main_function *real_main;

static int counted_main(int argc, char **argv, char **environment)
{
    begin();
    return real_main(argc, argv, environment);
}

int         __libc_start_main(main_function *f, int argc, char **argv, void (*init)(void), void (*fini)(void),
                              void (*rtld_fini)(void), void *stack_end);
OUTSIDE int __libc_start_main(main_function *f, int argc, char **argv, void (*init)(void), void (*fini)(void),
                              void (*rtld_fini)(void), void *stack_end)
{
    real_main = f;
    return NEXT(__libc_start_main)(counted_main, argc, argv, init, fini, rtld_fini, stack_end);
}
