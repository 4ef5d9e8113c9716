// SPDX-License-Identifier: Apache-2.0
/* cuda_stress_test.c -- the state-space kernels under what small cases do not reach: a busy GPU, very many launches, a
 * sequence of 131072 tokens, tensors of more than 2^31 elements, walks cut as those of the peers' shapes are. Every
 * variant of ssd through include/mba_kernels.h.
 *
 *     build/tests/cuda_stress_test        # less than a minute on a GPU that takes every variant; skipped otherwise */
#include "mba_kernels.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "core/device.h"
#include "tests/test.h"

enum { P = 64, N = 128, DIES_AFTER_S = 300, LARGEST_GB = 60 };
static const char *const variants[] = { "chunked",  "persistent", "persistent_dynamic", "persistent_prefetch",
                                        "bc_fused", "fused",      "fused_mma" };
enum { VARIANTS = sizeof variants / sizeof *variants };

/* ---- a call and its memory ---- */

typedef struct job {
    const mba_device    *d;
    mba_kernels_plan    *plan;
    mba_kernels_pointers a;
    int64_t              B, L, H;
    size_t               operand[MBA_KERNELS_OPERANDS]; /* bytes; a gradient has the size of its operand */
    void                *taken[32];
    int                  ntaken;
} job;

static void *take(job *j, size_t bytes)
{
    void *p;
    assert_ok(j->d->alloc(&p, bytes ? bytes : 16));
    return j->taken[j->ntaken++] = p;
}

static int plan_create(mba_kernels_plan **p, int64_t B, int64_t L, int64_t H, const char *variant, bool backward)
{
    const mba_kernels_desc desc = { .bytes = sizeof desc,
                                    .op = MBA_KERNELS_SSD,
                                    .type = MBA_KERNELS_BF16,
                                    .batch = B,
                                    .length = L,
                                    .heads = H,
                                    .head_dim = P,
                                    .groups = 1,
                                    .state = N,
                                    .chunk = 256,
                                    .backward = backward,
                                    .variant = variant,
                                    .given = 1u << MBA_KERNELS_D | 1u << MBA_KERNELS_DT_BIAS };
    return mba_kernels_plan_create(p, &desc, NULL);
}

static mba_kernels_plan *plan_of(int64_t B, int64_t L, int64_t H, const char *variant, bool backward)
{
    mba_kernels_plan *p;
    if (plan_create(&p, B, L, H, variant, backward)) fail_msg("%s", mba_kernels_error());
    return p;
}

/* A GPU that has the memory and takes every variant, or a skip. */
static const mba_device *gpu(void)
{
    const mba_device *d = NULL;
    if (mba_device_cuda(&d, 0) != MBA_OK) skip();
    if (d->left() < (size_t)LARGEST_GB << 30) {
        printf("less than %d GB left\n", LARGEST_GB);
        skip();
    }
    for (int v = 0; v < VARIANTS; v++) {
        mba_kernels_plan *p;
        if (plan_create(&p, 1, 1024, 4, variants[v], true)) {
            printf("%s\n", mba_kernels_error());
            skip();
        }
        mba_kernels_plan_destroy(p);
    }
    alarm(DIES_AFTER_S); // a hang ends the test
    return d;
}

static void job_begin(job *j, const mba_device *d, int64_t B, int64_t L, int64_t H, const char *variant)
{
    *j = (job){ .d = d, .B = B, .L = L, .H = H, .plan = plan_of(B, L, H, variant, true) };
    const size_t tokens = (size_t)(B * L), heads = (size_t)H;
    j->operand[MBA_KERNELS_X] = tokens * heads * P * 2;
    j->operand[MBA_KERNELS_DT] = tokens * heads * 2;
    j->operand[MBA_KERNELS_B] = j->operand[MBA_KERNELS_C] = tokens * N * 2;
    j->operand[MBA_KERNELS_A_LOG] = j->operand[MBA_KERNELS_D] = j->operand[MBA_KERNELS_DT_BIAS] = heads * 4;
    for (int k = 0; k < MBA_KERNELS_OPERANDS; k++) {
        if (!j->operand[k]) continue;
        j->a.in[k] = take(j, j->operand[k]);
        j->a.din[k] = take(j, j->operand[k]);
    }
    const size_t fwd = mba_kernels_work_bytes(j->plan, 0), bwd = mba_kernels_work_bytes(j->plan, 1);
    j->a.out[MBA_KERNELS_Y] = take(j, j->operand[MBA_KERNELS_X]);
    j->a.dout[MBA_KERNELS_Y] = take(j, j->operand[MBA_KERNELS_X]);
    j->a.saved = take(j, mba_kernels_saved_bytes(j->plan));
    j->a.work = take(j, fwd > bwd ? fwd : bwd);
}

static void job_run(const job *j, void *stream)
{
    if (mba_kernels_forward(j->plan, &j->a, stream) || mba_kernels_backward(j->plan, &j->a, stream))
        fail_msg("%s", mba_kernels_error());
}

static void job_end(job *j)
{
    for (int i = 0; i < j->ntaken; i++) j->d->dealloc(j->taken[i]);
    mba_kernels_plan_destroy(j->plan);
}

/* ---- values ---- */

static float noise(uint64_t *s) /* about -2 .. 2, of variance 1 */
{
    float sum = 0;
    for (int i = 0; i < 3; i++) {
        *s ^= *s << 13;
        *s ^= *s >> 7;
        *s ^= *s << 17;
        sum += (float)(*s >> 40) * 0x1p-23f - 1;
    }
    return sum;
}

static uint16_t *halves(int64_t n, uint64_t seed, float scale)
{
    uint16_t *v = malloc(2 * (size_t)n);
    assert_non_null(v);
    for (int64_t i = 0; i < n; i++) v[i] = mba_to_bf16(scale * noise(&seed));
    return v;
}

/* What the sequences of a job hold, `count` of them again and again: decays from a few tokens to some hundred. */
typedef struct sequence {
    uint16_t *x, *dt, *b, *c, *dy;
    float    *par;
    int64_t   count;
} sequence;

static sequence sequences_of(int64_t count, int64_t L, int64_t H)
{
    const int64_t tokens = count * L;
    sequence      s = { halves(tokens * H * P, 3, 1),
                        halves(tokens * H, 5, 0.5f),
                        halves(tokens * N, 7, 1),
                        halves(tokens * N, 9, 1),
                        halves(tokens * H * P, 11, 1),
                        malloc(3 * 4 * (size_t)H),
                        count };
    assert_non_null(s.par);
    for (int64_t h = 0; h < H; h++) {
        s.par[h] = logf(0.5f + 4 * (float)(h % 7));    // A_log
        s.par[H + h] = 1 - 0.1f * (float)(h % 5);      // D
        s.par[2 * H + h] = -4 + 0.3f * (float)(h % 6); // dt_bias
    }
    return s;
}

static sequence sequence_of(int64_t L, int64_t H) { return sequences_of(1, L, H); }

static void put_sequences(const job *j, const sequence *s)
{
    const struct {
        const void *to, *from;
        size_t      bytes;
    } each[] = { { j->a.in[MBA_KERNELS_X], s->x, (size_t)(j->L * j->H * P * 2) },
                 { j->a.in[MBA_KERNELS_DT], s->dt, (size_t)(j->L * j->H * 2) },
                 { j->a.in[MBA_KERNELS_B], s->b, (size_t)(j->L * N * 2) },
                 { j->a.in[MBA_KERNELS_C], s->c, (size_t)(j->L * N * 2) },
                 { j->a.dout[MBA_KERNELS_Y], s->dy, (size_t)(j->L * j->H * P * 2) } };
    for (size_t i = 0; i < sizeof each / sizeof *each; i++)
        for (int64_t b = 0; b < j->B; b++)
            assert_ok(j->d->put((char *)each[i].to + (size_t)b * each[i].bytes,
                                (const char *)each[i].from + (size_t)(b % s->count) * each[i].bytes, each[i].bytes));
    const int par[] = { MBA_KERNELS_A_LOG, MBA_KERNELS_D, MBA_KERNELS_DT_BIAS };
    for (int i = 0; i < 3; i++) assert_ok(j->d->put((void *)j->a.in[par[i]], s->par + i * j->H, 4 * (size_t)j->H));
    assert_ok(j->d->wait()); // the host's side may go
}

static void sequence_end(sequence *s)
{
    free(s->x);
    free(s->dt);
    free(s->b);
    free(s->c);
    free(s->dy);
    free(s->par);
}

/* Everything a call has written, y first. */
typedef struct answer {
    char  *bytes;
    size_t n;
} answer;

static answer answer_of(const job *j)
{
    size_t n = j->operand[MBA_KERNELS_X];
    for (int k = 0; k < MBA_KERNELS_OPERANDS; k++) n += j->operand[k];
    answer r = { malloc(n), n };
    assert_non_null(r.bytes);
    assert_ok(j->d->get(r.bytes, j->a.out[MBA_KERNELS_Y], j->operand[MBA_KERNELS_X]));
    n = j->operand[MBA_KERNELS_X];
    for (int k = 0; k < MBA_KERNELS_OPERANDS; k++) {
        if (j->operand[k]) assert_ok(j->d->get(r.bytes + n, j->a.din[k], j->operand[k]));
        n += j->operand[k];
    }
    return r;
}

static bool same_bits(const job *j, const answer *first)
{
    answer     now = answer_of(j);
    const bool same = !memcmp(now.bytes, first->bytes, first->n);
    free(now.bytes);
    return same;
}

/* ---- a busy GPU ---- */

typedef struct load {
    job         j;
    atomic_bool stop;
    pthread_t   thread;
    atomic_long runs;
} load;

static void *keep_busy(void *p)
{
    load *l = p;
    void *own_stream = (void *)2; // cudaStreamPerThread
    while (!atomic_load(&l->stop) && !mba_kernels_forward(l->j.plan, &l->j.a, own_stream)
           && !mba_kernels_backward(l->j.plan, &l->j.a, own_stream))
        atomic_fetch_add(&l->runs, 1);
    if (!atomic_load(&l->stop)) printf("the other stream ended early: %s\n", mba_kernels_error());
    return NULL;
}

/* Blocks of another stream come between ours, in an order that is never the same. */
static void same_bits_in_100_runs_under_load(void **state)
{
    (void)state;
    enum { RUNS = 100 };
    const mba_device *d = gpu();
    static load       l;
    sequence          s = sequence_of(700, 8);
    job_begin(&l.j, d, 3, 1100, 8, NULL);
    assert_int_equal(pthread_create(&l.thread, NULL, keep_busy, &l), 0);
    for (int v = 0; v < VARIANTS; v++) {
        job j;
        int differ = 0;
        job_begin(&j, d, 4, 700, 8, variants[v]);
        put_sequences(&j, &s);
        job_run(&j, d->stream);
        answer first = answer_of(&j);
        for (int i = 1; i < RUNS; i++) {
            job_run(&j, d->stream);
            differ += !same_bits(&j, &first);
        }
        printf("%-10s %d of %d runs differ; %ld runs of the other stream so far\n", variants[v], differ, RUNS,
               atomic_load(&l.runs));
        assert_int_equal(differ, 0);
        free(first.bytes);
        job_end(&j);
    }
    atomic_store(&l.stop, true);
    pthread_join(l.thread, NULL);
    assert_true(atomic_load(&l.runs) > 0);
    job_end(&l.j);
    sequence_end(&s);
}

/* `persistent*` have the tiles of `chunked`, in other blocks. */
static void blocks_that_stay_give_the_same_bits(void **state)
{
    (void)state;
    const mba_device *d = gpu();
    sequence          s = sequence_of(2000, 24);
    enum { SAME = 4 };
    answer of[SAME];
    for (int v = 0; v < SAME; v++) {
        job j;
        job_begin(&j, d, 8, 2000, 24, variants[v]);
        put_sequences(&j, &s);
        for (int i = 0; i < 2; i++) job_run(&j, d->stream); // counters of tiles are cleared in each call
        of[v] = answer_of(&j);
        job_end(&j);
    }
    for (int v = 1; v < SAME; v++) assert_memory_equal(of[0].bytes, of[v].bytes, of[0].n);
    for (int v = 0; v < SAME; v++) free(of[v].bytes);
    sequence_end(&s);
}

static void calls_without_number_do_not_hang(void **state)
{
    (void)state;
    enum { CALLS = 100000 };
    const mba_device *d = gpu();
    sequence          s = sequence_of(130, 2);
    for (int v = 0; v < VARIANTS; v++) {
        job j;
        job_begin(&j, d, 1, 130, 2, variants[v]);
        put_sequences(&j, &s);
        job_run(&j, d->stream);
        answer first = answer_of(&j);
        for (int i = 0; i < CALLS / VARIANTS / 2; i++) { // a run is two calls
            job_run(&j, d->stream);
            if (i % 1000 == 0) assert_ok(d->wait());
        }
        assert_true(same_bits(&j, &first));
        free(first.bytes);
        job_end(&j);
    }
    printf("%d calls\n", CALLS);
    sequence_end(&s);
}

/* ---- long, and large ---- */

/* y of one head, token by token in double. */
static void recurrence(double *y, const sequence *s, int64_t L, int64_t H, int64_t h)
{
    static double state[P][N];
    const double  A = -exp((double)s->par[h]);
    memset(state, 0, sizeof state);
    for (int64_t l = 0; l < L; l++) {
        double b[N], c[N];
        for (int n = 0; n < N; n++) {
            b[n] = mba_from_bf16(s->b[l * N + n]);
            c[n] = mba_from_bf16(s->c[l * N + n]);
        }
        const double raw = (double)(mba_from_bf16(s->dt[l * H + h]) + s->par[2 * H + h]), step = log1p(exp(raw)),
                     decay = exp(step * A);
        for (int p = 0; p < P; p++) {
            const double x = mba_from_bf16(s->x[(l * H + h) * P + p]);
            double       sum = 0;
            for (int n = 0; n < N; n++) {
                state[p][n] = decay * state[p][n] + step * x * b[n];
                sum += state[p][n] * c[n];
            }
            y[l * P + p] = sum + s->par[H + h] * x;
        }
    }
}

/* Norm of the difference over the norm. */
static double apart(const uint16_t *a, const uint16_t *b, int64_t n)
{
    double diff = 0, norm = 0;
    for (int64_t i = 0; i < n; i++) {
        const double u = mba_from_bf16(a[i]), v = mba_from_bf16(b[i]);
        diff += (u - v) * (u - v);
        norm += v * v;
    }
    return sqrt(diff / norm);
}

static double apart_from_recurrence(const uint16_t *y, const double *want, int64_t L, int64_t H, int64_t h,
                                    int64_t from)
{
    double diff = 0, norm = 0;
    for (int64_t l = from; l < L; l++)
        for (int p = 0; p < P; p++) {
            const double v = want[l * P + p], u = mba_from_bf16(y[(l * H + h) * P + p]);
            diff += (u - v) * (u - v);
            norm += v * v;
        }
    return sqrt(diff / norm);
}

static double apart_in_fp32(const float *a, const float *b, int64_t n)
{
    double diff = 0, norm = 0;
    for (int64_t i = 0; i < n; i++) {
        diff += pow((double)a[i] - (double)b[i], 2);
        norm += pow((double)b[i], 2);
    }
    return sqrt(diff / norm);
}

/* Every result of two answers; how many lie further apart than the roundings of two right ways do. */
static int results_apart(const job *j, const answer *have, const answer *want)
{
    static const char *const name[] = { "dx", "ddt", "dB", "dC", "dz", "dA_log", "dD", "ddt_bias" };
    const size_t             y = j->operand[MBA_KERNELS_X];
    double                   off = apart((const uint16_t *)have->bytes, (const uint16_t *)want->bytes, (int64_t)y / 2);
    int                      bad = !(off < 8e-3);
    size_t                   at = y;
    printf(" y %.1e", off);
    for (int k = 0; k <= MBA_KERNELS_DT_BIAS; k++) {
        const void *u = have->bytes + at, *v = want->bytes + at;
        if (!j->operand[k]) continue;
        off = k < MBA_KERNELS_ACTIVATIONS ? apart(u, v, (int64_t)j->operand[k] / 2)
                                          : apart_in_fp32(u, v, (int64_t)j->operand[k] / 4);
        printf(" %s %.1e", name[k], off);
        bad += !(off < 8e-3);
        at += j->operand[k];
    }
    printf("\n");
    return bad;
}

/* y of a forward that keeps nothing, which may share the GPU otherwise: how far from that of `want`. */
static double alone_apart(job *j, const answer *want)
{
    const size_t         bytes = j->operand[MBA_KERNELS_X];
    mba_kernels_plan    *p = plan_of(j->B, j->L, j->H, "fused", false);
    mba_kernels_pointers a = j->a;
    char                *y = malloc(bytes);
    assert_non_null(y);
    a.work = take(j, mba_kernels_work_bytes(p, 0));
    a.out[MBA_KERNELS_Y] = take(j, bytes); // where no right y is yet
    if (mba_kernels_forward(p, &a, j->d->stream)) fail_msg("%s", mba_kernels_error());
    assert_ok(j->d->get(y, a.out[MBA_KERNELS_Y], bytes));
    const double off = apart((const uint16_t *)y, (const uint16_t *)want->bytes, (int64_t)bytes / 2);
    mba_kernels_plan_destroy(p);
    free(y);
    return off;
}

/* Walks that are cut, hand states on or share the GPU otherwise than small cases do: there is no reference in double at
 * these sizes, but `chunked`, whose blocks do not depend on the size, has one at small ones. */
static void fused_gives_what_chunked_gives_at_the_sizes_of_the_peers(void **state)
{
    (void)state;
    static const int64_t shape[][3] = { { 8, 2048, 24 },  { 4, 4096, 24 },  { 1, 32768, 24 }, { 32, 512, 24 },
                                        { 8, 2048, 64 },  { 1, 32768, 64 }, { 8, 2048, 80 },  { 4, 4096, 80 },
                                        { 1, 32768, 80 }, { 32, 512, 80 } };
    const mba_device    *d = gpu();
    int                  bad = 0;
    for (size_t i = 0; i < sizeof shape / sizeof *shape; i++) {
        const int64_t B = shape[i][0], L = shape[i][1], H = shape[i][2];
        sequence      s = sequences_of(B, L, H);
        answer        of[2];
        job           j;
        for (int v = 0; v < 2; v++) {
            job_begin(&j, d, B, L, H, v ? "fused" : "chunked");
            put_sequences(&j, &s);
            job_run(&j, d->stream);
            of[v] = answer_of(&j);
            if (!v) job_end(&j);
        }
        printf("%2lld x %5lld x %2lld:", (long long)B, (long long)L, (long long)H);
        bad += results_apart(&j, &of[1], &of[0]);
        const double alone = alone_apart(&j, &of[0]);
        if (!(alone < 8e-3)) {
            printf("BAD y without keeping: %.1e\n", alone);
            bad++;
        }
        job_end(&j);
        for (int v = 0; v < 2; v++) free(of[v].bytes);
        sequence_end(&s);
    }
    assert_int_equal(bad, 0);
}

/* The bounds are those of three roundings to bf16 (ssd.md), doubled; the last thousand tokens are looked at alone. */
static void a_sequence_of_131072_tokens(void **state)
{
    (void)state;
    enum { L = 131072, H = 2, HEAD = 1, LAST = 1000 };
    const mba_device *d = gpu();
    sequence          s = sequence_of(L, H);
    double           *want = malloc(sizeof(double) * L * P);
    answer            of[VARIANTS];
    int               bad = 0;
    assert_non_null(want);
    recurrence(want, &s, L, H, HEAD);
    for (int v = 0; v < VARIANTS; v++) {
        job j;
        job_begin(&j, d, 1, L, H, variants[v]);
        put_sequences(&j, &s);
        job_run(&j, d->stream);
        of[v] = answer_of(&j);
        const uint16_t *y = (const uint16_t *)of[v].bytes, *dx = y + (size_t)L * H * P,
                       *y0 = (const uint16_t *)of[0].bytes;
        const double all = apart_from_recurrence(y, want, L, H, HEAD, 0),
                     end = apart_from_recurrence(y, want, L, H, HEAD, L - LAST),
                     grad = apart(dx, y0 + (size_t)L * H * P, (int64_t)L * H * P);
        printf("%-10s y off by %.1e, its last %d tokens by %.1e; dx %.1e from that of chunked\n", variants[v], all,
               LAST, end, grad);
        bad += !(all < 8e-3) + !(end < 8e-3) + !(grad < 8e-3);
        job_end(&j);
    }
    for (int v = 0; v < VARIANTS; v++) free(of[v].bytes);
    assert_int_equal(bad, 0);
    free(want);
    sequence_end(&s);
}

/* The same sequence again and again: one that lies beyond 2^31 elements has the bits of the first. */
static void more_than_two_billion_elements(void **state)
{
    (void)state;
    enum { B = 65, L = 8192, H = 64 }; // x has 2^31 + 2^25 elements
    const mba_device *d = gpu();
    const size_t      one = (size_t)L * H * P * 2;
    sequence          s = sequence_of(L, H);
    char             *first = malloc(one), *last = malloc(one);
    assert_true(first && last);
    for (int v = 0; v < VARIANTS; v++) {
        job j;
        job_begin(&j, d, B, L, H, variants[v]);
        put_sequences(&j, &s);
        job_run(&j, d->stream);
        const void *out[] = { j.a.out[MBA_KERNELS_Y], j.a.din[MBA_KERNELS_X] };
        for (int k = 0; k < 2; k++) {
            assert_ok(d->get(first, out[k], one));
            assert_ok(d->get(last, (const char *)out[k] + (B - 1) * one, one));
            assert_memory_equal(first, last, one);
            assert_true(apart((const uint16_t *)last, k ? s.dy : s.x, 1000) < 1000); // numbers, not NaN
        }
        printf("%-10s the last of %d sequences is the first\n", variants[v], B);
        job_end(&j);
    }
    free(first);
    free(last);
    sequence_end(&s);
}

MBA_TEST_MAIN(cmocka_unit_test(same_bits_in_100_runs_under_load), cmocka_unit_test(blocks_that_stay_give_the_same_bits),
              cmocka_unit_test(calls_without_number_do_not_hang), cmocka_unit_test(a_sequence_of_131072_tokens),
              cmocka_unit_test(more_than_two_billion_elements),
              cmocka_unit_test(fused_gives_what_chunked_gives_at_the_sizes_of_the_peers))
