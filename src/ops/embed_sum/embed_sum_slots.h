/* embed_sum_slots.h -- what the files of this folder share. */
#ifndef MBA_EMBED_SUM_SLOTS_H
#define MBA_EMBED_SUM_SLOTS_H

#include "ops/rows.h"

enum { INDEX, TABLE };                            /* forward: in, out */
enum { Y };
enum { INDEXB, DY };                              /* backward: in, out */
enum { DTABLE };
typedef struct embed_sum_bwd_attr { mba_type table; } embed_sum_bwd_attr;

enum { EMBED_SUM_PARTS = 8 };                     /* of rows in the backward pass, each with a table of its own */

void embed_sum_ref(const mba_ref_call *c);
void embed_sum_bwd_ref(const mba_ref_call *c);
MBA_CPU_DECLARE(embed_sum_fwd);
MBA_CPU_DECLARE(embed_sum_bwd);

#endif
