// SPDX-License-Identifier: Apache-2.0
/* prepare_test.c -- text to token files: nothing lost, all or nothing, errors that name the line. */
#include "tests/test.h"
#include "tests/scratch.h"

#include "core/file.h"
#include "data/loader.h"
#include "data/prepare.h"

#define TOKENIZER "tests/data/tokenizer/neox.json"

/* All tokens of a directory of shards, and the sums of their notes. */
static mba_ids read_all(const char *folder, int64_t shards, mba_token_notes *sum)
{
    mba_ids ids = { 0 };
    *sum = (mba_token_notes){ 0 };
    for (int64_t k = 0; k < shards; k++) {
        char            path[600];
        mba_token_file *f;
        snprintf(path, sizeof path, "%s/tokens_%05d.bin", folder, (int)k);
        assert_ok(mba_token_file_open(&f, path));
        const mba_token_notes *n = mba_token_file_notes(f);
        assert_non_null(n);
        assert_ok(mba_ids_reserve(&ids, mba_token_file_count(f)));
        assert_ok(mba_token_file_read(f, ids.id + ids.n, 0, mba_token_file_count(f), n->vocab));
        ids.n += mba_token_file_count(f);
        const int64_t documents = sum->documents + n->documents, bytes = sum->bytes + n->bytes;
        *sum = *n;
        sum->documents = documents;
        sum->bytes = bytes;
        mba_token_file_close(f);
    }
    return ids;
}

static void documents_come_back_from_the_shards(void **state)
{
    (void)state;
    static const char text[] = "A plain text.\n  Two lines, cafe\u0301.\n";
    static const char lines[] = "{\"text\":\"first\\u0000 one\"}\n\n{\"id\":2, \"text\":\"second\\nline\"}\r\n  "
                                "\n{\"text\":\"\"}\n{\"text\":\"third\"}";
    static const char want[] = "<|endoftext|>A plain text.\n  Two lines, caf\u00e9.\n<|endoftext|>first\0 "
                               "one<|endoftext|>second\nline<|endoftext|>third";
    mba_tokenizer    *t;
    mba_prepared      made;
    mba_token_notes   notes;
    mba_text          back = { 0 };
    scratch_make();
    assert_ok(mba_tokenizer_create(&t, TOKENIZER));
    const char *a = scratch("a.txt"), *b = scratch("b.jsonl"), *out = scratch("deep/er/out/");
    scratch_put(a, text, sizeof text - 1);
    scratch_put(b, lines, sizeof lines - 1);
    assert_ok(mba_prepare(&made, t,
                          &(mba_prepare_options){
                              .out = out, .input = (const char *[]){ a, b }, .inputs = 2, .shard_tokens = 10 }));
    mba_ids ids = read_all(out, made.shards, &notes);
    assert_int_equal(ids.n, made.tokens);
    assert_int_equal(made.shards, (ids.n + 9) / 10);
    assert_int_equal(scratch_entries("deep/er/out"), 2 * made.shards + 2); /* and the tokenizer */
    assert_ok(mba_tokenizer_decode(t, &back, ids.id, ids.n));
    assert_int_equal(back.n, sizeof want - 1);
    assert_memory_equal(back.data, want, back.n);
    assert_int_equal(made.documents, 4);
    assert_int_equal(notes.documents, 4);
    assert_int_equal(made.bytes, sizeof want - 1 - 4 * 13); /* without the four end-of-text tokens */
    assert_int_equal(notes.bytes, made.bytes);
    assert_int_equal(notes.vocab, mba_tokenizer_vocab(t));
    assert_int_equal(notes.end_of_text, 0);
    assert_false(notes.synthetic);
    assert_string_equal(notes.tokenizer, mba_tokenizer_name(t));
    assert_non_null(strstr(notes.source, "a.txt and 1 more"));
    free(ids.id);
    free(back.data);
    mba_tokenizer_destroy(t);
    scratch_remove();
}

static void failures_leave_nothing_behind(void **state)
{
    (void)state;
    static const struct {
        const char *name, *field, *text;
        mba_status  code;
        const char *words;
    } cases[] = {
        { "a.jsonl", NULL, "{\"text\":\"x\"}\n{\"text\":\"y\"\n{\"text\":\"z\"}\n", MBA_E_FORMAT,
          "line 2 is not a JSON object" },
        { "a.jsonl", NULL, "{\"text\":\"x\"}\n\n{\"text\":3}\n", MBA_E_FORMAT, "line 3 has no text under \"text\"" },
        { "a.jsonl", "body", "{\"text\":\"x\"}\n", MBA_E_FORMAT, "line 1 has no text under \"body\"" },
        { "a.ndjson", NULL, "{\"text\":\"x\"}\n[1]\n", MBA_E_FORMAT, "line 2 is a list, not an object" },
        { "a.json", NULL, "{\n\"text\":\"x\"}\n", MBA_E_FORMAT, "line 1 is not a JSON object" },
        { "a.jsonl", NULL, "{\"text\":\"\xff\"}\n", MBA_E_FORMAT, "line 1" },
        { "a.jsonl", NULL, "\n\n", MBA_E_ARG, "no text" },
        { "a.txt", NULL, "", MBA_E_ARG, "no text" },
        { "a.txt", NULL, "PAR1 a table", MBA_E_UNSUPPORTED, "pyarrow.parquet" },
        { "a.txt", NULL,
          "\xff\xfe"
          "a\1b\1",
          MBA_E_UNSUPPORTED, "iconv" },
        { "A.JSONL", NULL, "no object\n", MBA_E_FORMAT, "line 1" },
    };
    mba_tokenizer *t;
    mba_prepared   made;
    scratch_make();
    assert_ok(mba_tokenizer_create(&t, "bytes"));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *path = scratch(cases[i].name);
        scratch_put(path, cases[i].text, strlen(cases[i].text));
        const mba_prepare_options o = {
            .out = scratch("out"), .input = &path, .inputs = 1, .field = cases[i].field, .shard_tokens = 1
        };
        assert_fails(mba_prepare(&made, t, &o), cases[i].code, cases[i].words);
        if (cases[i].code != MBA_E_ARG) assert_non_null(strstr(mba_message(), cases[i].name));
        assert_int_equal(scratch_entries(""), 1); /* the input alone */
        assert_int_equal(remove(path), 0);
    }
    const char *none = scratch("none.txt");
    assert_fails(mba_prepare(&made, t, &(mba_prepare_options){ .out = scratch("out"), .input = &none, .inputs = 1 }),
                 MBA_E_IO, "none.txt");
    assert_int_equal(scratch_entries(""), 0);
    mba_tokenizer_destroy(t);
    scratch_remove();
}

static void an_output_is_not_overwritten(void **state)
{
    (void)state;
    mba_tokenizer *t;
    mba_prepared   made;
    scratch_make();
    assert_ok(mba_tokenizer_create(&t, "bytes"));
    const mba_prepare_options o = { .out = scratch("out"), .synthetic_bytes = 100 };
    assert_int_equal(mkdir(o.out, 0755), 0); /* empty is fine */
    assert_ok(mba_prepare(&made, t, &o));
    assert_int_equal(scratch_entries("out"), 4);
    assert_fails(mba_prepare(&made, t, &o), MBA_E_ARG, "exists already");
    assert_int_equal(scratch_entries("out"), 4);
    const char *file = scratch("file");
    scratch_put(file, "x", 1);
    assert_fails(mba_prepare(&made, t, &(mba_prepare_options){ .out = file }), MBA_E_ARG, "exists already");
    assert_fails(mba_prepare(&made, t, &(mba_prepare_options){ .out = "" }), MBA_E_ARG, "no name");
    assert_fails(mba_prepare(&made, t, &(mba_prepare_options){ .out = "x", .shard_tokens = -1 }), MBA_E_ARG,
                 "shards of -1");
    mba_tokenizer_destroy(t);
    scratch_remove();
}

static mba_status stop_at_half(void *user, int64_t done, int64_t all, int64_t tokens)
{
    int64_t *calls = user;
    assert_true(done <= all + 4096 && tokens > 0);
    ++*calls;
    return done >= all / 2 ? mba_fail(MBA_E_IO, "stopped") : MBA_OK;
}

static void progress_can_stop_the_work(void **state)
{
    (void)state;
    mba_tokenizer *t;
    mba_prepared   made;
    int64_t        calls = 0;
    scratch_make();
    assert_ok(mba_tokenizer_create(&t, "bytes"));
    const char *path = scratch("a.txt"), *out = scratch("out");
    char       *text = malloc(8 << 20);
    memset(text, 'x', 8 << 20);
    scratch_put(path, text, 8 << 20);
    free(text);
    assert_fails(mba_prepare(&made, t,
                             &(mba_prepare_options){
                                 .out = out, .input = &path, .inputs = 1, .progress = stop_at_half, .user = &calls }),
                 MBA_E_IO, "stopped");
    assert_in_range(calls, 3, 5);
    assert_int_equal(scratch_entries(""), 1);
    const char *lines = scratch("a.jsonl"); // line by line: it stops at one of them
    FILE       *f = fopen(lines, "w");
    for (int i = 0; i < 1 << 16; i++) fprintf(f, "{\"text\": \"%0100d\"}\n", i);
    fclose(f);
    calls = 0;
    assert_fails(mba_prepare(&made, t,
                             &(mba_prepare_options){
                                 .out = out, .input = &lines, .inputs = 1, .progress = stop_at_half, .user = &calls }),
                 MBA_E_IO, "stopped");
    assert_in_range(calls, 2, 5);
    assert_int_equal(scratch_entries(""), 2);
    mba_tokenizer_destroy(t);
    scratch_remove();
}

static void synthetic_text_is_the_same_everywhere_and_says_what_it_is(void **state)
{
    (void)state;
    mba_text text = { 0 };
    uint64_t h = 0xcbf29ce484222325u;
    size_t   last = 0, shortest = SIZE_MAX, longest = 0;
    for (int64_t number = 0; number < 500; number++) {
        assert_ok(mba_synthetic_text(&text, 1, number));
        const size_t n = text.n - last;
        shortest = n < shortest ? n : shortest;
        longest = n > longest ? n : longest;
        last = text.n;
    }
    for (size_t i = 0; i < text.n; i++) {
        h = (h ^ (uint8_t)text.data[i]) * 0x100000001b3u;
        assert_true((text.data[i] >= ' ' && text.data[i] < 127 && text.data[i] != '#') || text.data[i] == '\n');
    }
    assert_true(shortest >= 200 && longest <= 3000);
    assert_int_equal(h, 0xfdc71cd88775a21a);
    free(text.data);

    mba_tokenizer  *t;
    mba_prepared    made;
    mba_token_notes notes;
    scratch_make();
    assert_ok(mba_tokenizer_create(&t, "bytes"));
    const char *out = scratch("out");
    assert_ok(mba_prepare(&made, t, &(mba_prepare_options){ .out = out, .synthetic_bytes = 50000, .seed = 3 }));
    mba_ids ids = read_all(out, made.shards, &notes);
    assert_true(notes.synthetic);
    assert_string_equal(notes.source, "synthetic, seed 3");
    assert_in_range(made.bytes, 50000, 53000);
    assert_int_equal(made.tokens, made.bytes + made.documents);
    assert_int_equal(ids.id[0], 256);
    free(ids.id);
    mba_loader *l;
    assert_ok(
        mba_loader_create(&l, &(mba_loader_options){ .data = out, .B = 4, .L = 64, .vocab = 257, .documents = true }));
    assert_int_equal(mba_loader_batches(l), (made.tokens - 1) / 256);
    mba_loader_destroy(l);
    mba_tokenizer_destroy(t);
    scratch_remove();
}

/* Two JSON lines, the second in two members or frames: printf .. | zstd (gzip -n), twice, joined. */
static const unsigned char in_zstd[] = {
        0x28, 0xb5, 0x2f, 0xfd, 0x04, 0x58, 0xed, 0x00, 0x00, 0xb8, 0x7b, 0x22, 0x74, 0x65, 0x78, 0x74, 0x22, 0x3a,
        0x22, 0x66, 0x69, 0x72, 0x73, 0x74, 0x20, 0x6f, 0x6e, 0x65, 0x22, 0x7d, 0x0a, 0x73, 0x65, 0x01, 0x00, 0xb1,
        0x98, 0x4c, 0x7a, 0xd6, 0xdb, 0xa6, 0x28, 0xb5, 0x2f, 0xfd, 0x04, 0x58, 0x39, 0x00, 0x00, 0x63, 0x6f, 0x6e,
        0x64, 0x22, 0x7d, 0x0a, 0x14, 0xb2, 0xf1, 0xd0,
}, in_gzip[] = {
        0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x03, 0xab, 0x56, 0x2a, 0x49, 0xad, 0x28, 0x51, 0xb2,
        0x52, 0x4a, 0xcb, 0x2c, 0x2a, 0x2e, 0x51, 0xc8, 0xcf, 0x4b, 0x55, 0xaa, 0xe5, 0xaa, 0x86, 0x09, 0x16, 0xa7,
        0x02, 0x00, 0x5b, 0x1d, 0x81, 0x58, 0x20, 0x00, 0x00, 0x00, 0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00,
        0x00, 0x03, 0x4b, 0xce, 0xcf, 0x4b, 0x51, 0xaa, 0xe5, 0x02, 0x00, 0xda, 0xe1, 0x5b, 0x0d, 0x07, 0x00, 0x00,
        0x00,
};

/* Prepares bytes as a file of this name; on success *all has the tokens. */
static mba_status prepare_bytes(mba_ids *all, mba_prepared *made, const char *name, const void *bytes, size_t n,
                                const mba_prepare_options *more)
{
    mba_tokenizer      *t;
    mba_token_notes     notes;
    mba_prepare_options o = *more;
    const char         *path = scratch(name);
    scratch_put(path, bytes, n);
    assert_ok(mba_tokenizer_create(&t, o.user ? o.user : "bytes"));
    o.out = scratch("out");
    o.input = &path;
    o.inputs = 1;
    o.user = NULL;
    const mba_status st = mba_prepare(made, t, &o);
    if (st == MBA_OK) {
        *all = read_all(o.out, made->shards, &notes);
        assert_int_equal(notes.documents, made->documents);
        mba_folder_remove(o.out);
    }
    mba_tokenizer_destroy(t);
    remove(path);
    return st;
}

static const mba_prepare_options no_more;

static void compressed_text_gives_the_tokens_of_the_text(void **state)
{
    (void)state;
    static const char lines[] = "{\"text\":\"first one\"}\n{\"text\":\"second\"}\n";
    const struct {
        const char          *name;
        const unsigned char *bytes;
        size_t               n;
    } packed[] = {
        { "a.jsonl.zst", in_zstd, sizeof in_zstd },
        { "a.jsonl.gz", in_gzip, sizeof in_gzip },
        { "a", in_gzip, sizeof in_gzip },
    };
    mba_ids      want = { 0 }, got = { 0 };
    mba_prepared made;
    scratch_make();
    assert_ok(prepare_bytes(&want, &made, "a.jsonl", lines, sizeof lines - 1, &no_more));
    assert_int_equal(made.documents, 2);
    for (size_t i = 0; i < sizeof packed / sizeof *packed; i++) {
        unsigned char    spoiled[128];
        const mba_status st = prepare_bytes(&got, &made, packed[i].name, packed[i].bytes, packed[i].n, &no_more);
        if (st == MBA_E_UNSUPPORTED && strstr(mba_message(), "this build has no")) continue;
        assert_ok(st);
        assert_int_equal(got.n, want.n);
        assert_memory_equal(got.id, want.id, (size_t)got.n * sizeof *got.id);
        free(got.id);
        for (size_t n = 4; n < packed[i].n; n++) { /* cut short anywhere, it is an error */
            assert_int_equal(prepare_bytes(&got, &made, packed[i].name, packed[i].bytes, n, &no_more), MBA_E_FORMAT);
            assert_int_equal(scratch_entries(""), 0);
        }
        memcpy(spoiled, packed[i].bytes, packed[i].n);
        spoiled[20] ^= 0x10;
        assert_fails(prepare_bytes(&got, &made, packed[i].name, spoiled, packed[i].n, &no_more), MBA_E_FORMAT,
                     "cannot be unpacked");
    }
    free(want.id);
    scratch_remove();
}

/* Larger than the reader's block, with lines and stretches without a space that are larger still. */
static void a_long_text_is_unpacked_in_parts(void **state)
{
    (void)state;
    mba_text     text = { 0 };
    mba_ids      want = { 0 }, got = { 0 };
    mba_prepared made;
    scratch_make();
    for (int i = 0; i < 60000; i++) {
        char      word[80];
        const int n = snprintf(word, sizeof word, "%s%d caf\u00e9 it's  ", i % 7 ? " " : "\n", i);
        assert_ok(mba_text_add(&text, word, (size_t)n));
        if (i == 30000)
            for (int k = 0; k < 300000; k++) assert_ok(mba_text_add(&text, "abcdefgh", 8));
    }
    const mba_prepare_options o = { .user = (void *)"tests/data/tokenizer/llama3.json" };
    assert_ok(prepare_bytes(&want, &made, "a.txt", text.data, text.n, &o));
    scratch_put(scratch("b.txt"), text.data, text.n);
    char line[1024];
    snprintf(line, sizeof line, "gzip -c '%s' > '%s'", scratch("b.txt"), scratch("b.gz"));
    assert_int_equal(system(line), 0);
    mba_map m;
    assert_ok(mba_file_map(&m, scratch("b.gz")));
    const mba_status st = prepare_bytes(&got, &made, "c.txt.gz", m.data, m.bytes, &o);
    mba_file_unmap(&m);
    if (st == MBA_OK) {
        assert_int_equal(made.documents, 1);
        assert_int_equal(got.n, want.n);
        assert_memory_equal(got.id, want.id, (size_t)got.n * sizeof *got.id);
    } else {
        assert_non_null(strstr(mba_message(), "this build has no zlib"));
    }
    free(text.data);
    free(want.id);
    free(got.id);
    scratch_remove();
}

/* <|endoftext|> in a text is text; borders are between files and lines, and where --split-on says. */
static void end_of_text_in_a_document_is_no_border(void **state)
{
    (void)state;
    static const char        text[] = "one<|endoftext|>two <|endoftext|>\n";
    static const char *const tokenizer[] = { TOKENIZER, "bytes" };
    scratch_make();
    for (int i = 0; i < 2; i++) {
        mba_tokenizer *t;
        mba_ids        ids = { 0 };
        mba_text       back = { 0 };
        mba_prepared   made;
        assert_ok(mba_tokenizer_create(&t, tokenizer[i]));
        const int32_t end = mba_tokenizer_end_of_text(t);
        assert_ok(prepare_bytes(&ids, &made, "a.txt", text, sizeof text - 1,
                                &(mba_prepare_options){ .user = (void *)tokenizer[i] }));
        assert_int_equal(made.documents, 1);
        assert_int_equal(made.ends_in_text, 2);
        assert_int_equal(ids.id[0], end);
        for (int64_t k = 1; k < ids.n; k++) assert_int_not_equal(ids.id[k], end);
        assert_ok(mba_tokenizer_decode(t, &back, ids.id + 1, ids.n - 1));
        assert_int_equal(back.n, sizeof text - 1);
        assert_memory_equal(back.data, text, back.n);
        free(ids.id);
        free(back.data);
        ids = (mba_ids){ 0 };
        assert_ok(prepare_bytes(&ids, &made, "a.txt", text, sizeof text - 1,
                                &(mba_prepare_options){ .user = (void *)tokenizer[i], .split_on = "<|endoftext|>" }));
        assert_int_equal(made.documents, 3);
        assert_int_equal(made.bytes, sizeof text - 1 - 2 * 13);
        assert_int_equal(made.ends_in_text, 0);
        int64_t borders = 0;
        for (int64_t k = 0; k < ids.n; k++) borders += ids.id[k] == end;
        assert_int_equal(borders, 3);
        free(ids.id);
        mba_tokenizer_destroy(t);
    }
    scratch_remove();
}

MBA_TEST_MAIN(cmocka_unit_test(documents_come_back_from_the_shards), cmocka_unit_test(failures_leave_nothing_behind),
              cmocka_unit_test(an_output_is_not_overwritten),
              cmocka_unit_test(compressed_text_gives_the_tokens_of_the_text),
              cmocka_unit_test(a_long_text_is_unpacked_in_parts),
              cmocka_unit_test(end_of_text_in_a_document_is_no_border), cmocka_unit_test(progress_can_stop_the_work),
              cmocka_unit_test(synthetic_text_is_the_same_everywhere_and_says_what_it_is))
