// SPDX-License-Identifier: Apache-2.0
/* xxh64.h -- the XXH64 checksum by its public definition, with seed 0.
 *
 *     mba_xxh64("abc", 3)       // 0x44bc2cf5ad770999
 *
 * It detects accidental damage (a flipped bit, a zeroed page) except in one case of 2^64. It is not cryptographic. */
#ifndef MBA_XXH64_H
#define MBA_XXH64_H

#include <stddef.h>
#include <stdint.h>

uint64_t mba_xxh64(const void *bytes, size_t n);

#endif
