// SPDX-License-Identifier: Apache-2.0
/* collect_cuda.c -- the collector of the GPU (collect.h): clocks by NVML, then kernels by CUPTI; if CUPTI does not
 * work, one event per node. */
#include "scope/collect.h"
#include "scope/gpu_store.h"
#include "scope/nvml.h"
#include "scope/power_limit.h"

static mba_status put_clocks(mba_store *s, const char *gpu)
{
    mba_nvml_state n;
    char           words[160];
    if (mba_nvml_read(&n, gpu) != MBA_OK)
        return mba_note_missing(s, "clocks", "NVML does not answer: no clocks, no energy",
                                "install the driver's libnvidia-ml.so.1");
    MBA_TRY(mba_env_put_text(s, "gpu.driver", "read", "%s", n.driver));
    MBA_TRY(mba_env_put_number(s, "gpu.clock_now", "read", n.sm_mhz, "MHz"));
    MBA_TRY(mba_env_put_number(s, "gpu.memory_clock_now", "read", n.memory_mhz, "MHz"));
    MBA_TRY(mba_env_put_number(s, "gpu.power_limit", "read", n.power_limit_w, "W"));
    MBA_TRY(mba_env_put_number(s, "gpu.temperature", "read", n.temperature_c, "C"));
    MBA_TRY(mba_env_put_text(s, "gpu.ecc", "read", "%s", n.ecc < 0 ? "not known" : n.ecc ? "on" : "off"));
    mba_nvml_throttle_words(words, sizeof words, n.throttled);
    return mba_env_put_text(s, "gpu.throttled", "read", "%s", *words ? words : "no");
}

static mba_status collect(mba_collecting *c)
{
    mba_gpu_options  o = { .steps = (int)c->options->steps,
                           .steps_only = c->options->steps_only,
                           .energy = c->options->power_limit_w > 0,
                           .warmup = (int)c->options->warmup,
                           .deep = c->options->deep,
                           .blocks = c->options->blocks,
                           .near = mba_store_path(c->store) };
    mba_gpu_profile *g;
    mba_assert(c->options->steps > 0 && c->options->warmup > 0);
    MBA_TRY(mba_metric_sets_choose(o.set, &o.nsets, MBA_GPU_SETS_MAX, c->options->sets));
    MBA_TRY(put_clocks(c->store, c->session->device->bus_id));
    MBA_TRY(mba_gpu_collect(&g, c->session->program, &c->step, &o));
    const mba_status st = mba_gpu_store(c->store, c->session->program, g, c->units);
    const bool       empty = g->events.n == 0 && !o.steps_only;
    mba_gpu_profile_free(g);
    MBA_TRY(st);
    return empty ? mba_collect_nodes(c) : MBA_OK; // CUPTI did not work; a note says why
}

mba_status mba_collect_cuda(mba_collecting *c)
{
    const double    watts = c->options->power_limit_w;
    mba_power_limit limit = { 0 };
    mba_status      st = MBA_OK;
    if (watts > 0) {
        MBA_TRY(mba_power_limit_set(&limit, watts, c->session->device->bus_id));
        st = mba_env_put_number(c->store, "run.power_limit", "given", watts, "W");
    }
    if (st == MBA_OK) st = collect(c);
    mba_power_limit_restore(&limit);
    return st;
}
