// SPDX-License-Identifier: Apache-2.0
/* json.c -- see json.h: parsing with limits, saving, and getters. */
#include "data/json.h"

#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "core/file.h"
#include "data/array.h"

const mba_json_limits mba_json_limits_default = { .bytes = (size_t)256 << 20, .values = (size_t)8 << 20, .depth = 64 };

/* ---- memory ---- */

static _Thread_local bool starved;

static void *watched_malloc(size_t n)
{
    void *p = malloc(n);
    if (!p) starved = true;
    return p;
}

static void watch_jansson(void) { json_set_alloc_funcs(watched_malloc, free); }

void mba__json_begin(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_jansson);
    starved = false;
}

bool mba__json_starved(void) { return starved; }

/* ---- tokens of a text: a string, a word (number or name), or one other byte ---- */

static bool in_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || (c && strchr("-+._", c));
}

static size_t piece_bytes(const char *text, size_t n)
{
    size_t i = 1;
    if (text[0] == '"') {
        while (i < n && text[i] != '"') i += text[i] == '\\' ? 2 : 1;
        return i < n ? i + 1 : n; // an unterminated string ends with the text
    }
    if (in_word(text[0]))
        while (i < n && in_word(text[i])) i++;
    return i;
}

static bool is_word(const char *token, size_t n, const char *word)
{
    return n == strlen(word) && !memcmp(token, word, n);
}

static bool not_finite(const char *token, size_t n)
{
    return is_word(token, n, "Infinity") || is_word(token, n, "-Infinity") || is_word(token, n, "NaN");
}

static bool beyond_64_bits(const char *token, size_t n)
{
    const bool minus = n && token[0] == '-';
    token += minus;
    n -= minus;
    for (size_t i = 0; i < n; i++)
        if (token[i] < '0' || token[i] > '9') return false;
    return n > 19 || (n == 19 && memcmp(token, minus ? "9223372036854775808" : "9223372036854775807", 19) > 0);
}

/* What is put around a token before Jansson sees it. */
typedef struct wrap {
    const char *before, *after;
} wrap;

static wrap wrap_of(const char *token, size_t n)
{
    if (not_finite(token, n)) return (wrap){ "{\"__float__\":\"", "\"}" };
    if (beyond_64_bits(token, n)) return (wrap){ "", ".0" };
    return (wrap){ "", "" };
}

/* Copies the text with its tokens wrapped to `to` (NULL: only measures) and returns the bytes. Stops at the token that
 * crosses byte `until` of the output, and sets *stopped to its position in the text. */
static size_t rewrite(char *to, const char *text, size_t n, size_t until, size_t *stopped)
{
    size_t at = 0, made = 0;
    while (at < n) {
        const size_t k = piece_bytes(text + at, n - at);
        const wrap   w = wrap_of(text + at, k);
        const size_t b = strlen(w.before), a = strlen(w.after);
        if (made + b + k + a > until) break;
        if (to) {
            memcpy(to + made, w.before, b);
            memcpy(to + made + b, text + at, k);
            memcpy(to + made + b + k, w.after, a);
        }
        made += b + k + a;
        at += k;
    }
    if (stopped) *stopped = at;
    return made;
}

/* ---- parsing ---- */

static void line_and_column(size_t *line, size_t *column, const char *text, size_t at)
{
    *line = *column = 1;
    for (size_t i = 0; i < at; i++) {
        *column = text[i] == '\n' ? 1 : *column + ((text[i] & 0xc0) != 0x80); // characters, not bytes
        *line += text[i] == '\n';
    }
}

static mba_status refuse(const char *file, const char *text, size_t at, const char *why, const char *fix)
{
    size_t line, column;
    line_and_column(&line, &column, text, at);
    return mba_fail(MBA_E_FORMAT, "the JSON of '%s' is wrong at line %zu, column %zu\nwhy: %s\nfix: %s", file, line,
                    column, why, fix);
}

static mba_status check_limits(const char *file, const char *text, size_t n, const mba_json_limits *l)
{
    size_t values = 1;
    int    depth = 0;
    if (n > l->bytes)
        return mba_fail(MBA_E_FORMAT,
                        "the JSON of '%s' has %zu bytes, %zu are allowed\nwhy: files of this kind are "
                        "small; this is probably another file\nfix: check the path",
                        file, n, l->bytes);
    for (size_t at = 0; at < n; at += piece_bytes(text + at, n - at)) {
        const char c = text[at];
        depth += (c == '{' || c == '[') - (c == '}' || c == ']');
        values += c == '{' || c == '[' || c == ',' || c == ':';
        if (depth > l->depth || values > l->values)
            return refuse(file, text, at, depth > l->depth ? "it is nested too deeply" : "it has too many values",
                          "check where the file comes from");
    }
    return MBA_OK;
}

/* Checks that the root is an object before the rewrite, which turns a file with only NaN into an object. */
static mba_status check_root(const char *file, const char *text, size_t n)
{
    size_t at = 0;
    while (at < n && (text[at] == ' ' || text[at] == '\n' || text[at] == '\r' || text[at] == '\t')) at++;
    if (at < n && text[at] == '{') return MBA_OK;
    return refuse(file, text, at, at == n ? "it is empty" : "it should be an object, { .. }",
                  "check that this is the file you mean");
}

static mba_status jansson_failed(const json_error_t *e, const char *file, const char *text, size_t n)
{
    size_t at = n;
    if (json_error_code(e) != json_error_premature_end_of_input && e->position > 0)
        rewrite(NULL, text, n, (size_t)e->position - 1, &at); // Jansson's position is after the wrong token
    const char *fix = json_error_code(e) == json_error_duplicate_key ? "keep one of the two"
                                                                     : "correct it, or fetch the file again";
    return refuse(file, text, at, mba_quote(e->text).text, fix);
}

mba_status mba_json_parse(json_t **out, const char *file, const char *text, size_t n, const mba_json_limits *limits)
{
    json_error_t e;
    char        *copy = NULL;
    MBA_TRY(check_limits(file, text, n, limits ? limits : &mba_json_limits_default));
    MBA_TRY(check_root(file, text, n));
    const size_t bytes = rewrite(NULL, text, n, SIZE_MAX, NULL);
    if (bytes != n) {
        copy = malloc(bytes);
        if (!copy) return mba_fail(MBA_E_NOMEM, "no memory to read the JSON of '%s'", file);
        rewrite(copy, text, n, SIZE_MAX, NULL);
    }
    const bool before = starved; // a caller who is building a value learns of both
    mba__json_begin();
    json_t *root = json_loadb(copy ? copy : text, bytes, JSON_REJECT_DUPLICATES, &e);
    free(copy);
    const bool now = starved;
    starved |= before;
    if (now) {
        json_decref(root);
        return mba_fail(MBA_E_NOMEM, "no memory to read the JSON of '%s'", file);
    }
    if (!root) return jansson_failed(&e, file, text, n);
    *out = root;
    return MBA_OK;
}

mba_status mba_json_load(json_t **out, const char *path, const mba_json_limits *limits)
{
    char  *text;
    size_t bytes;
    MBA_TRY(mba_file_read(&text, &bytes, path, limits ? limits->bytes : mba_json_limits_default.bytes));
    mba_status st = mba_json_parse(out, path, text, bytes, limits);
    free(text);
    return st;
}

/* ---- writing ---- */

json_t *mba_json_finite(double v) { return isfinite(v) ? json_real(v) : json_null(); }

typedef struct sink {
    mba_writer *writer;
    mba_status  status;
} sink;

static int put(const char *bytes, size_t n, void *to)
{
    sink *s = to;
    s->status = mba_writer_put(s->writer, bytes, n);
    return s->status == MBA_OK ? 0 : -1;
}

mba_status mba_json_whole(const json_t *root, const char *what)
{
    return root && !starved ? MBA_OK : mba_fail(MBA_E_NOMEM, "no memory for %s", what);
}

mba_status mba_json_print(FILE *f, const json_t *root, int digits)
{
    MBA_TRY(mba_json_whole(root, "the output"));
    const bool whole = json_dumpf(root, f, JSON_INDENT(1) | JSON_REAL_PRECISION(digits)) == 0 || ferror(f);
    putc('\n', f);
    return whole ? mba_json_whole(root, "the output") : mba_fail(MBA_E_NOMEM, "no memory for the output");
}

mba_status mba_json_save(const json_t *root, const char *path)
{
    sink s = { NULL, MBA_OK };
    MBA_TRY(mba_writer_create(&s.writer, path));
    mba__json_begin();
    const int failed = json_dump_callback(root, put, &s, JSON_INDENT(2) | JSON_PRESERVE_ORDER);
    if (s.status == MBA_OK && (failed || mba__json_starved()))
        s.status = mba_fail(MBA_E_NOMEM, "no memory to write '%s'", path);
    if (s.status == MBA_OK) s.status = mba_writer_put(s.writer, "\n", 1);
    if (s.status == MBA_OK) s.status = mba_writer_commit(s.writer);
    mba_writer_destroy(s.writer);
    return s.status;
}

/* ---- getters ---- */

const char *mba_json_kind(const json_t *value)
{
    static const char *const kind[] = {
        [JSON_OBJECT] = "an object", [JSON_ARRAY] = "a list", [JSON_STRING] = "text", [JSON_INTEGER] = "a whole number",
        [JSON_REAL] = "a number",    [JSON_TRUE] = "true",    [JSON_FALSE] = "false", [JSON_NULL] = "null",
    };
    return value ? kind[json_typeof(value)] : "absent";
}

const json_t *mba_json_get(const json_t *o, const char *key)
{
    const json_t *v = json_object_get(o, key); // NULL if o is no object
    return json_is_null(v) ? NULL : v;
}

bool mba_json_number(const json_t *value, double *out)
{
    const char *word = json_string_value(json_object_get(value, "__float__"));
    if (json_is_number(value)) *out = json_number_value(value);
    else if (!word) return false;
    else if (!strcmp(word, "Infinity")) *out = INFINITY;
    else if (!strcmp(word, "-Infinity")) *out = -INFINITY;
    else if (!strcmp(word, "NaN")) *out = NAN;
    else return false;
    return true;
}

/* Finds a value for a getter; *v is NULL if the default applies. */
static mba_status look_up(const json_t **v, const json_t *o, const char *key)
{
    if (o && !json_is_object(o))
        return mba_fail(MBA_E_FORMAT,
                        "\"%s\" is expected in %s\nwhy: an object is needed there\nfix: correct "
                        "the file",
                        key, mba_json_kind(o));
    *v = mba_json_get(o, key);
    return MBA_OK;
}

static mba_status wrong_kind(const char *key, const json_t *v, const char *wanted)
{
    return mba_fail(MBA_E_FORMAT, "\"%s\" is %s\nwhy: it should be %s\nfix: correct the file", key, mba_json_kind(v),
                    wanted);
}

mba_status mba_json_require(const json_t *o, const char *key)
{
    const json_t *v;
    MBA_TRY(look_up(&v, o, key));
    if (v) return MBA_OK;
    return mba_fail(MBA_E_FORMAT, "\"%s\" is missing\nwhy: it has no default\nfix: add it to the file", key);
}

mba_status mba_json_int(const json_t *o, const char *key, int64_t standard, int64_t min, int64_t max, int64_t *out)
{
    const json_t *v;
    MBA_TRY(look_up(&v, o, key));
    if (v && !json_is_integer(v)) return wrong_kind(key, v, "a whole number");
    const int64_t x = v ? json_integer_value(v) : standard;
    if (v && (x < min || x > max))
        return mba_fail(MBA_E_FORMAT,
                        "\"%s\" is %" PRId64 "\nwhy: it should be in %" PRId64 " .. %" PRId64 "\n"
                        "fix: correct the file",
                        key, x, min, max);
    *out = x;
    return MBA_OK;
}

mba_status mba_json_real(const json_t *o, const char *key, double standard, double min, double max, double *out)
{
    const json_t *v;
    double        x = standard;
    MBA_TRY(look_up(&v, o, key));
    if (v && !mba_json_number(v, &x)) return wrong_kind(key, v, "a number");
    if (v && !(x >= min && x <= max)) // NaN is in no range
        return mba_fail(MBA_E_FORMAT, "\"%s\" is %g\nwhy: it should be in %g .. %g\nfix: correct the file", key, x, min,
                        max);
    *out = x;
    return MBA_OK;
}

mba_status mba_json_bool(const json_t *o, const char *key, bool standard, bool *out)
{
    const json_t *v;
    MBA_TRY(look_up(&v, o, key));
    if (v && !json_is_boolean(v)) return wrong_kind(key, v, "true or false");
    *out = v ? json_is_true(v) : standard;
    return MBA_OK;
}

mba_status mba_json_text(const json_t *o, const char *key, const char *standard, const char **out)
{
    const json_t *v;
    MBA_TRY(look_up(&v, o, key));
    if (v && !json_is_string(v)) return wrong_kind(key, v, "text");
    *out = v ? json_string_value(v) : standard;
    return MBA_OK;
}
