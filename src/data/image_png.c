// SPDX-License-Identifier: Apache-2.0
/* image_png.c -- the PNG decoder and encoder of image.h, with libpng.
 *
 * libpng reports errors by calling on_error, which must not return: ours jumps back to the function that called libpng.
 * Everything that lives across such a call is in the decoder's own memory, never in a local variable.
 *
 * Chunks that do not affect pixels (text, colour profiles, times) are skipped unread, so that none of them can request
 * memory. */
#include "data/image_codec.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <png.h>

enum { DEFLATE_MOST = 1032 }; /* the most bytes that one byte of deflate can expand to */

typedef struct png_file {
    mba_image_file base;
    png_structp    png;
    png_infop      info;
    const uint8_t *bytes;
    size_t         at;
    int            passes;  /* 7 if it is interlaced, else 1 */
    bool           clipped; /* 16-bit grey */
    jmp_buf        back;
    char           text[160];
    bool           no_memory;
} png_file;

/* ---- what libpng calls ---- */

static _Noreturn void on_error(png_structp png, png_const_charp text)
{
    png_file *f = png_get_error_ptr(png);
    snprintf(f->text, sizeof f->text, "%s", text);
    longjmp(f->back, 1);
}

static void on_warning(png_structp png, png_const_charp text)
{
    png_file *f = png_get_error_ptr(png);
    (void)text;
    f->base.about.warnings++;
}

static void on_read(png_structp png, png_bytep to, size_t n)
{
    png_file *f = png_get_io_ptr(png);
    if (n > f->base.bytes - f->at) png_error(png, "it is truncated");
    memcpy(to, f->bytes + f->at, n);
    f->at += n;
}

static png_voidp take(png_structp png, png_alloc_size_t n)
{
    png_file *f = png_get_mem_ptr(png);
    void     *p = malloc(n);
    if (!p) f->no_memory = true;
    return p;
}

static void give(png_structp png, png_voidp p)
{
    (void)png;
    free(p);
}

/* ---- decoding ---- */

static mba_status wrong(const png_file *f)
{
    if (f->no_memory) return mba_fail(MBA_E_NOMEM, "no memory to decode '%s'", f->base.name);
    return mba__image_damaged(f->base.name, f->text);
}

/* True: the call succeeded. False: text says why not. */
static bool read_header(png_file *f)
{
    if (setjmp(f->back)) return false;
    f->png = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, f, on_error, on_warning, f, take, give);
    if (f->png) f->info = png_create_info_struct(f->png);
    if (!f->info) {
        f->no_memory = true;
        return false;
    }
    png_set_user_limits(f->png, MBA_PIXELS_MAX, MBA_PIXELS_MAX);
    png_set_keep_unknown_chunks(f->png, PNG_HANDLE_CHUNK_NEVER, NULL, -1);
    png_set_read_fn(f->png, f, on_read);
    png_read_info(f->png, f->info);
    return true;
}

static mba_status check_header(png_file *f)
{
    const uint32_t W = png_get_image_width(f->png, f->info), H = png_get_image_height(f->png, f->info);
    const uint64_t bytes = ((uint64_t)png_get_rowbytes(f->png, f->info) + 1) * H;
    if ((uint64_t)W * H > MBA_PIXELS_MAX || bytes / DEFLATE_MOST > f->base.bytes)
        return mba__image_too_large(f->base.name, W, H, f->base.bytes);
    f->base.about = (mba_image_about){ .format = "PNG",
                                       .W = (int32_t)W,
                                       .H = (int32_t)H,
                                       .components = png_get_channels(f->png, f->info),
                                       .bits = png_get_bit_depth(f->png, f->info),
                                       .warnings = f->base.about.warnings };
    return MBA_OK;
}

/* Requests 8 bits of red, green and blue, or 16 bits of grey, which clip_grey clips. */
static bool start(png_file *f)
{
    if (setjmp(f->back)) return false;
    const int type = png_get_color_type(f->png, f->info);
    f->clipped = type == PNG_COLOR_TYPE_GRAY && f->base.about.bits == 16;
    if (type == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(f->png);
    if (type == PNG_COLOR_TYPE_GRAY) png_set_expand_gray_1_2_4_to_8(f->png);
    if (!f->clipped) {
        png_set_strip_16(f->png);
        png_set_strip_alpha(f->png);
        if (!(type & PNG_COLOR_MASK_COLOR)) png_set_gray_to_rgb(f->png);
    }
    f->passes = png_set_interlace_handling(f->png);
    png_read_update_info(f->png, f->info);
    return true;
}

/* Every pass of an interlaced image adds pixels to all rows; rows below the last requested one are discarded. */
static bool read_rows(png_file *f, mba_image *out)
{
    if (setjmp(f->back)) return false;
    for (int pass = 0; pass < f->passes; pass++)
        for (int32_t y = 0; y < (f->passes > 1 ? f->base.about.H : out->H); y++)
            png_read_row(f->png, y < out->H ? out->rgb + (size_t)y * (size_t)out->W * 3 : NULL, NULL);
    return true;
}

/* Converts in place from 16-bit values at the start of every row, the last first, so that none is overwritten
 * unread. */
static void clip_grey(mba_image *m)
{
    for (int32_t y = 0; y < m->H; y++) {
        uint8_t *row = m->rgb + (size_t)y * (size_t)m->W * 3;
        for (int32_t x = m->W - 1; x >= 0; x--) {
            const uint8_t *two = row + 2 * (size_t)x;
            memset(row + 3 * (size_t)x, two[0] ? 255 : two[1], 3);
        }
    }
}

static mba_status png_read(mba_image_file *base, mba_image *out, int scale, int32_t rows)
{
    png_file     *f = (png_file *)base;
    const int32_t W = base->about.W, H = base->about.H;
    (void)scale; // always 1
    if (!start(f)) return wrong(f);
    mba_assert(png_get_rowbytes(f->png, f->info) == (size_t)W * (f->clipped ? 2 : 3));
    MBA_TRY(mba_image_reshape(out, W, rows < H ? rows : H));
    if (!read_rows(f, out)) return wrong(f);
    if (f->clipped) clip_grey(out);
    return MBA_OK;
}

static void png_close(mba_image_file *base)
{
    png_file *f = (png_file *)base;
    if (f->png) png_destroy_read_struct(&f->png, &f->info, NULL);
    free(f);
}

static const mba_image_codec codec = { png_read, png_close };

mba_status mba__png_open(mba_image_file **out, const char *name, const void *bytes, size_t n)
{
    png_file *f = calloc(1, sizeof *f);
    if (!f) return mba_fail(MBA_E_NOMEM, "no memory to decode '%s'", name);
    f->base = (mba_image_file){ .codec = &codec, .name = name, .bytes = n };
    f->bytes = bytes;
    mba_status st = read_header(f) ? check_header(f) : wrong(f);
    if (st == MBA_OK) *out = &f->base;
    else png_close(&f->base);
    return st;
}

/* ---- encoding ---- */

mba_status mba_png_encode(uint8_t **out, size_t *bytes, const mba_image *m)
{
    png_image p = {
        .version = PNG_IMAGE_VERSION, .width = (png_uint_32)m->W, .height = (png_uint_32)m->H, .format = PNG_FORMAT_RGB
    };
    png_alloc_size_t n = 0;
    if (m->W < 1 || m->H < 1)
        return mba_fail(MBA_E_ARG, "an image of %d x %d pixels cannot be encoded as PNG\nwhy: it has no pixels", m->W,
                        m->H);
    uint8_t *to = png_image_write_to_memory(&p, NULL, &n, 0, m->rgb, 0, NULL) ? malloc(n) : NULL;
    if (!to || !png_image_write_to_memory(&p, to, &n, 0, m->rgb, 0, NULL)) { // nothing else can fail
        free(to);
        return mba_fail(MBA_E_NOMEM, "no memory to encode an image of %d x %d pixels", m->W, m->H);
    }
    *out = to;
    *bytes = n;
    return MBA_OK;
}
