// SPDX-License-Identifier: Apache-2.0
/* tokenizer_test.c -- token numbers against the Hugging Face library (tools/golden/tokenizer.py made the files). */
#include "tests/test.h"
#include "tests/scratch.h"

#include "core/file.h"
#include "data/json.h"
#include "data/tokenizer.h"
#include "data/tokenizer_files.h"

#define FOLDER "tests/data/tokenizer/"

static uint8_t hex_digit(char c) { return (uint8_t)(c <= '9' ? c - '0' : c - 'a' + 10); }

/* The bytes under `key`, or those in hex under `key_hex`. */
static mba_text bytes_of(const json_t *row, const char *key, const char *key_hex)
{
    mba_text    t = { 0 };
    const char *text = json_string_value(json_object_get(row, key));
    if (text) {
        assert_ok(mba_text_add(&t, text, strlen(text)));
        return t;
    }
    text = json_string_value(json_object_get(row, key_hex));
    assert_non_null(text);
    for (; *text; text += 2)
        assert_ok(mba_text_add(&t, &(char){ (char)(hex_digit(text[0]) << 4 | hex_digit(text[1])) }, 1));
    return t;
}

static void check_row(mba_tokenizer *t, const json_t *row, size_t number)
{
    const json_t *want = json_object_get(row, "ids");
    mba_text      text = bytes_of(row, "text", "hex"), decoded = bytes_of(row, "decoded", "decoded_hex"), back = { 0 };
    mba_ids       ids = { 0 };
    assert_ok(mba_tokenizer_encode(t, &ids, text.data, text.n));
    for (int64_t i = 0; i < ids.n || i < (int64_t)json_array_size(want); i++) {
        const int64_t w = i < (int64_t)json_array_size(want) ? json_integer_value(json_array_get(want, (size_t)i)) : -1;
        if (i < ids.n && ids.id[i] == w) continue;
        fail_msg("case %zu: token %d is %d, should be %d: %.*s", number, (int)i, i < ids.n ? ids.id[i] : -1, (int)w,
                 (int)text.n, text.data);
    }
    assert_ok(mba_tokenizer_decode(t, &back, ids.id, ids.n));
    assert_int_equal(back.n, decoded.n);
    if (back.n) assert_memory_equal(back.data, decoded.data, back.n);
    free(text.data);
    free(decoded.data);
    free(back.data);
    free(ids.id);
}

static void check_file(const char *tokenizer, const char *cases, int32_t end_of_text)
{
    mba_tokenizer *t;
    json_t        *root;
    assert_ok(mba_tokenizer_create(&t, tokenizer));
    assert_ok(mba_json_load(&root, cases, NULL));
    assert_int_equal(mba_tokenizer_vocab(t), json_integer_value(json_object_get(root, "vocab")));
    assert_int_equal(mba_tokenizer_end_of_text(t), end_of_text);
    const json_t *rows = json_object_get(root, "cases");
    assert_true(json_array_size(rows) > 90);
    for (int twice = 0; twice < 2; twice++) /* the second time from the cache of words */
        for (size_t i = 0; i < json_array_size(rows); i++) check_row(t, json_array_get(rows, i), i);
    json_decref(root);
    mba_tokenizer_destroy(t);
}

static void tokens_of_a_neox_file_are_those_of_hugging_face(void **state)
{
    (void)state;
    check_file(FOLDER "neox.json", FOLDER "neox_ids.json", 0);
}

static void tokens_of_a_gpt2_file_are_those_of_hugging_face(void **state)
{
    (void)state;
    check_file(FOLDER "gpt2.json", FOLDER "gpt2_ids.json", 0);
}

static int32_t id_of(const char *tokenizer, const char *token)
{
    mba_tokenizer *t;
    mba_ids        ids = { 0 };
    assert_ok(mba_tokenizer_create(&t, tokenizer));
    assert_ok(mba_tokenizer_encode(t, &ids, token, strlen(token)));
    assert_int_equal(ids.n, 1);
    const int32_t id = ids.id[0];
    free(ids.id);
    mba_tokenizer_destroy(t);
    return id;
}

/* Split by Llama 3's pattern, ignore_merges, a template in front; Qwen 2's single digits. */
static void tokens_of_a_llama3_file_are_those_of_hugging_face(void **state)
{
    (void)state;
    check_file(FOLDER "llama3.json", FOLDER "llama3_ids.json", id_of(FOLDER "llama3.json", "<|end_of_text|>"));
    check_file(FOLDER "qwen2.json", FOLDER "qwen2_ids.json", id_of(FOLDER "qwen2.json", "<|endoftext|>"));
}

static void bytes_are_their_own_tokens(void **state)
{
    (void)state;
    mba_tokenizer *t;
    mba_ids        ids = { 0 };
    mba_text       text = { 0 };
    assert_ok(mba_tokenizer_create(&t, "bytes"));
    assert_int_equal(mba_tokenizer_vocab(t), 257);
    assert_int_equal(mba_tokenizer_end_of_text(t), 256);
    assert_string_equal(mba_tokenizer_name(t), "bytes");
    assert_ok(mba_tokenizer_encode(t, &ids, "A\0\xff", 3));
    assert_int_equal(ids.n, 3);
    assert_memory_equal(ids.id, ((int32_t[]){ 65, 0, 255 }), sizeof(int32_t[3]));
    assert_ok(mba_tokenizer_decode(t, &text, (int32_t[]){ 65, 256, 0, 255 }, 4));
    assert_int_equal(text.n, 3);
    assert_memory_equal(text.data, "A\0\xff", 3);
    assert_fails(mba_tokenizer_decode(t, &text, &(int32_t){ 257 }, 1), MBA_E_ARG, "257 is not a token of 'bytes'");
    assert_fails(mba_tokenizer_decode(t, &text, &(int32_t){ -1 }, 1), MBA_E_ARG, "-1 is not a token");
    free(ids.id);
    free(text.data);
    mba_tokenizer_destroy(t);
}

/* A tokenizer file with one more added token. */
static char *with_added(const char *file, const char *token)
{
    json_t *root;
    assert_ok(mba_json_load(&root, file, NULL));
    assert_int_equal(json_array_append_new(json_object_get(root, "added_tokens"), json_loads(token, 0, NULL)), 0);
    char *text = json_dumps(root, JSON_COMPACT);
    json_decref(root);
    return text;
}

/* The merges of one word, by the definition: the lowest rank first, the leftmost among equals. */
static void merge_by_definition(mba_ids *ids, const json_t *merges, const json_t *vocab, const char *word)
{
    char   piece[64][64];
    size_t n = 0;
    for (; word[n]; n++) {
        piece[n][0] = word[n];
        piece[n][1] = 0;
    }
    for (;;) {
        size_t best = SIZE_MAX, where = 0;
        for (size_t i = 0; i + 1 < n; i++)
            for (size_t k = 0; k < json_array_size(merges) && k < best; k++) {
                const json_t *m = json_array_get(merges, k);
                if (!strcmp(json_string_value(json_array_get(m, 0)), piece[i])
                    && !strcmp(json_string_value(json_array_get(m, 1)), piece[i + 1])) {
                    best = k;
                    where = i;
                }
            }
        if (best == SIZE_MAX) break;
        const size_t length = strlen(piece[where]);
        snprintf(piece[where] + length, sizeof *piece - length, "%.48s",
                 (const char *)memcpy((char[64]){ 0 }, piece[where + 1], 64));
        memmove(piece[where + 1], piece[where + 2], (n - where - 2) * sizeof *piece);
        n--;
    }
    ids->n = 0;
    for (size_t i = 0; i < n; i++) ids->id[ids->n++] = (int32_t)json_integer_value(json_object_get(vocab, piece[i]));
}

static void merges_follow_the_definition_on_random_words(void **state)
{
    (void)state;
    mba_tokenizer *t;
    json_t        *root;
    mba_ids        want = { .id = (int32_t[64]){ 0 }, .capacity = 64 }, got = { 0 };
    uint32_t       seed = 7;
    assert_ok(mba_tokenizer_create(&t, FOLDER "neox.json"));
    assert_ok(mba_json_load(&root, FOLDER "neox.json", NULL));
    const json_t *model = json_object_get(root, "model");
    for (int round = 0; round < 400; round++) {
        char word[48];
        int  n = 1 + round % 47;
        for (int i = 0; i < n; i++) {
            seed = seed * 1664525 + 1013904223;
            word[i] = "etaonsrihl"[(seed >> 16) % 10];
        }
        word[n] = 0;
        merge_by_definition(&want, json_object_get(model, "merges"), json_object_get(model, "vocab"), word);
        got.n = 0;
        assert_ok(mba_tokenizer_encode(t, &got, word, (size_t)n));
        assert_int_equal(got.n, want.n);
        assert_memory_equal(got.id, want.id, (size_t)got.n * sizeof *got.id);
    }
    free(got.id);
    json_decref(root);
    mba_tokenizer_destroy(t);
}

/* A long text is cut into chunks inside; the tokens must not show it. An added token with a space inside (which is not
 * in the text) makes the tokenizer take the whole text at once. */
static void long_texts_are_cut_where_it_does_not_show(void **state)
{
    (void)state;
    static const char *const part[] = { "words",
                                        " and   more",
                                        "\n\n  indented cafe\u0301",
                                        " <|endoftext|>x",
                                        "<|endoftext|>\ty",
                                        "\tna\xc3\xafve\xff",
                                        " \u304b\u3099 12 it's",
                                        "\r\nend",
                                        "!\n",
                                        "\u4e2d\n",
                                        "\u3000\n1234567",
                                        "\u0301",
                                        " ",
                                        "." };
    static const char *const files[] = { FOLDER "neox.json", FOLDER "gpt2.json", FOLDER "llama3.json",
                                         FOLDER "qwen2.json" };
    for (size_t k = 0; k < sizeof files / sizeof *files; k++) {
        const char    *file = files[k];
        mba_tokenizer *chunked, *whole;
        mba_ids        a = { 0 }, b = { 0 };
        mba_text       text = { 0 };
        char          *json = with_added(file, "{\"id\":999,\"content\":\"\\u0001 \\u0001\"}");
        assert_ok(mba_tokenizer_create(&chunked, file));
        assert_ok(mba_tokenizer_create_json(&whole, json, strlen(json)));
        for (uint32_t i = 0, seed = 1; i < 100000; i++, seed = seed * 1664525 + 1013904223) {
            const char *p = part[(seed >> 16) % (sizeof part / sizeof *part)];
            assert_ok(mba_text_add(&text, p, strlen(p)));
        }
        assert_true(text.n > 8 << 16);
        assert_ok(mba_tokenizer_encode(chunked, &a, text.data, text.n));
        assert_ok(mba_tokenizer_encode(whole, &b, text.data, text.n));
        assert_int_equal(a.n, b.n);
        assert_memory_equal(a.id, b.id, (size_t)a.n * sizeof *a.id);
        free(a.id);
        free(b.id);
        free(text.data);
        free(json);
        mba_tokenizer_destroy(chunked);
        mba_tokenizer_destroy(whole);
    }
}

/* Quadratic merging would need minutes here. */
static void a_word_of_a_megabyte_is_no_problem(void **state)
{
    (void)state;
    mba_tokenizer *t;
    mba_ids        ids = { 0 };
    mba_text       back = { 0 };
    const size_t   n = 1 << 20;
    char          *word = malloc(n);
    for (size_t i = 0; i < n; i++) word[i] = "theengine"[i % 9];
    assert_ok(mba_tokenizer_create(&t, FOLDER "neox.json"));
    assert_ok(mba_tokenizer_encode(t, &ids, word, n));
    assert_ok(mba_tokenizer_decode(t, &back, ids.id, ids.n));
    assert_int_equal(back.n, n);
    assert_memory_equal(back.data, word, n);
    assert_true(ids.n < (int64_t)n / 2);
    free(word);
    free(ids.id);
    free(back.data);
    mba_tokenizer_destroy(t);
}

/* ---- what is refused ---- */

/* neox.json with one value replaced; `path` is "model.dropout" or so. */
static char *changed(const char *path, const char *json)
{
    json_t *root, *value = json_loads(json, JSON_DECODE_ANY, NULL);
    assert_non_null(value);
    assert_ok(mba_json_load(&root, FOLDER "neox.json", NULL));
    const char *dot = strchr(path, '.');
    json_t     *object = root;
    if (dot) {
        char first[32];
        snprintf(first, sizeof first, "%.*s", (int)(dot - path), path);
        object = json_object_get(root, first);
    }
    assert_int_equal(json_object_set_new(object, dot ? dot + 1 : path, value), 0);
    char *text = json_dumps(root, JSON_COMPACT);
    json_decref(root);
    return text;
}

#define GPT2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\\\p{L}+| ?\\\\p{N}+| ?[^\\\\s\\\\p{L}\\\\p{N}]+|\\\\s+(?!\\\\S)|\\\\s+"
#define SEQUENCE(regex, behavior, use_regex, prefix) \
    "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":\"" regex \
    "\"},\"behavior\":\"" behavior "\"},{\"type\":\"ByteLevel\",\"use_regex\":" use_regex \
    ",\"add_prefix_space\":" prefix "}]}"

static void what_we_do_not_do_is_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *path, *json;
        mba_status  code;
        const char *words;
    } cases[] = {
        { "model.type", "\"Unigram\"", MBA_E_UNSUPPORTED, "the model Unigram" },
        { "model.type", "\"WordPiece\"", MBA_E_UNSUPPORTED, "only BPE is implemented" },
        { "model.dropout", "0.1", MBA_E_UNSUPPORTED, "dropout" },
        { "model.ignore_merges", "3", MBA_E_FORMAT, "ignore_merges" },
        { "pre_tokenizer", SEQUENCE("\\\\p{L}+", "Isolated", "false", "false"), MBA_E_UNSUPPORTED, "it is \\p{L}+" },
        { "pre_tokenizer", SEQUENCE("x", "MergedWithPrevious", "false", "false"), MBA_E_UNSUPPORTED,
          "MergedWithPrevious" },
        { "pre_tokenizer", SEQUENCE(GPT2, "Isolated", "true", "false"), MBA_E_UNSUPPORTED,
          "use_regex false behind Split" },
        { "pre_tokenizer", SEQUENCE(GPT2, "Isolated", "false", "true"), MBA_E_UNSUPPORTED, "add_prefix_space" },
        { "pre_tokenizer", "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Digits\"},{\"type\":\"ByteLevel\"}]}",
          MBA_E_UNSUPPORTED, "Split and ByteLevel" },
        { "pre_tokenizer", "{\"type\":\"Sequence\",\"pretokenizers\":[3]}", MBA_E_FORMAT, "pre-tokenizer number 0" },
        { "pre_tokenizer", "{\"type\":\"Sequence\"}", MBA_E_FORMAT, "pretokenizers" },
        { "model.end_of_word_suffix", "\"</w>\"", MBA_E_UNSUPPORTED, "end_of_word_suffix </w>" },
        { "model.continuing_subword_prefix", "\"##\"", MBA_E_UNSUPPORTED, "continuing_subword_prefix ##" },
        { "normalizer", "{\"type\":\"NFKC\"}", MBA_E_UNSUPPORTED, "the normalizer NFKC" },
        { "pre_tokenizer", "{\"type\":\"Metaspace\"}", MBA_E_UNSUPPORTED, "the pre-tokenizer Metaspace" },
        { "pre_tokenizer", "null", MBA_E_UNSUPPORTED, "the pre-tokenizer null" },
        { "pre_tokenizer.use_regex", "false", MBA_E_UNSUPPORTED, "use_regex" },
        { "decoder", "{\"type\":\"WordPiece\"}", MBA_E_UNSUPPORTED, "the decoder WordPiece" },
        { "added_tokens", "[{\"id\":900,\"content\":\"x\",\"lstrip\":true}]", MBA_E_UNSUPPORTED, "lstrip" },
        { "model.vocab", "{\"a\":0}", MBA_E_UNSUPPORTED, "no token for the byte 0x00" },
        { "model.vocab", "{}", MBA_E_UNSUPPORTED, "no token for the byte" },
        { "model.vocab", "[]", MBA_E_FORMAT, "no object \"vocab\"" },
        { "model.vocab", "{\"a\":0,\"b\":0}", MBA_E_FORMAT, "two tokens have the id 0" },
        { "model.vocab", "{\"a\":-1}", MBA_E_FORMAT, "the id of the token \"a\"" },
        { "model.vocab", "{\"a\":4194304}", MBA_E_FORMAT, "out of range" },
        { "model.vocab", "{\"a\":\"b\"}", MBA_E_FORMAT, "is text" },
        { "model.merges", "[\"ab\"]", MBA_E_FORMAT, "merge 0 is ab" },
        { "model.merges", "[\"a b c\"]", MBA_E_FORMAT, "merge 0" },
        { "model.merges", "[[\"a\"]]", MBA_E_FORMAT, "merge 0 is a list" },
        { "model.merges", "[[\"z\",\"\\u4e2d\"]]", MBA_E_FORMAT, "not in the vocabulary" },
        { "model", "3", MBA_E_FORMAT, "no object \"model\"" },
        { "added_tokens", "{}", MBA_E_FORMAT, "\"added_tokens\" is" },
        { "added_tokens", "[3]", MBA_E_FORMAT, "added token number 0" },
        { "added_tokens", "[{\"id\":900}]", MBA_E_FORMAT, "content" },
        { "added_tokens", "[{\"id\":900,\"content\":\"\"}]", MBA_E_FORMAT, "has 0 bytes" },
        { "added_tokens", "[{\"id\":900,\"content\":\"a\"}]", MBA_E_FORMAT, "disagree about an id" },
        { "added_tokens", "[{\"id\":5,\"content\":\"xyzzy\"}]", MBA_E_FORMAT, "two tokens have the id 5" },
        { "added_tokens", "[{\"id\":900,\"content\":\"q q\"},{\"id\":901,\"content\":\"q q\"}]", MBA_E_FORMAT,
          "the same text" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char          *json = changed(cases[i].path, cases[i].json);
        mba_tokenizer *t = NULL;
        assert_fails(mba_tokenizer_create_json(&t, json, strlen(json)), cases[i].code, cases[i].words);
        assert_non_null(strstr(mba_message(), "\nwhy: "));
        assert_non_null(strstr(mba_message(), "\nfix: "));
        assert_null(t);
        free(json);
    }
    mba_tokenizer *t = NULL;
    assert_fails(mba_tokenizer_create(&t, FOLDER "none.json"), MBA_E_IO, "none.json");
    assert_fails(mba_tokenizer_create_json(&t, "{\"a\":", 5), MBA_E_FORMAT, "tokenizer.json");
}

/* What has a hole in its ids, no end of text and tokens outside the byte alphabet still works. */
static void unusual_vocabularies_are_read(void **state)
{
    (void)state;
    char          *json = changed("added_tokens", "[{\"id\":900,\"content\":\"\\u4e2d\\u6587\",\"special\":true}]");
    mba_tokenizer *t;
    mba_ids        ids = { 0 };
    mba_text       text = { 0 };
    assert_ok(mba_tokenizer_create_json(&t, json, strlen(json)));
    assert_int_equal(mba_tokenizer_vocab(t), 901);
    assert_int_equal(mba_tokenizer_end_of_text(t), -1);
    assert_ok(mba_tokenizer_encode(t, &ids, "a\u4e2d\u6587", 7));
    assert_int_equal(ids.n, 2);
    assert_int_equal(ids.id[1], 900);
    assert_ok(mba_tokenizer_decode(t, &text, ids.id, ids.n));
    assert_int_equal(text.n, 7);
    assert_fails(mba_tokenizer_decode(t, &text, &(int32_t){ 899 }, 1), MBA_E_ARG, "899 is not a token");
    free(json);
    free(ids.id);
    free(text.data);
    mba_tokenizer_destroy(t);
}

#define E_ACUTE_APART "e\xcc\x81" /* NFC makes one code point of it */
#define E_ACUTE       "\xc3\xa9"

/* An added token is found in the text as it is then: normalised where both the token and the file ask for it. */
static void added_tokens_are_found_in_what_they_are_compared_with(void **state)
{
    (void)state;
    static const struct {
        const char *normalizer, *normalized, *finds, *passes;
    } cases[] = {
        { "null", "true", E_ACUTE_APART, E_ACUTE },
        { "null", "false", E_ACUTE_APART, E_ACUTE },
        { "{\"type\":\"NFC\"}", "false", E_ACUTE_APART, E_ACUTE },
        { "{\"type\":\"NFC\"}", "true", E_ACUTE, "e" },
        { "{\"type\":\"NFC\"}", "true", E_ACUTE_APART, "e" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *root, *token = json_pack("{s:i,s:s,s:o}", "id", 900, "content", E_ACUTE_APART, "normalized",
                                         json_boolean(!strcmp(cases[i].normalized, "true")));
        assert_ok(mba_json_load(&root, FOLDER "neox.json", NULL));
        json_object_set_new(root, "normalizer", json_loads(cases[i].normalizer, JSON_DECODE_ANY, NULL));
        assert_int_equal(json_array_append_new(json_object_get(root, "added_tokens"), token), 0);
        char          *json = json_dumps(root, JSON_COMPACT);
        mba_tokenizer *t;
        mba_ids        ids = { 0 };
        mba_text       text = { 0 };
        assert_ok(mba_tokenizer_create_json(&t, json, strlen(json)));
        assert_ok(mba_tokenizer_encode(t, &ids, cases[i].finds, strlen(cases[i].finds)));
        assert_true(ids.n == 1 && ids.id[0] == 900);
        assert_ok(mba_tokenizer_decode(t, &text, ids.id, 1));
        const char *const want = *cases[i].passes == 'e' ? E_ACUTE : E_ACUTE_APART;
        assert_int_equal(text.n, strlen(want));
        assert_memory_equal(text.data, want, text.n);
        ids.n = 0;
        assert_ok(mba_tokenizer_encode(t, &ids, cases[i].passes, strlen(cases[i].passes)));
        for (size_t k = 0; k < (size_t)ids.n; k++) assert_int_not_equal(ids.id[k], 900);
        free(json);
        free(ids.id);
        free(text.data);
        json_decref(root);
        mba_tokenizer_destroy(t);
    }
}

static void files_of_a_tokenizer_go_to_a_folder_and_back(void **state)
{
    (void)state;
    mba_tokenizer      *t;
    mba_tokenizer_files f, g, none;
    scratch_make();
    assert_int_equal(mkdir(scratch("empty"), 0777), 0);
    assert_ok(mba_tokenizer_create(&t, FOLDER "neox.json"));
    assert_ok(mba_tokenizer_files_of(&f, t));
    assert_int_equal(f.n, 2);
    assert_string_equal(f.name[0], "tokenizer.json");
    assert_true(f.text[1].n > 2 && f.text[1].data[f.text[1].n - 1] == '\n');
    assert_ok(mba_tokenizer_files_make(scratch_dir, t));
    assert_ok(mba_tokenizer_files_read(&g, scratch_dir));
    assert_int_equal(g.n, 2);
    assert_true(mba_tokenizer_files_same(&f, &g));
    assert_int_equal(g.text[1].n, f.text[1].n);
    assert_memory_equal(g.text[1].data, f.text[1].data, f.text[1].n);
    g.text[0].data[0]++;
    assert_false(mba_tokenizer_files_same(&f, &g));
    assert_ok(mba_tokenizer_files_read(&none, scratch("empty")));
    assert_int_equal(none.n, 0);
    assert_false(mba_tokenizer_files_same(&none, &none));
    for (int twice = 0; twice < 2; twice++) {
        mba_tokenizer_files_free(&f); // zeroes it
        assert_true(f.n == 0 && !f.name[0] && !f.text[0].data);
    }
    assert_ok(mba_tokenizer_files_write(&f, scratch("empty")));
    assert_int_equal(scratch_entries("empty"), 0);
    mba_tokenizer_files_free(&g);
    mba_tokenizer_destroy(t);
    scratch_remove();
}

MBA_TEST_MAIN(cmocka_unit_test(tokens_of_a_neox_file_are_those_of_hugging_face),
              cmocka_unit_test(tokens_of_a_gpt2_file_are_those_of_hugging_face),
              cmocka_unit_test(tokens_of_a_llama3_file_are_those_of_hugging_face),
              cmocka_unit_test(bytes_are_their_own_tokens),
              cmocka_unit_test(merges_follow_the_definition_on_random_words),
              cmocka_unit_test(long_texts_are_cut_where_it_does_not_show),
              cmocka_unit_test(a_word_of_a_megabyte_is_no_problem),
              cmocka_unit_test(what_we_do_not_do_is_refused_by_name), cmocka_unit_test(unusual_vocabularies_are_read),
              cmocka_unit_test(added_tokens_are_found_in_what_they_are_compared_with),
              cmocka_unit_test(files_of_a_tokenizer_go_to_a_folder_and_back))
