// SPDX-License-Identifier: Apache-2.0
/* generate.c -- see generate.h: sampling, and the loop that computes the next logits. */
#include "train/generate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/rng.h"
#include "train/checkpoint.h"

static int likelier(const void *x, const void *y)
{
    const mba_choice *a = x, *b = y;
    return a->logit != b->logit ? (a->logit < b->logit ? 1 : -1) : a->token - b->token;
}

static double weight(const mba_choice *c, int64_t i, double temperature)
{
    return exp((double)(c[i].logit - c[0].logit) / temperature);
}

/* Returns how many of the n most likely tokens, whose weights sum to *sum, are needed for the fraction p of the sum.
 * *sum becomes the sum of those. */
static int64_t nucleus(const mba_choice *c, int64_t n, double p, double temperature, double *sum)
{
    const double enough = p * *sum;
    int64_t      k = 0;
    *sum = 0;
    do *sum += weight(c, k++, temperature);
    while (k < n && *sum < enough);
    return k;
}

/* Samples from softmax(logits / temperature) over the `top` most likely tokens, and of those over the nucleus of
 * `top_p`. */
int32_t mba_generate_draw(mba_choice *c, const float *logits, int64_t V, const mba_generate_options *o, int64_t at)
{
    const int64_t n = o->vocab > 0 && o->vocab < V ? o->vocab : V;
    int64_t       top = o->top > 0 && o->top < n ? o->top : n;
    uint32_t      u[4];
    double        sum = 0;
    for (int64_t i = 0; i < n; i++) c[i] = (mba_choice){ logits[i], (int32_t)i };
    qsort(c, (size_t)n, sizeof *c, likelier);
    if (!(o->temperature > 0)) return c[0].token;
    for (int64_t i = 0; i < top; i++) sum += weight(c, i, o->temperature);
    if (o->top_p > 0 && o->top_p < 1) top = nucleus(c, top, o->top_p, o->temperature, &sum);
    mba_philox(u, o->seed ^ mba_stream("generate"), 0, (uint64_t)at);
    double left = mba_unit(u[0]) * sum;
    for (int64_t i = 0; i < top; i++) {
        left -= weight(c, i, o->temperature);
        if (left <= 0) return c[i].token;
    }
    return c[top - 1].token;
}

/* Computes the logits of the token that follows ids[0 .. n-1]. */
static mba_status next_logits(const float **out, mba_session *s, const int32_t *ids, int64_t n)
{
    static const mba_step step = { .seed = 1 };
    int32_t              *tokens = mba_session_at(s, "tokens");
    const float          *logits = mba_session_at(s, "logits");
    if (s->model.lm.carry) {
        tokens[0] = ids[n - 1];
        MBA_TRY(mba_program_run(s->program, MBA_FORWARD, &step, NULL));
        MBA_TRY(mba_program_wait(s->program));
        mba_session_carry(s);
        *out = logits;
    } else {
        memcpy(tokens, ids, sizeof *ids * (size_t)n); // the model is causal: tokens after n have no effect
        MBA_TRY(mba_program_run(s->program, MBA_FORWARD, &step, NULL));
        MBA_TRY(mba_program_wait(s->program));
        *out = logits + (n - 1) * s->model.lm.vocab;
    }
    return MBA_OK;
}

/* Refuses NaN, which can neither be sorted nor sampled. */
static mba_status check_logits(const float *logits, int64_t V, int64_t at)
{
    for (int64_t i = 0; i < V; i++)
        if (isnan(logits[i]))
            return mba_fail(MBA_E_FORMAT,
                            "the logits of token %lld are not finite\nwhy: the weights are "
                            "damaged or diverged\nfix: use an earlier checkpoint of the run",
                            (long long)at);
    return MBA_OK;
}

static mba_status fill(int32_t *ids, int64_t n, int64_t room, mba_session *s, const mba_generate_options *o)
{
    mba_choice  *c = malloc(sizeof *c * (size_t)s->model.lm.vocab);
    const float *logits;
    mba_status   st = c ? MBA_OK : mba_fail(MBA_E_NOMEM, "no memory to choose tokens");
    for (int64_t i = 1; s->model.lm.carry && i < n && st == MBA_OK; i++) st = next_logits(&logits, s, ids, i);
    for (int64_t i = n; i < room && st == MBA_OK; i++) {
        st = next_logits(&logits, s, ids, i);
        if (st == MBA_OK) st = check_logits(logits, s->model.lm.vocab, i);
        if (st != MBA_OK) break;
        ids[i] = mba_generate_draw(c, logits, s->model.lm.vocab, o, i);
        if (o->each) st = o->each(o->ctx, ids[i]);
    }
    free(c);
    return st;
}

static mba_status read_config(mba_model *m, mba_hf_format *format, const char *checkpoint)
{
    MBA_TRY(mba_checkpoint_config(m, format, checkpoint));
    if (m->task == MBA_TASK_TEXT) return MBA_OK;
    return mba_fail(MBA_E_ARG,
                    "'%s' is a model of %s\nwhy: only text models generate text\nfix: give "
                    "--checkpoint a text model",
                    checkpoint, mba_task_name(m->task));
}

mba_status mba_generate_check(const char *checkpoint)
{
    mba_model     m;
    mba_hf_format format;
    return read_config(&m, &format, checkpoint);
}

mba_status mba_generate(int32_t *ids, int64_t n, int64_t room, const mba_generate_options *o)
{
    mba_session         s = { 0 };
    mba_session_options so = { 0 };
    mba_hf_format       format;
    MBA_TRY(read_config(&so.model, &format, o->checkpoint));
    mba_lm whole = so.model.lm;
    MBA_TRY(mba_lm_complete(&whole));
    so.model.lm.head = MBA_HEAD_LOGITS;
    so.model.lm.carry = !strchr(whole.pattern, '*');
    so.model.lm.batch = 1;
    so.model.lm.length = so.model.lm.carry ? 1 : room;
    for (int64_t i = 0; i < n; i++)
        if (ids[i] < 0 || ids[i] >= whole.vocab)
            return mba_fail(MBA_E_ARG,
                            "token %d is not in the model's vocabulary of %lld\nfix: use the tokenizer of its "
                            "training",
                            ids[i], (long long)whole.vocab);
    mba_status st = mba_session_plan(&s, &so);
    if (st == MBA_OK) st = mba_session_take(&s);
    if (st == MBA_OK) st = mba_checkpoint_load(&s, format, o->checkpoint);
    if (st == MBA_OK) st = fill(ids, n, room, &s, o);
    mba_session_end(&s);
    return st;
}
