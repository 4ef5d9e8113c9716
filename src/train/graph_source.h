// SPDX-License-Identifier: Apache-2.0
/* graph_source.h -- a collection of graphs for a model, wherever it comes from: our container, a folder of TUDataset,
 * OGB or MalNet, or made up.
 *
 *     mba_graph_source s = { 0 };
 *     MBA_TRY(mba_graph_source_open(&s, &model->graph, &options));
 *     use(s.set);
 *     mba_graph_source_close(&s);                          // of one that failed to open, too */
#ifndef MBA_GRAPH_SOURCE_H
#define MBA_GRAPH_SOURCE_H

#include "data/graph_pack.h"
#include "train/feed.h"

typedef struct mba_graph_source {
    mba_graph_pack      *pack;
    mba_graph_store     *store;
    const mba_graph_set *set;     /* of one of them */
    const char          *made_up; /* the name of its generator, or NULL */
} mba_graph_source;

/* Fails where the graphs are not what the model reads; the other only reads them. */
MBA_MUST mba_status mba_graph_source_open(mba_graph_source *s, const mba_graphnet *c, const mba_feed_options *o);
MBA_MUST mba_status mba_graph_source_read(mba_graph_source *s, const mba_graphnet *c, const mba_feed_options *o);
void                mba_graph_source_close(mba_graph_source *s);

#endif
