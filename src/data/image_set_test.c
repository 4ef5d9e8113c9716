/* image_set_test.c -- folders, shards, CIFAR, MNIST and made-up sets: what is read, and what is refused by name. */
#include "tests/images.h"
#include "tests/scratch.h"

#include "data/idx.h"
#include "data/image_loader.h"
#include "data/image_set.h"
#include "data/npy.h"
#include "data/tar.h"

static void put_file(const char *path, const void *bytes, size_t n)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static void copy_file(const char *to, const char *golden)
{
    size_t n;
    char  *bytes = golden_bytes(&n, golden);
    put_file(to, bytes, n);
    free(bytes);
}

static void folder(const char *name) { assert_int_equal(mkdir(scratch(name), 0777), 0); }

static mba_status opened(mba_image_set **s, const char *path, bool validation)
{
    return mba_image_set_open(s, &(mba_image_set_options){ .path = path, .validation = validation });
}

/* ---- folders ---- */

static void classes_are_numbered_by_name(void **state)
{
    (void)state;
    mba_image_set *s;
    mba_sample     p = { 0 };
    scratch_make();
    folder("train");
    folder("val");
    folder("train/n02");
    folder("train/n01");
    folder("val/n01");
    folder("val/n02");
    copy_file(scratch("train/n01/b.JPEG"), "420.jpg");
    copy_file(scratch("train/n01/a.jpg"), "grey.jpg");
    copy_file(scratch("train/n01/.hidden.jpg"), "grey.jpg");
    put_file(scratch("train/n01/readme.txt"), "x", 1);
    put_file(scratch("train/list.txt"), "x", 1);
    copy_file(scratch("train/n02/c.Jpeg"), "444.jpg");
    copy_file(scratch("val/n02/v.jpg"), "444.jpg");
    assert_fails(opened(&s, scratch_dir, true), MBA_E_FORMAT, "val/n01' has no images");
    assert_ok(opened(&s, scratch_dir, false));
    assert_int_equal(s->count, 3);
    assert_int_equal(s->classes, 2);
    assert_string_equal(s->kind->name, "folder");
    static const struct {
        const char *name;
        int         label;
    } want[] = {{"/a.jpg", 0}, {"/b.JPEG", 0}, {"/c.Jpeg", 1}};
    for (int i = 0; i < 3; i++) {
        assert_ok(mba_image_set_read(s, i, &p));
        assert_int_equal(p.label, want[i].label);
        assert_int_equal(mba_image_set_label(s, i), want[i].label);
        assert_string_equal(mba_image_set_class(s, p.label), want[i].label ? "n02" : "n01");
        assert_non_null(strstr(p.name, want[i].name));
        assert_memory_equal(p.jpeg, "\xff\xd8", 2);
    }
    unlink(scratch("train/n01/a.jpg"));
    assert_fails(mba_image_set_read(s, 0, &p), MBA_E_IO, "a.jpg");
    mba_sample_free(&p);
    mba_image_set_close(s);
    assert_fails(opened(&s, scratch("train/n01"), false), MBA_E_FORMAT, "no class folders");
    assert_fails(opened(&s, scratch("nowhere"), false), MBA_E_IO, "neither a directory nor a .tar");
    scratch_remove();
}

/* ---- tar ---- */

typedef struct archive { uint8_t bytes[1 << 16]; size_t n; } archive;

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
    uint8_t *h = a.bytes + a.n - 1024;                            /* its size in binary */
    memset(h + 124, 0, 12);
    h[124] = 0x80;
    h[135] = 1;
    seal(h);
    end_archive(&a);
    mba_tar t = mba_tar_start("a.tar", a.bytes, a.n);
    static const struct {
        const char *name;
        size_t      n;
    } want[] = {{"some/where/a.jpg", 5}, {longer, 0}, {"p/q/r.cls", 3}, {"last", 1}};
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
    a.bytes[600] ^= 1;                                            /* in the second header */
    t = mba_tar_start("a.tar", a.bytes, a.n);
    assert_fails(mba_tar_next(&t, &m), MBA_E_FORMAT, "wrong checksum (byte 512)");
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
    put_file(path, a.bytes, a.n);
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
        assert_ok(mba_jpeg_decode(&m, p.name, p.jpeg, p.jpeg_bytes));
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
    static const struct { const char *one, *two, *data, *words; } cases[] = {
        { "k.jpg", "l.jpg", "x", "'k' of 'a.tar' cannot be used\nwhy: it has no .cls" },
        { "k.cls", "k.txt", "4", "it has no .jpg" },
        { "k.jpg", "k.cls", "4 5", "no number" },
        { "k.png", "k.cls", "4", "not a JPEG" },
        { ".a.jpg", ".a.cls", "4", "has no images" },
        { "k.jpg", "k.cls", "-1", "its .cls is no number below 10^6" },
        { "k.jpg", "k.cls", "1000001", "its .cls is no number below 10^6" },
        { "k.jpg", "k.cls", "", "its .cls is no number below 10^6" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        a.n = 0;
        add_member(&a, "", cases[i].one, '0', cases[i].data, strlen(cases[i].data));
        add_member(&a, "", cases[i].two, '0', cases[i].data, strlen(cases[i].data));
        end_archive(&a);
        assert_fails(mba_image_shards_open_bytes(&s, "a.tar", a.bytes, a.n), MBA_E_FORMAT, cases[i].words);
    }
}

/* Of several shards the one that is cut short is named, wherever the cut is. */
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
        assert_fails(opened(&s, scratch_dir, false), MBA_E_FORMAT, "x-1.tar' is not a sound tar archive");
        assert_null(s);
    }
    scratch_remove();
}

/* An image of a shard that cannot be decoded, and a record of CIFAR with a label that does not exist: left out with
 * a count and a name, the next one in its place, and the epoch goes on. */
static void left_out(const mba_image_set *s, int64_t skipped, const char *words, const int32_t *want)
{
    enum { SIZE = 8, B = 2 };
    float             x[B * SIZE * SIZE * 3];
    int32_t           labels[B];
    mba_position      at = { 0 };
    mba_image_loader *l;
    const char       *story;
    mba_image_batch   b = { .x = x, .labels = labels };
    assert_ok(mba_image_loader_create(&l, &(mba_image_loader_options){
        .set = s, .recipe = mba_image_recipe_eval(s, SIZE, 0), .B = B }));
    for (int64_t k = 0; k < mba_image_loader_batches(l); k++) {
        assert_ok(mba_image_loader_next(l, &b, &at));
        for (int i = 0; i < B; i++) assert_int_equal(labels[i], want[k * B + i]);
    }
    assert_true(at.epoch == 1 && at.index == 0);
    assert_int_equal(mba_image_loader_skipped(l, &story), skipped);
    assert_non_null(strstr(story, words));
    mba_image_loader_destroy(l);
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
        char name[16], label[4];
        snprintf(name, sizeof name, "s%d.jpg", i);
        add_member(&a, "", name, '0', jpeg, i == 1 ? bytes / 2 : bytes);
        snprintf(name, sizeof name, "s%d.cls", i);
        snprintf(label, sizeof label, "%d", i);
        add_member(&a, "", name, '0', label, 1);
    }
    end_archive(&a);
    free(jpeg);
    assert_ok(mba_image_shards_open_bytes(&s, "a.tar", a.bytes, a.n));
    left_out(s, 1, "a.tar, image 1' cannot be decoded", (const int32_t[]){ 0, 2, 2, 3 });
    mba_image_set_close(s);
}

/* ---- CIFAR ---- */

static void cifar_file(const char *path, int records, int labels, int first)
{
    uint8_t *bytes = malloc((size_t)records * (size_t)(3072 + labels));
    for (int r = 0; r < records; r++) {
        uint8_t *p = bytes + r * (3072 + labels);
        if (labels == 2) *p++ = 9;
        *p++ = (uint8_t)(first + r);
        for (int i = 0; i < 3072; i++) p[i] = (uint8_t)(i % 1024 / 5 + 17 * (i / 1024) + r);
    }
    put_file(path, bytes, (size_t)records * (size_t)(3072 + labels));
    free(bytes);
}

static void cifar_planes_become_pixels(void **state)
{
    (void)state;
    mba_image_set *s;
    mba_sample     p = { 0 };
    scratch_make();
    folder("ten");
    folder("ten/cifar-10-batches-bin");
    for (int i = 1; i <= 5; i++) {
        char name[64];
        snprintf(name, sizeof name, "ten/cifar-10-batches-bin/data_batch_%d.bin", i);
        cifar_file(scratch(name), 2, 1, 2 * i - 2);
    }
    cifar_file(scratch("ten/cifar-10-batches-bin/test_batch.bin"), 3, 1, 8);
    assert_ok(opened(&s, scratch("ten"), false));
    assert_string_equal(s->kind->name, "cifar10");
    assert_int_equal(s->count, 10);
    for (int i = 0; i < 10; i++) {
        assert_ok(mba_image_set_read(s, i, &p));
        assert_int_equal(p.label, i);
        assert_true(p.image.W == 32 && p.image.H == 32 && !p.jpeg);
        for (int k = 0; k < 3072; k++) assert_int_equal(p.image.rgb[k], k / 3 / 5 + 17 * (k % 3) + i % 2);
    }
    mba_image_set_close(s);
    assert_ok(opened(&s, scratch("ten"), true));
    assert_int_equal(s->count, 3);
    assert_ok(mba_image_set_read(s, 1, &p));
    assert_fails(mba_image_set_read(s, 2, &p), MBA_E_FORMAT, "the label 10");
    mba_image_set_close(s);
    unlink(scratch("ten/cifar-10-batches-bin/data_batch_4.bin"));
    assert_fails(opened(&s, scratch("ten"), false), MBA_E_IO, "has no data_batch_4.bin");
    put_file(scratch("ten/cifar-10-batches-bin/test_batch.bin"), "abc", 3);
    assert_fails(opened(&s, scratch("ten"), true), MBA_E_FORMAT, "3 bytes are not whole records of 3073");
    folder("hundred");
    cifar_file(scratch("hundred/train.bin"), 4, 2, 96);
    assert_ok(opened(&s, scratch("hundred"), false));
    assert_int_equal(s->classes, 100);
    assert_ok(mba_image_set_read(s, 3, &p));
    assert_int_equal(p.label, 99);
    mba_image_set_close(s);
    mba_sample_free(&p);
    scratch_remove();
}

static void a_wrong_label_is_left_out(void **state)
{
    (void)state;
    static uint8_t records[4 * 3073];
    mba_image_set *s;
    for (int i = 0; i < 4; i++) records[i * 3073] = (uint8_t)(i == 2 ? 200 : i);
    assert_ok(mba_cifar_open_bytes(&s, "test_batch.bin", records, sizeof records, false));
    left_out(s, 1, "test_batch.bin, image 2 has the label 200", (const int32_t[]){ 0, 1, 3, 3 });
    assert_int_equal(mba_image_set_label(s, 2), 200);            /* as it is; only reading checks */
    assert_null(mba_image_set_class(s, 3));
    mba_image_set_close(s);
}

/* ---- MNIST ---- */

static void idx_headers_are_read_and_checked(void **state)
{
    (void)state;
    uint8_t two[] = { 0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3, 1, 2, 3, 4, 5, 6 };
    mba_idx x;
    assert_ok(mba_idx_parse(&x, "x", two, sizeof two));
    assert_true(x.rank == 2 && x.size[0] == 2 && x.size[1] == 3 && x.elems == 6 && x.data[5] == 6);
    for (size_t cut = 0; cut < sizeof two; cut++) assert_fails(mba_idx_parse(&x, "x", two, cut), MBA_E_FORMAT, "fix: ");
    two[2] = 0x0d;
    assert_fails(mba_idx_parse(&x, "x", two, sizeof two), MBA_E_FORMAT, "6 values of 4 bytes, 6 bytes are there");
    two[2] = 0x0a;
    assert_fails(mba_idx_parse(&x, "x", two, sizeof two), MBA_E_FORMAT, "does not begin");
    assert_fails(mba_idx_parse(&x, "x", "\x1f\x8b\x08", 3), MBA_E_UNSUPPORTED, "gunzip");
    static const uint8_t huge[] = { 0, 0, 8, 3, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255 };
    assert_fails(mba_idx_parse(&x, "x", huge, sizeof huge), MBA_E_FORMAT, "63 bits");
}

static void mnist_pairs_images_and_labels(void **state)
{
    (void)state;
    static const uint8_t images[] = {0, 0, 8, 3,  0,  0,  0,  2,  0, 0,  0,  2,  0,  0,
                                     0, 3, 0, 10, 20, 30, 40, 50, 5, 15, 25, 35, 45, 255};
    uint8_t              labels[] = { 0, 0, 8, 1, 0, 0, 0, 2, 5, 7 };
    mba_image_set       *s;
    mba_sample           p = { 0 };
    scratch_make();
    put_file(scratch("train-images-idx3-ubyte"), images, sizeof images);
    put_file(scratch("train-labels.idx1-ubyte"), labels, sizeof labels);
    assert_ok(opened(&s, scratch_dir, false));
    assert_true(s->count == 2 && s->classes == 10 && s->W == 3 && s->H == 2);
    assert_ok(mba_image_set_read(s, 1, &p));
    assert_int_equal(p.label, 7);
    assert_int_equal(p.image.rgb[15], 255);
    assert_int_equal(p.image.rgb[17], 255);
    assert_int_equal(p.image.rgb[2], 5);
    mba_image_set_close(s);
    assert_fails(opened(&s, scratch_dir, true), MBA_E_IO, "has no t10k-images-idx3-ubyte");
    labels[9] = 10;
    put_file(scratch("train-labels.idx1-ubyte"), labels, sizeof labels);
    assert_fails(opened(&s, scratch_dir, false), MBA_E_FORMAT, "the label 10");
    labels[7] = 1;
    put_file(scratch("train-labels.idx1-ubyte"), labels, 9);
    assert_fails(opened(&s, scratch_dir, false), MBA_E_FORMAT, "2 images and 1 labels");
    mba_sample_free(&p);
    scratch_remove();
}

/* Where the real sets are at hand (MBA_MNIST, MBA_CIFAR10: their directories), their known first labels and moments. */
static void moments(const mba_image_set *s)
{
    double     sum[3] = { 0 }, square[3] = { 0 }, n = 0;
    mba_sample p = { 0 };
    for (int64_t i = 0; i < s->count; i++) {
        assert_ok(mba_image_set_read(s, i, &p));
        n += s->W * s->H;
        for (int k = 0; k < s->W * s->H * 3; k++) {
            sum[k % 3]    += p.image.rgb[k] / 255.0;
            square[k % 3] += p.image.rgb[k] / 255.0 * p.image.rgb[k] / 255.0;
        }
    }
    for (int k = 0; k < 3; k++) {
        assert_near(sum[k] / n, s->colours.mean[k], 1e-3);
        assert_near(sqrt(square[k] / n - sum[k] / n * sum[k] / n), s->colours.deviation[k], 1e-3);
    }
    mba_sample_free(&p);
}

static void real_sets_have_their_known_values(void **state)
{
    (void)state;
    static const struct {
        const char *variable;
        int         train, held;
    } sets[] = {{"MBA_MNIST", 5, 7}, {"MBA_CIFAR10", 6, 3}};
    int seen = 0;
    for (int i = 0; i < 2; i++)
        for (int held = 0; held < 2 && getenv(sets[i].variable); held++) {
            mba_image_set *s;
            mba_sample     p = { 0 };
            assert_ok(opened(&s, getenv(sets[i].variable), held));
            assert_ok(mba_image_set_read(s, 0, &p));
            assert_int_equal(p.label, held ? sets[i].held : sets[i].train);
            if (!held) moments(s);
            mba_sample_free(&p);
            mba_image_set_close(s);
            seen++;
        }
    if (!seen) skip();
}

/* ---- made-up sets ---- */

static void made_up_sets_repeat_and_say_so(void **state)
{
    (void)state;
    static const char *const names[] = { "synthetic", "shapes" };
    for (int i = 0; i < 2; i++) {
        mba_image_set *s, *held;
        mba_sample     a = { 0 }, b = { 0 };
        assert_ok(mba_image_set_open(&s, &(mba_image_set_options){ .path = names[i], .seed = 3 }));
        assert_ok(mba_image_set_open(&held, &(mba_image_set_options){.path = names[i], .seed = 3, .validation = true}));
        assert_true(s->made_up && s->count == 50000 && held->count == 10000 && s->classes == 10);
        for (int64_t k = 0; k < 12; k++) {
            assert_ok(mba_image_set_read(s, k, &a));
            assert_ok(mba_image_set_read(s, 11 - k, &b));
            assert_ok(mba_image_set_read(s, k, &b));
            assert_pixels(&a.image, &b.image, 0);
            assert_int_equal(a.label, k % 10);
            if (!i) assert_true(a.image.W >= 256 && a.image.W <= 512 && a.image.H >= 256 && a.image.H <= 512);
            assert_ok(mba_image_set_read(held, k, &b));
            if (i) assert_true(pixels_apart(&a.image, &b.image) > 20);
        }
        mba_sample_free(&a);
        mba_sample_free(&b);
        mba_image_set_close(s);
        mba_image_set_close(held);
    }
    mba_image_set *s;
    assert_fails(mba_image_set_open(&s, &(mba_image_set_options){.path = "synthetic", .size = 5000}), MBA_E_ARG,
                 "5000");
    assert_string_equal(mba_shapes_class(4), "ring");
}

/* No single pixel knows the class: its mean over many images of a class is the same for all classes. What a linear
 * model still finds is in docs/image-data.md, by tools/shapes_linear.py. */
static void pixels_of_shapes_say_nothing_by_themselves(void **state)
{
    (void)state;
    enum { N = 4000, CLASSES = 10 };
    static double  mean[CLASSES][1024];
    mba_image_set *s;
    mba_sample     p = { 0 };
    assert_ok(mba_image_set_open(&s, &(mba_image_set_options){ .path = "shapes", .count = N }));
    for (int64_t i = 0; i < N; i++) {
        assert_ok(mba_image_set_read(s, i, &p));
        for (int k = 0; k < 1024; k++) mean[p.label][k] += p.image.rgb[3 * k + 1] / (double)(N / CLASSES);
    }
    double between = 0;
    for (int k = 0; k < 1024; k++) {
        double all = 0;
        for (int c = 0; c < CLASSES; c++) all += mean[c][k] / CLASSES;
        for (int c = 0; c < CLASSES; c++) between += (mean[c][k] - all) * (mean[c][k] - all) / (CLASSES * 1024.0);
    }
    /* Pixels deviate by about 50, so a mean of 400 by 2.5. */
    assert_true(sqrt(between) < 3.5);
    mba_sample_free(&p);
    mba_image_set_close(s);
}

/* For tools/shapes_linear.py: MBA_SHAPES_OUT=DIR. */
static void write_shapes(const char *folder_name)
{
    for (int held = 0; held < 2; held++) {
        const int64_t  n = held ? 4000 : 20000;
        int32_t       *x = malloc((size_t)n * 3072 * sizeof *x), *y = malloc((size_t)n * sizeof *y);
        mba_image_set *s;
        mba_sample     p = { 0 };
        char           path[600];
        assert_ok(mba_image_set_open(&s, &(mba_image_set_options){ .path = "shapes", .count = n, .validation = held }));
        for (int64_t i = 0; i < n; i++) {
            assert_ok(mba_image_set_read(s, i, &p));
            for (int k = 0; k < 3072; k++) x[i * 3072 + k] = p.image.rgb[k];
            y[i] = p.label;
        }
        snprintf(path, sizeof path, "%s/x%d.npy", folder_name, held);
        assert_ok(mba_npy_write(path, MBA_WIRE_I32, 2, (int64_t[]){ n, 3072 }, x));
        snprintf(path, sizeof path, "%s/y%d.npy", folder_name, held);
        assert_ok(mba_npy_write(path, MBA_WIRE_I32, 1, &n, y));
        mba_sample_free(&p);
        mba_image_set_close(s);
        free(x);
        free(y);
    }
}

static void shapes_are_written_when_asked_for(void **state)
{
    (void)state;
    if (getenv("MBA_SHAPES_OUT")) write_shapes(getenv("MBA_SHAPES_OUT"));
    else                          skip();
}

MBA_TEST_MAIN(cmocka_unit_test(classes_are_numbered_by_name), cmocka_unit_test(members_of_an_archive_are_found),
              cmocka_unit_test(shards_give_samples_in_order), cmocka_unit_test(samples_that_lack_something_are_named),
              cmocka_unit_test(a_shard_cut_short_is_named), cmocka_unit_test(damage_inside_a_shard_is_left_out),
              cmocka_unit_test(a_wrong_label_is_left_out),
              cmocka_unit_test(cifar_planes_become_pixels), cmocka_unit_test(idx_headers_are_read_and_checked),
              cmocka_unit_test(mnist_pairs_images_and_labels), cmocka_unit_test(real_sets_have_their_known_values),
              cmocka_unit_test(made_up_sets_repeat_and_say_so),
              cmocka_unit_test(pixels_of_shapes_say_nothing_by_themselves),
              cmocka_unit_test(shapes_are_written_when_asked_for))
