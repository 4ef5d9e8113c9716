// SPDX-License-Identifier: Apache-2.0
/* dnn.c -- image convolutions by cuDNN (dnn.h): one descriptor set and algorithm per shape, cached. */
#include "device/cuda/dnn.h"

#include <cudnn.h>
#include <stdlib.h>
#include <string.h>

#include "device/cuda/library.h"

// clang-format off
#define FUNCTIONS(X) \
    X(cudnnCreate) X(cudnnSetStream) X(cudnnGetErrorString) X(cudnnCreateTensorDescriptor) \
    X(cudnnSetTensor4dDescriptorEx) \
    X(cudnnCreateFilterDescriptor) X(cudnnSetFilter4dDescriptor) X(cudnnCreateConvolutionDescriptor) \
    X(cudnnSetConvolution2dDescriptor) X(cudnnSetConvolutionMathType) X(cudnnGetConvolutionForwardAlgorithm_v7) \
    X(cudnnGetConvolutionBackwardDataAlgorithm_v7) X(cudnnGetConvolutionBackwardFilterAlgorithm_v7) \
    X(cudnnConvolutionForward) X(cudnnConvolutionBackwardData) X(cudnnConvolutionBackwardFilter)
// clang-format on
typedef struct functions {
    FUNCTIONS(MBA_LIBRARY_FIELD)
} functions;
#define ENTRY(f) MBA_LIBRARY_ENTRY(functions, f)
static const mba_library_name names[] = { FUNCTIONS(ENTRY){ NULL, 0 } };

enum { SHAPES_MAX = 1024, ANSWERS_MAX = 16 };

typedef struct shape {
    int64_t B, H, W, Ci, Ho, Wo, Co, kh, kw, stride, pad, pitch_x, pitch_y, kind, dtype, tf32;
} shape;

typedef struct choice {
    shape                        key;
    cudnnTensorDescriptor_t      x, y;
    cudnnFilterDescriptor_t      w;
    cudnnConvolutionDescriptor_t conv;
    int                          algo; /* value of the enumeration of its kind */
    size_t                       work_bytes;
} choice;

static struct {
    cudnnHandle_t handle;
    choice       *choices;
    int           n;
    functions     f;
} dnn;

static mba_status failed(cudnnStatus_t e, const char *call, const shape *s)
{
    return mba_fail(MBA_E_DEVICE,
                    "cuDNN reports: %s\nwhy: %.120s, %lld images of %lld x %lld x %lld to %lld channels, "
                    "%lld x %lld taps",
                    dnn.f.cudnnGetErrorString(e), call, (long long)s->B, (long long)s->H, (long long)s->W,
                    (long long)s->Ci, (long long)s->Co, (long long)s->kh, (long long)s->kw);
}

#define DNN_TRY(call) \
    do { \
        const cudnnStatus_t dnn_ = (call); \
        if (dnn_ != CUDNN_STATUS_SUCCESS) return failed(dnn_, #call, s); \
    } while (0)

static mba_status describe(choice *c)
{
    const shape          *s = &c->key;
    const cudnnDataType_t t = s->dtype == MBA_BF16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT;
    DNN_TRY(dnn.f.cudnnCreateTensorDescriptor(&c->x));
    DNN_TRY(dnn.f.cudnnCreateTensorDescriptor(&c->y));
    DNN_TRY(dnn.f.cudnnCreateFilterDescriptor(&c->w));
    DNN_TRY(dnn.f.cudnnCreateConvolutionDescriptor(&c->conv));
    DNN_TRY(dnn.f.cudnnSetTensor4dDescriptorEx(c->x, t, (int)s->B, (int)s->Ci, (int)s->H, (int)s->W,
                                               (int)(s->H * s->W * s->pitch_x), 1, (int)(s->W * s->pitch_x),
                                               (int)s->pitch_x));
    DNN_TRY(dnn.f.cudnnSetTensor4dDescriptorEx(c->y, t, (int)s->B, (int)s->Co, (int)s->Ho, (int)s->Wo,
                                               (int)(s->Ho * s->Wo * s->pitch_y), 1, (int)(s->Wo * s->pitch_y),
                                               (int)s->pitch_y));
    DNN_TRY(
        dnn.f.cudnnSetFilter4dDescriptor(c->w, t, CUDNN_TENSOR_NHWC, (int)s->Co, (int)s->Ci, (int)s->kh, (int)s->kw));
    DNN_TRY(dnn.f.cudnnSetConvolution2dDescriptor(c->conv, (int)s->pad, (int)s->pad, (int)s->stride, (int)s->stride, 1,
                                                  1, CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT));
    const cudnnMathType_t math = s->dtype == MBA_BF16 ? CUDNN_TENSOR_OP_MATH
                                 : s->tf32            ? CUDNN_DEFAULT_MATH // permits TF32 for fp32
                                                      : CUDNN_FMA_MATH;
    DNN_TRY(dnn.f.cudnnSetConvolutionMathType(c->conv, math));
    return MBA_OK;
}

/* Uses the first answer that works, is deterministic and fits. The three lists differ in type only. */
#define USE_FIRST(answers) \
    for (int i = 0; i < n; i++) \
        if ((answers)[i].status == CUDNN_STATUS_SUCCESS && (answers)[i].determinism == CUDNN_DETERMINISTIC \
            && (answers)[i].memory <= MBA_CUDA_DNN_WORK_BYTES) { \
            c->algo = (int)(answers)[i].algo; \
            c->work_bytes = (answers)[i].memory; \
            return MBA_OK; \
        }

static mba_status choose_algorithm(choice *c)
{
    const shape *s = &c->key;
    int          n = 0;
    if (s->kind == MBA_CONV_FORWARD) {
        cudnnConvolutionFwdAlgoPerf_t a[ANSWERS_MAX];
        DNN_TRY(
            dnn.f.cudnnGetConvolutionForwardAlgorithm_v7(dnn.handle, c->x, c->w, c->conv, c->y, ANSWERS_MAX, &n, a));
        USE_FIRST(a)
    } else if (s->kind == MBA_CONV_DATA) {
        cudnnConvolutionBwdDataAlgoPerf_t a[ANSWERS_MAX];
        DNN_TRY(dnn.f.cudnnGetConvolutionBackwardDataAlgorithm_v7(dnn.handle, c->w, c->y, c->conv, c->x, ANSWERS_MAX,
                                                                  &n, a));
        USE_FIRST(a)
    } else {
        cudnnConvolutionBwdFilterAlgoPerf_t a[ANSWERS_MAX];
        DNN_TRY(dnn.f.cudnnGetConvolutionBackwardFilterAlgorithm_v7(dnn.handle, c->x, c->y, c->conv, c->w, ANSWERS_MAX,
                                                                    &n, a));
        USE_FIRST(a)
    }
    return failed(CUDNN_STATUS_NOT_SUPPORTED, "no kernel that repeats its bits", s);
}

static mba_status find(const choice **out, const shape *s)
{
    for (int i = 0; i < dnn.n; i++)
        if (!memcmp(&dnn.choices[i].key, s, sizeof *s)) {
            *out = &dnn.choices[i];
            return MBA_OK;
        }
    if (!dnn.handle) MBA_TRY(mba_library_open("libcudnn.so.9", names, &dnn.f));
    if (!dnn.handle) DNN_TRY(dnn.f.cudnnCreate(&dnn.handle));
    if (!dnn.choices && !(dnn.choices = calloc(SHAPES_MAX, sizeof *dnn.choices)))
        return mba_fail(MBA_E_NOMEM, "no memory for convolutions");
    if (dnn.n == SHAPES_MAX) return mba_fail(MBA_E_UNSUPPORTED, "more than %d shapes of convolutions", SHAPES_MAX);
    dnn.choices[dnn.n].key = *s;
    MBA_TRY(describe(&dnn.choices[dnn.n]));
    MBA_TRY(choose_algorithm(&dnn.choices[dnn.n]));
    *out = &dnn.choices[dnn.n++];
    return MBA_OK;
}

mba_status mba_cuda_conv2d(const mba_cuda_conv *c)
{
    const shape key = { c->B,  c->H,      c->W,   c->Ci,      c->Ho,      c->Wo,   c->Co,    c->kh,
                        c->kw, c->stride, c->pad, c->pitch_x, c->pitch_y, c->kind, c->dtype, c->tf32 },
                *s = &key;
    const float   one = 1, beta = c->adds ? 1 : 0;
    const choice *k = NULL;
    MBA_TRY(find(&k, s));
    DNN_TRY(dnn.f.cudnnSetStream(dnn.handle, (cudaStream_t)c->stream));
    if (c->kind == MBA_CONV_FORWARD)
        DNN_TRY(dnn.f.cudnnConvolutionForward(dnn.handle, &one, k->x, c->x, k->w, c->w, k->conv,
                                              (cudnnConvolutionFwdAlgo_t)k->algo, c->work, k->work_bytes, &beta, k->y,
                                              c->y));
    else if (c->kind == MBA_CONV_DATA)
        DNN_TRY(dnn.f.cudnnConvolutionBackwardData(dnn.handle, &one, k->w, c->w, k->y, c->y, k->conv,
                                                   (cudnnConvolutionBwdDataAlgo_t)k->algo, c->work, k->work_bytes,
                                                   &beta, k->x, c->x));
    else
        DNN_TRY(dnn.f.cudnnConvolutionBackwardFilter(dnn.handle, &one, k->x, c->x, k->y, c->y, k->conv,
                                                     (cudnnConvolutionBwdFilterAlgo_t)k->algo, c->work, k->work_bytes,
                                                     &beta, k->w, c->w));
    return MBA_OK;
}
