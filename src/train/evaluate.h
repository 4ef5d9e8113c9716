/* evaluate.h -- a checkpoint on given tokens: loss, logits, gradients.
 *
 *     mba_evaluation e;
 *     MBA_TRY(mba_evaluate(&e, &(mba_evaluate_options){ .checkpoint = dir, .tokens = "t.npy", .logits = "l.npy" }));
 *     printf("%f nats over %lld predictions\n", e.loss, (long long)e.tokens);
 */
#ifndef MBA_EVALUATE_H
#define MBA_EVALUATE_H

#include "train/session.h"

typedef struct mba_evaluate_options {
    const char *checkpoint;                       /* an HF directory */
    const char *tokens;                           /* int32 or int64 (B, L) .npy; or .. */
    const char *data;                             /* .. token files, of which the last part is taken */
    double      validation;
    int64_t     batch, length;                    /* of data; 0: 8 and 256 */
    const char *logits, *grads;                   /* where to write fp32 (B, L, V) .npy, .safetensors; or NULL */
    mba_session_options session;                  /* memory, recompute and variants; the model is the checkpoint's */
} mba_evaluate_options;

typedef struct mba_evaluation {
    double  loss;                                 /* mean over the B (L-1) predicted positions; NaN where L = 1 */
    int64_t tokens;                               /* how many those are */
    int64_t parameters;
} mba_evaluation;

/* With `tokens` one batch, with `data` all batches of the held-out part. */
MBA_MUST mba_status mba_evaluate(mba_evaluation *out, const mba_evaluate_options *o);

#endif
