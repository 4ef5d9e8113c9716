// SPDX-License-Identifier: Apache-2.0
/* launch_trace.c -- see launch_trace.h: replaces the program's table of launchers by a wrapper that calls the original.
 */
#include "scope/launch_trace.h"

#include <stdlib.h>
#include <string.h>

#include "device/cuda/cuda.h"

static struct {
    mba_program     *program;
    mba_launch_fn  **was;
    mba_node_counts *counts;
    int32_t          node;
    cudaGraphNode_t *graph_nodes;
    size_t           room;
} on = { .node = -1 };

/* The graph that is being captured on the stream, or NULL. */
static cudaGraph_t capturing(cudaStream_t stream)
{
    enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    cudaGraph_t                  graph = NULL;
#if CUDART_VERSION >= 13000
    const cudaError_t e = cudaStreamGetCaptureInfo(stream, &status, NULL, &graph, NULL, NULL, NULL);
#else
    const cudaError_t e = cudaStreamGetCaptureInfo_v2(stream, &status, NULL, &graph, NULL, NULL);
#endif
    return e == cudaSuccess && status == cudaStreamCaptureStatusActive ? graph : NULL;
}

static int kind_of(cudaGraphNode_t n)
{
    enum cudaGraphNodeType type;
    if (cudaGraphNodeGetType(n, &type) != cudaSuccess) return -1;
    return type == cudaGraphNodeTypeKernel   ? MBA_EVENT_KERNEL
           : type == cudaGraphNodeTypeMemcpy ? MBA_EVENT_COPY
           : type == cudaGraphNodeTypeMemset ? MBA_EVENT_SET
                                             : -1;
}

/* Counts the nodes of a graph by kind. All of them each time, because CUDA does not guarantee that new nodes come last;
 * a step of 3000 nodes takes 0.3 s. */
static mba_status count(cudaGraph_t graph, mba_node_counts *out)
{
    size_t n = 0;
    *out = (mba_node_counts){ { 0 } };
    CUDA_TRY(cudaGraphGetNodes(graph, NULL, &n));
    if (n > on.room) {
        cudaGraphNode_t *more = realloc(on.graph_nodes, 2 * n * sizeof *more);
        if (!more) return mba_fail(MBA_E_NOMEM, "no memory for %zu nodes of a captured graph", n);
        on.graph_nodes = more;
        on.room = 2 * n;
    }
    if (n) CUDA_TRY(cudaGraphGetNodes(graph, on.graph_nodes, &n));
    for (size_t i = 0; i < n; i++) {
        const int kind = kind_of(on.graph_nodes[i]);
        if (kind >= 0) out->n[kind]++;
    }
    return MBA_OK;
}

/* The wrapper of a launcher: sets the current node, and counts what it adds to a captured graph. */
static mba_status traced(const mba_call *c)
{
    mba_node_counts before, after;
    const int32_t   id = c->node->id;
    mba_assert(on.program && id >= 0 && id < on.program->graph->nnodes);
    const cudaGraph_t graph = capturing(mba_cuda_stream(c));
    on.node = id;
    if (graph) MBA_TRY(count(graph, &before));
    const mba_status st = on.was[id](c);
    on.node = -1;
    if (st != MBA_OK || !graph) return st;
    MBA_TRY(count(graph, &after));
    for (int k = 0; k < MBA_EVENT_KINDS; k++) on.counts[id].n[k] = after.n[k] - before.n[k];
    return MBA_OK;
}

mba_status mba_launch_trace_begin(mba_program *p)
{
    const size_t n = (size_t)p->graph->nnodes;
    mba_assert(!on.program);
    on.was = calloc(n + 1, sizeof *on.was);
    on.counts = calloc(n + 1, sizeof *on.counts);
    if (!on.was || !on.counts) {
        free(on.was);
        free(on.counts);
        return mba_fail(MBA_E_NOMEM, "no memory to trace %zu nodes", n);
    }
    if (p->kept && p->device->forget) p->device->forget(p);
    memcpy(on.was, p->launch, n * sizeof *on.was);
    for (size_t i = 0; i < n; i++) p->launch[i] = traced;
    on.program = p;
    return MBA_OK;
}

int32_t                mba_launch_trace_node(void) { return on.node; }
const mba_node_counts *mba_launch_trace_counts(void) { return on.counts; }

void mba_launch_trace_end(void)
{
    if (!on.program) return;
    memcpy(on.program->launch, on.was, (size_t)on.program->graph->nnodes * sizeof *on.was);
    free(on.was);
    free(on.counts);
    free(on.graph_nodes);
    on.program = NULL;
    on.was = NULL;
    on.counts = NULL;
    on.graph_nodes = NULL;
    on.room = 0;
    on.node = -1;
}
