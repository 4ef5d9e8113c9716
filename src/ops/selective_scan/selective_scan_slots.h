/* selective_scan_slots.h -- what the files of this folder share: slots, sizes, and who implements them. */
#ifndef MBA_SELECTIVE_SCAN_SLOTS_H
#define MBA_SELECTIVE_SCAN_SLOTS_H

#include "core/op.h"

/* Inputs of both directions. Output k of the backward is the gradient of input k, for k < IDS. */
enum { U, DELTA, A_LOG, BM, CM, SKIP, Z, DT_BIAS, INITIAL, IDS, DOUT, DFINAL };
enum { OUT, FINAL };
enum { GRADS = IDS };
enum { DU = U, DDELTA = DELTA, DA_LOG = A_LOG, DB = BM, DC = CM, DSKIP = SKIP, DZ = Z, DDT_BIAS = DT_BIAS,
       DINITIAL = INITIAL };

typedef struct scan_attr { int32_t final; } scan_attr;              /* forward: the final state is an output */
typedef struct scan_bwd_attr { uint32_t wants; } scan_bwd_attr;     /* backward: bit k, the gradient of input k */

typedef struct scan_dims { int64_t B, L, D, N, G; } scan_dims;
scan_dims scan_dims_of(const mba_node *n);

/* How the CPU cuts the work; fixed by the shape. See selective_scan.md. */
enum {
    STRIP = 16,                  /* channels of one pass over a sequence: one cache line of u, delta, z */
    GROUP = 4,                   /* states that go through time together, in registers */
    CHUNK = 256,                 /* steps of the forward between reading u and writing out */
    SEGMENT = 4096,              /* steps for which the backward keeps decays and states */
    BLOCK = 64,                  /* channels of one work item of the backward: one partial sum of dB and dC */
};
static inline int64_t scan_blocks(scan_dims d)    { return mba_ceil(d.D / d.G, BLOCK); }           /* in a group */
static inline int64_t scan_groups(scan_dims d)    { return mba_ceil(d.N, GROUP); }
static inline int64_t scan_segments(scan_dims d)  { return mba_ceil(d.L, SEGMENT); }
static inline int64_t scan_segment(scan_dims d)   { return d.L < SEGMENT ? d.L : SEGMENT; }

/* Scratch of the plans, in this order: space for each thread, partial sums of dB and dC, partial sums over time. */
enum { SCRATCH_THREADS, SCRATCH_BC, SCRATCH_SUMS };
size_t selective_scan_fwd_thread_floats(scan_dims d);
size_t selective_scan_bwd_thread_floats(scan_dims d);

void selective_scan_ref(const mba_ref_call *c);
void selective_scan_bwd_ref(const mba_ref_call *c);
MBA_CPU_DECLARE(selective_scan_fwd);
MBA_CPU_DECLARE(selective_scan_bwd);

#endif
