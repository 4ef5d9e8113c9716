// SPDX-License-Identifier: Apache-2.0
/* graph_fit.h -- whether a model reads a collection of graphs, and what a preset becomes so that it does.
 *
 *     mba_graphnet c = *mba_graphnet_preset("graphmamba-mnist");
 *     c.follows = MBA_FOLLOWS_ALL;
 *     mba_graph_follow(&c, set);                            // features, results, loss and readout are the data's now
 *     MBA_TRY(mba_graph_fit_check(&c, &set->form, "MUTAG"));
 */
#ifndef MBA_GRAPH_FIT_H
#define MBA_GRAPH_FIT_H

#include "data/graph_set.h"
#include "models/graphmamba.h"

/* Labels are classes, not numbers. */
static inline bool mba_is_class_loss(mba_graph_loss l) { return l == MBA_LOSS_CE || l == MBA_LOSS_WEIGHTED_CE; }

bool mba_graph_fits(const mba_graphnet *c, const mba_graph_form *f);

/* MBA_E_ARG with what does not fit, and what to do about it; `name` is that of the data. */
MBA_MUST mba_status mba_graph_fit_check(const mba_graphnet *c, const mba_graph_form *f, const char *name);

/* Changes what c->follows allows and the data asks for, no more: a preset on its own data stays what it is.
 * Real features are read as such, whole numbers through tables of one more than their largest; where nodes or edges
 * have none of them, edges share one vector. Classes give ce, several tasks of 0 and 1 bce, other numbers l1. */
void mba_graph_follow(mba_graphnet *c, const mba_graph_set *s);

/* "; from the data: node_reals=7, outputs=2, loss=ce": what differs from the preset of that name; "" where nothing
 * does. */
void mba_graph_follow_words(char *text, size_t room, const mba_graphnet *c);

#endif
