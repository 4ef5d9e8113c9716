// SPDX-License-Identifier: Apache-2.0
/* launcher.c -- see launcher.h: one row per launcher. */
#include "cluster/launcher.h"

#include <stdlib.h>
#include <string.h>

typedef struct row {
    const char *launcher, *rank, *size, *local_rank, *local_size;
    const char *inside;     /* variable without which the row does not count; NULL: none */
    bool        mpi, loose; /* loose: the names are common, so one of them alone means nothing */
} row;

enum { OPEN_MPI, HYDRA, SLURM, TORCH, ROWS };

static const row rows[ROWS] = {
    [OPEN_MPI] = { "mpirun of Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
                   "OMPI_COMM_WORLD_LOCAL_SIZE", NULL, true, false },
    [HYDRA] = { "mpiexec of MPICH", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", NULL, true, false },
    [SLURM] = { "srun", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", NULL, "SLURM_STEP_ID", true, false },
    [TORCH] = { "torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", NULL, false, true },
};

/* Reads a whole number of 0 .. most; `none` if the variable is not set. */
static mba_status number(int *out, char *(*get)(const char *), const char *name, int none, int most)
{
    const char *text = name ? get(name) : NULL;
    char       *end = NULL;
    *out = none;
    if (!text || !*text) return MBA_OK;
    const long v = strtol(text, &end, 10);
    if (*end || v < 0 || v > most)
        return mba_fail(MBA_E_ARG, "%s is '%.40s'\nwhy: a launcher sets it to a number of 0 to %d\nfix: unset %s", name,
                        text, most, name);
    *out = (int)v;
    return MBA_OK;
}

/* Fills `out` if the row matches: l->ranks is 0 otherwise. */
static mba_status read_row(mba_launcher *l, const row *r, char *(*get)(const char *))
{
    *l = (mba_launcher){ .launcher = r->launcher, .mpi = r->mpi };
    const char *rank = get(r->rank), *size = get(r->size);
    if ((r->inside && !get(r->inside)) || (!rank && !size) || (r->loose && (!rank || !size))) return MBA_OK;
    if (!rank || !size)
        return mba_fail(MBA_E_ARG, "%s is set, %s is not\nwhy: %s sets both\nfix: unset it, or start with %s",
                        rank ? r->rank : r->size, rank ? r->size : r->rank, r->launcher, r->launcher);
    MBA_TRY(number(&l->ranks, get, r->size, 0, MBA_RANKS_MAX));
    MBA_TRY(number(&l->rank, get, r->rank, 0, MBA_RANKS_MAX));
    MBA_TRY(number(&l->local_rank, get, r->local_rank, -1, MBA_RANKS_MAX));
    MBA_TRY(number(&l->local_ranks, get, r->local_size, 0, MBA_RANKS_MAX));
    if (l->rank < l->ranks) return MBA_OK;
    return mba_fail(MBA_E_ARG, "%s is %d, but %s is %d\nwhy: ranks count from 0\nfix: unset both, or start with %s",
                    r->rank, l->rank, r->size, l->ranks, r->launcher);
}

/* True if the variables of the second row describe this process too, given that the first matches. */
static bool comparable(int first, int second, char *(*get)(const char *))
{
    return second != SLURM || (first == HYDRA && !get(rows[HYDRA].local_rank));
}

mba_status mba_launcher_find(mba_launcher *out, char *(*get)(const char *))
{
    int first = -1;
    *out = (mba_launcher){ .ranks = 1, .local_rank = -1 };
    for (int k = 0; k < ROWS; k++) {
        mba_launcher l;
        MBA_TRY(read_row(&l, &rows[k], get));
        if (!l.ranks || (k == SLURM && l.ranks == 1)) continue;
        if (first < 0) {
            first = k;
            *out = l;
        } else if (comparable(first, k, get) && (l.rank != out->rank || l.ranks != out->ranks)) {
            return mba_fail(MBA_E_ARG,
                            "two launchers disagree about this process\nwhy: %s says rank %d of %d (%s, %s), %s says "
                            "rank %d of %d (%s, %s)\nfix: unset the variables of one of them",
                            out->launcher, out->rank, out->ranks, rows[first].rank, rows[first].size, l.launcher,
                            l.rank, l.ranks, rows[k].rank, rows[k].size);
        }
    }
    return MBA_OK;
}
