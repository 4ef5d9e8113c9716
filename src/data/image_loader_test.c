// SPDX-License-Identifier: Apache-2.0
/* image_loader_test.c -- batches of images do not depend on the workers, resume exactly, and replace damaged files. */
#include "tests/images.h"
#include "tests/scratch.h"

#include "data/image_bench.h"
#include "data/image_loader.h"

enum { SIZE = 24, B = 6, K = 10, COUNT = 50, BATCH = B * SIZE * SIZE * 3 };

static mba_image_set *made(const char *name, int64_t count, int32_t size)
{
    mba_image_set *s;
    assert_ok(mba_image_set_open(&s, &(mba_image_set_options){ .path = name, .count = count, .size = size }));
    return s;
}

static mba_image_recipe everything(const mba_image_set *s) { return mba_image_recipe_train(s, SIZE); }

/* Batches from `at` on, end to end; the caller frees. */
typedef struct batches {
    float   *x, *targets;
    int32_t *labels;
    int64_t *numbers;
} batches;

static batches load(const mba_image_loader_options *o, mba_position at, int n)
{
    mba_image_loader *l;
    const int64_t     per = o->B * o->recipe.size * o->recipe.size * 3, classes = o->set->classes;
    batches b = { malloc((size_t)(n * per) * sizeof(float)), malloc((size_t)(n * o->B * classes) * sizeof(float)),
                  malloc((size_t)(n * o->B) * sizeof(int32_t)), malloc((size_t)(n * o->B) * sizeof(int64_t)) };
    assert_ok(mba_image_loader_create(&l, o));
    for (int i = 0; i < n; i++) {
        mba_image_batch one = { b.x + i * per, b.labels + i * o->B, b.targets + i * o->B * classes,
                                b.numbers + i * o->B, 0 };
        assert_ok(mba_image_loader_next(l, &one, &at));
        assert_int_equal(one.count, o->B);
    }
    mba_image_loader_destroy(l);
    return b;
}

static void free_batches(batches *b)
{
    free(b->x);
    free(b->targets);
    free(b->labels);
    free(b->numbers);
}

static void batches_are_the_same_at_any_number_of_workers(void **state)
{
    (void)state;
    mba_image_set           *s = made("synthetic", COUNT, 40);
    mba_image_loader_options o = { .set = s, .recipe = everything(s), .B = B, .shuffle = true, .seed = 5 };
    batches                  one = load(&o, (mba_position){ 0 }, 18);
    for (o.workers = 1; o.workers <= 5; o.workers += 2)
        for (o.prefetch = 0; o.prefetch <= 2; o.prefetch += 2) {
            batches b = load(&o, (mba_position){ 0 }, 18);
            assert_memory_equal(b.x, one.x, 18 * BATCH * sizeof(float));
            assert_memory_equal(b.targets, one.targets, 18 * B * K * sizeof(float));
            assert_memory_equal(b.labels, one.labels, 18 * B * sizeof(int32_t));
            free_batches(&b);
        }
    /* Another seed is another order and other images. */
    o.seed = 6;
    o.workers = 2;
    batches b = load(&o, (mba_position){ 0 }, 1);
    assert_memory_not_equal(b.numbers, one.numbers, B * sizeof(int64_t));
    free_batches(&b);
    free_batches(&one);
    mba_image_set_close(s);
}

static void an_epoch_shows_every_image_once_and_resumes_anywhere(void **state)
{
    (void)state;
    mba_image_set           *s = made("synthetic", 48, 40);
    mba_image_loader_options o = {
        .set = s, .recipe = everything(s), .B = B, .shuffle = true, .seed = 5, .workers = 2
    };
    batches all = load(&o, (mba_position){ 0 }, 16);
    for (int epoch = 0; epoch < 2; epoch++) {
        int seen[48] = { 0 };
        for (int i = 0; i < 48; i++) seen[all.numbers[48 * epoch + i]]++;
        for (int i = 0; i < 48; i++) assert_int_equal(seen[i], 1);
    }
    assert_memory_not_equal(all.numbers, all.numbers + 48, 48 * sizeof(int64_t));
    for (int i = 0; i < 96; i++) assert_int_equal(all.labels[i], all.numbers[i] % 10);
    for (int from = 1; from < 16; from += 5) {
        batches b = load(&o, (mba_position){ from / 8, from % 8 }, 16 - from);
        assert_memory_equal(b.x, all.x + from * BATCH, (size_t)(16 - from) * BATCH * sizeof(float));
        free_batches(&b);
    }
    /* Jumping about in one loader gives the same as well. */
    mba_image_loader *l;
    static float      x[BATCH];
    assert_ok(mba_image_loader_create(&l, &o));
    assert_int_equal(mba_image_loader_batches(l), 8);
    for (int i = 0; i < 12; i++) {
        const int       k = i * 7 % 16;
        mba_position    at = { k / 8, k % 8 };
        mba_image_batch one = { .x = x };
        assert_ok(mba_image_loader_next(l, &one, &at));
        assert_memory_equal(x, all.x + k * BATCH, BATCH * sizeof(float));
        assert_true(at.epoch == (k + 1) / 8 && at.index == (k + 1) % 8);
    }
    mba_position at = { 0, 8 };
    assert_fails(mba_image_loader_next(l, &(mba_image_batch){ .x = x }, &at), MBA_E_ARG, "no batch 8");
    mba_image_loader_destroy(l);
    free_batches(&all);
    mba_image_set_close(s);
}

static void ranks_share_the_batches_of_one(void **state)
{
    (void)state;
    mba_image_set           *s = made("shapes", COUNT, 0);
    mba_image_loader_options o = { .set = s, .recipe = mba_image_recipe_train(s, 32), .B = 12, .shuffle = true };
    batches                  whole = load(&o, (mba_position){ 0 }, 4);
    o.B = 4;
    o.ranks = 3;
    for (o.rank = 0; o.rank < 3; o.rank++) {
        batches part = load(&o, (mba_position){ 0 }, 4);
        for (int i = 0; i < 4; i++)
            assert_memory_equal(part.numbers + 4 * i, whole.numbers + 12 * i + 4 * o.rank, 4 * sizeof(int64_t));
        free_batches(&part);
    }
    free_batches(&whole);
    mba_image_set_close(s);
}

static void evaluation_ends_with_a_partial_batch(void **state)
{
    (void)state;
    mba_image_set           *s = made("shapes", 10, 0);
    mba_image_loader_options o = {
        .set = s, .recipe = mba_image_recipe_eval(s, 32, 0), .B = 4, .partial = true, .workers = 1
    };
    mba_image_loader *l;
    mba_position      at = { 0 };
    static float      x[4 * 3072], t[4 * K];
    int32_t           labels[4];
    int64_t           numbers[4];
    mba_image_batch   b = { .x = x, .labels = labels, .targets = t, .numbers = numbers };
    mba_sample        p = { 0 };
    assert_ok(mba_image_loader_create(&l, &o));
    assert_int_equal(mba_image_loader_batches(l), 3);
    for (int i = 0; i < 3; i++) assert_ok(mba_image_loader_next(l, &b, &at));
    assert_true(at.epoch == 1 && at.index == 0 && b.count == 2);
    assert_true(labels[0] == 8 && labels[1] == 9 && labels[2] == -1 && numbers[1] == 9 && numbers[3] == -1);
    assert_true(t[8] == 1 && t[K + 9] == 1 && t[2 * K] == 0 && x[2 * 3072] == 0);
    /* Unaugmented: the pixels of the set, normalised. */
    assert_ok(mba_image_set_read(s, 9, &p));
    for (int i = 0; i < 3072; i++) assert_near(x[3072 + i], (p.image.rgb[i] / 255.0 - 0.5) / 0.25, 1e-5);
    mba_sample_free(&p);
    mba_image_loader_destroy(l);
    o.recipe.mixup = 1;
    assert_fails(mba_image_loader_create(&l, &o), MBA_E_ARG, "cannot be mixed");
    o = (mba_image_loader_options){ .set = s, .recipe = mba_image_recipe_eval(s, 32, 0), .B = 11 };
    assert_fails(mba_image_loader_create(&l, &o), MBA_E_ARG, "it has 10 images, a batch of 11 on 1 rank(s) takes 11");
    mba_image_set_close(s);
}

/* With one operation at a time, the loader does what the operations do. */
static void mixed_batches_hold_both_images_and_both_labels(void **state)
{
    (void)state;
    mba_image_set           *s = made("shapes", COUNT, 0);
    mba_image_loader_options o = {
        .set = s, .recipe = mba_image_recipe_train(s, 32), .B = 4, .shuffle = true, .workers = 2
    };
    o.recipe.colours = (mba_colours){ .deviation = { 1.0f / 255, 1.0f / 255, 1.0f / 255 } }; /* bytes as they are */
    batches plain = load(&o, (mba_position){ 0 }, 10);
    o.recipe.mixup = 0.8;
    o.recipe.smoothing = 0.1;
    batches mixed = load(&o, (mba_position){ 0 }, 10);
    for (int i = 0; i < 40; i++) {
        const int partner = i / 4 * 4 + 3 - i % 4, mine = plain.labels[i], other = plain.labels[partner];
        double    sum = 0, lam;
        assert_int_equal(mixed.labels[i], mine);
        for (int k = 0; k < K; k++) {
            sum += mixed.targets[i * K + k];
            if (k != mine && k != other) assert_near(mixed.targets[i * K + k], 0.01, 1e-6);
        }
        assert_near(sum, 1, 1e-5);
        if (mine == other) continue;
        lam = (mixed.targets[i * K + mine] - 0.01) / 0.9;
        for (int k = 0; k < 3072; k++)
            assert_near(mixed.x[i * 3072 + k], lam * plain.x[i * 3072 + k] + (1 - lam) * plain.x[partner * 3072 + k],
                        0.51);
    }
    free_batches(&plain);
    free_batches(&mixed);
    mba_image_set_close(s);
}

/* ---- files ---- */

/* Two classes of six files each; the fourth of the first class is damaged, the last of the second is a PNG. */
static void make_folder(void)
{
    static const char *const names[] = {
        "420.jpg", "444.jpg", "422_progressive.jpg", "420.jpg", "grey.jpg", "cmyk.jpg"
    };
    scratch_make();
    for (int c = 0; c < 2; c++) {
        char name[64];
        snprintf(name, sizeof name, "c%d", c);
        assert_int_equal(mkdir(scratch(name), 0777), 0);
        for (int i = 0; i < 6; i++) {
            size_t n;
            char  *bytes = golden_bytes(&n, c && i == 5 ? "really.png" : names[i]);
            snprintf(name, sizeof name, "c%d/%d.JPEG", c, i);
            scratch_put(scratch(name), bytes, !c && i == 3 ? n / 2 : n);
            free(bytes);
        }
    }
}

static void damaged_files_are_left_out_by_name(void **state)
{
    (void)state;
    mba_image_set *s;
    make_folder();
    assert_ok(mba_image_set_open(&s, &(mba_image_set_options){ .path = scratch_dir }));
    assert_int_equal(s->count, 12);
    for (int workers = 0; workers < 3; workers++) {
        mba_image_loader_options o = {
            .set = s, .recipe = mba_image_recipe_eval(s, SIZE, 0), .B = B, .workers = workers
        };
        mba_image_loader *l;
        mba_position      at = { 0 };
        static float      x[BATCH];
        int32_t           labels[B];
        int64_t           numbers[B];
        const char       *story;
        mba_image_batch   b = { .x = x, .labels = labels, .numbers = numbers };
        assert_ok(mba_image_loader_create(&l, &o));
        assert_ok(mba_image_loader_next(l, &b, &at));
        assert_int_equal(mba_image_loader_skipped(l, &story), 1);
        assert_non_null(strstr(story, "c0/3.JPEG' cannot be decoded\nwhy: it is truncated"));
        assert_int_equal(numbers[3], 3);
        assert_memory_equal(x + 3 * BATCH / B, x + 4 * BATCH / B,
                            BATCH / B * sizeof(float)); /* the next in its place */
        assert_ok(mba_image_loader_next(l, &b, &at));
        assert_int_equal(mba_image_loader_skipped(l, &story), 1);
        assert_int_equal(labels[5], 1); /* a PNG under the name of a JPEG is as good as any */
        assert_true(at.epoch == 1);
        mba_image_loader_destroy(l);
    }
    mba_image_set_close(s);
    scratch_remove();
}

static void a_set_of_nothing_but_damage_is_an_error(void **state)
{
    (void)state;
    mba_image_set    *s;
    mba_image_loader *l;
    static float      x[BATCH];
    scratch_make();
    assert_int_equal(mkdir(scratch("c"), 0777), 0);
    for (int i = 0; i < 2 * B; i++) {
        char name[64];
        snprintf(name, sizeof name, "c/%02d.jpg", i);
        scratch_put(scratch(name), "no image", 8);
    }
    assert_ok(mba_image_set_open(&s, &(mba_image_set_options){ .path = scratch_dir }));
    for (int workers = 0; workers < 3; workers++) {
        mba_image_loader_options o = { .set = s, .recipe = everything(s), .B = B, .workers = workers };
        mba_position             at = { 0 };
        assert_ok(mba_image_loader_create(&l, &o));
        for (int i = 0; i < 3; i++) {
            assert_fails(mba_image_loader_next(l, &(mba_image_batch){ .x = x }, &at), MBA_E_FORMAT,
                         "neither as a JPEG nor as a PNG");
            assert_non_null(strstr(mba_message(), "where: image "));
            assert_true(at.epoch == 0 && at.index == 0);
        }
        mba_image_loader_destroy(l);
    }
    mba_image_set_close(s);
    scratch_remove();
}

/* Decoding at a smaller scale must not change the result: a smooth image, four times as large, looks the same. */
static void large_files_are_decoded_small_and_look_the_same(void **state)
{
    (void)state;
    mba_image m = { 0 };
    uint8_t  *jpeg;
    size_t    n;
    assert_ok(mba_image_reshape(&m, 400, 400));
    for (int i = 0; i < 400 * 400 * 3; i++)
        m.rgb[i] = (uint8_t)(128 + 60 * sin(i / 3 % 400 / 60.0 + i % 3) + 60 * cos(i / 1200 / 80.0));
    assert_ok(mba_jpeg_encode(&jpeg, &n, &m, 98));
    scratch_make();
    assert_int_equal(mkdir(scratch("c"), 0777), 0);
    scratch_put(scratch("c/a.jpg"), jpeg, n);
    mba_image_set *s;
    assert_ok(mba_image_set_open(&s, &(mba_image_set_options){ .path = scratch_dir }));
    mba_image_maker  maker = { 0 };
    mba_image_recipe r = { .size = SIZE, .crop = MBA_CROP_RANDOM };
    uint8_t          to[SIZE * SIZE * 3];
    mba_image        got = { .rgb = to, .W = SIZE, .H = SIZE }, want = { 0 };
    mba_resampler    resampler = { 0 };
    int              smaller = 0;
    for (int epoch = 0; epoch < 40; epoch++) {
        int32_t  label;
        mba_draw d = mba_draw_start(9, "augment", epoch, 0);
        mba_box  box = mba_random_crop(&d, 400, 400);
        assert_ok(mba_image_make(&maker, to, &label, s, 0, &r, 9, epoch));
        smaller += maker.decoded.W < 400;
        assert_ok(mba_image_resize(&resampler, &want, &m, box, SIZE, SIZE,
                                   mba_draw_chance(&d, 0.5) ? MBA_BICUBIC : MBA_BILINEAR));
        assert_pixels(&got, &want, 6);
    }
    assert_int_equal(smaller, 40);
    mba_resampler_free(&resampler);
    mba_image_free(&want);
    mba_image_maker_free(&maker);
    mba_image_free(&m);
    free(jpeg);
    mba_image_set_close(s);
    scratch_remove();
}

/* A photograph of 60 x 90 keeps its shape, 25 x 37, or becomes 25 x 25; then its middle is cut out. */
static void evaluation_keeps_the_shape_or_makes_it_square(void **state)
{
    (void)state;
    enum { S = 20 };
    mba_image m = { 0 }, whole = { 0 }, want = { 0 };
    uint8_t  *jpeg, to[S * S * 3];
    size_t    n;
    int32_t   label;
    assert_ok(mba_image_reshape(&m, 60, 90));
    for (int i = 0; i < 60 * 90 * 3; i++) m.rgb[i] = (uint8_t)(128 + 100 * sin(i / 3 % 60 / 6.0) * cos(i / 180 / 7.0));
    assert_ok(mba_jpeg_encode(&jpeg, &n, &m, 98));
    scratch_make();
    assert_int_equal(mkdir(scratch("c"), 0777), 0);
    scratch_put(scratch("c/a.jpg"), jpeg, n);
    mba_image_set *s;
    assert_ok(mba_image_set_open(&s, &(mba_image_set_options){ .path = scratch_dir }));
    mba_image_maker maker = { 0 };
    mba_resampler   resampler = { 0 };
    for (int square = 0; square < 2; square++) {
        mba_image_recipe r = mba_image_recipe_eval(s, S, 0.8);
        const int32_t    side = (int32_t)(S / 0.8);
        assert_int_equal(r.crop, MBA_CROP_CENTRE);
        if (square) r.crop = MBA_CROP_SQUASH;
        assert_ok(mba_image_make(&maker, to, &label, s, 0, &r, 1, 0));
        const int32_t H = square ? side : side * 90 / 60;
        assert_ok(
            mba_image_resize(&resampler, &whole, &maker.decoded, (mba_box){ .W = 60, .H = 90 }, side, H, MBA_BICUBIC));
        assert_ok(mba_image_cut(&want, &whole, (int32_t)lrint((side - S) / 2.0), (int32_t)lrint((H - S) / 2.0), S));
        assert_memory_equal(to, want.rgb, sizeof to);
    }
    mba_resampler_free(&resampler);
    mba_image_maker_free(&maker);
    mba_image_free(&whole);
    mba_image_free(&want);
    mba_image_free(&m);
    free(jpeg);
    mba_image_set_close(s);
    scratch_remove();
}

static void the_benchmark_counts_images(void **state)
{
    (void)state;
    mba_image_bench b;
    assert_ok(mba_image_bench_run(&b, &(mba_image_bench_options){ .threads = 2, .seconds = 0.2 }));
    assert_true(b.threads == 2 && b.images >= 2 && b.images_per_s > 0 && b.images_per_cpu_s > 0);
    assert_in_range(b.file_bytes, 80000, 140000);
    print_message("%.0f images/s per thread by the wall, %.0f per second of processor time\n", b.images_per_s,
                  b.images_per_cpu_s);
    assert_fails(mba_image_bench_run(&b, &(mba_image_bench_options){ .threads = 2000 }), MBA_E_ARG, "2000 threads");
}

/* Each row has one option at a bound or just behind it. */
static void options_are_taken_up_to_their_bounds_and_refused_behind_them(void **state)
{
    (void)state;
    mba_image_set           *s = made("shapes", 10, 0);
    mba_image_loader_options usual = { .set = s, .recipe = mba_image_recipe_eval(s, 32, 0), .B = 2 };
    struct {
        mba_image_loader_options o;
        const char              *why; // NULL: it is taken
    } rows[24];
    int n = 0;
    usual.recipe.crop = MBA_CROP_CENTRE;
    usual.recipe.fraction = 1;
#define ROW(field, value, text) \
    rows[n].o = usual; \
    rows[n].o.field = value; \
    rows[n++].why = text
    ROW(B, 0, "batches of 0 images");
    ROW(B, 1, NULL);
    ROW(B, (int64_t)INT32_MAX + 1, "batches of 2147483648 images");
    ROW(recipe.size, 0, "images of 0 pixels");
    ROW(recipe.size, 1, NULL);
    ROW(recipe.size, 8193, "images of 8193 pixels");
    ROW(rank, -1, "no rank -1 of 0");
    ROW(rank, 1, "no rank 1 of 0");
    ROW(ranks, -1, "no rank 0 of -1");
    ROW(ranks, 1, NULL);
    ROW(workers, -1, "-1 workers");
    ROW(workers, 1025, "1025 workers");
    ROW(prefetch, -1, "-1 batches ahead");
    ROW(prefetch, 64, NULL);
    ROW(prefetch, 65, "65 batches ahead");
    ROW(recipe.fraction, 0.01f, "a crop fraction of 0.01");
    ROW(recipe.fraction, 4, NULL);
    ROW(recipe.fraction, 4.5f, "a crop fraction of 4.5");
    usual.recipe.crop = MBA_CROP_PADDED;
    ROW(recipe.pad, -1, "a border of -1 pixels");
    ROW(recipe.pad, 0, NULL);
    ROW(recipe.pad, 8193, "a border of 8193 pixels");
#undef ROW
    for (int i = 0; i < n; i++) {
        mba_image_loader *l = NULL;
        if (rows[i].why) assert_fails(mba_image_loader_create(&l, &rows[i].o), MBA_E_ARG, rows[i].why);
        else assert_ok(mba_image_loader_create(&l, &rows[i].o));
        mba_image_loader_destroy(l);
    }
    mba_image_set_close(s);
}

MBA_TEST_MAIN(cmocka_unit_test(batches_are_the_same_at_any_number_of_workers),
              cmocka_unit_test(an_epoch_shows_every_image_once_and_resumes_anywhere),
              cmocka_unit_test(ranks_share_the_batches_of_one), cmocka_unit_test(evaluation_ends_with_a_partial_batch),
              cmocka_unit_test(mixed_batches_hold_both_images_and_both_labels),
              cmocka_unit_test(damaged_files_are_left_out_by_name),
              cmocka_unit_test(a_set_of_nothing_but_damage_is_an_error),
              cmocka_unit_test(large_files_are_decoded_small_and_look_the_same),
              cmocka_unit_test(evaluation_keeps_the_shape_or_makes_it_square),
              cmocka_unit_test(the_benchmark_counts_images),
              cmocka_unit_test(options_are_taken_up_to_their_bounds_and_refused_behind_them))
