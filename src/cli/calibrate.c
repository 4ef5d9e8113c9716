// SPDX-License-Identifier: Apache-2.0
/* calibrate.c -- `mambascope calibrate`: measures this machine's GPU with microbenchmarks and writes a machine file. */
#include <stdio.h>
#include <string.h>

#include "cli/command.h"
#include "cli/emulate_operators.h"
#include "cli/options.h"
#include "cli/store_files.h"
#include "core/device.h"
#include "core/file.h"
#include "core/version.h"
#include "device/cuda/calibrate.h"
#include "device/cuda/emulate.h"
#include "sim/machine.h"

static mba_status put_line(mba_writer *w, const char *fmt, const char *key, double value, const char *unit,
                           double spread, const char *how)
{
    char      line[256];
    const int n = snprintf(line, sizeof line, fmt, key, value, unit, spread, how);
    return mba_writer_put(w, line, n < (int)sizeof line ? (size_t)n : sizeof line - 1);
}

/* The built-in machine that supplies the keys that could not be measured. */
static const char *nearest(const mba_reading *r, int n)
{
    for (int i = 0; i < n; i++)
        if (!strcmp(r[i].key, "cc"))
            return r[i].value >= 100 ? "b200" : r[i].value >= 90 ? "h200" : r[i].value >= 80 ? "a100" : "v100";
    return "h200";
}

static mba_status write_file(const char *path, const mba_reading *r, int n)
{
    mba_writer *w = NULL;
    char        head[256];
    const int   bytes = snprintf(
          head, sizeof head,
          "# Made by `mambascope calibrate`, commit %s. Keys that are missing here are those of %s.\ninclude = %s\n",
          MBA_COMMIT, nearest(r, n), nearest(r, n));
    MBA_TRY(mba_writer_create(&w, path));
    mba_status st = mba_writer_put(w, head, (size_t)bytes);
    for (int i = 0; i < n && st == MBA_OK; i++) {
        const int k = mba_gpu_key_find(r[i].key);
        mba_assert(k >= 0);
        st = put_line(w, "%-16s = %.6g %s +- %.3g  # measured: %s\n", r[i].key, r[i].value, mba_gpu_keys[k].unit,
                      r[i].spread, r[i].how);
    }
    if (st == MBA_OK) st = mba_writer_commit(w);
    mba_writer_destroy(w);
    return st;
}

static void print_readings(const mba_reading *r, int n)
{
    mba_gpu base;
    if (mba_gpu_load(&base, nearest(r, n)) != MBA_OK) return;
    printf("%-16s %12s %10s %12s  %-10s %s\n", "key", "measured", "spread", base.name, "unit", "how");
    for (int i = 0; i < n; i++) {
        const int k = mba_gpu_key_find(r[i].key);
        printf("%-16s %12.5g %10.3g %12.5g  %-10s %s\n", r[i].key, r[i].value, r[i].spread, base.v[k],
               mba_gpu_keys[k].unit, r[i].how);
    }
}

static void say_part(void *of, const char *part, int readings, const char *failed)
{
    (void)of;
    fprintf(stderr, "%s: %d readings%s%s\n", part, readings, failed ? "; incomplete: " : "", failed ? failed : "");
}

/* ---- emulated machines ---- */

typedef struct lines {
    mba_writer *file;
    int         n;
} lines;

static void say_imitated(void *of, const mba_emulation *w, double us, double imitated_us, const char *failed)
{
    lines *to = of;
    char   line[128];
    fprintf(stderr, "%-8s %-6s x%-6.3g ", w->kernel, w->axis, w->factor);
    if (failed) fprintf(stderr, "not measured: %s\n", failed);
    else fprintf(stderr, "%9.2f us, %9.2f us emulated: x%.3f\n", us, imitated_us, imitated_us / us);
    const int n = snprintf(line, sizeof line, "%s\t%s\t%.6g\t%.3f\t%.3f\n", w->kernel, w->axis, w->factor, us,
                           imitated_us);
    if (failed) return;
    if (mba_writer_put(to->file, line, (size_t)n) == MBA_OK) to->n++;
    else fprintf(stderr, "%s\n", mba_message());
}

static mba_status imitate(const char *path)
{
    static const char head[] = "# Made by `mambascope calibrate --emulate`, commit " MBA_COMMIT
                               ": kernel, axis, factor, us here, us on the emulated machine (core/emulate.h).\n";
    lines to = { 0 };
    MBA_TRY(mba_writer_create(&to.file, path));
    mba_status st = mba_writer_put(to.file, head, sizeof head - 1);
    if (st == MBA_OK) st = mba_emulate_cuda(say_imitated, &to);
    if (to.n) { // keep what was measured before a failure
        const mba_status written = mba_writer_commit(to.file);
        if (st == MBA_OK) st = written;
    }
    mba_writer_destroy(to.file);
    return st;
}

/* Other commands advise to run on the CPU; here the alternative is a machine file that comes with the program. */
static mba_status need_gpu(void)
{
    const mba_device *gpu;
    char              why[160] = "";
    const mba_status  st = mba_device_cuda(&gpu, 0);
    const char       *told = strstr(mba_message(), "why: ");
    if (st != MBA_E_UNSUPPORTED) return st;
    if (told) snprintf(why, sizeof why, "%.*s", (int)strcspn(told + 5, "\n"), told + 5);
    return mba_fail(
        st,
        "there is no GPU to measure\nwhy: %s\nfix: use a machine that comes with the program: mambascope simulate "
        "--machine h200; for emulated machines, mambascope validate --counterfactual -",
        why);
}

mba_status mba_command_calibrate(int argc, char **argv)
{
    const char      *out = "machine.ini", *imitated = NULL, *operators = NULL;
    bool             help;
    mba_reading      r[MBA_READINGS_MAX];
    int              n = 0;
    mba_gpu          check;
    const mba_option table[] = { { "--out", MBA_OPT_TEXT, &out, "FILE", "machine file to write [machine.ini]", 0, 0 },
                                 { "--emulate", MBA_OPT_TEXT, &imitated, "FILE",
                                   "emulate other machines on this GPU and write how much slower kernels get", 0, 0 },
                                 MBA_OPTION_ALIAS("--imitate", "--emulate"),
                                 { "--emulate-operators", MBA_OPT_TEXT, &operators, "FILE",
                                   "the same for the kernels of SSD and of the selective scan", 0, 0 },
                                 { 0 } };
    const mba_usage  usage = { "calibrate", "[--out FILE] [--emulate FILE] [--emulate-operators FILE]",
                               "Measures this machine's GPU with microbenchmarks (rates of pipes, caches and DRAM,\n"
                                "latencies, cost of starting blocks and kernels) and writes a machine file with\n"
                                "spreads, for --machine of simulate, sweep and validate. It takes less than a\n"
                                "minute; nothing else should run meanwhile.",
                               table,
                               "mambascope calibrate --out mine.ini\nmambascope validate --machine ./mine.ini\n"
                                "mambascope calibrate --emulate there.tsv\n"
                                "mambascope validate --counterfactual there.tsv\n" };
    MBA_TRY(mba_options_parse(&usage, argc, argv, NULL, &help));
    if (help) return MBA_OK;
    MBA_TRY(need_gpu());
    MBA_TRY(mba_output_check(imitated ? imitated : operators ? operators : out)); // before minutes are spent
    if (imitated) return imitate(imitated);
    if (operators) return mba_emulate_operators(operators);
    MBA_TRY(mba_calibrate_cuda(r, &n, say_part, NULL));
    print_readings(r, n);
    MBA_TRY(write_file(out, r, n));
    char path[4096];
    snprintf(path, sizeof path, "%s%s", strchr(out, '/') ? "" : "./", out);
    return mba_gpu_load(&check, path); // the file can be read and its numbers are within limits
}
