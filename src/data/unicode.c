// SPDX-License-Identifier: Apache-2.0
/* unicode.c -- see unicode.h. NFC follows Unicode Standard Annex 15: decompose, put combining marks
 * into canonical order, compose again. Hangul is computed, the rest comes from tables. */
#include "data/unicode.h"
#include "data/unicode_tables.h"

#include <stdlib.h>
#include <string.h>

const char *mba_unicode_version(void) { return mba__unicode_version; }

unsigned mba_unicode_class(uint32_t code)
{
    const uint32_t stretch = code >> 7;
    if (stretch >= mba__unicode_stretches) return MBA_UNICODE_OTHER;
    const uint32_t word = mba__unicode_block[mba__unicode_stretch[stretch] * 16u + (code >> 3 & 15)];
    return word >> (code & 7) * 4 & 15;
}

/* ---- growing text ---- */

static mba_status text_reserve(mba_text *t, size_t more)
{
    if (more <= t->capacity - t->n) return MBA_OK;
    mba_assert(more < SIZE_MAX / 4 - t->n);
    const size_t capacity = t->n + more + t->capacity / 2 + 64;
    char        *data = realloc(t->data, capacity);
    if (!data) return mba_fail(MBA_E_NOMEM, "no memory for a text of %zu bytes", capacity);
    t->data = data;
    t->capacity = capacity;
    return MBA_OK;
}

mba_status mba_text_add(mba_text *t, const void *bytes, size_t n)
{
    MBA_TRY(text_reserve(t, n));
    if (n) memcpy(t->data + t->n, bytes, n);
    t->n += n;
    return MBA_OK;
}

static size_t utf8_write(char *to, uint32_t c)
{
    if (c < 0x80) {
        to[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        to[0] = (char)(0xC0 | c >> 6);
        to[1] = (char)(0x80 | (c & 63));
        return 2;
    }
    if (c < 0x10000) {
        to[0] = (char)(0xE0 | c >> 12);
        to[1] = (char)(0x80 | (c >> 6 & 63));
        to[2] = (char)(0x80 | (c & 63));
        return 3;
    }
    to[0] = (char)(0xF0 | c >> 18);
    to[1] = (char)(0x80 | (c >> 12 & 63));
    to[2] = (char)(0x80 | (c >> 6 & 63));
    to[3] = (char)(0x80 | (c & 63));
    return 4;
}

/* ---- UTF-8 ---- */

/* The length of the code point at p, or minus the length of the bad subsequence there (the longest prefix of a valid
 * one, at least one byte). */
static int utf8_length(const unsigned char *p, size_t n)
{
    if (p[0] < 0x80) return 1;
    if (p[0] < 0xC2 || p[0] > 0xF4) return -1;
    const int length = p[0] < 0xE0 ? 2 : p[0] < 0xF0 ? 3 : 4;
    // The second byte excludes overlong forms, surrogates and code points beyond U+10FFFF.
    const unsigned char low = p[0] == 0xE0 ? 0xA0 : p[0] == 0xF0 ? 0x90 : 0x80;
    const unsigned char high = p[0] == 0xED ? 0x9F : p[0] == 0xF4 ? 0x8F : 0xBF;
    if (n < 2 || p[1] < low || p[1] > high) return -1;
    for (int i = 2; i < length; i++)
        if ((size_t)i >= n || (p[i] & 0xC0) != 0x80) return -i;
    return length;
}

/* The number of valid bytes at the beginning; tests eight ASCII bytes at a time. */
static size_t utf8_valid_bytes(const char *text, size_t n)
{
    size_t i = 0;
    while (i < n) {
        uint64_t eight;
        if (n - i >= 8 && (memcpy(&eight, text + i, 8), !(eight & 0x8080808080808080u))) {
            i += 8;
            continue;
        }
        const int length = utf8_length((const unsigned char *)text + i, n - i);
        if (length < 0) break;
        i += (size_t)length;
    }
    return i;
}

bool mba_utf8_valid(const char *text, size_t n) { return utf8_valid_bytes(text, n) == n; }

mba_status mba_utf8_repair(mba_text *out, const char *text, size_t n)
{
    for (size_t i = 0; i < n;) {
        const size_t good = utf8_valid_bytes(text + i, n - i);
        MBA_TRY(mba_text_add(out, text + i, good));
        i += good;
        if (i == n) break;
        MBA_TRY(mba_text_add(out, "\xEF\xBF\xBD", 3));
        i += (size_t)-utf8_length((const unsigned char *)text + i, n - i);
    }
    return MBA_OK;
}

/* ---- NFC ---- */

enum {
    HANGUL = 0xAC00,
    LEAD = 0x1100,
    VOWEL = 0x1161,
    TAIL = 0x11A7, /* TAIL itself means "no tail" */
    LEADS = 19,
    VOWELS = 21,
    TAILS = 28,
    SYLLABLES = LEADS * VOWELS * TAILS
};

#define COMPOSED(entry) ((uint32_t)((entry) >> 36))
#define FIRST(entry)    ((uint32_t)((entry) >> 18 & 0x3FFFF))
#define SECOND(entry)   ((uint32_t)((entry)&0x3FFFF))
#define PAIR(entry)     ((entry)&0xFFFFFFFFFu)

bool mba_nfc_already(const char *text, size_t n)
{
    if (!n) return true; /* `text` may be NULL */
    for (const char *at = text, *end = text + n; at < end;) {
        uint64_t eight;
        if (end - at >= 8 && (memcpy(&eight, at, 8), !(eight & 0x8080808080808080u))) {
            at += 8;
            continue;
        }
        const uint32_t c = mba_utf8_next(&at);
        if (c >= 0x300 && mba_unicode_class(c) & MBA_NFC_MAY_CHANGE) return false;
    }
    return true;
}

static unsigned combining_class(uint32_t c)
{
    int32_t low = 0, high = mba__combining_n; /* the last range that begins at or before c */
    while (high - low > 1) {
        const int32_t middle = (low + high) / 2;
        if (mba__combining[middle] >> 15 <= c) low = middle;
        else high = middle;
    }
    const uint32_t range = mba__combining[low], first = range >> 15;
    return c >= first && c - first <= (range >> 8 & 127) ? range & 255 : 0;
}

/* Code points with their combining classes, while a text is being normalised: code << 8 | class. */
typedef struct marks {
    uint32_t *item;
    size_t    n, capacity;
} marks;

static mba_status marks_add(marks *m, uint32_t code)
{
    if (m->n == m->capacity) {
        const size_t capacity = m->capacity * 2 + 256;
        uint32_t    *item = realloc(m->item, capacity * sizeof *item);
        if (!item) return mba_fail(MBA_E_NOMEM, "no memory to normalise %zu characters", capacity);
        m->item = item;
        m->capacity = capacity;
    }
    m->item[m->n++] = code << 8 | (mba_unicode_class(code) & MBA_NFC_MAY_CHANGE ? combining_class(code) : 0);
    return MBA_OK;
}

static uint64_t decomposition_of(uint32_t c)
{
    int32_t low = 0, high = mba__decompositions_n;
    while (low < high) {
        const int32_t middle = (low + high) / 2;
        if (COMPOSED(mba__decompositions[middle]) < c) low = middle + 1;
        else high = middle;
    }
    return low < mba__decompositions_n && COMPOSED(mba__decompositions[low]) == c ? mba__decompositions[low] : 0;
}

/* Only the first part of a decomposition can be decomposed again, so the second parts are stacked and added in
 * reverse. */
static mba_status decompose(marks *m, uint32_t c)
{
    if (c >= HANGUL && c < HANGUL + SYLLABLES) {
        const uint32_t s = c - HANGUL;
        MBA_TRY(marks_add(m, LEAD + s / (VOWELS * TAILS)));
        MBA_TRY(marks_add(m, VOWEL + s / TAILS % VOWELS));
        return s % TAILS ? marks_add(m, TAIL + s % TAILS) : MBA_OK;
    }
    uint32_t later[8];
    int      n = 0;
    for (uint64_t d; c >= 0xC0 && (d = decomposition_of(c)) != 0; c = FIRST(d))
        if (SECOND(d)) {
            mba_assert(n < 8);
            later[n++] = SECOND(d);
        }
    MBA_TRY(marks_add(m, c));
    while (n) MBA_TRY(marks_add(m, later[--n]));
    return MBA_OK;
}

/* A stable sort by combining class: insertion sort for short runs, counting sort for long ones. */
static mba_status order_run(uint32_t *item, size_t n)
{
    if (n <= 24) {
        for (size_t i = 1; i < n; i++)
            for (size_t k = i; k && (item[k - 1] & 255) > (item[k] & 255); k--) {
                const uint32_t swap = item[k];
                item[k] = item[k - 1];
                item[k - 1] = swap;
            }
        return MBA_OK;
    }
    uint32_t *copy = malloc(n * sizeof *copy);
    if (!copy) return mba_fail(MBA_E_NOMEM, "no memory to order %zu combining marks", n);
    size_t start[257] = { 0 };
    for (size_t i = 0; i < n; i++) {
        copy[i] = item[i];
        start[(item[i] & 255) + 1]++;
    }
    for (int k = 0; k < 256; k++) start[k + 1] += start[k];
    for (size_t i = 0; i < n; i++) item[start[copy[i] & 255]++] = copy[i];
    free(copy);
    return MBA_OK;
}

static mba_status order_marks(marks *m)
{
    for (size_t i = 0; i < m->n; i++) {
        size_t end = i;
        while (end < m->n && m->item[end] & 255) end++;
        if (end > i + 1) MBA_TRY(order_run(m->item + i, end - i));
        if (end > i) i = end - 1;
    }
    return MBA_OK;
}

/* The code point that first + second compose to, or 0. */
static uint32_t composition_of(uint32_t first, uint32_t second)
{
    if (first >= LEAD && first < LEAD + LEADS && second >= VOWEL && second < VOWEL + VOWELS)
        return HANGUL + ((first - LEAD) * VOWELS + (second - VOWEL)) * TAILS;
    const bool open_syllable = first >= HANGUL && first < HANGUL + SYLLABLES && (first - HANGUL) % TAILS == 0;
    if (open_syllable && second > TAIL && second < TAIL + TAILS) return first + (second - TAIL);
    if (first > 0x3FFFF || second > 0x3FFFF) return 0;
    const uint64_t pair = (uint64_t)first << 18 | second;
    int32_t        low = 0, high = mba__compositions_n;
    while (low < high) {
        const int32_t middle = (low + high) / 2;
        if (PAIR(mba__decompositions[mba__compositions[middle]]) < pair) low = middle + 1;
        else high = middle;
    }
    if (low == mba__compositions_n) return 0;
    const uint64_t d = mba__decompositions[mba__compositions[low]];
    return PAIR(d) == pair ? COMPOSED(d) : 0;
}

/* Composes each mark with the last starter, unless a mark of the same or a higher class stands between them. */
static void compose(marks *m)
{
    size_t   n = 0, starter = SIZE_MAX;
    unsigned last = 0; /* class of what was kept since the starter */
    for (size_t i = 0; i < m->n; i++) {
        const uint32_t c = m->item[i] >> 8, k = m->item[i] & 255;
        const bool     adjacent = starter != SIZE_MAX && starter + 1 == n;
        if (starter != SIZE_MAX && (adjacent || (last != 0 && last < k))) {
            const uint32_t both = composition_of(m->item[starter] >> 8, c);
            if (both) {
                m->item[starter] = both << 8;
                continue;
            }
        }
        if (k == 0) starter = n;
        last = k;
        m->item[n++] = m->item[i];
    }
    m->n = n;
}

mba_status mba_nfc(mba_text *out, const char *text, size_t n)
{
    if (!n) return MBA_OK; /* `text` may be NULL */
    marks      m = { 0 };
    mba_status st = MBA_OK;
    for (const char *at = text; st == MBA_OK && at < text + n;) st = decompose(&m, mba_utf8_next(&at));
    if (st == MBA_OK) st = order_marks(&m);
    if (st == MBA_OK) compose(&m);
    for (size_t i = 0; st == MBA_OK && i < m.n; i++) {
        char bytes[4];
        st = mba_text_add(out, bytes, utf8_write(bytes, m.item[i] >> 8));
    }
    free(m.item);
    return st;
}
