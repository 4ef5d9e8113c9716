// SPDX-License-Identifier: Apache-2.0
/* watchdog.c -- see watchdog.h: a hook that copies each output from the device and looks for NaN and infinity. */
#include "train/watchdog.h"

#include <math.h>
#include <stdlib.h>

typedef struct watch {
    const mba_program *program;
    mba_finding       *finding;
    mba_status         status;
} watch;

/* Finds the first value of an output that is not finite. Copies the whole range of the view, with the gaps between its
 * rows. */
static mba_status look_at(watch *w, const mba_node *n, int k)
{
    const mba_tensor *t = n->out[k];
    const size_t      e = mba_dtype_bytes(t->type.dtype);
    const size_t      span = e * (size_t)((mba_elems(t) / t->run - 1) * t->pitch + t->run);
    char             *x = malloc(span);
    if (!x) return mba_fail(MBA_E_NOMEM, "no memory to look at %s", n->op->name);
    const mba_status st = w->program->device->get(x, mba_program_at(w->program, t), span);
    for (int64_t i = 0; i < mba_elems(t) && st == MBA_OK; i++) {
        const int64_t at = i / t->run * t->pitch + i % t->run;
        const float   v = t->type.dtype == MBA_BF16 ? mba_from_bf16(((const uint16_t *)(void *)x)[at])
                                                    : ((const float *)(void *)x)[at];
        if (isfinite(v)) continue;
        *w->finding = (mba_finding){ .node = n, .output = n->op->out[k].name, .element = i, .value = (double)v };
        break;
    }
    free(x);
    return st;
}

static void look(void *ctx, const mba_node *n, const mba_plan *plan)
{
    watch *w = ctx;
    (void)plan;
    for (int k = 0; k < MBA_OUT_MAX && !w->finding->node && w->status == MBA_OK; k++)
        if (n->out[k] && n->out[k]->type.dtype != MBA_I32) w->status = look_at(w, n, k);
}

mba_status mba_watchdog(mba_finding *out, mba_session *s, unsigned passes, const mba_step *step)
{
    *out = (mba_finding){ 0 };
    watch           w = { .program = s->program, .finding = out };
    const mba_hooks h = { .after = look, .ctx = &w };
    MBA_TRY(mba_program_run(s->program, passes, step, &h));
    return w.status;
}
