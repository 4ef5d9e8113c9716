// SPDX-License-Identifier: Apache-2.0
/* rendezvous.h -- where the ranks of a launcher without MPI meet: rank 0 listens there, the others know it from their
 * environment.
 *
 *     mba_rendezvous at;
 *     MBA_TRY(mba_rendezvous_find(&at, &launch, getenv));
 *
 * MASTER_ADDR and MASTER_PORT say it. torchrun itself listens on that port, so it is the next one if torchrun says so
 * (TORCHELASTIC_USE_AGENT_STORE). Under srun, without them, it is the first node of the step and the port
 * 20000 + SLURM_JOB_ID % 20000. MBA_SECRET, the same text on all ranks, keeps others on the network out; without it the
 * numbers of the job do, which they can guess. */
#ifndef MBA_RENDEZVOUS_H
#define MBA_RENDEZVOUS_H

#include "cluster/channel.h"
#include "cluster/launcher.h"

typedef struct mba_rendezvous {
    char          address[256];
    int           port;
    unsigned char secret[MBA_SECRET_BYTES];
} mba_rendezvous;

/* True if these ranks meet without MPI: no launcher of MPI has started them, or srun has and MASTER_ADDR is set or
 * `has_mpi` is false. */
bool mba_rendezvous_wanted(const mba_launcher *l, bool has_mpi, char *(*get)(const char *name));

MBA_MUST mba_status mba_rendezvous_find(mba_rendezvous *out, const mba_launcher *l, char *(*get)(const char *name));

#endif
