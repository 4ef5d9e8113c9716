/* unicode_tables.h -- the generated tables of unicode.c (tools/unicode_tables.py writes unicode_tables.c). */
#ifndef MBA_UNICODE_TABLES_H
#define MBA_UNICODE_TABLES_H

#include <stdint.h>

extern const char mba__unicode_version[];

/* Classes (MBA_LETTER ..), four bits each, in blocks of 128 code points. mba__unicode_stretch[c / 128] is the block. */
extern const uint32_t mba__unicode_stretches;
extern const uint8_t  mba__unicode_stretch[];
extern const uint32_t mba__unicode_block[];                 /* 16 words a block */

/* composed << 36 | first << 18 | second (0: a single code point), by composed. */
extern const int32_t  mba__decompositions_n;
extern const uint64_t mba__decompositions[];

/* Indices of the decompositions that compose again, sorted by (first, second). */
extern const int32_t  mba__compositions_n;
extern const uint16_t mba__compositions[];

/* first << 15 | (last - first) << 8 | combining class, by first. */
extern const int32_t  mba__combining_n;
extern const uint32_t mba__combining[];

#endif
