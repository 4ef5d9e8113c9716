/* foreign_store.c -- see foreign_store.h. */
#include "scope/foreign_store.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/lookup.h"
#include "core/print.h"
#include "scope/metrics.h"
#include "scope/occupancy.h"
#include "scope/trace_file.h"

/* A distinct kernel. Compared as bytes: no padding. */
typedef struct key { int64_t name; int32_t grid[3], block[3]; } key;
typedef struct kernel { key key; mba_event first; double busy_ns; const mba_rule *rule; } kernel;

typedef struct storing {
    mba_store           *s;
    const mba_rules     *rules;
    const mba_machine   *machine;
    mba_foreign_summary *sum;
    mba_events           names;
    kernel              *kernel;   int64_t n, room;
    mba_lookup           place;                    // of a kernel, by its key
    int64_t              origin_ns, nsteps;
} storing;

/* ---- kernels ---- */

static mba_status find(storing *x, const char *name, const int32_t *grid, const int32_t *block, int64_t *out)
{
    key k = { .name = mba_events_name(&x->names, name) };
    if (k.name < 0) return mba_fail(MBA_E_NOMEM, "no memory for names");
    memcpy(k.grid, grid, sizeof k.grid);
    memcpy(k.block, block, sizeof k.block);
    const uint64_t hash = mba_hash(MBA_HASH_BEGIN, &k, sizeof k);
    int64_t        at = 0;
    while ((*out = mba_lookup_next(&x->place, hash, &at)) >= 0)
        if (!memcmp(&x->kernel[*out].key, &k, sizeof k)) return MBA_OK;
    kernel *more = mba_grow(x->kernel, x->n, &x->room, sizeof *more);
    if (more) x->kernel = more;
    if (!more || !mba_lookup_add(&x->place, hash))
        return mba_fail(MBA_E_NOMEM, "no memory for %lld kernels", (long long)x->n + 1);
    *out = x->n++;
    x->kernel[*out] = (kernel){ .key = k, .rule = mba_rules_match(x->rules, name) };
    return MBA_OK;
}

/* Forward or backward, where the name of the operator says so. */
static const char *phase_of(const mba_rule *r)
{
    if (!r) return NULL;
    if (r->kind == MBA_OPTIMIZER) return "update";
    return strstr(r->op, "_bwd") ? "backward" : strstr(r->op, "_fwd") ? "forward" : NULL;
}

static mba_status put_kernel(storing *x, int64_t id)
{
    const kernel    *k = &x->kernel[id];
    const mba_event *e = &k->first;
    const char      *symbol = x->names.names[k->key.name];
    char             name[256];
    mba_row_kernel   r = mba_no_kernel;
    mba_kernel_short(name, sizeof name, symbol);
    r.id = id, r.name = name, r.symbol = symbol, r.phase = phase_of(k->rule);
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

/* ---- what the trace has ---- */

static mba_status see_start(void *ctx, const mba_event *e)
{
    storing *x = ctx;
    if (e->start_ns < x->origin_ns) x->origin_ns = e->start_ns;
    return MBA_OK;
}

static mba_status see_event(void *ctx, const mba_event *e)
{
    static const char *const what[MBA_EVENT_KINDS] = { "kernel", "copy", "memset" };
    storing      *x = ctx;
    mba_row_event r = mba_no_event;
    r.id = x->sum->events++, r.what = what[e->kind], r.start_ns = e->start_ns - x->origin_ns,
    r.duration_ns = e->end_ns - e->start_ns;
    r.stream = e->stream;
    if (e->step >= 0) r.step = e->step;
    if (e->graph) r.graph_node = (int64_t)(e->graph_node & INT64_MAX);
    if (e->kind == MBA_EVENT_KERNEL) {
        MBA_TRY(find(x, e->name, e->grid, e->block, &r.kernel));
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
    MBA_TRY(find(x, c->name, c->grid, c->block, &r.kernel));
    r.metric = c->metric, r.value = c->value, r.unit = mba_metric_unit(c->metric), r.metric_set = c->set,
    r.launches = c->launches;
    return mba_put_counter(x->s, &r);
}

static mba_status see_cost(void *ctx, const mba_trace_cost *c)
{
    mba_row_collection r = mba_no_collection;
    r.mode = "counters", r.metric_set = c->set, r.passes = c->passes, r.seconds = c->seconds, r.kernels = c->launches;
    return mba_put_collection(((storing *)ctx)->s, &r);
}

static mba_status see_step(void *ctx, const char *mode, double seconds)
{
    storing     *x = ctx;
    mba_row_step r = mba_no_step;
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
        return mba_fail(
            MBA_E_IO,
            "the process left no trace\nwhy: %s: %s\nfix: does it use CUDA? `mambascope doctor` looks at the driver",
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
    if (!worst || x->sum->busy_ns <= 0) return MBA_OK;
    snprintf(text, sizeof text, "%.2f %% of the kernels' time has a rule; the longest without one: %.200s",
             100 * x->sum->classified_ns / x->sum->busy_ns, x->names.names[worst->key.name]);
    return mba_note_missing(x->s, "rules", text, "add a line for it to a rules file and give it with --rules");
}

mba_status mba_foreign_store(mba_store *s, const char *path, const mba_rules *rules, const mba_machine *m,
                             mba_foreign_summary *out)
{
    storing          x = { .s = s, .rules = rules, .machine = m, .sum = out, .origin_ns = INT64_MAX };
    mba_trace_reader first = { .event = see_start };
    mba_trace_reader all = { .event = see_event, .counter = see_counter, .cost = see_cost, .step = see_step,
                             .note = see_note };
    *out = (mba_foreign_summary){ 0 };
    mba_status st = read_file(&x, path, &first);
    if (st == MBA_OK) st = read_file(&x, path, &all);
    for (int64_t i = 0; i < x.n && st == MBA_OK; i++) st = put_kernel(&x, i);
    if (st == MBA_OK) st = put_summary(&x);
    if (st == MBA_OK && !all.complete)
        st = mba_note_missing(s, "trace",
                              "the process was ended from outside: the last part of its timeline is missing", "");
    if (st == MBA_OK && all.dropped) {
        char text[64];
        snprintf(text, sizeof text, "CUPTI dropped %lld records", (long long)all.dropped);
        st = mba_note_missing(s, "trace", text, "fewer launches at a time: --launches N");
    }
    out->complete = all.complete;
    mba_events_free(&x.names);
    free(x.kernel);
    mba_lookup_free(&x.place);
    return st;
}
