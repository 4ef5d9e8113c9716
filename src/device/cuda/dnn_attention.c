// SPDX-License-Identifier: Apache-2.0
/* dnn_attention.c -- attention by cuDNN's graph API (dnn_attention.h). Attention is a graph of descriptors: products,
 * scaling, mask and softmax. Tensors between them are virtual and never in memory. */
#include "device/cuda/dnn_attention.h"

#include <cudnn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "device/cuda/library.h"

// clang-format off
#define FUNCTIONS(X) \
    X(cudnnCreate) X(cudnnSetStream) X(cudnnGetErrorString) X(cudnnGetVersion) X(cudnnBackendCreateDescriptor) \
    X(cudnnBackendDestroyDescriptor) X(cudnnBackendSetAttribute) X(cudnnBackendGetAttribute) X(cudnnBackendFinalize) \
    X(cudnnBackendExecute)
// clang-format on
typedef struct functions {
    FUNCTIONS(MBA_LIBRARY_FIELD)
} functions;
#define ENTRY(f) MBA_LIBRARY_ENTRY(functions, f)
static const mba_library_name names[] = { FUNCTIONS(ENTRY){ NULL, 0 } };

enum { SHAPES_MAX = 256, MADE_MAX = 128, OPS_MAX = 32, ANSWERS_MAX = 8, OLDEST = 90600 };
enum { SCALE = MBA_DNN_TENSORS, MASKED, ONE, NAMED }; /* scalars passed by value; NAMED: end of tensor ids */

#define INSTEAD "leave --op attention=cudnn,attention_bwd=cudnn out"

typedef cudnnBackendDescriptor_t descriptor;
typedef struct choice {
    mba_dnn_shape key;
    descriptor    plan;
} choice;

static struct {
    cudnnHandle_t handle;
    choice       *plans;
    int           n;
    functions     f;
} dnn;

/* ---- a graph of operations; it keeps the first failure and does nothing after it ---- */

typedef struct graph {
    const mba_dnn_shape *s;
    descriptor           made[MADE_MAX], op[OPS_MAX];
    int                  n_made, n_ops;
    int64_t              name; /* id of the next virtual tensor */
    cudnnStatus_t        status;
    const char          *failed;
} graph;

static bool worked(graph *g, cudnnStatus_t e, const char *call)
{
    if (g->status == CUDNN_STATUS_SUCCESS && e != CUDNN_STATUS_SUCCESS) {
        g->status = e;
        g->failed = call;
    }
    return g->status == CUDNN_STATUS_SUCCESS;
}

static descriptor make(graph *g, cudnnBackendDescriptorType_t type)
{
    descriptor d = NULL;
    mba_assert(g->n_made < MADE_MAX);
    if (g->status == CUDNN_STATUS_SUCCESS
        && worked(g, dnn.f.cudnnBackendCreateDescriptor(type, &d), "cudnnBackendCreateDescriptor"))
        g->made[g->n_made++] = d;
    return d;
}

static void set(graph *g, descriptor d, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t n,
                const void *value)
{
    if (g->status == CUDNN_STATUS_SUCCESS)
        worked(g, dnn.f.cudnnBackendSetAttribute(d, name, type, n, value), "cudnnBackendSetAttribute");
}

static void set_one(graph *g, descriptor d, cudnnBackendAttributeName_t name, descriptor value)
{
    set(g, d, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}

static descriptor done(graph *g, descriptor d)
{
    if (g->status == CUDNN_STATUS_SUCCESS) worked(g, dnn.f.cudnnBackendFinalize(d), "cudnnBackendFinalize");
    return d;
}

static descriptor operation(graph *g, descriptor d)
{
    mba_assert(g->n_ops < OPS_MAX);
    return g->op[g->n_ops++] = done(g, d);
}

/* ---- tensors ---- */

typedef struct extent {
    int64_t dim[4], stride[4];
} extent;

static extent dense(int64_t a, int64_t b, int64_t c, int64_t d)
{
    return (extent){ { a, b, c, d }, { b * c * d, c * d, d, 1 } };
}

static extent transposed(extent e)
{
    return (extent){ { e.dim[0], e.dim[1], e.dim[3], e.dim[2] },
                     { e.stride[0], e.stride[1], e.stride[3], e.stride[2] } };
}

static descriptor tensor(graph *g, extent e, cudnnDataType_t type, int64_t name, bool by_value)
{
    const descriptor d = make(g, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    const int64_t    align = 16, id = name < 0 ? g->name++ : name;
    const bool       hidden = name < 0;
    set(g, d, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    set(g, d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, e.dim);
    set(g, d, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, e.stride);
    set(g, d, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id);
    set(g, d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &align);
    if (hidden) set(g, d, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &hidden);
    if (by_value) set(g, d, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &by_value);
    return done(g, d);
}

static extent heads_extent(const mba_dnn_shape *s, int name)
{
    const bool          keys = name == MBA_DNN_K || name == MBA_DNN_V || name == MBA_DNN_DK || name == MBA_DNN_DV;
    const mba_dnn_heads h = s->heads[name];
    return (extent){ { s->B, keys ? s->Hk : s->H, keys ? s->Lk : s->L, s->P }, { h.batch, h.head, h.row, 1 } };
}

static descriptor heads(graph *g, int name)
{
    return tensor(g, heads_extent(g->s, name), CUDNN_DATA_BFLOAT16, name, false);
}
static descriptor across(graph *g, int name)
{
    return tensor(g, transposed(heads_extent(g->s, name)), CUDNN_DATA_BFLOAT16, name, false);
}
static descriptor number(graph *g, int name) { return tensor(g, dense(1, 1, 1, 1), CUDNN_DATA_FLOAT, name, true); }
static descriptor rows(graph *g, int name)
{
    return tensor(g, dense(g->s->B, g->s->H, g->s->L, 1), CUDNN_DATA_FLOAT, name, false);
}

static descriptor scores(graph *g, cudnnDataType_t type)
{
    return tensor(g, dense(g->s->B, g->s->H, g->s->L, g->s->Lk), type, -1, false);
}

/* ---- operations; each returns the tensor that it writes ---- */

static descriptor product(graph *g, descriptor a, descriptor b, descriptor c)
{
    const cudnnDataType_t fp32 = CUDNN_DATA_FLOAT;
    const descriptor      how = make(g, CUDNN_BACKEND_MATMUL_DESCRIPTOR),
                     d = make(g, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    set(g, how, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &fp32);
    set_one(g, d, CUDNN_ATTR_OPERATION_MATMUL_ADESC, a);
    set_one(g, d, CUDNN_ATTR_OPERATION_MATMUL_BDESC, b);
    set_one(g, d, CUDNN_ATTR_OPERATION_MATMUL_CDESC, c);
    set_one(g, d, CUDNN_ATTR_OPERATION_MATMUL_DESC, done(g, how));
    operation(g, d);
    return c;
}

static descriptor reduced(graph *g, cudnnReduceTensorOp_t by, descriptor x, descriptor y)
{
    const cudnnDataType_t fp32 = CUDNN_DATA_FLOAT;
    const descriptor      how = make(g, CUDNN_BACKEND_REDUCTION_DESCRIPTOR),
                     d = make(g, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
    set(g, how, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &fp32);
    set(g, how, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &by);
    set_one(g, d, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x);
    set_one(g, d, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y);
    set_one(g, d, CUDNN_ATTR_OPERATION_REDUCTION_DESC, done(g, how));
    operation(g, d);
    return y;
}

static descriptor reshaped(graph *g, descriptor x, descriptor y)
{
    const descriptor d = make(g, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
    set_one(g, d, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x);
    set_one(g, d, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y);
    operation(g, d);
    return y;
}

/* Elementwise: y = mode(x), mode(x, b), or with three operands t ? x : b. An index counts along `axis`. */
typedef struct pointwise {
    cudnnPointwiseMode_t mode;
    cudnnDataType_t      type;
    descriptor           x, b, t, y;
    int64_t              axis;
} pointwise;

static descriptor each(graph *g, pointwise p)
{
    const descriptor how = make(g, CUDNN_BACKEND_POINTWISE_DESCRIPTOR),
                     d = make(g, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    set(g, how, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &p.mode);
    set(g, how, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &p.type);
    if (p.mode == CUDNN_POINTWISE_GEN_INDEX) set(g, how, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, 1, &p.axis);
    set_one(g, d, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, done(g, how));
    set_one(g, d, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, p.x);
    if (p.b) set_one(g, d, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, p.b);
    if (p.t) set_one(g, d, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, p.t);
    set_one(g, d, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, p.y);
    operation(g, d);
    return p.y;
}

#define EACH(m_, ...)      each(g, (pointwise){ .mode = CUDNN_POINTWISE_##m_, .type = CUDNN_DATA_FLOAT, __VA_ARGS__ })
#define SCORES(mode_, ...) EACH(mode_, __VA_ARGS__, .y = scores(g, CUDNN_DATA_FLOAT))

/* ---- attention ---- */

static descriptor masked(graph *g, descriptor x)
{
    if (!g->s->causal) return x;
    const descriptor row = EACH(GEN_INDEX, .x = x, .axis = 2, .y = scores(g, CUDNN_DATA_INT32));
    const descriptor column = EACH(GEN_INDEX, .x = x, .axis = 3, .y = scores(g, CUDNN_DATA_INT32));
    const descriptor visible = each(g, (pointwise){ .mode = CUDNN_POINTWISE_CMP_GE,
                                                    .type = CUDNN_DATA_BOOLEAN,
                                                    .x = row,
                                                    .b = column,
                                                    .y = scores(g, CUDNN_DATA_BOOLEAN) });
    return SCORES(BINARY_SELECT, .x = x, .b = number(g, MASKED), .t = visible);
}

static void forward(graph *g)
{
    const descriptor s =
        masked(g, SCORES(MUL, .x = product(g, heads(g, MBA_DNN_Q), across(g, MBA_DNN_K), scores(g, CUDNN_DATA_FLOAT)),
                         .b = number(g, SCALE)));
    const descriptor most = reduced(g, CUDNN_REDUCE_TENSOR_MAX, s, rows(g, -1));
    const descriptor e = SCORES(EXP, .x = SCORES(SUB, .x = s, .b = most));
    const descriptor sum = reduced(g, CUDNN_REDUCE_TENSOR_ADD, e, rows(g, -1));
    EACH(ADD, .x = most, .b = EACH(LOG, .x = sum, .y = rows(g, -1)), .y = rows(g, MBA_DNN_LSE));
    const descriptor p = EACH(DIV, .x = e, .b = sum, .y = scores(g, CUDNN_DATA_BFLOAT16));
    product(g, p, heads(g, MBA_DNN_V), heads(g, MBA_DNN_O));
}

/* out = x^T of, per key head; with grouped heads, summed over the query heads of a group. */
static void keys_gradient(graph *g, descriptor x, descriptor of, int out)
{
    const mba_dnn_shape *s = g->s;
    const descriptor     across_x =
        reshaped(g, x, tensor(g, transposed(dense(s->B, s->H, s->L, s->Lk)), CUDNN_DATA_BFLOAT16, -1, false));
    if (s->H == s->Hk) {
        product(g, across_x, of, heads(g, out));
        return;
    }
    const descriptor all = tensor(g, dense(s->B, s->H, s->Lk, s->P), CUDNN_DATA_BFLOAT16, -1, false);
    reduced(g, CUDNN_REDUCE_TENSOR_ADD, product(g, across_x, of, all), heads(g, out));
}

static void backward(graph *g)
{
    const mba_dnn_shape *s = g->s;
    const descriptor     q = heads(g, MBA_DNN_Q), k = across(g, MBA_DNN_K), dout = heads(g, MBA_DNN_DO),
                     scale = number(g, SCALE);
    const descriptor both = EACH(MUL, .x = dout, .b = heads(g, MBA_DNN_O),
                                 .y = tensor(g, dense(s->B, s->H, s->L, s->P), CUDNN_DATA_FLOAT, -1, false));
    const descriptor sums = EACH(MUL, .x = reduced(g, CUDNN_REDUCE_TENSOR_ADD, both, rows(g, -1)), .b = number(g, ONE),
                                 .y = rows(g, MBA_DNN_SUMS));
    const descriptor scaled = SCORES(MUL, .x = product(g, q, k, scores(g, CUDNN_DATA_FLOAT)), .b = scale);
    const descriptor p = SCORES(EXP, .x = masked(g, SCORES(SUB, .x = scaled, .b = rows(g, MBA_DNN_LSE))));
    keys_gradient(g, p, dout, MBA_DNN_DV);
    const descriptor dp = product(g, dout, across(g, MBA_DNN_V), scores(g, CUDNN_DATA_FLOAT));
    const descriptor ds = SCORES(MUL, .x = SCORES(MUL, .x = SCORES(SUB, .x = dp, .b = sums), .b = p), .b = scale);
    keys_gradient(g, ds, q, MBA_DNN_DK);
    const descriptor upright = reshaped(g, k, tensor(g, heads_extent(s, MBA_DNN_K), CUDNN_DATA_FLOAT, -1, false));
    product(g, ds, upright, heads(g, MBA_DNN_DQ)); // not to fp32 first: that path uses atomics
}

/* ---- plans ---- */

/* The plan of the library's first answer that works and fits. */
static descriptor plan_of(graph *g, size_t work_bytes)
{
    const descriptor all = make(g, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR),
                     heuristic = make(g, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    const cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A;
    descriptor                   answer[ANSWERS_MAX];
    int64_t                      n = 0;
    set(g, all, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, g->n_ops, g->op);
    set(g, all, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &dnn.handle);
    set_one(g, heuristic, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, done(g, all));
    set(g, heuristic, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    done(g, heuristic);
    for (int i = 0; i < ANSWERS_MAX; i++) answer[i] = make(g, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    if (g->status != CUDNN_STATUS_SUCCESS) return NULL;
    worked(g,
           dnn.f.cudnnBackendGetAttribute(heuristic, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                          ANSWERS_MAX, &n, answer),
           "cudnnBackendGetAttribute");
    for (int i = 0; i < n && i < ANSWERS_MAX && g->status == CUDNN_STATUS_SUCCESS; i++) {
        int64_t    bytes = 0, one = 0;
        descriptor plan = NULL;
        if (dnn.f.cudnnBackendCreateDescriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &plan) != CUDNN_STATUS_SUCCESS)
            continue;
        set(g, plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &dnn.handle);
        set_one(g, plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, answer[i]);
        if (dnn.f.cudnnBackendFinalize(plan) == CUDNN_STATUS_SUCCESS
            && dnn.f.cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &one,
                                              &bytes)
                   == CUDNN_STATUS_SUCCESS
            && (size_t)bytes <= work_bytes)
            return plan;
        dnn.f.cudnnBackendDestroyDescriptor(plan);
    }
    worked(g, CUDNN_STATUS_NOT_SUPPORTED, "no kernel for these heads");
    return NULL;
}

static mba_status failed(const graph *g)
{
    const mba_dnn_shape *s = g->s;
    return mba_fail(MBA_E_DEVICE,
                    "cuDNN reports: %s\nwhy: %s, attention%s of %lld x %lld rows, %lld keys, %lld heads on %lld of "
                    "%lld values\nfix: " INSTEAD,
                    dnn.f.cudnnGetErrorString(g->status), g->failed, s->backward ? ", backward," : "", (long long)s->B,
                    (long long)s->L, (long long)s->Lk, (long long)s->H, (long long)s->Hk, (long long)s->P);
}

static mba_status open_library(void)
{
    if (dnn.handle) return MBA_OK;
    MBA_TRY(mba_library_open("libcudnn.so.9", names, &dnn.f));
    if (dnn.f.cudnnGetVersion() < OLDEST)
        return mba_fail(MBA_E_UNSUPPORTED,
                        "cuDNN %zu is too old for attention\nwhy: it wants 9.6 or later\nfix: " INSTEAD,
                        dnn.f.cudnnGetVersion());
    if (!dnn.plans && !(dnn.plans = calloc(SHAPES_MAX, sizeof *dnn.plans)))
        return mba_fail(MBA_E_NOMEM, "no memory for attention");
    const cudnnStatus_t e = dnn.f.cudnnCreate(&dnn.handle);
    return e == CUDNN_STATUS_SUCCESS ? MBA_OK
                                     : mba_fail(MBA_E_DEVICE, "cuDNN reports: %s\nwhy: cudnnCreate\nfix: " INSTEAD,
                                                dnn.f.cudnnGetErrorString(e));
}

static mba_status find(const choice **out, const mba_cuda_attention *a)
{
    for (int i = 0; i < dnn.n; i++)
        if (!memcmp(&dnn.plans[i].key, &a->shape, sizeof a->shape)) {
            *out = &dnn.plans[i];
            return MBA_OK;
        }
    if (dnn.n == SHAPES_MAX) return mba_fail(MBA_E_UNSUPPORTED, "more than %d shapes of attention", SHAPES_MAX);
    graph g = { .s = &a->shape, .name = NAMED };
    if (a->shape.backward) backward(&g);
    else forward(&g);
    const descriptor plan = plan_of(&g, a->work_bytes);
    while (g.n_made) dnn.f.cudnnBackendDestroyDescriptor(g.made[--g.n_made]);
    if (!plan) return failed(&g);
    dnn.plans[dnn.n] = (choice){ a->shape, plan };
    *out = &dnn.plans[dnn.n++];
    return MBA_OK;
}

mba_status mba_cuda_dnn_attention(const mba_cuda_attention *a)
{
    float         number_of[] = { a->scale, -INFINITY, 1 };
    const void   *at[NAMED];
    int64_t       name[NAMED];
    int           n = 0;
    const choice *c = NULL;
    MBA_TRY(open_library());
    MBA_TRY(find(&c, a));
    for (int i = 0; i < NAMED; i++) {
        const bool  used = i == SCALE || (i == MASKED && a->shape.causal) || (i == ONE && a->shape.backward);
        const void *p = i < MBA_DNN_TENSORS ? a->at[i] : used ? &number_of[i - SCALE] : NULL;
        if (p) {
            name[n] = i;
            at[n++] = p;
        }
    }
    graph            g = { .s = &a->shape };
    const descriptor pack = make(&g, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    set(&g, pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, n, at);
    set(&g, pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, n, name);
    set(&g, pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &a->work);
    done(&g, pack);
    if (g.status == CUDNN_STATUS_SUCCESS)
        worked(&g, dnn.f.cudnnSetStream(dnn.handle, (cudaStream_t)a->stream), "cudnnSetStream");
    if (g.status == CUDNN_STATUS_SUCCESS)
        worked(&g, dnn.f.cudnnBackendExecute(dnn.handle, c->plan, pack), "cudnnBackendExecute");
    while (g.n_made) dnn.f.cudnnBackendDestroyDescriptor(g.made[--g.n_made]);
    return g.status == CUDNN_STATUS_SUCCESS ? MBA_OK : failed(&g);
}
