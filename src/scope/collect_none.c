// SPDX-License-Identifier: Apache-2.0
/* collect_none.c -- the collector of the GPU in a build without CUPTI: one event per node, by the device's clock. */
#include "scope/collect.h"

mba_status mba_collect_cuda(mba_collecting *c)
{
    MBA_TRY(mba_note_missing(c->store, "counters", "no kernels, counters or blocks: this build has no CUPTI",
                             "install the CUDA toolkit with CUPTI (cuda-cupti-dev-13-0), then ./run build"));
    return mba_collect_nodes(c);
}

const char *mba_samples_wanted(void) { return NULL; }

mba_status mba_collect_samples(mba_collecting *c, const char *path)
{
    (void)c;
    return mba_fail(MBA_E_UNSUPPORTED, "no samples for '%s': this build has no CUPTI", path);
}
