// SPDX-License-Identifier: Apache-2.0
/* describe.c -- see describe.h: writes the environment sheet, Table I and the ceilings. describe_program.c writes the
 * graph. */
#include "scope/describe.h"

#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "core/sources.h"
#include "core/version.h"

/* ---- the sheet ---- */

/* Bytes of the largest cache of core 0; 0: the system does not say. */
static double last_level_cache(void)
{
    double most = (double)sysconf(_SC_LEVEL3_CACHE_SIZE);
    for (int i = 0; i < 8; i++) {
        char path[80], unit = 0;
        long size = 0;
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/size", i);
        FILE *f = fopen(path, "r");
        if (f && fscanf(f, "%ld%c", &size, &unit) >= 1) {
            const double bytes = (double)size * (unit == 'K' ? 1024 : unit == 'M' ? 1 << 20 : 1);
            if (bytes > most) most = bytes;
        }
        if (f) fclose(f);
    }
    return most;
}

mba_status mba_describe_run(mba_store *s, const char *command)
{
    char           date[32], cpu[160];
    const time_t   now = time(NULL);
    struct tm      utc;
    struct utsname os;
    strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
    mba_cpu_name(cpu, sizeof cpu);
    MBA_TRY(mba_env_put_text(s, "program.version", "read", "%s", MBA_VERSION));
    MBA_TRY(mba_env_put_text(s, "program.commit", "read", "%s", MBA_COMMIT));
    MBA_TRY(mba_env_put_text(s, "program.sources", "read", "%s", MBA_SOURCES));
    MBA_TRY(mba_env_put_text(s, "run.date", "read", "%s", date));
    if (command) MBA_TRY(mba_env_put_text(s, "run.command", "given", "%s", command));
    if (!uname(&os))
        MBA_TRY(mba_env_put_text(s, "host.system", "read", "%s %s %s", os.sysname, os.release, os.machine));
    MBA_TRY(mba_env_put_number(s, "host.memory", "read",
                               (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE), "byte"));
    MBA_TRY(mba_env_put_text(s, "cpu.name", "read", "%s", cpu));
    MBA_TRY(mba_env_put_text(s, "cpu.isa", "read", "%s", mba_cpu_isa_name()));
    const double llc = last_level_cache();
    if (llc > 0) MBA_TRY(mba_env_put_number(s, "cpu.llc", "read", llc, "byte"));
    return mba_env_put_number(s, "cpu.threads", "given", mba_cpu_threads(), "");
}

mba_status mba_describe_device(mba_store *s, const mba_device *d)
{
    const mba_machine *m = d->machine;
    MBA_TRY(mba_env_put_text(s, "run.device", "given", "%s", m->cc > 0 ? "cuda" : "cpu"));
    if (m->cc == 0) return MBA_OK;
    const struct {
        const char *key;
        double      number;
        const char *unit;
    } rows[] = {
        { "gpu.cc", m->cc, "" },
        { "gpu.sms", m->sm, "" },
        { "gpu.clock_max", 1e3 * m->clock_ghz, "MHz" },
        { "gpu.memory", (double)m->memory_bytes, "byte" },
        { "gpu.dram", m->dram_gbs, "GB/s" },
        { "gpu.l2", (double)m->l2_bytes, "byte" },
        { "gpu.smem_sm", (double)m->smem_sm_bytes, "byte" },
        { "gpu.smem_block", (double)m->smem_block_bytes, "byte" },
        { "gpu.regs_sm", m->regs_sm, "register" },
        { "gpu.threads_sm", m->threads_sm, "thread" },
    };
    MBA_TRY(mba_env_put_text(s, "gpu.name", "read", "%s", m->name));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        MBA_TRY(mba_env_put_number(s, rows[i].key, "read", rows[i].number, rows[i].unit));
    return MBA_OK;
}

/* ---- Table I ---- */

static void field_text(char *text, size_t room, const mba_field *f, const void *at)
{
    int n = 0;
    mba_assert(room > 0);
    switch (f->kind) {
    case MBA_FIELD_INT: snprintf(text, room, "%lld", (long long)*(const int64_t *)at); break;
    case MBA_FIELD_BOOL: snprintf(text, room, "%d", *(const bool *)at); break;
    case MBA_FIELD_REAL: snprintf(text, room, "%g", *(const double *)at); break;
    case MBA_FIELD_WORD: snprintf(text, room, "%s", f->words[*(const int *)at]); break;
    case MBA_FIELD_LIST:
        *text = 0;
        for (int i = 0; i < f->count && n >= 0 && (size_t)n < room; i++)
            n += snprintf(text + n, room - (size_t)n, "%s%lld", i ? ":" : "", (long long)((const int64_t *)at)[i]);
        break;
    default: snprintf(text, room, "%s", (const char *)at); break;
    }
}

static mba_status parameter(mba_store *s, const char *name, const char *value, const char *meaning)
{
    return mba_put_parameter(s, &(mba_row_parameter){ .name = name, .value = value, .meaning = meaning });
}

mba_status mba_describe_model(mba_store *s, const mba_session *session)
{
    const mba_model *m = &session->model;
    mba_assert(m->task < MBA_TASKS);
    char        text[256];
    const void *config[MBA_TASKS] = { &m->lm, &m->vision, &m->graph };
    MBA_TRY(parameter(s, "preset", mba_model_name(m), "the model"));
    MBA_TRY(parameter(s, "batch", mba_model_batch_words(m).text, "the shape of a batch"));
    snprintf(text, sizeof text, "%lld", (long long)mba_session_parameters(session));
    MBA_TRY(parameter(s, "parameters", text, "values that are learned; a tied matrix counts once"));
    snprintf(text, sizeof text, "%zu", mba_program_bytes(session->program));
    MBA_TRY(parameter(s, "plan_bytes", text, "memory of a step, as planned"));
    MBA_TRY(parameter(s, "recompute", session->recomputes ? "on" : "off",
                      "cheap outputs are recomputed in the backward pass"));
    for (const mba_field *f = mba_task_fields(m->task); f->name; f++) {
        field_text(text, sizeof text, f, mba_field_at(config[m->task], f));
        MBA_TRY(parameter(s, f->name, text, f->meaning));
    }
    MBA_TRY(mba_env_put_text(s, "run.workload", "given", "%s", mba_model_name(m)));
    MBA_TRY(mba_env_put_text(s, "run.task", "given", "%s", mba_task_name(m->task)));
    return mba_env_put_text(s, "run.unit", "given", "%s", mba_task_unit(m->task));
}

/* ---- ceilings ---- */

static mba_status ceiling(mba_store *s, const char *name, double rate, const char *unit, const char *how,
                          const char *note)
{
    if (!(rate > 0)) return MBA_OK;
    return mba_put_ceiling(s, &(mba_row_ceiling){ .name = name, .rate = rate, .unit = unit, .how = how, .note = note });
}

/* Ceilings by NVIDIA's data sheets: FLOPs per SM and clock of dense bf16 products and of FP32 FMA; special functions.
 */
static mba_status data_sheet(mba_store *s, const mba_machine *m)
{
    static const struct {
        int    cc;
        double tensor, fma;
    } chips[] = { { 80, 2048, 128 }, { 90, 4096, 256 }, { 100, 8192, 256 } };
    const double clocks = 1e9 * m->clock_ghz * m->sm;
    MBA_TRY(ceiling(s, "dram", 1e9 * m->dram_gbs, "byte/s", "data sheet",
                    "memory clock x bus width, as the driver gives them"));
    for (size_t i = 0; i < sizeof chips / sizeof *chips; i++) {
        if (m->cc / 10 != chips[i].cc / 10) continue;
        MBA_TRY(ceiling(s, "tensor", chips[i].tensor * clocks, "FLOP/s", "data sheet",
                        "dense bf16 per SM and clock x SMs x highest clock"));
        MBA_TRY(ceiling(s, "fma", chips[i].fma * clocks, "FLOP/s", "data sheet",
                        "FP32 per SM and clock x SMs x highest clock"));
        MBA_TRY(ceiling(s, "half2", 2 * chips[i].fma * clocks, "FLOP/s", "data sheet", "packed half: twice FP32"));
        MBA_TRY(ceiling(s, "special", 16 * clocks, "op/s", "data sheet", "16 per SM and clock x SMs x highest clock"));
    }
    return MBA_OK;
}

mba_status mba_describe_ceilings(mba_store *s, const mba_ceilings *c, const mba_device *d)
{
    const bool gpu = d->machine->cc > 0;
    MBA_TRY(ceiling(s, "dram", c->stream_bytes, "byte/s", "measured",
                    "copy of arrays far larger than the caches, bytes read + written"));
    MBA_TRY(
        ceiling(s, "fma", c->fma_flops, "FLOP/s", "measured", "independent fp32 FMA chains in registers; an FMA is 2"));
    MBA_TRY(ceiling(s, "tensor", c->tensor_flops, "FLOP/s", "measured", "a product of 8192^3 by the GPU's library"));
    MBA_TRY(ceiling(s, "special", c->exp_ops, "op/s", "measured",
                    gpu ? "ex2 of the special-function units" : "our vector exp over an array in L1"));
    return gpu ? data_sheet(s, d->machine) : MBA_OK;
}
