// SPDX-License-Identifier: Apache-2.0
/* public_numbers.c -- see public_numbers.h. */
#include "study/public_numbers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/check.h"
#include "sim/tsv.h"
#include "study/step_power.h"
#include "study/validation.h"

/* ---- the table ---- */

static bool take_row(mba_public_number *p, const mba_tsv_row *r)
{
    const char *at = r->at;
    *p = (mba_public_number){ 0 };
    if (!mba_tsv_cell(&at, r->end, p->source, sizeof p->source) || !mba_tsv_cell(&at, r->end, p->work, sizeof p->work))
        return false;
    for (int i = 0; i < 2; i++)
        if (!mba_tsv_cell(&at, r->end, p->gpu[i], sizeof p->gpu[i]) || !mba_tsv_number(&at, r->end, 1e9, &p->figure[i]))
            return false;
    if (!mba_tsv_cell(&at, r->end, p->unit, sizeof p->unit) || !mba_tsv_cell(&at, r->end, p->remark, sizeof p->remark))
        return false;
    if (at != r->end || !(p->figure[0] > 0) || !(p->figure[1] > 0)) return false;
    p->measured = strcmp(p->unit, "ms") ? p->figure[1] / p->figure[0] : p->figure[0] / p->figure[1];
    return true;
}

mba_status mba_public_parse(mba_public_number out[MBA_PUBLIC_MAX], int *n, const char *where, const char *text)
{
    mba_tsv rows = { text, text + strlen(text), 0 };
    *n = 0;
    for (mba_tsv_row r; mba_tsv_next(&rows, &r); ++*n)
        if (*n == MBA_PUBLIC_MAX || !take_row(&out[*n], &r))
            return mba_fail(MBA_E_FORMAT,
                            "%s, line %d: this is not a published measurement\nwhy: a row has source, work, GPU, "
                            "figure, GPU, figure, unit and remark, and a table at most %d rows\n"
                            "fix: correct the row",
                            where, r.line, MBA_PUBLIC_MAX);
    return MBA_OK;
}

/* ---- simulation ---- */

static mba_status step_seconds(double *out, const char *work, const char *gpu)
{
    char          words[sizeof((mba_public_number *)0)->work];
    mba_workload  w = { .machine = gpu };
    mba_simulated r = { 0 };
    mba_sim      *sim = NULL;
    snprintf(words, sizeof words, "%s", work);
    MBA_TRY(mba_workload_parse(&w, words));
    mba_status st = mba_sim_create(&sim);
    if (st == MBA_OK) st = mba_simulated_run(&r, &w, sim);
    if (st == MBA_OK) *out = r.step.seconds;
    mba_simulated_end(&r);
    mba_sim_destroy(sim);
    return st;
}

static const mba_op *op_named(const char *name)
{
    for (int i = 0; mba_ops[i]; i++)
        if (!strcmp(mba_ops[i]->name, name)) return mba_ops[i];
    return NULL;
}

/* "matmul bf16 2048 2048 2048": the operator, its type, the dimensions of its case. */
static mba_status case_of(const mba_op **op, mba_case *size, mba_dtype *type, const char *work)
{
    char words[sizeof((mba_public_number *)0)->work], *rest = NULL;
    snprintf(words, sizeof words, "%s", work);
    const char *name = strtok_r(words, " ", &rest), *dtype = strtok_r(NULL, " ", &rest);
    *op = name ? op_named(name) : NULL;
    if (!*op || !dtype || (strcmp(dtype, "bf16") && strcmp(dtype, "fp32")))
        return mba_fail(MBA_E_FORMAT,
                        "'%s' is no work that can be simulated\nwhy: it names no operator with bf16 or fp32\n"
                        "fix: write `step WORKLOAD`, or an operator, its type and its dimensions",
                        work);
    *type = strcmp(dtype, "bf16") ? MBA_F32 : MBA_BF16;
    *size = (mba_case){ .note = "published" };
    int n = 0;
    for (const char *d = strtok_r(NULL, " ", &rest); d; d = strtok_r(NULL, " ", &rest))
        if (n < (int)(sizeof size->dim / sizeof *size->dim)) size->dim[n++] = strtoll(d, NULL, 10);
    return MBA_OK;
}

typedef struct op_work {
    const mba_op *op;
    mba_case      size;
    mba_dtype     type;
    mba_sim      *sim;
} op_work;

/* mba_power_run: one operator, planned for the machine. */
static mba_status run_op(double *seconds, mba_power_rates *work, void *of, const mba_gpu *m)
{
    const op_work    *w = of;
    const mba_machine plans = mba_gpu_for_plans(m);
    mba_case_graph    o;
    mba_program      *p = NULL;
    mba_sim_step      r = { 0 };
    MBA_TRY(mba_case_build(&o, w->op, &w->size, (mba_case_how){ .compute = w->type, .alone = true }));
    mba_status st = mba_program_create(&p, o.g, &(mba_program_options){ .cuda = true, .machine = &plans });
    if (st == MBA_OK) st = mba_sim_program(&r, w->sim, p, m, &(mba_sim_how){ .passes = MBA_FORWARD });
    *seconds = 0;
    for (int32_t i = 0; st == MBA_OK && i < o.g->nnodes; i++)
        if (o.g->nodes[i]->op == w->op) *seconds += r.node[i].seconds;
    if (st == MBA_OK) *work = mba_power_rates_of(&r, 1);
    mba_sim_step_free(&r);
    mba_program_destroy(p);
    mba_graph_destroy(o.g);
    return st;
}

static mba_status op_seconds(double *out, const char *work, const char *gpu)
{
    op_work         w = { .type = MBA_BF16 };
    mba_gpu         m;
    mba_power_rates events;
    MBA_TRY(mba_gpu_load(&m, gpu));
    MBA_TRY(case_of(&w.op, &w.size, &w.type, work));
    MBA_TRY(mba_sim_create(&w.sim));
    mba_status st = mba_power_clocks_of(&m, run_op, &w);
    if (st == MBA_OK) st = run_op(out, &events, &w, &m);
    mba_sim_destroy(w.sim);
    return st;
}

mba_status mba_public_predict(mba_public_number *p)
{
    static const char STEP[] = "step ";
    for (int i = 0; i < 2; i++) {
        const bool       step = !strncmp(p->work, STEP, sizeof STEP - 1);
        const mba_status st = step ? step_seconds(&p->seconds[i], p->work + sizeof STEP - 1, p->gpu[i])
                                   : op_seconds(&p->seconds[i], p->work, p->gpu[i]);
        if (st != MBA_OK) return mba_where(st, "%s on %s", p->work, p->gpu[i]);
        mba_assert(p->seconds[i] > 0);
    }
    p->predicted = p->seconds[0] / p->seconds[1];
    return MBA_OK;
}
