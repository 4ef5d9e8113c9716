// SPDX-License-Identifier: Apache-2.0
/* ranges_test.c -- a tool that watches from outside sees what the host does on a GPU: the ranges of a run and of its
 * nodes.
 *
 * The tool stands here: NVTX asks a program for a function of this name before it looks for a library. Its tables are
 * those of nvtx3/nvtxDetail/nvtxTypes.h, which no test includes. */
#include "tests/test.h"

#ifdef MBA_WITH_CUDA
#include "core/check.h"
#include "core/device.h"
#include "device/cuda/ranges.h"

enum { CALLBACKS = 1, MODULE_CORE = 1, PUSH = 9, POP = 11, SEEN_MAX = 64 };
typedef void function(void);
typedef struct callbacks {
    size_t bytes;
    int (*table_of)(int module, function ****table, unsigned *n);
} callbacks;

static char seen[SEEN_MAX][160];
static int  nseen, depth;

static int push(const char *name)
{
    if (nseen < SEEN_MAX) snprintf(seen[nseen++], sizeof *seen, "%d %s", depth, name);
    return depth++;
}

static int pop(void) { return --depth; }

static int attach(const void *(*ask)(uint32_t what))
{
    const callbacks *c = ask(CALLBACKS);
    function      ***table = NULL;
    unsigned         n = 0;
    if (!c || !c->table_of(MODULE_CORE, &table, &n) || n <= POP) return 0;
    *table[PUSH] = (function *)push;
    *table[POP] = (function *)pop;
    return 1;
}

typedef int       attach_fn(const void *(*ask)(uint32_t what));
extern attach_fn *InitializeInjectionNvtx2_fnptr;
attach_fn        *InitializeInjectionNvtx2_fnptr = attach;

static void a_range_has_its_name_and_its_end(void **state)
{
    (void)state;
    nseen = depth = 0;
    mba__range_begin("%s %s", "layers.3", "ssd");
    assert_int_equal(depth, 1);
    mba__range_end();
    assert_int_equal(depth, 0);
    assert_int_equal(nseen, 1);
    assert_string_equal(seen[0], "0 layers.3 ssd");
}

/* Node by node first, inside the range of the run; a captured graph has the run alone. */
static void a_run_and_its_nodes_are_ranges(void **state)
{
    (void)state;
    const mba_device *d;
    const mba_op     *op = mba_op_find("relu2");
    const mba_step    step = { .seed = 1 };
    mba_case_graph    o;
    mba_program      *p;
    if (mba_device_cuda(&d, 0) != MBA_OK) skip();
    assert_ok(mba_case_build(&o, op, &op->cases[0], (mba_case_how){ 0 }));
    assert_ok(mba_program_create(&p, o.g, &(mba_program_options){ .cuda = true, .machine = d->machine }));
    assert_ok(mba_program_bind(p, d));
    for (int run = 0; run < 3; run++) { // as it is; captured; the graph of before
        nseen = depth = 0;
        assert_ok(mba_program_run(p, MBA_FORWARD | MBA_BACKWARD, &step, NULL));
        assert_int_equal(depth, 0);
        assert_int_equal(nseen, run < 2 ? 1 + o.g->nnodes : 1);
        assert_string_equal(seen[0], "0 forward and backward");
    }
    assert_ok(mba_program_wait(p));
    mba_program_destroy(p);
    mba_graph_destroy(o.g);
}
#else
static void a_range_has_its_name_and_its_end(void **state)
{
    (void)state;
    skip();
}
static void a_run_and_its_nodes_are_ranges(void **state)
{
    (void)state;
    skip();
}
#endif

MBA_TEST_MAIN(cmocka_unit_test(a_range_has_its_name_and_its_end), cmocka_unit_test(a_run_and_its_nodes_are_ranges))
