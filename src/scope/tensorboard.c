// SPDX-License-Identifier: Apache-2.0
/* tensorboard.c -- see tensorboard.h: CRC-32C, the few protobuf encodings that an event needs, and the file. */
#include "scope/tensorboard.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "core/file.h"
#include "data/array.h"
#include "data/listing.h"

/* ---- CRC-32C ---- */

uint32_t mba_crc32c(const void *bytes, size_t n)
{
    const unsigned char *at = bytes;
    uint32_t             crc = 0xffffffffu;
    for (size_t i = 0; i < n; i++) {
        crc ^= at[i];
        for (int bit = 0; bit < 8; bit++) crc = crc & 1 ? crc >> 1 ^ 0x82f63b78u : crc >> 1;
    }
    return ~crc;
}

uint32_t mba_crc32c_masked(const void *bytes, size_t n)
{
    const uint32_t crc = mba_crc32c(bytes, n);
    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

/* ---- protobuf ---- */

/* A message under construction; our events have at most ten short values. */
typedef struct message {
    unsigned char bytes[2048];
    size_t        n;
} message;

typedef enum wire { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 } wire;

static void put_byte(message *m, unsigned v)
{
    mba_assert(m->n < sizeof m->bytes);
    m->bytes[m->n++] = (unsigned char)v;
}

static void put_varint(message *m, uint64_t v)
{
    for (; v > 127; v >>= 7) put_byte(m, (unsigned)(v & 127) | 128);
    put_byte(m, (unsigned)v);
}

static void put_little(message *m, uint64_t v, int bytes)
{
    for (int i = 0; i < bytes; i++) put_byte(m, (unsigned)(v >> 8 * i & 255));
}

static void put_key(message *m, unsigned field, wire type) { put_varint(m, field << 3 | (unsigned)type); }

static void put_double(message *m, unsigned field, double v)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    put_key(m, field, FIXED64);
    put_little(m, bits, 8);
}

static void put_float(message *m, unsigned field, float v)
{
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    put_key(m, field, FIXED32);
    put_little(m, bits, 4);
}

static void put_bytes(message *m, unsigned field, const void *bytes, size_t n)
{
    put_key(m, field, BYTES);
    put_varint(m, n);
    for (size_t i = 0; i < n; i++) put_byte(m, ((const unsigned char *)bytes)[i]);
}

/* ---- events: Event { wall_time 1, step 2, file_version 3, summary 5 }, Summary { value 1 }, Value { tag 1,
 * simple_value 2 } ---- */

static void put_value(message *summary, const char *tag, double v)
{
    message value = { .n = 0 };
    if (isnan(v)) return;
    put_bytes(&value, 1, tag, strlen(tag));
    put_float(&value, 2, (float)v);
    put_bytes(summary, 1, value.bytes, value.n);
}

static mba_status put_record(mba_writer *w, const message *event)
{
    message head = { .n = 0 }, tail = { .n = 0 };
    mba_assert(event->n > 0);
    put_little(&head, event->n, 8);
    put_little(&head, mba_crc32c_masked(head.bytes, 8), 4);
    put_little(&tail, mba_crc32c_masked(event->bytes, event->n), 4);
    MBA_TRY(mba_writer_put(w, head.bytes, head.n));
    MBA_TRY(mba_writer_put(w, event->bytes, event->n));
    return mba_writer_put(w, tail.bytes, tail.n);
}

static mba_status put_step(mba_writer *w, const mba_training *t, const mba_trained *s, double began)
{
    message event = { .n = 0 }, summary = { .n = 0 };
    char    tag[64];
    put_double(&event, 1, began + (isnan(s->seconds) ? 0 : s->seconds));
    put_key(&event, 2, VARINT);
    put_varint(&event, (uint64_t)s->step);
    put_value(&summary, "loss/train", s->loss);
    put_value(&summary, "loss/validation", s->valid_loss);
    for (int k = 0; k < t->nscores; k++) {
        snprintf(tag, sizeof tag, "score/%s", t->score[k]);
        put_value(&summary, tag, s->score[k]);
    }
    put_value(&summary, "optimizer/gradient_norm", s->grad_norm);
    put_value(&summary, "optimizer/learning_rate", s->lr);
    put_value(&summary, "optimizer/skipped", s->skipped);
    snprintf(tag, sizeof tag, "speed/%s_per_s", t->unit);
    put_value(&summary, tag, s->rate);
    put_bytes(&event, 5, summary.bytes, summary.n);
    return put_record(w, &event);
}

static mba_status put_events(mba_writer *w, const mba_training *t, double began)
{
    static const char version[] = "brain.Event:2";
    message           first = { .n = 0 };
    put_double(&first, 1, began);
    put_bytes(&first, 3, version, sizeof version - 1);
    MBA_TRY(put_record(w, &first));
    for (int64_t i = 0; i < t->n; i++) MBA_TRY(put_step(w, t, &t->step[i], began));
    return MBA_OK;
}

/* ---- the file ---- */

/* Start of the run: the time of the log's last change minus the duration. The same run gives the same file. */
static double began_at(const mba_training *t)
{
    char        log[4096];
    struct stat info;
    snprintf(log, sizeof log, "%s/log.jsonl", t->path);
    if (stat(log, &info)) return 0;
    mba_assert(t->n > 0);
    const double took = t->step[t->n - 1].seconds, ended = (double)info.st_mtime;
    return isnan(took) ? ended : floor(ended - took);
}

static bool has_events(const char *name) { return strstr(name, "tfevents") != NULL; }

static mba_status nothing_else_there(const char *folder, const char *name)
{
    mba_listing l = { 0 };
    mba_status  st = mba_listing_read(&l, folder, has_events);
    for (int64_t i = 0; i < l.n && st == MBA_OK; i++)
        if (strcmp(l.name[i], name))
            st = mba_fail(MBA_E_ARG,
                          "'%s' has events of another run: %s\nwhy: TensorBoard draws all files of a folder as one "
                          "run\nfix: use one folder per run, --tensorboard %s/NAME",
                          folder, mba_quote(l.name[i]).text, folder);
    mba_listing_free(&l);
    return st;
}

mba_status mba_tensorboard_write(char *path, size_t room, const mba_training *t, const char *folder)
{
    char        name[256];
    mba_writer *w = NULL;
    snprintf(name, sizeof name, "events.out.tfevents.0.%s", t->label);
    MBA_TRY(mba_mkdirs(folder));
    MBA_TRY(nothing_else_there(folder, name));
    if ((size_t)snprintf(path, room, "%s/%s", folder, name) >= room)
        return mba_fail(MBA_E_ARG, "the path '%s' is too long\nfix: choose a shorter --tensorboard", folder);
    mba_status st = mba_writer_create(&w, path);
    if (st == MBA_OK) st = put_events(w, t, began_at(t));
    if (st == MBA_OK) st = mba_writer_commit(w);
    mba_writer_destroy(w);
    return st;
}
