/* validate.c -- `mambascope validate`: how far the simulator is off, point by point and in sum. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/command.h"
#include "cli/options.h"
#include "cli/table.h"
#include "cli/validated.h"

typedef struct options { const char *machine, *changes, *data; bool json, csv, points; } options;

static const char *const set_names[] = { "fitted", "held out", "not counted" };

static const mba_column point_columns[] = { { "set", "set", NULL },
                                            { "source", "source", NULL },
                                            { "subject", "subject", NULL },
                                            { "operator", "operator", NULL },
                                            { "which", "which", NULL },
                                            { "measured_ms", "measured, ms", "%.3f" },
                                            { "predicted_ms", "predicted, ms", "%.3f" },
                                            { "error", "error, %", "%+.1f" },
                                            { "roofline_error", "roofline error, %", "%+.1f" },
                                            { 0 } };

static void point_row(mba_table *t, const mba_point *p)
{
    static const char *const sources[] = { "op", "step", "total" };
    const bool said = p->predicted_ms > 0 && p->ms > 0;
    mba_table_text(t, "%s", p->source == MBA_POINT_TOTAL ? "step" : set_names[p->set]);
    mba_table_text(t, "%s", sources[p->source]);
    mba_table_text(t, "%s", p->subject);
    mba_table_text(t, "%s", p->operator);
    mba_table_text(t, "%s", p->which);
    mba_table_number(t, p->ms);
    mba_table_number(t, p->predicted_ms > 0 ? p->predicted_ms : NAN);
    mba_table_number(t, said ? 100 * (p->predicted_ms / p->ms - 1) : NAN);
    mba_table_number(t, said && p->roofline_ms > 0 ? 100 * (p->roofline_ms / p->ms - 1) : NAN);
}

static const mba_column score_columns[] = { { "set", "set", NULL },
                                            { "points", "points", "%.0f" },
                                            { "kernel_time_mape", "mean error, %", "%.1f" },
                                            { "p90", "90th percentile, %", "%.1f" },
                                            { "worst", "worst, %", "%.1f" },
                                            { "log_correlation", "correlation of logs", "%.4f" },
                                            { "roofline_mape", "roofline's mean error, %", "%.1f" },
                                            { 0 } };

static void score_row(mba_table *t, const char *name, const mba_score *s)
{
    mba_table_text(t, "%s", name);
    mba_table_number(t, s->points);
    mba_table_number(t, s->mape);
    mba_table_number(t, s->p90);
    mba_table_number(t, s->worst);
    mba_table_number(t, s->log_correlation);
    mba_table_number(t, s->roofline_mape);
}

static void json_number(double v) { if (isnan(v)) fputs("null", stdout); else printf("%.4g", v); }

static void json_score(const char *name, const mba_score *s)
{
    printf("\"%s\": {\"points\": %d, \"kernel_time_mape\": ", name, s->points);
    json_number(s->mape);
    fputs(", \"p90\": ", stdout);
    json_number(s->p90);
    fputs(", \"worst\": ", stdout);
    json_number(s->worst);
    fputs(", \"log_correlation\": ", stdout);
    json_number(s->log_correlation);
    fputs(", \"roofline_mape\": ", stdout);
    json_number(s->roofline_mape);
    fputs("}", stdout);
}

static void print_json(const mba_measured *d)
{
    const mba_score held = mba_measured_score(d, MBA_POINT_HELD), fitted = mba_measured_score(d, MBA_POINT_FITTED);
    bool            first = true;
    putchar('{');
    json_score("held_out", &held);
    fputs(",\n ", stdout);
    json_score("fitted", &fitted);
    fputs(",\n \"step_error\": {", stdout);
    for (int i = 0; i < d->n; i++) {
        const mba_point *p = &d->point[i];
        if (p->source != MBA_POINT_TOTAL) continue;
        printf("%s\"%s\": %.4g", first ? "" : ", ", p->subject, 100 * (p->predicted_ms / p->ms - 1));
        first = false;
    }
    puts("}}");
}

static mba_status print_text(const mba_measured *d, const options *o)
{
    mba_table      *scores = NULL, *steps = NULL;
    const mba_score held = mba_measured_score(d, MBA_POINT_HELD), fitted = mba_measured_score(d, MBA_POINT_FITTED);
    MBA_TRY(mba_table_create(&scores, score_columns));
    mba_status st = mba_table_create(&steps, point_columns);
    if (st == MBA_OK) {
        score_row(scores, "held out", &held);
        score_row(scores, "fitted", &fitted);
        for (int i = 0; i < d->n; i++)
            if (d->point[i].source == MBA_POINT_TOTAL || o->points) point_row(steps, &d->point[i]);
        if (!o->csv) {
            mba_table_print(scores, stdout, MBA_TABLE_TEXT);
            if (held.worst_point)
                printf("worst held out: %s of %s\n\n", held.worst_point->operator, held.worst_point->subject);
        }
        mba_table_print(steps, stdout, o->csv ? MBA_TABLE_CSV : MBA_TABLE_TEXT);
    }
    mba_table_destroy(scores);
    mba_table_destroy(steps);
    return st;
}

mba_status mba_command_validate(int argc, char **argv)
{
    options       o = { .machine = "h200" };
    mba_measured *d = NULL;
    bool          help;
    const mba_option table[] = {
        { "--machine", MBA_OPT_TEXT, &o.machine, "NAME",
          "the machine that was measured: h200 (default), or a calibrated file", 0, 0 },
        { "--set", MBA_OPT_TEXT, &o.changes, "K=V,..", "change numbers of the machine", 0, 0 },
        { "--data", MBA_OPT_TEXT, &o.data, "FILE", "another measured set: tools/measured_points makes them", 0, 0 },
        { "--points", MBA_OPT_FLAG, &o.points, NULL, "every point", 0, 0 },
        { "--json", MBA_OPT_FLAG, &o.json, NULL, "as JSON: held_out, fitted, step_error; percent", 0, 0 },
        { "--csv", MBA_OPT_FLAG, &o.csv, NULL, "points as CSV", 0, 0 },
        { 0 },
    };
    const mba_usage usage = {
        "validate", "[options]",
        "Predicts every measured point of a set (bench/results/h200/measured.tsv comes with the program) and prints "
        "how far off that is. Which\n"
        "points constants may be fitted to was decided before the first comparison; the others are held out.",
        table, "mambascope validate\nmambascope validate --points --csv > points.csv\nmambascope validate --json\n"
    };
    MBA_TRY(mba_options_parse(&usage, argc, argv, NULL, &help));
    if (help) return MBA_OK;
    MBA_TRY(mba_validated(&d, o.data, o.machine, o.changes));
    mba_status st = MBA_OK;
    if (o.json) print_json(d);
    else st = print_text(d, &o);
    mba_measured_destroy(d);
    return st;
}
