// SPDX-License-Identifier: Apache-2.0
/* text_data.h -- opens --data of a language model: token files as they are, or text, which it tokenizes first.
 *
 *     mba_text_data d = { 0 };
 *     MBA_TRY(mba_text_data_open(&d, &(mba_text_data_options){ .data = "book.txt", .folder = "run/tokens",
 *                                                              .vocab = 257 }));
 *     feed.data = d.path;                                         // token files, for the loader
 *     mba_text_data_close(&d);                                    // zeroed ones are fine
 *
 * It recognises files by their bytes (data/recognise.h). Text, or a folder or glob of it, is prepared as by `data
 * prepare`, into `folder`, and stays there for the next run; source.json says from which bytes and with which
 * tokenizer. Tokens from the same text are reused; other text goes to folder-2 and so on. If a text of the same name
 * has changed, that is an error: nothing is overwritten. Without a folder, tokens go to a temporary one, which close
 * removes. */
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
    const char           *checkpoint; /* whose training continues; NULL: none */
    const char           *folder;     /* for the tokens; NULL: a temporary one */
    int64_t               vocab;      /* of the model: the tokenizer may not have more tokens */
    mba_prepare_progress *progress;   /* NULL: no progress is reported */
    void                 *user;
} mba_text_data_options;

typedef struct mba_text_data {
    char          path[4096]; /* token files, for the loader */
    mba_temporary root;       /* of temporary tokens */
    char          story[512]; /* a sentence about what was prepared; "": nothing was */
} mba_text_data;

MBA_MUST mba_status mba_text_data_open(mba_text_data *out, const mba_text_data_options *o);
void                mba_text_data_close(mba_text_data *d);

/* The tokenizer of a checkpoint: `given`, else its tokenizer.json, else bytes if its vocabulary is that of a byte
 * model. */
MBA_MUST mba_status mba_checkpoint_tokenizer(mba_tokenizer **out, const char *given, const char *checkpoint);

/* The tokenizer files of a run: those of its data, or of the checkpoint `from` that it resumes or starts from (NULL:
 * none). If both are the same tokenizer, the checkpoint's files are kept, with all that lies beside them. If they
 * differ, it fails with MBA_E_ARG unless `given` says which. */
MBA_MUST mba_status mba_run_tokenizer(mba_tokenizer_files *out, const mba_feed *text, const char *given,
                                      const char *from);

#endif
