// SPDX-License-Identifier: Apache-2.0
/* nccl_test.c -- ranks with GPUs, without GPUs: a library of the test's own in the place of NCCL (fake_nccl.c). Ranks
 * are processes that meet where MASTER_ADDR says; what they exchange, and which library and which errors are
 * refused. */
#include "tests/test.h"

#include <dlfcn.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cluster/join.h"
#include "device/cuda/nccl.h"
#include "ops/collectives/collectives.h"

enum { N = 64, RANKS_MOST = 8 };

static char folder[256];

/* Runs `live` in a process of its own, because a process has one communicator. Returns its exit code. */
static int alone(int (*live)(void))
{
    int status;
    fflush(NULL);
    const pid_t pid = fork();
    if (!pid) {
        alarm(60);
        _exit(live());
    }
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* 0 if the call failed with that code and those words. */
static int refused(mba_status st, mba_status code, const char *words)
{
    if (st == code && strstr(mba_message(), words)) return 0;
    print_error("wanted \"%s\", got %d: %s\n", words, (int)st, mba_message());
    return 1;
}

/* ---- the library ---- */

static int without_a_library(void)
{
    setenv("MBA_NCCL", "/nowhere/libnccl.so.2", 1);
    return refused(mba_nccl_open(NULL, &mba_device_cpu), MBA_E_UNSUPPORTED, "cannot open /nowhere/libnccl.so.2")
           || !strstr(mba_message(), "MBA_NCCL=/path/libnccl.so.2") || mba_nccl_is_open() || *mba_nccl_version();
}

static int with_another_library(void)
{
    setenv("MBA_NCCL", "libm.so.6", 1);
    return refused(mba_nccl_open(NULL, &mba_device_cpu), MBA_E_UNSUPPORTED, "has no ncclGetVersion");
}

static int with_an_old_library(void)
{
    setenv("FAKE_NCCL_VERSION", "21703", 1);
    return refused(mba_nccl_open(NULL, &mba_device_cpu), MBA_E_UNSUPPORTED, "is NCCL 2.17.3");
}

static void a_library_that_cannot_serve_is_refused(void **state)
{
    (void)state;
    assert_int_equal(alone(without_a_library), 0);
    assert_int_equal(alone(with_another_library), 0);
    assert_int_equal(alone(with_an_old_library), 0);
}

static int closed(void)
{
    float x[N] = { 0 };
    return mba_nccl_is_open() || mba_nccl_check() != MBA_OK
           || refused(mba_nccl_gather(x, 0, NULL), MBA_E_DEVICE, "is not open");
}

static int one_rank(void)
{
    float x[N], want[N];
    for (int i = 0; i < N; i++) x[i] = want[i] = (float)i / 3;
    if (mba_nccl_open(NULL, &mba_device_cpu) != MBA_OK || strcmp(mba_nccl_version(), "2.30.7")) return 1;
    if (mba_nccl_alone(x, N, NULL) != MBA_OK || mba_nccl_gather(x, sizeof x, NULL) != MBA_OK) return 2;
    if (memcmp(x, want, sizeof x) || mba_nccl_check() != MBA_OK || !mba_nccl_is_open()) return 3;
    mba_nccl_close();
    mba_nccl_close();
    void       *library = dlopen(getenv("MBA_NCCL"), RTLD_NOW | RTLD_NOLOAD);
    const char *calls = library ? dlsym(library, "fake_nccl_calls") : NULL;
    if (!calls || strcmp(calls, "version id join scatter gather leave ")) return 4;
    return mba_nccl_is_open();
}

static void one_rank_calls_it_and_changes_nothing(void **state)
{
    (void)state;
    assert_int_equal(alone(closed), 0);
    assert_int_equal(alone(one_rank), 0);
}

static int failing_join(void)
{
    setenv("FAKE_NCCL_FAILS", "join", 1);
    return refused(mba_nccl_open(NULL, &mba_device_cpu), MBA_E_DEVICE, "NCCL 2.30.7 failed to join the ranks")
           || mba_nccl_is_open();
}

static int failing_id(void)
{
    setenv("FAKE_NCCL_FAILS", "id", 1);
    return refused(mba_nccl_open(NULL, &mba_device_cpu), MBA_E_DEVICE, "failed to make an id");
}

static int failing_send(void)
{
    char a, b;
    if (mba_nccl_open(NULL, &mba_device_cpu) != MBA_OK) return 9;
    setenv("FAKE_NCCL_FAILS", "send", 1);
    return refused(mba_nccl_exchange(&a, 0, &b, -1, 1, NULL), MBA_E_DEVICE, "unhandled system error");
}

static int failing_link(void)
{
    char a = 0;
    if (mba_nccl_open(NULL, &mba_device_cpu) != MBA_OK) return 9;
    setenv("FAKE_NCCL_ASYNC", "7", 1); // in progress
    if (mba_nccl_check() != MBA_OK) return 1;
    setenv("FAKE_NCCL_ASYNC", "6", 1);
    if (refused(mba_nccl_check(), MBA_E_DEVICE, "a peer is gone")) return 2;
    mba_nccl_abort();
    mba_nccl_abort();
    return refused(mba_nccl_exchange(&a, 0, NULL, -1, 1, NULL), MBA_E_DEVICE, "is not open")
           || mba_nccl_check() != MBA_OK;
}

static void failures_say_what_and_why(void **state)
{
    (void)state;
    assert_int_equal(alone(failing_join), 0);
    assert_int_equal(alone(failing_id), 0);
    assert_int_equal(alone(failing_send), 0);
    assert_int_equal(alone(failing_link), 0);
}

/* ---- several ranks ---- */

static int         ranks, port;
static const char *wanted[3]; // words of what the run says at its end

static void on_lost(void *ctx, const mba_channel_end *e)
{
    (void)ctx;
    for (int k = 0; e->prints && k < 3; k++)
        if (!strstr(e->text, wanted[k])) {
            print_error("wanted \"%s\" in:\n%s\n", wanted[k], e->text);
            _exit(70);
        }
    mba_nccl_abort();
    sleep(2); // time for a main thread that waits no longer
    _exit(e->code);
}

static mba_status join(mba_world **w, int rank)
{
    mba_launcher l;
    char         number[16];
    snprintf(number, sizeof number, "%d", rank);
    setenv("RANK", number, 1);
    setenv("LOCAL_RANK", number, 1);
    snprintf(number, sizeof number, "%d", ranks);
    setenv("WORLD_SIZE", number, 1);
    snprintf(number, sizeof number, "%d", port);
    setenv("MASTER_PORT", number, 1);
    setenv("MASTER_ADDR", "localhost", 1);
    MBA_TRY(mba_launcher_find(&l, getenv));
    MBA_TRY(mba_cluster_join(w, &l, &(mba_cluster_options){ .gpus = true, .lost = on_lost, .check = mba_nccl_check }));
    return mba_nccl_open(*w, &mba_device_cpu);
}

static int exchanges(int rank)
{
    mba_world *w;
    float      x[N], y[N];
    if (join(&w, rank) != MBA_OK) return print_error("%s\n", mba_message()), 1;
    for (int bit = 1; bit < ranks; bit *= 2) { // by the GPUs, then by their hosts
        for (int i = 0; i < N; i++) x[i] = (float)(100 * rank + i), y[i] = -1;
        if (mba_nccl_exchange(x, rank ^ bit, y, rank ^ bit, sizeof x, NULL) != MBA_OK) return 2;
        if (y[0] != (float)(100 * (rank ^ bit)) || y[N - 1] != y[0] + N - 1) return 3;
        if (w->exchange(w, y, rank ^ bit, x, rank ^ bit, sizeof x) != MBA_OK || x[7] != (float)(100 * rank + 7))
            return 4;
    }
    const int64_t own = mba_piece_offset((mba_place){ rank, ranks }, N);
    for (int i = 0; i < N; i++) x[i] = y[i] = i >= own && i < own + N / ranks ? (float)(rank + 1) : 0;
    if (mba_nccl_gather(x, sizeof x, NULL) != MBA_OK || mba_pieces_gather(w, y, sizeof y) != MBA_OK) return 5;
    for (int i = 0; i < N; i++)
        if (!x[i] || x[i] != y[i]) return 6; // each piece is that of the rank that holds it
    mba_nccl_close();
    mba_cluster_leave(w);
    return 0;
}

/* Rank 1 loses a link while the others wait: all end with exit code 75, and rank 0 says what is known. */
static int loses_a_link(int rank)
{
    mba_world *w;
    if (join(&w, rank) != MBA_OK) return 1;
    if (rank == 1) setenv("FAKE_NCCL_ASYNC", "6", 1);
    for (;;) pause();
}

/* Rank 2 is stopped, which NCCL tells rank 1 long before the channel misses it: all name rank 2. */
static int meets_a_stopped_rank(int rank)
{
    mba_world *w;
    if (join(&w, rank) != MBA_OK) return 1;
    mba_cluster_set_timeout(w, 7);
    if (rank == 1) setenv("FAKE_NCCL_ASYNC", "6", 1);
    if (rank == 2) raise(SIGSTOP);
    for (;;) pause();
}

/* The same where NCCL says it to the main thread of rank 1, which then fails. */
static int fails_beside_a_stopped_rank(int rank)
{
    mba_world *w;
    char       x = 0;
    if (join(&w, rank) != MBA_OK) return 1;
    mba_cluster_set_timeout(w, 7);
    if (rank == 2) raise(SIGSTOP);
    while (rank != 1) pause();
    setenv("FAKE_NCCL_FAILS", "send", 1);
    setenv("FAKE_NCCL_ERROR", "6", 1);
    if (mba_nccl_exchange(&x, 2, NULL, -1, 1, NULL) == MBA_OK) return 2;
    (void)!mba_cluster_fail(w, 1, mba_message());
    return 3;
}

/* A rank that stops itself is killed after the others have ended. */
static void all_end(int (*live)(int rank), int code, int stopped)
{
    pid_t pid[RANKS_MOST];
    fflush(NULL);
    for (int r = 0; r < ranks; r++) {
        pid[r] = fork();
        if (pid[r]) continue;
        alarm(60);
        _exit(live(r));
    }
    for (int r = 0; r < ranks; r++) {
        int status;
        if (r == stopped) continue;
        waitpid(pid[r], &status, 0);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), code);
    }
    if (stopped < 0) return;
    kill(pid[stopped], SIGKILL);
    waitpid(pid[stopped], NULL, 0);
}

static void ranks_exchange_by_their_links(void **state)
{
    (void)state;
    for (ranks = 2; ranks <= RANKS_MOST; ranks *= 2) {
        port = 21000 + (int)getpid() % 20000 + ranks;
        all_end(exchanges, 0, -1);
    }
}

static void a_broken_link_ends_all_ranks(void **state)
{
    (void)state;
    ranks = 4;
    port = 21000 + (int)getpid() % 20000;
    wanted[0] = "rank 1 (", wanted[1] = " reports: NCCL 2.30.7 failed", wanted[2] = "\nwhere: all ranks answer";
    all_end(loses_a_link, MBA_LOST_CODE, -1);
}

static void the_rank_that_failed_is_named_and_not_who_noticed(void **state)
{
    (void)state;
    ranks = 4;
    wanted[0] = "rank 2 (", wanted[1] = " is lost\nwhy: no sign of life", wanted[2] = "; the links of rank 1 failed";
    port = 21001 + (int)getpid() % 20000;
    all_end(meets_a_stopped_rank, MBA_LOST_CODE, 2);
    port++;
    all_end(fails_beside_a_stopped_rank, MBA_LOST_CODE, 2);
}

/* A folder for the messages. */
static int begin(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/nccl_test.XXXXXX");
    if (!mkdtemp(folder)) return 1;
    setenv("FAKE_NCCL_DIR", folder, 1);
    return 0;
}

static int finish(void **state)
{
    (void)state;
    char line[300];
    snprintf(line, sizeof line, "rm -r '%s'", folder);
    return system(line);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_library_that_cannot_serve_is_refused),
        cmocka_unit_test(one_rank_calls_it_and_changes_nothing),
        cmocka_unit_test(failures_say_what_and_why),
        cmocka_unit_test(ranks_exchange_by_their_links),
        cmocka_unit_test(a_broken_link_ends_all_ranks),
        cmocka_unit_test(the_rank_that_failed_is_named_and_not_who_noticed),
    };
    if (!getenv("MBA_NCCL")) {
        print_message("skipped: MBA_NCCL does not name the library of this test\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, begin, finish);
}
