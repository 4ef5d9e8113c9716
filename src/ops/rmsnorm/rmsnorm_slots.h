/* rmsnorm_slots.h -- what the files of this folder share. */
#ifndef MBA_RMSNORM_SLOTS_H
#define MBA_RMSNORM_SLOTS_H

#include "ops/rows.h"

enum { X, W };                                    /* forward: in, out */
enum { Y, RSTD };
enum { DY, XB, WB, RSTDB };                       /* backward: in, out */
enum { DX, DW };

typedef struct rmsnorm_attr { float eps; } rmsnorm_attr;

void rmsnorm_ref(const mba_ref_call *c);
void rmsnorm_bwd_ref(const mba_ref_call *c);
MBA_CPU_DECLARE(rmsnorm_fwd);
MBA_CPU_DECLARE(rmsnorm_bwd);

#endif
