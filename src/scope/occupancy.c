// SPDX-License-Identifier: Apache-2.0
/* occupancy.c -- see occupancy.h: the four limits of resident blocks, and the smallest of them. */
#include "scope/occupancy.h"

enum {
    PARTITIONS = 4,
    REGS_UNIT = 256,
    SMEM_UNIT = 128,
    SMEM_DRIVER = 1024
}; // allocation units: registers of a warp, bytes of shared memory; bytes that the driver takes per block

static int64_t round_up(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

/* The registers of a warp lie in one of four partitions, each of which holds whole warps. */
static int64_t by_registers(const mba_machine *m, int regs, int64_t warps)
{
    mba_assert(warps > 0);
    const int64_t of_warp = round_up((int64_t)regs * m->warp, REGS_UNIT);
    return of_warp ? m->regs_sm / PARTITIONS / of_warp * PARTITIONS / warps : INT64_MAX;
}

mba_occupancy mba_occupancy_of(const mba_machine *m, int regs, int threads, int64_t smem_bytes, double blocks)
{
    mba_occupancy o = { 0, "threads", 0, 0 };
    if (m->warp <= 0 || threads <= 0 || m->threads_sm <= 0 || m->sm <= 0) return o;
    const int64_t warps = mba_ceil(threads, m->warp);
    const struct {
        const char *why;
        int64_t     n;
    } limit[] = {
        { "threads", m->threads_sm / m->warp / warps },
        { "registers", by_registers(m, regs, warps) },
        { "shared memory", m->smem_sm_bytes / round_up(smem_bytes + SMEM_DRIVER, SMEM_UNIT) },
        { "blocks", m->cc == 86 || m->cc == 87 ? 16
                    : m->cc == 89              ? 24
                                               : 32 },
    };
    int64_t least = INT64_MAX;
    for (int i = 0; i < 4; i++)
        if (limit[i].n < least) {
            least = limit[i].n;
            o.limiter = limit[i].why;
        }
    mba_assert(least >= 0);
    o.blocks_per_sm = (int)least;
    o.percent = 100.0 * (double)(least * warps * m->warp) / m->threads_sm;
    o.waves = least ? blocks / (double)(least * m->sm) : 0;
    if (least && blocks < (double)(least * m->sm)) o.limiter = "grid";
    return o;
}
