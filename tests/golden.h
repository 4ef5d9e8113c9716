// SPDX-License-Identifier: Apache-2.0
/* golden.h -- a directory of golden values (tools/golden/README.md) against a graph that was built for it.
 *
 *     golden o = { .dir = "tests/golden_vision/drop", .pieces = golden_same_name };
 *     golden_open(&o);                                     // expected.json
 *     .. build into o.g ..
 *     golden_bind(&o, loss);                               // backward pass, program, weights of the file
 *     .. fill the inputs, run o.p ..
 *     golden_outputs(&o, "logits.npy", true);
 *     golden_gradients(&o);
 *     golden_statistics(&o, 10);
 *     golden_close(&o);
 *
 * The bounds are those the project promises in fp32: the loss to 1e-5, logits and every gradient tensor with
 * ||a - b|| <= 1e-4 max(||b||, 1e-4 times the largest gradient norm). Gradients that are zero but for rounding
 * (`zero_gradients`: biases in front of a batch norm) have a norm of at most 1e-6 of the largest.
 *
 * MBA_TEST_DEVICE=cuda runs the same on a GPU, in fp32; what is promised there is 2e-4. */
#ifndef MBA_GOLDEN_H
#define MBA_GOLDEN_H

#include "core/program.h"
#include "data/json.h"
#include "data/npy.h"
#include "data/safetensors.h"
#include "tests/test.h"

enum { GOLDEN_PIECES = 12, GOLDEN_NAME = 120 };

/* A tensor of ours is one or several of the file, one behind the other. */
typedef struct golden_pieces {
    int  n;
    char name[GOLDEN_PIECES][GOLDEN_NAME];
} golden_pieces;

typedef struct golden golden;
struct golden {
    const char *dir;
    golden_pieces (*pieces)(const golden *o, const char *name);
    const void  *model; /* for `pieces` */
    mba_graph   *g;
    mba_program *p;
    json_t      *expected;
};

static inline const mba_device *golden_device(void)
{
    const mba_device *d = &mba_device_cpu;
    const char       *name = getenv("MBA_TEST_DEVICE");
    if (name && !strcmp(name, "cuda")) assert_ok(mba_device_cuda(&d, 0));
    return d;
}

static inline double golden_bound(void) { return golden_device() == &mba_device_cpu ? 1e-4 : 2e-4; }

static inline golden_pieces golden_same_name(const golden *o, const char *name)
{
    (void)o;
    golden_pieces p = { .n = 1 };
    snprintf(p.name[0], GOLDEN_NAME, "%s", name);
    return p;
}

static inline const char *golden_path(const golden *o, const char *name)
{
    static char path[4][300];
    static int  next;
    char       *to = path[next++ % 4];
    snprintf(to, sizeof path[0], "%s/%s", o->dir, name);
    return to;
}

/* The numbers of an array; the caller frees them. */
static inline double *golden_numbers(const mba_array *a)
{
    double *x = malloc(sizeof *x * (size_t)(a->elems + 1));
    assert_non_null(x);
    assert_ok(mba_array_read_f64(a, x, a->elems));
    return x;
}

/* A whole .npy file of `elems` numbers; the caller frees them. */
static inline double *golden_array(const golden *o, const char *name, int64_t elems)
{
    mba_npy *f;
    assert_ok(mba_npy_open(&f, golden_path(o, name)));
    assert_int_equal(mba_npy_array(f)->elems, elems);
    double *x = golden_numbers(mba_npy_array(f));
    mba_npy_close(f);
    return x;
}

static inline double golden_norm(const mba_array *a)
{
    double *x = golden_numbers(a), s = 0;
    for (int64_t i = 0; i < a->elems; i++) s += x[i] * x[i];
    free(x);
    return sqrt(s);
}

/* ||have - want|| */
static inline double golden_distance(const mba_array *want, const float *have)
{
    double *x = golden_numbers(want), s = 0;
    for (int64_t i = 0; i < want->elems; i++) s += pow((double)have[i] - x[i], 2);
    free(x);
    return sqrt(s);
}

static inline void golden_open(golden *o)
{
    assert_ok(mba_json_load(&o->expected, golden_path(o, "expected.json"), NULL));
    assert_ok(mba_graph_create(&o->g));
}

static inline void golden_close(golden *o)
{
    json_decref(o->expected);
    mba_program_destroy(o->p);
    mba_graph_destroy(o->g);
}

/* Parameters and running statistics of the file. */
static inline void golden_weights(const golden *o)
{
    mba_safetensors *f;
    assert_ok(mba_safetensors_open(&f, golden_path(o, "model.safetensors")));
    assert_ok(mba_program_pull(o->p));
    for (int32_t k = 0; k < o->g->ntensors; k++) {
        const mba_tensor *t = o->g->tensors[k];
        if (!mba_is_param(t) && !mba_is_state(t)) continue;
        const golden_pieces p = o->pieces(o, t->name);
        float              *to = mba_program_host(o->p, t), *end = to + mba_elems(t);
        for (int i = 0; i < p.n; i++) {
            const mba_array *a = mba_safetensors_find(f, p.name[i]);
            if (!a) print_error("no %s, which is in %s\n", p.name[i], t->name);
            assert_non_null(a);
            assert_true(a->elems <= end - to);
            assert_ok(mba_array_read_f32(a, to, a->elems));
            to += a->elems;
        }
        assert_ptr_equal(to, end);
    }
    assert_ok(mba_program_push(o->p));
    mba_safetensors_close(f);
}

/* Without a loss there is no backward pass. */
static inline void golden_bind(golden *o, mba_tensor *loss)
{
    static const mba_machine host = { .name = "host" };
    const mba_device        *d = golden_device();
    const mba_machine       *m = d == &mba_device_cpu ? &host : d->machine;
    assert_ok(mba_graph_status(o->g));
    if (loss) assert_ok(mba_backward(o->g, loss));
    assert_ok(mba_program_create(&o->p, o->g, &(mba_program_options){ .cuda = m->cc > 0, .machine = m }));
    assert_ok(mba_program_bind(o->p, d));
    assert_ok(mba_program_init(o->p, 1));
    golden_weights(o);
}

static inline mba_tensor *golden_tensor(const golden *o, const char *name)
{
    mba_tensor *t = mba_graph_find(o->g, name);
    if (!t) print_error("the graph has no %s\n", name);
    assert_non_null(t);
    return t;
}

/* Inputs, for the test to write. */
static inline float *golden_reals(const golden *o, const char *name)
{
    return mba_program_host(o->p, golden_tensor(o, name));
}

static inline int32_t *golden_indices(const golden *o, const char *name)
{
    return mba_program_host(o->p, golden_tensor(o, name));
}

/* Numbers that a run has made, wherever they lie; the caller frees them. */
static inline float *golden_made(const golden *o, const char *name)
{
    const mba_tensor *t = golden_tensor(o, name);
    float            *x = malloc(sizeof *x * (size_t)mba_elems(t));
    assert_non_null(x);
    assert_ok(mba_program_get(o->p, t, x));
    return x;
}

/* The first rows of "logits", as many as the file has, and the loss. */
static inline void golden_outputs(const golden *o, const char *file, bool loss)
{
    mba_npy *f;
    assert_ok(mba_npy_open(&f, golden_path(o, file)));
    const mba_array *want = mba_npy_array(f);
    assert_true(want->elems <= mba_elems(golden_tensor(o, "logits")));
    float       *logits = golden_made(o, "logits"), *made = loss ? golden_made(o, "loss") : NULL;
    const double e = golden_distance(want, logits) / golden_norm(want);
    const double should = json_real_value(json_object_get(o->expected, "loss"));
    const double off = loss ? fabs((double)*made - should) : 0;
    free(logits);
    free(made);
    mba_npy_close(f);
    printf("    %s: %s %.1e, loss %.1e\n", o->dir, file, e, off);
    assert_true(e <= golden_bound());
    assert_true(off <= 1e-5);
}

static inline bool golden_is_zero(const golden *o, const char *name)
{
    size_t  i;
    json_t *entry;
    json_array_foreach(json_object_get(o->expected, "zero_gradients"), i,
                       entry) if (!strcmp(json_string_value(entry), name)) return true;
    return false;
}

static inline double golden_largest(const mba_safetensors *f)
{
    double most = 0;
    for (int64_t i = 0; i < mba_safetensors_count(f); i++) most = fmax(most, golden_norm(mba_safetensors_at(f, i)));
    return most;
}

static inline void golden_gradients(const golden *o)
{
    mba_safetensors *f;
    double           worst = 0, zero = 0;
    int64_t          seen = 0;
    assert_ok(mba_safetensors_open(&f, golden_path(o, "grads.safetensors")));
    const double most = golden_largest(f), bound = golden_bound();
    assert_ok(mba_program_pull(o->p));
    for (int32_t k = 0; k < o->g->ntensors; k++) {
        const mba_tensor *t = o->g->tensors[k];
        if (!mba_is_param(t)) continue;
        const golden_pieces p = o->pieces(o, t->name);
        const float        *have = mba_program_host_counterpart(o->p, t->st->grad, t);
        for (int i = 0; i < p.n; i++, seen++) {
            const mba_array *a = mba_safetensors_find(f, p.name[i]);
            assert_non_null(a);
            const bool   none = golden_is_zero(o, p.name[i]);
            const double d = golden_distance(a, have), e = none ? d / most : d / fmax(golden_norm(a), 1e-4 * most);
            if (!(e <= (none ? 1e-6 : bound))) print_error("%s is off by %.2e\n", p.name[i], e);
            if (none ? !(e <= zero) : !(e <= worst)) *(none ? &zero : &worst) = e;
            have += a->elems;
        }
    }
    assert_int_equal(seen, mba_safetensors_count(f));
    mba_safetensors_close(f);
    printf("    %s: %lld gradients, worst %.1e, zero ones within %.1e of the largest\n", o->dir, (long long)seen, worst,
           zero);
    assert_true(worst <= bound);
    assert_true(zero <= 1e-6);
}

/* A training step has moved the running statistics as PyTorch's does. */
static inline void golden_statistics(const golden *o, int at_least)
{
    mba_safetensors *f;
    double           worst = 0;
    int              n = 0;
    assert_ok(mba_safetensors_open(&f, golden_path(o, "stats.safetensors")));
    assert_ok(mba_program_pull(o->p));
    for (int32_t k = 0; k < o->g->ntensors; k++) {
        const mba_tensor *t = o->g->tensors[k];
        if (!mba_is_state(t)) continue;
        const golden_pieces p = o->pieces(o, t->name);
        const mba_array    *a = mba_safetensors_find(f, p.name[0]);
        assert_non_null(a);
        const double e = golden_distance(a, mba_program_host(o->p, t)) / fmax(golden_norm(a), 1e-3);
        if (!(e <= worst)) worst = e;
        n++;
    }
    mba_safetensors_close(f);
    printf("    %s: %d running statistics within %.1e\n", o->dir, n, worst);
    assert_true(n >= at_least);
    assert_true(worst <= 1e-5);
}

#endif
