/* session.c -- see session.h. */
#include "train/session.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const mba_machine host = { .name = "host" };

static int64_t machine_bytes(void) { return (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE); }

static mba_status plan_once(mba_session *s, const mba_session_options *o, bool recompute)
{
    mba_session_end(s);
    s->model      = o->model;
    s->recomputes = recompute;
    if (recompute && s->model.head == MBA_HEAD_LOSS) s->model.head = MBA_HEAD_SLICED;
    MBA_TRY(mba_lm_complete(&s->model));
    MBA_TRY(mba_graph_create(&s->graph));
    s->graph->recompute  = recompute;
    s->graph->accumulate = o->accumulate;
    s->io = mba_lm_build(s->graph, &s->model);
    MBA_TRY(mba_graph_status(s->graph));
    if (o->backward) MBA_TRY(mba_backward(s->graph, s->io.loss));
    if (o->update) mba_adamw_all(s->graph, &o->adamw);
    return mba_program_create(&s->program, s->graph, &(mba_program_options){ .machine = &host, .variants = o->variants });
}

mba_status mba_session_plan(mba_session *s, const mba_session_options *o)
{
    const double limit = o->memory_bytes > 0 ? (double)o->memory_bytes : 0.9 * (double)machine_bytes();
    MBA_TRY(plan_once(s, o, o->recompute == MBA_RECOMPUTE_ON));
    const double plain = (double)mba_program_bytes(s->program);
    if (plain > limit && o->recompute == MBA_RECOMPUTE_AUTO && o->backward) MBA_TRY(plan_once(s, o, true));
    const double planned = (double)mba_program_bytes(s->program);
    if (planned > limit)
        return mba_fail(MBA_E_NOMEM, "the plan needs %.2f GB, %.2f GB are allowed\nwhy: batch %lld x length %lld%s\n"
                        "fix: a smaller --batch (with --micros for the same step) or --length%s", planned / 1e9, limit / 1e9,
                        (long long)s->model.batch, (long long)s->model.length,
                        s->recomputes ? ", with recomputation" : "",
                        s->recomputes || !o->backward ? "" : ", or --recompute on");
    return MBA_OK;
}

mba_status mba_session_bind(mba_session *s, uint64_t seed)
{
    MBA_TRY(mba_program_bind(s->program, &mba_device_cpu));
    MBA_TRY(mba_program_init(s->program, seed));
    return MBA_OK;
}

void mba_session_end(mba_session *s)
{
    mba_program_destroy(s->program);
    mba_graph_destroy(s->graph);
    *s = (mba_session){ 0 };
}

void *mba_session_at(const mba_session *s, const char *name)
{
    const mba_tensor *t = mba_graph_find(s->graph, name);
    mba_assert(t);
    return mba_program_at(s->program, t);
}

void mba_session_carry(mba_session *s)
{
    char name[256];
    for (int32_t i = 0; i < s->graph->ntensors; i++) {
        const mba_tensor *t = s->graph->tensors[i];
        if (t->st->role != MBA_INPUT || t->of) continue;
        snprintf(name, sizeof name, "%s.out", t->name);
        const mba_tensor *from = mba_graph_find(s->graph, name);
        if (from) memcpy(mba_program_at(s->program, t), mba_program_at(s->program, from), (size_t)mba_tensor_bytes(t));
    }
}

int64_t mba_session_parameters(const mba_session *s)
{
    int64_t n = 0;
    for (int32_t i = 0; i < s->graph->ntensors; i++)
        if (mba_is_param(s->graph->tensors[i])) n += mba_elems(s->graph->tensors[i]);
    return n;
}
