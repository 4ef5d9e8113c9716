// SPDX-License-Identifier: Apache-2.0
/* xxh64.h -- a checksum that tells damage, not malice: XXH64 by its public definition (seed 0).
 *
 *     mba_xxh64("abc", 3)       // 0x44bc2cf5ad770999
 *
 * Any flipped bit, zeroed page or other content changes it, but for one case in 2^64. */
#ifndef MBA_XXH64_H
#define MBA_XXH64_H

#include <stddef.h>
#include <stdint.h>

uint64_t mba_xxh64(const void *bytes, size_t n);

#endif
