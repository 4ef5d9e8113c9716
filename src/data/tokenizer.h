// SPDX-License-Identifier: Apache-2.0
/* tokenizer.h -- encodes text as token numbers and back: bytes, or byte-level BPE from a Hugging Face tokenizer.json.
 *
 *     mba_tokenizer *t;
 *     MBA_TRY(mba_tokenizer_create(&t, "pythia/tokenizer.json"));      // or "bytes"
 *     mba_ids ids = { 0 };
 *     MBA_TRY(mba_tokenizer_encode(t, &ids, "Hello world", 11));       // appends; ids.id, ids.n
 *     mba_text text = { 0 };
 *     MBA_TRY(mba_tokenizer_decode(t, &text, ids.id, ids.n));          // appends; text.data, text.n
 *     free(ids.id); free(text.data);
 *     mba_tokenizer_destroy(t);                                        // NULL is fine
 *
 * `bytes`: tokens 0..255 are the bytes, 256 is end of text, the vocabulary has 257.
 *
 * tokenizer.json: files of GPT-NeoX, GPT-2, Llama 3, Qwen 2 and similar ones: model BPE (also ignore_merges),
 * pre-tokenizer ByteLevel, or a Sequence of Split with a pattern that pretokens.c knows and ByteLevel; normalizer NFC
 * or none, decoder ByteLevel or none. Added tokens with `normalized` false are searched in the original text, the
 * others after NFC; the leftmost match wins, the longest there. The ids are those of the Hugging Face library with
 * add_special_tokens=False: nothing is added around a text (post_processor), truncated or padded.
 * One difference is known: that library normalises with the tables of Unicode 9, we with newer ones (unicode.h), so
 * combining marks that were added to Unicode later may have another order.
 * Files that need anything else (other models, normalizers, pre-tokenizers, dropout, tokens that strip white space) are
 * refused with MBA_E_UNSUPPORTED and the name of the feature.
 *
 * One thread at a time: encoding keeps a cache of words in the tokenizer. */
#ifndef MBA_TOKENIZER_H
#define MBA_TOKENIZER_H

#include <stdbool.h>
#include <stdint.h>

#include "core/status.h"
#include "data/unicode.h"

/* A growing array of token numbers. The caller frees `id`; zeroed is empty. */
typedef struct mba_ids {
    int32_t *id;
    int64_t  n, capacity;
} mba_ids;

MBA_MUST mba_status mba_ids_reserve(mba_ids *ids, int64_t more); /* makes room for `more` more */

typedef struct mba_tokenizer mba_tokenizer;

/* `name` is "bytes" or the path of a tokenizer.json. */
MBA_MUST mba_status mba_tokenizer_create(mba_tokenizer **out, const char *name);
/* The same from the text of a tokenizer.json. */
MBA_MUST mba_status mba_tokenizer_create_json(mba_tokenizer **out, const char *json, size_t bytes);
void                mba_tokenizer_destroy(mba_tokenizer *t);

/* Appends the tokens of a text. Bytes that are not UTF-8 become U+FFFD (the tokenizer `bytes` keeps them). */
MBA_MUST mba_status mba_tokenizer_encode(mba_tokenizer *t, mba_ids *out, const char *text, size_t bytes);

/* The same for texts of any size: calls `take` with part after part of the tokens. A failure of `take` ends it. */
typedef mba_status  mba_ids_fn(void *user, const int32_t *id, int64_t n);
MBA_MUST mba_status mba_tokenizer_stream(mba_tokenizer *t, const char *text, size_t bytes, mba_ids_fn *take,
                                         void *user);

/* The same for a document that arrives in parts. Encodes as far as no later byte can change a token, *used bytes; the
 * caller passes the rest again before the next part. The last part is used completely. `d` is zeroed before the first
 * part. */
typedef struct mba_document {
    bool ordinary_end; /* the end-of-text token in the text is ordinary text */
    bool inside;       /* text precedes the next part, and no added token right before it */
} mba_document;
MBA_MUST mba_status mba_tokenizer_part(mba_tokenizer *t, mba_document *d, const char *text, size_t bytes, bool last,
                                       size_t *used, mba_ids_fn *take, void *user);

/* Appends the bytes of tokens. Added tokens give their own text, the end-of-text token of `bytes` gives nothing.
 * MBA_E_ARG for a number that is no token. The bytes are UTF-8 only if the tokens do not split characters. */
MBA_MUST mba_status mba_tokenizer_decode(const mba_tokenizer *t, mba_text *out, const int32_t *id, int64_t n);

/* Lends the bytes of one token; NULL: the number is no token. */
const char *mba_tokenizer_token(const mba_tokenizer *t, int32_t id, size_t *bytes);

int64_t     mba_tokenizer_vocab(const mba_tokenizer *t);       /* the largest id + 1 */
int32_t     mba_tokenizer_end_of_text(const mba_tokenizer *t); /* -1: the file has no token of the usual names */
const char *mba_tokenizer_name(const mba_tokenizer *t);        /* "bytes", or "bpe-<vocab>-<hash of the file>" */

/* Lends its tokenizer.json, byte for byte as it was read. The one of `bytes` gives the same numbers in the Hugging Face
 * library, and is read as `bytes` here. */
const char *mba_tokenizer_json(const mba_tokenizer *t, size_t *bytes);

/* The tokenizer_config.json that AutoTokenizer needs beside it; the caller frees the text. */
MBA_MUST mba_status mba_tokenizer_config(const mba_tokenizer *t, char **text);

#endif
