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
 * Nodes run in the order in which they are appended: a node may read what earlier nodes wrote.
 * A builder that finds an error marks the graph failed and returns a harmless tensor; later
 * calls do nothing. So a model reads like its maths, and the caller asks for the status once, at the end.
 * Everyone may read fields; only these functions write them. One thread builds a graph. */
#ifndef MBA_GRAPH_H
#define MBA_GRAPH_H

#include "core/arena.h"
#include "core/plan.h"
#include "core/tensor.h"

typedef struct mba_op    mba_op;
typedef struct mba_graph mba_graph;

/* Parts of a step that can run separately. Evaluation runs FORWARD; each of several micro-batches runs the first
 * two. */
typedef enum mba_pass { MBA_FORWARD = 1, MBA_BACKWARD = 2, MBA_UPDATE = 4, MBA_STEP = 7 } mba_pass;

typedef enum mba_lane { MBA_COMPUTE, MBA_COMM } mba_lane;

/* Parameters of one group share one storage, hence one optimizer node. */
typedef enum mba_group { MBA_DECAY, MBA_NO_DECAY, MBA_GROUPS } mba_group;

typedef struct mba_node {
    int32_t                id; /* position in the order */
    const mba_op          *op;
    const void            *attr; /* the operator's own struct, copied into the graph */
    mba_pass               pass;
    mba_lane               lane;   /* COMM: on its own stream, so that collectives overlap */
    const char            *scope;  /* "layers.3.mixer": layer of the report */
    uint64_t               stream; /* of a random operator: see rng.h */
    uint32_t               adds;   /* bit k: the node adds to out[k] instead of storing it */
    bool                   tf32;   /* mba_graph.tf32, where the operator has such products */
    mba_tensor            *in[MBA_IN_MAX], *out[MBA_OUT_MAX];
    const struct mba_node *serves_node; /* of a backward or recomputed node: the forward node it serves */
    unsigned               elided_in;   /* passes that compute its outputs too: see mba_node_elide */
} mba_node;

/* True if a run of these passes runs the node. */
static inline bool mba_runs(const mba_node *n, unsigned passes)
{
    return (n->pass & passes) && !(n->elided_in & passes);
}

/* What can be recomputed instead of saved for the backward pass, cheapest per byte first: rows that a gradient kernel
 * rewrites anyway (v of gated norms), states that it computes in another pass over the sequence (ssd), and outputs
 * marked cheap, whose nodes run again. See mba_should_recompute. */
typedef enum mba_recompute_kind {
    MBA_RECOMPUTED_ROWS,
    MBA_RECOMPUTED_STATES,
    MBA_RECOMPUTED_CHEAP,
    MBA_RECOMPUTE_KINDS
} mba_recompute_kind;

struct mba_graph {
    mba_arena      *arena;
    mba_status      status; /* the first failure sticks */
    mba_node      **nodes;
    int32_t         nnodes;
    mba_tensor    **tensors;
    int32_t         ntensors;
    mba_storage   **storages;
    int32_t         nstorages;
    mba_storage    *params[MBA_GROUPS], *copies[MBA_GROUPS];
    mba_pass        pass; /* of the nodes that are appended now */
    const char     *scope;
    bool            recompute;                                /* recompute everything that can be, save nothing of it */
    int64_t         recompute_bytes_max[MBA_RECOMPUTE_KINDS]; /* bytes of each kind to recompute; 0: save all */
    int64_t         recomputed_bytes[MBA_RECOMPUTE_KINDS];    /* bytes of each kind that the graph recomputes, */
    int64_t         kept[MBA_RECOMPUTE_KINDS];                /* and that it saves */
    bool            accumulate;  /* several micro-batches: parameter gradients are always added */
    mba_tensor     *loss;        /* that mba_backward was called with; NULL before */
    mba_dtype       compute;     /* type of activations in cases of operators; models have their own */
    bool            tf32;        /* on a GPU, products of fp32 operands round these to TF32; set before nodes follow */
    const mba_node *serves_node; /* the forward node that appended nodes serve, or NULL */
    mba_tensor     *poison;      /* what builders return once the graph has failed */
    mba_node       *poison_node;
};

MBA_MUST mba_status mba_graph_create(mba_graph **out);
void                mba_graph_destroy(mba_graph *g);
MBA_MUST mba_status mba_graph_status(const mba_graph *g);
mba_status          mba_graph_fail(mba_graph *g, mba_status code); /* keeps the first failure, adds `where:` */

/* ---- for models ---- */
void mba_enter(mba_graph *g, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void mba_leave(mba_graph *g);

mba_tensor *mba_input(mba_graph *g, const char *name, mba_type type);
mba_tensor *mba_index(mba_graph *g, const char *name, mba_type type, int64_t bound);   /* 0 <= value < bound */
mba_tensor *mba_targets(mba_graph *g, const char *name, mba_type type, int64_t bound); /* < 0: ignored */
/* Values for checks and benchmarks, for an input whose values must fit together (pointers, permutations, missing
 * values). The graph copies them. Nothing else reads them. */
void mba_example(mba_graph *g, mba_tensor *t, const double *values);
/* An input in the caller's own buffer, with the given strided view (tensor.h). If it `wants` a gradient, that has the
 * same view, unless mba_make_dense makes it dense. */
mba_tensor *mba_input_external(mba_graph *g, const char *name, mba_type type, int64_t offset, int64_t run,
                               int64_t pitch, bool wants);
void        mba_make_dense(mba_tensor *t);
/* A parameter has an fp32 master, whatever `type` says. For a bf16 type, mba_param returns the compute copy, which has
 * the master's offsets and is written by the optimizer. Gradients belong to the master and are fp32. */
mba_tensor *mba_param(mba_graph *g, const char *name, mba_type type, mba_init init, mba_group group);
/* A parameter with room for `rows` rows; returns a view of all of them. The rows beyond those of `type` are zero and
 * stay zero if their gradient is, as it is where nothing uses the columns that they produce. They are no part of the
 * parameter: files and counts do not know them. */
mba_tensor *mba_param_padded(mba_graph *g, const char *name, mba_type type, mba_init init, mba_group group,
                             int64_t rows);
/* Cuts a parameter at `row`: an optimizer that judges whole tensors (LAMB) treats the rows from there as another
 * tensor. For matrices that are separate in published models and joined here. Call it before the optimizer is
 * appended. */
void mba_param_cut(mba_graph *g, const mba_tensor *master, int64_t row);
/* The master of what mba_param returned: for a compute copy its fp32 master, otherwise the tensor itself. */
mba_tensor *mba_master(const mba_graph *g, mba_tensor *param);
mba_tensor *mba_state(mba_graph *g, const char *name, mba_role role, mba_type type);      /* starts as zeros */
mba_tensor *mba_state_from(mba_graph *g, const char *name, mba_type type, mba_init init); /* MBA_STATE */
#define MBA_INIT_CONST(v)          ((mba_init){ MBA_CONSTANT, (v), 0 })
#define MBA_INIT_NORMAL(s)         ((mba_init){ MBA_NORMAL, (s), 0 })
#define MBA_INIT_UNIFORM(r)        ((mba_init){ MBA_UNIFORM, (r), 0 })       /* -r .. r */
#define MBA_INIT_LOG_UNIFORM(a, b) ((mba_init){ MBA_LOG_UNIFORM, (a), (b) }) /* log of a .. b: A_log */
#define MBA_INIT_LOG_INDEX()       ((mba_init){ MBA_LOG_INDEX, 0, 0 })       /* log(1 + column) */
#define MBA_INIT_STEP(a, b)        ((mba_init){ MBA_STEP_BIAS, (a), (b) })   /* its softplus is log-uniform */

/* Strided views cost nothing and are no nodes. A slice of a slice along another axis is refused: copy it first.
 * mba_concat is the inverse of mba_slice along the last axis: it places two outputs that nothing has used yet side by
 * side, so that their nodes write straight into the joined tensor. */
mba_tensor *mba_slice(mba_graph *g, mba_tensor *t, int axis, int64_t from, int64_t count);
mba_tensor *mba_reshape(mba_graph *g, mba_tensor *t, mba_type shape); /* dtype is kept */
mba_tensor *mba_concat(mba_graph *g, mba_tensor *a, mba_tensor *b);

/* Moves the rows of an output that nothing has used yet apart, so that each begins at a multiple of `multiple`
 * elements. Its shape, its values and its gradient stay the same: nothing reads or writes the gaps. Returns t. */
mba_tensor *mba_pad_rows(mba_graph *g, mba_tensor *t, int64_t multiple);

/* Marks t as cheap: the backward pass may recompute it if mba_should_recompute says so. All outputs of its node must be
 * cheap. Operators mark their cheap outputs themselves; a model marks, say, a thin GEMM. */
void mba_cheap(mba_tensor *t);

/* Keeps a tensor readable after the step, under a name. */
mba_tensor *mba_result(mba_graph *g, const char *name, mba_tensor *t);

/* Finds an input, parameter, state or result by its name; NULL if there is none. */
mba_tensor *mba_graph_find(const mba_graph *g, const char *name);

/* True for the master of a parameter, false for views of it and for flat groups. */
bool mba_is_param(const mba_tensor *t);

/* True for a tensor of role MBA_STATE that mba_state or mba_state_from created, false for views and updates of it. */
bool mba_is_state(const mba_tensor *t);

/* ---- for builders of operators ---- */
/* Checks the inputs, infers the outputs and appends a node. Copies `attr`. Never returns NULL. */
mba_node *mba_append(mba_graph *g, const mba_op *op, const void *attr, mba_tensor *const in[MBA_IN_MAX]);
#define MBA_APPEND(g, name, attr, ...) \
    mba_append((g), &mba_op_##name, (attr), (mba_tensor *[MBA_IN_MAX]){ __VA_ARGS__ })

/* For an optimizer of several ranks: the node of output t runs on the lane MBA_COMM, beside others. */
void mba_node_beside(mba_graph *g, mba_tensor *t);

/* The same: the node of t, the last of the graph, moves forward to just behind the last node that touches its operands.
 * It keeps its pass. */
void mba_node_advance(mba_graph *g, mba_tensor *t);

/* The first node behind node i that reads or writes what node i does, on another lane than MBA_COMM: where the lanes
 * join. g->nnodes: none does. */
int32_t mba_node_joins(const mba_graph *g, int32_t i);

/* All parameters of a group, or their copies or gradients, as one flat tensor. NULL if there are none. */
mba_tensor *mba_flat_params(mba_graph *g, mba_group group);
mba_tensor *mba_flat_copies(mba_graph *g, mba_group group);
mba_tensor *mba_flat_grads(mba_graph *g, mba_group group);

/* ---- autodiff ---- */
/* Appends the backward nodes of a scalar loss, or of any outputs with given gradients. */
MBA_MUST mba_status mba_backward(mba_graph *g, mba_tensor *loss);
MBA_MUST mba_status mba_backward_from(mba_graph *g, int n, mba_tensor *const out[], mba_tensor *const seed[]);

/* In an operator's `grad`: dx, an output of a node just appended, is part of the gradient of x. The
 * engine decides where it lies and whether it is stored or added; x may be NULL or need no gradient. */
void mba_grad_add(mba_graph *g, mba_tensor *x, mba_tensor *dx);

/* The same, if the part is the gradient dy of an output itself (y = a + b): x shares it. It is copied only if somebody
 * adds to it while another tensor still needs it. */
void        mba_grad_pass(mba_graph *g, mba_tensor *x, mba_tensor *dy);
mba_tensor *mba_grad_of(mba_graph *g, mba_tensor *x); /* NULL: x has no gradient */

/* In an operator's `grad`: b, just appended, writes all outputs of n as well (slots with .update). If no node between
 * them reads those outputs, a run of both passes skips n. */
void mba_node_elide(mba_graph *g, const mba_node *n, const mba_node *b);

/* In an operator's `grad`: if all backward readers of t can run after the gradient node b, and b recomputes t, do not
 * save t. mba_grad_can_defer tests that; mba_grad_defer moves the readers behind b, where they read `again`, an output
 * of b. */
bool mba_grad_can_defer(const mba_graph *g, const mba_tensor *t);
void mba_grad_defer(mba_graph *g, const mba_tensor *t, mba_tensor *again);

/* In an operator's `grad`: true if `bytes` of this kind are to be recomputed rather than saved. Each node asks once,
 * from the last node of the forward pass back. The answer is yes until g->recompute_bytes_max bytes are recomputed, and
 * always with g->recompute. train/session.c sets that limit. */
bool mba_should_recompute(mba_graph *g, mba_recompute_kind kind, double bytes);

/* In an operator's `grad`: adds output k to the forward node n, a saved slot that `shape` left out because only a
 * backward pass needs it. Graphs without a backward pass do without. */
mba_tensor        *mba_save_for_backward(mba_graph *g, const mba_node *n, int k, mba_type type);
static inline bool mba_wants(const mba_tensor *x) { return x && x->needs_grad; }

/* ---- shared by the files of core ---- */
mba_storage *mba__storage(mba_graph *g, mba_role role, mba_dtype dtype, int64_t elems, const char *name);
mba_tensor  *mba__view(mba_graph *g, mba_storage *st, mba_type type, const char *name);
void        *mba__grow(mba_graph *g, void *array, int32_t n, size_t item_bytes);

#endif
