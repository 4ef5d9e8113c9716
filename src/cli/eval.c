/* eval.c -- `mambascope eval`: loss, scores, logits and gradients of a checkpoint on given data. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/command.h"
#include "cli/model_options.h"
#include "cli/notes.h"
#include "cli/options.h"
#include "data/json.h"
#include "train/checkpoint.h"
#include "train/evaluate.h"

static void print_json(const mba_evaluation *e)
{
    json_t *j = json_pack("{s:s, s:I, s:I}", "task", mba_task_name(e->task), "targets", (json_int_t)e->targets,
                          "parameters", (json_int_t)e->parameters);
    if (e->task == MBA_TASK_TEXT) json_object_set_new(j, "tokens", json_integer((json_int_t)e->targets));
    json_object_set_new(j, "loss", mba_json_finite(e->loss));
    for (int i = 0; i < e->scores; i++) json_object_set_new(j, e->score[i].name, mba_json_finite(e->score[i].value));
    json_dumpf(j, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(12));
    putchar('\n');
    json_decref(j);
}

static void print_text(const mba_evaluation *e)
{
    if (!e->targets) {
        puts(e->task == MBA_TASK_TEXT ? "no loss: sequences of one token predict nothing"
             : "no loss: nothing is labelled");
        return;
    }
    printf("loss %.6f %s over %lld %s", e->loss, mba_task_loss_unit(e->task), (long long)e->targets,
           e->task == MBA_TASK_TEXT ? "predictions" : "targets");
    for (int i = 0; i < e->scores; i++) printf(", %s %.6f", e->score[i].name, e->score[i].value);
    putchar('\n');
}

typedef struct eval_cli {
    mba_evaluate_options o;
    mba_model_options    model;
    bool                 json;
} eval_cli;

static mba_status parse(eval_cli *c, int argc, char **argv, bool *help)
{
    mba_evaluate_options *o = &c->o;
    const mba_option options[] = {
        { "--checkpoint", MBA_OPT_TEXT, &o->checkpoint, "DIR",
          "a directory: mamba, mamba2, nemotron_h, bamba, jamba, mambavision, or ours; of a run its newest", 0, 0 },
        { "--tokens",     MBA_OPT_TEXT, &o->tokens,    "T.npy", "text: int32 or int64 tokens (batch, length)", 0, 0 },
        { "--images",     MBA_OPT_TEXT, &o->images,    "X.npy",
          "images: fp32 (number, 3, side, side), normalised", 0, 0 },
        { "--labels",     MBA_OPT_TEXT, &o->labels,    "Y.npy",
          "images: int32 or int64 classes (number); negative: none", 0, 0 },
        { "--graphs",     MBA_OPT_TEXT, &o->graphs,    "FILE",
          "graphs: a collection in our container, as one batch", 0, 0 },
        { "--data",       MBA_OPT_TEXT, &o->data,      "PATH",
          "what train takes instead: the mean over its held-out part", 0, 0 },
        { "--tokenizer",  MBA_OPT_TEXT, &o->tokenizer, "PATH",
          "of --data that is text: tokenizer.json, or bytes (the checkpoint's)", 0, 0 },
        { "--field",      MBA_OPT_TEXT, &o->field,     "NAME",
          "of --data that is JSON lines: where the text stands (text)", 0, 0 },
        { "--validation", MBA_OPT_REAL, &o->validation, "PART",  "only the part that train holds out by it", 0, 0.9 },
        { "--batch",      MBA_OPT_INT,  &o->shape.batch, "B",    "of --data (8 sequences, 32 images)", 1, 1 << 20 },
        { "--length",     MBA_OPT_INT,  &o->shape.length, "L",   "of --data (256)", 1, 1 << 30 },
        { "--max-graphs", MBA_OPT_INT,  &o->shape.graphs, "G",
          "of --data: at most so many graphs per batch", 1, 1 << 22 },
        { "--nodes",      MBA_OPT_INT,  &o->shape.nodes, "N",
          "of --data: at most so many nodes per batch", 1, 1 << 30 },
        { "--edges",      MBA_OPT_INT,  &o->shape.edges, "E",
          "of --data: at most so many edges per batch", 1, 1 << 30 },
        { "--made",       MBA_OPT_INT,  &o->made,      "N",
          "of --data: how many graphs of a made-up collection (five batches)", 20, 1e9 },
        { "--train-mode", MBA_OPT_FLAG, &o->train_mode, NULL,
          "batch statistics; drop path and dropout only with --seed", 0, 0 },
        { "--seed",       MBA_OPT_INT,  &o->seed,      "N",     "of drop path, dropout and node orders", 0, 9e15 },
        { "--ema",        MBA_OPT_FLAG, &o->averaged,  NULL,    "the averaged model of a run with --ema", 0, 0 },
        { "--logits",     MBA_OPT_TEXT, &o->logits,    "L.npy", "write fp32 logits", 0, 0 },
        { "--grads",      MBA_OPT_TEXT, &o->grads,     "G.safetensors",
          "write the gradient of the loss for every stored tensor", 0, 0 },
        MBA_RUN_OPTIONS(&c->model),
        { "--json",       MBA_OPT_FLAG, &c->json,       NULL,
          "as JSON: loss (null without targets), targets, parameters, scores", 0, 0 },
        { 0 },
    };
    const mba_usage usage = { "eval", "--checkpoint DIR --tokens T.npy | --images X.npy | --graphs FILE | --data PATH "
                                      "[options]",
        "Computes the mean loss: of text over the batch x (length - 1) predicted positions, of images and graphs over "
        "their\n"
        "labels, with accuracy, average precision, F1 or mean absolute error.", options,
        "mambascope eval --checkpoint mamba2-130m --tokens t.npy\n"
        "mambascope eval --checkpoint run/step-000500 --data shards --validation 0.1\n"
        "mambascope eval --checkpoint run/step-000500 --images x.npy --labels y.npy --train-mode --grads "
        "g.safetensors\n"
        "mambascope eval --checkpoint run/step-000500 --tokens t.npy --logits l.npy --grads g.safetensors --json\n" };
    return mba_options_parse(&usage, argc, argv, NULL, help);
}

static bool same_file(const char *a, const char *b)
{
    struct stat s, t;
    return a && b && !stat(a, &s) && !stat(b, &t) && s.st_dev == t.st_dev && s.st_ino == t.st_ino;
}

/* What is read must not be written over, the weights least of all. */
static mba_status check_outputs(const mba_evaluate_options *o)
{
    char weights[4096 + 32];
    snprintf(weights, sizeof weights, "%s/model.safetensors", o->checkpoint);
    const char *const inputs[] = { weights, o->tokens, o->images, o->labels, o->graphs, o->data };
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++)
        if (same_file(o->logits, inputs[i]) || same_file(o->grads, inputs[i]))
            return mba_fail(MBA_E_ARG, "the result would be written over '%s'\nwhy: that is read here\nfix: another name",
                            inputs[i]);
    return MBA_OK;
}

static mba_status check(const mba_evaluate_options *o)
{
    if (!o->checkpoint || !o->tokens + !o->images + !o->graphs + !o->data != 3)
        return mba_fail(MBA_E_ARG, "eval needs --checkpoint, and one of --tokens, --images, --graphs and --data\nfix: "
                                   "mambascope eval --help");
    if (o->labels && !o->images)
        return mba_fail(MBA_E_ARG, "--labels without --images\nwhy: other data has its own\nfix: leave --labels out");
    if (!o->data && (o->validation > 0 || o->made || memcmp(&o->shape, &(mba_batch_shape){ 0 }, sizeof o->shape)))
        return mba_fail(MBA_E_ARG, "--validation, --made and sizes of batches go with --data\nwhy: a given batch is "
                                   "taken as it is\nfix: leave them out, or --data");
    if (o->logits && o->grads && (!strcmp(o->logits, o->grads) || same_file(o->logits, o->grads)))
        return mba_fail(MBA_E_ARG, "--logits and --grads are one file, '%s'\nfix: two names", o->logits);
    return MBA_OK;
}

mba_status mba_command_eval(int argc, char **argv)
{
    eval_cli       c = { .o.seed = -1 };
    mba_evaluation e;
    bool           help;
    char           path[4096];
    MBA_TRY(parse(&c, argc, argv, &help));
    if (help) return MBA_OK;
    MBA_TRY(check(&c.o));
    MBA_TRY(mba_checkpoint_find(path, sizeof path, c.o.checkpoint));
    c.o.checkpoint = path;
    MBA_TRY(check_outputs(&c.o));
    MBA_TRY(mba_run_options_apply(&c.model, &c.o.session));
    MBA_TRY(mba_notes_print(path));
    MBA_TRY(mba_evaluate(&e, &c.o));
    if (*e.prepared) fprintf(stderr, "data: %s\n", e.prepared);
    if (c.json) print_json(&e);
    else        print_text(&e);
    return MBA_OK;
}
