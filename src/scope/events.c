/* events.c -- see events.h. */
#include "scope/events.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static uint64_t hash(const char *s)
{
    uint64_t h = 1469598103934665603u;
    for (; *s; s++) h = (h ^ (unsigned char)*s) * 1099511628211u;
    return h;
}

static int64_t *slot_of(const mba_events *l, const char *name)
{
    int64_t at = (int64_t)(hash(name) & (uint64_t)(l->slots - 1));
    while (l->slot[at] && strcmp(l->names[l->slot[at] - 1], name)) at = (at + 1) & (l->slots - 1);
    return &l->slot[at];
}

static bool widen(mba_events *l)
{
    const int64_t slots = l->slots ? 2 * l->slots : 256;
    int64_t      *was = l->slot;
    l->slot = calloc((size_t)slots, sizeof *l->slot);
    if (!l->slot) {
        l->slot = was;
        return false;
    }
    l->slots = slots;
    for (int64_t i = 0; i < l->nnames; i++) *slot_of(l, l->names[i]) = i + 1;
    free(was);
    return true;
}

static bool grow(void *array, int64_t n, int64_t *room, size_t item)
{
    if (n < *room) return true;
    const int64_t more = *room ? 2 * *room : 256;
    void         *a = realloc(*(void **)array, (size_t)more * item);
    if (!a) return false;
    *(void **)array = a;
    *room = more;
    return true;
}

int64_t mba_events_name(mba_events *l, const char *name)
{
    if (2 * (l->nnames + 1) > l->slots && !widen(l)) return -1;
    int64_t *slot = slot_of(l, name);
    if (*slot) return *slot - 1;
    if (!grow(&l->names, l->nnames, &l->names_room, sizeof *l->names) || !(l->names[l->nnames] = strdup(name)))
        return -1;
    *slot = ++l->nnames;
    return l->nnames - 1;
}

mba_status mba_events_add(mba_events *l, const mba_event *e)
{
    const int64_t name = mba_events_name(l, e->name ? e->name : "?");
    if (name < 0 || !grow(&l->event, l->n, &l->room, sizeof *l->event))
        return mba_fail(MBA_E_NOMEM, "no memory for %lld events\nfix: profile fewer steps", (long long)l->n);
    l->event[l->n] = *e;
    l->event[l->n++].name = l->names[name];
    return MBA_OK;
}

void mba_events_free(mba_events *l)
{
    for (int64_t i = 0; i < l->nnames; i++) free(l->names[i]);
    free(l->names);
    free(l->slot);
    free(l->event);
    *l = (mba_events){ 0 };
}

/* The last identifier of the (nested) name: digits, then as many characters. */
void mba_kernel_short(char *out, size_t room, const char *name)
{
    const char *p = name, *best = name;
    size_t      length = strlen(name);
    if (!strncmp(p, "_Z", 2)) {
        p += 2;
        if (*p == 'N') p++;
        while (*p == 'L' || *p == 'K') p++;
        while (isdigit((unsigned char)*p)) {
            size_t n = 0;
            while (isdigit((unsigned char)*p) && n < 4096) n = 10 * n + (size_t)(*p++ - '0');
            if (n == 0 || strnlen(p, n) < n) break;
            best   = p;
            length = n;
            p     += n;
        }
    }
    if (length >= room) length = room - 1;
    memcpy(out, best, length);
    out[length] = 0;
}
