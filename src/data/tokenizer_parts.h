/* tokenizer_parts.h -- what tokenizer.c (use) and tokenizer_json.c (reading the file) share. */
#ifndef MBA_TOKENIZER_PARTS_H
#define MBA_TOKENIZER_PARTS_H

#include "data/bpe.h"
#include "data/literals.h"

#define MBA_NO_TOKEN UINT32_MAX

typedef struct mba_token { uint32_t start, bytes; } mba_token;       /* in `text`; bytes MBA_NO_TOKEN: a hole */

struct mba_tokenizer {
    char         name[48];
    int32_t      end_of_text;
    int64_t      vocab;
    mba_token   *token;                      /* what the ids stand for */
    mba_text     text;
    mba_bpe     *bpe;                        /* NULL: the tokenizer `bytes` */
    bool         nfc, prefix_space;
    mba_literals raw, normalized;            /* added tokens: found before and after NFC */
    mba_text     repaired, composed, spaced; /* scratch of encoding */
};

#endif
