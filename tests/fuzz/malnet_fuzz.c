// SPDX-License-Identifier: Apache-2.0
/* malnet_fuzz.c -- any bytes as a list of MalNet graphs and, behind it, an edge list. */
#include "graph_fuzz.h"
#include "data/graph_readers.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    mba_named_text   text[2];
    mba_graph_store *s;
    cut_texts(text, 2, bytes, n);
    size_t at = 0, m = 1;
    while (text[0].text && m) {
        const char *path;
        int         label;
        mba_status  st = mba__malnet_next(&path, &m, &label, &text[0], &at);
        if (st != MBA_OK) check_refusal(st);
        if (st != MBA_OK) break;
        mba_assert(!m || (label >= 0 && label < 5 && path >= text[0].text && path + m <= text[0].text + text[0].bytes));
    }
    mba_assert(mba__malnet_create(&s) == MBA_OK);
    mba_status st = text[1].text ? mba__malnet_add(s, &text[1], 3, MBA_SPLIT_TEST) : MBA_OK;
    if (st != MBA_OK) check_refusal(st);
    if (st == MBA_OK && text[1].text) use_set(mba_graph_store_set(s));
    mba_graph_store_destroy(s);
    free_texts(text, 2);
    return 0;
}
