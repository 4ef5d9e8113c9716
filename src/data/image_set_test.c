// SPDX-License-Identifier: Apache-2.0
/* image_set_test.c -- folders, CIFAR, MNIST and synthetic sets: what is read, and what is refused with its name.
 * image_shards_test.c tests shards. */
#include "tests/image_sets.h"

#include "data/idx.h"
#include "data/npy.h"

static void copy_file(const char *to, const char *golden)
{
    size_t n;
    char  *bytes = golden_bytes(&n, golden);
    scratch_put(to, bytes, n);
    free(bytes);
}

static void folder(const char *name) { assert_int_equal(mkdir(scratch(name), 0777), 0); }

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
    scratch_put(scratch("train/n01/readme.txt"), "x", 1);
    scratch_put(scratch("train/list.txt"), "x", 1);
    copy_file(scratch("train/n02/c.Jpeg"), "444.jpg");
    copy_file(scratch("val/n02/v.jpg"), "444.jpg");
    assert_fails(opened(&s, scratch_dir, true), MBA_E_FORMAT, "val/n01' has no images");
    assert_int_equal(symlink("../classes/n00", scratch("train/n00")), 0);
    assert_fails(opened(&s, scratch_dir, false), MBA_E_FORMAT, "train/n00' is a broken link");
    unlink(scratch("train/n00"));
    assert_ok(opened(&s, scratch_dir, false));
    assert_int_equal(s->count, 3);
    assert_int_equal(s->classes, 2);
    assert_string_equal(s->kind->name, "folder");
    static const struct {
        const char *name;
        int         label;
    } want[] = { { "/a.jpg", 0 }, { "/b.JPEG", 0 }, { "/c.Jpeg", 1 } };
    for (int i = 0; i < 3; i++) {
        assert_ok(mba_image_set_read(s, i, &p));
        assert_int_equal(p.label, want[i].label);
        assert_int_equal(mba_image_set_label(s, i), want[i].label);
        assert_string_equal(mba_image_set_class(s, p.label), want[i].label ? "n02" : "n01");
        assert_non_null(strstr(p.name, want[i].name));
        assert_memory_equal(p.encoded, "\xff\xd8", 2);
    }
    unlink(scratch("train/n01/a.jpg"));
    assert_fails(mba_image_set_read(s, 0, &p), MBA_E_IO, "a.jpg");
    mba_sample_free(&p);
    mba_image_set_close(s);
    assert_int_equal(rmdir(scratch("val/n01")), 0); // what is held out keeps the numbers of train/
    assert_ok(opened(&s, scratch_dir, true));
    assert_int_equal(s->count, 1);
    assert_int_equal(s->classes, 2);
    assert_int_equal(mba_image_set_label(s, 0), 1);
    mba_image_set_close(s);
    folder("val/n03");
    copy_file(scratch("val/n03/v.jpg"), "444.jpg");
    assert_fails(opened(&s, scratch_dir, true), MBA_E_FORMAT, "val/n03' is not in the training part");
    assert_fails(opened(&s, scratch("train/n01"), false), MBA_E_FORMAT, "no class folders");
    assert_fails(opened(&s, scratch("nowhere"), false), MBA_E_IO, "neither a folder nor a .tar");
    scratch_remove();
}

static bool has_held_out(void)
{
    bool yes;
    assert_ok(mba_image_set_has_held_out(&yes, scratch_dir));
    return yes;
}

static mba_status part_of(mba_image_set **s, double part, bool validation)
{
    return mba_image_set_open(s,
                              &(mba_image_set_options){ .path = scratch_dir, .validation = validation, .part = part });
}

/* n images of a class, alternating JPEG and PNG. */
static void class_of_images(const char *name, int n)
{
    char path[128];
    folder(name);
    for (int i = 0; i < n; i++) {
        snprintf(path, sizeof path, "%s/%03d.%s", name, i, i % 2 ? "png" : "jpg");
        copy_file(scratch(path), i % 2 ? "really.png" : "grey.jpg");
    }
}

/* Reads every image of both parts; together they are all of the set, each once. */
static void parts_are_the_whole(double part, const int64_t *want_held)
{
    mba_image_set *rest, *held, *whole;
    mba_sample     p = { 0 };
    mba_image      m = { 0 };
    char           name[64][512];
    int64_t        seen = 0, count[3] = { 0 };
    assert_ok(opened(&whole, scratch_dir, false));
    assert_ok(part_of(&rest, part, false));
    assert_ok(part_of(&held, part, true));
    assert_true(whole->count <= 64 && rest->count + held->count == whole->count);
    assert_true(held->classes == whole->classes && rest->classes == whole->classes);
    assert_string_equal(held->kind->name, "folder");
    for (int64_t i = 0; i < whole->count; i++) {
        const bool first = i < rest->count;
        assert_ok(mba_image_set_read(first ? rest : held, first ? i : i - rest->count, &p));
        assert_ok(mba_image_decode(&m, p.name, p.encoded, p.encoded_bytes));
        assert_int_equal(p.label, mba_image_set_label(first ? rest : held, first ? i : i - rest->count));
        for (int64_t k = 0; k < seen; k++) assert_string_not_equal(name[k], p.name);
        snprintf(name[seen++], sizeof name[0], "%s", p.name);
        count[p.label] += !first;
    }
    for (int c = 0; c < 3; c++) assert_int_equal(count[c], want_held[c]);
    mba_image_set_close(whole);
    mba_image_set_close(rest);
    mba_image_set_close(held);
    mba_sample_free(&p);
    mba_image_free(&m);
}

/* Without val/ there is no held-out part, train/ is no class, and --validation takes a part evenly from the classes. */
static void a_part_is_held_out_evenly_by_class(void **state)
{
    (void)state;
    mba_image_set *s;
    scratch_make();
    folder("train");
    class_of_images("train/a", 20);
    class_of_images("train/b", 7);
    class_of_images("train/c", 1);
    assert_false(has_held_out());
    assert_ok(opened(&s, scratch_dir, false));
    assert_true(s->count == 28 && s->classes == 3);
    mba_image_set_close(s);
    assert_fails(opened(&s, scratch_dir, true), MBA_E_ARG, "has no validation part\nfix: put one into val/");
    parts_are_the_whole(0.1, (const int64_t[]){ 2, 1, 0 });
    parts_are_the_whole(0.5, (const int64_t[]){ 10, 4, 0 }); // 3.5 of the seven, and the one stays to be trained on
    parts_are_the_whole(0.9, (const int64_t[]){ 18, 6, 0 });
    assert_fails(part_of(&s, 0.01, true), MBA_E_ARG, "0.01 of 28 images is none");
    folder("val"); // its own part is what counts then
    class_of_images("val/b", 3);
    assert_true(has_held_out());
    assert_ok(part_of(&s, 0.1, true));
    assert_true(s->count == 3 && s->classes == 3 && mba_image_set_label(s, 0) == 1);
    mba_image_set_close(s);
    assert_ok(part_of(&s, 0.1, false));
    assert_int_equal(s->count, 28);
    mba_image_set_close(s);
    assert_int_equal(rename(scratch("train"), scratch("other")), 0);
    assert_fails(opened(&s, scratch_dir, false), MBA_E_IO, "has no images to train on\nwhy: it has a validation part");
    scratch_remove();
}

static void formats_that_cannot_be_read_are_not_passed_over(void **state)
{
    (void)state;
    mba_image_set *s;
    mba_sample     p = { 0 };
    mba_image      m = { 0 };
    scratch_make();
    class_of_images("a", 2);
    scratch_put(scratch("a/z.webp"), "RIFF....WEBPVP8 ", 16);
    assert_ok(opened(&s, scratch_dir, false));
    assert_int_equal(s->count, 3);
    assert_ok(mba_image_set_read(s, 2, &p));
    assert_fails(mba_image_decode(&m, p.name, p.encoded, p.encoded_bytes), MBA_E_UNSUPPORTED, "it is a WebP file");
    mba_image_set_close(s);
    mba_sample_free(&p);
    scratch_remove();
}

/* Folders of classes without train/: a class may be called test. */
static void a_class_may_have_the_name_of_a_part(void **state)
{
    (void)state;
    mba_image_set *s;
    scratch_make();
    class_of_images("control", 6);
    class_of_images("test", 6);
    assert_false(has_held_out());
    assert_ok(opened(&s, scratch_dir, false));
    assert_true(s->count == 12 && s->classes == 2);
    assert_string_equal(mba_image_set_class(s, 1), "test");
    mba_image_set_close(s);
    assert_ok(part_of(&s, 0.34, true));
    assert_int_equal(s->count, 4);
    mba_image_set_close(s);
    scratch_remove();
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
    scratch_put(path, bytes, (size_t)records * (size_t)(3072 + labels));
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
        assert_true(p.image.W == 32 && p.image.H == 32 && !p.encoded);
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
    scratch_put(scratch("ten/cifar-10-batches-bin/test_batch.bin"), "abc", 3);
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
    assert_int_equal(mba_image_set_label(s, 2), 200); /* as it is; only reading checks */
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
    static const uint8_t images[] = { 0, 0, 8, 3,  0,  0,  0,  2,  0, 0,  0,  2,  0,  0,
                                      0, 3, 0, 10, 20, 30, 40, 50, 5, 15, 25, 35, 45, 255 };
    uint8_t              labels[] = { 0, 0, 8, 1, 0, 0, 0, 2, 5, 7 };
    mba_image_set       *s;
    mba_sample           p = { 0 };
    scratch_make();
    scratch_put(scratch("train-images-idx3-ubyte"), images, sizeof images);
    scratch_put(scratch("train-labels.idx1-ubyte"), labels, sizeof labels);
    assert_ok(opened(&s, scratch_dir, false));
    assert_true(s->count == 2 && s->classes == 10 && s->W == 3 && s->H == 2);
    assert_ok(mba_image_set_read(s, 1, &p));
    assert_int_equal(p.label, 7);
    assert_int_equal(p.image.rgb[15], 255);
    assert_int_equal(p.image.rgb[17], 255);
    assert_int_equal(p.image.rgb[2], 5);
    mba_image_set_close(s);
    assert_fails(opened(&s, scratch_dir, true), MBA_E_ARG, "has no validation part");
    labels[9] = 10;
    scratch_put(scratch("train-labels.idx1-ubyte"), labels, sizeof labels);
    assert_fails(opened(&s, scratch_dir, false), MBA_E_FORMAT, "the label 10");
    labels[7] = 1;
    scratch_put(scratch("train-labels.idx1-ubyte"), labels, 9);
    assert_fails(opened(&s, scratch_dir, false), MBA_E_FORMAT, "2 images and 1 labels");
    mba_sample_free(&p);
    scratch_remove();
}

static void mnist_names_what_is_missing_or_wrong(void **state)
{
    (void)state;
    uint8_t images[] = { 0, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 9 }, labels[] = { 0, 0, 8, 1, 0, 0, 0, 1, 9 };
    static const uint8_t none[] = { 0, 0, 8, 3, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1 },
                         no_label[] = { 0, 0, 8, 1, 0, 0, 0, 0 };
    static const uint8_t flat[] = { 0, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1 };
    mba_image_set       *s;
    scratch_make();
    scratch_put(scratch("train-images-idx3-ubyte"), images, sizeof images);
    assert_fails(opened(&s, scratch_dir, false), MBA_E_IO, "has no train-labels-idx1-ubyte\n");
    scratch_put(scratch("train-labels-idx1-ubyte"), labels, sizeof labels);
    assert_ok(opened(&s, scratch_dir, false));
    assert_true(s->count == 1 && s->W == 1 && s->H == 1 && mba_image_set_label(s, 0) == 9);
    mba_image_set_close(s);
    scratch_put(scratch("t10k-images.idx3-ubyte"), images, sizeof images);
    assert_fails(opened(&s, scratch_dir, true), MBA_E_IO, "has no t10k-labels-idx1-ubyte\n");
    scratch_put(scratch("t10k-labels-idx1-ubyte"), labels, sizeof labels);
    assert_ok(opened(&s, scratch_dir, true));
    mba_image_set_close(s);
    scratch_put(scratch("train-labels-idx1-ubyte"), images, sizeof images);
    assert_fails(opened(&s, scratch_dir, false), MBA_E_FORMAT, "labels (N) bytes");
    scratch_put(scratch("train-labels-idx1-ubyte"), no_label, sizeof no_label);
    scratch_put(scratch("train-images-idx3-ubyte"), none, sizeof none);
    assert_fails(opened(&s, scratch_dir, false), MBA_E_FORMAT, "has 0 images and 0 labels");
    scratch_put(scratch("train-labels-idx1-ubyte"), labels, sizeof labels);
    scratch_put(scratch("train-images-idx3-ubyte"), labels, sizeof labels);
    assert_fails(opened(&s, scratch_dir, false), MBA_E_FORMAT, "images should be (N, H, W) bytes");
    scratch_put(scratch("train-images-idx3-ubyte"), flat, sizeof flat);
    assert_fails(opened(&s, scratch_dir, false), MBA_E_FORMAT, "1 to 4096 pixels a side");
    scratch_remove();
}

/* If the real sets are available (MBA_MNIST, MBA_CIFAR10: their directories): their known first labels and moments. */
static void moments(const mba_image_set *s)
{
    double     sum[3] = { 0 }, square[3] = { 0 }, n = 0;
    mba_sample p = { 0 };
    for (int64_t i = 0; i < s->count; i++) {
        assert_ok(mba_image_set_read(s, i, &p));
        n += s->W * s->H;
        for (int k = 0; k < s->W * s->H * 3; k++) {
            sum[k % 3] += p.image.rgb[k] / 255.0;
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
    } sets[] = { { "MBA_MNIST", 5, 7 }, { "MBA_CIFAR10", 6, 3 } };
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

/* ---- synthetic sets ---- */

static void made_up_sets_repeat_and_say_so(void **state)
{
    (void)state;
    static const char *const names[] = { "synthetic", "shapes" };
    for (int i = 0; i < 2; i++) {
        mba_image_set *s, *held;
        mba_sample     a = { 0 }, b = { 0 };
        assert_ok(mba_image_set_open(&s, &(mba_image_set_options){ .path = names[i], .seed = 3 }));
        assert_ok(
            mba_image_set_open(&held, &(mba_image_set_options){ .path = names[i], .seed = 3, .validation = true }));
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
    assert_fails(mba_image_set_open(&s, &(mba_image_set_options){ .path = "synthetic", .size = 5000 }), MBA_E_ARG,
                 "5000");
    assert_string_equal(mba_shapes_class(4), "ring");
}

/* No single pixel depends on the class: its mean over many images is the same for all classes. docs/image-data.md says
 * what a linear model still finds (tools/shapes_linear.py). */
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
    else skip();
}

MBA_TEST_MAIN(cmocka_unit_test(classes_are_numbered_by_name), cmocka_unit_test(a_wrong_label_is_left_out),
              cmocka_unit_test(a_part_is_held_out_evenly_by_class),
              cmocka_unit_test(a_class_may_have_the_name_of_a_part),
              cmocka_unit_test(formats_that_cannot_be_read_are_not_passed_over),
              cmocka_unit_test(cifar_planes_become_pixels), cmocka_unit_test(idx_headers_are_read_and_checked),
              cmocka_unit_test(mnist_pairs_images_and_labels), cmocka_unit_test(mnist_names_what_is_missing_or_wrong),
              cmocka_unit_test(real_sets_have_their_known_values), cmocka_unit_test(made_up_sets_repeat_and_say_so),
              cmocka_unit_test(pixels_of_shapes_say_nothing_by_themselves),
              cmocka_unit_test(shapes_are_written_when_asked_for))
