// SPDX-License-Identifier: Apache-2.0
/* gpu_cases.h -- cases of an operator beyond its own list, every variant of each on the GPU against fp64; skipped where
 * there is none.
 *
 *     static const mba_case cases[] = { { { 1, 150 }, "ragged" }, { { 0 }, NULL } };
 *     assert_right_on_the_gpu(&mba_op_embed, cases);
 */
#ifndef MBA_TEST_GPU_CASES_H
#define MBA_TEST_GPU_CASES_H

#include "core/check.h"
#include "core/device.h"
#include "tests/test.h"

/* All of them are tried, and told, before the test fails. */
static inline void assert_right_on_the_gpu(const mba_op *op, const mba_case *cases)
{
    const mba_device *d;
    int               bad = 0;
    if (mba_device_cuda(&d, 0) != MBA_OK) skip();
    for (const mba_case *c = cases; c->note; c++)
        for (int half = 0; half < 2; half++) {
            mba_check w = { 0 };
            assert_ok(mba_check_case_on(&w, op, c, d, half ? MBA_BF16 : MBA_F32));
            const bool wrong = !(w.cpu_error <= 1) || w.strays || w.changed;
            bad += wrong;
            printf("%s %s, %s: %.2f of its tolerance (%.1e relative), %d strays, %d changed\n", wrong ? "BAD" : "   ",
                   c->note, half ? "bf16" : "fp32", w.cpu_error, w.cpu_relative, w.strays, w.changed);
        }
    assert_int_equal(bad, 0);
}

#endif
