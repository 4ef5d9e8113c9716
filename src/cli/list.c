// SPDX-License-Identifier: Apache-2.0
/* list.c -- `mambascope list models | ops | fields | machines`: what this build knows. */
#include <math.h>
#include <string.h>

#include "cli/command.h"
#include "cli/options.h"
#include "cli/table.h"
#include "core/op.h"
#include "core/print.h"
#include "models/model.h"
#include "sim/machine.h"
#include "train/session.h"

/* Parameters do not depend on the shape of a batch, so the smallest one is planned. */
static mba_status count_parameters(double *out, mba_model m)
{
    static const mba_batch_shape least[MBA_TASKS] = { { .batch = 1, .length = 1 },
                                                      { .batch = 1 },
                                                      { .graphs = 1, .nodes = 1, .edges = 1 } };
    mba_session                  s = { 0 };
    mba_status                   st = mba_model_shape(&m, &least[m.task]);
    mba_model_outputs(&m, false, true);
    if (st == MBA_OK) st = mba_session_plan(&s, &(mba_session_options){ .model = m, .memory_bytes = INT64_MAX });
    *out = st == MBA_OK ? (double)mba_session_parameters(&s) : NAN;
    mba_session_end(&s);
    return st;
}

static mba_status model_row(mba_table *t, const mba_family *f, mba_model m)
{
    double parameters;
    MBA_TRY(count_parameters(&parameters, m));
    MBA_TRY(mba_model_complete(&m));
    const mba_model_sizes s = mba_model_sizes_of(&m);
    mba_table_text(t, "%s", mba_model_name(&m));
    mba_table_text(t, "%s", f->name);
    mba_table_text(t, "%s", mba_task_name(m.task));
    mba_table_number(t, parameters);
    mba_table_number(t, (double)s.width);
    mba_table_number(t, (double)s.layers);
    mba_table_number(t, (double)s.state);
    mba_table_number(t, (double)s.outputs);
    return MBA_OK;
}

static mba_status list_models(mba_table_form form)
{
    mba_table *t;
    mba_model  m;
    MBA_TRY(mba_table_create(&t, (const mba_column[]){ { "model", "model", NULL },
                                                       { "family", "family", NULL },
                                                       { "task", "task", NULL },
                                                       { "parameters", "parameters", "%.0f" },
                                                       { "width", "width", "%.0f" },
                                                       { "layers", "layers", "%.0f" },
                                                       { "state", "state", "%.0f" },
                                                       { "outputs", "outputs", "%.0f" },
                                                       { 0 } }));
    mba_status st = MBA_OK;
    for (int k = 0; mba_families[k]; k++)
        for (int i = 0; st == MBA_OK && mba_family_preset(&m, mba_families[k], i); i++)
            st = model_row(t, mba_families[k], m);
    if (st == MBA_OK) st = mba_table_print(t, stdout, form);
    mba_table_destroy(t);
    return st;
}

typedef struct variant_list {
    char text[160];
} variant_list;

static variant_list variant_names(const mba_variant *v)
{
    variant_list l = { "" };
    for (; v && v->name; v++) {
        const size_t n = strlen(l.text);
        snprintf(l.text + n, sizeof l.text - n, "%s%s", n ? " " : "", v->name);
    }
    return l;
}

static mba_status list_ops(mba_table_form form)
{
    mba_table *t;
    MBA_TRY(mba_table_create(&t, (const mba_column[]){ { "operator", "operator", NULL },
                                                       { "kind", "kind", NULL },
                                                       { "cpu", "CPU", NULL },
                                                       { "cuda", "CUDA", NULL },
                                                       { "cases", "cases", "%.0f" },
                                                       { "doc", "what it computes", NULL },
                                                       { 0 } }));
    for (int i = 0; mba_ops[i]; i++) {
        const mba_op *op = mba_ops[i];
        int           cases = 0;
        for (const mba_case *c = op->cases; c && c->note; c++) cases++;
        mba_table_text(t, "%s", op->name);
        mba_table_text(t, "%s", mba_kind_name(op->kind));
        mba_table_text(t, "%s", variant_names(op->cpu).text);
        mba_table_text(t, "%s", variant_names(op->cuda).text);
        mba_table_number(t, cases);
        mba_table_text(t, "%s", op->doc);
    }
    const mba_status st = mba_table_print(t, stdout, form);
    mba_table_destroy(t);
    return st;
}

static mba_status list_fields(mba_table_form form)
{
    mba_table *t;
    MBA_TRY(mba_table_create(&t, (const mba_column[]){ { "task", "task", NULL },
                                                       { "field", "field", NULL },
                                                       { "default", "default", "%g" },
                                                       { "meaning", "meaning", NULL },
                                                       { 0 } }));
    for (int k = 0; k < MBA_TASKS; k++)
        for (const mba_field *f = mba_task_fields((mba_task)k); f->name; f++) {
            mba_table_text(t, "%s", mba_task_name((mba_task)k));
            mba_table_text(t, "%s", f->name);
            mba_table_number(t, f->kind == MBA_FIELD_INT || f->kind == MBA_FIELD_REAL || f->kind == MBA_FIELD_BOOL
                                    ? f->standard
                                    : NAN);
            mba_table_text(t, "%s", f->meaning);
        }
    const mba_status st = mba_table_print(t, stdout, form);
    mba_table_destroy(t);
    return st;
}

static mba_status machine_row(mba_table *t, const char *name)
{
    mba_gpu m;
    MBA_TRY(mba_gpu_load(&m, name));
    mba_table_text(t, "%s", name);
    mba_table_number(t, m.v[MBA_GPU_sm]);
    mba_table_number(t, m.v[MBA_GPU_clk]);
    mba_table_number(t, m.v[MBA_GPU_hbm]);
    mba_table_number(t, m.v[MBA_GPU_memory]);
    return MBA_OK;
}

static mba_status list_machines(mba_table_form form)
{
    mba_table *t;
    mba_status st = MBA_OK;
    MBA_TRY(mba_table_create(&t, (const mba_column[]){ { "machine", "machine", NULL },
                                                       { "sm", "SMs", "%.0f" },
                                                       { "clock_ghz", "clock, GHz", "%.3g" },
                                                       { "dram_gb_s", "DRAM, GB/s", "%.0f" },
                                                       { "memory_gb", "memory, GB", "%.4g" },
                                                       { 0 } }));
    for (int i = 0; st == MBA_OK && mba_gpu_name(i); i++) st = machine_row(t, mba_gpu_name(i));
    if (st == MBA_OK) st = mba_table_print(t, stdout, form);
    mba_table_destroy(t);
    return st;
}

mba_status mba_command_list(int argc, char **argv)
{
    bool             json = false, csv = false, help;
    const mba_option options[] = {
        MBA_TABLE_OPTIONS(&json, &csv),
        { 0 },
    };
    const mba_usage usage = {
        "list", "models | ops | fields | machines [options]",
        "Lists the models that can be trained, the operators they are made of, the fields of\n"
        "a model that --set changes, or the GPUs that can be simulated.",
        options,
        "mambascope list models\nmambascope list ops --json\nmambascope list fields\nmambascope list machines\n"
    };
    mba_operands words = { 0 };
    MBA_TRY(mba_options_parse(&usage, argc, argv, &words, &help));
    if (help) return MBA_OK;
    const mba_table_form form = mba_table_form_of(json, csv);
    if (words.n == 1 && !strcmp(words.word[0], "models")) return list_models(form);
    if (words.n == 1 && !strcmp(words.word[0], "ops")) return list_ops(form);
    if (words.n == 1 && !strcmp(words.word[0], "fields")) return list_fields(form);
    if (words.n == 1 && !strcmp(words.word[0], "machines")) return list_machines(form);
    return mba_fail(MBA_E_ARG, "list what?\nfix: mambascope list models, ops, fields or machines");
}
