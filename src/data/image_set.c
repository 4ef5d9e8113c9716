// SPDX-License-Identifier: Apache-2.0
/* image_set.c -- see image_set.h: recognises the kind of set at a path and opens its part. */
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
    out->encoded = NULL;
    out->encoded_bytes = 0;
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

/* True if the folder has one of the names (the list ends with NULL). */
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
    mba_listing l = { 0 };
    mba_status  st = mba_listing_read(&l, folder, is_tar);
    *yes = l.n > 0;
    mba_listing_free(&l);
    return st;
}

static mba_status holds_folders(bool *yes, const char *folder)
{
    mba_listing l = { 0 };
    mba_status  st = mba_listing_read(&l, folder, NULL);
    *yes = false;
    for (int64_t i = 0; st == MBA_OK && i < l.n && !*yes; i++) {
        char path[MBA_PATH];
        *yes = snprintf(path, sizeof path, "%s/%s", folder, l.name[i]) < MBA_PATH && mba_is_folder(path);
    }
    mba_listing_free(&l);
    return st;
}

/* ---- parts in separate folders ---- */

static bool has_part(char part[MBA_PATH], const char *path, const char *name)
{
    return snprintf(part, MBA_PATH, "%s/%s", path, name) < MBA_PATH && mba_is_folder(part);
}

static bool find_train(char part[MBA_PATH], const char *path) { return has_part(part, path, "train"); }

/* A class may have the name of a part. Without a train/ beside it, a folder is a part only if it holds classes or
 * shards. */
static mba_status find_held_out(bool *found, char part[MBA_PATH], const char *path)
{
    static const char *const name[] = { "val", "validation", "test" };
    char                     train[MBA_PATH];
    const bool               split = find_train(train, path);
    *found = false;
    for (size_t i = 0; i < sizeof name / sizeof *name && !*found; i++) {
        bool folders = false, tars = false;
        if (!has_part(part, path, name[i])) continue;
        if (!split) MBA_TRY(holds_folders(&folders, part));
        if (!split) MBA_TRY(holds_tars(&tars, part));
        *found = split || folders || tars;
    }
    return MBA_OK;
}

/* Classes keep the numbers of the training part, even if the held-out part lacks some. */
static mba_status open_part(mba_image_set **out, const mba_image_set_options *o)
{
    mba_image_set_options part = *o;
    char                  train[MBA_PATH], held[MBA_PATH];
    bool                  tars = false, train_tars = false, has_held = false;
    const bool            has_train = find_train(train, o->path);
    MBA_TRY(find_held_out(&has_held, held, o->path));
    if (!o->validation && has_held && !has_train)
        return mba_fail(MBA_E_IO,
                        "'%s' has no images to train on\nwhy: it has a validation part, '%s', but no "
                        "train/\nfix: put the training part into '%s/train', or give the validation part itself",
                        o->path, held, o->path);
    if (o->validation && has_held) part.path = held;
    else if (has_train) part.path = train;
    MBA_TRY(holds_tars(&tars, part.path));
    if (has_train) MBA_TRY(holds_tars(&train_tars, train));
    if (o->validation && has_held && has_train && !train_tars) part.classes_of = train;
    return tars ? mba_image_shards_open(out, &part) : mba_image_folder_open(out, &part);
}

mba_status mba_image_set_has_held_out(bool *yes, const char *path)
{
    static const char *const file[] = { "test_batch.bin",
                                        "test.bin",
                                        "t10k-images-idx3-ubyte",
                                        "t10k-images.idx3-ubyte",
                                        "t10k-images-idx3-ubyte.gz",
                                        NULL };
    char                     part[MBA_PATH];
    *yes = !strcmp(path, "shapes") || !strcmp(path, "synthetic");
    if (*yes) return MBA_OK;
    if (mba_is_folder(path)) MBA_TRY(find_held_out(yes, part, path));
    if (mba_is_folder(path) && !*yes) *yes = holds(path, file);
    return *yes ? MBA_OK : mba__shards_have_parts(yes, path);
}

static mba_status open_folder(mba_image_set **out, const mba_image_set_options *o)
{
    static const char *const cifar[] = { "data_batch_1.bin", "test_batch.bin", "train.bin", "test.bin", NULL };
    static const char *const mnist[] = { "train-images-idx3-ubyte",    "t10k-images-idx3-ubyte",
                                         "train-images.idx3-ubyte",    "t10k-images.idx3-ubyte",
                                         "train-images-idx3-ubyte.gz", NULL };
    if (holds(o->path, cifar)) return mba_cifar_open(out, o);
    if (holds(o->path, mnist)) return mba_mnist_open(out, o);
    return open_part(out, o);
}

static mba_status open_any(mba_image_set **out, const mba_image_set_options *o)
{
    if (!strcmp(o->path, "synthetic")) return mba_image_synthetic_create(out, o);
    if (!strcmp(o->path, "shapes")) return mba_image_shapes_create(out, o);
    if (mba_is_folder(o->path)) return open_folder(out, o);
    if (is_tar(o->path)) return mba_image_shards_open(out, o);
    return mba_fail(MBA_E_IO,
                    "there are no images at '%s'\nwhy: it is neither a folder nor a .tar\nfix: give a "
                    "folder with one folder per class, .tar shards, or CIFAR or MNIST files; \"shapes\" and "
                    "\"synthetic\" are generated",
                    o->path);
}

mba_status mba_image_set_open(mba_image_set **out, const mba_image_set_options *o)
{
    mba_image_set_options whole = *o;
    bool                  has_held;
    MBA_TRY(mba_image_set_has_held_out(&has_held, o->path));
    if (has_held || (!o->validation && !(o->part > 0))) return open_any(out, o);
    if (!(o->part > 0))
        return mba_fail(MBA_E_ARG,
                        "'%s' has no validation part\nfix: put one into val/, or add "
                        "--valid-fraction 0.1 to hold out a tenth of it",
                        o->path);
    whole.validation = false;
    MBA_TRY(open_any(out, &whole));
    return mba_image_set_split(out, o->part, o->validation);
}
