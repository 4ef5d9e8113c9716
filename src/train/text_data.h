// SPDX-License-Identifier: Apache-2.0
/* text_data.h -- what --data of a model of text names: token files as they are; text, which is prepared on the way.
 *
 *     mba_text_data d = { 0 };
 *     MBA_TRY(mba_text_data_open(&d, &(mba_text_data_options){
 *         .data = "book.txt", .folder = "run/tokens", .vocab = 257 }));
 *     feed.data = d.path;                                         // token files, for the loader
 *     mba_text_data_close(&d);                                    // zeroed ones are fine
 *
 * Files are told apart by their bytes (data/recognise.h). Text, or a folder or glob of it, is prepared as `data
 * prepare` does it, into `folder`, and lies there for the next run: source.json says from which bytes, by which
 * tokenizer. What was prepared from the same is used as it is; other text goes to folder-2 and so on. A text of the
 * same name that has changed is an error, and nothing is written over.
 * Without a folder it goes to a temporary one, which closing removes. */
#ifndef MBA_TEXT_DATA_H
#define MBA_TEXT_DATA_H

#include "core/temporary.h"
#include "data/prepare.h"
#include "data/tokenizer_files.h"
#include "train/feed.h"

typedef struct mba_text_data_options {
    const char           *data;
    const char           *tokenizer;  /* "bytes", a tokenizer.json; NULL: the checkpoint's, else bytes */
    const char           *field;      /* of JSON lines; NULL: "text" */
    const char           *checkpoint; /* the model that goes on; NULL: none */
    const char           *folder;     /* NULL: a temporary one */
    int64_t               vocab;      /* of the model: the tokenizer must fit */
    mba_prepare_progress *progress;   /* NULL: nobody asks */
    void                 *user;
} mba_text_data_options;

typedef struct mba_text_data {
    char          path[4096];
    mba_temporary root;       /* of temporary ones */
    char          story[512]; /* what was prepared, in a sentence; "": nothing */
} mba_text_data;

MBA_MUST mba_status mba_text_data_open(mba_text_data *out, const mba_text_data_options *o);
void                mba_text_data_close(mba_text_data *d);

/* The tokenizer of a checkpoint: `given`, its own tokenizer.json, or bytes where its vocabulary is a byte model's. */
MBA_MUST mba_status mba_checkpoint_tokenizer(mba_tokenizer **out, const char *given, const char *checkpoint);

/* The tokenizer files of a run: those of its data, or of the checkpoint `from` that it goes on with or begins with
 * (NULL: none). Where both are the same tokenizer the checkpoint's are kept, with all that lies beside them; where they
 * are not, that is MBA_E_ARG unless `given` says which. */
MBA_MUST mba_status mba_run_tokenizer(mba_tokenizer_files *out, const mba_feed *text, const char *given,
                                      const char *from);

#endif
