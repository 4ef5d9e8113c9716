// SPDX-License-Identifier: Apache-2.0
/* graph_fuzz.h -- what the fuzz targets of graph collections share. */
#ifndef MBA_GRAPH_FUZZ_H
#define MBA_GRAPH_FUZZ_H

#include "fuzz.h"
#include "data/graph_features.h"
#include "data/number_table.h"

enum { SEPARATOR = 0x1e };

/* Cuts the input into `n` texts at the separator; an empty one is absent. Copies of the exact size, so that one byte
 * too far is seen. */
static inline void cut_texts(mba_named_text *text, int n, const uint8_t *bytes, size_t size)
{
    for (int k = 0; k < n; k++) {
        const uint8_t *stop = size ? memchr(bytes, SEPARATOR, size) : NULL;
        const size_t   m = stop ? (size_t)(stop - bytes) : size;
        char          *copy = malloc(m + !m);
        mba_assert(copy);
        if (m) memcpy(copy, bytes, m);
        text[k] = (mba_named_text){ "fuzz", m ? copy : NULL, m };
        if (!m) free(copy);
        bytes += m + (stop != NULL);
        size -= m + (stop != NULL);
    }
}

static inline void free_texts(mba_named_text *text, int n)
{
    for (int k = 0; k < n; k++) free((char *)(uintptr_t)text[k].text);
}

static inline unsigned touch(const void *p, size_t n)
{
    unsigned sum = 0;
    for (size_t i = 0; p && i < n; i++) sum += ((const unsigned char *)p)[i];
    return sum;
}

/* A collection that was accepted is sound to the last byte, and features can be computed from it. */
static inline void use_set(const mba_graph_set *s)
{
    enum { SMALL = 24, K = 5 };
    const mba_graph_form *f = &s->form;
    unsigned              sum = 0;
    mba_assert(s->graphs > 0 && mba_graph_set_check(s, "again") == MBA_OK);
    for (int64_t g = 0; g < s->graphs; g++) {
        const mba_graph_item i = mba_graph_set_item(s, g);
        const size_t         n = (size_t)i.nodes, e = (size_t)i.edges;
        sum += touch(i.src, e * 4) + touch(i.dst, e * 4);
        sum += touch(i.node_feat, n * mba_graph_type_bytes(f->node_type) * (size_t)f->node_width);
        sum += touch(i.edge_feat, e * mba_graph_type_bytes(f->edge_type) * (size_t)f->edge_width);
        sum += touch(i.label, (f->node_labels ? n : 1) * mba_graph_type_bytes(f->label_type) * (size_t)f->label_width);
        sum += touch(i.lap_val, (size_t)f->lap_k * 4) + touch(i.lap_vec, n * (size_t)f->lap_k * 4);
        sum += touch(i.rwse, n * (size_t)f->rwse_k * 4);
        mba_assert((unsigned)i.split < MBA_SPLITS);
        if (g > 3 || n > SMALL) continue;
        float val[K], vec[SMALL * K], profile[SMALL * MBA_DEGREE_PROFILE];
        mba_assert(mba_graph_lap(val, vec, i.nodes, i.edges, i.src, i.dst, K) == MBA_OK);
        mba_assert(mba_graph_rwse(vec, i.nodes, i.edges, i.src, i.dst, K) == MBA_OK);
        mba_assert(mba_graph_degree_profile(profile, i.nodes, i.edges, i.src, i.dst) == MBA_OK);
    }
    static volatile unsigned sink;
    sink = sum;
    (void)sink;
}

#endif
