// SPDX-License-Identifier: Apache-2.0
/* hf_source.c -- see hf_source.h: lookups that are remembered, and the note about keys that nobody looked up. */
#include "train/hf_source.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "data/array.h"

/* ---- looking up ---- */

static bool was_read(const mba_hf_reading *r, const json_t *object, const char *key)
{
    for (int i = 0; i < r->nreads; i++)
        if (r->read[i].object == object && !strcmp(r->read[i].key, key)) return true;
    return false;
}

static const json_t *mark(const mba_source *o, const char *key)
{
    mba_hf_reading *r = o->reading;
    if (o->object && !was_read(r, o->object, key)) {
        mba_assert(r->nreads < MBA_READS_MAX);
        r->read[r->nreads].object = o->object;
        r->read[r->nreads++].key = key;
    }
    return o->object;
}

const json_t *mba__source_get(const mba_source *o, const char *key) { return mba_json_get(mark(o, key), key); }

mba_source mba__source_within(const mba_source *o, const char *key)
{
    return (mba_source){ mba__source_get(o, key), o->reading };
}

bool mba__source_null(const mba_source *o, const char *key) { return json_is_null(json_object_get(mark(o, key), key)); }

mba_status mba__source_require(const mba_source *o, const char *key) { return mba_json_require(mark(o, key), key); }

mba_status mba__source_absent(const mba_source *o, const char *key, const char *why)
{
    return !mba__source_get(o, key)
               ? MBA_OK
               : mba_fail(MBA_E_UNSUPPORTED, "\"%s\" is set\nwhy: %s\nfix: choose a checkpoint without it", key, why);
}

mba_status mba__source_int(const mba_source *o, const char *key, int64_t standard, int64_t min, int64_t max,
                           int64_t *out)
{
    return mba_json_int(mark(o, key), key, standard, min, max, out);
}

mba_status mba__source_real(const mba_source *o, const char *key, double standard, double min, double max, double *out)
{
    return mba_json_real(mark(o, key), key, standard, min, max, out);
}

mba_status mba__source_bool(const mba_source *o, const char *key, bool standard, bool *out)
{
    return mba_json_bool(mark(o, key), key, standard, out);
}

mba_status mba__source_text(const mba_source *o, const char *key, const char *standard, const char **out)
{
    return mba_json_text(mark(o, key), key, standard, out);
}

/* ---- notes ---- */

static void add(mba_hf_notes *notes, const char *text)
{
    const size_t n = strlen(notes->text);
    snprintf(notes->text + n, sizeof notes->text - n, "%s", text);
}

void mba__source_note(const mba_source *o, const char *fmt, ...)
{
    char    line[sizeof o->reading->notes->text];
    va_list args;
    va_start(args, fmt);
    vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    if (o->reading->notes->text[0]) add(o->reading->notes, "\n");
    add(o->reading->notes, line);
}

/* ---- keys that nobody looked up ---- */

enum { NAMES_ROOM = 1200, NAME_MAX_BYTES = 128 };

typedef struct unknown {
    int  named, more;
    char names[NAMES_ROOM];
} unknown;

static bool among(const char *words, const char *key)
{
    const size_t n = strlen(key);
    for (const char *w = words; n && *w; w += strcspn(w, " "), w += strspn(w, " "))
        if (strcspn(w, " ") == n && !strncmp(w, key, n)) return true;
    return false;
}

static void name(unknown *u, const char *prefix, const char *key)
{
    const size_t n = strlen(u->names);
    if (n + NAME_MAX_BYTES > sizeof u->names) u->more++;
    else {
        snprintf(u->names + n, NAME_MAX_BYTES, "%s%s%.48s", n ? ", " : "", prefix, mba_quote(key).text);
        u->named++;
    }
}

static bool was_entered(const mba_hf_reading *r, const json_t *object)
{
    for (int i = 0; i < r->nreads; i++)
        if (r->read[i].object == object) return true;
    return false;
}

static void collect(unknown *u, const mba_hf_reading *r, const json_t *object, const char *prefix, const char *harmless)
{
    const char *key;
    json_t     *value;
    json_object_foreach((json_t *)object, key, value)
    {
        char inside[64];
        if (json_is_null(value) || among(harmless, key)) continue;
        if (!was_read(r, object, key)) name(u, prefix, key);
        else if (json_is_object(value) && was_entered(r, value)) {
            snprintf(inside, sizeof inside, "%.60s.", key);
            collect(u, r, value, inside, harmless);
        }
    }
}

void mba__source_unknown(const mba_source *o, const char *harmless)
{
    unknown u = { 0 };
    char    more[48] = "";
    collect(&u, o->reading, o->object, "", harmless);
    if (!u.named) return;
    if (u.more) snprintf(more, sizeof more, " and %d more", u.more);
    mba__source_note(o, "config.json has keys that mambascope does not know: %s%s; they are ignored", u.names, more);
}
