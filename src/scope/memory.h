// SPDX-License-Identifier: Apache-2.0
/* memory.h -- the memory of a step, from the operands of its nodes: bytes by role, and bytes alive at every node.
 *
 *     mba_memory *m;
 *     MBA_TRY(mba_memory_of(a, &m));              // m->nnodes is 0 if the store has no operands
 *     mba_memory_destroy(m);
 *
 * A storage counts with its largest view. Activations live from the first node that touches them to the last; all else
 * (parameters, gradients, optimizer state, inputs) lives all the time. The peak is what any plan must hold at that
 * node; a plan adds alignment and fragmentation. */
#ifndef MBA_SCOPE_MEMORY_H
#define MBA_SCOPE_MEMORY_H

#include "scope/analysis.h"

enum { MBA_MEMORY_ROLES = 16 };
typedef struct mba_memory {
    struct {
        const char *name;
        int64_t     storages;
        double      bytes;
        bool        kept;
    } role[MBA_MEMORY_ROLES];
    int     nroles;
    double  kept_bytes, peak_bytes, planned_bytes; /* planned: by the memory plan (Table I); NaN: unknown */
    int64_t nnodes, peak;                          /* peak: index of a->node */
    double  alive_bytes[];                         /* at each node, with kept_bytes */
} mba_memory;

MBA_MUST mba_status mba_memory_of(const mba_analysis *a, mba_memory **out);
void                mba_memory_destroy(mba_memory *m); /* NULL is fine */

#endif
