// SPDX-License-Identifier: Apache-2.0
/* image_shards.c -- WebDataset shards: tar archives in which files with the same name up to the first dot are one
 * sample, `x.jpg` (or .jpeg, .png) its image and `x.cls` its class in decimal, or `x.json` an object with it. Other
 * fields are ignored.
 *
 * Opening reads all headers once and keeps 32 bytes per sample; then any sample can be read directly from the mapped
 * file. So an epoch is a permutation of all samples and resumes exactly. */
#include "data/image_set.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/file.h"
#include "core/lookup.h"
#include "data/array.h"
#include "data/json.h"
#include "data/listing.h"
#include "data/tar.h"

enum { LABEL_MAX = 1000000 };

typedef struct entry {
    const uint8_t *image;
    int64_t        bytes;
    int32_t        shard, label;
} entry;

typedef struct image_shards {
    mba_image_set set;
    mba_listing   files;
    mba_map      *map; /* one per file; not used for bytes in memory */
    entry        *image;
    int64_t       room;
} image_shards;

static void shards_close(mba_image_set *s)
{
    image_shards *f = (image_shards *)s;
    for (int64_t i = 0; f->map && i < f->files.n; i++) mba_file_unmap(&f->map[i]);
    mba_listing_free(&f->files);
    free(f->map);
    free(f->image);
    free(f);
}

static mba_status shards_read(const mba_image_set *s, int64_t number, mba_sample *out)
{
    const image_shards *f = (const image_shards *)s;
    const entry        *e = f->image + number;
    snprintf(out->name, sizeof out->name, "%s, image %" PRId64, f->files.name[e->shard], number);
    out->encoded = e->image;
    out->encoded_bytes = (size_t)e->bytes;
    out->label = e->label;
    return MBA_OK;
}

static int32_t shards_label(const mba_image_set *s, int64_t number)
{
    return ((const image_shards *)s)->image[number].label;
}

static const mba_image_kind kind = { "shards", shards_read, shards_close, shards_label, NULL };

/* ---- samples ---- */

/* A sample whose files are being collected. */
typedef struct sample {
    char           key[MBA_TAR_NAME];
    const uint8_t *image, *json;
    int64_t        bytes, json_bytes;
    int32_t        label;       /* -1: not seen yet */
    bool           open, other; /* other: has an image that is neither JPEG nor PNG */
} sample;

static mba_status wrong(const char *file, const char *key, const char *why)
{
    return mba_fail(MBA_E_FORMAT,
                    "the sample '%s' of '%s' cannot be used\nwhy: %s\n"
                    "fix: a sample consists of NAME.jpg (or .jpeg, .png) and then NAME.cls with the class as a "
                    "number; or NAME.json with the class as \"label\" instead of the .cls",
                    mba_quote(key).text, file, why);
}

/* Parses decimal digits, perhaps with blanks around them; -1: anything else. */
static int32_t parse_label(const uint8_t *p, size_t n)
{
    size_t  i = 0;
    int32_t label = 0;
    while (n && (p[n - 1] == '\n' || p[n - 1] == '\r' || p[n - 1] == ' ')) n--;
    while (i < n && p[i] == ' ') i++;
    if (i == n) return -1;
    for (; i < n; i++) {
        if (p[i] < '0' || p[i] > '9' || label > LABEL_MAX) return -1;
        label = label * 10 + (p[i] - '0');
    }
    return label <= LABEL_MAX ? label : -1;
}

/* The label in a JSON value: a number, or its digits as a string; -1: anything else. */
static int32_t label_of_value(const json_t *v)
{
    double number;
    if (json_is_string(v)) return parse_label((const uint8_t *)json_string_value(v), json_string_length(v));
    if (!mba_json_number(v, &number) || !(number >= 0 && number <= LABEL_MAX) || number != floor(number)) return -1;
    return (int32_t)number;
}

/* Takes the first of the usual keys that has a number: "class_id" may be a WordNet name, and then "label" is a
 * number. */
static mba_status label_of_json(int32_t *label, const char *file, const sample *s)
{
    static const char *const key[] = { "cls", "label", "target", "class", "class_id" };
    json_t                  *o = NULL;
    const mba_status         st = mba_json_parse(&o, s->key, (const char *)s->json, (size_t)s->json_bytes, NULL);
    if (st != MBA_OK) return st == MBA_E_FORMAT ? wrong(file, s->key, "its .json is no sound JSON object") : st;
    for (size_t i = 0; i < sizeof key / sizeof *key && *label < 0; i++) {
        const json_t *v = mba_json_get(o, key[i]);
        if (v) *label = label_of_value(v);
    }
    json_decref(o);
    if (*label >= 0) return MBA_OK;
    return wrong(file, s->key,
                 "its .json has no number below 10^6 as \"cls\", \"label\", \"target\", \"class\" or "
                 "\"class_id\", and there is no .cls");
}

static mba_status finish(image_shards *f, sample *s)
{
    const char *file = f->files.name[f->files.n - 1];
    if (!s->open) return MBA_OK;
    s->open = false;
    if (!s->image)
        return wrong(file, s->key, s->other ? "its image is neither a JPEG nor a PNG" : "it has no .jpg or .png");
    if (s->label < 0 && !s->json) return wrong(file, s->key, "it has no .cls and no .json");
    if (s->label < 0) MBA_TRY(label_of_json(&s->label, file, s));
    entry *more = mba_grow(f->image, f->set.count, &f->room, sizeof *more);
    if (!more) return mba_fail(MBA_E_NOMEM, "no memory for the index of '%s'", file);
    f->image = more;
    f->image[f->set.count++] =
        (entry){ .image = s->image, .bytes = s->bytes, .shard = (int32_t)(f->files.n - 1), .label = s->label };
    if (s->label >= f->set.classes) f->set.classes = s->label + 1;
    return MBA_OK;
}

static mba_status take_member(image_shards *f, sample *s, const mba_tar_member *m)
{
    const char  *slash = strrchr(m->name, '/'), *base = slash ? slash + 1 : m->name, *dot = strchr(base, '.');
    const char  *field = dot ? dot + 1 : "";
    const size_t key = (size_t)((dot ? dot : base + strlen(base)) - m->name);
    if (base == dot) return MBA_OK; // hidden
    if (!s->open || strlen(s->key) != key || memcmp(s->key, m->name, key)) {
        MBA_TRY(finish(f, s));
        *s = (sample){ .label = -1, .open = true };
        memcpy(s->key, m->name, key);
    }
    const char *file = f->files.name[f->files.n - 1];
    if (!strcasecmp(field, "jpg") || !strcasecmp(field, "jpeg") || !strcasecmp(field, "png")) {
        if (s->image) return wrong(file, s->key, "it has two images");
        s->image = m->data;
        s->bytes = (int64_t)m->bytes;
    } else if (!strcmp(field, "cls")) {
        if (s->label >= 0) return wrong(file, s->key, "it has two classes");
        s->label = parse_label(m->data, m->bytes);
        if (s->label < 0) return wrong(file, s->key, "its .cls is no number below 10^6");
    } else if (!strcmp(field, "json")) {
        if (s->json) return wrong(file, s->key, "it has two .json");
        s->json = m->data;
        s->json_bytes = (int64_t)m->bytes;
    } else if (!strcasecmp(field, "webp") || !strcasecmp(field, "gif") || !strcasecmp(field, "tif")
               || !strcasecmp(field, "tiff") || !strcasecmp(field, "bmp") || !strcasecmp(field, "ppm")) {
        s->other = true;
    }
    return MBA_OK;
}

static mba_status read_shard(image_shards *f, const void *bytes, size_t n)
{
    mba_tar        t = mba_tar_start(f->files.name[f->files.n - 1], bytes, n);
    sample         s = { .label = -1 };
    mba_tar_member m;
    const int64_t  before = f->set.count;
    for (;;) {
        MBA_TRY(mba_tar_next(&t, &m));
        if (!m.data) break;
        MBA_TRY(take_member(f, &s, &m));
    }
    MBA_TRY(finish(f, &s));
    if (f->set.count > before) return MBA_OK;
    return mba_fail(MBA_E_FORMAT,
                    "the shard '%s' has no images\nwhy: it has no NAME.jpg or NAME.png with a class\n"
                    "fix: leave it out, or write it again",
                    t.file);
}

/* ---- opening ---- */

static image_shards *new_shards(void)
{
    image_shards *f = calloc(1, sizeof *f);
    if (f) f->set = (mba_image_set){ .kind = &kind, .colours = mba_colours_imagenet };
    return f;
}

static bool is_tar(const char *name) { return mba_ends_with(name, ".tar"); }

/* True if a shard belongs to the part, for names such as x-train-000.tar and x-val-000.tar. */
static bool is_part(const char *path, bool validation)
{
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    return (strstr(base, "val") != NULL) == validation;
}

static bool has_part(const mba_listing *l, bool validation)
{
    for (int64_t i = 0; i < l->n; i++)
        if (is_part(l->name[i], validation)) return true;
    return false;
}

static mba_status open_shard(image_shards *f, const char *path)
{
    MBA_TRY(mba_listing_add(&f->files, path));
    mba_map *m = &f->map[f->files.n - 1];
    MBA_TRY(mba_file_map(m, path));
    return read_shard(f, m->data, m->bytes);
}

static mba_status open_shards(image_shards *f, const mba_listing *paths, const mba_image_set_options *o)
{
    const bool choose = has_part(paths, true) && has_part(paths, false);
    if (paths->n < 1)
        return mba_fail(MBA_E_IO, "there are no shards at '%s'\nwhy: it has no .tar file\nfix: check the path",
                        o->path);
    if (!(f->map = calloc((size_t)paths->n, sizeof *f->map)))
        return mba_fail(MBA_E_NOMEM, "no memory for %" PRId64 " shards", paths->n);
    for (int64_t i = 0; i < paths->n; i++)
        if (!choose || is_part(paths->name[i], o->validation)) MBA_TRY(open_shard(f, paths->name[i]));
    if (o->classes && f->set.classes > o->classes)
        return mba_fail(MBA_E_FORMAT,
                        "the shards have the label %" PRId64 ", there are %" PRId64 " classes\nwhy: a sample of "
                        "'%s' says so\nfix: give the right number of classes",
                        f->set.classes - 1, o->classes, o->path);
    if (o->classes) f->set.classes = o->classes;
    return MBA_OK;
}

static mba_status list_shards(mba_listing *paths, const char *path)
{
    return mba_is_folder(path) ? mba_listing_paths(paths, path, is_tar)
           : mba_is_file(path) ? mba_listing_add(paths, path)
                               : mba_listing_glob(paths, path);
}

mba_status mba__shards_have_parts(bool *yes, const char *path)
{
    mba_listing l = { 0 };
    mba_status  st = list_shards(&l, path);
    *yes = has_part(&l, true) && has_part(&l, false);
    mba_listing_free(&l);
    return st;
}

mba_status mba_image_shards_open(mba_image_set **out, const mba_image_set_options *o)
{
    image_shards *f = new_shards();
    mba_listing   paths = { 0 };
    if (!f) return mba_fail(MBA_E_NOMEM, "no memory to open '%s'", o->path);
    mba_status st = list_shards(&paths, o->path);
    if (st == MBA_OK) st = open_shards(f, &paths, o);
    mba_listing_free(&paths);
    if (st == MBA_OK) *out = &f->set;
    else shards_close(&f->set);
    return st;
}

mba_status mba_image_shards_open_bytes(mba_image_set **out, const char *name, const void *bytes, size_t n)
{
    image_shards *f = new_shards();
    if (!f) return mba_fail(MBA_E_NOMEM, "no memory to open '%s'", name);
    mba_status st = mba_listing_add(&f->files, name);
    if (st == MBA_OK) st = read_shard(f, bytes, n);
    if (st == MBA_OK) *out = &f->set;
    else shards_close(&f->set);
    return st;
}
