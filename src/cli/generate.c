// SPDX-License-Identifier: Apache-2.0
/* generate.c -- `mambascope generate`: continues a text. */
#include "train/generate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/notes.h"
#include "cli/options.h"
#include "data/tokenizer.h"
#include "train/checkpoint.h"
#include "train/text_data.h"

enum { PROMPT_MAX = 1 << 26 };

/* Prints the prompt before the first token. If no token comes, it prints nothing. */
typedef struct printer {
    mba_tokenizer *tokenizer;
    const char    *prompt;
    size_t         bytes;
} printer;

static mba_status print_token(void *ctx, int32_t id)
{
    printer    *p = ctx;
    size_t      n;
    const char *text = mba_tokenizer_token(p->tokenizer, id, &n);
    if (p->prompt) fwrite(p->prompt, 1, p->bytes, stdout);
    p->prompt = NULL;
    if (text) fwrite(text, 1, n, stdout);
    fflush(stdout);
    return MBA_OK;
}

/* Reads standard input without its final line break, which comes from the shell. The caller frees *out. */
static mba_status read_prompt(char **out, size_t *bytes)
{
    size_t room = 0;
    *out = NULL;
    *bytes = 0;
    do {
        char *more = *bytes < room ? *out : realloc(*out, room = room ? 2 * room : 4096);
        if (!more) return mba_fail(MBA_E_NOMEM, "no memory for the prompt\nfix: shorten it");
        *out = more;
        *bytes += fread(*out + *bytes, 1, room - *bytes, stdin);
    } while (*bytes == room && room < PROMPT_MAX);
    if (ferror(stdin) || *bytes >= PROMPT_MAX)
        return mba_fail(MBA_E_IO, "cannot read the prompt from standard input\nwhy: %s\nfix: use --prompt TEXT",
                        ferror(stdin) ? "reading failed" : "it is longer than 64 MB");
    if (*bytes && (*out)[*bytes - 1] == '\n') --*bytes;
    return MBA_OK;
}

static mba_status run(mba_tokenizer *t, const char *prompt, size_t bytes, int64_t n, mba_generate_options *o)
{
    mba_ids    ids = { 0 };
    printer    p = { t, prompt, bytes };
    mba_status st = mba_tokenizer_encode(t, &ids, prompt, bytes);
    if (st == MBA_OK && ids.n == 0)
        st = mba_fail(MBA_E_ARG,
                      "the prompt is empty\nfix: give --prompt at least one character, or a text on standard input");
    int32_t *all = st == MBA_OK ? calloc((size_t)(ids.n + n), sizeof *all) : NULL;
    if (st == MBA_OK && !all) st = mba_fail(MBA_E_NOMEM, "no memory for %lld tokens", (long long)(ids.n + n));
    if (st == MBA_OK) {
        memcpy(all, ids.id, sizeof *all * (size_t)ids.n);
        o->vocab = mba_tokenizer_vocab(t);
        o->each = print_token;
        o->ctx = &p;
        st = mba_generate(all, ids.n, ids.n + n, o);
        o->ctx = NULL; // p ends here
        if (!p.prompt) putchar('\n');
    }
    free(all);
    free(ids.id);
    return st;
}

mba_status mba_command_generate(int argc, char **argv)
{
    mba_generate_options o = { .temperature = 0.8, .top = 40 };
    const char          *prompt = NULL, *tokenizer = NULL;
    int64_t              n = 200, seed = 1;
    bool                 help;

    const mba_option options[] = {
        { "--checkpoint", MBA_OPT_TEXT, &o.checkpoint, "DIR",
          "checkpoint folder, ours or Hugging Face; the folder of a run: its newest checkpoint", 0, 0 },
        { "--prompt", MBA_OPT_TEXT, &prompt, "TEXT",
          "text to continue; - = read it from standard input [standard input if it is not a terminal]", 0, 0 },
        { "--tokens", MBA_OPT_INT, &n, "N", "number of tokens to generate [200]", 1, 1e7 },
        { "--temperature", MBA_OPT_REAL, &o.temperature, "X",
          "sampling temperature, 0 = always the most likely token [0.8]", 0, 100 },
        { "--top-k", MBA_OPT_INT, &o.top, "K", "sample from the K most likely tokens, 0 = from all [40]", 0, 1e7 },
        MBA_OPTION_ALIAS("--top", "--top-k"),
        { "--top-p", MBA_OPT_REAL, &o.top_p, "P",
          "sample from the smallest set of tokens whose probabilities sum to P [1 = from all]", 1e-9, 1 },
        { "--seed", MBA_OPT_INT, &seed, "N", "seed of the sampling [1]", 0, 9e15 },
        { "--tokenizer", MBA_OPT_TEXT, &tokenizer, "PATH", "tokenizer.json, or bytes [that of the checkpoint]", 0, 0 },
        { 0 },
    };
    const mba_usage usage = { "generate", "--checkpoint DIR [options]",
                              "Continues a text with a trained model, token by token.", options,
                              "mambascope generate --checkpoint run/step-001000 --prompt 'And God said' --tokens 400\n"
                              "mambascope generate --checkpoint run/best --top-p 0.9 <chapter.txt\n" };
    mba_tokenizer  *t = NULL;
    char            path[4096], *read = NULL;
    size_t          bytes;
    MBA_TRY(mba_options_parse(&usage, argc, argv, NULL, &help));
    if (help) return MBA_OK;
    if (!o.checkpoint) return mba_fail(MBA_E_ARG, "generate needs --checkpoint\nfix: mambascope generate --help");
    MBA_TRY(mba_checkpoint_find(path, sizeof path, o.checkpoint));
    MBA_TRY(mba_checkpoint_verify(path, false));
    o.checkpoint = path;
    o.seed = (uint64_t)seed;
    MBA_TRY(mba_notes_print(path));
    MBA_TRY(mba_generate_check(path));
    mba_status st = mba_checkpoint_tokenizer(&t, tokenizer, o.checkpoint);
    if (!prompt && isatty(STDIN_FILENO)) prompt = "In the beginning";
    if (st == MBA_OK && (!prompt || !strcmp(prompt, "-"))) {
        st = read_prompt(&read, &bytes);
        if (st == MBA_OK) st = run(t, read, bytes, n, &o);
        free(read);
    } else if (st == MBA_OK) {
        st = run(t, prompt, strlen(prompt), n, &o);
    }
    mba_tokenizer_destroy(t);
    return st;
}
