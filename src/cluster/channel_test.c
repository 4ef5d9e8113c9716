// SPDX-License-Identifier: Apache-2.0
/* channel_test.c -- ranks as processes that gather, die, fall silent, get stuck and fail: who notices, when, and what
 * the others say. */
#include "tests/test.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cluster/channel.h"
#include "cluster/wire.h"

enum { RANKS_MOST = 8 };

typedef struct star {
    int                 ranks, listener;
    char                contacts[MBA_CONTACTS_MAX];
    mba_channel_options o;
    pid_t               pid[RANKS_MOST];
    int                 said[2]; /* what ranks print when the run ends */
} star;

static const unsigned char secret[MBA_SECRET_BYTES] = "sixteen of them";

static void on_lost(void *ctx, const mba_channel_end *e)
{
    const star *s = ctx;
    char        line[1600];
    const int   n = e->prints ? snprintf(line, sizeof line, "%s\n", e->text) : 0;
    if (n > 0 && write(s->said[1], line, (size_t)n) != n) _exit(9);
    _exit(e->code);
}

/* Starts `ranks` processes that open the channel and call `live`; their exit code is its value. */
static void start(star *s, int ranks, double timeout_s, int (*live)(mba_channel *c, int rank))
{
    *s = (star){ .ranks = ranks };
    assert_ok(mba_channel_listen(&s->listener, s->contacts, 0));
    assert_int_equal(pipe(s->said), 0);
    fflush(NULL);
    for (int r = 0; r < ranks; r++) {
        s->pid[r] = fork();
        if (s->pid[r]) continue;
        mba_channel *c;
        if (r) close(s->listener);
        const mba_channel_options o = { .rank = r,
                                        .ranks = ranks,
                                        .listener = s->listener,
                                        .contacts = s->contacts,
                                        .version = "1",
                                        .secret = secret,
                                        .timeout_s = timeout_s,
                                        .start_s = 10,
                                        .lost = on_lost,
                                        .ctx = s };
        if (mba_channel_open(&c, &o) != MBA_OK) _exit(8);
        const int code = live(c, r);
        if (!code) mba_channel_close(c);
        _exit(code);
    }
    close(s->listener);
}

/* Waits for a rank; returns its exit code, or minus the signal that ended it. */
static int ended(star *s, int rank)
{
    int status;
    assert_int_equal(waitpid(s->pid[rank], &status, 0), s->pid[rank]);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static void says_once(star *s, const char *words)
{
    char    text[8192] = "";
    ssize_t n = 0, k;
    close(s->said[1]);
    while ((k = read(s->said[0], text + n, sizeof text - 1 - (size_t)n)) > 0) n += k;
    close(s->said[0]);
    text[n] = 0;
    const char *at = strstr(text, words);
    if (!at || strstr(at + 1, words)) print_error("said: %s\n", text);
    assert_non_null(at);
    assert_null(strstr(at + 1, words));
}

static int gather_much(mba_channel *c, int rank)
{
    static const size_t sizes[] = { 0, 1, 8, 1000, 1 << 20, 0, 24 };
    char               *all = malloc((size_t)RANKS_MOST << 20), *mine = malloc(1 << 20);
    for (int round = 0; round < 200; round++) {
        const size_t n = sizes[round % 7];
        memset(mine, rank * 31 + round, n);
        if (mba_channel_gather_all(c, all, mine, n) != MBA_OK) return 3;
        for (int k = 0; n && k < RANKS_MOST && all[(size_t)k * n] == (char)(k * 31 + round); k++)
            if (all[(size_t)(k + 1) * n - 1] != (char)(k * 31 + round)) return 4;
        if (n && all[(size_t)rank * n] != (char)(rank * 31 + round)) return 5;
    }
    free(all);
    free(mine);
    return 0;
}

static void pieces_of_all_ranks_arrive_in_order(void **state)
{
    (void)state;
    for (int ranks = 2; ranks <= RANKS_MOST; ranks *= 2) {
        star s;
        start(&s, ranks, 20, gather_much);
        for (int r = 0; r < ranks; r++) assert_int_equal(ended(&s, r), 0);
        close(s.said[0]), close(s.said[1]);
    }
}

/* Takes steps; rank 1 does something else after the fifth. */
static int steps(mba_channel *c, int rank, void (*fifth)(mba_channel *c))
{
    char all[RANKS_MOST];
    for (int64_t step = 0;; step++) {
        mba_channel_mark(c, step, MBA_WORLD_COMPUTES);
        usleep(20000);
        if (rank == 1 && step == 5) fifth(c);
        mba_channel_mark(c, step, MBA_WORLD_WAITS);
        if (mba_channel_gather_all(c, all, "x", 1) != MBA_OK) return 3;
    }
}

static void kill_itself(mba_channel *c)
{
    (void)c;
    raise(SIGKILL);
}
static void stop_itself(mba_channel *c)
{
    (void)c;
    raise(SIGSTOP);
}
static void turn_in_a_circle(mba_channel *c)
{
    mba_channel_mark(c, 6, MBA_WORLD_COMPUTES);
    for (volatile unsigned turns = 0;; turns++) continue;
}
static void fail_itself(mba_channel *c)
{
    if (!mba_channel_fail(c, 2, "no tokens\nfix: more data")) _exit(7);
    mba_channel_close(c);
    _exit(2);
}
static int dies(mba_channel *c, int rank) { return steps(c, rank, kill_itself); }
static int falls_silent(mba_channel *c, int rank) { return steps(c, rank, stop_itself); }
static int hangs(mba_channel *c, int rank) { return steps(c, rank, turn_in_a_circle); }
static int fails(mba_channel *c, int rank) { return steps(c, rank, fail_itself); }

static void a_dead_rank_ends_all_others_at_once(void **state)
{
    (void)state;
    star         s;
    const double began = mba_wire_seconds();
    start(&s, 4, 20, dies);
    assert_int_equal(ended(&s, 1), -SIGKILL);
    for (int r = 0; r < 4; r++)
        if (r != 1) assert_int_equal(ended(&s, r), MBA_LOST_CODE);
    assert_true(mba_wire_seconds() - began < 5);
    says_once(&s, "rank 1 (");
}

static void a_silent_rank_is_lost_after_the_timeout(void **state)
{
    (void)state;
    star         s;
    const double began = mba_wire_seconds();
    start(&s, 3, 3, falls_silent);
    assert_int_equal(ended(&s, 0), MBA_LOST_CODE);
    assert_int_equal(ended(&s, 2), MBA_LOST_CODE);
    assert_true(mba_wire_seconds() - began > 3 && mba_wire_seconds() - began < 12);
    kill(s.pid[1], SIGKILL);
    assert_int_equal(ended(&s, 1), -SIGKILL);
    says_once(&s, "no sign of life for 3 s");
}

static void a_rank_that_computes_without_end_is_named(void **state)
{
    (void)state;
    star s;
    start(&s, 3, 3, hangs);
    for (int r = 0; r < 3; r++) assert_int_equal(ended(&s, r), MBA_LOST_CODE);
    says_once(&s, " is lost\nwhy: it answers, but has computed for"); // it does not blame rank 0 for hanging up
}

/* Rank 1 sleeps in its first step, and rank 0 while it validates: no step has ended, and the threads that send pulses
 * go on. */
static int sleeps_in_its_first_step(mba_channel *c, int rank)
{
    char all[RANKS_MOST];
    mba_channel_mark(c, 0, MBA_WORLD_COMPUTES);
    while (rank == 1) sleep(1);
    return mba_channel_gather_all(c, all, "x", 1) == MBA_OK ? 4 : 3;
}
static int sleeps_while_it_validates(mba_channel *c, int rank)
{
    char all[RANKS_MOST];
    mba_channel_mark(c, 0, MBA_WORLD_WORKS);
    while (rank == 0) sleep(1);
    return mba_channel_gather_all(c, all, "x", 1) == MBA_OK ? 4 : 3;
}

static void a_rank_that_does_nothing_is_named_before_any_step_has_ended(void **state)
{
    (void)state;
    star s;
    start(&s, 3, 3, sleeps_in_its_first_step);
    for (int r = 0; r < 3; r++) assert_int_equal(ended(&s, r), MBA_LOST_CODE);
    says_once(&s, "rank 1 (");
    start(&s, 3, 3, sleeps_while_it_validates);
    for (int r = 0; r < 3; r++) assert_int_equal(ended(&s, r), MBA_LOST_CODE);
    says_once(&s, "rank 0 (");
}

/* For four times the timeout, rank 1 is in its first step and uses a twentieth of a processor, in a thread of its own;
 * rank 2 saves to a slow disk, which takes no processor. Rank 0 waits for both. */
static void *compute_a_little(void *until)
{
    while (mba_wire_seconds() < *(const double *)until) {
        const double from = mba_wire_seconds();
        while (mba_wire_seconds() < from + 0.005) continue;
        usleep(100000);
    }
    return NULL;
}
static int takes_long(mba_channel *c, int rank)
{
    char      all[RANKS_MOST];
    double    until = mba_wire_seconds() + 12;
    pthread_t t;
    mba_channel_mark(c, 0, rank == 1 ? MBA_WORLD_COMPUTES : MBA_WORLD_ASIDE);
    if (rank == 1 && (pthread_create(&t, NULL, compute_a_little, &until) || pthread_join(t, NULL))) return 9;
    if (rank == 2) sleep(12);
    return mba_channel_gather_all(c, all, "x", 1) == MBA_OK ? 0 : 3;
}

static void slow_work_and_slow_disks_are_left_alone(void **state)
{
    (void)state;
    star s;
    start(&s, 3, 3, takes_long);
    for (int r = 0; r < 3; r++) assert_int_equal(ended(&s, r), 0);
    close(s.said[0]), close(s.said[1]);
}

static void a_rank_that_fails_ends_all_with_its_code(void **state)
{
    (void)state;
    star s;
    start(&s, 3, 20, fails);
    for (int r = 0; r < 3; r++) assert_int_equal(ended(&s, r), 2);
    says_once(&s, "): no tokens\nfix: more data");
}

static int root_dies(mba_channel *c, int rank)
{
    char all[RANKS_MOST];
    if (mba_channel_gather_all(c, all, "x", 1) != MBA_OK) return 3;
    if (rank == 0) raise(SIGKILL);
    return mba_channel_gather_all(c, all, "x", 1) == MBA_OK ? 4 : 3;
}

static void everybody_notices_that_rank_0_died(void **state)
{
    (void)state;
    star s;
    start(&s, 3, 20, root_dies);
    assert_int_equal(ended(&s, 0), -SIGKILL);
    assert_int_equal(ended(&s, 1), MBA_LOST_CODE);
    assert_int_equal(ended(&s, 2), MBA_LOST_CODE);
    close(s.said[0]), close(s.said[1]);
}

static int dies_at_the_end(mba_channel *c, int rank)
{
    (void)c;
    if (rank == 0) alarm(1); // while it waits for rank 1 in mba_channel_close
    else sleep(2), alarm(20);
    return 0;
}

static void a_rank_that_dies_at_the_end_is_missed(void **state)
{
    (void)state;
    star s;
    start(&s, 2, 20, dies_at_the_end);
    assert_int_equal(ended(&s, 0), -SIGALRM);
    assert_int_equal(ended(&s, 1), MBA_LOST_CODE);
    close(s.said[0]), close(s.said[1]);
}

static int leaves_early(mba_channel *c, int rank)
{
    char all[RANKS_MOST];
    alarm(20);
    if (rank) return 0;
    if (mba_channel_gather_all(c, NULL, NULL, 0) != MBA_OK) return 3; // the last one of rank 1
    return mba_channel_gather_all(c, all, "x", 1) == MBA_E_DEVICE ? 0 : 4;
}

static void nobody_waits_for_a_rank_that_has_left(void **state)
{
    (void)state;
    star s;
    start(&s, 2, 20, leaves_early);
    assert_int_equal(ended(&s, 0), 0);
    assert_int_equal(ended(&s, 1), 0);
    close(s.said[0]), close(s.said[1]);
}

/* A caller without the secret is sent away, and the run goes on without a word. */
static void strangers_are_sent_away(void **state)
{
    (void)state;
    star s;
    start(&s, 2, 20, gather_much);
    mba_wire_hello h = { .rank = 1, .ranks = 2, .version = "1" };
    char           host[MBA_WIRE_HOST];
    int            fd = -1;
    (void)!mba_wire_join(&fd, host, s.contacts, &h, mba_wire_seconds() + 0.5);
    assert_int_equal(fd, -1);
    assert_int_equal(ended(&s, 0), 0);
    assert_int_equal(ended(&s, 1), 0);
    close(s.said[0]), close(s.said[1]);
}

static int call_rank_0(const char *contacts, const void *said, size_t bytes)
{
    struct sockaddr_in a = { .sin_family = AF_INET,
                             .sin_port = htons((uint16_t)atoi(contacts)),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    const int          fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof a), 0);
    if (bytes) assert_int_equal(send(fd, said, bytes, 0), bytes);
    return fd;
}

/* Callers that say nothing, that announce 32 GB, and that send a byte now and then, all before rank 1. */
static void strangers_do_not_use_up_the_start(void **state)
{
    (void)state;
    const mba_wire_head greedy = { 0x6d626131, MBA_WIRE_HELLO, 0, UINT64_C(1) << 35 };
    mba_channel        *c;
    int                 listener, fd[6], status;
    char                contacts[MBA_CONTACTS_MAX];
    assert_ok(mba_channel_listen(&listener, contacts, 0));
    for (int k = 0; k < 6; k++) fd[k] = call_rank_0(contacts, &greedy, k < 3 ? 0 : k < 5 ? sizeof greedy : 1);
    fflush(NULL);
    const pid_t drip = fork();
    while (!drip) usleep(100000), (void)!send(fd[5], "\141", 1, MSG_NOSIGNAL);
    const pid_t               pid = fork();
    const mba_channel_options o = { .rank = !pid,
                                    .ranks = 2,
                                    .listener = listener,
                                    .contacts = contacts,
                                    .version = "1",
                                    .secret = secret,
                                    .start_s = 4,
                                    .lost = on_lost };
    const mba_status          st = mba_channel_open(&c, &o);
    if (st == MBA_OK) mba_channel_close(c);
    if (!pid) _exit(st == MBA_OK ? 0 : 1);
    kill(drip, SIGKILL);
    waitpid(drip, &status, 0);
    assert_ok(st);
    waitpid(pid, &status, 0);
    assert_int_equal(status, 0);
    for (int k = 0; k < 6; k++) close(fd[k]);
}

static void one_that_does_not_fit(mba_wire_hello h, const char *why)
{
    mba_channel *c;
    int          listener;
    char         contacts[MBA_CONTACTS_MAX], host[MBA_WIRE_HOST];
    assert_ok(mba_channel_listen(&listener, contacts, 0));
    fflush(NULL);
    const pid_t pid = fork();
    if (!pid) {
        int fd;
        memcpy(h.secret, secret, sizeof secret);
        const mba_status st = mba_wire_join(&fd, host, contacts, &h, mba_wire_seconds() + 5);
        _exit(st == MBA_E_ARG && strstr(mba_message(), why) ? 0 : 1);
    }
    assert_fails(mba_channel_open(&c, &(mba_channel_options){ .ranks = 2,
                                                              .listener = listener,
                                                              .version = "1",
                                                              .secret = secret,
                                                              .start_s = 5,
                                                              .lost = on_lost }),
                 MBA_E_ARG, why);
    int status;
    waitpid(pid, &status, 0);
    assert_int_equal(status, 0);
}

static void ranks_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    one_that_does_not_fit((mba_wire_hello){ .rank = 1, .ranks = 2, .version = "2" }, "rank 1 runs version 2");
    one_that_does_not_fit((mba_wire_hello){ .rank = 1, .ranks = 4, .version = "1" }, "as one of 4 ranks");
    one_that_does_not_fit((mba_wire_hello){ .rank = 2, .ranks = 2, .version = "1" }, "no rank 2 of 2");
}

static void a_rank_that_does_not_come_is_named(void **state)
{
    (void)state;
    mba_channel *c;
    int          listener;
    char         contacts[MBA_CONTACTS_MAX];
    assert_ok(mba_channel_listen(&listener, contacts, 0));
    const mba_channel_options o = {
        .ranks = 2, .listener = listener, .secret = secret, .start_s = 0.2, .lost = on_lost
    };
    assert_fails(mba_channel_open(&c, &o), MBA_E_DEVICE, "rank 1 did not come");
    const mba_channel_options other = {
        .rank = 1, .ranks = 2, .contacts = contacts, .secret = secret, .start_s = 0.2, .lost = on_lost
    };
    assert_fails(mba_channel_open(&c, &other), MBA_E_DEVICE, "rank 1 cannot reach rank 0");
}

MBA_TEST_MAIN(cmocka_unit_test(pieces_of_all_ranks_arrive_in_order),
              cmocka_unit_test(a_dead_rank_ends_all_others_at_once),
              cmocka_unit_test(a_silent_rank_is_lost_after_the_timeout),
              cmocka_unit_test(a_rank_that_computes_without_end_is_named),
              cmocka_unit_test(a_rank_that_does_nothing_is_named_before_any_step_has_ended),
              cmocka_unit_test(slow_work_and_slow_disks_are_left_alone),
              cmocka_unit_test(a_rank_that_fails_ends_all_with_its_code),
              cmocka_unit_test(everybody_notices_that_rank_0_died),
              cmocka_unit_test(a_rank_that_dies_at_the_end_is_missed),
              cmocka_unit_test(nobody_waits_for_a_rank_that_has_left), cmocka_unit_test(strangers_are_sent_away),
              cmocka_unit_test(strangers_do_not_use_up_the_start), cmocka_unit_test(ranks_that_do_not_fit_are_refused),
              cmocka_unit_test(a_rank_that_does_not_come_is_named))
