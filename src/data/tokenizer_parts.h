// SPDX-License-Identifier: Apache-2.0
/* tokenizer_parts.h -- what tokenizer.c (use) and tokenizer_json.c (reading the file) share. */
#ifndef MBA_TOKENIZER_PARTS_H
#define MBA_TOKENIZER_PARTS_H

#include "data/bpe.h"
#include "data/literals.h"
#include "data/pretokens.h"

#define MBA_NO_TOKEN UINT32_MAX

typedef struct mba_token {
    uint32_t start, bytes;
} mba_token; /* in `text`; bytes MBA_NO_TOKEN: a hole */

struct mba_tokenizer {
    char               name[48];
    int32_t            end_of_text;
    int64_t            vocab;
    mba_token         *token; /* what the ids stand for */
    mba_text           text;
    mba_bpe           *bpe;     /* NULL: the tokenizer `bytes` */
    const mba_pattern *pattern; /* cuts a text into words */
    mba_text           json;    /* the file */
    bool               nfc, prefix_space;
    mba_literals       raw, normalized;            /* added tokens: found before and after NFC */
    mba_text           repaired, composed, spaced; /* scratch of encoding */
};

MBA_MUST mba_status mba__tokenizer_bytes(mba_tokenizer **out);

/* tokenizer_json_write.c: the tokenizer.json of `bytes`, and the character that stands for a byte in such files. */
uint32_t            mba__symbol_of_byte(int byte);
MBA_MUST mba_status mba__bytes_json(mba_text *out);

#endif
