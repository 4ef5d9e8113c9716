/* made_text.c -- see made_text.h. */
#include "train/made_text.h"

#include <stdio.h>

#include "data/prepare.h"

mba_status mba_made_text_create(mba_made_text *out, uint64_t seed, int64_t bytes)
{
    mba_tokenizer *t = NULL;
    mba_prepared   made;
    MBA_TRY(mba_temporary_create(&out->root, "synthetic data", "give --data"));
    snprintf(out->path, sizeof out->path, "%s/tokens", out->root.path);
    mba_status st = mba_tokenizer_create(&t, "bytes");
    if (st == MBA_OK)
        st = mba_prepare(&made, t, &(mba_prepare_options){ .out = out->path, .synthetic_bytes = bytes, .seed = seed });
    mba_tokenizer_destroy(t);
    if (st != MBA_OK) mba_made_text_remove(out);
    return st;
}

void mba_made_text_remove(mba_made_text *d)
{
    mba_temporary_remove(&d->root);
    *d = (mba_made_text){ 0 };
}
