// SPDX-License-Identifier: Apache-2.0
/* rendezvous_test.c -- where ranks without MPI meet, by the variables of torchrun and Slurm, and what is refused. */
#include "tests/test.h"

#include "cluster/rendezvous.h"

static const char *const *variables; /* name, value, name, value, .. NULL */

static char *get(const char *name)
{
    for (const char *const *v = variables; *v; v += 2)
        if (!strcmp(v[0], name)) return (char *)v[1];
    return NULL;
}

static const mba_launcher torchrun = { .ranks = 2, .launcher = "torchrun" },
                          srun = { .ranks = 2, .launcher = "srun", .mpi = true },
                          mpirun = { .ranks = 2, .launcher = "mpirun of Open MPI", .mpi = true };

static mba_rendezvous found(const mba_launcher *l, const char *const *v)
{
    mba_rendezvous at;
    variables = v;
    assert_ok(mba_rendezvous_find(&at, l, get));
    return at;
}
#define FOUND(l, ...) found(l, (const char *const[]){ __VA_ARGS__, NULL })

static void torchrun_says_where(void **state)
{
    (void)state;
    mba_rendezvous at = FOUND(&torchrun, "MASTER_ADDR", "gpu07", "MASTER_PORT", "29500");
    assert_string_equal(at.address, "gpu07");
    assert_int_equal(at.port, 29500);
    at = FOUND(&torchrun, "MASTER_ADDR", "gpu07", "MASTER_PORT", "29500", "TORCHELASTIC_USE_AGENT_STORE", "True");
    assert_int_equal(at.port, 29501); // torchrun listens on the other
}

static void slurm_has_a_first_node(void **state)
{
    (void)state;
    static const struct {
        const char *list, *first;
    } nodes[] = { { "gpu[07-12,15],login", "gpu07" },
                  { "a,b", "a" },
                  { "node1", "node1" },
                  { "rack[2]", "rack2" },
                  { "rack[0-1]n[0-3],b", "rack0n0" },
                  { "r[1,3]-[07]x", "r1-07x" },
                  { "x-[9,11-12]", "x-9" } };
    for (size_t k = 0; k < sizeof nodes / sizeof *nodes; k++) {
        const mba_rendezvous at = FOUND(&srun, "SLURM_JOB_NODELIST", nodes[k].list, "SLURM_JOB_ID", "1234567");
        assert_string_equal(at.address, nodes[k].first);
        assert_int_equal(at.port, 20000 + 1234567 % 20000);
    }
    const mba_rendezvous at = FOUND(&srun, "SLURM_JOB_NODELIST", "a,b", "SLURM_JOB_ID", "1", "MASTER_ADDR", "b");
    assert_string_equal(at.address, "b");
    const mba_rendezvous step = FOUND(&srun, "SLURM_JOB_NODELIST", "a,b", "SLURM_STEP_NODELIST", "b", "SLURM_JOB_ID",
                                      "1");
    assert_string_equal(step.address, "b");
}

static void a_secret_is_that_of_the_job(void **state)
{
    (void)state;
#define AT "MASTER_ADDR", "a", "MASTER_PORT", "9"
    const mba_rendezvous one = FOUND(&torchrun, AT), same = FOUND(&torchrun, AT),
                         mine = FOUND(&torchrun, AT, "MBA_SECRET", "x"),
                         other = FOUND(&torchrun, AT, "SLURM_JOB_ID", "8");
    assert_memory_equal(one.secret, same.secret, MBA_SECRET_BYTES);
    assert_memory_not_equal(one.secret, mine.secret, MBA_SECRET_BYTES);
    assert_memory_not_equal(one.secret, other.secret, MBA_SECRET_BYTES);
    assert_memory_not_equal(one.secret, one.secret + 8, 8);
}

static void what_is_missing_is_said(void **state)
{
    (void)state;
    mba_rendezvous           at;
    static const char *const none[] = { NULL }, *const half[] = { "MASTER_ADDR", "a", NULL },
                             *const bad[] = { "MASTER_ADDR", "a", "MASTER_PORT", "http", NULL },
                             *const slurm[] = { "SLURM_JOB_NODELIST", "a", "SLURM_JOB_ID", "1", NULL };
    variables = none;
    assert_fails(mba_rendezvous_find(&at, &torchrun, get), MBA_E_ARG, "nothing says where rank 0 is");
    variables = half;
    assert_fails(mba_rendezvous_find(&at, &torchrun, get), MBA_E_ARG, "not both set");
    variables = bad;
    assert_fails(mba_rendezvous_find(&at, &torchrun, get), MBA_E_ARG, "MASTER_PORT is 'http'");
    variables = slurm; // of the job in which somebody sets the variables of torchrun by hand
    assert_fails(mba_rendezvous_find(&at, &torchrun, get), MBA_E_ARG, "nothing says where rank 0 is");
}

static void mpi_is_used_where_it_is(void **state)
{
    (void)state;
    static const char *const none[] = { NULL }, *const master[] = { "MASTER_ADDR", "a", NULL };
    variables = none;
    assert_true(mba_rendezvous_wanted(&torchrun, true, get));
    assert_true(mba_rendezvous_wanted(&srun, false, get));
    assert_false(mba_rendezvous_wanted(&srun, true, get));
    assert_false(mba_rendezvous_wanted(&mpirun, false, get)); // the error names the plug-in
    variables = master;
    assert_true(mba_rendezvous_wanted(&srun, true, get));
    assert_false(mba_rendezvous_wanted(&mpirun, true, get));
}

MBA_TEST_MAIN(cmocka_unit_test(torchrun_says_where), cmocka_unit_test(slurm_has_a_first_node),
              cmocka_unit_test(a_secret_is_that_of_the_job), cmocka_unit_test(what_is_missing_is_said),
              cmocka_unit_test(mpi_is_used_where_it_is))
