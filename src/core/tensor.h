// SPDX-License-Identifier: Apache-2.0
/* tensor.h -- a tensor is a strided view of a storage.
 *
 * A storage is memory with one dtype and one role. A tensor has a type (dtype and shape) and says
 * where its elements lie in the storage: element i (in row-major order of its shape) is at
 *
 *     offset + (i / run) * pitch + i % run
 *
 * A dense tensor has run == pitch == elems; columns a..b of a matrix have run = b-a and
 * pitch = width. The models need no more: a slice or a reshape is another view, costs nothing and
 * is no node. Kernels see an address and a row pitch, never five strides.
 *
 * The engine rests on three consequences:
 *   - the gradient of a view is the same view of the storage's gradient;
 *   - the parameters of one group are views of one storage, so optimizer, clipping and all-reduce
 *     work on one flat tensor, and its gradient and moments have the same offsets;
 *   - lifetimes are lifetimes of storages. */
#ifndef MBA_TENSOR_H
#define MBA_TENSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Marks plain C functions that kernels call too. */
#ifdef __CUDACC__
#define MBA_HD __host__ __device__
#else
#define MBA_HD
#endif

enum { MBA_RANK_MAX = 5, MBA_ALIGN_BYTES = 256, MBA_ALIGN_ELEMS = 64 };

typedef enum mba_dtype { MBA_NONE, MBA_F32, MBA_BF16, MBA_I32 } mba_dtype;

/* What a storage is for. The role decides in which arena it lies and how the memory report groups it. */
#define MBA_ROLE_LIST(X) \
    X(INPUT, "inputs")      /* written by the loader before a step */ \
    X(PARAM, "parameters")  /* fp32 masters */ \
    X(COPY, "compute copy") /* bf16 copies of parameters, written by the optimizer */ \
    X(GRAD, "gradients")    /* of parameters, fp32 */ \
    X(OPTIM, "optimizer") \
    X(STATE, "state")     /* running statistics, anything that outlives a step */ \
    X(RESULT, "results")  /* losses and metrics the host reads after a step */ \
    X(ACT, "activations") /* from here on: memory is shared over time */ \
    X(DACT, "activation gradients") \
    X(WORK, "workspace")

typedef enum mba_role {
#define X(role, text) MBA_##role,
    MBA_ROLE_LIST(X)
#undef X
        MBA_ROLES
} mba_role;

/* Which count limits an axis in a ragged batch: shapes are capacities, mba_step holds the counts. */
typedef enum mba_count { MBA_ALL, MBA_NODES, MBA_EDGES, MBA_GRAPHS, MBA_TARGETS, MBA_COUNTS } mba_count;

typedef struct mba_type { /* no padding: types and attributes are compared as bytes */
    mba_dtype dtype;      /* MBA_NONE: this output does not exist */
    mba_count count;      /* limits axis 0 */
    mba_count steps;      /* limits axis 1, if axis 0 is one sequence that holds the whole batch */
    int32_t   rank;
    int64_t   dim[MBA_RANK_MAX];
} mba_type;

/* MBA_TYPE(MBA_F32, B, L, D) */
#define MBA_TYPE(dt, ...) \
    ((mba_type){ .dtype = (dt), \
                 .dim = { __VA_ARGS__ }, \
                 .rank = (int32_t)(sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)) })

typedef struct mba_storage {
    int32_t             id;
    mba_role            role;
    mba_dtype           dtype;
    int64_t             elems;
    int64_t             unused; /* of them: ends of padded rows (mba_pad_rows), which no view covers */
    const char         *name;
    struct mba_storage *master;  /* of a COPY: the PARAM it is a copy of */
    struct mba_storage *grad;    /* set by autodiff */
    struct mba_written *written; /* of a gradient: which views have been written */
    int64_t            *start;   /* of parameters: offsets where each begins, and the parts of those that are
                                              cut (mba_param_cut), ascending; the padding between them is zero */
    int32_t             nstarts;
} mba_storage;

/* The initial distribution of a parameter. Its numbers come from the stream of its name, so order does not matter. */
typedef enum mba_dist { MBA_CONSTANT, MBA_NORMAL, MBA_UNIFORM, MBA_LOG_UNIFORM, MBA_LOG_INDEX, MBA_STEP_BIAS } mba_dist;
typedef struct mba_init {
    mba_dist dist;
    double   a, b;
} mba_init;

typedef struct mba_tensor {
    int32_t            id;
    const char        *name;
    mba_type           type;
    mba_storage       *st;
    int64_t            offset, run, pitch; /* in elements */
    int64_t            bound;              /* of an index: values lie in 0 .. bound-1 */
    bool               may_ignore;         /* of an index: negative values mean "no target" */
    bool               cheap;              /* may be recomputed in the backward pass instead of saved */
    mba_init           init;               /* of a parameter, or of a state that does not start at zero */
    const double      *example;            /* of an input: values for tests and benchmarks; NULL: random values */
    struct mba_node   *producer_node;      /* NULL for inputs, parameters and slices or reshapes of others */
    bool               needs_grad;
    struct mba_tensor *base;  /* of a slice or reshape: the tensor that it is a view of */
    struct mba_tensor *again; /* its recomputed copy in the backward pass, or itself if it is saved */
} mba_tensor;

/* bf16 is the upper half of an fp32. Rounding is to nearest, ties to even. */
static inline float mba_from_bf16(uint16_t h)
{
    const union {
        uint32_t bits;
        float    value;
    } u = { .bits = (uint32_t)h << 16 };
    return u.value;
}

static inline uint16_t mba_to_bf16(float x)
{
    const union {
        float    value;
        uint32_t bits;
    } u = { .value = x };
    if ((u.bits & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(u.bits >> 16 | 0x40); /* NaN stays one */
    return (uint16_t)((u.bits + 0x7fffu + (u.bits >> 16 & 1)) >> 16);
}

size_t  mba_dtype_bytes(mba_dtype dt);
int64_t mba_type_elems(const mba_type *t);
bool    mba_type_equal(const mba_type *a, const mba_type *b);

/* A tensor seen as rows of its last axis. mba_ld is the distance between rows, in elements. */
static inline int64_t mba_elems(const mba_tensor *t) { return mba_type_elems(&t->type); }
static inline int64_t mba_cols(const mba_tensor *t) { return t->type.dim[t->type.rank - 1]; }
static inline int64_t mba_rows(const mba_tensor *t) { return mba_elems(t) / mba_cols(t); }
static inline bool    mba_dense(const mba_tensor *t) { return t->run == mba_elems(t); }
static inline double  mba_tensor_bytes(const mba_tensor *t)
{
    return (double)mba_elems(t) * (double)mba_dtype_bytes(t->type.dtype);
}
int64_t mba_ld(const mba_tensor *t);

#endif
