// SPDX-License-Identifier: Apache-2.0
/* mambavision.h -- MambaVision: convolutional stages, then windows of tokens that are scanned and attended to.
 *
 *     mba_vision c = { .dim = 80, .in_dim = 32, .depths = { 1, 3, 8, 4 }, .heads = { 2, 4, 8, 16 }, .drop_path = 0.2 };
 *     MBA_TRY(mba_vision_complete(&c));
 *     mba_tensor *loss = mba_vision_build(g, &c).loss;
 *
 * Names are those of the published checkpoints. Images are channels last: "images" (B, S, S, 3), normalised. */
#ifndef MBA_MAMBAVISION_H
#define MBA_MAMBAVISION_H

#include "core/graph.h"
#include "models/fields.h"

enum { MBA_STAGES = 4 };

typedef struct mba_vision {
    const char *name;    /* of the preset it came from */
    mba_dtype   compute; /* of activations and weights of products; 0: fp32 */
    int64_t     batch, image, classes;
    int64_t     dim, in_dim; /* channels of stage 0; inside the stem */
    int64_t     depths[MBA_STAGES], heads[MBA_STAGES], windows[MBA_STAGES];
    int64_t     mlp_ratio, state, conv;
    double      layer_scale, drop_path; /* 0: none; largest probability, of the last block */
    double      smoothing;              /* of the labels */
    double      crop;                   /* evaluation: side of the centre that is looked at, in the resized
                                                     image's shorter one; 0: 0.875. The network does not know it */
    bool        squash;                 /* evaluation: the resized image is square, whatever its shape was */
    bool        train;                  /* batch statistics and drop path */
    bool        given_drop;             /* drop path from inputs: "<block>.drop_a" (and "drop_b", of the MLP)
                                                     holds the factor of the branch for every image or window */
    bool        soft_targets;           /* "soft" (B, classes) instead of "labels" (B): mixup, cutmix */
    bool        keep_logits;
} mba_vision;

/* The published sizes; ends with an entry without a name. */
const mba_vision *mba_vision_presets(void);

extern const mba_field mba_vision_fields[]; /* what --set and config.json know (fields.h) */

/* Fills what has a default (0) and checks that all fits together. */
MBA_MUST mba_status mba_vision_complete(mba_vision *c);

typedef struct mba_vision_graph {
    mba_tensor *images, *labels, *soft, *logits, *loss;
} mba_vision_graph;
mba_vision_graph mba_vision_build(mba_graph *g, const mba_vision *c);

/* The scanning mixer by itself, for its reference vectors: x and the result are (windows, L, C). */
typedef struct mba__mixer_size {
    int64_t state, rank, conv;
} mba__mixer_size;
mba_tensor *mba__vision_mixer(mba_graph *g, mba_tensor *x, mba__mixer_size s);

#endif
