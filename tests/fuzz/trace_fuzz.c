// SPDX-License-Identifier: Apache-2.0
/* trace_fuzz.c -- any bytes as the trace of a watched process. */
#include "fuzz.h"
#include "scope/trace_file.h"

static mba_status see_event(void *ctx, const mba_event *e)
{
    char name[64];
    (void)ctx;
    mba_kernel_short(name, sizeof name, e->name);
    mba_assert(e->end_ns >= e->start_ns && e->start_ns >= 0 && e->bytes >= 0 && e->grid[0] >= 0 && e->regs >= 0);
    mba_assert(e->block[0] * e->block[1] * e->block[2] >= 0 && e->cluster[0] * e->cluster[1] * e->cluster[2] >= 0);
    return MBA_OK;
}

static mba_status see_counter(void *ctx, const mba_trace_counter *c)
{
    (void)ctx;
    mba_assert(c->launches > 0 && *c->name && *c->set && *c->metric);
    return MBA_OK;
}

static mba_status see_cost(void *ctx, const mba_trace_cost *c)
{
    (void)ctx;
    mba_assert(c->seconds >= 0 && *c->set);
    return MBA_OK;
}

static mba_status see_step(void *ctx, const char *mode, double seconds, int64_t end_ns)
{
    (void)ctx;
    mba_assert(seconds >= 0 && end_ns >= 0 && *mode);
    return MBA_OK;
}

static mba_status see_note(void *ctx, const char *topic, const char *text)
{
    (void)ctx;
    mba_assert(*topic && text);
    return MBA_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    mba_trace_reader r = {
        .event = see_event, .counter = see_counter, .cost = see_cost, .step = see_step, .note = see_note
    };
    FILE *f = n ? fmemopen((void *)(uintptr_t)bytes, n, "r") : NULL;
    if (!f) return 0;
    const mba_status st = mba_trace_read(&r, "fuzz", f);
    fclose(f);
    if (st != MBA_OK) check_refusal(st);
    return 0;
}
