// SPDX-License-Identifier: Apache-2.0
/* mba_kernels.h -- the state-space kernels of mambascope as plain C functions on pointers and a stream.
 *
 *     mba_kernels_desc d = { .bytes = sizeof d, .op = MBA_KERNELS_SSD, .type = MBA_KERNELS_BF16, .batch = 8,
 *                            .length = 2048, .heads = 24, .head_dim = 64, .groups = 1, .state = 128, .backward = 1,
 *                            .given = 1u << MBA_KERNELS_D | 1u << MBA_KERNELS_DT_BIAS };
 *     mba_kernels_plan *p;
 *     if (mba_kernels_plan_create(&p, &d, NULL)) return puts(mba_kernels_error());          // NULL: the current GPU
 *     size_t kept = mba_kernels_saved_bytes(p), work = mba_kernels_work_bytes(p, 0);     // the caller's, on the GPU
 *     mba_kernels_pointers a = { .in = { [MBA_KERNELS_X] = x, .. }, .out = { y }, .saved = saved, .work = workspace };
 *     if (mba_kernels_forward(p, &a, stream)) return puts(mba_kernels_error());
 *     mba_kernels_plan_destroy(p);
 *
 * A plan belongs to one shape on one machine. forward and backward allocate nothing, wait for nothing and may be
 * captured into a CUDA graph. Any number of threads may use a plan at once, each with its own memory. Results have
 * the same bits every time. The operators:
 *
 *   MBA_KERNELS_SSD   step_t = clamp(softplus(dt_t + dt_bias), dt_min, dt_max)
 *                     h_t    = exp(-exp(A_log) step_t) h_{t-1} + step_t x_t B_t^T       y_t = h_t C_t + D x_t
 *   MBA_KERNELS_SCAN  the same recurrence with a step per channel and a decay per channel and state, without clamp;
 *                     if z is given, y_t is multiplied by silu(z_t)
 *   MBA_KERNELS_CONV1D      y_t = bias + sum_k weight_k x_{t-(W-1)+k} for each channel, W taps; then silu if asked for
 *   MBA_KERNELS_GATED_NORM  y = weight q / sqrt(mean(q^2) + eps), q = x silu(z); the mean is over each group of
 *                           channels
 *
 * This header includes no other header of the project, and its meaning is the same in all builds. */
#ifndef MBA_KERNELS_H
#define MBA_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

enum { MBA_KERNELS_SSD, MBA_KERNELS_SCAN, MBA_KERNELS_CONV1D, MBA_KERNELS_GATED_NORM };
enum { MBA_KERNELS_F32, MBA_KERNELS_BF16 }; /* type of the activations; all else is fp32, ids are int32 */

/* Operands, and their shapes for ssd / for scan and conv1d (D channels: `heads`) and the gated norm (D = H P channels
 * in H groups). Those before A_LOG are activations. Conv1d has x, weight, bias, ids, initial; the gated norm x, z,
 * weight. */
enum {
    MBA_KERNELS_X,       /* (B, L, H, P)    / (B, L, D) */
    MBA_KERNELS_DT,      /* (B, L, H)       / (B, L, D) */
    MBA_KERNELS_B,       /* (B, L, G, N) */
    MBA_KERNELS_C,       /* (B, L, G, N) */
    MBA_KERNELS_Z,       /* -               / (B, L, D), optional for scan */
    MBA_KERNELS_A_LOG,   /* (H)             / (D, N); A = -exp(A_log) */
    MBA_KERNELS_D,       /* (H) or (H, P)   / (D); this and all that follow are optional */
    MBA_KERNELS_DT_BIAS, /* (H)             / (D) */
    MBA_KERNELS_IDS,     /* (B, L): the state is reset to 0 where the id differs from that of the previous token; conv1d
                          * takes inputs of another id as 0, and a negative id gives 0 */
    MBA_KERNELS_INITIAL, /* (B, H, P, N)    / (B, D, N), conv1d (B, W-1, D): the state before the first token */
    MBA_KERNELS_OPERANDS,
    MBA_KERNELS_ACTIVATIONS = MBA_KERNELS_A_LOG,
    MBA_KERNELS_WEIGHT = MBA_KERNELS_A_LOG, /* conv1d (D, W), gated norm (D) */
    MBA_KERNELS_BIAS = MBA_KERNELS_DT_BIAS  /* conv1d (D), optional */
};
/* Results: y like x; the state after the last token, fp32, like INITIAL. */
enum { MBA_KERNELS_Y, MBA_KERNELS_FINAL, MBA_KERNELS_RESULTS };
/* What backward stores for activations: dense gradients, or gradients with the strides and the skew of their
 * operands. */
enum { MBA_KERNELS_GRADS_DENSE = 1, MBA_KERNELS_GRADS_STRIDED };

/* Strided view of an activation, in elements: the stride of each axis, and how far its first element is from a
 * multiple of 16 bytes. All zero: dense and aligned. The last axes are contiguous; all axes before them must amount
 * to one stride (columns of a wider matrix do), else the plan is refused and the caller copies. */
typedef struct mba_kernels_strided_view {
    int64_t stride[4], skew;
} mba_kernels_strided_view;
typedef mba_kernels_strided_view mba_kernels_window; /* deprecated name, gone with the next SOVERSION */

typedef struct mba_kernels_desc {
    size_t  bytes; /* sizeof this struct, as the caller knows it */
    int32_t op, type;
    int64_t batch, length, heads, head_dim, groups; /* head_dim: of ssd and gated norm; groups: of ssd and scan */
    union {
        int64_t state, taps; /* taps: of conv1d, 1 .. 16 */
    };
    int64_t  chunk; /* of ssd, a matter of speed; 0: 256 */
    uint32_t given; /* bit k: optional operand k will be there */
    union {
        int32_t d_per_channel, silu; /* of ssd: D is (H, P); of conv1d: y is passed through silu */
    };
    int32_t final;    /* the final state is wanted */
    int32_t backward; /* one of MBA_KERNELS_GRADS_*: backward will be called; 0: nothing is saved for it */
    union {
        double dt_min, eps; /* of ssd; of the gated norm */
    };
    double dt_max; /* of ssd; <= 0: no upper bound */
    union {
        mba_kernels_strided_view view[MBA_KERNELS_ACTIVATIONS];
        mba_kernels_strided_view window[MBA_KERNELS_ACTIVATIONS]; /* deprecated name */
    };
    const char *variant; /* this ("fused", "chunked", ..) or failure; NULL: the first that fits */
} mba_kernels_desc;

/* A machine that need not be present, to ask for plans and sizes. cc 0 is the host, where fp32 runs on host
 * pointers. */
typedef struct mba_kernels_machine {
    int32_t cc, sms, regs_sm, threads_sm; /* 90: sm_90 */
    int64_t smem_block_bytes, smem_sm_bytes;
} mba_kernels_machine;

/* What a call reads and writes. Everything except activations with a strided view, and their gradients if these are
 * asked for so, is dense. Addresses are multiples of
 * 16 bytes plus the skew of a view; that of `work` is a multiple of 256. Gradients are stored, not added. */
typedef struct mba_kernels_pointers {
    const void *in[MBA_KERNELS_OPERANDS];
    void       *out[MBA_KERNELS_RESULTS];  /* forward writes them; backward does not read them */
    const void *dout[MBA_KERNELS_RESULTS]; /* backward: gradients of the results */
    void       *din[MBA_KERNELS_OPERANDS]; /* backward: gradients of the operands, in their types; not of ids */
    void       *saved;                     /* forward writes it, backward reads it */
    void       *work;
} mba_kernels_pointers;

typedef struct mba_kernels_plan mba_kernels_plan;

/* These return 0, or a positive code; then mba_kernels_error has the message (of this thread, until its next failure).
 * Creating a plan fails if the environment variable MBA_ISA is not base, avx2 or avx512, or the machine lacks the
 * set. */
int  mba_kernels_plan_create(mba_kernels_plan **out, const mba_kernels_desc *d, const mba_kernels_machine *m);
int  mba_kernels_forward(const mba_kernels_plan *p, const mba_kernels_pointers *a, void *stream);
int  mba_kernels_backward(const mba_kernels_plan *p, const mba_kernels_pointers *a, void *stream);
void mba_kernels_plan_destroy(mba_kernels_plan *p); /* NULL is fine; calls may still run on the GPU */

/* 0 and "" for NULL. The bytes to save depend on the variant: 0 if backward recomputes everything. */
size_t      mba_kernels_saved_bytes(const mba_kernels_plan *p);
size_t      mba_kernels_work_bytes(const mba_kernels_plan *p, int backward);
const char *mba_kernels_variant(const mba_kernels_plan *p, int backward); /* the chosen one; owned by the plan */
const char *mba_kernels_error(void);
const char *mba_kernels_version(void); /* the commit it was built from */

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
