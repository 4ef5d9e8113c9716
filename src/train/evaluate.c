/* evaluate.c -- see evaluate.h. */
#include "train/evaluate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "data/loader.h"
#include "data/npy.h"
#include "train/checkpoint.h"

/* (B, L) of int32 or int64 values below the vocabulary. */
static mba_status check_tokens(const mba_array *a, int64_t vocab, mba_lm *c)
{
    if (a->rank != 2 || (a->dtype != MBA_WIRE_I32 && a->dtype != MBA_WIRE_I64) || a->elems < 1)
        return mba_fail(MBA_E_FORMAT, "the tokens in '%s' are %s %s\nfix: int32 or int64 of shape (batch, length)", a->file,
                        mba_wire_name(a->dtype), mba_shape_words(a->rank, a->shape).text);
    for (int64_t i = 0; i < a->elems; i++) {
        int32_t w[2] = { 0, 0 };
        memcpy(w, (const char *)a->data + i * (int64_t)mba_wire_bytes(a->dtype), mba_wire_bytes(a->dtype));
        const int64_t v = a->dtype == MBA_WIRE_I32 ? w[0] : (int64_t)((uint64_t)(uint32_t)w[1] << 32 | (uint32_t)w[0]);
        if (v < 0 || v >= vocab)
            return mba_fail(MBA_E_FORMAT, "token %lld of '%s' is %lld\nwhy: the vocabulary of the model has %lld", (long long)i, a->file,
                            (long long)v, (long long)vocab);
    }
    c->batch  = a->shape[0];
    c->length = a->shape[1];
    return MBA_OK;
}

/* Inputs are the tokens; the target of a position is the next token, and the last position has none. */
static void set_inputs(mba_session *s, const mba_array *a)
{
    const int64_t B = s->model.batch, L = s->model.length;
    const size_t  w = mba_wire_bytes(a->dtype);
    int32_t      *tokens = mba_session_at(s, "tokens"), *targets = s->io.targets ? mba_session_at(s, "targets") : NULL;
    for (int64_t i = 0; i < B * L; i++) memcpy(&tokens[i], (const char *)a->data + i * (int64_t)w, 4);   // little-endian, checked
    for (int64_t i = 0; targets && i < B * L; i++) targets[i] = i % L + 1 < L ? tokens[i + 1] : -1;
}

static mba_status run(mba_evaluation *out, mba_session *s, const mba_evaluate_options *o, mba_hf_format format)
{
    const int64_t B = s->model.batch, L = s->model.length, V = s->model.vocab;
    const mba_step step = { .seed = 1 };
    MBA_TRY(mba_program_run(s->program, o->grads ? MBA_FORWARD | MBA_BACKWARD : MBA_FORWARD, &step, NULL));
    *out = (mba_evaluation){ .loss = s->io.loss ? (double)*(const float *)mba_session_at(s, "loss") : NAN, .tokens = B * (L - 1),
                             .parameters = mba_session_parameters(s) };
    if (o->logits) MBA_TRY(mba_npy_write(o->logits, MBA_WIRE_F32, 3, (int64_t[]){ B, L, V }, mba_session_at(s, "logits")));
    return o->grads ? mba_checkpoint_save_grads(s, format, o->checkpoint, o->grads) : MBA_OK;
}

static mba_status evaluate(mba_evaluation *out, const mba_evaluate_options *o, const mba_array *tokens)
{
    mba_session         s  = { 0 };
    mba_session_options so = o->session;
    mba_hf_format       format;
    MBA_TRY(mba_checkpoint_config(&so.model, &format, o->checkpoint));
    MBA_TRY(check_tokens(tokens, so.model.vocab, &so.model));
    if (so.model.length == 1 && o->grads) return mba_fail(MBA_E_ARG, "sequences of one token have no loss and no gradients\nfix: leave --grads out");
    so.model.head = so.model.length == 1 ? MBA_HEAD_LOGITS : o->logits ? MBA_HEAD_BOTH : MBA_HEAD_LOSS;
    so.backward   = o->grads != NULL;
    mba_status st = mba_session_plan(&s, &so);
    if (st == MBA_OK) st = mba_program_bind(s.program, &mba_device_cpu);
    if (st == MBA_OK) st = mba_checkpoint_load(&s, format, o->checkpoint);
    if (st == MBA_OK) {
        set_inputs(&s, tokens);
        st = run(out, &s, o, format);
    }
    mba_session_end(&s);
    return st;
}

/* ---- the held-out part of a data set ---- */

static mba_status sum_batches(mba_evaluation *out, mba_session *s, const mba_loader *l)
{
    mba_batch    b = { .tokens = mba_session_at(s, "tokens"), .targets = mba_session_at(s, "targets") };
    mba_position at = { 0 };
    const mba_step step = { .seed = 1 };
    double       sum = 0;
    const int64_t batches = mba_loader_batches(l);
    for (int64_t i = 0; i < batches; i++) {
        MBA_TRY(mba_loader_next(l, &b, &at));
        MBA_TRY(mba_program_run(s->program, MBA_FORWARD, &step, NULL));
        sum += (double)*(const float *)mba_session_at(s, "loss");
    }
    *out = (mba_evaluation){ .loss = sum / (double)batches, .tokens = batches * s->model.batch * s->model.length,
                             .parameters = mba_session_parameters(s) };
    return MBA_OK;
}

static mba_status evaluate_data(mba_evaluation *out, const mba_evaluate_options *o)
{
    mba_session         s  = { 0 };
    mba_loader         *l  = NULL;
    mba_session_options so = o->session;
    mba_hf_format       format;
    if (o->logits || o->grads) return mba_fail(MBA_E_ARG, "--logits and --grads go with --tokens, not with --data");
    MBA_TRY(mba_checkpoint_config(&so.model, &format, o->checkpoint));
    so.model.batch  = o->batch > 0 ? o->batch : 8;
    so.model.length = o->length > 0 ? o->length : 256;
    mba_status st = mba_loader_create(&l, &(mba_loader_options){ .data = o->data, .B = so.model.batch, .L = so.model.length, .vocab = so.model.vocab,
                        .split = o->validation > 0 ? MBA_SPLIT_VALIDATION : MBA_SPLIT_ALL, .validation = o->validation });
    if (st == MBA_OK) st = mba_session_plan(&s, &so);
    if (st == MBA_OK) st = mba_program_bind(s.program, &mba_device_cpu);
    if (st == MBA_OK) st = mba_checkpoint_load(&s, format, o->checkpoint);
    if (st == MBA_OK) st = sum_batches(out, &s, l);
    mba_session_end(&s);
    mba_loader_destroy(l);
    return st;
}

mba_status mba_evaluate(mba_evaluation *out, const mba_evaluate_options *o)
{
    mba_npy *f = NULL;
    if (o->data) return evaluate_data(out, o);
    MBA_TRY(mba_npy_open(&f, o->tokens));
    const mba_status st = evaluate(out, o, mba_npy_array(f));
    mba_npy_close(f);
    return st;
}
