// SPDX-License-Identifier: Apache-2.0
/* l2_model.h -- a model of L2 across kernels: which bytes it still holds, page by page instead of line by line.
 *
 *     mba_l2_model *l;
 *     MBA_TRY(mba_l2_model_create(&l, bytes, gpu));
 *     mba_l2_model_access(l, &kernel, place);              // sets the hits of every stream, then marks it as touched
 *     mba_l2_model_flush(l);                               // as if much other data had passed
 *     mba_l2_model_destroy(l);
 *
 * Memory is cut into pages; each knows where in the flow of bytes it was touched last. A read that comes d bytes later
 * still hits with probability 1 / (1 + (d / l2_half_reuse)^l2_slope), the measured curve of real caches. Addresses are
 * those of the memory plan, so that a tensor laid over a dead one finds what is left of it, as on the machine. What is
 * overwritten before it was evicted never costs its write: it is credited to the kernel that overwrites. */
#ifndef MBA_SIM_L2_MODEL_H
#define MBA_SIM_L2_MODEL_H

#include "sim/kernel.h"

typedef struct mba_l2_model mba_l2_model;
typedef struct mba_address_range {
    int64_t address, span;
} mba_address_range; /* span 0: always misses */

/* `bytes`: of the address space that ranges lie in. */
MBA_MUST mba_status mba_l2_model_create(mba_l2_model **out, int64_t bytes, const mba_gpu *m);
void                mba_l2_model_destroy(mba_l2_model *l); /* NULL is fine */
void mba_l2_model_access(mba_l2_model *l, mba_sim_kernel *k, const mba_address_range place[MBA_SIM_STREAMS]);
void mba_l2_model_flush(mba_l2_model *l);

/* The hit curve: probability that a read at this reuse distance hits. */
double mba_l2_model_hit_rate(const mba_gpu *m, double distance_bytes);

#endif
