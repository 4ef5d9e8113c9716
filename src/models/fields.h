// SPDX-License-Identifier: Apache-2.0
/* fields.h -- the numbers of a configuration by name: one table serves --set, `list fields` and config.json.
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
    MBA_FIELD_LIST, /* int64_t[count], written 1:3:8:4; what is left out is 0 */
    MBA_FIELD_WORD, /* an enum, written as one of `words` */
    MBA_FIELD_TEXT, /* char[count] */
} mba_field_kind;

typedef struct mba_field {
    const char        *name; /* NULL ends a table */
    mba_field_kind     kind;
    size_t             offset;
    int                count;
    double             standard; /* what 0 stands for, where it stands for a number */
    const char *const *words;    /* NULL at the end */
    const char        *meaning;
    int64_t            least, most; /* of an INT that is set; most 0: MBA_FIELD_MOST */
} mba_field;

enum { MBA_FIELD_MOST = 1 << 24 }; /* larger numbers are typing errors or hostile files */

static inline void *mba_field_at(const void *config, const mba_field *f) { return (char *)config + f->offset; }

/* "NAME=VALUE,..": NULL and "" are fine. MBA_E_ARG names the assignment that cannot be made. */
MBA_MUST mba_status mba_fields_set(void *config, const mba_field *fields, const char *assignments);

/* The number of a word, or -1. */
int mba_field_word(const mba_field *f, const char *text, size_t n);

#endif
