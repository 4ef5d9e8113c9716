// SPDX-License-Identifier: Apache-2.0
/* collectives_test.c -- a world in a box: sums in their stated order to the bit, references, what is refused. */
#include "tests/test.h"

#include "cluster/box.h"
#include "core/program.h"
#include "ops/collectives/collectives.h"

enum { RANKS_MOST = 8 };

typedef enum what { REDUCE_SCATTER, ALL_GATHER, ALLREDUCE, BEFORE, AFTER } what;

typedef mba_status exchange_fn(mba_world *w, const void *send, int to, void *recv, int from, size_t bytes);

typedef struct trial {
    what    op;
    int64_t n;
    float  *out[RANKS_MOST];   /* what every rank has in the end */
    double  worst[RANKS_MOST]; /* distance of its fp64 reference */
} trial;

/* What the exchanges of each rank were, while `counts`: between the plan and the reference. */
static struct {
    bool         counts;
    int          n;
    exchange_fn *true_exchange;
    mba_exchange seen[MBA_EXCHANGE_MAX];
} ledger[RANKS_MOST];

static mba_status counted(mba_world *w, const void *send, int to, void *recv, int from, size_t bytes)
{
    if (ledger[w->rank].counts && to >= 0)
        ledger[w->rank].seen[ledger[w->rank].n++] = (mba_exchange){ abs(to - w->rank), (double)bytes };
    return ledger[w->rank].true_exchange(w, send, to, recv, from, bytes);
}

/* The plan names every exchange that the kernel makes: distance and bytes, in order. */
static void compare_exchanges(const mba_program *p, int rank)
{
    for (int32_t i = 0; i < p->graph->nnodes; i++) {
        if (p->graph->nodes[i]->op->kind != MBA_COLLECTIVE) continue;
        mba_exchange planned[MBA_EXCHANGE_MAX];
        const bool   edge = p->graph->nodes[i]->op == &mba_op_send_recv && !ledger[rank].n; // nobody to send to
        assert_int_equal(mba_collective_exchanges(planned, p->graph->nodes[i]), ledger[rank].n + edge);
        assert_int_equal(p->plan[i]->nexchanges, ledger[rank].n + edge);
        for (int k = 0; k < ledger[rank].n; k++) {
            assert_int_equal(planned[k].distance, ledger[rank].seen[k].distance);
            assert_true(planned[k].bytes == ledger[rank].seen[k].bytes);
        }
    }
}

/* Values whose sum depends on the order of additions. */
static float value(int rank, int64_t i)
{
    return (float)(sin((double)(i + 1) * (rank + 2)) * pow(10, (double)(i % 5) - 2));
}

static mba_tensor *append(mba_graph *g, mba_tensor *x, what op, mba_place p)
{
    return op == REDUCE_SCATTER ? mba_reduce_scatter(g, x, p)
           : op == ALL_GATHER   ? mba_all_gather(g, x, p)
           : op == ALLREDUCE    ? mba_allreduce(g, x, p)
                                : mba_send_recv(g, x, p, op == BEFORE ? 1 : -1);
}

static mba_status live(mba_world *w, void *ctx)
{
    trial          *t = ctx;
    const mba_place place = { w ? w->rank : 0, w ? w->ranks : 1 };
    mba_graph      *g;
    mba_program    *p = NULL;
    mba_reference  *ref = NULL;
    MBA_TRY(mba_graph_create(&g));
    mba_tensor *x = mba_state(g, "x", MBA_STATE, MBA_TYPE(MBA_F32, t->n)), *y = append(g, x, t->op, place);
    mba_result(g, "y", y);
    mba_status st = mba_program_create(&p, g, &(mba_program_options){ .machine = mba_device_cpu.machine, .world = w });
    if (st == MBA_OK) st = mba_program_bind(p, &mba_device_cpu);
    if (st == MBA_OK) st = mba_reference_create(&ref, g);
    if (st == MBA_OK) {
        mba_reference_join(ref, w);
        for (int64_t i = 0; i < t->n; i++) {
            ((float *)mba_program_at(p, x))[i] = value((int)place.rank, i);
            mba_reference_at(ref, x)[i] = (double)value((int)place.rank, i);
        }
        if (w) {
            ledger[w->rank].true_exchange = w->exchange;
            ledger[w->rank].n = 0;
            ledger[w->rank].counts = true;
            w->exchange = counted;
        }
        st = mba_program_run(p, MBA_FORWARD, &(mba_step){ 0 }, NULL);
        if (w) ledger[w->rank].counts = false;
        if (w && st == MBA_OK) compare_exchanges(p, w->rank);
    }
    if (st == MBA_OK) st = mba_reference_run(ref, MBA_FORWARD, &(mba_step){ 0 });
    for (int64_t i = 0; i < t->n && st == MBA_OK; i++) {
        const float  got = t->out[place.rank][i] = ((float *)mba_program_at(p, y))[i];
        const double off = fabs((double)got - mba_reference_at(ref, y)[i]);
        if (!(off <= t->worst[place.rank])) t->worst[place.rank] = off;
    }
    mba_reference_destroy(ref);
    mba_program_destroy(p);
    mba_graph_destroy(g);
    return st;
}

static trial run(what op, int ranks, int64_t n)
{
    trial t = { .op = op, .n = n };
    for (int r = 0; r < ranks; r++) t.out[r] = calloc((size_t)n, sizeof(float));
    assert_ok(mba_box_run(ranks, live, &t));
    for (int r = 0; r < ranks; r++) assert_true(t.worst[r] < 1e-4); // ranks x 100 x 2^-24, ten times
    return t;
}

static void done(trial t, int ranks)
{
    for (int r = 0; r < ranks; r++) free(t.out[r]);
}

static float tree(int from, int n, int64_t i)
{
    return n == 1 ? value(from, i) : tree(from, n / 2, i) + tree(from + n / 2, n / 2, i);
}

static void sums_are_those_of_the_tree_to_the_bit(void **state)
{
    (void)state;
    for (int ranks = 2; ranks <= RANKS_MOST; ranks *= 2) {
        const int64_t n = 64 * 1024;
        trial         s = run(REDUCE_SCATTER, ranks, n), a = run(ALLREDUCE, ranks, n), few = run(ALLREDUCE, ranks, 77);
        for (int r = 0; r < ranks; r++) {
            const int64_t from = mba_piece_offset((mba_place){ r, ranks }, n), to = from + n / ranks;
            for (int64_t i = 0; i < n; i++) {
                const float want = tree(0, ranks, i);
                assert_true(s.out[r][i] == (i >= from && i < to ? want : 0));
                assert_true(a.out[r][i] == want);
                assert_true(i >= 77 || few.out[r][i] == want);
            }
        }
        done(s, ranks), done(a, ranks), done(few, ranks);
    }
}

static void pieces_come_from_the_ranks_that_hold_them(void **state)
{
    (void)state;
    for (int ranks = 2; ranks <= RANKS_MOST; ranks *= 2) {
        const int64_t n = 24 * 8;
        trial         t = run(ALL_GATHER, ranks, n);
        for (int r = 0; r < ranks; r++)
            for (int k = 0; k < ranks; k++) {
                const int64_t from = mba_piece_offset((mba_place){ k, ranks }, n);
                for (int64_t i = from; i < from + n / ranks; i++) assert_true(t.out[r][i] == value(k, i));
            }
        done(t, ranks);
    }
}

static void neighbours_pass_on_what_they_hold(void **state)
{
    (void)state;
    for (int ranks = 2; ranks <= RANKS_MOST; ranks *= 2) {
        trial up = run(BEFORE, ranks, 33), down = run(AFTER, ranks, 33);
        for (int r = 0; r < ranks; r++)
            for (int64_t i = 0; i < 33; i++) {
                assert_true(up.out[r][i] == (r ? value(r - 1, i) : 0));
                assert_true(down.out[r][i] == (r + 1 < ranks ? value(r + 1, i) : 0));
            }
        done(up, ranks), done(down, ranks);
    }
}

static void one_rank_keeps_what_it_has(void **state)
{
    (void)state;
    for (what op = REDUCE_SCATTER; op <= AFTER; op++) {
        float out[40];
        trial t = { .op = op, .n = 40, .out = { out } };
        assert_ok(live(NULL, &t));
        for (int64_t i = 0; i < 40; i++) assert_true(out[i] == (op < BEFORE ? value(0, i) : 0));
    }
}

static mba_status second_fails(mba_world *w, void *ctx)
{
    (void)ctx;
    char a = 0, b;
    return w->rank == 1 ? mba_fail(MBA_E_IO, "no more data") : w->exchange(w, &a, w->rank ^ 1, &b, w->rank ^ 1, 1);
}

static void a_rank_that_fails_ends_the_box(void **state)
{
    (void)state;
    assert_fails(mba_box_run(2, second_fails, NULL), MBA_E_IO, "rank 1: no more data");
}

static void what_does_not_divide_is_refused(void **state)
{
    (void)state;
    static const struct {
        mba_place   place;
        int64_t     n;
        const char *words;
    } bad[] = { { { 0, 3 }, 12, "over 3 ranks" },
                { { 4, 4 }, 12, "no rank 4 of 4" },
                { { 1, 4 }, 10, "do not divide" } };
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
        mba_graph *g;
        assert_ok(mba_graph_create(&g));
        mba_reduce_scatter(g, mba_input(g, "x", MBA_TYPE(MBA_F32, bad[k].n)), bad[k].place);
        assert_fails(mba_graph_status(g), MBA_E_SHAPE, bad[k].words);
        mba_graph_destroy(g);
    }
}

static void links_carry_what_the_table_says(void **state)
{
    (void)state;
    static const double want[] = { 0.75, 0.75, 1.5, 1, 1 };
    for (what op = REDUCE_SCATTER; op <= AFTER; op++) {
        mba_graph *g;
        assert_ok(mba_graph_create(&g));
        append(g, mba_input(g, "x", MBA_TYPE(MBA_F32, 1000)), op, (mba_place){ 1, 4 });
        assert_ok(mba_graph_status(g));
        assert_near(g->nodes[0]->op->cost(g->nodes[0]).link_bytes, 4000 * want[op], 0);
        mba_graph_destroy(g);
    }
}

MBA_TEST_MAIN(cmocka_unit_test(sums_are_those_of_the_tree_to_the_bit),
              cmocka_unit_test(pieces_come_from_the_ranks_that_hold_them),
              cmocka_unit_test(neighbours_pass_on_what_they_hold), cmocka_unit_test(one_rank_keeps_what_it_has),
              cmocka_unit_test(a_rank_that_fails_ends_the_box), cmocka_unit_test(what_does_not_divide_is_refused),
              cmocka_unit_test(links_carry_what_the_table_says))
