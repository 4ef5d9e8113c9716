// SPDX-License-Identifier: Apache-2.0
/* fields.h -- the fields of a configuration by name: one table serves --set, `list fields` and config.json.
 *
 *     static const mba_field fields[] = {
 *         { "width", MBA_FIELD_INT, offsetof(config, width), .meaning = "channels" },
 *         { "depths", MBA_FIELD_LIST, offsetof(config, depths), .count = 4, .meaning = "blocks of each stage" },
 *         { 0 } };
 *     MBA_TRY(mba_fields_set(&c, fields, "width=96,depths=1:3:8:4"));
 */
#ifndef MBA_FIELDS_H
#define MBA_FIELDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/status.h"

typedef enum mba_field_kind {
    MBA_FIELD_INT,  /* int64_t */
    MBA_FIELD_BOOL, /* bool, written 0 or 1 */
    MBA_FIELD_REAL, /* double */
    MBA_FIELD_LIST, /* int64_t[count], written 1:3:8:4; missing entries are 0 */
    MBA_FIELD_WORD, /* an enum, written as one of `words` */
    MBA_FIELD_TEXT, /* char[count] */
} mba_field_kind;

typedef struct mba_field {
    const char        *name; /* NULL ends a table */
    mba_field_kind     kind;
    size_t             offset;
    int                count;
    double             standard; /* the default, which a value of 0 means; 0: none */
    const char *const *words;    /* ends with NULL */
    const char        *meaning;
    int64_t            least, most; /* range of an INT for --set; most 0: MBA_FIELD_MOST */
} mba_field;

enum { MBA_FIELD_MOST = 1 << 24 }; /* larger numbers are typing errors or hostile files */

static inline void *mba_field_at(const void *config, const mba_field *f) { return (char *)config + f->offset; }

/* Assigns "NAME=VALUE,.."; NULL and "" are fine. Fails with MBA_E_ARG and the assignment that is wrong. */
MBA_MUST mba_status mba_fields_set(void *config, const mba_field *fields, const char *assignments);

/* The index of a word in f->words, or -1. */
int mba_field_word(const mba_field *f, const char *text, size_t n);

#endif
