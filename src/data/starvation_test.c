// SPDX-License-Identifier: Apache-2.0
/* starvation_test.c -- the n-th allocation fails, for every n: each reader and writer of src/data reports it or
 * does without, and never gives a wrong result. (Jansson alone would: it can lose a character of a string.) */
#include "tests/starve.h"
#include "tests/scratch.h"
#include "core/file.h"
#include "data/image_set.h"
#include "data/json.h"
#include "data/npy.h"
#include "data/reader.h"
#include "data/weights.h"

#if !MBA_STARVE
int main(void) { return 77; }
#else

#define DATA "tests/data/formats/"

/* Only the file itself is left, however the work ended. */
static void check_no_temporary(void) { assert_true(scratch_entries("") <= 1); }

static mba_weights *weights;

static mba_status open_weights(void) { return mba_weights_open(&weights, DATA "sharded"); }

static void check_weights(void)
{
    float x[4];
    assert_int_equal(mba_weights_count(weights), 3);
    assert_ok(mba_array_read_f32(mba_weights_find(weights, "head"), x, 4));
    assert_true(x[0] == 10 && x[3] == 13);
    mba_weights_close(weights);
}

static void weights_are_right_or_absent(void **state)
{
    (void)state;
    starve(open_weights, check_weights, check_no_temporary);
}

static json_t *config;

static mba_status load_and_save(void)
{
    MBA_TRY(mba_json_load(&config, "tests/fuzz/corpus/json/config", NULL));
    mba_status st = mba_json_save(config, scratch("c.json"));
    if (st != MBA_OK) json_decref(config);
    return st;
}

static void check_config(void)
{
    json_t *again;
    assert_ok(mba_json_load(&again, scratch("c.json"), NULL));
    assert_true(json_equal(config, again));
    assert_string_equal(json_string_value(json_object_get(config, "model_type")), "mamba2");
    json_decref(again);
    json_decref(config);
}

static void json_is_right_or_absent(void **state)
{
    (void)state;
    starve(load_and_save, check_config, check_no_temporary);
    unlink(scratch("c.json"));
}

static mba_status copy_safetensors(void)
{
    mba_safetensors        *f = NULL;
    mba_safetensors_writer *w = NULL;
    MBA_TRY(mba_safetensors_open(&f, DATA "types.safetensors"));
    mba_status st = mba_safetensors_create(&w, scratch("t.safetensors"));
    for (int64_t i = 0; st == MBA_OK && i < mba_safetensors_count(f); i++) {
        const mba_array      *a = mba_safetensors_at(f, i);
        mba_safetensors_entry e = { .name = a->name, .dtype = a->dtype, .rank = a->rank, .data = a->data };
        memcpy(e.shape, a->shape, sizeof e.shape);
        st = mba_safetensors_add(w, &e);
    }
    if (st == MBA_OK) st = mba_safetensors_commit(w);
    mba_safetensors_destroy(w);
    mba_safetensors_close(f);
    return st;
}

static void check_copy(void)
{
    mba_map x, y;
    assert_ok(mba_file_map(&x, DATA "types.safetensors"));
    assert_ok(mba_file_map(&y, scratch("t.safetensors")));
    assert_int_equal(x.bytes, y.bytes);
    assert_memory_equal(x.data, y.data, x.bytes);
    mba_file_unmap(&x);
    mba_file_unmap(&y);
}

static void safetensors_are_right_or_absent(void **state)
{
    (void)state;
    starve(copy_safetensors, check_copy, check_no_temporary);
    unlink(scratch("t.safetensors"));
}

static mba_status write_and_read_npy(void)
{
    const float x = 0.5f;
    float       y = 0;
    mba_npy    *f;
    MBA_TRY(mba_npy_write(scratch("a.npy"), MBA_WIRE_F32, 0, NULL, &x));
    MBA_TRY(mba_npy_open(&f, scratch("a.npy")));
    mba_status st = mba_array_read_f32(mba_npy_array(f), &y, 1);
    mba_npy_close(f);
    return st == MBA_OK && y != x ? mba_fail(MBA_E_FORMAT, "it changed") : st;
}

static void check_nothing(void) {}

static void npy_is_right_or_absent(void **state)
{
    (void)state;
    starve(write_and_read_npy, check_nothing, check_no_temporary);
}

/* A shard of two PNG files with classes in .json, split in halves, the held-out one decoded. */
static mba_image half;

static mba_status decode_half(void)
{
    mba_image_set *s = NULL;
    mba_sample     p = { 0 };
    MBA_TRY(mba_image_set_open(&s, &(mba_image_set_options){
                                       .path = "tests/data/images/json.tar", .part = 0.5, .validation = true }));
    mba_status st = s->count == 1 ? mba_image_set_read(s, 0, &p) : mba_fail(MBA_E_FORMAT, "not one half");
    if (st == MBA_OK) st = mba_image_decode(&half, p.name, p.encoded, p.encoded_bytes);
    if (st != MBA_OK) mba_image_free(&half);
    mba_sample_free(&p);
    mba_image_set_close(s);
    return st;
}

static void check_half(void)
{
    assert_true(half.W == 19 && half.H == 11);
    mba_image_free(&half);
}

static void images_are_right_or_absent(void **state)
{
    (void)state;
    starve(decode_half, check_half, check_no_temporary);
}

static uint8_t *encoded;
static size_t   encoded_bytes;

static mba_status encode(void)
{
    static uint8_t pixels[3 * 40 * 30] = { 1, 2, 3 };
    return mba_png_encode(&encoded, &encoded_bytes, &(mba_image){ .rgb = pixels, .W = 40, .H = 30 });
}

static void check_encoded(void)
{
    assert_true(encoded_bytes > 8 && !memcmp(encoded, "\x89PNG", 4));
    free(encoded);
}

static void a_png_is_right_or_absent(void **state)
{
    (void)state;
    starve(encode, check_encoded, NULL);
}

/* ---- compressed text ---- */

enum { LONG = 5 << 19, LINE = 16, LINES = 1 << 18 }; /* a line of 2.5 MiB, then 4 MiB of short ones */
static int64_t     lines;
static const char *packed; /* the name of the file */

static mba_status read_lines(mba_reader *r)
{
    const char *line;
    size_t      n;
    mba_status  st;
    while ((st = mba_reader_line(r, &line, &n)) == MBA_OK && line) lines += n == (lines ? LINE - 1 : LONG - 1);
    return st;
}

static mba_status read_packed(void)
{
    mba_reader *r;
    lines = 0;
    MBA_TRY(mba_reader_open(&r, scratch(packed), MBA_READER_MOST));
    const mba_status st = read_lines(r);
    mba_reader_close(r);
    return st;
}

static void check_lines(void) { assert_int_equal(lines, 1 + LINES); }

/* If this machine can pack and the build can unpack. Once there is room for the longest line, reading takes no more
 * memory. */
static void compressed_text_is_right_or_absent(const char *by, const char *name)
{
    const size_t bytes = LONG + (size_t)LINE * LINES;
    char        *text = malloc(bytes), command[1024];
    memset(text, 'x', bytes);
    text[LONG - 1] = '\n';
    for (size_t k = 1; k <= LINES; k++) text[LONG + LINE * k - 1] = '\n';
    scratch_put(scratch("long.txt"), text, bytes);
    free(text);
    packed = name;
    snprintf(command, sizeof command, "%s '%s' 2>/dev/null", by, scratch("long.txt"));
    const bool can = system(command) == 0 && read_packed() != MBA_E_UNSUPPORTED;
    if (!can) remove(scratch("long.txt"));
    if (!can) skip();
    starve(read_packed, check_lines, NULL);
    mba_reader *r;
    const char *line;
    size_t      n;
    assert_ok(mba_reader_open(&r, scratch(packed), MBA_READER_MOST));
    assert_ok(mba_reader_line(r, &line, &n));
    assert_int_equal(n, LONG - 1);
    lines = 1;
    left = 0;
    const mba_status st = read_lines(r);
    const bool       took_none = left == 0;
    left = -1;
    assert_ok(st);
    assert_true(took_none);
    check_lines();
    mba_reader_close(r);
    assert_int_equal(remove(scratch(packed)), 0);
}

static void gzip_text_is_right_or_absent(void **state)
{
    (void)state;
    compressed_text_is_right_or_absent("gzip -f", "long.txt.gz");
}

static void zstd_text_is_right_or_absent(void **state)
{
    (void)state;
    compressed_text_is_right_or_absent("zstd -q -f --rm", "long.txt.zst");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gzip_text_is_right_or_absent),    cmocka_unit_test(zstd_text_is_right_or_absent),
        cmocka_unit_test(a_png_is_right_or_absent),        cmocka_unit_test(images_are_right_or_absent),
        cmocka_unit_test(weights_are_right_or_absent),     cmocka_unit_test(json_is_right_or_absent),
        cmocka_unit_test(safetensors_are_right_or_absent), cmocka_unit_test(npy_is_right_or_absent),
    };
    scratch_make();
    const int failures = cmocka_run_group_tests(tests, NULL, NULL);
    scratch_remove();
    return failures;
}
#endif
