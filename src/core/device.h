// SPDX-License-Identifier: Apache-2.0
/* device.h -- the interface between the engine and a device: memory, copies, runs.
 *
 *     MBA_TRY(mba_device_cuda(&d, 0));        // or &mba_device_cpu
 *     MBA_TRY(mba_program_bind(p, d));
 *
 * The CPU is always available. A build without CUDA links device_cuda_none.c, whose mba_device_cuda fails with a
 * message that says how to build with CUDA. No other file needs to know which build it is in. */
#ifndef MBA_DEVICE_H
#define MBA_DEVICE_H

#include "core/graph.h"

struct mba_program;
struct mba_hooks;

typedef struct mba_device {
    const char        *name;
    const mba_machine *machine;                    /* what plans may read */
    const char        *bus_id;                     /* "0000:3B:00.0": how the driver knows this GPU; NULL: no GPU */
    void              *stream;                     /* handed to every launch */
    mba_status (*alloc)(void **out, size_t bytes); /* zeroed, aligned */
    void (*dealloc)(void *p);
    mba_status (*alloc_host)(void **out, size_t bytes); /* pinned host memory; NULL: the device */
    void (*dealloc_host)(void *p);                      /* is the host */
    mba_status (*put)(void *device, const void *host, size_t bytes);
    mba_status (*get)(void *host, const void *device, size_t bytes); /* waits for the copy */
    /* Starts to copy the mirror of the inputs for the next run, while the current run works. NULL: each run copies its
     * own inputs. */
    mba_status (*send)(struct mba_program *p);
    /* The host writes the mirror of the inputs again, so a copy that `send` started is discarded. NULL: nothing to
     * discard. */
    mba_status (*recall)(const struct mba_program *p);
    mba_status (*run)(struct mba_program *p, unsigned passes, const struct mba_hooks *h); /* may return early */
    mba_status (*wait)(void); /* until runs are done; NULL: they are */
    /* Runs once and times every node by the device's clock; `cold` clears the caches before each. NULL: the caller
     * takes the host's clock. */
    mba_status (*time_nodes)(struct mba_program *p, unsigned passes, double *seconds, bool cold);
    /* x = scale x + y, of n floats each; y may be NULL. Sums over slots (train/slots.h). */
    mba_status (*fold)(float *x, const float *y, float scale, int64_t n);
    mba_status (*copy)(void *to, const void *from, size_t bytes); /* from NULL: zeros */
    size_t (*left)(void);                                         /* free bytes; NULL: unknown */
    void (*forget)(struct mba_program *p);                        /* frees p->kept; NULL: it is not used */
} mba_device;

extern const mba_device mba_device_cpu;

/* The best compiled instruction set that this machine runs: an index into mba_variant.launch. The environment variable
 * MBA_ISA (base, avx2, avx512) selects a smaller one. mba_cpu_isa_check fails if that name is unknown or the machine
 * lacks the set. */
int                 mba_cpu_isa(void);
MBA_MUST mba_status mba_cpu_isa_check(void);
const char         *mba_cpu_isa_name(void);
void                mba_cpu_name(char *out, size_t room); /* the processor's own name for itself */

/* What decides the bits of CPU results: "avx512, OpenBLAS SkylakeX". The second part names the library and core that
 * compute matrix products (gemm.h), since other kernels round in another order; "packed" without a library. */
typedef struct mba_kernels_words {
    char text[96];
} mba_kernels_words;
mba_kernels_words mba_cpu_kernels(void);

/* Threads of the CPU operators; 0: OMP_NUM_THREADS, else one per core. Results have the same bits for any number. */
void                mba_cpu_set_threads(int threads);
int                 mba_cpu_threads(void);
MBA_MUST mba_status mba_device_cuda(const mba_device **out, int ordinal); /* E_UNSUPPORTED if not built */
int                 mba_cuda_count(void);                                 /* GPUs that this process sees */

/* For callers with streams and memory of their own: describes the thread's current GPU, and makes a GPU the current one
 * (*before: the previous one, to return to). E_UNSUPPORTED if not built. */
MBA_MUST mba_status mba_cuda_current(mba_machine *out, char *name, size_t room, int *ordinal);
MBA_MUST mba_status mba_cuda_use(int ordinal, int *before);

#endif
