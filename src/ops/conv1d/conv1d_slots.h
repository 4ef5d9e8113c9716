/* conv1d_slots.h -- what the files of this folder share. */
#ifndef MBA_CONV1D_SLOTS_H
#define MBA_CONV1D_SLOTS_H

#include "ops/rows.h"

enum { X, W, BIAS, IDS, INITIAL, DY, DFINAL };    /* in; the last two are the backward node's */
enum { Y, FINAL };                                /* forward: out */
enum { DX, DW, DBIAS, DINITIAL };                 /* backward: out */

typedef struct conv1d_attr { int32_t silu, final, ahead; } conv1d_attr;

/* B sequences of L steps of C channels; `taps` of them meet in one output, those `past` steps ago to those `ahead`. */
typedef struct conv1d_dims { int64_t B, L, C, taps, past, ahead; } conv1d_dims;
static inline conv1d_dims conv1d_dims_of(const mba_node *n)
{
    const int64_t *d = n->in[X]->type.dim;
    const int64_t  taps = mba_elems(n->in[W]) / d[2], ahead = ((const conv1d_attr *)n->attr)->ahead;
    return (conv1d_dims){ d[0], d[1], d[2], taps, taps - 1 - ahead, ahead };
}

/* A work item of the CPU: TIMES steps of CHANNELS channels of one sequence. */
enum { CONV1D_TAPS_MAX = 16, CONV1D_TIMES = 128, CONV1D_CHANNELS = 512 };

void conv1d_ref(const mba_ref_call *c);
void conv1d_bwd_ref(const mba_ref_call *c);
MBA_CPU_DECLARE(conv1d_fwd);
MBA_CPU_DECLARE(conv1d_bwd);

#endif
