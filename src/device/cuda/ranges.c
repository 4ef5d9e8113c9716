// SPDX-License-Identifier: Apache-2.0
/* ranges.c -- NVTX ranges (ranges.h). NVTX is header-only; a toolkit without the headers has no ranges. */
#include "device/cuda/ranges.h"

#include <stdarg.h>
#include <stdio.h>

#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>

void mba__range_begin(const char *fmt, ...)
{
    char    name[160];
    va_list args;
    va_start(args, fmt);
    vsnprintf(name, sizeof name, fmt, args);
    va_end(args);
    nvtxRangePushA(name);
}

void mba__range_end(void) { nvtxRangePop(); }
#else
void mba__range_begin(const char *fmt, ...) { (void)fmt; }
void mba__range_end(void) {}
#endif
