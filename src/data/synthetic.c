// SPDX-License-Identifier: Apache-2.0
/* synthetic.c -- synthetic text (mba_synthetic_text in prepare.h), for runs without data.
 *
 * A document draws two names, a place and three things. Its sentences follow templates whose letters are filled from
 * those or from word lists, with common words more often than rare ones. Names, the place and things recur throughout
 * the document, pronouns agree with the name before them, numbers count up: a model that remembers predicts better than
 * one that only knows which words are frequent. */
#include "data/prepare.h"

#include <string.h>

#include "core/rng.h"

#define COUNT(list) ((int)(sizeof(list) / sizeof *(list)))

/* The first twelve are "she", the others "he". */
static const char *const names[] = {
    "Ada",  "Emmy", "Grace", "Mary", "Lise",  "Rosa", "Clara", "Nora", "Ida",   "Vera", "Hedy", "Sofia",
    "Alan", "Carl", "Emil",  "Hugo", "Isaac", "Karl", "Leo",   "Max",  "Niels", "Otto", "Paul", "Tom",
};
enum { SHE = 12 };
static const char *const places[] = {
    "harbour", "market",      "library", "workshop", "garden", "mill",
    "station", "observatory", "bridge",  "school",   "tower",  "farm",
};
static const char *const things[] = {
    "lamp", "book",   "wheel", "letter", "clock", "map", "boat",    "kettle", "engine", "ladder", "bell",   "basket",
    "coat", "mirror", "drum",  "rope",   "table", "key", "compass", "violin", "lens",   "stove",  "plough", "anchor",
};
static const char *const qualities[] = {
    "old",  "small",  "red",     "heavy",  "new",    "broken", "green",   "quiet",
    "long", "bright", "strange", "wooden", "narrow", "copper", "patient", "crooked",
};
static const char *const deeds[] = {
    "found",    "carried", "mended",  "sold", "painted",  "hid",
    "borrowed", "counted", "cleaned", "lost", "measured", "drew",
};
static const char *const times[] = {
    "in the morning", "after the rain", "before dawn",  "on Sunday",
    "at noon",        "in the winter",  "that evening", "once more",
};
static const char *const counts[] = {
    "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven",
};

/* A B names of the cast, P its place, X Y Z its things, S the pronoun of the last name, H "her" or "his",
 * q a quality, d a deed, t a time, n a number that counts up, o any thing. Other letters stand for themselves. */
static const char *const templates[] = {
    "#A #d the #q #X near the #P.",
    "#t, #B #d a #o and took it to the #P.",
    "The #X was #q, but the #Y was #q and #q.",
    "\"Where is my #Y?\" asked #A. \"I left it at the #P,\" said #B.",
    "#A had #n #os; #B said that #n would be enough.",
    "#t #S #d the #Z again, because the #X was #q.",
    "Nobody at the #P knew why #B #d #H #Y.",
    "If the #Z is #q, then #A goes to the #P; if not, #S stays with the #X.",
    "#B wrote down: #n #os, #n #os, and a #q #Z.",
    "#A and #B #d the #X #t, and it was #q.",
};

typedef struct story {
    uint64_t key, document;
    uint32_t drawn;
    int      name[2], place, thing[3], last, count;
} story;

static uint32_t draw(story *s)
{
    uint32_t u[4];
    mba_philox(u, s->key, s->document, s->drawn++);
    return u[0];
}

/* A number in [0, n), small ones more often: the smaller of two draws. */
static int pick(story *s, int n)
{
    const int a = (int)((uint64_t)draw(s) * (uint64_t)n >> 32), b = (int)((uint64_t)draw(s) * (uint64_t)n >> 32);
    return a < b ? a : b;
}

static void cast(story *s)
{
    for (int i = 0; i < 2; i++) s->name[i] = (int)(draw(s) % COUNT(names));
    for (int i = 0; i < 3; i++) s->thing[i] = (int)(draw(s) % COUNT(things));
    s->place = (int)(draw(s) % COUNT(places));
    s->last = s->name[0];
}

static const char *word(story *s, char slot)
{
    switch (slot) {
    case 'A':
    case 'B': return names[s->last = s->name[slot - 'A']];
    case 'X':
    case 'Y':
    case 'Z': return things[s->thing[slot - 'X']];
    case 'P': return places[s->place];
    case 'S': return s->last < SHE ? "she" : "he";
    case 'H': return s->last < SHE ? "her" : "his";
    case 'q': return qualities[pick(s, COUNT(qualities))];
    case 'd': return deeds[pick(s, COUNT(deeds))];
    case 't': return times[pick(s, COUNT(times))];
    case 'n': return counts[s->count++ % COUNT(counts)];
    default: return things[pick(s, COUNT(things))];
    }
}

static mba_status sentence(mba_text *out, story *s)
{
    const char  *at = templates[pick(s, COUNT(templates))];
    const size_t first = out->n;
    for (; *at; at++) {
        const char *text = *at == '#' ? word(s, *++at) : NULL;
        MBA_TRY(mba_text_add(out, text ? text : at, text ? strlen(text) : 1));
    }
    for (size_t i = first; i < out->n && i < first + 2; i++) /* the first letter, also after a quotation mark */
        if (out->data[i] >= 'a' && out->data[i] <= 'z' && (i == first || out->data[first] == '"'))
            out->data[i] -= 'a' - 'A';
    return MBA_OK;
}

mba_status mba_synthetic_text(mba_text *out, uint64_t seed, int64_t number)
{
    story s = { .key = seed ^ mba_stream("synthetic text"), .document = (uint64_t)number };
    cast(&s);
    const int paragraphs = 1 + (int)(draw(&s) % 8);
    for (int p = 0; p < paragraphs; p++) {
        const int sentences = 6 - p % 3;
        for (int i = 0; i < sentences; i++) {
            MBA_TRY(sentence(out, &s));
            MBA_TRY(mba_text_add(out, i + 1 < sentences ? " " : "\n", 1));
        }
        if (p + 1 < paragraphs) MBA_TRY(mba_text_add(out, "\n", 1));
    }
    return MBA_OK;
}
