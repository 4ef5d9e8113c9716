/* ledger.h -- what L2 still holds, in bytes and not in lines.
 *
 *     mba_ledger *l;
 *     MBA_TRY(mba_ledger_create(&l, bytes, gpu));
 *     mba_ledger_kernel(l, &kernel, place);              // sets the hits of every stream, then counts as touched
 *     mba_ledger_sweep(l);                               // as if much else had been touched
 *     mba_ledger_destroy(l);
 *
 * Memory is cut into pages; each knows where in the flow of bytes it was touched last. A read that comes d bytes later
 * still hits with probability 1 / (1 + (d / c50)^s), the measured curve of real caches. Addresses are those of the
 * memory plan, so that a tensor laid over a dead one finds what is left of it, as on the machine. What is overwritten
 * before it was evicted never costs its write: it is credited to the kernel that overwrites. */
#ifndef MBA_SIM_LEDGER_H
#define MBA_SIM_LEDGER_H

#include "sim/kernel.h"

typedef struct mba_ledger mba_ledger;
typedef struct mba_place { int64_t address, span; } mba_place;      /* of a stream: span 0: nowhere, never in L2 */

MBA_MUST mba_status mba_ledger_create(mba_ledger **out, int64_t bytes, const mba_gpu *m);
void                mba_ledger_destroy(mba_ledger *l);               /* NULL is fine */
void                mba_ledger_kernel(mba_ledger *l, mba_sim_kernel *k, const mba_place place[MBA_SIM_STREAMS]);
void                mba_ledger_sweep(mba_ledger *l);

/* The curve by itself. */
double mba_ledger_hit(const mba_gpu *m, double distance_bytes);

#endif
