// SPDX-License-Identifier: Apache-2.0
/* lower_test.c -- plans made ready for the engine: stores that fill parts of sectors, warps that wait for one of
 * their block, products of libraries by their tiles; and kernels that a simulation remembers. */
#include "tests/test.h"

#include <math.h>

#include "core/plan_work.h"
#include "models/model.h"
#include "sim/profiled.h"
#include "sim/engine.h"
#include "sim/serialize.h"
#include "sim/vendor_gemm.h"
#include "sim/step.h"
#include "tests/machines.h"

/* A plan of one store of 32 KB a block, in `parts` of a sector. */
static void lower_store(mba_sim_kernel *k, mba_work_sums *sum, mba_arena *a, int parts, const mba_gpu *m)
{
    enum { BLOCKS = 13200, BYTES = 32768 };
    mba_plan    p = { .arena = a };
    mba_launch *l = mba_plan_launch(&p, "k", MBA_VECTOR, BLOCKS, 256);
    const int   to = mba_plan_scratch(&p, "to", (size_t)2 * BLOCKS * BYTES);
    l->regs = 32;
    mba_phase_work(l, MBA_FMA, 4096, NULL);
    mba_phase_move(l, MBA_STORE, MBA_ARG_SCRATCH(to), BYTES);
    mba_phase_share(l, parts);
    assert_ok(mba_sim_lower(k, NULL, l, &p, m));
    mba_launch_sums(sum, l);
}

/* Each part is a sector to L2, alone of its line; no more bytes are stored, and none that reach DRAM. */
static void parts_of_sectors_are_sectors_to_l2(void **state)
{
    (void)state;
    mba_arena     *a;
    mba_gpu        m;
    mba_sim_kernel k[2];
    mba_work_sums  sum[2];
    mba_sim_result r[2];
    assert_ok(mba_arena_create(&a, 1 << 20));
    assert_ok(mba_gpu_load(&m, "h200"));
    for (int i = 0; i < 2; i++) {
        lower_store(&k[i], &sum[i], a, 1 + i, &m);
        assert_ok(mba_sim_run(&r[i], &k[i], &m, MBA_SIM_ONE_SM));
    }
    assert_true(k[0].partial_stores == 0
                && k[1].partial_stores == 563); // two sectors for one, each 1.6 times as long: 2.2 times 256 more
    assert_true(k[1].stream[0].moved == k[0].stream[0].moved && k[1].stream[0].unique == k[0].stream[0].unique);
    assert_memory_equal(&sum[0], &sum[1], sizeof *sum);
    assert_near(r[1].bound[MBA_LIMIT_L2] / r[0].bound[MBA_LIMIT_L2], 3.2, 0.01);
    mba_arena_destroy(a);
}

/* One block of eight warps on an SM, of which one does four times the mean's work: by the plan and by counts it takes
 * four times as long as if all did the same, less what nobody was in that one's way; and the pipes have no more to
 * do. */
static void others_wait_for_the_busiest_warp(void **state)
{
    (void)state;
    enum { SMS = 132, WARPS = 8, EACH = 4000 };
    static char    text[MBA_SIM_KERNEL_TEXT_BYTES];
    mba_arena     *a;
    mba_gpu        m;
    mba_sim_kernel k[2], again;
    mba_sim_result plain[2], bound[2];
    assert_ok(mba_arena_create(&a, 1 << 20));
    assert_ok(mba_gpu_load(&m, "h200"));
    for (int i = 0; i < 2; i++) {
        mba_plan            p = { .arena = a };
        mba_launch         *l = mba_plan_launch(&p, "k", MBA_VECTOR, SMS, 32 * WARPS);
        mba_profiled_kernel c = { .grid = SMS, .block = 32 * WARPS, .regs = 32 };
        l->regs = 32;
        l->busiest = i ? 4 : 0;
        mba_phase_work(l, MBA_FMA, 32.0 * WARPS * EACH, NULL);
        assert_ok(mba_sim_lower(&k[i], NULL, l, &p, &m));
        assert_ok(mba_sim_run(&plain[i], &k[i], &m, MBA_SIM_ONE_SM));
        assert_true(mba_sim_kernel_write(text, sizeof text, &k[i]));
        assert_ok(mba_sim_kernel_parse(&again, text, &m));
        assert_true(again.busiest == k[i].busiest && k[i].busiest == (i ? 1024 : 0));
        c.n[MBA_N_INST] = c.n[MBA_N_FMA] = (double)SMS * WARPS * EACH;
        c.n[MBA_N_PATH] = 4;
        mba_profiled_apply(&again, &c, &m);
        assert_ok(mba_sim_run(&bound[i], &again, &m, MBA_SIM_ONE_SM));
    }
    const double more = (bound[1].seconds - bound[0].seconds) * m.v[MBA_GPU_clk] * 1e9; // cycles
    assert_true(plain[1].seconds > 2 * plain[0].seconds && plain[1].seconds <= 4 * plain[0].seconds);
    assert_true(more > 2.5 * 4 * EACH && more < 3.01 * 4 * EACH);
    assert_true(bound[1].bound[MBA_P_FMA] == bound[0].bound[MBA_P_FMA]);
    mba_arena_destroy(a);
}

/* ---- products of libraries ---- */

/* Names of libraries say what their products are made of; counts, how many tiles and steps. */
static void names_of_libraries_say_tiles(void **state)
{
    (void)state;
    mba_profiled_kernel  c = { .grid = 132, .smem_bytes = 231424 };
    mba_vendor_gemm_tile t;
    snprintf(c.kernel, sizeof c.kernel, "nvjet_sm90_tst_160x256_64x4_1x2_h_bz_coopA_TNN");
    c.n[MBA_N_TENSOR] = 2.0 * 160 * 39 * 16384 * 1024; // 6176 columns fill 39 tiles of 160
    c.n[MBA_N_L2_WR] = 16384.0 * 6176 * 2 / 32;
    assert_true(mba_vendor_gemm_tile_of(&t, &c));
    assert_true(t.m == 160 && t.n == 256 && t.k == 64 && t.stages == 4 && t.together);
    assert_true(t.tiles == 39 * 64 && t.steps == 16);
    c.n[MBA_N_L2_WR] = 16; // steps of a few tiles are dealt to all blocks
    assert_true(mba_vendor_gemm_tile_of(&t, &c) && t.tiles == 132);
    static const char *const others[] = { "Kernel2", "nvjet_sm90_tst_160x256", "nvjet_sm90_tst_0x256_64x4_1x2_h",
                                          "sm90_xmma_fprop_tilesize128x64x64" };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        snprintf(c.kernel, sizeof c.kernel, "%s", others[i]);
        assert_false(mba_vendor_gemm_tile_of(&t, &c));
    }
    c.n[MBA_N_TENSOR] = NAN;
    snprintf(c.kernel, sizeof c.kernel, "nvjet_sm90_tst_160x256_64x4_1x2_h_bz_coopA_TNN");
    assert_false(mba_vendor_gemm_tile_of(&t, &c));
}

/* The order of work of a library's product: as many tiles for each class of blocks as there are, and stores where
 * groups store. D delay, L loop, w wait, m product, r release, s store, e end, x exit; f fill, a copy, c commit. */
static void products_of_libraries_are_dealt_by_tiles(void **state)
{
    (void)state;
    static const struct {
        double      tiles;
        bool        together;
        int64_t     classes, count[2], trips[2];
        double      piece;
        const char *order;
    } of[] = { { 300, true, 2, { 36, 96 }, { 3, 2 }, 1.0 / 3, "DLLwmresexDLLfaceex" },
               { 264, true, 1, { 132 }, { 2 }, 1.0 / 2, "DLLwmresexDLLfaceex" },
               { 264, false, 1, { 132 }, { 2 }, 1.0 / 2, "DLLwmrseesxDLLfaceex" },
               { 132, false, 1, { 132 }, { 1 }, 1, "DLLwmreesxDLLfaceex" },
               { 100, false, 1, { 100 }, { 1 }, 1, "DLLwmreesxDLLfaceex" } };
    static const char letter[] = {
        [MBA_OP_DELAY] = 'D',   [MBA_OP_LOOP] = 'L',  [MBA_OP_WAIT] = 'w',  [MBA_OP_MIX] = 'm',
        [MBA_OP_RELEASE] = 'r', [MBA_OP_STORE] = 's', [MBA_OP_END] = 'e',   [MBA_OP_EXIT] = 'x',
        [MBA_OP_FILL] = 'f',    [MBA_OP_ASYNC] = 'a', [MBA_OP_COMMIT] = 'c'
    };
    mba_gpu h200;
    assert_ok(mba_gpu_load(&h200, "h200"));
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        const mba_profiled_kernel  c = { .grid = 132, .block = 384 };
        const mba_vendor_gemm_tile t = { .m = 128,
                                         .n = 256,
                                         .k = 64,
                                         .stages = i ? 4 : 99,
                                         .tiles = of[i].tiles,
                                         .steps = 16,
                                         .together = of[i].together };
        mba_sim_kernel             k = { .name = "cublaslt_gemm", .nops = 7, .nclasses = 5 };
        char                       order[MBA_SIM_OPS + 1] = "";
        mba_vendor_gemm_lower(&k, &c, &t, &h200);
        assert_true(k.grid == 132 && k.threads == 384 && k.warps == 12 && k.implied_trips == 1
                    && k.depth == (i ? 4 : MBA_SIM_STAGES));
        assert_int_equal(k.nclasses, of[i].classes);
        for (int64_t j = 0; j < k.nclasses; j++)
            assert_true(k.count[j] == of[i].count[j] && k.trips[j][0] == of[i].trips[j]);
        assert_near(k.tile_share, of[i].piece, 0);
        for (int64_t j = 0; j < k.nops; j++) order[j] = letter[k.op[j].work];
        assert_string_equal(order, of[i].order);
        assert_true(k.nroles == 2 && k.first[0] == 0 && k.first[1] == strchr(order, 'x') + 1 - order);
        assert_true(k.role_warps[0] == 8 && k.role_warps[1] == 4 && k.nstreams == 2 && !k.stream[0].writes
                    && k.stream[1].writes);
        assert_true(k.op[1].trips == -1 && k.op[2].trips == 16 && k.op[4].trips == 160);
        assert_int_equal(k.op[4].n[MBA_P_MMA], 2 * 128 * 256 * 64);
        assert_int_equal(k.op[strchr(order, 'a') - order].bytes, 2 * (128 + 256) * 64);
        assert_int_equal(k.op[strrchr(order, 's') - order].bytes, 2 * 128 * 256 + 1);
        if (i == 2) assert_int_equal(k.op[6].bytes, 2 * 128 * 256 / 2 / 16 + 1); // of one tile of two, a step's part
    }
    mba_sim_kernel narrow = { .name = "cublaslt_gemm" };
    mba_vendor_gemm_lower(&narrow, &(mba_profiled_kernel){ .grid = 2, .block = 128 },
                          &(mba_vendor_gemm_tile){ .m = 8, .n = 8, .k = 8, .tiles = 2, .steps = 1 }, &h200);
    assert_true(narrow.warps == 4 && narrow.role_warps[0] == 1);
}

/* ---- what a simulation remembers ---- */

/* Longer by this for who multiplies or adds. Nothing but the operations tells the kernel from the one that is known. */
static void take_longer(void *of, const mba_program *p, int32_t node, int launch, mba_sim_kernel *k)
{
    (void)p, (void)node, (void)launch;
    for (int64_t i = 0; i < k->nops; i++)
        if (k->op[i].work == MBA_OP_MIX) k->op[i].trips += *(const int64_t *)of;
}

static double seconds_of(mba_sim *s, const mba_program *p, const mba_gpu *m, int64_t cycles, int64_t *unique)
{
    mba_sim_step r;
    assert_ok(mba_sim_program(
        &r, s, p, m,
        &(mba_sim_how){ .passes = MBA_FORWARD, .before_launch = cycles ? take_longer : NULL, .of = &cycles }));
    const double seconds = r.seconds;
    *unique = r.unique;
    mba_sim_step_free(&r);
    return seconds;
}

/* A layer of Mamba-2, planned for a GPU. */
static mba_program *layer_of(mba_graph **g, mba_dtype compute, bool tf32)
{
    mba_model    model;
    mba_program *p;
    assert_ok(mba_model_preset(&model, "mamba2-130m"));
    assert_ok(mba_model_set(&model, "layers=1,width=64"));
    model.lm.batch = 1, model.lm.length = 256;
    mba_model_compute(&model, compute);
    assert_ok(mba_model_complete(&model));
    assert_ok(mba_graph_create(g));
    (*g)->tf32 = tf32;
    mba_model_build(*g, &model);
    assert_ok(mba_graph_status(*g));
    assert_ok(mba_program_create(&p, *g, &(mba_program_options){ .cuda = true, .machine = &machines[1] }));
    return p;
}

static void other_operations_are_another_kernel(void **state)
{
    (void)state;
    mba_graph   *g;
    mba_program *p = layer_of(&g, MBA_BF16, false);
    mba_sim     *known, *fresh;
    mba_gpu      m;
    int64_t      first, again, other, alone;
    assert_ok(mba_gpu_load(&m, "h200"));
    assert_ok(mba_sim_create(&known));
    assert_ok(mba_sim_create(&fresh));
    const double plain = seconds_of(known, p, &m, 0, &first), same = seconds_of(known, p, &m, 0, &again);
    assert_true(first > 0 && again == 0 && same == plain); // nothing is simulated twice
    const double longer = seconds_of(known, p, &m, 100000, &other);
    assert_true(other > 0 && longer > plain);
    assert_true(longer == seconds_of(fresh, p, &m, 100000, &alone)); // whatever is known
    mba_sim_destroy(known);
    mba_sim_destroy(fresh);
    mba_sim_destroy(NULL);
    mba_program_destroy(p);
    mba_graph_destroy(g);
}

/* Counts kernels by the rate of their products: TF32 by warps, and what libraries use. */
static void count_rates(void *of, const mba_program *p, int32_t node, int launch, mba_sim_kernel *k)
{
    int *seen = of;
    (void)node, (void)launch;
    if (!k->mma_flops) return;
    assert_int_equal(k->mma_flops, strstr(k->name, "_fma") ? 119 : p->graph->tf32 ? 19 : 32);
    seen[k->mma_flops == 119]++;
}

/* fp32 products of our kernels are TF32, half as fast as bf16; those of libraries run on FMA units, unless the graph
 * asks for TF32. */
static void fp32_products_have_their_own_rates(void **state)
{
    (void)state;
    mba_sim *s;
    mba_gpu  m;
    double   seconds[2];
    assert_ok(mba_gpu_load(&m, "h200"));
    for (int tf32 = 0; tf32 < 2; tf32++) {
        mba_graph   *g;
        mba_program *p = layer_of(&g, MBA_F32, tf32);
        mba_sim_step r;
        int          seen[2] = { 0 };
        assert_ok(mba_sim_create(&s));
        assert_ok(mba_sim_program(&r, s, p, &m,
                                  &(mba_sim_how){ .passes = MBA_FORWARD, .before_launch = count_rates, .of = seen }));
        assert_true(seen[0] > 0 && seen[1] == 3); // states, C B^T, the scan
        seconds[tf32] = r.seconds;
        mba_sim_step_free(&r);
        mba_sim_destroy(s);
        mba_program_destroy(p);
        mba_graph_destroy(g);
    }
    assert_true(seconds[1] < seconds[0]);
}

MBA_TEST_MAIN(cmocka_unit_test(parts_of_sectors_are_sectors_to_l2), cmocka_unit_test(others_wait_for_the_busiest_warp),
              cmocka_unit_test(names_of_libraries_say_tiles),
              cmocka_unit_test(products_of_libraries_are_dealt_by_tiles),
              cmocka_unit_test(other_operations_are_another_kernel),
              cmocka_unit_test(fp32_products_have_their_own_rates))
