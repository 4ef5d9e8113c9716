// SPDX-License-Identifier: Apache-2.0
/* limits_test.c -- little room: an address space that is limited, descriptors that are closed, a disk that is full. */
#include "tests/test.h"

#include <cblas.h>
#include <stdio.h>
#include <sys/wait.h>

#include "tests/scratch.h"

#define TRAIN \
    "mambascope train --model mamba2-130m --set width=32,layers=2,vocab=264,state=8,head_dim=16,chunk=16 " \
    "--batch 2 --length 32"

/* Runs a script in the scratch directory, where `mambascope` is the program, for a minute at most; its exit code. */
static int run(const char *script)
{
    char line[4096];
    snprintf(line, sizeof line, "cd '%s' && mambascope() { timeout -k 5 60 '%s' \"$@\"; }; %s", scratch_dir,
             getenv("MBA_PROGRAM"), script);
    const int status = system(line);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* So many KB beside the program itself, which is kernels for several GPUs mostly: under its own size the system ends
 * it. */
#define ROOM "ulimit -v $(( $(wc -c <\"$MBA_PROGRAM\") / 1024 + %d )); "

/* By itself, or by the loader, which says 127 where libraries find no room. 124 and 137: still there after a minute. */
#define ENDED "code=$?; test $code -lt 124 -o $code = 127"

/* OpenBLAS waited for ever for a thread without memory (gemm.c), also at the end of a program that had not used it. */
static void a_limited_address_space_is_an_error_or_enough(void **state)
{
    (void)state;
    if (getenv("MBA_TEST_SANITIZED")) skip(); // the sanitizer wants all addresses there are
    for (int kb = 50000; kb <= 130000; kb += 10000) {
        char line[256];
        snprintf(line, sizeof line, ROOM "mambascope list ops >all 2>&1; " ENDED, kb);
        assert_int_equal(run(line), 0);
    }
    // Room for the program, most of which is kernels for several GPUs, its libraries and OpenBLAS's threads; none for a
    // step.
    assert_int_equal(run("ulimit -v $(( $(wc -c <\"$MBA_PROGRAM\") / 1024 + 200000 + 10000 * $(nproc) )); "
                         "mambascope train --model mamba2-1.3b --batch 1 --length 512 --steps 1 >few 2>&1"),
                     1);
    assert_int_equal(run("grep -q 'no memory' few"), 0);
}

/* OpenBLAS asks for the buffer of its first product again and again where there is no room for it. From a limit that
 * the program hardly starts under to one that is enough: an end each time, and the reason where it is that buffer. */
static void openblas_without_room_is_an_error(void **state)
{
    int told = 0;
    (void)state;
    if (getenv("MBA_TEST_SANITIZED")) skip();
    for (int kb = 50000; kb <= 450000; kb += 25000) {
        char line[1024];
        snprintf(line, sizeof line,
                 "export MBA_GEMM=openblas OMP_NUM_THREADS=1; " ROOM TRAIN " --steps 1 >tight 2>&1; " ENDED, kb);
        assert_int_equal(run(line), 0);
        told += run("grep -q 'buffers of OpenBLAS' tight") == 0;
    }
    assert_true(told > 0);
    assert_int_equal(run("MBA_GEMM=openblas OMP_NUM_THREADS=1 " TRAIN " --steps 1 >enough 2>&1"), 0);
}

/* Room for four buffers of the largest size that an OpenBLAS takes (128 MiB) is not asked for where those of this one
 * are smaller: 32 MiB on Arm in 0.3.21. */
static void openblas_is_given_what_it_takes(void **state)
{
    int told = 0, served = 0;
    (void)state;
    if (getenv("MBA_TEST_SANITIZED")) skip();
    for (int kb = 150000; kb <= 450000; kb += 50000) {
        char line[1024];
        snprintf(line, sizeof line,
                 "export MBA_GEMM=openblas OMP_NUM_THREADS=4; " ROOM TRAIN " --steps 1 >tight 2>&1; " ENDED, kb);
        assert_int_equal(run(line), 0);
        told += run("grep -q 'buffers of OpenBLAS' tight") == 0;
        served += run("grep -q 'loss' tight") == 0;
    }
    assert_true(told > 0);
#ifdef __aarch64__
    if (strstr(openblas_get_config(), "OpenBLAS 0.3.21")) assert_true(served > 0);
#else
    (void)served;
#endif
}

static void a_file_that_is_cut_short_is_an_error(void **state)
{
    (void)state;
    if (getenv("MBA_TEST_SANITIZED")) skip(); // which has a handler of its own
    assert_int_equal(run("head -c 4000000 /dev/zero >t.bin; { " TRAIN
                         " --quiet --data t.bin --steps 100000000 --out cut >talk 2>&1; "
                         "echo $? >code; } & until [ -s cut/log.jsonl ]; do sleep 0.02; done; : >t.bin; wait; "
                         "test $(cat code) = 1 && grep -q \"t.bin' was truncated\" talk"),
                     0);
}

static void talk_stays_out_of_files(void **state)
{
    (void)state;
    assert_int_equal(run(TRAIN " --steps 4 --valid-every 1 --valid-fraction 0.1 --out a 2>&-"), 0);
    assert_int_equal(run(TRAIN " --steps 4 --valid-every 1 --valid-fraction 0.1 --out b <&- >&- 2>&-"), 1); // no result
    assert_int_equal(run("cat a/log.jsonl b/log.jsonl | grep -vc '^{\"step\": .*}$'"), 1); // no other line
    assert_int_equal(run("cmp a/step-000004/model.safetensors b/step-000004/model.safetensors"), 0);
}

static void a_full_disk_is_told_by_every_answer(void **state)
{
    (void)state;
    static const char *const words[] = { "--help", "--version", "list ops", "train --help", "manual" };
    if (access("/dev/full", W_OK)) skip();
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        char line[256];
        snprintf(line, sizeof line, "mambascope %s >/dev/full 2>told; test $? = 1 && grep -q 'cannot write' told",
                 words[i]);
        assert_int_equal(run(line), 0);
    }
}

static int begin(void **state)
{
    (void)state;
    scratch_make();
    return 0;
}
static int end(void **state)
{
    (void)state;
    scratch_remove();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_limited_address_space_is_an_error_or_enough),
        cmocka_unit_test(openblas_without_room_is_an_error),
        cmocka_unit_test(openblas_is_given_what_it_takes),
        cmocka_unit_test(a_file_that_is_cut_short_is_an_error),
        cmocka_unit_test(talk_stays_out_of_files),
        cmocka_unit_test(a_full_disk_is_told_by_every_answer),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
