// SPDX-License-Identifier: Apache-2.0
/* dice.h -- the same numbers in every run and on every machine, for tests that want many (Marsaglia's xorshift). */
#ifndef MBA_TESTS_DICE_H
#define MBA_TESTS_DICE_H

#include <stdint.h>

static uint64_t dice_state = 88172645463325252u; /* a test may begin anew */

static inline uint64_t dice(uint64_t below)
{
    dice_state ^= dice_state << 13;
    dice_state ^= dice_state >> 7;
    dice_state ^= dice_state << 17;
    return dice_state % below;
}

#endif
