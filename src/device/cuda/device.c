// SPDX-License-Identifier: Apache-2.0
/* device.c -- one NVIDIA GPU as a device: memory, copies, and runs as captured CUDA graphs.
 *
 * The first run of a set of passes executes node by node, so that libraries initialise; the second is captured, and
 * from then on a run is one graph launch. A run with hooks always executes node by node and synchronizes after each.
 * Inputs are double-buffered: a second stream copies those of the next run while this one computes.
 *
 * Collectives between GPUs have a stream of their own, the lane MBA_COMM: such a node waits for all nodes before it,
 * and the first node behind it that needs its operands waits for it. The captured graph has the same fork and join. */
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/program.h"
#include "device/cuda/counters.h"
#include "device/cuda/cuda.h"
#include "device/cuda/launch_hook.h"
#include "device/cuda/ranges.h"

static struct {
    bool         ready;
    cudaStream_t stream, lane; /* lane: of collectives, NULL before the first */
    char         name[256], bus_id[32];
    mba_machine  machine;
    mba_device   device;
    size_t       left; /* bytes that were free at first */
} gpu;

/* ---- errors ---- */

mba_status mba__cuda_failed(int error, const char *call)
{
    const bool  no_gpu = error == cudaErrorNoDevice || error == cudaErrorInsufficientDriver;
    const char *fix = error == cudaErrorMemoryAllocation ? "a smaller --batch or --length, or --recompute on"
                      : no_gpu
                          ? "mambascope doctor says what is missing"
                          : "run again with CUDA_LAUNCH_BLOCKING=1 for the place; compute-sanitizer names the access";
    return mba_fail(error == cudaErrorMemoryAllocation ? MBA_E_NOMEM : MBA_E_DEVICE,
                    "the GPU reports: %s\nwhy: %.160s\nfix: %s", cudaGetErrorString((cudaError_t)error), call, fix);
}

static struct {
    mba_cuda_launch_hook *fn;
    void                 *ctx;
} listener;

void mba_cuda_on_launch(mba_cuda_launch_hook *fn, void *ctx)
{
    listener.fn = fn;
    listener.ctx = ctx;
}

mba_status mba__cuda_launch_check(const mba_call *c, int k)
{
    const cudaError_t e = cudaGetLastError();
    if (e == cudaSuccess && listener.fn) listener.fn(listener.ctx);
    if (e == cudaSuccess) return MBA_OK;
    const mba_launch *l = &c->plan->launch[k];
    return mba_where(mba__cuda_failed(e, l->kernel), "grid (%lld, %lld, %lld), block %d, shared memory %zu",
                     (long long)l->grid[0], (long long)l->grid[1], (long long)l->grid[2], l->block, l->smem_bytes);
}

mba_status mba__cuda_allow_smem(const void *kernel, size_t bytes)
{
    if (bytes > 16 * 1024)
        CUDA_TRY(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes));
    return MBA_OK;
}

/* ---- memory ---- */

/* The error for a failed allocation: what was requested, what is free, what would fit (a twentieth is for
 * libraries). */
static mba_status short_of_memory(size_t bytes)
{
    size_t       left = 0, all = 0;
    char         fits[96] = "";
    const double gb = 0.95e-9 * (double)gpu.left;
    cudaGetLastError(); // reported here
    if (cudaMemGetInfo(&left, &all) != cudaSuccess) return mba__cuda_failed(cudaErrorMemoryAllocation, "cudaMalloc");
    if (gb >= 1)
        snprintf(fits, sizeof fits, "use --memory %lldGB to limit the run to what was free, or ", (long long)gb);
    return mba_fail(MBA_E_NOMEM,
                    "the GPU has too little memory: %s are needed, %s of %s are free\nwhy: %s were "
                    "free when this process started; other processes hold the rest (nvidia-smi lists "
                    "them)\nfix: %suse a smaller --batch or --length or --recompute on, or end the other "
                    "processes",
                    mba_size_of((double)bytes).text, mba_size_of((double)left).text, mba_size_of((double)all).text,
                    mba_size_of((double)gpu.left).text, fits);
}

static mba_status cuda_alloc(void **out, size_t bytes)
{
    const cudaError_t e = cudaMalloc(out, bytes);
    if (e == cudaErrorMemoryAllocation) return short_of_memory(bytes);
    CUDA_TRY(e);
    CUDA_TRY(cudaMemsetAsync(*out, 0, bytes, gpu.stream));
    return MBA_OK;
}

static void cuda_dealloc(void *p) { cudaFree(p); }

static mba_status cuda_alloc_host(void **out, size_t bytes)
{
    CUDA_TRY(cudaMallocHost(out, bytes));
    memset(*out, 0, bytes);
    return MBA_OK;
}

static void cuda_dealloc_host(void *p) { cudaFreeHost(p); }

static mba_status cuda_put(void *device, const void *host, size_t bytes)
{
    CUDA_TRY(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, gpu.stream));
    return MBA_OK;
}

static mba_status cuda_wait(void)
{
    CUDA_TRY(cudaStreamSynchronize(gpu.stream));
    return MBA_OK;
}

static mba_status cuda_get(void *host, const void *device, size_t bytes)
{
    CUDA_TRY(cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, gpu.stream));
    return cuda_wait();
}

static mba_status cuda_fold(float *x, const float *y, float scale, int64_t n)
{
    return mba__cuda_fold(x, y, scale, n, gpu.machine.sm, gpu.stream);
}

static mba_status cuda_copy(void *to, const void *from, size_t bytes)
{
    if (from) CUDA_TRY(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, gpu.stream));
    else CUDA_TRY(cudaMemsetAsync(to, 0, bytes, gpu.stream));
    return MBA_OK;
}

/* ---- running ---- */

/* What the device stores per program: its captured graphs, and the state of inputs that were sent ahead. */
typedef struct captured {
    cudaGraphExec_t exec[MBA_STEP + 1];
    bool            warm[MBA_STEP + 1];
    cudaEvent_t     fork, *done;       /* done: per node of the lane MBA_COMM; NULL: the program has none */
    int32_t        *joins;             /* per node of that lane: mba_node_joins */
    const void     *from;              /* the mirror that was copied to p->ahead, or NULL */
    cudaStream_t    copies;            /* NULL: no second buffer, or the program has not run */
    cudaEvent_t     arrived, consumed; /* the copy is complete; the last run has copied its inputs */
} captured;

static mba_status state_of(captured **out, mba_program *p)
{
    if (!p->kept && !(p->kept = calloc(1, sizeof(captured))))
        return mba_fail(MBA_E_NOMEM, "no memory for captured steps");
    *out = p->kept;
    return MBA_OK;
}

/* ---- lanes ---- */

/* Events of the nodes of the lane MBA_COMM, if the program has any. */
static mba_status create_lane(captured *k, const mba_program *p)
{
    int least, greatest;
    for (int32_t i = 0; i < p->graph->nnodes; i++) {
        if (p->graph->nodes[i]->lane != MBA_COMM) continue;
        if (!k->done) {
            k->done = calloc((size_t)p->graph->nnodes, sizeof *k->done);
            k->joins = calloc((size_t)p->graph->nnodes, sizeof *k->joins);
            if (!k->done || !k->joins) return mba_fail(MBA_E_NOMEM, "no memory for the lane of collectives");
            CUDA_TRY(cudaEventCreateWithFlags(&k->fork, cudaEventDisableTiming));
        }
        CUDA_TRY(cudaEventCreateWithFlags(&k->done[i], cudaEventDisableTiming));
        k->joins[i] = mba_node_joins(p->graph, i);
    }
    if (!k->done || gpu.lane) return MBA_OK;
    CUDA_TRY(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    CUDA_TRY(cudaStreamCreateWithPriority(&gpu.lane, cudaStreamNonBlocking, greatest));
    return MBA_OK;
}

/* Launches a node of the lane MBA_COMM behind all nodes so far. */
static mba_status launch_beside(const mba_program *p, const captured *k, int32_t i)
{
    mba_call c = p->call[i];
    c.stream = gpu.lane;
    CUDA_TRY(cudaEventRecord(k->fork, gpu.stream));
    CUDA_TRY(cudaStreamWaitEvent(gpu.lane, k->fork, 0));
    MBA_TRY(p->launch[i](&c));
    CUDA_TRY(cudaEventRecord(k->done[i], gpu.lane));
    return MBA_OK;
}

/* Before node `at`: waits for the nodes of the lane since node *joined that it needs. The lane runs in order, so the
 * last of them stands for all. */
static mba_status join_lane(const mba_program *p, const captured *k, unsigned passes, int32_t *joined, int32_t at)
{
    for (int32_t i = at - 1; i > *joined; i--) {
        const mba_node *n = p->graph->nodes[i];
        if (n->lane != MBA_COMM || !mba_runs(n, passes) || k->joins[i] > at) continue;
        CUDA_TRY(cudaStreamWaitEvent(gpu.stream, k->done[i], 0));
        *joined = i;
        return MBA_OK;
    }
    return MBA_OK;
}

static mba_status launch_one(const mba_program *p, const captured *k, unsigned passes, int32_t *joined, int32_t i)
{
    if (k->done && p->graph->nodes[i]->lane == MBA_COMM) return launch_beside(p, k, i);
    if (k->done) MBA_TRY(join_lane(p, k, passes, joined, i));
    return p->launch[i](&p->call[i]);
}

/* A run with hooks has one lane. */
static mba_status launch_nodes(mba_program *p, unsigned passes, const mba_hooks *h)
{
    int32_t   joined = -1;
    captured *k = NULL;
    MBA_TRY(state_of(&k, p));
    if (!h && !k->done) MBA_TRY(create_lane(k, p));
    for (int32_t i = 0; i < p->graph->nnodes; i++) {
        const mba_node *n = p->graph->nodes[i];
        if (!mba_runs(n, passes)) continue;
        if (h && h->before) h->before(h->ctx, n, p->plan[i]);
        mba__range_begin("%s %s", n->scope, n->op->name);
        mba_status st = h ? p->launch[i](&p->call[i]) : launch_one(p, k, passes, &joined, i);
        if (st == MBA_OK && h) st = cuda_wait();
        mba__range_end();
        if (st != MBA_OK)
            return mba_where(st, "running node %d, %s %s (%s)", i, n->scope, n->op->name, p->plan[i]->variant);
        if (h && h->after) h->after(h->ctx, n, p->plan[i]);
    }
    return !h && k->done ? join_lane(p, k, passes, &joined, p->graph->nnodes) : MBA_OK;
}

static mba_status capture(mba_program *p, unsigned passes, cudaGraphExec_t *exec)
{
    cudaGraph_t graph = NULL;
    CUDA_TRY(cudaStreamBeginCapture(gpu.stream, cudaStreamCaptureModeThreadLocal));
    mba_status        st = launch_nodes(p, passes, NULL);
    const cudaError_t e = cudaStreamEndCapture(gpu.stream, &graph);
    if (st == MBA_OK && e == cudaSuccess) st = mba__cuda_clear_once(graph);
    if (st == MBA_OK && e == cudaSuccess) {
        const cudaError_t made = cudaGraphInstantiate(exec, graph, 0);
        cudaGraphDestroy(graph);
        CUDA_TRY(made);
        return MBA_OK;
    }
    if (graph) cudaGraphDestroy(graph);
    return st != MBA_OK ? st : mba__cuda_failed(e, "capturing the step");
}

static mba_status create_copy_stream(captured *k)
{
    CUDA_TRY(cudaStreamCreateWithFlags(&k->copies, cudaStreamNonBlocking));
    CUDA_TRY(cudaEventCreateWithFlags(&k->arrived, cudaEventDisableTiming));
    CUDA_TRY(cudaEventCreateWithFlags(&k->consumed, cudaEventDisableTiming));
    return MBA_OK;
}

/* Copies the inputs of the next run to a second buffer while the current run still reads its own. The copy waits until
 * the current run has consumed that buffer. */
static mba_status cuda_send(mba_program *p)
{
    captured *k = NULL;
    MBA_TRY(state_of(&k, p));
    if (!k->copies) return MBA_OK; // the first run copies its inputs itself
    CUDA_TRY(cudaStreamWaitEvent(k->copies, k->consumed, 0));
    CUDA_TRY(cudaMemcpyAsync(p->ahead, p->mirror[MBA_INPUT], p->layout.arena_bytes[MBA_INPUT], cudaMemcpyHostToDevice,
                             k->copies));
    CUDA_TRY(cudaEventRecord(k->arrived, k->copies));
    k->from = p->mirror[MBA_INPUT];
    return MBA_OK;
}

static mba_status cuda_recall(const mba_program *p)
{
    captured *k = p->kept;
    if (!k || !k->from || k->from != p->mirror[MBA_INPUT]) return MBA_OK;
    CUDA_TRY(cudaEventSynchronize(k->arrived)); // the mirror is no longer read
    k->from = NULL;
    return MBA_OK;
}

static bool reads_inputs(const mba_program *p, unsigned passes)
{
    for (int32_t i = 0; i < p->graph->nnodes; i++) {
        const mba_node *n = p->graph->nodes[i];
        for (int s = 0; s < MBA_IN_MAX && mba_runs(n, passes); s++)
            if (n->in[s] && n->in[s]->st->role == MBA_INPUT) return true;
    }
    return false;
}

/* Provides the inputs of a run: by a copy on the device if they were sent ahead, otherwise from the host. */
static mba_status copy_inputs(mba_program *p, captured *k)
{
    const size_t bytes = p->layout.arena_bytes[MBA_INPUT];
    if (!bytes) return MBA_OK;
    if (p->ahead && !k->copies) MBA_TRY(create_copy_stream(k));
    if (k->from && k->from == p->mirror[MBA_INPUT]) {
        CUDA_TRY(cudaStreamWaitEvent(gpu.stream, k->arrived, 0));
        CUDA_TRY(cudaMemcpyAsync(p->memory[MBA_INPUT], p->ahead, bytes, cudaMemcpyDeviceToDevice, gpu.stream));
        k->from = NULL;
    } else {
        MBA_TRY(cuda_put(p->memory[MBA_INPUT], p->mirror[MBA_INPUT], bytes));
    }
    if (k->copies) CUDA_TRY(cudaEventRecord(k->consumed, gpu.stream));
    return MBA_OK;
}

/* Copies the results to the host, which can read them once the stream is idle. */
static mba_status copy_results(mba_program *p)
{
    const size_t bytes = p->layout.arena_bytes[MBA_RESULT];
    if (!bytes) return MBA_OK;
    CUDA_TRY(cudaMemcpyAsync(p->mirror[MBA_RESULT], p->memory[MBA_RESULT], bytes, cudaMemcpyDeviceToHost, gpu.stream));
    return MBA_OK;
}

static mba_status run_passes(mba_program *p, unsigned passes, const mba_hooks *h, captured *k)
{
    if (reads_inputs(p, passes)) MBA_TRY(copy_inputs(p, k));
    if (h || !k->warm[passes]) {
        MBA_TRY(launch_nodes(p, passes, h));
        k->warm[passes] = true;
    } else {
        if (!k->exec[passes]) MBA_TRY(capture(p, passes, &k->exec[passes]));
        CUDA_TRY(cudaGraphLaunch(k->exec[passes], gpu.stream));
    }
    return copy_results(p);
}

static mba_status cuda_run(mba_program *p, unsigned passes, const mba_hooks *h)
{
    captured *k = NULL;
    MBA_TRY(state_of(&k, p));
    passes &= MBA_STEP;
    mba__range_begin("%s", passes == MBA_STEP      ? "step"
                           : passes == MBA_UPDATE  ? "update"
                           : passes & MBA_BACKWARD ? "forward and backward"
                                                   : "forward");
    const mba_status st = run_passes(p, passes, h, k);
    mba__range_end();
    return st;
}

/* ---- timing ---- */

/* Captures the passes as a graph with two timing events around every node. */
static mba_status capture_timed(mba_program *p, unsigned passes, cudaEvent_t *event, void *sweep, cudaGraphExec_t *exec)
{
    cudaGraph_t graph = NULL;
    mba_status  st = MBA_OK;
    CUDA_TRY(cudaStreamBeginCapture(gpu.stream, cudaStreamCaptureModeThreadLocal));
    for (int32_t i = 0; i < p->graph->nnodes && st == MBA_OK; i++) {
        if (!mba_runs(p->graph->nodes[i], passes)) continue;
        if (sweep) mba__cuda_flush_l2(sweep, MBA__FLUSH_BYTES, gpu.stream);
        cudaEventRecordWithFlags(event[2 * i], gpu.stream, cudaEventRecordExternal);
        st = p->launch[i](&p->call[i]);
        cudaEventRecordWithFlags(event[2 * i + 1], gpu.stream, cudaEventRecordExternal);
    }
    const cudaError_t e = cudaStreamEndCapture(gpu.stream, &graph);
    if (st == MBA_OK && e == cudaSuccess && cudaGraphInstantiate(exec, graph, 0) != cudaSuccess)
        st = mba__cuda_failed(cudaGetLastError(), "timed graph");
    if (graph) cudaGraphDestroy(graph);
    return st != MBA_OK || e == cudaSuccess ? st : mba__cuda_failed(e, "capturing a timed step");
}

static mba_status run_timed(mba_program *p, unsigned passes, double *seconds, const cudaEvent_t *event,
                            cudaGraphExec_t exec)
{
    CUDA_TRY(cudaGraphLaunch(exec, gpu.stream));
    MBA_TRY(cuda_wait());
    for (int32_t i = 0; i < p->graph->nnodes; i++) {
        float ms = 0;
        if (!mba_runs(p->graph->nodes[i], passes)) continue;
        CUDA_TRY(cudaEventElapsedTime(&ms, event[2 * i], event[2 * i + 1]));
        seconds[i] = 1e-3 * (double)ms;
    }
    return MBA_OK;
}

static mba_status cuda_time_nodes(mba_program *p, unsigned passes, double *seconds, bool cold)
{
    const int32_t   n = 2 * p->graph->nnodes;
    cudaGraphExec_t exec = NULL;
    void           *sweep = NULL;
    cudaEvent_t    *event = calloc((size_t)n, sizeof *event);
    if (!event) return mba_fail(MBA_E_NOMEM, "no memory for the times of %d nodes", n);
    for (int32_t i = 0; i < n; i++) cudaEventCreate(&event[i]);
    if (cold && cudaMalloc(&sweep, MBA__FLUSH_BYTES) == cudaSuccess) cudaMemset(sweep, 0, MBA__FLUSH_BYTES);
    mba_status st = launch_nodes(p, passes, NULL); // lets libraries initialise
    if (st == MBA_OK) st = capture_timed(p, passes, event, sweep, &exec);
    if (st == MBA_OK) st = run_timed(p, passes, seconds, event, exec);
    if (exec) cudaGraphExecDestroy(exec);
    for (int32_t i = 0; i < n; i++) cudaEventDestroy(event[i]);
    cudaFree(sweep);
    free(event);
    return st;
}

static size_t cuda_left(void)
{
    size_t left = 0, all = 0;
    return cudaMemGetInfo(&left, &all) == cudaSuccess ? left : 0;
}

static void cuda_forget(mba_program *p)
{
    captured *k = p->kept;
    if (k->copies) cudaStreamSynchronize(k->copies);
    cudaStreamSynchronize(gpu.stream);
    for (int i = 0; i <= MBA_STEP; i++)
        if (k->exec[i]) cudaGraphExecDestroy(k->exec[i]);
    for (int32_t i = 0; i < p->graph->nnodes && k->done; i++)
        if (k->done[i]) cudaEventDestroy(k->done[i]);
    if (k->fork) cudaEventDestroy(k->fork);
    free(k->done);
    free(k->joins);
    if (k->copies) cudaStreamDestroy(k->copies);
    if (k->arrived) cudaEventDestroy(k->arrived);
    if (k->consumed) cudaEventDestroy(k->consumed);
    free(k);
    p->kept = NULL;
}

/* ---- beginning ---- */

/* A GPU that runs PTX of before 9.0 is described as one of that capability, by name too: it has the SMs of the newer
 * one and none of the kernels for it. */
static mba_status describe(mba_machine *out, char *name, size_t room, int ordinal)
{
    struct cudaDeviceProp d;
    int                   clock_khz = 0, memory_khz = 0;
    CUDA_TRY(cudaGetDeviceProperties(&d, ordinal));
    const int cc = 10 * d.major + d.minor, code = mba__cuda_compiled_for(), old = code && code < 90 && cc >= 90;
    cudaDeviceGetAttribute(&clock_khz, cudaDevAttrClockRate, ordinal);
    cudaDeviceGetAttribute(&memory_khz, cudaDevAttrMemoryClockRate, ordinal);
    if (old) snprintf(name, room, "%s (kernels for sm_%d)", d.name, code);
    else snprintf(name, room, "%s", d.name);
    *out = (mba_machine){ .name = name,
                          .cc = old ? code : cc,
                          .sm = d.multiProcessorCount,
                          .warp = d.warpSize,
                          .regs_sm = d.regsPerMultiprocessor,
                          .threads_sm = d.maxThreadsPerMultiProcessor,
                          .smem_block_bytes = (int64_t)d.sharedMemPerBlockOptin,
                          .smem_sm_bytes = (int64_t)d.sharedMemPerMultiprocessor,
                          .l2_bytes = d.l2CacheSize,
                          .clock_ghz = clock_khz * 1e-6,
                          .dram_gbs = 2.0 * memory_khz * 1e3 * d.memoryBusWidth / 8 * 1e-9,
                          .memory_bytes = (int64_t)d.totalGlobalMem };
    return MBA_OK;
}

mba_status mba_cuda_current(mba_machine *out, char *name, size_t room, int *ordinal)
{
    CUDA_TRY(cudaGetDevice(ordinal));
    return describe(out, name, room, *ordinal);
}

/* Whether this thread has a context. The runtime creates one at the first call that needs one; driver functions, such
 * as the one that encodes tensor maps, do not. An existing context stays: it may be the caller's own. */
static mba_status has_context(bool *yes)
{
    static void                         *kept;
    enum cudaDriverEntryPointQueryResult how;
    CUcontext                            now = NULL;
    CUresult (*get)(CUcontext *) = NULL;
    void *found = __atomic_load_n(&kept, __ATOMIC_RELAXED);
    if (!found) CUDA_TRY(cudaGetDriverEntryPointByVersion("cuCtxGetCurrent", &found, 4000, cudaEnableDefault, &how));
    __atomic_store_n(&kept, found, __ATOMIC_RELAXED);
    memcpy(&get, &found, sizeof get);
    *yes = get && get(&now) == CUDA_SUCCESS && now;
    return MBA_OK;
}

mba_status mba_cuda_use(int ordinal, int *before)
{
    bool ready = false;
    CUDA_TRY(cudaGetDevice(before));
    MBA_TRY(has_context(&ready));
    if (*before != ordinal || !ready) CUDA_TRY(cudaSetDevice(ordinal));
    return MBA_OK;
}

int mba_cuda_count(void)
{
    int n = 0;
    return cudaGetDeviceCount(&n) == cudaSuccess ? n : 0;
}

mba_status mba_device_cuda(const mba_device **out, int ordinal)
{
    *out = NULL;
    if (!gpu.ready) {
        int n = 0;
        if (cudaGetDeviceCount(&n) != cudaSuccess || n == 0)
            return mba_fail(
                MBA_E_UNSUPPORTED,
                "there is no CUDA device\nwhy: the driver lists none\nfix: leave --device out to run on the CPU");
        if (ordinal < 0 || ordinal >= n)
            return mba_fail(MBA_E_ARG, "there is no CUDA device %d\nwhy: this machine has %d\nfix: use --device cuda:0",
                            ordinal, n);
        CUDA_TRY(cudaSetDevice(ordinal));
        MBA_TRY(describe(&gpu.machine, gpu.name, sizeof gpu.name, ordinal));
        CUDA_TRY(cudaDeviceGetPCIBusId(gpu.bus_id, sizeof gpu.bus_id, ordinal));
        CUDA_TRY(cudaStreamCreateWithFlags(&gpu.stream, cudaStreamNonBlocking));
        gpu.left = cuda_left();
        gpu.device = (mba_device){ .name = "cuda",
                                   .machine = &gpu.machine,
                                   .bus_id = gpu.bus_id,
                                   .stream = gpu.stream,
                                   .alloc = cuda_alloc,
                                   .dealloc = cuda_dealloc,
                                   .alloc_host = cuda_alloc_host,
                                   .dealloc_host = cuda_dealloc_host,
                                   .put = cuda_put,
                                   .get = cuda_get,
                                   .send = cuda_send,
                                   .recall = cuda_recall,
                                   .run = cuda_run,
                                   .wait = cuda_wait,
                                   .time_nodes = cuda_time_nodes,
                                   .fold = cuda_fold,
                                   .copy = cuda_copy,
                                   .left = cuda_left,
                                   .forget = cuda_forget };
        gpu.ready = true;
    }
    *out = &gpu.device;
    return MBA_OK;
}
