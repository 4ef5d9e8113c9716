// SPDX-License-Identifier: Apache-2.0
/* block_timestamps.c -- see block_timestamps.h. */
#include "device/cuda/block_timestamps.h"

#include <stddef.h>

enum { UNITS_MAX = 128 };

static struct {
    mba_blocks_set_fn *set[UNITS_MAX];
    int                n;
} units;

void mba__blocks_unit(mba_blocks_set_fn *set)
{
    if (units.n < UNITS_MAX) units.set[units.n++] = set;
}

int mba_blocks_units(void) { return units.n; }

int mba_block_records_set(mba_block_record *records, void *stream)
{
    for (int i = 0; i < units.n; i++) {
        const int error = units.set[i](records, stream);
        if (error) return error;
    }
    return 0;
}
