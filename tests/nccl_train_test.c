// SPDX-License-Identifier: Apache-2.0
/* nccl_train_test.c -- training on ranks that exchange by the interface of NCCL: the same bytes as one rank with the
 * same slots. A library of the tests stands in the place of NCCL (fake_nccl.c), so that all ranks can share one GPU:
 * kernels that only several ranks launch run there, in captured steps. Without a GPU, the same on the CPU.
 *
 * A rank is this program again, with its part as arguments: CUDA does not outlive a fork. */
#include "tests/training.h"

#include <spawn.h>
#include <sys/wait.h>

#include "cluster/join.h"
#include "core/file.h"
#include "device/cuda/nccl.h"

enum { SLOTS = 4, STEPS = 6, RANKS_MOST = 4 };
static const double CLOSE = 1e-4; // of a loss: the CPU adds in another order

extern char **environ;

/* ---- a rank ---- */

typedef struct part {
    const char *device, *work, *text, *out;
    int         ranks, rank;
} part;

static void keep(void *ctx, const mba_train_report *r)
{
    const part *p = ctx;
    char        path[512];
    if (p->rank || r->step != STEPS) return;
    snprintf(path, sizeof path, "%s.loss", p->out);
    scratch_put(path, &r->loss, sizeof r->loss);
}

static mba_train_options work(const char *name)
{
    mba_train_options o = options("MM", STEPS);
    if (!strcmp(name, "vision")) o = other("mambavision-t", SMALL_VISION, (mba_batch_shape){ .batch = 4 }, STEPS);
    if (!strcmp(name, "lamb")) o.session.optimizer = MBA_LAMB;
    if (!strcmp(name, "lamb") || !strcmp(name, "buckets")) o.session.model.lm.width = 128; // longer than one exchange
    if (!strcmp(name, "buckets")) o.session.bucket_bytes = 1;
    if (!strcmp(name, "bf16")) o.session.compute = MBA_BF16;
    o.guard = 0;
    o.schedule.lr = 1e-3;
    return o;
}

static void end_process(void *ctx, const mba_channel_end *e)
{
    (void)ctx;
    if (e->prints) fprintf(stderr, "%s\n", e->text);
    _exit(e->code);
}

static mba_status join(mba_world **w, const mba_device *d)
{
    mba_launcher l;
    MBA_TRY(mba_launcher_find(&l, getenv));
    if (l.ranks < 2) return MBA_OK;
    MBA_TRY(
        mba_cluster_join(w, &l, &(mba_cluster_options){ .gpus = true, .lost = end_process, .check = mba_nccl_check }));
    return d->alloc_host ? MBA_OK : mba_nccl_open(*w, d); // on a GPU the session opens it
}

static mba_status live(const part *p)
{
    const mba_device *d = &mba_device_cpu;
    mba_world        *w = NULL;
    mba_train_options o = work(p->work);
    if (!strcmp(p->device, "cuda")) MBA_TRY(mba_device_cuda(&d, 0));
    MBA_TRY(join(&w, d));
    mba_cpu_set_threads(1);
    o.session.device = d;
    if (o.feed.data) o.feed.data = p->text;
    o.world = w;
    o.tree = true;
    o.micros = SLOTS / p->ranks;
    o.out = p->out;
    o.report = keep;
    o.ctx = (void *)p;
    MBA_TRY(mba_train(&o));
    mba_nccl_close();
    mba_cluster_leave(w);
    return MBA_OK;
}

static int as_rank(char **argv)
{
    const part p = { argv[1], argv[2], argv[3], argv[4], atoi(argv[5]), atoi(argv[6]) };
    alarm(120);
    if (live(&p) == MBA_OK) return 0;
    fprintf(stderr, "rank %d of %d, %s on %s: %s\n", p.rank, p.ranks, p.work, p.device, mba_message());
    return 1;
}

/* ---- all of them ---- */

static void say(char *name, const char *value) { setenv(name, value, 1); }

static pid_t start(const char *device, const char *name, const char *out, int ranks, int rank)
{
    static char self[] = "/proc/self/exe";
    char        n[16], k[16], local[16];
    pid_t       pid;
    snprintf(n, sizeof n, "%d", ranks);
    snprintf(k, sizeof k, "%d", rank);
    snprintf(local, sizeof local, "%d", 0); // one GPU
    say("WORLD_SIZE", n);
    say("RANK", k);
    say("LOCAL_RANK", local);
    char *argv[] = { self, (char *)device, (char *)name, (char *)scratch("tokens"), (char *)out, n, k, NULL };
    assert_int_equal(posix_spawn(&pid, self, NULL, NULL, argv, environ), 0);
    return pid;
}

static void train(const char *device, const char *name, const char *out, int ranks)
{
    pid_t      pid[RANKS_MOST];
    char       port[16];
    static int runs;
    snprintf(port, sizeof port, "%d", 21000 + ((int)getpid() * 16 + runs++) % 20000);
    say("MASTER_ADDR", "localhost");
    say("MASTER_PORT", port);
    for (int r = 0; r < ranks; r++) pid[r] = start(device, name, out, ranks, r);
    for (int r = 0; r < ranks; r++) {
        int status;
        waitpid(pid[r], &status, 0);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
    }
}

static void same_file(const char *a, const char *b, const char *file)
{
    char   path[512], *x, *y;
    size_t n, m;
    snprintf(path, sizeof path, "%s/step-%06d/%s", a, STEPS, file);
    assert_ok(mba_file_read(&x, &n, path, 1 << 28));
    snprintf(path, sizeof path, "%s/step-%06d/%s", b, STEPS, file);
    assert_ok(mba_file_read(&y, &m, path, 1 << 28));
    assert_int_equal(n, m);
    assert_memory_equal(x, y, n);
    free(x);
    free(y);
}

static double loss_of(const char *out)
{
    char   path[512], *x;
    size_t n;
    double loss;
    snprintf(path, sizeof path, "%s.loss", out);
    assert_ok(mba_file_read(&x, &n, path, 64));
    assert_int_equal(n, sizeof loss);
    memcpy(&loss, x, sizeof loss);
    free(x);
    return loss;
}

/* One, two and four ranks; with four, text sends buckets beside the backward pass. */
static void all_numbers_of_ranks(const char *device, const char *name)
{
    char one[300], some[300];
    snprintf(one, sizeof one, "%s/%s-%s-1", scratch_dir, device, name);
    train(device, name, one, 1);
    for (int ranks = 2; ranks <= RANKS_MOST; ranks *= 2) {
        snprintf(some, sizeof some, "%s/%s-%s-%d", scratch_dir, device, name, ranks);
        train(device, name, some, ranks);
        same_file(one, some, "model.safetensors");
        same_file(one, some, "optimizer.safetensors");
    }
}

static const char *const names[] = { "plain", "buckets", "lamb", "vision" };
enum { NAMES = sizeof names / sizeof *names };

static void ranks_on_the_cpu_end_in_the_bytes_of_one(void **state)
{
    (void)state;
    for (int i = 0; i < NAMES; i++) all_numbers_of_ranks("cpu", names[i]);
}

/* And what the GPU learns is what the CPU learns. */
static void ranks_that_share_a_gpu_end_in_the_bytes_of_one(void **state)
{
    (void)state;
    char cpu[300], gpu[300];
    if (!mba_cuda_count()) skip();
    say("FAKE_NCCL_GPU", "1");
    for (int i = 0; i < NAMES; i++) {
        all_numbers_of_ranks("cuda", names[i]);
        snprintf(cpu, sizeof cpu, "%s/cpu-%s-1", scratch_dir, names[i]);
        snprintf(gpu, sizeof gpu, "%s/cuda-%s-4", scratch_dir, names[i]);
        assert_near(loss_of(gpu), loss_of(cpu), CLOSE * loss_of(cpu));
    }
    all_numbers_of_ranks("cuda", "bf16");
    unsetenv("FAKE_NCCL_GPU");
}

static int begin(void **state)
{
    if (prepare_data(state)) return -1;
    const char *folder = scratch("messages");
    if (mkdir(folder, 0700)) return -1;
    return setenv("FAKE_NCCL_DIR", folder, 1);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_on_the_cpu_end_in_the_bytes_of_one),
        cmocka_unit_test(ranks_that_share_a_gpu_end_in_the_bytes_of_one),
    };
    if (argc == 7) return as_rank(argv);
    if (!getenv("MBA_NCCL")) {
        print_message("skipped: MBA_NCCL does not name the library of this test\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, begin, remove_data);
}
