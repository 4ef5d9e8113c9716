// SPDX-License-Identifier: Apache-2.0
/* idx.h -- the IDX format of MNIST: a big-endian header with type and sizes, then the values, row-major.
 *
 *     mba_idx images;
 *     MBA_TRY(mba_idx_parse(&images, "train-images-idx3-ubyte", bytes, n));     // images.data lent by `bytes`
 *     if (images.type == MBA_IDX_U8 && images.rank == 3) ..                     // (size[0], size[1], size[2])
 *
 * The file must have exactly the length that the header implies. */
#ifndef MBA_IDX_H
#define MBA_IDX_H

#include <stddef.h>
#include <stdint.h>

#include "core/status.h"

enum { MBA_IDX_RANK = 8 };

typedef enum mba_idx_type {
    MBA_IDX_U8 = 0x08,
    MBA_IDX_S8 = 0x09,
    MBA_IDX_S16 = 0x0B,
    MBA_IDX_S32 = 0x0C,
    MBA_IDX_F32 = 0x0D,
    MBA_IDX_F64 = 0x0E,
} mba_idx_type;

typedef struct mba_idx {
    mba_idx_type   type;
    int            rank;
    int64_t        size[MBA_IDX_RANK]; /* slowest first */
    int64_t        elems;
    const uint8_t *data; /* lent; values of more than one byte are big-endian */
} mba_idx;

/* Fails with MBA_E_FORMAT, or with MBA_E_UNSUPPORTED for a file that is still compressed. */
MBA_MUST mba_status mba_idx_parse(mba_idx *out, const char *name, const void *bytes, size_t n);

#endif
