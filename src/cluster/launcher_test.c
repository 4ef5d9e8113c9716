// SPDX-License-Identifier: Apache-2.0
/* launcher_test.c -- every row of launcher.h, and what is refused. */
#include "tests/test.h"

#include "cluster/launcher.h"

static const char *const *variables; /* name, value, name, value, .. NULL */

static char *get(const char *name)
{
    for (const char *const *v = variables; *v; v += 2)
        if (!strcmp(v[0], name)) return (char *)v[1];
    return NULL;
}

static mba_launcher found(const char *const *v)
{
    mba_launcher l;
    variables = v;
    assert_ok(mba_launcher_find(&l, get));
    return l;
}
#define FOUND(...) found((const char *const[]){ __VA_ARGS__, NULL })

static void refused(const char *words, const char *const *v)
{
    mba_launcher l;
    variables = v;
    assert_fails(mba_launcher_find(&l, get), MBA_E_ARG, words);
}
#define REFUSED(words, ...) refused(words, (const char *const[]){ __VA_ARGS__, NULL })

static void nothing_is_one_rank(void **state)
{
    (void)state;
    const mba_launcher l = found((const char *const[]){ NULL });
    assert_true(l.rank == 0 && l.ranks == 1 && l.local_rank == -1 && !l.launcher && !l.mpi);
}

static void every_launcher_is_known(void **state)
{
    (void)state;
    mba_launcher l = FOUND("OMPI_COMM_WORLD_RANK", "3", "OMPI_COMM_WORLD_SIZE", "8", "OMPI_COMM_WORLD_LOCAL_RANK", "1",
                           "OMPI_COMM_WORLD_LOCAL_SIZE", "2", "OMPI_COMM_WORLD_NODE_RANK", "1");
    assert_true(l.rank == 3 && l.ranks == 8 && l.local_rank == 1 && l.local_ranks == 2 && l.mpi);
    l = FOUND("PMI_RANK", "0", "PMI_SIZE", "4", "MPI_LOCALRANKID", "0", "MPI_LOCALNRANKS", "4");
    assert_true(l.rank == 0 && l.ranks == 4 && l.local_rank == 0 && l.local_ranks == 4 && l.mpi);
    l = FOUND("SLURM_STEP_ID", "0", "SLURM_PROCID", "5", "SLURM_NTASKS", "16", "SLURM_LOCALID", "5");
    assert_true(l.rank == 5 && l.ranks == 16 && l.local_rank == 5 && l.local_ranks == 0 && l.mpi);
    l = FOUND("RANK", "1", "WORLD_SIZE", "2", "LOCAL_RANK", "1", "LOCAL_WORLD_SIZE", "2");
    assert_true(l.rank == 1 && l.ranks == 2 && l.local_rank == 1 && l.local_ranks == 2 && !l.mpi);
    assert_string_equal(l.launcher, "torchrun");
}

/* A batch script of Slurm is one process, and so is `srun -n 1`; RANK alone is anybody's variable. */
static void what_is_no_launcher_is_one_rank(void **state)
{
    (void)state;
    assert_int_equal(FOUND("SLURM_PROCID", "0", "SLURM_NTASKS", "16").ranks, 1);
    assert_int_equal(FOUND("SLURM_STEP_ID", "0", "SLURM_PROCID", "0", "SLURM_NTASKS", "1").ranks, 1);
    assert_int_equal(FOUND("RANK", "7").ranks, 1);
    assert_int_equal(FOUND("WORLD_SIZE", "7").ranks, 1);
    assert_int_equal(FOUND("OMPI_COMM_WORLD_RANK", "0", "OMPI_COMM_WORLD_SIZE", "1").ranks, 1);
}

/* mpirun starts its daemons by srun, one per node: their variables are inherited. */
static void variables_of_daemons_are_not_compared(void **state)
{
    (void)state;
    assert_int_equal(FOUND("OMPI_COMM_WORLD_RANK", "9", "OMPI_COMM_WORLD_SIZE", "16", "SLURM_STEP_ID", "0",
                           "SLURM_PROCID", "1", "SLURM_NTASKS", "2")
                         .rank,
                     9);
    assert_int_equal(FOUND("PMI_RANK", "9", "PMI_SIZE", "16", "MPI_LOCALRANKID", "1", "SLURM_STEP_ID", "0",
                           "SLURM_PROCID", "1", "SLURM_NTASKS", "2")
                         .rank,
                     9);
}

static void launchers_that_agree_are_fine(void **state)
{
    (void)state;
    assert_string_equal(
        FOUND("OMPI_COMM_WORLD_RANK", "1", "OMPI_COMM_WORLD_SIZE", "2", "RANK", "1", "WORLD_SIZE", "2").launcher,
        "mpirun of Open MPI");
    assert_int_equal(
        FOUND("PMI_RANK", "1", "PMI_SIZE", "2", "SLURM_STEP_ID", "0", "SLURM_PROCID", "1", "SLURM_NTASKS", "2").ranks,
        2);
}

static void contradictions_are_refused(void **state)
{
    (void)state;
    REFUSED("mpirun of Open MPI says rank 1 of 2", "OMPI_COMM_WORLD_RANK", "1", "OMPI_COMM_WORLD_SIZE", "2", "RANK",
            "1", "WORLD_SIZE", "4");
    REFUSED("srun says rank 0 of 2", "PMI_RANK", "1", "PMI_SIZE", "2", "SLURM_STEP_ID", "0", "SLURM_PROCID", "0",
            "SLURM_NTASKS", "2");
    REFUSED("srun says rank 1 of 4", "SLURM_STEP_ID", "0", "SLURM_PROCID", "1", "SLURM_NTASKS", "4", "RANK", "0",
            "WORLD_SIZE", "4");
}

static void damaged_variables_are_refused(void **state)
{
    (void)state;
    REFUSED("OMPI_COMM_WORLD_RANK is '1x'", "OMPI_COMM_WORLD_RANK", "1x", "OMPI_COMM_WORLD_SIZE", "2");
    REFUSED("PMI_SIZE is '-4'", "PMI_RANK", "1", "PMI_SIZE", "-4");
    REFUSED("SLURM_NTASKS is '99999999'", "SLURM_STEP_ID", "0", "SLURM_PROCID", "0", "SLURM_NTASKS", "99999999");
    REFUSED("RANK is 2, but WORLD_SIZE is 2", "RANK", "2", "WORLD_SIZE", "2");
    REFUSED("OMPI_COMM_WORLD_SIZE is set, OMPI_COMM_WORLD_RANK is not", "OMPI_COMM_WORLD_SIZE", "2");
}

MBA_TEST_MAIN(cmocka_unit_test(nothing_is_one_rank), cmocka_unit_test(every_launcher_is_known),
              cmocka_unit_test(what_is_no_launcher_is_one_rank),
              cmocka_unit_test(variables_of_daemons_are_not_compared), cmocka_unit_test(launchers_that_agree_are_fine),
              cmocka_unit_test(contradictions_are_refused), cmocka_unit_test(damaged_variables_are_refused))
