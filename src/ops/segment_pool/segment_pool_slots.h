/* segment_pool_slots.h -- what the files of this folder share. */
#ifndef MBA_SEGMENT_POOL_SLOTS_H
#define MBA_SEGMENT_POOL_SLOTS_H

#include "ops/rows.h"
#include "ops/segment_pool/segment_pool.h"

enum { X, PTR };                                  /* forward: in, out */
enum { Y, ARG };                                  /* arg: the row that holds the maximum, per channel; only of MAX */
enum { DY, PTRB, ARGB };                          /* backward: in, out */
enum { DX };

typedef struct segment_pool_attr { int64_t kind; } segment_pool_attr;
typedef struct segment_pool_bwd_attr { int64_t kind; mba_type x; } segment_pool_bwd_attr;

void segment_pool_ref(const mba_ref_call *c);
void segment_pool_bwd_ref(const mba_ref_call *c);
MBA_CPU_DECLARE(segment_pool_fwd);
MBA_CPU_DECLARE(segment_pool_bwd);

#endif
