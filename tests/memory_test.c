// SPDX-License-Identifier: Apache-2.0
/* memory_test.c -- a step of ours allocates nothing, and a run takes what its plan says. */
#include "tests/test.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/check.h"
#include "core/device.h"
#include "tests/machines.h"
#include "train/feed.h"
#include "train/session.h"

static _Atomic long allocations;

/* The linker sends the calls of our own objects here (CMakeLists.txt: --wrap); libraries keep theirs. */
void *__real_malloc(size_t n), *__real_calloc(size_t k, size_t n), *__real_realloc(void *p, size_t n);
void *__wrap_malloc(size_t n), *__wrap_calloc(size_t k, size_t n), *__wrap_realloc(void *p, size_t n);
void *__wrap_malloc(size_t n)
{
    allocations++;
    return __real_malloc(n);
}
void *__wrap_calloc(size_t k, size_t n)
{
    allocations++;
    return __real_calloc(k, n);
}
void *__wrap_realloc(void *p, size_t n)
{
    allocations++;
    return __real_realloc(p, n);
}

static mba_session_options options(const char *name, int64_t length)
{
    mba_session_options o = {
        .model.lm = *mba_lm_preset(name), .backward = true, .update = true, .adamw = mba_adamw_defaults()
    };
    o.model.lm.batch = 1;
    o.model.lm.length = length;
    return o;
}

static void no_step_allocates(const mba_device *d, mba_dtype compute)
{
    static const char *const name[] = { "mamba-130m", "mamba2-130m", "hybrid-130m", "hybrid-j-370m" };
    void *volatile counted = malloc(1); // volatile: the compiler may not leave it out
    free(counted);
    assert_true(allocations > 0); // they are counted at all
    for (int i = 0; i < 4; i++) {
        mba_session         s = { 0 };
        mba_session_options o = options(name[i], 64);
        o.device = d;
        o.compute = compute;
        mba_step step = { .seed = 1, .lr = 1e-4f };
        assert_ok(mba_lm_set(&o.model.lm, "vocab=300,width=128,heads=4,head_dim=64,inner=256,q_heads=2,"
                                          "kv_heads=1,attn_dim=64,mlp=128"));
        assert_ok(mba_session_plan(&s, &o));
        assert_ok(mba_session_bind(&s, 1));
        mba_fill_inputs(s.program);
        // threads, library handles, the captured graph
        for (; step.index < 2; step.index++) assert_ok(mba_program_run(s.program, MBA_STEP, &step, NULL));
        if (d && d->wait) assert_ok(d->wait());
        const long   before = allocations;
        const size_t left = d && d->left ? d->left() : 0;
        for (; step.index < 6; step.index++) assert_ok(mba_program_run(s.program, MBA_STEP, &step, NULL));
        if (d && d->wait) assert_ok(d->wait());
        assert_true(!d || !d->left || d->left() == left);
        assert_int_equal(allocations - before, 0);
        mba_session_end(&s);
    }
}

static void a_step_allocates_nothing(void **state)
{
    (void)state;
    no_step_allocates(NULL, MBA_F32);
}

static void a_step_allocates_nothing_on_the_gpu(void **state)
{
    (void)state;
    const mba_device *d;
    if (mba_device_cuda(&d, 0) != MBA_OK) skip();
    no_step_allocates(d, MBA_BF16);
}

/* Ragged batches of graphs and batches of images too: choosing and binding them takes no memory either. */
static void a_step_of_images_or_graphs_allocates_nothing(void **state)
{
    (void)state;
    static const struct {
        const char     *name, *set;
        mba_batch_shape shape;
    } table[] = {
        { "mambavision-t",
          "dim=8,in_dim=8,depths=1:1:2:2,heads=1:1:2:4,windows=0:0:2:1,image=32,classes=10",
          { .batch = 4 } },
        { "graphmamba-peptides-func", "layers=2,width=16,pe_count=4,pe_width=4", { .graphs = 6 } },
        { "graphmamba-cluster", "layers=2,width=16,pe_count=0,pe_width=0,buckets=3", { .graphs = 3 } },
    };
    for (int i = 0; i < 3; i++) {
        mba_session         s = { 0 };
        mba_session_options o = { .backward = true, .update = true, .adamw = mba_adamw_defaults(), .ema = 0.9 };
        mba_step            step = { .seed = 1, .lr = 1e-4f };
        mba_feed           *f;
        long                before = 0;
        assert_ok(mba_model_preset(&o.model, table[i].name));
        assert_ok(mba_model_set(&o.model, table[i].set));
        assert_ok(mba_model_shape(&o.model, &table[i].shape));
        assert_ok(mba_session_plan(&s, &o));
        assert_ok(mba_session_bind(&s, 1));
        assert_ok(
            mba_feed_open(&f, &s.model, &(mba_feed_options){ .seed = 1, .smoothing = -1, .mixup = -1, .cutmix = -1 }));
        for (; step.index < 12; step.index++) {
            if (step.index == 6) before = allocations; // threads and buffers are there
            assert_ok(mba_feed_stage(f, &step));
            assert_ok(mba_feed_bind(f, &s, 0, &step));
            assert_ok(mba_program_run(s.program, MBA_STEP, &step, NULL));
        }
        assert_int_equal(allocations - before, 0);
        mba_feed_close(f);
        mba_session_end(&s);
    }
}

/* On a GPU the batch of the next step comes while this one runs, into memory of its own: the plan has it. */
static void a_plan_counts_the_inputs_of_the_next_run(void **state)
{
    (void)state;
    const mba_device gpu = { .name = "planned", .machine = &machines[1] };
    for (int update = 0; update < 2; update++) {
        mba_session         s = { 0 };
        mba_session_options o = {
            .device = &gpu, .compute = MBA_BF16, .backward = true, .update = update, .adamw = mba_adamw_defaults()
        };
        size_t arenas = 0;
        assert_ok(mba_model_preset(&o.model, "mambavision-t"));
        assert_ok(mba_model_shape(&o.model, &(mba_batch_shape){ .batch = 4 }));
        assert_ok(mba_session_plan(&s, &o));
        for (int r = 0; r < MBA_ROLES; r++) arenas += s.program->layout.arena_bytes[r];
        const size_t images = 4 * 3 * 224 * 224 * (update ? sizeof(float) : 0);
        assert_true(mba_program_ahead_bytes(s.program) >= images && mba_program_bytes(s.program) >= arenas + images);
        assert_int_equal(mba_program_bytes(s.program), arenas + mba_program_ahead_bytes(s.program));
        assert_int_equal(mba_program_ahead_bytes(s.program), update ? s.program->layout.arena_bytes[MBA_INPUT] : 0);
        mba_session_end(&s);
    }
}

/* In a process of its own: the resident memory that a session adds to that of a small one. */
static long peak_kb(const char *name, int64_t length)
{
    int pipe_to[2];
    assert_int_equal(pipe(pipe_to), 0);
    const pid_t child = fork();
    if (child == 0) {
        mba_session         s = { 0 };
        mba_session_options o = options(name, length);
        const mba_step      step = { .seed = 1, .lr = 1e-4f };
        struct rusage       use;
        long                kb[2] = { -1, 0 };
        if (mba_lm_set(&o.model.lm, length < 32 ? "vocab=300,layers=1" : "vocab=4096,layers=6") == MBA_OK
            && mba_session_plan(&s, &o) == MBA_OK && mba_session_bind(&s, 1) == MBA_OK) {
            mba_fill_inputs(s.program);
            if (mba_program_run(s.program, MBA_STEP, &step, NULL) == MBA_OK && getrusage(RUSAGE_SELF, &use) == 0) {
                kb[0] = use.ru_maxrss;
                kb[1] = (long)(mba_program_bytes(s.program) / 1024);
            }
        }
        _exit(write(pipe_to[1], kb, sizeof kb) == sizeof kb ? 0 : 1);
    }
    long kb[2] = { -1, 0 };
    assert_int_equal(read(pipe_to[0], kb, sizeof kb), sizeof kb);
    close(pipe_to[0]);
    close(pipe_to[1]);
    waitpid(child, NULL, 0);
    assert_true(kb[0] > 0);
    printf("    %s, length %lld: peak %ld kB, plan %ld kB\n", name, (long long)length, kb[0], kb[1]);
    return kb[0] - kb[1];
}

/* What the binary itself takes is what a tiny session leaves over its own plan. */
static void peak_memory_is_the_plan(void **state)
{
    (void)state;
    if (getenv("MBA_TEST_SANITIZED")) skip();
    static const char *const name[] = { "mamba-130m", "mamba2-130m" };
    for (int i = 0; i < 2; i++) {
        const long          own = peak_kb(name[i], 4), more = peak_kb(name[i], 1024) - own;
        mba_session         s = { 0 };
        mba_session_options o = options(name[i], 1024);
        assert_ok(mba_lm_set(&o.model.lm, "vocab=4096,layers=6"));
        assert_ok(mba_session_plan(&s, &o));
        const double plan_kb = (double)mba_program_bytes(s.program) / 1024;
        mba_session_end(&s);
        printf("    %s: %+.2f %% of the plan beyond the binary's own %ld kB\n", name[i], 100 * (double)more / plan_kb,
               own);
        assert_true(fabs((double)more) <= 0.05 * plan_kb);
    }
}

static size_t first_byte(const mba_program *p, const mba_tensor *t)
{
    return p->layout.offset[t->st->id] + (size_t)t->offset * mba_dtype_bytes(t->st->dtype);
}

/* Activations that lie in the memory of gradients are dead when these are made, and lie beside each other while they
 * live. */
static int lent(const mba_program *p)
{
    const mba_graph       *g = p->graph;
    const mba_memory_plan *lay = &p->layout;
    int                    n = 0;
    for (int32_t s = 0; s < g->nstorages; s++) {
        const size_t from = lay->offset[s];
        const size_t to = from + (size_t)g->storages[s]->elems * mba_dtype_bytes(g->storages[s]->dtype);
        if (g->storages[s]->role < MBA_ACT || lay->first[s] < 0 || lay->arena[s] != MBA_GRAD) continue;
        n++;
        assert_true(to <= lay->arena_bytes[MBA_GRAD]);
        for (int32_t i = 0; i <= lay->last[s]; i++)
            for (int k = 0; k < MBA_OUT_MAX; k++) {
                const mba_tensor *t = g->nodes[i]->out[k];
                if (!t || t->st->role != MBA_GRAD) continue;
                const int64_t elems = (mba_elems(t) / t->run - 1) * t->pitch + t->run;
                const size_t  end = first_byte(p, t) + (size_t)elems * mba_dtype_bytes(t->st->dtype);
                assert_true(end <= from || to <= first_byte(p, t));
            }
        // one that takes over memory in place begins where the other ends
        for (int32_t j = 0; j < s; j++) {
            const size_t at = lay->offset[j];
            const size_t end = at + (size_t)g->storages[j]->elems * mba_dtype_bytes(g->storages[j]->dtype);
            if (lay->first[j] < 0 || lay->arena[j] != MBA_GRAD || g->storages[j]->role < MBA_ACT) continue;
            assert_true(end <= from || to <= at || lay->last[j] <= lay->first[s] || lay->last[s] <= lay->first[j]);
        }
    }
    return n;
}

static void gradients_lend_their_memory(void **state)
{
    (void)state;
    static const char *const name[] = { "mamba-130m", "mamba2-130m", "hybrid-130m", "hybrid-j-370m" };
    for (int i = 0; i < 4; i++) {
        size_t bytes[2];
        for (int accumulate = 0; accumulate < 2; accumulate++) {
            mba_session         s = { 0 };
            mba_session_options o = options(name[i], 256);
            o.accumulate = accumulate;
            o.memory_bytes = INT64_MAX;
            assert_ok(mba_session_plan(&s, &o));
            bytes[accumulate] = mba_program_bytes(s.program);
            const int n = lent(s.program);
            // several micro-batches: gradients are added to what is there
            assert_true(accumulate ? n == 0 : n > 0);
            mba_session_end(&s);
        }
        printf("    %s: %.0f MB, %.0f MB with several micro-batches\n", name[i], (double)bytes[0] / 1e6,
               (double)bytes[1] / 1e6);
        assert_true(bytes[0] < bytes[1]);
    }
}

/* A limit between keeping all that gradients could make again and keeping nothing: node by node, as much as fits. */
static void a_plan_keeps_what_fits(void **state)
{
    (void)state;
    mba_session         s = { 0 };
    mba_session_options o = options("mamba2-130m", 1024);
    o.memory_bytes = INT64_MAX;
    assert_ok(mba_session_plan(&s, &o));
    const int64_t most = (int64_t)mba_program_bytes(s.program), all = s.graph->kept[MBA_RECOMPUTED_ROWS];
    assert_true(all > 0 && s.graph->recomputed_bytes[MBA_RECOMPUTED_ROWS] == 0);
    const int64_t one = all / s.model.lm.layers;
    for (int part = 1; part < 4; part++) {
        o.memory_bytes = most - all * part / 4;
        assert_ok(mba_session_plan(&s, &o));
        const int64_t bytes = (int64_t)mba_program_bytes(s.program);
        assert_true(bytes <= o.memory_bytes && bytes > o.memory_bytes - 2 * one);
        assert_true(s.graph->kept[MBA_RECOMPUTED_ROWS] > 0 && s.graph->recomputed_bytes[MBA_RECOMPUTED_ROWS] > 0
                    && !s.recomputes);
    }
    mba_session_end(&s);
}

/* peak_kb comes first: OpenMP's threads do not survive a fork. */
MBA_TEST_MAIN(cmocka_unit_test(peak_memory_is_the_plan), cmocka_unit_test(a_step_allocates_nothing),
              cmocka_unit_test(a_plan_counts_the_inputs_of_the_next_run),
              cmocka_unit_test(a_step_allocates_nothing_on_the_gpu),
              cmocka_unit_test(a_step_of_images_or_graphs_allocates_nothing),
              cmocka_unit_test(gradients_lend_their_memory), cmocka_unit_test(a_plan_keeps_what_fits))
