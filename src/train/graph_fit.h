// SPDX-License-Identifier: Apache-2.0
/* graph_fit.h -- checks whether a model fits a collection of graphs, and adapts a preset to it.
 *
 *     mba_graphnet c = *mba_graphnet_preset("graphmamba-mnist");
 *     c.follows = MBA_FOLLOWS_ALL;
 *     mba_graph_follow(&c, set);                            // takes features, outputs, loss and readout from the data
 *     MBA_TRY(mba_graph_fit_check(&c, &set->form, "MUTAG"));
 */
#ifndef MBA_GRAPH_FIT_H
#define MBA_GRAPH_FIT_H

#include "data/graph_set.h"
#include "models/graphmamba.h"

/* True for losses whose labels are classes, not numbers. */
static inline bool mba_is_class_loss(mba_graph_loss l) { return l == MBA_LOSS_CE || l == MBA_LOSS_WEIGHTED_CE; }

bool mba_graph_fits(const mba_graphnet *c, const mba_graph_form *f);

/* Fails with MBA_E_ARG and a message that says what does not fit and how to fix it; `name` is the name of the data. */
MBA_MUST mba_status mba_graph_fit_check(const mba_graphnet *c, const mba_graph_form *f, const char *name);

/* Changes only what c->follows allows and the data requires: a preset stays unchanged on its own data. Real features
 * are read as they are, integer features through embedding tables of max + 1 rows. If edges have no features, all share
 * one vector. Class labels select ce, several tasks of 0 and 1 bce, other numbers l1. */
void mba_graph_follow(mba_graphnet *c, const mba_graph_set *s);

/* Writes what differs from the preset of that name: "; from the data: node_reals=7, outputs=2, loss=ce"; "":
 * nothing. */
void mba_graph_follow_words(char *text, size_t room, const mba_graphnet *c);

#endif
