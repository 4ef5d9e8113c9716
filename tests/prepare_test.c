/* prepare_test.c -- text to token files: nothing lost, all or nothing, errors that name the line. */
#include "tests/test.h"
#include "tests/scratch.h"

#include "data/loader.h"
#include "data/prepare.h"

#define TOKENIZER "tests/data/tokenizer/neox.json"

/* All tokens of a directory of shards, and the sums of their notes. */
static mba_ids read_all(const char *folder, int64_t shards, mba_token_notes *sum)
{
    mba_ids ids = { 0 };
    *sum        = (mba_token_notes){ 0 };
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
        *sum           = *n;
        sum->documents = documents;
        sum->bytes     = bytes;
        mba_token_file_close(f);
    }
    return ids;
}

static void documents_come_back_from_the_shards(void **state)
{
    (void)state;
    static const char text[]  = "A plain text.\n  Two lines, cafe\u0301.\n";
    static const char lines[] = "{\"text\":\"first\\u0000 one\"}\n\n{\"id\":2, \"text\":\"second\\nline\"}\r\n  "
                                "\n{\"text\":\"\"}\n{\"text\":\"third\"}";
    static const char want[]  = "<|endoftext|>A plain text.\n  Two lines, caf\u00e9.\n<|endoftext|>first\0 "
                                "one<|endoftext|>second\nline<|endoftext|>third";
    mba_tokenizer  *t;
    mba_prepared    made;
    mba_token_notes notes;
    mba_text        back = { 0 };
    scratch_make();
    assert_ok(mba_tokenizer_create(&t, TOKENIZER));
    const char *a = scratch("a.txt"), *b = scratch("b.jsonl"), *out = scratch("deep/er/out/");
    scratch_put(a, text, sizeof text - 1);
    scratch_put(b, lines, sizeof lines - 1);
    assert_ok(mba_prepare(
        &made, t,
        &(mba_prepare_options){ .out = out, .input = (const char *[]){ a, b }, .inputs = 2, .shard_tokens = 10 }));
    mba_ids ids = read_all(out, made.shards, &notes);
    assert_int_equal(ids.n, made.tokens);
    assert_int_equal(made.shards, (ids.n + 9) / 10);
    assert_int_equal(scratch_entries("deep/er/out"), 2 * made.shards);
    assert_ok(mba_tokenizer_decode(t, &back, ids.id, ids.n));
    assert_int_equal(back.n, sizeof want - 1);
    assert_memory_equal(back.data, want, back.n);
    assert_int_equal(made.documents, 4);
    assert_int_equal(notes.documents, 4);
    assert_int_equal(made.bytes, sizeof want - 1 - 4 * 13);  /* without the four end-of-text tokens */
    assert_int_equal(notes.bytes, made.bytes);
    assert_int_equal(notes.vocab, mba_tokenizer_vocab(t));
    assert_int_equal(notes.end_of_text, 0);
    assert_false(notes.synthetic);
    assert_string_equal(notes.tokenizer, mba_tokenizer_name(t));
    assert_non_null(strstr(notes.source, "a.txt and 1 more"));
    free(ids.id); free(back.data);
    mba_tokenizer_destroy(t);
    scratch_remove();
}

static void failures_leave_nothing_behind(void **state)
{
    (void)state;
    static const struct { const char *name, *field, *text; mba_status code; const char *words;
    } cases[] = {
        {"a.jsonl", NULL, "{\"text\":\"x\"}\n{\"text\":\"y\"\n{\"text\":\"z\"}\n", MBA_E_FORMAT,
         "line 2 is no JSON object"},
        {"a.jsonl", NULL, "{\"text\":\"x\"}\n\n{\"text\":3}\n", MBA_E_FORMAT, "line 3 has no text under \"text\""},
        {"a.jsonl", "body", "{\"text\":\"x\"}\n", MBA_E_FORMAT, "line 1 has no text under \"body\""},
        {"a.ndjson", NULL, "{\"text\":\"x\"}\n[1]\n", MBA_E_FORMAT, "line 2 is a list, not an object"},
        {"a.json", NULL, "{\n\"text\":\"x\"}\n", MBA_E_FORMAT, "line 1 is no JSON object"},
        {"a.jsonl", NULL, "{\"text\":\"\xff\"}\n", MBA_E_FORMAT, "line 1"},
        {"a.jsonl", NULL, "\n\n", MBA_E_ARG, "no text"},
        {"a.txt", NULL, "", MBA_E_ARG, "no text"},
        {"a.txt", NULL, "\x1f\x8b\x08\x08zipped", MBA_E_UNSUPPORTED, "gzip"},
        {"a.txt", NULL, "PAR1 a table", MBA_E_UNSUPPORTED, "parquet"},
        {"A.JSONL", NULL, "no object\n", MBA_E_FORMAT, "line 1"},
    };
    mba_tokenizer *t;
    mba_prepared   made;
    scratch_make();
    assert_ok(mba_tokenizer_create(&t, "bytes"));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *path = scratch(cases[i].name);
        scratch_put(path, cases[i].text, strlen(cases[i].text));
        const mba_prepare_options o = {
            .out = scratch("out"), .input = &path, .inputs = 1, .field = cases[i].field, .shard_tokens = 1};
        assert_fails(mba_prepare(&made, t, &o), cases[i].code, cases[i].words);
        if (cases[i].code != MBA_E_ARG) assert_non_null(strstr(mba_message(), cases[i].name));
        assert_int_equal(scratch_entries(""), 1);             /* the input alone */
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
    assert_int_equal(mkdir(o.out, 0755), 0);                 /* empty is fine */
    assert_ok(mba_prepare(&made, t, &o));
    assert_int_equal(scratch_entries("out"), 2);
    assert_fails(mba_prepare(&made, t, &o), MBA_E_ARG, "is there already");
    assert_int_equal(scratch_entries("out"), 2);
    const char *file = scratch("file");
    scratch_put(file, "x", 1);
    assert_fails(mba_prepare(&made, t, &(mba_prepare_options){ .out = file }), MBA_E_ARG, "is there already");
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
                                 .out = out, .input = &path, .inputs = 1, .progress = stop_at_half, .user = &calls}),
                 MBA_E_IO, "stopped");
    assert_in_range(calls, 3, 5);
    assert_int_equal(scratch_entries(""), 1);
    mba_tokenizer_destroy(t);
    scratch_remove();
}

static void synthetic_text_is_the_same_everywhere_and_says_what_it_is(void **state)
{
    (void)state;
    mba_text text = { 0 };
    uint64_t h    = 0xcbf29ce484222325u;
    size_t   last = 0, shortest = SIZE_MAX, longest = 0;
    for (int64_t number = 0; number < 500; number++) {
        assert_ok(mba_synthetic_text(&text, 1, number));
        const size_t n = text.n - last;
        shortest       = n < shortest ? n : shortest;
        longest        = n > longest ? n : longest;
        last           = text.n;
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

MBA_TEST_MAIN(cmocka_unit_test(documents_come_back_from_the_shards), cmocka_unit_test(failures_leave_nothing_behind),
              cmocka_unit_test(an_output_is_not_overwritten), cmocka_unit_test(progress_can_stop_the_work),
              cmocka_unit_test(synthetic_text_is_the_same_everywhere_and_says_what_it_is))
