// SPDX-License-Identifier: Apache-2.0
/* dnn_attention.h -- softmax attention by cuDNN: heads in bf16, sums in fp32, log-sum-exp saved for the backward pass.
 *
 * The library compiles its kernels for a graph of small operations, which is built once per shape, before a step is
 * captured (a few tenths of a second each). With the usual graph its backward pass adds dq by atomics, so that bits
 * differ from run to run. This graph makes it store the gradients of all scores in the workspace instead, two bytes
 * each. */
#ifndef MBA_CUDA_DNN_ATTENTION_H
#define MBA_CUDA_DNN_ATTENTION_H

#include "device/cuda/cuda.h"

/* Heads come first; LSE and SUMS (<do, o>) are fp32, dense (B, H, L). */
enum {
    MBA_DNN_Q,
    MBA_DNN_K,
    MBA_DNN_V,
    MBA_DNN_O,
    MBA_DNN_DO,
    MBA_DNN_DQ,
    MBA_DNN_DK,
    MBA_DNN_DV,
    MBA_DNN_HEADS,
    MBA_DNN_LSE = MBA_DNN_HEADS,
    MBA_DNN_SUMS,
    MBA_DNN_TENSORS
};

typedef struct mba_dnn_heads {
    int64_t batch, head, row;
} mba_dnn_heads; /* strides, in elements */

typedef struct mba_dnn_shape {
    int64_t       B, L, Lk, H, Hk, P, causal, backward;
    mba_dnn_heads heads[MBA_DNN_HEADS]; /* those of the backward pass are zero for a forward */
} mba_dnn_shape;

typedef struct mba_cuda_attention {
    mba_dnn_shape shape;
    float         scale;
    void         *at[MBA_DNN_TENSORS], *work, *stream;
    size_t        work_bytes;
} mba_cuda_attention;

#ifdef __cplusplus
extern "C"
#endif
    mba_status
    mba_cuda_dnn_attention(const mba_cuda_attention *a);

#endif
