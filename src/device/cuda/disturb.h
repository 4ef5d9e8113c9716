// SPDX-License-Identifier: Apache-2.0
/* disturb.h -- makes a unit of the GPU in use slower for other kernels, by kernels that stay resident beside them: real
 * kernels then run as on a machine with less of that unit.
 *
 *     mba_disturb *d;
 *     MBA_TRY(mba_disturb_start(&d, &(mba_disturb_how){ .kind = MBA_DISTURB_XU, .warps = 8 }));
 *     ..                                                  // at most two seconds
 *     MBA_TRY(mba_disturb_watch_start(d, device->stream)); // what the blocks do beside every launch
 *     ..
 *     MBA_TRY(mba_disturb_watch_stop(d, taken, room, &n));
 *     mba_disturb_fate fate;
 *     MBA_TRY(mba_disturb_stop(d, &fate));
 *
 *     MBA_TRY(mba_launch_times_start(device->stream));    // times every launch of our kernels in the stream
 *     ..
 *     MBA_TRY(mba_launch_times_stop(us, room, &n));
 *
 * A resident block has the same registers whatever it does, so SLEEP with the same warps is the baseline of the kinds
 * that take a pipe. Chains of dependent instructions pace themselves by their latency: they take a known share of a
 * pipe and few issue slots. Includes no CUDA header. */
#ifndef MBA_DEVICE_CUDA_DISTURB_H
#define MBA_DEVICE_CUDA_DISTURB_H

#include "core/status.h"

typedef enum mba_disturb_kind {
    MBA_DISTURB_NOTHING,
    MBA_DISTURB_PARK,  /* `sms` blocks that hold all shared memory of an SM */
    MBA_DISTURB_SLEEP, /* from here on: a block on every SM, of `warps` warps and `smem_kb` KB */
    MBA_DISTURB_COPY,  /* copies from DRAM to DRAM */
    MBA_DISTURB_FMA,
    MBA_DISTURB_XU,
    MBA_DISTURB_MMA,
    MBA_DISTURB_SMEM,
    MBA_DISTURB_KINDS
} mba_disturb_kind;

enum { MBA_DISTURB_COPIED = 2048 }; /* bytes that a warp of COPY has in flight */

typedef struct mba_disturb_how {
    mba_disturb_kind kind;
    int              sms, warps, smem_kb;
} mba_disturb_how;

/* What resident blocks took while a launch ran, to within one look at the flag (10 us; 100 us asleep). `rate`, per SM
 * and cycle: lane operations (FMA, XU), FLOPs (MMA), bytes of shared memory (SMEM); of COPY: bytes read and written per
 * second of the chip. `issue`: lane operations issued per SM and cycle. `regs`: registers of an SM that they hold.
 * `trips`: loop iterations of all blocks; `busy`: blocks that did any. */
typedef struct mba_disturbed {
    double rate, issue, regs, trips;
    int    busy;
} mba_disturbed;

/* Blocks that started, SMs that had one, and blocks whose life ran out before they were told to end: what was measured
 * then did not run beside them. */
typedef struct mba_disturb_fate {
    int blocks, sms, ended;
} mba_disturb_fate;

typedef struct mba_disturb mba_disturb;
MBA_MUST mba_status        mba_disturb_start(mba_disturb **out, const mba_disturb_how *how);
MBA_MUST mba_status        mba_disturb_stop(mba_disturb *d, mba_disturb_fate *fate); /* frees d; fate may be NULL */

/* Reads the progress of blocks (SLEEP and later) before the first and after every launch of our kernels in the stream,
 * which delays launches: not while they are timed. */
MBA_MUST mba_status mba_disturb_watch_start(mba_disturb *d, void *stream);
MBA_MUST mba_status mba_disturb_watch_stop(mba_disturb *d, mba_disturbed *taken, int room, int *n);

/* Durations of the launches between start and stop, us. A short pause in front lets the host run ahead. Between two
 * launches lies an event, so a launch includes the gap before it. One thread. */
MBA_MUST mba_status mba_launch_times_start(void *stream);
MBA_MUST mba_status mba_launch_times_stop(double *us, int room, int *n);

#endif
