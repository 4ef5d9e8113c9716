// SPDX-License-Identifier: Apache-2.0
/* suite_peers.h -- parts of the suite that are programs of others: a training step of mamba_ssm, by injection. */
#ifndef MBA_CLI_SUITE_PEERS_H
#define MBA_CLI_SUITE_PEERS_H

#include "cli/profile.h"
#include "cli/suite.h"

/* Runs tools/peers/train_nvtx.py under `profile -- CMD` and writes the store of the part to `path`. */
MBA_MUST mba_status mba_suite_peer_make(const mba_suite_part *p, const char *command, const char *path,
                                        mba_profile_more_fn *more, void *ctx);

#endif
