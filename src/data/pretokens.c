// SPDX-License-Identifier: Apache-2.0
/* pretokens.c -- see pretokens.h: scanners for the patterns of GPT-2, Llama 3, GPT-4 and Qwen 2. */
#include "data/pretokens.h"

#include <string.h>

#include "data/literals.h"
#include "data/unicode.h"

/* The class of a character. ASCII is handled here, so that ordinary text needs no table of code points. */
static unsigned class_at(const char *at, const char **next)
{
    const unsigned char c = (unsigned char)*at;
    if (c < 0x80) {
        *next = at + 1;
        if ((c | 32) >= 'a' && (c | 32) <= 'z') return MBA_LETTER;
        if (c >= '0' && c <= '9') return MBA_NUMBER;
        return mba__ascii_space(*at) ? MBA_SPACE : MBA_UNICODE_OTHER;
    }
    *next = at;
    return mba_unicode_class(mba_utf8_next(next)) & MBA_CLASS;
}

static const char *run_end(const char *at, const char *end, unsigned class)
{
    const char *next;
    while (at < end && class_at(at, &next) == class) at = next;
    return at;
}

/* 's 't 're 've 'm 'll 'd */
static size_t contraction(const char *at, const char *end)
{
    if (end - at < 2 || at[0] != '\'') return 0;
    if (strchr("stmd", at[1]) && at[1]) return 2;
    if (end - at < 3) return 0;
    return (at[1] == 'r' && at[2] == 'e') || (at[1] == 'v' && at[2] == 'e') || (at[1] == 'l' && at[2] == 'l') ? 3 : 0;
}

/* The end of the word that begins here, by the pattern of GPT-2:
 * 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+ */
static const char *gpt2_word_end(const char *at, const char *end)
{
    const size_t short_form = contraction(at, end);
    if (short_form) return at + short_form;
    const char *next, *after;
    unsigned class = class_at(at, &next);
    if (*at == ' ' && next < end && class_at(next, &after) != MBA_SPACE) class = class_at(next, &next);
    if (class != MBA_SPACE) return run_end(next, end, class);
    // The last character of white space belongs to the following word, unless it is the only one.
    const char *last = at;
    for (; next < end && class_at(next, &after) == MBA_SPACE; next = after) last = next;
    return next == end || last == at ? next : last;
}

/* ---- Llama 3, GPT-4 and Qwen 2 ---- */

static bool is_newline(char c) { return c == '\r' || c == '\n'; }

/* 's 't 're 've 'm 'll 'd in any case; the long s is an s if case is ignored. */
static size_t contraction_any_case(const char *at, const char *end)
{
    if (end - at < 2 || at[0] != '\'') return 0;
    const char a = (char)(at[1] | 32), b = end - at > 2 ? (char)(at[2] | 32) : 0;
    if (a == 's' || a == 't' || a == 'm' || a == 'd') return 2;
    if (end - at > 2 && at[1] == '\xC5' && at[2] == '\xBF') return 3;
    return (a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l') ? 3 : 0;
}

/* \s*[\r\n]+|\s+(?!\S)|\s+: white space up to its last newline; without a newline, all but the last character, which
 * belongs to the following word. */
static const char *space_end(const char *at, const char *end)
{
    const char *next, *last = at, *after = at, *newline = NULL;
    while (after < end && class_at(after, &next) == MBA_SPACE) {
        last = after;
        if (is_newline(*last)) newline = next;
        after = next;
    }
    if (newline) return newline;
    return after == end || last == at ? after : last;
}

/* (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,digits}|
 * ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+ */
static const char *gpt4_word_end(const char *at, const char *end, int digits)
{
    const size_t short_form = contraction_any_case(at, end);
    if (short_form) return at + short_form;
    const char *next, *after;
    unsigned class = class_at(at, &next);
    const bool led = next < end && class != MBA_LETTER && class != MBA_NUMBER && !is_newline(*at);
    if (class == MBA_LETTER) return run_end(next, end, MBA_LETTER);
    if (led && class_at(next, &after) == MBA_LETTER) return run_end(after, end, MBA_LETTER);
    if (class == MBA_NUMBER) {
        for (int n = 1; n < digits && next < end && class_at(next, &after) == MBA_NUMBER; n++) next = after;
        return next;
    }
    if (*at == ' ' && next < end && class_at(next, &after) == MBA_UNICODE_OTHER) class = MBA_UNICODE_OTHER;
    if (class == MBA_SPACE) return space_end(at, end);
    next = run_end(next, end, MBA_UNICODE_OTHER);
    while (next < end && is_newline(*next)) next++;
    return next;
}

static const char *llama3_word_end(const char *at, const char *end) { return gpt4_word_end(at, end, 3); }
static const char *qwen2_word_end(const char *at, const char *end) { return gpt4_word_end(at, end, 1); }

/* ---- the known patterns ---- */

#define CASES  "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}"
#define OTHERS "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

const mba_pattern mba__pattern_gpt2 = {
    "GPT-2", "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+", gpt2_word_end, false
};
static const mba_pattern llama3 = { "Llama 3", CASES "{1,3}" OTHERS, llama3_word_end, true },
                         qwen2 = { "Qwen 2", CASES OTHERS, qwen2_word_end, true };

const mba_pattern *mba__pattern_find(const char *regex)
{
    static const mba_pattern *const known[] = { &mba__pattern_gpt2, &llama3, &qwen2 };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(known[i]->regex, regex)) return known[i];
    return NULL;
}

/* ---- where a long text may be cut ---- */

/* The class of the character that ends before text[i]. */
static unsigned class_before(const char *text, size_t i)
{
    const char *next;
    size_t      from = i - 1;
    while (from && i - from < 4 && ((unsigned char)text[from] & 0xC0) == 0x80) from--;
    if (!mba_utf8_valid(text + from, i - from)) return MBA_UNICODE_OTHER;
    return class_at(text + from, &next);
}

bool mba__may_cut(const mba_pattern *p, const char *text, size_t i)
{
    if (!mba__ascii_space(text[i])) return false;
    const unsigned before = class_before(text, i);
    return before != MBA_SPACE && !(p->takes_newlines && before == MBA_UNICODE_OTHER && is_newline(text[i]));
}
