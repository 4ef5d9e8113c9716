// SPDX-License-Identifier: Apache-2.0
/* cifar.c -- CIFAR-10 and CIFAR-100, binary version: records of one label (two: coarse and fine) and 32 x 32 pixels as
 * three planes. No header, so the size of a file must be whole records and every label in its range. */
#include "data/image_set.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/file.h"

enum { SIDE = 32, PLANE = SIDE * SIDE, FILES_MAX = 5, NAME_MAX_BYTES = 256 };

typedef struct part {
    char           name[NAME_MAX_BYTES];
    const uint8_t *bytes;
    int64_t        count;
    mba_map        map;
} part;

typedef struct cifar {
    mba_image_set set;
    part          file[FILES_MAX];
    int           files, labels; /* labels: bytes of them before the pixels */
} cifar;

static void cifar_close(mba_image_set *s)
{
    cifar *c = (cifar *)s;
    for (int i = 0; i < c->files; i++) mba_file_unmap(&c->file[i].map);
    free(c);
}

/* Finds the file and the record of image *at; *at becomes its number in that file. */
static const part *find_record(const uint8_t **record, int64_t *at, const cifar *c)
{
    const part *p = c->file;
    for (; *at >= p->count; p++) *at -= p->count;
    *record = p->bytes + *at * (c->labels + 3 * PLANE);
    return p;
}

static int32_t cifar_label(const mba_image_set *s, int64_t number)
{
    const cifar   *c = (const cifar *)s;
    const uint8_t *record;
    (void)find_record(&record, &number, c);
    return record[c->labels - 1];
}

static mba_status cifar_read(const mba_image_set *s, int64_t number, mba_sample *out)
{
    const cifar   *c = (const cifar *)s;
    int64_t        at = number;
    const uint8_t *record;
    const part    *p = find_record(&record, &at, c);
    const uint8_t *pixel = record + c->labels;
    snprintf(out->name, sizeof out->name, "%.255s, image %" PRId64, p->name, at);
    out->label = record[c->labels - 1];
    if (out->label >= s->classes)
        return mba_fail(MBA_E_FORMAT,
                        "%s has the label %d\nwhy: labels of this set lie below %" PRId64 "\n"
                        "fix: fetch the file again, in its binary version",
                        out->name, out->label, s->classes);
    MBA_TRY(mba_image_reshape(&out->image, SIDE, SIDE));
    for (int i = 0; i < PLANE; i++)
        for (int k = 0; k < 3; k++) out->image.rgb[3 * i + k] = pixel[k * PLANE + i];
    return MBA_OK;
}

static const mba_image_kind kind10 = { "cifar10", cifar_read, cifar_close, cifar_label, NULL };
static const mba_image_kind kind100 = { "cifar100", cifar_read, cifar_close, cifar_label, NULL };

/* Standard deviations are over all pixels of the training set; some programs use the mean over images instead. */
static cifar *new_cifar(bool fine)
{
    static const mba_colours ten = { { 0.4914f, 0.4822f, 0.4465f }, { 0.2470f, 0.2435f, 0.2616f } };
    static const mba_colours hundred = { { 0.5071f, 0.4865f, 0.4409f }, { 0.2673f, 0.2564f, 0.2762f } };
    cifar                   *c = calloc(1, sizeof *c);
    if (!c) return NULL;
    c->labels = fine ? 2 : 1;
    c->set = (mba_image_set){ .kind = fine ? &kind100 : &kind10,
                              .classes = fine ? 100 : 10,
                              .W = SIDE,
                              .H = SIDE,
                              .colours = fine ? hundred : ten };
    return c;
}

static mba_status add_part(cifar *c, const char *name, const void *bytes, size_t n)
{
    const size_t record = (size_t)c->labels + 3 * PLANE;
    part        *p = c->file + c->files - 1;
    snprintf(p->name, sizeof p->name, "%.255s", name);
    if (!n || n % record)
        return mba_fail(MBA_E_FORMAT,
                        "'%s' is not a valid CIFAR file\nwhy: its %zu bytes are not whole records of %zu\n"
                        "fix: fetch it again, in its binary version",
                        name, n, record);
    p->bytes = bytes;
    p->count = (int64_t)(n / record);
    c->set.count += p->count;
    return MBA_OK;
}

mba_status mba_cifar_open_bytes(mba_image_set **out, const char *name, const void *bytes, size_t n, bool fine)
{
    cifar *c = new_cifar(fine);
    if (!c) return mba_fail(MBA_E_NOMEM, "no memory to open '%s'", name);
    c->files = 1;
    mba_status st = add_part(c, name, bytes, n);
    if (st == MBA_OK) *out = &c->set;
    else cifar_close(&c->set);
    return st;
}

static mba_status open_part(cifar *c, const char *folder, const char *name)
{
    char path[MBA_PATH];
    if (!mba__set_file(path, folder, name))
        return mba_fail(MBA_E_IO, "'%s' has no %s\nwhy: the other files of CIFAR are there\nfix: fetch the whole set",
                        folder, name);
    part *p = c->file + c->files++;
    MBA_TRY(mba_file_map(&p->map, path));
    return add_part(c, path, p->map.data, p->map.bytes);
}

mba_status mba_cifar_open(mba_image_set **out, const mba_image_set_options *o)
{
    static const char *const ten[] = { "data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                                       "data_batch_4.bin", "data_batch_5.bin", NULL };
    static const char *const ten_held[] = { "test_batch.bin", NULL };
    static const char *const hundred[] = { "train.bin", NULL }, *const hundred_held[] = { "test.bin", NULL };
    char       path[MBA_PATH];
    const bool fine = !mba__set_file(path, o->path, ten[0]) && !mba__set_file(path, o->path, ten_held[0]);
    cifar     *c = new_cifar(fine);
    mba_status st = MBA_OK;
    if (!c) return mba_fail(MBA_E_NOMEM, "no memory to open '%s'", o->path);
    const char *const *name = fine ? (o->validation ? hundred_held : hundred) : (o->validation ? ten_held : ten);
    for (; st == MBA_OK && *name; name++) st = open_part(c, o->path, *name);
    if (st == MBA_OK) *out = &c->set;
    else cifar_close(&c->set);
    return st;
}
