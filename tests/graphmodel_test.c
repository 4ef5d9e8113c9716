/* graphmodel_test.c -- Graph-Mamba: parameter totals of the data set presets. */
#include "tests/test.h"

#include "models/graphmamba.h"

static void parameter_totals_are_those_of_the_released_configurations(void **state)
{
    (void)state;
    static const struct { const char *name; int64_t parameters; } table[] = {
        { "graphmamba-voc", 497781 },     { "graphmamba-coco", 503601 },    { "graphmamba-peptides-func", 491770 },
        { "graphmamba-peptides-struct", 491867 }, { "graphmamba-mnist", 116486 }, { "graphmamba-cifar10", 113818 },
        { "graphmamba-pattern", 335281 }, { "graphmamba-cluster", 508966 }, { "graphmamba-malnet", 285125 },
    };
    int wrong = 0;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        mba_graph   *g;
        mba_graphnet c = *mba_graphnet_preset(table[i].name);
        int64_t      n = 0;
        assert_ok(mba_graphnet_complete(&c));
        c.train = true;
        assert_ok(mba_graph_create(&g));
        mba_tensor *loss = mba_graphnet_build(g, &c).loss;
        assert_ok(mba_graph_status(g));
        assert_ok(mba_backward(g, loss));
        for (int32_t k = 0; k < g->ntensors; k++) if (mba_is_param(g->tensors[k])) n += mba_elems(g->tensors[k]);
        mba_graph_destroy(g);
        printf("%s %-28s %lld, should be %lld\n", n == table[i].parameters ? "   " : "BAD", table[i].name, (long long)n, (long long)table[i].parameters);
        wrong += n != table[i].parameters;
    }
    assert_int_equal(wrong, 0);
}

MBA_TEST_MAIN(cmocka_unit_test(parameter_totals_are_those_of_the_released_configurations))
