// SPDX-License-Identifier: Apache-2.0
/* evaluate.c -- see evaluate.h: one section for tokens, images and graphs that are given as one batch, one for data
 * sets. */
#include "train/evaluate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "data/metrics.h"
#include "data/npy.h"
#include "train/checkpoint.h"
#include "train/text_data.h"

/* The state of one evaluation. */
typedef struct evaluation {
    const mba_evaluate_options *o;
    mba_session_options         so;
    mba_hf_format               format;
    mba_session                 s;
    mba_step                    step;
    mba_evaluation             *out;
} evaluation;

/* ---- integers of an .npy ---- */

static int64_t integer_at(const mba_array *a, int64_t i)
{
    int32_t w[2] = { 0, 0 }; // little-endian; the address may be unaligned
    memcpy(w, (const char *)a->data + i * (int64_t)mba_file_dtype_bytes(a->dtype), mba_file_dtype_bytes(a->dtype));
    return a->dtype == MBA_WIRE_I32 ? w[0] : (int64_t)((uint64_t)(uint32_t)w[1] << 32 | (uint32_t)w[0]);
}

/* Checks that the array holds integers of this rank below the bound; negative ones are allowed only if `ignored`. */
static mba_status check_integers(const mba_array *a, int rank, int64_t bound, bool ignored, const char *what,
                                 const char *shape)
{
    if (a->rank != rank || (a->dtype != MBA_WIRE_I32 && a->dtype != MBA_WIRE_I64) || a->elems < 1)
        return mba_fail(MBA_E_FORMAT, "the %ss in '%s' are %s %s\nfix: save them as int32 or int64 of shape %s", what,
                        a->file, mba_file_dtype_name(a->dtype), mba_shape_words(a->rank, a->shape).text, shape);
    for (int64_t i = 0; i < a->elems; i++) {
        const int64_t v = integer_at(a, i);
        if ((v < 0 && !ignored) || v >= bound)
            return mba_fail(MBA_E_FORMAT,
                            "%s %lld of '%s' is %lld\nwhy: the %s of the model has %lld\nfix: use "
                            "a file that belongs to this model",
                            what, (long long)i, a->file, (long long)v, rank == 2 ? "vocabulary" : "head",
                            (long long)bound);
    }
    return MBA_OK;
}

/* ---- a session for one batch ---- */

static mba_status make_session(evaluation *e)
{
    e->so.backward = e->o->grads != NULL;
    e->so.train = e->o->train_mode;
    MBA_TRY(mba_session_plan(&e->s, &e->so));
    MBA_TRY(mba_session_take(&e->s));
    MBA_TRY(mba_checkpoint_load(&e->s, e->format, e->o->checkpoint));
    return e->o->averaged ? mba_checkpoint_load_average(&e->s, e->o->checkpoint) : MBA_OK;
}

/* Runs the batch in the inputs and writes logits and gradients if asked for; `rows` of the first axis of logits are
 * valid. */
static mba_status run(evaluation *e, int64_t targets, int64_t rows)
{
    const mba_tensor *logits = e->s.io.logits;
    MBA_TRY(mba_program_run(e->s.program, e->o->grads ? MBA_FORWARD | MBA_BACKWARD : MBA_FORWARD, &e->step, NULL));
    MBA_TRY(mba_program_wait(e->s.program));
    e->out->loss = e->s.io.loss && targets > 0 ? (double)*(const float *)mba_session_at(&e->s, "loss") : NAN;
    e->out->targets = targets;
    e->out->parameters = mba_session_parameters(&e->s);
    if (e->o->logits) {
        int64_t shape[MBA_RANK_MAX];
        memcpy(shape, logits->type.dim, sizeof shape);
        shape[0] = rows;
        MBA_TRY(
            mba_npy_write(e->o->logits, MBA_WIRE_F32, (int)logits->type.rank, shape, mba_session_at(&e->s, "logits")));
    }
    return e->o->grads ? mba_checkpoint_save_grads(&e->s, e->format, e->o->checkpoint, e->o->grads) : MBA_OK;
}

/* ---- tokens ---- */

/* Sets the tokens as inputs. The target of a position is the next token; the last position has none. */
static void set_tokens(const mba_session *s, const mba_array *a)
{
    const int64_t L = a->shape[1];
    int32_t      *tokens = mba_session_at(s, "tokens"), *targets = mba_session_find(s, "targets");
    for (int64_t i = 0; i < a->elems; i++) tokens[i] = (int32_t)integer_at(a, i);
    for (int64_t i = 0; targets && i < a->elems; i++) targets[i] = i % L + 1 < L ? tokens[i + 1] : -1;
}

static mba_status evaluate_tokens(evaluation *e)
{
    mba_npy *f = NULL;
    mba_lm  *c = &e->so.model.lm;
    MBA_TRY(mba_npy_open(&f, e->o->tokens));
    const mba_array *a = mba_npy_array(f);
    mba_status       st = check_integers(a, 2, c->vocab, false, "token", "(batch, length)");
    if (st == MBA_OK) {
        c->batch = a->shape[0];
        c->length = a->shape[1];
        mba_model_outputs(&e->so.model, c->length > 1, e->o->logits != NULL);
        if (c->length == 1 && e->o->grads)
            st = mba_fail(MBA_E_ARG, "sequences of one token have no loss and no gradients\nfix: leave --grads out");
    }
    if (st == MBA_OK) st = make_session(e);
    if (st == MBA_OK) {
        set_tokens(&e->s, a);
        st = run(e, c->batch * (c->length - 1), c->batch);
    }
    mba_npy_close(f);
    return st;
}

/* ---- images ---- */

static mba_status check_images(const mba_array *a, const mba_array *labels)
{
    if (a->rank != 4 || a->shape[1] != 3 || a->shape[2] != a->shape[3] || a->elems < 1
        || (a->dtype != MBA_WIRE_F32 && a->dtype != MBA_WIRE_F64))
        return mba_fail(MBA_E_FORMAT,
                        "the images in '%s' are %s %s\nfix: save them as float32 of shape "
                        "(number, 3, side, side), normalised",
                        a->file, mba_file_dtype_name(a->dtype), mba_shape_words(a->rank, a->shape).text);
    if (labels && labels->shape[0] != a->shape[0])
        return mba_fail(MBA_E_SHAPE, "there are %lld images but %lld labels\nfix: give --labels one class per image",
                        (long long)a->shape[0], (long long)labels->shape[0]);
    return MBA_OK;
}

/* Copies images from planes (N, 3, H, W) to channels last. */
static mba_status set_images(const mba_session *s, const mba_array *a, const mba_array *labels)
{
    const int64_t pixels = a->shape[2] * a->shape[3];
    float        *to = mba_session_at(s, "images"), *planes = malloc(sizeof *planes * (size_t)a->elems);
    int32_t      *label = mba_session_at(s, "labels");
    mba_status    st = planes ? mba_array_read_f32(a, planes, a->elems)
                              : mba_fail(MBA_E_NOMEM, "no memory for the images of '%s'", a->file);
    for (int64_t i = 0; i < a->elems && st == MBA_OK; i++) {
        if (!isfinite(planes[i]))
            st = mba_fail(MBA_E_FORMAT, "value %lld of '%s' is %g\nfix: pixels must be finite", (long long)i, a->file,
                          (double)planes[i]);
        to[(i / (3 * pixels) * pixels + i % pixels) * 3 + i / pixels % 3] = planes[i];
    }
    for (int64_t n = 0; n < a->shape[0]; n++) label[n] = labels ? (int32_t)integer_at(labels, n) : -1;
    free(planes);
    return st;
}

static mba_status run_images(evaluation *e, const mba_array *a, const mba_array *labels)
{
    mba_vision *c = &e->so.model.vision;
    MBA_TRY(check_images(a, labels));
    if (!labels && e->o->grads)
        return mba_fail(MBA_E_ARG, "images without labels have no gradients\nfix: add --labels Y.npy");
    c->batch = a->shape[0];
    c->image = a->shape[2];
    mba_model_outputs(&e->so.model, true, true);
    MBA_TRY(make_session(e));
    MBA_TRY(set_images(&e->s, a, labels));
    const int32_t *truth = mba_session_at(&e->s, "labels");
    int64_t        valid = 0;
    for (int64_t n = 0; n < a->shape[0]; n++) valid += truth[n] >= 0;
    MBA_TRY(run(e, valid, a->shape[0]));
    const int64_t right = mba_top_k(mba_session_at(&e->s, "logits"), truth, a->shape[0], e->s.model.vision.classes, 1);
    if (valid) e->out->score[e->out->scores++] = (mba_task_score){ "accuracy", (double)right / (double)valid };
    return MBA_OK;
}

static mba_status evaluate_images(evaluation *e)
{
    mba_npy  *images = NULL, *labels = NULL;
    mba_model whole = e->so.model;
    MBA_TRY(mba_model_complete(&whole));
    mba_status st = mba_npy_open(&images, e->o->images);
    if (st == MBA_OK && e->o->labels) st = mba_npy_open(&labels, e->o->labels);
    if (st == MBA_OK && labels)
        st = check_integers(mba_npy_array(labels), 1, whole.vision.classes, true, "label", "(number)");
    if (st == MBA_OK) st = run_images(e, mba_npy_array(images), labels ? mba_npy_array(labels) : NULL);
    mba_npy_close(images);
    mba_npy_close(labels);
    return st;
}

/* ---- graphs ---- */

static mba_status evaluate_graphs(evaluation *e)
{
    const mba_feed_options fo = { .data = e->o->graphs, .whole = true };
    mba_feed              *f = NULL;
    mba_model_outputs(&e->so.model, true, true);
    mba_status st = mba_feed_fit(&e->so.model, &fo);
    if (st == MBA_OK) st = make_session(e);
    if (st == MBA_OK) st = mba_feed_open(&f, &e->s.model, &fo);
    if (st == MBA_OK) st = mba_feed_stage(f, &e->step);
    if (st == MBA_OK) st = mba_feed_bind(f, &e->s, 0, &e->step);
    const mba_count rows = e->s.model.graph.readout == MBA_READ_NODES ? MBA_NODES : MBA_GRAPHS;
    if (st == MBA_OK) st = run(e, f->targets, e->step.count[rows]);
    if (st == MBA_OK) st = f->type->score(f, &e->s);
    if (st == MBA_OK) st = f->type->scores(f, e->out->score, &e->out->scores);
    mba_feed_close(f);
    return st;
}

/* ---- the held-out part of a data set ---- */

static mba_status data_shape(evaluation *e)
{
    mba_batch_shape shape = e->o->shape;
    if (e->so.model.task == MBA_TASK_TEXT && !shape.length) shape.length = 256;
    if (e->so.model.task != MBA_TASK_GRAPHS && !shape.batch) shape.batch = e->so.model.task == MBA_TASK_TEXT ? 8 : 32;
    if (e->so.model.task == MBA_TASK_GRAPHS && (!shape.graphs || !shape.nodes || !shape.edges))
        return mba_fail(MBA_E_ARG, "the size of a batch is unknown\nfix: add --max-graphs, --nodes and --edges");
    return mba_model_shape(&e->so.model, &shape);
}

/* Evaluates the held-out part of `data`; if there is none, all of it, without augmentation. */
static mba_status judge_data(evaluation *e, const char *data)
{
    mba_feed             *f = NULL;
    mba_validation_result j;
    const bool            text = e->so.model.task == MBA_TASK_TEXT;
    mba_feed_options      fo = { .data = data,
                                 .validation = e->o->validation,
                                 .made = e->o->made,
                                 .held_out = !text || e->o->validation > 0,
                                 .in_order = true };
    MBA_TRY(mba_feed_open(&f, &e->s.model, &fo));
    if (!f) {
        fo.held_out = false;
        fo.plain = true;
        MBA_TRY(mba_feed_open(&f, &e->s.model, &fo));
    }
    const mba_status st = mba_feed_evaluate(&j, f, &e->s, 0, 1);
    mba_feed_close(f);
    if (st != MBA_OK) return st;
    e->out->loss = j.loss;
    e->out->targets = j.targets;
    e->out->parameters = mba_session_parameters(&e->s);
    e->out->scores = j.scores;
    memcpy(e->out->score, j.score, sizeof j.score);
    return MBA_OK;
}

static mba_status judge_text(evaluation *e)
{
    mba_text_data d = { 0 };
    MBA_TRY(mba_text_data_open(&d, &(mba_text_data_options){ .data = e->o->data,
                                                             .tokenizer = e->o->tokenizer,
                                                             .field = e->o->field,
                                                             .checkpoint = e->o->checkpoint,
                                                             .vocab = e->s.model.lm.vocab }));
    snprintf(e->out->prepared, sizeof e->out->prepared, "%s", d.story);
    const mba_status st = judge_data(e, d.path);
    mba_text_data_close(&d);
    return st;
}

static mba_status evaluate_data(evaluation *e)
{
    if (e->o->logits || e->o->grads)
        return mba_fail(MBA_E_ARG, "--logits and --grads need one given batch, not --data\nfix: use --tokens, "
                                   "--images or --graphs instead of --data");
    MBA_TRY(data_shape(e));
    mba_model_outputs(&e->so.model, true, mba_feed_scores(e->so.model.task));
    MBA_TRY(make_session(e));
    return e->so.model.task == MBA_TASK_TEXT ? judge_text(e) : judge_data(e, e->o->data);
}

/* ---- choosing the kind of evaluation ---- */

static mba_status evaluate(evaluation *e)
{
    static mba_status (*const given[MBA_TASKS])(evaluation *) = { evaluate_tokens, evaluate_images, evaluate_graphs };
    const char *const source[MBA_TASKS] = { e->o->tokens, e->o->images, e->o->graphs };
    const mba_task    task = e->so.model.task;
    for (int t = 0; t < MBA_TASKS; t++)
        if (source[t] && t != (int)task)
            return mba_fail(MBA_E_ARG,
                            "'%s' is a model of %s, but the data is %s\nfix: use --tokens, --images "
                            "or --graphs, as the model needs",
                            e->o->checkpoint, mba_task_name(task), mba_task_unit((mba_task)t));
    if (e->o->data) return evaluate_data(e);
    if (!source[task])
        return mba_fail(MBA_E_ARG,
                        "there is no data to evaluate '%s' on\nfix: add --tokens T.npy, --images X.npy, "
                        "--graphs FILE or --data PATH",
                        e->o->checkpoint);
    return given[task](e);
}

mba_status mba_evaluate(mba_evaluation *out, const mba_evaluate_options *o)
{
    evaluation e = { .o = o, .so = o->session, .out = out, .step = { .seed = o->seed >= 0 ? (uint64_t)o->seed : 1 } };
    MBA_TRY(mba_checkpoint_config(&e.so.model, &e.format, o->checkpoint));
    *out = (mba_evaluation){ .task = e.so.model.task, .loss = NAN };
    if (o->train_mode && o->seed < 0) mba_model_disable_stochastic(&e.so.model);
    const mba_status st = evaluate(&e);
    mba_session_end(&e.s);
    return st;
}
