// SPDX-License-Identifier: Apache-2.0
/* tokenizer_fuzz.c -- input that begins with 'T' is a text for a small tokenizer, any other is a tokenizer.json.
 *
 * A text must come back from its tokens as it was, after repair of its UTF-8 and NFC. A tokenizer that was accepted
 * must encode and decode. */
#include "fuzz.h"
#include "data/tokenizer.h"

#include <stdio.h>

static const char nasty[] =
    "It's  12\u00bd e\u0301\u0323 \u1112\u1161\u11ab\n\n\tx\xff\xe2\x82 <|endoftext|> aaaaaaaaaaaaaaaaaaaaaaaaaaaab "
    "\u00a0 y  ";

/* Bytes, a few merges, added tokens found before and after NFC. */
static mba_tokenizer *small_tokenizer(void)
{
    static const char *const merge[] = { "a a", "a b", "aa aa", "t h", "th e", "\u0120 the", "aa ab", "aaaa aaaa" };
    const int                merges = sizeof merge / sizeof *merge;
    char                    *json;
    size_t                   n;
    int                      id = 0, other = 256;
    FILE                    *f = open_memstream(&json, &n);
    mba_assert(f);
    fputs("{\"normalizer\":{\"type\":\"NFC\"},\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},",
          f);
    fputs("\"model\":{\"type\":\"BPE\",\"vocab\":{", f);
    for (; id < 256; id++) {
        const bool same = (id >= 33 && id <= 126) || (id >= 161 && id <= 172) || id >= 174;
        fprintf(f, "\"\\u%04x\":%d,", same ? id : other++, id);
    }
    for (int i = 0; i < merges; i++, id++) {
        const char *space = strchr(merge[i], ' ');
        fprintf(f, "%s\"%.*s%s\":%d", i ? "," : "", (int)(space - merge[i]), merge[i], space + 1, id);
    }
    fputs("},\"merges\":[", f);
    for (int i = 0; i < merges; i++) fprintf(f, "%s\"%s\"", i ? "," : "", merge[i]);
    fprintf(f, "]},\"added_tokens\":[{\"id\":%d,\"content\":\"<|endoftext|>\",\"special\":true},", id);
    fprintf(f, "{\"id\":%d,\"content\":\"  \"},{\"id\":%d,\"content\":\"e\\u0301\"}]}", id + 1, id + 2);
    mba_assert(fclose(f) == 0);
    mba_tokenizer *t = NULL;
    mba_status     st = mba_tokenizer_create_json(&t, json, n);
    if (st != MBA_OK) fprintf(stderr, "%s\n", mba_message());
    mba_assert(st == MBA_OK);
    free(json);
    return t;
}

static void round_trip(mba_tokenizer *t, const char *text, size_t n, bool exact)
{
    mba_ids  ids = { 0 };
    mba_text back = { 0 }, repaired = { 0 }, composed = { 0 };
    mba_assert(mba_tokenizer_encode(t, &ids, text, n) == MBA_OK);
    for (int64_t i = 0; i < ids.n; i++) mba_assert(ids.id[i] >= 0 && ids.id[i] < mba_tokenizer_vocab(t));
    mba_assert(mba_tokenizer_decode(t, &back, ids.id, ids.n) == MBA_OK);
    if (exact) {
        mba_assert(mba_utf8_repair(&repaired, text, n) == MBA_OK && mba_utf8_valid(repaired.data, repaired.n));
        mba_assert(mba_nfc(&composed, repaired.data, repaired.n) == MBA_OK);
        /* Special tokens part the text before NFC, so that a mark behind one stays alone. */
        if (!memmem(repaired.data ? repaired.data : "", repaired.n, "<|endoftext|>", 13))
            mba_assert(back.n == composed.n && (!back.n || !memcmp(back.data, composed.data, back.n)));
    }
    free(ids.id);
    free(back.data);
    free(repaired.data);
    free(composed.data);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    static mba_tokenizer *small;
    if (!small) small = small_tokenizer();
    if (n && bytes[0] == 'T') {
        round_trip(small, (const char *)bytes + 1, n - 1, true);
        return 0;
    }
    mba_tokenizer *t;
    mba_status     st = mba_tokenizer_create_json(&t, (const char *)bytes, n);
    if (st != MBA_OK) {
        check_refusal(st);
        return 0;
    }
    round_trip(t, nasty, sizeof nasty - 1, false);
    mba_tokenizer_destroy(t);
    return 0;
}
