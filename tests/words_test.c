// SPDX-License-Identifier: Apache-2.0
/* words_test.c -- the words that kernels are written in, tried one by one where there is a GPU: vectors of 16 bytes,
 * strided views, sums of warps and blocks, numbers, copies, tiles and fragments of the tensor cores, what sm_90a adds;
 * and that a block which waits for a state that nobody makes gives up. words_cuda.cu has the kernels. */
#include "tests/test.h"

#ifdef MBA_WITH_CUDA
#include <sys/wait.h>
#include <unistd.h>

#include "core/device.h"
#include "tests/words.h"

enum { SKIPPED = 77, GIVES_UP_S = 20 };

/* First, and in a process of its own: this one has no context yet, and that one loses its own. */
static void a_wait_in_vain_fails_the_launch(void **state)
{
    (void)state;
    int         how = 0;
    const pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        alarm(GIVES_UP_S);
        const mba_device *d;
        if (mba_device_cuda(&d, 0) != MBA_OK) _exit(SKIPPED);
        const mba_status st = words_waiting();
        _exit(st == MBA_OK ? 0 : st == MBA_E_UNSUPPORTED ? SKIPPED : 1);
    }
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFEXITED(how)); // a signal is the alarm: it waits for ever
    if (WEXITSTATUS(how) == SKIPPED) skip();
    assert_int_equal(WEXITSTATUS(how), 0);
}

static void try_word(mba_status (*word)(void))
{
    const mba_device *d;
    if (mba_device_cuda(&d, 0) != MBA_OK) skip();
    const mba_status st = word();
    if (st == MBA_E_UNSUPPORTED) skip();
    assert_ok(st);
}

#define X(name) \
    static void name##_are_as_the_header_says(void **state) \
    { \
        (void)state; \
        try_word(words_##name); \
    }
WORDS(X)
#undef X
#else
static void a_wait_in_vain_fails_the_launch(void **state)
{
    (void)state;
    skip();
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(a_wait_in_vain_fails_the_launch),
#ifdef MBA_WITH_CUDA
#define X(name) cmocka_unit_test(name##_are_as_the_header_says),
                                        WORDS(X)
#undef X
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
