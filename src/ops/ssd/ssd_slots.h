// SPDX-License-Identifier: Apache-2.0
/* ssd_slots.h -- what the files of ssd share: slots by name, sizes, scratch, tilings and the declarations of variants.
 *
 * The operator's declaration is ssd.c, the maths ssd.md. Reference: ssd_ref.c. CPU: ssd_cpu.c, ssd_bwd_cpu.c. CUDA:
 * `fused` and `fused_mma` are in fused/, the multi-kernel variants `chunked`, `persistent*`, `bc_fused` and `fma` in
 * baseline/; neither folder includes the other. Plans and launchers call the same functions for geometry, so
 * that both always agree. */
#ifndef MBA_SSD_SLOTS_H
#define MBA_SSD_SLOTS_H

#include "core/op.h"

enum { X, DT, BM, CM, A_LOG, SKIP, DT_BIAS, IDS, INITIAL }; /* forward: inputs, then outputs */
enum { Y, FINAL, KEPT_STATES, KEPT_RECORDS, KEPT_PAIRS, KEPT_REACH };
enum { DY = INITIAL + 1, DFINAL, STATES_IN, RECORDS_IN, PAIRS_IN, REACH_IN }; /* backward: inputs after those */
enum { DX, DDT, DBM, DCM, DA_LOG, DSKIP, DDT_BIAS, DINITIAL };

typedef struct ssd_attr {
    int64_t chunk, final;
    double  dt_min, dt_max;
} ssd_attr; /* final: that output exists */

/* Options of a test case. STATES: an initial state and a gradient of the final one. STRONG: some heads decay within a
 * step or two. MODEL: decays as in a freshly initialised model. WINDOWS: operands are strided views. */
enum { SKIP_HEAD = 1, SKIP_FULL = 2, BIAS = 4, RESETS = 8, STATES = 16, LIMITS = 32 };
enum { WINDOWS = 64, STRONG = 128, MODEL = 256 };

/* The alphabet of dimensions. J heads share a group; D has C columns (0: no D, 1: one value per head, or P). */
typedef struct ssd_dims {
    int64_t B, L, H, P, G, N, J, Q, C;
    int64_t NT; /* ssd_tile_dims: tiles of n per head; else 0 */
    double  dt_min, dt_max;
} ssd_dims;

ssd_dims ssd_dims_of(const mba_node *n);

/* The reference: the recurrence, token by token, fp64. */
void    ssd_ref(const mba_ref_call *c);
void    ssd_bwd_ref(const mba_ref_call *c);
int64_t ssd_ref_space(const mba_node *n); /* scratch of both, in doubles */

/* ---- the CPU path: its chunk and its scratch memory (ssd_chunk.h) ---- */
enum { SSD_CHUNK = 32, SSD_PAD = 16 }; /* rows are padded to 16 numbers, the lanes of AVX-512 */

typedef struct ssd_work {
    int64_t chunks;          /* of one sequence */
    int64_t P, N;            /* padded to whole vectors */
    int64_t ldp, ldn, ldq;   /* row lengths in scratch: longer by 16 to spread columns over sets */
    int64_t slab;            /* sequences in flight; bounds the scratch of a large batch */
    int64_t block;           /* heads per work item; divides J */
    int64_t packed, part;    /* floats per (sequence, group, chunk), per (.., block, chunk) */
    int64_t buffers, states; /* floats per thread: buffers of a chunk; steps and states of all */
    int     scratch_packed, scratch_part, scratch_param, scratch_thread;
} ssd_work;
ssd_work ssd_work_of(const ssd_dims *d, bool backward);

/* The steps of one (chunk, head), a row of scratch. Decays are logarithms to base two. */
typedef struct ssd_steps {
    float dt[SSD_CHUNK], slope[SSD_CHUNK];  /* the step; d step / d raw */
    float cs[SSD_CHUNK], cs_low[SSD_CHUNK]; /* log2 of the decay since the chunk began; its residual */
    float in[SSD_CHUNK], out[SSD_CHUNK];    /* decay from the chunk's start to l; from s to the chunk's end */
    float feed[SSD_CHUNK];                  /* dt out */
    float all, pad[15];                     /* decay across the chunk */
} ssd_steps;
enum { SSD_STEPS = sizeof(ssd_steps) / sizeof(float) };

MBA_CPU_DECLARE(ssd_fwd);
MBA_CPU_DECLARE(ssd_bwd);

/* ---- CUDA: tiling of the multi-kernel variants; plans and launchers call the same functions ---- */
enum { SSD_TILE = 64 }; /* positions of a tile of a chunk; columns of a tile of P */

typedef struct ssd_tiling {
    int64_t K, KQ;                 /* chunks per sequence; their positions, padding included */
    int64_t tiles, ptiles, ntiles; /* tiles of 64 per chunk and P; of 128 (tensor cores) or 64 per N */
    int64_t rows, rtiles;          /* positions per block of the dB and dC kernels: 64 or 128 */
    int64_t xrows, xtiles;         /* the same for the y and dx kernels; 64 in `bc_fused` */
    int64_t pairs;                 /* per group: pairs of heads (tensor cores), or heads */
    int64_t vec, cparts;           /* state passing: state values per thread; warps per head */
    int64_t cs_bytes, st_bytes;    /* size of a cumulative decay, of a state value */
    int64_t dD;                    /* partial sums of D */
} ssd_tiling;

/* The multi-kernel variants; all but the first have bf16 operands. */
typedef enum ssd_baseline_kind {
    SSD_FMA,
    SSD_CHUNKED,
    SSD_PERSISTENT,
    SSD_PERSISTENT_DYNAMIC,
    SSD_PERSISTENT_PREFETCH,
    SSD_BC_FUSED
} ssd_baseline_kind;
enum { SSD_LAUNCHES_MAX = 15 }; /* of a call: `persistent_dynamic` has a counter of tiles for each */
enum { SSD_BC_PAIRS = 4 };      /* `bc_fused`: pairs of heads that share one C B^T in a block */

ssd_tiling ssd_tiling_of(const ssd_dims *d, ssd_baseline_kind way);

/* Scratch of these variants, in the order of the plans: of both passes, then of the backward pass. */
enum { SSD_STEPS_WORK, SSD_CS_WORK, SSD_SINCE_WORK, SSD_STATES_WORK, SSD_CB_WORK, SSD_BASELINE_FWD_WORK };
enum { SSD_DSTATES_WORK = SSD_BASELINE_FWD_WORK, SSD_DCB_WORK, SSD_DBC_WORK };
enum { SSD_SUMS_WORK = SSD_DBC_WORK + 1, SSD_PARTS_WORK, SSD_CB_LOW_WORK };

/* Strides of the first axes (at most three) of a tensor whose last axis is contiguous; false if it is not. */
typedef struct ssd_axes {
    int64_t axis[3];
} ssd_axes;
bool ssd_axes_of(ssd_axes *a, const mba_tensor *t);

mba_status ssd_check_axes(const mba_node *n);     /* refuses views without such strides */
bool       ssd_rows_aligned(const mba_tensor *t); /* rows of a bf16 activation are aligned to 16 bytes */
bool       ssd_vec_aligned(const mba_node *n);    /* those of all */

/* The CUDA variants, best first. Each has plans ssd_NAME_plan and ssd_bwd_NAME_plan (ssd_fused.c, ssd_plan.c), and
 * launchers ssd_NAME_cuda and ssd_bwd_NAME_cuda. */
#define SSD_VARIANTS(V) \
    V(fused), V(fused_mma), V(chunked), V(persistent), V(persistent_dynamic), V(persistent_prefetch), V(bc_fused), \
        V(fma)
#define SSD_PLANS(name)     ssd_##name##_plan, ssd_bwd_##name##_plan
#define SSD_LAUNCHERS(name) ssd_##name##_cuda, ssd_bwd_##name##_cuda
mba_plan_fn   SSD_VARIANTS(SSD_PLANS);
mba_launch_fn SSD_VARIANTS(SSD_LAUNCHERS);

/* ---- CUDA: `fused` (ssd_fused.c, ssd_fused.cuh) ----
 *
 * For shapes that it takes, `fused` saves for its own backward pass (outputs KEPT_*, chunks of 64, an even number): the
 * state before every second chunk, two records per chunk and head, C B^T, and with ids the copies of B and C that are
 * masked by resets (KEPT_REACH). Other variants neither write nor read these; the backward pass asks for the variant of
 * the forward pass (mba_plan.forward). */
enum {
    SSD_RECORD = 132,
    SSD_HEADS = 2,
    SSD_ITEMS_PER_BLOCK = 1024,
    SSD_SCAN_SMEM = 227 * 1024,
    SSD_BC_SMEM = 227 * 1024,
    SSD_STATES_SMEM = 203 * 1024,
    SSD_MMA_BC_STAGE = 8 * 8192 + 2 * SSD_RECORD * 4,
    SSD_MMA_BC_SMEM = 11 * 8192 + 256 * 20 + 32 + 512 + 16 + SSD_MMA_BC_STAGE, /* with one stage */
    SSD_SLOW_SMEM = SSD_MMA_BC_SMEM,
    SSD_SLOW_TEAM = 16, /* most blocks of ssd_bwd_slow that share the heads of their work items */
    SSD_SUM_COLS = 8,
    SSD_ENDS = 10
}; /* partial sums per pair of chunks and head: ssd_fused_bc_feed.cuh */

/* `fused` works on tiles of 64 p x 128 n (ssd_fused.cuh). Tiled shapes are all but heads of one whole tile, an even
 * number per group. ssd_tile_dims gives the shape in tiles, each a head of its own: H and J count them, and a group has
 * an even number of tiles of p. A padded node has rows that tensor maps cannot address: not aligned to 16 bytes, or not
 * a multiple of 16 bytes long. It is tiled, and works on padded copies (ssd_tiled_pad.cuh). */
bool     ssd_is_tiled(const mba_node *n);
ssd_dims ssd_tile_dims(const ssd_dims *d);
enum { SSD_PAD_TO = 8 }; /* values of a 16-byte vector */
typedef struct ssd_padding {
    bool x, b; /* which rows are padded: of x, y and their gradients; of B, C and theirs */
} ssd_padding;
ssd_padding ssd_padding_of(const mba_node *n);

typedef struct ssd_segments {
    int64_t K;                     /* chunks of 64 per sequence; an even number for backward */
    int64_t segments, per_segment; /* segments per sequence; chunks per segment */
    int64_t parts;                 /* parts per segment; ssd_states computes one state for each */
    int64_t items, grid;           /* items (sequence, segment, pair of heads); blocks of the scan */
    int64_t state_blocks;          /* blocks of ssd_states; the last segment of a sequence needs none */
} ssd_segments;
ssd_segments ssd_segments_of(const ssd_dims *d, int64_t sms, bool backward); /* the cheapest */
ssd_segments ssd_segments_as(const ssd_dims *d, int64_t K, int64_t segments, int64_t parts, int64_t sms);
int64_t      ssd_state_heads(const ssd_dims *d); /* heads per block of ssd_states: 2 or 4 */

/* The alternative: each block takes a range of the list of all chunks of all items (ssd_split.c). As many blocks as
 * the machine has SMs, and at most SSD_BLOCKS_MAX, for which a kernel's parameters have room. A machine with more SMs
 * leaves the others idle in such a launch; ssd_split_of weighs that against segments, which use all. SSD_LIST_MAX:
 * items of a block. */
enum { SSD_BLOCKS_MAX = 160, SSD_LIST_MAX = 48 };
typedef enum ssd_split_kind { SSD_UNSPLIT, SSD_STATE_PASSED, SSD_STATE_RECOMPUTED } ssd_split_kind;
typedef struct ssd_split {
    ssd_split_kind how; /* SSD_UNSPLIT: whole items or segments */
    bool           backward;
    int64_t        K, items;                    /* chunks per sequence; items (sequence, pair of heads) */
    int64_t        blocks, subranges, segments; /* ranges; (range, item) pairs; most ranges of one item */
    int64_t        state_slots, received;       /* room for published states; states that are received */
    int64_t        recomputed;                  /* chunks that blocks recompute for their initial states */
    int32_t        at[SSD_BLOCKS_MAX + 1];      /* first chunk of a range in the list of all chunks */
    uint16_t       before[SSD_BLOCKS_MAX + 1];  /* ranges that begin earlier in the item in which this range begins */
} ssd_split;
ssd_split ssd_split_of(const ssd_dims *d, int64_t sms, bool backward);                        /* the cheapest */
ssd_split ssd_split_as(const ssd_dims *d, ssd_split_kind how, int64_t blocks, bool backward); /* this one */
bool      ssd_fused_shape(const ssd_dims *d, mba_dtype type);  /* whether `fused` takes it */
void      ssd_save_nothing(mba_plan *p);                       /* marks a forward that saves nothing for backward */
bool      ssd_has_saved(const mba_plan *p, const mba_node *n); /* whether the forward saved for this backward */
void      ssd_saved_types(mba_type type[MBA_OUT_MAX], const ssd_dims *d, bool ids); /* types of KEPT_* */

/* Scratch of `fused`, in the order of its plans: of both passes, then what each pass has besides. */
enum { SSD_RECORDS_WORK, SSD_PAIRS_WORK, SSD_REACH_WORK, SSD_SEGMENTS_WORK, SSD_PADDED_FWD_WORK };
enum { SSD_SAVED_WORK = SSD_PADDED_FWD_WORK, SSD_SAVED_REV_WORK, SSD_TOKENS_WORK };
enum { SSD_SLOW_WORK = SSD_TOKENS_WORK + 1, SSD_SMALL_WORK, SSD_PADDED_WORK };

mba_launch_fn ssd_tiled_cuda, ssd_bwd_tiled_cuda;           /* `fused` at tiled shapes, N up to 128 */
mba_launch_fn ssd_tiled_wide_cuda, ssd_bwd_tiled_wide_cuda; /* N up to 256 */

#endif
