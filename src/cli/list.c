/* list.c -- `mambascope list models | ops | fields`: what this build knows. */
#include <math.h>
#include <string.h>

#include "cli/command.h"
#include "cli/options.h"
#include "cli/table.h"
#include "core/op.h"
#include "core/print.h"
#include "models/model.h"
#include "train/session.h"

static mba_status list_models(mba_table_form form)
{
    mba_table *t;
    MBA_TRY(mba_table_create(&t, (const mba_column[]){
        { "model", "model", NULL }, { "family", "family", NULL }, { "parameters", "parameters", "%.0f" }, { "width", "width", "%.0f" },
        { "layers", "layers", "%.0f" }, { "state", "state", "%.0f" }, { "vocab", "vocab", "%.0f" }, { 0 } }));
    mba_status st = MBA_OK;
    for (int i = 0; mba_models[i]; i++)
        for (const mba_lm *c = mba_models[i]->presets; c->name && st == MBA_OK; c++) {
            mba_session s = { 0 };
            mba_lm      small = *c;               // parameters do not depend on the shape of the run
            small.batch = small.length = 1;
            small.head  = MBA_HEAD_LOGITS;
            st = mba_session_plan(&s, &(mba_session_options){ .model = small, .memory_bytes = INT64_MAX });
            mba_table_text(t, "%s", c->name);
            mba_table_text(t, "%s", mba_models[i]->family);
            mba_table_number(t, st == MBA_OK ? (double)mba_session_parameters(&s) : NAN);
            mba_table_number(t, (double)s.model.width);
            mba_table_number(t, (double)s.model.layers);
            mba_table_number(t, (double)s.model.state);
            mba_table_number(t, (double)s.model.vocab);
            mba_session_end(&s);
        }
    if (st == MBA_OK) mba_table_print(t, stdout, form);
    mba_table_destroy(t);
    return st;
}

static mba_status list_ops(mba_table_form form)
{
    mba_table *t;
    MBA_TRY(mba_table_create(&t, (const mba_column[]){ { "operator", "operator", NULL }, { "kind", "kind", NULL }, { "cpu", "CPU", NULL },
                                                       { "cases", "cases", "%.0f" }, { "doc", "what it computes", NULL }, { 0 } }));
    for (int i = 0; mba_ops[i]; i++) {
        const mba_op *op = mba_ops[i];
        int           cases = 0;
        char          cpu[128] = "";
        for (const mba_case *c = op->cases; c && c->note; c++) cases++;
        for (const mba_variant *v = op->cpu; v && v->name; v++) {
            if (*cpu) strncat(cpu, " ", sizeof cpu - strlen(cpu) - 1);
            strncat(cpu, v->name, sizeof cpu - strlen(cpu) - 1);
        }
        mba_table_text(t, "%s", op->name);
        mba_table_text(t, "%s", mba_kind_name(op->kind));
        mba_table_text(t, "%s", cpu);
        mba_table_number(t, cases);
        mba_table_text(t, "%s", op->doc);
    }
    mba_table_print(t, stdout, form);
    mba_table_destroy(t);
    return MBA_OK;
}

static mba_status list_fields(mba_table_form form)
{
    mba_table *t;
    MBA_TRY(mba_table_create(&t, (const mba_column[]){ { "field", "field", NULL }, { "default", "default", "%.0f" },
                                                       { "meaning", "meaning", NULL }, { 0 } }));
#define X(field, value, least, text) mba_table_text(t, "%s", #field); mba_table_number(t, value); mba_table_text(t, "%s", text);
    MBA_LM_FIELDS(X)
#undef X
    mba_table_print(t, stdout, form);
    mba_table_destroy(t);
    return MBA_OK;
}

mba_status mba_command_list(int argc, char **argv)
{
    bool json = false, csv = false, help;
    const mba_option options[] = {
        { "--json", MBA_OPT_FLAG, &json, NULL, "as JSON: an array of objects", 0, 0 },
        { "--csv",  MBA_OPT_FLAG, &csv,  NULL, "as CSV", 0, 0 },
        { 0 },
    };
    const mba_usage usage = { "list", "models | ops | fields [options]",
                              "Lists the models that can be trained, the operators they are made of, or the fields of a\n"
                              "configuration that --set changes.",
                              options, "mambascope list models\nmambascope list ops --json\nmambascope list fields\n" };
    mba_operands words = { 0 };
    MBA_TRY(mba_options_parse(&usage, argc, argv, &words, &help));
    if (help) return MBA_OK;
    const mba_table_form form = json ? MBA_TABLE_JSON : csv ? MBA_TABLE_CSV : MBA_TABLE_TEXT;
    if (words.n == 1 && !strcmp(words.word[0], "models")) return list_models(form);
    if (words.n == 1 && !strcmp(words.word[0], "ops"))    return list_ops(form);
    if (words.n == 1 && !strcmp(words.word[0], "fields")) return list_fields(form);
    return mba_fail(MBA_E_ARG, "list what?\nfix: mambascope list models, ops or fields");
}
