// SPDX-License-Identifier: Apache-2.0
/* block.c -- see block.h. Fibers begin by makecontext and change by setjmp, which saves no signal mask and is ten times
 * faster than swapcontext. */
#undef _FORTIFY_SOURCE // its longjmp refuses to change stacks
#include "tests/cuda_on_cpu/block.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

enum {
    STACK_BYTES = 192 << 10,
    GUARD_BYTES = 64 << 10, /* of it, never touched; a page of any machine */
    SHARED_BYTES = 256 << 10,
    SHARED_BASE = 1024, /* address of the first byte: 0 is none */
    GAP_BYTES = 256,    /* between the launch's memory and the variables of the kernel, never written */
    POISON = 0xff,      /* NaN in every float type; -1 */
    BARRIERS = 16,
    POLLS_MAX = 1 << 24,
    WARPS = EMULATED_THREADS / EMULATED_WARP
};

typedef struct fiber {
    emulated_thread t; /* first: emulated_now points to it */
    jmp_buf         at;
    ucontext_t      begin;
    char           *stack;
    bool            begun, ended;
    const char     *waits; /* for what; NULL: it runs or is ready */
} fiber;

typedef struct warp {
    void             *argument[EMULATED_WARP];
    emulated_meeting *fn[EMULATED_WARP];
    unsigned          mask[EMULATED_WARP], arrived, alive;
} warp;

typedef struct barrier {
    int arrived, threads, nwaiting, waiting[EMULATED_THREADS];
} barrier;

emulated_thread *emulated_now;
emulated_index   gridDim, blockDim, blockIdx;
emulated_order   emulated_order_now;

static fiber fibers[EMULATED_THREADS];
static struct {
    const char *kernel;
    void (*body)(void *);
    void    *of;
    jmp_buf  back; /* to emulated_run */
    int      threads, alive;
    uint64_t number; /* of this block among all */
    size_t   smem_bytes, used;
    unsigned ready[WARPS], ready_warps; /* a bit per thread, and per warp with any */
    int      polling[EMULATED_THREADS], first, npolling, polls;
    warp     warps[WARPS];
    barrier  barriers[BARRIERS];
} b;
static char *memory; /* the shared memory */
static struct {
    const char *name;
    int         times;
} launched[1024];

static void count_launch(const char *kernel)
{
    int k = 0;
    while (k < 1023 && launched[k].name && strcmp(launched[k].name, kernel)) k++;
    launched[k].name = kernel;
    launched[k].times++;
}

void emulated_list(void)
{
    for (int k = 0; launched[k].name; k++) printf("    %6d launches of %s\n", launched[k].times, launched[k].name);
}

void emulated_fail(const char *format, ...)
{
    va_list rest;
    va_start(rest, format);
    printf("BAD kernel %s, block (%u, %u, %u)", b.kernel, blockIdx.x, blockIdx.y, blockIdx.z);
    if (emulated_now) printf(", thread %d", emulated_now->id);
    printf(": ");
    vprintf(format, rest);
    printf("\n");
    va_end(rest);
    fflush(stdout);
    _Exit(1);
}

/* ---- fibers ---- */

static void make_ready(int id)
{
    fibers[id].waits = NULL;
    b.ready[id / EMULATED_WARP] |= 1u << id % EMULATED_WARP;
    b.ready_warps |= 1u << id / EMULATED_WARP;
}

static int first_of(unsigned bits)
{
    return emulated_order_now == FORWARD ? __builtin_ctz(bits) : 31 - __builtin_clz(bits);
}

/* The next thread to run. A warp runs as far ahead of the others as it can, which shows what they forgot to wait for;
 * threads that look again and again, in turn, when nobody else can run. -1: nobody. */
static int next_ready(void)
{
    int id = -1;
    if (b.ready_warps) {
        const int w = first_of(b.ready_warps), lane = first_of(b.ready[w]);
        b.ready[w] &= ~(1u << lane);
        if (!b.ready[w]) b.ready_warps &= ~(1u << w);
        return EMULATED_WARP * w + lane;
    }
    if (b.npolling) {
        id = b.polling[b.first];
        b.first = (b.first + 1) % EMULATED_THREADS;
        b.npolling--;
    }
    return id;
}

/* Leaves the current fiber for the next that can run; back to emulated_run if none can. */
__attribute__((noreturn)) static void leave(void)
{
    const int id = next_ready();
    if (id < 0) longjmp(b.back, 1);
    fiber *f = &fibers[id];
    emulated_now = &f->t;
    if (f->begun) longjmp(f->at, 1);
    f->begun = true;
    setcontext(&f->begin);
    abort();
}

static void wait_for(const char *what)
{
    fiber *f = (fiber *)emulated_now;
    f->waits = what;
    if (!_setjmp(f->at)) leave();
}

void emulated_yield(void)
{
    fiber *f = (fiber *)emulated_now;
    if (++b.polls > POLLS_MAX) emulated_fail("threads look again and again at what nobody changes");
    b.polling[(b.first + b.npolling++) % EMULATED_THREADS] = f->t.id;
    if (!_setjmp(f->at)) leave();
}

static void open_if_complete(barrier *x, int threads)
{
    if (!x->nwaiting || x->arrived < threads) return;
    if (x->arrived > threads) emulated_fail("%d threads arrive at a barrier for %d", x->arrived, threads);
    for (int i = 0; i < x->nwaiting; i++) make_ready(x->waiting[i]);
    x->arrived = x->nwaiting = x->threads = 0;
}

static void fiber_main(void)
{
    fiber *f = (fiber *)emulated_now;
    for (;;) {
        b.body(b.of);
        if (f->t.ncopies) f->t.ncopies = 0; // nobody waited: nobody may read
        f->ended = true;
        b.alive--;
        b.warps[f->t.id / EMULATED_WARP].alive &= ~(1u << f->t.id % EMULATED_WARP);
        open_if_complete(&b.barriers[0], b.barriers[0].threads ? b.barriers[0].threads : b.alive);
        if (!_setjmp(f->at)) leave();
    }
}

static void create_fiber(fiber *f)
{
    f->stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (f->stack == MAP_FAILED || mprotect(f->stack, GUARD_BYTES, PROT_NONE)) emulated_fail("no memory for a stack");
    getcontext(&f->begin);
    f->begin.uc_stack.ss_sp = f->stack;
    f->begin.uc_stack.ss_size = STACK_BYTES;
    makecontext(&f->begin, fiber_main, 0);
}

/* ---- blocks ---- */

static void begin_block(void)
{
    b.number++;
    b.alive = b.threads;
    b.first = b.npolling = b.polls = 0;
    memset(memory, POISON, b.used + GAP_BYTES);
    b.used = (b.smem_bytes + GAP_BYTES + 127) / 128 * 128;
    memset(memory, POISON, b.used + GAP_BYTES);
    memset(b.warps, 0, sizeof b.warps);
    for (int i = 0; i < BARRIERS; i++) b.barriers[i].arrived = b.barriers[i].nwaiting = b.barriers[i].threads = 0;
    for (int id = 0; id < b.threads; id++) {
        fiber *f = &fibers[id];
        if (!f->stack) create_fiber(f);
        const unsigned u = (unsigned)id, x = blockDim.x, y = blockDim.y;
        f->t.index = (emulated_index){ u % x, u / x % y, u / x / y };
        f->t.id = id;
        f->t.ncopies = f->t.groups = 0;
        f->ended = false;
        b.warps[id / EMULATED_WARP].alive |= 1u << id % EMULATED_WARP;
        make_ready(id);
    }
}

static void end_block(void)
{
    emulated_now = NULL;
    for (int id = 0; id < b.threads && b.alive; id++)
        if (!fibers[id].ended) emulated_fail("%d threads wait forever, thread %d %s", b.alive, id, fibers[id].waits);
    for (size_t i = b.smem_bytes; i < b.smem_bytes + GAP_BYTES; i++)
        if ((unsigned char)memory[i] != POISON)
            emulated_fail("byte %zu of %zu of shared memory is written", i, b.smem_bytes);
}

void emulated_run(const char *kernel, emulated_index grid, emulated_index block, size_t smem_bytes,
                  void (*body)(void *), void *of)
{
    gridDim = grid;
    blockDim = block;
    b.kernel = kernel;
    b.body = body;
    b.of = of;
    b.threads = (int)(block.x * block.y * block.z);
    b.smem_bytes = smem_bytes;
    count_launch(kernel);
    if (!memory && posix_memalign((void **)&memory, SHARED_BASE, SHARED_BYTES)) emulated_fail("no memory");
    if (b.threads < 1 || b.threads > EMULATED_THREADS || smem_bytes > SHARED_BYTES - (32 << 10))
        emulated_fail("a block of %d threads and %zu bytes", b.threads, smem_bytes);
    for (unsigned z = 0; z < grid.z; z++)
        for (unsigned y = 0; y < grid.y; y++)
            for (unsigned x = 0; x < grid.x; x++) {
                blockIdx = (emulated_index){ x, y, z };
                begin_block();
                if (!_setjmp(b.back)) leave();
                end_block();
            }
}

/* ---- waiting ---- */

void emulated_meet(unsigned mask, emulated_meeting *fn, void *argument)
{
    const int lane = emulated_now->id % EMULATED_WARP;
    warp     *w = &b.warps[emulated_now->id / EMULATED_WARP];
    if (!(mask >> lane & 1)) emulated_fail("lane %d is not in its mask %08x", lane, mask);
    if (b.threads % EMULATED_WARP && emulated_now->id / EMULATED_WARP == b.threads / EMULATED_WARP)
        mask &= (1u << b.threads % EMULATED_WARP) - 1; // the last warp is not full
    w->argument[lane] = argument;
    w->fn[lane] = fn;
    w->mask[lane] = mask;
    w->arrived |= 1u << lane;
    if ((w->arrived & mask) != mask) {
        wait_for("for lanes of its warp");
        return;
    }
    for (int k = 0; k < EMULATED_WARP; k++)
        if (mask >> k & 1 && (w->fn[k] != fn || w->mask[k] != mask))
            emulated_fail("lanes %d and %d meet in different instructions", lane, k);
    if (fn) fn(w->argument, mask);
    w->arrived &= ~mask;
    for (int k = 0; k < EMULATED_WARP; k++)
        if (mask >> k & 1 && k != lane) make_ready(emulated_now->id - lane + k);
}

void emulated_barrier(int number, int threads, bool wait)
{
    if (number < 0 || number >= BARRIERS) emulated_fail("barrier %d", number);
    barrier *x = &b.barriers[number];
    if (x->arrived && x->threads != threads) emulated_fail("barrier %d of %d and %d", number, x->threads, threads);
    x->threads = threads;
    x->arrived++;
    if (wait) x->waiting[x->nwaiting++] = emulated_now->id;
    if (wait && x->arrived < (threads ? threads : b.alive)) {
        static const char *const names[BARRIERS] = { "at __syncthreads", "at barrier 1", "at barrier 2",
                                                     "at barrier 3",     "at barrier 4", "at barrier 5" };
        wait_for(names[number] ? names[number] : "at a barrier");
        return;
    }
    if (wait) x->nwaiting--; // this thread goes on
    const int all = threads ? threads : b.alive;
    if (x->arrived == all && !x->nwaiting) x->arrived = x->threads = 0;
    open_if_complete(x, all);
}

/* ---- shared memory ---- */

void *emulated_shared(emulated_place *p, size_t bytes)
{
    if (p->block != b.number) {
        p->block = b.number;
        p->at = memory + b.used;
        b.used = (b.used + bytes + 127) / 128 * 128;
        if (b.used > SHARED_BYTES - GAP_BYTES) emulated_fail("%zu bytes of shared memory", b.used);
        memset(p->at, POISON, bytes);
    }
    return p->at;
}

void *emulated_dynamic(void) { return memory; }

uint32_t emulated_address(const void *at)
{
    const ptrdiff_t offset = (const char *)at - memory;
    if (offset < 0 || offset > SHARED_BYTES) emulated_fail("a pointer that is not to shared memory");
    return SHARED_BASE + (uint32_t)offset;
}

void *emulated_at_address(uint32_t address)
{
    if (address < SHARED_BASE || address - SHARED_BASE >= b.used) emulated_fail("shared address %u", address);
    return memory + (address - SHARED_BASE);
}

static void arrive(const emulated_copy *c)
{
    memcpy(c->to, c->from, (size_t)c->read);
    memset((char *)c->to + c->read, 0, (size_t)(c->bytes - c->read));
}

void emulated_copy_async(void *to, const void *from, int bytes, int read)
{
    emulated_thread *t = emulated_now;
    if (((uintptr_t)to | (read ? (uintptr_t)from : 0)) % (size_t)bytes) emulated_fail("cp.async is not aligned");
    if (t->ncopies == EMULATED_COPIES) emulated_fail("more than %d cp.async are in flight", EMULATED_COPIES);
    const emulated_copy c = { to, from, bytes, read, t->groups };
    if (emulated_order_now == REVERSE) arrive(&c);
    else t->copy[t->ncopies++] = c;
}

void emulated_copy_wait(int newer)
{
    emulated_thread *t = emulated_now;
    int              kept = 0;
    for (int i = 0; i < t->ncopies; i++)
        if (t->copy[i].group < t->groups - newer) arrive(&t->copy[i]);
        else t->copy[kept++] = t->copy[i];
    t->ncopies = kept;
}
