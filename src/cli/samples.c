// SPDX-License-Identifier: Apache-2.0
/* samples.c -- see samples.h. */
#include "cli/samples.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "data/tokenizer.h"
#include "scope/export.h"
#include "train/generate.h"
#include "train/text_data.h"

enum { TOKENS = 120, PATH_ROOM = 4096 };

static mba_status write_line(const char *run, int64_t step, const char *prompt, const char *text)
{
    char path[PATH_ROOM];
    snprintf(path, sizeof path, "%s/samples.jsonl", run);
    FILE *f = fopen(path, "a");
    if (f) {
        fprintf(f, "{\"step\": %lld, \"prompt\": ", (long long)step);
        mba_export_string(f, prompt);
        fputs(", \"text\": ", f);
        mba_export_string(f, text);
        fputs("}\n", f);
    }
    const bool whole = f && !ferror(f);
    return (!f || !fclose(f)) && whole
               ? MBA_OK
               : mba_fail(MBA_E_IO, "cannot write '%s'\nwhy: %s\nfix: is the disk full?", path, strerror(errno));
}

/* The tokens as text, without NUL bytes. */
static mba_status text_of(char **out, mba_tokenizer *t, const int32_t *id, int64_t n)
{
    size_t bytes = 0;
    FILE  *f = open_memstream(out, &bytes);
    if (!f) return mba_fail(MBA_E_NOMEM, "no memory for a sample");
    for (int64_t i = 0; i < n; i++) {
        size_t      k;
        const char *text = mba_tokenizer_token(t, id[i], &k);
        for (size_t j = 0; text && j < k; j++)
            if (text[j]) fputc(text[j], f);
    }
    return !fclose(f) && *out ? MBA_OK : mba_fail(MBA_E_NOMEM, "no memory for a sample");
}

static mba_status continue_text(char **out, mba_tokenizer *t, const char *prompt, const mba_generate_options *o)
{
    mba_ids    ids = { 0 };
    mba_status st = mba_tokenizer_encode(t, &ids, prompt, strlen(prompt));
    if (st == MBA_OK && !ids.n)
        st = mba_fail(MBA_E_ARG, "--sample is empty\nfix: give a text of at least one character");
    int32_t *all = st == MBA_OK ? calloc((size_t)(ids.n + TOKENS), sizeof *all) : NULL;
    if (st == MBA_OK && !all) st = mba_fail(MBA_E_NOMEM, "no memory for a sample");
    if (st == MBA_OK) memcpy(all, ids.id, sizeof *all * (size_t)ids.n);
    if (st == MBA_OK) st = mba_generate(all, ids.n, ids.n + TOKENS, o);
    if (st == MBA_OK) st = text_of(out, t, all + ids.n, TOKENS);
    free(all);
    free(ids.id);
    return st;
}

mba_status mba_sample_keep(const char *run, const char *checkpoint, int64_t step, const char *prompt, uint64_t seed)
{
    mba_tokenizer *t = NULL;
    char          *text = NULL;
    MBA_TRY(mba_checkpoint_tokenizer(&t, NULL, checkpoint));
    mba_status st = continue_text(
        &text, t, prompt,
        &(mba_generate_options){
            .checkpoint = checkpoint, .temperature = 0.8, .top = 40, .vocab = mba_tokenizer_vocab(t), .seed = seed });
    if (st == MBA_OK) st = write_line(run, step, prompt, text);
    free(text);
    mba_tokenizer_destroy(t);
    return st;
}

void mba_samples_forget(const char *run)
{
    char path[PATH_ROOM];
    snprintf(path, sizeof path, "%s/samples.jsonl", run);
    unlink(path);
}
