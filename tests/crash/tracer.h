// SPDX-License-Identifier: Apache-2.0
/* tracer.h -- runs a program under ptrace and stops it at its file-system calls below a folder, before and after each.
 *
 *     tracer t;
 *     tracer_start(&t, argv, folder, "/dev/null");
 *     for (call c; tracer_next(&t, &c);)               // c.thread stands before its call, or (c.done) behind it
 *         if (!c.done && ++n == k) { tracer_kill(&t); break; }
 *     t.status;                                        // as waitpid gives it, when tracer_next has returned false
 *
 * A preloaded library would miss what the C library calls inside itself: the writes of FILEs, the folder of mkdtemp.
 * Threads and children are traced too. One at a time; a child of the caller that ends meanwhile is kept in `other`. */
#ifndef MBA_CRASH_TRACER_H
#define MBA_CRASH_TRACER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { TRACER_PATH = 768, TRACER_THREADS = 256 };

typedef enum {
    CALL_NONE,
    CALL_LOOK,
    CALL_OPEN,
    CALL_WRITE,
    CALL_SIZE,
    CALL_SYNC,
    CALL_RENAME,
    CALL_LINK,
    CALL_UNLINK,
    CALL_MKDIR,
    CALL_RMDIR,
    CALL_MAP,
    CALL_OTHER
} call_kind;

typedef struct call {
    call_kind kind;
    bool      done; /* it has returned, with */
    int64_t   result;
    pid_t     thread;
    char      path[TRACER_PATH]; /* absolute; of a descriptor: the name it has or had */
    char      to[TRACER_PATH];   /* of a rename or a link */
    int       fd;                /* -1: the call names a path */
    int       flags;             /* of an open */
    int64_t   number;            /* the size, or the offset of a write (-1: where the file stands) */
    bool      existed;           /* the path of an open, before it */
} call;

typedef struct tracer {
    pid_t pid, other; /* the program; a child of the caller whose end is waited for, 0: none */
    int   status, other_status;
    bool  ended, other_ended;
    char  root[TRACER_PATH];
    int   n;
    pid_t last; /* the thread that stands where tracer_next has returned; 0: none */
    struct {
        pid_t thread;
        call  at;
    } thread[TRACER_THREADS];
} tracer;

/* Whether this machine lets a process trace its children. */
bool tracer_works(void);

/* The program's output goes to the file `said`. `root` must be a real path. */
void tracer_start(tracer *t, char *const argv[], const char *root, const char *said);

/* The next call below the root, or false at the end of the program. Aborts after two minutes without one: a hang. */
bool tracer_next(tracer *t, call *out);

/* SIGKILL, to it and all that it started. */
void tracer_kill(tracer *t);

/* A name for messages: "rename /tmp/a/step-000002.partial". */
const char *tracer_words(const call *c);

#endif
