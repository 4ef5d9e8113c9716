// SPDX-License-Identifier: Apache-2.0
/* generate.h -- generates text: continues a sequence of tokens with a checkpoint.
 *
 *     mba_generate_options o = { .checkpoint = dir, .temperature = 0.8, .top = 40, .seed = 1 };
 *     MBA_TRY(mba_generate(ids, n, room, &o));                   // fills ids[n .. room-1]
 *
 * Models without attention keep their state and process one token at a time. With attention, the whole
 * sequence is computed again for every token, which is slow but needs no cache. */
#ifndef MBA_GENERATE_H
#define MBA_GENERATE_H

#include "train/session.h"

typedef struct mba_generate_options {
    const char *checkpoint;
    double      temperature; /* 0: always the most likely token */
    int64_t     top;         /* samples among the `top` most likely tokens; 0: all */
    double      top_p;       /* of those, the fewest whose probabilities sum to top_p; 0: all */
    int64_t     vocab;       /* samples only tokens below it, without padding rows; 0: all */
    uint64_t    seed;
    mba_status (*each)(void *ctx, int32_t token); /* called for every new token; or NULL */
    void *ctx;
} mba_generate_options;

/* ids has space for `room` tokens, of which the first n >= 1 are given. */
MBA_MUST mba_status mba_generate(int32_t *ids, int64_t n, int64_t room, const mba_generate_options *o);

/* Fails with MBA_E_ARG unless the checkpoint is a language model. */
MBA_MUST mba_status mba_generate_check(const char *checkpoint);

/* Samples the token at position `at` from logits of V tokens, the same for every call. `space` has V elements. */
typedef struct mba_choice {
    float   logit;
    int32_t token;
} mba_choice;
int32_t mba_generate_draw(mba_choice *space, const float *logits, int64_t V, const mba_generate_options *o, int64_t at);

#endif
