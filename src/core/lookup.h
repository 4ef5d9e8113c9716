// SPDX-License-Identifier: Apache-2.0
/* lookup.h -- a growing array, and a hash index that finds an item's position in it.
 *
 *     kernel        *kernels = NULL;  int64_t n = 0, room = 0;
 *     mba_lookup     by_name = { 0 };
 *     const uint64_t hash = mba_hash(MBA_HASH_BEGIN, name, strlen(name));
 *     int64_t        at = 0, i;
 *     while ((i = mba_lookup_next(&by_name, hash, &at)) >= 0 && strcmp(kernels[i].name, name)) continue;
 *     if (i < 0) {                                            // not there yet
 *         kernel *more = mba_grow(kernels, n, &room, sizeof *more);
 *         if (more) kernels = more;
 *         if (!more || !mba_lookup_add(&by_name, hash)) return mba_fail(MBA_E_NOMEM, ..);
 *         kernels[i = n++] = (kernel){ .name = name };
 *     }
 *     mba_lookup_free(&by_name);
 *
 * The caller owns the array and compares items; the index stores only hashes. Items are numbered from 0 in the order of
 * mba_lookup_add. */
#ifndef MBA_CORE_LOOKUP_H
#define MBA_CORE_LOOKUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MBA_HASH_BEGIN 1469598103934665603u

/* Continues the FNV-1a hash `h` with these bytes. */
uint64_t mba_hash(uint64_t h, const void *bytes, size_t n);

typedef struct mba_lookup {
    struct mba_lookup_slot {
        uint64_t hash;
        int64_t  item;
    } * slot;         /* item: its number + 1; 0: a free slot */
    int64_t slots, n; /* slots: a power of two, at least 2 n */
} mba_lookup;

/* Returns the next item with this hash, or -1 after the last. *at is 0 for the first call. The caller compares the
 * item, because different items can have the same hash. */
int64_t mba_lookup_next(const mba_lookup *t, uint64_t hash, int64_t *at);

/* Adds item number t->n and increments t->n. Returns false if there is no memory; then nothing has changed. */
bool mba_lookup_add(mba_lookup *t, uint64_t hash);

void mba_lookup_free(mba_lookup *t);

/* Returns the array with room for item n; doubles it if needed. Returns NULL if there is no memory; then `items` is
 * still valid. */
void *mba_grow(void *items, int64_t n, int64_t *room, size_t item_bytes);

#endif
