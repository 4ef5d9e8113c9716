// SPDX-License-Identifier: Apache-2.0
/* nearest.c -- see nearest.h: edit distance, parts of names, first words of meanings, each with a cost. */
#include "core/nearest.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "core/status.h"

/* The cost of each kind of similarity, to which the number of wrong letters, or of letters around the part, is
 * added. */
enum { COST_LETTERS = 1, COST_PART = 100, COST_MEANING = 200, PART_LEAST = 3, MEANING_WORDS = 2 };

static char plain(char c) { return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c == '_' ? '-' : c; }

/* Writes `text` in the form of mba_nearest.word. Returns its length, 0 if it is too long. */
static int simplify(char out[MBA_NEAREST_MAX + 1], const char *text, size_t n)
{
    size_t from = 0;
    while (from < n && text[from] == '-') from++;
    out[0] = 0;
    if (n - from > MBA_NEAREST_MAX) return 0;
    for (size_t i = from; i < n; i++) out[i - from] = plain(text[i]);
    out[n - from] = 0;
    return (int)(n - from);
}

static int least(int a, int b) { return a < b ? a : b; }

/* The edit distance: letters to change, insert, delete or swap with their neighbour until a is b. */
static int letters_between(const char *a, int na, const char *b, int nb)
{
    int row[3][MBA_NEAREST_MAX + 1]; // of this letter of a and of the two before it
    mba_assert(na <= MBA_NEAREST_MAX && nb <= MBA_NEAREST_MAX);
    for (int j = 0; j <= nb; j++) row[0][j] = j;
    for (int i = 1; i <= na; i++) {
        int *const is = row[i % 3], *const was = row[(i + 2) % 3], *const before = row[(i + 1) % 3];
        is[0] = i;
        for (int j = 1; j <= nb; j++) {
            is[j] = least(least(was[j], is[j - 1]) + 1, was[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) is[j] = least(is[j], before[j - 2] + 1);
        }
    }
    return row[na % 3][nb];
}

/* Returns which of the first words of `meaning` begins with `word` (0, 1, ..), or -1. A plural s is ignored, and a dash
 * matches a space: learning-rate matches "learning rate". */
static int place_in(const char *meaning, const char *word, int n)
{
    if (n > PART_LEAST && word[n - 1] == 's') n--;
    if (n < PART_LEAST) return -1;
    for (int place = 0; place < MEANING_WORDS && *meaning; place++) {
        int i = 0;
        while (i < n && meaning[i] && (meaning[i] == ' ' ? '-' : plain(meaning[i])) == word[i]) i++;
        if (i == n) return place;
        meaning += strcspn(meaning, " ");
        meaning += strspn(meaning, " ");
    }
    return -1;
}

mba_nearest mba_nearest_to(const char *word, size_t n)
{
    mba_nearest s = { .best = NULL };
    simplify(s.word, word, n);
    return s;
}

void mba_nearest_try(mba_nearest *s, const char *name, const char *meaning)
{
    char      other[MBA_NEAREST_MAX + 1];
    const int n = (int)strlen(s->word), m = simplify(other, name, strlen(name)), shorter = least(n, m);
    if (!n || !m) return;
    const int  wrong = letters_between(s->word, n, other, m), place = meaning ? place_in(meaning, s->word, n) : -1;
    const bool part = shorter >= PART_LEAST && (strstr(s->word, other) || strstr(other, s->word));
    int        cost = -1;
    if (!wrong) cost = 0;
    else if (wrong <= (shorter < 6 ? 1 : shorter / 3) && wrong < shorter) cost = COST_LETTERS * wrong;
    else if (part) cost = COST_PART + n + m - 2 * shorter;
    else if (place >= 0) cost = COST_MEANING + place;
    if (cost < 0 || (s->best && cost >= s->cost)) return;
    s->best = name;
    s->cost = cost;
}

mba_hint mba_did_you_mean(const mba_nearest *s)
{
    mba_hint h = { "" };
    if (s->best) snprintf(h.text, sizeof h.text, "did you mean %s? ", s->best);
    return h;
}
