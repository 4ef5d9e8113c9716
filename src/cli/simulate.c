// SPDX-License-Identifier: Apache-2.0
/* simulate.c -- `mambascope simulate`: simulates a training step on a machine that need not be here. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "cli/model_options.h"
#include "cli/options.h"
#include "cli/power_tables.h"
#include "cli/say.h"
#include "cli/simulate_foreign.h"
#include "cli/simulate_ranks.h"
#include "cli/table.h"
#include "core/print.h"
#include "core/version.h"
#include "scope/describe.h"
#include "sim/cluster_names.h"
#include "study/known_code.h"
#include "study/step_breakdown.h"

typedef struct options {
    mba_workload w;
    const char  *signatures, *counted, *store, *gpus, *cluster, *measured;
    int64_t      power_w;
    bool         json, csv, keys, kernels, spread, serial, known;
} options;

static const mba_column op_columns[] = { { "operator", "operator", NULL },
                                         { "pass", "pass", NULL },
                                         { "nodes", "nodes", "%.0f" },
                                         { "launches", "launches", "%.0f" },
                                         { "ms", "ms", "%.3f" },
                                         { "at_least_ms", "at least", "%.3f" },
                                         { "at_most_ms", "at most", "%.3f" },
                                         { "percent", "% of step", "%.1f" },
                                         { "dram_gb", "DRAM, GB", "%.2f" },
                                         { "dram_gbs", "GB/s", "%.0f" },
                                         { "tensor", "tensor, %", "%.0f" },
                                         { "fma", "FMA, %", "%.0f" },
                                         { "alu", "ALU, %", "%.0f" },
                                         { "sfu", "SFU, %", "%.0f" },
                                         { "smem", "smem, %", "%.0f" },
                                         { "bound", "limited by", NULL },
                                         { 0 } };

static void op_row(mba_table *t, const mba_step_operator *g, double all)
{
    const double              dram = g->sum.dram_read + g->sum.dram_write, s = g->sum.kernels_s;
    static const mba_sim_pipe pipes[] = { MBA_P_MMA, MBA_P_FMA, MBA_P_ALU, MBA_P_XU, MBA_P_SMEM };
    mba_table_text(t, "%s", g->op->name);
    mba_table_text(t, "%s", mba_pass_name(g->pass));
    mba_table_number(t, g->nodes);
    mba_table_number(t, g->sum.launches);
    mba_table_number(t, 1e3 * g->sum.seconds);
    mba_table_number(t, 1e3 * g->sum.seconds * g->band.low);
    mba_table_number(t, 1e3 * g->sum.seconds * g->band.high);
    mba_table_number(t, 100 * g->sum.seconds / all);
    mba_table_number(t, dram / 1e9);
    mba_table_number(t, s > 0 ? dram / s / 1e9 : NAN);
    for (int p = 0; p < 5; p++) mba_table_number(t, s > 0 ? 100 * g->sum.busy[pipes[p]] / s : NAN);
    mba_table_text(t, "%s", mba_sim_limits[g->limit]);
}

static const mba_column kernel_columns[] = { { "node", "node", "%.0f" },
                                             { "operator", "operator", NULL },
                                             { "kernel", "kernel", NULL },
                                             { "grid", "grid", "%.0f" },
                                             { "threads", "threads", "%.0f" },
                                             { "regs", "registers", "%.0f" },
                                             { "smem", "shared, KB", "%.0f" },
                                             { "resident", "blocks/SM", "%.0f" },
                                             { "us", "us", "%.2f" },
                                             { "bound_us", "bound, us", "%.2f" },
                                             { "bound", "limited by", NULL },
                                             { "read_mb", "DRAM read, MB", "%.2f" },
                                             { "stored_mb", "stored, MB", "%.2f" },
                                             { "shape", "shape", NULL },
                                             { 0 } };

static void kernel_row(mba_table *t, const mba_sim_launch *x, const mba_node *n, const mba_sim_kernel *k,
                       const mba_gpu *m)
{
    char shape[512];
    mba_node_shape(shape, sizeof shape, n);
    mba_table_number(t, x->node);
    mba_table_text(t, "%s", n->op->name);
    mba_table_text(t, "%s", k->name);
    mba_table_number(t, (double)k->grid);
    mba_table_number(t, (double)k->threads);
    mba_table_number(t, (double)k->regs);
    mba_table_number(t, (double)k->smem_bytes / 1024);
    mba_table_number(t, (double)mba_sim_resident(k, m));
    mba_table_number(t, 1e6 * x->seconds);
    mba_table_number(t, 1e6 * x->floor_s);
    mba_table_text(t, "%s", mba_sim_limits[x->limit]);
    mba_table_number(t, 1e-6 * x->dram_read);
    mba_table_number(t, 1e-6 * x->stored);
    mba_table_text(t, "%s", shape);
}

/* Simulates every distinct launch alone, with an empty L2: for a look at one kernel, and for comparison with the
 * cold-L2 bytes of a store. */
static mba_status fill_kernels(mba_table *t, const mba_simulated *r, mba_sim *sim)
{
    const mba_program *p = r->session.program;
    mba_sim_step       s;
    MBA_TRY(mba_sim_program(&s, sim, p, &r->gpu,
                            &(mba_sim_how){ .passes = MBA_STEP, .flush_per_launch = true, .with_elided = true }));
    mba_status st = MBA_OK;
    for (int64_t i = 0; i < s.launches && st == MBA_OK; i++) {
        const mba_sim_launch *x = &s.launch[i];
        const mba_plan       *plan = p->plan[x->node];
        bool                  seen = false;
        for (int32_t j = 0; j < x->node && !seen; j++) seen = p->plan[j] == plan;
        if (seen) continue;
        mba_sim_kernel k;
        st = mba_sim_lower(&k, p->graph->nodes[x->node], &plan->launch[x->place], plan, &r->gpu);
        if (st == MBA_OK) kernel_row(t, x, p->graph->nodes[x->node], &k, &r->gpu);
    }
    mba_sim_step_free(&s);
    return st;
}

static mba_status print_json(const options *o, const mba_simulated *r, const mba_table *t, const mba_step_operators *b)
{
    fputs("{\"simulated\": true, \"machine\": ", stdout);
    MBA_TRY(mba_table_json_text(stdout, r->gpu.name)); // a machine file may have any name
    fputs(", \"set\": ", stdout);
    MBA_TRY(mba_table_json_text(stdout, o->w.changes ? o->w.changes : ""));
    printf(", \"grade\": \"%c\", \"model\": \"%s\", \"batch\": \"%s\", \"commit\": \"%s\",\n"
           " \"step_ms\": %.4f, \"band_ms\": [%.4f, %.4f], \"spread\": [%.4f, %.4f], \"validated\": [%.4f, %.4f], "
           "\"kernels_ms\": %.4f, \"units_per_s\": %.1f, \"launches\": %lld, \"dram_read_gb\": %.4f, "
           "\"dram_write_gb\": %.4f,\n"
           " \"plan_gb\": %.3f, \"operators\": ",
           mba_simulated_grade(&r->gpu), mba_model_name(&r->session.model),
           mba_model_batch_words(&r->session.model).text, MBA_COMMIT, 1e3 * r->step.seconds,
           1e3 * r->step.seconds * b->both.low, 1e3 * r->step.seconds * b->both.high, b->spread.low, b->spread.high,
           b->validated.low, b->validated.high, 1e3 * r->step.kernels_s, r->units / r->step.seconds,
           (long long)r->step.launches, r->step.dram_read / 1e9, r->step.dram_write / 1e9,
           (double)mba_program_bytes(r->session.program) / 1e9);
    MBA_TRY(mba_table_print(t, stdout, MBA_TABLE_JSON));
    puts("}");
    return MBA_OK;
}

static mba_status print_text(const options *o, const mba_simulated *r, const mba_table *t, const mba_step_operators *b)
{
    const double plan = (double)mba_program_bytes(r->session.program) / 1e9;
    const char  *changes = o->w.changes;
    mba_say(stdout, "SIMULATED: %s, %s, on %s%s%s (grade %c)\n\n", mba_model_name(&r->session.model),
            mba_model_batch_words(&r->session.model).text, r->gpu.name, changes ? " with " : "", changes ? changes : "",
            mba_simulated_grade(&r->gpu));
    MBA_TRY(mba_table_print(t, stdout, MBA_TABLE_TEXT));
    printf("\nstep %.2f ms, %.0f %s/s; %lld launches, %.2f ms between them; DRAM %.1f GB read, %.1f GB written\n",
           1e3 * r->step.seconds, r->units / r->step.seconds, mba_task_unit(r->session.model.task),
           (long long)r->step.launches, 1e3 * (r->step.seconds - r->step.kernels_s), r->step.dram_read / 1e9,
           r->step.dram_write / 1e9);
    printf("band %.1f to %.1f ms: the uncertainty of the machine's numbers changes the time by a factor of %.2f "
           "to %.2f (80 %% of %d samples);\nsteps measured on the H200 took %.2f to %.2f times their prediction "
           "(mambascope validate)\n",
           1e3 * r->step.seconds * b->both.low, 1e3 * r->step.seconds * b->both.high, b->spread.low, b->spread.high,
           MBA_GPU_SAMPLES, b->validated.low, b->validated.high);
    puts("bands of operators combine the same uncertainty with the errors of held-out operators of the same limit "
         "(validate)");
    if (plan > r->gpu.v[MBA_GPU_memory])
        printf("it does not fit: the memory plan needs %.1f GB, the machine has %.0f\n", plan,
               r->gpu.v[MBA_GPU_memory]);
    fprintf(stderr,
            "%.3f s including planning; %lld kernels of %lld launches simulated, %lld events, %.2f M events/s\n",
            r->seconds_taken, (long long)r->step.unique, (long long)r->step.launches, (long long)r->step.events,
            (double)r->step.events / r->seconds_taken / 1e6);
    return MBA_OK;
}

static mba_status print_spread(const mba_workload *w, const mba_simulated *r, mba_sim *sim)
{
    mba_step_deviation d;
    MBA_TRY(mba_step_deviation_find(&d, r, w, sim));
    printf("uncertainty of the machine's numbers: +- %.1f %% of the step, most of it by %s (%.1f %%)\n", d.percent,
           mba_gpu_keys[d.key].name, d.most_percent);
    return MBA_OK;
}

static void print_keys(const mba_gpu *m)
{
    for (int k = 0; k < MBA_GPU_KEYS; k++)
        printf("%-16s = %10.5g %-10s +- %-8.3g # %s\n", mba_gpu_keys[k].name, m->v[k], mba_gpu_keys[k].unit,
               m->sigma[k], mba_gpu_keys[k].meaning);
}

static mba_status run(const options *o)
{
    mba_simulated      r = { 0 };
    mba_step_operators b = { 0 };
    mba_sim           *sim = NULL;
    mba_table         *t = NULL;
    mba_workload       w = o->w;
    int64_t            known = 0;
    mba_status         st = mba_sim_create(&sim);
    if (st == MBA_OK && o->known) st = mba_known_code_load(&w.code);
    if (st == MBA_OK) st = mba_table_create(&t, o->kernels ? kernel_columns : op_columns);
    if (st == MBA_OK) st = mba_simulated_run(&r, &w, sim);
    for (int64_t i = 0; st == MBA_OK && i < r.step.launches; i++) known += r.step.launch[i].counted;
    if (st == MBA_OK) st = o->kernels ? fill_kernels(t, &r, sim) : mba_step_operators_find(&b, &r, &w, sim);
    for (int k = 0; k < b.n; k++) op_row(t, &b.one[k], r.step.seconds);
    if (st == MBA_OK) {
        if (o->csv || o->kernels) st = mba_table_print(t, stdout, mba_table_form_of(o->json, o->csv));
        else if (o->json) st = print_json(o, &r, t, &b);
        else st = print_text(o, &r, t, &b);
        if (st == MBA_OK && o->known && !o->json && !o->csv)
            printf("code is known of %lld of %lld launches; the others are simulated from their plans\n",
                   (long long)known, (long long)r.step.launches);
        if (st == MBA_OK && o->power_w) st = mba_print_power_limit(&w, (double)o->power_w, sim);
        if (st == MBA_OK && o->spread && !o->json && !o->csv && !o->kernels) st = print_spread(&w, &r, sim);
    }
    mba_step_operators_free(&b);
    mba_table_destroy(t);
    mba_simulated_end(&r);
    mba_known_code_free(w.code);
    mba_sim_destroy(sim);
    return st;
}

static const char usual_machine[] = "h200";

/* Refuses options without effect: kernels of a store or a table are simulated as they were profiled. */
static mba_status check_options(const options *o)
{
    const mba_batch_shape    none = { 0 };
    const mba_model_options *m = &o->w.model;
    const char              *what = o->store        ? "--store"
                                    : o->counted    ? "--counted"
                                    : o->signatures ? "--signatures"
                                    : o->keys       ? "--keys"
                                                    : NULL;
    const char              *with = m->name                                                ? "--model"
                                    : m->set                                               ? "--model-set"
                                    : memcmp(&m->shape, &none, sizeof none)                ? "a size"
                                    : m->precision                                         ? "--precision"
                                    : m->recompute                                         ? "--recompute"
                                    : m->variants                                          ? "--op"
                                    : o->w.stream                                          ? "--stream"
                                    : o->kernels                                           ? "--kernels"
                                    : o->known                                             ? "--known-code"
                                    : o->spread                                            ? "--uncertainty"
                                    : o->power_w                                           ? "--power-limit"
                                    : o->keys && (o->store || o->counted || o->signatures) ? "--keys"
                                    : o->keys && (o->json || o->csv)                       ? "--json or --csv"
                                                                                           : NULL;
    if (!o->gpus && (o->cluster || o->measured || o->serial))
        return mba_fail(MBA_E_ARG, "--cluster, --measured and --no-overlap need --gpus\nfix: add --gpus 8,64,512");
    if (o->gpus && (what || o->kernels || o->spread || o->power_w))
        return mba_fail(MBA_E_ARG,
                        "--gpus and %s cannot be combined\nwhy: it prints a table of whole steps\nfix: leave one of "
                        "them out",
                        what         ? what
                        : o->kernels ? "--kernels"
                        : o->spread  ? "--uncertainty"
                                     : "--power-limit");
    if (o->measured && (o->w.changes || o->w.machine != usual_machine))
        return mba_fail(MBA_E_ARG,
                        "--measured and %s cannot be combined\nwhy: the times are those of the store, on whatever "
                        "device it was\nfix: leave one of them out",
                        o->w.changes ? "--set" : "--machine");
    if (o->known && (o->gpus || o->kernels))
        return mba_fail(
            MBA_E_ARG,
            "--known-code and %s cannot be combined\nwhy: it is for whole steps of one rank\nfix: leave one "
            "of them out",
            o->gpus ? "--gpus" : "--kernels");
    if (what && with)
        return mba_fail(MBA_E_ARG,
                        "%s and %s cannot be combined\nwhy: %s would have no effect\nfix: leave one of them out", what,
                        with, with);
    if ((o->spread || o->power_w) && (o->json || o->csv || o->kernels))
        return mba_fail(MBA_E_ARG,
                        "%s and %s cannot be combined\nwhy: its result is a line below the table of a "
                        "step\nfix: leave one of them out",
                        o->spread ? "--uncertainty" : "--power-limit",
                        o->json  ? "--json"
                        : o->csv ? "--csv"
                                 : "--kernels");
    return MBA_OK;
}

static mba_status run_ranks(const options *o)
{
    return mba_simulate_ranks(&(mba_simulate_ranks_options){ .w = &o->w,
                                                             .gpus = o->gpus,
                                                             .cluster = o->cluster,
                                                             .measured = o->measured,
                                                             .serial = o->serial,
                                                             .form = mba_table_form_of(o->json, o->csv) });
}

static const char says[] = "Predicts a training step on a GPU that need not be here, from its launch plans:\n"
                           "time, DRAM traffic and pipe utilisation. `mambascope validate` prints the errors of\n"
                           "such predictions.";

mba_status mba_command_simulate(int argc, char **argv)
{
    options          o = { .w = { .machine = usual_machine } };
    bool             help;
    const mba_option table[] = {
        MBA_WORKLOAD_OPTIONS(&o.w, "mamba2-130m"),

        MBA_OPTION_GROUP("Kernels of another source, instead of a model"),
        { "--store", MBA_OPT_TEXT, &o.store, "FILE.db",
          "simulate the kernels of a store, of any program, from their counters", 0, 0 },
        { "--counted", MBA_OPT_TEXT, &o.counted, "FILE",
          "simulate the kernels of a table by tools/kernel_points --foreign", 0, 0 },
        { "--signatures", MBA_OPT_TEXT, &o.signatures, "FILE",
          "simulate kernels from a table of counters (src/sim/signature.h)", 0, 0 },

        MBA_OPTION_GROUP("Many ranks"),
        { "--gpus", MBA_OPT_TEXT, &o.gpus, "N,..", "print how the step scales to these numbers of ranks", 0, 0 },
        { "--cluster", MBA_OPT_TEXT, &o.cluster, "NAME",
          MBA_CLUSTER_NAMES ", or a cluster file: what connects the ranks [ib400]", 0, 0 },
        { "--measured", MBA_OPT_TEXT, &o.measured, "FILE.db",
          "take the times of one rank from a store of this workload, of any device, instead of simulating it", 0, 0 },
        { "--no-overlap", MBA_OPT_FLAG, &o.serial, NULL, "run collectives after computation, not beside it", 0, 0 },

        MBA_OPTION_GROUP("Simulation and output"),
        { "--stream", MBA_OPT_FLAG, &o.w.stream, NULL, "launch kernels one by one instead of as a CUDA graph", 0, 0 },
        { "--known-code", MBA_OPT_FLAG, &o.known, NULL,
          "scale the counts of kernels that were counted on an H200 to these launches", 0, 0 },
        { "--kernels", MBA_OPT_FLAG, &o.kernels, NULL,
          "print every distinct kernel launch separately, with an empty L2", 0, 0 },
        { "--uncertainty", MBA_OPT_FLAG, &o.spread, NULL,
          "print how the uncertainty of the machine's numbers changes the step", 0, 0 },
        MBA_OPTION_ALIAS("--spread", "--uncertainty"),
        { "--power-limit", MBA_OPT_INT, &o.power_w, "W", "print clock and energy of the step at this power limit, too",
          1, 100000 },
        { "--keys", MBA_OPT_FLAG, &o.keys, NULL, "list the keys that --set changes, with values and meaning, and exit",
          0, 0 },
        { "--json", MBA_OPT_FLAG, &o.json, NULL, "print JSON", 0, 0 },
        { "--csv", MBA_OPT_FLAG, &o.csv, NULL, "print CSV", 0, 0 },
        MBA_WORKLOAD_THREADS(&o.w),
        { 0 },
    };
    const mba_usage usage = { "simulate", "[options]", says, table,
                              "mambascope simulate --machine h200 --model mamba2-130m --batch 8 --length 2048\n"
                              "mambascope simulate --machine h200 --set hbm=x2,l2=x2 --model mamba-130m\n"
                              "mambascope simulate --machine h200 --model mamba2-370m --known-code\n"
                              "mambascope simulate --machine h200 --model mamba2-130m --power-limit 500\n"
                              "mambascope simulate --machine b200 --keys\n"
                              "mambascope simulate --model mamba2-1.3b --gpus 8,64,512,4096 --cluster ib400\n"
                              "mambascope simulate --machine h100 --store peer.db\n" };
    MBA_TRY(mba_options_parse(&usage, argc, argv, NULL, &help));
    if (help) return MBA_OK;
    if ((o.store != NULL) + (o.signatures != NULL) + (o.counted != NULL) > 1)
        return mba_fail(MBA_E_ARG, "--store, --counted and --signatures cannot be combined\nfix: use one of them");
    if (o.w.changes && !*o.w.changes) o.w.changes = NULL;
    MBA_TRY(check_options(&o));
    if (o.store || o.signatures || o.counted)
        return mba_simulate_foreign(&(mba_simulate_foreign_options){ .machine = o.w.machine,
                                                                     .changes = o.w.changes,
                                                                     .store = o.store,
                                                                     .counted = o.counted,
                                                                     .signatures = o.signatures,
                                                                     .form = mba_table_form_of(o.json, o.csv) });
    if (!o.w.model.name) o.w.model.name = "mamba2-130m";
    if (o.gpus) return run_ranks(&o);
    if (!o.keys) return run(&o);
    mba_gpu m;
    MBA_TRY(mba_gpu_load(&m, o.w.machine));
    MBA_TRY(mba_gpu_set(&m, o.w.changes));
    print_keys(&m);
    return MBA_OK;
}
