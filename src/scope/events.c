// SPDX-License-Identifier: Apache-2.0
/* events.c -- see events.h: a growing list of events whose names are stored once, and short kernel names. */
#include "scope/events.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

int64_t mba_events_name(mba_events *l, const char *name)
{
    const uint64_t hash = mba_hash(MBA_HASH_BEGIN, name, strlen(name));
    int64_t        at = 0, i;
    while ((i = mba_lookup_next(&l->place, hash, &at)) >= 0)
        if (!strcmp(l->names[i], name)) return i;
    char **more = mba_grow(l->names, l->nnames, &l->names_room, sizeof *more), *own = more ? strdup(name) : NULL;
    if (more) l->names = more;
    if (!own || !mba_lookup_add(&l->place, hash)) {
        free(own);
        return -1;
    }
    l->names[l->nnames] = own;
    return l->nnames++;
}

mba_status mba_events_add(mba_events *l, const mba_event *e)
{
    const int64_t name = mba_events_name(l, e->name ? e->name : "?");
    mba_event    *more = mba_grow(l->event, l->n, &l->room, sizeof *more);
    if (more) l->event = more;
    if (name < 0 || !more)
        return mba_fail(MBA_E_NOMEM, "no memory for %lld events\nfix: profile fewer steps", (long long)l->n);
    mba_assert(l->n < l->room && name < l->nnames);
    l->event[l->n] = *e;
    l->event[l->n++].name = l->names[name];
    return MBA_OK;
}

void mba_events_free(mba_events *l)
{
    for (int64_t i = 0; i < l->nnames; i++) free(l->names[i]);
    free(l->names);
    mba_lookup_free(&l->place);
    free(l->event);
    *l = (mba_events){ 0 };
}

/* The last identifier of a mangled (nested) name: each is a length in digits, then that many characters. */
void mba_kernel_short(char *out, size_t room, const char *name)
{
    const char *p = name, *best = name;
    size_t      length = strlen(name);
    mba_assert(room > 0);
    if (!strncmp(p, "_Z", 2)) {
        p += 2;
        if (*p == 'N') p++;
        while (*p == 'L' || *p == 'K') p++;
        while (isdigit((unsigned char)*p)) {
            size_t n = 0;
            while (isdigit((unsigned char)*p) && n < 4096) n = 10 * n + (size_t)(*p++ - '0');
            if (n == 0 || strnlen(p, n) < n) break;
            best = p;
            length = n;
            p += n;
        }
    }
    if (length >= room) length = room - 1;
    memcpy(out, best, length);
    out[length] = 0;
}
