/* lm_config.c -- completing, checking and changing a configuration. */
#include <stdlib.h>
#include <string.h>

#include "models/lm.h"

static bool has(const mba_lm *c, const char *symbols) { return strpbrk(c->pattern, symbols) != NULL; }

/* The pattern and the number of layers say the same thing twice; either may be given. */
static mba_status complete_pattern(mba_lm *c)
{
    if (!c->pattern[0]) {
        if (c->layers < 1 || c->layers >= MBA_PATTERN_MAX || !c->symbol)
            return mba_fail(MBA_E_ARG, "%lld layers\nfix: between 1 and %d", (long long)c->layers, MBA_PATTERN_MAX - 1);
        memset(c->pattern, c->symbol, (size_t)c->layers);
        c->pattern[c->layers] = 0;
    }
    const size_t n = strlen(c->pattern);
    if (strspn(c->pattern, "mM*-+") != n)
        return mba_fail(MBA_E_ARG, "the pattern \"%s\" has a symbol nobody knows\n"
                        "fix: m Mamba-1, M Mamba-2, * attention, - squared-ReLU MLP, + SwiGLU MLP", c->pattern);
    for (size_t k = 0; c->paired && k < n; k++)
        if (n % 2 || (k % 2 == 1) != (c->pattern[k] == '+' || c->pattern[k] == '-'))
            return mba_fail(MBA_E_ARG, "the pattern \"%s\" does not read as pairs of a mixer and an MLP", c->pattern);
    c->layers = (int64_t)n / (c->paired ? 2 : 1);
    return MBA_OK;
}

static void complete_numbers(mba_lm *c)
{
#define X(field, value, least, text) if (!c->field) c->field = (value);
    MBA_LM_FIELDS(X)
#undef X
    if (!c->compute)     c->compute = MBA_F32;
    if (!(c->eps > 0))   c->eps = 1e-5;
    if (!(c->rope_base > 0)) c->rope_base = 10000;
    if (!c->inner)       c->inner = 2 * c->width;
    if (!c->heads)       c->heads = c->inner / c->head_dim;
    if (!c->norm_groups) c->norm_groups = c->groups;
    if (!c->dt_rank)     c->dt_rank = (c->width + 15) / 16;
    if (!c->kv_heads)    c->kv_heads = c->q_heads;
    if (!c->attn_dim && c->q_heads) c->attn_dim = c->width / c->q_heads;
}

/* What the pattern has no use for says nothing about the model. */
static void drop_unused(mba_lm *c)
{
    if (!has(c, "*")) c->q_heads = c->kv_heads = c->attn_dim = c->attn_bias = c->attn_conv = c->rotary = 0;
    if (!has(c, "-+")) c->mlp = c->mlp_bias = 0;
    if (!has(c, "m")) c->inner_norms = 0;
}

/* Sizes beyond these are typing errors or hostile files; every product below stays within 64 bits. */
static mba_status check_ranges(const mba_lm *c)
{
    const int64_t most = INT64_C(1) << 24;
#define X(field, value, least, text)                                                                                 \
    if (c->field < 0 || c->field > most)                                                                             \
        return mba_fail(MBA_E_ARG, "%s = %lld\nwhy: %s\nfix: between 0 and %lld", #field, (long long)c->field, text, \
                        (long long)most);
    MBA_LM_FIELDS(X)
#undef X
    if (c->batch < 1 || c->batch > most || c->length < 1 || c->length > INT64_C(1) << 31)
        return mba_fail(MBA_E_ARG, "a batch of %lld sequences of %lld tokens\nfix: both at least 1", (long long)c->batch,
                        (long long)c->length);
    return MBA_OK;
}

static mba_status need(bool fact, const char *field, int64_t value, const char *why)
{
    return fact ? MBA_OK : mba_fail(MBA_E_ARG, "%s = %lld does not fit\nwhy: %s", field, (long long)value, why);
}

static mba_status check_mamba2(const mba_lm *c)
{
    MBA_TRY(need(c->heads >= 1 && c->heads * c->head_dim == c->inner, "heads", c->heads, "heads x head_dim must be the inner width"));
    MBA_TRY(need(c->heads % c->groups == 0, "groups", c->groups, "it must divide the heads"));
    MBA_TRY(need(c->inner % c->norm_groups == 0, "norm_groups", c->norm_groups, "it must divide the inner width"));
    if (c->dt_min < 0 || (c->dt_max > 0 && c->dt_max < c->dt_min))
        return mba_fail(MBA_E_ARG, "step limits %g .. %g\nfix: 0 <= dt_min <= dt_max", c->dt_min, c->dt_max);
    return MBA_OK;
}

static mba_status check_attention(const mba_lm *c)
{
    MBA_TRY(need(c->q_heads >= 1 && c->attn_dim >= 1, "q_heads", c->q_heads, "the pattern has attention"));
    MBA_TRY(need(c->kv_heads >= 1 && c->q_heads % c->kv_heads == 0, "kv_heads", c->kv_heads, "it must divide the query heads"));
    MBA_TRY(need(c->rotary % 2 == 0 && c->rotary <= c->attn_dim, "rotary", c->rotary, "an even number within the head"));
    if (c->carry)
        return mba_fail(MBA_E_UNSUPPORTED, "attention cannot carry its state from segment to segment\n"
                        "why: its state is all keys and values\nfix: leave --carry out, or use a model without attention");
    return MBA_OK;
}

mba_status mba_lm_complete(mba_lm *c)
{
    if (!c->batch)  c->batch = 1;
    if (!c->length) c->length = 2048;
    MBA_TRY(check_ranges(c));
    MBA_TRY(complete_pattern(c));
    drop_unused(c);
    complete_numbers(c);
    MBA_TRY(check_ranges(c));
    MBA_TRY(need(c->width >= 1, "width", c->width, "a model has at least one channel"));
    MBA_TRY(need(c->vocab >= 2, "vocab", c->vocab, "at least two symbols"));
    MBA_TRY(need(c->conv <= 16, "conv", c->conv, "at most 16 taps"));
    if (has(c, "M")) MBA_TRY(check_mamba2(c));
    if (has(c, "*")) MBA_TRY(check_attention(c));
    if (has(c, "-+")) MBA_TRY(need(c->mlp >= 1, "mlp", c->mlp, "the pattern has MLPs"));
    return MBA_OK;
}

static int64_t *field_of(mba_lm *c, const char *name, size_t n)
{
#define X(field, value, least, text) if (n == sizeof #field - 1 && !strncmp(name, #field, n)) return &c->field;
    MBA_LM_FIELDS(X)
#undef X
    return NULL;
}

static mba_status set_one(mba_lm *c, const char *s, size_t n)
{
    const char  *eq   = memchr(s, '=', n);
    const size_t name = eq ? (size_t)(eq - s) : n, rest = eq ? n - name - 1 : 0;
    int64_t     *f    = field_of(c, s, name);
    if (eq && name == 7 && !strncmp(s, "pattern", 7) && rest < MBA_PATTERN_MAX) {
        memcpy(c->pattern, eq + 1, rest);
        c->pattern[rest] = 0;
        return MBA_OK;
    }
    if (eq && name == 6 && !strncmp(s, "dt_min", 6)) { c->dt_min = strtod(eq + 1, NULL); return MBA_OK; }
    if (eq && name == 6 && !strncmp(s, "dt_max", 6)) { c->dt_max = strtod(eq + 1, NULL); return MBA_OK; }
    char *end = NULL;
    const long long v = eq ? strtoll(eq + 1, &end, 10) : 0;
    if (!f || !eq || end == eq + 1 || end != s + n)
        return mba_fail(MBA_E_ARG, "cannot set '%.*s'\nfix: NAME=NUMBER, with a name of `mambascope list fields`", (int)n, s);
    *f = v;
    if (f == &c->layers && c->symbol) c->pattern[0] = 0;
    return MBA_OK;
}

mba_status mba_lm_set(mba_lm *c, const char *assignments)
{
    for (const char *s = assignments; s && *s;) {
        const size_t n = strcspn(s, ",");
        MBA_TRY(set_one(c, s, n));
        s += n + (s[n] == ',');
    }
    return MBA_OK;
}
