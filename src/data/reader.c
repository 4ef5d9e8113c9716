// SPDX-License-Identifier: Apache-2.0
/* reader.c -- see reader.h: plain files are mapped, gzip and zstd are unpacked into a buffer. */
#include "data/reader.h"

#include <stdlib.h>
#include <string.h>

#ifdef MBA_ZLIB
#include <zlib.h>
#endif
#ifdef MBA_ZSTD
#include <zstd.h>
#include <zstd_errors.h>
#endif

#include "core/file.h"

enum { BLOCK = 1 << 20, HEAD_MOST = 64 << 20 };

struct mba_reader {
    char       *path;
    mba_map     map;
    const char *packing;
    size_t      eaten;  /* bytes of the file unpacked so far; of a plain one, all */
    bool        ended;  /* nothing is left to unpack */
    bool        inside; /* inside a member or frame: the file must not end here */
    size_t      most;
    const char *text; /* plain: the map; else `buffer` */
    char       *buffer;
    size_t      from, to, room; /* range that is not used yet; room of the buffer */
#ifdef MBA_ZLIB
    z_stream z;
    bool     inflates;
#endif
#ifdef MBA_ZSTD
    ZSTD_DCtx *zstd;
#endif
};

const char *mba_packing(const void *bytes, size_t n)
{
    if (n >= 2 && !memcmp(bytes, "\x1f\x8b", 2)) return "gzip";
    return n >= 4 && !memcmp(bytes, "\x28\xb5\x2f\xfd", 4) ? "zstd" : NULL;
}

const char *mba_reader_packing(const mba_reader *r) { return r->packing; }

static mba_status damaged(const mba_reader *r, const char *why)
{
    return mba_fail(MBA_E_FORMAT, "'%s' cannot be unpacked\nwhy: %s\nfix: get the file again", r->path, why);
}

/* ---- gzip ---- */

#ifdef MBA_ZLIB
static mba_status begin_gzip(mba_reader *r)
{
    enum { GZIP_WINDOW = 15 + 16 }; // 16: expect a gzip header
    if (inflateInit2(&r->z, GZIP_WINDOW) != Z_OK) return mba_fail(MBA_E_NOMEM, "no memory to unpack '%s'", r->path);
    r->inflates = r->inside = true;
    return MBA_OK;
}

/* After a member comes another one, or padding with zeros up to a block of a tape. */
static mba_status next_member(mba_reader *r)
{
    const char *in = r->map.data;
    r->inside = false;
    while (r->eaten < r->map.bytes && !in[r->eaten]) r->eaten++;
    if (r->eaten == r->map.bytes) return MBA_OK;
    if (inflateReset(&r->z) != Z_OK) return damaged(r, "its second part is not sound");
    r->inside = true;
    return MBA_OK;
}

static mba_status unpack_gzip(mba_reader *r, size_t *n, char *to, size_t room)
{
    const size_t in = r->map.bytes - r->eaten;
    z_stream    *z = &r->z;
    z->next_in = (Bytef *)(uintptr_t)r->map.data + r->eaten;
    z->avail_in = in > INT32_MAX ? INT32_MAX : (uInt)in;
    z->next_out = (Bytef *)to;
    z->avail_out = room > INT32_MAX ? INT32_MAX : (uInt)room;
    const uInt before_in = z->avail_in, before_out = z->avail_out;
    const int  rc = inflate(z, Z_NO_FLUSH);
    r->eaten += before_in - z->avail_in;
    *n = before_out - z->avail_out;
    if (rc == Z_STREAM_END) return next_member(r);
    if (rc == Z_MEM_ERROR) return mba_fail(MBA_E_NOMEM, "no memory to unpack '%s'", r->path);
    if (rc != Z_OK && rc != Z_BUF_ERROR) return damaged(r, z->msg ? z->msg : "it is not sound");
    return MBA_OK;
}

static void end_gzip(mba_reader *r)
{
    if (r->inflates) inflateEnd(&r->z);
}
#else
static mba_status begin_gzip(mba_reader *r)
{
    return mba_fail(MBA_E_UNSUPPORTED,
                    "'%s' is compressed\nwhy: this build has no zlib\n"
                    "fix: unpack it with gunzip, or build where zlib is installed",
                    r->path);
}
static mba_status unpack_gzip(mba_reader *r, size_t *n, char *to, size_t room)
{
    (void)n;
    (void)to;
    (void)room;
    return begin_gzip(r);
}
static void       end_gzip(mba_reader *r) { (void)r; }
#endif

/* ---- zstd ---- */

#ifdef MBA_ZSTD
/* `zstd --long=31` needs a window of 2 GiB. A small file that wants more than the usual 128 MiB is damaged. */
static mba_status begin_zstd(mba_reader *r)
{
    enum { USUAL_LOG = 27, LONG_LOG = 31, LARGE_FILE = 16 << 20 };
    const int most = r->map.bytes < LARGE_FILE ? USUAL_LOG : LONG_LOG;
    r->zstd = ZSTD_createDCtx();
    r->inside = true;
    if (r->zstd && !ZSTD_isError(ZSTD_DCtx_setParameter(r->zstd, ZSTD_d_windowLogMax, most))) return MBA_OK;
    return mba_fail(MBA_E_NOMEM, "no memory to unpack '%s'", r->path);
}

static mba_status unpack_zstd(mba_reader *r, size_t *n, char *to, size_t room)
{
    ZSTD_inBuffer  in = { r->map.data, r->map.bytes, r->eaten };
    ZSTD_outBuffer out = { to, room, 0 };
    const size_t   rc = ZSTD_decompressStream(r->zstd, &out, &in);
    r->eaten = in.pos;
    *n = out.pos;
    if (ZSTD_getErrorCode(rc) == ZSTD_error_memory_allocation)
        return mba_fail(MBA_E_NOMEM, "no memory to unpack '%s'", r->path);
    if (ZSTD_isError(rc)) return damaged(r, ZSTD_getErrorName(rc));
    r->inside = rc != 0; // 0: a frame is complete, and all of it is in the buffer
    return MBA_OK;
}

static void end_zstd(mba_reader *r) { ZSTD_freeDCtx(r->zstd); }
#else
static mba_status begin_zstd(mba_reader *r)
{
    return mba_fail(MBA_E_UNSUPPORTED,
                    "'%s' is compressed\nwhy: this build has no libzstd\n"
                    "fix: unpack it with unzstd, or build where libzstd is installed",
                    r->path);
}
static mba_status unpack_zstd(mba_reader *r, size_t *n, char *to, size_t room)
{
    (void)n;
    (void)to;
    (void)room;
    return begin_zstd(r);
}
static void end_zstd(mba_reader *r) { (void)r; }
#endif

/* ---- open, close ---- */

static mba_status begin(mba_reader *r)
{
    r->packing = mba_packing(r->map.data, r->map.bytes);
    if (r->packing) return *r->packing == 'g' ? begin_gzip(r) : begin_zstd(r);
    r->text = r->map.data;
    r->to = r->eaten = r->map.bytes;
    r->ended = true;
    return MBA_OK;
}

mba_status mba_reader_open(mba_reader **out, const char *path, size_t most)
{
    mba_reader *r = calloc(1, sizeof *r);
    if (r) r->path = strdup(path);
    mba_status st = r && r->path ? MBA_OK : mba_fail(MBA_E_NOMEM, "no memory to open '%s'", path);
    if (st == MBA_OK) {
        r->most = most;
        st = mba_file_map(&r->map, path);
    }
    if (st == MBA_OK) st = begin(r);
    if (st == MBA_OK) *out = r;
    else mba_reader_close(r);
    return st;
}

void mba_reader_close(mba_reader *r)
{
    if (!r) return;
    end_gzip(r);
    end_zstd(r);
    mba_file_unmap(&r->map);
    free(r->buffer);
    free(r->path);
    free(r);
}

int64_t mba_reader_taken(const mba_reader *r) { return (int64_t)(r->packing ? r->eaten : r->from); }

/* ---- reading ---- */

/* Makes room after the unused text for as much again, so that long lines are not copied too often. */
static mba_status make_room(mba_reader *r)
{
    const size_t unused = r->to - r->from, want = unused + (unused > BLOCK ? unused : BLOCK);
    if (unused >= r->most)
        return mba_fail(MBA_E_UNSUPPORTED,
                        "'%s' has more than %zu MiB that cannot be split\nwhy: it is one "
                        "line, or text without white space, and memory is bounded\nfix: split it, or unpack the "
                        "file first",
                        r->path, r->most >> 20);
    if (unused) memmove(r->buffer, r->buffer + r->from, unused);
    r->from = 0;
    r->to = unused;
    if (want <= r->room) return MBA_OK;
    const size_t room = want < r->most ? want : r->most;
    char        *wider = realloc(r->buffer, room);
    if (!wider) return mba_fail(MBA_E_NOMEM, "no memory for %zu bytes of '%s'", room, r->path);
    r->text = r->buffer = wider;
    r->room = room;
    return MBA_OK;
}

/* Unpacks until the buffer is full or the file ends. */
static mba_status fill(mba_reader *r)
{
    MBA_TRY(make_room(r));
    while (r->to < r->room && !r->ended) {
        const size_t before = r->eaten;
        size_t       n = 0;
        MBA_TRY((*r->packing == 'g' ? unpack_gzip : unpack_zstd)(r, &n, r->buffer + r->to, r->room - r->to));
        r->to += n;
        r->ended = r->eaten == r->map.bytes && !r->inside;
        if (!r->ended && !n && r->eaten == before) return damaged(r, "it ends too early");
    }
    return MBA_OK;
}

mba_status mba_reader_view(mba_reader *r, const char **text, size_t *n, bool *last)
{
    if (!r->ended) MBA_TRY(fill(r));
    *text = r->text + r->from;
    *n = r->to - r->from;
    *last = r->ended;
    return MBA_OK;
}

void mba_reader_use(mba_reader *r, size_t n)
{
    mba_assert(n <= r->to - r->from);
    r->from += n;
}

mba_status mba_reader_line(mba_reader *r, const char **line, size_t *n)
{
    size_t seen = 0;
    for (;;) {
        const size_t unused = r->to - r->from;
        const char  *first = unused ? r->text + r->from : "", *feed = memchr(first + seen, '\n', unused - seen);
        if (feed || r->ended) {
            *line = unused ? first : NULL;
            *n = feed ? (size_t)(feed - first) : unused;
            r->from += *n + (feed != NULL);
            return MBA_OK;
        }
        seen = unused;
        MBA_TRY(fill(r));
    }
}

mba_status mba_reader_head(mba_reader *r, size_t bytes, const char **text, size_t *n)
{
    for (;;) {
        const char *first = r->text ? r->text + r->from : "";
        size_t      size = r->to - r->from, i = 0;
        while (i < size && strchr(" \t\r\n", first[i]) && first[i]) i++;
        *text = first;
        *n = size;
        if (r->ended || (size >= bytes && memchr(first + i, '\n', size - i)) || size >= HEAD_MOST) return MBA_OK;
        MBA_TRY(fill(r));
    }
}
