// SPDX-License-Identifier: Apache-2.0
/* isa.c -- which of the compiled instruction sets to use, how many threads, and the name of the CPU. */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/device.h"
#include "core/op.h"

static const char *const names[] = { "base", "avx2", "avx512" };

static int best(void)
{
#ifdef __x86_64__
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq")
        && __builtin_cpu_supports("avx512vl"))
        return 2;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2")) return 1;
#endif
    return 0;
}

mba_status mba_cpu_isa_check(void)
{
    const char *want = getenv("MBA_ISA");
    int         at = 0;
    if (!want || !*want) return MBA_OK;
    while (at < MBA_ISAS && strcmp(want, names[at])) at++;
    if (at == MBA_ISAS)
        return mba_fail(MBA_E_ARG,
                        "the environment has MBA_ISA=%s\nwhy: it is base, avx2 or avx512\nfix: correct it, or unset "
                        "MBA_ISA",
                        want);
    if (at > best())
        return mba_fail(MBA_E_ARG,
                        "the environment has MBA_ISA=%s\nwhy: the largest instruction set of this "
                        "machine is %s\nfix: set MBA_ISA=%s, or unset it",
                        want, names[best()], names[best()]);
    return MBA_OK;
}

int mba_cpu_isa(void)
{
    static int chosen = -1; // every thread computes the same value
    if (chosen < 0) {
        const char *want = getenv("MBA_ISA");
        int         isa = best();
        for (int i = 0; want && i < isa; i++)
            if (!strcmp(want, names[i])) isa = i;
        chosen = isa;
    }
    return chosen;
}

const char *mba_cpu_isa_name(void)
{
#ifdef __aarch64__
    return "neon";
#else
    return mba_cpu_isa() ? names[mba_cpu_isa()] : "sse2";
#endif
}

/* The number of threads OpenMP started with: OMP_NUM_THREADS if set, otherwise all processors of this process. */
static int usual_threads(void)
{
    static int usual;
    if (!usual) usual = omp_get_max_threads();
    return usual;
}

void mba_cpu_set_threads(int threads)
{
    const int usual = usual_threads(); // read before the first change
    omp_set_num_threads(threads > 0 ? threads : usual);
}

int mba_cpu_threads(void) { return omp_get_max_threads(); }

/* Arm's own cores by their part numbers. */
static const char *arm_core(long part)
{
    static const struct {
        long        part;
        const char *name;
    } known[] = { { 0xd0c, "Neoverse-N1" }, { 0xd40, "Neoverse-V1" },   { 0xd49, "Neoverse-N2" },
                  { 0xd4f, "Neoverse-V2" }, { 0xd83, "Neoverse-V3AE" }, { 0xd84, "Neoverse-V3" },
                  { 0xd8e, "Neoverse-N3" }, { 0xd08, "Cortex-A72" },    { 0xd0b, "Cortex-A76" } };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].part == part) return known[i].name;
    return NULL;
}

/* The first "model name" (x86) or the part (Arm) of /proc/cpuinfo. */
void mba_cpu_name(char *out, size_t room)
{
    char  line[512];
    FILE *f = fopen("/proc/cpuinfo", "r");
    snprintf(out, room, "unknown");
    while (f && fgets(line, sizeof line, f))
        if (!strncmp(line, "model name", 10) || !strncmp(line, "CPU part", 8)) {
            const char *v = strchr(line, ':'), *core = v && *line == 'C' ? arm_core(strtol(v + 1, NULL, 16)) : NULL;
            if (core) snprintf(out, room, "%s", core);
            else snprintf(out, room, "%s%s", *line == 'C' ? "Arm part" : "", v ? v + 1 + (*line != 'C') : "?");
            out[strcspn(out, "\n")] = 0;
            break;
        }
    if (f) fclose(f);
}
