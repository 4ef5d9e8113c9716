/* memsets_cuda.cu -- small sets of memory in a captured step become kernels.
 *
 * cuBLASLt sets a counter of four bytes before most of its products. As a node of a graph a set of memory is no kernel:
 * on the H200 the stream stood still 1.4 us before each and 2 to 5.6 us behind it, 200 times in a step of
 * mamba2-headline, 0.95 of its 1.09 ms of idle time. From kernel to kernel it is 30 ns. Found and done on the captured
 * graph, so that nothing but capturing knows of it.
 *
 * kernel     set_bytes     element by element
 * launch     grid 1, block 128
 * moves      a few bytes: bound by latency */
#include <stdlib.h>
#include <string.h>

#include "device/cuda/vocab.cuh"

enum { THREADS = 128, BYTES_MAX = 4096, EDGES_MAX = 8 };

static __global__ void __launch_bounds__(THREADS)
set_bytes(unsigned char *at, unsigned value, unsigned size, unsigned n)
{
    for (unsigned i = threadIdx.x; i < n * size; i += THREADS) at[i] = (unsigned char)(value >> 8 * (i % size));
}

struct edges { cudaGraphNode_t node[EDGES_MAX]; cudaGraphEdgeData data[EDGES_MAX]; size_t n; };

typedef cudaError_t list_edges(cudaGraphNode_t, cudaGraphNode_t *, cudaGraphEdgeData *, size_t *);

/* False where there are more than we have room for, or one that is not an ordinary edge. */
static bool plain(edges *e, list_edges *list, cudaGraphNode_t node)
{
    const cudaGraphEdgeData ordinary = {};
    if (list(node, NULL, NULL, &e->n) != cudaSuccess || e->n > EDGES_MAX) return false;
    if (e->n && list(node, e->node, e->data, &e->n) != cudaSuccess) return false;
    for (size_t i = 0; i < e->n; i++) if (memcmp(&e->data[i], &ordinary, sizeof ordinary)) return false;
    return true;
}

static mba_status replace(cudaGraph_t graph, cudaGraphNode_t node)
{
    cudaMemsetParams     p = {};
    cudaKernelNodeParams k = {};
    cudaGraphNode_t      made = NULL;
    edges                before = {}, behind = {};
    CUDA_TRY(cudaGraphMemsetNodeGetParams(node, &p));
    if (p.height > 1 || p.width * p.elementSize > BYTES_MAX) return MBA_OK;
    if (!plain(&before, cudaGraphNodeGetDependencies, node)) return MBA_OK;
    if (!plain(&behind, cudaGraphNodeGetDependentNodes, node)) return MBA_OK;
    unsigned char *at = (unsigned char *)p.dst;
    unsigned       size = p.elementSize, n = (unsigned)p.width;
    void          *args[] = { &at, &p.value, &size, &n };
    k.func = (void *)set_bytes;
    k.gridDim = dim3(1);
    k.blockDim = dim3(THREADS);
    k.kernelParams = args;
    CUDA_TRY(cudaGraphAddKernelNode(&made, graph, before.node, before.n, &k));
    for (size_t i = 0; i < behind.n; i++) CUDA_TRY(cudaGraphAddDependencies(graph, &made, &behind.node[i], NULL, 1));
    CUDA_TRY(cudaGraphDestroyNode(node));                        // and its edges
    return MBA_OK;
}

extern "C" mba_status mba__cuda_replace_memsets(cudaGraph_t graph)
{
    size_t     n = 0;
    mba_status st = MBA_OK;
    if (getenv("MBA_KEEP_MEMSETS")) return MBA_OK;               // to see what they cost
    CUDA_TRY(cudaGraphGetNodes(graph, NULL, &n));
    cudaGraphNode_t *node = (cudaGraphNode_t *)malloc((n + 1) * sizeof *node);
    if (!node) return mba_fail(MBA_E_NOMEM, "no memory for the %zu nodes of a step", n);
    const cudaError_t e = cudaGraphGetNodes(graph, node, &n);
    if (e != cudaSuccess) st = mba__cuda_failed(e, "reading a captured step");
    for (size_t i = 0; i < n && st == MBA_OK; i++) {
        cudaGraphNodeType type;
        if (cudaGraphNodeGetType(node[i], &type) != cudaSuccess || type != cudaGraphNodeTypeMemset) continue;
        st = replace(graph, node[i]);
    }
    free(node);
    return st;
}
