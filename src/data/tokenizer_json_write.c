// SPDX-License-Identifier: Apache-2.0
/* tokenizer_json_write.c -- writes tokenizer files for Hugging Face: the tokenizer.json of the byte tokenizer, and the
 * tokenizer_config.json of any tokenizer. */
#include "data/tokenizer_parts.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/json.h"

uint32_t mba__symbol_of_byte(int byte)
{
    if ((byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174) return (uint32_t)byte;
    return 256u + (uint32_t)(byte <= 32 ? byte : byte <= 160 ? 33 + byte - 127 : 67);
}

/* Byte-level BPE without merges: a token for every byte. The pattern splits words, which has no effect. */
mba_status mba__bytes_json(mba_text *out)
{
    static const char head[] =
        "{\n  \"version\": \"1.0\",\n  \"truncation\": null,\n  \"padding\": null,\n  \"added_tokens\": [\n"
        "    { \"id\": 256, \"content\": \"<|endoftext|>\", \"single_word\": false, \"lstrip\": false, \"rstrip\": "
        "false,\n"
        "      \"normalized\": false, \"special\": true }\n  ],\n  \"normalizer\": null,\n"
        "  \"pre_tokenizer\": { \"type\": \"ByteLevel\", \"add_prefix_space\": false, \"trim_offsets\": true, "
        "\"use_regex\": true },\n"
        "  \"post_processor\": null,\n"
        "  \"decoder\": { \"type\": \"ByteLevel\", \"add_prefix_space\": true, \"trim_offsets\": true, \"use_regex\": "
        "true },\n"
        "  \"model\": { \"type\": \"BPE\", \"dropout\": null, \"unk_token\": null, \"continuing_subword_prefix\": "
        "null,\n"
        "    \"end_of_word_suffix\": null, \"fuse_unk\": false, \"byte_fallback\": false, \"ignore_merges\": false,\n"
        "    \"vocab\": {";
    MBA_TRY(mba_text_add(out, head, sizeof head - 1));
    for (int byte = 0; byte < 256; byte++) {
        char      one[32];
        const int n = snprintf(one, sizeof one, "%s\"\\u%04x\": %d",
                               !byte      ? "\n      "
                               : byte % 8 ? ", "
                                          : ",\n      ",
                               (unsigned)mba__symbol_of_byte(byte), byte);
        MBA_TRY(mba_text_add(out, one, (size_t)n));
    }
    static const char tail[] = " },\n    \"merges\": [] }\n}\n";
    return mba_text_add(out, tail, sizeof tail - 1);
}

/* The begin-of-text token, by the usual names; NULL: none. */
static const char *begin_of_text(const mba_tokenizer *t)
{
    static const char *const names[] = { "<|begin_of_text|>", "<s>", "<bos>", "[BOS]", "<|endoftext|>" };
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        mba_literal  m;
        const size_t n = strlen(names[k]);
        if ((mba__literals_find(&t->raw, &m, names[k], n, 0, -1) && m.bytes == n)
            || (mba__literals_find(&t->normalized, &m, names[k], n, 0, -1) && m.bytes == n))
            return names[k];
    }
    return NULL;
}

/* split_special_tokens: the byte tokenizer never recognises its end-of-text token in a text. */
mba_status mba_tokenizer_config(const mba_tokenizer *t, char **text)
{
    size_t      n = 0;
    const char *end = t->bpe ? mba_tokenizer_token(t, t->end_of_text, &n) : "<|endoftext|>";
    const char *begin = t->bpe ? begin_of_text(t) : end;
    mba__json_begin();
    json_t *o = json_pack("{s:s, s:b, s:I, s:b}", "tokenizer_class", "PreTrainedTokenizerFast",
                          "clean_up_tokenization_spaces", 0, "model_max_length", (json_int_t)1000000000000,
                          "add_prefix_space", (int)t->prefix_space);
    if (!t->bpe) json_object_set_new(o, "split_special_tokens", json_true());
    if (end) json_object_set_new(o, "eos_token", t->bpe ? json_stringn(end, n) : json_string(end));
    if (begin) json_object_set_new(o, "bos_token", json_string(begin));
    *text = json_dumps(o, JSON_INDENT(2));
    json_decref(o);
    if (mba__json_starved() || !*text) {
        free(*text);
        *text = NULL;
        return mba_fail(MBA_E_NOMEM, "no memory for tokenizer_config.json");
    }
    return MBA_OK;
}
