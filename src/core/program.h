// SPDX-License-Identifier: Apache-2.0
/* program.h -- a graph made ready for one device: variants chosen, memory planned, then run.
 *
 *     mba_program *p;
 *     MBA_TRY(mba_program_create(&p, g, &(mba_program_options){ .machine = m, .variants = "ssd=fused" }));
 *     mba_program_print_memory(stdout, p);            // print.h: before anything is taken
 *     MBA_TRY(mba_program_bind(p, &mba_device_cpu));  // takes the memory, once
 *     MBA_TRY(mba_program_run(p, MBA_STEP, &step, NULL));
 *     mba_program_destroy(p);
 *
 * Without bind, a program is pure data for the count, the simulator and the report: it needs no GPU
 * and no CUDA header. The graph must outlive it. */
#ifndef MBA_PROGRAM_H
#define MBA_PROGRAM_H

#include "core/device.h"
#include "core/graph.h"
#include "core/op.h"

typedef struct mba_program_options {
    bool               cuda; /* plan for CUDA; else for the CPU */
    const mba_machine *machine;
    const char        *variants;    /* "ssd=fused,conv1d=smem": these or failure */
    bool               ahead;       /* on a GPU, room for the inputs of the next run beside those of this one */
    size_t             guard_bytes; /* unused bytes around every storage and scratch, for tests */
} mba_program_options;

/* Where every storage and every node's scratch lies. */
typedef struct mba_memory_plan {
    int32_t *first, *last;           /* per storage: nodes that touch it; -1: none */
    uint8_t *arena;                  /* per storage: its role, ACT, or GRAD until gradients need it */
    size_t  *offset;                 /* per storage, inside its arena */
    size_t  *work_offset;            /* per node, inside the step arena */
    size_t   arena_bytes[MBA_ROLES]; /* ACT holds DACT and WORK as well: the step arena */
    size_t   role_bytes[MBA_ROLES];  /* as if nothing were shared over time */
    size_t   live_bytes_max;         /* no plan can need less */
    int32_t  peak;                   /* the node where that happens */
} mba_memory_plan;

/* Called around every node when given; a run without hooks pays one branch per node. On CUDA a run
 * with hooks launches node by node instead of replaying the captured graph. */
typedef struct mba_hooks {
    void (*before)(void *ctx, const mba_node *n, const mba_plan *plan);
    void (*after)(void *ctx, const mba_node *n, const mba_plan *plan);
    void *ctx;
} mba_hooks;

typedef struct mba_program {
    const mba_graph    *graph;
    mba_program_options options;
    mba_arena          *arena;
    const mba_plan    **plan;   /* per node; equal nodes share */
    mba_launch_fn     **launch; /* per node; NULL: this build can only predict it */
    mba_memory_plan     layout;
    const mba_device   *device; /* after bind: */
    void               *memory[MBA_ROLES];
    void               *mirror[MBA_ROLES]; /* inputs and results on the host, where that is not the device */
    void               *ahead;             /* inputs of the next run on the device; NULL: no room was planned */
    void               *other_inputs;      /* a second mirror of the inputs; NULL likewise */
    bool                turned;            /* it has been filled */
    bool                apart;             /* what is under way does not read the mirror of the inputs */
    void               *kept;              /* the device's own: captured graphs */
    mba_step           *step;              /* the device's copy */
    mba_call           *call;              /* per node, ready to go */
    mba_status          failed;            /* of the device, while the host waited for it */
    char                failure[512];      /* its story */
} mba_program;

MBA_MUST mba_status mba_program_create(mba_program **out, const mba_graph *g, const mba_program_options *o);
MBA_MUST mba_status mba_program_bind(mba_program *p, const mba_device *d);
MBA_MUST mba_status mba_program_run(mba_program *p, unsigned passes, const mba_step *step, const mba_hooks *h);
/* Until the device has done all of it. What it could not do is told here, and must be asked for before results are
 * looked at: mba_program_host has no way to tell, and leaves its failure to the next call that has. */
MBA_MUST mba_status mba_program_wait(const mba_program *p);
void                mba_program_destroy(mba_program *p);
void *mba_program_at(const mba_program *p, const mba_tensor *t); /* device address, lent; NULL: no place */
/* The host's side of an input or a result; waits until the device is done with it. What is written to an input
 * is seen by the next run; a result is that of the last one. On the CPU it is the tensor itself. */
void *mba_program_host(mba_program *p, const mba_tensor *t);
/* Between two runs of a device that works by itself: the inputs that are written from here on are those of the next
 * run, and the host need not wait for the one under way. `send` begins to copy them, beside that run. `turn` gives
 * false, and nothing happens, where the device is the host or no room was planned (`ahead`); turning twice gives the
 * inputs of the last run back.
 *
 *     run n;
 *     if (mba_program_swap_inputs(p)) { write the inputs of n + 1; send; }
 *     look at the results of n;  run n + 1; */
bool                mba_program_swap_inputs(mba_program *p);
MBA_MUST mba_status mba_program_upload_inputs(mba_program *p);
/* A run of a row of equal ones, for measurements: as in training, the inputs of the next are sent while it works. */
MBA_MUST mba_status mba_program_repeat(mba_program *p, unsigned passes, const mba_step *step);
void               *mba_program_host_counterpart(const mba_program *p, const mba_storage *st, const mba_tensor *param);
/* What outlives a step (parameters, gradients, moments, states) for the host to read, by mba_program_host: a copy of it
 * where the device is not the host. push sends what was changed there back, and makes compute copies of it. */
MBA_MUST mba_status mba_program_pull(mba_program *p);
MBA_MUST mba_status mba_program_push(mba_program *p);
/* Whole dense tensors from and to fp32 (or int32) of the host, whatever the device and the type there. Setting a
 * parameter sets its compute copy too. */
MBA_MUST mba_status mba_program_set(mba_program *p, const mba_tensor *t, const void *host);
MBA_MUST mba_status mba_program_get(const mba_program *p, const mba_tensor *t, void *host);
/* What lies beside a parameter in a storage with the same offsets: its gradient, its moments. */
void               *mba_program_counterpart(const mba_program *p, const mba_storage *st, const mba_tensor *param);
size_t              mba_program_bytes(const mba_program *p);         /* all arenas: what bind takes */
size_t              mba_program_ahead_bytes(const mba_program *p);   /* of them: inputs of the next run */
MBA_MUST mba_status mba_program_init(mba_program *p, uint64_t seed); /* parameters and states, by name */

/* `of`: the plan of the node that n serves, which decides what that node leaves for n; NULL: none. */
MBA_MUST mba_status mba_plan_variant(mba_plan *out, const mba_plan *of, mba_arena *a, const mba_node *n,
                                     const mba_variant *v, const mba_machine *m);

/* The yardstick: any graph, node by node, in fp64 and without sharing memory. */
typedef struct mba_reference mba_reference;
MBA_MUST mba_status          mba_reference_create(mba_reference **out, const mba_graph *g);
MBA_MUST mba_status          mba_reference_run(mba_reference *r, unsigned passes, const mba_step *step);
double                      *mba_reference_at(mba_reference *r, const mba_tensor *t); /* of a dense tensor */
void                         mba_reference_destroy(mba_reference *r);

/* The value element i of a parameter starts with; the same for the program and the reference. */
double mba_init_value(const mba_tensor *t, uint64_t seed, int64_t i);

/* ---- shared by the files of core ---- */
void  mba__memory_plan(mba_program *p);                            /* fills p->layout; plans are chosen */
void *mba__copy_of(const mba_program *p, const mba_tensor *param); /* its compute copy, or NULL */

#endif
