/* gated_gcn_slots.h -- what the files of this folder share. */
#ifndef MBA_GATED_GCN_SLOTS_H
#define MBA_GATED_GCN_SLOTS_H

#include "ops/rows.h"

enum { A, B, D, E, C, SRC, IN_PTR, OUT_PTR, OUT_EDGE };                          /* forward: in, out */
enum { XT, EH, AGG, RDEN };                       /* agg[i] = num / (den + tiny), rden[i] = 1 / (den + tiny) */
enum { DXT, DEH, BB, EHB, AGGB, RDENB, SRCB, IN_PTRB, OUT_PTRB, OUT_EDGEB };     /* backward: in, out */
enum { DA, DB, DD, DE, DC };

#define GATED_GCN_TINY 1e-6

void gated_gcn_ref(const mba_ref_call *c);
void gated_gcn_bwd_ref(const mba_ref_call *c);
MBA_CPU_DECLARE(gated_gcn_fwd);
MBA_CPU_DECLARE(gated_gcn_bwd);

#endif
