// SPDX-License-Identifier: Apache-2.0
/* image_folder.c -- a folder per class: path/<class>/<image> (.jpg, .jpeg or .png), classes numbered in the byte-wise
 * order of their names. Names are kept in one block: ImageNet has 1.3 million. */
#include "data/image_set.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/file.h"
#include "data/listing.h"

enum { FILE_MAX = 1 << 28 };

typedef struct entry {
    int64_t name; /* where it begins in `names` */
    int32_t label;
} entry;

typedef struct image_folder {
    mba_image_set set;
    char         *path;
    mba_listing   classes;
    entry        *image;
    int64_t       room;
    char         *names;
    int64_t       used, names_room;
} image_folder;

static void folder_close(mba_image_set *s)
{
    image_folder *f = (image_folder *)s;
    mba_listing_free(&f->classes);
    free(f->path);
    free(f->image);
    free(f->names);
    free(f);
}

static mba_status folder_read(const mba_image_set *s, int64_t number, mba_sample *out)
{
    const image_folder *f = (const image_folder *)s;
    const entry        *e = f->image + number;
    char               *path;
    if (asprintf(&path, "%s/%s/%s", f->path, f->classes.name[e->label], f->names + e->name) < 0)
        return mba_fail(MBA_E_NOMEM, "no memory for the name of an image");
    snprintf(out->name, sizeof out->name, "%s", path);
    free(out->file);
    out->file = NULL;
    out->label = e->label;
    mba_status st = mba_file_read(&out->file, &out->encoded_bytes, path, FILE_MAX);
    out->encoded = out->file;
    free(path);
    return st;
}

static int32_t folder_label(const mba_image_set *s, int64_t number)
{
    return ((const image_folder *)s)->image[number].label;
}

static const char *folder_class(const mba_image_set *s, int32_t label)
{
    return ((const image_folder *)s)->classes.name[label];
}

static const mba_image_kind kind = { "folder", folder_read, folder_close, folder_label, folder_class };

/* ---- opening ---- */

/* True for names of images, also in formats that cannot be decoded: the loader then replaces and counts them. */
static bool is_image(const char *name)
{
    static const char *const ending[] = { ".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff" };
    for (size_t i = 0; i < sizeof ending / sizeof *ending; i++)
        if (mba_ends_with(name, ending[i])) return true;
    return false;
}

static mba_status add_image(image_folder *f, const char *name, int32_t label)
{
    const int64_t n = (int64_t)strlen(name) + 1;
    if (f->set.count == f->room) {
        const int64_t room = f->room ? 2 * f->room : 1024;
        entry        *bigger = realloc(f->image, (size_t)room * sizeof *bigger);
        if (!bigger) return mba_fail(MBA_E_NOMEM, "no memory for the names of the images");
        f->image = bigger;
        f->room = room;
    }
    if (f->used + n > f->names_room) {
        const int64_t room = 2 * f->names_room + n + 4096;
        char         *bigger = realloc(f->names, (size_t)room);
        if (!bigger) return mba_fail(MBA_E_NOMEM, "no memory for the names of the images");
        f->names = bigger;
        f->names_room = room;
    }
    memcpy(f->names + f->used, name, (size_t)n);
    f->image[f->set.count++] = (entry){ .name = f->used, .label = label };
    f->used += n;
    return MBA_OK;
}

static mba_status read_class(image_folder *f, int32_t label)
{
    char       *path;
    mba_listing l = { 0 };
    if (asprintf(&path, "%s/%s", f->path, f->classes.name[label]) < 0)
        return mba_fail(MBA_E_NOMEM, "no memory for the name of a class");
    mba_status st = mba_listing_read(&l, path, is_image);
    for (int64_t i = 0; st == MBA_OK && i < l.n; i++) st = add_image(f, l.name[i], label);
    if (st == MBA_OK && !l.n)
        st = mba_fail(MBA_E_FORMAT,
                      "the class folder '%s' has no images\nwhy: it has no .jpg, .jpeg or .png file\n"
                      "fix: unpack the class again, or remove the empty folder",
                      path);
    mba_listing_free(&l);
    free(path);
    return st;
}

static bool is_broken_link(const char *path)
{
    struct stat s;
    return lstat(path, &s) == 0 && S_ISLNK(s.st_mode) && stat(path, &s) != 0;
}

/* The folders in a folder, by name. */
static mba_status find_folders(mba_listing *l, const char *in)
{
    int64_t kept = 0;
    MBA_TRY(mba_listing_read(l, in, NULL));
    for (int64_t i = 0; i < l->n; i++) {
        char *path, *name = l->name[i];
        if (asprintf(&path, "%s/%s", in, name) < 0) path = NULL;
        const bool folder = path && mba_is_folder(path), gone = path && is_broken_link(path);
        free(path);
        if (gone) // skipping it would change the numbers of later classes
            return mba_fail(MBA_E_FORMAT,
                            "'%s/%s' is a broken link\nwhy: it may have been a class folder\nfix: "
                            "restore its target, or remove the link",
                            in, name);
        l->name[i] = l->name[kept];
        l->name[kept] = name;
        kept += folder;
    }
    while (l->n > kept) free(l->name[--l->n]);
    if (kept > 0 && kept <= INT32_MAX) return MBA_OK;
    return mba_fail(MBA_E_FORMAT,
                    "there are no images at '%s'\nwhy: it has no class folders, no .tar shards and no CIFAR or "
                    "MNIST files\nfix: give the folder that holds train/ and val/, or one folder per class",
                    in);
}

static mba_status read_classes(image_folder *f, const char *classes_of)
{
    mba_listing there = { 0 };
    int64_t     label = 0;
    mba_status  st = find_folders(&there, f->path);
    if (st == MBA_OK) st = find_folders(&f->classes, classes_of ? classes_of : f->path);
    for (int64_t i = 0; st == MBA_OK && i < there.n; i++) { // both lists are sorted
        while (label < f->classes.n && strcmp(f->classes.name[label], there.name[i]) < 0) label++;
        if (label == f->classes.n || strcmp(f->classes.name[label], there.name[i]))
            st = mba_fail(MBA_E_FORMAT,
                          "the class '%s/%s' is not in the training part\nwhy: '%s' has no such "
                          "folder\nfix: remove the folder, or rename it",
                          f->path, there.name[i], classes_of);
        else st = read_class(f, (int32_t)label);
    }
    mba_listing_free(&there);
    return st;
}

mba_status mba_image_folder_open(mba_image_set **out, const mba_image_set_options *o)
{
    image_folder *f = calloc(1, sizeof *f);
    if (!f || !(f->path = strdup(o->path))) {
        free(f);
        return mba_fail(MBA_E_NOMEM, "no memory to open '%s'", o->path);
    }
    f->set = (mba_image_set){ .kind = &kind, .colours = mba_colours_imagenet };
    mba_status st = read_classes(f, o->classes_of);
    f->set.classes = f->classes.n;
    if (st == MBA_OK) *out = &f->set;
    else folder_close(&f->set);
    return st;
}
