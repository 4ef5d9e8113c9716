// SPDX-License-Identifier: Apache-2.0
/* emulate.c -- see emulate.h: builds the emulation kernels for the simulator, and parses the measured emulations. */
#include "sim/emulate.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/engine.h"
#include "sim/imitated_built_in.h" /* made by CMake from src/sim/data/imitated.tsv */
#include "sim/l2_model.h"
#include "sim/tsv.h"

static mba_sim_op *add_op(mba_sim_kernel *k, mba_sim_work work)
{
    mba_assert(k->nops < MBA_SIM_OPS);
    mba_sim_op *o = &k->op[k->nops++];
    *o = (mba_sim_op){ .work = (int32_t)work, .stream = -1, .ring = -1, .parts = 1 };
    return o;
}

/* One trip: the 16-byte vectors of a block. SASS has about 4 integer operations per vector besides the arithmetic. */
static void add_trip(mba_sim_kernel *k, const mba_emulated_kernel *w)
{
    enum { NUMBERS = 4, BESIDE = 4 };
    const uint64_t lanes = (uint64_t)(w->threads * w->vectors);
    mba_sim_op    *o = add_op(k, MBA_OP_LOAD);
    o->stream = 0;
    o->bytes = lanes * 16;
    o = add_op(k, MBA_OP_MIX);
    o->n[MBA_P_XU] = lanes * NUMBERS * (uint64_t)w->special;
    o->n[MBA_P_FMA] = lanes * NUMBERS * (uint64_t)w->fma;
    o->n[MBA_P_ALU] = lanes * BESIDE;
    if (!w->stores) return;
    o = add_op(k, MBA_OP_STORE);
    o->stream = 1;
    o->bytes = lanes * 16;
}

/* The register count is chosen so that blocks_sm blocks fit on an SM; on the GPU shared memory limits them. `rf` then
 * scales the occupancy. */
static mba_status build(mba_sim_kernel *k, const mba_emulated_kernel *w, const mba_gpu *m)
{
    enum { FILE_WORDS = 65536 };
    const int64_t trip = (int64_t)w->threads * w->vectors * 16;
    memset(k, 0, sizeof *k);
    snprintf(k->name, sizeof k->name, "%s", w->name);
    k->threads = w->threads;
    k->warps = w->threads / 32;
    k->nroles = 1;
    k->role_warps[0] = k->warps;
    k->depth = 1;
    k->regs = FILE_WORDS / (w->threads * w->blocks_sm);
    k->nstreams = w->stores ? 2 : 1;
    k->stream[0] = (mba_sim_stream){ .operand = -1 };
    k->stream[1] = (mba_sim_stream){ .operand = -1, .writes = 1 };
    k->grid = w->passes > 1 ? w->blocks_sm * (int64_t)m->v[MBA_GPU_sm] : w->bytes / trip;
    add_op(k, MBA_OP_DELAY)->parts = (int64_t)m->v[MBA_GPU_emulated_start];
    if (w->passes > 1) {
        add_op(k, MBA_OP_LOOP)->trips = mba_ceil(w->passes * w->bytes, trip * k->grid);
        k->stream[0].hit = (int64_t)(256 * mba_l2_model_hit_rate(m, (double)w->bytes) + 0.5);
    }
    add_trip(k, w);
    if (w->passes > 1) add_op(k, MBA_OP_END);
    add_op(k, MBA_OP_EXIT);
    return mba_sim_finish(k, m);
}

static mba_status seconds_of(double *out, const mba_emulated_kernel *w, const mba_gpu *m)
{
    mba_sim_kernel k;
    mba_sim_result r;
    MBA_TRY(build(&k, w, m));
    MBA_TRY(mba_sim_run(&r, &k, m, MBA_SIM_ONE_SM));
    *out = r.seconds;
    return MBA_OK;
}

mba_status mba_emulation_simulate(double *slower, const mba_emulation *w, const mba_gpu *m)
{
    const mba_emulated_kernel *kernel = mba_emulated_kernel_find(w->kernel);
    mba_gpu                    other = *m;
    double                     base = 0, imitated = 0;
    char                       change[64];
    if (!kernel)
        return mba_fail(MBA_E_ARG,
                        "there is no kernel '%s' for emulated machines\nfix: choose copy, special, "
                        "mixed, reread or short",
                        w->kernel);
    snprintf(change, sizeof change, "%s=x%.17g", w->axis, w->factor);
    MBA_TRY(mba_gpu_set(&other, change));
    MBA_TRY(seconds_of(&base, kernel, m));
    MBA_TRY(seconds_of(&imitated, kernel, &other));
    *slower = imitated / base;
    return MBA_OK;
}

/* ---- measured emulations ---- */

static mba_status take_row(mba_emulated *r, const char *where, int line, const char *text)
{
    char end;
    *r = (mba_emulated){ 0 };
    if (sscanf(text, "%31s %15s %lf %lf %lf %c", r->kernel, r->axis, &r->what.factor, &r->us, &r->imitated_us, &end)
            != 5
        || !(r->us > 0 && r->imitated_us > 0 && r->what.factor > 0 && r->what.factor < 1e6 && r->us < 1e9
             && r->imitated_us < 1e9)
        || !mba_emulated_kernel_find(r->kernel))
        return mba_fail(MBA_E_FORMAT,
                        "%s, line %d: not an emulated machine\nwhy: a row has kernel, axis, factor, us, us "
                        "emulated\nfix: mambascope calibrate --emulate writes the file",
                        where, line);
    r->slower = r->imitated_us / r->us;
    return MBA_OK;
}

static mba_status add_row(mba_emulated_set *out, const char *where, const mba_tsv_row *r)
{
    char         row[256];
    const size_t n = (size_t)(r->end - r->at);
    if (n >= sizeof row || out->n == (int)(sizeof out->one / sizeof *out->one))
        return mba_fail(MBA_E_FORMAT,
                        "%s, line %d: too long\nwhy: rows are short, and there are at most "
                        "64\nfix: mambascope calibrate --emulate writes the file",
                        where, r->line);
    memcpy(row, r->at, n);
    row[n] = '\0';
    MBA_TRY(take_row(&out->one[out->n], where, r->line, row));
    out->n++;
    return MBA_OK;
}

mba_status mba_emulated_parse(mba_emulated_set *out, const char *where, const char *text, size_t bytes)
{
    mba_tsv rows = { text, text + bytes, 0 };
    *out = (mba_emulated_set){ 0 };
    for (mba_tsv_row r; mba_tsv_next(&rows, &r);) MBA_TRY(add_row(out, where, &r));
    for (int i = 0; i < out->n; i++) { // pointers into the set, which the caller does not move
        out->one[i].what.kernel = out->one[i].kernel;
        out->one[i].what.axis = out->one[i].axis;
    }
    return MBA_OK;
}

mba_status mba_emulated_load(mba_emulated_set *out, const char *path)
{
    enum { FILE_BYTES_MAX = 1 << 20 };
    mba_tsv_text t = { "the built-in imitated machines", (const char *)imitated_h200, sizeof imitated_h200, NULL };
    MBA_TRY(mba_tsv_open(&t, path, FILE_BYTES_MAX));
    const mba_status st = mba_emulated_parse(out, t.where, t.text, t.bytes);
    free(t.file);
    return st;
}
