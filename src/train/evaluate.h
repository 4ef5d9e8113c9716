// SPDX-License-Identifier: Apache-2.0
/* evaluate.h -- evaluates a checkpoint on given data: loss, scores, logits, gradients.
 *
 *     mba_evaluation e;
 *     MBA_TRY(mba_evaluate(&e, &(mba_evaluate_options){ .checkpoint = dir, .tokens = "t.npy", .logits = "l.npy" }));
 *     printf("%f over %lld targets\n", e.loss, (long long)e.targets);
 *
 * Given tokens, images or graphs are one batch; `data` means a whole pass over the held-out part of a data set. */
#ifndef MBA_EVALUATE_H
#define MBA_EVALUATE_H

#include "train/feed.h"

typedef struct mba_evaluate_options {
    const char *checkpoint; /* a directory */
    /* What to evaluate on; one of: */
    const char         *tokens;            /* text: int32 or int64 (B, L) .npy */
    const char         *images, *labels;   /* images: fp32 (N, 3, H, W), normalised, and integers (N) */
    const char         *graphs;            /* graphs: a collection (graph_pack.h) */
    const char         *data;              /* data as train takes it */
    const char         *tokenizer, *field; /* of text in `data` (text_data.h); NULL: the checkpoint's, "text" */
    double              validation;        /* of text in `data`: only this last fraction; 0: all */
    mba_batch_shape     shape;             /* of the batches of `data`; 0: 8 x 256 tokens, 32 images */
    int64_t             made;              /* graphs of a synthetic collection; 0: five batches */
    bool                train_mode;        /* batch statistics; dropout and drop path only with a seed */
    int64_t             seed;              /* of dropout and drop path; negative: none */
    bool                averaged;          /* evaluates the averaged model of the checkpoint */
    const char         *logits, *grads;    /* output files (fp32 .npy, .safetensors); or NULL */
    mba_session_options session;           /* memory, recompute and variants; the model is the checkpoint's */
} mba_evaluate_options;

typedef struct mba_evaluation {
    mba_task       task;
    double         loss;    /* mean over the targets; NaN: no targets */
    int64_t        targets; /* predicted tokens, labelled images, labels of nodes or graphs */
    int64_t        parameters;
    mba_task_score score[MBA_SCORES_MAX];
    int            scores;
    char           prepared[512]; /* a sentence about the text that was prepared; "": none was */
} mba_evaluation;

MBA_MUST mba_status mba_evaluate(mba_evaluation *out, const mba_evaluate_options *o);

#endif
