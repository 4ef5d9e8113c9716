// SPDX-License-Identifier: Apache-2.0
/* device.h -- the little that the engine wants from a device.
 *
 *     MBA_TRY(mba_device_cuda(&d, 0));        // or &mba_device_cpu
 *     MBA_TRY(mba_program_bind(p, d));
 *
 * The CPU is always there. A build without CUDA links device_cuda_none.c, whose mba_device_cuda says
 * so and how to get it; nothing else in the tree asks which build it is in. */
#ifndef MBA_DEVICE_H
#define MBA_DEVICE_H

#include "core/graph.h"

struct mba_program;
struct mba_hooks;

typedef struct mba_device {
    const char        *name;
    const mba_machine *machine;                    /* what plans may know of it */
    void              *stream;                     /* what launches get */
    mba_status (*alloc)(void **out, size_t bytes); /* zeroed, aligned */
    void (*dealloc)(void *p);
    mba_status (*alloc_host)(void **out, size_t bytes); /* of the host, reached fast by copies; */
    void (*dealloc_host)(void *p);                      /* NULL: the device is the host */
    mba_status (*put)(void *device, const void *host, size_t bytes);
    mba_status (*get)(void *host, const void *device, size_t bytes); /* waits */
    /* Copies what is in the mirror of the inputs, beside what runs, for the next run to find it there. NULL: that run
     * copies it. */
    mba_status (*send)(struct mba_program *p);
    /* The mirror of the inputs is written anew: what was sent of it does not count. NULL: nothing was. */
    mba_status (*recall)(const struct mba_program *p);
    mba_status (*run)(struct mba_program *p, unsigned passes, const struct mba_hooks *h); /* may return early: */
    mba_status (*wait)(void); /* until all of it is done; NULL: it is */
    /* One run, every node by the device's own clock; `cold`: its caches are swept before each. NULL: ask the host's. */
    mba_status (*time_nodes)(struct mba_program *p, unsigned passes, double *seconds, bool cold);
    size_t (*left)(void);                  /* bytes it could give; NULL: unknown */
    void (*forget)(struct mba_program *p); /* what `run` has kept; NULL: nothing */
} mba_device;

extern const mba_device mba_device_cpu;

/* Which of the compiled instruction sets this machine runs: an index into mba_variant.launch. The
 * environment variable MBA_ISA (base, avx2, avx512) asks for a smaller one; the check refuses one that there is not, or
 * that the machine has not. */
int                 mba_cpu_isa(void);
MBA_MUST mba_status mba_cpu_isa_check(void);
const char         *mba_cpu_isa_name(void);
void                mba_cpu_name(char *out, size_t room); /* as the processor calls itself */

/* What makes the bits of the CPU operators: "avx512, OpenBLAS SkylakeX"; the matrix product, which another choice of
 * kernels rounds in another order, by its library and core (gemm.h), else "packed". */
typedef struct mba_kernels_words {
    char text[96];
} mba_kernels_words;
mba_kernels_words mba_cpu_kernels(void);

/* Threads of the CPU operators; 0 asks for OMP_NUM_THREADS, else one per core. Bits do not depend on it. */
void                mba_cpu_set_threads(int threads);
int                 mba_cpu_threads(void);
MBA_MUST mba_status mba_device_cuda(const mba_device **out, int ordinal); /* E_UNSUPPORTED if not built */

/* For callers with streams and memory of their own: what plans may know of the thread's current GPU, and making a GPU
 * the current one (`before`: which it was, to go back). E_UNSUPPORTED if not built. */
MBA_MUST mba_status mba_cuda_current(mba_machine *out, char *name, size_t room, int *ordinal);
MBA_MUST mba_status mba_cuda_use(int ordinal, int *before);

#endif
