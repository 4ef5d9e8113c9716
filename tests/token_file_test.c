// SPDX-License-Identifier: Apache-2.0
/* token_file_test.c -- token files: the two formats told apart, hostile ones refused, what is written is read. */
#include "tests/test.h"
#include "tests/scratch.h"

#include "data/token_file.h"

static void put_32(unsigned char *p, uint32_t v)
{
    for (int i = 0; i < 4; i++) p[i] = (unsigned char)(v >> 8 * i);
}

/* Opens a file of these bytes, with the three words of a header in front where `magic` is not 0. */
static mba_status open_with(mba_token_file **f, uint32_t magic, uint32_t version, uint32_t count, size_t bytes)
{
    unsigned char *p = calloc(1, bytes + 12);
    for (size_t i = 0; i < bytes; i++) p[i] = i < 1024 ? 0 : (unsigned char)(i % 7);
    if (magic) {
        put_32(p, magic);
        put_32(p + 4, version);
        put_32(p + 8, count);
    }
    const char *path = scratch("x.bin");
    scratch_put(path, p, bytes);
    free(p);
    return mba_token_file_open(f, path);
}

static void formats_are_told_apart(void **state)
{
    (void)state;
    mba_token_file *f;
    int32_t         v[2];
    scratch_make();
    assert_ok(open_with(&f, 20240520, 1, 50, 1124));
    assert_int_equal(mba_token_file_count(f), 50);
    assert_int_equal(mba_token_file_bytes_per_token(f), 2);
    assert_ok(mba_token_file_read(f, v, 1, 2, 1 << 16));
    assert_int_equal(v[0], 1026 % 7 + (1027 % 7 << 8));
    mba_token_file_close(f);
    assert_ok(open_with(&f, 20240801, 7, 25, 1124));
    assert_int_equal(mba_token_file_count(f), 25);
    assert_int_equal(mba_token_file_bytes_per_token(f), 4);
    mba_token_file_close(f);
    assert_ok(open_with(&f, 0, 0, 0, 1124)); /* no header */
    assert_int_equal(mba_token_file_count(f), 562);
    assert_null(mba_token_file_notes(f));
    mba_token_file_close(f);
    assert_ok(open_with(&f, 0, 0, 0, 2));
    assert_int_equal(mba_token_file_count(f), 1);
    mba_token_file_close(f);
    scratch_remove();
}

/* Bare tokens that begin with the magic number: the size tells, and the rest of the header. */
static void a_bare_file_may_begin_like_a_header(void **state)
{
    (void)state;
    mba_token_file *f;
    unsigned char   p[2000];
    scratch_make();
    memset(p, 3, sizeof p);
    put_32(p, 20240520);
    scratch_put(scratch("y.bin"), p, sizeof p);
    assert_ok(mba_token_file_open(&f, scratch("y.bin")));
    assert_int_equal(mba_token_file_count(f), 1000);
    mba_token_file_close(f);
    put_32(p + 4, 1);
    put_32(p + 8, (2000 - 1024) / 2); /* now the size fits: a shard */
    scratch_put(scratch("y.bin"), p, sizeof p);
    assert_ok(mba_token_file_open(&f, scratch("y.bin")));
    assert_int_equal(mba_token_file_count(f), 488);
    mba_token_file_close(f);
    scratch_remove();
}

static void bad_files_are_refused_with_numbers(void **state)
{
    (void)state;
    mba_token_file *f = NULL;
    scratch_make();
    assert_fails(open_with(&f, 20240520, 1, 51, 1124), MBA_E_FORMAT, "has 1124 bytes and should have 1126");
    assert_fails(open_with(&f, 20240520, 1, 51, 500), MBA_E_FORMAT, "has 500 bytes and should have 1126");
    assert_fails(open_with(&f, 20240520, 1, 0xffffffffu, 1124), MBA_E_FORMAT, "cannot have 4294967295 tokens");
    assert_fails(open_with(&f, 20240801, 7, 0x80000000u, 1124), MBA_E_FORMAT, "cannot have 2147483648 tokens");
    assert_fails(open_with(&f, 20240520, 2, 50, 1124), MBA_E_UNSUPPORTED, "version 2");
    assert_fails(open_with(&f, 20240520, 1, 0, 1024), MBA_E_FORMAT, "no tokens");
    assert_fails(open_with(&f, 20240522, 1, 50, 1124), MBA_E_UNSUPPORTED, "multiple-choice");
    assert_fails(open_with(&f, 0, 0, 0, 0), MBA_E_FORMAT, "it has 0 bytes");
    assert_fails(open_with(&f, 0, 0, 0, 1125), MBA_E_FORMAT, "it has 1125 bytes");
    assert_fails(mba_token_file_open(&f, scratch("none.bin")), MBA_E_IO, "none.bin");
    assert_null(f);
    scratch_remove();
}

static void what_is_written_is_read(void **state)
{
    (void)state;
    static const int64_t vocabs[] = { 65536, 65537, INT32_MAX };
    scratch_make();
    for (int k = 0; k < 3; k++) {
        enum { N = 20000 };
        int32_t        *ids = malloc(N * sizeof *ids), *back = malloc(N * sizeof *back);
        mba_token_file *f;
        const char     *path = scratch("w.bin");
        for (int64_t i = 0; i < N; i++) ids[i] = (int32_t)(i * 2654435761u % (vocabs[k] - 1));
        ids[N - 1] = (int32_t)(vocabs[k] - 1);
        mba_token_notes notes = { .tokenizer = "bytes",
                                  .vocab = vocabs[k],
                                  .end_of_text = k ? 7 : -1,
                                  .documents = 3,
                                  .bytes = INT64_MAX,
                                  .source = "a \"quoted\" name",
                                  .synthetic = k == 1 };
        assert_ok(mba_token_file_write(path, ids, N, vocabs[k], &notes));
        assert_ok(mba_token_file_open(&f, path));
        assert_int_equal(mba_token_file_bytes_per_token(f), k ? 4 : 2);
        assert_int_equal(mba_token_file_count(f), N);
        assert_ok(mba_token_file_read(f, back, 0, N, vocabs[k]));
        assert_memory_equal(ids, back, N * sizeof *ids);
        assert_fails(mba_token_file_read(f, back, 100, N - 100, vocabs[k] - 1), MBA_E_FORMAT,
                     k ? "byte 81020 (token 19999)" : "byte 41022 (token 19999)");
        const mba_token_notes *n = mba_token_file_notes(f);
        assert_non_null(n);
        assert_string_equal(n->tokenizer, "bytes");
        assert_string_equal(n->source, notes.source);
        assert_int_equal(n->vocab, vocabs[k]);
        assert_int_equal(n->end_of_text, notes.end_of_text);
        assert_int_equal(n->documents, 3);
        assert_true(n->bytes == INT64_MAX);
        assert_int_equal(n->synthetic, k == 1);
        mba_token_file_close(f);
        free(ids);
        free(back);
    }
    assert_fails(mba_token_file_write(scratch("v.bin"), (int32_t[]){ 1, 5 }, 2, 5, NULL), MBA_E_ARG,
                 "the token 5 at 1");
    assert_fails(mba_token_file_write(scratch("v.bin"), (int32_t[]){ -1 }, 1, 5, NULL), MBA_E_ARG, "the token -1 at 0");
    assert_fails(mba_token_file_write(scratch("v.bin"), NULL, 0, 5, NULL), MBA_E_ARG, "a shard of 0 tokens");
    assert_int_not_equal(access(scratch("v.bin"), F_OK), 0);
    scratch_remove();
}

/* uint32 values above 2^31 must not come out negative. */
static void huge_values_are_refused(void **state)
{
    (void)state;
    mba_token_file *f;
    int32_t         v;
    unsigned char   p[1028] = { 0 };
    scratch_make();
    put_32(p, 20240801);
    put_32(p + 4, 7);
    put_32(p + 8, 1);
    put_32(p + 1024, 0xfffffffeu);
    scratch_put(scratch("h.bin"), p, sizeof p);
    assert_ok(mba_token_file_open(&f, scratch("h.bin")));
    assert_fails(mba_token_file_read(f, &v, 0, 1, INT32_MAX), MBA_E_FORMAT,
                 "the token 4294967294 is not in a vocabulary of 2147483647");
    assert_non_null(strstr(mba_message(), "h.bin', byte 1024 (token 0)"));
    mba_token_file_close(f);
    scratch_remove();
}

static void bad_notes_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *json, *words;
    } cases[] = {
        { "{", "x.bin.json" },
        { "{}", "vocab" },
        { "{\"vocab\":0}", "vocab" },
        { "{\"vocab\":10,\"end_of_text\":10}", "end_of_text" },
        { "{\"vocab\":10,\"synthetic\":3}", "synthetic" },
        { "{\"vocab\":10,\"tokenizer\":3}", "tokenizer" },
    };
    mba_token_file *f = NULL;
    scratch_make();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        scratch_put(scratch("x.bin.json"), cases[i].json, strlen(cases[i].json));
        assert_fails(open_with(&f, 0, 0, 0, 20), MBA_E_FORMAT, cases[i].words);
        assert_non_null(strstr(mba_message(), "x.bin.json"));
    }
    scratch_remove();
}

MBA_TEST_MAIN(cmocka_unit_test(formats_are_told_apart), cmocka_unit_test(a_bare_file_may_begin_like_a_header),
              cmocka_unit_test(bad_files_are_refused_with_numbers), cmocka_unit_test(what_is_written_is_read),
              cmocka_unit_test(huge_values_are_refused), cmocka_unit_test(bad_notes_are_refused))
