// SPDX-License-Identifier: Apache-2.0
/* best_ratio.h -- at which ratio of tensor to vector to special-function units an SSM operator is fastest, simulated,
 * if the chip may not grow or may not take more power.
 *
 *     mba_best_ratio *r = calloc(1, sizeof *r);
 *     MBA_TRY(mba_best_ratio_find(r, sim, workloads, n));
 *     const mba_ratio_point p = mba_ratio_best(&r->row[0], MBA_EQUAL_AREA);
 *     printf("%s: %.0f : 1, %.2f times as fast\n", r->row[0].op, r->tensor * mba_ratio_tensor[p.tensor], p.gain);
 *
 * There is no area or power model of a GPU to take from: the assumptions are those below, and the answer is given for
 * other shares of the area too. Vector units: FMA, ALU, packed half, and the issue slots that feed them. */
#ifndef MBA_STUDY_BEST_RATIO_H
#define MBA_STUDY_BEST_RATIO_H

#include "core/status.h"

struct mba_sim;
struct mba_workload;

enum { MBA_RATIO_TENSOR = 7, MBA_RATIO_SPECIAL = 3, MBA_RATIO_ROWS = 12 };
extern const double mba_ratio_tensor[MBA_RATIO_TENSOR];   /* tensor to vector rate, times what it is */
extern const double mba_ratio_special[MBA_RATIO_SPECIAL]; /* special-function to vector rate, times what it is */

/* Equal area: units take area in proportion to their rate, and the sum stays what it is; tensor units have half of it,
 * special functions a tenth, vector units the rest. Little, much: tensor units have a quarter, three quarters of it.
 * Equal power: the vector rate stays, the others are added or taken away, and all clocks change so that power stays; it
 * goes with the number of units and the cube of the clock, and half of the chip's goes into these units, by the same
 * shares. */
typedef enum mba_equal {
    MBA_EQUAL_AREA,
    MBA_EQUAL_AREA_LITTLE,
    MBA_EQUAL_AREA_MUCH,
    MBA_EQUAL_POWER,
    MBA_EQUALS
} mba_equal;
const char *mba_equal_name(mba_equal e); /* "equal area, tensor units 50 % of it", .. */

/* An operator with a set of kernels: all its launches in a step; op "": the whole step. */
typedef struct mba_ratio_row {
    char   model[64], kernels[48], op[48];
    double base_ms;
    double ms[MBA_EQUALS][MBA_RATIO_TENSOR][MBA_RATIO_SPECIAL]; /* NaN: not simulated */
} mba_ratio_row;

typedef struct mba_best_ratio {
    char          machine[64];
    double        tensor, vector; /* of the machine: tensor FLOPs per FMA FLOP; FMA FLOPs per special function */
    mba_ratio_row row[MBA_RATIO_ROWS];
    int           n;
} mba_best_ratio;

/* Simulates every SSM operator of the workloads, each in the first that has it: with the kernels that this program
 * chooses, and SSD also with those of the study's division of work. All workloads are on one machine. */
MBA_MUST mba_status mba_best_ratio_find(mba_best_ratio *out, struct mba_sim *sim, const struct mba_workload *w, int n);

/* The fastest point; gain: against the unchanged machine. low, high: the range of tensor to vector rates, times what it
 * is, that are within MBA_RATIO_FLAT of it with the best special-function rate of each. */
typedef struct mba_ratio_point {
    int    tensor, special;
    double gain, low, high;
} mba_ratio_point;
extern const double MBA_RATIO_FLAT;
mba_ratio_point     mba_ratio_best(const mba_ratio_row *r, mba_equal e);

#endif
