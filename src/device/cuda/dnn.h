// SPDX-License-Identifier: Apache-2.0
/* dnn.h -- image convolutions by cuDNN: channels last, filters (out, height, width, in), one type, fp32 sums.
 *
 * The kernel is the library's first choice among those that are deterministic and fit the workspace. It is chosen once
 * per shape, before a step is captured. fp32 is multiplied in fp32, or with `tf32` in TF32. */
#ifndef MBA_CUDA_DNN_H
#define MBA_CUDA_DNN_H

#include "device/cuda/cuda.h"

enum { MBA_CUDA_DNN_WORK_BYTES = 256 << 20 };

typedef enum mba_conv_kind { MBA_CONV_FORWARD, MBA_CONV_DATA, MBA_CONV_FILTER } mba_conv_kind;

typedef struct mba_cuda_conv {
    int64_t       B, H, W, Ci, Ho, Wo, Co, kh, kw, stride, pad;
    int64_t       pitch_x, pitch_y; /* elements between pixels */
    mba_conv_kind kind;
    mba_dtype     dtype;
    bool          adds;             /* DATA: adds to dx */
    bool          tf32;             /* of fp32 pixels */
    void         *x, *w, *y, *work; /* FORWARD writes y, DATA x, FILTER w */
    void         *stream;
} mba_cuda_conv;

#ifdef __cplusplus
extern "C"
#endif
    mba_status
    mba_cuda_conv2d(const mba_cuda_conv *c);

#endif
