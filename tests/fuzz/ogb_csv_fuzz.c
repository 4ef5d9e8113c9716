// SPDX-License-Identifier: Apache-2.0
/* ogb_csv_fuzz.c -- any bytes as the files of an OGB collection, one behind the other; read in each of three ways. */
#include "graph_fuzz.h"
#include "data/graph_readers.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    static const mba_ogb_options options[] = { { .classes = 2 }, { .classes = 0 }, { .classes = 9, .directed = true } };
    mba_named_text               text[MBA_OGB_FILES];
    cut_texts(text, MBA_OGB_FILES, bytes, n);
    for (int k = 0; k < 3; k++) {
        mba_graph_store *s;
        const mba_status st = mba__ogb_from_texts(&s, text, &options[k]);
        if (st != MBA_OK) check_refusal(st);
        if (st == MBA_OK) use_set(mba_graph_store_set(s));
        if (st == MBA_OK) mba_graph_store_destroy(s);
    }
    free_texts(text, MBA_OGB_FILES);
    return 0;
}
