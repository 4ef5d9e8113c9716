// SPDX-License-Identifier: Apache-2.0
/* measured.h -- times of operators and steps measured on a GPU, against which the simulator is validated.
 * tools/measured_points makes the table and defines its columns.
 *
 *     mba_measured *d;
 *     MBA_TRY(mba_measured_load(&d, NULL));               // NULL: the built-in set; else a path
 *     for (int i = 0; i < d->n; i++) puts(d->point[i].subject);
 *     mba_measured_destroy(d);
 */
#ifndef MBA_SIM_MEASURED_H
#define MBA_SIM_MEASURED_H

#include <stddef.h>

#include "core/status.h"

typedef enum mba_point_set { MBA_POINT_FITTED, MBA_POINT_HELD, MBA_POINT_UNCOUNTED } mba_point_set;
typedef enum mba_point_source {
    MBA_POINT_OP,    /* a node by itself, with flushed caches */
    MBA_POINT_STEP,  /* all nodes of an operator in a step */
    MBA_POINT_TOTAL, /* a whole step */
    MBA_POINT_SSM,   /* all SSM operators of a step */
    MBA_POINT_LAYER, /* the mean node of an operator in a step */
    MBA_POINT_SOURCES
} mba_point_source;
extern const char *const mba_point_sources[MBA_POINT_SOURCES];

typedef struct mba_point {
    mba_point_set    set;
    mba_point_source source;
    char subject[96], operator[48], which[16];
    double nodes, ms;
    double predicted_ms, roofline_ms; /* 0: not predicted */
    double floor_ms;                  /* part of predicted_ms: the largest bound of each launch */
    int    limit;                     /* mba_sim_limit of its longest node */
    double inputs_ms;                 /* part of predicted_ms of a whole step: copies from the host */
    double dram_bytes;                /* predicted, of a whole step */
    double known_ms;                  /* predicted with known code (study/known_code.h) */
} mba_point;

typedef struct mba_measured {
    mba_point *point;
    int        n;
} mba_measured;

MBA_MUST mba_status mba_measured_load(mba_measured **out, const char *path);
MBA_MUST mba_status mba_measured_sizes(mba_measured **out); /* built in: steps at other sizes, layers of SSD variants */
MBA_MUST mba_status mba_measured_parse(mba_measured **out, const char *where, const char *text, size_t bytes);
void                mba_measured_destroy(mba_measured *d); /* NULL is fine */

/* Errors of the predictions of one set, in percent of the measured time. NaN: no point is predicted. */
typedef struct mba_error_stats {
    int              points;
    double           mape, p90, worst, log_correlation, roofline_mape;
    const mba_point *worst_point;
} mba_error_stats;
mba_error_stats mba_measured_score(const mba_measured *d, mba_point_set set);

#endif
