// SPDX-License-Identifier: Apache-2.0
/* buf.c -- see buf.h: the buffer, escaping, and numbers in words. */
#include "report/buf.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool reserve(mba_buf *b, size_t more)
{
    if (b->failed) return false;
    if (b->n + more + 1 <= b->room) return true;
    const size_t room = 2 * (b->n + more + 1) + 256;
    char        *s = realloc(b->s, room);
    b->failed = !s;
    if (s) b->s = s, b->room = room;
    mba_debug_assert(!s || b->n + more + 1 <= b->room);
    return s != NULL;
}

static void put_bytes(mba_buf *b, const char *s, size_t n)
{
    if (!reserve(b, n)) return;
    mba_debug_assert(b->n + n < b->room);
    memcpy(b->s + b->n, s, n);
    b->s[b->n += n] = 0;
}

void mba_buf_put(mba_buf *b, const char *s) { put_bytes(b, s, strlen(s)); }

void mba_buf_add(mba_buf *b, const char *fmt, ...)
{
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    const int n = vsnprintf(NULL, 0, fmt, ap);
    if (n >= 0 && reserve(b, (size_t)n)) {
        vsnprintf(b->s + b->n, (size_t)n + 1, fmt, again);
        b->n += (size_t)n;
    }
    va_end(again);
    va_end(ap);
}

void mba_buf_free(mba_buf *b)
{
    free(b->s);
    *b = (mba_buf){ 0 };
}

void mba_buf_fail(mba_buf *b, mba_status st)
{
    if (!b->failed) b->why = st;
    b->failed |= st != MBA_OK;
}

mba_status mba_buf_status(const mba_buf *b, const char *what)
{
    if (!b->failed) return MBA_OK;
    return b->why != MBA_OK ? b->why : mba_fail(MBA_E_NOMEM, "no memory for %s", what);
}

/* ---- escaping ---- */

/* Length of the UTF-8 character at s, 0 if it is not valid by RFC 3629. */
static int character(const char *text)
{
    const unsigned char *s = (const unsigned char *)text;
    if (s[0] < 0x80) return 1;
    const int n = s[0] >= 0xf0 && s[0] <= 0xf4  ? 4
                  : s[0] >= 0xe0 && s[0] < 0xf0 ? 3
                  : s[0] >= 0xc2 && s[0] < 0xe0 ? 2
                                                : 0;
    for (int i = 1; i < n; i++)
        if ((s[i] & 0xc0) != 0x80) return 0;
    if (n == 3 && ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f))) return 0;
    if (n == 4 && ((s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))) return 0;
    return n;
}

static const char NOT_TEXT[] = "\xef\xbf\xbd"; /* U+FFFD */

void mba_buf_html(mba_buf *b, const char *s)
{
    while (s && *s) {
        const int n = character(s);
        if (n == 0) mba_buf_put(b, NOT_TEXT);
        else if (*s == '&') mba_buf_put(b, "&amp;");
        else if (*s == '<') mba_buf_put(b, "&lt;");
        else if (*s == '>') mba_buf_put(b, "&gt;");
        else if (*s == '"') mba_buf_put(b, "&quot;");
        else if ((unsigned char)*s < 0x20 || *s == 0x7f) mba_buf_put(b, " ");
        else put_bytes(b, s, (size_t)n);
        s += n ? n : 1;
    }
}

void mba_buf_json(mba_buf *b, const char *s)
{
    if (!s) {
        mba_buf_put(b, "null");
        return;
    }
    mba_buf_put(b, "\"");
    while (*s) {
        const int n = character(s);
        if (n == 0) mba_buf_put(b, NOT_TEXT);
        else if (*s == '"' || *s == '\\') mba_buf_add(b, "\\%c", *s);
        else if ((unsigned char)*s < 0x20 || *s == '<') mba_buf_add(b, "\\u%04x", (unsigned)*s);
        else put_bytes(b, s, (size_t)n);
        s += n ? n : 1;
    }
    mba_buf_put(b, "\"");
}

void mba_buf_json_number(mba_buf *b, double v) { mba_buf_put(b, isfinite(v) ? mba_exact(v).s : "null"); }

/* ---- numbers and names ---- */

/* Separates the thousands of the digits before the point: 1234567 -> 1,234,567. */
static void separate(char *out, size_t room, const char *digits)
{
    const size_t sign = *digits == '-', whole = strspn(digits + sign, "0123456789");
    size_t       n = 0;
    for (size_t i = 0; digits[i] && n + 2 < room; i++) {
        const size_t left = sign + whole - i;
        if (i > sign && i < sign + whole && left % 3 == 0) out[n++] = ',';
        out[n++] = digits[i];
    }
    out[n] = 0;
}

/* 9.6e-08 -> 9.6×10⁻⁸ */
static mba_word power_of_ten(double v)
{
    static const char *const raised[] = { "⁰", "¹", "²", "³", "⁴", "⁵", "⁶", "⁷", "⁸", "⁹" };
    mba_word                 w;
    char                     digits[32];
    snprintf(digits, sizeof digits, "%.3g", v);
    const int length = (int)strcspn(digits, "e"), power = (int)strtol(digits + length + 1, NULL, 10);
    snprintf(w.s, sizeof w.s, "%.*s×10%s%s%s%s", length, digits, power < 0 ? "⁻" : "",
             abs(power) > 99 ? raised[abs(power) / 100] : "", abs(power) > 9 ? raised[abs(power) / 10 % 10] : "",
             raised[abs(power) % 10]);
    return w;
}

mba_word mba_two_digits(double v)
{
    mba_word w;
    if (isnan(v)) return (mba_word){ "–" };
    const int digits = v == 0 ? 0 : (int)floor(log10(fabs(v)));
    snprintf(w.s, sizeof w.s, "%.*f", digits >= 1 ? 0 : digits < -3 ? 4 : 1 - digits, v);
    return w;
}

mba_word mba_num(double v)
{
    mba_word w;
    char     digits[320];
    if (!isfinite(v)) {
        snprintf(w.s, sizeof w.s, "–");
        return w;
    }
    if (v != 0 && (fabs(v) < 1e-4 || fabs(v) >= 1e12)) return power_of_ten(v);
    mba_debug_assert(fabs(v) < 1e12);
    const int decade = v == 0 ? 0 : (int)floor(log10(fabs(v)) + 1e-12), places = decade >= 2 ? 0 : 2 - decade;
    snprintf(digits, sizeof digits, "%.*f", places, v);
    if (strchr(digits, '.')) {
        char *end = digits + strlen(digits);
        while (end[-1] == '0') end--;
        if (end[-1] == '.') end--;
        *end = 0;
    }
    separate(w.s, sizeof w.s, digits);
    return w;
}

mba_word mba_exact(double v)
{
    mba_word w = { "" };
    // at least all digits that mba_num prints
    if (isfinite(v)) snprintf(w.s, sizeof w.s, "%.*g", fabs(v) >= 1e8 && fabs(v) < 1e12 ? 15 : 9, v);
    return w;
}

int mba_characters(const char *s)
{
    int n = 0;
    for (; *s; n++) s += character(s) ? character(s) : 1;
    return n;
}

mba_name mba_short(const char *s, int characters)
{
    mba_name w;

    const bool  cut = mba_characters(s) > characters;
    const char *end = s;
    for (int i = 0; *end && i < characters - cut && end - s < (int)sizeof w.s - 8; i++)
        end += character(end) ? character(end) : 1;
    snprintf(w.s, sizeof w.s, "%.*s%s", (int)(end - s), s, *end ? "…" : "");
    return w;
}
