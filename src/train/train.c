// SPDX-License-Identifier: Apache-2.0
/* train.c -- see train.h. */
#include "train/train.h"

#include <errno.h>
#include <fcntl.h>
#include <float.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/device.h"
#include "core/file.h"
#include "core/lock.h"
#include "data/array.h"
#include "data/json.h"
#include "ops/ema/ema.h"
#include "train/checkpoint.h"
#include "train/guard.h"
#include "train/run_folder.h"
#include "train/text_data.h"
#include "train/watchdog.h"

enum { BAD_STEPS_MAX = 8, PATH_ROOM = 4096 };      // so many skipped steps in a row end a run
static const int64_t STEP_MOST = INT64_C(1) << 48; // a trainer.json that says more is damaged

typedef struct run {
    const mba_train_options *o;
    mba_session              s;
    mba_session              judge; /* evaluation, where it computes something else than training */
    mba_feed                *train, *valid;
    mba_tokenizer_files      tokenizer; /* of text, where it is known */
    mba_step                 step;
    bool                     ahead;  /* the next micro-batch, or the next step's, is bound and on its way: */
    mba_step                 next;   /* as this says, */
    mba_position             at;     /* from here on */
    mba_status               unread; /* a batch that cannot be read, and why; it begins at `at` */
    char                     story[1024];
    mba_guard                guard;
    int64_t                  micros, began_at;
    int64_t                  units, units_before; /* of this session; of those that it goes on with */
    int64_t                  best_step;           /* with the least validation loss; 0: none yet */
    double                   best_loss;
    double                   began_s;
    FILE                    *log;
    mba_lock                *lock; /* of the folder, where the caller has none */
    char                     note[512];
} run;

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- beginning ---- */

/* A second session judges models with two modes, averaged ones, and those that carry states, which stay what training
 * left; the memory it takes is planned before any is taken. */
static mba_status plan_judge(run *r, const mba_session_options *training)
{
    mba_session_options so = *training;
    so.backward = so.update = so.accumulate = false;
    if (so.model.task == MBA_TASK_TEXT) so.model.lm.carry = false;
    mba_model_outputs(&so.model, true, mba_feed_scores(so.model.task));
    return mba_session_plan(&r->judge, &so);
}

static mba_status open_feeds(run *r, const mba_feed_options *data)
{
    mba_feed_options fo = *data;
    fo.seed = r->o->seed;
    fo.micros = r->micros;
    fo.held_out = false;
    MBA_TRY(mba_feed_open(&r->train, &r->s.model, &fo));
    fo.micros = 1;
    fo.held_out = true;
    return mba_feed_open(&r->valid, &r->s.model, &fo);
}

/* The lock comes before the first look at the folder: two runs in one would write into each other's log and take each
 * other's checkpoints for their own. */
static mba_status begin(run *r)
{
    mba_session_options so = r->o->session;
    if (r->o->out && !r->o->lock) MBA_TRY(mba_lock_folder(&r->lock, r->o->out));
    if (r->o->out && !r->o->resume) MBA_TRY(mba_checkpoint_require_empty(r->o->out));
    r->micros = r->o->micros > 0 ? r->o->micros : 1;
    r->step = (mba_step){ .seed = r->o->seed };
    r->guard = (mba_guard){ .factor = r->o->guard };
    so.backward = so.update = true;
    so.accumulate = r->micros > 1;
    if (so.model.task == MBA_TASK_TEXT) so.model.lm.carry = r->o->carry;
    MBA_TRY(mba_feed_fit(&so.model, &r->o->feed));
    MBA_TRY(mba_session_plan(&r->s, &so));
    MBA_TRY(open_feeds(r, &r->o->feed));
    if (so.model.task == MBA_TASK_TEXT)
        MBA_TRY(
            mba_run_tokenizer(&r->tokenizer, r->train, r->o->feed.tokenizer, r->o->resume ? r->o->resume : r->o->init));
    r->s.tokenizer = &r->tokenizer;
    if (r->o->valid_every > 0 && !r->valid)
        return mba_fail(MBA_E_ARG, "--valid-every is set, but the data has no validation part\nfix: add "
                                   "--valid-fraction 0.1 to hold out a tenth of it");
    if (r->valid && (mba_task_has_modes(so.model.task) || r->o->carry || so.ema > 0)) MBA_TRY(plan_judge(r, &so));
    if (r->o->planned) r->o->planned(r->o->ctx, &r->s, r->judge.program ? &r->judge : NULL, r->train);
    if (r->judge.program) MBA_TRY(mba_session_bind(&r->judge, r->o->seed));
    return mba_session_bind(&r->s, r->o->seed);
}

static void finish(run *r)
{
    if (r->log) fclose(r->log);
    mba_feed_close(r->train);
    mba_feed_close(r->valid);
    mba_session_end(&r->judge);
    mba_session_end(&r->s);
    mba_tokenizer_files_free(&r->tokenizer);
    mba_lock_release(r->lock);
}

/* ---- keeping ---- */

static json_t *floats(const float *x, int n)
{
    json_t *a = json_array();
    for (int i = 0; i < n; i++) json_array_append_new(a, json_real((double)x[i]));
    return a;
}

static const char *optimizer_name(const run *r) { return r->o->session.optimizer == MBA_LAMB ? "lamb" : "adamw"; }

/* An average that is not kept up is lost. */
static const char *average_word(const run *r) { return r->s.averages ? "kept (--ema)" : "none"; }

/* Other kernels of the CPU give other bits; a GPU is named by --device. */
static bool on_cpu(const run *r)
{
    const mba_device *d = r->o->session.device;
    return !d || !strcmp(d->name, mba_device_cpu.name);
}

/* How the data is gone through; two runs of one kind see the same batches. */
static const char *order_words(const run *r)
{
    const bool documents = r->s.model.task == MBA_TASK_TEXT && r->s.model.lm.documents;
    if (r->o->carry) return documents ? "carried by row, documents" : "carried by row";
    if (r->o->feed.in_order) return documents ? "in order, documents" : "in order";
    return documents ? "shuffled, documents" : "shuffled";
}

static json_t *trainer_json(const run *r)
{
    const mba_position at = r->ahead || r->unread ? r->at : r->train->at;
    mba__json_begin();
    json_t *guard = json_pack("{s:i, s:i, s:i}", "n", r->guard.n, "skipped", r->guard.skipped, "in_a_row",
                              r->guard.in_a_row);
    json_object_set_new(guard, "norm", floats(r->guard.norm, MBA_GUARD_STEPS));
    json_object_set_new(guard, "loss", floats(r->guard.loss, MBA_GUARD_STEPS));
    json_t *t = json_pack("{s:i, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:s, s:I, s:I, s:o}", "version", 2,
                          "optimizer", optimizer_name(r), "average", average_word(r), "order", order_words(r), "step",
                          (json_int_t)r->step.index, "units", (json_int_t)(r->units_before + r->units), "seed",
                          (json_int_t)r->o->seed, "epoch", (json_int_t)at.epoch, "index", (json_int_t)at.index, "batch",
                          mba_model_batch_words(&r->s.model).text, "micros", (json_int_t)r->micros, "data_size",
                          (json_int_t)r->train->size, "guard", guard);
    if (r->best_step)
        json_object_set_new(t, "best",
                            json_pack("{s:I, s:f, s:I}", "step", (json_int_t)r->best_step, "loss", r->best_loss,
                                      "valid_batches", (json_int_t)r->o->valid_batches));
    if (r->o->options) json_object_set(t, "options", (json_t *)r->o->options);
    if (on_cpu(r)) json_object_set_new(t, "kernels", json_string(mba_cpu_kernels().text));
    json_object_set_new(t, "data", json_string(mba_feed_words(r->train).text)); // for the reader: `report` shows it
    return t;
}

static mba_status save_as(run *r, char path[PATH_ROOM], const char *name)
{
    if (snprintf(path, PATH_ROOM, "%s/%s", r->o->out, name) >= PATH_ROOM)
        return mba_fail(MBA_E_ARG, "the path '%s' is too long\nfix: choose a shorter --out", r->o->out);
    json_t    *trainer = trainer_json(r);
    mba_status st = mba_json_whole(trainer, "trainer.json");
    if (st == MBA_OK) st = mba_checkpoint_save(&r->s, path, trainer);
    json_decref(trainer);
    return st;
}

/* The log comes first: wherever a power cut comes, a checkpoint has the lines of all steps before it. */
static mba_status save(run *r)
{
    char path[PATH_ROOM], name[32];
    if (!r->o->out) return MBA_OK;
    if (r->log) MBA_TRY(mba_file_sync(fileno(r->log), r->o->out));
    snprintf(name, sizeof name, "step-%06lld", (long long)r->step.index);
    mba_status st = save_as(r, path, name);
    if (st == MBA_OK && r->o->keep > 0) st = mba_checkpoint_prune(r->o->out, r->o->keep, r->step.index);
    if (st == MBA_OK && r->o->saved) r->o->saved(r->o->ctx, path, r->step.index);
    return st;
}

/* Beside the step-*, which --keep-checkpoints removes; where this step is one of them, its files are taken once more
 * and not written. */
static mba_status save_best(run *r, bool saved)
{
    char path[PATH_ROOM], step[PATH_ROOM];
    if (!r->o->out) return MBA_OK;
    if (saved && snprintf(step, sizeof step, "%s/step-%06lld", r->o->out, (long long)r->step.index) < PATH_ROOM
        && snprintf(path, sizeof path, "%s/best", r->o->out) < PATH_ROOM && mba_checkpoint_link(path, step) == MBA_OK)
        return MBA_OK;
    return save_as(r, path, "best");
}

/* A run that was killed after it saved a step, and before it had removed older ones and kept this one as the best. */
static mba_status finish_save(run *r)
{
    bool missing = false;
    if (!r->o->out || !r->o->resume) return MBA_OK;
    if (r->o->keep > 0) MBA_TRY(mba_checkpoint_prune(r->o->out, r->o->keep, r->step.index));
    if (r->best_step) MBA_TRY(mba_checkpoint_best_missing(&missing, r->o->out, r->best_step));
    return missing && r->best_step == r->step.index ? save_best(r, true) : MBA_OK;
}

static mba_status read_floats(float *x, int n, const json_t *a)
{
    if (!json_is_array(a) || json_array_size(a) != (size_t)n)
        return mba_fail(MBA_E_FORMAT, "the guard state in trainer.json is damaged\nfix: resume from an older "
                                      "checkpoint of the run");
    for (int i = 0; i < n; i++) x[i] = (float)json_number_value(json_array_get(a, (size_t)i));
    return MBA_OK;
}

/* The options that make a run what it is; another value would silently be another run. */
static mba_status same(const json_t *t, const char *key, int64_t now)
{
    int64_t then;
    MBA_TRY(mba_json_int(t, key, now, INT64_MIN, INT64_MAX, &then));
    return then == now ? MBA_OK
                       : mba_fail(MBA_E_ARG,
                                  "the checkpoint was saved with %s %lld, now it is %lld\n"
                                  "fix: give the options of the first run",
                                  key, (long long)then, (long long)now);
}

static mba_status same_words(const json_t *t, const char *key, const char *now)
{
    const char *then;
    MBA_TRY(mba_json_text(t, key, "", &then));
    return !strcmp(then, now)
               ? MBA_OK
               : mba_fail(
                   MBA_E_ARG,
                   "the checkpoint was saved with %s '%s', now it is '%s'\nfix: give the options of the first run", key,
                   mba_quote(then).text, now);
}

/* Losses of other validations cannot be compared. */
static mba_status restore_best(run *r, const json_t *best)
{
    int64_t batches;
    if (!best || r->o->other_data) return MBA_OK;
    MBA_TRY(mba_json_int(best, "valid_batches", 0, 0, INT64_MAX, &batches));
    if (batches != r->o->valid_batches) return MBA_OK;
    MBA_TRY(mba_json_int(best, "step", 0, 0, STEP_MOST, &r->best_step));
    return mba_json_real(best, "loss", 0, -DBL_MAX, DBL_MAX, &r->best_loss);
}

static mba_status restore_trainer(run *r, const json_t *t)
{
    int64_t n, skipped, in_a_row, size;
    MBA_TRY(same(t, "version", 2));
    MBA_TRY(same(t, "seed", (int64_t)r->o->seed));
    MBA_TRY(same_words(t, "batch", mba_model_batch_words(&r->s.model).text));
    MBA_TRY(same_words(t, "optimizer", optimizer_name(r)));
    if (mba_json_get(t, "average")) MBA_TRY(same_words(t, "average", average_word(r))); // older ones do not say
    if (mba_json_get(t, "order")) MBA_TRY(same_words(t, "order", order_words(r)));      // nor this
    MBA_TRY(same(t, "micros", r->micros));
    MBA_TRY(mba_json_int(t, "data_size", r->train->size, 0, INT64_MAX, &size));
    if (!r->o->other_data) MBA_TRY(same(t, "data_size", r->train->size));
    MBA_TRY(mba_json_int(t, "step", 0, 0, STEP_MOST, &r->step.index));
    MBA_TRY(mba_json_int(t, "units", 0, 0, INT64_MAX, &r->units_before)); // nor these
    MBA_TRY(mba_json_int(t, "epoch", 0, 0, STEP_MOST, &r->train->at.epoch));
    MBA_TRY(mba_json_int(t, "index", 0, 0, STEP_MOST, &r->train->at.index));
    if (size != r->train->size) r->train->at = (mba_position){ .epoch = r->train->at.epoch + 1 };
    MBA_TRY(restore_best(r, mba_json_get(t, "best")));
    const json_t *guard = mba_json_get(t, "guard");
    MBA_TRY(mba_json_int(guard, "n", 0, 0, 2 * MBA_GUARD_STEPS, &n));
    MBA_TRY(mba_json_int(guard, "skipped", 0, 0, INT32_MAX, &skipped));
    MBA_TRY(mba_json_int(guard, "in_a_row", 0, 0, INT32_MAX, &in_a_row));
    r->guard.n = (int32_t)n;
    r->guard.skipped = (int32_t)skipped;
    r->guard.in_a_row = (int32_t)in_a_row;
    MBA_TRY(read_floats(r->guard.norm, MBA_GUARD_STEPS, mba_json_get(guard, "norm")));
    return read_floats(r->guard.loss, MBA_GUARD_STEPS, mba_json_get(guard, "loss"));
}

/* The weights of a checkpoint, or of the newest of a run; `path` tells which. */
static mba_status load_weights(run *r, char path[PATH_ROOM], const char *from)
{
    mba_model     m;
    mba_hf_format format;
    MBA_TRY(mba_checkpoint_find(path, PATH_ROOM, from));
    MBA_TRY(mba_checkpoint_config(&m, &format, path));
    if (m.task != r->s.model.task)
        return mba_fail(MBA_E_ARG,
                        "'%s' is a model of %s, not of %s\nfix: leave --model out to continue with "
                        "its own model",
                        path, mba_task_name(m.task), mba_task_name(r->s.model.task));
    MBA_TRY(mba_model_complete(&m));
    const bool other = r->o->init && m.task == MBA_TASK_IMAGES && m.vision.classes != r->s.model.vision.classes;
    return other ? mba_checkpoint_load_features(&r->s, format, path) : mba_checkpoint_load(&r->s, format, path);
}

static mba_status restore(run *r)
{
    char    path[PATH_ROOM];
    json_t *trainer = NULL;
    if (r->o->init) {
        MBA_TRY(load_weights(r, path, r->o->init));
        return r->s.averages ? mba_ema_start(r->s.program) : MBA_OK;
    }
    if (!r->o->resume) return MBA_OK;
    MBA_TRY(load_weights(r, path, r->o->resume));
    mba_status st = mba_checkpoint_load_trainer(&r->s, path, &trainer);
    if (st == MBA_OK) st = restore_trainer(r, trainer);
    json_decref(trainer);
    if (st == MBA_OK && r->o->out) st = mba_checkpoint_require_successor(r->o->out, path, r->step.index);
    return st == MBA_OK ? st : mba_where(st, "resuming from '%s'", path);
}

/* The log of a resumed run is that of an unbroken one: steps behind the checkpoint, which are taken anew, and the half
 * line of a full disk are cut off. */
static mba_status rewind_log(const char *path, int64_t step)
{
    mba_map map;
    size_t  keep = 0;
    if (access(path, F_OK)) return MBA_OK;
    MBA_TRY(mba_file_map(&map, path));
    for (const char *line = map.data, *all = line; keep < map.bytes; line = all + keep) {
        static const char first[] = "{\"step\": ";
        const char       *end = memchr(line, '\n', map.bytes - keep);
        if (!end || strncmp(line, first, sizeof first - 1) || strtoll(line + sizeof first - 1, NULL, 10) > step) break;
        keep += (size_t)(end + 1 - line);
    }
    const bool whole = keep == map.bytes;
    mba_file_unmap(&map);
    return whole || !truncate(path, (off_t)keep)
               ? MBA_OK
               : mba_fail(MBA_E_IO, "cannot truncate '%s'\nwhy: %s\nfix: make it writable", path, strerror(errno));
}

static mba_status open_log(run *r)
{
    char path[PATH_ROOM];
    if (!r->o->out) return MBA_OK;
    MBA_TRY(mba_mkdirs(r->o->out));
    snprintf(path, sizeof path, "%s/log.jsonl", r->o->out);
    const int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    r->log = fd < 0 ? NULL : fdopen(fd, "a");
    if (!r->log) {
        if (fd >= 0) close(fd);
        return mba_fail(MBA_E_IO, "cannot write '%s'\nwhy: the folder is not writable, or the disk is full", path);
    }
    if (r->o->options) MBA_TRY(mba_run_options_save(r->o->options, r->o->out));
    MBA_TRY(mba_tokenizer_files_write(&r->tokenizer, r->o->out));
    if (r->o->resume) return rewind_log(path, r->step.index);
    return !ftruncate(fd, 0) ? MBA_OK
                             : mba_fail(MBA_E_IO, "cannot empty '%s'\nwhy: %s\nfix: remove it", path, strerror(errno));
}

static void log_number(FILE *f, const char *key, double v)
{
    if (isfinite(v)) fprintf(f, ", \"%s\": %.9g", key, v);
    else fprintf(f, ", \"%s\": null", key);
}

static void tell(run *r, mba_train_report *p)
{
    p->steps = r->o->schedule.steps;
    p->units = r->units;
    p->unit = mba_task_unit(r->s.model.task);
    p->left_out = r->train->left_out;
    p->story = r->train->story;
    p->run_s = seconds() - r->began_s;
    p->best_step = r->best_step;
    p->best_loss = r->best_loss;
    if (r->log) {
        char rate[32];
        snprintf(rate, sizeof rate, "%s_per_s", p->unit);
        fprintf(r->log, "{\"step\": %lld, \"%s\": %lld", (long long)p->step, p->unit,
                (long long)(r->units_before + p->units));
        log_number(r->log, "loss", p->loss);
        log_number(r->log, "grad_norm", p->grad_norm);
        log_number(r->log, "lr", p->lr);
        log_number(r->log, "seconds", p->run_s);
        log_number(r->log, rate, p->units_per_s);
        if (p->valid.units) log_number(r->log, "valid_loss", p->valid.loss);
        for (int i = 0; i < p->valid.scores; i++) {
            char key[48];
            snprintf(key, sizeof key, "valid_%s", p->valid.score[i].name);
            log_number(r->log, key, p->valid.score[i].value);
        }
        if (p->best) fputs(", \"best\": true", r->log);
        fprintf(r->log, ", \"skipped\": %s", p->skipped ? "true" : "false");
        if (p->step == r->began_at + 1 && json_array_size(r->o->changes)) {
            fputs(", \"changed\": ", r->log);
            json_dumpf(r->o->changes, r->log, JSON_ENSURE_ASCII);
        }
        fputs("}\n", r->log);
        fflush(r->log); // a killed run leaves whole lines
    }
    if (r->o->report) r->o->report(r->o->ctx, p);
}

/* ---- one step ---- */

static bool due(int64_t every, int64_t step) { return every > 0 && step % every == 0; }

/* Whether the run is over after n steps. */
static bool ends_at(const run *r, int64_t n)
{
    return n >= r->o->schedule.steps || (r->o->stop && *r->o->stop)
           || (r->o->stop_after > 0 && n - r->began_at >= r->o->stop_after);
}

/* What fails while a batch is read is no fault of the steps before it: the run ends after them, as one that is about to
 * read it. */
static mba_status unread(run *r, mba_status st)
{
    if (st != MBA_OK) snprintf(r->story, sizeof r->story, "%s", mba_message());
    return r->unread = st;
}

static mba_status stage(run *r, mba_step *step)
{
    r->at = r->train->at;
    return unread(r, mba_feed_stage(r->train, step));
}

static mba_status bind_micro(run *r, int64_t micro, mba_step *step)
{
    return unread(r, mba_feed_bind(r->train, &r->s, micro, step));
}

/* The batch of the next step. Not where something else has the inputs in between: a validation, or states that are
 * carried from step to step. */
static mba_status next_step_ahead(run *r)
{
    const int64_t n = r->step.index + 1;
    if (ends_at(r, n) || (r->valid && due(r->o->valid_every, n))) return MBA_OK;
    if (!mba_program_swap_inputs(r->s.program)) return MBA_OK;
    r->ahead = true;
    r->next = r->step;
    r->next.index = n;
    if (stage(r, &r->next) != MBA_OK || bind_micro(r, 0, &r->next) != MBA_OK) return MBA_OK; // once this step is done
    return mba_program_upload_inputs(r->s.program);
}

static mba_status next_micro_ahead(run *r, int64_t micro)
{
    if (!mba_program_swap_inputs(r->s.program)) return MBA_OK;
    r->ahead = true;
    r->next = r->step;
    MBA_TRY(bind_micro(r, micro, &r->next));
    return mba_program_upload_inputs(r->s.program);
}

/* While the device works on micro-batch `micro` of a step: what follows it, and its way there. */
static mba_status look_ahead(run *r, int64_t micro)
{
    if (r->o->carry) return MBA_OK;
    return micro + 1 < r->micros ? next_micro_ahead(r, micro + 1) : next_step_ahead(r);
}

/* The micro-batch ahead will not run: the inputs are those of the last one again. */
static void drop_ahead(run *r)
{
    if (r->ahead) mba_program_swap_inputs(r->s.program);
    r->ahead = false;
}

/* One run of all passes where a single micro-batch makes the step: the device judges the step by itself, and nobody
 * waits for the loss in between. The loss of several is only known to the host. */
static mba_status run_passes(run *r, double *loss)
{
    const bool at_once = r->micros == 1;
    r->step.norm_max = mba_guard_norm_max(&r->guard);
    r->step.loss_max = at_once ? mba_guard_loss_max(&r->guard) : 0;
    *loss = 0;
    for (int64_t m = 0; m < r->micros; m++) {
        if (!r->ahead) MBA_TRY(bind_micro(r, m, &r->step));
        else if (m > 0) r->step = r->next;
        r->ahead = false;
        MBA_TRY(mba_program_run(r->s.program, at_once ? MBA_STEP : MBA_FORWARD | MBA_BACKWARD, &r->step, NULL));
        MBA_TRY(look_ahead(r, m));
        MBA_TRY(mba_program_wait(r->s.program));
        *loss += (double)*(const float *)mba_session_at(&r->s, "loss");
        if (!isfinite(*loss)) { // explain() looks at this one again, with the states it began with
            if (m + 1 < r->micros) drop_ahead(r);
            break;
        }
        if (r->o->carry) mba_session_carry(&r->s);
    }
    if (at_once) return MBA_OK;
    if (mba_guard_skips(&r->guard, *loss, 0)) r->step.norm_max = FLT_MIN;
    MBA_TRY(mba_program_run(r->s.program, MBA_UPDATE, &r->step, NULL));
    return mba_program_wait(r->s.program);
}

/* Where the micro-batches of a step add, what the update has left at zero must be zero. */
static mba_status clear_gradients(const mba_program *p)
{
    mba_status st = MBA_OK;
    for (int k = 0; k < MBA_GROUPS && st == MBA_OK; k++) {
        const mba_storage *g = p->graph->params[k] ? p->graph->params[k]->grad : NULL;
        if (!g || p->layout.first[g->id] < 0) continue;
        void *zeros = calloc((size_t)g->elems, mba_dtype_bytes(g->dtype));
        if (!zeros) return mba_fail(MBA_E_NOMEM, "no memory to clear gradients");
        const mba_tensor whole = { .st = (mba_storage *)g };
        st = p->device->put(mba_program_counterpart(p, g, &whole), zeros, (size_t)g->elems * mba_dtype_bytes(g->dtype));
        if (st == MBA_OK) st = mba_program_wait(p);
        free(zeros);
    }
    return st;
}

/* Names the operator that first made a NaN or an infinity, by running the last micro-batch again. */
static mba_status explain(run *r, const char **note)
{
    mba_finding f;
    if (r->ahead) mba_program_swap_inputs(r->s.program); // back to the inputs of this step, and forth again
    const mba_status st = mba_watchdog(&f, &r->s, MBA_FORWARD | MBA_BACKWARD, &r->step);
    if (r->ahead) mba_program_swap_inputs(r->s.program);
    MBA_TRY(st);
    if (r->micros > 1) MBA_TRY(clear_gradients(r->s.program));
    if (f.node)
        snprintf(r->note, sizeof r->note, "%s in %s: output '%s' has %g at element %lld", f.node->op->name,
                 *f.node->scope ? f.node->scope : "the model", f.output, f.value, (long long)f.element);
    else snprintf(r->note, sizeof r->note, "all operator outputs are finite; the gradient norm is not");
    *note = r->note;
    return MBA_OK;
}

static mba_status one_step(run *r, mba_train_report *p)
{
    const double began = seconds();
    double       loss;
    if (r->ahead) r->step = r->next;
    else MBA_TRY(stage(r, &r->step));
    const int64_t units = r->train->units;
    r->step.lr = (float)mba_schedule_lr(&r->o->schedule, r->step.index);
    MBA_TRY(run_passes(r, &loss));
    r->units += units;
    if (!isfinite(loss)) {
        MBA_TRY(explain(r, &p->note));
        if (r->o->carry) mba_session_reset_state(&r->s, NULL); // they may be what is bad
    }
    const double norm = (double)*(const float *)mba_session_at(&r->s, "grad_norm");
    p->skipped = mba_guard_skips(&r->guard, loss, norm);
    if (p->skipped && !p->note && !isfinite(norm)) MBA_TRY(explain(r, &p->note));
    if (p->skipped && !p->note) p->note = "loss or gradient norm far above its median";
    mba_guard_note(&r->guard, loss, norm);
    r->step.index++;
    p->step = r->step.index;
    p->loss = loss;
    p->grad_norm = norm;
    p->lr = (double)r->step.lr;
    p->step_s = seconds() - began;
    p->units_per_s = (double)units / p->step_s;
    return MBA_OK;
}

static mba_status validate(run *r, mba_train_report *p)
{
    mba_session *s = r->judge.program ? &r->judge : &r->s;
    if (r->judge.program) MBA_TRY(mba_session_copy(&r->judge, &r->s, r->s.averages));
    MBA_TRY(mba_feed_evaluate(&p->valid, r->valid, s, r->o->valid_batches, r->o->seed));
    p->best = r->o->valid_every > 0 && isfinite(p->valid.loss) && (!r->best_step || p->valid.loss < r->best_loss);
    if (!p->best) return MBA_OK;
    r->best_step = r->step.index;
    r->best_loss = p->valid.loss;
    return MBA_OK;
}

/* The skipped steps changed nothing: what was learned before them is worth as much as it was. */
static mba_status give_up(run *r, const char *note)
{
    const bool kept = r->o->out && r->step.index > r->began_at + BAD_STEPS_MAX;
    if (kept) MBA_TRY(save(r));
    return mba_fail(MBA_E_DEVICE,
                    "%d steps in a row were skipped\nwhy: %s\nfix: use a lower --lr or a longer --warmup%s",
                    BAD_STEPS_MAX, note ? note : "the loss does not recover",
                    kept ? "; the state before them is saved" : "");
}

static mba_status end_unread(run *r)
{
    const bool learned = r->o->out && r->step.index > r->began_at;
    if (learned && !due(r->o->save_every, r->step.index)) MBA_TRY(save(r));
    const mba_status st = mba_fail(r->unread, "%s", r->story);
    return learned
               ? mba_where(st, "the batch after step %lld; the state before it is saved, --resume continues from it",
                           (long long)r->step.index)
               : st;
}

/* A signal ends a run soon, but not at the cost of a validation that the unbroken run would have here. */
static bool validates(const run *r, bool last)
{
    const bool interrupted = r->o->stop && *r->o->stop;
    return r->step.index >= r->o->schedule.steps || due(r->o->valid_every, r->step.index) || (last && !interrupted);
}

/* Before a checkpoint is made of this step: from there a run would go on without its line. */
static mba_status check_log(const run *r)
{
    return !r->log || !ferror(r->log)
               ? MBA_OK
               : mba_fail(MBA_E_IO, "cannot write the log in '%s'\nwhy: the disk may be full", r->o->out);
}

static mba_status loop(run *r)
{
    mba_status st = MBA_OK;
    bool       last = r->step.index >= r->o->schedule.steps;
    if (last && r->o->report)
        r->o->report(r->o->ctx, &(mba_train_report){ .step = r->step.index,
                                                     .steps = r->o->schedule.steps,
                                                     .loss = NAN,
                                                     .unit = mba_task_unit(r->s.model.task),
                                                     .grad_norm = NAN,
                                                     .valid.loss = NAN });
    while (st == MBA_OK && !last) {
        mba_train_report p = { .valid = { .loss = NAN } };
        st = one_step(r, &p);
        if (st != MBA_OK) return r->unread ? end_unread(r) : st;
        last = ends_at(r, r->step.index);
        if (r->guard.in_a_row >= BAD_STEPS_MAX) return give_up(r, p.note);
        if (r->valid && validates(r, last)) st = validate(r, &p);
        if (st == MBA_OK) tell(r, &p);
        if (st == MBA_OK) st = check_log(r);
        const bool saves = last || due(r->o->save_every, r->step.index);
        if (st == MBA_OK && saves) st = save(r);
        if (st == MBA_OK && p.best) st = save_best(r, saves);
        if (st == MBA_OK && r->unread && !last) return end_unread(r);
    }
    return st;
}

mba_status mba_train(const mba_train_options *o)
{
    run        r = { .o = o };
    mba_status st = begin(&r);
    if (st == MBA_OK) st = restore(&r);
    if (st == MBA_OK && o->restored) o->restored(o->ctx);
    if (st == MBA_OK) st = open_log(&r);
    if (st == MBA_OK) st = finish_save(&r);
    r.began_s = seconds();
    r.began_at = r.step.index;
    if (st == MBA_OK) st = loop(&r);
    finish(&r);
    return st;
}
