/* made_text.c -- see made_text.h. */
#include "train/made_text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/file.h"
#include "data/prepare.h"

mba_status mba_made_text_create(mba_made_text *out, uint64_t seed, int64_t bytes)
{
    const char    *tmp = getenv("TMPDIR");
    mba_tokenizer *t = NULL;
    mba_prepared   made;
    snprintf(out->root, sizeof out->root, "%s/mambascope-XXXXXX", tmp && strlen(tmp) < 200 ? tmp : "/tmp");
    if (!mkdtemp(out->root)) {
        out->root[0] = 0;
        return mba_fail(MBA_E_IO, "no place for synthetic data\nwhy: %s\nfix: set TMPDIR, or give --data",
                        strerror(errno));
    }
    snprintf(out->path, sizeof out->path, "%s/tokens", out->root);
    mba_status st = mba_tokenizer_create(&t, "bytes");
    if (st == MBA_OK)
        st = mba_prepare(&made, t, &(mba_prepare_options){ .out = out->path, .synthetic_bytes = bytes, .seed = seed });
    mba_tokenizer_destroy(t);
    if (st != MBA_OK) mba_made_text_remove(out);
    return st;
}

void mba_made_text_remove(mba_made_text *d)
{
    if (!d->root[0]) return;
    mba_folder_remove(d->path);
    mba_folder_remove(d->root);
    *d = (mba_made_text){ 0 };
}
