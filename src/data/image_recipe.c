// SPDX-License-Identifier: Apache-2.0
/* image_recipe.c -- see image_recipe.h: the default recipes, and their application to one image. */
#include "data/image_recipe.h"

#include <string.h>

/* ---- the usual recipes ---- */

mba_image_recipe mba_image_recipe_train(const mba_image_set *s, int32_t size)
{
    mba_image_recipe r = { .size = size, .colours = s->colours };
    if (!strcmp(s->kind->name, "shapes")) return r;
    if (!strcmp(s->kind->name, "mnist")) {
        r.crop = MBA_CROP_PADDED;
        r.pad = 2;
        return r;
    }
    r.flip = 0.5;
    r.smoothing = 0.1;
    if (!strncmp(s->kind->name, "cifar", 5)) {
        r.crop = MBA_CROP_PADDED;
        r.pad = 4;
        return r;
    }
    r.crop = MBA_CROP_RANDOM;
    r.rand = (mba_rand_options){ .operations = 2, .magnitude = 9, .deviation = 0.5 };
    r.mixup = 0.8;
    r.cutmix = 1;
    r.erase = 0.25;
    return r;
}

mba_image_recipe mba_image_recipe_eval(const mba_image_set *s, int32_t size, double fraction)
{
    mba_image_recipe r = { .size = size, .colours = s->colours };
    r.crop = s->W ? MBA_CROP_NONE : MBA_CROP_CENTRE;
    r.fraction = fraction > 0 ? fraction : 0.875;
    return r;
}

/* ---- one image ---- */

void mba_image_maker_free(mba_image_maker *m)
{
    mba_sample_free(&m->sample);
    mba_image_free(&m->decoded);
    mba_image_free(&m->made);
    mba_image_free(&m->spare);
    mba_resampler_free(&m->resampler);
    *m = (mba_image_maker){ 0 };
}

/* The largest scale-down of the decoder for which the crop still has `size` pixels in both directions. */
static int scale_for(mba_box box, int32_t size)
{
    int scale = 1;
    while (scale < 8 && box.W >= 2.0 * scale * size && box.H >= 2.0 * scale * size) scale *= 2;
    return scale;
}

static mba_box chosen(const mba_image_recipe *r, mba_draw *d, int32_t W, int32_t H)
{
    return r->crop == MBA_CROP_RANDOM ? mba_random_crop(d, W, H) : (mba_box){ .W = W, .H = H };
}

/* Decodes as much as the crop needs; *box is converted to pixels of the decoded image. */
static mba_status decode(mba_image_maker *m, mba_box *box, const mba_image_recipe *r, mba_draw *d)
{
    mba_image_file *f = NULL;
    MBA_TRY(mba_image_open(&f, m->sample.name, m->sample.encoded, m->sample.encoded_bytes));
    const mba_image_about about = mba_image_look(f);
    *box = chosen(r, d, about.W, about.H);
    const int scale = r->crop == MBA_CROP_RANDOM && about.scales ? scale_for(*box, r->size) : 1;
    *box = (mba_box){ box->x / scale, box->y / scale, box->W / scale, box->H / scale };
    mba_status st = mba_image_read(f, &m->decoded, scale, (int32_t)ceil(box->y + box->H));
    m->warnings += mba_image_look(f).warnings;
    mba_image_close(f);
    return st;
}

/* Crops and resizes to size x size pixels in m->made. */
static mba_status cut(mba_image_maker *m, const mba_image *in, mba_box box, const mba_image_recipe *r, mba_draw *d)
{
    if (r->crop == MBA_CROP_CENTRE || r->crop == MBA_CROP_SQUASH) {
        const bool       shape = r->crop == MBA_CROP_CENTRE; // keeps the aspect ratio; else made square
        const mba_centre c = mba_centre_crop(shape ? in->W : 1, shape ? in->H : 1, r->size, r->fraction);
        MBA_TRY(mba_image_resize(&m->resampler, &m->spare, in, box, c.W, c.H, MBA_BICUBIC));
        return mba_image_cut(&m->made, &m->spare, c.left, c.top, r->size);
    }
    const mba_filter by = r->crop == MBA_CROP_RANDOM && !mba_draw_chance(d, 0.5) ? MBA_BILINEAR : MBA_BICUBIC;
    if (r->crop != MBA_CROP_PADDED) return mba_image_resize(&m->resampler, &m->made, in, box, r->size, r->size, by);
    MBA_TRY(mba_image_resize(&m->resampler, &m->spare, in, box, r->size, r->size, by));
    const int32_t left = (int32_t)mba_draw_below(d, (uint32_t)(2 * r->pad + 1)) - r->pad;
    const int32_t top = (int32_t)mba_draw_below(d, (uint32_t)(2 * r->pad + 1)) - r->pad;
    return mba_image_cut(&m->made, &m->spare, left, top, r->size);
}

mba_status mba_image_make(mba_image_maker *m, uint8_t *to, int32_t *label, const mba_image_set *s, int64_t number,
                          const mba_image_recipe *r, uint64_t seed, int64_t epoch)
{
    mba_draw         d = mba_draw_start(seed, "augment", epoch, number);
    const mba_image *in = &m->sample.image;
    mba_box          box;
    MBA_TRY(mba_image_set_read(s, number, &m->sample));
    if (m->sample.encoded) {
        MBA_TRY(decode(m, &box, r, &d));
        in = &m->decoded;
    } else {
        box = chosen(r, &d, in->W, in->H);
    }
    MBA_TRY(cut(m, in, box, r, &d));
    if (r->flip > 0 && mba_draw_chance(&d, r->flip)) mba_image_flip(&m->made);
    MBA_TRY(mba_rand_augment(&m->made, &m->spare, &d, &r->rand));
    memcpy(to, m->made.rgb, (size_t)r->size * (size_t)r->size * 3);
    *label = m->sample.label;
    return MBA_OK;
}
