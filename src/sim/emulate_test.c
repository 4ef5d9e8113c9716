// SPDX-License-Identifier: Apache-2.0
/* emulate_test.c -- machines that were emulated on a real GPU: bad tables are refused, and the simulator predicts what
 * was measured. */
#include "tests/test.h"

#include <math.h>

#include "sim/emulate.h"

static void bad_imitations_are_refused(void **state)
{
    (void)state;
    static mba_emulated_set  d;
    static const char        good[] = "# head\ncopy\tsm\t0.5\t100\t110\n";
    static const char *const bad[] = {
        "copy\tsm\t0.5\t100\n",     "nothing\tsm\t0.5\t100\t110\n",    "copy\tsm\t0.5\t0\t110\n",
        "copy\tsm\t-1\t100\t110\n", "copy\tsm\t0.5\t100\t110\tmore\n", "copy sm 0.5 nan 110\n"
    };
    double  slower;
    mba_gpu m;
    assert_ok(mba_gpu_load(&m, "h200"));
    assert_ok(mba_emulated_parse(&d, "good.tsv", good, strlen(good)));
    assert_true(d.n == 1 && !strcmp(d.one[0].what.axis, "sm"));
    assert_true(fabs(d.one[0].slower / 1.1 - 1) <= 0.01);
    assert_ok(mba_emulation_simulate(&slower, &d.one[0].what, &m));
    assert_true(slower >= 0.995); // half of the SMs are no faster than all
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(mba_emulated_parse(&d, "bad.tsv", bad[i], strlen(bad[i])), MBA_E_FORMAT);
}

/* What was imitated on the H200: the direction always, and within 10 %. */
static void imitated_machines_are_predicted(void **state)
{
    (void)state;
    static mba_emulated_set d;
    mba_gpu                 m;
    int                     within = 0;
    assert_ok(mba_gpu_load(&m, "h200"));
    assert_ok(mba_emulated_load(&d, NULL));
    assert_true(d.n >= 20);
    for (int i = 0; i < d.n; i++) {
        const mba_emulated *r = &d.one[i];
        double              slower;
        assert_ok(mba_emulation_simulate(&slower, &r->what, &m));
        within += fabs(slower / r->slower - 1) <= 0.1;
        if ((r->slower > 1.02 && slower < 0.99) || (r->slower < 0.98 && slower > 1.01))
            fail_msg("%s, %s x%g: %.3f times as long, predicted %.3f", r->kernel, r->axis, r->what.factor, r->slower,
                     slower);
    }
    printf("%d of %d imitated machines within 10 %%\n", within, d.n);
    assert_int_equal(within, d.n);
}

MBA_TEST_MAIN(cmocka_unit_test(bad_imitations_are_refused), cmocka_unit_test(imitated_machines_are_predicted))
