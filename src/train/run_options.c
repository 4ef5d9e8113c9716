// SPDX-License-Identifier: Apache-2.0
/* run_options.c -- see run_options.h. */
#include "train/run_options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/aliases.h"
#include "core/device.h"
#include "core/nearest.h"

static mba_status recompute_of(mba_recompute *out, const char *text)
{
    static const char *const words[] = { "auto", "off", "on", "states" };
    for (int i = 0; i < 4; i++)
        if (!strcmp(text, words[i])) {
            *out = (mba_recompute)i;
            return MBA_OK;
        }
    return mba_fail(MBA_E_ARG, "--recompute must be auto, on, off or states, not %s", text);
}

/* Of several ranks each has its own GPU, unless the process sees only one: then somebody has chosen for it. */
static mba_status device_of(const mba_device **out, const char *text, int local_rank)
{
    char *end = NULL;
    *out = &mba_device_cpu;
    if (!text || !strcmp(text, "cpu")) return MBA_OK;
    if (!strcmp(text, "cuda")) return mba_device_cuda(out, local_rank > 0 && mba_cuda_count() > 1 ? local_rank : 0);
    const long n = strncmp(text, "cuda:", 5) ? -1 : strtol(text + 5, &end, 10);
    if (n < 0 || n > 1024 || end == text + 5 || *end)
        return mba_fail(MBA_E_ARG, "--device must be cpu, cuda or cuda:N, not %s", text);
    return mba_device_cuda(out, (int)n);
}

mba_status mba_precision_apply(const char *text, bool gpu, mba_session_options *o)
{
    if (!text) text = gpu ? "bf16" : "fp32";
    if (strcmp(text, "fp32") && strcmp(text, "tf32") && strcmp(text, "bf16"))
        return mba_fail(MBA_E_ARG, "--precision must be fp32, tf32 or bf16, not %s", text);
    if (strcmp(text, "fp32") && !gpu)
        return mba_fail(MBA_E_ARG,
                        "%s is not available on the CPU\nwhy: it has no tensor cores; its products are fp32\n"
                        "fix: add --device cuda, or leave --precision out",
                        text);
    o->compute = strcmp(text, "bf16") ? MBA_F32 : MBA_BF16;
    o->tf32 = !strcmp(text, "tf32");
    return MBA_OK;
}

const char *mba_precision_name(mba_dtype compute, bool tf32)
{
    return compute == MBA_BF16 ? "bf16" : tf32 ? "tf32" : "fp32";
}

static bool has_variant(const mba_variant *v, const char *name)
{
    for (; v && v->name; v++)
        if (!strcmp(v->name, name)) return true;
    return false;
}

static mba_status no_variant(const char *text, const mba_op *op, const char *variant)
{
    mba_nearest near = mba_nearest_to(variant, strlen(variant));
    for (const mba_variant *v = op->cpu; v && v->name; v++) mba_nearest_try(&near, v->name, NULL);
    for (const mba_variant *v = op->cuda; v && v->name; v++) mba_nearest_try(&near, v->name, NULL);
    return mba_fail(MBA_E_ARG, "--op %s\nwhy: %s has no variant '%s'\nfix: %smambascope list ops names them", text,
                    op->name, variant, mba_did_you_mean(&near).text);
}

/* The first earlier name of a variant that this process was given. mba_program_create knows earlier names too. */
static char renamed[192];

static void note_alias(const char *op, const char *variant, const char *now)
{
    if (!*renamed) snprintf(renamed, sizeof renamed, "--op %s=%s: the variant is now called %s", op, variant, now);
}

const char *mba_run_options_renamed(void) { return *renamed ? renamed : NULL; }

/* OP=V,..: a name that no operator or no variant has would change nothing, unnoticed. */
static mba_status variants_of(const char **out, const char *text)
{
    char name[64], variant[64];
    for (const char *p = text; *p; p += strcspn(p, ","), p += *p == ',') {
        const int len = (int)strcspn(p, "=,");
        snprintf(name, sizeof name, "%.*s", len, p);
        const mba_op    *op;
        const mba_status named = mba_op_named(&op, name);
        if (named != MBA_OK) return mba_where(named, "--op %s", text);
        if (p[len] != '=')
            return mba_fail(
                MBA_E_ARG,
                "--op %s\nwhy: no variant of %s is named\nfix: write --op %s=VARIANT; mambascope list ops names them",
                text, name, name);
        snprintf(variant, sizeof variant, "%.*s", (int)strcspn(p + len + 1, ","), p + len + 1);
        const char *now = mba_alias_variant(name, variant);
        if (now != variant) note_alias(name, variant, now);
        if (!has_variant(op->cpu, now) && !has_variant(op->cuda, now)) return no_variant(text, op, variant);
    }
    *out = text;
    return MBA_OK;
}

mba_status mba_run_options_apply(const mba_model_options *m, mba_session_options *o)
{
    MBA_TRY(device_of(&o->device, m->device, m->local_rank));
    MBA_TRY(mba_precision_apply(m->precision, o->device->machine->cc > 0, o));
    if (m->memory) o->memory_bytes = m->memory;
    if (m->variants) MBA_TRY(variants_of(&o->variants, m->variants));
    if (m->recompute) MBA_TRY(recompute_of(&o->recompute, m->recompute));
    mba_cpu_set_threads((int)m->threads);
    return MBA_OK;
}

mba_status mba_model_options_apply(const mba_model_options *m, mba_session_options *o)
{
    if (m->name) MBA_TRY(mba_model_preset(&o->model, m->name));
    MBA_TRY(mba_model_set(&o->model, m->set));
    MBA_TRY(mba_model_shape(&o->model, &m->shape));
    MBA_TRY(mba_run_options_apply(m, o));
    mba_model complete = o->model;
    return mba_model_complete(&complete); // reports misuse here, with exit code 2
}
