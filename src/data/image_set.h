// SPDX-License-Identifier: Apache-2.0
/* image_set.h -- sets of labelled images, read by number: folders, tar shards, CIFAR, MNIST, synthetic.
 *
 *     mba_image_set *s;
 *     MBA_TRY(mba_image_set_open(&s, &(mba_image_set_options){ .path = "imagenet" }));      // its training part
 *     mba_sample sample = { 0 };
 *     MBA_TRY(mba_image_set_read(s, 17, &sample));           // sample.label; sample.encoded or sample.image
 *     mba_sample_free(&sample);
 *     mba_image_set_close(s);                                // NULL is fine
 *
 * A path is one of
 *   a directory with a folder per class, or with train/ and perhaps val/ that have such folders: ImageNet as unpacked
 *   a directory of *.tar, one .tar or a glob: WebDataset shards
 *   a directory with the binary files of CIFAR-10 or CIFAR-100, or with the four IDX files of MNIST
 *   "synthetic" or "shapes": generated images, and labelled so
 * Several threads may read at once, each with its own sample. */
#ifndef MBA_IMAGE_SET_H
#define MBA_IMAGE_SET_H

#include <stdbool.h>

#include "data/image_ops.h"

/* One image as stored in the set: a JPEG or PNG file, or pixels. A sample keeps its memory from one read to the
 * next. */
typedef struct mba_sample {
    int32_t     label;
    const void *encoded; /* the file, for image.h; NULL: the pixels are in `image` */
    size_t      encoded_bytes;
    mba_image   image;
    char        name[512]; /* for messages */
    char       *file;      /* for the set: memory of `encoded`, if it was read from a file */
} mba_sample;

void mba_sample_free(mba_sample *s); /* zeroed ones are fine */

typedef struct mba_image_set mba_image_set;

typedef struct mba_image_kind {
    const char *name;
    mba_status (*read)(const mba_image_set *s, int64_t number, mba_sample *out);
    void (*close)(mba_image_set *s);
    int32_t (*label)(const mba_image_set *s, int64_t number);
    const char *(*class_name)(const mba_image_set *s, int32_t label); /* NULL: classes are numbers */
} mba_image_kind;

/* The first member of every set. */
struct mba_image_set {
    const mba_image_kind *kind;
    int64_t               count, classes;
    int32_t               W, H;    /* of every image; 0: sizes differ */
    bool                  made_up; /* generated images */
    mba_colours           colours; /* the usual normalisation */
};

typedef struct mba_image_set_options {
    const char *path;
    bool        validation; /* the held-out part: val/, test_batch.bin, test.bin, t10k-*, or `part` */
    double      part;       /* fraction to hold out of a set without a held-out part, below 1; 0: nothing */
    int64_t     classes;    /* shards: labels are below it, 0: largest + 1; synthetic: 0 is 10 */
    int64_t     count;      /* generated sets: 0 is 50000, or 10000 for validation */
    int32_t     size;       /* synthetic: width and height, 0: 256 .. 512 */
    uint64_t    seed;       /* generated sets */
    const char *classes_of; /* a folder per class: folder whose names number the classes; NULL: path */
} mba_image_set_options;

MBA_MUST mba_status mba_image_set_open(mba_image_set **out, const mba_image_set_options *o);
void                mba_image_set_close(mba_image_set *s);

/* True if the set has a held-out part of its own. Otherwise asking for one without `part` is MBA_E_ARG. */
MBA_MUST mba_status mba_image_set_has_held_out(bool *yes, const char *path);

/* Turns a whole set into its held-out part, or into the rest; a failure closes the set. Of the n images of a class,
 * n * part are held out, rounded up or down so that the sum over the classes is right, but never all. A random order
 * that depends only on n decides which. Both parts have all classes, and the order of the whole set. */
MBA_MUST mba_status mba_image_set_split(mba_image_set **set, double part, bool held_out);

/* 0 <= number < count. Fails with MBA_E_FORMAT if this image is damaged. */
MBA_MUST mba_status mba_image_set_read(const mba_image_set *s, int64_t number, mba_sample *out);

/* The label alone, without reading the image. That of CIFAR is checked only when the image is read. */
int32_t mba_image_set_label(const mba_image_set *s, int64_t number);
/* Lends the name of a class; NULL: this set only numbers classes. 0 <= label < classes. */
const char *mba_image_set_class(const mba_image_set *s, int32_t label);

/* Finds a file of a known set, in the folder or in the subfolder that its archive unpacks to; false: not found. */
enum { MBA_PATH = 4096 };
bool mba__set_file(char path[MBA_PATH], const char *folder, const char *name);

/* The kinds of sets; here the path is the folder of the classes or shards itself. */
MBA_MUST mba_status mba_image_folder_open(mba_image_set **out, const mba_image_set_options *o);
MBA_MUST mba_status mba_image_shards_open(mba_image_set **out, const mba_image_set_options *o);
MBA_MUST mba_status mba_cifar_open(mba_image_set **out, const mba_image_set_options *o);
MBA_MUST mba_status mba_mnist_open(mba_image_set **out, const mba_image_set_options *o);
MBA_MUST mba_status mba_image_synthetic_create(mba_image_set **out, const mba_image_set_options *o);
MBA_MUST mba_status mba_image_shapes_create(mba_image_set **out, const mba_image_set_options *o);

/* True if the names of the shards tell parts apart, such as x-train-000.tar and x-val-000.tar. */
MBA_MUST mba_status mba__shards_have_parts(bool *yes, const char *path);

/* CIFAR records and a tar shard from memory, which must outlive the set; `fine` is CIFAR-100. */
MBA_MUST mba_status mba_cifar_open_bytes(mba_image_set **out, const char *name, const void *bytes, size_t n, bool fine);
MBA_MUST mba_status mba_image_shards_open_bytes(mba_image_set **out, const char *name, const void *bytes, size_t n);

/* Ten classes of shapes: disc, square, .. */
const char *mba_shapes_class(int32_t label);

#endif
