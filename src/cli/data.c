// SPDX-License-Identifier: Apache-2.0
/* data.c -- `mambascope data prepare | inspect`: converts text to token files, and shows what a data set holds. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "cli/command.h"
#include "cli/inspect.h"
#include "cli/interrupts.h"
#include "cli/options.h"
#include "cli/progress.h"
#include "cli/say.h"
#include "data/json.h"
#include "data/prepare.h"

enum { UNSAID = -1 }; /* of a number that may be 0 */

typedef struct data_options {
    const char *out, *tokenizer, *field, *split_on;
    int64_t     shard, synthetic, seed;
    bool        json;
} data_options;

static volatile sig_atomic_t stopped;
static void                  on_signal(int number) { stopped = number; }

static mba_status show(void *ctx, int64_t done, int64_t all, int64_t tokens)
{
    char          note[64];
    mba_progress *p = ctx;
    if (stopped) return mba_fail(MBA_E_IO, "interrupted; nothing was stored\nfix: run the same command again");
    p->total = all;
    snprintf(note, sizeof note, "%.1f M tokens", (double)tokens / 1e6);
    mba_progress_show(p, done, note);
    return MBA_OK;
}

/* Refuses an option that has no effect here. */
static mba_status refuse(const char *option, bool given, const char *why)
{
    return given ? mba_fail(MBA_E_ARG, "%s has no effect here\nwhy: %s\nfix: leave it out", option, why) : MBA_OK;
}

static mba_status check_prepare(const data_options *o, bool files)
{
    const char *why = "it is for synthetic text, but files are given";
    if (!o->out)
        return mba_fail(MBA_E_ARG, "data prepare needs an output folder\nfix: mambascope data prepare --out DIR "
                                   "[FILE..]");
    MBA_TRY(refuse("--synthetic", files && o->synthetic, why));
    MBA_TRY(refuse("--seed", files && o->seed != UNSAID, why));
    MBA_TRY(refuse("--split-on", !files && o->split_on, "synthetic text has documents of its own"));
    return refuse("--field", !files && o->field, "synthetic text is not JSON lines");
}

static mba_status check_inspect(const data_options *o)
{
    const char *why = "inspect only reads; prepare writes token files";
    MBA_TRY(refuse("--out", o->out, why));
    MBA_TRY(refuse("--tokenizer", o->tokenizer, why));
    MBA_TRY(refuse("--split-on", o->split_on, why));
    MBA_TRY(refuse("--shard", o->shard, why));
    MBA_TRY(refuse("--synthetic", o->synthetic, why));
    return refuse("--seed", o->seed != UNSAID, why);
}

static mba_status prepare(const data_options *o, const mba_operands *words)
{
    mba_tokenizer *t = NULL;
    mba_prepared   made;
    mba_progress   p = mba_progress_start("encoding", 1);
    MBA_TRY(check_prepare(o, words->n > 1));
    MBA_TRY(mba_tokenizer_create(&t, o->tokenizer ? o->tokenizer : "bytes"));
    mba_interrupts(on_signal);
    mba_status st = mba_prepare(&made, t,
                                &(mba_prepare_options){ .out = o->out,
                                                        .input = words->word + 1,
                                                        .inputs = words->n - 1,
                                                        .field = o->field,
                                                        .split_on = o->split_on,
                                                        .shard_tokens = o->shard,
                                                        .synthetic_bytes = o->synthetic,
                                                        .seed = o->seed == UNSAID ? 1 : (uint64_t)o->seed,
                                                        .progress = show,
                                                        .user = &p });
    mba_progress_end(&p);
    if (st == MBA_OK && o->json)
        printf("{\"documents\": %lld, \"bytes\": %lld, \"tokens\": %lld, \"shards\": %lld, \"synthetic\": %s}\n",
               (long long)made.documents, (long long)made.bytes, (long long)made.tokens, (long long)made.shards,
               words->n == 1 ? "true" : "false");
    else if (st == MBA_OK)
        mba_say(stdout, "%s: %lld document%s, %s, %lld tokens in %lld file%s (%s)%s\n", o->out,
                (long long)made.documents, made.documents == 1 ? "" : "s", mba_size_of((double)made.bytes).text,
                (long long)made.tokens, (long long)made.shards, made.shards == 1 ? "" : "s", mba_tokenizer_name(t),
                words->n == 1 ? ", SYNTHETIC text" : "");
    if (st == MBA_OK && made.ends_in_text && !o->split_on)
        mba_say(stderr,
                "note: %s occurs in the text %lld time%s and is encoded as text; use --split-on '%s' to end a document "
                "there\n",
                made.end, (long long)made.ends_in_text, made.ends_in_text == 1 ? "" : "s", made.end);
    mba_tokenizer_destroy(t);
    return st;
}

/* With --json, several data sets are printed as one array when all of them are read: a partial array is not valid
 * JSON. */
static mba_status inspect(const char *const *path, int n, const data_options *o)
{
    MBA_TRY(check_inspect(o));
    json_t    *all = o->json && n > 1 ? json_array() : NULL;
    mba_status st = MBA_OK;
    for (int i = 0; i < n && st == MBA_OK; i++)
        st = mba_inspect(path[i], &(mba_inspect_options){ .json = o->json, .field = o->field, .into = all });
    if (st == MBA_OK && all) st = mba_json_print(stdout, all, 9);
    json_decref(all);
    return st;
}

mba_status mba_command_data(int argc, char **argv)
{
    data_options     o = { .seed = UNSAID };
    bool             help;
    const mba_option options[] = {
        { "--out", MBA_OPT_TEXT, &o.out, "DIR", "prepare: write the token files into this new folder", 0, 0 },
        { "--tokenizer", MBA_OPT_TEXT, &o.tokenizer, "PATH",
          "prepare: tokenizer.json (byte-level BPE), or bytes [bytes]", 0, 0 },
        { "--field", MBA_OPT_TEXT, &o.field, "NAME", "key of the text in JSON lines [text]", 0, 0 },
        { "--split-on", MBA_OPT_TEXT, &o.split_on, "TEXT",
          "prepare: end a document at TEXT, e.g. '<|endoftext|>', which is left out [only files end documents]", 0, 0 },
        { "--shard", MBA_OPT_INT, &o.shard, "N", "prepare: tokens per file [33554432]", 1, 2147483647 },
        { "--synthetic", MBA_OPT_BYTES, &o.synthetic, "BYTES",
          "prepare: amount of synthetic text if no file is given [1M]", 0, 0 },
        { "--seed", MBA_OPT_INT, &o.seed, "N", "prepare: seed of the synthetic text [1]", 0, 9e15 },
        { "--json", MBA_OPT_FLAG, &o.json, NULL, "print JSON", 0, 0 },
        { 0 },
    };
    const mba_usage usage = { "data", "prepare --out DIR [FILE..] | inspect PATH..",
                              "prepare  converts plain text (one document per file) or JSON lines (.jsonl), also\n"
                              "         .gz and .zst, into token files for `train`, with the tokenizer beside\n"
                              "         them; without files it writes text that is SYNTHETIC\n"
                              "inspect  shows what a data set holds. It recognises the format by the content:\n"
                              "         token files (llm.c, nanoGPT) or a folder of them, text, JSON lines,\n"
                              "         tokenizer.json, image folders, WebDataset tars, CIFAR-10 and CIFAR-100\n"
                              "         binaries, MNIST IDX, GRAPHPK1, TUDataset, OGB CSV, MalNet edge lists,\n"
                              "         .npy, .safetensors and checkpoint folders",
                              options,
                              "mambascope data prepare --out shards book.txt\n"
                              "mambascope data prepare --out shards --tokenizer tokenizer.json pile.jsonl.zst\n"
                              "mambascope data prepare --out shards --split-on '<|endoftext|>' stories.txt\n"
                              "mambascope data inspect shards\nmambascope data inspect imagenet\n"
                              "mambascope data inspect cifar-10-batches-bin MUTAG --json\n" };
    mba_operands    words = { 0 };
    MBA_TRY(mba_options_parse(&usage, argc, argv, &words, &help));
    if (help) return MBA_OK;
    if (words.n >= 1 && !strcmp(words.word[0], "prepare")) return prepare(&o, &words);
    if (words.n >= 2 && !strcmp(words.word[0], "inspect")) return inspect(words.word + 1, words.n - 1, &o);
    if (words.n == 1 && !strcmp(words.word[0], "inspect"))
        return mba_fail(MBA_E_ARG, "inspect what?\nfix: mambascope data inspect PATH");
    return mba_fail(MBA_E_ARG, "data what?\nfix: mambascope data prepare --out DIR [FILE..], or data inspect PATH");
}
