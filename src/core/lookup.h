// SPDX-License-Identifier: Apache-2.0
/* lookup.h -- an array that grows, and the place of an item in it by what the item is about.
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
 * The array is the caller's; the lookup knows hashes alone. Items are numbered as they come, from 0. */
#ifndef MBA_CORE_LOOKUP_H
#define MBA_CORE_LOOKUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MBA_HASH_BEGIN 1469598103934665603u

/* `h` with these bytes mixed in: FNV-1a. */
uint64_t mba_hash(uint64_t h, const void *bytes, size_t n);

typedef struct mba_lookup {
    struct mba_lookup_slot {
        uint64_t hash;
        int64_t  item;
    } * slot; /* item: from 1; 0 is free */
    int64_t slots, n;
} mba_lookup;

/* The next item of this hash, -1 behind the last; *at is 0 before the first. The caller sees whether it is the one. */
int64_t mba_lookup_next(const mba_lookup *t, uint64_t hash, int64_t *at);

/* Item t->n, which is one more then; false without memory, and nothing has changed. */
bool mba_lookup_add(mba_lookup *t, uint64_t hash);

void mba_lookup_free(mba_lookup *t);

/* The array with room for item n, twice as much where there is too little; NULL without memory, and `items` stays. */
void *mba_grow(void *items, int64_t n, int64_t *room, size_t item_bytes);

#endif
