// SPDX-License-Identifier: Apache-2.0
/* store_schema.h -- internals that the files of the store (store.c, store_read.c, store_schema.c) share. */
#ifndef MBA_STORE_SCHEMA_H
#define MBA_STORE_SCHEMA_H

#include <sqlite3.h>

#include "scope/store.h"

struct mba_store {
    sqlite3           *db;
    char              *path;
    bool               writing, open_batch, in_memory; /* in_memory: opened from bytes, not from a file */
    int                version;                        /* of the file */
    int64_t            batched;                        /* rows since the last commit */
    double             batch_began_s;
    sqlite3_stmt      *insert[MBA_ROWS_COUNT];
    struct mba__chunk *loaded; /* memory of loaded rows */
    size_t             loaded_bytes;
};

/* The SQL of a table in schema version `version`; free with sqlite3_free. NULL: no memory. */
char *mba__schema_create(mba_store_rows table, int version);
char *mba__schema_insert(mba_store_rows table);
char *mba__schema_select(mba_store_rows table, int version, const char *order); /* absent columns read as NULL */

/* Turns SQLite's last error on a store into a status and a message. */
mba_status mba__store_failed(const mba_store *s, int code, const char *doing);

/* Frees the loaded rows. */
void mba__store_unload(mba_store *s);

/* MBA_E_FORMAT unless the open file is a store that this program can read; sets the version. */
mba_status mba__schema_check(mba_store *s);

#endif
