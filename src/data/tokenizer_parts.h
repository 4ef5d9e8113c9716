// SPDX-License-Identifier: Apache-2.0
/* tokenizer_parts.h -- the inside of a tokenizer, shared by tokenizer.c (encoding, decoding), tokenizer_json.c (reading
 * a tokenizer.json) and tokenizer_json_write.c. */
#ifndef MBA_TOKENIZER_PARTS_H
#define MBA_TOKENIZER_PARTS_H

#include "data/bpe.h"
#include "data/literals.h"
#include "data/pretokens.h"

#define MBA_NO_TOKEN UINT32_MAX

typedef struct mba_token {
    uint32_t start, bytes;
} mba_token; /* range of `text`; MBA_NO_TOKEN: unused id */

struct mba_tokenizer {
    char               name[48];
    int32_t            end_of_text;
    int64_t            vocab;
    mba_token         *token; /* (vocab): the bytes of each id, in `text` */
    mba_text           text;
    mba_bpe           *bpe;     /* NULL: the tokenizer `bytes` */
    const mba_pattern *pattern; /* splits a text into words */
    mba_text           json;    /* the tokenizer.json */
    bool               nfc, prefix_space;
    mba_literals       raw, normalized;            /* added tokens that are searched before and after NFC */
    mba_text           repaired, composed, spaced; /* scratch of encoding */
};

MBA_MUST mba_status mba__tokenizer_bytes(mba_tokenizer **out);

/* tokenizer_json_write.c: the character that represents a byte in a tokenizer.json, and the tokenizer.json of
 * `bytes`. */
uint32_t            mba__symbol_of_byte(int byte);
MBA_MUST mba_status mba__bytes_json(mba_text *out);

#endif
