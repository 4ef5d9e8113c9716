/* image.c -- see image.h.
 *
 * libjpeg reports errors by calling error_exit, which must not return: ours jumps back to the function that called
 * libjpeg. Everything that lives across such a call is in the decoder's own memory, never in a local variable. */
#include "data/image.h"

#include <setjmp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>
#include <jerror.h>

enum { PIXELS_MAX = 100000000, PIXELS_PER_BYTE = 1024, SCANS_MAX = 100 };

/* ---- images ---- */

mba_status mba_image_reshape(mba_image *m, int32_t W, int32_t H)
{
    mba_assert(W >= 0 && H >= 0);
    if ((int64_t)W * H > PIXELS_MAX)
        return mba_fail(MBA_E_UNSUPPORTED, "an image of %d x %d pixels is too large\nwhy: at most %d are supported\n"
                        "fix: leave it out", W, H, PIXELS_MAX);
    const size_t need = (size_t)W * (size_t)H * 3;
    if (need > m->room) {
        uint8_t *rgb = malloc(need);                              // not realloc: the old pixels are not wanted
        if (!rgb) return mba_fail(MBA_E_NOMEM, "no memory for an image of %d x %d pixels", W, H);
        free(m->rgb);
        m->rgb  = rgb;
        m->room = need;
    }
    m->W = W;
    m->H = H;
    return MBA_OK;
}

void mba_image_free(mba_image *m)
{
    free(m->rgb);
    *m = (mba_image){ 0 };
}

/* ---- errors of libjpeg ---- */

typedef struct handler {
    struct jpeg_error_mgr base;          /* first: libjpeg hands this pointer back */
    jmp_buf               back;
    char                  text[JMSG_LENGTH_MAX];
    int64_t               warnings;
    bool                  ended;         /* the bytes have run out and libjpeg made up an end marker */
    bool                  no_memory;
} handler;

static _Noreturn void on_error(j_common_ptr c)
{
    handler *h = (handler *)c->err;
    h->base.format_message(c, h->text);
    h->no_memory = h->base.msg_code == JERR_OUT_OF_MEMORY;
    longjmp(h->back, 1);
}

/* A bit reader looks ahead, so running out of bytes is harmless by itself; asking for bits behind that is not. */
static void on_message(j_common_ptr c, int level)
{
    handler *h = (handler *)c->err;
    if (level >= 0) return;                                       // tracing
    h->warnings++;
    if (h->base.msg_code == JWRN_JPEG_EOF) h->ended = true;
    if (h->base.msg_code == JWRN_HIT_MARKER && h->ended) {
        snprintf(h->text, sizeof h->text, "it is cut short");
        longjmp(h->back, 1);
    }
}

static void be_silent(j_common_ptr c) { (void)c; }

static void handler_start(handler *h)
{
    jpeg_std_error(&h->base);
    h->base.error_exit     = on_error;
    h->base.emit_message   = on_message;
    h->base.output_message = be_silent;
}

/* ---- decoding ---- */

struct mba_jpeg {
    struct jpeg_decompress_struct c;
    struct jpeg_progress_mgr      progress;
    handler                       h;
    const char                   *name;
    size_t                        bytes;
    bool                          created, started;
    uint8_t                      *cmyk;  /* one row, where there are four components */
};

static mba_status wrong(const mba_jpeg *j, const char *why)
{
    if (j->h.no_memory) return mba_fail(MBA_E_NOMEM, "no memory to decode '%s'", j->name);
    return mba_fail(MBA_E_FORMAT, "'%s' cannot be decoded\nwhy: %s\nfix: fetch it again, or leave it out", j->name,
                    why);
}

static mba_status unsupported(const char *name, const char *why)
{
    return mba_fail(MBA_E_UNSUPPORTED,
                    "'%s' cannot be decoded\nwhy: %s\nfix: convert it to JPEG with 8 bits per sample", name, why);
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
static bool read_header(mba_jpeg *j, const uint8_t *bytes, size_t n)
{
    if (setjmp(j->h.back)) return false;
    jpeg_create_decompress(&j->c);
    j->created                   = true;
    j->progress.progress_monitor = limit_scans;
    j->c.progress                = &j->progress;
    jpeg_mem_src(&j->c, bytes, n);
    jpeg_read_header(&j->c, TRUE);
    return true;
}

static mba_status check_header(const mba_jpeg *j)
{
    const struct jpeg_decompress_struct *c      = &j->c;
    const uint64_t                       pixels = (uint64_t)c->image_width * c->image_height;
    if (c->num_components != 1 && c->num_components != 3 && c->num_components != 4)
        return unsupported(j->name, "it has neither 1, 3 nor 4 components");
    if (c->data_precision != 8) return unsupported(j->name, "its samples have not 8 bits");
    if (pixels > PIXELS_MAX || pixels / PIXELS_PER_BYTE > j->bytes)
        return mba_fail(MBA_E_FORMAT, "'%s' cannot be decoded\nwhy: its header says %u x %u pixels, in %zu bytes\n"
                        "fix: fetch it again, or leave it out", j->name, c->image_width, c->image_height, j->bytes);
    return MBA_OK;
}

mba_status mba_jpeg_open(mba_jpeg **out, const char *name, const void *bytes, size_t n)
{
    static const uint8_t png[4] = { 0x89, 'P', 'N', 'G' };
    if (n >= 4 && !memcmp(bytes, png, 4)) return unsupported(name, "it is a PNG file");
    mba_jpeg *j = calloc(1, sizeof *j);
    if (!j) return mba_fail(MBA_E_NOMEM, "no memory to decode '%s'", name);
    j->name  = name;
    j->bytes = n;
    handler_start(&j->h);
    j->c.err      = &j->h.base;
    mba_status st = n && read_header(j, bytes, n) ? check_header(j) : wrong(j, n ? j->h.text : "it is empty");
    if (st == MBA_OK) *out = j;
    else              mba_jpeg_close(j);
    return st;
}

void mba_jpeg_close(mba_jpeg *j)
{
    if (!j) return;
    if (j->created) jpeg_destroy_decompress(&j->c);
    free(j->cmyk);
    free(j);
}

mba_jpeg_about mba_jpeg_look(const mba_jpeg *j)
{
    return (mba_jpeg_about){ .W = (int32_t)j->c.image_width, .H = (int32_t)j->c.image_height,
                             .components = j->c.num_components, .warnings = j->h.warnings };
}

/* Adobe stores ink inverted, so that a product of what is stored is light; others store ink. */
static void cmyk_to_rgb(uint8_t *rgb, const uint8_t *cmyk, int32_t W, bool inverted)
{
    const uint8_t flip = inverted ? 0 : 255;
    for (int32_t x = 0; x < W; x++)
        for (int k = 0; k < 3; k++)
            rgb[3 * x + k] = (uint8_t)(((cmyk[4 * x + k] ^ flip) * (cmyk[4 * x + 3] ^ flip) + 127) / 255);
}

static bool start(mba_jpeg *j, int scale)
{
    if (setjmp(j->h.back)) return false;
    j->c.scale_num       = 1;
    j->c.scale_denom     = (unsigned)scale;
    j->c.out_color_space = j->c.num_components == 4 ? JCS_CMYK : JCS_RGB;
    return jpeg_start_decompress(&j->c);
}

static bool read_rows(mba_jpeg *j, mba_image *out)
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

mba_status mba_jpeg_read(mba_jpeg *j, mba_image *out, int scale, int32_t rows)
{
    mba_assert(scale == 1 || scale == 2 || scale == 4 || scale == 8);
    mba_assert(rows > 0 && !j->started);
    j->started = true;
    if (!start(j, scale)) return wrong(j, j->h.text);
    if (j->h.ended && jpeg_has_multiple_scans(&j->c)) return wrong(j, "it is cut short");   // by now all scans are read
    const int32_t W = (int32_t)j->c.output_width, H = (int32_t)j->c.output_height;
    MBA_TRY(mba_image_reshape(out, W, rows < H ? rows : H));
    if (j->c.out_color_space == JCS_CMYK && !(j->cmyk = malloc((size_t)W * 4)))
        return mba_fail(MBA_E_NOMEM, "no memory to decode '%s'", j->name);
    return read_rows(j, out) ? MBA_OK : wrong(j, j->h.text);
}

mba_status mba_jpeg_decode(mba_image *out, const char *name, const void *bytes, size_t n)
{
    mba_jpeg *j = NULL;
    MBA_TRY(mba_jpeg_open(&j, name, bytes, n));
    mba_status st = mba_jpeg_read(j, out, 1, INT32_MAX);
    mba_jpeg_close(j);
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
    e->c.image_width      = (JDIMENSION)m->W;
    e->c.image_height     = (JDIMENSION)m->H;
    e->c.input_components = 3;
    e->c.in_color_space   = JCS_RGB;
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

/* The buffer is larger than any image of this size gets. Should libjpeg want more after all it takes a buffer of its
 * own, which is then the result. */
mba_status mba_jpeg_encode(uint8_t **out, size_t *bytes, const mba_image *m, int quality)
{
    const size_t room   = (size_t)m->W * (size_t)m->H * 6 + 65536;
    encoder     *e      = calloc(1, sizeof *e);
    uint8_t     *buffer = malloc(room);
    mba_status   st     = MBA_OK;
    if (!e || !buffer) {
        free(e);
        free(buffer);
        return mba_fail(MBA_E_NOMEM, "no memory to encode an image of %d x %d pixels", m->W, m->H);
    }
    handler_start(&e->h);
    e->c.err = &e->h.base;
    e->bytes = buffer;
    e->n     = room;
    if (!encode(e, m, quality))
        st =
            mba_fail(MBA_E_ARG, "an image of %d x %d pixels cannot be encoded as JPEG\nwhy: %s", m->W, m->H, e->h.text);
    if (e->created) jpeg_destroy_compress(&e->c);
    *out   = e->bytes;
    *bytes = e->n;
    if (st != MBA_OK || e->bytes != buffer) free(buffer);
    free(e);
    return st;
}
