// SPDX-License-Identifier: Apache-2.0
/* lm_config.c -- completes, checks and changes the configuration of a language model (lm.h). */
#include <stdio.h>
#include <string.h>

#include "models/model.h"

static bool has(const mba_lm *c, const char *symbols) { return strpbrk(c->pattern, symbols) != NULL; }

/* A list for messages: "m Mamba-1, M Mamba-2, .." */
typedef struct symbol_list {
    char text[256];
} symbol_list;

static symbol_list symbols(void)
{
    symbol_list l = { "" };
    size_t      n = 0;
    for (int k = 0; mba_families[k]; k++)
        for (const mba_lm_mixer *m = mba_families[k]->mixers; m && m->symbol && n < sizeof l.text; m++)
            n += (size_t)snprintf(l.text + n, sizeof l.text - n, "%s%c %s", n ? ", " : "", m->symbol, m->what);
    return l;
}

/* Derives the pattern from the number of layers, or the number from the pattern: either may be given. */
static mba_status complete_pattern(mba_lm *c)
{
    if (!c->pattern[0]) {
        if (c->layers < 1 || c->layers >= MBA_PATTERN_MAX || !c->symbol)
            return mba_fail(MBA_E_ARG, "%lld layers are not possible\nfix: choose a number from 1 to %d",
                            (long long)c->layers, MBA_PATTERN_MAX - 1);
        memset(c->pattern, c->symbol, (size_t)c->layers);
        c->pattern[c->layers] = 0;
    }
    const size_t n = strlen(c->pattern);
    for (size_t k = 0; k < n; k++)
        if (!mba_lm_mixer_of(c->pattern[k]))
            return mba_fail(MBA_E_ARG, "the pattern \"%s\" has an unknown symbol\nfix: %s", c->pattern, symbols().text);
    for (size_t k = 0; c->paired && k < n; k++)
        if (n % 2 || (k % 2 == 1) != mba_lm_mixer_of(c->pattern[k])->mlp)
            return mba_fail(MBA_E_ARG,
                            "the pattern \"%s\" does not consist of pairs of a mixer and an "
                            "MLP\nfix: --set paired=0, or a pattern such as M+M+",
                            c->pattern);
    c->layers = (int64_t)n / (c->paired ? 2 : 1);
    return MBA_OK;
}

static void complete_numbers(mba_lm *c)
{
#define X(field, value, least, most, text) \
    if (!c->field) c->field = (value);
    MBA_LM_FIELDS(X)
#undef X
    if (!c->compute) c->compute = MBA_F32;
    if (!(c->eps > 0)) c->eps = 1e-5;
    if (!(c->rope_base > 0)) c->rope_base = 10000;
    if (!c->inner) c->inner = 2 * c->width;
    if (!c->heads) c->heads = c->inner / c->head_dim;
    if (!c->norm_groups) c->norm_groups = c->groups;
    if (!c->dt_rank) c->dt_rank = (c->width + 15) / 16;
    if (!c->kv_heads) c->kv_heads = c->q_heads;
    if (!c->attn_dim && c->q_heads) c->attn_dim = c->width / c->q_heads;
}

/* Clears fields that no mixer of the pattern uses. */
static void drop_unused(mba_lm *c)
{
    if (!has(c, "*")) c->q_heads = c->kv_heads = c->attn_dim = c->attn_bias = c->attn_conv = c->rotary = 0;
    if (!has(c, "-+")) c->mlp = c->mlp_bias = 0;
    if (!has(c, "m")) c->inner_norms = 0;
}

/* Larger sizes are typing errors or hostile files. Within these limits every product below fits into 64 bits. */
static mba_status check_ranges(const mba_lm *c)
{
    const int64_t rows = INT64_C(1) << 24;
#define X(field, value, least, most, text) \
    if (c->field < 0 || c->field > (most)) \
        return mba_fail(MBA_E_ARG, "%s = %lld is not possible\nwhy: %s\nfix: choose a number from 0 to %lld", #field, \
                        (long long)c->field, text, (long long)(most));
    MBA_LM_FIELDS(X)
#undef X
    if (c->batch < 1 || c->batch > rows || c->length < 1 || c->length > INT64_C(1) << 31)
        return mba_fail(MBA_E_ARG,
                        "a batch of %lld sequences of %lld tokens is not possible\nfix: choose at "
                        "least 1 of each, at most %lld sequences of 2147483648",
                        (long long)c->batch, (long long)c->length, (long long)rows);
    return MBA_OK;
}

mba_status mba_lm_need(bool fact, const char *field, int64_t value, const char *why)
{
    if (fact) return MBA_OK;
    return mba_fail(MBA_E_ARG, "%s = %lld does not fit\nwhy: %s\nfix: --set %s=..; mambascope list fields explains it",
                    field, (long long)value, why, field);
}

/* Checks every mixer of the pattern once. */
static mba_status check_mixers(const mba_lm *c)
{
    for (const char *s = c->pattern; *s; s++) {
        const mba_lm_mixer *m = mba_lm_mixer_of(*s);
        if (m->check && strchr(c->pattern, *s) == s) MBA_TRY(m->check(c));
    }
    return MBA_OK;
}

/* States and the last inputs of convolutions go to the next part without document numbers. */
static mba_status check_sequence(const mba_lm *c)
{
    const int64_t ranks = c->sequence.ranks, less = c->length - c->length % ranks;
    if (c->length % ranks)
        return mba_fail(MBA_E_ARG,
                        "sequences of %lld tokens do not divide among %lld ranks\nwhy: every rank holds an equal "
                        "part\nfix: --length %lld",
                        (long long)c->length, (long long)ranks, (long long)(less ? less : ranks));
    if (c->carry || c->documents)
        return mba_fail(MBA_E_UNSUPPORTED, "--sequence-ranks with %s\nwhy: %s\nfix: leave one of them out",
                        c->carry ? "--carry" : "--documents",
                        c->carry ? "the state before a part comes from another rank, not from the last batch"
                                 : "a part does not know where documents of the part before it begin");
    return MBA_OK;
}

mba_status mba_lm_complete(mba_lm *c)
{
    if (!c->batch) c->batch = 1;
    if (!c->length) c->length = 2048;
    MBA_TRY(check_ranges(c));
    MBA_TRY(complete_pattern(c));
    drop_unused(c);
    complete_numbers(c);
    MBA_TRY(check_ranges(c));
    MBA_TRY(mba_lm_need(c->width >= 1, "width", c->width, "a model has at least one channel"));
    MBA_TRY(mba_lm_need(c->vocab >= 2, "vocab", c->vocab, "at least two symbols"));
    if (c->sequence.ranks > 1) MBA_TRY(check_sequence(c));
    return check_mixers(c);
}

const mba_field mba_lm_fields[] = {
#define X(field, value, least_, most_, text) \
    { #field, MBA_FIELD_INT, offsetof(mba_lm, field), 0, (value), NULL, text, .least = (least_), .most = (most_) },
    MBA_LM_FIELDS(X)
#undef X
// clang-format off
#define REAL(field, value, text) \
    { #field, MBA_FIELD_REAL, offsetof(mba_lm, field), .standard = (value), .meaning = text }
    // clang-format on
    REAL(eps, 1e-5, "added to the mean square in the norms"),
    REAL(eps_inner, 0, "the same in Jamba's inner norms (0: eps)"),
    REAL(dt_min, 0, "least step of Mamba-2"),
    REAL(dt_max, 0, "largest step of Mamba-2; 0: any"),
    REAL(rope_base, 10000, "base of the rotary angles"),
#undef REAL
    { "pattern", MBA_FIELD_TEXT, offsetof(mba_lm, pattern), MBA_PATTERN_MAX,
      .meaning = "layers: m Mamba-1, M Mamba-2, * attention, - squared-ReLU MLP, + SwiGLU MLP" },
    { 0 },
};

/* Setting the layers of a homogeneous model discards its pattern, which is derived again, unless that is given too. */
mba_status mba_lm_set(mba_lm *c, const char *assignments)
{
    const mba_lm before = *c;
    MBA_TRY(mba_fields_set(c, mba_lm_fields, assignments));
    if (c->symbol && c->layers != before.layers && !strcmp(c->pattern, before.pattern)) c->pattern[0] = 0;
    return MBA_OK;
}
