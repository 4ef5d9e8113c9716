/* watchdog.c -- see watchdog.h. */
#include "train/watchdog.h"

#include <math.h>

typedef struct watch { const mba_program *program; mba_finding *finding; } watch;

static void look(void *ctx, const mba_node *n, const mba_plan *plan)
{
    const watch *w = ctx;
    (void)plan;
    for (int k = 0; k < MBA_OUT_MAX && !w->finding->node; k++) {
        const mba_tensor *t = n->out[k];
        if (!t || t->type.dtype != MBA_F32) continue;
        const float *x = mba_program_at(w->program, t);
        for (int64_t i = 0; i < mba_elems(t); i++) {
            const float v = x[i / t->run * t->pitch + i % t->run];
            if (isfinite(v)) continue;
            *w->finding = (mba_finding){ .node = n, .output = n->op->out[k].name, .element = i, .value = (double)v };
            break;
        }
    }
}

mba_status mba_watchdog(mba_finding *out, mba_session *s, unsigned passes, const mba_step *step)
{
    *out = (mba_finding){ 0 };
    watch           w = { s->program, out };
    const mba_hooks h = { .after = look, .ctx = &w };
    return mba_program_run(s->program, passes, step, &h);
}
