// SPDX-License-Identifier: Apache-2.0
/* array.h -- an array in a file: what safetensors and npy have in common.
 *
 *     const mba_array *a = mba_safetensors_find(file, "backbone.norm_f.weight");
 *     MBA_TRY(mba_array_read_f32(a, weights, M));            // from F32, F16, BF16, F64 or integers
 *
 * The file owns the bytes, which stay valid until it is closed. They are little-endian and row-major, and the address
 * may be unaligned: copy them, do not cast the pointer. */
#ifndef MBA_ARRAY_H
#define MBA_ARRAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "core/status.h"

/* In the order of the safetensors reference, whose writer sorts by it (largest first). */
// clang-format off
#define MBA_WIRE_LIST(X) \
    X(BOOL, 1) X(U8, 1) X(I8, 1) X(F8_E5M2, 1) X(F8_E4M3, 1) X(I16, 2) X(U16, 2) X(F16, 2) \
    X(BF16, 2) X(I32, 4) X(U32, 4) X(F32, 4) X(F64, 8) X(I64, 8) X(U64, 8)
// clang-format on

/* The type of a number in a file. The engine computes with fewer types: mba_dtype. */
typedef enum mba_file_dtype {
#define X(name, bytes) MBA_WIRE_##name,
    MBA_WIRE_LIST(X)
#undef X
        MBA_WIRES
} mba_file_dtype;

enum { MBA_ARRAY_RANK_MAX = 8 };

typedef struct mba_array {
    const char    *file; /* for messages */
    const char    *name; /* NULL if the file holds only one array */
    mba_file_dtype dtype;
    int            rank; /* 0: a scalar */
    int64_t        shape[MBA_ARRAY_RANK_MAX];
    int64_t        elems;
    int64_t        bytes;
    const void    *data;
} mba_array;

size_t      mba_file_dtype_bytes(mba_file_dtype t);
const char *mba_file_dtype_name(mba_file_dtype t);
bool        mba_file_dtype_parse(mba_file_dtype *out, const char *name); /* "F32"; false: no such type */

/* Sets elems and bytes from dtype and shape; false if the bytes do not fit 63 bits. A dimension of zero does not hide
 * an impossible size: {0, 2^62, 2^62} is refused. */
bool mba_array_measure(mba_array *a);

/* Copies all values to `out`, which has room for `count`. Fails with MBA_E_SHAPE if that is not the number of values.
 * f32 rounds to nearest and refuses finite values that would become infinite; f64 is exact and refuses integers beyond
 * 2^53. Neither reads the F8 types. */
MBA_MUST mba_status mba_array_read_f32(const mba_array *a, float *out, int64_t count);
MBA_MUST mba_status mba_array_read_f32_at(const mba_array *a, float *out, int64_t first, int64_t count); /* a part */
MBA_MUST mba_status mba_array_read_f64(const mba_array *a, double *out, int64_t count);

/* Text for messages, returned by value so that a call can stand in an argument list:
 *     mba_fail(.., "%s", mba_shape_words(a->rank, a->shape).text)
 * mba_quote makes text from a file safe to print: one line, printable ASCII, not too long. */
typedef struct mba_words {
    char text[192];
} mba_words;

mba_words mba_shape_words(int rank, const int64_t *shape); /* (3, 4) */
mba_words mba_quote(const char *text);
mba_words mba_quote_bytes(const char *text, size_t n);

#endif
