// SPDX-License-Identifier: Apache-2.0
/* tu_dataset_fuzz.c -- any bytes as the files of a TUDataset, one behind the other. */
#include "graph_fuzz.h"
#include "data/graph_readers.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    mba_named_text   text[MBA_TU_FILES];
    mba_graph_store *s;
    cut_texts(text, MBA_TU_FILES, bytes, n);
    const mba_status st = mba__tu_from_texts(&s, text);
    if (st != MBA_OK) check_refusal(st);
    if (st == MBA_OK) use_set(mba_graph_store_set(s));
    if (st == MBA_OK) mba_graph_store_destroy(s);
    free_texts(text, MBA_TU_FILES);
    return 0;
}
