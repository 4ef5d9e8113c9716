// SPDX-License-Identifier: Apache-2.0
/* graph_pack_fuzz.c -- any bytes as a file of graphs; once as they are, once with checksums made right, because no
 * mutation would guess them. */
#include "graph_fuzz.h"
#include "data/graph_pack.h"

static void try_open(const uint8_t *bytes, size_t n)
{
    mba_graph_pack *p;
    mba_status      st = mba_graph_pack_open_bytes(&p, "fuzz", bytes, n);
    if (st != MBA_OK) {
        check_refusal(st);
        return;
    }
    use_set(mba_graph_pack_set(p));
    mba_graph_pack_close(p);
}

static void right_checksums(uint8_t *bytes, size_t n)
{
    for (size_t entry = 128; entry + 32 <= n && entry < 128 + 11 * 32; entry += 32) {
        uint64_t offset, size;
        memcpy(&offset, bytes + entry + 8, 8);
        memcpy(&size, bytes + entry + 16, 8);
        if (offset > n || size > n - offset) continue;
        const uint32_t crc = mba_crc32(0, bytes + offset, size);
        memcpy(bytes + entry + 24, &crc, 4);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    uint8_t *copy = malloc(n + !n);
    mba_assert(copy);
    if (n) memcpy(copy, bytes, n);
    try_open(copy, n);
    right_checksums(copy, n);
    try_open(copy, n);
    free(copy);
    return 0;
}
