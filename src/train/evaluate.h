// SPDX-License-Identifier: Apache-2.0
/* evaluate.h -- a checkpoint on given data: loss, scores, logits, gradients.
 *
 *     mba_evaluation e;
 *     MBA_TRY(mba_evaluate(&e, &(mba_evaluate_options){ .checkpoint = dir, .tokens = "t.npy", .logits = "l.npy" }));
 *     printf("%f over %lld targets\n", e.loss, (long long)e.targets);
 *
 * Given tokens, images or graphs are one batch; `data` is a whole pass over the held-out part of a data set. */
#ifndef MBA_EVALUATE_H
#define MBA_EVALUATE_H

#include "train/feed.h"

typedef struct mba_evaluate_options {
    const char         *checkpoint;        /* a directory */
    const char         *tokens;            /* text: int32 or int64 (B, L) .npy; or .. */
    const char         *images, *labels;   /* images: fp32 (N, 3, H, W), normalised, and integers (N); or .. */
    const char         *graphs;            /* graphs: a collection (graph_pack.h); or .. */
    const char         *data;              /* .. what train takes */
    const char         *tokenizer, *field; /* of `data` that is text (text_data.h); NULL: the checkpoint's, "text" */
    double              validation;        /* of text: only the last part */
    mba_batch_shape     shape;             /* of the batches of `data`; 0: 8 x 256 tokens, 32 images */
    int64_t             made;              /* graphs of a made-up collection; 0: five batches */
    bool                train_mode;        /* batch statistics; nothing is dropped unless .. */
    int64_t             seed;              /* .. a seed is given; negative: none */
    bool                averaged;          /* the averaged model of the checkpoint */
    const char         *logits, *grads;    /* where to write them (fp32 .npy, .safetensors); or NULL */
    mba_session_options session;           /* memory, recompute and variants; the model is the checkpoint's */
} mba_evaluate_options;

typedef struct mba_evaluation {
    mba_task       task;
    double         loss;    /* mean over the targets; NaN where there are none */
    int64_t        targets; /* predicted tokens, labelled images, labels of nodes or graphs */
    int64_t        parameters;
    mba_task_score score[MBA_SCORES_MAX];
    int            scores;
    char           prepared[512]; /* what text was prepared, in a sentence; "": none */
} mba_evaluation;

MBA_MUST mba_status mba_evaluate(mba_evaluation *out, const mba_evaluate_options *o);

#endif
