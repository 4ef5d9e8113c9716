// SPDX-License-Identifier: Apache-2.0
/* eval.c -- `mambascope eval`: loss, scores, logits and gradients of a checkpoint on given data. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/command.h"
#include "cli/model_options.h"
#include "cli/notes.h"
#include "cli/options.h"
#include "cli/say.h"
#include "cli/table.h"
#include "data/array.h"
#include "data/json.h"
#include "train/checkpoint.h"
#include "train/evaluate.h"

/* exp(loss), the usual measure of text models; NaN for other tasks. */
static double perplexity(const mba_evaluation *e) { return e->task == MBA_TASK_TEXT ? exp(e->loss) : NAN; }

static json_t *json_of(const mba_evaluation *e)
{
    json_t *j = json_pack("{s:s, s:I, s:I}", "task", mba_task_name(e->task), "targets", (json_int_t)e->targets,
                          "parameters", (json_int_t)e->parameters);
    if (e->task == MBA_TASK_TEXT) json_object_set_new(j, "tokens", json_integer((json_int_t)e->targets));
    json_object_set_new(j, "loss", mba_json_finite(e->loss));
    if (e->task == MBA_TASK_TEXT) json_object_set_new(j, "perplexity", mba_json_finite(perplexity(e)));
    for (int i = 0; i < e->scores; i++) json_object_set_new(j, e->score[i].name, mba_json_finite(e->score[i].value));
    return j;
}

static void print_text(const mba_evaluation *e)
{
    if (!e->targets) {
        puts(e->task == MBA_TASK_TEXT ? "no loss: a sequence of one token predicts nothing"
                                      : "no loss: no item has a label");
        return;
    }
    printf("loss %.6f %s over %lld %s", e->loss, mba_task_loss_unit(e->task), (long long)e->targets,
           e->task == MBA_TASK_TEXT ? "predictions" : "targets");
    if (e->task == MBA_TASK_TEXT) printf(", perplexity %.6g", perplexity(e));
    for (int i = 0; i < e->scores; i++) printf(", %s %.6f", e->score[i].name, e->score[i].value);
    putchar('\n');
}

typedef struct eval_cli {
    mba_evaluate_options o;
    mba_model_options    model;
    mba_operands         data; /* of --data */
    mba_evaluation       each[MBA_OPERANDS_MAX], all;
    bool                 json, csv;
} eval_cli;

/* ---- several sets of data ---- */

/* The mean loss over all targets. Scores of separate data sets cannot be combined. */
static void put_together(eval_cli *c)
{
    double sum = 0;
    c->all = (mba_evaluation){ .task = c->each[0].task, .parameters = c->each[0].parameters };
    for (int i = 0; i < c->data.n; i++) {
        c->all.targets += c->each[i].targets;
        if (c->each[i].targets) sum += c->each[i].loss * (double)c->each[i].targets;
    }
    c->all.loss = c->all.targets ? sum / (double)c->all.targets : NAN;
}

static void add_row(mba_table *t, const char *name, const mba_evaluation *e, int scores)
{
    mba_table_text(t, "%s", name);
    mba_table_number(t, (double)e->targets);
    mba_table_number(t, e->loss);
    if (e->task == MBA_TASK_TEXT) mba_table_number(t, perplexity(e));
    for (int i = 0; i < scores; i++) mba_table_number(t, i < e->scores ? e->score[i].value : NAN);
}

static mba_status print_table(const eval_cli *c)
{
    const bool text = c->all.task == MBA_TASK_TEXT;
    const int  scores = c->each[0].scores;
    mba_column column[5 + MBA_SCORES_MAX] = { { "data", "data", NULL },
                                              { "targets", text ? "predictions" : "targets", "%.0f" } };
    char       heading[64];
    int        n = 2;
    mba_table *t;
    snprintf(heading, sizeof heading, "loss, %s", mba_task_loss_unit(c->all.task));
    column[n++] = (mba_column){ "loss", heading, "%.6f" };
    if (text) column[n++] = (mba_column){ "perplexity", "perplexity", "%.6g" };
    for (int i = 0; i < scores; i++)
        column[n++] = (mba_column){ c->each[0].score[i].name, c->each[0].score[i].name, "%.6f" };
    MBA_TRY(mba_table_create(&t, column));
    for (int i = 0; i < c->data.n; i++) add_row(t, c->data.word[i], &c->each[i], scores);
    if (c->data.n > 1) add_row(t, "all", &c->all, scores);
    const mba_status st = mba_table_print(t, stdout, mba_table_form_of(false, c->csv));
    mba_table_destroy(t);
    return st;
}

static mba_status print_json(const eval_cli *c)
{
    mba__json_begin();
    json_t *j = json_of(c->data.n > 1 ? &c->all : &c->each[0]);
    for (int i = 0; i < c->data.n && c->data.n > 1; i++) {
        json_t *list = json_object_get(j, "data"), *row = json_of(&c->each[i]);
        if (!list) json_object_set_new(j, "data", list = json_array());
        if (json_object_set_new(row, "data", json_string(c->data.word[i]))) // no UTF-8
            json_object_set_new(row, "data", json_string(mba_quote(c->data.word[i]).text));
        json_object_del(row, "task");
        json_object_del(row, "parameters");
        json_array_append_new(list, row);
    }
    const mba_status st = mba_json_print(stdout, j, 12);
    json_decref(j);
    return st;
}

static mba_usage usage_of(const mba_option *options)
{
    return (mba_usage){
        "eval",
        "--checkpoint DIR --tokens T.npy | --images X.npy | --graphs FILE | --data PATH "
        "[options]",
        "Computes the mean loss: of text over the batch x (length - 1) predicted positions, of images and graphs over "
        "their\n"
        "labels, with accuracy, average precision, F1 or mean absolute error. Several data sets are evaluated one by "
        "one and\n"
        "together.",
        options,
        "mambascope eval --checkpoint mamba2-130m --tokens t.npy\n"
        "mambascope eval --checkpoint run/step-000500 --data shards --valid-fraction 0.1\n"
        "mambascope eval --checkpoint run/best --data wiki books code --csv\n"
        "mambascope eval --checkpoint run/step-000500 --images x.npy --labels y.npy --train-mode --grads "
        "g.safetensors\n"
        "mambascope eval --checkpoint run/step-000500 --tokens t.npy --logits l.npy --grads g.safetensors --json\n"
    };
}

static mba_status parse(eval_cli *c, int argc, char **argv, bool *help)
{
    mba_evaluate_options *o = &c->o;

    const mba_option options[] = {
        MBA_OPTION_GROUP("Checkpoint and data"),
        { "--checkpoint", MBA_OPT_TEXT, &o->checkpoint, "DIR",
          "checkpoint folder, ours or Hugging Face; the folder of a run: its newest checkpoint", 0, 0 },
        { "--tokens", MBA_OPT_TEXT, &o->tokens, "T.npy",
          "text: evaluate these int32 or int64 tokens, of shape (batch, length)", 0, 0 },
        { "--images", MBA_OPT_TEXT, &o->images, "X.npy",
          "images: evaluate these normalised fp32 images, of shape (number, 3, side, side)", 0, 0 },
        { "--labels", MBA_OPT_TEXT, &o->labels, "Y.npy",
          "images: their classes, int32 or int64 of shape (number); negative = no label", 0, 0 },
        { "--graphs", MBA_OPT_TEXT, &o->graphs, "FILE", "graphs: evaluate a GRAPHPK1 file as one batch", 0, 0 },
        { "--data", MBA_OPT_TEXTS, &c->data, "PATH ..",
          "evaluate the validation part of a data set, as train reads it; may be given several times: "
          "each and all",
          0, 0 },
        { "--tokenizer", MBA_OPT_TEXT, &o->tokenizer, "PATH",
          "text given as --data: tokenizer.json, or bytes [that of the checkpoint]", 0, 0 },
        { "--field", MBA_OPT_TEXT, &o->field, "NAME", "JSON lines given as --data: key of the text [text]", 0, 0 },
        { "--valid-fraction", MBA_OPT_REAL, &o->validation, "X",
          "evaluate the fraction that train holds out with the same option", 0, 0.9 },
        MBA_OPTION_ALIAS("--validation", "--valid-fraction"),

        MBA_OPTION_GROUP("Batch"),
        { "--batch", MBA_OPT_INT, &o->shape.batch, "B", "with --data: sequences or images per batch [8; 32]", 1,
          1 << 20 },
        { "--length", MBA_OPT_INT, &o->shape.length, "L", "with --data: tokens per sequence [256]", 1, 1 << 30 },
        { "--max-graphs", MBA_OPT_INT, &o->shape.graphs, "G", "with --data: maximum number of graphs per batch", 1,
          1 << 22 },
        { "--nodes", MBA_OPT_INT, &o->shape.nodes, "N", "with --data: maximum number of nodes per batch", 1, 1 << 30 },
        { "--edges", MBA_OPT_INT, &o->shape.edges, "E", "with --data: maximum number of edges per batch", 1, 1 << 30 },
        { "--synthetic", MBA_OPT_INT, &o->made, "N", "with --data: size of a synthetic graph data set [5 batches]", 20,
          1e9 },
        MBA_OPTION_ALIAS("--made", "--synthetic"),

        MBA_OPTION_GROUP("Mode"),
        { "--train-mode", MBA_OPT_FLAG, &o->train_mode, NULL,
          "use training mode: batch statistics, and with --seed drop path and dropout", 0, 0 },
        { "--seed", MBA_OPT_INT, &o->seed, "N", "seed of drop path, dropout and node orders", 0, 9e15 },
        { "--ema", MBA_OPT_FLAG, &o->averaged, NULL, "use the averaged weights of a run that was trained with --ema", 0,
          0 },

        MBA_OPTION_GROUP("Output"),
        { "--logits", MBA_OPT_TEXT, &o->logits, "L.npy", "write the logits to this file, in fp32", 0, 0 },
        { "--grads", MBA_OPT_TEXT, &o->grads, "G.safetensors",
          "write the gradients of the loss to this file, one per stored tensor", 0, 0 },
        { "--json", MBA_OPT_FLAG, &c->json, NULL,
          "print JSON: loss (null without targets), targets, parameters, scores", 0, 0 },
        { "--csv", MBA_OPT_FLAG, &c->csv, NULL, "with --data: print CSV, a row for each", 0, 0 },

        MBA_OPTION_GROUP("Machine"),
        MBA_RUN_OPTIONS(&c->model),
        { 0 },
    };
    const mba_usage usage = usage_of(options);
    return mba_options_parse(&usage, argc, argv, &c->data, help);
}

static bool same_file(const char *a, const char *b)
{
    struct stat s, t;
    return a && b && !stat(a, &s) && !stat(b, &t) && s.st_dev == t.st_dev && s.st_ino == t.st_ino;
}

/* Refuses outputs that would overwrite an input, above all the weights. */
static mba_status check_outputs(const mba_evaluate_options *o)
{
    char weights[4096 + 32];
    snprintf(weights, sizeof weights, "%s/model.safetensors", o->checkpoint);
    const char *const inputs[] = { weights, o->tokens, o->images, o->labels, o->graphs, o->data };
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++)
        if (same_file(o->logits, inputs[i]) || same_file(o->grads, inputs[i]))
            return mba_fail(MBA_E_ARG, "the result would be written over the input '%s'\nfix: choose another name",
                            inputs[i]);
    return MBA_OK;
}

static mba_status check(const eval_cli *c)
{
    const mba_evaluate_options *o = &c->o;
    if (c->csv && !o->data)
        return mba_fail(MBA_E_ARG,
                        "--csv needs --data\nwhy: a given batch has one result\nfix: leave it out, or use --json");
    if (!o->checkpoint || !o->tokens + !o->images + !o->graphs + !o->data != 3)
        return mba_fail(MBA_E_ARG, "eval needs --checkpoint, and one of --tokens, --images, --graphs and --data\nfix: "
                                   "mambascope eval --help");
    if (o->labels && !o->images)
        return mba_fail(MBA_E_ARG,
                        "--labels needs --images\nwhy: other data has labels of its own\nfix: leave --labels out");
    if (!o->data && (o->validation > 0 || o->made || memcmp(&o->shape, &(mba_batch_shape){ 0 }, sizeof o->shape)))
        return mba_fail(MBA_E_ARG, "--valid-fraction, --synthetic and batch sizes need --data\nwhy: a given batch is "
                                   "evaluated as it is\nfix: leave them out, or use --data");
    if (o->logits && o->grads && (!strcmp(o->logits, o->grads) || same_file(o->logits, o->grads)))
        return mba_fail(MBA_E_ARG, "--logits and --grads name one file, '%s'\nfix: give them two names", o->logits);
    return MBA_OK;
}

mba_status mba_command_eval(int argc, char **argv)
{
    eval_cli c = { .o.seed = -1 };
    bool     help;
    char     path[4096];
    MBA_TRY(parse(&c, argc, argv, &help));
    if (help) return MBA_OK;
    if (c.data.n) c.o.data = c.data.word[0];
    MBA_TRY(check(&c));
    MBA_TRY(mba_checkpoint_find(path, sizeof path, c.o.checkpoint));
    MBA_TRY(mba_checkpoint_verify(path, c.o.averaged));
    c.o.checkpoint = path;
    MBA_TRY(check_outputs(&c.o));
    MBA_TRY(mba_run_options_apply(&c.model, &c.o.session));
    MBA_TRY(mba_notes_print(path));
    for (int i = 0; i < (c.data.n ? c.data.n : 1); i++) {
        if (c.data.n) c.o.data = c.data.word[i];
        const mba_status st = mba_evaluate(&c.each[i], &c.o);
        if (st != MBA_OK) return c.data.n > 1 ? mba_where(st, "evaluating on '%s'", c.o.data) : st;
        if (*c.each[i].prepared) mba_say(stderr, "data: %s\n", c.each[i].prepared);
    }
    put_together(&c);
    if (c.json) return print_json(&c);
    if (c.csv || c.data.n > 1) return print_table(&c);
    print_text(&c.each[0]);
    return MBA_OK;
}
