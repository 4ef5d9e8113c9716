// SPDX-License-Identifier: Apache-2.0
/* graph_draft.h -- one synthetic graph under construction, shared by the generators of graph_synthetic.h.
 *
 * Its random numbers are counter-based, from (collection, seed, number); its arrays come from an arena. */
#ifndef MBA_GRAPH_DRAFT_H
#define MBA_GRAPH_DRAFT_H

#include <math.h>

#include "core/arena.h"
#include "core/rng.h"
#include "data/graph_synthetic.h"

typedef struct mba_draft {
    mba_arena *arena;
    uint64_t   key, seed, number; /* key: of (collection, seed) */
    uint64_t   drawn;             /* blocks of four random words so far */
    uint32_t   word[4];
    int        left; /* unused words of the last block */
    int64_t    nodes, edges;
    uint32_t  *src, *dst;
    void      *node_feat, *edge_feat, *label;
} mba_draft;

/* Generates one graph: counts and arrays. */
typedef void mba_draft_make(mba_draft *d, mba_synthetic kind);

mba_draft_make mba__draft_superpixels, mba__draft_points, mba__draft_peptide, mba__draft_blocks, mba__draft_calls;
mba_draft_make mba__draft_beacons;

static inline uint32_t mba__draw(mba_draft *d)
{
    if (!d->left) {
        mba_philox(d->word, d->key, d->number, d->drawn++);
        d->left = 4;
    }
    return d->word[--d->left];
}

/* In [0, 1). */
static inline double mba__draw_unit(mba_draft *d) { return mba__draw(d) * (1.0 / 4294967296.0); }

/* In 0 .. n-1. */
static inline int64_t mba__draw_below(mba_draft *d, int64_t n)
{
    return (int64_t)((uint64_t)mba__draw(d) * (uint64_t)n >> 32);
}

static inline double mba__draw_normal(mba_draft *d)
{
    const double radius = sqrt(-2 * log(1 - mba__draw_unit(d)));
    return radius * cos(6.283185307179586 * mba__draw_unit(d));
}

/* Number i of a stream that is the same for every graph and seed, in (0, 1]. For colours and weights. */
static inline double mba__fixed_unit(const char *stream, uint64_t i)
{
    uint32_t u[4];
    mba_philox(u, mba_stream(stream), 0, i);
    return mba_unit(u[0]);
}

static inline double mba__fixed_normal(const char *stream, uint64_t i)
{
    uint32_t u[4];
    mba_philox(u, mba_stream(stream), 1, i);
    return sqrt(-2 * log(mba_unit(u[0]))) * cos(6.283185307179586 * mba_unit(u[1]));
}

/* 0 .. n-1 in random order. */
static inline int64_t *mba__draw_order(mba_draft *d, int64_t n)
{
    int64_t *order = mba_arena_new(d->arena, int64_t, n);
    for (int64_t i = 0; i < n; i++) {
        const int64_t j = mba__draw_below(d, i + 1);
        order[i] = order[j];
        order[j] = i;
    }
    return order;
}

static inline void mba__draft_edge(mba_draft *d, int64_t src, int64_t dst)
{
    d->src[d->edges] = (uint32_t)src;
    d->dst[d->edges++] = (uint32_t)dst;
}

static inline void mba__draft_edges(mba_draft *d, int64_t room)
{
    d->src = mba_arena_new(d->arena, uint32_t, room);
    d->dst = mba_arena_new(d->arena, uint32_t, room);
}

#endif
