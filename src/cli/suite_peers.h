// SPDX-License-Identifier: Apache-2.0
/* suite_peers.h -- parts of the suite that are programs of others: a training step of mamba_ssm, by injection. */
#ifndef MBA_CLI_SUITE_PEERS_H
#define MBA_CLI_SUITE_PEERS_H

#include "cli/profile.h"
#include "cli/suite.h"

/* Runs tools/peers/train_nvtx.py under `profile -- CMD` and writes the store of the part to `path`. */
MBA_MUST mba_status mba_suite_peer_make(const mba_suite_part *p, const char *command, const char *path,
                                        mba_profile_more_fn *more, void *ctx);

/* The options of that call: tokens of a step, launches to record (0: to the end), steps of the script. */
int64_t mba_suite_peer_units(const mba_suite_part *p);
int64_t mba_suite_peer_launches(const mba_suite_part *p);
int64_t mba_suite_peer_steps(const mba_suite_part *p);

#endif
