// SPDX-License-Identifier: Apache-2.0
/* tokenizer_json.c -- reads an untrusted Hugging Face tokenizer.json (tokenizer.h); refuses unsupported features by
 * name. */
#include "data/tokenizer_parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/array.h"
#include "data/json.h"

enum { IDS_MAX = 1 << 22 }; /* bounds the table of tokens: 32 MiB */

/* ---- the alphabet: every byte has a printable character ---- */

static int byte_of_symbol(uint32_t c)
{
    if (c < 256) return mba__symbol_of_byte((int)c) == c ? (int)c : -1;
    c -= 256;
    return c <= 32 ? (int)c : c < 67 ? 127 + (int)c - 33 : c == 67 ? 173 : -1;
}

/* Converts the text of a token to bytes; false: it has characters outside the alphabet, and the token is its own
 * text. */
static bool bytes_of_token(char *to, size_t *n, const char *text, size_t length)
{
    *n = 0;
    for (const char *at = text; at < text + length;) {
        const int byte = byte_of_symbol(mba_utf8_next(&at));
        if (byte < 0) return false;
        to[(*n)++] = (char)byte;
    }
    return true;
}

/* ---- features of the file ---- */

/* Fails for a file that contradicts itself: what is wrong, and how it should be. */
#define BAD_FILE(what, why, ...) \
    mba_fail(MBA_E_FORMAT, what "\nwhy: " why "\nfix: fetch or save the tokenizer again", __VA_ARGS__)

static mba_status unsupported(const char *what, const char *value, const char *known)
{
    return mba_fail(
        MBA_E_UNSUPPORTED,
        "the tokenizer needs the %s %s\nwhy: only %s is implemented, as in GPT-NeoX, GPT-2, Llama 3 and Qwen 2\n"
        "fix: use such a tokenizer, or prepare the tokens elsewhere and read them as a token file",
        what, mba_quote(value).text, known);
}

/* The type of a part such as {"type": "NFC"}; "": the part is absent. */
static mba_status part_type(const json_t *root, const char *key, const json_t **part, const char **type)
{
    *part = mba_json_get(root, key);
    *type = "";
    if (!*part) return MBA_OK;
    if (!json_is_object(*part))
        return BAD_FILE("\"%s\" is %s", "it should be an object or null", key, mba_json_kind(*part));
    MBA_TRY(mba_json_require(*part, "type"));
    return mba_json_text(*part, "type", "", type);
}

/* Reads a Split that keeps all of the text. Its options do not matter: the known patterns match every text
 * completely. */
static mba_status read_split(mba_tokenizer *t, const json_t *part)
{
    const char *behavior, *regex;
    bool        invert;
    MBA_TRY(mba_json_text(part, "behavior", "", &behavior));
    MBA_TRY(mba_json_bool(part, "invert", false, &invert));
    if (strcmp(behavior, invert ? "Removed" : "Isolated"))
        return unsupported("behavior of Split", behavior, "Isolated, or Removed where invert is true");
    const json_t *pattern = mba_json_get(part, "pattern");
    if (!json_is_string(json_object_get(pattern, "Regex")))
        return unsupported("pre-tokenizer", "Split without a \"Regex\"", "Split by a regular expression");
    MBA_TRY(mba_json_text(pattern, "Regex", "", &regex));
    t->pattern = mba__pattern_find(regex);
    if (t->pattern) return MBA_OK;
    return mba_fail(
        MBA_E_UNSUPPORTED,
        "the tokenizer splits words by a pattern that is not implemented\nwhy: it is %s\n"
        "fix: use a tokenizer with the pattern of GPT-2, Llama 3 or Qwen 2, or prepare the tokens elsewhere and "
        "read them as a token file",
        mba_quote(regex).text);
}

static mba_status read_byte_level(mba_tokenizer *t, const json_t *part, bool split)
{
    bool regex;
    MBA_TRY(mba_json_bool(part, "add_prefix_space", true, &t->prefix_space));
    MBA_TRY(mba_json_bool(part, "use_regex", true, &regex));
    if (regex && split)
        return unsupported("pre-tokenizer", "Split before ByteLevel with a pattern of its own",
                           "ByteLevel with use_regex false behind Split");
    if (t->prefix_space && split)
        return unsupported("pre-tokenizer", "Split before ByteLevel with add_prefix_space",
                           "add_prefix_space false behind Split");
    if (!split) t->pattern = &mba__pattern_gpt2;
    return regex || split ? MBA_OK
                          : unsupported("pre-tokenizer", "ByteLevel without its pattern (use_regex false)",
                                        "use_regex true, or Split before it");
}

static mba_status read_pre_tokenizer(mba_tokenizer *t, const json_t *root)
{
    const json_t *part;
    const char   *type, *first, *second;
    MBA_TRY(part_type(root, "pre_tokenizer", &part, &type));
    if (part && !strcmp(type, "ByteLevel")) return read_byte_level(t, part, false);
    if (!part || strcmp(type, "Sequence"))
        return unsupported("pre-tokenizer", part ? type : "null", "ByteLevel, or Split and ByteLevel");
    const json_t *list = mba_json_get(part, "pretokenizers");
    if (!json_is_array(list)) return BAD_FILE("a Sequence has no list \"%s\"", "it is one of them", "pretokenizers");
    for (size_t i = 0; i < json_array_size(list); i++)
        if (!json_is_object(json_array_get(list, i)))
            return BAD_FILE("pre-tokenizer number %zu is %s", "it should be an object", i,
                            mba_json_kind(json_array_get(list, i)));
    const json_t *a = json_array_get(list, 0), *b = json_array_get(list, 1);
    MBA_TRY(mba_json_text(a, "type", "", &first));
    MBA_TRY(mba_json_text(b, "type", "", &second));
    if (json_array_size(list) == 1 && !strcmp(first, "ByteLevel")) return read_byte_level(t, a, false);
    if (json_array_size(list) != 2 || strcmp(first, "Split") || strcmp(second, "ByteLevel"))
        return unsupported("pre-tokenizer", "Sequence of other parts", "a Sequence of Split and ByteLevel");
    MBA_TRY(read_split(t, a));
    return read_byte_level(t, b, true);
}

static mba_status read_stages(mba_tokenizer *t, const json_t *root)
{
    const json_t *part;
    const char   *type;
    MBA_TRY(part_type(root, "normalizer", &part, &type));
    if (part && strcmp(type, "NFC")) return unsupported("normalizer", type, "NFC or none");
    t->nfc = part != NULL;
    MBA_TRY(part_type(root, "decoder", &part, &type));
    if (part && strcmp(type, "ByteLevel")) return unsupported("decoder", type, "ByteLevel");
    return read_pre_tokenizer(t, root);
}

static mba_status check_model(const json_t *model)
{
    const char *text;
    if (!json_is_object(model)) return BAD_FILE("there is no object \"%s\"", "every tokenizer.json has it", "model");
    MBA_TRY(mba_json_text(model, "type", "BPE", &text));
    if (strcmp(text, "BPE")) return unsupported("model", text, "BPE");
    static const char *const affix[] = { "continuing_subword_prefix", "end_of_word_suffix" };
    for (int i = 0; i < 2; i++) {
        MBA_TRY(mba_json_text(model, affix[i], "", &text));
        if (*text) return unsupported(affix[i], text, "none");
    }
    double p = 0;
    if (mba_json_get(model, "dropout") && (!mba_json_number(mba_json_get(model, "dropout"), &p) || p != 0))
        return unsupported("option", "dropout", "BPE without dropout");
    if (!json_is_object(json_object_get(model, "vocab")))
        return BAD_FILE("the model has no object \"%s\"", "BPE needs it", "vocab");
    if (!json_is_array(json_object_get(model, "merges")))
        return BAD_FILE("the model has no list \"%s\"", "BPE needs it", "merges");
    return MBA_OK;
}

/* ---- vocabulary ---- */

/* Sets the bytes of token `id`. */
static mba_status set_token(mba_tokenizer *t, int64_t id, const char *bytes, size_t n)
{
    if (t->token[id].bytes != MBA_NO_TOKEN) return BAD_FILE("two tokens have the id %" PRId64, "ids must differ", id);
    if (t->text.n + n >= UINT32_MAX)
        return BAD_FILE("the tokens have more than %d GiB of text", "no vocabulary is so large", 4);
    t->token[id] = (mba_token){ .start = (uint32_t)t->text.n, .bytes = (uint32_t)n };
    return mba_text_add(&t->text, bytes, n);
}

static mba_status check_id(const json_t *value, const char *token)
{
    if (json_is_integer(value) && json_integer_value(value) >= 0 && json_integer_value(value) < IDS_MAX) return MBA_OK;
    return BAD_FILE("the id of the token \"%s\" is %s", "ids are whole numbers from 0 to %d", mba_quote(token).text,
                    json_is_integer(value) ? "out of range" : mba_json_kind(value), IDS_MAX - 1);
}

/* Allocates the table of tokens up to the largest id; some ids may be unused. */
static mba_status make_table(mba_tokenizer *t, const json_t *vocab, const json_t *added)
{
    const char *key;
    json_t     *value;
    size_t      i;
    int64_t     last = -1;
    json_object_foreach((json_t *)vocab, key, value)
    {
        MBA_TRY(check_id(value, key));
        if (json_integer_value(value) > last) last = json_integer_value(value);
    }
    json_array_foreach(added, i, value)
    {
        const char *content;
        if (!json_is_object(value))
            return BAD_FILE("added token number %zu is %s", "it should be an object", i, mba_json_kind(value));
        MBA_TRY(mba_json_require(value, "content"));
        MBA_TRY(mba_json_text(value, "content", "", &content));
        MBA_TRY(check_id(json_object_get(value, "id"), content));
        if (json_integer_value(json_object_get(value, "id")) > last)
            last = json_integer_value(json_object_get(value, "id"));
    }
    if (last < 0) return BAD_FILE("the %s is empty", "it has no token", "vocabulary");
    t->vocab = last + 1;
    t->token = malloc((size_t)t->vocab * sizeof *t->token);
    if (!t->token) return mba_fail(MBA_E_NOMEM, "no memory for %" PRId64 " tokens", t->vocab);
    for (int64_t id = 0; id < t->vocab; id++) t->token[id] = (mba_token){ .bytes = MBA_NO_TOKEN };
    return MBA_OK;
}

static mba_status read_vocab(mba_tokenizer *t, const json_t *vocab)
{
    const char *key;
    json_t     *value;
    mba_text    bytes = { 0 };
    mba_status  st = MBA_OK;
    json_object_foreach((json_t *)vocab, key, value)
    {
        const size_t length = strlen(key);
        size_t       n;
        bytes.n = 0;
        st = mba_text_add(&bytes, key, length); /* as many bytes as characters, at most */
        if (st != MBA_OK) break;
        if (!bytes_of_token(bytes.data, &n, key, length)) {
            memcpy(bytes.data, key, length);
            n = length;
        }
        st = set_token(t, json_integer_value(value), bytes.data, n);
        if (st != MBA_OK) {
            st = mba_where(st, "the token \"%s\"", mba_quote(key).text);
            break;
        }
    }
    free(bytes.data);
    return st;
}

/* Reads the initial symbol of every byte. Bytes that do not occur in UTF-8 need none. */
static mba_status read_alphabet(int32_t byte_id[256], const json_t *vocab)
{
    for (int byte = 0; byte < 256; byte++) {
        const uint32_t c = mba__symbol_of_byte(byte);
        const char     symbol[3] = { c < 128 ? (char)c : (char)(0xC0 | c >> 6), c < 128 ? 0 : (char)(0x80 | (c & 63)) };
        const json_t  *id = json_object_get(vocab, symbol);
        byte_id[byte] = id ? (int32_t)json_integer_value(id) : -1;
        const bool in_utf8 = byte < 0xC0 || (byte >= 0xC2 && byte < 0xF5);
        if (!id && in_utf8)
            return mba_fail(MBA_E_UNSUPPORTED,
                            "the vocabulary has no token for the byte 0x%02x\nwhy: without it, a byte-level "
                            "tokenizer cannot encode every text\nfix: train it with the whole byte alphabet",
                            byte);
    }
    return MBA_OK;
}

/* ---- merges ---- */

static mba_status merge_part(const json_t *vocab, const char *token, size_t merge, int32_t *id)
{
    const json_t *value = json_object_get(vocab, token);
    if (!value)
        return BAD_FILE("merge %zu needs the token \"%s\"", "it is not in the vocabulary", merge,
                        mba_quote(token).text);
    *id = (int32_t)json_integer_value(value);
    return MBA_OK;
}

static mba_status add_merge(mba_bpe *b, const json_t *vocab, size_t i, const char *left, const char *right,
                            mba_text *both)
{
    int32_t l = 0, r = 0, result = 0;
    both->n = 0;
    MBA_TRY(mba_text_add(both, left, strlen(left)));
    MBA_TRY(mba_text_add(both, right, strlen(right) + 1));
    MBA_TRY(merge_part(vocab, left, i, &l));
    MBA_TRY(merge_part(vocab, right, i, &r));
    MBA_TRY(merge_part(vocab, both->data, i, &result));
    mba__bpe_merge(b, l, r, (uint32_t)i, result);
    return MBA_OK;
}

/* Reads a merge: "left right", or ["left", "right"] in newer files. */
static mba_status read_merge(mba_bpe *b, const json_t *vocab, size_t i, const json_t *value, mba_text *scratch,
                             mba_text *both)
{
    if (json_is_array(value) && json_array_size(value) == 2 && json_is_string(json_array_get(value, 0))
        && json_is_string(json_array_get(value, 1)))
        return add_merge(b, vocab, i, json_string_value(json_array_get(value, 0)),
                         json_string_value(json_array_get(value, 1)), both);
    const char *text = json_string_value(value);
    const char *space = text ? strchr(text, ' ') : NULL;
    if (text && i == 0 && !strncmp(text, "#version", 8)) return MBA_OK;
    if (!space || strchr(space + 1, ' '))
        return BAD_FILE("merge %zu is %s", "a merge is \"left right\" or [\"left\", \"right\"]", i,
                        text ? mba_quote(text).text : mba_json_kind(value));
    scratch->n = 0;
    MBA_TRY(mba_text_add(scratch, text, (size_t)(space - text)));
    MBA_TRY(mba_text_add(scratch, "", 1));
    return add_merge(b, vocab, i, scratch->data, space + 1, both);
}

static mba_status read_merges(mba_tokenizer *t, const json_t *model)
{
    const json_t *vocab = json_object_get(model, "vocab"), *merges = json_object_get(model, "merges");
    int32_t       byte_id[256];
    MBA_TRY(read_alphabet(byte_id, vocab));
    MBA_TRY(mba__bpe_create(&t->bpe, byte_id, json_array_size(merges)));
    mba_text   scratch = { 0 }, both = { 0 };
    mba_status st = MBA_OK;
    for (size_t i = 0; st == MBA_OK && i < json_array_size(merges); i++)
        st = read_merge(t->bpe, vocab, i, json_array_get(merges, i), &scratch, &both);
    free(scratch.data);
    free(both.data);
    return st;
}

/* With ignore_merges, a word in the vocabulary is that token, whatever the merges would give. */
static mba_status read_whole_words(mba_tokenizer *t, const json_t *model)
{
    const json_t *vocab = json_object_get(model, "vocab");
    const char   *key;
    json_t       *value;
    mba_text      bytes = { 0 };
    bool          on;
    MBA_TRY(mba_json_bool(model, "ignore_merges", false, &on));
    if (!on) return MBA_OK;
    mba_status st = mba__bpe_whole_create(t->bpe, &t->text, json_object_size(vocab));
    json_object_foreach((json_t *)vocab, key, value)
    {
        const mba_token token = t->token[json_integer_value(value)];
        size_t          n;
        bytes.n = 0;
        if (st == MBA_OK) st = mba_text_add(&bytes, key, strlen(key));
        if (st != MBA_OK) break;
        if (bytes_of_token(bytes.data, &n, key, strlen(key)))
            mba__bpe_whole_add(t->bpe, token.start, token.bytes, (int32_t)json_integer_value(value));
    }
    free(bytes.data);
    return st;
}

/* ---- added tokens ---- */

/* Adds a token to the set that is searched. If the text is normalised first, the token is normalised too, so that it is
 * found and decodes to what was found. */
static mba_status add_literal(mba_tokenizer *t, const char *content, int32_t id, bool normalized)
{
    const size_t  n = strlen(content);
    mba_literals *set = normalized ? &t->normalized : &t->raw;
    mba_text      text = { 0 };
    mba_status    st = normalized && t->nfc ? mba_nfc(&text, content, n) : mba_text_add(&text, content, n);
    if (st == MBA_OK) st = set_token(t, id, text.data, text.n);
    if (st == MBA_OK) st = mba__literals_add(set, text.data, text.n, id);
    free(text.data);
    return st;
}

static mba_status read_added(mba_tokenizer *t, const json_t *vocab, const json_t *token)
{
    static const char *const unknown[] = { "single_word", "lstrip", "rstrip" };
    const char              *content = json_string_value(json_object_get(token, "content"));
    const int32_t            id = (int32_t)json_integer_value(json_object_get(token, "id"));
    bool                     special, normalized, on;
    for (int i = 0; i < 3; i++) {
        MBA_TRY(mba_json_bool(token, unknown[i], false, &on));
        if (on) return unsupported("added-token option", unknown[i], "exact matching");
    }
    MBA_TRY(mba_json_bool(token, "special", false, &special));
    MBA_TRY(mba_json_bool(token, "normalized", !special, &normalized));
    const json_t *there = json_object_get(vocab, content);
    if (there && json_integer_value(there) != id)
        return BAD_FILE("the vocabulary and the added tokens disagree about an id", "they say %lld and %d",
                        (long long)json_integer_value(there), id);
    if (there) t->token[id].bytes = MBA_NO_TOKEN; /* replaced by its own text below */
    return add_literal(t, content, id, normalized);
}

/* Finds the end-of-text token by the usual names: the file does not say which it is. */
static int32_t find_end_of_text(const json_t *added)
{
    static const char *const names[] = { "<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>", "[EOS]" };
    for (size_t k = 0; k < sizeof names / sizeof *names; k++)
        for (size_t i = 0; i < json_array_size(added); i++) {
            const json_t *token = json_array_get(added, i);
            if (!strcmp(json_string_value(json_object_get(token, "content")), names[k]))
                return (int32_t)json_integer_value(json_object_get(token, "id"));
        }
    return -1;
}

/* ---- the whole file ---- */

static mba_status read_tokenizer(mba_tokenizer *t, const json_t *root)
{
    const json_t *model = mba_json_get(root, "model"), *added = mba_json_get(root, "added_tokens");
    MBA_TRY(check_model(model));
    MBA_TRY(read_stages(t, root));
    if (added && !json_is_array(added))
        return BAD_FILE("\"added_tokens\" is %s", "it should be a list", mba_json_kind(added));
    const json_t *vocab = json_object_get(model, "vocab");
    MBA_TRY(make_table(t, vocab, added));
    MBA_TRY(read_vocab(t, vocab));
    MBA_TRY(read_merges(t, model));
    MBA_TRY(read_whole_words(t, model));
    for (size_t i = 0; i < json_array_size(added); i++) {
        const json_t    *token = json_array_get(added, i);
        const mba_status st = read_added(t, vocab, token);
        if (st != MBA_OK)
            return mba_where(st, "the added token \"%s\"",
                             mba_quote(json_string_value(json_object_get(token, "content"))).text);
    }
    t->end_of_text = find_end_of_text(added);
    return MBA_OK;
}

mba_status mba_tokenizer_create_json(mba_tokenizer **out, const char *json, size_t bytes)
{
    json_t    *root;
    mba_text   ours = { 0 };
    mba_status same = mba__bytes_json(&ours);
    const bool is = same == MBA_OK && ours.n == bytes && !memcmp(ours.data, json, bytes);
    free(ours.data);
    MBA_TRY(same);
    if (is) return mba__tokenizer_bytes(out);
    MBA_TRY(mba_json_parse(&root, "tokenizer.json", json, bytes, NULL));
    mba_tokenizer *t = calloc(1, sizeof *t);
    mba_status     st = t ? read_tokenizer(t, root) : mba_fail(MBA_E_NOMEM, "no memory for a tokenizer");
    json_decref(root);
    if (st == MBA_OK) st = mba_text_add(&t->json, json, bytes);
    if (st != MBA_OK) {
        mba_tokenizer_destroy(t);
        return st;
    }
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < bytes; i++) h = (h ^ (uint8_t)json[i]) * 0x100000001b3u;
    snprintf(t->name, sizeof t->name, "bpe-%" PRId64 "-%08" PRIx32, t->vocab, (uint32_t)(h ^ h >> 32));
    *out = t;
    return MBA_OK;
}
