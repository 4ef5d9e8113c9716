// SPDX-License-Identifier: Apache-2.0
/* validation_scores.h -- scores of the simulator that count where time goes: SSM kernels by their time, steps at every
 * measured size, and changes by the share of their effect that is predicted. Every score stands beside two models
 * that know nothing: the roofline of the data sheet, and "nothing changes".
 *
 *     mba_weighted_score s = mba_score_kernels(kernels, MBA_SCORE_SSM, MBA_SCORE_HELD, MBA_FROM_PLANS);
 *     printf("%.1f %%, bias %+.1f %%\n", s.error, s.bias);
 */
#ifndef MBA_STUDY_VALIDATION_SCORES_H
#define MBA_STUDY_VALIDATION_SCORES_H

#include "study/validation.h"

typedef enum mba_score_of { MBA_SCORE_SSM, MBA_SCORE_ALL } mba_score_of;
/* What a prediction rests on: the kernel's own counters, today's launch plan, or that plan with counters of the same
 * kernel in other workloads (known_code.h). */
typedef enum mba_score_mode { MBA_FROM_COUNTERS, MBA_FROM_PLANS, MBA_FROM_KNOWN_CODE, MBA_SCORE_MODES } mba_score_mode;
typedef enum mba_score_set { MBA_SCORE_HELD, MBA_SCORE_FITTED, MBA_SCORE_BOTH } mba_score_set;

/* Errors in percent. Weights are launches x measured time, so a kernel counts as it does in its step. NaN: no
 * kernel. */
typedef struct mba_weighted_score {
    int    points;
    double error, bias;      /* weighted mean of absolute and of signed errors */
    double mean, worst;      /* unweighted mean and largest absolute error */
    double roofline, inside; /* the roofline's weighted error; percent of kernels in the band of their class */
} mba_weighted_score;

/* An SSM kernel belongs to an operator of that kind (ssd, selective_scan and their backward operators). */
bool               mba_is_ssm_operator(const char *op);
mba_weighted_score mba_score_kernels(const mba_profiled_set *k, mba_score_of of, mba_score_set set,
                                     mba_score_mode mode);

/* A step, or the SSM operators of a step, at one measured size. */
typedef struct mba_size_score {
    const mba_point *point;
    double           unchanged_ms; /* the measured time per token, image or graph of the same model at the size of
                                      measured.tsv, times the units of this step; NaN: no such step */
    mba_band         band;         /* of 80 % of the steps of other models */
    bool             inside;
} mba_size_score;
enum { MBA_SIZES_MAX = 64 };

/* Scores all whole steps (`source` MBA_POINT_TOTAL) or sums of SSM operators (MBA_POINT_SSM) of two predicted sets.
 * Returns their number. */
int mba_score_sizes(mba_size_score out[MBA_SIZES_MAX], mba_point_source source, const mba_measured *base,
                    const mba_measured *sizes);

/* A variant of SSD in one layer, forward and backward together, against the multi-kernel variant of the same shape. */
typedef struct mba_variant_score {
    char   shape[64], variant[24];
    double measured_ms, predicted_ms;
    double measured, predicted; /* time over that of `chunked` */
} mba_variant_score;
enum { MBA_VARIANTS_MAX = 32 };
int mba_score_variants(mba_variant_score out[MBA_VARIANTS_MAX], const mba_measured *sizes);

/* The share of a measured change of time (a ratio) that is predicted, at most 1, negative for the wrong sign
 * or more than twice the effect: 1 - |log predicted - log measured| / |log measured|. The model "nothing changes" has
 * 0. NaN: the change is less than 3 %. */
double mba_effect_share(double measured, double predicted);

/* Shares that are numbers, in percent. Few rows without a floor can move the mean far. */
typedef struct mba_effect_sum {
    int    effects;
    double mean, median;
} mba_effect_sum;
enum { MBA_EFFECTS_MAX = 1024 };
mba_effect_sum mba_effect_sum_of(const double *share, int n);

/* One sealed set: workloads listed, predicted and hashed before they were compared once (tools/sealed). */
typedef struct mba_sealed_score {
    char   set[32];
    double steps, error, bias, worst, inside; /* of whole steps from launch plans, percent; inside: in their bands */
    double ssm_error, ssm_bias;               /* of SSM kernels from counters, weighted by time; NaN: none */
} mba_sealed_score;
enum { MBA_SEALED_MAX = 64 };
extern const char mba_sealed_text[]; /* src/sim/data/sealed.tsv */

/* Parses the table of `text`. Returns the number of sets, or -1 if it is not such a table. */
int mba_sealed_history(mba_sealed_score out[MBA_SEALED_MAX], const char *text);

#endif
