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
    if (m->name) MBA_TRY(mba_model_preset(&o->model, m->name));
    MBA_TRY(mba_model_set(&o->model, m->set));
    MBA_TRY(mba_model_shape(&o->model, &m->shape));
    MBA_TRY(mba_run_options_apply(m, o));
    mba_model complete = o->model;
    return mba_model_complete(&complete);         // misuse is told here, with exit 2
}
