// SPDX-License-Identifier: Apache-2.0
/* trace_file.c -- see trace_file.h: reads the trace line by line, and writes it. */
#include "scope/trace_file.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/lookup.h"

/* ---- reading ---- */

typedef struct line {
    char *at;
    bool  bad;
} line; // the rest of the line; bad stays set after an error

static char *word(line *l)
{
    char *p = l->at + strspn(l->at, " "), *end = p + strcspn(p, " ");
    if (!*p) l->bad = true;
    l->at = *end ? end + 1 : end;
    *end = 0;
    return p;
}

static int64_t integer(line *l, int64_t low, int64_t high)
{
    const char *w = word(l);
    char       *end;
    errno = 0;
    const long long v = strtoll(w, &end, 10);
    if (end == w || *end || errno || v < low || v > high) l->bad = true;
    return l->bad ? low : v;
}

static uint64_t natural(line *l)
{
    const char *w = word(l);
    char       *end;
    errno = 0;
    const unsigned long long v = strtoull(w, &end, 10);
    if (end == w || *end || errno || *w == '-') l->bad = true;
    return l->bad ? 0 : v;
}

static double real(line *l)
{
    const char  *w = word(l);
    char        *end;
    const double v = strtod(w, &end);
    if (end == w || *end) l->bad = true;
    return v;
}

/* Limit of a dimension of a block or cluster, so that products of three do not overflow. */
enum { BLOCK_MOST = 1024 };

static void triple(line *l, int32_t out[3], int32_t most)
{
    for (int i = 0; i < 3; i++) out[i] = (int32_t)integer(l, 0, most);
}

typedef struct reading {
    mba_trace_reader *r;
    mba_events        names;
    const char      **of;
    int64_t           nof, room;
} reading;

static const char *name_of(reading *g, line *l)
{
    const int64_t k = integer(l, 0, MBA_TRACE_NAMES_MAX);
    if (k >= g->nof || !g->of[k]) l->bad = true;
    return l->bad ? "" : g->of[k];
}

static mba_status read_name(reading *g, line *l)
{
    const int64_t k = integer(l, 0, MBA_TRACE_NAMES_MAX - 1);
    if (k != g->nof || !*l->at) l->bad = true;
    if (l->bad) return MBA_OK;
    const char  **more = mba_grow(g->of, g->nof, &g->room, sizeof *more);
    const int64_t name = mba_events_name(&g->names, l->at);
    if (more) g->of = more;
    if (!more || name < 0) return mba_fail(MBA_E_NOMEM, "no memory for names");
    g->of[g->nof++] = g->names.names[name];
    return MBA_OK;
}

static mba_status read_event(reading *g, line *l, mba_event_kind kind)
{
    mba_event e = { .kind = kind, .name = name_of(g, l), .node = -1, .launch = -1 };
    e.step = (int32_t)integer(l, -1, INT32_MAX);
    e.start_ns = integer(l, 0, INT64_MAX);
    e.end_ns = integer(l, 0, INT64_MAX);
    e.stream = (int32_t)integer(l, INT32_MIN, INT32_MAX);
    e.device = (int32_t)integer(l, INT32_MIN, INT32_MAX);
    e.correlation = (uint32_t)integer(l, 0, UINT32_MAX);
    e.graph = (uint32_t)integer(l, 0, UINT32_MAX);
    e.graph_node = natural(l);
    if (kind == MBA_EVENT_KERNEL) {
        triple(l, e.grid, INT32_MAX);
        triple(l, e.block, BLOCK_MOST);
        triple(l, e.cluster, BLOCK_MOST);
        e.regs = (int32_t)integer(l, 0, INT32_MAX);
        e.smem_static = (int32_t)integer(l, 0, INT32_MAX);
        e.smem_dynamic = (int32_t)integer(l, 0, INT32_MAX);
        e.local = (int32_t)integer(l, 0, INT32_MAX);
    } else {
        e.bytes = integer(l, 0, INT64_MAX);
    }
    if (e.end_ns < e.start_ns) l->bad = true;
    return l->bad || !g->r->event ? MBA_OK : g->r->event(g->r->ctx, &e);
}

static mba_status read_counter(reading *g, line *l)
{
    mba_trace_counter c = { .name = name_of(g, l) };
    triple(l, c.grid, INT32_MAX);
    triple(l, c.block, BLOCK_MOST);
    c.smem_dynamic = (int32_t)integer(l, -1, INT32_MAX);
    c.launches = integer(l, 1, INT64_MAX);
    c.set = word(l);
    c.metric = word(l);
    c.value = real(l);
    return l->bad || !g->r->counter ? MBA_OK : g->r->counter(g->r->ctx, &c);
}

static mba_status read_cost(reading *g, line *l)
{
    mba_trace_cost c = { .set = word(l), .passes = integer(l, 0, INT64_MAX) };
    c.seconds = real(l);
    c.launches = integer(l, 0, INT64_MAX);
    if (!(c.seconds >= 0 && isfinite(c.seconds))) l->bad = true;
    return l->bad || !g->r->cost ? MBA_OK : g->r->cost(g->r->ctx, &c);
}

static mba_status read_step(reading *g, line *l)
{
    const char  *mode = word(l);
    const double seconds = real(l);
    if (!(seconds >= 0 && isfinite(seconds))) l->bad = true;
    const int64_t end_ns = integer(l, 0, INT64_MAX);
    return l->bad || !g->r->step ? MBA_OK : g->r->step(g->r->ctx, mode, seconds, end_ns);
}

static mba_status read_note(reading *g, line *l)
{
    const char *topic = word(l);
    return l->bad || !g->r->note ? MBA_OK : g->r->note(g->r->ctx, topic, l->at);
}

static mba_status read_memory(reading *g, line *l)
{
    mba_trace_memory m = { .asked = integer(l, 0, INT64_MAX) };
    m.free = integer(l, -1, INT64_MAX);
    m.total = integer(l, -1, INT64_MAX);
    return l->bad || !g->r->memory ? MBA_OK : g->r->memory(g->r->ctx, &m);
}

static mba_status read_alive(reading *g, line *l)
{
    const int64_t now = integer(l, 0, INT64_MAX), device = integer(l, 0, INT64_MAX), records = integer(l, 0, 1);
    if (l->bad) return MBA_OK;
    g->r->alive_ns = now;
    g->r->alive_device_ns = device;
    g->r->recorded = !records;
    return MBA_OK;
}

static mba_status read_line(reading *g, line *l)
{
    const char *what = word(l);
    if (!strcmp(what, "kernel")) return read_event(g, l, MBA_EVENT_KERNEL);
    if (!strcmp(what, "copy")) return read_event(g, l, MBA_EVENT_COPY);
    if (!strcmp(what, "set")) return read_event(g, l, MBA_EVENT_SET);
    if (!strcmp(what, "name")) return read_name(g, l);
    if (!strcmp(what, "counter")) return read_counter(g, l);
    if (!strcmp(what, "cost")) return read_cost(g, l);
    if (!strcmp(what, "step")) return read_step(g, l);
    if (!strcmp(what, "note")) return read_note(g, l);
    if (!strcmp(what, "memory")) return read_memory(g, l);
    if (!strcmp(what, "alive")) return read_alive(g, l);
    if (!strcmp(what, "end")) {
        g->r->dropped = integer(l, 0, INT64_MAX);
        g->r->complete = !l->bad;
        return MBA_OK;
    }
    l->bad = true;
    return MBA_OK;
}

static mba_status bad(const char *name, int64_t number, const char *why)
{
    return mba_fail(MBA_E_FORMAT,
                    "cannot read the trace '%s'\nwhy: line %lld: %s\nfix: profile again; `mambascope profile -- "
                    "CMD` writes the file",
                    name, (long long)number, why);
}

/* A last line without its end was cut when the process was killed: it is skipped. */
static mba_status read_lines(reading *g, const char *name, FILE *f, char *text)
{
    for (int64_t number = 1; fgets(text, MBA_TRACE_LINE_MAX, f); number++) {
        const size_t n = strlen(text);
        if (!n || text[n - 1] != '\n') {
            if (n + 1 == MBA_TRACE_LINE_MAX || !feof(f))
                return bad(name, number, "a line is too long, or has zero bytes");
            return MBA_OK;
        }
        text[n - 1] = 0;
        line l = { text, false };
        if (g->r->complete) return bad(name, number, "something follows the end");
        if (number == 1) {
            if (strcmp(text, "mambascope-trace 2")) return bad(name, 1, "it does not begin with 'mambascope-trace 2'");
            continue;
        }
        MBA_TRY(read_line(g, &l));
        if (l.bad) return bad(name, number, "a word or a number is not as it should be");
    }
    return MBA_OK;
}

mba_status mba_trace_read(mba_trace_reader *r, const char *name, FILE *f)
{
    reading g = { .r = r };
    char   *text = malloc(MBA_TRACE_LINE_MAX);
    r->complete = false;
    r->recorded = false;
    r->dropped = r->alive_ns = r->alive_device_ns = 0;
    const mba_status st = text ? read_lines(&g, name, f, text) : mba_fail(MBA_E_NOMEM, "no memory to read '%s'", name);
    mba_events_free(&g.names);
    free(g.of);
    free(text);
    return st;
}

/* ---- writing ---- */

mba_status mba_trace_create(mba_trace_writer *w, const char *path)
{
    *w = (mba_trace_writer){ .f = fopen(path, "wx") }; // exclusive: only one of two processes creates it
    if (!w->f) return mba_fail(MBA_E_IO, "cannot write the trace '%s'\nwhy: %s", path, strerror(errno));
    setvbuf(w->f, NULL, _IOFBF, 1 << 16);
    fputs("mambascope-trace 2\n", w->f);
    fflush(w->f);
    return MBA_OK;
}

/* The number of a name, which is written at its first use. Names are cut to fit into a line: kernels of template
 * libraries can exceed it. */
static int64_t number_of(mba_trace_writer *w, const char *name)
{
    const int64_t was = w->names.nnames, k = mba_events_name(&w->names, name);
    if (k == was) fprintf(w->f, "name %" PRId64 " %.32000s\n", k, name);
    mba_assert(k < w->names.nnames);
    return k < 0 ? 0 : k;
}

void mba_trace_event(mba_trace_writer *w, const mba_event *e)
{
    static const char *const what[MBA_EVENT_KINDS] = { "kernel", "copy", "set" };
    mba_assert(w->f && e->kind < MBA_EVENT_KINDS);
    const int64_t k = number_of(w, e->name && *e->name ? e->name : "?");
    fprintf(w->f, "%s %" PRId64 " %d %" PRId64 " %" PRId64 " %d %d %u %u %" PRIu64, what[e->kind], k, e->step,
            e->start_ns, e->end_ns, e->stream, e->device, e->correlation, e->graph, e->graph_node);
    if (e->kind == MBA_EVENT_KERNEL)
        fprintf(w->f, " %d %d %d %d %d %d %d %d %d %d %d %d %d\n", e->grid[0], e->grid[1], e->grid[2], e->block[0],
                e->block[1], e->block[2], e->cluster[0], e->cluster[1], e->cluster[2], e->regs, e->smem_static,
                e->smem_dynamic, e->local);
    else fprintf(w->f, " %" PRId64 "\n", e->bytes);
}

void mba_trace_counter_row(mba_trace_writer *w, const mba_trace_counter *c)
{
    const int64_t k = number_of(w, c->name);
    fprintf(w->f, "counter %" PRId64 " %d %d %d %d %d %d %d %" PRId64 " %s %s %.17g\n", k, c->grid[0], c->grid[1],
            c->grid[2], c->block[0], c->block[1], c->block[2], c->smem_dynamic, c->launches, c->set, c->metric,
            c->value);
}

void mba_trace_cost_row(mba_trace_writer *w, const mba_trace_cost *c)
{
    fprintf(w->f, "cost %s %" PRId64 " %.9g %" PRId64 "\n", c->set, c->passes, c->seconds, c->launches);
    fflush(w->f);
}

void mba_trace_step(mba_trace_writer *w, const char *mode, double seconds, int64_t end_ns)
{
    fprintf(w->f, "step %s %.9g %" PRId64 "\n", mode, seconds, end_ns);
}

void mba_trace_memory_row(mba_trace_writer *w, const mba_trace_memory *m)
{
    fprintf(w->f, "memory %" PRId64 " %" PRId64 " %" PRId64 "\n", m->asked, m->free, m->total);
    fflush(w->f);
}

/* Marks that the process is alive, and flushes, so that the file has everything should the process be killed. */
void mba_trace_alive(mba_trace_writer *w, int64_t now_ns, int64_t device_ns, bool records)
{
    fprintf(w->f, "alive %" PRId64 " %" PRId64 " %d\n", now_ns, device_ns, records);
    fflush(w->f);
}

void mba_trace_note(mba_trace_writer *w, const char *topic, const char *text)
{
    fprintf(w->f, "note %s ", topic);
    for (; *text; text++) fputc(*text == '\n' ? ' ' : *text, w->f);
    fputc('\n', w->f);
    fflush(w->f);
}

void mba_trace_end(mba_trace_writer *w, int64_t dropped)
{
    if (!w->f) return;
    fprintf(w->f, "end %" PRId64 "\n", dropped);
    fclose(w->f);
    mba_events_free(&w->names);
    w->f = NULL;
}
