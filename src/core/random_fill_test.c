// SPDX-License-Identifier: Apache-2.0
/* random_fill_test.c -- blocks of random numbers have the bits of those that the C library computes one by one, and
 * parameters are initialised with them on every device. */
#include "core/random_fill.h"

#include <string.h>

#include "core/rng.h"
#include "ops/relu2/relu2.h"
#include "tests/rig.h"

enum { N = 1 << 20 };
static float x[N];

typedef void   many_fn(float *x, int64_t from, int64_t n, double a, uint64_t key);
typedef double one_fn(double a, uint64_t key, int64_t i);

/* Compares also far from the start, in partial blocks, at the scale of weights and at 1. */
static void compare(many_fn *many, one_fn *one)
{
    static const struct {
        int64_t  from, n;
        double   a;
        uint64_t key;
    } of[] = {
        { 0, N, 0.02, 77 }, { 123456789012, N / 4 + 3, 1, 0x123456789abcdefu }, { 5, 1, 1e-3, 3 }, { 255, 258, 0.1, 9 }
    };
    for (size_t c = 0; c < sizeof of / sizeof *of; c++) {
        many(x, of[c].from, of[c].n, of[c].a, of[c].key);
        for (int64_t i = 0; i < of[c].n; i++) {
            const float want = (float)one(of[c].a, of[c].key, of[c].from + i);
            if (memcmp(&x[i], &want, sizeof want))
                fail_msg("case %zu, number %lld: %.9g instead of %.9g", c, (long long)i, (double)x[i], (double)want);
        }
    }
}

static void normals_are_the_librarys(void **state)
{
    (void)state;
    compare(mba_normals, mba_normal);
}

static void uniforms_are_those_made_one_by_one(void **state)
{
    (void)state;
    compare(mba_uniforms, mba_uniform);
}

static void zero_has_no_scale(void **state)
{
    (void)state;
    mba_normals(x, 0, 300, 0, 1);
    for (int i = 0; i < 300; i++) assert_true(x[i] == 0);
}

/* ---- initial values ---- */

enum { SEED = 11, BUFFER = 1 << 23, SMALL = 6 * 7 }; /* BUFFER: values that are copied to a device at a time */

/* The CPU as a device that needs copies: which calls fail, and which were made. */
static struct {
    int    taken, given, puts, waits, put_fails, wait_fails;
    bool   no_host;
    size_t bytes;
} far;

static mba_status far_take_host(void **out, size_t bytes)
{
    if (far.no_host) return mba_fail(MBA_E_NOMEM, "no memory of the host");
    far.taken++;
    far.bytes = bytes;
    *out = malloc(bytes);
    return *out ? MBA_OK : mba_fail(MBA_E_NOMEM, "no memory");
}

static void far_give_host(void *p)
{
    far.given += p != NULL;
    free(p);
}

static mba_status far_put(void *device, const void *host, size_t bytes)
{
    if (++far.puts == far.put_fails) return mba_fail(MBA_E_DEVICE, "the copy failed");
    memcpy(device, host, bytes);
    return MBA_OK;
}

static mba_status far_wait(void)
{
    return ++far.waits == far.wait_fails ? mba_fail(MBA_E_DEVICE, "the wait failed") : MBA_OK;
}

typedef struct started {
    mba_graph   *g;
    mba_tensor  *t[8];
    int          n;
    mba_program *p;
    mba_device   device;
} started;

/* A parameter of every distribution, a state, and with `large` a parameter of several buffers. */
static void start(started *s, bool apart, bool large)
{
    static const mba_machine host = { .name = "host" };
    const mba_init           init[] = { MBA_INIT_CONST(3),           MBA_INIT_NORMAL(0.5), MBA_INIT_UNIFORM(0.25),
                                        MBA_INIT_LOG_UNIFORM(1, 16), MBA_INIT_LOG_INDEX(), MBA_INIT_STEP(1e-5, 0.1) };
    static const char *const name[] = { "constant", "normal", "uniform", "log_uniform", "log_index", "step" };
    *s = (started){ .g = graph(), .device = mba_device_cpu };
    for (int k = 0; k < 6; k++) s->t[s->n++] = mba_param(s->g, name[k], MBA_TYPE(MBA_F32, 6, 7), init[k], MBA_DECAY);
    s->t[s->n++] = mba_state_from(s->g, "state", MBA_TYPE(MBA_F32, 6, 7), MBA_INIT_UNIFORM(2));
    if (large)
        s->t[s->n++] = mba_param(s->g, "large", MBA_TYPE(MBA_F32, BUFFER + 5), MBA_INIT_UNIFORM(1), MBA_NO_DECAY);
    for (int k = 0; k < s->n; k++) mba_relu2(s->g, s->t[k]);
    if (apart) {
        s->device.alloc_host = far_take_host;
        s->device.dealloc_host = far_give_host;
        s->device.put = far_put;
        s->device.wait = far_wait;
    }
    assert_ok(mba_program_create(&s->p, s->g, &(mba_program_options){ .machine = &host }));
    assert_ok(mba_program_bind(s->p, &s->device));
    memset(&far, 0, sizeof far);
}

static void stop(started *s)
{
    mba_program_destroy(s->p);
    mba_graph_destroy(s->g);
}

static void same_values(const started *s)
{
    for (int k = 0; k < s->n; k++) {
        const float  *got = mba_program_at(s->p, s->t[k]);
        const int64_t n = mba_elems(s->t[k]);
        for (int64_t i = 0; i < n; i += i == SMALL && n > SMALL ? n - 2 * SMALL : 1) { // of a large one, both ends
            const float want = (float)mba_init_value(s->t[k], SEED, i);
            assert_memory_equal(&got[i], &want, sizeof want);
        }
    }
}

static void parameters_start_alike_on_every_device(void **state)
{
    (void)state;
    for (int apart = 0; apart < 2; apart++) {
        started s;
        start(&s, apart, true);
        assert_ok(mba_program_init(s.p, SEED));
        same_values(&s);
        assert_int_equal(far.taken, apart); // one buffer for all, freed at the end
        assert_int_equal(far.given, apart);
        assert_int_equal(far.puts, apart ? s.n + 1 : 0);
        assert_int_equal(far.waits, far.puts);
        assert_int_equal(far.bytes, apart ? 6 * (size_t)BUFFER : 0); // an fp32 and a bf16 of each number
        stop(&s);
    }
}

/* The definition of each distribution, from the first random word of the element. */
static void first_values_are_what_they_are_called(void **state)
{
    (void)state;
    started s;
    int     least = 0;
    start(&s, false, false);
    for (int64_t i = 0; i < SMALL; i++) {
        uint32_t u[2][4];
        for (int k = 0; k < 2; k++) mba_philox(u[k], SEED ^ mba_stream(k ? "step" : "log_uniform"), 0, (uint64_t)i);
        const double step = 1e-5 * pow(1e4, mba_unit(u[1][0])), bias = mba_init_value(s.t[5], SEED, i);
        assert_true(mba_init_value(s.t[0], SEED, i) == 3);
        assert_true((float)mba_init_value(s.t[3], SEED, i) == (float)log(1 + 15 * mba_unit(u[0][0])));
        assert_true(mba_init_value(s.t[4], SEED, i) == (float)log((double)(1 + i % 7)));
        assert_near(log1p(exp(bias)) / fmax(step, 1e-4), 1, 1e-5); // steps are at least 1e-4
        least += step < 1e-4;
    }
    assert_true(least > 0 && least < SMALL);
    stop(&s);
}

/* Every failure is returned, and the buffer is freed. */
static void a_device_that_fails_is_told(void **state)
{
    (void)state;
    started s;
    start(&s, true, false);
    for (int k = 1; k <= s.n; k++)
        for (int wait = 0; wait < 2; wait++) {
            memset(&far, 0, sizeof far);
            *(wait ? &far.wait_fails : &far.put_fails) = k;
            assert_fails(mba_program_init(s.p, SEED), MBA_E_DEVICE, wait ? "the wait failed" : "the copy failed");
            assert_true(far.puts == k && far.waits == k - !wait && far.taken == 1 && far.given == 1);
        }
    memset(&far, 0, sizeof far);
    far.no_host = true;
    assert_fails(mba_program_init(s.p, SEED), MBA_E_NOMEM, "no memory of the host");
    far.no_host = false;
    assert_ok(mba_program_init(s.p, SEED));
    same_values(&s);
    assert_int_equal(far.bytes, 6 * SMALL);
    stop(&s);
}

/* The compute copy is rounded from the values of the master. */
static void a_compute_copy_starts_rounded(void **state)
{
    (void)state;
    static const mba_machine host = { .name = "host" };
    mba_graph               *g = graph();
    mba_tensor              *copy = mba_param(g, "w", MBA_TYPE(MBA_BF16, 6, 7), MBA_INIT_NORMAL(1), MBA_DECAY);
    mba_tensor              *w = mba_master(g, copy);
    mba_device               device = mba_device_cpu;
    mba_program             *p;
    device.alloc_host = far_take_host;
    device.dealloc_host = far_give_host;
    device.put = far_put;
    device.wait = far_wait;
    mba_relu2(g, copy);
    assert_ok(mba_program_create(&p, g, &(mba_program_options){ .machine = &host }));
    assert_ok(mba_program_bind(p, &device));
    memset(&far, 0, sizeof far);
    far.put_fails = 1;
    assert_fails(mba_program_init(p, SEED), MBA_E_DEVICE, "the copy failed");
    assert_ok(mba_program_init(p, SEED));
    const uint16_t *got = mba__copy_of(p, w);
    for (int64_t i = 0; i < SMALL; i++) assert_int_equal(got[i], mba_to_bf16((float)mba_init_value(w, SEED, i)));
    mba_program_destroy(p);
    mba_graph_destroy(g);
}

MBA_TEST_MAIN(cmocka_unit_test(normals_are_the_librarys), cmocka_unit_test(uniforms_are_those_made_one_by_one),
              cmocka_unit_test(zero_has_no_scale), cmocka_unit_test(parameters_start_alike_on_every_device),
              cmocka_unit_test(first_values_are_what_they_are_called), cmocka_unit_test(a_device_that_fails_is_told),
              cmocka_unit_test(a_compute_copy_starts_rounded))
