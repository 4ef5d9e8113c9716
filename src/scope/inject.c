// SPDX-License-Identifier: Apache-2.0
/* inject.c -- libmambascope_inject.so. The driver loads it into an external CUDA process (CUDA_INJECTION64_PATH), where
 * it records the process into a trace file (trace_file.h). `mambascope profile -- CMD` sets the environment:
 *
 *     MAMBASCOPE_TRACE=FILE            the trace; the first process that creates the file is the one recorded
 *     MAMBASCOPE_SKIP_SECONDS=S, MAMBASCOPE_SKIP_LAUNCHES=N, MAMBASCOPE_RANGE=NAME    what is skipped
 *     MAMBASCOPE_LAUNCHES=N            launches that are recorded; also per counter group
 *     MAMBASCOPE_SETS=overview,..      counter sets, read after the timeline
 *
 * Counters are read in groups that need one pass, each group over launches of its own: a training loop repeats itself,
 * so nothing is replayed and no memory is saved. A failure becomes a note in the file and never stops the process.
 * Complete records go to the file several times a second, so that a process that is killed leaves them. Kernels inside
 * CUDA graphs have times but no counters. A process with the rights of another user (set-uid) is not recorded. */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "device/cuda/library.h"
#include "scope/clock.h"
#include "scope/cupti_collect.h"
#include "scope/inject_counters.h"
#include "scope/trace_file.h"

enum { SPANS_MAX = 1 << 16, COUNTED_LAUNCHES = 4096, TIMELINE_LAUNCHES = 20000, HAND_OVER_NS = 250000000 };

typedef struct span {
    uint32_t low, high;
} span; // a range of correlation ids that is recorded

static struct {
    mba_trace_writer out;
    pthread_mutex_t  lock; // guards the file and the fields below
    double           began_s, skip_s;
    int64_t          skip_launches, skip_steps, limit, seen, taken;
    int64_t          entries; // entries into our NVTX range, by the first thread
    const char      *range;
    int              inside;     // number of threads in our NVTX range
    const char      *entered_as; // mode at the first entry; NULL: not recorded
    double           entered_s;
    bool             selective, was_wanted, counting, timeline_ended, ended;
    span             spans[SPANS_MAX];
    int              nspans;
    pid_t            pid;    // a fork shares our memory and file, and is not recorded
    pthread_t        writer; // writes complete records
    pthread_cond_t   end;    // wakes the writer when the process ends
    bool             writes, ends;
} in = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void write_note(const char *topic)
{
    pthread_mutex_lock(&in.lock);
    if (!in.ended) mba_trace_note(&in.out, topic, mba_message());
    pthread_mutex_unlock(&in.lock);
}

/* ---- events ---- */

/* The span of launches that an event belongs to; -1: it is not recorded. */
static int span_of(uint32_t correlation)
{
    for (int i = in.nspans - 1; i >= 0; i--)
        if (correlation >= in.spans[i].low) return correlation <= in.spans[i].high ? i : -1;
    return -1;
}

/* CUPTI sets times to zero while counters are read; such events are dropped. Every entry into the range is a step. */
static void on_event(void *ctx, const mba_event *e)
{
    mba_event with_step = *e;
    (void)ctx;
    pthread_mutex_lock(&in.lock);
    const int of_span = in.selective ? span_of(e->correlation) : 0;
    with_step.step = in.range ? of_span : -1;
    if (!in.ended && e->start_ns > 0 && of_span >= 0) mba_trace_event(&in.out, &with_step);
    pthread_mutex_unlock(&in.lock);
}

/* ---- launches ---- */

static bool wanted(void)
{
    return in.seen > in.skip_launches && (!in.range || (in.inside && in.entries > in.skip_steps))
           && (in.skip_s <= 0 || mba_clock_s() - in.began_s >= in.skip_s);
}

/* Extends the current span, or opens one. A launch through the runtime has an id just before the driver's, so a span
 * starts one earlier. */
static void choose(uint32_t correlation)
{
    if (in.was_wanted && in.nspans) {
        in.spans[in.nspans - 1].high = correlation;
    } else if (in.nspans < SPANS_MAX) {
        in.spans[in.nspans++] = (span){ correlation ? correlation - 1 : 0, correlation };
    }
}

static void on_launch(void *ctx, const mba_launch_seen *l)
{
    (void)ctx;
    pthread_mutex_lock(&in.lock);
    in.seen++;
    const bool begun = in.range && in.was_wanted; // a step that has started is recorded to its end
    const bool yes = !in.ended && wanted(), timed = yes && (!in.limit || in.taken < in.limit || begun);
    if (timed) {
        in.taken++;
        choose(l->correlation);
    }
    in.was_wanted = timed;
    const bool count = yes && !timed && in.counting && !l->is_graph, first = count && !in.timeline_ended;
    in.timeline_ended |= first;
    pthread_mutex_unlock(&in.lock); // CUPTI may call on_event below, which takes the lock
    // the sm__sass_* counters read 0 while kernels are traced
    if (first && mba_activity_stop() != MBA_OK) write_note("timeline");
    if (!count || mba_inject_count(l) == MBA_OK) return;
    write_note("counters");
    pthread_mutex_lock(&in.lock);
    in.counting = false;
    pthread_mutex_unlock(&in.lock);
}

/* The mode in which launches are recorded now; NULL: they are not. */
static const char *mode_now(void)
{
    if (in.ended || !wanted()) return NULL;
    if (!in.timeline_ended) return "timeline";
    return in.counting && !mba_inject_count_done() ? "counters" : "attached";
}

/* Times a step from the first thread's entry to the last one's exit; a step whose mode changed is dropped. */
static void time_step(bool begins)
{
    if (begins && in.inside == 1) {
        in.entered_as = mode_now();
        in.entered_s = mba_clock_s();
        return;
    }
    if (begins || in.inside > 1 || !in.entered_as || in.entered_as != mode_now()) return;
    const int64_t now_ns = mba_clock_ns();
    mba_trace_step(&in.out, in.entered_as, 1e-9 * (double)now_ns - in.entered_s, now_ns);
}

/* Ranges nest within a thread; `ours` is the depth at which this thread entered our range. */
static void on_range(void *ctx, const char *name, bool begins)
{
    static _Thread_local int depth, ours;
    (void)ctx;
    if (begins) {
        depth++;
        if (ours || strcmp(name, in.range)) return;
        ours = depth;
    } else {
        const bool leaves = depth > 0 && depth-- == ours;
        if (!leaves) return;
        ours = 0;
    }
    pthread_mutex_lock(&in.lock);
    if (begins && in.inside++ == 0) in.entries++;
    time_step(begins);
    if (!begins) in.inside--;
    // the next entry is another step, even if nothing runs in between
    if (!begins) in.was_wanted = false;
    pthread_mutex_unlock(&in.lock);
}

/* ---- a process that is killed ---- */

static void on_short_of_memory(void *ctx, int64_t asked, int64_t free, int64_t total)
{
    const mba_trace_memory m = { asked, free, total };
    (void)ctx;
    pthread_mutex_lock(&in.lock);
    if (!in.ended) mba_trace_memory_row(&in.out, &m);
    pthread_mutex_unlock(&in.lock);
}

/* Writes complete records, and a mark that the process is alive. `over` is read before the flush: a flush after the
 * last recorded launch delivers all records. */
static void hand_over(void)
{
    pthread_mutex_lock(&in.lock);
    const bool over = in.timeline_ended || (in.limit && in.taken >= in.limit);
    pthread_mutex_unlock(&in.lock);
    const int64_t device_ns = mba_activity_hand_over(); // not under the lock: on_event takes it
    pthread_mutex_lock(&in.lock);
    if (!in.ended && device_ns) mba_trace_alive(&in.out, mba_clock_ns(), device_ns, !over);
    pthread_mutex_unlock(&in.lock);
}

/* The writer thread. It stops flushing when the timeline ends: counters are being read then. */
static void *write_on(void *ctx)
{
    bool over = false;
    (void)ctx;
    pthread_mutex_lock(&in.lock);
    while (!in.ends) {
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += HAND_OVER_NS;
        if (until.tv_nsec >= 1000000000) until.tv_sec++, until.tv_nsec -= 1000000000;
        pthread_cond_timedwait(&in.end, &in.lock, &until);
        if (in.ends || over) continue;
        over = in.timeline_ended;
        pthread_mutex_unlock(&in.lock);
        hand_over();
        pthread_mutex_lock(&in.lock);
    }
    pthread_mutex_unlock(&in.lock);
    return NULL;
}

/* Starts the writer thread with all signals blocked, so that the program's threads receive them. If it cannot start, a
 * killed process only leaves fewer records. */
static void begin_writing(void)
{
    pthread_condattr_t attr;
    sigset_t           all, mask;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&in.end, &attr);
    pthread_condattr_destroy(&attr);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &mask);
    in.writes = pthread_create(&in.writer, NULL, write_on, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
}

/* Waits at most 2 s for the writer: it may wait for a GPU that hangs. */
static void end_writing(void)
{
    struct timespec until;
    pthread_mutex_lock(&in.lock);
    in.ends = true;
    pthread_cond_signal(&in.end);
    pthread_mutex_unlock(&in.lock);
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 2;
    if (in.writes) pthread_timedjoin_np(in.writer, NULL, &until);
}

/* ---- start and end ---- */

static void put_counter(void *ctx, const mba_trace_counter *c)
{
    (void)ctx;
    pthread_mutex_lock(&in.lock);
    if (!in.ended) mba_trace_counter_row(&in.out, c);
    pthread_mutex_unlock(&in.lock);
}

static void put_cost(void *ctx, const mba_trace_cost *c)
{
    (void)ctx;
    pthread_mutex_lock(&in.lock);
    if (!in.ended) mba_trace_cost_row(&in.out, c);
    pthread_mutex_unlock(&in.lock);
}

static void finish(void)
{
    if (getpid() != in.pid) return;
    end_writing();
    mba_activity_flush();
    mba_inject_count_end();
    pthread_mutex_lock(&in.lock);
    in.ended = true;
    mba_trace_end(&in.out, mba_activity_dropped());
    pthread_mutex_unlock(&in.lock);
}

/* A number of 0 or more from the environment; 0 if it is not set. */
static mba_status number(double *out, const char *name)
{
    const char *text = getenv(name);
    char       *end = NULL;
    *out = 0;
    if (!text) return MBA_OK;
    *out = strtod(text, &end);
    if (end != text && !*end && *out >= 0 && *out < 9e15) return MBA_OK;
    return mba_fail(MBA_E_ARG, "%s=%s is no number\nfix: let mambascope profile set it", name, text);
}

static mba_status start_recording(void)
{
    const char *sets = getenv("MAMBASCOPE_SETS");
    double      launches, steps, limit;
    in.began_s = mba_clock_s();
    MBA_TRY(number(&in.skip_s, "MAMBASCOPE_SKIP_SECONDS"));
    MBA_TRY(number(&launches, "MAMBASCOPE_SKIP_LAUNCHES"));
    MBA_TRY(number(&steps, "MAMBASCOPE_SKIP_STEPS"));
    MBA_TRY(number(&limit, "MAMBASCOPE_LAUNCHES"));
    in.skip_launches = (int64_t)launches;
    in.skip_steps = (int64_t)steps;
    in.limit = (int64_t)limit;
    in.range = getenv("MAMBASCOPE_RANGE");
    in.counting = sets && *sets;
    const int64_t group = in.limit ? in.limit : COUNTED_LAUNCHES;
    if (in.counting && !in.limit) in.limit = TIMELINE_LAUNCHES;
    in.selective = in.skip_s > 0 || in.skip_launches || in.range || in.limit;
    if (in.counting) mba_inject_count_begin(sets, group, put_counter, put_cost, NULL);
    const mba_status seen = mba_launches_begin(in.selective ? on_launch : NULL, in.range ? on_range : NULL,
                                               on_short_of_memory, NULL);
    if (in.selective) MBA_TRY(seen);
    else if (seen != MBA_OK) write_note("memory"); // the timeline needs no launches
    mba_activity_small_buffers();
    MBA_TRY(mba_activity_begin(on_event, NULL));
    begin_writing();
    return MBA_OK;
}

/* A privileged program (set-uid, capabilities) must not write to a path from its caller's environment. */
static bool is_privileged(void) { return getauxval(AT_SECURE) != 0; }

__attribute__((visibility("default"))) int InitializeInjection(void);
__attribute__((visibility("default"))) int InitializeInjectionNvtx2(void *tables);

/* NVTX loads this library too; we forward it to CUPTI. 0: NVTX continues without a listener. */
int InitializeInjectionNvtx2(void *tables)
{
    int (*start)(void *) = NULL;
    static const mba_library_name names[] = { { "InitializeInjectionNvtx2", 0 }, { NULL, 0 } };
    return !is_privileged() && mba_library_open(mba_cupti_file(), names, &start) == MBA_OK ? start(tables) : 0;
}

/* Called by the driver when it starts. Always returns 1, success: errors become notes. */
int InitializeInjection(void)
{
    const char *path = getenv("MAMBASCOPE_TRACE");
    if (!path || is_privileged()) return 1;
    if (mba_trace_create(&in.out, path) != MBA_OK) return 1; // it exists: another process is recorded
    in.pid = getpid();
    if (start_recording() != MBA_OK) write_note("injection");
    atexit(finish);
    return 1;
}
