// SPDX-License-Identifier: Apache-2.0
/* launcher.h -- which rank of how many this process is, from the variables of the launcher that started it.
 *
 *     mba_launcher l;
 *     MBA_TRY(mba_launcher_find(&l, getenv));
 *     if (l.ranks > 1) ...                     // else: one process, nothing is opened
 *
 * | launcher          | variables |
 * |---|---|
 * | Open MPI's mpirun | OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK, _LOCAL_SIZE |
 * | MPICH and Hydra   | PMI_RANK, PMI_SIZE, MPI_LOCALRANKID, MPI_LOCALNRANKS |
 * | Slurm's srun      | SLURM_PROCID, SLURM_NTASKS, SLURM_LOCALID; only inside a step (SLURM_STEP_ID) |
 * | torchrun          | RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE |
 *
 * The first row that matches counts; another one that disagrees is an error. Under mpirun and Hydra the variables of
 * Slurm are those of the daemons that they start by srun, so they are not compared. */
#ifndef MBA_LAUNCHER_H
#define MBA_LAUNCHER_H

#include <stdbool.h>

#include "core/status.h"

typedef struct mba_launcher {
    int         rank, ranks;
    int         local_rank, local_ranks; /* on this host; -1, 0: the launcher does not say */
    const char *launcher;                /* "mpirun of Open MPI"; NULL: none */
    bool        mpi;                     /* a launcher of MPI programs, or one that may be (srun) */
} mba_launcher;

enum { MBA_RANKS_MAX = 65536 };

/* `get` is getenv, or that of a test. Variables that are damaged or contradict each other are MBA_E_ARG. */
MBA_MUST mba_status mba_launcher_find(mba_launcher *out, char *(*get)(const char *name));

#endif
