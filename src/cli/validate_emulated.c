// SPDX-License-Identifier: Apache-2.0
/* validate_emulated.c -- `validate --counterfactual operators`: kernels of SSM operators on emulated machines. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/validate_scores.h"
#include "study/emulated_operators.h"

static const mba_column row_columns[] = { { "machine", "less of", NULL },
                                          { "kernel", "kernel", NULL },
                                          { "operator", "operator", NULL },
                                          { "place", "place", "%.0f" },
                                          { "base", "baseline", NULL },
                                          { "changes", "emulated", NULL },
                                          { "us", "baseline, us", "%.1f" },
                                          { "emulated_us", "emulated, us", "%.1f" },
                                          { "measured", "times as long", "%.3f" },
                                          { "predicted", "predicted", "%.3f" },
                                          { "share", "share of the effect, %", "%.0f" },
                                          { "unchanged_error", "if nothing changed, %", "%+.1f" },
                                          { "note", "not measured", NULL },
                                          { 0 } };

static void emulated_row(mba_table *t, const mba_emulated_row *r)
{
    mba_table_text(t, "%s", r->machine);
    mba_table_text(t, "%s", r->kernel);
    mba_table_text(t, "%s", r->op);
    mba_table_number(t, r->place);
    mba_table_text(t, "%s", r->base);
    mba_table_text(t, "%s", r->changes);
    mba_table_number(t, r->us > 0 ? r->us : NAN);
    mba_table_number(t, r->emulated_us > 0 ? r->emulated_us : NAN);
    mba_table_number(t, r->measured);
    mba_table_number(t, r->predicted);
    mba_table_number(t, isnan(r->measured) ? NAN : 100 * mba_effect_share(r->measured, r->predicted));
    mba_table_number(t, 100 * (1 / r->measured - 1));
    mba_table_text(t, "%s", r->note);
}

static void say_score(const char *name, const mba_effects_score *s)
{
    printf(
        "%s: %d of %d effects of 3 %% or more have the right sign, share predicted %.0f %%, median %.0f %%; %d of %d "
        "rows within 10 %%, %d if nothing changed\n",
        name, s->right, s->effects, s->share, s->median, s->near, s->rows, s->null_near);
}

static void say_scores(const mba_emulated_rows *d)
{
    for (const mba_emulated_machine *e = mba_emulated_machines; e->name; e++) {
        const mba_effects_score s = mba_emulated_rows_score(d, e->name);
        if (s.rows) say_score(e->name, &s);
    }
    const mba_effects_score all = mba_emulated_rows_score(d, NULL);
    say_score("all", &all);
}

mba_status mba_print_emulated(const char *machine, bool planned, mba_table_form form)
{
    mba_emulated_rows *d = NULL;
    mba_table         *t = NULL;
    MBA_TRY(planned ? mba_emulated_rows_planned(&d) : mba_emulated_rows_load(&d, NULL));
    mba_status st = mba_emulated_rows_predict(d, machine);
    if (st == MBA_OK) st = mba_table_create(&t, row_columns);
    for (int64_t i = 0; i < d->n && st == MBA_OK; i++) emulated_row(t, &d->row[i]);
    if (st == MBA_OK) st = mba_table_print(t, stdout, form);
    if (st == MBA_OK && form == MBA_TABLE_TEXT && !planned) say_scores(d);
    mba_table_destroy(t);
    mba_emulated_rows_destroy(d);
    return st;
}
