// SPDX-License-Identifier: Apache-2.0
/* tar.c -- see tar.h. Records of 512 bytes: a header, then the data padded to whole records. */
#include "data/tar.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { RECORD = 512, NAME = 0, SIZE = 124, CHECKSUM = 148, TYPE = 156, MAGIC = 257, PREFIX = 345 };

static mba_status wrong(const mba_tar *t, const char *why)
{
    return mba_fail(MBA_E_FORMAT,
                    "'%s' is not a valid tar archive\nwhy: %s (byte %zu)\n"
                    "fix: fetch it again; it may be truncated or compressed",
                    t->file, why, t->at);
}

/* Refuses archives that are joined in one file: tar itself ignores all but the first. */
static mba_status joined(const mba_tar *t)
{
    return mba_fail(MBA_E_FORMAT,
                    "'%s' does not end with its end record\nwhy: at byte %zu there is one, "
                    "followed by more data, as if archives were joined\nfix: use one file for each, or tar "
                    "--concatenate",
                    t->file, t->at);
}

static mba_status sparse(const mba_tar *t)
{
    return mba_fail(MBA_E_UNSUPPORTED,
                    "'%s' has a sparse file in it\nwhy: its header ends at byte %zu\n"
                    "fix: make the archive without --sparse",
                    t->file, t->at);
}

/* Parses octal digits between blanks, ended by a blank, a NUL or the end of the field. */
static bool octal(uint64_t *out, const uint8_t *p, int n)
{
    int i = 0, digits = 0;
    *out = 0;
    while (i < n && p[i] == ' ') i++;
    for (; i < n && p[i] >= '0' && p[i] <= '7'; i++, digits++) {
        if (*out >> 60) return false;
        *out = *out << 3 | (uint64_t)(p[i] - '0');
    }
    return digits > 0 && (i == n || p[i] == ' ' || p[i] == 0);
}

static bool size_of(uint64_t *out, const uint8_t *p)
{
    if (!(p[0] & 0x80)) return octal(out, p, 12);
    *out = p[0] & 0x7f; // big-endian in the other 95 bits
    for (int i = 1; i < 12; i++) {
        if (*out >> 55) return false;
        *out = *out << 8 | p[i];
    }
    return true;
}

/* True if the checksum is right. Some old programs sum signed bytes. */
static bool checksum_fits(const uint8_t *h)
{
    uint64_t want;
    int64_t  plain = 0, with_sign = 0;
    if (!octal(&want, h + CHECKSUM, 8)) return false;
    for (int i = 0; i < RECORD; i++) {
        const uint8_t b = i >= CHECKSUM && i < CHECKSUM + 8 ? ' ' : h[i];
        plain += b;
        with_sign += (int8_t)b;
    }
    return want == (uint64_t)plain || (int64_t)want == with_sign;
}

static bool all_zero(const uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (p[i]) return false;
    return true;
}

/* ---- names and attributes in separate records ---- */

typedef struct override {
    char     name[MBA_TAR_NAME];
    uint64_t size;
    bool     has_name, has_size;
} override;

static mba_status take_name(const mba_tar *t, override *o, const uint8_t *p, uint64_t n)
{
    while (n && !p[n - 1]) n--;
    if (n >= sizeof o->name) return wrong(t, "a name is longer than 1023 bytes");
    if (memchr(p, 0, n)) return wrong(t, "a name has a zero byte in it");
    memcpy(o->name, p, n);
    o->name[n] = 0;
    o->has_name = n > 0;
    return MBA_OK;
}

/* Reads one attribute, "length key=value\n"; *used is that length. */
static mba_status take_attribute(const mba_tar *t, override *o, const uint8_t *p, uint64_t n, uint64_t *used)
{
    uint64_t length = 0, i = 0;
    for (; i < n && i < 9 && p[i] >= '0' && p[i] <= '9'; i++) length = length * 10 + (uint64_t)(p[i] - '0');
    if (i == 0 || i == n || p[i] != ' ' || length <= i + 1 || length > n || p[length - 1] != '\n')
        return wrong(t, "an extended attribute has a wrong length");
    const uint8_t *key = p + i + 1, *end = p + length - 1, *equals = memchr(key, '=', (size_t)(end - key));
    if (!equals) return wrong(t, "an extended attribute has no value");
    *used = length;
    const uint8_t *value = equals + 1;
    if (equals - key > 11 && !memcmp(key, "GNU.sparse.", 11)) return sparse(t);
    if (equals - key == 4 && !memcmp(key, "path", 4)) return take_name(t, o, value, (uint64_t)(end - value));
    if (equals - key != 4 || memcmp(key, "size", 4)) return MBA_OK;
    o->has_size = true;
    o->size = 0;
    for (; value < end; value++) {
        if (*value < '0' || *value > '9' || o->size > UINT64_MAX / 20) return wrong(t, "an extended size is no number");
        o->size = o->size * 10 + (uint64_t)(*value - '0');
    }
    return MBA_OK;
}

static mba_status take_attributes(const mba_tar *t, override *o, const uint8_t *p, uint64_t n)
{
    for (uint64_t used = 0; n; p += used, n -= used) MBA_TRY(take_attribute(t, o, p, n, &used));
    return MBA_OK;
}

/* ---- members ---- */

static void plain_name(char *to, const uint8_t *h)
{
    const int prefix = !memcmp(h + MAGIC, "ustar\0", 6) ? (int)strnlen((const char *)h + PREFIX, 155) : 0;
    snprintf(to, MBA_TAR_NAME, "%.*s%s%.*s", prefix, (const char *)h + PREFIX, prefix ? "/" : "",
             (int)strnlen((const char *)h + NAME, 100), (const char *)h + NAME);
}

/* Returns the header at t->at and its data, and advances past the data; *type 0: the end record. */
static mba_status next_record(mba_tar *t, const override *o, int *type, const uint8_t **header, const uint8_t **data,
                              uint64_t *bytes)
{
    if (t->n - t->at < RECORD) return wrong(t, "it ends without an end record");
    const uint8_t *h = t->bytes + t->at;
    *type = 0;
    if (all_zero(h, RECORD)) return all_zero(h, t->n - t->at) ? MBA_OK : joined(t);
    if (!checksum_fits(h)) return wrong(t, "a header has a wrong checksum");
    if (!size_of(bytes, h + SIZE)) return wrong(t, "a member has no size");
    *type = h[TYPE] ? h[TYPE] : '0';
    if (o->has_size && (*type == '0' || *type == '7')) *bytes = o->size;
    if (*bytes > t->n - t->at - RECORD) return wrong(t, "it ends inside a member");
    *header = h;
    *data = h + RECORD;
    const size_t pad = (size_t)(-*bytes & (RECORD - 1));
    t->at += RECORD + (size_t)*bytes;
    t->at += pad < t->n - t->at ? pad : t->n - t->at;
    return MBA_OK;
}

mba_status mba_tar_next(mba_tar *t, mba_tar_member *m)
{
    override       o = { .has_name = false };
    const uint8_t *header = NULL, *data = NULL;
    uint64_t       bytes = 0;
    int            type = 0;
    for (;;) {
        MBA_TRY(next_record(t, &o, &type, &header, &data, &bytes));
        m->data = NULL;
        m->bytes = 0;
        if (!type) return MBA_OK;
        if (type == '0' || type == '7') break;
        if (type == 'S') return sparse(t);
        if (type == 'L') MBA_TRY(take_name(t, &o, data, bytes));
        else if (type == 'x') MBA_TRY(take_attributes(t, &o, data, bytes));
        else if (type != 'g' && type != 'K') o = (override){ .has_name = false }; // belonged to a skipped member
    }
    if (o.has_name) memcpy(m->name, o.name, sizeof m->name);
    else plain_name(m->name, header);
    m->data = data;
    m->bytes = (size_t)bytes;
    return MBA_OK;
}
