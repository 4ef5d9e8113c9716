/* data.c -- `mambascope data prepare | inspect`: text to token files, and what is in them. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "cli/command.h"
#include "cli/options.h"
#include "cli/progress.h"
#include "data/prepare.h"
#include "data/token_file.h"

typedef struct data_options { const char *out, *tokenizer, *field; int64_t shard, synthetic, seed; bool json; } data_options;

static mba_status show(void *ctx, int64_t done, int64_t all, int64_t tokens)
{
    char note[64];
    mba_progress *p = ctx;
    p->total = all;
    snprintf(note, sizeof note, "%.1f M tokens", (double)tokens / 1e6);
    mba_progress_show(p, done, note);
    return MBA_OK;
}

static mba_status prepare(const data_options *o, const mba_operands *words)
{
    mba_tokenizer *t = NULL;
    mba_prepared   made;
    mba_progress   p = mba_progress_start("encoding", 1);
    if (!o->out) return mba_fail(MBA_E_ARG, "data prepare needs --out DIR");
    MBA_TRY(mba_tokenizer_create(&t, o->tokenizer));
    mba_status st = mba_prepare(&made, t, &(mba_prepare_options){ .out = o->out, .input = words->word + 1, .inputs = words->n - 1,
        .field = o->field, .shard_tokens = o->shard, .synthetic_bytes = o->synthetic, .seed = (uint64_t)o->seed, .progress = show, .user = &p });
    mba_progress_end(&p);
    if (st == MBA_OK && o->json)
        printf("{\"documents\": %lld, \"bytes\": %lld, \"tokens\": %lld, \"shards\": %lld, \"synthetic\": %s}\n", (long long)made.documents,
               (long long)made.bytes, (long long)made.tokens, (long long)made.shards, words->n == 1 ? "true" : "false");
    else if (st == MBA_OK)
        printf("%s: %lld documents, %lld bytes, %lld tokens in %lld files (%s)%s\n", o->out, (long long)made.documents, (long long)made.bytes,
               (long long)made.tokens, (long long)made.shards, mba_tokenizer_name(t), words->n == 1 ? ", SYNTHETIC text" : "");
    mba_tokenizer_destroy(t);
    return st;
}

static mba_status inspect(const char *path, bool json)
{
    mba_token_file *f = NULL;
    int32_t         head[16];
    MBA_TRY(mba_token_file_open(&f, path));
    const mba_token_notes *notes = mba_token_file_notes(f);
    const int64_t n = mba_token_file_count(f), shown = n < 16 ? n : 16;
    const mba_status st = mba_token_file_read(f, head, 0, shown, INT32_MAX);
    if (st == MBA_OK && json) {
        json_t *o = json_pack("{s:s, s:I, s:i}", "file", path, "tokens", (json_int_t)n, "bytes_per_token", mba_token_file_bytes_per_token(f));
        if (notes) json_object_set_new(o, "notes", json_pack("{s:s, s:I, s:I, s:I, s:b}", "tokenizer", notes->tokenizer, "vocab", (json_int_t)notes->vocab,
                                       "documents", (json_int_t)notes->documents, "bytes", (json_int_t)notes->bytes, "synthetic", (int)notes->synthetic));
        json_dumpf(o, stdout, JSON_INDENT(1));
        putchar('\n');
        json_decref(o);
    } else if (st == MBA_OK) {
        printf("%s: %lld tokens of %d bytes\n", path, (long long)n, mba_token_file_bytes_per_token(f));
        if (notes) printf("  tokenizer %s, vocabulary %lld, %lld documents, %lld bytes of text%s\n  source %s\n", notes->tokenizer,
                          (long long)notes->vocab, (long long)notes->documents, (long long)notes->bytes, notes->synthetic ? ", SYNTHETIC" : "", notes->source);
        fputs("  begins", stdout);
        for (int64_t i = 0; i < shown; i++) printf(" %d", head[i]);
        putchar('\n');
    }
    mba_token_file_close(f);
    return st;
}

mba_status mba_command_data(int argc, char **argv)
{
    data_options o = { .tokenizer = "bytes", .seed = 1 };
    bool         help;
    const mba_option options[] = {
        { "--out",       MBA_OPT_TEXT,  &o.out,       "DIR",   "prepare: a new directory for the token files", 0, 0 },
        { "--tokenizer", MBA_OPT_TEXT,  &o.tokenizer, "PATH",  "prepare: tokenizer.json (byte-level BPE), or bytes (bytes)", 0, 0 },
        { "--field",     MBA_OPT_TEXT,  &o.field,     "NAME",  "prepare: where the text of a JSON line stands (text)", 0, 0 },
        { "--shard",     MBA_OPT_INT,   &o.shard,     "N",     "prepare: tokens per file (33554432)", 1, 2147483647 },
        { "--synthetic", MBA_OPT_BYTES, &o.synthetic, "BYTES", "prepare: so much made-up text, where no file is given (1M)", 0, 0 },
        { "--seed",      MBA_OPT_INT,   &o.seed,      "N",     "prepare: of made-up text (1)", 0, 9e15 },
        { "--json",      MBA_OPT_FLAG,  &o.json,      NULL,    "as JSON", 0, 0 },
        { 0 },
    };
    const mba_usage usage = { "data", "prepare --out DIR [FILE..] | inspect FILE..",
        "prepare  plain text (one document a file) or JSON lines (.jsonl) to token files that `train` reads;\n"
        "         without files the text is made up and labelled SYNTHETIC\n"
        "inspect  what a token file (llm.c or nanoGPT .bin) holds", options,
        "mambascope data prepare --out shards book.txt\nmambascope data prepare --out shards --tokenizer tokenizer.json pile.jsonl\n"
        "mambascope data inspect shards/tokens_00000.bin\n" };
    mba_operands words = { 0 };
    MBA_TRY(mba_options_parse(&usage, argc, argv, &words, &help));
    if (help) return MBA_OK;
    if (words.n >= 1 && !strcmp(words.word[0], "prepare")) return prepare(&o, &words);
    if (words.n >= 2 && !strcmp(words.word[0], "inspect")) {
        for (int i = 1; i < words.n; i++) MBA_TRY(inspect(words.word[i], o.json));
        return MBA_OK;
    }
    return mba_fail(MBA_E_ARG, "data what?\nfix: mambascope data prepare --out DIR [FILE..], or data inspect FILE");
}
