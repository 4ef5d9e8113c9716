// SPDX-License-Identifier: Apache-2.0
/* method.c -- see parts.h: how the numbers were measured: conventions, ceilings, the cost of profiling, notes, and the
 * environment. */
#include <math.h>
#include <string.h>

#include "report/glossary.h"
#include "report/parts.h"

static void table(mba_buf *b, const mba_grid *g, const char *caption)
{
    mba_assert(mba_grid_is_whole(g));
    mba_buf_put(b, "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"");
    mba_buf_html(b, caption);
    mba_buf_put(b, "\">");
    mba_grid_html(g, b, caption);
    mba_buf_put(b, "</div>");
}

static void environment(mba_buf *b, const mba_analysis *a)
{
    mba_grid g;
    mba_grid_begin(&g, (const mba_grid_column[]){ { "key", "key" },
                                                  { "text", "value" },
                                                  { "number", "number" },
                                                  { "unit", "unit" },
                                                  { "how", "how" },
                                                  { 0 } });
    for (int64_t i = 0; i < a->nsheet; i++) {
        mba_grid_text(&g, a->sheet_row[i].key);
        mba_grid_text(&g, a->sheet_row[i].text);
        mba_grid_number(&g, a->sheet_row[i].number);
        mba_grid_text(&g, a->sheet_row[i].unit);
        mba_grid_text(&g, a->sheet_row[i].how);
    }
    table(b, &g, "Environment");
    mba_grid_end(&g);
}

/* The unit in which data sheets state a rate, and the factor to it. */
static double readable(const char *unit, const char **word)
{
    static const struct {
        const char *unit, *word;
        double      by;
    } known[] = { { "byte/s", "GB/s", 1e-9 }, { "FLOP/s", "TFLOP/s", 1e-12 }, { "op/s", "Top/s", 1e-12 } };
    for (size_t i = 0; unit && i < sizeof known / sizeof *known; i++)
        if (!strcmp(unit, known[i].unit)) return *word = known[i].word, known[i].by;
    *word = unit;
    return 1;
}

static mba_status ceilings(mba_buf *b, mba_store *s)
{
    mba_row_ceiling *r;
    int64_t          n;
    mba_grid         g;
    MBA_TRY(mba_load_ceiling(s, &r, &n));
    mba_grid_begin(&g, (const mba_grid_column[]){ { "ceiling", "ceiling" },
                                                  { "rate", "rate" },
                                                  { "unit", "unit" },
                                                  { "how", "how" },
                                                  { "note", "of what" },
                                                  { 0 } });
    for (int64_t i = 0; i < n; i++) {
        const char  *unit;
        const double by = readable(r[i].unit, &unit);
        mba_grid_text(&g, r[i].name);
        mba_grid_number(&g, by * r[i].rate);
        mba_grid_text(&g, unit);
        mba_grid_text(&g, r[i].how);
        mba_grid_text(&g, r[i].note);
    }
    table(b, &g, "Ceilings");
    mba_grid_end(&g);
    return MBA_OK;
}

/* Adds the time of a step that was traced in some way, and its overhead; nothing if it was not traced so. */
static void add_traced(mba_buf *b, const char *how, double traced_s, double plain_s)
{
    const double more = 100 * (traced_s / plain_s - 1);
    if (!isnan(more))
        mba_buf_add(b, ", %s ms %s: %s %% %s", mba_num(1e3 * traced_s).s, how, mba_num(fabs(more)).s,
                    more < 0 ? "less" : "more");
}

static mba_status collections(mba_buf *b, const mba_analysis *a)
{
    mba_row_collection *r;
    int64_t             n;
    mba_grid            g;
    MBA_TRY(mba_load_collection(a->store, &r, &n));
    mba_grid_begin(&g, (const mba_grid_column[]){ { "mode", "mode" },
                                                  { "set", "counter set" },
                                                  { "passes", "passes" },
                                                  { "seconds", "s" },
                                                  { "kernels", "kernels" },
                                                  { "dropped", "dropped" },
                                                  { 0 } });
    for (int64_t i = 0; i < n; i++) {
        mba_grid_text(&g, mba_mode_words(r[i].mode));
        mba_grid_text(&g, r[i].metric_set);
        mba_grid_number(&g, mba_int_or_nan(r[i].passes));
        mba_grid_number(&g, r[i].seconds);
        mba_grid_number(&g, mba_int_or_nan(r[i].kernels));
        mba_grid_number(&g, mba_int_or_nan(r[i].dropped));
    }
    table(b, &g, "Profiler overhead");
    mba_grid_end(&g);
    if (!isnan(a->plain_s)) {
        mba_buf_add(b, "<p class=\"small\">A step takes %s ms without profiler (distance between the quartiles %s ms)",
                    mba_num(1e3 * a->plain_s).s, mba_num(1e3 * a->plain_spread_s).s);
        add_traced(b, "graph-traced", a->whole_s, a->plain_s);
        add_traced(b, "kernel-traced", a->timeline_s, isnan(a->queued_s) ? a->plain_s : a->queued_s);
        if (!isnan(a->queued_s) && !isnan(a->timeline_s))
            mba_buf_add(b, " than the %s ms of steps back to back without profiler", mba_num(1e3 * a->queued_s).s);
        mba_buf_put(b, ".</p>");
    }
    return MBA_OK;
}

static void notes(mba_buf *b, const mba_analysis *a)
{
    if (!a->nnotes) return;
    mba_buf_put(b, "<h3>Notes of this store</h3><ul>");
    for (int64_t i = 0; i < a->nnotes; i++) {
        mba_buf_put(b, "<li>");
        mba_buf_html(b, a->note[i].topic ? a->note[i].topic : "note");
        mba_buf_put(b, ": ");
        mba_buf_html(b, a->note[i].text);
        if (a->note[i].fix) mba_buf_put(b, "<br><code>"), mba_buf_html(b, a->note[i].fix), mba_buf_put(b, "</code>");
        mba_buf_put(b, "</li>");
    }
    mba_buf_put(b, "</ul>");
}

static const char conventions[] =
    "<div class=\"grid2\"><div><h3>Conventions</h3><ul>"
    "<li><b>FLOPs</b>: an FMA is 2. Tensor, vector (FP32 and packed half) and special functions are separate. "
    "<b>{Least|least work}</b>: the work that any implementation needs, at most what this one did; "
    "<b>{executed|executed work}</b>: what "
    "counters measured.</li>"
    "<li><b>Vector work</b> by rule (a), arithmetic FLOPs; by rule (b), issue slots of the lanes × 2, because "
    "conversions, selects and integers occupy the same lanes.</li>"
    "<li><b>Bytes</b>: DRAM reads and writes; L2 sectors; L1/shared wavefronts × 128 B. 1 MB is 10⁶ B.</li>"
    "<li><b>{Floor|operator floor}</b>: the largest of bytes / DRAM, tensor / peak, vector / peak, special / peak, for "
    "the least "
    "work at the ceilings (measured, else from the data sheet). On a CPU, compute times add up.</li>"
    "<li><b>{Percent of floor|% of floor}</b> = floor / median time on the timeline. It is above 100 where L2 held "
    "operands that the "
    "floor counts from DRAM, or where a kernel exceeds the rate of the copy or product that set the ceiling; its card "
    "says "
    "which. Utilisation is that of the counter run.</li></ul></div>"
    "<div><h3>Method</h3><ul>"
    "<li>Warm-up steps are never in the numbers; times are medians over the steps profiled, spreads are "
    "distances between quartiles.</li>"
    "<li>Step times, the timeline and counters come from three separate runs of the same step, so that none disturbs "
    "another.</li>"
    "<li><b>Bandwidth</b> has two means: over launches, and all bytes over all time.</li>"
    "<li><b>Class</b>: vector-only has no tensor FLOP; {mixed|mixed kernel} has an FMA pipe at least half as busy as "
    "the tensor pipe; "
    "else tensor-only.</li>"
    "<li>A verdict uses only numbers in the store; otherwise the claim is open and says what it "
    "needs.</li></ul></div></div>";

mba_status mba_part_method(mba_buf *b, const mba_stores *r)
{
    mba_terms_html(b, conventions);
    mba_run_switch(b, r);
    for (int i = 0; i < r->shown; i++) {
        mba_run_open(b, r, i);
        notes(b, r->run[i].a);
        mba_buf_put(b, "<h3>Ceilings of the machine</h3>");
        MBA_TRY(ceilings(b, r->run[i].store));
        mba_buf_put(b, "<h3>Profiler overhead</h3>");
        MBA_TRY(collections(b, r->run[i].a));
        mba_buf_put(b, "<details class=\"dt\"><summary>Environment</summary>");
        environment(b, r->run[i].a);
        mba_buf_put(b, "</details>");
        mba_run_end(b);
    }
    return MBA_OK;
}
