// SPDX-License-Identifier: Apache-2.0
/* recognise.c -- see recognise.h: tests for each kind of data, and refusals of formats of other programs. */
#include "data/recognise.h"

#include <jansson.h>
#include <stdint.h>
#include <string.h>

#include "data/listing.h"
#include "data/reader.h"
#include "data/unicode.h"

enum { LOOK = 1 << 16 }; // bytes that are examined to distinguish text from other files

static bool begins(const void *head, size_t bytes, const char *magic, size_t n)
{
    return bytes >= n && !memcmp(head, magic, n);
}

/* ---- formats of other programs that we do not read ---- */

static const struct {
    const char *magic;
    size_t      n;
    const char *what, *fix;
} foreign[] = {
    { "\xff\xd8\xff", 3, "one JPEG image", "name the folder that holds a folder per class" },
    { "\x89PNG", 4, "one PNG image", "name the folder that holds a folder per class" },
    { "PK\x03\x04", 4, "a ZIP archive (.npz, .pt)", "save the arrays as .npy or .safetensors" },
    { "PAR1", 4, "a Parquet file",
      "make JSON lines of it: python3 -c 'import sys, json, pyarrow.parquet as p; [print(json.dumps(row, default=str)) "
      "for "
      "batch in p.ParquetFile(sys.argv[1]).iter_batches() for row in batch.to_pylist()]' IN.parquet > OUT.jsonl" },
    { "\x89HDF", 4, "an HDF5 file", "save the arrays as .npy or .safetensors" },
    { "\xfd"
      "7zXZ",
      5, "compressed with xz", "unpack it with unxz" },
    { "BZh91AY", 7, "compressed with bzip2", "unpack it with bunzip2" },
    { "\xff\xfe", 2, "text in UTF-16", "iconv -f UTF-16 -t UTF-8 IN > OUT" },
    { "\xfe\xff", 2, "text in UTF-16", "iconv -f UTF-16 -t UTF-8 IN > OUT" },
};

mba_status mba_refuse_foreign(const char *path, const void *head, size_t bytes)
{
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++)
        if (begins(head, bytes, foreign[i].magic, foreign[i].n))
            return mba_fail(MBA_E_UNSUPPORTED, "'%s' is not a supported data set\nwhy: it is %s\nfix: %s", path,
                            foreign[i].what, foreign[i].fix);
    return MBA_OK;
}

/* ---- text ---- */

bool mba_is_text(const void *bytes, size_t n)
{
    const unsigned char *p = bytes;
    for (size_t i = 0; i < n && i < LOOK; i++)
        if (p[i] == 0x7f || (p[i] < 0x20 && !(p[i] >= '\t' && p[i] <= '\r') && p[i] != 0x1b)) return false;
    return n > 0;
}

bool mba_looks_like_text(const void *bytes, size_t n)
{
    const unsigned char *p = bytes;
    if (!mba_is_text(bytes, n)) return false;
    if (n > LOOK)
        for (n = LOOK; n && (p[n] & 0xC0) == 0x80;) n--; // not in the middle of a character
    return mba_utf8_valid(bytes, n);
}

typedef struct line {
    const char *text;
    size_t      n;
} line;

/* Returns the line at *at, without its newline, and advances *at; false: no more lines. */
static bool next_line(line *out, const char *text, size_t bytes, size_t *at)
{
    if (*at >= bytes) return false;
    const char *first = text + *at, *stop = memchr(first, '\n', bytes - *at);
    *out = (line){ first, stop ? (size_t)(stop - first) : bytes - *at };
    *at += out->n + (stop != NULL);
    return true;
}

static bool is_blank(line l)
{
    while (l.n && strchr(" \t\r", l.text[l.n - 1]) && l.text[l.n - 1]) l.n--;
    return !l.n;
}

/* ---- JSON ---- */

static size_t mark_bytes(const char *text, size_t bytes) { return begins(text, bytes, "\xEF\xBB\xBF", 3) ? 3 : 0; }

static bool is_json(const char *text, size_t bytes)
{
    size_t i = mark_bytes(text, bytes);
    while (i < bytes && strchr(" \t\r\n", text[i]) && text[i]) i++;
    return mba_is_text(text, bytes) && i < bytes && text[i] == '{';
}

/* Parses the first line alone, if it is a complete object. */
static json_t *first_object(const char *text, size_t bytes)
{
    size_t at = mark_bytes(text, bytes);
    line   l = { 0 };
    while (next_line(&l, text, bytes, &at) && is_blank(l)) {
    }
    json_t *o = l.n ? json_loadb(l.text, l.n, JSON_ALLOW_NUL, NULL) : NULL;
    if (json_is_object(o)) return o;
    json_decref(o);
    return NULL;
}

static mba_data_kind json_kind(const char *text, size_t bytes)
{
    json_t    *first = first_object(text, bytes);
    const bool tokenizer = first ? json_object_get(json_object_get(first, "model"), "vocab") != NULL
                                 : memmem(text, bytes, "\"vocab\"", 7) && memmem(text, bytes, "\"model\"", 7);
    json_decref(first);
    return tokenizer ? MBA_DATA_TOKENIZER : first ? MBA_DATA_JSON_LINES : MBA_DATA_JSON;
}

/* ---- numbers ---- */

/* True if each of the first lines that are no comments has two integers with blanks between them. */
static bool is_edge_list(const char *text, size_t bytes)
{
    line l;
    int  seen = 0;
    for (size_t at = 0; seen < 16 && next_line(&l, text, bytes, &at);) {
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

/* True for a safetensors file: the length of a header, then the header. */
static bool is_safetensors(const void *head, size_t bytes)
{
    uint64_t             header = 0;
    const unsigned char *p = head;
    for (int i = 7; i >= 0 && bytes > 8; i--) header = header << 8 | p[i];
    return header >= 2 && header <= 100000000 && p[8] == '{';
}

/* ---- recognition ---- */

/* Tests formats with a signature first, then text, last what any bytes could be. */
mba_data_kind mba_recognise(const void *head, size_t bytes)
{
    if (begins(head, bytes, "\x93NUMPY", 6)) return MBA_DATA_NPY;
    if (is_safetensors(head, bytes)) return MBA_DATA_SAFETENSORS;
    if (is_json(head, bytes)) return json_kind(head, bytes);
    if (mba_is_text(head, bytes)) return is_edge_list(head, bytes) ? MBA_DATA_EDGE_LIST : MBA_DATA_TEXT;
    return bytes && bytes % 2 == 0 ? MBA_DATA_TOKENS : MBA_DATA_UNKNOWN;
}

/* The kind that a file name implies. If the bytes say otherwise, the file is damaged, and its reader says how; it is
 * neither text nor tokens. */
static mba_data_kind named_kind(const char *path)
{
    return mba_ends_with(path, ".safetensors") ? MBA_DATA_SAFETENSORS
           : mba_ends_with(path, ".npy")       ? MBA_DATA_NPY
                                               : MBA_DATA_UNKNOWN;
}

mba_status mba_recognise_file(mba_data_kind *out, const char *path)
{
    mba_reader *r = NULL;
    const char *head;
    size_t      n;
    MBA_TRY(mba_reader_open(&r, path, MBA_READER_MOST));
    mba_status st = mba_reader_head(r, LOOK, &head, &n);
    if (st == MBA_OK) st = mba_refuse_foreign(path, head, n);
    if (st == MBA_OK) *out = named_kind(path);
    if (st == MBA_OK && *out == MBA_DATA_UNKNOWN) *out = mba_recognise(head, n);
    if (st == MBA_OK && mba_reader_packing(r) && !mba_data_is_text(*out))
        st = mba_fail(MBA_E_UNSUPPORTED,
                      "'%s' is not a supported data set\nwhy: it is compressed with %s and "
                      "does not contain text\nfix: unpack it",
                      path, mba_reader_packing(r));
    mba_reader_close(r);
    return st;
}

bool mba_data_is_text(mba_data_kind kind)
{
    return kind == MBA_DATA_JSON_LINES || kind == MBA_DATA_TEXT || kind == MBA_DATA_EDGE_LIST;
}
