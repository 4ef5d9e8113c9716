// SPDX-License-Identifier: Apache-2.0
/* image_jpeg.c -- the JPEG decoder and encoder of image.h, with libjpeg.
 *
 * libjpeg reports errors by calling error_exit, which must not return: ours jumps back to the function that called
 * libjpeg. Everything that lives across such a call is in the decoder's own memory, never in a local variable. */
#include "data/image_codec.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>
#include <jerror.h>

enum { PIXELS_PER_BYTE = 1024, SCANS_MAX = 100 };

/* ---- errors of libjpeg ---- */

typedef struct handler {
    struct jpeg_error_mgr base; /* first: libjpeg hands this pointer back */
    jmp_buf               back;
    char                  text[JMSG_LENGTH_MAX];
    int64_t               warnings;
    bool                  ended; /* the bytes ran out, and libjpeg inserted an end marker */
    bool                  no_memory;
} handler;

static _Noreturn void on_error(j_common_ptr c)
{
    handler *h = (handler *)c->err;
    h->base.format_message(c, h->text);
    h->no_memory = h->base.msg_code == JERR_OUT_OF_MEMORY;
    longjmp(h->back, 1);
}

/* The bit reader reads ahead, so reaching the end of the bytes is harmless; needing bits beyond it is not. */
static void on_message(j_common_ptr c, int level)
{
    handler *h = (handler *)c->err;
    if (level >= 0) return; // tracing
    h->warnings++;
    if (h->base.msg_code == JWRN_JPEG_EOF) h->ended = true;
    if (h->base.msg_code == JWRN_HIT_MARKER && h->ended) {
        snprintf(h->text, sizeof h->text, "it is truncated");
        longjmp(h->back, 1);
    }
}

static void be_silent(j_common_ptr c) { (void)c; }

static void handler_start(handler *h)
{
    jpeg_std_error(&h->base);
    h->base.error_exit = on_error;
    h->base.emit_message = on_message;
    h->base.output_message = be_silent;
}

/* ---- decoding ---- */

typedef struct jpeg_file {
    mba_image_file                base;
    struct jpeg_decompress_struct c;
    struct jpeg_progress_mgr      progress;
    handler                       h;
    bool                          created;
    uint8_t                      *cmyk; /* one row, if there are four components */
} jpeg_file;

static mba_status wrong(const jpeg_file *j, const char *why)
{
    if (j->h.no_memory) return mba_fail(MBA_E_NOMEM, "no memory to decode '%s'", j->base.name);
    return mba__image_damaged(j->base.name, why);
}

/* A progressive file may have any number of scans, each of which costs a pass over the image. */
static void limit_scans(j_common_ptr c)
{
    if (((j_decompress_ptr)c)->input_scan_number <= SCANS_MAX) return;
    handler *h = (handler *)c->err;
    snprintf(h->text, sizeof h->text, "it has more than %d scans", SCANS_MAX);
    longjmp(h->back, 1);
}

/* True: the call succeeded. False: h.text says why not. */
static bool read_header(jpeg_file *j, const uint8_t *bytes, size_t n)
{
    if (setjmp(j->h.back)) return false;
    jpeg_create_decompress(&j->c);
    j->created = true;
    j->progress.progress_monitor = limit_scans;
    j->c.progress = &j->progress;
    jpeg_mem_src(&j->c, bytes, n);
    jpeg_read_header(&j->c, TRUE);
    return true;
}

static mba_status check_header(jpeg_file *j)
{
    const struct jpeg_decompress_struct *c = &j->c;
    const uint64_t                       pixels = (uint64_t)c->image_width * c->image_height;
    if (c->num_components != 1 && c->num_components != 3 && c->num_components != 4)
        return mba__image_unsupported(j->base.name, "it has neither 1, 3 nor 4 components");
    if (c->data_precision != 8) return mba__image_unsupported(j->base.name, "its samples have not 8 bits");
    if (pixels > MBA_PIXELS_MAX || pixels / PIXELS_PER_BYTE > j->base.bytes)
        return mba__image_too_large(j->base.name, c->image_width, c->image_height, j->base.bytes);
    j->base.about = (mba_image_about){ .format = "JPEG",
                                       .W = (int32_t)c->image_width,
                                       .H = (int32_t)c->image_height,
                                       .components = c->num_components,
                                       .bits = 8,
                                       .scales = true,
                                       .warnings = j->h.warnings };
    return MBA_OK;
}

/* Adobe stores inverted ink, so that products of stored values are light; other programs store ink. */
static void cmyk_to_rgb(uint8_t *rgb, const uint8_t *cmyk, int32_t W, bool inverted)
{
    const uint8_t flip = inverted ? 0 : 255;
    for (int32_t x = 0; x < W; x++)
        for (int k = 0; k < 3; k++)
            rgb[3 * x + k] = (uint8_t)(((cmyk[4 * x + k] ^ flip) * (cmyk[4 * x + 3] ^ flip) + 127) / 255);
}

static bool start(jpeg_file *j, int scale)
{
    if (setjmp(j->h.back)) return false;
    j->c.scale_num = 1;
    j->c.scale_denom = (unsigned)scale;
    j->c.out_color_space = j->c.num_components == 4 ? JCS_CMYK : JCS_RGB;
    return jpeg_start_decompress(&j->c);
}

static bool read_rows(jpeg_file *j, mba_image *out)
{
    if (setjmp(j->h.back)) return false;
    while (j->c.output_scanline < (JDIMENSION)out->H) {
        uint8_t *to = out->rgb + (size_t)j->c.output_scanline * (size_t)out->W * 3;
        JSAMPROW row = j->cmyk ? j->cmyk : to;
        jpeg_read_scanlines(&j->c, &row, 1);
        if (j->cmyk) cmyk_to_rgb(to, j->cmyk, out->W, j->c.saw_Adobe_marker);
    }
    return true;
}

static mba_status decode(jpeg_file *j, mba_image *out, int scale, int32_t rows)
{
    if (!start(j, scale)) return wrong(j, j->h.text);
    if (j->h.ended && jpeg_has_multiple_scans(&j->c)) return wrong(j, "it is truncated"); // by now all scans are read
    const int32_t W = (int32_t)j->c.output_width, H = (int32_t)j->c.output_height;
    MBA_TRY(mba_image_reshape(out, W, rows < H ? rows : H));
    if (j->c.out_color_space == JCS_CMYK && !(j->cmyk = malloc((size_t)W * 4)))
        return mba_fail(MBA_E_NOMEM, "no memory to decode '%s'", j->base.name);
    return read_rows(j, out) ? MBA_OK : wrong(j, j->h.text);
}

static mba_status jpeg_read(mba_image_file *base, mba_image *out, int scale, int32_t rows)
{
    jpeg_file       *j = (jpeg_file *)base;
    const mba_status st = decode(j, out, scale, rows);
    base->about.warnings = j->h.warnings;
    return st;
}

static void jpeg_close(mba_image_file *base)
{
    jpeg_file *j = (jpeg_file *)base;
    if (j->created) jpeg_destroy_decompress(&j->c);
    free(j->cmyk);
    free(j);
}

static const mba_image_codec codec = { jpeg_read, jpeg_close };

mba_status mba__jpeg_open(mba_image_file **out, const char *name, const void *bytes, size_t n)
{
    jpeg_file *j = calloc(1, sizeof *j);
    if (!j) return mba_fail(MBA_E_NOMEM, "no memory to decode '%s'", name);
    j->base = (mba_image_file){ .codec = &codec, .name = name, .bytes = n };
    handler_start(&j->h);
    j->c.err = &j->h.base;
    mba_status st = read_header(j, bytes, n) ? check_header(j) : wrong(j, j->h.text);
    if (st == MBA_OK) *out = &j->base;
    else jpeg_close(&j->base);
    return st;
}

/* ---- encoding ---- */

typedef struct encoder {
    struct jpeg_compress_struct c;
    handler                     h;
    bool                        created;
    unsigned char              *bytes;
    unsigned long               n;
} encoder;

static bool encode(encoder *e, const mba_image *m, int quality)
{
    if (setjmp(e->h.back)) return false;
    jpeg_create_compress(&e->c);
    e->created = true;
    jpeg_mem_dest(&e->c, &e->bytes, &e->n);
    e->c.image_width = (JDIMENSION)m->W;
    e->c.image_height = (JDIMENSION)m->H;
    e->c.input_components = 3;
    e->c.in_color_space = JCS_RGB;
    jpeg_set_defaults(&e->c);
    jpeg_set_quality(&e->c, quality, TRUE);
    jpeg_start_compress(&e->c, TRUE);
    while (e->c.next_scanline < e->c.image_height) {
        JSAMPROW row = m->rgb + (size_t)e->c.next_scanline * (size_t)m->W * 3;
        jpeg_write_scanlines(&e->c, &row, 1);
    }
    jpeg_finish_compress(&e->c);
    return true;
}

/* The buffer is larger than any encoded image of this size. If libjpeg still needs more, it allocates its own buffer,
 * which is then the result. */
mba_status mba_jpeg_encode(uint8_t **out, size_t *bytes, const mba_image *m, int quality)
{
    const size_t room = (size_t)m->W * (size_t)m->H * 6 + 65536;
    encoder     *e = calloc(1, sizeof *e);
    uint8_t     *buffer = malloc(room);
    mba_status   st = MBA_OK;
    if (!e || !buffer) {
        free(e);
        free(buffer);
        return mba_fail(MBA_E_NOMEM, "no memory to encode an image of %d x %d pixels", m->W, m->H);
    }
    handler_start(&e->h);
    e->c.err = &e->h.base;
    e->bytes = buffer;
    e->n = room;
    if (!encode(e, m, quality))
        st = mba_fail(MBA_E_ARG, "an image of %d x %d pixels cannot be encoded as JPEG\nwhy: %s", m->W, m->H,
                      e->h.text);
    if (e->created) jpeg_destroy_compress(&e->c);
    *out = e->bytes;
    *bytes = e->n;
    if (st != MBA_OK || e->bytes != buffer) free(buffer);
    free(e);
    return st;
}
