// SPDX-License-Identifier: Apache-2.0
/* kept_options.c -- see kept_options.h. */
#include "cli/kept_options.h"

#include <stdio.h>
#include <string.h>

#include "data/array.h"
#include "data/json.h"

static unsigned mark_of(const mba_option *o)
{
    const unsigned mark = o->kind & MBA_RUN_MARKS;
    mba_assert((o->kind & MBA_OPT_KINDS) != MBA_OPT_TEXTS);
    mba_assert(mark); // every option of a run has a mark
    return mark;
}

/* A number outside of its option's range stands for "not set", as does no text. */
static json_t *value_of(const mba_option *o)
{
    switch ((mba_opt)(o->kind & MBA_OPT_KINDS)) {
    case MBA_OPT_FLAG: return json_boolean(*(const bool *)o->to);
    case MBA_OPT_TEXT: return *(const char *const *)o->to ? json_string(*(const char *const *)o->to) : json_null();
    case MBA_OPT_REAL:
        return mba_option_takes(o, *(const double *)o->to) ? json_real(*(const double *)o->to) : json_null();
    case MBA_OPT_BYTES:
        return *(const int64_t *)o->to > 0 ? json_integer((json_int_t) * (const int64_t *)o->to) : json_null();
    default:
        return mba_option_takes(o, (double)*(const int64_t *)o->to)
                   ? json_integer((json_int_t) * (const int64_t *)o->to)
                   : json_null();
    }
}

static mba_status take(const mba_option *o, const json_t *v)
{
    const mba_opt kind = (mba_opt)(o->kind & MBA_OPT_KINDS);
    const bool    real = kind == MBA_OPT_REAL, whole = !real && kind != MBA_OPT_FLAG && kind != MBA_OPT_TEXT;
    if (json_is_null(v)) return MBA_OK;
    if (kind == MBA_OPT_FLAG ? !json_is_boolean(v)
        : kind == MBA_OPT_TEXT
            ? !json_is_string(v)
            : (whole && !json_is_integer(v)) || !json_is_number(v) || !mba_option_takes(o, json_number_value(v)))
        return mba_fail(MBA_E_FORMAT,
                        "the run's options have a damaged value of %s\nfix: resume from another checkpoint of "
                        "the run",
                        o->name);
    if (kind == MBA_OPT_FLAG) *(bool *)o->to = json_is_true(v);
    else if (kind == MBA_OPT_TEXT) *(const char **)o->to = json_string_value(v);
    else if (real) *(double *)o->to = json_number_value(v);
    else *(int64_t *)o->to = (int64_t)json_integer_value(v);
    return MBA_OK;
}

mba_status mba_kept_options_write(json_t **out, const mba_option *table, const json_t *before)
{
    *out = json_object();
    for (const mba_option *o = mba_option_from(table); o; o = mba_option_from(o + 1)) {
        if (mark_of(o) == MBA_RUN_APART) continue;
        json_t *v = value_of(o), *was = json_object_get(before, o->name);
        if (mark_of(o) == MBA_RUN_NOTED && json_is_null(v) && was) v = json_incref(was);
        if (v && !json_object_set_new(*out, o->name, v)) continue;
        json_decref(*out);
        *out = NULL;
        return mba_fail(
            MBA_E_ARG,
            "%s cannot be stored with the run\nwhy: it is not UTF-8, or memory ran out\nfix: use a name in UTF-8",
            o->name);
    }
    return MBA_OK;
}

static mba_words words_of(const json_t *v)
{
    mba_words w;
    if (json_is_string(v)) return mba_quote(json_string_value(v));
    if (json_is_integer(v)) snprintf(w.text, sizeof w.text, "%lld", (long long)json_integer_value(v));
    else if (json_is_real(v)) snprintf(w.text, sizeof w.text, "%.10g", json_real_value(v));
    else snprintf(w.text, sizeof w.text, "%s", json_is_true(v) ? "on" : json_is_false(v) ? "off" : "not set");
    return w;
}

static mba_status refused(const mba_option *o, const json_t *now, const json_t *then)
{
    return mba_fail(
        MBA_E_ARG,
        "%s is %s, but the run was started with %s\nwhy: with another %s it would not be the same run\n"
        "fix: leave %s out to continue with the run's own value, or use --init instead of --resume to start a new "
        "run from its weights",
        o->name, words_of(now).text, words_of(then).text, o->name, o->name);
}

static mba_status compare(const mba_option *o, const json_t *then, json_t *changes)
{
    mba__json_begin();
    json_t    *now = value_of(o);
    mba_status st = MBA_OK;
    if (now && !json_equal(now, then)) {
        if (mark_of(o) == MBA_RUN_FIXED) st = refused(o, now, then);
        else
            json_array_append_new(changes,
                                  json_sprintf("%s %s -> %s", o->name, words_of(then).text, words_of(now).text));
    }
    if (st == MBA_OK) st = mba_json_whole(changes, "what has changed");
    json_decref(now);
    return st;
}

/* Refuses options of a newer program, which would be ignored in silence. */
static mba_status check_names(const mba_option *table, const json_t *kept)
{
    const char   *name;
    const json_t *value;
    json_object_foreach((json_t *)kept, name, value)
    {
        if (!mba_option_find(table, name, strlen(name)))
            return mba_fail(MBA_E_UNSUPPORTED,
                            "the run has an option %s, which this program does not know\nwhy: a newer version "
                            "started the run\nfix: resume it with that version",
                            name);
    }
    return MBA_OK;
}

/* The value of an option in a run's options, under its name or an alias; NULL: there is none. */
static const json_t *kept_value(const mba_option *table, const mba_option *o, const json_t *kept)
{
    const char   *name;
    const json_t *value, *found = NULL;
    json_object_foreach((json_t *)kept, name, value) if (mba_option_find(table, name, strlen(name)) == o) found = value;
    return found;
}

mba_status mba_kept_options_resume(const mba_usage *u, int argc, char **argv, const json_t *last,
                                   const json_t *checkpoint, json_t *changes)
{
    MBA_TRY(check_names(u->options, last));
    MBA_TRY(check_names(u->options, checkpoint));
    for (const mba_option *o = mba_option_from(u->options); o; o = mba_option_from(o + 1)) {
        const unsigned mark = mark_of(o);
        const json_t  *v = kept_value(u->options, o, last), *then = kept_value(u->options, o, checkpoint);
        if (mark != MBA_RUN_FIXED && mark != MBA_RUN_CHANGES) continue;
        if (v && !mba_option_given(u, o, argc, argv)) MBA_TRY(take(o, v));
        if (then) MBA_TRY(compare(o, then, changes));
    }
    return MBA_OK;
}
