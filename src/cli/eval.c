/* eval.c -- `mambascope eval`: loss, logits and gradients of a checkpoint on given tokens. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>

#include "cli/command.h"
#include "cli/model_options.h"
#include "cli/options.h"
#include "train/evaluate.h"

mba_status mba_command_eval(int argc, char **argv)
{
    mba_evaluate_options o = { 0 };
    mba_model_options    m = { 0 };
    bool                 json = false, help;
    const mba_option options[] = {
        { "--checkpoint", MBA_OPT_TEXT,  &o.checkpoint, "DIR",   "an HF-style directory: mamba, mamba2, nemotron_h, bamba, jamba, or ours", 0, 0 },
        { "--tokens",     MBA_OPT_TEXT,  &o.tokens,     "T.npy", "int32 or int64 tokens (batch, length)", 0, 0 },
        { "--data",       MBA_OPT_TEXT,  &o.data,       "PATH",  "token files instead: the mean loss over them", 0, 0 },
        { "--validation", MBA_OPT_REAL,  &o.validation, "PART",  "only the last part of the data", 0, 0.9 },
        { "--batch",      MBA_OPT_INT,   &o.batch,      "B",     "of --data (8)", 1, 1 << 20 },
        { "--length",     MBA_OPT_INT,   &o.length,     "L",     "of --data (256)", 1, 1 << 30 },
        { "--logits",     MBA_OPT_TEXT,  &o.logits,     "L.npy", "write fp32 logits (batch, length, vocabulary)", 0, 0 },
        { "--grads",      MBA_OPT_TEXT,  &o.grads,      "G.safetensors", "write the gradient of the loss for every stored tensor", 0, 0 },
        { "--memory",     MBA_OPT_BYTES, &m.memory,     "BYTES", "the plan may not exceed it (default: 90 % of the machine)", 0, 0 },
        { "--recompute",  MBA_OPT_TEXT,  &m.recompute,  "WHEN",  "auto, on, off", 0, 0 },
        { "--op",         MBA_OPT_TEXT,  &m.variants,   "OP=V,..", "force variants of operators", 0, 0 },
        { "--threads",    MBA_OPT_INT,   &m.threads,    "N",     "threads; bits do not depend on it", 1, 4096 },
        { "--json",       MBA_OPT_FLAG,  &json,         NULL,    "as JSON: loss (null where length is 1), tokens, parameters", 0, 0 },
        { 0 },
    };
    const mba_usage usage = { "eval", "--checkpoint DIR --tokens T.npy | --data PATH [options]",
        "Computes the mean next-token loss: over the batch x (length - 1) predicted positions of --tokens, or over all\n"
        "positions of --data.", options,
        "mambascope eval --checkpoint mamba2-130m --tokens t.npy\n"
        "mambascope eval --checkpoint run/step-000500 --data shards --validation 0.1\n"
        "mambascope eval --checkpoint run/step-000500 --tokens t.npy --logits l.npy --grads g.safetensors --json\n" };
    mba_evaluation e;
    MBA_TRY(mba_options_parse(&usage, argc, argv, NULL, &help));
    if (help) return MBA_OK;
    if (!o.checkpoint || !o.tokens == !o.data)
        return mba_fail(MBA_E_ARG, "eval needs --checkpoint, and --tokens or --data\nfix: mambascope eval --help");
    MBA_TRY(mba_run_options_apply(&m, &o.session));
    MBA_TRY(mba_evaluate(&e, &o));
    if (json) {
        json_t *j = json_pack("{s:I, s:I}", "tokens", (json_int_t)e.tokens, "parameters", (json_int_t)e.parameters);
        json_object_set_new(j, "loss", isnan(e.loss) ? json_null() : json_real(e.loss));
        json_dumpf(j, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(12));
        putchar('\n');
        json_decref(j);
    } else if (isnan(e.loss)) {
        puts("no loss: sequences of one token predict nothing");
    } else {
        printf("loss %.6f nats/token over %lld predictions\n", e.loss, (long long)e.tokens);
    }
    return MBA_OK;
}
