// SPDX-License-Identifier: Apache-2.0
/* ssd_slots.h -- what the files of this folder share: slots by name, sizes, and who implements them. */
#ifndef MBA_SSD_SLOTS_H
#define MBA_SSD_SLOTS_H

#include "core/op.h"

enum { X, DT, BM, CM, A_LOG, SKIP, DT_BIAS, IDS, INITIAL }; /* forward: in, out */
enum { Y, FINAL, KEPT_STATES, KEPT_RECORDS, KEPT_PAIRS, KEPT_REACH };
enum { DY = INITIAL + 1, DFINAL, STATES_IN, RECORDS_IN, PAIRS_IN, REACH_IN }; /* backward: after the others */
enum { DX, DDT, DBM, DCM, DA_LOG, DSKIP, DDT_BIAS, DINITIAL };

typedef struct ssd_attr {
    int64_t chunk, final;
    double  dt_min, dt_max;
} ssd_attr; /* final: that output exists */

/* What a case has besides its sizes. STATES: an initial state and a gradient on the final one. */
enum {
    SKIP_HEAD = 1,
    SKIP_FULL = 2,
    BIAS = 4,
    RESETS = 8,
    STATES = 16,
    LIMITS = 32,
    WINDOWS = 64,
    STRONG = 128,
    MODEL = 256
}; /* some heads forget within a step or two; decays as models begin */

/* The alphabet of dimensions; J heads share a group, D has C columns (0: no D, 1: one per head, P). */
typedef struct ssd_dims {
    int64_t B, L, H, P, G, N, J, Q, C;
    double  dt_min, dt_max;
} ssd_dims;

ssd_dims ssd_dims_of(const mba_node *n);

/* The recurrence, token by token: the yardstick. */
void    ssd_ref(const mba_ref_call *c);
void    ssd_bwd_ref(const mba_ref_call *c);
int64_t ssd_ref_space(const mba_node *n); /* of both */

/* The same in chunks of attr->chunk (ssd.md, "In chunks"), and its intermediate values:
 * dt, cs (B, H, c, Q)   S, H (B, c, H, P, N)   CB (B, c, G, Q, Q), with c = ceil(L / Q). Freed by ssd_parts_free. */
typedef struct ssd_parts {
    double *dt, *cs, *S, *H, *CB, *last, *work;
} ssd_parts;
MBA_MUST mba_status ssd_parts_of(ssd_parts *out, const mba_ref_call *c);
void                ssd_parts_free(ssd_parts *p);
MBA_MUST mba_status ssd_chunked_ref(const mba_ref_call *c);
MBA_MUST mba_status ssd_bwd_chunked_ref(const mba_ref_call *c);

/* ---- the CPU path: its own chunk, and the memory it works in (see ssd_chunk.h) ---- */
enum { SSD_CHUNK = 32, SSD_PAD = 16 }; /* rows are padded to 16 numbers, the lanes of AVX-512 */

typedef struct ssd_work {
    int64_t chunks;        /* of one sequence */
    int64_t P, N;          /* padded to whole vectors */
    int64_t ldp, ldn, ldq; /* rows in scratch: longer by 16, so that columns spread over sets */
    int64_t slab;          /* sequences in flight: bounds the scratch of a large batch */
    int64_t block;         /* heads of one work item: divides J */
    int64_t packed, part;  /* floats per (sequence, group, chunk), per (.., block, chunk) */
    int64_t cells, states; /* floats per thread: buffers of a chunk; steps and states of all */
    int     scratch_packed, scratch_part, scratch_param, scratch_thread;
} ssd_work;
ssd_work ssd_work_of(const ssd_dims *d, bool backward);

/* The steps of one chunk of one head, rows as in memory: decays are powers of two. */
typedef struct ssd_steps {
    float dt[SSD_CHUNK], slope[SSD_CHUNK];  /* the step; d step / d raw */
    float cs[SSD_CHUNK], cs_low[SSD_CHUNK]; /* log2 of the decay since the chunk began; what its rounding lost */
    float in[SSD_CHUNK], out[SSD_CHUNK];    /* decay of the entering state at l; of source s at the end */
    float feed[SSD_CHUNK];                  /* dt out */
    float all, pad[15];                     /* decay of the entering state at the end */
} ssd_steps;
enum { SSD_STEPS = sizeof(ssd_steps) / sizeof(float) };

MBA_CPU_DECLARE(ssd_fwd);
MBA_CPU_DECLARE(ssd_bwd);

/* ---- CUDA: how the variants cut the work; plans and launchers ask the same functions ---- */
enum { SSD_TILE = 64 }; /* positions of a tile of a chunk; columns of a tile of P */

typedef struct ssd_tiling {
    int64_t K, KQ;                 /* chunks of a sequence; their positions, padding included */
    int64_t tiles, ptiles, ntiles; /* of a chunk, of P by SSD_TILE; of N by 128 (tensor cores) or 64 */
    int64_t rows, rtiles;          /* positions that a block of dB, dC takes: 64 or 128 */
    int64_t xrows, xtiles;         /* a block of scan, dx: the same, but with C B^T inside 64 */
    int64_t pairs;                 /* blocks of two heads (tensor cores), or heads, of a group */
    int64_t vec, cparts;           /* numbers of a state per thread of the walk; its warps per head */
    int64_t cs_bytes, st_bytes;    /* of one cumulative decay, of one number of a state */
    int64_t dD;                    /* partial sums of D */
} ssd_tiling;

/* The rungs of the ladder below `fused`; all but the first on tensor cores. */
typedef enum ssd_baseline_kind { SSD_FMA, SSD_CHUNKED, SSD_PERSISTENT, SSD_BC_FUSED } ssd_baseline_kind;
enum { SSD_BC_PAIRS = 4 }; /* bc_fused: pairs of heads for which a block makes C B^T once */

ssd_tiling ssd_tiling_of(const ssd_dims *d, ssd_baseline_kind way);

/* Scratch, in the order of the plans. The forward pass needs the first five. */
enum {
    SSD_STEPS_WORK,
    SSD_CS_WORK,
    SSD_SINCE_WORK,
    SSD_STATES_WORK,
    SSD_CB_WORK,
    SSD_DSTATES_WORK,
    SSD_DCB_WORK,
    SSD_DBC_WORK,
    SSD_SUMS_WORK,
    SSD_PARTS_WORK,
    SSD_CB_LOW_WORK
};

/* Distances between neighbours along the first axes (three at most), the last ones side by side; false: not so. */
typedef struct ssd_axes {
    int64_t axis[3];
} ssd_axes;
bool ssd_axes_of(ssd_axes *a, const mba_tensor *t);

mba_status ssd_check_axes(const mba_node *n);  /* refuses windows that have none */
bool       ssd_vec_aligned(const mba_node *n); /* rows of bf16 activations begin at multiples of 16 bytes */

mba_launch_fn ssd_chunked_cuda, ssd_fma_cuda, ssd_persistent_cuda, ssd_bc_fused_cuda;
mba_launch_fn ssd_bwd_chunked_cuda, ssd_bwd_fma_cuda, ssd_bwd_persistent_cuda, ssd_bwd_bc_fused_cuda;
mba_plan_fn   ssd_chunked_plan, ssd_fma_plan, ssd_persistent_plan, ssd_bc_fused_plan; /* ssd_plan.c */
mba_plan_fn   ssd_bwd_chunked_plan, ssd_bwd_fma_plan, ssd_bwd_persistent_plan, ssd_bwd_bc_fused_plan;

/* ---- CUDA: `fused` (ssd_fused.c, ssd_fused.cuh) ----
 *
 * What it keeps for its own backward where the shape is one it takes (KEPT_*, chunks of 64, an even number of them):
 * the state before every second chunk, two records per chunk and head, C B^T, and with ids the rows of B and C within
 * reach.
 * Other variants neither write nor read them: the backward asks which variant the forward has (mba_plan.forward). */
enum {
    SSD_RECORD = 132,
    SSD_HEADS = 2,
    SSD_ITEMS_PER_BLOCK = 1024,
    SSD_SCAN_SMEM = 227 * 1024,
    SSD_BC_SMEM = 227 * 1024,
    SSD_STATES_SMEM = 203 * 1024,
    SSD_SLOW_SMEM = 64 * 1024,
    SSD_SUM_COLS = 8,
    SSD_ENDS = 10
}; /* parts of sums per pair of chunks, see ssd_fused_bc.cuh */

typedef struct ssd_segments {
    int64_t K;                     /* chunks of 64 of a sequence; backward an even number */
    int64_t segments, per_segment; /* of a sequence; chunks of one */
    int64_t parts;                 /* of a segment, of which ssd_states makes one state each */
    int64_t items, grid;           /* (sequence, segment, two heads); blocks that walk them */
    int64_t state_blocks;          /* of ssd_states: the last segment of a sequence needs none */
} ssd_segments;
ssd_segments ssd_segments_of(const ssd_dims *d, int64_t sms, bool backward); /* the cheapest */
ssd_segments ssd_segments_as(const ssd_dims *d, int64_t K, int64_t segments, int64_t parts, int64_t sms);
int64_t      ssd_state_heads(const ssd_dims *d); /* of a block of ssd_states: 2 or 4 */

/* The other way, where it pays: ranges of the row of all chunks of all items (ssd_split.c), a block each: as many as
 * the machine has SMs, and at most SSD_BLOCKS_MAX, for which a kernel's parameters have room. A machine with more SMs
 * leaves the others idle in such a launch; ssd_split_of weighs that against segments, which use all. SSD_LIST_MAX:
 * items of a block. */
enum { SSD_BLOCKS_MAX = 160, SSD_LIST_MAX = 48 };
typedef enum ssd_split_kind { SSD_UNSPLIT, SSD_STATE_PASSED, SSD_STATE_RECOMPUTED } ssd_split_kind;
typedef struct ssd_split {
    ssd_split_kind how; /* UNCUT: as ssd_segments has it */
    bool           backward;
    int64_t        K, items;                   /* chunks of a sequence, (sequence, two heads) */
    int64_t        blocks, pieces, segments;   /* a range each; pieces of all items, of one item at most */
    int64_t        handed, taken;              /* room for states that go from block to block; that do */
    int64_t        again;                      /* chunks that blocks walk again for the state they begin with */
    int32_t        at[SSD_BLOCKS_MAX + 1];     /* where a range begins */
    uint16_t       before[SSD_BLOCKS_MAX + 1]; /* pieces of the item of its first piece before it */
} ssd_split;
ssd_split ssd_split_of(const ssd_dims *d, int64_t sms, bool backward);                        /* the cheapest */
ssd_split ssd_split_as(const ssd_dims *d, ssd_split_kind how, int64_t blocks, bool backward); /* this one */
bool      ssd_fused_shape(const ssd_dims *d, mba_dtype type);  /* one that `fused` takes */
void      ssd_save_nothing(mba_plan *p);                       /* a forward whose backward makes its own states */
bool      ssd_has_saved(const mba_plan *p, const mba_node *n); /* a backward, what the forward kept */
void      ssd_saved_types(mba_type type[MBA_OUT_MAX], const ssd_dims *d, bool ids); /* of KEPT_* */

/* Scratch of `fused`, in the order of its plans. The forward pass needs the first four. */
enum {
    SSD_RECORDS_WORK,
    SSD_PAIRS_WORK,
    SSD_REACH_WORK,
    SSD_SEGMENTS_WORK,
    SSD_SAVED_WORK,
    SSD_SAVED_REV_WORK,
    SSD_TOKENS_WORK,
    SSD_SLOW_WORK,
    SSD_SMALL_WORK
};

mba_plan_fn   ssd_fused_plan, ssd_bwd_fused_plan, ssd_exact_plan, ssd_bwd_exact_plan;
mba_launch_fn ssd_fused_cuda, ssd_bwd_fused_cuda, ssd_exact_cuda, ssd_bwd_exact_cuda;

#endif
