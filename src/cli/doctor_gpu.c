// SPDX-License-Identifier: Apache-2.0
/* doctor_gpu.c -- see doctor_gpu.h. */
#include "cli/doctor_gpu.h"

#include <stdio.h>
#include <string.h>

#include "core/device.h"
#include "scope/cupti_collect.h"
#include "scope/nvml.h"

static void row(mba_table *t, const char *what, const char *found, const char *advice)
{
    mba_table_text(t, "%s", what);
    mba_table_text(t, "%s", found);
    mba_table_text(t, "%s", advice);
}

/* The first line of the error message, and the text after `why:`. */
static const char *story(char *out, size_t room)
{
    const char *why = strstr(mba_message(), "\nwhy: ");
    snprintf(out, room, "%.*s%s%.*s", (int)strcspn(mba_message(), "\n"), mba_message(), why ? ": " : "",
             why ? (int)strcspn(why + 6, "\n") : 0, why ? why + 6 : "");
    return out;
}

static void driver_rows(mba_table *t)
{
    char           text[320], words[160];
    mba_nvml_state s;
    if (mba_nvml_read(&s, 0) != MBA_OK) {
        row(t, "driver", story(text, sizeof text),
            "clocks and energy come from libnvidia-ml.so.1, a part of NVIDIA's driver");
        return;
    }
    row(t, "driver", s.driver, "");
    mba_nvml_throttle_words(words, sizeof words, s.throttled);
    snprintf(text, sizeof text, "SM %d of %d MHz, memory %d of %d MHz%s%s", s.sm_mhz, s.sm_mhz_max, s.memory_mhz,
             s.memory_mhz_max, *words ? ", throttled: " : "", words);
    row(t, "clocks", text,
        s.throttled ? "times will vary: wait until the GPU is cool, or lock the clocks: nvidia-smi -lgc MHZ" : "");
    snprintf(text, sizeof text, "%.0f of %.0f W, %d C, persistence %s", s.power_w, s.power_limit_w, s.temperature_c,
             s.persistence > 0 ? "on" : "off");
    row(t, "power", text, s.persistence > 0 ? "" : "run as root: nvidia-smi -pm 1; it saves a second at every start");
    row(t, "ECC", s.ecc < 0 ? "none" : s.ecc ? "on" : "off", "");
}

static void counter_rows(mba_table *t)
{
    char      text[320];
    int       version;
    const int allowed = mba_counters_permitted();
    if (mba_cupti_version(&version) == MBA_OK) {
        snprintf(text, sizeof text, "API %d", version);
        row(t, "CUPTI", text, "");
    } else {
        row(t, "CUPTI", story(text, sizeof text),
            "without it `profile` measures times of operators, but no kernels and no counters");
    }
    row(t, "counters",
        allowed < 0 ? "no driver"
        : allowed   ? "permitted"
                    : "permitted for root only (RmProfilingAdminOnly: 1)",
        allowed ? ""
                : "as root: echo 'options nvidia NVreg_RestrictProfilingToAdminUsers=0' > "
                  "/etc/modprobe.d/nvidia-counters.conf, then restart");
}

void mba_doctor_gpu(mba_table *t)
{
    char              text[320];
    const mba_device *d;
    if (mba_device_cuda(&d, 0) == MBA_OK) {
        const mba_machine *m = d->machine;
        snprintf(text, sizeof text, "%s, compute capability %d.%d, %d SMs, %.0f GB", m->name, m->cc / 10, m->cc % 10,
                 m->sm, (double)m->memory_bytes / 1e9);
        row(t, "GPU", text, "");
    } else {
        row(t, "GPU", story(text, sizeof text), "everything runs on the CPU");
    }
    driver_rows(t);
    counter_rows(t);
}
