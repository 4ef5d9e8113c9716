// SPDX-License-Identifier: Apache-2.0
/* graph_source.h -- opens a collection of graphs for a model: our container, a folder of TUDataset, OGB or MalNet, or a
 * synthetic collection.
 *
 *     mba_graph_source s = { 0 };
 *     MBA_TRY(mba_graph_source_open(&s, &model->graph, &options));
 *     use(s.set);
 *     mba_graph_source_close(&s);                          // also after a failed open */
#ifndef MBA_GRAPH_SOURCE_H
#define MBA_GRAPH_SOURCE_H

#include "data/graph_pack.h"
#include "train/feed.h"

typedef struct mba_graph_source {
    mba_graph_pack      *pack;
    mba_graph_store     *store;
    const mba_graph_set *set;     /* the graphs of `pack` or `store` */
    const char          *made_up; /* name of the generator of a synthetic collection, or NULL */
} mba_graph_source;

/* Both read the graphs; open also fails if the model does not fit them. */
MBA_MUST mba_status mba_graph_source_open(mba_graph_source *s, const mba_graphnet *c, const mba_feed_options *o);
MBA_MUST mba_status mba_graph_source_read(mba_graph_source *s, const mba_graphnet *c, const mba_feed_options *o);
void                mba_graph_source_close(mba_graph_source *s);

#endif
