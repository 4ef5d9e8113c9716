// SPDX-License-Identifier: Apache-2.0
/* block.h -- the threads of one CUDA block as fibers of one thread of the host, for kernels that translate.py has made
 * C++ of (emulated.h is what they see).
 *
 *     emulated_run("relu", grid, block, smem_bytes, body, of);     // body(of) once per thread; blocks one by one
 *
 * A fiber runs until it waits: at a barrier, or for the lanes of its warp; a warp runs until all its threads wait for
 * other warps. The order is fixed. Shared memory is full of
 * NaN before each block. What nobody can end is an error: it prints the kernel and the threads that wait, and exits.
 *
 * Two orders show what is missing between threads. FORWARD runs thread 0 first, and cp.async copies when somebody
 * waits for it; REVERSE runs the last thread first, and cp.async copies at once. */
#ifndef MBA_TESTS_CUDA_ON_CPU_BLOCK_H
#define MBA_TESTS_CUDA_ON_CPU_BLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { EMULATED_WARP = 32, EMULATED_THREADS = 1024, EMULATED_COPIES = 512 };

typedef struct emulated_index {
    unsigned x, y, z;
} emulated_index;

/* One cp.async that has not arrived; `group` counts the commits of its thread. */
typedef struct emulated_copy {
    void       *to;
    const void *from;
    int         bytes, read, group;
} emulated_copy;

typedef struct emulated_thread {
    emulated_index index; /* threadIdx */
    int            id, ncopies, groups;
    emulated_copy  copy[EMULATED_COPIES];
} emulated_thread;

extern emulated_thread *emulated_now;                /* the thread that runs */
extern emulated_index   gridDim, blockDim, blockIdx; // as kernels call them

typedef enum emulated_order { FORWARD, REVERSE } emulated_order;
extern emulated_order emulated_order_now;

void emulated_run(const char *kernel, emulated_index grid, emulated_index block, size_t smem_bytes,
                  void (*body)(void *), void *of);

/* Prints the launches so far: their names in the source, and how often. */
void emulated_list(void);

/* Ends the process: what a kernel did wrong, with the kernel, block and thread. */
void emulated_fail(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

/* ---- what a thread may wait for ---- */

/* The lanes of `mask` meet; the last to arrive calls fn, which reads and writes the arguments of all. */
typedef void emulated_meeting(void *const argument[EMULATED_WARP], unsigned mask);
void         emulated_meet(unsigned mask, emulated_meeting *fn, void *argument);

/* Barrier `number` of the block, for `threads` of them (0: all that have not returned); `wait` false: only arrives. */
void emulated_barrier(int number, int threads, bool wait);

/* Lets the others run: between two looks at what another thread will write. */
void emulated_yield(void);

/* ---- shared memory ---- */

typedef struct emulated_place { /* of a __shared__ variable, in the current block */
    uint64_t block;
    void    *at;
} emulated_place;
void    *emulated_shared(emulated_place *place, size_t bytes);
void    *emulated_dynamic(void);
uint32_t emulated_address(const void *at); /* the 32-bit address of shared memory, and back */
void    *emulated_at_address(uint32_t address);

/* cp.async: `read` of the bytes are copied, the rest is zero. Waits for all groups but the newest `newer`. */
void emulated_copy_async(void *to, const void *from, int bytes, int read);
void emulated_copy_wait(int newer);

#ifdef __cplusplus
}
#endif
#endif
