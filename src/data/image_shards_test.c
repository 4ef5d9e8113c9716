// SPDX-License-Identifier: Apache-2.0
/* image_shards_test.c -- tar archives and shards of samples: what is read, and what is refused with its name. */
#include "tests/image_sets.h"

#include "data/tar.h"

/* ---- tar ---- */

typedef struct archive {
    uint8_t bytes[1 << 16];
    size_t  n;
} archive;

static void seal(uint8_t *h)
{
    unsigned sum = 0;
    memset(h + 148, ' ', 8);
    for (int i = 0; i < 512; i++) sum += h[i];
    snprintf((char *)h + 148, 8, "%06o", sum);
}

static void add_member(archive *a, const char *prefix, const char *name, char type, const void *data, size_t n)
{
    uint8_t *h = a->bytes + a->n;
    memset(h, 0, 512);
    strncpy((char *)h, name, 100);
    snprintf((char *)h + 100, 8, "0000644");
    snprintf((char *)h + 124, 12, "%011zo", n);
    h[156] = (uint8_t)type;
    memcpy(h + 257, "ustar\00000", 8);
    strncpy((char *)h + 345, prefix, 155);
    seal(h);
    memcpy(h + 512, data, n);
    memset(h + 512 + n, 0, -n & 511);
    a->n += 512 + n + (-n & 511);
    assert_true(a->n + 2048 < sizeof a->bytes);
}

static void end_archive(archive *a)
{
    memset(a->bytes + a->n, 0, 1024);
    a->n += 1024;
}

static void members_of_an_archive_are_found(void **state)
{
    (void)state;
    static archive a;
    static char    longer[300], attribute[400];
    mba_tar_member m;
    memset(longer, 'n', 250);
    memcpy(longer + 246, ".txt", 5);
    a.n = 0;
    add_member(&a, "", "dir", '5', "", 0);
    add_member(&a, "some/where", "a.jpg", '0', "hello", 5);
    add_member(&a, "", "././@LongLink", 'L', longer, strlen(longer) + 1);
    add_member(&a, "", "nnnn", '\0', "", 0);
    snprintf(attribute, sizeof attribute, "30 mtime=1350244992.023960108\n18 path=p/q/r.cls\n10 size=3\n");
    add_member(&a, "", "x", 'g', "27 comment=for all of them\n", 27);
    add_member(&a, "", "x", 'x', attribute, strlen(attribute));
    add_member(&a, "", "short", '0', "1234", 4);
    add_member(&a, "", "link", '2', "", 0);
    add_member(&a, "", "last", '0', "z", 1);
    uint8_t *h = a.bytes + a.n - 1024; /* its size in binary */
    memset(h + 124, 0, 12);
    h[124] = 0x80;
    h[135] = 1;
    seal(h);
    end_archive(&a);
    mba_tar t = mba_tar_start("a.tar", a.bytes, a.n);
    static const struct {
        const char *name;
        size_t      n;
    } want[] = { { "some/where/a.jpg", 5 }, { longer, 0 }, { "p/q/r.cls", 3 }, { "last", 1 } };
    for (int i = 0; i < 4; i++) {
        assert_ok(mba_tar_next(&t, &m));
        assert_non_null(m.data);
        assert_string_equal(m.name, want[i].name);
        assert_int_equal(m.bytes, want[i].n);
    }
    assert_ok(mba_tar_next(&t, &m));
    assert_null(m.data);
    /* Cut at any record, it says so. */
    for (size_t cut = 0; cut < a.n - 1024; cut += 512) {
        mba_status st;
        t = mba_tar_start("a.tar", a.bytes, cut);
        while ((st = mba_tar_next(&t, &m)) == MBA_OK) assert_non_null(m.data);
        assert_fails(st, MBA_E_FORMAT, "a.tar");
    }
    a.bytes[600] ^= 1; /* in the second header */
    t = mba_tar_start("a.tar", a.bytes, a.n);
    assert_fails(mba_tar_next(&t, &m), MBA_E_FORMAT, "wrong checksum (byte 512)");
}

/* Archives that tar itself would not unpack completely are refused: nothing is lost silently. */
static void what_would_be_lost_is_refused(void **state)
{
    (void)state;
    static archive a;
    mba_tar_member m;
    a.n = 0;
    add_member(&a, "", "one", '0', "1", 1);
    end_archive(&a);
    const size_t whole = a.n;
    memset(a.bytes + a.n, 0, 4096); /* blocks of 20 records: zeros are fine */
    mba_tar t = mba_tar_start("a.tar", a.bytes, whole + 4096);
    assert_ok(mba_tar_next(&t, &m));
    assert_ok(mba_tar_next(&t, &m));
    assert_null(m.data);
    add_member(&a, "", "two", '0', "2", 1);
    end_archive(&a);
    t = mba_tar_start("a.tar", a.bytes, a.n);
    assert_ok(mba_tar_next(&t, &m));
    assert_fails(mba_tar_next(&t, &m), MBA_E_FORMAT, "at byte 1024 there is one, followed by more data");
    static const struct {
        char        type;
        const char *data;
    } sparse[] = { { 'S', "" }, { 'x', "22 GNU.sparse.major=1\n" } };
    for (int i = 0; i < 2; i++) {
        a.n = 0;
        add_member(&a, "", "holes", sparse[i].type, sparse[i].data, strlen(sparse[i].data));
        add_member(&a, "", "holes", '0', "1", 1);
        end_archive(&a);
        t = mba_tar_start("a.tar", a.bytes, a.n);
        assert_fails(mba_tar_next(&t, &m), MBA_E_UNSUPPORTED, "has a sparse file in it");
    }
}

static void shard(const char *path, int first, int n)
{
    static archive a;
    size_t         bytes;
    char          *jpeg = golden_bytes(&bytes, "grey.jpg"), name[64], label[16];
    a.n = 0;
    for (int i = first; i < first + n; i++) {
        snprintf(name, sizeof name, "dir.x/s%04d.%s", i, i % 2 ? "jpg" : "JPEG");
        add_member(&a, "", name, '0', jpeg, bytes);
        snprintf(name, sizeof name, "dir.x/s%04d.cls", i);
        snprintf(label, sizeof label, "%d\n", i % 7);
        add_member(&a, "", name, '0', label, strlen(label));
        snprintf(name, sizeof name, "dir.x/s%04d.meta.json", i);
        add_member(&a, "", name, '0', "{}", 2);
    }
    end_archive(&a);
    scratch_put(path, a.bytes, a.n);
    free(jpeg);
}

static void shards_give_samples_in_order(void **state)
{
    (void)state;
    mba_image_set *s;
    mba_sample     p = { 0 };
    mba_image      m = { 0 };
    scratch_make();
    shard(scratch("x-train-000001.tar"), 5, 4);
    shard(scratch("x-train-000000.tar"), 0, 5);
    shard(scratch("x-val-000000.tar"), 20, 2);
    assert_ok(opened(&s, scratch_dir, false));
    assert_int_equal(s->count, 9);
    assert_int_equal(s->classes, 7);
    for (int i = 0; i < 9; i++) {
        assert_ok(mba_image_set_read(s, i, &p));
        assert_int_equal(p.label, i % 7);
        assert_ok(mba_image_decode(&m, p.name, p.encoded, p.encoded_bytes));
        assert_int_equal(m.W, GOLDEN_W);
    }
    mba_image_set_close(s);
    assert_ok(opened(&s, scratch_dir, true));
    assert_int_equal(s->count, 2);
    mba_image_set_close(s);
    assert_ok(opened(&s, scratch("x-*.tar"), true));
    assert_int_equal(s->count, 2);
    mba_image_set_close(s);
    const mba_image_set_options five = { .path = scratch("x-val-000000.tar"), .classes = 1 };
    assert_fails(mba_image_set_open(&s, &five), MBA_E_FORMAT, "label 6, there are 1 classes");
    mba_image_free(&m);
    mba_sample_free(&p);
    scratch_remove();
}

static void samples_that_lack_something_are_named(void **state)
{
    (void)state;
    static archive a;
    mba_image_set *s;
    static const struct {
        const char *one, *two, *data, *words;
    } cases[] = {
        { "k.jpg", "l.jpg", "x", "'k' of 'a.tar' cannot be used\nwhy: it has no .cls and no .json" },
        { "k.cls", "k.txt", "4", "it has no .jpg or .png" },
        { "k.jpg", "k.cls", "4 5", "no number" },
        { "k.webp", "k.cls", "4", "its image is neither a JPEG nor a PNG" },
        { ".a.jpg", ".a.cls", "4", "has no images" },
        { "k.jpg", "k.cls", "-1", "its .cls is no number below 10^6" },
        { "k.jpg", "k.cls", "1000001", "its .cls is no number below 10^6" },
        { "k.jpg", "k.cls", "", "its .cls is no number below 10^6" },
        { "k.jpg", "k.JPEG", "x", "'k' of 'a.tar' cannot be used\nwhy: it has two images" },
        { "k.cls", "k.cls", "4", "it has two classes" },
        { "k.jpg", "k.png", "x", "it has two images" },
        { "k.png", "k.json", "{}", "its .json has no number below 10^6 as \"cls\"" },
        { "k.png", "k.json", "[4]", "its .json is no sound JSON object" },
        { "k.png", "k.json", "{\"label\": 4", "its .json is no sound JSON object" },
        { "k.png", "k.json", "{\"label\": 4.5, \"class\": \"cat\", \"target\": [3], \"class_id\": -1}",
          "no number below" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        a.n = 0;
        add_member(&a, "", cases[i].one, '0', cases[i].data, strlen(cases[i].data));
        add_member(&a, "", cases[i].two, '0', cases[i].data, strlen(cases[i].data));
        end_archive(&a);
        assert_fails(mba_image_shards_open_bytes(&s, "a.tar", a.bytes, a.n), MBA_E_FORMAT, cases[i].words);
    }
}

/* The class in a .json: the usual keys in their order, numbers or digits; a .cls takes precedence. */
static void labels_stand_in_json_too(void **state)
{
    (void)state;
    static const struct {
        const char *json, *cls;
        int         label;
    } cases[] = {
        { "{\"label\": 5, \"class_id\": \"n01440764\", \"caption\": \"a 7\"}", NULL, 5 },
        { "{\"class_id\": 3, \"width\": 9}", NULL, 3 },
        { "{\"cls\": \"12\"}", NULL, 12 },
        { "{\"target\": 4.0, \"class\": 2}", NULL, 4 },
        { "{\"label\": \"tench\", \"class\": 2}", NULL, 2 },
        { "{\"label\": null, \"class\": 0}", NULL, 0 },
        { "{\"label\": 5}", "8", 8 },
        { "not read", "1\n", 1 },
    };
    enum { N = sizeof cases / sizeof *cases };
    static archive a;
    mba_image_set *s;
    mba_sample     p = { 0 };
    mba_image      m = { 0 };
    size_t         bytes;
    char          *png = golden_bytes(&bytes, "really.png"), name[32];
    a.n = 0;
    for (int i = 0; i < N; i++) {
        snprintf(name, sizeof name, "s%d.json", i);
        add_member(&a, "", name, '0', cases[i].json, strlen(cases[i].json));
        snprintf(name, sizeof name, "s%d.%s", i, i % 2 ? "png" : "PNG");
        add_member(&a, "", name, '0', png, i < 2 ? bytes : 1);
        snprintf(name, sizeof name, "s%d.cls", i);
        if (cases[i].cls) add_member(&a, "", name, '0', cases[i].cls, strlen(cases[i].cls));
    }
    end_archive(&a);
    free(png);
    assert_ok(mba_image_shards_open_bytes(&s, "a.tar", a.bytes, a.n));
    assert_true(s->count == N && s->classes == 13);
    for (int i = 0; i < N; i++) assert_int_equal(mba_image_set_label(s, i), cases[i].label);
    assert_ok(mba_image_set_read(s, 1, &p));
    assert_ok(mba_image_decode(&m, p.name, p.encoded, p.encoded_bytes));
    assert_true(m.W == GOLDEN_W && m.H == GOLDEN_H);
    mba_image_set_close(s);
    mba_sample_free(&p);
    mba_image_free(&m);
}

/* Of several shards, the message names the truncated one, wherever it is truncated. */
static void a_shard_cut_short_is_named(void **state)
{
    (void)state;
    mba_image_set *s = NULL;
    struct stat    about;
    scratch_make();
    shard(scratch("x-0.tar"), 0, 2);
    shard(scratch("x-1.tar"), 2, 2);
    assert_int_equal(stat(scratch("x-1.tar"), &about), 0);
    for (off_t n = about.st_size - 1024; n >= 0; n -= 700) {
        assert_int_equal(truncate(scratch("x-1.tar"), n), 0);
        assert_fails(opened(&s, scratch_dir, false), MBA_E_FORMAT, "x-1.tar' is not a valid tar archive");
        assert_null(s);
    }
    scratch_remove();
}

static void damage_inside_a_shard_is_left_out(void **state)
{
    (void)state;
    static archive a;
    size_t         bytes;
    mba_image_set *s;
    char          *jpeg = golden_bytes(&bytes, "grey.jpg");
    a.n = 0;
    for (int i = 0; i < 4; i++) {
        char image[] = "s0.jpg", class[] = "s0.cls", label = (char)('0' + i);
        image[1] = class[1] = label;
        add_member(&a, "", image, '0', jpeg, i == 1 ? bytes / 2 : bytes);
        add_member(&a, "", class, '0', &label, 1);
    }
    end_archive(&a);
    free(jpeg);
    assert_ok(mba_image_shards_open_bytes(&s, "a.tar", a.bytes, a.n));
    left_out(s, 1, "a.tar, image 1' cannot be decoded", (const int32_t[]){ 0, 2, 2, 3 });
    mba_image_set_close(s);
}

MBA_TEST_MAIN(cmocka_unit_test(members_of_an_archive_are_found), cmocka_unit_test(what_would_be_lost_is_refused),
              cmocka_unit_test(shards_give_samples_in_order), cmocka_unit_test(samples_that_lack_something_are_named),
              cmocka_unit_test(labels_stand_in_json_too), cmocka_unit_test(a_shard_cut_short_is_named),
              cmocka_unit_test(damage_inside_a_shard_is_left_out))
