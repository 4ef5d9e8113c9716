// SPDX-License-Identifier: Apache-2.0
/* inspect_images.c -- sets of images, as inspect.h shows them. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/inspect.h"
#include "data/idx.h"
#include "data/listing.h"

enum { SAMPLED = 200, CIFAR_10 = 3073, CIFAR_100 = 3074, LISTED_MAX = 4096 };

/* ---- sets ---- */

void mba__fact_classes(json_t *to, const int64_t *count, int64_t classes, const mba_image_set *names)
{
    json_t *list = json_array();
    for (int64_t c = 0; c < classes; c++) {
        if (classes > LISTED_MAX && !count[c]) continue;
        char        number[24];
        const char *name = names ? mba_image_set_class(names, (int32_t)c) : NULL;
        snprintf(number, sizeof number, "%" PRId64, c);
        mba__fact_count(list, name ? name : number, count[c]);
    }
    json_object_set_new(to, "class_counts", list);
}

static mba_status count_classes(json_t *to, const mba_image_set *s)
{
    int64_t  wrong = 0;
    int64_t *count = calloc((size_t)s->classes, sizeof *count);
    if (!count) return mba_fail(MBA_E_NOMEM, "no memory to count %" PRId64 " classes", s->classes);
    for (int64_t i = 0; i < s->count; i++) {
        const int32_t label = mba_image_set_label(s, i);
        if (label < s->classes) count[label]++;
        else wrong++;
    }
    mba__fact_int(to, "classes", s->classes);
    if (wrong) mba__fact_int(to, "labels_out_of_range", wrong);
    mba__fact_classes(to, count, s->classes, s);
    free(count);
    return MBA_OK;
}

typedef struct image_count {
    mba_value_range W, H, bytes;
    int64_t         sampled, damaged, jpeg, png;
    int64_t         clipped; /* 16-bit grey, see image.h */
    char            first_damaged[512];
} image_count;

/* Decodes the whole file, small where that is possible: what is cut short is noticed. */
static mba_status look_at_file(image_count *c, mba_image *m, const mba_sample *p)
{
    mba_image_file *f = NULL;
    MBA_TRY(mba_image_open(&f, p->name, p->encoded, p->encoded_bytes));
    const mba_image_about a = mba_image_look(f);
    const mba_status      st = mba_image_read(f, m, a.scales ? 8 : 1, INT32_MAX);
    mba_image_close(f);
    if (st != MBA_OK) return st;
    mba__spread_add(&c->W, a.W);
    mba__spread_add(&c->H, a.H);
    mba__spread_add(&c->bytes, (double)p->encoded_bytes);
    if (!strcmp(a.format, "PNG")) c->png++;
    else c->jpeg++;
    c->clipped += a.bits == 16 && a.components == 1;
    return MBA_OK;
}

static mba_status show_image(mba_report *r, const mba_image_set *s, mba_image *m, const mba_sample *p)
{
    char        number[32];
    const char *name = mba_image_set_class(s, p->label);
    if (r->pictures == MBA_PICTURES) return MBA_OK;
    if (p->encoded) MBA_TRY(mba_image_decode(m, p->name, p->encoded, p->encoded_bytes));
    snprintf(number, sizeof number, "class %" PRId32, p->label);
    return mba__report_picture(r, p->encoded ? m : &p->image, name ? name : number);
}

static mba_status look_at_image(mba_report *r, image_count *c, mba_image *m, const mba_image_set *s, int64_t i,
                                mba_sample *p)
{
    mba_status st = mba_image_set_read(s, i, p);
    if (st == MBA_OK && p->encoded) st = look_at_file(c, m, p);
    if (st == MBA_OK) st = show_image(r, s, m, p);
    c->sampled++;
    if (st != MBA_E_FORMAT && st != MBA_E_UNSUPPORTED && st != MBA_E_IO) return st; // what training leaves out too
    if (!c->damaged++) snprintf(c->first_damaged, sizeof c->first_damaged, "%s", p->name);
    return MBA_OK;
}

/* The first images, for pictures, then some from all over the set. */
static mba_status sample_images(mba_report *r, json_t *to, const mba_image_set *s)
{
    image_count   c = { .sampled = 0 };
    mba_sample    p = { 0 };
    mba_image     m = { 0 };
    const int64_t n = s->count < SAMPLED ? s->count : SAMPLED;
    mba_status    st = MBA_OK;
    for (int64_t i = 0; st == MBA_OK && i < n; i++)
        st = look_at_image(r, &c, &m, s, i < MBA_PICTURES || n == s->count ? i : i * s->count / n, &p);
    if (s->W) mba__fact_int(to, "width", s->W);
    if (s->H) mba__fact_int(to, "height", s->H);
    mba__fact_spread(to, "width", &c.W, false);
    mba__fact_spread(to, "height", &c.H, false);
    mba__fact_spread(to, "file_bytes", &c.bytes, false);
    mba__fact_int(to, "sampled", c.sampled);
    if (c.jpeg) mba__fact_int(to, "jpeg", c.jpeg);
    if (c.png) mba__fact_int(to, "png", c.png);
    if (c.clipped) mba__fact_int(to, "png_grey_16_bits", c.clipped);
    mba__fact_int(to, "damaged", c.damaged);
    if (c.damaged) mba__fact_text(to, "first_damaged", c.first_damaged);
    mba_sample_free(&p);
    mba_image_free(&m);
    return st;
}

/* Under the name of the part, or with the other facts where there is no such name. */
static mba_status tell_part(mba_report *r, const mba_image_set *s, const char *part)
{
    json_t *to = r->facts;
    if (part) json_object_set_new(r->facts, part, to = json_object());
    mba__fact_int(to, "images", s->count);
    MBA_TRY(sample_images(r, to, s));
    return count_classes(to, s);
}

static void tell_kind(mba_report *r, const mba_image_set *s)
{
    static const struct {
        const char *name, *format, *about;
    } kinds[] = {
        { "folder", "image-folder", "images, a folder per class" },
        { "shards", "webdataset", "WebDataset shards (tar)" },
        { "cifar10", "cifar-10", "CIFAR-10, binary version" },
        { "cifar100", "cifar-100", "CIFAR-100, binary version" },
        { "mnist", "mnist", "images and labels in IDX files (MNIST)" },
        { "shapes", "shapes", "ten classes of shapes, SYNTHETIC" },
        { "synthetic", "synthetic", "generated photographs, SYNTHETIC" },
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (!strcmp(kinds[i].name, s->kind->name)) mba__fact_format(r, kinds[i].format, kinds[i].about);
}

static mba_status tell_set(mba_report *r, mba_image_set *s, const char *part)
{
    tell_kind(r, s);
    const mba_status st = tell_part(r, s, part);
    mba_image_set_close(s);
    return st;
}

mba_status mba__inspect_image_folder(mba_report *r)
{
    mba_image_set *train = NULL, *held = NULL;
    bool           has_held;
    mba_status     second = MBA_OK;
    MBA_TRY(mba_image_set_has_held_out(&has_held, r->path));
    const mba_status first = mba_image_set_open(&train, &(mba_image_set_options){ .path = r->path });
    if (first != MBA_OK && (first != MBA_E_IO || !has_held))
        return first == MBA_E_IO ? first : mba_where(first, "'%s', in which nothing else was recognised", r->path);
    if (has_held) second = mba_image_set_open(&held, &(mba_image_set_options){ .path = r->path, .validation = true });
    if (second != MBA_OK && second != MBA_E_IO) {
        mba_image_set_close(train);
        return second;
    }
    if (first != MBA_OK && second != MBA_OK) // tell of the part that everybody needs
        return mba_image_set_open(&train, &(mba_image_set_options){ .path = r->path });
    mba_status st = train ? tell_set(r, train, "training") : MBA_OK;
    if (st == MBA_OK && held) return tell_set(r, held, "held_out");
    mba_image_set_close(held);
    return st;
}

/* ---- image files ---- */

static bool is_tar(const mba_map *m) { return m->bytes >= 512 && !memcmp((const char *)m->data + 257, "ustar", 5); }

/* Records with labels in their range, but for one in a hundred: those are damage. */
static bool is_cifar(const mba_map *m, bool fine)
{
    const uint8_t *p = m->data;
    const size_t   record = fine ? CIFAR_100 : CIFAR_10;
    size_t         wrong = 0;
    if (m->bytes % record) return false;
    for (size_t at = 0; at < m->bytes; at += record) wrong += fine ? p[at] >= 20 || p[at + 1] >= 100 : p[at] >= 10;
    return wrong * 100 <= m->bytes / record;
}

/* The header of another kind of file could look like this one; the size, or the name, decides. */
static bool is_idx(const mba_report *r, const mba_map *m)
{
    const uint8_t *p = m->data;
    mba_idx        x;
    if (m->bytes < 4 || p[0] || p[1] || p[2] < MBA_IDX_U8 || p[2] > MBA_IDX_F64 || !p[3] || p[3] > MBA_IDX_RANK)
        return false;
    return mba_ends_with(r->path, "-ubyte") || mba_idx_parse(&x, r->path, m->data, m->bytes) == MBA_OK;
}

static mba_status show_idx(mba_report *r, const mba_idx *x)
{
    const int64_t n = x->size[1] * x->size[2];
    mba_image     m = { 0 };
    mba_status    st = MBA_OK;
    for (int64_t i = 0; st == MBA_OK && i < x->size[0] && i < MBA_PICTURES; i++) {
        char caption[32];
        snprintf(caption, sizeof caption, "image %" PRId64, i);
        st = mba_image_reshape(&m, (int32_t)x->size[2], (int32_t)x->size[1]);
        for (int64_t k = 0; st == MBA_OK && k < 3 * n; k++) m.rgb[k] = x->data[i * n + k / 3];
        if (st == MBA_OK) st = mba__report_picture(r, &m, caption);
    }
    mba_image_free(&m);
    return st;
}

static mba_status inspect_idx(mba_report *r, const mba_map *m)
{
    static const char *const type[] = { "U8", "I8", "", "I16", "I32", "F32", "F64" };
    mba_idx                  x;
    mba_value_range          value = { 0 };
    MBA_TRY(mba_idx_parse(&x, r->path, m->data, m->bytes));
    json_t *shape = json_array();
    for (int i = 0; i < x.rank; i++) json_array_append_new(shape, json_integer(x.size[i]));
    mba__fact_format(r, "idx", "one IDX array (a file of MNIST)");
    mba__fact_text(r->facts, "dtype", type[x.type - MBA_IDX_U8]);
    json_object_set_new(r->facts, "shape", shape);
    mba__fact_int(r->facts, "values", x.elems);
    if (x.type != MBA_IDX_U8) return MBA_OK;
    int64_t count[256] = { 0 };
    for (int64_t i = 0; i < x.elems; i++) {
        mba__spread_add(&value, x.data[i]);
        count[x.data[i]]++;
    }
    mba__fact_spread(r->facts, "value", &value, false);
    if (x.rank == 1 && x.elems) mba__fact_classes(r->facts, count, (int64_t)value.high + 1, NULL);
    const bool drawn = x.rank == 3 && x.elems && x.size[1] <= 4096 && x.size[2] <= 4096;
    return drawn ? show_idx(r, &x) : MBA_OK;
}

bool mba__inspect_image_file(mba_status *st, mba_report *r, const mba_map *m)
{
    mba_image_set *s = NULL;
    const bool     ten = is_cifar(m, false), fine = !ten && is_cifar(m, true);
    if (is_idx(r, m)) *st = inspect_idx(r, m);
    else if (is_tar(m)) *st = mba_image_shards_open(&s, &(mba_image_set_options){ .path = r->path });
    else if (ten || fine) *st = mba_cifar_open_bytes(&s, r->path, m->data, m->bytes, fine);
    else return false;
    if (s) *st = tell_set(r, s, NULL);
    return true;
}
