// SPDX-License-Identifier: Apache-2.0
/* counters.c -- clears the tile counters of cuBLASLt once per captured step: edits the captured graph (counters.h). */
#include "device/cuda/counters.h"

#include <stdlib.h>

enum { ALL_BYTES = MBA_CUDA_COUNTERS * MBA_CUDA_COUNTER_BYTES };

static struct {
    char    *at;
    unsigned next;
} words;

mba_status mba__cuda_counters(void)
{
    if (!words.at) CUDA_TRY(cudaMalloc((void **)&words.at, ALL_BYTES));
    return MBA_OK;
}

void *mba__cuda_counter(void) { return words.at + (size_t)(words.next++ % MBA_CUDA_COUNTERS) * MBA_CUDA_COUNTER_BYTES; }

/* The counter that this graph node sets to zero, or -1. */
static int counter_of(cudaGraphNode_t node)
{
    enum cudaGraphNodeType  type;
    struct cudaMemsetParams p;
    if (cudaGraphNodeGetType(node, &type) != cudaSuccess || type != cudaGraphNodeTypeMemset) return -1;
    if (cudaGraphMemsetNodeGetParams(node, &p) != cudaSuccess || p.value || p.height > 1) return -1;
    const char *const at = p.dst;
    if (at < words.at || at >= words.at + ALL_BYTES || p.width * p.elementSize > MBA_CUDA_COUNTER_BYTES) return -1;
    return (int)((at - words.at) / MBA_CUDA_COUNTER_BYTES);
}

/* Removes a node that has one predecessor and one successor, and connects these. Other nodes stay. */
static bool remove_from_chain(cudaGraph_t graph, cudaGraphNode_t node)
{
    cudaGraphNode_t before, behind;
    size_t          nbefore = 0, nbehind = 0;
    if (cudaGraphNodeGetDependencies(node, NULL, NULL, &nbefore) != cudaSuccess || nbefore != 1
        || cudaGraphNodeGetDependentNodes(node, NULL, NULL, &nbehind) != cudaSuccess || nbehind != 1
        || cudaGraphNodeGetDependencies(node, &before, NULL, &nbefore) != cudaSuccess
        || cudaGraphNodeGetDependentNodes(node, &behind, NULL, &nbehind) != cudaSuccess
        || cudaGraphAddDependencies(graph, &before, &behind, NULL, 1) != cudaSuccess) {
        cudaGetLastError(); // edges with data: leave them
        return false;
    }
    return cudaGraphDestroyNode(node) == cudaSuccess;
}

/* Adds a node that sets all counters to zero before everything else. */
static mba_status clear_first(cudaGraph_t graph)
{
    const struct cudaMemsetParams all = {
        .dst = words.at, .elementSize = 4, .width = ALL_BYTES / 4, .height = 1, .pitch = ALL_BYTES
    };
    cudaGraphNode_t root = NULL, first = NULL;
    size_t          n = 0;
    CUDA_TRY(cudaGraphGetRootNodes(graph, NULL, &n));
    if (n != 1) return mba_fail(MBA_E_DEVICE, "a captured step that begins at %zu places", n);
    CUDA_TRY(cudaGraphGetRootNodes(graph, &root, &n));
    CUDA_TRY(cudaGraphAddMemsetNode(&first, graph, NULL, 0, &all));
    CUDA_TRY(cudaGraphAddDependencies(graph, &first, &root, NULL, 1));
    return MBA_OK;
}

mba_status mba__cuda_clear_once(cudaGraph_t graph)
{
    size_t n = 0, roots = 0;
    int    used[MBA_CUDA_COUNTERS] = { 0 }, gone = 0;
    CUDA_TRY(cudaGraphGetNodes(graph, NULL, &n));
    CUDA_TRY(cudaGraphGetRootNodes(graph, NULL, &roots));
    if (!words.at || roots != 1) return MBA_OK;
    cudaGraphNode_t *node = malloc(n * sizeof *node);
    if (!node) return mba_fail(MBA_E_NOMEM, "no memory for %zu nodes of a step", n);
    const cudaError_t e = cudaGraphGetNodes(graph, node, &n);
    for (size_t i = 0; e == cudaSuccess && i < n; i++) {
        const int k = counter_of(node[i]);
        if (k >= 0) used[k]++;
    }
    for (size_t i = 0; e == cudaSuccess && i < n; i++) {
        const int k = counter_of(node[i]);
        if (k >= 0 && used[k] == 1) gone += remove_from_chain(graph, node[i]);
    }
    free(node);
    CUDA_TRY(e);
    return gone ? clear_first(graph) : MBA_OK;
}
