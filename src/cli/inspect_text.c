/* inspect_text.c -- plain text, JSON lines, tokenizers and edge lists, as inspect.h shows them. */
#include <inttypes.h>
#include <string.h>

#include "cli/inspect.h"
#include "data/array.h"
#include "data/json.h"
#include "data/tokenizer.h"
#include "data/unicode.h"

enum { LOOK = 1 << 16 };                          // bytes that tell text from other files

/* ---- text ---- */

static bool is_text(const mba_map *m)
{
    const unsigned char *p = m->data;
    for (size_t i = 0; i < m->bytes && i < LOOK; i++)
        if (p[i] == 0x7f || (p[i] < 0x20 && !(p[i] >= '\t' && p[i] <= '\r') && p[i] != 0x1b)) return false;
    return m->bytes > 0;
}

typedef struct line { const char *text; size_t n; } line;

/* The line at *at, without its end, and moves behind it; false: there is none. */
static bool next_line(line *out, const mba_map *m, size_t *at)
{
    const char *first = (const char *)m->data + *at;
    if (*at >= m->bytes) return false;
    const char *stop = memchr(first, '\n', m->bytes - *at);
    *out = (line){ first, stop ? (size_t)(stop - first) : m->bytes - *at };
    *at += out->n + (stop != NULL);
    return true;
}

static bool is_blank(line l)
{
    while (l.n && strchr(" \t\r", l.text[l.n - 1]) && l.text[l.n - 1]) l.n--;
    return !l.n;
}

static mba_status inspect_text(mba_report *r, const mba_map *m)
{
    mba_spread lines = { 0 };
    line       l;
    for (size_t at = 0; next_line(&l, m, &at);) mba__spread_add(&lines, (double)l.n);
    mba__fact_format(r, "text", "plain text, one document");
    mba__fact_int(r->facts, "lines", lines.n);
    json_object_set_new(r->facts, "utf8", json_boolean(mba_utf8_valid(m->data, m->bytes)));
    mba__fact_spread(r->facts, "line_bytes", &lines, true);
    return MBA_OK;
}

/* ---- JSON: lines, tokenizers ---- */

static bool is_json(const mba_map *m)
{
    const char *p = m->data;
    size_t      i = mba__begins(m, "\xEF\xBB\xBF", 3) ? 3 : 0;
    while (i < m->bytes && strchr(" \t\r\n", p[i]) && p[i]) i++;
    return is_text(m) && i < m->bytes && p[i] == '{';
}

/* The first line alone, where it is a whole object. */
static json_t *first_object(const mba_map *m)
{
    size_t at = mba__begins(m, "\xEF\xBB\xBF", 3) ? 3 : 0;
    line   l  = { 0 };
    while (next_line(&l, m, &at) && is_blank(l)) {}
    json_t *o = l.n ? json_loadb(l.text, l.n, JSON_ALLOW_NUL, NULL) : NULL;
    if (json_is_object(o)) return o;
    json_decref(o);
    return NULL;
}

static bool is_tokenizer(const mba_map *m)
{
    if (!is_json(m)) return false;
    json_t    *first = first_object(m);
    const bool yes   = first ? json_object_get(json_object_get(first, "model"), "vocab") != NULL
                             : memmem(m->data, m->bytes, "\"vocab\"", 7) && memmem(m->data, m->bytes, "\"model\"", 7);
    json_decref(first);
    return yes;
}

static mba_status inspect_tokenizer(mba_report *r, const mba_map *m)
{
    mba_tokenizer *t      = NULL;
    mba_spread     length = { 0 };
    MBA_TRY(mba_tokenizer_create_json(&t, m->data, m->bytes));
    mba__fact_format(r, "tokenizer", "byte-level BPE tokenizer (Hugging Face tokenizer.json)");
    mba__fact_text(r->facts, "name", mba_tokenizer_name(t));
    mba__fact_int(r->facts, "vocab", mba_tokenizer_vocab(t));
    mba__fact_int(r->facts, "end_of_text", mba_tokenizer_end_of_text(t));
    for (int64_t i = 0; i < mba_tokenizer_vocab(t); i++) {
        size_t n;
        if (mba_tokenizer_token(t, (int32_t)i, &n)) mba__spread_add(&length, (double)n);
    }
    mba__fact_int(r->facts, "tokens", length.n);
    mba__fact_spread(r->facts, "token_bytes", &length, true);
    mba_tokenizer_destroy(t);
    return MBA_OK;
}

static bool is_json_lines(const mba_map *m)
{
    json_t *first = is_json(m) ? first_object(m) : NULL;
    json_decref(first);
    return first != NULL;
}

typedef struct line_count {
    int64_t    lines, without;
    mba_spread document;
    json_t    *keys;
} line_count;

static mba_status count_line(line_count *c, line l, const char *field)
{
    json_error_t e;
    const char  *key;
    json_t      *v, *o = json_loadb(l.text, l.n, JSON_ALLOW_NUL, &e);
    if (!json_is_object(o)) {
        const mba_words why = mba_show(o ? "it is something else" : e.text);
        json_decref(o);
        return mba_fail(MBA_E_FORMAT, "line %" PRId64 " is no JSON object\nwhy: %s\n"
                        "fix: correct or remove the line; JSON lines have one object a line", c->lines, why.text);
    }
    json_object_foreach(o, key, v)
        json_object_set_new(c->keys, key, json_integer(json_integer_value(json_object_get(c->keys, key)) + 1));
    const json_t *text = json_object_get(o, field);
    if (json_is_string(text)) mba__spread_add(&c->document, (double)json_string_length(text));
    else                      c->without++;
    json_decref(o);
    return MBA_OK;
}

static mba_status inspect_json_lines(mba_report *r, const mba_map *m)
{
    line_count c = { .keys = json_object() };
    line       l;
    mba_status st = MBA_OK;
    for (size_t at = mba__begins(m, "\xEF\xBB\xBF", 3) ? 3 : 0; st == MBA_OK && next_line(&l, m, &at);) {
        c.lines++;
        if (!is_blank(l)) st = count_line(&c, l, r->field);
    }
    mba__fact_format(r, "json-lines", "JSON lines, one document each");
    mba__fact_int(r->facts, "lines", c.lines);
    json_object_set_new(r->facts, "keys", c.keys);
    mba__fact_text(r->facts, "field", r->field);
    mba__fact_int(r->facts, "documents", c.document.n);
    mba__fact_int(r->facts, "lines_without_text", c.without);
    mba__fact_spread(r->facts, "document_bytes", &c.document, true);
    return st == MBA_OK ? st : mba_where(st, "'%s'", r->path);
}

/* Damaged JSON lines come here too: the parser says where it stopped. */
static mba_status refuse_json(mba_report *r, const mba_map *m)
{
    json_t *o = NULL;
    MBA_TRY(mba_json_parse(&o, r->path, m->data, m->bytes, NULL));
    json_decref(o);
    return mba_fail(MBA_E_UNSUPPORTED,
                    "'%s' is JSON, but no dataset\nwhy: it is neither JSON lines nor a tokenizer.json\n"
                    "fix: name the data itself",
                    r->path);
}

/* Two whole numbers with blanks between them in each of the first lines that are no comments. */
static bool is_edge_list(const mba_map *m)
{
    line l;
    int  seen = 0;
    if (!is_text(m)) return false;
    for (size_t at = 0; seen < 16 && next_line(&l, m, &at);) {
        size_t i = 0, fields = 0;
        if (is_blank(l) || l.text[0] == '#') continue;
        while (i < l.n) {
            const size_t from = i;
            while (i < l.n && l.text[i] >= '0' && l.text[i] <= '9') i++;
            if (i == from) return false;
            fields++;
            while (i < l.n && strchr(" \t\r", l.text[i]) && l.text[i]) i++;
        }
        if (fields != 2) return false;
        seen++;
    }
    return seen > 0;
}

static mba_status inspect_edge_list(mba_report *r, const mba_map *m)
{
    (void)m;
    return mba__inspect_edge_list(r);
}

const mba_inspect_kind mba__text_kinds[] = {
    { is_tokenizer, inspect_tokenizer }, { is_json_lines, inspect_json_lines }, { is_json, refuse_json },
    { is_edge_list, inspect_edge_list }, { is_text, inspect_text },             { NULL, NULL },
};
