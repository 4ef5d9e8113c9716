// SPDX-License-Identifier: Apache-2.0
/* synthetic_text.c -- see synthetic_text.h: data/prepare.h writes the tokens into a temporary folder. */
#include "train/synthetic_text.h"

#include <stdio.h>

#include "data/prepare.h"

mba_status mba_synthetic_corpus_create(mba_synthetic_corpus *out, uint64_t seed, int64_t bytes)
{
    mba_tokenizer *t = NULL;
    mba_prepared   made;
    MBA_TRY(mba_temporary_create(&out->root, "synthetic data", "give --data"));
    snprintf(out->path, sizeof out->path, "%s/tokens", out->root.path);
    mba_status st = mba_tokenizer_create(&t, "bytes");
    if (st == MBA_OK)
        st = mba_prepare(&made, t, &(mba_prepare_options){ .out = out->path, .synthetic_bytes = bytes, .seed = seed });
    mba_tokenizer_destroy(t);
    if (st != MBA_OK) mba_synthetic_corpus_remove(out);
    return st;
}

void mba_synthetic_corpus_remove(mba_synthetic_corpus *d)
{
    mba_temporary_remove(&d->root);
    *d = (mba_synthetic_corpus){ 0 };
}
