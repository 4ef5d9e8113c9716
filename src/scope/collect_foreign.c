// SPDX-License-Identifier: Apache-2.0
/* collect_foreign.c -- `profile -- CMD`: runs a CUDA program with our library injected (inject.c), then stores the
 * trace that it wrote. */
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/file.h"
#include "scope/collect.h"
#include "scope/describe.h"
#include "scope/energy.h"
#include "scope/foreign_store.h"
#include "scope/meter.h"

enum { PATH_ROOM = 4096 };
static const char LIBRARY[] = "libmambascope_inject.so";

#ifdef MBA_WITH_CUPTI
static const char *const        why = "it belongs beside the program, or in " MBA_INJECT_FROM " from there",
                         *const fix = "./run build, and keep the two files together";
#else
static const char *const        why = "this build has no CUPTI",
                         *const fix = "install the CUDA toolkit with CUPTI (cuda-cupti-dev-13-0), then ./run build";
#endif

static mba_status find_library(char *out, const char *command)
{
    if (mba_library_find(out, PATH_ROOM, MBA_INJECT_FROM, LIBRARY)) return MBA_OK;
    return mba_fail(MBA_E_UNSUPPORTED, "cannot profile '%s': there is no %s\nwhy: %s\nfix: %s", command, LIBRARY, why,
                    fix);
}

/* The trace lies beside the store. Its path is absolute, because the program may change its directory. */
static mba_status name_trace(char *out, const char *store)
{
    char *whole = realpath(store, NULL);
    if (!whole) return mba_fail(MBA_E_IO, "cannot find the store '%s'\nwhy: %s", store, strerror(errno));
    const int n = snprintf(out, PATH_ROOM, "%s.trace", whole);
    free(whole);
    return n < PATH_ROOM ? MBA_OK : mba_fail(MBA_E_ARG, "the name of the store is too long");
}

static void set_number(const char *name, double value)
{
    char text[64];
    snprintf(text, sizeof text, "%.17g", value);
    if (value > 0) setenv(name, text, 1);
}

typedef struct start {
    const mba_foreign_options *o;
    const char                *library, *trace;
} start;

/* Sets the environment of the program; runs in the child process. */
static void prepare(const void *ctx)
{
    const start               *s = ctx;
    const mba_foreign_options *o = s->o;
    setenv("CUDA_INJECTION64_PATH", s->library, 1);
    setenv("MAMBASCOPE_TRACE", s->trace, 1);
    set_number("MAMBASCOPE_SKIP_SECONDS", o->skip_s);
    set_number("MAMBASCOPE_SKIP_LAUNCHES", (double)o->skip_launches);
    set_number("MAMBASCOPE_SKIP_STEPS", (double)o->skip_steps);
    set_number("MAMBASCOPE_LAUNCHES", (double)o->launches);
    if (o->sets && *o->sets) setenv("MAMBASCOPE_SETS", o->sets, 1);
    if (o->range) {
        setenv("MAMBASCOPE_RANGE", o->range, 1);
        setenv("NVTX_INJECTION64_PATH", s->library, 1); // forwards NVTX to CUPTI, which calls our library
    }
}

/* ---- how it ended ---- */

static void tell(mba_foreign_end *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void tell(mba_foreign_end *e, const char *fmt, ...)
{
    const size_t n = strlen(e->story);
    mba_assert(n < sizeof e->story);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(e->story + n, sizeof e->story - n, fmt, ap);
    va_end(ap);
}

/* Writes how the program ended into the sheet; if it failed or was interrupted, also a note and a line for the
 * terminal.
 */
static mba_status put_end(mba_store *s, const mba_child_end *c, mba_foreign_end *e)
{
    char words[96], text[256];
    mba_child_words(words, sizeof words, c);
    MBA_TRY(mba_env_put_text(s, "run.ended", "read", "%s", words));
    MBA_TRY(mba_env_put_number(s, "run.exit_code", "read", c->code, ""));
    if (!c->code && !c->told) return MBA_OK;
    snprintf(text, sizeof text, "%sthe program %s after %.2f s", c->signal || c->told ? "interrupted: " : "", words,
             c->seconds);
    tell(e, "%s\n", text);
    return mba_note_missing(s, "program", text, "");
}

static void tell_steps(mba_foreign_end *e, const mba_foreign_summary *sum)
{
    if (sum->marked) return;
    if (sum->loop.n)
        tell(e, "steps: %lld found, each the same %lld launches, %.0f %% of the kernels' time\n",
             (long long)sum->loop.found, (long long)sum->loop.length, 100 * sum->loop.of_time);
    else tell(e, "steps: none found, the store is of the whole program (--range NAME tells them apart)\n");
}

/* ---- all of it ---- */

/* Runs after the child has ended, so that the child had the GPU for itself. */
static mba_status describe(mba_store *s, const mba_foreign_options *o, const mba_machine **machine)
{
    const mba_device *d;
    mba_ceilings      c;
    char              text[640];
    *machine = NULL;
    MBA_TRY(mba_describe_run(s, o->command));
    MBA_TRY(mba_env_put_text(s, "run.foreign", "given", "%s", o->argv[0]));
    if (o->workload) MBA_TRY(mba_env_put_text(s, "run.workload", "given", "%s", o->workload));
    if (o->units > 0) MBA_TRY(mba_env_put_number(s, "run.units", "given", o->units, "tokens"));
    if (mba_device_cuda(&d, 0) != MBA_OK)
        return mba_note_missing(s, "gpu", "the GPU could not be queried after the run: no environment, no ceilings",
                                "mambascope doctor");
    *machine = d->machine;
    MBA_TRY(mba_describe_device(s, d));
    if (mba_ceilings_measure_cuda(&c, MBA_BF16, false) == MBA_OK) return mba_describe_ceilings(s, &c, d);
    snprintf(text, sizeof text, "the ceilings could not be measured: %.600s", mba_message());
    for (char *p = text; *p; p++)
        if (*p == '\n') *p = ' ';
    return mba_note_missing(s, "ceilings", text, "mambascope bench ceilings");
}

/* The error for a program that ran nothing on the GPU, or nothing within the recorded part. */
static mba_status nothing_seen(const mba_child_end *c, const mba_foreign_summary *sum)
{
    char words[96];
    mba_child_words(words, sizeof words, c);
    return mba_fail(MBA_E_DEVICE,
                    "nothing was recorded on the GPU\nwhy: %s; the program %s after %.2f "
                    "s%s%s\nfix: use a shorter --skip-seconds, or another --range",
                    *sum->note ? sum->note : "no kernel ran in the recorded part", words, c->seconds,
                    *sum->memory ? "; " : "", sum->memory);
}

/* The energy of the steps in which nothing was recorded. `m` read the meter while the program ran; NULL: there is
 * none. */
static mba_status put_energy(mba_store *s, const mba_foreign_options *o, const mba_foreign_window *w,
                             const mba_meter *m)
{
    if (!m)
        return mba_note_missing(s, "energy", "NVML has no energy meter here", "install the driver's libnvidia-ml.so.1");
    if (mba_meter_limit_w(m) > 0) MBA_TRY(mba_env_put_number(s, "gpu.power_limit", "read", mba_meter_limit_w(m), "W"));
    const double seconds = w->to_s - w->from_s, watts = w->steps ? mba_meter_mean_w(m, w->from_s, w->to_s) : NAN;
    if (isnan(watts))
        return mba_note_missing(s, "energy", "no step ran in which nothing was recorded, or none long enough",
                                "let the program run for 3 s longer, with its steps in --range NAME");
    return mba_put_energy(s, &(mba_row_energy){ .mode = "attached",
                                                .steps = w->steps,
                                                .units = o->units * (double)w->steps,
                                                .seconds = seconds,
                                                .joules = watts * seconds,
                                                .source = MBA_ENERGY_SAMPLED });
}

static mba_status keep(mba_store *store, const mba_foreign_options *o, const char *trace, const mba_rules *rules,
                       const mba_child_end *c, const mba_meter *meter, mba_foreign_end *e)
{
    const mba_machine  *machine;
    mba_foreign_summary sum;
    char                words[96];
    mba_child_words(words, sizeof words, c);
    if (access(trace, F_OK))
        return mba_fail(MBA_E_DEVICE,
                        "the program left no trace\nwhy: it %s after %.2f s and did not start CUDA\nfix: %s", words,
                        c->seconds,
                        c->code ? "run it by itself first"
                                : "check that it uses a GPU; `mambascope doctor` checks the driver");
    MBA_TRY(describe(store, o, &machine));
    MBA_TRY(mba_foreign_store(store, trace, rules, machine, c, &sum));
    MBA_TRY(put_energy(store, o, &sum.attached, meter));
    if (mba_rules_note(rules)) tell(e, "note: %s\n", mba_rules_note(rules));
    MBA_TRY(put_end(store, c, e));
    if (!sum.events) return nothing_seen(c, &sum);
    if (*sum.missing) tell(e, "%s\n", sum.missing);
    if (*sum.memory) tell(e, "%s\n", sum.memory);
    tell_steps(e, &sum);
    e->stored = true;
    return MBA_OK;
}

mba_status mba_collect_foreign(mba_store *store, const mba_foreign_options *o, mba_foreign_end *end)
{
    char          library[PATH_ROOM], trace[PATH_ROOM];
    mba_rules    *rules;
    mba_child_end child;
    mba_meter    *meter = NULL;
    mba_assert(o->argv && o->argv[0]);
    *end = (mba_foreign_end){ 0 };
    MBA_TRY(find_library(library, o->argv[0]));
    MBA_TRY(name_trace(trace, mba_store_path(store)));
    MBA_TRY(mba_rules_open(&rules, o->rules));
    unlink(trace);
    if (mba_meter_start(&meter, NULL) != MBA_OK) meter = NULL; // put_energy notes it
    mba_status st = mba_child_run(o->argv, prepare, &(start){ o, library, trace }, o->told, &child);
    if (st == MBA_OK) {
        end->code = child.code;
        mba_meter_stop(meter);
        st = keep(store, o, trace, rules, &child, meter, end);
        mba_child_forget();
    }
    mba_meter_destroy(meter);
    unlink(trace);
    mba_rules_free(rules);
    return st;
}
