// SPDX-License-Identifier: Apache-2.0
/* cupti_activity.c -- the timeline (cupti_collect.h): CUPTI fills buffers with activity records, and this file converts
 * them to events for a callback. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "scope/cupti_api.h"
#include "scope/cupti_collect.h"

enum { BUFFER_BYTES = 4 << 20, SMALL_BYTES = 256 << 10 }; // about 19,000 kernels; 1200

static struct {
    const mba_cupti          *c;
    const CUpti_ActivityKind *kind; // kinds that are recorded now
    int                       nkinds;
    bool                      registered;
    mba_event_fn             *fn;
    void                     *ctx;
    int64_t                   dropped;
    size_t                    buffer_bytes;
    pthread_mutex_t           lock;
} on = { .lock = PTHREAD_MUTEX_INITIALIZER, .buffer_bytes = BUFFER_BYTES };

static const CUpti_ActivityKind each_kernel[] = { CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY,
                                                  CUPTI_ACTIVITY_KIND_MEMSET };
static const CUpti_ActivityKind each_graph[] = { CUPTI_ACTIVITY_KIND_GRAPH_TRACE };
enum { EACH_KERNEL = sizeof each_kernel / sizeof *each_kernel, EACH_GRAPH = sizeof each_graph / sizeof *each_graph };

static const char *copy_name(uint8_t kind)
{
    switch (kind) {
    case CUPTI_ACTIVITY_MEMCPY_KIND_HTOD: return "copy HtoD";
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOH: return "copy DtoH";
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOD: return "copy DtoD";
    case CUPTI_ACTIVITY_MEMCPY_KIND_PTOP: return "copy PtoP";
    default: return "copy";
    }
}

/* The fields that all record types have in common. */
#define COMMON(r) \
    .start_ns = (int64_t)(r)->start, .end_ns = (int64_t)(r)->end, .stream = (int32_t)(r)->streamId, \
    .device = (int32_t)(r)->deviceId, .correlation = (r)->correlationId, .graph = (r)->graphId, \
    .graph_node = (r)->graphNodeId, .step = -1, .node = -1, .launch = -1

static mba_event of_kernel(const CUpti_ActivityKernel10 *k)
{
    return (mba_event){ COMMON(k),
                        .kind = MBA_EVENT_KERNEL,
                        .name = k->name,
                        .grid = { k->gridX, k->gridY, k->gridZ },
                        .block = { k->blockX, k->blockY, k->blockZ },
                        .cluster = { (int32_t)k->clusterX, (int32_t)k->clusterY, (int32_t)k->clusterZ },
                        .regs = k->registersPerThread,
                        .smem_static = k->staticSharedMemory,
                        .smem_dynamic = k->dynamicSharedMemory,
                        .local = (int32_t)k->localMemoryPerThread };
}

static mba_event of_copy(const CUpti_ActivityMemcpy6 *m)
{
    return (mba_event){ COMMON(m), .kind = MBA_EVENT_COPY, .name = copy_name(m->copyKind), .bytes = (int64_t)m->bytes };
}

static mba_event of_set(const CUpti_ActivityMemset4 *m)
{
    return (mba_event){ COMMON(m), .kind = MBA_EVENT_SET, .name = "set memory", .bytes = (int64_t)m->bytes };
}

static mba_event of_graph(const CUpti_ActivityGraphTrace2 *g)
{
    return (mba_event){ .name = "graph",
                        .start_ns = (int64_t)g->start,
                        .end_ns = (int64_t)g->end,
                        .stream = (int32_t)g->streamId,
                        .device = (int32_t)g->deviceId,
                        .correlation = g->correlationId,
                        .graph = g->graphId,
                        .step = -1,
                        .node = -1,
                        .launch = -1 };
}

static void take_record(const CUpti_Activity *r)
{
    mba_event e;
    if (r->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) e = of_kernel((const CUpti_ActivityKernel10 *)r);
    else if (r->kind == CUPTI_ACTIVITY_KIND_MEMCPY) e = of_copy((const CUpti_ActivityMemcpy6 *)r);
    else if (r->kind == CUPTI_ACTIVITY_KIND_MEMSET) e = of_set((const CUpti_ActivityMemset4 *)r);
    else if (r->kind == CUPTI_ACTIVITY_KIND_GRAPH_TRACE) e = of_graph((const CUpti_ActivityGraphTrace2 *)r);
    else return;
    on.fn(on.ctx, &e);
}

static void CUPTIAPI give_buffer(uint8_t **buffer, size_t *bytes, size_t *records)
{
    *buffer = aligned_alloc(64, on.buffer_bytes);
    *bytes = *buffer ? on.buffer_bytes : 0; // without a buffer CUPTI drops records and counts them
    *records = 0;
}

/* Called by CUPTI's thread or by the thread that flushes, so it locks. */
static void CUPTIAPI take_buffer(CUcontext context, uint32_t stream, uint8_t *buffer, size_t bytes, size_t valid)
{
    CUpti_Activity *r = NULL;
    size_t          dropped = 0;
    (void)bytes;
    pthread_mutex_lock(&on.lock);
    while (on.fn && on.c->cuptiActivityGetNextRecord(buffer, valid, &r) == CUPTI_SUCCESS) take_record(r);
    if (on.c->cuptiActivityGetNumDroppedRecords(context, stream, &dropped) == CUPTI_SUCCESS)
        on.dropped += (int64_t)dropped;
    pthread_mutex_unlock(&on.lock);
    free(buffer);
}

static void set_callback(mba_event_fn *fn, void *ctx)
{
    pthread_mutex_lock(&on.lock);
    on.fn = fn;
    on.ctx = ctx;
    if (fn) on.dropped = 0;
    pthread_mutex_unlock(&on.lock);
}

/* on.nkinds counts the kinds that CUPTI accepted, so that begin() can disable them after a failure. */
static mba_status enable(const CUpti_ActivityKind *kind, int nkinds)
{
    mba_assert(nkinds > 0);
    on.kind = kind;
    on.nkinds = 0;
    if (!on.registered) CUPTI_TRY(on.c, on.c->cuptiActivityRegisterCallbacks(give_buffer, take_buffer));
    on.registered = true;
    for (; on.nkinds < nkinds; on.nkinds++) CUPTI_TRY(on.c, on.c->cuptiActivityEnable(kind[on.nkinds]));
    return MBA_OK;
}

/* After a failure the callback is not called again: the caller may free its context. */
static mba_status begin(const CUpti_ActivityKind *kind, int nkinds, mba_event_fn *fn, void *ctx)
{
    mba_assert(fn);
    MBA_TRY(mba_cupti_open(&on.c));
    set_callback(fn, ctx);
    const mba_status st = enable(kind, nkinds);
    if (st == MBA_OK) return MBA_OK;
    set_callback(NULL, NULL);
    for (int i = 0; i < on.nkinds; i++) on.c->cuptiActivityDisable(kind[i]); // keeps the message of the failure
    on.nkinds = 0;
    return st;
}

mba_status mba_activity_begin(mba_event_fn *fn, void *ctx) { return begin(each_kernel, EACH_KERNEL, fn, ctx); }

mba_status mba_activity_begin_graphs(mba_event_fn *fn, void *ctx) { return begin(each_graph, EACH_GRAPH, fn, ctx); }

mba_status mba_activity_stop(void)
{
    CUptiResult failed = CUPTI_SUCCESS;
    for (int i = 0; i < on.nkinds; i++) {
        const CUptiResult r = on.c->cuptiActivityDisable(on.kind[i]);
        if (failed == CUPTI_SUCCESS) failed = r;
    }
    return failed == CUPTI_SUCCESS ? MBA_OK : mba_cupti_failed(on.c, failed, "cuptiActivityDisable");
}

mba_status mba_activity_end(int64_t *dropped)
{
    const mba_status  st = mba_activity_stop();
    const CUptiResult flushed = on.c->cuptiActivityFlushAll(1);
    set_callback(NULL, NULL);
    *dropped = on.dropped;
    MBA_TRY(st);
    return flushed == CUPTI_SUCCESS ? MBA_OK : mba_cupti_failed(on.c, flushed, "cuptiActivityFlushAll");
}

void mba_activity_flush(void)
{
    if (on.c) on.c->cuptiActivityFlushAll(1);
}

int64_t mba_activity_hand_over(void)
{
    uint64_t now = 0;
    if (!on.c) return 0;
    on.c->cuptiActivityFlushAll(0);
    return on.c->cuptiGetTimestamp(&now) == CUPTI_SUCCESS ? (int64_t)now : 0;
}

void mba_activity_small_buffers(void) { on.buffer_bytes = SMALL_BYTES; }

int64_t mba_activity_dropped(void) { return on.dropped; }
