// SPDX-License-Identifier: Apache-2.0
/* xxh64.c -- see xxh64.h. Four independent sums of 8-byte words, so that no multiplication waits for the previous
 * one. */
#include "core/xxh64.h"

#include <string.h>

#include "core/status.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "words are read as they lie in memory");

static const uint64_t P1 = 0x9E3779B185EBCA87u, P2 = 0xC2B2AE3D27D4EB4Fu, P3 = 0x165667B19E3779F9u,
                      P4 = 0x85EBCA77C2B2AE63u, P5 = 0x27D4EB2F165667C5u;

static uint64_t rotate(uint64_t x, int by) { return x << by | x >> (64 - by); }

static uint64_t word(const unsigned char *p)
{
    uint64_t x;
    memcpy(&x, p, sizeof x);
    return x;
}

static uint64_t half_word(const unsigned char *p)
{
    uint32_t x;
    memcpy(&x, p, sizeof x);
    return x;
}

static uint64_t mixed(uint64_t sum, uint64_t input) { return rotate(sum + input * P2, 31) * P1; }

static uint64_t merged(uint64_t h, uint64_t sum) { return (h ^ mixed(0, sum)) * P1 + P4; }

/* Hashes all whole stripes of 32 bytes, at least one, and advances *p past them. */
static uint64_t stripes(const unsigned char **p, const unsigned char *end)
{
    uint64_t             a = P1 + P2, b = P2, c = 0, d = 0 - P1;
    const unsigned char *at = *p;
    mba_debug_assert(end - at >= 32);
    for (; end - at >= 32; at += 32) {
        a = mixed(a, word(at));
        b = mixed(b, word(at + 8));
        c = mixed(c, word(at + 16));
        d = mixed(d, word(at + 24));
    }
    *p = at;
    const uint64_t h = rotate(a, 1) + rotate(b, 7) + rotate(c, 12) + rotate(d, 18);
    return merged(merged(merged(merged(h, a), b), c), d);
}

uint64_t mba_xxh64(const void *bytes, size_t n)
{
    if (!n) bytes = ""; // NULL is fine then
    const unsigned char *p = bytes, *end = p + n;
    uint64_t             h = (n >= 32 ? stripes(&p, end) : P5) + n;
    for (; end - p >= 8; p += 8) h = rotate(h ^ mixed(0, word(p)), 27) * P1 + P4;
    for (; end - p >= 4; p += 4) h = rotate(h ^ half_word(p) * P1, 23) * P2 + P3;
    for (; p < end; p++) h = rotate(h ^ *p * P5, 11) * P1;
    h = (h ^ h >> 33) * P2;
    h = (h ^ h >> 29) * P3;
    return h ^ h >> 32;
}
