// SPDX-License-Identifier: Apache-2.0
/* image_test.c -- JPEG and PNG: the same pixels as other decoders, refusals, and no crash on any damaged file. */
#include "tests/images.h"

#include <jpeglib.h>

static void files_decode_as_elsewhere(void **state)
{
    (void)state;
    static const char *const names[] = { "420.jpg", "422_progressive.jpg", "444.jpg", "grey.jpg" };
    mba_image                got = { 0 };
    for (size_t i = 0; i < 4; i++) {
        size_t    n;
        char     *bytes = golden_bytes(&n, names[i]);
        mba_image want = golden_image("decoded.rgb", i * GOLDEN_W * GOLDEN_H * 3, GOLDEN_W, GOLDEN_H);
        assert_ok(mba_image_decode(&got, names[i], bytes, n));
        assert_pixels(&got, &want, 2); /* another build of libjpeg may round otherwise */
        mba_image_free(&want);
        free(bytes);
    }
    mba_image_free(&got);
}

static void the_decoder_halves_and_stops_early(void **state)
{
    (void)state;
    size_t          n;
    char           *bytes = golden_bytes(&n, "444.jpg");
    mba_image       got = { 0 }, want = golden_image("halved.rgb", 0, 31, 24);
    mba_image_file *j;
    assert_ok(mba_image_open(&j, "444.jpg", bytes, n));
    assert_int_equal(mba_image_look(j).W, GOLDEN_W);
    assert_int_equal(mba_image_look(j).H, GOLDEN_H);
    assert_int_equal(mba_image_look(j).components, 3);
    assert_int_equal(mba_image_look(j).warnings, 0);
    assert_ok(mba_image_read(j, &got, 2, 1000));
    assert_pixels(&got, &want, 2);
    mba_image_close(j);
    assert_ok(mba_image_open(&j, "444.jpg", bytes, n));
    assert_ok(mba_image_read(j, &got, 2, 10));
    want.H = 10;
    assert_pixels(&got, &want, 2);
    mba_image_close(j);
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
    c.image_width = GOLDEN_W;
    c.image_height = GOLDEN_H;
    c.input_components = 4;
    c.in_color_space = JCS_CMYK;
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
    unsigned long m = 0;
    assert_ok(mba_image_decode(&got, "cmyk.jpg", bytes, n));
    assert_pixels(&got, &want, 35); /* quality 95 of a noisy image */
    free(bytes);
    for (int i = 0; i < 2; i++) {
        unsigned char *made = four_components(&m, &want, i ? JCS_YCCK : JCS_CMYK);
        assert_ok(mba_image_decode(&got, "made", made, m));
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
    assert_ok(mba_image_decode(&got, "made", bytes, n));
    assert_pixels(&got, &m, 12);
    free(bytes);
    assert_ok(mba_png_encode(&bytes, &n, &m));
    assert_ok(mba_image_decode(&got, "made", bytes, n));
    assert_pixels(&got, &m, 0);
    free(bytes);
    mba_image_free(&m);
    m = (mba_image){ .W = 0, .H = 5 };
    assert_fails(mba_jpeg_encode(&bytes, &n, &m, 95), MBA_E_ARG, "0 x 5");
    assert_fails(mba_png_encode(&bytes, &n, &m), MBA_E_ARG, "0 x 5");
    mba_image_free(&got);
}

static void a_file_cut_anywhere_is_refused_or_complete(void **state)
{
    (void)state;
    static const char *const names[] = { "420.jpg", "422_progressive.jpg", "444.jpg", "grey.jpg", "cmyk.jpg" };
    mba_image                got = { 0 };
    for (size_t i = 0; i < 5; i++) {
        size_t n;
        int    accepted = 0;
        char  *bytes = golden_bytes(&n, names[i]);
        for (size_t cut = 0; cut < n; cut++) {
            char *copy = malloc(cut + 1); /* the sanitizer sees one byte too far */
            memcpy(copy, bytes, cut);
            const mba_status st = mba_image_decode(&got, names[i], copy, cut);
            if (st == MBA_OK) accepted++;
            else assert_fails(st, MBA_E_FORMAT, "fix: ");
            free(copy);
        }
        /* A baseline file does without its end marker and the padding before it. */
        assert_in_range(accepted, 0, i == 1 ? 0 : 4);
        free(bytes);
    }
    mba_image_free(&got);
}

/* ---- PNG ---- */

static const char *const pngs[] = {
    "grey_1",
    "grey_16",
    "grey_16_interlaced",
    "grey_1_interlaced",
    "grey_2",
    "grey_2_interlaced",
    "grey_4",
    "grey_4_interlaced",
    "grey_8",
    "grey_8_interlaced",
    "grey_alpha_16",
    "grey_alpha_16_interlaced",
    "grey_alpha_8",
    "grey_alpha_8_interlaced",
    "palette_1",
    "palette_1_interlaced",
    "palette_2",
    "palette_2_interlaced",
    "palette_4",
    "palette_4_interlaced",
    "palette_8",
    "palette_8_interlaced",
    "rgb_16",
    "rgb_16_interlaced",
    "rgb_8",
    "rgb_8_interlaced",
    "rgba_16",
    "rgba_16_interlaced",
    "rgba_8",
    "rgba_8_interlaced",
};
enum { PNGS = sizeof pngs / sizeof *pngs, PNG_W = 19, PNG_H = 11 };

static char *png_bytes(size_t *n, const char *name)
{
    char path[256], *bytes;
    snprintf(path, sizeof path, "tests/fuzz/corpus/png/%s.png", name);
    assert_ok(mba_file_read(&bytes, n, path, 1 << 20));
    return bytes;
}

/* All colour types and depths, to the bit as Pillow's convert("RGB"): whole, and the first rows alone. */
static void png_files_decode_as_elsewhere(void **state)
{
    (void)state;
    mba_image got = { 0 };
    for (size_t i = 0; i < PNGS; i++) {
        size_t          n;
        mba_image_file *f;
        char           *bytes = png_bytes(&n, pngs[i]);
        mba_image       want = golden_image("png.rgb", i * PNG_W * PNG_H * 3, PNG_W, PNG_H);
        assert_ok(mba_image_decode(&got, pngs[i], bytes, n));
        assert_pixels(&got, &want, 0);
        assert_ok(mba_image_open(&f, pngs[i], bytes, n));
        const mba_image_about about = mba_image_look(f);
        assert_string_equal(about.format, "PNG");
        assert_true(about.W == PNG_W && about.H == PNG_H && !about.scales && about.warnings == 0);
        assert_int_equal(about.bits, atoi(strpbrk(pngs[i], "0123456789")));
        assert_ok(mba_image_read(f, &got, 1, 4));
        want.H = 4;
        assert_pixels(&got, &want, 0);
        mba_image_close(f);
        mba_image_free(&want);
        free(bytes);
    }
    mba_image_free(&got);
}

/* A file may lack its end once all pixels are there; nothing else may be missing. */
static void a_png_cut_anywhere_is_refused_or_complete(void **state)
{
    (void)state;
    mba_image got = { 0 };
    for (size_t i = 0; i < PNGS; i++) {
        size_t    n;
        int       accepted = 0;
        char     *bytes = png_bytes(&n, pngs[i]);
        mba_image want = golden_image("png.rgb", i * PNG_W * PNG_H * 3, PNG_W, PNG_H);
        for (size_t cut = 0; cut < n; cut++) {
            char *copy = malloc(cut + 1); /* the sanitizer sees one byte too far */
            memcpy(copy, bytes, cut);
            const mba_status st = mba_image_decode(&got, pngs[i], copy, cut);
            if (st == MBA_OK) accepted++;
            if (st == MBA_OK) assert_pixels(&got, &want, 0);
            else assert_fails(st, MBA_E_FORMAT, "fix: ");
            free(copy);
        }
        assert_in_range(accepted, 0, 12 + 4 + 4); /* the end chunk, a checksum of the pixels' chunk and one of zlib's */
        mba_image_free(&want);
        free(bytes);
    }
    mba_image_free(&got);
}

/* A changed byte fails a checksum, or lies in a chunk that does not affect pixels. */
static void a_png_with_a_wrong_byte_is_refused_or_the_same(void **state)
{
    (void)state;
    mba_image got = { 0 };
    for (size_t i = 0; i < PNGS; i += 3) {
        size_t    n;
        char     *bytes = png_bytes(&n, pngs[i]);
        mba_image want = golden_image("png.rgb", i * PNG_W * PNG_H * 3, PNG_W, PNG_H);
        for (size_t at = 0; at < n; at++) {
            bytes[at] = (char)(bytes[at] ^ 0x41);
            const mba_status st = mba_image_decode(&got, pngs[i], bytes, n);
            if (st == MBA_OK) assert_pixels(&got, &want, 0);
            else assert_fails(st, MBA_E_FORMAT, "fix: ");
            bytes[at] = (char)(bytes[at] ^ 0x41);
        }
        mba_image_free(&want);
        free(bytes);
    }
    mba_image_free(&got);
}

static uint32_t crc_of(const uint8_t *p, size_t n)
{
    uint32_t crc = 0xffffffffu;
    for (size_t i = 0; i < n; i++) {
        crc ^= p[i];
        for (int k = 0; k < 8; k++) crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
    }
    return ~crc;
}

static void put32(uint8_t *p, uint32_t v)
{
    for (int i = 0; i < 4; i++) p[i] = (uint8_t)(v >> (24 - 8 * i));
}

/* Width and height are bytes 16 to 23, their checksum covers bytes 12 to 28. */
static void huge_png_headers_are_refused(void **state)
{
    (void)state;
    static const struct {
        uint32_t    W, H;
        const char *words;
    } cases[] = {
        { 10000, 9000, "10000 x 9000 pixels, in 786 bytes" },
        { 100000, 100000, "100000 x 100000 pixels" },
        { 0x7fffffff, 1, "fix: " },
        { 0, 5, "fix: " },
        { 0xffffffff, 2, "fix: " },
        { 50000000, 3, "fix: " },
    };
    mba_image got = { 0 };
    size_t    n;
    char     *bytes = png_bytes(&n, "rgb_8");
    uint8_t  *head = (uint8_t *)bytes + 12;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put32(head + 4, cases[i].W);
        put32(head + 8, cases[i].H);
        put32(head + 17, crc_of(head, 17));
        assert_fails(mba_image_decode(&got, "x", bytes, n), MBA_E_FORMAT, cases[i].words);
    }
    free(bytes);
    mba_image_free(&got);
}

static void what_is_no_image_is_named(void **state)
{
    (void)state;
    mba_image got = { 0 }, want = golden_image("input.rgb", 0, GOLDEN_W, GOLDEN_H);
    size_t    n;
    char     *bytes = golden_bytes(&n, "really.png");
    assert_ok(mba_image_decode(&got, "n02105855_2933.JPEG", bytes, n)); /* a PNG under this name */
    assert_pixels(&got, &want, 0);
    mba_image_free(&want);
    free(bytes);
    assert_fails(mba_image_decode(&got, "n01.JPEG", "RIFF....WEBPVP8 ", 16), MBA_E_UNSUPPORTED, "it is a WebP file");
    assert_non_null(strstr(mba_message(), "n01.JPEG"));
    assert_fails(mba_image_decode(&got, "x", "hello", 5), MBA_E_FORMAT, "neither as a JPEG nor as a PNG");
    assert_fails(mba_image_decode(&got, "x", "", 0), MBA_E_FORMAT, "it is empty");
    /* A header that promises a huge image in few bytes: height and width stand behind the SOF0 marker. */
    bytes = golden_bytes(&n, "444.jpg");
    for (size_t i = 0; i + 9 < n; i++)
        if ((uint8_t)bytes[i] == 0xff && (uint8_t)bytes[i + 1] == 0xc0) memcpy(bytes + i + 5, "\x7f\xff\x7f\xff", 4);
    assert_fails(mba_image_decode(&got, "x", bytes, n), MBA_E_FORMAT, "32767 x 32767 pixels, in 3102 bytes");
    free(bytes);
    mba_image_free(&got);
}

MBA_TEST_MAIN(cmocka_unit_test(files_decode_as_elsewhere), cmocka_unit_test(the_decoder_halves_and_stops_early),
              cmocka_unit_test(four_components_become_light), cmocka_unit_test(what_is_written_comes_back),
              cmocka_unit_test(a_file_cut_anywhere_is_refused_or_complete),
              cmocka_unit_test(png_files_decode_as_elsewhere),
              cmocka_unit_test(a_png_cut_anywhere_is_refused_or_complete),
              cmocka_unit_test(a_png_with_a_wrong_byte_is_refused_or_the_same),
              cmocka_unit_test(huge_png_headers_are_refused), cmocka_unit_test(what_is_no_image_is_named))
