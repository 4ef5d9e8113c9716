// SPDX-License-Identifier: Apache-2.0
/* lookup.c -- see lookup.h: a hash table with linear probing, at most half full. */
#include "core/lookup.h"

#include <stdlib.h>

#include "core/status.h"

enum { SLOTS_FIRST = 512, ITEMS_FIRST = 64 };

uint64_t mba_hash(uint64_t h, const void *bytes, size_t n)
{
    const unsigned char *b = bytes;
    for (size_t i = 0; i < n; i++) h = (h ^ b[i]) * 1099511628211u;
    return h;
}

int64_t mba_lookup_next(const mba_lookup *t, uint64_t hash, int64_t *at)
{
    mba_assert(*at >= 0);
    while (*at < t->slots) { // at most half are taken, so a free slot ends the search
        const struct mba_lookup_slot *s = &t->slot[(hash + (uint64_t)*at) & (uint64_t)(t->slots - 1)];
        if (!s->item) break;
        ++*at;
        if (s->hash == hash) return s->item - 1;
    }
    return -1;
}

static void put(struct mba_lookup_slot *slot, int64_t slots, struct mba_lookup_slot what)
{
    uint64_t at = what.hash;
    while (slot[at & (uint64_t)(slots - 1)].item) at++;
    slot[at & (uint64_t)(slots - 1)] = what;
}

bool mba_lookup_add(mba_lookup *t, uint64_t hash)
{
    if (2 * (t->n + 1) > t->slots) {
        const int64_t           slots = t->slots ? 2 * t->slots : SLOTS_FIRST;
        struct mba_lookup_slot *wider = calloc((size_t)slots, sizeof *wider);
        if (!wider) return false;
        for (int64_t i = 0; i < t->slots; i++)
            if (t->slot[i].item) put(wider, slots, t->slot[i]);
        free(t->slot);
        t->slot = wider;
        t->slots = slots;
    }
    put(t->slot, t->slots, (struct mba_lookup_slot){ hash, ++t->n });
    mba_assert(2 * t->n <= t->slots && (t->slots & (t->slots - 1)) == 0);
    return true;
}

void mba_lookup_free(mba_lookup *t)
{
    free(t->slot);
    *t = (mba_lookup){ 0 };
}

void *mba_grow(void *items, int64_t n, int64_t *room, size_t item_bytes)
{
    mba_assert(n >= 0 && n <= *room && item_bytes > 0);
    if (n < *room) return items;
    const int64_t more = *room ? 2 * *room : ITEMS_FIRST;
    void         *a = realloc(items, (size_t)more * item_bytes);
    if (a) *room = more;
    return a;
}
