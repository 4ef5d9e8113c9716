// SPDX-License-Identifier: Apache-2.0
/* generate.h -- continues a sequence of tokens.
 *
 *     mba_generate_options o = { .checkpoint = dir, .temperature = 0.8, .top = 40, .seed = 1 };
 *     MBA_TRY(mba_generate(ids, n, room, &o));                   // fills ids[n .. room-1]
 *
 * Models without attention keep their state and take one token at a time; with attention the whole
 * sequence is computed for every token, which is slow but needs no cache. */
#ifndef MBA_GENERATE_H
#define MBA_GENERATE_H

#include "train/session.h"

typedef struct mba_generate_options {
    const char *checkpoint;
    double      temperature; /* 0: always the likeliest */
    int64_t     top;         /* only among so many likeliest; 0: all */
    double      top_p;       /* of those, only the fewest that have this probability together; 0: all */
    int64_t     vocab;       /* only tokens below it (the rest is padding); 0: all */
    uint64_t    seed;
    mba_status (*each)(void *ctx, int32_t token); /* called for every new token; or NULL */
    void *ctx;
} mba_generate_options;

/* ids holds n >= 1 given tokens and room for `room`. */
MBA_MUST mba_status mba_generate(int32_t *ids, int64_t n, int64_t room, const mba_generate_options *o);

/* MBA_E_ARG unless the checkpoint is a model of text. */
MBA_MUST mba_status mba_generate_check(const char *checkpoint);

/* The token that the options draw at position `at` from logits of V tokens, the same whenever it is asked. The space
 * holds V. */
typedef struct mba_choice {
    float   logit;
    int32_t token;
} mba_choice;
int32_t mba_generate_draw(mba_choice *space, const float *logits, int64_t V, const mba_generate_options *o, int64_t at);

#endif
