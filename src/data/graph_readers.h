// SPDX-License-Identifier: Apache-2.0
/* graph_readers.h -- reads published collections of graphs into memory: TUDataset, OGB, MalNet.
 *
 *     mba_graph_store *s;
 *     MBA_TRY(mba_tu_dataset_read(&s, "MUTAG"));                                     // MUTAG/MUTAG_A.txt ..
 *     MBA_TRY(mba_ogb_csv_read(&s, "ogbg_molhiv", &(mba_ogb_options){ .scheme = "scaffold", .classes = 2 }));
 *     MBA_TRY(mba_malnet_read(&s, "malnet-graphs-tiny", (const char *[]){ "train.txt", "val.txt", "test.txt" }));
 *     MBA_TRY(mba_graph_pack_write("set.graphpk", mba_graph_store_set(s)));
 *     mba_graph_store_destroy(s);
 *
 * Damage is MBA_E_FORMAT with the file, the line and the value: an edge to a missing node, a graph number that
 * decreases, a feature that is not a number, an empty set. Memory is proportional to the size of the files. */
#ifndef MBA_GRAPH_READERS_H
#define MBA_GRAPH_READERS_H

#include "data/graph_set.h"
#include "data/number_table.h"

/* The text format of TUDataset, files DS_*.txt: in a folder DS, or alone in any folder or its raw/ (as in PyTorch
 * Geometric). Class labels become 0 .. C-1 in ascending order; graph attributes, if they exist, replace them
 * as regression targets. Features are f32: attributes first, then one-hot labels; nodes that have neither get the local
 * degree profile (graph_features.h). Self loops are dropped, the first of duplicate edges is kept, edges are sorted by
 * target and source. */
MBA_MUST mba_status mba_tu_dataset_read(mba_graph_store **out, const char *folder);
bool                mba_is_tu_dataset(const char *folder);

/* True for a folder of PyTorch Geometric that holds its collection only as pickles, and for one of those files. The
 * refusal names the script that converts them. */
bool                mba_is_pyg(const char *path);
MBA_MUST mba_status mba_pyg_refuse(const char *path);

/* The CSV format of OGB graph collections, in a folder with raw/ and split/. Files may end in .gz. Features are i32 if
 * all are integers, else f32. */
typedef struct mba_ogb_options {
    const char *scheme;   /* split/<scheme>/{train,valid,test}.csv; NULL: no split */
    int64_t     classes;  /* 0: regression; or MBA_OGB_BY_VALUE. One column of classes gives i32,
                                                several give f32 with NaN for missing ones */
    bool        directed; /* edges as stored; otherwise each is followed by its reverse */
} mba_ogb_options;

/* The labels decide: integers from 0 on in one column are classes; 0, 1 and nan in several columns are binary tasks. */
enum { MBA_OGB_BY_VALUE = -1, MBA_OGB_CLASSES_MAX = 1000 };

MBA_MUST mba_status mba_ogb_csv_read(mba_graph_store **out, const char *folder, const mba_ogb_options *options);

/* MalNet call graphs: graphs/<class>/<family>/<id>.edgelist, named by three lists (train, val, test) of
 * <class>/<family>/<id>. Nodes whose only edges are self loops are dropped; the node features are the local degree
 * profile (graph_features.h), the label is the class. */
MBA_MUST mba_status mba_malnet_read(mba_graph_store **out, const char *graphs, const char *const list[MBA_SPLITS]);

/* ---- the same from memory, for tests ---- */

enum {
    MBA_TU_EDGES,
    MBA_TU_INDICATOR,
    MBA_TU_GRAPH_LABELS,
    MBA_TU_GRAPH_ATTRIBUTES,
    MBA_TU_NODE_LABELS,
    MBA_TU_NODE_ATTRIBUTES,
    MBA_TU_EDGE_LABELS,
    MBA_TU_EDGE_ATTRIBUTES,
    MBA_TU_FILES
};
MBA_MUST mba_status mba__tu_from_texts(mba_graph_store **out, const mba_named_text text[MBA_TU_FILES]);

enum {
    MBA_OGB_NODE_COUNT,
    MBA_OGB_EDGE_COUNT,
    MBA_OGB_EDGES,
    MBA_OGB_LABELS,
    MBA_OGB_NODE_FEAT,
    MBA_OGB_EDGE_FEAT,
    MBA_OGB_TRAIN,
    MBA_OGB_VALID,
    MBA_OGB_TEST,
    MBA_OGB_FILES
};
MBA_MUST mba_status mba__ogb_from_texts(mba_graph_store **out, const mba_named_text text[MBA_OGB_FILES],
                                        const mba_ogb_options *options);

MBA_MUST mba_status mba__malnet_create(mba_graph_store **out);
MBA_MUST mba_status mba__malnet_add(mba_graph_store *s, const mba_named_text *edges, int label, mba_graph_split split);
/* The next path of a list, from *at on, and its class; *n 0: end of the list. */
MBA_MUST mba_status mba__malnet_next(const char **path, size_t *n, int *label, const mba_named_text *list, size_t *at);

#endif
