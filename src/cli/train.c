// SPDX-License-Identifier: Apache-2.0
/* train.c -- `mambascope train`: trains a model of text, images or graphs, or prints what a step would cost. */
#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "cli/cliffs.h"
#include "cli/command.h"
#include "cli/interrupts.h"
#include "cli/progress.h"
#include "cli/ranks.h"
#include "cli/samples.h"
#include "cli/say.h"
#include "cli/step_plan.h"
#include "cli/train_options.h"
#include "core/device.h"
#include "core/file.h"
#include "core/print.h"
#include "data/array.h"
#include "data/json.h"
#include "device/cpu/ceilings.h"
#include "device/cuda/nccl.h"
#include "study/on_machine.h"
#include "train/checkpoint.h"
#include "train/text_data.h"
#include "train/train.h"

static volatile sig_atomic_t interrupted;

static void on_signal(int number)
{
    (void)number;
    interrupted = 1;
}

typedef struct train_run {
    mba__train_cli   c;
    mba_progress     bar;
    const char      *loss_unit;
    double           floor_s;    /* of a step, for the progress line; 0: not shown */
    mba_train_report last;       /* its validation: the last one that took place */
    int64_t          left_out;   /* damaged items that a line has reported */
    mba_world       *world;      /* of several ranks; NULL: one */
    bool             told_apart; /* that rank 0 writes checkpoints for all */
} train_run;

/* ---- what a step costs ---- */

static mba_status print_plan(const mba_session *s, const mba_on_machine *there, const mba__train_cli *c,
                             const mba_session_options *so)
{
    mba_cliffs slow;
    mba_cliffs_of(&slow, so, c->machine);
    return mba_step_plan_print(s, there, &slow, c->json);
}

static mba_status dry_run(mba__train_cli *c)
{
    mba_session         s = { 0 };
    mba_session_options so = c->o.session;
    so.backward = so.update = true;
    so.accumulate = c->o.micros * c->ranks > 1;
    so.place = (mba_place){ c->rank, c->ranks };
    if (so.model.task == MBA_TASK_TEXT) so.model.lm.carry = c->o.carry;
    if (c->o.feed.data) MBA_TRY(mba_feed_fit(&so.model, &c->o.feed));
    if (c->machine) {
        mba_on_machine there;
        mba_status     st = mba_on_machine_plan(&there, c->machine, &so, c->o.micros);
        if (st == MBA_OK) st = print_plan(&there.sim.session, &there, c, &so);
        mba_on_machine_end(&there);
        return st;
    }
    if (!so.memory_bytes) so.memory_bytes = INT64_MAX; // a plan, not limited by this machine
    mba_status st = mba_session_plan(&s, &so);
    if (st == MBA_OK) st = print_plan(&s, NULL, c, &so);
    mba_session_end(&s);
    return st;
}

/* ---- training ---- */

/* The floor of a step on this device, in seconds; 0 if its rates cannot be measured. */
static double floor_of(const mba__train_cli *c, const mba_session *s)
{
    mba_ceilings     rates;
    double           floor_s = 0;
    const mba_status st = s->device == &mba_device_cpu
                              ? mba_ceilings_measure(&rates, 0.1)
                              : mba_ceilings_measure_cuda(&rates, c->o.session.compute, c->o.session.tf32);
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
    train_run *t = ctx;
    t->bar = mba_progress_start("training", t->c.o.schedule.steps);
    if (t->c.quiet) t->bar.terminal = false;
    t->floor_s = t->bar.terminal ? floor_of(&t->c, s) : 0; // only the progress bar shows it
    t->loss_unit = mba_task_loss_unit(s->model.task);
    t->last.unit = mba_task_unit(s->model.task);
    if (t->c.quiet) return;
    fprintf(stderr, "%s: %lld parameters, %s x %lld, %d threads\n", t->c.model.name ? t->c.model.name : "checkpoint",
            (long long)mba_session_parameters(s), mba_model_batch_words(&s->model).text,
            (long long)(t->c.o.micros > 0 ? t->c.o.micros : 1), mba_cpu_threads());
    if (t->c.ranks > 1) fprintf(stderr, "%d ranks; the plan is that of each\n", t->c.ranks);
    mba_say(stderr, "data: %s\n", mba_feed_words(data).text);
    tell_new_head(t->c.o.init, &s->model);
    if (!t->c.o.out) fputs("this run stores nothing: --out DIR stores its log and checkpoints\n", stderr);
    mba_cliffs_tell(&t->c.o.session);
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
    train_run                  *t = ctx;
    char                        note[160];
    const mba_validation_result before = t->last.valid;
    if (!r->units) {
        t->last.step = r->step;
        return;
    }
    const int n = snprintf(note, sizeof note, "loss %.4f  %.0f %s/s", r->loss, r->units_per_s, r->unit);
    if (t->floor_s > 0) snprintf(note + n, sizeof note - (size_t)n, "  %.0f %% of floor", 100 * t->floor_s / r->step_s);
    mba_progress_show(&t->bar, r->step, note);
    t->last = *r;
    if (!r->valid.units) t->last.valid = before;
    if (t->c.quiet) return;
    if (r->left_out > t->left_out) {
        t->left_out = r->left_out;
        mba_progress_end(&t->bar);
        mba_say(stderr, "step %lld: %lld items skipped so far; the last: %s\n", (long long)r->step,
                (long long)r->left_out, r->story ? r->story : "");
    }
    if (r->skipped || r->valid.units) {
        mba_progress_end(&t->bar);
        if (r->skipped) fprintf(stderr, "step %lld skipped: %s\n", (long long)r->step, r->note);
        if (r->valid.units) {
            fprintf(stderr, "step %lld  loss %.4f  ", (long long)r->step, r->loss);
            print_judgement(stderr, &r->valid, t->loss_unit);
            fprintf(stderr, "%s\n",
                    !r->best     ? ""
                    : t->c.o.out ? ", the best so far: saved as best"
                                 : ", the best so far");
        }
    } else if (!mba_on_terminal() && (r->step % 100 == 0 || r->step == r->steps)) {
        fprintf(stderr, "step %lld  loss %.4f  norm %.3f  lr %.2e  %.0f %s/s\n", (long long)r->step, r->loss,
                r->grad_norm, r->lr, r->units_per_s, r->unit);
    }
}

/* A sample that fails does not end the run. The failure is reported once. */
static void saved(void *ctx, const char *checkpoint, int64_t step, bool apart)
{
    train_run *t = ctx;
    if (apart && !t->told_apart) {
        mba_progress_end(&t->bar);
        mba_say(stderr,
                "slow: rank 0 writes checkpoints for all ranks\n  why: they do not share '%s'\n  fix: give --out a "
                "folder on a file system that all hosts share\n",
                t->c.o.out);
        t->told_apart = true;
    }
    if (!t->c.sample || interrupted) return;
    mba_progress_end(&t->bar);
    if (mba_sample_keep(t->c.o.out, checkpoint, step, t->c.sample, t->c.o.seed) == MBA_OK) return;
    mba_say(stderr, "step %lld: no sample: %s\n", (long long)step, mba_message());
    t->c.sample = NULL;
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
    json_object_set_new(o, key, mba_json_finite(mba_train_rate(r)));
    json_object_set_new(o, "start_seconds", mba_json_finite(r->start_s));
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

static void print_result(const train_run *t)
{
    const mba_train_report *r = &t->last;
    if (!r->units) {
        printf("no step is left: the checkpoint has %lld, --steps asks for %lld\n", (long long)r->step,
               (long long)t->c.o.schedule.steps);
        return;
    }
    const double rate = mba_train_rate(r);
    const bool   slow = r->start_s * rate > 1.5 * (double)r->start_units; // a start that would change the mean
    printf("%lld steps, %lld %s in %.1f s (", (long long)r->step, (long long)r->units, r->unit, r->run_s);
    if (slow) printf("%.1f s for the first %d, then ", r->start_s, MBA_START_STEPS);
    printf("%.0f %s/s): loss %.4f %s", rate, r->unit, r->loss, t->loss_unit);
    if (r->valid.units) {
        fputs(", ", stdout);
        print_judgement(stdout, &r->valid, t->loss_unit);
    }
    if (r->left_out) printf("; %lld damaged or empty items skipped", (long long)r->left_out);
    printf("%s\n", !interrupted ? "" : t->c.o.out ? "; interrupted, saved" : "; interrupted, not saved: no --out");
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
static mba_status prepare_text(mba__train_cli *c, mba_text_data *d)
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

static void restored(void *ctx)
{
    train_run *t = ctx;
    mba_lock_release(t->c.read);
    t->c.read = NULL;
    if (t->c.rank == 0 && !t->c.quiet && mba_nccl_is_open())
        fprintf(stderr, "collectives between GPUs: NCCL %s\n", mba_nccl_version());
}

static mba_status run_training(train_run *t)
{
    mba_text_data text = { 0 };
    const bool    writes = t->c.rank == 0;
    if (t->c.o.out) MBA_TRY(mba__train_lock(&t->c, t->c.o.out));
    if (t->c.o.out && !t->c.o.resume && writes) MBA_TRY(mba_checkpoint_require_empty(t->c.o.out));
    mba_interrupts(on_signal);
    signal(SIGPIPE, SIG_IGN); // a closed pipe must not end the run
    t->c.o.stop = &interrupted;
    if (writes) t->c.o.planned = planned;
    t->c.o.report = report;
    t->c.o.restored = restored;
    t->c.o.saved = saved;
    if (t->c.sample && !t->c.o.resume && writes) mba_samples_forget(t->c.o.out);
    t->c.o.ctx = t;
    t->last = (mba_train_report){ .valid.loss = NAN, .loss = NAN, .grad_norm = NAN, .run_s = 1e-9, .unit = "steps" };
    t->loss_unit = "";
    mba_status st = writes ? MBA_OK : mba_world_barrier(t->world); // rank 0 encodes text first; others find it
    mba_world_mark(t->world, -1, MBA_WORLD_ASIDE);                 // it writes
    if (st == MBA_OK) st = prepare_text(&t->c, &text);
    if (st == MBA_OK && writes) st = mba_world_barrier(t->world);
    if (st == MBA_OK) st = mba_train(&t->c.o);
    mba_text_data_close(&text);
    mba_progress_end(&t->bar);
    if (st == MBA_OK) mba_nccl_close();
    if (st == MBA_OK && writes && t->c.json) st = print_json(&t->last);
    else if (st == MBA_OK && writes) print_result(t);
    return st;
}

static mba_status parse_and_choose(train_run *t, int argc, char **argv, bool *help)
{
    MBA_TRY(mba__train_parse(&t->c, argc, argv, help));
    return *help ? MBA_OK : mba__train_choose(&t->c);
}

/* ---- several ranks ---- */

/* Rank 0 chooses the checkpoint to resume and renames damaged ones; then the others read the same. */
static mba_status choose_in_turn(train_run *t, const mba_launcher *l, char *told, int argc, char **argv, bool *help)
{
    mba_world *w = t->world;
    char       mine[MBA__PATH_MAX] = "", *all = malloc((size_t)w->ranks * sizeof mine);
    mba_status st = all ? MBA_OK : mba_fail(MBA_E_NOMEM, "no memory for messages of all ranks");
    if (st == MBA_OK && w->rank == 0) st = parse_and_choose(t, argc, argv, help);
    if (st == MBA_OK && w->rank == 0 && t->c.o.resume) snprintf(mine, sizeof mine, "%s", t->c.from);
    if (st == MBA_OK) st = w->gather_all(w, all, mine, sizeof mine);
    if (st == MBA_OK && w->rank) {
        snprintf(told, MBA__PATH_MAX, "%s", all);
        t->c.told = told;
        st = parse_and_choose(t, argc, argv, help);
    }
    free(all);
    if (st == MBA_OK) mba_ranks_divide_cores(l, t->c.model.threads);
    return st;
}

/* True if the command line names a GPU: such ranks need no MPI. */
static bool asks_for_gpus(int argc, char **argv)
{
    bool any = false;
    for (int i = 1; i < argc; i++)
        any |= !strncmp(argv[i], "--device=cuda", 13)
               || (!strcmp(argv[i], "--device") && i + 1 < argc && !strncmp(argv[i + 1], "cuda", 4));
    return any;
}

typedef struct rank_run {
    train_run          *t;
    const mba_launcher *l;
    int                 argc;
    char              **argv;
} rank_run;

static mba_status train_rank(mba_world *w, void *ctx)
{
    const rank_run *r = ctx;
    train_run      *t = r->t;
    char            told[MBA__PATH_MAX];
    bool            help = false;
    t->world = w;
    mba_world_mark(w, -1, MBA_WORLD_WORKS); // it reads checkpoints
    MBA_TRY(choose_in_turn(t, r->l, told, r->argc, r->argv, &help));
    t->c.o.world = w; // parsing sets all options anew
    mba_cluster_set_timeout(w, t->c.timeout_s);
    return help ? MBA_OK : run_training(t);
}

/* True if the command line only asks for text or a plan, which rank 0 prints alone. */
static bool only_prints(int argc, char **argv)
{
    static const char *const words[] = { "--help", "-h", "--manual", "--list-options", "--dry-run" };
    for (int i = 1; i < argc; i++)
        for (size_t k = 0; k < sizeof words / sizeof *words; k++)
            if (!strcmp(argv[i], words[k])) return true;
    return false;
}

mba_status mba_command_train(int argc, char **argv)
{
    bool         help = false;
    train_run    t = { 0 };
    mba_launcher l;
    MBA_TRY(mba_launcher_find(&l, getenv));
    t.c.rank = l.rank;
    t.c.ranks = l.ranks;
    t.c.model.local_rank = l.ranks > 1 ? l.local_rank : 0;
    const bool alone = l.ranks == 1 || only_prints(argc, argv);
    if (alone && l.rank) return MBA_OK;
    mba_status st = alone ? parse_and_choose(&t, argc, argv, &help)
                          : mba_on_ranks(&l, asks_for_gpus(argc, argv), train_rank, &(rank_run){ &t, &l, argc, argv });
    if (alone && st == MBA_OK && !help) st = t.c.dry_run ? dry_run(&t.c) : run_training(&t);
    mba__train_end(&t.c);
    return st;
}
