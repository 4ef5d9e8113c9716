// SPDX-License-Identifier: Apache-2.0
/* gpu_store_test.c -- a made-up profile of a real plan: kernels, events and counters find each other in the store. */
#include "scope/gpu_store.h"

#include <jansson.h>

#include "core/print.h"
#include "models/model.h"
#include "ops/adamw/adamw.h"
#include "scope/describe.h"
#include "scope/export.h"
#include "study/verify.h"
#include "tests/machines.h"
#include "tests/refused_rows.h"
#include "tests/scratch.h"
#include "tests/test.h"

enum { STEPS = 2 };

static mba_program *plan_model(mba_graph **g)
{
    mba_model               m;
    mba_program            *p;
    const mba_adamw_options o = mba_adamw_defaults();
    assert_ok(mba_model_preset(&m, "mamba2-130m"));
    m.lm.batch = 1, m.lm.length = 256;
    mba_model_compute(&m, MBA_BF16);
    mba_model_mode(&m, true, true);
    assert_ok(mba_model_complete(&m));
    assert_ok(mba_graph_create(g));
    assert_ok(mba_backward(*g, mba_model_build(*g, &m).loss));
    mba_adamw_all(*g, &o);
    assert_ok(mba_graph_status(*g));
    assert_ok(mba_program_create(&p, *g, &(mba_program_options){ .cuda = true, .machine = &machines[1] }));
    return p;
}

/* A node whose plan has launches of a library and of ours. */
static int32_t shared_node(const mba_program *p)
{
    for (int32_t i = 0; i < p->graph->nnodes; i++)
        for (int k = 0; k < p->plan[i]->nlaunches; k++)
            if (p->plan[i]->nlaunches > 1 && !strncmp(p->plan[i]->launch[k].kernel, "cublaslt_", 9)) return i;
    fail_msg("no plan with a library's launch among ours");
    return -1;
}

/* What the collector would have: every launch of every plan, once per step, in order; of node 3 one kernel more than
 * planned, and of the node that shares with a library, where the driver knows our last by another name. */
static mba_event event_of(const mba_program *p, int32_t node, int k, int64_t at)
{
    const mba_plan *plan = p->plan[node];
    mba_event       e = { .kind = MBA_EVENT_KERNEL,
                          .name = "library",
                          .start_ns = at,
                          .end_ns = at + 10,
                          .grid = { 1, 1, 1 },
                          .block = { 32, 1, 1 },
                          .regs = 32,
                          .stream = 7,
                          .correlation = 5,
                          .graph = 1,
                          .graph_node = (uint64_t)node,
                          .node = node,
                          .launch = k };
    if (k >= plan->nlaunches) return e;
    e.name = k == plan->nlaunches - 1 && node == shared_node(p) ? "column_parts" : plan->launch[k].kernel;
    for (int i = 0; i < 3; i++) e.grid[i] = plan->launch[k].grid[i] ? (int32_t)plan->launch[k].grid[i] : 1;
    e.block[0] = plan->launch[k].block;
    return e;
}

static void add_kernel(mba_gpu_profile *g, const mba_program *p, const mba_event *e)
{
    for (int64_t i = 0; i < g->nkernels; i++)
        if (p->plan[g->kernel[i].node] == p->plan[e->node] && g->kernel[i].launch == e->launch) {
            g->kernel[i].launches++;
            return;
        }
    g->kernel = realloc(g->kernel, (size_t)(g->nkernels + 1) * sizeof *g->kernel);
    mba_gpu_kernel *k = &g->kernel[g->nkernels++];
    const int64_t   name = mba_events_name(&g->names, e->name);
    *k = (mba_gpu_kernel){
        .name = g->names.names[name], .node = e->node, .launch = e->launch, .launches = 1, .data_flops = NAN
    };
    memcpy(k->grid, e->grid, sizeof k->grid);
    for (int m = 0; m < MBA_METRICS_MAX; m++) k->value[0][m] = m == 1 ? NAN : 1000.0 * (double)(g->nkernels - 1) + m;
}

static mba_gpu_profile *make_profile(const mba_program *p)
{
    mba_gpu_profile *g = calloc(1, sizeof *g);
    int64_t          at = 1000000;
    for (int32_t s = 0; s < STEPS; s++)
        for (int32_t i = 0; i < p->graph->nnodes; i++)
            for (int k = 0; k < p->plan[i]->nlaunches + (i == 3 || i == shared_node(p)); k++) {
                mba_event e = event_of(p, i, k, at);
                e.step = s;
                at += 20;
                assert_ok(mba_events_add(&g->events, &e));
                if (s == 0) add_kernel(g, p, &e);
            }
    g->kernel[g->nkernels - 1].data_flops = 4096; // of the last, so that its row is where it is looked for
    g->set[g->nsets++] = mba_metric_set_find("overview");
    g->nplain = 2, g->plain_s[0] = 0.5, g->plain_s[1] = 0.25, g->ntimeline = 1, g->timeline_s[0] = 0.6,
    g->pass_s[0] = 2;
    g->cost[g->ncosts++] =
        (mba_gpu_cost){ .mode = "counters", .set = "overview", .passes = 1, .seconds = 3, .kernels = 4 };
    g->energy_j = 100, g->energy_s = 0.75, g->energy_steps = 2;
    g->clock[g->nclocks++] = (mba_gpu_clock){ "plain", 1755, 690, 1u << 2 };
    g->clock[g->nclocks++] = (mba_gpu_clock){ "graph", 1980, -1, 0 };
    g->block = calloc(1, sizeof *g->block);
    g->block[g->nblocks++] =
        (mba_gpu_block){ .node = 3, .launch = 0, .sm = 17, .block = 5, .start_ns = 10, .end_ns = 30 };
    g->settled = calloc(2, sizeof *g->settled);
    for (int k = 0; k < 2; k++) // the second with a grid that no event has
        g->settled[g->nsettled++] =
            (mba_gpu_isolated){ .node = 3, .launch = 0, .read = 70, .written = 30, .grid = { -1, -1, -1 } };
    for (int i = 0; i < 3; i++) g->settled[0].grid[i] = event_of(p, 3, 0, 0).grid[i];
    g->instruction = calloc(1, sizeof *g->instruction);
    g->instruction[g->ninstructions++] = (mba_gpu_instruction){ .symbol = p->plan[3]->launch[0].kernel,
                                                                .file = "x.cu",
                                                                .metric = "smsp__sass_inst_executed",
                                                                .node = 3,
                                                                .line = 9,
                                                                .pc = 16,
                                                                .value = 64 };
    g->note[g->nnotes++] = (mba_gpu_note){ .topic = "counters", .text = "none", .fix = "be root" };
    return g;
}

static void free_profile(mba_gpu_profile *g)
{
    mba_events_free(&g->events);
    mba_events_free(&g->names);
    free(g->kernel);
    free(g->block);
    free(g->settled);
    free(g->instruction);
    free(g);
}

static void check_events(mba_store *s, const mba_program *p, const mba_gpu_profile *g, const mba_row_kernel *k)
{
    mba_row_event *e;
    int64_t        n;
    assert_ok(mba_load_event(s, &e, &n));
    assert_int_equal(n, g->events.n);
    for (int64_t i = 0; i < n; i++) {
        const mba_event *from = &g->events.event[i];
        const mba_node  *node = p->graph->nodes[from->node];
        assert_int_equal(e[i].start_ns, 20 * i);
        assert_int_equal(e[i].node, from->node);
        assert_string_equal(e[i].phase, mba_pass_name(node->pass));
        assert_string_equal(k[e[i].kernel].op, node->op->name);
        assert_string_equal(k[e[i].kernel].symbol, from->name);
        assert_int_equal(e[i].launch, from->launch < p->plan[from->node]->nlaunches
                                          ? mba_launch_number(p, from->node, from->launch)
                                          : MBA_ABSENT);
    }
}

/* Where a library ran more kernels than planned, ours are still called as the plan has them, and nobody knows the
 * others. */
static void check_places(mba_store *s, const mba_program *p, const mba_row_kernel *k)
{
    mba_row_event *e;
    int64_t        n, ours = 0, others = 0;
    assert_ok(mba_load_event(s, &e, &n));
    for (int64_t i = 0; i < n; i++) {
        const mba_plan *plan = p->plan[e[i].node];
        const int64_t   first = mba_launch_number(p, (int32_t)e[i].node, 0);
        const int       place = e[i].launch == MBA_ABSENT ? -1 : (int)(e[i].launch - first);
        assert_true((place >= 0) == (k[e[i].kernel].class != NULL));
        if (plan != p->plan[shared_node(p)]) continue;
        if (place == plan->nlaunches - 1) assert_string_equal(k[e[i].kernel].name, plan->launch[place].kernel);
        ours += place >= 0 && !strcmp(k[e[i].kernel].symbol, "column_parts");
        others += place < 0;
    }
    assert_true(ours > 0 && others > 0);
}

static void check_details(mba_store *s, const mba_program *p, const mba_row_kernel *k)
{
    mba_row_block       *b;
    mba_row_instruction *i;
    int64_t              n;
    assert_ok(mba_load_block(s, &b, &n));
    assert_int_equal(n, 1);
    assert_string_equal(k[b[0].kernel].op, p->graph->nodes[3]->op->name);
    assert_true(b[0].sm == 17 && b[0].block == 5 && b[0].start_ns == 10 && b[0].end_ns == 30);
    assert_ok(mba_load_instruction(s, &i, &n));
    assert_int_equal(n, 1);
    assert_int_equal(i[0].kernel, b[0].kernel);
    assert_true(i[0].pc == 16 && i[0].line == 9 && i[0].value == 64);
}

/* One of the two that were measured has a kernel; how many rows that is. */
static int64_t check_settled(const mba_row_counter *c, const mba_program *p, const mba_row_kernel *k)
{
    assert_string_equal(c[0].metric, "settled__dram_bytes_read.sum");
    assert_string_equal(c[1].metric, "settled__dram_bytes_write.sum");
    assert_true(c[0].value == 70 && c[1].value == 30);
    for (int i = 0; i < 2; i++) {
        assert_string_equal(k[c[i].kernel].op, p->graph->nodes[3]->op->name);
        assert_string_equal(c[i].metric_set, "settled");
        assert_string_equal(c[i].unit, "byte");
    }
    return 2;
}

static int64_t check_data(const mba_row_counter *c, const mba_gpu_profile *g)
{
    assert_string_equal(c->metric, "data__tensor_flops.sum");
    assert_string_equal(c->metric_set, "data");
    assert_string_equal(c->unit, "FLOP");
    assert_int_equal(c->kernel, g->nkernels - 1);
    assert_near(c->value, 4096, 0);
    return 1;
}

static void check_clocks(mba_store *s)
{
    mba_row_sheet *row;
    int64_t        n, found = 0;
    assert_ok(mba_load_sheet(s, &row, &n));
    for (int64_t i = 0; i < n; i++) {
        if (!strcmp(row[i].key, "clock.plain")) assert_near(row[i].number, 1755, 0), found++;
        if (!strcmp(row[i].key, "power.plain")) assert_near(row[i].number, 690, 0), found++;
        if (!strcmp(row[i].key, "clock.graph")) assert_near(row[i].number, 1980, 0), found++;
        if (!strcmp(row[i].key, "throttled.plain")) assert_string_equal(row[i].text, "power limit"), found++;
        assert_string_not_equal(row[i].key, "power.graph"); // the driver did not say
    }
    assert_int_equal(found, 4);
}

/* A block is drawn on the lane of its SM, where its kernel is first on the timeline. */
static void check_trace(mba_store *s)
{
    char   *text = NULL;
    size_t  n = 0, i;
    double  kernel = NAN, block = NAN;
    json_t *root, *e;
    FILE   *f = open_memstream(&text, &n);
    assert_ok(mba_export_trace(f, s));
    fclose(f);
    assert_non_null(root = json_loadb(text, n, 0, NULL));
    const char *name = NULL;
    json_array_foreach(json_object_get(root, "traceEvents"), i,
                       e) if (json_integer_value(json_object_get(e, "pid")) == 2 && json_object_get(e, "dur"))
    {
        assert_int_equal(json_integer_value(json_object_get(e, "tid")), 17);
        assert_near(json_number_value(json_object_get(e, "dur")), 0.02, 1e-9);
        block = json_number_value(json_object_get(e, "ts"));
        name = json_string_value(json_object_get(e, "name"));
    }
    assert_non_null(name);
    json_array_foreach(json_object_get(root, "traceEvents"), i,
                       e) if (isnan(kernel) && json_object_get(e, "dur")
                              && !strcmp(json_string_value(json_object_get(e, "name")), name))
        kernel = json_number_value(json_object_get(e, "ts"));
    assert_near(block, kernel + 0.01, 1e-9);
    json_decref(root);
    free(text);
}

static void a_profile_becomes_a_store(void **state)
{
    (void)state;
    mba_graph       *graph;
    mba_program     *p = plan_model(&graph);
    mba_gpu_profile *g = make_profile(p);
    mba_store       *s;
    const char      *path = scratch("gpu.db");
    assert_ok(mba_store_create(&s, path));
    assert_ok(mba_describe_program(s, p));
    assert_ok(mba_gpu_store(s, p, g, 256));
    assert_ok(mba_store_close(s));
    assert_ok(mba_store_open(&s, path));
    mba_row_kernel  *k;
    mba_row_counter *c;
    mba_row_energy  *energy;
    mba_row_step    *step;
    int64_t          n;
    assert_ok(mba_load_kernel(s, &k, &n));
    assert_int_equal(n, g->nkernels); // nodes with one plan share their kernels
    assert_true(n < g->events.n / STEPS / 4);
    for (int64_t i = 0; i < n; i++) assert_true(k[i].blocks_per_sm > 0 && k[i].waves > 0 && k[i].shape && k[i].kind);
    check_events(s, p, g, k);
    check_places(s, p, k);
    check_details(s, p, k);
    check_trace(s);
    assert_ok(mba_load_counter(s, &c, &n));
    n -= check_settled(&c[n - 2], p, k);
    n -= check_data(&c[n - 1], g);
    assert_int_equal(n, g->nkernels * (g->set[0]->n - 1)); // the one that is NaN is absent
    for (int64_t i = 0; i < n; i++) {
        assert_near(floor(c[i].value / 1000), (double)c[i].kernel, 0);
        assert_string_equal(c[i].metric, g->set[0]->metric[(int)fmod(c[i].value, 1000)]);
    }
    assert_ok(mba_load_energy(s, &energy, &n));
    assert_near(energy[0].joules / energy[0].units, 100.0 / 512, 1e-12);
    check_clocks(s);
    assert_ok(mba_load_step(s, &step, &n));
    assert_int_equal(n, 4);
    assert_ok(mba_store_close(s));
    free_profile(g);
    mba_program_destroy(p);
    mba_graph_destroy(graph);
}

/* Counters that say what the plan says, but for the kernel `wrong`: three FLOPs and a tenth of the bytes too many. */
static void fill_counters(mba_gpu_profile *g, const mba_program *p, int64_t wrong)
{
    double planned;
    g->set[0] = mba_metric_set_find("roofline");
    for (int64_t i = 0; i < g->nkernels; i++) {
        mba_gpu_kernel   *k = &g->kernel[i];
        const mba_node   *n = p->graph->nodes[k->node];
        const mba_cost    c = n->op->cost(n);
        const mba_launch *l = k->launch < p->plan[k->node]->nlaunches ? &p->plan[k->node]->launch[k->launch] : NULL;
        planned = 0;
        for (int f = 0; l && f < l->nphases; f++) planned += l->phase[f].work == MBA_MMA;
        for (int m = 0; m < MBA_METRICS_MAX; m++) k->value[0][m] = 0;
        k->value[0][3] = (c.read_bytes + c.write_bytes) * (i == wrong ? 1.1 : 1);
        // whose bytes are whose is not known here
        if (p->plan[k->node]->nlaunches != 1) k->value[0][3] = NAN;
        k->value[0][6] = (i == wrong ? 3 : 0) + (planned > 0 ? NAN : 0); // of those no FLOPs were counted
    }
}

static void plans_are_held_against_counters(void **state)
{
    (void)state;
    mba_graph        *graph;
    mba_program      *p = plan_model(&graph);
    mba_gpu_profile  *g = make_profile(p);
    mba_store        *s;
    mba_analysis     *a;
    mba_verification *v;
    int64_t           n, wrong = 0;
    const char       *path = scratch("verify.db");
    while (p->plan[g->kernel[wrong].node]->nlaunches != 1
           || p->graph->nodes[g->kernel[wrong].node]->op->kind != MBA_NORM)
        wrong++;
    fill_counters(g, p, wrong);
    assert_ok(mba_store_create(&s, path));
    assert_ok(mba_env_put_number(s, "gpu.l2", "given", 1, "byte"));
    assert_ok(mba_describe_program(s, p));
    assert_ok(mba_gpu_store(s, p, g, 256));
    assert_ok(mba_store_close(s));
    assert_ok(mba_store_open(&s, path));
    assert_ok(mba_analysis_create(&a, s));
    assert_ok(mba_verify(&v, &n, a));
    assert_int_equal(n, g->nkernels);
    int64_t agrees = 0;
    for (int64_t i = 0; i < n; i++) {
        const bool is_wrong = v[i].kernel->row->id == wrong;
        assert_int_equal(v[i].ours, v[i].launch && strcmp(v[i].launch->kernel, "cublaslt_gemm"));
        if (isnan(v[i].bytes_expected) || isnan(v[i].bytes_measured)) assert_int_equal(v[i].bytes, MBA_NOT_JUDGED);
        else if (v[i].ours && v[i].bytes_expected > 0)
            assert_int_equal(v[i].bytes, is_wrong ? MBA_DIFFERS : MBA_AGREES);
        if (is_wrong) assert_int_equal(v[i].tensor, MBA_DIFFERS);
        agrees += v[i].bytes == MBA_AGREES;
    }
    assert_true(agrees > 5);
    free(v);
    mba_analysis_destroy(a);
    assert_ok(mba_store_close(s));
    free_profile(g);
    mba_program_destroy(p);
    mba_graph_destroy(graph);
}

/* A node of several launches, all of them ours. */
static int32_t our_node(const mba_program *p)
{
    for (int32_t i = 0; i < p->graph->nnodes; i++) {
        const mba_plan *plan = p->plan[i];
        bool            ours = plan->nlaunches > 1;
        for (int k = 0; k < plan->nlaunches; k++)
            ours &= strncmp(plan->launch[k].kernel, "cublaslt_", 9) && strncmp(plan->launch[k].kernel, "cudnn_", 6);
        if (ours) return i;
    }
    fail_msg("no plan with several launches of ours");
    return -1;
}

/* Where a library ran fewer kernels than were planned, places say nothing of its node; of one with our kernels alone
 * they do. */
static void fewer_kernels_of_a_library_have_their_own_names(void **state)
{
    (void)state;
    mba_graph       *graph;
    mba_program     *p = plan_model(&graph);
    mba_gpu_profile *g = calloc(1, sizeof *g);
    const int32_t    node[] = { shared_node(p), our_node(p) };
    mba_store       *s;
    mba_row_kernel  *k;
    int64_t          n;
    for (int i = 0; i < 2; i++) {
        mba_event e = event_of(p, node[i], 0, 1000 + 20 * i);
        e.name = i ? "ours_by_another_name" : "ampere_gemm";
        assert_ok(mba_events_add(&g->events, &e));
    }
    assert_ok(mba_store_create(&s, scratch("fewer.db")));
    assert_ok(mba_describe_program(s, p));
    assert_ok(mba_gpu_store(s, p, g, 256));
    assert_ok(mba_store_close(s));
    assert_ok(mba_store_open(&s, scratch("fewer.db")));
    assert_ok(mba_load_kernel(s, &k, &n));
    assert_int_equal(n, 2);
    assert_string_equal(k[0].name, "ampere_gemm");
    assert_null(k[0].class);
    assert_string_equal(k[1].name, p->plan[node[1]]->launch[0].kernel);
    assert_non_null(k[1].class);
    assert_ok(mba_store_close(s));
    free_profile(g);
    mba_program_destroy(p);
    mba_graph_destroy(graph);
}

/* Whichever row finds no place, the store is not called whole. */
static void a_row_without_a_place_is_an_error(void **state)
{
    (void)state;
    mba_graph       *graph;
    mba_program     *p = plan_model(&graph);
    mba_gpu_profile *g = make_profile(p);
    int64_t          rows = 0;
    g->events.n = g->nkernels = 8; // the first nodes' are enough
    mba_store *s;
    assert_ok(mba_store_create(&s, scratch("refuses.db")));
    for (bool refused = true; refused; rows += refused) {
        refuse_row(s, rows);
        const mba_status st = mba_gpu_store(s, p, g, 256);
        refused = row_was_refused(s);
        if ((st != MBA_OK) != refused) fail_msg("row %lld: %s", (long long)rows, refused ? "not told" : mba_message());
    }
    assert_ok(mba_store_close(s));
    assert_true(rows > 30);
    free_profile(g);
    mba_program_destroy(p);
    mba_graph_destroy(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(a_profile_becomes_a_store),
                                        cmocka_unit_test(fewer_kernels_of_a_library_have_their_own_names),
                                        cmocka_unit_test(a_row_without_a_place_is_an_error),
                                        cmocka_unit_test(plans_are_held_against_counters) };
    scratch_make();
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    scratch_remove();
    return failed;
}
