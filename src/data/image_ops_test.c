// SPDX-License-Identifier: Apache-2.0
/* image_ops_test.c -- resizing and RandAugment against Pillow, statistics of the random choices, mixing, normalising.
 */
#include "tests/images.h"

#include "data/image_ops.h"

enum { MANY = 20000 };

static mba_box whole(const mba_image *m) { return (mba_box){ .W = m->W, .H = m->H }; }

/* ---- resizing ---- */

static void resizing_gives_the_bytes_of_pillow(void **state)
{
    (void)state;
    static const struct {
        int32_t    W, H;
        mba_filter filter;
        mba_box    box;
    } cases[] = {
        { 61, 47, MBA_BICUBIC, { 0, 0, 61, 47 } },   { 30, 20, MBA_BILINEAR, { 0, 0, 61, 47 } },
        { 30, 20, MBA_BICUBIC, { 0, 0, 61, 47 } },   { 97, 80, MBA_BICUBIC, { 0, 0, 61, 47 } },
        { 75, 20, MBA_BILINEAR, { 0, 0, 61, 47 } },  { 24, 24, MBA_BICUBIC, { 10, 5, 33, 41 } },
        { 24, 24, MBA_BILINEAR, { 33, 2, 28, 19 } }, { 5, 3, MBA_BICUBIC, { 0, 0, 61, 47 } },
        { 1, 1, MBA_BILINEAR, { 0, 0, 61, 47 } },
    };
    mba_image     in = golden_image("input.rgb", 0, GOLDEN_W, GOLDEN_H), got = { 0 };
    mba_resampler r = { 0 };
    size_t        at = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mba_image want = golden_image("resized.rgb", at, cases[i].W, cases[i].H);
        assert_ok(mba_image_resize(&r, &got, &in, cases[i].box, cases[i].W, cases[i].H, cases[i].filter));
        assert_pixels(&got, &want, 0);
        at += (size_t)cases[i].W * (size_t)cases[i].H * 3;
        mba_image_free(&want);
    }
    mba_image_free(&in);
    mba_image_free(&got);
    mba_resampler_free(&r);
}

static void the_same_size_is_the_same_image_and_a_constant_stays(void **state)
{
    (void)state;
    mba_image     in = golden_image("input.rgb", 0, GOLDEN_W, GOLDEN_H), got = { 0 };
    mba_resampler r = { 0 };
    for (int f = 0; f < 2; f++) {
        assert_ok(mba_image_resize(&r, &got, &in, whole(&in), in.W, in.H, (mba_filter)f));
        assert_pixels(&got, &in, 0);
    }
    for (int v = 0; v < 256; v += 51) {
        memset(in.rgb, v, (size_t)in.W * (size_t)in.H * 3);
        for (int32_t size = 1; size < 200; size = size * 2 + 1) {
            assert_ok(mba_image_resize(&r, &got, &in, (mba_box){ 3.3, 0, 20.9, 46.5 }, size, 201 - size,
                                       size % 4 ? MBA_BICUBIC : MBA_BILINEAR));
            for (int32_t i = 0; i < got.W * got.H * 3; i++) assert_int_equal(got.rgb[i], v);
        }
    }
    mba_image_free(&in);
    mba_image_free(&got);
    mba_resampler_free(&r);
}

/* ---- where to cut ---- */

static void random_crops_have_the_statistics_of_their_rule(void **state)
{
    (void)state;
    double area = 0, ratio = 0;
    for (int i = 0; i < MANY; i++) {
        mba_draw d = mba_draw_start(1, "test", 0, i);
        mba_box  b = mba_random_crop(&d, 500, 500);
        assert_true(b.x >= 0 && b.y >= 0 && b.W >= 1 && b.H >= 1 && b.x + b.W <= 500 && b.y + b.H <= 500);
        area += b.W * b.H / 250000;
        ratio += log(b.W / b.H);
    }
    /* 0.54 less the large ones that do not fit: a crop of fraction a with ratio r fits where a <= min(r, 1/r). */
    double kept = 0, weight = 0;
    for (int i = 0; i < 1000; i++)
        for (int j = 0; j < 1000; j++) {
            const double a = 0.08 + 0.92 * (i + 0.5) / 1000, l = log(4.0 / 3) * ((j + 0.5) / 500 - 1);
            const int    fits = a <= exp(-fabs(l));
            kept += fits * a;
            weight += fits;
        }
    assert_near(area / MANY, kept / weight, 0.006); /* 3 deviations of the mean are 0.0055 */
    assert_near(ratio / MANY, 0, 0.005);
    /* A strip never fits: the largest central part. */
    mba_draw d = mba_draw_start(1, "test", 0, 0);
    mba_box  b = mba_random_crop(&d, 5000, 10);
    assert_true(b.W == 13 && b.H == 10 && b.x == 2493 && b.y == 0);
    b = mba_random_crop(&d, 9, 7000);
    assert_true(b.W == 9 && b.H == 12 && b.x == 0 && b.y == 3494);
    b = mba_random_crop(&d, 1, 1);
    assert_true(b.W == 1 && b.H == 1);
}

static void evaluation_cuts_the_centre(void **state)
{
    (void)state;
    mba_centre c = mba_centre_crop(500, 375, 224, 0.875);
    assert_int_equal(c.W, 341);
    assert_int_equal(c.H, 256);
    assert_int_equal(c.left, 58); /* 58.5 to even */
    assert_int_equal(c.top, 16);
    c = mba_centre_crop(100, 300, 224, 1);
    assert_true(c.W == 224 && c.H == 672 && c.left == 0 && c.top == 224);
    mba_image in = golden_image("input.rgb", 0, GOLDEN_W, GOLDEN_H), got = { 0 };
    assert_ok(mba_image_cut(&got, &in, -4, 20, 40));
    for (int y = 0; y < 40; y++)
        for (int x = 0; x < 40; x++) {
            const int black = x < 4 || y + 20 >= GOLDEN_H;
            for (int k = 0; k < 3; k++)
                assert_int_equal(got.rgb[(y * 40 + x) * 3 + k],
                                 black ? 0 : in.rgb[((y + 20) * GOLDEN_W + x - 4) * 3 + k]);
        }
    assert_ok(mba_image_cut(&got, &in, 1000, 1000, 3));
    assert_int_equal(got.rgb[26], 0);
    mba_image_flip(&in);
    mba_image_flip(&in);
    mba_image want = golden_image("input.rgb", 0, GOLDEN_W, GOLDEN_H);
    assert_pixels(&in, &want, 0);
    mba_image_flip(&in);
    assert_memory_equal(in.rgb, want.rgb + (GOLDEN_W - 1) * 3, 3);
    mba_image_free(&in);
    mba_image_free(&got);
    mba_image_free(&want);
}

/* ---- RandAugment ---- */

static void colour_operations_follow_pillow(void **state)
{
    (void)state;
    static const struct {
        mba_rand_op op;
        int         sign, levels;
    } cases[] = {
        { MBA_RAND_equalise, 1, 0 },   { MBA_RAND_invert, 1, 0 },        { MBA_RAND_posterise, 1, 0 },
        { MBA_RAND_solarise, 1, 0 },   { MBA_RAND_colour, 1, 1 },        { MBA_RAND_colour, -1, 1 },
        { MBA_RAND_contrast, 1, 1 },   { MBA_RAND_brightness, -1, 1 },   { MBA_RAND_sharpness, 1, 1 },
        { MBA_RAND_sharpness, -1, 1 }, { MBA_RAND_auto_contrast, 1, 1 },
    };
    mba_image spare = { 0 };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mba_image m = golden_image("input.rgb", 0, GOLDEN_W, GOLDEN_H);
        mba_image want = golden_image("colours.rgb", i * GOLDEN_W * GOLDEN_H * 3, GOLDEN_W, GOLDEN_H);
        assert_ok(mba_rand_apply(&m, &spare, cases[i].op, 0.9, cases[i].sign, MBA_BICUBIC));
        assert_pixels(&m, &want, cases[i].levels);
        mba_image_free(&m);
        mba_image_free(&want);
    }
    /* solarise-add has no counterpart: 99 more below 128. */
    mba_image m = golden_image("input.rgb", 0, GOLDEN_W, GOLDEN_H),
              in = golden_image("input.rgb", 0, GOLDEN_W, GOLDEN_H);
    assert_ok(mba_rand_apply(&m, &spare, MBA_RAND_solarise_add, 0.9, 1, MBA_BICUBIC));
    for (int i = 0; i < GOLDEN_W * GOLDEN_H * 3; i++)
        assert_int_equal(m.rgb[i], in.rgb[i] < 128 ? in.rgb[i] + 99 : in.rgb[i]);
    /* What has all levels is stretched to itself, exactly; levels 50 to 101 are five apart then. */
    for (int from = 0; from < 51; from += 50) {
        assert_ok(mba_image_reshape(&m, 16, 16));
        for (int i = 0; i < 768; i++) m.rgb[i] = (uint8_t)(from ? 50 + i / 3 % 52 : i / 3);
        assert_ok(mba_rand_apply(&m, &spare, MBA_RAND_auto_contrast, 0.9, 1, MBA_BICUBIC));
        for (int i = 0; i < 768; i++) assert_int_equal(m.rgb[i], from ? i / 3 % 52 * 5 : i / 3);
    }
    mba_image_free(&m);
    mba_image_free(&in);
    mba_image_free(&spare);
}

/* Pixels whose source lies on the very edge may fall on either side of it: a few are left out. */
static void geometric_operations_follow_pillow(void **state)
{
    (void)state;
    static const struct {
        mba_rand_op op;
        int         sign;
        mba_filter  filter;
    } cases[] = {
        { MBA_RAND_rotate, -1, MBA_BICUBIC },     { MBA_RAND_rotate, 1, MBA_BILINEAR },
        { MBA_RAND_shear_x, 1, MBA_BICUBIC },     { MBA_RAND_shear_y, -1, MBA_BILINEAR },
        { MBA_RAND_translate_x, 1, MBA_BICUBIC }, { MBA_RAND_translate_y, -1, MBA_BILINEAR },
    };
    mba_image spare = { 0 };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mba_image m = golden_image("input.rgb", 0, GOLDEN_W, GOLDEN_H);
        mba_image want = golden_image("warped.rgb", i * GOLDEN_W * GOLDEN_H * 3, GOLDEN_W, GOLDEN_H);
        int       apart = 0;
        assert_ok(mba_rand_apply(&m, &spare, cases[i].op, 0.9, cases[i].sign, cases[i].filter));
        for (int k = 0; k < GOLDEN_W * GOLDEN_H * 3; k++) apart += abs(m.rgb[k] - want.rgb[k]) > 1;
        if (apart) print_error("%s: %d values differ by more than 1\n", mba_rand_name(cases[i].op), apart);
        assert_in_range(apart, 0, 6);
        mba_image_free(&m);
        mba_image_free(&want);
    }
    mba_image_free(&spare);
}

static void augmenting_depends_on_seed_epoch_and_number_alone(void **state)
{
    (void)state;
    const mba_rand_options o = { .operations = 2, .magnitude = 9, .deviation = 0.5 };
    mba_image              spare = { 0 };
    int                    same = 0, unchanged = 0;
    for (int i = 0; i < 400; i++) {
        mba_image m[3];
        for (int k = 0; k < 3; k++) {
            mba_draw d = mba_draw_start(7, "augment", k == 2, i);
            m[k] = golden_image("input.rgb", 0, GOLDEN_W, GOLDEN_H);
            assert_ok(mba_rand_augment(&m[k], &spare, &d, &o));
        }
        mba_image in = golden_image("input.rgb", 0, GOLDEN_W, GOLDEN_H);
        assert_pixels(&m[0], &m[1], 0);
        same += pixels_apart(&m[0], &m[2]) == 0;
        unchanged += pixels_apart(&m[0], &in) == 0;
        for (int k = 0; k < 3; k++) mba_image_free(&m[k]);
        mba_image_free(&in);
    }
    assert_in_range(unchanged, 70, 140); /* a quarter, and what happens to change nothing */
    assert_in_range(same, 10, 60);
    mba_image_free(&spare);
}

/* ---- pairs ---- */

static void mixing_draws_beta_and_boxes(void **state)
{
    (void)state;
    double mean = 0, square = 0, cut = 0;
    for (int i = 0; i < MANY; i++) {
        mba_draw     d = mba_draw_start(3, "test", 0, i);
        const double b = mba_draw_beta(&d, 0.8);
        assert_true(b >= 0 && b <= 1);
        mean += b / MANY;
        square += b * b / MANY;
        mba_mix m = mba_mix_draw(&d, 0.8, 1, 224, 200);
        assert_true(m.kind != MBA_MIX_NONE && m.lam >= 0 && m.lam <= 1);
        cut += m.kind == MBA_MIX_CUT;
        if (m.kind == MBA_MIX_CUT) {
            assert_true(m.x0 >= 0 && m.x0 <= m.x1 && m.x1 <= 224 && m.y0 >= 0 && m.y0 <= m.y1 && m.y1 <= 200);
            assert_near(m.lam, 1 - (m.x1 - m.x0) * (m.y1 - m.y0) / (224.0 * 200), 1e-12);
        }
    }
    assert_near(mean, 0.5, 0.008);
    assert_near(square - mean * mean, 0.25 / (2 * 0.8 + 1), 0.003); /* the variance of Beta(a, a) */
    assert_near(cut / MANY, 0.5, 0.012);
    mba_draw d = mba_draw_start(3, "test", 0, 0);
    assert_int_equal(mba_mix_draw(&d, 0, 0, 8, 8).kind, MBA_MIX_NONE);
    assert_int_equal(mba_mix_draw(&d, 0, 1, 8, 8).kind, MBA_MIX_CUT);
    assert_int_equal(mba_mix_draw(&d, 1, 0, 8, 8).kind, MBA_MIX_UP);
}

static void mixed_images_and_targets_have_known_values(void **state)
{
    (void)state;
    uint8_t a[4 * 3 * 3], b[4 * 3 * 3], to[4 * 3 * 3];
    for (int i = 0; i < 36; i++) {
        a[i] = (uint8_t)(i * 7);
        b[i] = (uint8_t)(255 - i);
    }
    mba_mix_images(to, a, b, &(mba_mix){ .kind = MBA_MIX_UP, .lam = 0.25 }, 4, 3);
    for (int i = 0; i < 36; i++) assert_near(to[i], 0.25 * a[i] + 0.75 * b[i], 0.5001);
    mba_mix_images(to, a, b, &(mba_mix){ .kind = MBA_MIX_CUT, .lam = 0.5, .x0 = 1, .x1 = 3, .y0 = 1, .y1 = 3 }, 4, 3);
    for (int i = 0; i < 36; i++) {
        const int x = i / 3 % 4, y = i / 12;
        assert_int_equal(to[i], x >= 1 && x < 3 && y >= 1 ? b[i] : a[i]);
    }
    float t[4];
    mba_mix_targets(t, 1, 3, 0.75, 4, 0.1);
    assert_near(t[0], 0.025, 1e-7);
    assert_near(t[1], 0.025 + 0.9 * 0.75, 1e-7);
    assert_near(t[3], 0.025 + 0.9 * 0.25, 1e-7);
    assert_near(t[0] + t[1] + t[2] + t[3], 1, 1e-6);
    mba_mix_targets(t, 2, 2, 0.4, 4, 0);
    assert_true(t[2] == 1 && t[0] == 0);
}

/* ---- numbers ---- */

static void normalised_values_are_those_of_the_formula(void **state)
{
    (void)state;
    mba_image           m = golden_image("input.rgb", 0, GOLDEN_W, GOLDEN_H);
    static float        x[GOLDEN_W * GOLDEN_H * 3];
    const int           n = GOLDEN_W * GOLDEN_H;
    static const double mean[] = { 123.675, 116.28, 103.53 }, deviation[] = { 58.395, 57.12, 57.375 };
    mba_normalise(x, m.rgb, n, &mba_colours_imagenet);
    for (int i = 0; i < n; i++)
        for (int k = 0; k < 3; k++) assert_near(x[3 * i + k], (m.rgb[3 * i + k] - mean[k]) / deviation[k], 1e-6);
    mba_image_free(&m);
}

static void erased_rectangles_are_noise(void **state)
{
    (void)state;
    enum { S = 64 };
    static float x[S * S * 3];
    double       mean = 0, square = 0, area = 0;
    int64_t      noise = 0;
    for (int i = 0; i < 2000; i++) {
        mba_draw d = mba_draw_start(3, "test", 0, i);
        int32_t  x0 = S, x1 = 0, y0 = S, y1 = 0, n = 0;
        for (int k = 0; k < S * S * 3; k++) x[k] = 100;
        mba_erase(x, S, S, &d);
        for (int k = 0; k < S * S * 3; k++) {
            if (x[k] == 100) continue;
            const int32_t px = k / 3 % S, py = k / 3 / S;
            x0 = px < x0 ? px : x0;
            x1 = px >= x1 ? px + 1 : x1;
            y0 = py < y0 ? py : y0;
            y1 = py >= y1 ? py + 1 : y1;
            mean += x[k];
            square += x[k] * x[k];
            n++;
        }
        assert_int_equal(n, (x1 - x0) * (y1 - y0) * 3); /* one full rectangle */
        noise += n;
        area += (double)n / (S * S * 3);
    }
    assert_near(mean / (double)noise, 0, 0.005);
    assert_near(square / (double)noise, 1, 0.005);
    assert_near(area / 2000, (0.02 + 1.0 / 3) / 2, 0.012);
}

MBA_TEST_MAIN(cmocka_unit_test(resizing_gives_the_bytes_of_pillow),
              cmocka_unit_test(the_same_size_is_the_same_image_and_a_constant_stays),
              cmocka_unit_test(random_crops_have_the_statistics_of_their_rule),
              cmocka_unit_test(evaluation_cuts_the_centre), cmocka_unit_test(colour_operations_follow_pillow),
              cmocka_unit_test(geometric_operations_follow_pillow),
              cmocka_unit_test(augmenting_depends_on_seed_epoch_and_number_alone),
              cmocka_unit_test(mixing_draws_beta_and_boxes),
              cmocka_unit_test(mixed_images_and_targets_have_known_values),
              cmocka_unit_test(normalised_values_are_those_of_the_formula),
              cmocka_unit_test(erased_rectangles_are_noise))
