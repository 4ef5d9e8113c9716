/* inspect.c -- see inspect.h: what kind of data a path names; tokens, text and arrays. */
#include "cli/inspect.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "data/array.h"
#include "data/json.h"
#include "data/listing.h"
#include "data/npy.h"
#include "data/token_file.h"
#include "data/tokenizer.h"
#include "data/unicode.h"
#include "data/weights.h"

enum { BLOCK = 1 << 14, LOOK = 1 << 16, GPT2_END_OF_TEXT = 50256, BEGINS = 16 };

static bool begins(const mba_map *m, const char *magic, size_t n)
{
    return m->bytes >= n && !memcmp(m->data, magic, n);
}

/* ---- what others write and we do not read ---- */

static const struct { const char *magic; size_t n; const char *what, *fix; } others[] = {
    { "\xff\xd8\xff", 3, "one JPEG image", "name the folder that holds a folder per class" },
    { "\x89PNG", 4, "one PNG image", "name a folder of JPEG images, with a folder per class" },
    { "\x1f\x8b", 2, "compressed with gzip", "unpack it with gunzip" },
    { "\x28\xb5\x2f\xfd", 4, "compressed with zstd", "unpack it with unzstd" },
    { "PK\x03\x04", 4, "a ZIP archive (.npz, .pt)", "save the arrays as .npy or .safetensors" },
    { "PAR1", 4, "a Parquet file", "write its text as JSON lines" },
    { "\x89HDF", 4, "an HDF5 file", "save the arrays as .npy or .safetensors" },
};

static mba_status refuse_others(const char *path, const mba_map *m)
{
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (begins(m, others[i].magic, others[i].n))
            return mba_fail(MBA_E_UNSUPPORTED, "'%s' is not a dataset we read\nwhy: it is %s\nfix: %s", path,
                            others[i].what, others[i].fix);
    return MBA_OK;
}

/* ---- tokens ---- */

typedef struct token_count {
    int64_t    files, tokens, ends, run;   /* run: of the document so far */
    int32_t    largest, end_of_text;
    mba_spread document;
} token_count;

static void count_tokens(token_count *c, const int32_t *id, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        if (id[i] > c->largest) c->largest = id[i];
        if (id[i] != c->end_of_text) { c->run++; continue; }
        c->ends++;
        if (c->run) mba__spread_add(&c->document, (double)c->run);
        c->run = 0;
    }
    c->tokens += n;
}

static void tell_notes(json_t *facts, const mba_token_notes *n)
{
    if (!n) return;
    mba__fact_text(facts, "tokenizer", n->tokenizer);
    mba__fact_int(facts, "vocab", n->vocab);
    mba__fact_text(facts, "source", n->source);
    json_object_set_new(facts, "synthetic", json_boolean(n->synthetic));
}

static mba_status tell_first(mba_report *r, token_count *c, const mba_token_file *f, bool header)
{
    int32_t                id[BEGINS];
    char                   about[96];
    const mba_token_notes *notes = mba_token_file_notes(f);
    const int              width = mba_token_file_bytes_per_token(f);
    const int64_t          n     = mba_token_file_count(f) < BEGINS ? mba_token_file_count(f) : BEGINS;
    MBA_TRY(mba_token_file_read(f, id, 0, n, INT32_MAX));
    c->end_of_text = notes ? (int32_t)notes->end_of_text : GPT2_END_OF_TEXT;
    snprintf(about, sizeof about, "%s of %d bytes%s", header ? "llm.c tokens" : "bare tokens (nanoGPT; no header)",
             width, notes && notes->synthetic ? ", SYNTHETIC text" : "");
    mba__fact_format(r, "tokens", about);
    mba__fact_int(r->facts, "bytes_per_token", width);
    tell_notes(r->facts, notes);
    json_t *list = json_array();
    for (int64_t i = 0; i < n; i++) json_array_append_new(list, json_integer(id[i]));
    json_object_set_new(r->facts, "begins", list);
    return MBA_OK;
}

/* `m`: the same file as bytes. */
static mba_status add_tokens(mba_report *r, token_count *c, const mba_token_file *f, const mba_map *m)
{
    int32_t       id[BLOCK];
    const int64_t n = mba_token_file_count(f);
    MBA_TRY(refuse_others(mba_token_file_path(f), m));
    if (!c->files++) MBA_TRY(tell_first(r, c, f, (int64_t)m->bytes != n * mba_token_file_bytes_per_token(f)));
    for (int64_t at = 0; at < n; at += BLOCK) {
        const int64_t some = n - at < BLOCK ? n - at : BLOCK;
        MBA_TRY(mba_token_file_read(f, id, at, some, INT32_MAX));
        count_tokens(c, id, some);
    }
    return MBA_OK;
}

static mba_status add_token_file(mba_report *r, token_count *c, const char *path)
{
    mba_token_file *f = NULL;
    mba_map         m = { 0 };
    MBA_TRY(mba_token_file_open(&f, path));
    mba_status st = mba_file_map(&m, path);
    if (st == MBA_OK) st = add_tokens(r, c, f, &m);
    mba_file_unmap(&m);
    mba_token_file_close(f);
    return st;
}

static void tell_tokens(mba_report *r, token_count *c)
{
    if (c->run) mba__spread_add(&c->document, (double)c->run);
    mba__fact_int(r->facts, "files", c->files);
    mba__fact_int(r->facts, "tokens", c->tokens);
    mba__fact_int(r->facts, "largest_token", c->largest);
    if (!c->ends) return;                          // where nothing ends, there is no telling documents
    mba__fact_int(r->facts, "end_of_text", c->end_of_text);
    mba__fact_int(r->facts, "documents", c->document.n);
    mba__fact_spread(r->facts, "document_tokens", &c->document, true);
}

static mba_status inspect_tokens(mba_report *r, const mba_map *m)
{
    (void)m;
    token_count c = { 0 };
    MBA_TRY(add_token_file(r, &c, r->path));
    tell_tokens(r, &c);
    return MBA_OK;
}

/* Anything of whole 16-bit words can be bare tokens; this is asked last. */
static bool is_tokens(const mba_map *m) { return m->bytes && m->bytes % 2 == 0; }
static bool is_bin(const char *name) { return mba_ends_with(name, ".bin"); }

static mba_status inspect_shards(mba_report *r, const mba_listing *l)
{
    token_count c  = { 0 };
    mba_status  st = MBA_OK;
    for (int64_t i = 0; st == MBA_OK && i < l->n; i++) {
        char *path;
        if (asprintf(&path, "%s/%s", r->path, l->name[i]) < 0) return mba_fail(MBA_E_NOMEM, "no memory for a path");
        st = add_token_file(r, &c, path);
        free(path);
    }
    if (st == MBA_OK) tell_tokens(r, &c);
    return st;
}

/* A folder of token files is told from CIFAR's by its first file. */
static bool inspect_token_folder(mba_status *st, mba_report *r)
{
    static const char *const cifar[] = { "data_batch_1.bin", "test_batch.bin", "train.bin", "test.bin" };
    mba_listing              l       = { 0 };
    bool                     ours;
    *st  = mba_listing_read(&l, r->path, is_bin);
    ours = *st != MBA_OK || l.n;
    for (int64_t i = 0; i < l.n; i++)
        for (size_t k = 0; k < sizeof cifar / sizeof *cifar; k++) ours = ours && strcmp(l.name[i], cifar[k]);
    if (ours && *st == MBA_OK) *st = inspect_shards(r, &l);
    mba_listing_free(&l);
    return ours;
}

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
    size_t      i = begins(m, "\xEF\xBB\xBF", 3) ? 3 : 0;
    while (i < m->bytes && strchr(" \t\r\n", p[i]) && p[i]) i++;
    return is_text(m) && i < m->bytes && p[i] == '{';
}

/* The first line alone, where it is a whole object. */
static json_t *first_object(const mba_map *m)
{
    size_t at = begins(m, "\xEF\xBB\xBF", 3) ? 3 : 0;
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
    for (size_t at = begins(m, "\xEF\xBB\xBF", 3) ? 3 : 0; st == MBA_OK && next_line(&l, m, &at);) {
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

/* ---- arrays ---- */

typedef struct array_count {
    json_t *list, *types;
    int64_t values, bytes;
} array_count;

static void add_array(array_count *c, const mba_array *a)
{
    const char *type = mba_wire_name(a->dtype);
    json_t     *row = json_object(), *shape = json_array();
    for (int k = 0; k < a->rank; k++) json_array_append_new(shape, json_integer(a->shape[k]));
    mba__fact_text(row, "name", a->name);
    mba__fact_text(row, "dtype", type);
    json_object_set_new(row, "shape", shape);
    json_array_append_new(c->list, row);
    mba__fact_int(c->types, type, json_integer_value(json_object_get(c->types, type)) + a->elems);
    c->values += a->elems;
    c->bytes  += a->bytes;
}

static void tell_arrays(mba_report *r, const array_count *c)
{
    mba__fact_int(r->facts, "tensors", (int64_t)json_array_size(c->list));
    mba__fact_int(r->facts, "values", c->values);
    mba__fact_int(r->facts, "tensor_bytes", c->bytes);
    json_object_set_new(r->facts, "types", c->types);
    json_object_set_new(r->facts, "list", c->list);
}

/* The length of a header, then the header. */
static bool is_safetensors(const mba_map *m)
{
    uint64_t             header = 0;
    const unsigned char *p = m->data;
    for (int i = 7; i >= 0 && m->bytes > 8; i--) header = header << 8 | p[i];
    return header >= 2 && header <= 100000000 && p[8] == '{';
}

static mba_status inspect_safetensors(mba_report *r, const mba_map *m)
{
    mba_safetensors *f = NULL;
    MBA_TRY(mba_safetensors_open_bytes(&f, r->path, m->data, m->bytes));
    array_count c = { .list = json_array(), .types = json_object() };
    for (int64_t i = 0; i < mba_safetensors_count(f); i++) add_array(&c, mba_safetensors_at(f, i));
    mba__fact_format(r, "safetensors", "named tensors");
    tell_arrays(r, &c);
    mba_safetensors_close(f);
    return MBA_OK;
}

static bool holds(const mba_report *r, const char *name)
{
    char path[4096];
    return snprintf(path, sizeof path, "%s/%s", r->path, name) < (int)sizeof path && mba_is_file(path);
}

static bool inspect_checkpoint(mba_status *st, mba_report *r)
{
    mba_weights *w = NULL;
    if (!holds(r, "model.safetensors") && !holds(r, "model.safetensors.index.json")) return false;
    *st = mba_weights_open(&w, r->path);
    if (*st != MBA_OK) return true;
    array_count c = { .list = json_array(), .types = json_object() };
    for (int64_t i = 0; i < mba_weights_count(w); i++) add_array(&c, mba_weights_at(w, i));
    mba__fact_format(r, "checkpoint", "the weights of a checkpoint directory");
    tell_arrays(r, &c);
    mba_weights_close(w);
    return true;
}

static bool is_npy(const mba_map *m) { return begins(m, "\x93NUMPY", 6); }

static mba_status tell_values(json_t *facts, const mba_array *a)
{
    mba_spread s = { 0 };
    double     x[1024];
    int64_t    wild = 0;
    for (int64_t at = 0; at < a->elems; at += 1024) {
        const int64_t n    = a->elems - at < 1024 ? a->elems - at : 1024, width = (int64_t)mba_wire_bytes(a->dtype);
        mba_array     part = *a;
        part.rank     = 1;
        part.shape[0] = part.elems = n;
        part.bytes    = n * width;
        part.data     = (const char *)a->data + at * width;
        MBA_TRY(mba_array_read_f64(&part, x, n));
        for (int64_t i = 0; i < n; i++) {
            if (isfinite(x[i])) mba__spread_add(&s, x[i]);
            else                wild++;
        }
    }
    mba__fact_spread(facts, "value", &s, false);
    mba__fact_int(facts, "not_finite", wild);
    return MBA_OK;
}

static mba_status inspect_npy(mba_report *r, const mba_map *m)
{
    mba_npy *f = NULL;
    MBA_TRY(mba_npy_open_bytes(&f, r->path, m->data, m->bytes));
    const mba_array *a     = mba_npy_array(f);
    json_t          *shape = json_array();
    for (int k = 0; k < a->rank; k++) json_array_append_new(shape, json_integer(a->shape[k]));
    mba__fact_format(r, "npy", "one array, as NumPy saves it");
    mba__fact_text(r->facts, "dtype", mba_wire_name(a->dtype));
    json_object_set_new(r->facts, "shape", shape);
    mba__fact_int(r->facts, "values", a->elems);
    const mba_status st = tell_values(r->facts, a);
    mba_npy_close(f);
    return st;
}

/* ---- all of it ---- */

/* In this order: what has a name of its own first, then text, at last what any bytes could be. */
static const struct {
    bool (*is)(const mba_map *m);
    mba_status (*inspect)(mba_report *r, const mba_map *m);
} kinds[] = {
    { is_npy, inspect_npy },
    { is_safetensors, inspect_safetensors },
    { is_tokenizer, inspect_tokenizer },
    { is_json_lines, inspect_json_lines },
    { is_json, refuse_json },
    { is_edge_list, inspect_edge_list },
    { is_text, inspect_text },
    { is_tokens, inspect_tokens },
};

static mba_status inspect_file(mba_report *r, const mba_map *m)
{
    mba_status st;
    if (!m->bytes)
        return mba_fail(MBA_E_FORMAT, "'%s' is empty\nwhy: it has no bytes\nfix: make it or copy it again", r->path);
    MBA_TRY(refuse_others(r->path, m));
    if (mba__inspect_graph_file(&st, r, m) || mba__inspect_image_file(&st, r, m)) return st;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (kinds[i].is(m)) return kinds[i].inspect(r, m);
    return mba_fail(MBA_E_FORMAT,
                    "'%s' is not a dataset we read\nwhy: its bytes begin like no format we know, and %zu bytes "
                    "are no whole number of 16-bit tokens\nfix: mambascope data --help names the formats",
                    r->path, m->bytes);
}

static mba_status inspect_path(mba_report *r)
{
    mba_status st = MBA_OK;
    mba_map    m  = { 0 };
    if (mba_is_folder(r->path)) {
        if (inspect_checkpoint(&st, r) || mba__inspect_graph_folder(&st, r) || inspect_token_folder(&st, r)) return st;
        return mba__inspect_image_folder(r);
    }
    const bool made_up = !strcmp(r->path, "shapes") || !strcmp(r->path, "synthetic");
    if (access(r->path, F_OK) != 0 && (made_up || strpbrk(r->path, "*?["))) return mba__inspect_image_folder(r);
    MBA_TRY(mba_file_map(&m, r->path));
    r->bytes = (int64_t)m.bytes;
    st = inspect_file(r, &m);
    mba_file_unmap(&m);
    return st;
}

mba_status mba_inspect(const char *path, const mba_inspect_options *o)
{
    mba_report r = { .path = path, .field = o->field ? o->field : "text" };
    mba__json_begin();
    r.facts = json_object();
    mba__fact_text(r.facts, "path", path);
    mba_status st = inspect_path(&r);
    if (mba__json_starved()) st = mba_fail(MBA_E_NOMEM, "no memory to describe '%s'", path);
    if (st == MBA_OK && o->json) {
        json_dumpf(r.facts, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
        putchar('\n');
    } else if (st == MBA_OK) {
        mba__report_print(&r, stdout, isatty(STDOUT_FILENO));
    }
    for (int i = 0; i < MBA_PICTURES; i++) mba_image_free(&r.picture[i]);
    json_decref(r.facts);
    return st;
}
