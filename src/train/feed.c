// SPDX-License-Identifier: Apache-2.0
/* feed.c -- see feed.h: selects the feed of a task, and evaluates a model over a feed. */
#include "train/feed.h"

#include <math.h>

#include "core/check.h"

static const mba_feed_type *const types[MBA_TASKS] = {
    [MBA_TASK_TEXT] = &mba_text_feed,
    [MBA_TASK_IMAGES] = &mba_image_feed,
    [MBA_TASK_GRAPHS] = &mba_graph_feed,
};

mba_status mba_feed_fit(mba_model *m, const mba_feed_options *o)
{
    return types[m->task]->fit ? types[m->task]->fit(m, o) : MBA_OK;
}

mba_status mba_feed_open(mba_feed **out, const mba_model *m, const mba_feed_options *o)
{
    *out = NULL;
    MBA_TRY(types[m->task]->open(out, m, o));
    if (!*out) return MBA_OK;
    (*out)->type = types[m->task];
    (*out)->micros = o->micros > 0 ? o->micros : 1;
    (*out)->slots = o->slots > 0 ? o->slots : (*out)->micros;
    (*out)->first = o->first;
    mba_assert((*out)->first >= 0 && (*out)->first + (*out)->micros <= (*out)->slots);
    return MBA_OK;
}

void mba_feed_close(mba_feed *f)
{
    if (f) f->type->close(f);
}

mba_status mba_feed_stage(mba_feed *f, mba_step *step) { return f->type->stage(f, step); }

mba_status mba_feed_bind(mba_feed *f, mba_session *s, int64_t micro, mba_step *step)
{
    step->micro = (int32_t)(f->first + micro);
    return f->type->bind(f, s, micro, step);
}

bool mba_feed_scores(mba_task task) { return types[task]->score != NULL; }

mba_feed_text mba_feed_words(const mba_feed *f)
{
    mba_feed_text t = { "" };
    f->type->describe(f, t.text, sizeof t.text);
    return t;
}

mba_status mba_feed_evaluate(mba_validation_result *out, mba_feed *f, mba_session *s, int64_t batches, uint64_t seed)
{
    double sum = 0;
    *out = (mba_validation_result){ .loss = NAN };
    f->at = (mba_position){ 0 };
    for (int64_t i = 0; f->at.epoch == 0 && (batches <= 0 || i < batches); i++) {
        mba_step step = { .seed = seed, .index = i };
        MBA_TRY(mba_feed_stage(f, &step));
        MBA_TRY(mba_feed_bind(f, s, 0, &step));
        step.loss_scale = 0; // the loss is the mean over the batch
        MBA_TRY(mba_program_run(s->program, MBA_FORWARD, &step, NULL));
        MBA_TRY(mba_program_wait(s->program));
        if (f->type->score) MBA_TRY(f->type->score(f, s));
        if (f->targets > 0) sum += (double)f->targets * (double)*(const float *)mba_session_at(s, "loss");
        out->targets += f->targets;
        out->units += f->units;
    }
    if (out->targets > 0) out->loss = sum / (double)out->targets;
    return f->type->scores ? f->type->scores(f, out->score, &out->scores) : MBA_OK;
}

mba_status mba_feed_example(mba_session *s, mba_step *step)
{
    mba_feed *f = NULL;
    mba_fill_inputs(s->program);
    if (s->model.task != MBA_TASK_GRAPHS) return MBA_OK; // any tokens and pixels are valid
    MBA_TRY(mba_feed_open(&f, &s->model, &(mba_feed_options){ .seed = 1, .made = 2 * mba_model_units(&s->model) }));
    mba_status st = mba_feed_stage(f, step);
    if (st == MBA_OK) st = mba_feed_bind(f, s, 0, step);
    mba_feed_close(f);
    return st;
}
