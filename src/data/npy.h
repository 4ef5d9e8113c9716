// SPDX-License-Identifier: Apache-2.0
/* npy.h -- reads and writes .npy files: one array, in the format of NumPy.
 *
 *     mba_npy *f;
 *     MBA_TRY(mba_npy_open(&f, "logits.npy"));
 *     const mba_array *a = mba_npy_array(f);                                  // dtype, shape, data
 *     mba_status st = mba_array_read_f32(a, out, B * V);
 *     mba_npy_close(f);
 *
 *     MBA_TRY(mba_npy_write(path, MBA_WIRE_F32, 2, (int64_t[]){ B, V }, logits));
 *
 * Reads versions 1 to 3, little-endian int32, int64, float32 and float64 in C order; refuses everything else that NumPy
 * can save, with the reason. Writes version 1, byte for byte as numpy.save does. */
#ifndef MBA_NPY_H
#define MBA_NPY_H

#include "data/array.h"

typedef struct mba_npy mba_npy;

MBA_MUST mba_status mba_npy_open(mba_npy **out, const char *path);
void                mba_npy_close(mba_npy *f); /* NULL is fine */
const mba_array    *mba_npy_array(const mba_npy *f);

/* The same from memory, which must outlive the result; `file` is for messages. */
MBA_MUST mba_status mba_npy_open_bytes(mba_npy **out, const char *file, const void *bytes, size_t n);

/* `data` is dense and of one of the four types; all or nothing, as in core/file.h. */
MBA_MUST mba_status mba_npy_write(const char *path, mba_file_dtype dtype, int rank, const int64_t *shape,
                                  const void *data);

#endif
