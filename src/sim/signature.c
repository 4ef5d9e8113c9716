// SPDX-License-Identifier: Apache-2.0
/* signature.c -- see signature.h: parses the table of signatures, and makes a mba_sim_kernel from one. */
#include "sim/signature.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/file.h"
#include "core/lookup.h"
#include "sim/tsv.h"

enum { FILE_BYTES_MAX = 1 << 22, SIGNATURES_MAX = 1 << 14, NUMBERS = 11 };

static mba_status bad(const char *where, int line, const char *why)
{
    return mba_fail(
        MBA_E_FORMAT,
        "%s, line %d: this is not a signature of a kernel\nwhy: %s\nfix: make the file with tools/peer_signatures",
        where, line, why);
}

static mba_status take_row(mba_signature *s, const char *where, int line, const char *at, const char *end)
{
    double *const numbers[NUMBERS] = { &s->grid,   &s->threads, &s->regs, &s->smem_kb, &s->dram_mb, &s->l2_hit,
                                       &s->tensor, &s->fma,     &s->alu,  &s->xu,      &s->l1_gb };
    const char   *tab = memchr(at, '\t', (size_t)(end - at));
    *s = (mba_signature){ 0 };
    if (!tab || tab == at || (size_t)(tab - at) >= sizeof s->name)
        return bad(where, line, "a row begins with a name of at most 63 characters");
    memcpy(s->name, at, (size_t)(tab - at));
    at = tab + 1;
    for (int i = 0; i < NUMBERS; i++)
        if (!mba_tsv_number(&at, end, 1e9, numbers[i]))
            return bad(where, line, "eleven numbers follow the name, none of them negative");
    if (at != end) return bad(where, line, "eleven numbers follow the name, and nothing else");
    if (s->grid < 1 || s->threads < 1 || s->threads > 1024 || s->l2_hit > 100)
        return bad(where, line, "grid and threads are at least 1, threads at most 1024, the hit rate at most 100 %");
    return MBA_OK;
}

static mba_status add_row(mba_signatures *out, int64_t *room, const char *where, const mba_tsv_row *r)
{
    if (out->n == SIGNATURES_MAX) return bad(where, r->line, "there are too many rows");
    mba_signature *more = mba_grow(out->one, out->n, room, sizeof *more);
    if (!more) return mba_fail(MBA_E_NOMEM, "no memory for %d signatures", out->n);
    out->one = more;
    return take_row(&out->one[out->n++], where, r->line, r->at, r->end);
}

mba_status mba_signatures_parse(mba_signatures *out, const char *where, const char *text, size_t bytes)
{
    mba_tsv    rows = { text, text + bytes, 0 };
    mba_status st = MBA_OK;
    int64_t    room = 0;
    *out = (mba_signatures){ 0 };
    for (mba_tsv_row r; st == MBA_OK && mba_tsv_next(&rows, &r);) st = add_row(out, &room, where, &r);
    if (st == MBA_OK && !out->n)
        st = mba_fail(MBA_E_FORMAT,
                      "%s has no signature\nwhy: the file has no rows\nfix: make it with tools/peer_signatures", where);
    if (st != MBA_OK) mba_signatures_free(out);
    return st;
}

mba_status mba_signatures_load(mba_signatures *out, const char *path)
{
    char  *text;
    size_t bytes;
    *out = (mba_signatures){ 0 };
    MBA_TRY(mba_file_read(&text, &bytes, path, FILE_BYTES_MAX));
    const mba_status st = mba_signatures_parse(out, path, text, bytes);
    free(text);
    return st;
}

void mba_signatures_free(mba_signatures *s)
{
    free(s->one);
    *s = (mba_signatures){ 0 };
}

/* ---- the kernel of a signature ---- */

static mba_sim_op *add_op(mba_sim_kernel *k, mba_sim_work work)
{
    mba_sim_op *o = &k->op[k->nops++];
    *o = (mba_sim_op){ .work = (int32_t)work, .stream = -1, .ring = -1, .parts = 1 };
    return o;
}

static uint64_t each(double all, double parts)
{
    mba_debug_assert(all >= 0 && parts > 0);
    return (uint64_t)(all / parts + 0.5);
}

mba_status mba_signature_kernel(mba_sim_kernel *k, const mba_signature *s, const mba_gpu *m)
{
    enum { BYTES_A_TRIP = 32, TRIPS_MOST = 256, AHEAD_SMEM_KB = 16 };
    const double written = s->dram_mb * 1e6 / 3, missed = s->dram_mb * 1e6 - written,
                 hit = s->l2_hit < 99 ? s->l2_hit / 100 : 0.99;
    const double read = missed / (1 - hit);
    double       trips = ceil(read / s->grid / (s->threads * BYTES_A_TRIP));
    if (trips < 1) trips = 1;
    if (trips > TRIPS_MOST) trips = TRIPS_MOST;
    const double parts = s->grid * trips;
    memset(k, 0, sizeof *k);
    snprintf(k->name, sizeof k->name, "%s", s->name);
    k->grid = (int64_t)s->grid;
    k->threads = (int64_t)s->threads;
    k->warps = mba_ceil(k->threads, 32);
    k->regs = (int64_t)s->regs;
    k->smem_bytes = (int64_t)(s->smem_kb * 1024);
    k->nroles = 1;
    k->role_warps[0] = k->warps;
    k->nstreams = 2;
    k->depth = s->smem_kb > AHEAD_SMEM_KB ? 3 : 1;
    k->mma_flops = s->tensor > 0 ? 116 : 0;
    k->stream[0] = (mba_sim_stream){ .operand = -1, .hit = (int64_t)(256 * hit + 0.5) };
    k->stream[1] = (mba_sim_stream){ .operand = -1, .writes = 1 };
    add_op(k, MBA_OP_DELAY)->parts = (int64_t)m->v[MBA_GPU_signature_start];
    add_op(k, MBA_OP_LOOP)->trips = (int64_t)trips;
    mba_sim_op *o = add_op(k, k->depth > 1 ? MBA_OP_ASYNC : MBA_OP_LOAD);
    o->stream = 0;
    o->bytes = each(read, parts) + 1;
    o->ahead = (int32_t)k->depth - 1;
    o = add_op(k, MBA_OP_MIX);
    o->n[MBA_P_FMA] = each(s->fma * 1e9, parts);
    o->n[MBA_P_ALU] = each(s->alu * 1e9, parts);
    o->n[MBA_P_XU] = each(s->xu * 1e9, parts);
    o->n[MBA_P_MMA] = each(s->tensor * 1e9, parts);
    const double loaded = k->depth > 1 ? 0 : read; // the L1 counter includes loads, which the LOAD operation charges
    o->n[MBA_P_SMEM] = each(s->l1_gb * 1e9 > loaded ? s->l1_gb * 1e9 - loaded : 0, parts);
    o = add_op(k, MBA_OP_STORE);
    o->stream = 1;
    o->bytes = each(written, parts) + 1;
    add_op(k, MBA_OP_END);
    add_op(k, MBA_OP_EXIT);
    mba_assert(k->nops <= MBA_SIM_OPS && trips >= 1);
    return mba_sim_finish(k, m);
}
