// SPDX-License-Identifier: Apache-2.0
/* train_options.c -- the options of `mambascope train`: the table, and what options mean together. */
#include "cli/train_options.h"

#include <math.h>
#include <string.h>

#include "cli/kept_options.h"
#include "cli/notes.h"
#include "core/device.h"
#include "data/array.h"
#include "ops/lamb/lamb.h"
#include "sim/machine_names.h"
#include "train/checkpoint.h"

/* ---- the table, group by group as --help prints it ---- */

/* Appends rows to the table at `at`; returns its new end. One row is left for the entry that ends the table. */
static mba_option *append(mba__train_cli *c, mba_option *at, const mba_option *rows, size_t n)
{
    mba_assert((size_t)(at - c->table) + n < MBA__TRAIN_OPTIONS_MAX);
    memcpy(at, rows, n * sizeof *rows);
    return at + n;
}

static mba_option *add_model_options(mba__train_cli *c, mba_option *at)
{
    const mba_option rows[] = {
        MBA_OPTION_GROUP("Model"),
        MBA_PRESET_OPTIONS(&c->model),
        { "--init", MBA_OPT_TEXT | MBA_RUN_NOTED, &c->o.init, "DIR",
          "start from the weights of a checkpoint (ours or Hugging Face); optimizer state and step count start fresh",
          0, 0 },
        { "--resume", MBA_OPT_TEXT | MBA_RUN_APART, &c->o.resume, "DIR",
          "continue a run with its own options; auto: continue the run in --out if it has a checkpoint, else start it",
          0, 0 },
    };
    return append(c, at, rows, sizeof rows / sizeof *rows);
}

static mba_option *add_batch_options(mba__train_cli *c, mba_option *at)
{
    const mba_option rows[] = {
        MBA_OPTION_GROUP("Batch"),
        MBA_SHAPE_OPTIONS(&c->model.shape),
        { "--micro-batches", MBA_OPT_INT | MBA_RUN_FIXED, &c->micros, "N",
          "micro-batches accumulated per update, on each rank [1]", 1, 32768 },
        MBA_OPTION_ALIAS("--micros", "--micro-batches"),
        { "--global-batch", MBA_OPT_INT | MBA_RUN_FIXED, &c->global_batch, "N",
          "sequences, images or graphs per update over all micro-batches and ranks, instead of --micro-batches", 1,
          1e9 },
        { "--sequence-ranks", MBA_OPT_INT | MBA_RUN_CHANGES, &c->sequence_ranks, "N",
          "text: neighbouring ranks that share every sequence, a part of it each (docs/ranks.md) [1]", 1, 65536 },
        { "--sum", MBA_OPT_TEXT | MBA_RUN_FIXED, &c->sum, "ORDER",
          "order in which gradients of micro-batches are added: chain, or tree: the same bits on any number of ranks "
          "[chain; several ranks: tree]",
          0, 0 },
    };
    return append(c, at, rows, sizeof rows / sizeof *rows);
}

static mba_option *add_data_options(mba__train_cli *c, mba_option *at)
{
    const mba_option rows[] = {
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
    };
    return append(c, at, rows, sizeof rows / sizeof *rows);
}

static mba_option *add_optimizer_options(mba__train_cli *c, mba_option *at)
{
    const mba_option rows[] = {
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
    };
    return append(c, at, rows, sizeof rows / sizeof *rows);
}

static mba_option *add_output_options(mba__train_cli *c, mba_option *at)
{
    const mba_option rows[] = {
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
    };
    return append(c, at, rows, sizeof rows / sizeof *rows);
}

static mba_option *add_machine_options(mba__train_cli *c, mba_option *at)
{
    const mba_option rows[] = {
        MBA_OPTION_GROUP("Machine"),
        MBA_RUN_OPTIONS(&c->model),
        { "--machine", MBA_OPT_TEXT | MBA_RUN_APART, &c->machine, "NAME",
          "--dry-run: plan for a GPU that need not be here (h100, h200, ... or a machine file): say whether the run "
          "fits, and predict the step",
          0, 0 },
        { "--ranks", MBA_OPT_INT | MBA_RUN_APART, &c->planned_ranks, "N",
          "--dry-run: plan one of so many ranks, which need not be there", 1, 65536 },
        { "--timeout", MBA_OPT_REAL | MBA_RUN_APART, &c->timeout_s, "S",
          "several ranks: seconds without a sign of life after which a rank is lost [20]", 5, 3600 },
    };
    return append(c, at, rows, sizeof rows / sizeof *rows);
}

static void fill_table(mba__train_cli *c)
{
    mba_option *at = add_model_options(c, c->table);
    at = add_batch_options(c, at);
    at = add_data_options(c, at);
    at = add_optimizer_options(c, at);
    at = add_output_options(c, at);
    at = add_machine_options(c, at);
    *at = (mba_option){ 0 };
}

static const char about[] = "Trains a text, image or graph model on the CPU or on one GPU, or on several ranks\n"
                            "if mpirun, srun or torchrun starts them (docs/ranks.md). Ctrl-C, SIGTERM and a\n"
                            "closed terminal finish the current step, save a checkpoint and exit; a second signal\n"
                            "ends at once.";

static const char examples[] = "# What fits? Nothing is run.\n"
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
                               "mambascope train --model graphmamba-peptides-func --graphs 32 --steps 200\n"
                               "# Four ranks\n"
                               "mpirun -np 4 mambascope train --model mamba2-130m --batch 1 --length 512 \\\n"
                               "    --global-batch 16 --data shards --out run\n";

mba_status mba__train_parse(mba__train_cli *c, int argc, char **argv, bool *help)
{
    *c = (mba__train_cli){ .rank = c->rank,
                           .ranks = c->ranks > 0 ? c->ranks : 1,
                           .told = c->told,
                           .micros = 1,
                           .sequence_ranks = 1,
                           .timeout_s = 20,
                           .lr = 1e-3,
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
    if (!c->changes) return mba_fail(MBA_E_NOMEM, "no memory to start a training");
    fill_table(c);
    const mba_usage usage = { "train", "--model NAME | --init DIR | --resume DIR [options]", about, c->table,
                              examples };
    MBA_TRY(mba_options_parse(&usage, argc, argv, NULL, help));
    c->quiet |= c->rank > 0;
    if (c->planned_ranks && (!c->dry_run || c->planned_ranks & (c->planned_ranks - 1)))
        return mba_fail(MBA_E_ARG,
                        "--ranks %lld%s\nwhy: it plans one of a power of two of ranks; a launcher starts them\nfix: "
                        "--dry-run --ranks 64, or mpirun -np 4 mambascope train ..",
                        (long long)c->planned_ranks, c->dry_run ? "" : " without --dry-run");
    if (c->planned_ranks) c->rank = 0, c->ranks = (int)c->planned_ranks;
    return *help ? MBA_OK : mba__train_resume(c, &usage, argc, argv);
}

void mba__train_end(mba__train_cli *c)
{
    json_decref(c->saved);
    json_decref(c->kept);
    json_decref(c->options);
    json_decref(c->changes);
    mba_lock_release(c->read);
    mba_lock_release(c->lock);
}

/* ---- what options mean together ---- */

/* Refuses options that the model or the other options leave without effect. */
static mba_status check_options(const mba__train_cli *c)
{
    const mba_feed_options *f = &c->o.feed;
    const mba_task          task = c->o.session.model.task;
    if (task != MBA_TASK_TEXT && (c->documents || c->o.carry))
        return mba_fail(MBA_E_ARG, "--documents and --carry are for text\nfix: leave them out, or choose a text model "
                                   "with --model");
    if (task != MBA_TASK_IMAGES && (f->smoothing >= 0 || f->mixup >= 0 || f->cutmix >= 0 || f->workers))
        return mba_fail(MBA_E_ARG,
                        "--label-smoothing, --mixup, --cutmix and --workers are for images\nfix: leave them out");
    if (task != MBA_TASK_TEXT && (f->tokenizer || c->field))
        return mba_fail(MBA_E_ARG, "--tokenizer and --field are for text\nfix: leave them out");
    if (task != MBA_TASK_GRAPHS && f->made) return mba_fail(MBA_E_ARG, "--synthetic is for graphs\nfix: leave it out");
    if (c->end_of_text >= 0 && !c->documents)
        return mba_fail(MBA_E_ARG, "--end-of-text needs --documents\nfix: add --documents, or leave it out");
    if (c->sample && (!c->o.out || task != MBA_TASK_TEXT))
        return mba_fail(MBA_E_ARG, "--sample needs %s\nfix: %s", c->o.out ? "a text model" : "an output folder",
                        c->o.out ? "leave it out" : "add --out DIR");
    if (c->o.save_every && !c->o.out)
        return mba_fail(MBA_E_ARG, "--save-every needs an output folder\nfix: add --out DIR");
    return MBA_OK;
}

/* Takes the model from --model, or from the checkpoint of --resume or --init. */
static mba_status choose_model(mba__train_cli *c)
{
    char              path[MBA__PATH_MAX];
    mba_hf_format     format;
    mba_model_options mo = c->model;
    const char       *name = c->kept ? NULL : c->model.name; // with --resume both are in the checkpoint's config.json
    if (c->kept) mo.name = mo.set = NULL;
    if (c->o.resume || c->o.init) {
        MBA_TRY(mba_checkpoint_find(path, sizeof path, c->o.resume ? c->o.resume : c->o.init));
        if (!c->o.resume) MBA_TRY(mba_checkpoint_verify(path, false));
        if (!c->quiet) MBA_TRY(mba_notes_print(path));
    }
    if ((c->o.resume || c->o.init) && !name) {
        MBA_TRY(mba_checkpoint_config(&c->o.session.model, &format, path));
        if (c->o.session.model.task == MBA_TASK_TEXT) c->o.session.model.lm.padding = 0; // every token is trained
    } else if (!name) {
        return mba_fail(MBA_E_ARG,
                        "no model is given\nfix: add --model NAME (`mambascope list models` shows them), --init "
                        "DIR or --resume DIR");
    }
    MBA_TRY(mba_model_options_apply(&mo, &c->o.session));
    MBA_TRY(check_options(c));
    if (c->o.session.model.task == MBA_TASK_TEXT) c->o.session.model.lm.documents = c->documents;
    c->o.feed.end_of_text = c->end_of_text + 1;
    return MBA_OK;
}

/* Without a GPU, --dry-run can still plan for a simulated one. */
static mba_status no_gpu(const mba__train_cli *c, mba_status st)
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

/* --machine takes the place of --device. Its GPU computes in bf16 unless --precision says otherwise. */
static mba_status choose_machine(mba__train_cli *c)
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
    c->model.device = c->model.precision = NULL;
    MBA_TRY(choose_model(c));
    return mba_precision_apply(precision, true, &c->o.session);
}

static mba_status choose_schedule(mba__train_cli *c)
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
static mba_status choose_optimizer(mba__train_cli *c)
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

/* Items of a micro-batch: --global-batch counts them. */
static int64_t batch_items(const mba_model *m)
{
    return m->task == MBA_TASK_TEXT ? m->lm.batch : m->task == MBA_TASK_IMAGES ? m->vision.batch : m->graph.graphs;
}

/* The part of every sequence that this rank computes. */
static mba_status choose_part(mba__train_cli *c)
{
    const mba_device *d = c->o.session.device;
    const int         parts = (int)c->sequence_ranks;
    if (parts == 1) return MBA_OK;
    if (c->o.session.model.task != MBA_TASK_TEXT)
        return mba_fail(MBA_E_ARG, "--sequence-ranks %d is for text\nfix: leave it out, or choose a text model", parts);
    if ((d && d->alloc_host) || c->machine)
        return mba_fail(
            MBA_E_UNSUPPORTED,
            "--sequence-ranks %d on a GPU\nwhy: only ranks on the CPU pass states on\nfix: --device cpu, or "
            "leave it out",
            parts);
    if (c->ranks % parts) { // the number of ranks is a power of two
        const int less = 1 << (31 - __builtin_clz((unsigned)(parts < c->ranks ? parts : c->ranks)));
        return mba_fail(MBA_E_ARG, "--sequence-ranks %d does not divide %d rank(s)\nfix: --sequence-ranks %d, or %s",
                        parts, c->ranks, less, "start more ranks: mpirun -np ..");
    }
    c->o.session.model.lm.carry = c->o.carry;
    c->o.session.model.lm.sequence = (mba_place){ c->rank % parts, parts };
    return MBA_OK;
}

/* The micro-batches of this rank. A run of several ranks is stored with its global batch, so that any number of ranks
 * resumes it. */
static mba_status choose_slots(mba__train_cli *c)
{
    MBA_TRY(choose_part(c));
    mba_model m = c->o.session.model;
    MBA_TRY(mba_model_complete(&m));
    const int64_t each = batch_items(&m), all = each * (c->ranks / c->sequence_ranks);
    if (c->sum && strcmp(c->sum, "tree") && strcmp(c->sum, "chain"))
        return mba_fail(MBA_E_ARG, "--sum must be tree or chain, not %s", mba_quote(c->sum).text);
    if (c->ranks > 1 && c->sum && !strcmp(c->sum, "chain"))
        return mba_fail(MBA_E_ARG,
                        "--sum chain with %d ranks\nwhy: ranks add their gradients in a tree\nfix: leave it out",
                        c->ranks);
    c->o.micros = c->micros;
    if (c->global_batch) {
        const int64_t n = c->global_batch / all, fits = (n > 0 ? n : 1) * all;
        if (c->global_batch % all || n > 32768)
            return mba_fail(MBA_E_ARG,
                            "a global batch of %lld does not divide among %d rank(s) of %lld items each\nfix: "
                            "--global-batch %lld, or another --batch",
                            (long long)c->global_batch, c->ranks, (long long)each, (long long)fits);
        if (c->micros > 1 && c->micros != n && !c->kept)
            return mba_fail(
                MBA_E_ARG,
                "--global-batch %lld is %lld micro-batches on each rank, --micro-batches says %lld\nfix: leave "
                "one of them out",
                (long long)c->global_batch, (long long)n, (long long)c->micros);
        c->o.micros = n;
    }
    if (c->ranks > 1) c->global_batch = c->o.micros * all;
    if (c->ranks > 1) c->sum = "tree";
    c->o.tree = c->sum && !strcmp(c->sum, "tree");
    return MBA_OK;
}

/* Stores the options with the run, with the values that stand in for options that were not given. An image side that is
 * left open follows from the data, also when the run is resumed. */
static mba_status keep_options(mba__train_cli *c)
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
    c->model.precision = mba_precision_name(c->o.session.compute, c->o.session.tf32);
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

mba_status mba__train_choose(mba__train_cli *c)
{
    MBA_TRY(choose_schedule(c));
    c->o.seed = (uint64_t)c->seed;
    MBA_TRY(choose_machine(c));
    MBA_TRY(choose_optimizer(c));
    MBA_TRY(choose_slots(c));
    return keep_options(c);
}
