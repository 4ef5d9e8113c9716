// SPDX-License-Identifier: Apache-2.0
/* cupti_launches.c -- callbacks for launches, NVTX ranges and failed allocations (cupti_collect.h): they give the
 * counters of a kernel its name, and say when to start recording. */
#include "scope/cupti_api.h"
#include "scope/cupti_collect.h"

#define NVTX_NO_IMPL // types only
#include <nvtx3/nvToolsExt.h>
#include <generated_nvtx_meta.h>

static struct {
    const mba_cupti        *c;
    CUpti_SubscriberHandle  subscriber;
    mba_launch_seen_fn     *fn;
    mba_range_seen_fn      *range;
    mba_short_of_memory_fn *memory;
    void                   *ctx;
} on;

static const CUpti_CallbackId launches[] = { CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel,
                                             CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel_ptsz,
                                             CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx,
                                             CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx_ptsz,
                                             CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel,
                                             CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel_ptsz,
                                             CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch,
                                             CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch_ptsz };
static const CUpti_CallbackId ranges[] = { CUPTI_CBID_NVTX_nvtxRangePushA, CUPTI_CBID_NVTX_nvtxRangePushEx,
                                           CUPTI_CBID_NVTX_nvtxRangePop, CUPTI_CBID_NVTX_nvtxDomainRangePushEx,
                                           CUPTI_CBID_NVTX_nvtxDomainRangePop };
/* Their parameters start alike: destination, bytes. */
static const CUpti_CallbackId allocations[] = { CUPTI_DRIVER_TRACE_CBID_cuMemAlloc_v2,
                                                CUPTI_DRIVER_TRACE_CBID_cuMemAllocManaged,
                                                CUPTI_DRIVER_TRACE_CBID_cuMemCreate,
                                                CUPTI_DRIVER_TRACE_CBID_cuMemAllocAsync,
                                                CUPTI_DRIVER_TRACE_CBID_cuMemAllocAsync_ptsz,
                                                CUPTI_DRIVER_TRACE_CBID_cuMemAllocFromPoolAsync,
                                                CUPTI_DRIVER_TRACE_CBID_cuMemAllocFromPoolAsync_ptsz };
enum { ALLOCATIONS = sizeof allocations / sizeof *allocations };
enum { LAUNCHES = sizeof launches / sizeof *launches, RANGES = sizeof ranges / sizeof *ranges };

/* The parameters of the _ptsz and cooperative forms start with the same fields. */
static void geometry(mba_launch_seen *l, CUpti_CallbackId id, const void *params)
{
    if (id == CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx || id == CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx_ptsz) {
        const CUlaunchConfig *k = ((const cuLaunchKernelEx_params *)params)->config;
        l->function = ((const cuLaunchKernelEx_params *)params)->f;
        l->smem_dynamic = (int32_t)k->sharedMemBytes;
        l->grid[0] = (int32_t)k->gridDimX, l->grid[1] = (int32_t)k->gridDimY, l->grid[2] = (int32_t)k->gridDimZ;
        l->block[0] = (int32_t)k->blockDimX, l->block[1] = (int32_t)k->blockDimY, l->block[2] = (int32_t)k->blockDimZ;
    } else {
        const cuLaunchKernel_params *k = params;
        l->function = k->f;
        l->smem_dynamic = (int32_t)k->sharedMemBytes;
        l->grid[0] = (int32_t)k->gridDimX, l->grid[1] = (int32_t)k->gridDimY, l->grid[2] = (int32_t)k->gridDimZ;
        l->block[0] = (int32_t)k->blockDimX, l->block[1] = (int32_t)k->blockDimY, l->block[2] = (int32_t)k->blockDimZ;
    }
}

static void on_range(CUpti_CallbackId id, const CUpti_NvtxData *d)
{
    const nvtxEventAttributes_t *a = NULL;
    const char                  *name = NULL;
    bool                         begins = true;
    if (id == CUPTI_CBID_NVTX_nvtxRangePushA) name = ((const nvtxRangePushA_params *)d->functionParams)->message;
    else if (id == CUPTI_CBID_NVTX_nvtxRangePushEx)
        a = ((const nvtxRangePushEx_params *)d->functionParams)->eventAttrib;
    else if (id == CUPTI_CBID_NVTX_nvtxDomainRangePushEx)
        a = ((const nvtxDomainRangePushEx_params *)d->functionParams)->core.eventAttrib;
    else begins = false;
    if (a && a->messageType == NVTX_MESSAGE_TYPE_ASCII) name = a->message.ascii;
    on.range(on.ctx, begins && !name ? "" : name, begins);
}

static bool is_allocation(CUpti_CallbackId id)
{
    for (int i = 0; i < ALLOCATIONS; i++)
        if (allocations[i] == id) return true;
    return false;
}

/* Reports an allocation that failed, at the end of the call, when its result is known. */
static void on_allocation(const CUpti_CallbackData *d)
{
    int64_t         free, total;
    const CUresult *result = d->functionReturnValue;
    if (d->callbackSite != CUPTI_API_EXIT || !on.memory || !result || *result != CUDA_ERROR_OUT_OF_MEMORY) return;
    mba_cupti_memory(&free, &total);
    on.memory(on.ctx, (int64_t)((const cuMemAlloc_v2_params *)d->functionParams)->bytesize, free, total);
}

static void CUPTIAPI called(void *ctx, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void *data)
{
    (void)ctx;
    if (domain == CUPTI_CB_DOMAIN_NVTX) {
        if (on.range) on_range(id, data);
        return;
    }
    const CUpti_CallbackData *d = data;
    if (is_allocation(id)) {
        on_allocation(d);
        return;
    }
    if (d->callbackSite != CUPTI_API_ENTER || !on.fn) return;
    mba_launch_seen l = { .name = d->symbolName ? d->symbolName : "?", .correlation = d->correlationId };
    l.is_graph = id == CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch || id == CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch_ptsz;
    if (!l.is_graph) geometry(&l, id, d->functionParams);
    on.fn(on.ctx, &l);
}

static mba_status subscribe(void)
{
    CUPTI_TRY(on.c, on.c->cuptiSubscribe(&on.subscriber, (CUpti_CallbackFunc)called, NULL));
    for (int i = 0; on.memory && i < ALLOCATIONS; i++)
        CUPTI_TRY(on.c, on.c->cuptiEnableCallback(1, on.subscriber, CUPTI_CB_DOMAIN_DRIVER_API, allocations[i]));
    for (int i = 0; on.fn && i < LAUNCHES; i++)
        CUPTI_TRY(on.c, on.c->cuptiEnableCallback(1, on.subscriber, CUPTI_CB_DOMAIN_DRIVER_API, launches[i]));
    for (int i = 0; on.range && i < RANGES; i++)
        CUPTI_TRY(on.c, on.c->cuptiEnableCallback(1, on.subscriber, CUPTI_CB_DOMAIN_NVTX, ranges[i]));
    return MBA_OK;
}

/* After a failure no callback is called. */
mba_status mba_launches_begin(mba_launch_seen_fn *fn, mba_range_seen_fn *range, mba_short_of_memory_fn *memory,
                              void *ctx)
{
    MBA_TRY(mba_cupti_open(&on.c));
    on.fn = fn;
    on.range = range;
    on.memory = memory;
    on.ctx = ctx;
    on.subscriber = NULL;
    const mba_status st = subscribe();
    if (st != MBA_OK) mba_launches_end();
    return st;
}

void mba_launches_end(void)
{
    if (on.subscriber) on.c->cuptiUnsubscribe(on.subscriber);
    on.subscriber = NULL;
    on.fn = NULL;
    on.range = NULL;
    on.memory = NULL;
}
