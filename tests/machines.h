// SPDX-License-Identifier: Apache-2.0
/* machines.h -- what plans may know of the machines we compile for; for tests of plans only (the simulator has the real
 * sheets). */
#ifndef MBA_TESTS_MACHINES_H
#define MBA_TESTS_MACHINES_H

#include "core/plan.h"

static const mba_machine machines[] = {
    { "sm_80", 80, 108, 32, 65536, 2048, 166912, 167936, 41943040, 1.41, 1555, 0 },
    { "sm_90", 90, 132, 32, 65536, 2048, 232448, 233472, 52428800, 1.98, 4800, 0 },
    { "sm_100", 100, 148, 32, 65536, 2048, 232448, 233472, 132644864, 1.9, 8000, 0 },
};

#endif
