// SPDX-License-Identifier: Apache-2.0
/* mambavision.h -- MambaVision: convolutional stages, then stages of scans and attention within windows of tokens.
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
    const char *name;    /* of its preset */
    mba_dtype   compute; /* type of activations and weights of products; 0: fp32 */
    int64_t     batch, image, classes;
    int64_t     dim, in_dim; /* channels of stage 0; of the stem */
    int64_t     depths[MBA_STAGES], heads[MBA_STAGES], windows[MBA_STAGES];
    int64_t     mlp_ratio, state, conv;
    double      layer_scale, drop_path; /* initial value, 0: none; largest probability */
    double      smoothing;              /* of the labels */
    double      crop;                   /* evaluation: side of the centre crop, as a fraction of the resized
                                                     image's short side; 0: 0.875. The graph does not depend on it */
    bool        squash;                 /* evaluation: resizes to a square, whatever the aspect ratio */
    bool        train;                  /* batch statistics and drop path */
    bool        given_drop;             /* drop path from inputs: "<block>.drop_a" (and "drop_b" of the MLP)
                                                     is the factor of the branch for every image or window */
    bool        soft_targets;           /* "soft" (B, classes) instead of "labels" (B): mixup, cutmix */
    bool        keep_logits;
} mba_vision;

/* The published sizes; ends with an entry without a name. */
const mba_vision *mba_vision_presets(void);

extern const mba_field mba_vision_fields[]; /* for --set and config.json (fields.h) */

/* Replaces zeros by defaults and checks that all fields fit together. */
MBA_MUST mba_status mba_vision_complete(mba_vision *c);

typedef struct mba_vision_graph {
    mba_tensor *images, *labels, *soft, *logits, *loss;
} mba_vision_graph;
mba_vision_graph mba_vision_build(mba_graph *g, const mba_vision *c);

/* The scan mixer alone, for its reference vectors: x and the result are (windows, L, C). */
typedef struct mba__mixer_size {
    int64_t state, rank, conv;
} mba__mixer_size;
mba_tensor *mba__vision_mixer(mba_graph *g, mba_tensor *x, mba__mixer_size s);

#endif
