// SPDX-License-Identifier: Apache-2.0
/* idx.c -- see idx.h; and the image set of two such files, images and labels: MNIST, Fashion-MNIST, KMNIST. */
#include "data/idx.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/file.h"
#include "data/image_set.h"

static mba_status wrong(const char *name, const char *why)
{
    return mba_fail(MBA_E_FORMAT, "'%s' is not a valid IDX file\nwhy: %s\nfix: fetch it again and unpack it", name,
                    why);
}

static int bytes_of(int type)
{
    switch (type) {
    case MBA_IDX_U8:
    case MBA_IDX_S8: return 1;
    case MBA_IDX_S16: return 2;
    case MBA_IDX_S32:
    case MBA_IDX_F32: return 4;
    case MBA_IDX_F64: return 8;
    default: return 0;
    }
}

mba_status mba_idx_parse(mba_idx *out, const char *name, const void *bytes, size_t n)
{
    const uint8_t *p = bytes;
    if (n >= 2 && p[0] == 0x1f && p[1] == 0x8b)
        return mba_fail(MBA_E_UNSUPPORTED, "'%s' is compressed\nwhy: it is a gzip file\nfix: unpack it with gunzip",
                        name);
    if (n < 4 || p[0] || p[1] || !bytes_of(p[2])) return wrong(name, "it does not begin as such a file does");
    *out = (mba_idx){ .type = (mba_idx_type)p[2], .rank = p[3], .elems = 1 };
    if (out->rank < 1 || out->rank > MBA_IDX_RANK) return wrong(name, "it has not 1 to 8 dimensions");
    const size_t header = 4 + 4 * (size_t)out->rank;
    if (n < header) return wrong(name, "it is truncated inside its header");
    for (int i = 0; i < out->rank; i++) {
        const uint8_t *q = p + 4 + 4 * i;
        out->size[i] = (int64_t)((uint32_t)q[0] << 24 | (uint32_t)q[1] << 16 | (uint32_t)q[2] << 8 | q[3]);
        if (__builtin_mul_overflow(out->elems, out->size[i], &out->elems))
            return wrong(name, "its sizes do not fit 63 bits");
    }
    int64_t need;
    if (__builtin_mul_overflow(out->elems, bytes_of(out->type), &need) || (uint64_t)need != n - header)
        return mba_fail(MBA_E_FORMAT,
                        "'%s' is not a valid IDX file\nwhy: its header asks for %" PRId64 " values of %d "
                        "bytes, %zu bytes are there\nfix: fetch it again and unpack it",
                        name, out->elems, bytes_of(out->type), n - header);
    out->data = p + header;
    return MBA_OK;
}

/* ---- MNIST ---- */

typedef struct mnist {
    mba_image_set set;
    char          path[256]; /* the folder, for messages */
    mba_map       image_map, label_map;
    mba_idx       images, labels;
} mnist;

static void mnist_close(mba_image_set *s)
{
    mnist *m = (mnist *)s;
    mba_file_unmap(&m->image_map);
    mba_file_unmap(&m->label_map);
    free(m);
}

static mba_status mnist_read(const mba_image_set *s, int64_t number, mba_sample *out)
{
    const mnist   *m = (const mnist *)s;
    const int64_t  n = (int64_t)s->W * s->H;
    const uint8_t *p = m->images.data + number * n;
    snprintf(out->name, sizeof out->name, "%s, image %" PRId64, m->path, number);
    out->label = m->labels.data[number];
    MBA_TRY(mba_image_reshape(&out->image, s->W, s->H));
    for (int64_t i = 0; i < n; i++)
        for (int k = 0; k < 3; k++) out->image.rgb[3 * i + k] = p[i];
    return MBA_OK;
}

static int32_t mnist_label(const mba_image_set *s, int64_t number) { return ((const mnist *)s)->labels.data[number]; }

static const mba_image_kind kind = { "mnist", mnist_read, mnist_close, mnist_label, NULL };

/* Maps a file such as t10k-images-idx3-ubyte; some archives have a dot instead of the dash before "idx". */
static mba_status map_part(mba_map *map, mba_idx *idx, const char *folder, bool validation, const char *what)
{
    char        name[64], path[MBA_PATH];
    const char *part = validation ? "t10k" : "train";
    for (int dot = 0; dot < 2; dot++) {
        snprintf(name, sizeof name, "%s-%s%c%s-ubyte", part, what, dot ? '.' : '-',
                 strcmp(what, "images") ? "idx1" : "idx3");
        if (!mba__set_file(path, folder, name)) continue;
        MBA_TRY(mba_file_map(map, path));
        return mba_idx_parse(idx, path, map->data, map->bytes);
    }
    snprintf(name, sizeof name, "%s-%s-%s-ubyte", part, what, strcmp(what, "images") ? "idx1" : "idx3");
    return mba_fail(MBA_E_IO,
                    "'%s' has no %s\nwhy: the set needs images and labels, unpacked\n"
                    "fix: fetch it, or unpack it with gunzip",
                    folder, name);
}

static mba_status check(mnist *m, const char *folder)
{
    const mba_idx *i = &m->images, *l = &m->labels;
    if (i->type != MBA_IDX_U8 || i->rank != 3 || l->type != MBA_IDX_U8 || l->rank != 1)
        return wrong(folder, "images should be (N, H, W) bytes, labels (N) bytes");
    if (i->size[0] != l->size[0] || !i->size[0])
        return mba_fail(MBA_E_FORMAT,
                        "'%s' has %" PRId64 " images and %" PRId64 " labels\nwhy: every image has one label\n"
                        "fix: fetch both files again",
                        folder, i->size[0], l->size[0]);
    if (i->size[1] < 1 || i->size[2] < 1 || i->size[1] > 4096 || i->size[2] > 4096)
        return wrong(folder, "its images have not 1 to 4096 pixels a side");
    m->set.count = i->size[0];
    m->set.H = (int32_t)i->size[1];
    m->set.W = (int32_t)i->size[2];
    for (int64_t k = 0; k < m->set.count; k++)
        if (l->data[k] >= m->set.classes)
            return mba_fail(MBA_E_FORMAT,
                            "'%s' has the label %d\nwhy: labels lie below %" PRId64 "\nfix: --set classes=.. if "
                            "the set has more classes (EMNIST); else fetch it again",
                            folder, l->data[k], m->set.classes);
    return MBA_OK;
}

mba_status mba_mnist_open(mba_image_set **out, const mba_image_set_options *o)
{
    mnist *m = calloc(1, sizeof *m);
    if (!m) return mba_fail(MBA_E_NOMEM, "no memory to open '%s'", o->path);
    m->set = (mba_image_set){ .kind = &kind,
                              .classes = o->classes ? o->classes : 10,
                              .colours = { { 0.1307f, 0.1307f, 0.1307f }, { 0.3081f, 0.3081f, 0.3081f } } };
    snprintf(m->path, sizeof m->path, "%s", o->path);
    mba_status st = map_part(&m->image_map, &m->images, o->path, o->validation, "images");
    if (st == MBA_OK) st = map_part(&m->label_map, &m->labels, o->path, o->validation, "labels");
    if (st == MBA_OK) st = check(m, o->path);
    if (st == MBA_OK) *out = &m->set;
    else mnist_close(&m->set);
    return st;
}
