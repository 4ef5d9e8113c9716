// SPDX-License-Identifier: Apache-2.0
/* program.h -- a graph prepared for one device: variants chosen, memory planned, then run.
 *
 *     mba_program *p;
 *     MBA_TRY(mba_program_create(&p, g, &(mba_program_options){ .machine = m, .variants = "ssd=fused" }));
 *     mba_program_print_memory(stdout, p);            // print.h: before anything is allocated
 *     MBA_TRY(mba_program_bind(p, &mba_device_cpu));  // allocates the memory, once
 *     MBA_TRY(mba_program_run(p, MBA_STEP, &step, NULL));
 *     mba_program_destroy(p);
 *
 * Before bind, a program is pure data for cost counts, the simulator and the report: it needs no GPU
 * and no CUDA header. The graph must outlive the program. */
#ifndef MBA_PROGRAM_H
#define MBA_PROGRAM_H

#include "core/device.h"
#include "core/graph.h"
#include "core/op.h"

typedef struct mba_program_options {
    bool               cuda; /* plan for CUDA; else for the CPU */
    const mba_machine *machine;
    const char        *variants;    /* "ssd=fused,conv1d=smem": use these or fail; NULL: choose */
    bool               ahead;       /* on a GPU, a second buffer for the inputs of the next run */
    mba_world         *world;       /* that collectives use; NULL: one rank, or only a plan */
    size_t             guard_bytes; /* unused bytes around every storage and scratch, for tests */
} mba_program_options;

/* Where every storage and every node's scratch lies. */
typedef struct mba_memory_plan {
    int32_t *first, *last;           /* per storage: first and last node that uses it; -1: none */
    uint8_t *arena;                  /* per storage: its role; of activations ACT, or GRAD if they lie in
                                                   * the memory of gradients that are written later */
    size_t  *offset;                 /* per storage, inside its arena */
    size_t  *work_offset;            /* per node, inside the step arena */
    size_t   arena_bytes[MBA_ROLES]; /* ACT holds DACT and WORK as well: the step arena */
    size_t   role_bytes[MBA_ROLES];  /* without any sharing over time */
    size_t   live_bytes_max;         /* lower bound of every plan for the step arena */
    int32_t  peak;                   /* the node where that many bytes are live */
} mba_memory_plan;

/* Called before and after every node. On CUDA, a run with hooks launches node by node instead of launching the captured
 * graph. A run without hooks pays one branch per node. */
typedef struct mba_hooks {
    void (*before)(void *ctx, const mba_node *n, const mba_plan *plan);
    void (*after)(void *ctx, const mba_node *n, const mba_plan *plan);
    void *ctx;
} mba_hooks;

typedef struct mba_program {
    const mba_graph    *graph;
    mba_program_options options;
    mba_arena          *arena;
    const mba_plan    **plan;   /* per node; equal nodes share one */
    mba_launch_fn     **launch; /* per node; NULL: this build can plan it but not run it */
    mba_memory_plan     layout;
    const mba_device   *device; /* this and what follows: set by bind */
    void               *memory[MBA_ROLES];
    void               *mirror[MBA_ROLES]; /* host copies of inputs, results; others after pull */
    void               *ahead;             /* device buffer for the inputs of the next run; NULL: not planned */
    void               *other_inputs;      /* second mirror of the inputs; NULL: not planned */
    bool                turned;            /* other_inputs has been filled */
    bool                apart;             /* the current run does not read mirror[MBA_INPUT] */
    void               *kept;              /* the device's own data: captured graphs */
    mba_step           *step;              /* on the device */
    mba_call           *call;              /* per node: addresses, ready to launch */
    mba_status          failed;            /* a device failure that mba_program_host met */
    char                failure[512];      /* its message */
} mba_program;

MBA_MUST mba_status mba_program_create(mba_program **out, const mba_graph *g, const mba_program_options *o);
MBA_MUST mba_status mba_program_bind(mba_program *p, const mba_device *d);
MBA_MUST mba_status mba_program_run(mba_program *p, unsigned passes, const mba_step *step, const mba_hooks *h);
/* Waits until the device has done all runs, and returns their failures. Call it before you read results:
 * mba_program_host cannot return a failure and leaves it to the next call that can. */
MBA_MUST mba_status mba_program_wait(const mba_program *p);
void                mba_program_destroy(mba_program *p);
void               *mba_program_at(const mba_program *p, const mba_tensor *t); /* device address; NULL: not placed */
/* The host address of an input or a result. Waits until the device has finished with it. The next run sees what is
 * written to an input; a result is that of the last run. On the CPU it is the tensor itself. */
void *mba_program_host(mba_program *p, const mba_tensor *t);
/* Double-buffered inputs. mba_program_swap_inputs switches to the other mirror: inputs written from then on belong to
 * the next run, and the host need not wait for the current one. mba_program_upload_inputs starts to copy them while
 * that run works. Returns false and does nothing if the device is the host or no second buffer was planned (`ahead`). A
 * second swap returns to the inputs of the last run.
 *
 *     run n;  if (mba_program_swap_inputs(p)) { write inputs of n + 1; upload; }  read results of n;  run n + 1; */
bool                mba_program_swap_inputs(mba_program *p);
MBA_MUST mba_status mba_program_upload_inputs(mba_program *p);
/* One of many equal runs, for measurements. As in training, the inputs of the next run are uploaded meanwhile. */
MBA_MUST mba_status mba_program_repeat(mba_program *p, unsigned passes, const mba_step *step);
void               *mba_program_host_counterpart(const mba_program *p, const mba_storage *st, const mba_tensor *param);
/* What outlives a step: parameters, gradients, moments, states. pull copies it to host mirrors, which mba_program_host
 * returns. push copies the mirrors (not gradients) back and rounds parameters into their compute copies. On the CPU
 * both do nothing. */
MBA_MUST mba_status mba_program_pull(mba_program *p);
MBA_MUST mba_status mba_program_push(mba_program *p);
/* Copies a whole dense tensor from or to fp32 (or int32) values of the host, whatever its type on the device. Setting a
 * parameter sets its compute copy too. */
MBA_MUST mba_status mba_program_set(mba_program *p, const mba_tensor *t, const void *host);
MBA_MUST mba_status mba_program_get(const mba_program *p, const mba_tensor *t, void *host);
/* The address of what belongs to a parameter in a storage with the same offsets: its gradient, its moments. */
void               *mba_program_counterpart(const mba_program *p, const mba_storage *st, const mba_tensor *param);
size_t              mba_program_bytes(const mba_program *p);         /* all arenas: what bind allocates */
size_t              mba_program_ahead_bytes(const mba_program *p);   /* of them: inputs of the next run */
MBA_MUST mba_status mba_program_init(mba_program *p, uint64_t seed); /* parameters and states, by name */

/* Asks one variant for its plan. `of` is the plan of the forward node that n serves: it says what that node saves for
 * n. NULL: n serves none. */
MBA_MUST mba_status mba_plan_variant(mba_plan *out, const mba_plan *of, mba_arena *a, const mba_node *n,
                                     const mba_variant *v, const mba_machine *m);

/* The reference: runs any graph node by node, in fp64 and without sharing memory. */
typedef struct mba_reference mba_reference;
MBA_MUST mba_status          mba_reference_create(mba_reference **out, const mba_graph *g);
void                         mba_reference_join(mba_reference *r, mba_world *w); /* for collectives: world.h */
MBA_MUST mba_status          mba_reference_run(mba_reference *r, unsigned passes, const mba_step *step);
double                      *mba_reference_at(mba_reference *r, const mba_tensor *t); /* of a dense tensor */
void                         mba_reference_destroy(mba_reference *r);

/* The initial value of element i of a parameter; the same for the program and the reference. */
double mba_init_value(const mba_tensor *t, uint64_t seed, int64_t i);

/* ---- shared by the files of core ---- */
void  mba__memory_plan(mba_program *p);                            /* fills p->layout; needs p->plan */
void *mba__copy_of(const mba_program *p, const mba_tensor *param); /* its compute copy, or NULL */

#endif
