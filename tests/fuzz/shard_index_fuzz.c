// SPDX-License-Identifier: Apache-2.0
/* shard_index_fuzz.c -- any bytes as the index of a sharded checkpoint. Shards open from memory: one is a sound
 * file with three tensors, another is sound and empty, the rest do not exist. */
#include "fuzz.h"
#include "data/weights.h"

static const char three[] = "\xa8\0\0\0\0\0\0\0"
                            "{\"embed\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
                            "\"head\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[4,5]},"
                            "\"norm\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[5,5]}} abcde";
static const char empty[] = "\x08\0\0\0\0\0\0\0{}      ";

static mba_status open_shard(mba_safetensors **out, void *user, const char *shard)
{
    (void)user;
    mba_assert(!strchr(shard, '/') && shard[0] != '.');
    if (strstr(shard, "00001")) return mba_safetensors_open_bytes(out, shard, three, sizeof three - 1);
    if (strstr(shard, "00002")) return mba_safetensors_open_bytes(out, shard, empty, sizeof empty - 1);
    return mba_fail(MBA_E_FORMAT, "no such shard\nwhy: there are two\nfix: none");
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    mba_weights *w;
    mba_status   st = mba__weights_from_index(&w, "fuzz", (const char *)bytes, n, open_shard, NULL);
    if (st != MBA_OK) {
        check_refusal(st);
        return 0;
    }
    mba_assert(mba_weights_count(w) > 0);
    for (int64_t i = 0; i < mba_weights_count(w); i++) {
        const mba_array *a = mba_weights_at(w, i);
        mba_assert(mba_weights_find(w, a->name) == a);
        read_array(a);
    }
    mba_weights_close(w);
    return 0;
}
