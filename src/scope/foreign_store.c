// SPDX-License-Identifier: Apache-2.0
/* foreign_store.c -- see foreign_store.h: one callback per kind of trace record, the names of kernels, and the notes on
 * steps, missing events and memory. */
#include "scope/foreign_store.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/lookup.h"
#include "core/print.h"
#include "scope/kernel_names.h"
#include "scope/metrics.h"
#include "scope/occupancy.h"
#include "scope/trace_file.h"

/* What distinguishes kernels: name, geometry, resources of the code. No padding, because it is compared as bytes. */
typedef struct key {
    int64_t name;
    int32_t grid[3], block[3], regs, smem_static, smem_dynamic, local;
} key;
typedef struct kernel {
    key             key;
    mba_event       first;
    double          busy_ns;
    int64_t         named;
    const mba_rule *rule;
} kernel;

typedef struct storing {
    mba_store           *s;
    const mba_rules     *rules;
    const mba_machine   *machine;
    mba_foreign_summary *sum;
    mba_events           names;
    kernel              *kernel;
    int64_t              n, room;
    mba_lookup           place; // index of a kernel by its key
    mba_kernel_named    *named; // the distinct pairs of symbol and code
    mba_foreign_steps   *steps;
    bool                 marked; // NVTX ranges mark the steps
    int64_t              origin_ns, end_ns, nsteps, unclear;
    mba_trace_memory     memory;
    int64_t              failed; // the last failed allocation; the number of failures
} storing;

/* ---- kernels ---- */

static mba_status name_key(storing *x, key *k, const char *name, const int32_t *grid, const int32_t *block)
{
    *k = (key){ .name = mba_events_name(&x->names, name) };
    if (k->name < 0) return mba_fail(MBA_E_NOMEM, "no memory for names");
    memcpy(k->grid, grid, sizeof k->grid);
    memcpy(k->block, block, sizeof k->block);
    return MBA_OK;
}

static mba_status find(storing *x, const key *k, int64_t *out)
{
    const uint64_t hash = mba_hash(MBA_HASH_BEGIN, k, sizeof *k);
    int64_t        at = 0;
    while ((*out = mba_lookup_next(&x->place, hash, &at)) >= 0)
        if (!memcmp(&x->kernel[*out].key, k, sizeof *k)) return MBA_OK;
    kernel *more = mba_grow(x->kernel, x->n, &x->room, sizeof *more);
    if (more) x->kernel = more;
    if (!more || !mba_lookup_add(&x->place, hash))
        return mba_fail(MBA_E_NOMEM, "no memory for %lld kernels", (long long)x->n + 1);
    *out = x->n++;
    x->kernel[*out] = (kernel){ .key = *k, .rule = mba_rules_match(x->rules, x->names.names[k->name]) };
    return MBA_OK;
}

static mba_status find_event(storing *x, const mba_event *e, int64_t *out)
{
    key k;
    MBA_TRY(name_key(x, &k, e->name, e->grid, e->block));
    k.regs = e->regs, k.smem_static = e->smem_static, k.smem_dynamic = e->smem_dynamic, k.local = e->local;
    return find(x, &k, out);
}

/* Finds a kernel by what counter records have: name, geometry, dynamic shared memory. -1: several kernels match. */
static mba_status find_counted(storing *x, const mba_trace_counter *c, int64_t *out)
{
    key     k;
    int64_t fits = 0;
    MBA_TRY(name_key(x, &k, c->name, c->grid, c->block));
    for (int64_t i = 0; i < x->n; i++) {
        const key *o = &x->kernel[i].key;
        if (o->name != k.name || memcmp(o->grid, k.grid, sizeof k.grid) || memcmp(o->block, k.block, sizeof k.block))
            continue;
        if (o->regs && c->smem_dynamic >= 0 && o->smem_dynamic != c->smem_dynamic) continue;
        *out = i;
        fits++;
    }
    if (fits > 1) *out = -1;
    return fits ? MBA_OK : find(x, &k, out);
}

/* ---- names ---- */

/* Finds the distinct pairs of symbol and code, and names them (kernel_names.h). */
static mba_status name_kernels(storing *x)
{
    mba_lookup place = { 0 };
    int64_t    n = 0;
    bool       ok = (x->named = calloc((size_t)x->n + 1, sizeof *x->named)) != NULL;
    for (int64_t i = 0; i < x->n && ok; i++) {
        const key             *k = &x->kernel[i].key;
        const mba_kernel_named one = { .symbol = x->names.names[k->name],
                                       .code = { k->regs, k->smem_static, k->local } };
        const uint64_t hash = mba_hash(mba_hash(MBA_HASH_BEGIN, &k->name, sizeof k->name), one.code, sizeof one.code);
        int64_t        at = 0, found;
        while ((found = mba_lookup_next(&place, hash, &at)) >= 0
               && (x->named[found].symbol != one.symbol || memcmp(x->named[found].code, one.code, sizeof one.code)))
            continue;
        if (found < 0 && (ok = mba_lookup_add(&place, hash))) x->named[found = n++] = one;
        mba_assert(found < n);
        x->kernel[i].named = found;
    }
    mba_lookup_free(&place);
    return ok ? mba_kernel_names(x->named, n)
              : mba_fail(MBA_E_NOMEM, "no memory for the names of %lld kernels", (long long)x->n);
}

/* The phase, if the name of the operator says it. */
static const char *phase_of(const mba_rule *r)
{
    if (!r) return NULL;
    if (r->kind == MBA_OPTIMIZER) return "update";
    return strstr(r->op, "_bwd") ? "backward" : strstr(r->op, "_fwd") ? "forward" : NULL;
}

static mba_status put_kernel(storing *x, int64_t id)
{
    mba_assert(id >= 0 && id < x->n);
    const kernel    *k = &x->kernel[id];
    const mba_event *e = &k->first;
    mba_row_kernel   r = mba_no_kernel;
    r.id = id, r.name = x->named[k->named].name, r.symbol = x->names.names[k->key.name], r.phase = phase_of(k->rule);
    r.grid_x = k->key.grid[0], r.grid_y = k->key.grid[1], r.grid_z = k->key.grid[2];
    r.block_x = k->key.block[0], r.block_y = k->key.block[1], r.block_z = k->key.block[2];
    if (k->rule) r.op = k->rule->op, r.kind = mba_kind_name(k->rule->kind), r.rule = k->rule->pattern;
    if (e->regs) {
        r.regs = e->regs, r.smem_static_bytes = e->smem_static, r.smem_dynamic_bytes = e->smem_dynamic,
        r.local_bytes = e->local;
        r.cluster = e->cluster[0] > 0 ? (int64_t)e->cluster[0] * e->cluster[1] * e->cluster[2] : 1;
    }
    if (e->regs && x->machine) {
        const double        blocks = (double)r.grid_x * (double)r.grid_y * (double)r.grid_z;
        const mba_occupancy o = mba_occupancy_of(x->machine, e->regs, (int)(r.block_x * r.block_y * r.block_z),
                                                 (int64_t)e->smem_static + e->smem_dynamic, blocks);
        r.blocks_per_sm = o.blocks_per_sm, r.limiter = o.limiter, r.waves = o.waves, r.occupancy_limit = o.percent;
    }
    return mba_put_kernel(x->s, &r);
}

/* ---- records of the trace ---- */

static mba_status see_launch(void *ctx, const mba_event *e)
{
    storing *x = ctx;
    int64_t  k;
    if (e->start_ns < x->origin_ns) x->origin_ns = e->start_ns;
    if (e->end_ns > x->end_ns) x->end_ns = e->end_ns;
    x->marked |= e->step >= 0;
    if (e->kind != MBA_EVENT_KERNEL) return MBA_OK;
    MBA_TRY(find_event(x, e, &k));
    const mba_rule *rule = x->kernel[k].rule;
    return mba_foreign_steps_add(x->steps, e, k, x->kernel[k].key.name, rule && rule->kind == MBA_OPTIMIZER);
}

static mba_status see_event(void *ctx, const mba_event *e)
{
    static const char *const what[MBA_EVENT_KINDS] = { "kernel", "copy", "memset" };
    storing                 *x = ctx;
    mba_row_event            r = mba_no_event;
    const int64_t            step = x->marked ? e->step : mba_foreign_steps_of(x->steps, e);
    r.id = x->sum->events++, r.what = what[e->kind], r.start_ns = e->start_ns - x->origin_ns,
    r.duration_ns = e->end_ns - e->start_ns;
    r.stream = e->stream;
    if (step >= 0) r.step = step;
    if (e->graph) r.graph_node = (int64_t)(e->graph_node & INT64_MAX);
    if (e->kind == MBA_EVENT_KERNEL) {
        MBA_TRY(find_event(x, e, &r.kernel));
        mba_assert(r.kernel >= 0 && r.kernel < x->n && r.duration_ns >= 0);
        kernel *k = &x->kernel[r.kernel];
        if (!k->first.regs) k->first = *e;
        k->busy_ns += (double)r.duration_ns;
        r.phase = phase_of(k->rule);
    } else {
        r.bytes = (double)e->bytes;
    }
    return mba_put_event(x->s, &r);
}

static mba_status see_counter(void *ctx, const mba_trace_counter *c)
{
    storing        *x = ctx;
    mba_row_counter r = mba_no_counter;
    MBA_TRY(find_counted(x, c, &r.kernel));
    if (r.kernel < 0) {
        x->unclear++;
        return MBA_OK;
    }
    r.metric = c->metric, r.value = c->value, r.unit = mba_metric_unit(c->metric), r.metric_set = c->set,
    r.launches = c->launches;
    return mba_put_counter(x->s, &r);
}

static mba_status see_memory(void *ctx, const mba_trace_memory *m)
{
    storing *x = ctx;
    x->memory = *m;
    x->failed++;
    return MBA_OK;
}

static mba_status see_cost(void *ctx, const mba_trace_cost *c)
{
    mba_row_collection r = mba_no_collection;
    r.mode = "counters", r.metric_set = c->set, r.passes = c->passes, r.seconds = c->seconds, r.kernels = c->launches;
    return mba_put_collection(((storing *)ctx)->s, &r);
}

/* The steps in which nothing is recorded follow each other: the window of the energy meter. */
static mba_status see_step(void *ctx, const char *mode, double seconds, int64_t end_ns)
{
    storing            *x = ctx;
    mba_row_step        r = mba_no_step;
    mba_foreign_window *w = &x->sum->attached;
    if (!strcmp(mode, "attached")) {
        const double end_s = 1e-9 * (double)end_ns;
        if (!w->steps++) w->from_s = end_s - seconds;
        w->to_s = end_s;
    }
    r.mode = mode, r.place = x->nsteps++, r.seconds = seconds;
    return mba_put_step(x->s, &r);
}

static mba_status see_note(void *ctx, const char *topic, const char *text)
{
    storing    *x = ctx;
    const char *fix = strstr(text, " fix: ");
    if (!*x->sum->note) snprintf(x->sum->note, sizeof x->sum->note, "%s: %s", topic, text);
    return mba_note_missing(x->s, topic, text, fix ? fix + 6 : "");
}

/* ---- all of it ---- */

static mba_status read_file(storing *x, const char *path, mba_trace_reader *r)
{
    FILE *f = fopen(path, "r");
    if (!f)
        return mba_fail(MBA_E_IO,
                        "the process left no trace\nwhy: %s: %s\nfix: check that it uses CUDA; `mambascope doctor` "
                        "checks the driver",
                        path, strerror(errno));
    r->ctx = x;
    const mba_status st = mba_trace_read(r, path, f);
    fclose(f);
    return st;
}

static mba_status put_summary(storing *x)
{
    char          text[512];
    const kernel *worst = NULL;
    for (int64_t i = 0; i < x->n; i++) {
        const kernel *k = &x->kernel[i];
        x->sum->busy_ns += k->busy_ns;
        if (k->rule) x->sum->classified_ns += k->busy_ns;
        else if (!worst || k->busy_ns > worst->busy_ns) worst = k;
    }
    x->sum->kernels = x->n;
    mba_assert(x->sum->classified_ns <= x->sum->busy_ns);
    if (!worst || x->sum->busy_ns <= 0) return MBA_OK;
    snprintf(text, sizeof text, "%.2f %% of the kernel time has a rule; the longest kernel without one: %.200s",
             100 * x->sum->classified_ns / x->sum->busy_ns, x->names.names[worst->key.name]);
    return mba_note_missing(x->s, "rules", text, "add a line for it to a rules file and give it with --rules");
}

/* ---- steps ---- */

/* Writes what a step is: an NVTX range, a loop that was found, or the whole program. */
static mba_status put_steps(storing *x)
{
    const mba_foreign_loop l = mba_foreign_steps_loop(x->steps);
    char                   text[320];
    if (x->marked) return mba_env_put_text(x->s, "run.loop", "given", "range");
    MBA_TRY(mba_env_put_text(x->s, "run.loop", "found", "%s", l.n ? "found" : "whole program"));
    if (!l.n)
        return mba_note_missing(x->s, "steps", "whole program: no loop was found, so a step is the whole recorded part",
                                "mark the steps of the program with an NVTX range and give --range NAME");
    for (int64_t i = 0; i < l.n; i++) {
        mba_row_step r = mba_no_step;
        r.mode = "timeline", r.place = i, r.seconds = mba_foreign_steps_seconds(x->steps, i);
        if (r.seconds == r.seconds) MBA_TRY(mba_put_step(x->s, &r));
    }
    MBA_TRY(mba_env_put_number(x->s, "loop.steps", "found", (double)l.found, ""));
    MBA_TRY(mba_env_put_number(x->s, "loop.launches", "found", (double)l.length, ""));
    snprintf(text, sizeof text,
             "%lld steps were detected, not marked: the same %lld launches%s, in sequence, "
             "with %.0f %% of the kernel time; launches outside of them (start, other work, an incomplete step) "
             "belong to no step%s",
             (long long)l.found, (long long)l.length, l.by_name ? ", by name, of varying grids" : "", 100 * l.of_time,
             l.n < l.found ? "; the first 4096 are distinguished"
             : l.beyond    ? "; later launches were not searched"
                           : "");
    return mba_put_note(x->s, &(mba_row_note){
                                  .topic = "steps",
                                  .severity = "note",
                                  .text = text,
                                  .fix = "if a step is another stretch: an NVTX range around it and --range NAME" });
}

/* ---- how it ended ---- */

/* Notes what is missing of a killed process: the events that CUPTI had not delivered. */
static mba_status put_missing(storing *x, const mba_trace_reader *all, const mba_child_end *end)
{
    char         text[256];
    const double now_ns = end && all->alive_ns ? (double)(end->ended_ns - all->alive_ns + all->alive_device_ns) : NAN;
    const double missing_s = x->sum->events ? 1e-9 * (now_ns - (double)x->end_ns) : NAN;
    const double seen_s = 1e-9 * (double)(x->end_ns - x->origin_ns);
    if (all->recorded) {
        snprintf(text, sizeof text,
                 "interrupted: the process did not end by itself; its timeline is complete, "
                 "the last counters are missing");
    } else if (!(missing_s >= 0)) {
        snprintf(text, sizeof text,
                 "interrupted: the process did not end by itself, the last part of its timeline is missing");
    } else {
        const double rate = seen_s > 0 ? (double)x->sum->events / seen_s : 0;
        MBA_TRY(mba_env_put_number(x->s, "run.missing", "measured", missing_s, "s"));
        snprintf(text, sizeof text,
                 "interrupted: the process did not end by itself; %lld events of %.3f s are "
                 "stored, its last %.3f s are missing: at most about %.0f events",
                 (long long)x->sum->events, seen_s, missing_s, rate * missing_s);
    }
    snprintf(x->sum->missing, sizeof x->sum->missing, "%s", text);
    return mba_note_missing(x->s, "trace", text, "");
}

static mba_status put_memory(storing *x)
{
    const mba_trace_memory *m = &x->memory;
    char                    text[320], had[96] = "how much was free is not known";
    if (!x->failed) return MBA_OK;
    if (m->total > 0)
        snprintf(had, sizeof had, "%s of %s were free", mba_size_of((double)m->free).text,
                 mba_size_of((double)m->total).text);
    snprintf(text, sizeof text, "the GPU ran out of memory %lld time%s; the last request was for %s, %s",
             (long long)x->failed, x->failed == 1 ? "" : "s", mba_size_of((double)m->asked).text, had);
    snprintf(x->sum->memory, sizeof x->sum->memory, "%s", text);
    MBA_TRY(mba_env_put_number(x->s, "memory.asked", "read", (double)m->asked, "byte"));
    if (m->total > 0) {
        MBA_TRY(mba_env_put_number(x->s, "memory.free", "read", (double)m->free, "byte"));
        MBA_TRY(mba_env_put_number(x->s, "memory.total", "read", (double)m->total, "byte"));
    }
    return mba_note_missing(x->s, "memory", text,
                            "use a smaller batch or sequence in the program, or end other "
                            "programs on this GPU (nvidia-smi lists them)");
}

static mba_status put_rest(storing *x, const mba_trace_reader *all, const mba_child_end *end)
{
    char text[160];
    for (int64_t i = 0; i < x->n; i++) MBA_TRY(put_kernel(x, i));
    MBA_TRY(put_summary(x));
    MBA_TRY(put_steps(x));
    MBA_TRY(put_memory(x));
    if (!all->complete) MBA_TRY(put_missing(x, all, end));
    if (x->unclear) {
        snprintf(text, sizeof text, "%lld counters are left out: several kernels have their name, grid and block",
                 (long long)x->unclear);
        MBA_TRY(mba_note_missing(x->s, "counters", text, ""));
    }
    if (!all->dropped) return MBA_OK;
    snprintf(text, sizeof text, "CUPTI dropped %lld records", (long long)all->dropped);
    return mba_note_missing(x->s, "trace", text, "fewer launches at a time: --launches N");
}

mba_status mba_foreign_store(mba_store *s, const char *path, const mba_rules *rules, const mba_machine *m,
                             const mba_child_end *end, mba_foreign_summary *out)
{
    storing          x = { .s = s, .rules = rules, .machine = m, .sum = out, .origin_ns = INT64_MAX };
    mba_trace_reader first = { .event = see_launch }, all = { .event = see_event };
    mba_trace_reader rest = {
        .counter = see_counter, .cost = see_cost, .step = see_step, .note = see_note, .memory = see_memory
    };
    *out = (mba_foreign_summary){ 0 };
    mba_status st = mba_foreign_steps_create(&x.steps);
    if (st == MBA_OK) st = read_file(&x, path, &first);
    if (st == MBA_OK && !x.marked) st = mba_foreign_steps_find(x.steps);
    if (st == MBA_OK) st = read_file(&x, path, &all);
    if (st == MBA_OK) st = read_file(&x, path, &rest);
    if (st == MBA_OK) st = name_kernels(&x);
    if (st == MBA_OK) st = put_rest(&x, &all, end);
    if (st == MBA_OK) out->loop = mba_foreign_steps_loop(x.steps);
    out->complete = all.complete;
    out->marked = x.marked;
    mba_foreign_steps_destroy(x.steps);
    mba_events_free(&x.names);
    free(x.kernel);
    free(x.named);
    mba_lookup_free(&x.place);
    return st;
}
