// SPDX-License-Identifier: Apache-2.0
/* padded_test.c -- sequences packed behind each other give what they give padded to the longest, the form that exists
 * only here: convolution and scan, outputs and gradients (agree.h: fp64 to 1e-12, the fp32 program to 1e-6). */
#include "tests/agree.h"

#include "ops/conv1d/conv1d.h"
#include "ops/selective_scan/selective_scan.h"

enum { SEQUENCES = 6, WIDTH = 20, STATE = 16 };

/* Convolution and scan of sequences: `ids` cut the one sequence they are packed in, or B sequences lie padded. */
typedef struct branch {
    rig         r;
    mba_tensor *xz, *delta, *bc, *y, *dy, *ids;
} branch;

static branch make_branch(int64_t B, int64_t L, bool packed)
{
    branch     s;
    mba_graph *g = graph();
#define WEIGHT(name, ...) mba_param(g, name, MBA_TYPE(MBA_F32, __VA_ARGS__), MBA_INIT_NORMAL(0.5), MBA_DECAY)
    s.xz = mba_param(g, "xz", MBA_TYPE(MBA_F32, B, L, 2 * WIDTH), MBA_INIT_CONST(0), MBA_NO_DECAY);
    s.delta = mba_param(g, "delta", MBA_TYPE(MBA_F32, B, L, WIDTH), MBA_INIT_CONST(0), MBA_NO_DECAY);
    s.bc = mba_param(g, "bc", MBA_TYPE(MBA_F32, B, L, 2 * STATE), MBA_INIT_CONST(0), MBA_NO_DECAY);
    s.ids = packed ? mba_index(g, "ids", MBA_TYPE(MBA_I32, B, L), SEQUENCES + 1) : NULL;
    mba_tensor *u = mba_conv1d(g, .x = mba_slice(g, s.xz, 2, 0, WIDTH), .w = WEIGHT("conv", WIDTH, 1, 4),
                               .bias = WEIGHT("conv_b", WIDTH), .silu = true, .ids = s.ids);
    s.y = mba_selective_scan(g, .u = u, .delta = s.delta, .A_log = WEIGHT("A_log", WIDTH, STATE),
                             .B = mba_slice(g, s.bc, 2, 0, STATE), .C = mba_slice(g, s.bc, 2, STATE, STATE),
                             .D = WEIGHT("D", WIDTH), .z = mba_slice(g, s.xz, 2, WIDTH, WIDTH),
                             .dt_bias = WEIGHT("dt_bias", WIDTH), .ids = s.ids);
#undef WEIGHT
    s.dy = mba_input(g, "dy", s.y->type);
    s.r = rig_create(g, 1, &s.y, &s.dy);
    return s;
}

/* Row t of sequence g, wherever it lies, gets numbers that depend on g and t. */
static void fill_row(branch *s, const mba_tensor *t, int64_t row, int g, int64_t time, uint64_t stream)
{
    for (int64_t i = 0; i < mba_cols(t); i++) {
        uint32_t u[4];
        mba_philox(u, stream, (uint64_t)g, (uint64_t)(time * 64 + i));
        rig_set(&s->r, t, row * mba_cols(t) + i, (float)(2 * mba_unit(u[0]) - 1));
    }
}

static void fill_branch(branch *s, const int64_t *length, int64_t L, bool packed)
{
    int64_t row = 0;
    for (int g = 0; g < SEQUENCES; g++)
        for (int64_t t = 0; t < length[g]; t++, row++) {
            const int64_t at = packed ? row : g * L + t;
            fill_row(s, s->xz, at, g, t, 1);
            fill_row(s, s->delta, at, g, t, 2);
            fill_row(s, s->bc, at, g, t, 3);
            fill_row(s, s->dy, at, g, t, 4);
            if (packed) rig_set(&s->r, s->ids, at, g);
        }
    for (; packed && row < L; row++) rig_set(&s->r, s->ids, row, SEQUENCES); // unused rows: by themselves
    rig_run(&s->r);
}

/* The rows of all sequences, behind each other. L is the padded length; 0: they are packed. */
static int64_t rows_in_order(double *to, branch *s, const mba_tensor *t, const int64_t *length, int64_t L, int which)
{
    const int64_t C = mba_cols(t);
    int64_t       n = 0;
    for (int g = 0; g < SEQUENCES; g++) {
        const int64_t from = L ? g * L * C : n;
        for (int64_t i = 0; i < length[g] * C; i++) to[n++] = value(&s->r, t, from + i, which);
    }
    return n;
}

static void packed_sequences_are_the_padded_ones(void **state)
{
    (void)state;
    static const int64_t     length[SEQUENCES] = { 9, 1, 70, 2, 33, 5 };
    static const char *const weight[] = { "conv", "conv_b", "A_log", "D", "dt_bias" };
    enum { ALL = 120, ROOM = 131, LONGEST = 70 };
    static double a[ALL * 2 * WIDTH], b[ALL * 2 * WIDTH];
    branch        p = make_branch(1, ROOM, true), q = make_branch(SEQUENCES, LONGEST, false);
    worst         w = { 0 };
    fill_branch(&p, length, ROOM, true);
    fill_branch(&q, length, LONGEST, false);
    for (int which = 0; which < 2; which++) {
        const mba_tensor *rows[2][4] = { { p.y, rig_grad(&p.r, p.xz), rig_grad(&p.r, p.delta), rig_grad(&p.r, p.bc) },
                                         { q.y, rig_grad(&q.r, q.xz), rig_grad(&q.r, q.delta), rig_grad(&q.r, q.bc) } };
        for (int k = 0; k < 4; k++) {
            const int64_t n = rows_in_order(a, &p, rows[0][k], length, 0, which);
            assert_int_equal(rows_in_order(b, &q, rows[1][k], length, LONGEST, which), n);
            compare(&w, a, b, n, which);
        }
        for (int k = 0; k < 5; k++) {
            const mba_tensor *d = rig_grad(&p.r, mba_graph_find(p.r.g, weight[k]));
            const mba_tensor *e = rig_grad(&q.r, mba_graph_find(q.r.g, weight[k]));
            for (int64_t i = 0; i < mba_elems(d); i++) a[i] = value(&p.r, d, i, which), b[i] = value(&q.r, e, i, which);
            compare(&w, a, b, mba_elems(d), which);
        }
    }
    assert_equal_to_rounding("packed against padded", w);
    rig_destroy(&p.r);
    rig_destroy(&q.r);
}

MBA_TEST_MAIN(cmocka_unit_test(packed_sequences_are_the_padded_ones))
