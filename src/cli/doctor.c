// SPDX-License-Identifier: Apache-2.0
/* doctor.c -- `mambascope doctor`: shows what this machine has, what is missing, and how to get it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/doctor_gpu.h"
#include "cli/features.h"
#include "cli/options.h"
#include "cli/table.h"
#include "core/device.h"
#include "core/version.h"

static void row(mba_table *t, const char *what, const char *found, const char *advice)
{
    mba_table_text(t, "%s", what);
    mba_table_text(t, "%s", found);
    mba_table_text(t, "%s", advice);
}

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
    mba_doctor_gpu(t);
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
