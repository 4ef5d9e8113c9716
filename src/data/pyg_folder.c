// SPDX-License-Identifier: Apache-2.0
/* pyg_folder.c -- recognises and refuses folders of PyTorch Geometric with pickles and no text; see graph_readers.h. */
#include <stdio.h>
#include <string.h>

#include "data/graph_readers.h"
#include "data/listing.h"

enum { PATH_BYTES = 4096 };

/* True for pickles with graphs. The others beside them hold the options with which the graphs were processed. */
static bool is_pickle(const char *name)
{
    if (!strcmp(name, "pre_filter.pt") || !strcmp(name, "pre_transform.pt")) return false;
    return mba_ends_with(name, ".pt") || mba_ends_with(name, ".pickle") || mba_ends_with(name, ".pkl");
}

/* The first pickle of a folder; false: there is none. */
static bool first_pickle(char path[PATH_BYTES], const char *folder, const char *below)
{
    char        inner[PATH_BYTES];
    mba_listing l = { 0 };
    const bool  found = snprintf(inner, sizeof inner, "%s/%s", folder, below) < PATH_BYTES && mba_is_folder(inner)
                       && mba_listing_read(&l, inner, is_pickle) == MBA_OK && l.n > 0
                       && snprintf(path, PATH_BYTES, "%s/%s", inner, l.name[0]) < PATH_BYTES;
    mba_listing_free(&l);
    return found;
}

static bool find_pickle(char path[PATH_BYTES], const char *given)
{
    char ogb[PATH_BYTES];
    if (mba_is_file(given)) return is_pickle(given) && snprintf(path, PATH_BYTES, "%s", given) < PATH_BYTES;
    if (mba_is_tu_dataset(given)) return false;
    for (int i = 0; i < 2; i++)
        if (snprintf(ogb, sizeof ogb, "%s/raw/num-node-list.csv%s", given, i ? ".gz" : "") < PATH_BYTES
            && mba_is_file(ogb))
            return false;
    return first_pickle(path, given, "processed") || first_pickle(path, given, "raw");
}

bool mba_is_pyg(const char *path)
{
    char pickle[PATH_BYTES];
    return find_pickle(pickle, path);
}

mba_status mba_pyg_refuse(const char *path)
{
    char pickle[PATH_BYTES] = "processed/data.pt";
    find_pickle(pickle, path);
    return mba_fail(MBA_E_UNSUPPORTED,
                    "'%s' %s\nwhy: reading it would run the code in it\n"
                    "fix: python3 tools/pyg_to_graphpk.py --out graphs.graphpk %s, then --data graphs.graphpk",
                    path, mba_is_file(path) ? "is a Python pickle" : "has its graphs only as Python pickles", pickle);
}
