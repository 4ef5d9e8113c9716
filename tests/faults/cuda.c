// SPDX-License-Identifier: Apache-2.0
/* cuda.c -- the n-th call of CUDA or of a library that is opened for it fails, in mambascope_faults: the program,
 * linked once more with what stands here before the functions of cuda_calls.def (ld --wrap) and before those that
 * mba_library_open finds.
 *
 *     MBA_FAULT_COUNTS=counts MBA_FAULT='cublaslt 3 once 13' mambascope_faults train ..       as in fail.c
 *
 * What it stands before has all kinds of arguments, so each function begins with a few instructions that keep them, ask
 * `strikes`, and go on to the function itself or back to the caller with the error. */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "device/cuda/library.h"

/* In the order of the counts; the name of a library as it begins. */
typedef enum kind { RUNTIME, CUBLASLT, CUDNN, CUPTI, NVML, DRIVER, LIBRARY, KINDS } kind;
static const struct {
    const char *name, *file;
} kinds[KINDS] = {
    { "cudart", NULL },         { "cublaslt", "libcublasLt" }, { "cudnn", "libcudnn" }, { "cupti", "libcupti" },
    { "nvml", "libnvidia-ml" }, { "driver", "libcuda.so" },    { "library", "" },
};

#define X(f) void __real_##f(void);
#include "tests/faults/cuda_calls.def"
#undef X

enum {
#define X(f) CALL_##f,
#include "tests/faults/cuda_calls.def"
#undef X
    CALLS,
    FOUND_MAX = 768 /* functions of libraries: so many stubs are made below */
};

typedef void function(void);

/* By slot: calls of the runtime, then functions of libraries as they are found. */
__attribute__((visibility("hidden"), used)) function *mba_fault_real[CALLS + FOUND_MAX] = {
#define X(f) __real_##f,
#include "tests/faults/cuda_calls.def"
#undef X
};
static unsigned char kind_of[CALLS + FOUND_MAX];
static int           found;

static struct {
    _Atomic uint64_t *count;
    kind              kind;
    uint64_t          n;
    bool              on;
    int               error;
} fault = { .kind = KINDS };

static void begin(void)
{
    const char        *counts = getenv("MBA_FAULT_COUNTS"), *asked = getenv("MBA_FAULT");
    const int          fd = counts ? open(counts, O_RDWR | O_CREAT | O_CLOEXEC, 0666) : -1;
    char               what[16] = "", how[16] = "";
    unsigned long long n = 0;
    if (fd < 0) return;
    if (ftruncate(fd, (KINDS + 1) * sizeof(uint64_t))) _exit(99);
    void *map = mmap(NULL, (KINDS + 1) * sizeof(uint64_t), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (map == MAP_FAILED || (asked && sscanf(asked, "%15s %llu %15s %d", what, &n, how, &fault.error) != 4)) _exit(99);
    for (int k = 0; asked && k < KINDS; k++)
        if (!strcmp(what, kinds[k].name)) fault.kind = (kind)k;
    if (asked && fault.kind == KINDS) _exit(99);
    fault.n = n;
    fault.on = !strcmp(how, "on");
    fault.count = map;
}

/* The error that a call of this kind is to return; 0: none, it is made. */
static int strikes(kind k)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, begin);
    if (!fault.count) return 0;
    const uint64_t n = atomic_fetch_add(&fault.count[k], 1) + 1;
    if (k != fault.kind || !fault.n || (fault.on ? n < fault.n : n != fault.n)) return 0;
    atomic_fetch_add(&fault.count[KINDS], 1);
    return fault.error;
}

__attribute__((visibility("hidden"), used)) int mba_fault_strikes(int slot);
/* An error that a call of the runtime has returned is also the last one, until it is asked for: launches are judged by
 * it. */
int mba_fault_strikes(int slot)
{
    static _Thread_local int last;
    const int                before = last;
    if (slot == CALL_cudaGetLastError) last = 0;
    if (slot == CALL_cudaGetLastError && before) return before;
    const int error = strikes((kind)kind_of[slot]);
    if (error && slot < CALLS && slot != CALL_cudaGetLastError) last = error;
    return error;
}

/* ---- the way through ---- */

#if defined(__x86_64__)
#define GO "    movl $mba_fault_slot, %r11d\n    jmp mba_fault_gate\n"
__asm__(
    ".text\n.p2align 4\n.local mba_fault_gate\nmba_fault_gate:\n"
    "    pushq %rbp\n    movq %rsp, %rbp\n    subq $208, %rsp\n"
    "    movq %rdi, (%rsp)\n    movq %rsi, 8(%rsp)\n    movq %rdx, 16(%rsp)\n    movq %rcx, 24(%rsp)\n"
    "    movq %r8, 32(%rsp)\n    movq %r9, 40(%rsp)\n    movq %rax, 48(%rsp)\n    movq %r11, 56(%rsp)\n"
    "    movups %xmm0, 64(%rsp)\n    movups %xmm1, 80(%rsp)\n    movups %xmm2, 96(%rsp)\n    movups %xmm3, 112(%rsp)\n"
    "    movups %xmm4, 128(%rsp)\n    movups %xmm5, 144(%rsp)\n    movups %xmm6, 160(%rsp)\n    movups %xmm7, "
    "176(%rsp)\n"
    "    movl %r11d, %edi\n    call mba_fault_strikes\n    testl %eax, %eax\n    jne 1f\n"
    "    movups 64(%rsp), %xmm0\n    movups 80(%rsp), %xmm1\n    movups 96(%rsp), %xmm2\n    movups 112(%rsp), %xmm3\n"
    "    movups 128(%rsp), %xmm4\n    movups 144(%rsp), %xmm5\n    movups 160(%rsp), %xmm6\n    movups 176(%rsp), "
    "%xmm7\n"
    "    movq (%rsp), %rdi\n    movq 8(%rsp), %rsi\n    movq 16(%rsp), %rdx\n    movq 24(%rsp), %rcx\n"
    "    movq 32(%rsp), %r8\n    movq 40(%rsp), %r9\n    movq 48(%rsp), %rax\n    movq 56(%rsp), %r11\n"
    "    leave\n    leaq mba_fault_real(%rip), %r10\n    jmpq *(%r10,%r11,8)\n"
    "1:  leave\n    ret\n");
#elif defined(__aarch64__)
#define GO "    mov w17, #mba_fault_slot\n    b mba_fault_gate\n"
__asm__(
    ".text\n.p2align 4\n.local mba_fault_gate\nmba_fault_gate:\n"
    "    stp x29, x30, [sp, #-240]!\n    mov x29, sp\n"
    "    stp x0, x1, [sp, #16]\n    stp x2, x3, [sp, #32]\n    stp x4, x5, [sp, #48]\n    stp x6, x7, [sp, #64]\n"
    "    stp x8, x17, [sp, #80]\n"
    "    stp q0, q1, [sp, #96]\n    stp q2, q3, [sp, #128]\n    stp q4, q5, [sp, #160]\n    stp q6, q7, [sp, #192]\n"
    "    mov w0, w17\n    bl mba_fault_strikes\n    cbnz w0, 1f\n"
    "    ldp q0, q1, [sp, #96]\n    ldp q2, q3, [sp, #128]\n    ldp q4, q5, [sp, #160]\n    ldp q6, q7, [sp, #192]\n"
    "    ldp x8, x17, [sp, #80]\n"
    "    ldp x0, x1, [sp, #16]\n    ldp x2, x3, [sp, #32]\n    ldp x4, x5, [sp, #48]\n    ldp x6, x7, [sp, #64]\n"
    "    adrp x16, mba_fault_real\n    add x16, x16, :lo12:mba_fault_real\n    ldr x16, [x16, x17, lsl #3]\n"
    "    ldp x29, x30, [sp], #240\n    br x16\n"
    "1:  ldp x29, x30, [sp], #240\n    ret\n");
#else
#error "no way through for this machine"
#endif

/* One for each call of the runtime, in the order of their slots, then one for each function that may be found. */
#define X(f) \
    ".p2align 4\n.globl __wrap_" #f "\n.type __wrap_" #f ", %function\n__wrap_" #f ":\n" GO \
    ".set mba_fault_slot, mba_fault_slot + 1\n"
enum { STUB_BYTES = 16 };
__asm__(".text\n.set mba_fault_slot, 0\n"
#include "tests/faults/cuda_calls.def"
        ".p2align 4\n.globl mba_fault_found\n.hidden mba_fault_found\nmba_fault_found:\n"
        ".rept 768\n.p2align 4\n" GO ".set mba_fault_slot, mba_fault_slot + 1\n.endr\n");
#undef X
extern const char mba_fault_found[] __attribute__((visibility("hidden")));

/* ---- libraries ---- */

static bool tells_how_it_went(const char *name)
{
    return !strstr(name, "String") && !strstr(name, "Version") && !strstr(name, "GetSize");
}

static int slot_of(function *f, kind k)
{
    for (int i = CALLS; i < CALLS + found; i++)
        if (mba_fault_real[i] == f && kind_of[i] == k) return i;
    if (found == FOUND_MAX) _exit(99);
    mba_fault_real[CALLS + found] = f;
    kind_of[CALLS + found] = (unsigned char)k;
    return CALLS + found++;
}

mba_status __real_mba_library_open(const char *file, const mba_library_name *names, void *table);
mba_status __wrap_mba_library_open(const char *file, const mba_library_name *names, void *table);
mba_status __wrap_mba_library_open(const char *file, const mba_library_name *names, void *table)
{
    const char *name = strrchr(file, '/') ? strrchr(file, '/') + 1 : file;
    int         k = CUBLASLT;
    while (strncmp(name, kinds[k].file, strlen(kinds[k].file))) k++;
    if (strikes(LIBRARY))
        return mba_fail(MBA_E_UNSUPPORTED, "cannot open %s\nwhy: it is made to fail here\nfix: try again", file);
    MBA_TRY(__real_mba_library_open(file, names, table));
    for (; names->name; names++) {
        function *f;
        if (!tells_how_it_went(names->name)) continue;
        memcpy(&f, (char *)table + names->field, sizeof f);
        const char *stub = mba_fault_found + (size_t)(slot_of(f, (kind)k) - CALLS) * STUB_BYTES;
        memcpy((char *)table + names->field, &stub, sizeof stub);
    }
    return MBA_OK;
}
