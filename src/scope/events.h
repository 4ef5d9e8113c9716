// SPDX-License-Identifier: Apache-2.0
/* events.h -- what ran on a device and when: kernels, copies and memsets. Collectors produce these structs, and the
 * store functions (gpu_store.h, foreign_store.h) consume them.
 *
 *     mba_events e = { 0 };
 *     MBA_TRY(mba_events_add(&e, &event));                    // copies the name, once per distinct one
 *     mba_events_free(&e);
 *
 * Plain C, no CUDA header. Times are nanoseconds of the device's clock. */
#ifndef MBA_SCOPE_EVENTS_H
#define MBA_SCOPE_EVENTS_H

#include <stddef.h>
#include <stdint.h>

#include "core/lookup.h"
#include "core/status.h"

typedef enum mba_event_kind { MBA_EVENT_KERNEL, MBA_EVENT_COPY, MBA_EVENT_SET, MBA_EVENT_KINDS } mba_event_kind;

typedef struct mba_event {
    mba_event_kind kind;
    const char    *name;                    /* mangled, as the driver has it; "copy HtoD" for a copy. Not owned */
    int64_t        start_ns, end_ns, bytes; /* bytes: of a copy or memset */
    int32_t        grid[3], block[3], cluster[3];
    int32_t        regs, smem_static, smem_dynamic, local, stream, device; /* memory in bytes; local: per thread */
    uint32_t       correlation, graph; /* id of the launching call; graph 0: not from a graph */
    uint64_t       graph_node;
    int32_t        step, node, launch; /* of our program: step, node, index of its launch; -1: not known */
} mba_event;

typedef void mba_event_fn(void *ctx, const mba_event *e);

typedef struct mba_events {
    mba_event *event;
    int64_t    n, room;
    char     **names;
    int64_t    nnames, names_room;
    mba_lookup place; /* index of a name in `names` */
} mba_events;

MBA_MUST mba_status mba_events_add(mba_events *l, const mba_event *e);
void                mba_events_free(mba_events *l);
int64_t             mba_events_name(mba_events *l, const char *name); /* its index in `names`; -1: no memory */

/* "_Z15rmsnorm_fwd_rowI..." -> "rmsnorm_fwd_row", "_ZN2at6native6reduceI.." -> "reduce"; what is not mangled stays. */
void mba_kernel_short(char *out, size_t room, const char *name);

#endif
