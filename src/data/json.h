// SPDX-License-Identifier: Apache-2.0
/* json.h -- reads untrusted JSON files and writes our own: a thin layer over Jansson.
 *
 *     json_t *config;
 *     int64_t M;
 *     MBA_TRY(mba_json_load(&config, "config.json", NULL));                  // json_decref(config)
 *     mba_status st = mba_json_require(config, "hidden_size");
 *     if (st == MBA_OK) st = mba_json_int(config, "hidden_size", 0, 1, 1 << 20, &M);
 *     if (st != MBA_OK) st = mba_where(st, "'%s'", "config.json");
 *
 * Beyond the standard it accepts bare Infinity, -Infinity and NaN, as Python writes them, and integers too large for 64
 * bits. The first three become {"__float__": "Infinity"} and so on, as newer files write them; the last become reals.
 * The root must be an object; duplicate keys are errors. */
#ifndef MBA_JSON_H
#define MBA_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <jansson.h>
#include "core/status.h"

/* Limits against hostile files: a value takes about 100 bytes of memory. */
typedef struct mba_json_limits {
    size_t bytes, values;
    int    depth;
} mba_json_limits;

extern const mba_json_limits mba_json_limits_default; /* 256 MiB, 8 Mi values, 64 deep */

/* `file` is for messages; `limits` may be NULL. MBA_E_FORMAT comes with line and column. */
MBA_MUST mba_status mba_json_parse(json_t **out, const char *file, const char *text, size_t bytes,
                                   const mba_json_limits *limits);
MBA_MUST mba_status mba_json_load(json_t **out, const char *path, const mba_json_limits *limits);

/* A number for writing: NaN and infinity, which JSON does not have, become null. */
json_t *mba_json_finite(double v);

/* Writes an indented file, all or nothing. */
MBA_MUST mba_status mba_json_save(const json_t *root, const char *path);

/* Getters. An absent key, a null, and any key of a NULL object give the default `standard`; a value of another type or
 * outside [min, max] is MBA_E_FORMAT. The caller adds the name of the file. The object owns the text. */
MBA_MUST mba_status mba_json_int(const json_t *o, const char *key, int64_t standard, int64_t min, int64_t max,
                                 int64_t *out);
MBA_MUST mba_status mba_json_real(const json_t *o, const char *key, double standard, double min, double max,
                                  double *out);
MBA_MUST mba_status mba_json_bool(const json_t *o, const char *key, bool standard, bool *out);
MBA_MUST mba_status mba_json_text(const json_t *o, const char *key, const char *standard, const char **out);

/* Fails with MBA_E_FORMAT unless the key is present and not null. */
MBA_MUST mba_status mba_json_require(const json_t *o, const char *key);

/* Lends the value; NULL: absent or null. For arrays, objects, and keys of several types. */
const json_t *mba_json_get(const json_t *o, const char *key);

/* A number as double: integers, reals and {"__float__": ..}. False for anything else. */
bool mba_json_number(const json_t *value, double *out);

const char *mba_json_kind(const json_t *value); /* "text", "a list", ..., for messages */

/* Jansson 2.14 can lose a character without an error when memory runs out. Between these two calls, every allocation of
 * Jansson in the thread is watched; true: one failed, and nothing built since begin may be used. */
void mba__json_begin(void);
bool mba__json_starved(void);

/* For a value built after mba__json_begin without checks in between: fails if any part of it is missing. */
MBA_MUST mba_status mba_json_whole(const json_t *root, const char *what);

/* Writes a value and a newline, numbers with so many digits. The owner of the file reports write errors. */
MBA_MUST mba_status mba_json_print(FILE *f, const json_t *root, int digits);

#endif
