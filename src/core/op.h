// SPDX-License-Identifier: Apache-2.0
/* op.h -- the declaration of an operator, from which all parts of the program read.
 *
 * The engine reads shape, grad and the variants; tests read ref and cases; the benchmark reads cost and
 * cases; the profiler reads cost and plans; the simulator reads plans. An operator is one folder, one constant
 * of type mba_op per direction, and one line in ops.def.
 *
 *     enum { X };                                       // inputs, by name
 *     enum { Y };                                       // outputs
 *     const mba_op mba_op_relu2 = {
 *         .name  = "relu2", .doc = "y = max(0, x)^2", .kind = MBA_ELEMENTWISE,
 *         .in    = { [X] = MBA_SLOT("x") },
 *         .out   = { [Y] = MBA_SLOT("y", .reuse = MBA_FROM(X), .cheap = true) },
 *         .shape = relu2_shape, .grad = relu2_grad, .cost = relu2_cost, .ref = relu2_ref,
 *         .cpu   = (const mba_variant[]){ { "rows", NULL, relu2_cpu }, { 0 } },
 *         .build = relu2_build,
 *         .cases = (const mba_case[]){ { { 7, 33 }, "no vector width divides it" }, { { 0 }, NULL } },
 *     };
 */
#ifndef MBA_OP_H
#define MBA_OP_H

#include "core/graph.h"
#include "core/plan.h"
#include "core/step.h"
#include "core/world.h"

/* The class of an operator in the report's breakdown. */
// clang-format off
#define MBA_KIND_LIST(X) \
    X(GEMM, "gemm") X(SSM, "ssm") X(CONV, "conv") X(ATTENTION, "attention") X(NORM, "norm") \
    X(ELEMENTWISE, "element-wise") X(REDUCTION, "reduction") X(MESSAGE, "message passing") \
    X(MEMORY, "memory") X(EMBED_LOSS, "embedding/loss") X(OPTIMIZER, "optimizer") \
    X(COLLECTIVE, "collective")
// clang-format on

typedef enum mba_kind {
#define X(kind, text) MBA_##kind,
    MBA_KIND_LIST(X)
#undef X
        MBA_KINDS
} mba_kind;

/* One input or output. Autodiff and the memory plan obey the permissions stated here. */
#define MBA_FROM(slot) ((uint8_t)((slot) + 1))
typedef struct mba_slot {
    const char *name;
    bool        optional; /* in: may be absent */
    bool        saved;    /* out: only for the backward pass; never has a gradient of its own */
    bool        cheap;    /* out: may be recomputed instead of saved */
    bool        adds;     /* out: every variant can add to the values that are there */
    uint8_t     reuse;    /* out: MBA_FROM(k): may lie in the memory of input k if this node is its last reader */
    uint8_t     update;   /* out: MBA_FROM(k): is input k, changed in place */
} mba_slot;
// clang-format off
#define MBA_SLOT(...) { .name = __VA_ARGS__ }
// clang-format on

/* The least work of any implementation, from which floors are computed; an FMA is 2 flops, a sigmoid 2 special_ops. */
typedef struct mba_cost {
    double tensor_flops, vector_flops, special_ops, read_bytes, write_bytes; // special: exp2, log, sin, 1/x, sqrt
    double link_bytes;                                                       // that a rank sends to others
} mba_cost;

/* One way to run the operator on one kind of device. `plan` says whether and how the variant runs the node on a
 * machine, which need not be present; NULL: it runs every node, without scratch. `launch` obeys the plan; NULL: this
 * build has no such device. */
typedef struct mba_call mba_call;
typedef mba_status      mba_plan_fn(mba_plan *p, const mba_node *n, const mba_machine *m);
typedef mba_status      mba_launch_fn(const mba_call *c);
enum { MBA_ISAS = 3 }; /* base (SSE2 or NEON), AVX2, AVX-512: see device/cpu/isa.c */
typedef struct mba_variant {
    const char    *name;
    mba_plan_fn   *plan;
    mba_launch_fn *launch[MBA_ISAS]; /* a CUDA variant has only the first */
} mba_variant;

/* The arguments of a launch. Addresses, that of `step` too, are on the device and point at the first element of a
 * view. */
struct mba_call {
    const mba_node *node;
    const mba_plan *plan;
    void           *in[MBA_IN_MAX], *out[MBA_OUT_MAX];
    char           *work; /* scratch k of the plan is at work + offset[k] */
    const mba_step *step;
    void           *stream;
    mba_world      *world; /* of a collective; NULL: one rank */
};

/* The arguments of a reference: dense fp64 arrays (indices too), NULL where absent. reference.c handles views, dtypes
 * and adding; the operator's reference is only the maths. */
typedef struct mba_ref_call {
    const mba_node *node;
    const double   *in[MBA_IN_MAX];
    double         *out[MBA_OUT_MAX];
    double         *space; /* as many doubles as `ref_space` says, not initialised */
    const mba_step *step;
    mba_world      *world; /* of a collective; NULL: one rank */
} mba_ref_call;

enum { MBA_CASE_EXTREME = 8 }; /* dim[8] of an SSM operator's case: which of ops/extremes.h */
typedef struct mba_case {
    int64_t     dim[9];
    const char *note;
} mba_case;

struct mba_op {
    const char *name, *doc;
    mba_kind    kind;
    mba_slot    in[MBA_IN_MAX], out[MBA_OUT_MAX];
    size_t      attr_bytes; /* of a struct without padding and without pointers */
    bool        remote;     /* another rank uses its input: it has a gradient, though no output has one */
    bool        random;     /* draws numbers from the node's stream */
    int         tf32;       /* products in sequence whose fp32 operands can be TF32 on a GPU: mba_graph.tf32 */
    const char *no_grad;    /* why there is no gradient, if there is none */

    mba_status (*shape)(const mba_node *n, mba_type *out); /* infers output types, or says why it cannot */
    void (*grad)(mba_graph *g, const mba_node *n, mba_tensor *const *d); /* d[k]: gradient of out k, or NULL */
    mba_cost (*cost)(const mba_node *n);
    void (*ref)(const mba_ref_call *c);
    int64_t (*ref_space)(const mba_node *n); /* doubles of scratch for `ref`; NULL: none */
    const mba_variant *cpu, *cuda;           /* best first; the first variant with a plan is chosen */

    void (*build)(mba_graph *g, const mba_case *c); /* appends the case to a graph, for tests and bench */
    double (*terms)(const mba_node *n, int out);    /* number of terms in the sum behind a value; NULL: 1 */
    const mba_case *cases;                          /* small, for proofs; ends with an empty note */
    const mba_case *device_cases;                   /* for GPU variants only: too many values for finite differences */
    const mba_case *sizes;                          /* large, for the benchmark only */
};

#ifdef MBA_WITH_CUDA
#define MBA_CUDA(fn) \
    { \
        fn \
    }
#else
#define MBA_CUDA(fn) \
    { \
        NULL \
    } /* the plan stays: the simulator needs no GPU */
#endif

/* A fast CPU path lives in a file named *_cpu.c, which is compiled once per instruction set:
 *
 *     MBA_CPU_DECLARE(relu2_fwd);                               // relu2_slots.h
 *     mba_status MBA_CPU_FN(relu2_fwd)(const mba_call *c) {..}  // relu2_cpu.c
 *     { "rows", NULL, MBA_CPU(relu2_fwd) }                      // relu2.c: the program picks one of them
 */
#define MBA__JOIN(a, b)  a##_##b
#define MBA__JOIN2(a, b) MBA__JOIN(a, b)
#define MBA_CPU_FN(fn)   MBA__JOIN2(fn, MBA_ISA_SUFFIX)
#ifdef __x86_64__
#define MBA_CPU_DECLARE(fn) mba_launch_fn fn##_base, fn##_avx2, fn##_avx512
#define MBA_CPU(fn) \
    { \
        fn##_base, fn##_avx2, fn##_avx512 \
    }
#else
#define MBA_CPU_DECLARE(fn) mba_launch_fn fn##_base
#define MBA_CPU(fn) \
    { \
        fn##_base \
    }
#endif

/* The bytes of a cost: each operand once. An operator adds its operations. */
mba_cost mba_cost_io(const mba_node *n);

/* The valid fraction of a node in a ragged batch, 0 .. 1: that of its largest operand with a count. */
double             mba_valid_fraction(const mba_node *n, const mba_step *step);
static inline bool mba_adds(const mba_node *n, int k) { return n->adds >> k & 1; }

/* In `shape`: MBA_NEED(mba_cols(x) == mba_elems(w), "the weight has %lld channels", ...); */
#define MBA_NEED(fact, ...) \
    do { \
        if (!(fact)) return mba_fail(MBA_E_SHAPE, __VA_ARGS__); \
    } while (0)

/* In `plan`: refuses the node and says why; the engine then asks the next variant. */
#define MBA_REFUSE_IF(fact, ...) \
    do { \
        if (fact) return mba_fail(MBA_E_UNSUPPORTED, __VA_ARGS__); \
    } while (0)

/* Parallel loops of CPU kernels. The shape fixes the work items, never the number of threads, so results have the same
 * bits at any thread count. FOR divides equal items into ranges; TILES hands out items of unequal cost one by one. */
#define MBA_PARALLEL_FOR(i, n)   _Pragma("omp parallel for schedule(static)") for (int64_t i = 0; i < (n); i++)
#define MBA_PARALLEL_TILES(i, n) _Pragma("omp parallel for schedule(dynamic, 1)") for (int64_t i = 0; i < (n); i++)

/* Precedes an inner loop with independent iterations whose output may lie in the memory of an input (element i in
 * element i). Without it, compiled code detects the overlap at run time and takes the scalar path. */
#define MBA_SIMD_LOOP _Pragma("omp simd")

extern const mba_op *const mba_ops[];                      /* all operators of ops.def, then NULL */
extern const mba_op        mba_op_fill, mba_op_accumulate; /* autodiff itself appends these two */
typedef struct mba_fill_attr {
    double   value;
    mba_type type;
} mba_fill_attr;
const mba_op       *mba_op_find(const char *name);                      /* NULL: no such operator */
MBA_MUST mba_status mba_op_named(const mba_op **out, const char *name); /* the same, fails with a message */

#endif
