/* image_test.c -- JPEG: what other decoders see, what is refused, and that nothing ends the program. */
#include "tests/images.h"

#include <jpeglib.h>

static void files_decode_as_elsewhere(void **state)
{
    (void)state;
    static const char *const names[] = { "420.jpg", "422_progressive.jpg", "444.jpg", "grey.jpg" };
    mba_image                got     = { 0 };
    for (size_t i = 0; i < 4; i++) {
        size_t    n;
        char     *bytes = golden_bytes(&n, names[i]);
        mba_image want  = golden_image("decoded.rgb", i * GOLDEN_W * GOLDEN_H * 3, GOLDEN_W, GOLDEN_H);
        assert_ok(mba_jpeg_decode(&got, names[i], bytes, n));
        assert_pixels(&got, &want, 2);                /* another build of libjpeg may round otherwise */
        mba_image_free(&want);
        free(bytes);
    }
    mba_image_free(&got);
}

static void the_decoder_halves_and_stops_early(void **state)
{
    (void)state;
    size_t    n;
    char     *bytes = golden_bytes(&n, "444.jpg");
    mba_image got = { 0 }, want = golden_image("halved.rgb", 0, 31, 24);
    mba_jpeg *j;
    assert_ok(mba_jpeg_open(&j, "444.jpg", bytes, n));
    assert_int_equal(mba_jpeg_look(j).W, GOLDEN_W);
    assert_int_equal(mba_jpeg_look(j).H, GOLDEN_H);
    assert_int_equal(mba_jpeg_look(j).components, 3);
    assert_int_equal(mba_jpeg_look(j).warnings, 0);
    assert_ok(mba_jpeg_read(j, &got, 2, 1000));
    assert_pixels(&got, &want, 2);
    mba_jpeg_close(j);
    assert_ok(mba_jpeg_open(&j, "444.jpg", bytes, n));
    assert_ok(mba_jpeg_read(j, &got, 2, 10));
    want.H = 10;
    assert_pixels(&got, &want, 2);
    mba_jpeg_close(j);
    mba_image_free(&want);
    mba_image_free(&got);
    free(bytes);
}

/* Compresses the golden input as four components: ink stored inverted, black from the darkest ink. */
static unsigned char *four_components(unsigned long *n, const mba_image *m, J_COLOR_SPACE stored)
{
    struct jpeg_compress_struct c;
    struct jpeg_error_mgr       e;
    unsigned char              *bytes = NULL;
    uint8_t                     row[GOLDEN_W * 4];
    JSAMPROW                    rows = row;
    c.err = jpeg_std_error(&e);
    jpeg_create_compress(&c);
    jpeg_mem_dest(&c, &bytes, n);
    c.image_width      = GOLDEN_W;
    c.image_height     = GOLDEN_H;
    c.input_components = 4;
    c.in_color_space   = JCS_CMYK;
    jpeg_set_defaults(&c);
    jpeg_set_colorspace(&c, stored);
    jpeg_set_quality(&c, 100, TRUE);
    for (int i = 0; i < 4; i++) c.comp_info[i].h_samp_factor = c.comp_info[i].v_samp_factor = 1;
    jpeg_start_compress(&c, TRUE);
    for (int y = 0; y < GOLDEN_H; y++) {
        for (int x = 0; x < GOLDEN_W; x++) {
            const uint8_t *p = m->rgb + (y * GOLDEN_W + x) * 3;
            const int      k = p[0] > p[1] ? (p[0] > p[2] ? p[0] : p[2]) : (p[1] > p[2] ? p[1] : p[2]);
            for (int i = 0; i < 3; i++) row[4 * x + i] = (uint8_t)(k ? (p[i] * 255 + k / 2) / k : 255);
            row[4 * x + 3] = (uint8_t)k;
        }
        jpeg_write_scanlines(&c, &rows, 1);
    }
    jpeg_finish_compress(&c);
    jpeg_destroy_compress(&c);
    return bytes;
}

static void four_components_become_light(void **state)
{
    (void)state;
    mba_image     got = { 0 }, want = golden_image("input.rgb", 0, GOLDEN_W, GOLDEN_H);
    size_t        n;
    char         *bytes = golden_bytes(&n, "cmyk.jpg");
    unsigned long m     = 0;
    assert_ok(mba_jpeg_decode(&got, "cmyk.jpg", bytes, n));
    assert_pixels(&got, &want, 35);                   /* quality 95 of a noisy image */
    free(bytes);
    for (int i = 0; i < 2; i++) {
        unsigned char *made = four_components(&m, &want, i ? JCS_YCCK : JCS_CMYK);
        assert_ok(mba_jpeg_decode(&got, "made", made, m));
        assert_pixels(&got, &want, 8);
        free(made);
        m = 0;
    }
    mba_image_free(&want);
    mba_image_free(&got);
}

static void what_is_written_comes_back(void **state)
{
    (void)state;
    mba_image m = { 0 }, got = { 0 };
    uint8_t  *bytes;
    size_t    n;
    assert_ok(mba_image_reshape(&m, 500, 375));
    for (int i = 0; i < 500 * 375 * 3; i++) m.rgb[i] = (uint8_t)(128 + 100 * sin(i / 700.0));
    assert_ok(mba_jpeg_encode(&bytes, &n, &m, 95));
    assert_ok(mba_jpeg_decode(&got, "made", bytes, n));
    assert_pixels(&got, &m, 12);
    free(bytes);
    mba_image_free(&m);
    m = (mba_image){ .W = 0, .H = 5 };
    assert_fails(mba_jpeg_encode(&bytes, &n, &m, 95), MBA_E_ARG, "0 x 5");
    mba_image_free(&got);
}

static void a_file_cut_anywhere_is_refused_or_complete(void **state)
{
    (void)state;
    static const char *const names[] = { "420.jpg", "422_progressive.jpg", "444.jpg", "grey.jpg", "cmyk.jpg" };
    mba_image                got     = { 0 };
    for (size_t i = 0; i < 5; i++) {
        size_t n;
        int    accepted = 0;
        char  *bytes    = golden_bytes(&n, names[i]);
        for (size_t cut = 0; cut < n; cut++) {
            char *copy = malloc(cut + 1);             /* the sanitizer sees one byte too far */
            memcpy(copy, bytes, cut);
            const mba_status st = mba_jpeg_decode(&got, names[i], copy, cut);
            if (st == MBA_OK) accepted++;
            else              assert_fails(st, MBA_E_FORMAT, "fix: ");
            free(copy);
        }
        /* A baseline file does without its end marker and the padding before it. */
        assert_in_range(accepted, 0, i == 1 ? 0 : 4);
        free(bytes);
    }
    mba_image_free(&got);
}

static void what_is_no_jpeg_is_named(void **state)
{
    (void)state;
    mba_image got = { 0 };
    size_t    n;
    char     *bytes = golden_bytes(&n, "really.png");
    assert_fails(mba_jpeg_decode(&got, "n02105855_2933.JPEG", bytes, n), MBA_E_UNSUPPORTED, "it is a PNG file");
    assert_non_null(strstr(mba_message(), "n02105855_2933.JPEG"));
    free(bytes);
    assert_fails(mba_jpeg_decode(&got, "x", "hello", 5), MBA_E_FORMAT, "Not a JPEG file");
    assert_fails(mba_jpeg_decode(&got, "x", "", 0), MBA_E_FORMAT, "it is empty");
    /* A header that promises a huge image in few bytes: height and width stand behind the SOF0 marker. */
    bytes = golden_bytes(&n, "444.jpg");
    for (size_t i = 0; i + 9 < n; i++)
        if ((uint8_t)bytes[i] == 0xff && (uint8_t)bytes[i + 1] == 0xc0) memcpy(bytes + i + 5, "\x7f\xff\x7f\xff", 4);
    assert_fails(mba_jpeg_decode(&got, "x", bytes, n), MBA_E_FORMAT, "32767 x 32767 pixels, in 3102 bytes");
    free(bytes);
    mba_image_free(&got);
}

MBA_TEST_MAIN(cmocka_unit_test(files_decode_as_elsewhere), cmocka_unit_test(the_decoder_halves_and_stops_early),
              cmocka_unit_test(four_components_become_light), cmocka_unit_test(what_is_written_comes_back),
              cmocka_unit_test(a_file_cut_anywhere_is_refused_or_complete), cmocka_unit_test(what_is_no_jpeg_is_named))
