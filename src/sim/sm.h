// SPDX-License-Identifier: Apache-2.0
/* sm.h -- one SM, instruction by instruction: the warps of resident blocks issue a program on a scheduler with pipes of
 * its own, and share the load/store queue and the shared memory with the other three.
 *
 *     mba_sm      sm = mba_sm_of(gpu);
 *     mba_sm_code code;
 *     if (mba_sm_code_of(&code, counts)) printf("%.2f\n", mba_sm_cycles(&code, &sm, warps, blocks));
 *
 * An instruction issues when its scheduler and its pipe are free, the stall of the one before has passed and the
 * barriers (scoreboards) it waits for are clear, first come first served. Every number of mba_sm comes from the machine
 * file. Global memory answers at once: its time is the engine's (engine.h). Time is a whole number of 1/256 cycles.
 * Sub-partitions are alike, so one is simulated: what all share serves it at a quarter of its rate.
 *
 * mba_sm_code_of makes a program from counters: instructions of every pipe in the counted shares, with the stalls and
 * dependences of compiled code, so that a lone warp on the SM that the code was compiled for (sm_90) takes the cycles
 * that were read in its code. The program then tells how those cycles change with the machine. */
#ifndef MBA_SIM_SM_H
#define MBA_SIM_SM_H

#include "sim/profiled.h"

typedef enum mba_sm_unit {
    MBA_SM_NONE, /* takes an issue slot only: jumps, barriers, uniform registers */
    MBA_SM_FMA,
    MBA_SM_HEAVY, /* integer multiply-add: half of the FMA units */
    MBA_SM_ALU,
    MBA_SM_XU,
    MBA_SM_MMA,    /* a warp-level product */
    MBA_SM_GROUP,  /* a product of a warp group: asynchronous, operands in shared memory */
    MBA_SM_MEMORY, /* shared memory, exchanges, requests to L1: the load/store queue and wavefronts */
    MBA_SM_UNITS
} mba_sm_unit;

/* Ticks (1/256 cycles). */
typedef struct mba_sm {
    int64_t issue;                 /* a scheduler, for an instruction */
    int64_t takes[MBA_SM_UNITS];   /* a pipe of one sub-partition, for an instruction */
    int64_t latency[MBA_SM_UNITS]; /* until a result can be waited for */
    int64_t taken, front;          /* of the SM: load/store queue, for an instruction; shared memory, a wavefront */
    double  stretch;               /* latency of an addition against that of sm_90 */
} mba_sm;

typedef struct mba_sm_inst {
    uint8_t unit, stall; /* stall: cycles until the warp's next instruction on sm_90, at least 1 */
    int8_t  sets, waits; /* number of the barrier that its result clears, that it waits for; -1: none */
    int32_t fronts;      /* wavefronts of MBA_SM_MEMORY, 1/16 */
} mba_sm_inst;

enum { MBA_SM_CODE = 128, MBA_SM_BARRIERS = 16, MBA_SM_WARPS = 16 };
typedef struct mba_sm_code { /* a loop */
    mba_sm_inst inst[MBA_SM_CODE];
    int         n;
} mba_sm_code;

mba_sm mba_sm_of(const mba_gpu *m);
bool   mba_sm_same(const mba_sm *a, const mba_sm *b);
mba_sm mba_sm_90(void); /* the SM for which tools/sass_path reads code */

/* Mean cycles of an instruction of a warp when `blocks` blocks of `warps` warps run the loop at once, in the steady
 * state. A scheduler has at most MBA_SM_WARPS of them. */
double mba_sm_cycles(const mba_sm_code *code, const mba_sm *sm, int warps, int blocks);

/* A program with the counted mix that takes `c->n[MBA_N_PATH]` cycles per instruction of a lone warp on sm_90, as near
 * as dependences allow. False: instructions or the path are not known. */
bool mba_sm_code_of(mba_sm_code *out, const mba_profiled_kernel *c);

/* Replaces the cycles that were read in the code of a kernel (MBA_N_PATH, MBA_N_STEP, MBA_N_BESIDE, MBA_N_TAIL) by
 * those on machine m, with `blocks` blocks on an SM. Each has a program of its own that takes as long on sm_90 with the
 * same warps, so that a slower unit first uses up the time in which it waited for other things. */
void mba_sm_react(mba_profiled_kernel *c, const mba_gpu *m, int warps, int blocks);

#endif
