// SPDX-License-Identifier: Apache-2.0
/* doctor.c -- `mambascope doctor`: shows what this machine has, what is missing, and how to get it. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/features.h"
#include "cli/options.h"
#include "cli/table.h"
#include "cluster/launcher.h"
#include "core/device.h"
#include "core/version.h"
#include "scope/cupti_collect.h"
#include "scope/nvml.h"

static void row(mba_table *t, const char *what, const char *found, const char *advice)
{
    mba_table_text(t, "%s", what);
    mba_table_text(t, "%s", found);
    mba_table_text(t, "%s", advice);
}

/* ---- the GPU, its driver and what a profiler may see ---- */

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
    if (mba_nvml_read(&s, NULL) != MBA_OK) {
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

static void gpu_rows(mba_table *t)
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

/* ---- other ranks ---- */

/* The launcher that started this process, NCCL, and the hosts that Slurm has given. */
static void rank_rows(mba_table *t)
{
    char         text[320];
    mba_launcher l;
    if (mba_launcher_find(&l, getenv) != MBA_OK) row(t, "launcher", story(text, sizeof text), "");
    else if (!l.launcher) row(t, "launcher", "none: one rank", "several: mpirun -np 4 mambascope doctor");
    else {
        snprintf(text, sizeof text, "%s: rank %d of %d, %d on this host", l.launcher, l.rank, l.ranks,
                 l.local_ranks > 0 ? l.local_ranks : l.ranks);
        row(t, "launcher", text, "");
    }
    if (getenv("SLURM_JOB_NODELIST")) row(t, "hosts", getenv("SLURM_JOB_NODELIST"), "");
    void *nccl = dlopen("libnccl.so.2", RTLD_LAZY | RTLD_LOCAL);
    int (*version)(int *) = NULL;
    int number = 0;
    if (nccl) *(void **)&version = dlsym(nccl, "ncclGetVersion");
    if (version && version(&number) == 0) {
        snprintf(text, sizeof text, "%d.%d.%d", number / 10000, number / 100 % 100, number % 100);
        row(t, "NCCL", text, "");
    } else {
        row(t, "NCCL", "libnccl.so.2 not found",
            "needed for several GPUs: install NVIDIA's libnccl2, or pip install nvidia-nccl-cu13");
    }
    if (nccl) dlclose(nccl);
}

/* ---- the command ---- */

static void look(mba_table *t)
{
    char text[256], cpu[160];
    mba_cpu_name(cpu, sizeof cpu);
    row(t, "program", "mambascope " MBA_VERSION " (" MBA_COMMIT ")", "");
    snprintf(text, sizeof text, "%s, %d cores, kernels for %s", cpu, mba_cpu_threads(), mba_cpu_isa_name());
    row(t, "CPU", text, "");
    const double gb = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE) / 1e9;
    snprintf(text, sizeof text, "%.1f GB", gb);
    row(t, "memory", text, "");
    for (const mba_feature *f = mba_features_libraries(); f->name; f++) row(t, f->name, f->found, f->advice);
    rank_rows(t);
    gpu_rows(t);
    const bool nvcc = getenv("CUDACXX") || !access("/usr/local/cuda/bin/nvcc", X_OK);
    row(t, "nvcc",
        getenv("CUDACXX") ? getenv("CUDACXX")
        : nvcc            ? "found"
                          : "not found",
        nvcc ? "" : "needed to compile the CUDA part: install NVIDIA's cuda-toolkit, or set CUDACXX=PATH");
}

mba_status mba_command_doctor(int argc, char **argv)
{
    bool             json = false, help;
    const mba_option options[] = { { "--json", MBA_OPT_FLAG, &json, NULL, "print JSON: what, found, advice", 0, 0 },
                                   { 0 } };
    const mba_usage  usage = { "doctor", "[options]",
                               "Prints what was found on this machine, what is missing and how to get it.", options,
                               "mambascope doctor\n" };
    MBA_TRY(mba_options_parse(&usage, argc, argv, NULL, &help));
    if (help) return MBA_OK;
    mba_table *t;
    MBA_TRY(mba_table_create(&t, (const mba_column[]){ { "what", "what", NULL },
                                                       { "found", "found", NULL },
                                                       { "advice", "advice", NULL },
                                                       { 0 } }));
    look(t);
    const mba_status st = mba_table_print(t, stdout, json ? MBA_TABLE_JSON : MBA_TABLE_TEXT);
    mba_table_destroy(t);
    return st;
}
