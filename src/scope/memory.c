// SPDX-License-Identifier: Apache-2.0
/* memory.c -- see memory.h: lifetimes of storages from operand rows, then sums by role and per node. */
#include "scope/memory.h"

#include <stdlib.h>
#include <string.h>

enum { STORAGES_MAX = 1 << 20 };

typedef struct storage {
    double  bytes;
    int64_t first, last;
    int     role;
    bool    seen;
} storage;

static bool is_transient(const char *role)
{
    return !strcmp(role, "activations") || !strcmp(role, "activation gradients") || !strcmp(role, "results");
}

/* Index of a role. If a hostile file has too many roles, the last index takes the rest. */
static int role_of(mba_memory *m, const char *name)
{
    int i = 0;
    if (!name) name = "not known";
    while (i < m->nroles && strcmp(m->role[i].name, name)) i++;
    if (i == MBA_MEMORY_ROLES) return MBA_MEMORY_ROLES - 1;
    if (i == m->nroles) m->role[m->nroles++].name = name, m->role[i].kept = !is_transient(name);
    return i;
}

static void touch(mba_memory *m, storage *s, int64_t node, const mba_row_operand *o)
{
    mba_debug_assert(node >= 0 && node < m->nnodes);
    if (!s->seen) *s = (storage){ .first = node, .role = role_of(m, o->role), .seen = true };
    if (node < s->first) s->first = node;
    if (node > s->last) s->last = node;
    if (o->bytes > s->bytes) s->bytes = o->bytes;
}

static void sum(mba_memory *m, const storage *s, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        if (!s[i].seen) continue;
        mba_debug_assert(s[i].role >= 0 && s[i].role < m->nroles && s[i].first <= s[i].last);
        m->role[s[i].role].storages++;
        m->role[s[i].role].bytes += s[i].bytes;
        if (m->role[s[i].role].kept) m->kept_bytes += s[i].bytes;
        else
            for (int64_t k = s[i].first; k <= s[i].last; k++) m->alive_bytes[k] += s[i].bytes;
    }
    for (int64_t k = 0; k < m->nnodes; k++) {
        m->alive_bytes[k] += m->kept_bytes;
        if (m->alive_bytes[k] > m->peak_bytes) m->peak_bytes = m->alive_bytes[k], m->peak = k;
    }
    mba_assert(!m->nnodes || (m->peak_bytes >= m->kept_bytes && m->peak < m->nnodes));
}

static mba_status read_planned(const mba_analysis *a, double *bytes)
{
    mba_row_parameter *p;
    int64_t            n;
    *bytes = NAN;
    MBA_TRY(mba_load_parameter(a->store, &p, &n));
    for (int64_t i = 0; i < n; i++)
        if (p[i].name && p[i].value && !strcmp(p[i].name, "plan_bytes")) *bytes = strtod(p[i].value, NULL);
    return MBA_OK;
}

mba_status mba_memory_of(const mba_analysis *a, mba_memory **out)
{
    mba_row_operand *o;
    int64_t          n, storages = 0;
    double           planned;
    MBA_TRY(mba_load_operand(a->store, &o, &n));
    MBA_TRY(read_planned(a, &planned));
    for (int64_t i = 0; i < n; i++)
        if (o[i].storage >= storages && o[i].storage < STORAGES_MAX) storages = o[i].storage + 1;
    mba_memory *m = calloc(1, sizeof *m + (size_t)a->nnodes * sizeof(double));
    storage    *s = calloc((size_t)storages + 1, sizeof *s);
    if (!m || !s) {
        free(m);
        free(s);
        return mba_fail(MBA_E_NOMEM, "no memory for %lld operands", (long long)n);
    }
    m->planned_bytes = planned;
    m->nnodes = n > 0 ? a->nnodes : 0;
    for (int64_t i = 0; i < n; i++) {
        const int64_t node = mba_store_find(MBA_ROWS_node, a->node, a->nnodes, o[i].node);
        if (node >= 0 && o[i].storage >= 0 && o[i].storage < STORAGES_MAX && o[i].bytes >= 0)
            touch(m, &s[o[i].storage], node, &o[i]);
    }
    sum(m, s, storages);
    free(s);
    *out = m;
    return MBA_OK;
}

void mba_memory_destroy(mba_memory *m) { free(m); }
