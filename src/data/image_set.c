/* image_set.c -- see image_set.h: which kind of set a path names. */
#include "data/image_set.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/listing.h"

void mba_sample_free(mba_sample *s)
{
    mba_image_free(&s->image);
    free(s->file);
    *s = (mba_sample){ 0 };
}

void mba_image_set_close(mba_image_set *s)
{
    if (s) s->kind->close(s);
}

mba_status mba_image_set_read(const mba_image_set *s, int64_t number, mba_sample *out)
{
    mba_assert(number >= 0 && number < s->count);
    out->jpeg       = NULL;
    out->jpeg_bytes = 0;
    return s->kind->read(s, number, out);
}

int32_t mba_image_set_label(const mba_image_set *s, int64_t number)
{
    mba_assert(number >= 0 && number < s->count);
    return s->kind->label(s, number);
}

const char *mba_image_set_class(const mba_image_set *s, int32_t label)
{
    mba_assert(label >= 0 && label < s->classes);
    return s->kind->class_name ? s->kind->class_name(s, label) : NULL;
}

bool mba__set_file(char path[MBA_PATH], const char *folder, const char *name)
{
    static const char *const below[] = { "", "/cifar-10-batches-bin", "/cifar-100-binary", "/raw", "/MNIST/raw" };
    for (size_t i = 0; i < sizeof below / sizeof *below; i++)
        if (snprintf(path, MBA_PATH, "%s%s/%s", folder, below[i], name) < MBA_PATH && mba_is_file(path)) return true;
    return false;
}

/* True: one of the names, ended by NULL, is there. */
static bool holds(const char *folder, const char *const *names)
{
    char path[MBA_PATH];
    for (; *names; names++)
        if (mba__set_file(path, folder, *names)) return true;
    return false;
}

static bool is_tar(const char *name) { return mba_ends_with(name, ".tar"); }

static mba_status holds_tars(bool *yes, const char *folder)
{
    mba_listing l  = { 0 };
    mba_status  st = mba_listing_read(&l, folder, is_tar);
    *yes           = l.n > 0;
    mba_listing_free(&l);
    return st;
}

/* path/train or path/val where there is one, else path; NULL: no memory. */
static char *choose_part(const char *path, bool validation)
{
    static const char *const train[] = { "train", NULL }, *const held[] = { "val", "validation", "test", NULL };
    char                    *inner;
    for (const char *const *p = validation ? held : train; *p; p++) {
        if (asprintf(&inner, "%s/%s", path, *p) < 0) return NULL;
        if (mba_is_folder(inner)) return inner;
        free(inner);
    }
    return strdup(path);
}

/* Classes have the numbers they are trained with, also where the held-out part lacks some. */
static mba_status open_part(mba_image_set **out, const mba_image_set_options *o)
{
    mba_image_set_options part = *o;
    char                 *path = choose_part(o->path, o->validation), *train = choose_part(o->path, false);
    bool                  tars = false, train_tars = false;
    mba_status            st   = path && train ? MBA_OK : mba_fail(MBA_E_NOMEM, "no memory to open '%s'", o->path);
    part.path = path;
    if (st == MBA_OK) st = holds_tars(&tars, path);
    if (st == MBA_OK) st = holds_tars(&train_tars, train);
    if (st == MBA_OK && !train_tars && strcmp(path, o->path) && strcmp(train, o->path)) part.classes_of = train;
    if (st == MBA_OK) st = tars ? mba_image_shards_open(out, &part) : mba_image_folder_open(out, &part);
    free(path);
    free(train);
    return st;
}

static mba_status open_folder(mba_image_set **out, const mba_image_set_options *o)
{
    static const char *const cifar[] = { "data_batch_1.bin", "test_batch.bin", "train.bin", "test.bin", NULL };
    static const char *const mnist[] = { "train-images-idx3-ubyte", "t10k-images-idx3-ubyte", "train-images.idx3-ubyte",
                                         "t10k-images.idx3-ubyte", "train-images-idx3-ubyte.gz", NULL };
    if (holds(o->path, cifar)) return mba_cifar_open(out, o);
    if (holds(o->path, mnist)) return mba_mnist_open(out, o);
    return open_part(out, o);
}

mba_status mba_image_set_open(mba_image_set **out, const mba_image_set_options *o)
{
    if (!strcmp(o->path, "synthetic")) return mba_image_synthetic_create(out, o);
    if (!strcmp(o->path, "shapes")) return mba_image_shapes_create(out, o);
    if (mba_is_folder(o->path)) return open_folder(out, o);
    if (is_tar(o->path)) return mba_image_shards_open(out, o);
    return mba_fail(MBA_E_IO, "no images at '%s'\nwhy: it is neither a directory nor a .tar\n"
                    "fix: name a directory with a folder per class, .tar shards, or one with CIFAR or MNIST files; "
                    "\"shapes\" and \"synthetic\" are made up", o->path);
}
