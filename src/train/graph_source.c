// SPDX-License-Identifier: Apache-2.0
/* graph_source.c -- see graph_source.h: recognises the format of a path, reads it, and checks that the model fits. */
#include "train/graph_source.h"

#include <stdio.h>
#include <string.h>

#include "data/graph_readers.h"
#include "data/graph_synthetic.h"
#include "data/listing.h"
#include "train/graph_fit.h"

enum { PATH_ROOM = 4096, MADE_BATCHES = 5 };

void mba_graph_source_close(mba_graph_source *s)
{
    mba_graph_pack_close(s->pack);
    mba_graph_store_destroy(s->store);
    *s = (mba_graph_source){ 0 };
}

/* Finds the synthetic collection for a model: the one with the name of its preset, or the first that it can read. */
static bool made_for(mba_synthetic *kind, const mba_graphnet *c)
{
    if (c->name && !strncmp(c->name, "graphmamba-", 11) && mba_synthetic_parse(kind, c->name + 11)) return true;
    for (int k = 0; k < MBA_SYNTHETICS; k++) {
        const mba_graph_form f = mba_synthetic_form((mba_synthetic)k);
        *kind = (mba_synthetic)k;
        if (mba_graph_fits(c, &f)) return true;
    }
    return false;
}

static mba_status make_up(mba_graph_source *s, const mba_graphnet *c, mba_synthetic kind, const mba_feed_options *o)
{
    const int64_t graphs = o->made > 0 ? o->made : MADE_BATCHES * c->graphs;
    s->made_up = mba_synthetic_name(kind);
    return mba_graph_synthetic(&s->store, kind, o->seed, graphs < 20 ? 20 : graphs);
}

static mba_status read_ogb(mba_graph_source *s, const mba_graphnet *c, const char *path)
{
    char        split[PATH_ROOM];
    mba_listing schemes = { 0 };
    mba_status  st = MBA_OK;
    const bool  by_value = c->follows & MBA_FOLLOWS_LOSS
                          || (c->follows & MBA_FOLLOWS_OUTPUTS && mba_is_class_loss(c->loss));
    snprintf(split, sizeof split, "%s/split", path);
    if (mba_is_folder(split)) st = mba_listing_read(&schemes, split, NULL);
    mba_listing_sort(&schemes);
    if (st == MBA_OK)
        st = mba_ogb_csv_read(&s->store, path,
                              &(mba_ogb_options){ .scheme = schemes.n ? schemes.name[0] : NULL,
                                                  .classes = by_value                     ? MBA_OGB_BY_VALUE
                                                             : mba_is_class_loss(c->loss) ? c->outputs
                                                             : c->loss == MBA_LOSS_L1     ? 0
                                                                                          : 2 });
    mba_listing_free(&schemes);
    return st;
}

/* Reads MalNet: the folder of graphs is folder/below/malnet-graphs-tiny, the lists of its parts are beside it. */
static mba_status read_malnet(mba_graph_source *s, const char *folder, const char *below)
{
    char                     list[MBA_SPLITS][PATH_ROOM + 64], graphs[PATH_ROOM + 64];
    static const char *const part[] = { "train", "val", "test" };
    snprintf(graphs, sizeof graphs, "%s%s/malnet-graphs-tiny", folder, below);
    for (int i = 0; i < MBA_SPLITS; i++)
        snprintf(list[i], sizeof list[i], "%s%s/split_info_tiny/type/%s.txt", folder, below, part[i]);
    return mba_malnet_read(&s->store, graphs, (const char *[]){ list[0], list[1], list[2] });
}

static bool has_folder(const char *path, const char *name)
{
    char inner[PATH_ROOM];
    snprintf(inner, sizeof inner, "%s/%s", path, name);
    return mba_is_folder(inner);
}

/* Reads a folder by its contents. MalNet may be as its archives unpack, in the raw/ of PyTorch Geometric, or named by
 * its folder of graphs. */
static mba_status read_folder(mba_graph_source *s, const mba_graphnet *c, const char *path)
{
    if (has_folder(path, "malnet-graphs-tiny")) return read_malnet(s, path, "");
    if (has_folder(path, "raw/malnet-graphs-tiny")) return read_malnet(s, path, "/raw");
    if (has_folder(path, "../malnet-graphs-tiny") && has_folder(path, "addisplay")) return read_malnet(s, path, "/..");
    if (mba_is_tu_dataset(path)) return mba_tu_dataset_read(&s->store, path);
    if (mba_is_pyg(path)) return mba_pyg_refuse(path);
    if (has_folder(path, "raw")) return read_ogb(s, c, path);
    const mba_status st = mba_tu_dataset_read(&s->store, path);
    return st == MBA_E_IO ? mba_where(st,
                                      "reading '%s' as a TUDataset: it has neither raw/ (OGB) nor "
                                      "malnet-graphs-tiny/ (MalNet)",
                                      path)
                          : st;
}

mba_status mba_graph_source_read(mba_graph_source *s, const mba_graphnet *c, const mba_feed_options *o)
{
    mba_synthetic kind;
    if (!o->data && !made_for(&kind, c))
        return mba_fail(MBA_E_ARG, "there is no data, and no synthetic data for this model\nfix: add --data PATH");
    if (!o->data || mba_synthetic_parse(&kind, o->data)) MBA_TRY(make_up(s, c, kind, o));
    else if (mba_is_folder(o->data)) MBA_TRY(read_folder(s, c, o->data));
    else if (mba_is_pyg(o->data)) return mba_pyg_refuse(o->data);
    else MBA_TRY(mba_graph_pack_open(&s->pack, o->data));
    s->set = s->pack ? mba_graph_pack_set(s->pack) : mba_graph_store_set(s->store);
    return MBA_OK;
}

mba_status mba_graph_source_open(mba_graph_source *s, const mba_graphnet *c, const mba_feed_options *o)
{
    MBA_TRY(mba_graph_source_read(s, c, o));
    return mba_graph_fit_check(c, &s->set->form, o->data ? o->data : s->made_up);
}
