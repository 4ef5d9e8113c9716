// SPDX-License-Identifier: Apache-2.0
/* scaling.h -- the step of one rank among many, from the step of one rank alone and the links between them.
 *
 *     mba_scaling_point p;
 *     MBA_TRY(mba_scaling_at(&p, &(mba_scaling_input){ .one = &session, .node_s = seconds, .step_s = step,
 *                                                      .rank = options, .links = &links, .overlap = true }, 512));
 *     printf("%.1f ms, %.0f %%\n", 1e3 * p.step_s, 100 * p.efficiency);
 *
 * Every rank has the same batch (weak scaling). The graph of a rank says what it computes and exchanges: collectives
 * by their plans, the update of its shard by the compulsory bytes of its operators. With `overlap`, the sum of a bucket
 * starts when the backward pass has stored its last gradient, and the gather of a bucket when its update ends; without,
 * everything happens one after the other, as ranks on CPUs do. */
#ifndef MBA_STUDY_SCALING_H
#define MBA_STUDY_SCALING_H

#include "sim/links.h"
#include "train/session.h"

typedef struct mba_scaling_input {
    const mba_session  *one;    /* of one rank alone; its graph is read */
    const double       *node_s; /* seconds of each of its nodes */
    double              step_s; /* of its step, with what lies between nodes */
    mba_session_options rank;   /* of a rank among several; place is set here */
    const mba_links    *links;
    double              add_bps; /* bytes per second, read and written, at which a rank adds what it receives */
    double              sms;     /* of its GPU, from which collectives take some; 0: none */
    bool                overlap;
} mba_scaling_input;

typedef struct mba_scaling_point {
    int64_t       ranks, buckets;
    double        summed_bytes, gathered_bytes; /* whole vectors, of which a rank sends a part */
    mba_link_time sums, gathers;                /* of gradients; of parameters */
    double        adding_s;                     /* of received gradients */
    double        compute_s, update_s; /* forward and backward pass, slowed down by what runs beside them; shard */
    double        comm_s, exposed_s;   /* of all collectives; part of it that no computation hides */
    double        skew_s;              /* that the slowest rank is behind the mean */
    double        step_s, efficiency;  /* efficiency: step of one rank over this one */
} mba_scaling_point;

/* ranks: a power of two; 1 is the step as given. */
MBA_MUST mba_status mba_scaling_at(mba_scaling_point *out, const mba_scaling_input *in, int64_t ranks);

#endif
