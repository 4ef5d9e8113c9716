// SPDX-License-Identifier: Apache-2.0
/* json_fuzz.c -- any bytes as JSON; every getter on every key; what was read can be written and read again. */
#include "fuzz.h"
#include "data/json.h"

static void get_all(const json_t *root, const char *key)
{
    int64_t     i;
    double      r;
    bool        b;
    const char *t;
    if (mba_json_int(root, key, 1, -100, 100, &i) == MBA_OK) mba_assert(i >= -100 && i <= 100);
    if (mba_json_real(root, key, 1, -1e9, 1e9, &r) == MBA_OK) mba_assert(r >= -1e9 && r <= 1e9);
    if (mba_json_text(root, key, "none", &t) == MBA_OK) mba_assert(strlen(t) < SIZE_MAX);
    if (mba_json_bool(root, key, true, &b) == MBA_OK) mba_assert(b || json_is_false(mba_json_get(root, key)));
    if (mba_json_require(root, key) == MBA_OK) mba_assert(mba_json_get(root, key));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    static const mba_json_limits limits = { .bytes = 1 << 16, .values = 4096, .depth = 16 };
    json_t                      *root, *again, *v;
    const char                  *key;
    mba_status                   st = mba_json_parse(&root, "fuzz", (const char *)bytes, n, &limits);
    if (st != MBA_OK) {
        check_refusal(st);
        return 0;
    }
    json_object_foreach(root, key, v) get_all(root, key);
    char *text = json_dumps(root, JSON_COMPACT);
    mba_assert(text);
    st = mba_json_parse(&again, "dumped", text, strlen(text), NULL);
    mba_assert(st == MBA_OK && json_equal(root, again));
    free(text);
    json_decref(again);
    json_decref(root);
    return 0;
}
