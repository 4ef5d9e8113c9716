// SPDX-License-Identifier: Apache-2.0
/* inspect_text.c -- plain text, JSON lines, tokenizers and edge lists, as inspect.h shows them. */
#include <inttypes.h>
#include <string.h>

#include "cli/inspect.h"
#include "data/array.h"
#include "data/json.h"
#include "data/reader.h"
#include "data/tokenizer.h"
#include "data/unicode.h"

/* Plain or compressed; what is inside the packing is told beside it. */
static mba_status open_text(mba_reader **out, mba_report *r, const char *format, const char *about)
{
    MBA_TRY(mba_reader_open(out, r->path, MBA_READER_MOST));
    mba__fact_format(r, format, about);
    if (mba_reader_packing(*out)) mba__fact_text(r->facts, "packing", mba_reader_packing(*out));
    return MBA_OK;
}

static bool is_blank(const char *text, size_t n)
{
    while (n && strchr(" \t\r", text[n - 1]) && text[n - 1]) n--;
    return !n;
}

mba_status mba__inspect_text(mba_report *r, const mba_map *m)
{
    (void)m;
    mba_value_range lines = { 0 };
    mba_reader     *in = NULL;
    mba_status      st;
    const char     *line;
    size_t          n;
    bool            utf8 = true;
    MBA_TRY(open_text(&in, r, "text", "plain text, one document"));
    while ((st = mba_reader_line(in, &line, &n)) == MBA_OK && line) {
        mba__spread_add(&lines, (double)n);
        utf8 = utf8 && mba_utf8_valid(line, n);
    }
    mba_reader_close(in);
    mba__fact_int(r->facts, "lines", lines.n);
    json_object_set_new(r->facts, "utf8", json_boolean(utf8));
    mba__fact_spread(r->facts, "line_bytes", &lines, true);
    return st;
}

/* ---- JSON: lines, tokenizers ---- */

mba_status mba__inspect_tokenizer(mba_report *r, const mba_map *m)
{
    mba_tokenizer  *t = NULL;
    mba_value_range length = { 0 };
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

typedef struct line_count {
    int64_t         lines, without;
    mba_value_range document;
    json_t         *keys;
} line_count;

static mba_status count_line(line_count *c, const char *line, size_t n, const char *field)
{
    json_error_t e;
    const char  *key;
    json_t      *v, *o = json_loadb(line, n, JSON_ALLOW_NUL, &e);
    if (!json_is_object(o)) {
        const mba_words why = mba_quote(o ? "it is something else" : e.text);
        json_decref(o);
        return mba_fail(MBA_E_FORMAT,
                        "line %" PRId64 " is not a JSON object\nwhy: %s\n"
                        "fix: correct or remove the line; JSON lines have one object per line",
                        c->lines, why.text);
    }
    json_object_foreach(o, key, v)
        json_object_set_new(c->keys, key, json_integer(json_integer_value(json_object_get(c->keys, key)) + 1));
    const json_t *text = json_object_get(o, field);
    if (json_is_string(text)) mba__spread_add(&c->document, (double)json_string_length(text));
    else c->without++;
    json_decref(o);
    return MBA_OK;
}

mba_status mba__inspect_json_lines(mba_report *r, const mba_map *m)
{
    (void)m;
    mba_reader *in = NULL;
    mba_status  st;
    const char *line;
    size_t      n;
    MBA_TRY(open_text(&in, r, "json-lines", "JSON lines, one document each"));
    line_count c = { .keys = json_object() };
    while ((st = mba_reader_line(in, &line, &n)) == MBA_OK && line) {
        const size_t mark = !c.lines++ && n >= 3 && !memcmp(line, "\xEF\xBB\xBF", 3) ? 3 : 0;
        if (!is_blank(line + mark, n - mark)) st = count_line(&c, line + mark, n - mark, r->field);
        if (st != MBA_OK) break;
    }
    mba_reader_close(in);
    mba__fact_int(r->facts, "lines", c.lines);
    json_object_set_new(r->facts, "keys", c.keys);
    mba__fact_text(r->facts, "field", r->field);
    mba__fact_int(r->facts, "documents", c.document.n);
    mba__fact_int(r->facts, "lines_without_text", c.without);
    mba__fact_spread(r->facts, "document_bytes", &c.document, true);
    return st == MBA_OK ? st : mba_where(st, "'%s'", r->path);
}

/* Damaged JSON lines come here too: the parser says where it stopped. */
mba_status mba__inspect_json(mba_report *r, const mba_map *m)
{
    json_t *o = NULL;
    MBA_TRY(mba_json_parse(&o, r->path, m->data, m->bytes, NULL));
    json_decref(o);
    return mba_fail(MBA_E_UNSUPPORTED,
                    "'%s' is JSON, but not a data set\nwhy: it is neither JSON lines nor a tokenizer.json\nfix: "
                    "give the data itself",
                    r->path);
}
