// SPDX-License-Identifier: Apache-2.0
/* training.h -- whole runs for tests of training: small models of every family, text in the scratch directory.
 *
 *     mba_train_options o = options("M*-", 20);           // layers by their letters, 20 steps
 *     o.report = keep_loss;
 *     assert_ok(mba_train(&o));  assert_true(last_loss < 5);
 *     cmocka_run_group_tests(tests, prepare_data, remove_data);
 */
#ifndef MBA_TRAINING_H
#define MBA_TRAINING_H

#include "data/prepare.h"
#include "tests/scratch.h"
#include "tests/test.h"
#include "train/train.h"

static inline mba_lm small(const char *pattern)
{
    mba_lm c = { .batch = 2,
                 .length = 33,
                 .width = 32,
                 .vocab = 264,
                 .state = 8,
                 .head_dim = 16,
                 .chunk = 16,
                 .q_heads = 2,
                 .kv_heads = 1,
                 .attn_dim = 16,
                 .mlp = 48 };
    strcpy(c.pattern, pattern);
    return c;
}

static inline mba_train_options options(const char *pattern, int64_t steps)
{
    return (mba_train_options){ .session = { .model.lm = small(pattern), .adamw = mba_adamw_defaults() },
                                .seed = 5,
                                .feed = { .data = scratch("tokens"), .validation = 0.2 },
                                .valid_batches = 2,
                                .schedule = { .lr = 5e-3, .lr_min = 1e-4, .warmup = 4, .steps = steps },
                                .guard = 8 };
}

/* Small networks for made-up images and graphs. */
static inline mba_train_options other(const char *preset, const char *set, mba_batch_shape shape, int64_t steps)
{
    mba_train_options o = { .session.adamw = mba_adamw_defaults(),
                            .seed = 5,
                            .valid_batches = 2,
                            .guard = 8,
                            .feed = { .smoothing = 0.1, .mixup = 0.2, .cutmix = 1 },
                            .schedule = { .lr = 5e-3, .lr_min = 1e-4, .warmup = 4, .steps = steps } };
    assert_ok(mba_model_preset(&o.session.model, preset));
    assert_ok(mba_model_set(&o.session.model, set));
    assert_ok(mba_model_shape(&o.session.model, &shape));
    return o;
}

#define SMALL_VISION   "dim=8,in_dim=8,depths=1:1:2:2,heads=1:1:2:4,windows=0:0:2:1,image=24"
#define SMALL_PEPTIDES "layers=2,width=16,pe_count=4,pe_width=4"
#define SMALL_CLUSTER  "layers=2,width=16,pe_count=0,pe_width=0,buckets=3"

static double      last_loss;
static inline void keep_loss(void *ctx, const mba_train_report *r)
{
    (void)ctx;
    last_loss = r->loss;
}

static inline int prepare_data(void **state)
{
    (void)state;
    mba_tokenizer *t;
    mba_prepared   made;
    scratch_make();
    if (mba_tokenizer_create(&t, "bytes") != MBA_OK) return -1;
    const mba_prepare_options o = { .out = scratch("tokens"), .synthetic_bytes = 100000, .seed = 3 };
    const mba_status          st = mba_prepare(&made, t, &o);
    mba_tokenizer_destroy(t);
    return st == MBA_OK ? 0 : -1;
}

static inline int remove_data(void **state)
{
    (void)state;
    scratch_remove();
    return 0;
}

#endif
