/* layernorm_slots.h -- what the files of this folder share. */
#ifndef MBA_LAYERNORM_SLOTS_H
#define MBA_LAYERNORM_SLOTS_H

#include "ops/columns.h"
#include "ops/rows.h"

enum { X, W, B };                                 /* forward: in, out */
enum { Y, MEAN, RSTD };
enum { DY, XB, WB, MEANB, RSTDB };                /* backward: in, out */
enum { DX, DW, DB };

typedef struct layernorm_attr { float eps; } layernorm_attr;

/* CUDA: columns a lane takes at once. */
static inline int layernorm_columns(const mba_tensor *a, const mba_tensor *b)
{
    const mba_tensor *const t[] = { a, b };
    return mba__columns_at_once(t, 2);
}

void layernorm_ref(const mba_ref_call *c);
void layernorm_bwd_ref(const mba_ref_call *c);
MBA_CPU_DECLARE(layernorm_fwd);
MBA_CPU_DECLARE(layernorm_bwd);
mba_launch_fn layernorm_cuda, layernorm_bwd_cuda;

#endif
