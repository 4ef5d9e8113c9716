// SPDX-License-Identifier: Apache-2.0
/* loader_test.c -- batches: the order of the specification, shuffling, splits, documents, exact resumption. */
#include "tests/test.h"
#include "tests/scratch.h"

#include "data/loader.h"

enum { V = 30000 };

/* A shard whose tokens count up from `first`. */
static void shard(const char *name, int32_t first, int n, const mba_token_notes *notes)
{
    int32_t *ids = malloc((size_t)n * sizeof *ids);
    for (int i = 0; i < n; i++) ids[i] = first + i;
    assert_ok(mba_token_file_write(scratch(name), ids, n, V, notes));
    free(ids);
}

/* Two shards, 0..99 and 1000..1060, and a file that is none. */
static void two_shards(void)
{
    scratch_make();
    shard("b.bin", 1000, 61, NULL);
    shard("a.bin", 0, 100, NULL);
    scratch_put(scratch("readme.txt"), "x", 1);
}

static void batches_come_in_the_order_of_the_specification(void **state)
{
    (void)state;
    mba_loader *l;
    int32_t     x[10], y[10];
    mba_batch   b = { .tokens = x, .targets = y };
    two_shards();
    for (int rank = 0; rank < 2; rank++) {
        mba_position at = { 0 };
        assert_ok(mba_loader_create(
            &l, &(mba_loader_options){ .data = scratch_dir, .B = 2, .L = 5, .vocab = V, .rank = rank, .ranks = 2 }));
        assert_int_equal(mba_loader_files(l), 2);
        assert_int_equal(mba_loader_tokens(l), 161);
        assert_int_equal(mba_loader_batches(l), 4 + 3); /* 99/20 and 60/20 */
        for (int k = 0; k < 9; k++) {
            assert_int_equal(at.epoch, k / 7);
            assert_int_equal(at.index, k % 7);
            const int m = k % 7, first = (m < 4 ? m * 20 : 1000 + (m - 4) * 20) + rank * 10;
            assert_ok(mba_loader_next(l, &b, &at));
            for (int i = 0; i < 10; i++) {
                assert_int_equal(x[i], first + i);
                assert_int_equal(y[i], first + i + 1);
            }
        }
        mba_loader_destroy(l);
    }
    scratch_remove();
}

/* Two files of 99 / 10 and 60 / 10 batches; row b goes through its own half of each. */
static void rows_of_streams_go_on_where_they_ended(void **state)
{
    (void)state;
    mba_loader  *l;
    int32_t      x[10], y[10], before[2];
    mba_batch    b = { .tokens = x, .targets = y, .before = before };
    mba_position at = { 0 };
    two_shards();
    assert_ok(mba_loader_create(&l, &(mba_loader_options){
                                        .data = scratch_dir, .B = 2, .L = 5, .vocab = V, .streams = true }));
    assert_int_equal(mba_loader_batches(l), 9 + 6);
    for (int k = 0; k < 20; k++) {
        const int m = k % 15, place = m < 9 ? m : m - 9, first = m < 9 ? 0 : 1000, piece = m < 9 ? 45 : 30;
        assert_ok(mba_loader_next(l, &b, &at));
        for (int i = 0; i < 10; i++) {
            assert_int_equal(x[i], first + i / 5 * piece + place * 5 + i % 5);
            assert_int_equal(y[i], x[i] + 1);
        }
        for (int r = 0; r < 2; r++)
            assert_int_equal(before[r], place * 5 < MBA_BEFORE_MAX ? place * 5 : MBA_BEFORE_MAX);
    }
    mba_loader_destroy(l);
    at = (mba_position){ .index = 3 };
    assert_ok(mba_loader_create(&l, &(mba_loader_options){ .data = scratch("a.bin"),
                                                           .B = 2,
                                                           .L = 5,
                                                           .vocab = V,
                                                           .streams = true,
                                                           .documents = true,
                                                           .end_of_text = &(int32_t){ 58 } }));
    b.documents = (int32_t[10]){ 0 };
    assert_ok(mba_loader_next(l, &b, &at)); // rows 15 .. 19 and 60 .. 64; the document before 60 begins at 58
    assert_int_equal(before[0], 15);
    assert_int_equal(before[1], 2);
    mba_loader_destroy(l);
    scratch_remove();
}

static void shuffling_visits_every_window_once_in_every_epoch(void **state)
{
    (void)state;
    mba_loader *l;
    int32_t     x[4], y[4];
    mba_batch   b = { .tokens = x, .targets = y };
    int         order[2][39], changed = 0, in_order = 0;
    two_shards();
    for (int epoch = 0; epoch < 2; epoch++) {
        int seen[39] = { 0 };
        for (int rank = 0; rank < 3; rank++) {
            mba_position at = { .epoch = epoch };
            assert_ok(mba_loader_create(&l, &(mba_loader_options){ .data = scratch_dir,
                                                                   .B = 1,
                                                                   .L = 4,
                                                                   .vocab = V,
                                                                   .shuffle = true,
                                                                   .seed = 5,
                                                                   .rank = rank,
                                                                   .ranks = 3 }));
            assert_int_equal(mba_loader_batches(l), 13); /* 24 + 15 windows on three ranks */
            while (at.epoch == epoch) {
                const int64_t k = at.index * 3 + rank;
                assert_ok(mba_loader_next(l, &b, &at));
                const int window = x[0] < 1000 ? x[0] / 4 : 24 + (x[0] - 1000) / 4;
                for (int i = 0; i < 4; i++) {
                    assert_int_equal(x[i], (window < 24 ? window * 4 : 1000 + (window - 24) * 4) + i);
                    assert_int_equal(y[i], x[i] + 1);
                }
                seen[window]++;
                order[epoch][k] = window;
            }
            mba_loader_destroy(l);
        }
        for (int i = 0; i < 39; i++) assert_int_equal(seen[i], 1);
    }
    for (int i = 0; i < 39; i++) {
        changed += order[0][i] != order[1][i];
        in_order += order[0][i] == i;
    }
    assert_true(changed > 20 && in_order < 12);
    scratch_remove();
}

/* Big and odd numbers of windows: still a permutation, and neighbours end up apart. */
static void large_permutations_are_complete(void **state)
{
    (void)state;
    enum { N = 20001 };
    mba_loader   *l;
    int32_t       x[1], y[1];
    mba_batch     b = { .tokens = x, .targets = y };
    mba_position  at = { 0 };
    unsigned char seen[N] = { 0 };
    double        distance = 0;
    int32_t       last = 0;
    scratch_make();
    shard("p.bin", 0, N, NULL);
    assert_ok(mba_loader_create(&l, &(mba_loader_options){
                                        .data = scratch("p.bin"), .B = 1, .L = 1, .vocab = V, .shuffle = true }));
    assert_int_equal(mba_loader_batches(l), N - 1);
    while (!at.epoch) {
        assert_ok(mba_loader_next(l, &b, &at));
        assert_int_equal(seen[x[0]]++, 0);
        distance += fabs((double)x[0] - last);
        last = x[0];
    }
    assert_near(distance / (N - 1), N / 3.0, N / 3.0 * 0.03); /* a third of the range for random order */
    mba_loader_destroy(l);
    scratch_remove();
}

static void a_position_and_a_seed_give_the_same_batch(void **state)
{
    (void)state;
    two_shards();
    for (int shuffle = 0; shuffle < 2; shuffle++) {
        const mba_loader_options o = {
            .data = scratch_dir, .B = 2, .L = 3, .vocab = V, .shuffle = shuffle, .seed = 11
        };
        mba_loader  *l;
        int32_t      x[6], y[6], first[40][6];
        mba_batch    b = { .tokens = x, .targets = y };
        mba_position at = { 0 }, kept[40];
        assert_ok(mba_loader_create(&l, &o));
        for (int k = 0; k < 40; k++) {
            kept[k] = at;
            assert_ok(mba_loader_next(l, &b, &at));
            memcpy(first[k], x, sizeof x);
        }
        assert_true(kept[39].epoch >= 1);
        mba_loader_destroy(l);
        assert_ok(mba_loader_create(&l, &o));
        for (int k = 39; k >= 0; k--) {
            at = kept[k];
            assert_ok(mba_loader_next(l, &b, &at));
            assert_memory_equal(first[k], x, sizeof x);
        }
        at = (mba_position){ .index = mba_loader_batches(l) };
        assert_fails(mba_loader_next(l, &b, &at), MBA_E_ARG, "there is no batch");
        mba_loader_destroy(l);
    }
    scratch_remove();
}

/* The last tenth of 161 tokens: 16 for validation, all in the second file; no token is in both parts. */
static void the_validation_part_is_the_tail(void **state)
{
    (void)state;
    mba_loader *l;
    int32_t     x[5], y[5];
    mba_batch   b = { .tokens = x, .targets = y };
    two_shards();
    for (int split = MBA_PART_TRAIN; split <= MBA_PART_VALIDATION; split++) {
        mba_position at = { 0 };
        assert_ok(mba_loader_create(
            &l, &(mba_loader_options){
                    .data = scratch_dir, .B = 1, .L = 5, .vocab = V, .split = split, .validation = 0.1 }));
        assert_int_equal(mba_loader_tokens(l), split == MBA_PART_TRAIN ? 145 : 16);
        assert_int_equal(mba_loader_batches(l), split == MBA_PART_TRAIN ? 19 + 8 : 3);
        for (int k = 0; !at.epoch; k++) {
            assert_ok(mba_loader_next(l, &b, &at));
            if (split == MBA_PART_TRAIN) assert_true(y[4] < 1045);
            else assert_int_equal(x[0], 1045 + 5 * k);
        }
        mba_loader_destroy(l);
    }
    /* A border inside the first file leaves both parts of the second in validation. */
    assert_ok(mba_loader_create(
        &l, &(mba_loader_options){
                .data = scratch_dir, .B = 1, .L = 5, .vocab = V, .split = MBA_PART_VALIDATION, .validation = 0.5 }));
    assert_int_equal(mba_loader_tokens(l), 80);
    assert_int_equal(mba_loader_batches(l), 18 / 5 + 60 / 5);
    mba_loader_destroy(l);
    assert_fails(mba_loader_create(&l,
                                   &(mba_loader_options){
                                       .data = scratch_dir, .B = 1, .L = 5, .vocab = V, .split = MBA_PART_TRAIN }),
                 MBA_E_ARG, "between 0 and 1");
    scratch_remove();
}

static void documents_are_numbered_in_every_row(void **state)
{
    (void)state;
    static const int32_t ids[] = { 9, 1, 2, 9, 3, 4, 9, 9, 5, 6, 7, 8, 9 };
    static const int32_t want_documents[] = { 0, 0, 0, 1, 1, 1, 0, 1, 1, 1, 1, 1 }; /* 9 1 2 9 3 4 | 9 9 5 6 7 8 */
    static const int32_t want_within[] = { 1, 2, -1, 3, 4, -1, -1, 5, 6, 7, 8, -1 };
    mba_loader          *l;
    int32_t              x[12], y[12], d[12];
    mba_batch            b = { .tokens = x, .targets = y, .documents = d };
    mba_position         at = { 0 };
    scratch_make();
    const char *path = scratch("d.bin");
    assert_ok(mba_token_file_write(path, ids, 13, 10, NULL));
    const mba_loader_options plain = { .data = path, .B = 2, .L = 6, .vocab = 10, .documents = true };
    assert_fails(mba_loader_create(&l, &plain), MBA_E_ARG, "document ends are unknown");
    mba_loader_options o = plain;
    o.end_of_text = &(int32_t){ 9 };
    assert_ok(mba_loader_create(&l, &o));
    assert_ok(mba_loader_next(l, &b, &at));
    assert_memory_equal(d, want_documents, sizeof d);
    assert_memory_equal(x, ids, sizeof x);
    assert_memory_equal(y, ids + 1, sizeof y);
    mba_loader_destroy(l);
    /* Notes name the token as well, and targets can be kept within documents. */
    assert_ok(
        mba_token_file_write(path, ids, 13, 10, &(mba_token_notes){ .tokenizer = "t", .vocab = 10, .end_of_text = 9 }));
    o.end_of_text = NULL;
    o.targets_within_documents = true;
    at = (mba_position){ 0 };
    assert_ok(mba_loader_create(&l, &o));
    assert_ok(mba_loader_next(l, &b, &at));
    assert_memory_equal(d, want_documents, sizeof d);
    assert_memory_equal(y, want_within, sizeof y);
    assert_string_equal(mba_loader_notes(l)->tokenizer, "t");
    mba_loader_destroy(l);
    scratch_remove();
}

static void what_does_not_fit_is_refused_with_numbers(void **state)
{
    (void)state;
    mba_loader  *l = NULL;
    int32_t      x[100], y[100];
    mba_position at = { 0 };
    two_shards();
    assert_fails(mba_loader_create(&l, &(mba_loader_options){ .data = scratch_dir, .B = 10, .L = 10, .vocab = V }),
                 MBA_E_ARG,
                 "it has 161 tokens in 2 file(s), the longest stretch 100; a batch of 10 x 10 on 1 rank(s) takes 101");
    assert_fails(mba_loader_create(&l, &(mba_loader_options){ .data = scratch_dir, .B = 0, .L = 10, .vocab = V }),
                 MBA_E_ARG, "0 x 10");
    for (int i = 0; i < 3; i++) {
        static const int64_t none[] = { 0, -1, (int64_t)INT32_MAX + 1 };
        assert_fails(mba_loader_create(&l,
                                       &(mba_loader_options){ .data = scratch_dir, .B = 1, .L = 10, .vocab = none[i] }),
                     MBA_E_ARG, "is impossible");
    }
    for (int i = 0; i < 2; i++) { // the least and the most
        static const int64_t some[] = { 1, INT32_MAX };
        assert_ok(
            mba_loader_create(&l, &(mba_loader_options){ .data = scratch("b*"), .B = 1, .L = 10, .vocab = some[i] }));
        mba_loader_destroy(l);
        l = NULL;
    }
    assert_fails(mba_loader_create(&l,
                                   &(mba_loader_options){
                                       .data = scratch_dir, .B = 1, .L = 10, .vocab = V, .rank = 2, .ranks = 2 }),
                 MBA_E_ARG, "no rank 2 of 2");
    assert_fails(mba_loader_create(&l, &(mba_loader_options){ .data = scratch("none*"), .B = 1, .L = 9, .vocab = V }),
                 MBA_E_IO, "no token files at");
    assert_fails(mba_loader_create(&l,
                                   &(mba_loader_options){ .data = scratch("readme.txt"), .B = 1, .L = 9, .vocab = V }),
                 MBA_E_FORMAT, "looks like text, not like tokens");
    assert_null(l);
    /* A glob; values beyond the vocabulary are named by file, byte and value. */
    assert_ok(mba_loader_create(&l, &(mba_loader_options){ .data = scratch("b*"), .B = 1, .L = 10, .vocab = 1015 }));
    assert_int_equal(mba_loader_files(l), 1);
    assert_ok(mba_loader_next(l, &(mba_batch){ .tokens = x, .targets = y }, &at));
    assert_fails(mba_loader_next(l, &(mba_batch){ .tokens = x, .targets = y }, &at), MBA_E_FORMAT,
                 "the token 1015 is not in a vocabulary of 1015");
    assert_non_null(strstr(mba_message(), "b.bin', byte 1054 (token 15)"));
    assert_int_equal(at.index, 1);
    mba_loader_destroy(l);
    shard("c.bin", 1000, 11, NULL); // the last target alone is beyond it
    at = (mba_position){ 0 };
    assert_ok(mba_loader_create(&l, &(mba_loader_options){ .data = scratch("c*"), .B = 1, .L = 10, .vocab = 1010 }));
    assert_fails(mba_loader_next(l, &(mba_batch){ .tokens = x, .targets = y }, &at), MBA_E_FORMAT,
                 "the token 1010 is not in a vocabulary of 1010");
    assert_true(at.epoch == 0 && at.index == 0);
    static const mba_position nowhere[] = { { .epoch = -1 }, { .index = -1 }, { .index = 1 } };
    for (int i = 0; i < 3; i++) {
        at = nowhere[i];
        assert_fails(mba_loader_next(l, &(mba_batch){ .tokens = x, .targets = y }, &at), MBA_E_ARG,
                     "there is no batch");
        assert_non_null(strstr(mba_message(), "an epoch has 1 batches"));
    }
    mba_loader_destroy(l);
    assert_int_equal(remove(scratch("c.bin")), 0);
    /* Notes that do not fit the model or each other. */
    shard("a.bin", 0, 100, &(mba_token_notes){ .tokenizer = "one", .vocab = 200, .end_of_text = 0 });
    assert_fails(mba_loader_create(&l, &(mba_loader_options){ .data = scratch_dir, .B = 1, .L = 9, .vocab = 150 }),
                 MBA_E_ARG, "the data has 200 kinds of tokens, the model has 150");
    shard("b.bin", 0, 100, &(mba_token_notes){ .tokenizer = "two", .vocab = 200, .end_of_text = 0 });
    assert_fails(mba_loader_create(&l, &(mba_loader_options){ .data = scratch_dir, .B = 1, .L = 9, .vocab = V }),
                 MBA_E_ARG, "different tokenizers");
    scratch_remove();
}

MBA_TEST_MAIN(cmocka_unit_test(batches_come_in_the_order_of_the_specification),
              cmocka_unit_test(rows_of_streams_go_on_where_they_ended),
              cmocka_unit_test(shuffling_visits_every_window_once_in_every_epoch),
              cmocka_unit_test(large_permutations_are_complete),
              cmocka_unit_test(a_position_and_a_seed_give_the_same_batch),
              cmocka_unit_test(the_validation_part_is_the_tail), cmocka_unit_test(documents_are_numbered_in_every_row),
              cmocka_unit_test(what_does_not_fit_is_refused_with_numbers))
