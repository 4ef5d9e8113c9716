// SPDX-License-Identifier: Apache-2.0
/* export_trace.c -- see export.h: writes the timeline in the trace event format, one lane per stream and per SM.
 *
 * Slices of a lane must nest or be disjoint; viewers drop or cut others. A kernel that starts before the previous one
 * on its stream ends (dependent launch) and blocks that share an SM go to a second lane of the stream or SM. */
#include <stdlib.h>

#include "scope/export.h"

enum { STREAMS = 1, SMS = 2 };                 /* the two processes of the trace */
enum { BESIDE_MAX = 64, MORE_TIDS = 1 << 24 }; /* lanes of one stream or SM; first thread id of additional lanes */

typedef struct lane {
    int     process, beside;
    int64_t of, tid;
    double  end_ns;
} lane;

typedef struct tracing {
    FILE                 *f;
    const mba_row_kernel *kernel;
    int64_t               nkernels;
    const mba_row_node   *node;
    int64_t               nnodes;
    int64_t              *began; /* per kernel: start of its first event; MBA_ABSENT: none */
    lane                 *lane;
    size_t                nlanes, room;
} tracing;

static const mba_row_kernel *kernel_of(const tracing *t, int64_t id)
{
    const int64_t k = mba_store_find(MBA_ROWS_kernel, t->kernel, t->nkernels, id);
    return k < 0 ? NULL : &t->kernel[k];
}

static const mba_row_node *node_of(const tracing *t, int64_t id)
{
    const int64_t k = mba_store_find(MBA_ROWS_node, t->node, t->nnodes, id);
    return k < 0 ? NULL : &t->node[k];
}

static void name_lane(tracing *t, const lane *l)
{
    fprintf(t->f, ",\n{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":%d,\"tid\":%lld,\"args\":{\"name\":\"%s %lld",
            l->process, (long long)l->tid, l->process == STREAMS ? "stream" : "SM", (long long)l->of);
    if (l->beside) fprintf(t->f, " (%d)", l->beside + 1);
    fprintf(t->f,
            "\"}},\n{\"name\":\"thread_sort_index\",\"ph\":\"M\",\"pid\":%d,\"tid\":%lld,\"args\":"
            "{\"sort_index\":%lld}}",
            l->process, (long long)l->tid, (long long)(l->of % (MORE_TIDS / BESIDE_MAX) * BESIDE_MAX + l->beside));
}

/* The first lane of a stream or SM that is free at start_ns, or a new one; the last one if BESIDE_MAX are in use. */
static mba_status find_lane(tracing *t, int process, int64_t of, double start_ns, lane **out)
{
    int beside = 0;
    for (size_t i = 0; i < t->nlanes; i++) {
        lane *l = &t->lane[i];
        if (l->process != process || l->of != of) continue;
        *out = l;
        if (l->end_ns <= start_ns || ++beside == BESIDE_MAX) return MBA_OK;
    }
    if (t->nlanes == t->room) {
        t->room = 2 * t->room + 64;
        lane *more = realloc(t->lane, t->room * sizeof *more);
        if (!more) return mba_fail(MBA_E_NOMEM, "no memory for %zu lanes", t->room);
        t->lane = more;
    }
    t->lane[t->nlanes] = (lane){ process, beside, of, beside ? MORE_TIDS + (int64_t)t->nlanes : of, 0 };
    *out = &t->lane[t->nlanes++];
    mba_assert(t->nlanes <= t->room && beside < BESIDE_MAX);
    name_lane(t, *out);
    return MBA_OK;
}

static void text_arg(FILE *f, const char *name, const char *text)
{
    if (!text) return;
    fprintf(f, ",\"%s\":", name);
    mba_export_string(f, text);
}

/* Writes a complete event; the format has microseconds. */
static mba_status slice(tracing *t, int process, int64_t of, const char *name, const char *category, double start_ns,
                        double duration_ns)
{
    lane *l = NULL;
    MBA_TRY(find_lane(t, process, of, start_ns, &l));
    l->end_ns = start_ns + duration_ns > l->end_ns ? start_ns + duration_ns : l->end_ns;
    fputs(",\n{\"name\":", t->f);
    mba_export_string(t->f, name);
    fputs(",\"cat\":", t->f);
    mba_export_string(t->f, category ? category : "other");
    fprintf(t->f, ",\"ph\":\"X\",\"pid\":%d,\"tid\":%lld,\"ts\":%.3f,\"dur\":%.3f", process, (long long)l->tid,
            1e-3 * start_ns, 1e-3 * duration_ns);
    return MBA_OK;
}

static mba_status trace_event(void *ctx, const void *row)
{
    tracing              *t = ctx;
    const mba_row_event  *e = row;
    const mba_row_kernel *k = kernel_of(t, e->kernel);
    const mba_row_node   *n = node_of(t, e->node);
    const char           *name = k && k->name ? k->name : e->what ? e->what : "event";
    if (e->start_ns == MBA_ABSENT || e->duration_ns == MBA_ABSENT) return MBA_OK;
    if (k && t->began[k - t->kernel] == MBA_ABSENT) t->began[k - t->kernel] = e->start_ns;
    MBA_TRY(slice(t, STREAMS, e->stream == MBA_ABSENT ? 0 : e->stream, name, k ? k->kind : "memory",
                  (double)e->start_ns, (double)e->duration_ns));
    fprintf(t->f, ",\"args\":{\"event\":%lld", (long long)e->id);
    if (e->step != MBA_ABSENT) fprintf(t->f, ",\"step\":%lld", (long long)e->step);
    text_arg(t->f, "phase", e->phase);
    if (n) text_arg(t->f, "operator", n->op);
    if (n) text_arg(t->f, "scope", n->scope);
    if (k) text_arg(t->f, "shape", k->shape);
    fputs("}}", t->f);
    return MBA_OK;
}

/* Writes a recorded block. Its times are relative to its kernel, so it is placed at the kernel's first event. Blocks
 * are recorded in a separate run and may end later than the kernel does in the timeline. */
static mba_status trace_block(void *ctx, const void *row)
{
    tracing              *t = ctx;
    const mba_row_block  *b = row;
    const mba_row_kernel *k = kernel_of(t, b->kernel);
    const int64_t         began = k ? t->began[k - t->kernel] : MBA_ABSENT;
    if (b->start_ns == MBA_ABSENT || b->end_ns == MBA_ABSENT || b->sm == MBA_ABSENT) return MBA_OK;
    MBA_TRY(slice(t, SMS, b->sm, k && k->name ? k->name : "block", k ? k->kind : NULL,
                  (began == MBA_ABSENT ? 0 : (double)began) + (double)b->start_ns,
                  (double)b->end_ns - (double)b->start_ns));
    fprintf(t->f, ",\"args\":{\"block\":%lld}}", (long long)b->block);
    return MBA_OK;
}

static mba_status write_all(tracing *t, mba_store *s)
{
    for (int64_t i = 0; i < t->nkernels; i++) t->began[i] = MBA_ABSENT;
    fprintf(t->f,
            "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n"
            "{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":%d,\"args\":{\"name\":\"timeline\"}},\n"
            "{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":%d,\"args\":{\"name\":\"blocks by SM\"}}",
            STREAMS, SMS);
    MBA_TRY(mba_store_each(s, MBA_ROWS_event, "start_ns", trace_event, t));
    MBA_TRY(mba_store_each(s, MBA_ROWS_block, "kernel, start_ns", trace_block, t));
    fputs("\n]}\n", t->f);
    return MBA_OK;
}

mba_status mba_export_trace(FILE *f, mba_store *s)
{
    tracing         t = { .f = f };
    mba_row_kernel *kernel;
    mba_row_node   *node;
    MBA_TRY(mba_load_kernel(s, &kernel, &t.nkernels));
    MBA_TRY(mba_load_node(s, &node, &t.nnodes));
    t.kernel = kernel;
    t.node = node;
    t.began = calloc((size_t)t.nkernels + 1, sizeof *t.began);
    const mba_status st = t.began ? write_all(&t, s)
                                  : mba_fail(MBA_E_NOMEM, "no memory for %lld kernels", (long long)t.nkernels);
    free(t.began);
    free(t.lane);
    return st;
}
