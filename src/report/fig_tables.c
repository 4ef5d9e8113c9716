// SPDX-License-Identifier: Apache-2.0
/* fig_tables.c -- figures that are tables: Table I, the workloads; the fields of a model; the training of small models;
 * Table II, classes of SSM kernels with their counters. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/figure.h"

/* ---- Table I ---- */

static bool always(const mba_stores *r, int run)
{
    (void)r, (void)run;
    return true;
}

static const mba_grid_column table1_columns[] = { { "run", "run" },
                                                  { "model", "model" },
                                                  { "parameters_m", "parameters, M" },
                                                  { "batch", "batch" },
                                                  { "units", "units a step" },
                                                  { "unit", "unit" },
                                                  { "precision", "precision" },
                                                  { "plan_gb", "memory plan, GB" },
                                                  { 0 } };

/* A field of a model as a number; NaN: not in the store. */
static mba_status field_number(double *v, const mba_run *run, const char *name)
{
    mba_row_parameter *p;
    int64_t            n;
    *v = NAN;
    MBA_TRY(mba_load_parameter(run->store, &p, &n));
    for (int64_t i = 0; i < n; i++)
        if (p[i].name && p[i].value && !strcmp(p[i].name, name)) *v = strtod(p[i].value, NULL);
    return MBA_OK;
}

static mba_status table1_numbers(mba_grid *g, const mba_stores *r, int run)
{
    (void)run;
    for (int i = 0; i < r->n; i++) {
        const mba_analysis *a = r->run[i].a;
        double              parameters, plan;
        MBA_TRY(field_number(&parameters, &r->run[i], "parameters"));
        MBA_TRY(field_number(&plan, &r->run[i], "plan_bytes"));
        mba_grid_text(g, mba_run_label(r, i));
        mba_grid_text(g, *a->workload ? a->workload : NULL);
        mba_grid_number(g, parameters / 1e6);
        mba_grid_text(g, *a->batch ? a->batch : NULL);
        mba_grid_number(g, a->units);
        mba_grid_text(g, a->unit);
        mba_grid_text(g, mba_env_find(a, "run.precision"));
        mba_grid_number(g, plan / 1e9);
    }
    return MBA_OK;
}

static void table1_heading(mba_buf *b, const mba_stores *r, int run)
{
    int synthetic = 0;
    (void)run;
    for (int i = 0; i < r->n; i++) synthetic += mba_env_value(r->run[i].a, "run.synthetic") > 0;
    mba_buf_add(b, "%d run%s, %d with SYNTHETIC data of the true shapes", r->n, r->n == 1 ? "" : "s", synthetic);
}

const mba_figure mba_figure_table1 = {
    "table1",
    "Workloads",
    "Table I · the workloads",
    "Model, number of parameters, batch shape, precision, and the size of the {memory plan}.",
    "Random tokens and pixels run through the same kernels as real ones. A dash: the {store} does not have the "
    "value.",
    "a store",
    true,
    NULL,
    table1_columns,
    always,
    table1_heading,
    table1_numbers,
    NULL,
    NULL
};

/* ---- the fields of a model ---- */

static const mba_grid_column field_columns[] = {
    { "field", "field" }, { "value", "value" }, { "meaning", "meaning" }, { 0 }
};

static bool has_fields(const mba_stores *r, int run) { return r->run[run].parameters > 0; }

static mba_status field_numbers(mba_grid *g, const mba_stores *r, int run)
{
    mba_row_parameter *p;
    int64_t            n;
    MBA_TRY(mba_load_parameter(r->run[run].store, &p, &n));
    for (int64_t i = 0; i < n; i++) {
        mba_grid_text(g, p[i].name);
        mba_grid_text(g, p[i].value);
        mba_grid_text(g, p[i].meaning);
    }
    return MBA_OK;
}

static void field_heading(mba_buf *b, const mba_stores *r, int run)
{
    mba_buf_html(b, *r->run[run].a->workload ? r->run[run].a->workload : "An external program");
    mba_buf_put(b, ", field by field");
}

const mba_figure mba_figure_fields = {
    "fields",
    "Fields",
    "Table I · the fields of a model",
    "Every field of the model as it ran.",
    "Every field can be changed with --set; `mambascope list fields` says what it means.",
    "a store of one of our own models: mambascope profile --model NAME",
    false,
    NULL,
    field_columns,
    has_fields,
    field_heading,
    field_numbers,
    NULL,
    NULL
};

/* ---- training of small models ---- */

static bool has_training(const mba_stores *r, int run)
{
    (void)run;
    for (int i = 0; i < r->n; i++)
        if (!isnan(mba_env_value(r->run[i].a, "train.steps"))) return true;
    return false;
}

static const mba_grid_column training_columns[] = { { "run", "run" },
                                                    { "steps", "updates" },
                                                    { "units", "units trained on" },
                                                    { "first_loss", "first loss" },
                                                    { "last_loss", "last loss" },
                                                    { "valid_loss", "held out" },
                                                    { "score_name", "score" },
                                                    { "score", "its value" },
                                                    { "units_per_s", "units per s" },
                                                    { "model", "small model" },
                                                    { 0 } };

static mba_status training_numbers(mba_grid *g, const mba_stores *r, int run)
{
    static const char *const keys[] = { "train.steps", "train.units", "train.first_loss", "train.last_loss",
                                        "train.valid_loss" };
    (void)run;
    for (int i = 0; i < r->n; i++) {
        const mba_analysis *a = r->run[i].a;
        if (isnan(mba_env_value(a, "train.steps"))) continue;
        mba_grid_text(g, mba_run_label(r, i));
        for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) mba_grid_number(g, mba_env_value(a, keys[k]));
        mba_grid_text(g, mba_env_unit(a, "train.score"));
        mba_grid_number(g, mba_env_value(a, "train.score"));
        mba_grid_number(g, mba_env_value(a, "train.units_per_s"));
        mba_grid_text(g, mba_env_find(a, "train.model"));
    }
    return MBA_OK;
}

static void training_heading(mba_buf *b, const mba_stores *r, int run)
{
    int fell = 0, n = 0;
    (void)run;
    for (int i = 0; i < r->n; i++) {
        const mba_analysis *a = r->run[i].a;
        if (isnan(mba_env_value(a, "train.steps"))) continue;
        n++;
        fell += mba_env_value(a, "train.last_loss") < mba_env_value(a, "train.first_loss");
    }
    mba_assert(fell <= n);
    mba_buf_add(b, "The loss fell in %d of %d small models", fell, n);
}

const mba_figure mba_figure_training = {
    "training",
    "Training",
    "Training · small models of each family",
    "A small version of each model, trained by the same program on SYNTHETIC data: bytes, shapes, graphs.",
    "The table shows that the engine learns, not how good a model can become; docs/results has longer runs. "
    "Loss in nats, of the first and the last update; held out: on data that was not used for training.",
    "stores of the suite: mambascope suite",
    true,
    NULL,
    training_columns,
    has_training,
    training_heading,
    training_numbers,
    NULL,
    NULL
};

/* ---- Table II ---- */

static bool is_ssm(const mba_kernel_view *k) { return k->kind == MBA_SSM; }
static bool has_ssm(const mba_stores *r, int run) { return mba_any_kernel(r->run[run].a, is_ssm); }

static const mba_grid_column table2_columns[] = { { "kernel", "SSM kernel" },
                                                  { "kernel_class", "class" },
                                                  { "proof", "by" },
                                                  { "step_ms", "ms per step" },
                                                  { "tensor_gflop", "tensor GFLOP" },
                                                  { "fp32_gflop", "FP32 GFLOP" },
                                                  { "half_gflop", "half GFLOP" },
                                                  { "special_gop", "special G" },
                                                  { "tensor_pct", "tensor pipe, %" },
                                                  { "fma_pct", "FMA, %" },
                                                  { "alu_pct", "ALU, %" },
                                                  { "xu_pct", "special, %" },
                                                  { 0 } };

static mba_status table2_numbers(mba_grid *g, const mba_stores *r, int run)
{
    mba_assert(run >= 0 && run < r->n);
    const mba_analysis *a = r->run[run].a;
    mba_chosen          c;
    MBA_TRY(mba_choose(&c, a, is_ssm, 60));
    for (int i = 0; i < c.n; i++) {
        const mba_kernel_view *k = c.k[i];
        const mba_counted     *x = &k->counted;
        mba_grid_text(g, mba_kernel_label(a, k, 60).s);
        mba_grid_text(g, mba_kernel_class_name(k->cls));
        mba_grid_text(g, k->cls_counted ? "counters" : k->row->class ? "plan" : "least work");
        mba_grid_number(g, 1e3 * k->step_s);
        mba_grid_number(g, (k->cls_counted ? x->tensor_flops : k->least.tensor_flops) / 1e9);
        mba_grid_number(g, (k->cls_counted ? x->fp32_flops : k->least.vector_flops) / 1e9);
        mba_grid_number(g, (k->cls_counted ? x->half_flops : NAN) / 1e9);
        mba_grid_number(g, (k->cls_counted ? x->special_ops : k->least.special_ops) / 1e9);
        mba_grid_number(g, x->tensor_pct);
        mba_grid_number(g, x->fma_pct);
        mba_grid_number(g, x->alu_pct);
        mba_grid_number(g, x->xu_pct);
    }
    free(c.k);
    return MBA_OK;
}

static void table2_heading(mba_buf *b, const mba_stores *r, int run)
{
    const mba_analysis *a = r->run[run].a;
    int                 n[5] = { 0 };
    for (int64_t i = 0; i < a->nkernels; i++) mba_assert(a->kernel[i].cls <= MBA_CLASS_COPY);
    for (int64_t i = 0; i < a->nkernels; i++)
        if (a->kernel[i].launches > 0 && is_ssm(&a->kernel[i])) n[a->kernel[i].cls]++;
    mba_buf_add(b, "SSM kernels: %d tensor-only, %d vector-only, %d with both", n[MBA_CLASS_TENSOR],
                n[MBA_CLASS_VECTOR], n[MBA_CLASS_MIXED]);
}

const mba_figure mba_figure_table2 = {
    "table2",
    "Kernel classes",
    "Table II · classes of SSM kernels",
    "Tensor-only, vector-only or {mixed|mixed kernel}, with the counters of one launch and the pipe utilisation.",
    "Mixed: the FMA pipe is at least half as busy as the tensor pipe; without pipe counters, 16 × vector FLOPs are "
    "at least a tenth of the tensor FLOPs. Without counters the class comes from the {launch plan}.",
    "SSM kernels on the timeline; proofs need counters: mambascope profile --metric-sets roofline,pipes",
    false,
    NULL,
    table2_columns,
    has_ssm,
    table2_heading,
    table2_numbers,
    NULL,
    NULL
};
