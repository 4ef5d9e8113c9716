/* model_options.c -- see model_options.h. */
#include "cli/model_options.h"

#include <string.h>

#include "core/device.h"

static mba_status recompute_of(mba_recompute *out, const char *text)
{
    static const char *const words[] = { "auto", "off", "on" };
    for (int i = 0; i < 3; i++)
        if (!strcmp(text, words[i])) {
            *out = (mba_recompute)i;
            return MBA_OK;
        }
    return mba_fail(MBA_E_ARG, "--recompute %s\nfix: auto, on or off", text);
}

mba_status mba_run_options_apply(const mba_model_options *m, mba_session_options *o)
{
    if (m->memory)    o->memory_bytes = m->memory;
    if (m->variants)  o->variants = m->variants;
    if (m->recompute) MBA_TRY(recompute_of(&o->recompute, m->recompute));
    mba_cpu_set_threads((int)m->threads);
    return MBA_OK;
}

mba_status mba_model_options_apply(const mba_model_options *m, mba_session_options *o)
{
    if (m->name) {
        const mba_lm *preset = mba_lm_preset(m->name);
        if (!preset) return mba_fail(MBA_E_ARG, "no model '%s'\nfix: mambascope list models", m->name);
        o->model = *preset;
    }
    MBA_TRY(mba_lm_set(&o->model, m->set));
    if (m->batch)     o->model.batch = m->batch;
    if (m->length)    o->model.length = m->length;
    MBA_TRY(mba_run_options_apply(m, o));
    mba_lm complete = o->model;
    return mba_lm_complete(&complete);            // misuse is told here, with exit 2
}
