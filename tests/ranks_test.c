// SPDX-License-Identifier: Apache-2.0
/* ranks_test.c -- `mpirun -np N mambascope train`: the same bytes on 1, 2 and 4 ranks, a run continued on fewer of
 * them, ranks that are killed, stopped or interrupted, and what is said. Skips itself where there is no Open MPI. */
#include "tests/program.h"

#include <signal.h>
#include <sys/ptrace.h>
#include <sys/stat.h>

#include "core/file.h"

static const char TEXT[] = SMALL " --global-batch 8 --sum tree --quiet";

/* Runs `mambascope ARGS` on so many ranks; Open MPI refuses root and more ranks than cores unless told otherwise. */
static int ranks(int n, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static int ranks(int n, const char *fmt, ...)
{
    char    args[2048], line[4096];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(args, sizeof args, fmt, ap);
    va_end(ap);
    if (n == 1) return run("%s", args);
    snprintf(line, sizeof line,
             "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMP_NUM_THREADS=1 timeout 120 mpirun "
             "--oversubscribe --bind-to none -np %d '%s' %s 2>&1",
             n, program_path(), args);
    return shell(line);
}

static void same_file(const char *a, const char *b, const char *file)
{
    char   path[512], *x, *y;
    size_t n, m;
    snprintf(path, sizeof path, "%s/%s/step-000020/%s", scratch_dir, a, file);
    assert_ok(mba_file_read(&x, &n, path, 1 << 28));
    snprintf(path, sizeof path, "%s/%s/step-000020/%s", scratch_dir, b, file);
    assert_ok(mba_file_read(&y, &m, path, 1 << 28));
    assert_int_equal(n, m);
    assert_memory_equal(x, y, n);
    free(x);
    free(y);
}

static void same_run(const char *a, const char *b)
{
    same_file(a, b, "model.safetensors");
    same_file(a, b, "optimizer.safetensors");
}

static void every_family_has_the_same_bytes_on_1_2_and_4_ranks(void **state)
{
    (void)state;
    static const char *const model[] = {
        "--model mamba-130m --set width=32,layers=2,vocab=264,state=8 --batch 2 --length 32 --global-batch 8",
        SMALL " --global-batch 8",
        "--model hybrid-130m --set width=32,layers=3,vocab=264,state=8,head_dim=16,chunk=16 --batch 2 --length 32 "
        "--global-batch 8",
        VISION " --batch 2 --global-batch 8", GRAPH " --global-batch 16"
    };
    for (int i = 0; i < 5; i++) {
        const char *data = i < 3 ? scratch("tokens") : NULL;
        char        given[512] = "";
        if (data) snprintf(given, sizeof given, "--data '%s'", data);
        for (int n = 1; n <= 4; n *= 2)
            says(ranks(n, "train %s %s --sum tree --steps 20 --quiet --out '%s/f%d-%d'", model[i], given, scratch_dir,
                       i, n),
                 0, "20 steps");
        for (int n = 2; n <= 4; n *= 2) {
            char one[32], many[32];
            snprintf(one, sizeof one, "f%d-1", i);
            snprintf(many, sizeof many, "f%d-%d", i, n);
            same_run(one, many);
        }
    }
}

static void a_run_continues_on_any_number_of_ranks(void **state)
{
    (void)state;
    says(ranks(1, "train %s " DATA " --steps 20 --out '%s/whole'", TEXT, scratch_dir, scratch_dir), 0, "20 steps");
    says(ranks(4, "train %s " DATA " --steps 20 --stop-after 6 --out '%s/parts'", TEXT, scratch_dir, scratch_dir), 0,
         "6 steps");
    says(ranks(2, "train --resume '%s/parts' --stop-after 6 --quiet", scratch_dir), 0, "12 steps");
    says(ranks(1, "train --resume auto --out '%s/parts' --quiet", scratch_dir), 0, "20 steps");
    same_run("whole", "parts");
    char  *log;
    size_t n, lines = 0;
    assert_ok(mba_file_read(&log, &n, scratch("parts/log.jsonl"), 1 << 20));
    for (size_t i = 0; i < n; i++) lines += log[i] == '\n';
    free(log);
    assert_int_equal(lines, 20);
}

/* The second rank sees an empty file system in the place of --out, as on a host that does not share it. */
static void ranks_without_a_shared_folder_save_through_rank_0(void **state)
{
    (void)state;
    char line[4096];
    if (geteuid() || shell("unshare --mount true 2>&1")) skip();
    says(ranks(1, "train %s " DATA " --steps 20 --ema 0.9 --out '%s/seen'", TEXT, scratch_dir, scratch_dir), 0,
         "20 steps");
    assert_int_equal(mkdir(scratch("apart"), 0700), 0);
    snprintf(
        line, sizeof line,
        "export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMP_NUM_THREADS=1; timeout 120 mpirun "
        "--oversubscribe --bind-to none -np 2 sh -c 'case $OMPI_COMM_WORLD_RANK in 0) exec \"$@\";; *) exec unshare "
        "--mount sh -c \"mount -t tmpfs none %s/apart && exec \\\"\\$@\\\"\" sh \"$@\";; esac' sh '%s' train %s "
        "--data '%s/tokens' --steps 20 --ema 0.9 --save-every 10 --out '%s/apart' 2>&1",
        scratch_dir, program_path(), TEXT, scratch_dir, scratch_dir);
    says(shell(line), 0, "slow: rank 0 writes checkpoints for all ranks");
    assert_null(strstr(strstr(output, "slow:") + 1, "slow:")); // once
    same_run("seen", "apart");
}

static int losses(const char *name, double *loss, int most)
{
    char   path[512], *log;
    size_t n;
    int    got = 0;
    snprintf(path, sizeof path, "%s/%s/log.jsonl", scratch_dir, name);
    assert_ok(mba_file_read(&log, &n, path, 1 << 20));
    for (char *s = log; got < most && (s = strstr(s, "\"loss\": ")); s++) loss[got++] = atof(s + strlen("\"loss\": "));
    free(log);
    return got;
}

/* Sequences in 2 and 4 parts, and two sequences at once in two parts each. */
static void parts_of_sequences_learn_what_one_rank_learns(void **state)
{
    (void)state;
    static const char *const model[] = {
        "--model mamba-130m --set width=32,layers=2,vocab=264,state=8",
        "--model mamba2-130m --set width=32,layers=2,vocab=264,state=8,head_dim=16,chunk=16",
        ("--model hybrid-130m --set width=32,vocab=264,state=8,head_dim=16,chunk=16,"
         "q_heads=4,attn_dim=8,kv_heads=2,mlp=64,rotary=4,attn_conv=4,pattern=M*-M")
    };
    static const struct {
        int ranks, parts;
    } how[] = { { 1, 1 }, { 2, 2 }, { 4, 4 }, { 4, 2 } };
    for (int i = 0; i < 3; i++) {
        double one[5], some[5];
        for (int k = 0; k < 4; k++) {
            char name[32];
            snprintf(name, sizeof name, "q%d-%d", i, k);
            says(ranks(how[k].ranks,
                       "train %s " DATA " --batch 1 --length 128 --global-batch 2 --sum tree --sequence-ranks %d "
                       "--steps 5 --quiet --out '%s/%s'",
                       model[i], scratch_dir, how[k].parts, scratch_dir, name),
                 0, "5 steps");
            assert_int_equal(losses(name, k ? some : one, 5), 5);
            for (int s = 0; k && s < 5; s++) assert_true(fabs(some[s] / one[s] - 1) < 2e-6);
        }
    }
    says(ranks(1, "train --resume auto --sequence-ranks 1 --steps 7 --quiet --out '%s/q1-3'", scratch_dir), 0,
         "7 steps");
}

/* States of 4 MB, over TCP: such a message moves only while its sender is inside MPI, and the sender goes to wait for
 * the others outside of it. */
static void large_states_arrive_over_tcp(void **state)
{
    (void)state;
    char line[4096];
    snprintf(
        line, sizeof line,
        "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMP_NUM_THREADS=1 timeout 60 mpirun "
        "--oversubscribe --bind-to none --mca btl tcp,self --mca pml ob1 -np 2 '%s' train --model mamba2-130m "
        "--set width=256,layers=1,vocab=264,state=64,head_dim=64,chunk=16 --data '%s/tokens' --batch 32 "
        "--length 64 --global-batch 32 --sum tree --sequence-ranks 2 --steps 2 --quiet --timeout 8 --out '%s/tcp' 2>&1",
        program_path(), scratch_dir, scratch_dir);
    says(shell(line), 0, "2 steps");
}

static void parts_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    says(ranks(2, "train %s " DATA " --sequence-ranks 4", TEXT, scratch_dir), 2,
         "--sequence-ranks 4 does not divide 2");
    says(ranks(2, "train %s " DATA " --length 31 --sequence-ranks 2", TEXT, scratch_dir), 2, "fix: --length 30");
    says(ranks(2, "train " VISION " --sequence-ranks 2"), 2, "is for text");
}

/* Text is encoded once, by rank 0, and all ranks read it. */
static void text_is_encoded_by_one_rank(void **state)
{
    (void)state;
    FILE *f = fopen(scratch("book.txt"), "w");
    for (int i = 0; i < 2000; i++) fprintf(f, "Line %d of a book about ranks.\n", i);
    fclose(f);
    says(ranks(2, "train %s --data '%s/book.txt' --steps 3 --out '%s/book'", TEXT, scratch_dir, scratch_dir), 0,
         "3 steps");
}

/* Starts `mambascope train ARGS` on two ranks, in the background; `more` are options of mpirun. */
static pid_t start_run(const char *name, const char *more, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static pid_t start_run(const char *name, const char *more, const char *fmt, ...)
{
    char    args[2048], line[4096];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(args, sizeof args, fmt, ap);
    va_end(ap);
    snprintf(line, sizeof line,
             "export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMP_NUM_THREADS=1; exec mpirun "
             "--oversubscribe --bind-to none %s -np 2 '%s' train %s --timeout 5 --out '%s/%s' > '%s/%s.said' 2>&1",
             more, program_path(), args, scratch_dir, name, scratch_dir, name);
    fflush(NULL);
    const pid_t pid = fork();
    if (!pid) {
        execl("/bin/sh", "sh", "-c", line, (char *)NULL);
        _exit(127);
    }
    return pid;
}

static void await_file(const char *name, const char *file)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s/%s", scratch_dir, name, file);
    for (int i = 0; i < 600 && access(path, F_OK); i++) usleep(100000);
    assert_int_equal(access(path, F_OK), 0);
}

/* A long run that has saved. */
static pid_t start_long(const char *name, const char *more)
{
    const pid_t pid = start_run(name, more, "%s " DATA " --steps 1000000 --save-every 20", TEXT, scratch_dir);
    await_file(name, "step-000020");
    return pid;
}

/* The processes of the run, as many as `most`. */
static int processes(const char *name, pid_t *pid, int most)
{
    char line[512];
    snprintf(line, sizeof line,
             "pgrep -x mambascope | while read p; do tr '\\0' ' ' < /proc/$p/cmdline | grep -q "
             "'%s/%s ' && echo $p; done",
             scratch_dir, name);
    shell(line);
    int n = 0;
    for (char *s = output; n < most && *s; s = strchr(s, '\n') + 1) pid[n++] = (pid_t)atoi(s);
    return n;
}

static pid_t held_thread; /* 0: none; its end is told to this process first */

static int wait_for(pid_t pid, double seconds)
{
    int status;
    for (int i = 0; i < (int)(10 * seconds); i++, usleep(100000)) {
        if (held_thread) (void)!waitpid(held_thread, &status, WNOHANG | __WALL);
        if (waitpid(pid, &status, WNOHANG) == pid)
            return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    return -1;
}

static void said(const char *name, const char *words)
{
    char   path[512], *text;
    size_t n;
    snprintf(path, sizeof path, "%s/%s.said", scratch_dir, name);
    assert_ok(mba_file_read(&text, &n, path, 1 << 20));
    if (!strstr(text, words)) print_error("wanted \"%s\" in:\n%s\n", words, text);
    assert_non_null(strstr(text, words));
    free(text);
}

/* The newest checkpoint is whole, and the run goes on from it. */
static void goes_on(const char *name)
{
    says(ranks(2, "train --resume auto --out '%s/%s' --stop-after 2 --quiet", scratch_dir, name), 0, " steps, ");
}

static void a_killed_rank_ends_the_run_with_its_name(void **state)
{
    (void)state;
    for (int victim = 0; victim < 2; victim++) {
        pid_t pid[2];
        char  name[16];
        snprintf(name, sizeof name, "kill%d", victim);
        const pid_t run = start_long(name, "");
        assert_int_equal(processes(name, pid, 2), 2);
        kill(pid[victim], SIGKILL);
        assert_int_equal(wait_for(run, 30), 75);
        assert_int_equal(processes(name, pid, 2), 0);
        said(name, " is lost\n  why: its connection closed");
        goes_on(name);
    }
}

static void a_stopped_rank_is_lost_after_the_timeout(void **state)
{
    (void)state;
    pid_t       pid[2];
    const pid_t run = start_long("stop", "");
    assert_int_equal(processes("stop", pid, 2), 2);
    kill(pid[1], SIGSTOP);
    assert_int_equal(wait_for(run, 30), 75);
    kill(pid[1], SIGKILL);
    said("stop", "no sign of life for 5 s");
    goes_on("stop");
}

/* ---- ranks that are stopped or stuck before a step has ended, in reading and in validating ---- */

/* A set of images with a part for validation. */
static void make_images(void)
{
    char line[1024];
    snprintf(line, sizeof line,
             "for f in train/a train/b val/a val/b; do mkdir -p '%s/images/'$f; for k in 1 2 3 4; do "
             "cp tests/data/images/really.png '%s/images/'$f/$k.png || exit 1; done; done",
             scratch_dir, scratch_dir);
    assert_int_equal(shell(line), 0);
}

/* Starts `mambascope train ARGS`, in which `rank` opens a file in a folder `in` and never returns (tests/hang.c). */
static pid_t start_hanging(const char *name, const char *in, int rank, const char *args)
{
    char more[1024], note[64];
    snprintf(more, sizeof more,
             "-x LD_PRELOAD='%s' -x ASAN_OPTIONS=detect_leaks=0:verify_asan_link_order=0 -x MBA_HANG=/%s/ -x "
             "MBA_HANG_RANK=%d -x MBA_HANG_NOTE='%s/%s.hangs'",
             getenv("MBA_TEST_HANG"), in, rank, scratch_dir, name);
    const pid_t run = start_run(name, more, "%s --quiet", args);
    snprintf(note, sizeof note, "../%s.hangs", name);
    await_file(name, note);
    return run;
}

/* A run on images, of which `part` hangs. */
static pid_t start_on_images(const char *name, const char *part, int rank)
{
    char args[1024];
    snprintf(args, sizeof args,
             VISION " --data '%s/images' --batch 1 --global-batch 4 --steps 9 --valid-every 2 --workers 1 --sum tree",
             scratch_dir);
    return start_hanging(name, part, rank, args);
}

/* A run whose first step takes minutes. */
static pid_t start_slow(const char *name)
{
    const pid_t run = start_run(name, "",
                                SMALL " --length 512 --global-batch 60000 --sum tree --quiet " DATA " --steps 2",
                                scratch_dir);
    await_file(name, "log.jsonl");
    sleep(1); // its data is staged
    return run;
}

static pid_t start_in(const char *phase, const char *name)
{
    return !strcmp(phase, "step") ? start_slow(name) : start_on_images(name, phase, !strcmp(phase, "train"));
}

/* The process of that rank. */
static pid_t process_of(const char *name, int rank)
{
    pid_t pid[2];
    char  line[128];
    assert_int_equal(processes(name, pid, 2), 2);
    snprintf(line, sizeof line, "tr '\\0' '\\n' < /proc/%d/environ | grep -qx OMPI_COMM_WORLD_RANK=%d", (int)pid[0],
             rank);
    return pid[shell(line) ? 1 : 0];
}

static void named(const char *name, int rank, const char *why)
{
    char words[32];
    snprintf(words, sizeof words, "rank %d (", rank);
    said(name, words);
    said(name, why);
}

static const struct phase {
    const char *at;
    int         rank;
} phases[] = { { "step", 0 }, { "step", 1 }, { "train", 1 }, { "val", 0 } };
enum { PHASES = sizeof phases / sizeof *phases };

static void a_rank_that_is_stopped_anywhere_is_lost(void **state)
{
    (void)state;
    for (int k = 0; k < PHASES; k++) {
        char name[24];
        snprintf(name, sizeof name, "stopped%d", k);
        const pid_t run = start_in(phases[k].at, name), rank = process_of(name, phases[k].rank);
        kill(rank, SIGSTOP);
        assert_int_equal(wait_for(run, 30), 75);
        kill(rank, SIGKILL);
        named(name, phases[k].rank, "no sign of life for 5 s");
    }
}

static void a_rank_that_hangs_in_reading_or_validating_is_lost(void **state)
{
    (void)state;
    for (int k = 0; k < PHASES; k++) {
        char name[24];
        if (!strcmp(phases[k].at, "step")) continue;
        snprintf(name, sizeof name, "hangs%d", k);
        assert_int_equal(wait_for(start_in(phases[k].at, name), 30), 75);
        named(name, phases[k].rank, "it answers, but has done nothing for ");
    }
    says(ranks(1, "train %s " DATA " --steps 9 --stop-after 2 --out '%s/resumed'", TEXT, scratch_dir, scratch_dir), 0,
         "2 steps");
    assert_int_equal(wait_for(start_hanging("resumed", "step-000002", 0, "--resume auto"), 30), 75);
    named("resumed", 0, "it answers, but has done nothing for ");
}

/* The main thread alone is held, as by a lock that nobody gives back: others of its process go on. */
static void a_first_step_that_does_not_go_on_is_lost(void **state)
{
    (void)state;
    for (int victim = 0; victim < 2; victim++) {
        char name[16];
        snprintf(name, sizeof name, "held%d", victim);
        const pid_t run = start_slow(name), rank = process_of(name, victim);
        const bool  held = !ptrace(PTRACE_SEIZE, rank, NULL, NULL) && !ptrace(PTRACE_INTERRUPT, rank, NULL, NULL);
        if (!held) {
            kill(run, SIGTERM);
            wait_for(run, 30);
            print_message("this machine lets no process hold another\n");
            skip();
        }
        held_thread = rank;
        assert_int_equal(wait_for(run, 30), 75);
        held_thread = 0;
        named(name, victim, "it answers, but has done nothing for ");
    }
}

/* mpirun passes SIGTERM on, and kills what is left after as many seconds as it is told to wait. */
static void a_signal_saves_at_one_step(void **state)
{
    (void)state;
    static const int         sent[] = { SIGTERM, SIGINT };
    static const char *const name[] = { "term", "int" };
    pid_t                    pid[2], run;
    for (int i = 0; i < 2; i++) {
        run = start_long(name[i], "");
        assert_int_equal(processes(name[i], pid, 2), 2);
        kill(pid[!i], sent[i]);
        assert_int_equal(wait_for(run, 30), 0);
        said(name[i], "interrupted, saved");
        goes_on(name[i]);
    }
    run = start_long("preempted", "--mca odls_base_sigkill_timeout 5");
    kill(run, SIGTERM);
    assert_true(wait_for(run, 30) >= 0);
    said("preempted", "interrupted, saved");
    goes_on("preempted");
}

static void errors_are_said_once_with_the_rank(void **state)
{
    (void)state;
    says(ranks(2, "train %s " DATA " --steps 2 --global-batch 6", TEXT, scratch_dir), 2,
         "a global batch of 6 does not divide among 2 rank(s) of 2 items each");
    assert_null(strstr(strstr(output, "does not divide") + 1, "does not divide"));
    says(ranks(2, "train %s --data /nowhere --steps 2", TEXT), 1, "no token files at '/nowhere'");
    says(ranks(2, "train %s " DATA " --sum chain", TEXT, scratch_dir), 2, "--sum chain with 2 ranks");
    says(ranks(3, "train %s " DATA " --steps 2", SMALL, scratch_dir), 1, "started 3 ranks");
    says(ranks(2, "train --help"), 0, "--global-batch");
    says(ranks(2, "train %s --dry-run", SMALL), 0, "parameter");
    says(shell("RANK=0 WORLD_SIZE=2 $MBA_PROGRAM train --model mamba2-130m 2>&1"), 1, "torchrun started 2 ranks");
    says(shell("RANK=5 WORLD_SIZE=2 $MBA_PROGRAM train --model mamba2-130m 2>&1"), 2, "RANK is 5, but WORLD_SIZE is 2");
}

static int make_both(void **state)
{
    const int failed = make_data(state);
    make_images();
    return failed;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_family_has_the_same_bytes_on_1_2_and_4_ranks),
        cmocka_unit_test(a_run_continues_on_any_number_of_ranks),
        cmocka_unit_test(ranks_without_a_shared_folder_save_through_rank_0),
        cmocka_unit_test(parts_of_sequences_learn_what_one_rank_learns),
        cmocka_unit_test(large_states_arrive_over_tcp),
        cmocka_unit_test(parts_that_do_not_fit_are_refused),
        cmocka_unit_test(text_is_encoded_by_one_rank),
        cmocka_unit_test(a_killed_rank_ends_the_run_with_its_name),
        cmocka_unit_test(a_stopped_rank_is_lost_after_the_timeout),
        cmocka_unit_test(a_rank_that_is_stopped_anywhere_is_lost),
        cmocka_unit_test(a_rank_that_hangs_in_reading_or_validating_is_lost),
        cmocka_unit_test(a_first_step_that_does_not_go_on_is_lost),
        cmocka_unit_test(a_signal_saves_at_one_step),
        cmocka_unit_test(errors_are_said_once_with_the_rank),
    };
    if (shell("command -v mpirun") || run("--version") || !strstr(output, "plug-in, opened for several ranks")) {
        print_message("skipped: mpirun, or the plug-in of MPI, is not here\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, make_both, remove_data);
}
