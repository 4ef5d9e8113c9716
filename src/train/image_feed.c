// SPDX-License-Identifier: Apache-2.0
/* image_feed.c -- the feed of image models (feed.h): batches of images, augmented for training, plain for evaluation,
 * and top-1 and top-5 accuracy. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/image_loader.h"
#include "data/metrics.h"
#include "train/feed.h"

typedef struct image_feed {
    mba_feed          base;
    mba_image_set    *set;
    mba_image_loader *loader;
    mba_position      staged; /* of the first micro-batch of the step */
    int64_t           B, classes;
    bool              judged_on;                 /* evaluation: the last batch may be smaller */
    const char       *held;                      /* for the description: where validation images come from */
    int32_t          *labels;                    /* (B): of the last bound batch */
    int64_t           judged, first, among_five; /* images so far; label ranked first; among the first five */
} image_feed;

static const char *path_of(const mba_feed_options *o) { return o->data ? o->data : "shapes"; }

static mba_status open_set(mba_image_set **out, int64_t classes, const mba_feed_options *o)
{
    const char *path = path_of(o);
    const bool  made = !strcmp(path, "shapes");
    return mba_image_set_open(out, &(mba_image_set_options){ .path = path,
                                                             .validation = o->held_out,
                                                             .part = o->validation,
                                                             .seed = o->seed,
                                                             .classes = made ? 0 : classes });
}

/* ---- opening ---- */

static mba_status image_fit(mba_model *m, const mba_feed_options *o)
{
    mba_image_set *set = NULL;
    if (m->vision.classes && m->vision.image) return MBA_OK;
    MBA_TRY(open_set(&set, m->vision.classes, o));
    if (!m->vision.classes) m->vision.classes = set->classes;
    if (!m->vision.image && set->W > 0) m->vision.image = set->W;
    mba_image_set_close(set);
    return MBA_OK;
}

static mba_image_recipe recipe_of(const image_feed *f, const mba_vision *c, const mba_feed_options *o)
{
    if (o->held_out || o->plain) {
        mba_image_recipe e = mba_image_recipe_eval(f->set, (int32_t)c->image, c->crop);
        if (e.crop == MBA_CROP_CENTRE && c->squash) e.crop = MBA_CROP_SQUASH;
        return e;
    }
    mba_image_recipe r = mba_image_recipe_train(f->set, (int32_t)c->image);
    if (o->smoothing >= 0) r.smoothing = o->smoothing;
    if (o->mixup >= 0) r.mixup = o->mixup;
    if (o->cutmix >= 0) r.cutmix = o->cutmix;
    return r;
}

static void image_close(mba_feed *base)
{
    image_feed *f = (image_feed *)base;
    mba_image_loader_destroy(f->loader);
    mba_image_set_close(f->set);
    free(f->labels);
    free(f);
}

static mba_status open_loader(image_feed *f, const mba_vision *c, const mba_feed_options *o)
{
    const int spare = mba_cpu_threads() - 1;
    if (f->set->classes != c->classes && !(o->held_out && f->set->classes < c->classes))
        return mba_fail(MBA_E_ARG,
                        "the images at '%s' have %lld classes, the model has %lld\nfix: --set "
                        "classes=%lld",
                        path_of(o), (long long)f->set->classes, (long long)c->classes, (long long)f->set->classes);
    f->labels = calloc((size_t)c->batch, sizeof *f->labels);
    if (!f->labels) return mba_fail(MBA_E_NOMEM, "no memory for the labels of a batch");
    return mba_image_loader_create(&f->loader,
                                   &(mba_image_loader_options){ .set = f->set,
                                                                .recipe = recipe_of(f, c, o),
                                                                .B = c->batch,
                                                                .run = o->micros,
                                                                .jump = o->slots > 0 ? o->slots - o->micros : 0,
                                                                .shuffle = !o->in_order && !o->held_out,
                                                                .partial = o->held_out || o->plain,
                                                                .seed = o->seed,
                                                                .workers = o->workers > 0 ? (int)o->workers
                                                                           : spare > 0    ? spare
                                                                                          : 0 });
}

static mba_status image_open(mba_feed **out, const mba_model *m, const mba_feed_options *o)
{
    bool has_held;
    MBA_TRY(mba_image_set_has_held_out(&has_held, path_of(o)));
    if (o->held_out && !(o->validation > 0) && !has_held) return MBA_OK;
    image_feed *f = calloc(1, sizeof *f);
    if (!f) return mba_fail(MBA_E_NOMEM, "no memory for a feed");
    f->B = m->vision.batch;
    f->classes = m->vision.classes;
    f->judged_on = o->held_out || o->plain;
    f->held = has_held            ? ""
              : o->validation > 0 ? "; others held out evenly by class (--valid-fraction)"
                                  : "; no validation part (--valid-fraction 0.1 holds out a tenth)";
    mba_status st = open_set(&f->set, f->classes, o);
    if (st == MBA_OK) st = open_loader(f, &m->vision, o);
    if (st == MBA_OK) f->base.size = f->set->count;
    if (st == MBA_OK) *out = &f->base;
    else image_close(&f->base);
    return st;
}

/* ---- batches ---- */

static mba_position moved(const image_feed *f, mba_position at, int64_t batches)
{
    const int64_t all = mba_image_loader_batches(f->loader), index = at.index + batches;
    return (mba_position){ at.epoch + index / all, index % all };
}

static mba_status image_stage(mba_feed *base, mba_step *step)
{
    image_feed *f = (image_feed *)base;
    f->staged = base->at;
    base->at = moved(f, base->at, base->slots);
    base->units = base->valid = f->B * base->micros;
    step->loss_scale = 1 / (float)base->units;
    return MBA_OK;
}

static mba_status image_bind(mba_feed *base, mba_session *s, int64_t micro, mba_step *step)
{
    image_feed     *f = (image_feed *)base;
    mba_position    at = moved(f, f->staged, base->first + micro);
    mba_image_batch b = { .x = mba_session_at(s, "images"),
                          .labels = f->labels,
                          .targets = mba_session_find(s, "soft") };
    int32_t        *labels = mba_session_find(s, "labels");
    (void)step;
    MBA_TRY(mba_image_loader_next(f->loader, &b, &at));
    if (labels) memcpy(labels, f->labels, sizeof *labels * (size_t)f->B);
    if (f->judged_on) base->units = b.count;
    base->targets = b.count;
    base->left_out = mba_image_loader_skipped(f->loader, &base->story);
    return MBA_OK;
}

/* ---- scores ---- */

static mba_status image_score(mba_feed *base, const mba_session *s)
{
    image_feed  *f = (image_feed *)base;
    const float *logits = mba_session_at(s, "logits");
    f->judged += base->targets;
    f->first += mba_top_k(logits, f->labels, base->targets, f->classes, 1);
    f->among_five += mba_top_k(logits, f->labels, base->targets, f->classes, f->classes < 5 ? f->classes : 5);
    return MBA_OK;
}

static mba_status image_scores(mba_feed *base, mba_task_score out[MBA_SCORES_MAX], int *n)
{
    image_feed  *f = (image_feed *)base;
    const double all = (double)f->judged;
    out[0] = (mba_task_score){ "accuracy", (double)f->first / all };
    out[1] = (mba_task_score){ "top5_accuracy", (double)f->among_five / all };
    *n = f->classes > 5 ? 2 : 1;
    f->judged = f->first = f->among_five = 0;
    return MBA_OK;
}

static void image_describe(const mba_feed *base, char *text, size_t room)
{
    const image_feed *f = (const image_feed *)base;
    snprintf(text, room, "%lld images of %lld classes%s%s%s%s", (long long)base->size, (long long)f->set->classes,
             f->set->made_up ? " (SYNTHETIC " : "", f->set->made_up ? f->set->kind->name : "",
             f->set->made_up ? ")" : "", f->held);
}

const mba_feed_type mba_image_feed = {
    .fit = image_fit,
    .open = image_open,
    .stage = image_stage,
    .bind = image_bind,
    .score = image_score,
    .scores = image_scores,
    .describe = image_describe,
    .close = image_close,
};
