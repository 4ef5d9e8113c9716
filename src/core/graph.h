// SPDX-License-Identifier: Apache-2.0
/* graph.h -- the graph: operators in the order they run, and the tensors between them.
 *
 *     mba_graph *g;
 *     MBA_TRY(mba_graph_create(&g));
 *     mba_tensor *x = mba_input(g, "x", MBA_TYPE(MBA_F32, B, M));
 *     mba_enter(g, "layers.%d", i);                                   // names for reports, files
 *     mba_tensor *w = mba_param(g, "up.weight", MBA_TYPE(MBA_F32, D, M), MBA_INIT_UNIFORM(0.1), MBA_DECAY);
 *     mba_tensor *y = mba_linear(g, x, w);                            // appends a node
 *     mba_leave(g);
 *     MBA_TRY(mba_backward(g, loss));                                 // appends the gradients
 *     mba_graph_destroy(g);
 *
 * Order is meaning: a node may read what earlier nodes wrote, and nothing is ever reordered.
 * A builder that finds something wrong marks the graph failed and returns a harmless tensor; later
 * calls do nothing, so a model reads like its maths and the status is asked once, at the end.
 * Fields may be read by everyone; only these functions write them. One thread builds a graph. */
#ifndef MBA_GRAPH_H
#define MBA_GRAPH_H

#include "core/arena.h"
#include "core/plan.h"
#include "core/tensor.h"

typedef struct mba_op    mba_op;
typedef struct mba_graph mba_graph;

/* Parts of a step that can be run by themselves. Eval runs FORWARD; micro-batches run the first two. */
typedef enum mba_pass { MBA_FORWARD = 1, MBA_BACKWARD = 2, MBA_UPDATE = 4, MBA_STEP = 7 } mba_pass;

typedef enum mba_lane { MBA_COMPUTE, MBA_COMM } mba_lane;

/* Parameters of one group share one storage, hence one optimizer node. */
typedef enum mba_group { MBA_DECAY, MBA_NO_DECAY, MBA_GROUPS } mba_group;

typedef struct mba_node {
    int32_t                id; /* place in the order */
    const mba_op          *op;
    const void            *attr; /* the operator's own struct, copied into the graph */
    mba_pass               pass;
    mba_lane               lane;   /* stream of its own: collectives overlap with compute */
    const char            *scope;  /* "layers.3.mixer": layer of the report */
    uint64_t               stream; /* of a random operator */
    uint32_t               adds;   /* bit k: out[k] is added into what is there */
    mba_tensor            *in[MBA_IN_MAX], *out[MBA_OUT_MAX];
    const struct mba_node *serves_node; /* of a backward or recomputed node: the one it serves */
    unsigned               elided_in;   /* passes that make its outputs too: see mba_node_elide */
} mba_node;

/* Whether a run of these passes runs the node. */
static inline bool mba_runs(const mba_node *n, unsigned passes)
{
    return (n->pass & passes) && !(n->elided_in & passes);
}

/* What need not be kept for gradients, by what a byte of it costs, least first: rows that a gradient writes once more
 * on its way (v of gated norms), states that it makes in another pass over the sequence (ssd), and outputs marked
 * cheap, whose makers are run again. See mba_should_recompute. */
typedef enum mba_recompute_kind {
    MBA_RECOMPUTED_ROWS,
    MBA_RECOMPUTED_STATES,
    MBA_RECOMPUTED_CHEAP,
    MBA_RECOMPUTE_KINDS
} mba_recompute_kind;

struct mba_graph {
    mba_arena    *arena;
    mba_status    status; /* the first failure sticks */
    mba_node    **nodes;
    int32_t       nnodes;
    mba_tensor  **tensors;
    int32_t       ntensors;
    mba_storage **storages;
    int32_t       nstorages;
    mba_storage  *params[MBA_GROUPS], *copies[MBA_GROUPS];
    mba_pass      pass; /* what appended nodes belong to */
    const char   *scope;
    bool          recompute; /* nothing is kept that can be made again */
    int64_t
        recompute_bytes_max[MBA_RECOMPUTE_KINDS]; /* bytes of each kind that are made again instead; 0: all is kept */
    int64_t         recomputed_bytes[MBA_RECOMPUTE_KINDS], kept[MBA_RECOMPUTE_KINDS]; /* what became of it, in bytes */
    bool            accumulate;  /* several micro-batches: gradients are always added */
    mba_tensor     *loss;        /* what mba_backward was asked for; NULL before */
    mba_dtype       compute;     /* of the activations in cases of operators; models have their own */
    const mba_node *serves_node; /* what appended nodes get as theirs */
    mba_tensor     *poison;
    mba_node       *poison_node;
};

MBA_MUST mba_status mba_graph_create(mba_graph **out);
void                mba_graph_destroy(mba_graph *g);
MBA_MUST mba_status mba_graph_status(const mba_graph *g);
mba_status          mba_graph_fail(mba_graph *g, mba_status code); /* keeps the first, adds `where:` */

/* ---- for models ---- */
void mba_enter(mba_graph *g, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void mba_leave(mba_graph *g);

mba_tensor *mba_input(mba_graph *g, const char *name, mba_type type);
mba_tensor *mba_index(mba_graph *g, const char *name, mba_type type, int64_t bound);   /* 0 <= value < bound */
mba_tensor *mba_targets(mba_graph *g, const char *name, mba_type type, int64_t bound); /* ... or < 0: ignored */
/* What checks and benchmarks put into an input whose values mean something together (pointers, permutations, missing
 * values); copied. Nothing else looks at it. */
void mba_example(mba_graph *g, mba_tensor *t, const double *values);
/* An input in memory of somebody else, where its elements lie as he says (tensor.h). The gradient it `wants`,
 * once made, lies like it unless mba_make_dense lays it down dense, by itself. */
mba_tensor *mba_input_external(mba_graph *g, const char *name, mba_type type, int64_t offset, int64_t run,
                               int64_t pitch, bool wants);
void        mba_make_dense(mba_tensor *t);
/* The master is fp32, whatever `type` says; a bf16 type returns the compute copy that lies parallel to
 * it and that the optimizer writes. Gradients are the master's: fp32. */
mba_tensor *mba_param(mba_graph *g, const char *name, mba_type type, mba_init init, mba_group group);
/* Rows of the master from `row` on are a tensor of their own to an optimizer that judges whole tensors (LAMB): matrices
 * that are published apart lie in one here. Before the optimizer is appended; nothing else changes. */
void mba_param_cut(mba_graph *g, const mba_tensor *master, int64_t row);
/* The master of what mba_param returned: of a compute copy the fp32 values that it was rounded from, of others
 * itself. */
mba_tensor *mba_master(const mba_graph *g, mba_tensor *param);
mba_tensor *mba_state(mba_graph *g, const char *name, mba_role role, mba_type type);      /* zero at first */
mba_tensor *mba_state_from(mba_graph *g, const char *name, mba_type type, mba_init init); /* MBA_STATE */
#define MBA_INIT_CONST(v)          ((mba_init){ MBA_CONSTANT, (v), 0 })
#define MBA_INIT_NORMAL(s)         ((mba_init){ MBA_NORMAL, (s), 0 })
#define MBA_INIT_UNIFORM(r)        ((mba_init){ MBA_UNIFORM, (r), 0 })       /* -r .. r */
#define MBA_INIT_LOG_UNIFORM(a, b) ((mba_init){ MBA_LOG_UNIFORM, (a), (b) }) /* log of a .. b: A_log */
#define MBA_INIT_LOG_INDEX()       ((mba_init){ MBA_LOG_INDEX, 0, 0 })       /* log(1 + column) */
#define MBA_INIT_STEP(a, b)        ((mba_init){ MBA_STEP_BIAS, (a), (b) })   /* its softplus is log-uniform */

/* Windows: free, no node. A slice of a slice along another axis is refused: copy it first.
 * mba_concat is the inverse of mba_slice along the last axis: it moves two fresh outputs side by side,
 * so that their makers write straight into the joined tensor. */
mba_tensor *mba_slice(mba_graph *g, mba_tensor *t, int axis, int64_t from, int64_t count);
mba_tensor *mba_reshape(mba_graph *g, mba_tensor *t, mba_type shape); /* dtype is kept */
mba_tensor *mba_concat(mba_graph *g, mba_tensor *a, mba_tensor *b);

/* t may be made again in the backward pass instead of being kept, as mba_should_recompute says (all outputs of its
 * maker must be cheap). Operators mark their cheap outputs themselves; a model marks, say, a thin GEMM. */
void mba_cheap(mba_tensor *t);

/* Keeps a tensor readable after the step, under a name. */
mba_tensor *mba_result(mba_graph *g, const char *name, mba_tensor *t);

/* An input, parameter, state or result by its name; NULL where there is none. */
mba_tensor *mba_graph_find(const mba_graph *g, const char *name);

/* True of a parameter as mba_param made it (its master), false of its windows and of flat groups. */
bool mba_is_param(const mba_tensor *t);

/* True of a tensor of role MBA_STATE as mba_state or mba_state_from made it, false of its windows and updates. */
bool mba_is_state(const mba_tensor *t);

/* ---- for builders of operators ---- */
/* Infers the outputs, checks, appends. Never NULL. `attr` is copied. */
mba_node *mba_append(mba_graph *g, const mba_op *op, const void *attr, mba_tensor *const in[MBA_IN_MAX]);
#define MBA_APPEND(g, name, attr, ...) \
    mba_append((g), &mba_op_##name, (attr), (mba_tensor *[MBA_IN_MAX]){ __VA_ARGS__ })

/* All parameters of a group (or what lies parallel to them) as one flat tensor. NULL if empty. */
mba_tensor *mba_flat_params(mba_graph *g, mba_group group);
mba_tensor *mba_flat_copies(mba_graph *g, mba_group group);
mba_tensor *mba_flat_grads(mba_graph *g, mba_group group);

/* ---- autodiff ---- */
/* Appends the backward nodes of a scalar loss, or of any outputs with given gradients. */
MBA_MUST mba_status mba_backward(mba_graph *g, mba_tensor *loss);
MBA_MUST mba_status mba_backward_from(mba_graph *g, int n, mba_tensor *const out[], mba_tensor *const seed[]);

/* In an operator's `grad`: dx, an output of a node just appended, is part of the gradient of x. The
 * engine decides where it goes and whether it is stored or added; x may be NULL or need no gradient. */
void mba_grad_add(mba_graph *g, mba_tensor *x, mba_tensor *dx);

/* The same where dx is the gradient of an output itself (y = a + b): shared, not copied, and copied
 * only if somebody adds to it while another still needs it. */
void        mba_grad_pass(mba_graph *g, mba_tensor *x, mba_tensor *dy);
mba_tensor *mba_grad_of(mba_graph *g, mba_tensor *x); /* NULL if none flows */

/* In an operator's `grad`: b, just appended, writes all outputs of n as well (slots with .update). Where no node in
 * between reads them, a run of both passes leaves n out. */
void mba_node_elide(mba_graph *g, const mba_node *n, const mba_node *b);

/* In an operator's `grad`: where the backward nodes that read t, an output of n, can wait for the gradient node b that
 * makes t once more on its way, t need not be kept. mba_grad_can_defer asks; mba_grad_defer puts them behind b, to read
 * `again`, an output of it. */
bool mba_grad_can_defer(const mba_graph *g, const mba_tensor *t);
void mba_grad_defer(mba_graph *g, const mba_tensor *t, mba_tensor *again);

/* In an operator's `grad`: whether `bytes` of this kind shall be made again rather than kept. Asked once for each node,
 * from the last one of the forward pass back, and says yes until g->recompute_bytes_max of them are made again (always,
 * with g->recompute). train/session.c decides how many those are. */
bool mba_should_recompute(mba_graph *g, mba_recompute_kind kind, double bytes);

/* In an operator's `grad`: output k of the forward node n, a saved slot that `shape` left out since only a backward
 * pass wants it. Graphs that are never differentiated do without. */
mba_tensor        *mba_save_for_backward(mba_graph *g, const mba_node *n, int k, mba_type type);
static inline bool mba_wants(const mba_tensor *x) { return x && x->needs_grad; }

/* ---- shared by the files of core ---- */
mba_storage *mba__storage(mba_graph *g, mba_role role, mba_dtype dtype, int64_t elems, const char *name);
mba_tensor  *mba__view(mba_graph *g, mba_storage *st, mba_type type, const char *name);
void        *mba__grow(mba_graph *g, void *array, int32_t n, size_t item_bytes);

#endif
