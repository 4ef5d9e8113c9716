// SPDX-License-Identifier: Apache-2.0
/* train.c -- `mambascope train`: trains a model of text, images or graphs, or prints what a step would cost. */
#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/interrupts.h"
#include "cli/kept_options.h"
#include "cli/model_options.h"
#include "cli/notes.h"
#include "cli/options.h"
#include "cli/progress.h"
#include "cli/samples.h"
#include "cli/say.h"
#include "cli/step_plan.h"
#include "core/device.h"
#include "core/lock.h"
#include "core/print.h"
#include "data/array.h"
#include "data/json.h"
#include "data/listing.h"
#include "device/cpu/ceilings.h"
#include "ops/lamb/lamb.h"
#include "study/on_machine.h"
#include "sim/machine_names.h"
#include "train/checkpoint.h"
#include "train/run_folder.h"
#include "train/text_data.h"
#include "train/train.h"

enum { MBA_OPTIONS_MAX = 96, PATH_ROOM = 4096 };

static volatile sig_atomic_t interrupted;

static void on_signal(int number)
{
    (void)number;
    interrupted = 1;
}

typedef struct train_cli {
    mba_train_options o;
    mba_model_options model;
    double            lr, lr_min, cooldown, decay, beta1, beta2, clip;
    const char       *optimizer, *schedule, *machine, *sample, *field;
    int64_t           steps, warmup, seed, end_of_text;
    bool              dry_run, json, documents, quiet;
    mba_progress      bar;
    const char       *loss_unit;
    double            floor_s;
    mba_train_report  last;
    int64_t           left_out; /* already told */
    mba_option        table[MBA_OPTIONS_MAX];
    json_t           *saved, *kept;      /* options of the resumed checkpoint; of its run when last started */
    json_t           *options, *changes; /* of this run; those that differ from the checkpoint's */
    char              from[PATH_ROOM], folder[PATH_ROOM]; /* the resumed checkpoint; its run */
    mba_lock         *lock, *read; /* of the folder that this run writes; of the run that it resumes */
} train_cli;

/* ---- what a step costs ---- */

static mba_status dry_run(train_cli *c)
{
    mba_session         s = { 0 };
    mba_session_options so = c->o.session;
    so.backward = so.update = true;
    so.accumulate = c->o.micros > 1;
    if (so.model.task == MBA_TASK_TEXT) so.model.lm.carry = c->o.carry;
    if (c->o.feed.data) MBA_TRY(mba_feed_fit(&so.model, &c->o.feed));
    if (c->machine) {
        mba_on_machine there;
        mba_status     st = mba_on_machine_plan(&there, c->machine, &so, c->o.micros);
        if (st == MBA_OK) st = mba_step_plan_print(&there.sim.session, &there, c->json);
        mba_on_machine_end(&there);
        return st;
    }
    if (!so.memory_bytes) so.memory_bytes = INT64_MAX; // a plan, not limited by this machine
    mba_status st = mba_session_plan(&s, &so);
    if (st == MBA_OK) st = mba_step_plan_print(&s, NULL, c->json);
    mba_session_end(&s);
    return st;
}

/* ---- training ---- */

/* The floor of a step on this device, in seconds; 0 if its rates cannot be measured. */
static double floor_of(const train_cli *c, const mba_session *s)
{
    mba_ceilings     rates;
    double           floor_s = 0;
    const mba_status st = s->device == &mba_device_cpu ? mba_ceilings_measure(&rates, 0.1)
                                                       : mba_ceilings_measure_cuda(&rates, c->o.session.compute);
    for (int32_t i = 0; i < s->graph->nnodes && st == MBA_OK; i++)
        if (mba_runs(s->graph->nodes[i], MBA_STEP))
            floor_s += mba_ceilings_floor(&rates, s->graph->nodes[i]->op->cost(s->graph->nodes[i]))
                       * (double)(s->graph->nodes[i]->pass == MBA_UPDATE || c->o.micros < 1 ? 1 : c->o.micros);
    return floor_s;
}

/* A network with other classes than the checkpoint of --init starts with a new head. Errors are reported when the
 * checkpoint is loaded. */
static void tell_new_head(const char *init, const mba_model *m)
{
    char          path[4096];
    mba_model     from;
    mba_hf_format format;
    if (!init || m->task != MBA_TASK_IMAGES || mba_checkpoint_find(path, sizeof path, init) != MBA_OK
        || mba_checkpoint_config(&from, &format, path) != MBA_OK || from.task != MBA_TASK_IMAGES
        || mba_model_complete(&from) != MBA_OK || from.vision.classes == m->vision.classes)
        return;
    mba_say(stderr, "the head is initialised again: it has %lld classes, the head of '%s' has %lld\n",
            (long long)m->vision.classes, path, (long long)from.vision.classes);
}

static void planned(void *ctx, const mba_session *s, const mba_session *judge, const mba_feed *data)
{
    train_cli *c = ctx;
    c->bar = mba_progress_start("training", c->o.schedule.steps);
    if (c->quiet) c->bar.terminal = false;
    c->floor_s = c->bar.terminal ? floor_of(c, s) : 0; // nobody else sees it
    c->loss_unit = mba_task_loss_unit(s->model.task);
    c->last.unit = mba_task_unit(s->model.task);
    if (c->quiet) return;
    fprintf(stderr, "%s: %lld parameters, %s x %lld, %d threads\n", c->model.name ? c->model.name : "checkpoint",
            (long long)mba_session_parameters(s), mba_model_batch_words(&s->model).text,
            (long long)(c->o.micros > 0 ? c->o.micros : 1), mba_cpu_threads());
    mba_say(stderr, "data: %s\n", mba_feed_words(data).text);
    tell_new_head(c->o.init, &s->model);
    if (!c->o.out) fputs("this run stores nothing: --out DIR stores its log and checkpoints\n", stderr);
    mba_program_print_memory(stderr, s->program);
    const mba_size_unit u = mba_size_unit_of(mba_program_bytes(s->program));
    if (judge)
        fprintf(stderr, "%-22s %12s %12.3f   in addition: parameters and forward pass of the validation session\n",
                "validation", "", (double)mba_program_bytes(judge->program) / u.bytes);
}

static void print_judgement(FILE *f, const mba_validation_result *j, const char *unit)
{
    fprintf(f, "validation %.4f %s", j->loss, unit);
    for (int i = 0; i < j->scores; i++) fprintf(f, ", %s %.4f", j->score[i].name, j->score[i].value);
}

static void report(void *ctx, const mba_train_report *r)
{
    train_cli                  *c = ctx;
    char                        note[160];
    const mba_validation_result before = c->last.valid;
    if (!r->units) {
        c->last.step = r->step;
        return;
    }
    const int n = snprintf(note, sizeof note, "loss %.4f  %.0f %s/s", r->loss, r->units_per_s, r->unit);
    if (c->floor_s > 0) snprintf(note + n, sizeof note - (size_t)n, "  %.0f %% of floor", 100 * c->floor_s / r->step_s);
    mba_progress_show(&c->bar, r->step, note);
    c->last = *r;
    if (!r->valid.units) c->last.valid = before;
    if (c->quiet) return;
    if (r->left_out > c->left_out) {
        c->left_out = r->left_out;
        mba_progress_end(&c->bar);
        mba_say(stderr, "step %lld: %lld items skipped so far; the last: %s\n", (long long)r->step,
                (long long)r->left_out, r->story ? r->story : "");
    }
    if (r->skipped || r->valid.units) {
        mba_progress_end(&c->bar);
        if (r->skipped) fprintf(stderr, "step %lld skipped: %s\n", (long long)r->step, r->note);
        if (r->valid.units) {
            fprintf(stderr, "step %lld  loss %.4f  ", (long long)r->step, r->loss);
            print_judgement(stderr, &r->valid, c->loss_unit);
            fprintf(stderr, "%s\n",
                    !r->best   ? ""
                    : c->o.out ? ", the best so far: saved as best"
                               : ", the best so far");
        }
    } else if (!mba_on_terminal() && (r->step % 100 == 0 || r->step == r->steps)) {
        fprintf(stderr, "step %lld  loss %.4f  norm %.3f  lr %.2e  %.0f %s/s\n", (long long)r->step, r->loss,
                r->grad_norm, r->lr, r->units_per_s, r->unit);
    }
}

/* A sample that fails does not end the run. The failure is reported once. */
static void saved(void *ctx, const char *checkpoint, int64_t step)
{
    train_cli *c = ctx;
    if (!c->sample || interrupted) return;
    mba_progress_end(&c->bar);
    if (mba_sample_keep(c->o.out, checkpoint, step, c->sample, c->o.seed) == MBA_OK) return;
    mba_say(stderr, "step %lld: no sample: %s\n", (long long)step, mba_message());
    c->sample = NULL;
}

/* The peak resident memory of this process. */
static json_int_t peak_bytes(void)
{
    struct rusage use;
    return getrusage(RUSAGE_SELF, &use) ? 0 : (json_int_t)use.ru_maxrss * 1024;
}

static mba_status print_json(const mba_train_report *r)
{
    char key[64];
    mba__json_begin();
    json_t *o = json_pack("{s:I, s:I, s:I}", "step", (json_int_t)r->step, r->unit, (json_int_t)r->units, "left_out",
                          (json_int_t)r->left_out);
    json_object_set_new(o, "loss", mba_json_finite(r->loss));
    json_object_set_new(o, "grad_norm", mba_json_finite(r->grad_norm));
    json_object_set_new(o, "seconds", mba_json_finite(r->run_s));
    snprintf(key, sizeof key, "%s_per_s", r->unit);
    json_object_set_new(o, key, mba_json_finite((double)r->units / r->run_s));
    json_object_set_new(o, "valid_loss", mba_json_finite(r->valid.loss));
    for (int i = 0; i < r->valid.scores; i++) {
        snprintf(key, sizeof key, "valid_%s", r->valid.score[i].name);
        json_object_set_new(o, key, mba_json_finite(r->valid.score[i].value));
    }
    if (r->best_step) {
        json_object_set_new(o, "best_step", json_integer((json_int_t)r->best_step));
        json_object_set_new(o, "best_valid_loss", mba_json_finite(r->best_loss));
    }
    json_object_set_new(o, "peak_bytes", json_integer(peak_bytes()));
    const mba_status st = mba_json_print(stdout, o, 15);
    json_decref(o);
    return st;
}

static void print_result(const train_cli *c)
{
    const mba_train_report *r = &c->last;
    if (!r->units) {
        printf("no step is left: the checkpoint has %lld, --steps asks for %lld\n", (long long)r->step,
               (long long)c->o.schedule.steps);
        return;
    }
    printf("%lld steps, %lld %s in %.1f s (%.0f %s/s): loss %.4f %s", (long long)r->step, (long long)r->units, r->unit,
           r->run_s, (double)r->units / r->run_s, r->unit, r->loss, c->loss_unit);
    if (r->valid.units) {
        fputs(", ", stdout);
        print_judgement(stdout, &r->valid, c->loss_unit);
    }
    if (r->left_out) printf("; %lld damaged or empty items skipped", (long long)r->left_out);
    printf("%s\n", !interrupted ? "" : c->o.out ? "; interrupted, saved" : "; interrupted, not saved: no --out");
}

static mba_status show_encoding(void *ctx, int64_t done, int64_t all, int64_t tokens)
{
    mba_progress *p = ctx;
    char          note[64];
    if (interrupted)
        return mba_fail(MBA_E_IO, "interrupted while the text was prepared; nothing was stored\n"
                                  "fix: run the same command again");
    p->total = all;
    snprintf(note, sizeof note, "%.1f M tokens", (double)tokens / 1e6);
    if (p->terminal) mba_progress_show(p, done, note);
    return MBA_OK;
}

/* Encodes text into token files in the folder of the run. */
static mba_status prepare_text(train_cli *c, mba_text_data *d)
{
    char         folder[4096], from[4096];
    const char  *checkpoint = c->o.resume ? c->o.resume : c->o.init;
    mba_model    m = c->o.session.model;
    mba_progress p = mba_progress_start("encoding", 1);
    if (m.task != MBA_TASK_TEXT || !c->o.feed.data) return MBA_OK;
    if (c->quiet) p.terminal = false;
    MBA_TRY(mba_model_complete(&m));
    if (checkpoint) MBA_TRY(mba_checkpoint_find(from, sizeof from, checkpoint));
    if (c->o.out && snprintf(folder, sizeof folder, "%s/tokens", c->o.out) >= (int)sizeof folder)
        return mba_fail(MBA_E_ARG, "the path '%s' is too long\nfix: choose a shorter --out", c->o.out);
    const mba_status st = mba_text_data_open(d, &(mba_text_data_options){ .data = c->o.feed.data,
                                                                          .tokenizer = c->o.feed.tokenizer,
                                                                          .field = c->field,
                                                                          .checkpoint = checkpoint ? from : NULL,
                                                                          .folder = c->o.out ? folder : NULL,
                                                                          .vocab = m.lm.vocab,
                                                                          .progress = show_encoding,
                                                                          .user = &p });
    mba_progress_end(&p);
    if (st != MBA_OK) return st;
    c->o.feed.data = d->path;
    if (*d->story && !c->quiet) mba_say(stderr, "%s\n", d->story);
    return MBA_OK;
}

/* Locks the folder for this run, unless lock_resumed has locked it already. */
static mba_status lock_run(train_cli *c, const char *folder)
{
    if (!c->lock && !c->dry_run) MBA_TRY(mba_lock_folder(&c->lock, folder));
    c->o.lock = c->lock;
    return MBA_OK;
}

static void restored(void *ctx)
{
    train_cli *c = ctx;
    mba_lock_release(c->read);
    c->read = NULL;
}

static mba_status run_training(train_cli *c)
{
    mba_text_data text = { 0 };
    if (c->o.out) MBA_TRY(lock_run(c, c->o.out));
    if (c->o.out && !c->o.resume) MBA_TRY(mba_checkpoint_require_empty(c->o.out));
    mba_interrupts(on_signal);
    signal(SIGPIPE, SIG_IGN); // a closed pipe must not end the run
    c->o.stop = &interrupted;
    c->o.planned = planned;
    c->o.report = report;
    c->o.restored = restored;
    c->o.saved = saved;
    if (c->sample && !c->o.resume) mba_samples_forget(c->o.out);
    c->o.ctx = c;
    c->last = (mba_train_report){ .valid.loss = NAN, .loss = NAN, .grad_norm = NAN, .run_s = 1e-9, .unit = "steps" };
    c->loss_unit = "";
    mba_status st = prepare_text(c, &text);
    if (st == MBA_OK) st = mba_train(&c->o);
    mba_text_data_close(&text);
    mba_progress_end(&c->bar);
    if (st == MBA_OK && c->json) st = print_json(&c->last);
    else if (st == MBA_OK) print_result(c);
    return st;
}

/* ---- resuming ---- */

/* Puts the newest undamaged checkpoint of a run into c->from. Names damaged ones that are newer, even with --quiet. */
static mba_status choose_sound(train_cli *c, const char *run)
{
    char broken[2048];
    MBA_TRY(mba_checkpoint_newest_sound(c->from, sizeof c->from, broken, sizeof broken, run));
    for (char *line = broken, *end; (end = strchr(line, '\n')); line = end + 1)
        mba_say(stderr, "a damaged checkpoint is skipped and renamed step-*.broken: %.*s\n", (int)(end - line), line);
    if (*broken && *c->from) mba_say(stderr, "the run continues from '%s'\n", c->from);
    return MBA_OK;
}

/* --resume CHECKPOINT takes that checkpoint or fails. --resume RUN takes the newest undamaged one of the run. --resume
 * auto continues the run in --out if it has a checkpoint and starts it otherwise: for scripts that are started
 * repeatedly. */
static mba_status choose_newest(train_cli *c)
{
    const bool either = !strcmp(c->o.resume, "auto");
    if (either && !c->o.out)
        return mba_fail(MBA_E_ARG,
                        "--resume auto needs an output folder\nwhy: it continues the run in --out, or starts it "
                        "there\nfix: add --out DIR");
    if (!either) MBA_TRY(mba_checkpoint_find(c->from, sizeof c->from, c->o.resume));
    if (!either && c->dry_run) return MBA_OK; // which renames nothing
    if (!either && !strcmp(c->from, c->o.resume)) return mba_checkpoint_verify(c->from, true);
    MBA_TRY(choose_sound(c, either ? c->o.out : c->o.resume));
    if (!either && !*c->from)
        return mba_fail(MBA_E_FORMAT,
                        "every checkpoint of '%s' is damaged\nwhy: the lines above name the files\nfix: restore "
                        "a copy of the run, or start it again with another --out",
                        c->o.resume);
    if (either) c->o.resume = *c->from ? c->o.out : NULL;
    return MBA_OK;
}

static bool same_folder(const char *a, const char *b)
{
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* Locks the folder before the newest checkpoint is chosen: another run in the folder would write newer ones and remove
 * older ones that this run still reads. A missing folder and one without a checkpoint are not locked. */
static mba_status lock_resumed(train_cli *c)
{
    const bool automatic = !strcmp(c->o.resume, "auto");
    if (!automatic) {
        MBA_TRY(mba_checkpoint_find(c->from, sizeof c->from, c->o.resume));
        MBA_TRY(mba_run_folder(c->folder, sizeof c->folder, c->o.resume));
    }
    const char *folder = c->o.out ? c->o.out : c->folder;
    if (mba_is_folder(folder)) MBA_TRY(lock_run(c, folder));
    const bool others = !automatic && !c->dry_run && *c->folder && !same_folder(folder, c->folder);
    return others ? mba_lock_shared(&c->read, c->folder) : MBA_OK;
}

static bool is_changed(const train_cli *c, const char *name)
{
    size_t        i;
    const json_t *line;
    const size_t  n = strlen(name);
    json_array_foreach(c->changes, i, line) if (!strncmp(json_string_value(line), name, n)
                                                && json_string_value(line)[n] == ' ') return true;
    return false;
}

static void tell_changes(const train_cli *c)
{
    size_t        i;
    const json_t *line;
    json_array_foreach(c->changes, i, line) mba_say(stderr, "changed: %s\n", json_string_value(line));
}

/* Notes other CPU kernels than the run started with (another machine, MBA_ISA, MBA_GEMM or OPENBLAS_CORETYPE): the run
 * continues, but its results differ in the last bits. */
static mba_status note_kernels(train_cli *c)
{
    char                    was[256], line[512];
    const mba_kernels_words is = mba_cpu_kernels();
    MBA_TRY(mba_checkpoint_kernels(was, sizeof was, c->from));
    if ((c->model.device && strcmp(c->model.device, "cpu")) || !*was || !strcmp(was, is.text)) return MBA_OK;
    snprintf(line, sizeof line, "CPU kernels %s -> %s", was, is.text);
    return !json_array_append_new(c->changes, json_string(line))
               ? MBA_OK
               : mba_fail(MBA_E_NOMEM, "no memory for what has changed");
}

/* Options that are not given keep their values: --resume RUN takes those of the last start of the run, --resume
 * CHECKPOINT those of the checkpoint. The run continues in its own folder. */
static mba_status advance_pointer(train_cli *c, const mba_usage *u, int argc, char **argv)
{
    if (c->o.resume && c->o.init && strcmp(c->o.resume, "auto"))
        return mba_fail(MBA_E_ARG,
                        "--resume and --init cannot be combined\nfix: use --resume to continue a run, --init to "
                        "start one from its weights, or --resume auto with --init to do either");
    if (c->o.resume) MBA_TRY(lock_resumed(c));
    if (c->o.resume) MBA_TRY(choose_newest(c));
    if (!c->o.resume) return MBA_OK;
    c->o.init = NULL; // the run has started already
    MBA_TRY(mba_run_folder(c->folder, sizeof c->folder, c->o.resume));
    MBA_TRY(mba_checkpoint_options(&c->saved, c->from));
    if (!c->saved) {
        if (!c->quiet)
            mba_say(stderr,
                    "'%s' does not hold the options of its run: options that are not given have their defaults\n",
                    c->from);
        return MBA_OK;
    }
    if (!strcmp(c->folder, c->o.resume)) MBA_TRY(mba_run_options_load(&c->kept, c->folder));
    if (!c->kept) c->kept = json_incref(c->saved);
    MBA_TRY(mba_kept_options_resume(u, argc, argv, c->kept, c->saved, c->changes));
    MBA_TRY(note_kernels(c));
    c->o.other_data = is_changed(c, "--data") || is_changed(c, "--valid-fraction");
    if (!c->o.out && *c->folder) c->o.out = c->folder;
    if (!c->quiet) tell_changes(c);
    return MBA_OK;
}

/* ---- choices ---- */

/* Takes the model from --model, or from the checkpoint of --resume or --init. */
static mba_status choose_model(train_cli *c)
{
    char              path[PATH_ROOM];
    mba_hf_format     format;
    mba_model_options mo = c->model;
    if (c->kept) mo.name = mo.set = NULL; // both are in the checkpoint's config.json
    if (c->o.resume || c->o.init) {
        MBA_TRY(mba_checkpoint_find(path, sizeof path, c->o.resume ? c->o.resume : c->o.init));
        if (!c->o.resume) MBA_TRY(mba_checkpoint_verify(path, false));
        if (!c->quiet) MBA_TRY(mba_notes_print(path));
    }
    if ((c->o.resume || c->o.init) && !mo.name) {
        MBA_TRY(mba_checkpoint_config(&c->o.session.model, &format, path));
        if (c->o.session.model.task == MBA_TASK_TEXT) c->o.session.model.lm.padding = 0; // every token is trained
    } else if (!mo.name) {
        return mba_fail(MBA_E_ARG,
                        "no model is given\nfix: add --model NAME (`mambascope list models` shows them), --init "
                        "DIR or --resume DIR");
    }
    MBA_TRY(mba_model_options_apply(&mo, &c->o.session));
    if (c->o.session.model.task == MBA_TASK_TEXT) c->o.session.model.lm.documents = c->documents;
    else if (c->documents || c->o.carry)
        return mba_fail(MBA_E_ARG, "--documents and --carry are for text\nfix: leave "
                                   "them out, or choose a text model with --model");
    const mba_feed_options *f = &c->o.feed;
    if (c->o.session.model.task != MBA_TASK_IMAGES
        && (f->smoothing >= 0 || f->mixup >= 0 || f->cutmix >= 0 || f->workers))
        return mba_fail(MBA_E_ARG,
                        "--label-smoothing, --mixup, --cutmix and --workers are for images\nfix: leave them out");
    if (c->o.session.model.task != MBA_TASK_TEXT && (f->tokenizer || c->field))
        return mba_fail(MBA_E_ARG, "--tokenizer and --field are for text\nfix: leave them out");
    if (c->o.session.model.task != MBA_TASK_GRAPHS && f->made)
        return mba_fail(MBA_E_ARG, "--synthetic is for graphs\nfix: leave it out");
    if (c->end_of_text >= 0 && !c->documents)
        return mba_fail(MBA_E_ARG, "--end-of-text needs --documents\nfix: add --documents, or leave it out");
    if (c->sample && (!c->o.out || c->o.session.model.task != MBA_TASK_TEXT))
        return mba_fail(MBA_E_ARG, "--sample needs %s\nfix: %s", c->o.out ? "a text model" : "an output folder",
                        c->o.out ? "leave it out" : "add --out DIR");
    if (c->o.save_every && !c->o.out)
        return mba_fail(MBA_E_ARG, "--save-every needs an output folder\nfix: add --out DIR");
    c->o.feed.end_of_text = c->end_of_text + 1;
    return MBA_OK;
}

/* Without a GPU, --dry-run can still plan for a simulated one. */
static mba_status no_gpu(const train_cli *c, mba_status st)
{
    const mba_device *d;
    if (st == MBA_OK || !c->dry_run || !c->model.device || strncmp(c->model.device, "cuda", 4)
        || mba_device_cuda(&d, 0) == MBA_OK)
        return st;
    return mba_fail(MBA_E_DEVICE,
                    "--device %s: there is no usable GPU here\nfix: use --machine h100 instead of --device to plan for "
                    "a GPU that is not here (" MBA_GPU_NAMES ", or a machine file)",
                    c->model.device);
}

/* --machine takes the place of --device. Its GPU computes in bf16 unless --precision says fp32. */
static mba_status choose_machine(train_cli *c)
{
    const char *precision = c->model.precision;
    if (!c->machine) return no_gpu(c, choose_model(c));
    if (!c->dry_run)
        return mba_fail(MBA_E_ARG,
                        "--machine needs --dry-run\nwhy: training runs on this machine\nfix: add --dry-run, or leave "
                        "--machine out");
    if (c->model.device && !strcmp(c->model.device, "cpu") && !c->kept)
        return mba_fail(
            MBA_E_ARG,
            "--machine %s and --device cpu cannot be combined\nwhy: machines are GPUs\nfix: leave one of them out",
            c->machine);
    if (precision && strcmp(precision, "fp32") && strcmp(precision, "bf16"))
        return mba_fail(MBA_E_ARG, "--precision must be fp32 or bf16, not %s", precision);
    c->model.device = c->model.precision = NULL;
    MBA_TRY(choose_model(c));
    c->o.session.compute = precision && !strcmp(precision, "fp32") ? MBA_F32 : MBA_BF16;
    return MBA_OK;
}

static mba_status choose_schedule(train_cli *c)
{
    int kind = 0;
    while (c->schedule && kind < MBA_SCHEDULES && strcmp(c->schedule, mba_schedule_name((mba_schedule_kind)kind)))
        kind++;
    if (kind == MBA_SCHEDULES)
        return mba_fail(MBA_E_ARG, "--schedule must be cosine, constant, wsd or wsd-sqrt, not %s",
                        mba_quote(c->schedule).text);
    const bool cools = kind == MBA_LR_WSD || kind == MBA_LR_WSD_SQRT;
    if (c->cooldown >= 0 && !cools && !c->kept)
        return mba_fail(
            MBA_E_ARG,
            "--cooldown needs --schedule wsd\nwhy: a %s schedule has no cool-down\nfix: add --schedule wsd, or leave "
            "--cooldown out",
            mba_schedule_name((mba_schedule_kind)kind));
    if (c->lr_min > c->lr)
        return mba_fail(
            MBA_E_ARG,
            "--lr-min (%g) must not be larger than --lr (%g)\nfix: lower --lr-min; the schedule decays from --lr to "
            "--lr-min",
            c->lr_min, c->lr);
    if (c->lr_min < 0) c->lr_min = fmin(1e-5, c->lr);
    c->schedule = mba_schedule_name((mba_schedule_kind)kind);
    c->o.schedule = (mba_schedule){ .lr = c->lr,
                                    .lr_min = c->lr_min,
                                    .warmup = c->warmup < 0 ? c->steps / 50 : c->warmup,
                                    .steps = c->steps,
                                    .kind = (mba_schedule_kind)kind,
                                    .cooldown = c->cooldown < 0 ? 0.2 : c->cooldown };
    c->cooldown = cools ? c->o.schedule.cooldown : -1;
    return MBA_OK;
}

/* Defaults are the numbers of the published recipes for the task and optimizer. Recipes for graphs differ between data
 * sets (docs/commands.md); their defaults are those of images. */
static mba_status choose_optimizer(train_cli *c)
{
    const mba_adamw_options a = mba_adamw_defaults();
    const mba_lamb_options  l = mba_lamb_defaults();
    const bool lamb = c->optimizer && !strcmp(c->optimizer, "lamb"), text = c->o.session.model.task == MBA_TASK_TEXT;
    if (c->optimizer && !lamb && strcmp(c->optimizer, "adamw"))
        return mba_fail(MBA_E_ARG, "--optimizer must be adamw or lamb, not %s", c->optimizer);
    c->o.session.optimizer = lamb ? MBA_LAMB : MBA_ADAMW;
    c->o.session.adamw = (mba_adamw_options){ .beta1 = c->beta1 >= 0 ? c->beta1 : a.beta1,
                                              .beta2 = c->beta2 >= 0 ? c->beta2
                                                       : text        ? a.beta2
                                                                     : l.beta2,
                                              .eps = a.eps,
                                              .decay = c->decay >= 0 ? c->decay
                                                       : text        ? a.decay
                                                                     : l.decay,
                                              .clip = c->clip >= 0 ? c->clip
                                                      : lamb       ? l.clip
                                                                   : a.clip };
    return MBA_OK;
}

/* Stores the options with the run, with the values that stand in for options that were not given. An image side that is
 * left open follows from the data, also when the run is resumed. */
static mba_status keep_options(train_cli *c)
{
    mba_model        m = c->o.session.model;
    mba_batch_shape *shape = &c->model.shape;
    MBA_TRY(mba_model_complete(&m));
    if (m.task == MBA_TASK_TEXT) shape->batch = m.lm.batch, shape->length = m.lm.length;
    if (m.task == MBA_TASK_IMAGES) shape->batch = m.vision.batch;
    if (m.task == MBA_TASK_GRAPHS)
        shape->graphs = m.graph.graphs, shape->nodes = m.graph.nodes, shape->edges = m.graph.edges;
    if (!c->model.device) c->model.device = "cpu";
    if (!c->model.recompute) c->model.recompute = "auto";
    c->model.precision = c->o.session.compute == MBA_BF16 ? "bf16" : "fp32";
    c->optimizer = c->o.session.optimizer == MBA_LAMB ? "lamb" : "adamw";
    c->decay = c->o.session.adamw.decay;
    c->beta1 = c->o.session.adamw.beta1;
    c->beta2 = c->o.session.adamw.beta2;
    c->clip = c->o.session.adamw.clip;
    c->warmup = c->o.schedule.warmup;
    MBA_TRY(mba_kept_options_write(&c->options, c->table, c->kept));
    c->o.options = c->options;
    c->o.changes = c->changes;
    return MBA_OK;
}

static mba_status parse(train_cli *c, int argc, char **argv, bool *help)
{
    const mba_option options[] = {
        MBA_OPTION_GROUP("Model"),
        MBA_PRESET_OPTIONS(&c->model),
        { "--init", MBA_OPT_TEXT | MBA_RUN_NOTED, &c->o.init, "DIR",
          "start from the weights of a checkpoint (ours or Hugging Face); optimizer state and step count start fresh",
          0, 0 },
        { "--resume", MBA_OPT_TEXT | MBA_RUN_APART, &c->o.resume, "DIR",
          "continue a run with its own options; auto: continue the run in --out if it has a checkpoint, else start it",
          0, 0 },

        MBA_OPTION_GROUP("Batch"),
        MBA_SHAPE_OPTIONS(&c->model.shape),
        { "--micro-batches", MBA_OPT_INT | MBA_RUN_FIXED, &c->o.micros, "N", "micro-batches accumulated per update [1]",
          1, 32768 },
        MBA_OPTION_ALIAS("--micros", "--micro-batches"),

        MBA_OPTION_GROUP("Data"),
        { "--data", MBA_OPT_TEXT | MBA_RUN_CHANGES, &c->o.feed.data, "PATH",
          "text, token files, images or graphs (docs/commands.md) [random SYNTHETIC data]", 0, 0 },
        { "--valid-fraction", MBA_OPT_REAL | MBA_RUN_CHANGES, &c->o.feed.validation, "X",
          "hold out this fraction if the data has no validation part", 0, 0.9 },
        MBA_OPTION_ALIAS("--validation", "--valid-fraction"),
        { "--no-shuffle", MBA_OPT_FLAG | MBA_RUN_FIXED, &c->o.feed.in_order, NULL, "read the data in order", 0, 0 },
        MBA_OPTION_ALIAS("--in-order", "--no-shuffle"),
        { "--tokenizer", MBA_OPT_TEXT | MBA_RUN_NOTED, &c->o.feed.tokenizer, "PATH",
          "text: tokenizer.json, or bytes; stored with the model [that of the checkpoint, or bytes]", 0, 0 },
        { "--field", MBA_OPT_TEXT | MBA_RUN_CHANGES, &c->field, "NAME", "JSON lines: key of the text [text]", 0, 0 },
        { "--carry", MBA_OPT_FLAG | MBA_RUN_FIXED, &c->o.carry, NULL,
          "text: carry the state over to the next batch (truncated back-propagation through time)", 0, 0 },
        { "--documents", MBA_OPT_FLAG | MBA_RUN_FIXED, &c->documents, NULL,
          "text: reset the state and mask attention at document ends", 0, 0 },
        { "--end-of-text", MBA_OPT_INT | MBA_RUN_FIXED, &c->end_of_text, "ID",
          "--documents: token that starts a document [from the data]", 0, INT32_MAX },
        { "--label-smoothing", MBA_OPT_REAL | MBA_RUN_FIXED, &c->o.feed.smoothing, "X",
          "images: label smoothing [recipe of the data]", 0, 1 },
        MBA_OPTION_ALIAS("--smoothing", "--label-smoothing"),
        { "--mixup", MBA_OPT_REAL | MBA_RUN_FIXED, &c->o.feed.mixup, "X",
          "images: mixup alpha, 0 = off [recipe of the data]", 0, 100 },
        { "--cutmix", MBA_OPT_REAL | MBA_RUN_FIXED, &c->o.feed.cutmix, "X",
          "images: cutmix alpha, 0 = off [recipe of the data]", 0, 100 },
        { "--workers", MBA_OPT_INT | MBA_RUN_CHANGES, &c->o.feed.workers, "N", "images: decoder threads [cores - 1]", 1,
          256 },
        { "--synthetic", MBA_OPT_INT | MBA_RUN_FIXED, &c->o.feed.made, "N",
          "graphs: size of the synthetic data set [5 batches]", 20, 1e9 },
        MBA_OPTION_ALIAS("--made", "--synthetic"),

        MBA_OPTION_GROUP("Optimizer"),
        { "--steps", MBA_OPT_INT | MBA_RUN_CHANGES, &c->steps, "N", "number of updates [100]", 1, 1e12 },
        { "--optimizer", MBA_OPT_TEXT | MBA_RUN_FIXED, &c->optimizer, "NAME", "adamw or lamb [adamw]", 0, 0 },
        { "--lr", MBA_OPT_REAL | MBA_RUN_CHANGES, &c->lr, "X", "peak learning rate [1e-3]", 0, 100 },
        { "--lr-min", MBA_OPT_REAL | MBA_RUN_CHANGES, &c->lr_min, "X",
          "final learning rate of a decaying schedule [1e-5]", 0, 100 },
        { "--warmup", MBA_OPT_INT | MBA_RUN_CHANGES, &c->warmup, "N", "linear warm-up steps [2 % of --steps]", 0,
          1e12 },
        { "--schedule", MBA_OPT_TEXT | MBA_RUN_CHANGES, &c->schedule, "NAME",
          "shape of the learning rate after the warm-up: cosine, constant, wsd (constant, then linear decay) or "
          "wsd-sqrt (decay as 1 - sqrt) [cosine]",
          0, 0 },
        { "--cooldown", MBA_OPT_REAL | MBA_RUN_CHANGES, &c->cooldown, "X",
          "wsd: fraction of the steps, at the end, over which the rate decays [0.2]", 0, 1 },
        { "--weight-decay", MBA_OPT_REAL | MBA_RUN_FIXED, &c->decay, "X",
          "weight decay [text 0.1, others 0.05], of matrices but not of the text embedding; graphs: of all parameters",
          0, 100 },
        MBA_OPTION_ALIAS("--decay", "--weight-decay"),
        { "--beta1", MBA_OPT_REAL | MBA_RUN_FIXED, &c->beta1, "X", "first-moment decay [0.9]", 0, 1 },
        { "--beta2", MBA_OPT_REAL | MBA_RUN_FIXED, &c->beta2, "X", "second-moment decay [text 0.95, others 0.999]", 0,
          1 },
        { "--clip", MBA_OPT_REAL | MBA_RUN_FIXED, &c->clip, "X", "clip the global gradient norm, 0 = off [1; LAMB 5]",
          0, 1e9 },
        { "--guard", MBA_OPT_REAL | MBA_RUN_CHANGES, &c->o.guard, "X",
          "skip an update if its gradient norm exceeds X times the running median, 0 = skip only NaN [8]", 0, 1e9 },
        { "--ema", MBA_OPT_REAL | MBA_RUN_FIXED, &c->o.session.ema, "X",
          "also keep an exponential moving average of the weights, e.g. 0.9998, and validate with it [off]", 0,
          0.9999999 },
        { "--seed", MBA_OPT_INT | MBA_RUN_FIXED, &c->seed, "N", "seed of weights and data order [1]", 0, 9e15 },

        MBA_OPTION_GROUP("Output"),
        { "--out", MBA_OPT_TEXT | MBA_RUN_NOTED, &c->o.out, "DIR",
          "write the options, log.jsonl, checkpoints step-* and the best one here [nothing]", 0, 0 },
        { "--save-every", MBA_OPT_INT | MBA_RUN_CHANGES, &c->o.save_every, "N",
          "steps between checkpoints [last step only]", 1, 1e12 },
        { "--keep-checkpoints", MBA_OPT_INT | MBA_RUN_CHANGES, &c->o.keep, "N",
          "number of checkpoints to keep besides the best, 0 = all [3]", 0, 1e9 },
        MBA_OPTION_ALIAS("--keep", "--keep-checkpoints"),
        { "--valid-every", MBA_OPT_INT | MBA_RUN_CHANGES, &c->o.valid_every, "N",
          "steps between validations; the best checkpoint is kept [last step only]", 1, 1e12 },
        { "--valid-batches", MBA_OPT_INT | MBA_RUN_CHANGES, &c->o.valid_batches, "N",
          "batches per validation, 0 = all [16]", 0, 1e9 },
        { "--sample", MBA_OPT_TEXT | MBA_RUN_CHANGES, &c->sample, "TEXT",
          "text: continue TEXT at every checkpoint and store the result in samples.jsonl, for `report`", 0, 0 },
        { "--stop-after", MBA_OPT_INT | MBA_RUN_APART, &c->o.stop_after, "N", "save and exit after N more steps", 1,
          1e12 },
        { "--dry-run", MBA_OPT_FLAG | MBA_RUN_APART, &c->dry_run, NULL,
          "print parameters, memory plan, FLOPs and bytes of a step; run nothing", 0, 0 },
        { "--json", MBA_OPT_FLAG | MBA_RUN_APART, &c->json, NULL, "print the result as JSON (keys: docs/commands.md)",
          0, 0 },
        { "--quiet", MBA_OPT_FLAG | MBA_RUN_APART, &c->quiet, NULL, "print no progress", 0, 0 },

        MBA_OPTION_GROUP("Machine"),
        MBA_RUN_OPTIONS(&c->model),
        { "--machine", MBA_OPT_TEXT | MBA_RUN_APART, &c->machine, "NAME",
          "--dry-run: plan for a GPU that need not be here (h100, h200, ... or a machine file): say whether the run "
          "fits, "
          "and predict the step",
          0, 0 },
        { 0 },
    };
    _Static_assert(sizeof options <= sizeof c->table, "a larger MBA_OPTIONS_MAX");
    memcpy(c->table, options, sizeof options);
    const mba_usage usage = { "train", "--model NAME | --init DIR | --resume DIR [options]",
                              "Trains a text, image or graph model on the CPU or on one GPU. Ctrl-C, SIGTERM and a\n"
                              "closed terminal finish the current step, save a checkpoint and exit; a second signal\n"
                              "ends at once.",
                              c->table,
                              "# What fits? Nothing is run.\n"
                              "mambascope train --model mamba2-130m --batch 1 --length 1024 --dry-run\n"
                              "mambascope train --model mamba2-1.3b --batch 8 --length 2048 --dry-run \\\n"
                              "    --machine h100\n"
                              "# A small text model, with a tenth of the data held out\n"
                              "mambascope train --model mamba2-130m --set width=256,layers=6,vocab=257 \\\n"
                              "    --data shards --valid-fraction 0.1 --steps 500 --out run\n"
                              "# Continue that run after an interruption\n"
                              "mambascope train --resume run\n"
                              "# Fine-tune published weights\n"
                              "mambascope train --init mamba2-130m-hf --batch 1 --length 512 --data shards \\\n"
                              "    --lr 1e-4 --steps 200 --out tuned\n"
                              "# Images, graphs\n"
                              "mambascope train --model mambavision-t --batch 32 --data imagenet \\\n"
                              "    --optimizer lamb --lr 5e-3 --ema 0.9998 --steps 1000 --out run\n"
                              "mambascope train --model graphmamba-peptides-func --graphs 32 --steps 200\n" };
    MBA_TRY(mba_options_parse(&usage, argc, argv, NULL, help));
    return *help ? MBA_OK : advance_pointer(c, &usage, argc, argv);
}

static mba_status train(train_cli *c)
{
    MBA_TRY(choose_schedule(c));
    c->o.seed = (uint64_t)c->seed;
    MBA_TRY(choose_machine(c));
    MBA_TRY(choose_optimizer(c));
    MBA_TRY(keep_options(c));
    return c->dry_run ? dry_run(c) : run_training(c);
}

mba_status mba_command_train(int argc, char **argv)
{
    bool       help;
    train_cli  c = { .lr = 1e-3,
                     .lr_min = -1,
                     .cooldown = -1,
                     .decay = -1,
                     .beta1 = -1,
                     .beta2 = -1,
                     .clip = -1,
                     .steps = 100,
                     .warmup = -1,
                     .seed = 1,
                     .end_of_text = -1,
                     .changes = json_array(),
                     .o = { .micros = 1,
                            .guard = 8,
                            .valid_batches = 16,
                            .keep = 3,
                            .feed = { .smoothing = -1, .mixup = -1, .cutmix = -1 } } };
    mba_status st = c.changes ? parse(&c, argc, argv, &help) : mba_fail(MBA_E_NOMEM, "no memory to start a training");
    if (st == MBA_OK && !help) st = train(&c);
    json_decref(c.saved);
    json_decref(c.kept);
    json_decref(c.options);
    json_decref(c.changes);
    mba_lock_release(c.read);
    mba_lock_release(c.lock);
    return st;
}
