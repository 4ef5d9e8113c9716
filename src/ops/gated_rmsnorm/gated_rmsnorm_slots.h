/* gated_rmsnorm_slots.h -- what the files of this folder share. */
#ifndef MBA_GATED_RMSNORM_SLOTS_H
#define MBA_GATED_RMSNORM_SLOTS_H

#include "ops/rows.h"

enum { Y, Z, W, DV, RSTDB };                      /* in; the last two are the backward node's */
enum { V, RSTD };                                 /* forward: out */
enum { DY, DZ, DW };                              /* backward: out */

typedef struct gated_rmsnorm_attr { int64_t groups; double eps; } gated_rmsnorm_attr;

void gated_rmsnorm_ref(const mba_ref_call *c);
void gated_rmsnorm_bwd_ref(const mba_ref_call *c);
MBA_CPU_DECLARE(gated_rmsnorm_fwd);
MBA_CPU_DECLARE(gated_rmsnorm_bwd);

#endif
