// SPDX-License-Identifier: Apache-2.0
/* emulated_operators.h -- changed machines that resident kernels emulate beside the kernels of SSM operators: which
 * there are, what the simulator predicts for them, and how much of the measured effect that is.
 *
 *     mba_emulated_rows *d;
 *     MBA_TRY(mba_emulated_rows_load(&d, NULL));              // NULL: the built-in set, measured on an H200
 *     MBA_TRY(mba_emulated_rows_predict(d, "h200"));
 *     double share = mba_effect_share(d->row[0].measured, d->row[0].predicted);
 *     mba_emulated_rows_destroy(d);
 */
#ifndef MBA_STUDY_EMULATED_OPERATORS_H
#define MBA_STUDY_EMULATED_OPERATORS_H

#include "device/cuda/disturb.h"
#include "study/validation_scores.h"

/* An operator with the shape that it has in a counted workload (src/sim/data/kernels). */
typedef struct mba_emulated_operator {
    const char *workload, *op, *variant;
    const char *like;   /* the size of the operator that gives the other dimensions (mba_op.sizes) */
    int64_t     dim[3]; /* the first dimensions */
} mba_emulated_operator;
extern const mba_emulated_operator mba_emulated_operators[]; /* the last has no workload */

/* A machine with less of one unit, by resident blocks; its baseline has sleeping blocks of as many warps (kinds that
 * take a pipe or DRAM) or of one (registers), which give L1 and shared memory the same sizes; or none. */
typedef struct mba_emulated_machine {
    const char     *name;
    mba_disturb_how how;
} mba_emulated_machine;
extern const mba_emulated_machine mba_emulated_machines[]; /* the last has no name */
mba_disturb_how                   mba_emulated_base(const mba_emulated_machine *e);

/* Why no block of `kernel` can run on an SM that has a resident block; "": one can. */
typedef struct mba_emulated_block {
    double threads, regs, smem_bytes; /* regs: of a thread */
} mba_emulated_block;
typedef struct mba_emulated_reason {
    char text[96];
} mba_emulated_reason;
mba_emulated_reason mba_emulated_no_room(const mba_disturb_how *how, const mba_emulated_block *b, const char *kernel,
                                         const mba_gpu *m);

/* Why a launch was not measured on the machine that `how` means: blocks were not resident, or did nothing; NULL: it
 * was. */
const char *mba_emulated_fault(const mba_disturb_how *how, const mba_disturbed *taken, const mba_disturb_fate *fate,
                               const mba_gpu *m);

/* What the blocks of a machine take if nothing delays their chains: latencies of `m`, and a copy at half of DRAM. */
mba_disturbed mba_emulated_planned(const mba_disturb_how *how, const mba_gpu *m);

/* The numbers of `m` that a resident block changes, for mba_gpu_set: "fma=x0.5,issue=x0.6"; "" if none. */
typedef struct mba_emulated_text {
    char text[128];
} mba_emulated_text;
mba_emulated_text mba_emulated_changes(const mba_disturb_how *how, const mba_disturbed *taken, const mba_gpu *m);

/* A measured kernel. Columns of the table: machine, workload, operator, place, kernel, changes of the baseline, changes
 * of the emulated machine ("fma=x0.5,issue=x0.6"; "-": none), us of the baseline, us emulated, and why these do not
 * count ("-": they do). */
typedef struct mba_emulated_row {
    char   machine[24], workload[160], op[48], kernel[64], base[128], changes[128], note[96];
    int    place;
    double us, emulated_us;     /* 0: not measured yet */
    double measured, predicted; /* time over that of the baseline; NaN: none */
} mba_emulated_row;

typedef struct mba_emulated_rows {
    mba_emulated_row *row;
    int64_t           n, room;
} mba_emulated_rows;

extern const char   mba_emulated_operators_text[]; /* src/sim/data/emulated_operators.tsv */
MBA_MUST mba_status mba_emulated_rows_load(mba_emulated_rows **out, const char *path);
MBA_MUST mba_status mba_emulated_rows_parse(mba_emulated_rows **out, const char *where, const char *text, size_t bytes);
void                mba_emulated_rows_destroy(mba_emulated_rows *d); /* NULL is fine */

/* All kernels of all operators on all machines as they are planned, not measured. */
MBA_MUST mba_status mba_emulated_rows_planned(mba_emulated_rows **out);

/* Predicts every row whose kernel was counted, profile-driven, on `machine`. */
MBA_MUST mba_status mba_emulated_rows_predict(mba_emulated_rows *d, const char *machine);

/* Sums over rows with a measured effect of 3 % or more. */
typedef struct mba_effects_score {
    int    rows, effects, right; /* right: of the same sign */
    double share, median;        /* mean and median share of the effect that is predicted, percent */
    int    near, null_near;      /* of all rows: within 10 %, of the prediction and of "nothing changes" */
} mba_effects_score;
mba_effects_score mba_emulated_rows_score(const mba_emulated_rows *d, const char *machine); /* NULL: all */

#endif
