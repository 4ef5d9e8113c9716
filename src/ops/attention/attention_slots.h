// SPDX-License-Identifier: Apache-2.0
/* attention_slots.h -- what the files of attention share: slots by name, sizes, scratch and the declarations of
 * variants. */
#ifndef MBA_ATTENTION_SLOTS_H
#define MBA_ATTENTION_SLOTS_H

#include "core/op.h"

enum { Q, K, V, IDS, OUT, LSES, DOUT }; /* in; forward has the first four only */
enum { O, LSE };                        /* forward: out */
enum { DQ, DK, DV };                    /* backward: out */

typedef struct attention_attr {
    double  scale;
    int64_t causal;
} attention_attr;

typedef struct attention_dims {
    int64_t B, L, Lk, H, Hk, P;
    int64_t group; /* query heads per key head */
    int64_t past;  /* keys before the one of the first query, if `causal` */
    double  pairs; /* scores that `causal` allows */
} attention_dims;

attention_dims attention_dims_of(const mba_node *n);

void    attention_ref(const mba_ref_call *c);
void    attention_bwd_ref(const mba_ref_call *c);
int64_t attention_ref_space(const mba_node *n); // both directions: the scores of one query
MBA_CPU_DECLARE(attention_fwd);
MBA_CPU_DECLARE(attention_bwd);
mba_plan_fn attention_wgmma_plan, attention_mma_plan, attention_plain_plan, attention_bwd_one_tile_plan,
    attention_bwd_wgmma_plan, attention_bwd_mma_plan, attention_bwd_plain_plan, attention_dnn_plan,
    attention_bwd_dnn_plan;
mba_launch_fn attention_wgmma_cuda, attention_mma_cuda, attention_plain_cuda, attention_bwd_one_tile_cuda,
    attention_bwd_wgmma_cuda, attention_bwd_mma_cuda, attention_bwd_plain_cuda, attention_dnn_cuda,
    attention_bwd_dnn_cuda;

/* Flags of a case (dim[5]); tests use them too. */
enum { CAUSAL = 1, WITH_IDS = 2, PACKED = 4, TWICE = 8 };

/* ---- tiles of the CPU: the same sizes for every instruction set ---- */
enum {
    ATT_HEAD = 32,  /* heads are padded to a multiple of this */
    ATT_STRIP = 8,  /* rows are packed in strips of at most 8 */
    ATT_PANEL = 48, /* ... and in panels of 12, 24 or 48 */
    ATT_QUERIES = 96,
    ATT_KEYS = 64, /* forward: queries per block (panels), keys per block (strips) */
    ATT_BWD_KEYS = 96,
    ATT_BWD_QUERIES = 64, /* backward: keys in panels, queries in strips */
};

/* ---- sizes that plans and CUDA kernels share ---- */
enum {
    ATT_MMA_COLUMNS = 64,
    ATT_MMA_THREADS = 128,
    ATT_WGMMA_ROWS = 128,
    ATT_WGMMA_KEYS = 192, /* keys as rows (P = 64): registers allow three warpgroups per SM */
    ATT_WGMMA_COLUMNS = 64,
    ATT_WGMMA_STAGES = 3,
    ATT_WHOLE = 256, /* up to this length a row is one block */
    ATT_DNN_SUMS = 0,
    ATT_DNN_WORK = 1, /* scratch of cuDNN's backward pass; its forward has only the workspace */
};

static inline int64_t attention_round(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

/* The number of heads that run in one turn: their blocks start together, longest rows first, and the next heads follow.
 * Blocks that run at the same time read the same columns, and each wave of blocks reads them again from the beginning.
 * So the columns of these heads must stay in L2, beside the rows that stream through. If all 64 heads of
 * hybrid-headline run at once, they have 34 MB of keys and values and 67 MB of queries and gradients; an H200 then
 * reads 84 and 123 MB of them again. */
int64_t attention_together(const attention_dims *d, int64_t value_bytes, bool keys);

/* The place of a block: its tile of rows, in the order in which tiles start, and its head among B H. */
typedef struct attention_place {
    int tile, head;
} attention_place;

static inline MBA_HD attention_place attention_place_of(int block, int tiles, int heads, int together)
{
    const int begin = block / (together * tiles) * together, i = block - begin * tiles, rest = heads - begin,
              beside = rest < together ? rest : together;
    const attention_place at = { i / beside, begin + i % beside };
    return at;
}

/* Scratch. A worker takes items until none is left. There is one worker per thread at planning time; results do not
 * depend on their number. */
enum { ATT_PACKED_K, ATT_PACKED_V, ATT_WORKERS };   /* forward */
enum { ATT_PART_DK, ATT_PART_DV, ATT_BWD_WORKERS }; /* backward */

/* Sizes of the arrays of one worker, in floats. */
typedef struct attention_fwd_work {
    int64_t q, o, s, m, l, ids, all;
} attention_fwd_work;
typedef struct attention_bwd_work {
    int64_t kt, vt, kn;                     /* per key head: keys and values in panels, scaled keys in rows */
    int64_t qs, qn, gs, gn, dq, lse, delta; /* per query head: q and do, in strips and in rows */
    int64_t p, ds;                          /* per tile: probabilities, gradients of scores */
    int64_t ids, all;
} attention_bwd_work;
attention_fwd_work attention_fwd_work_of(const attention_dims *d);
attention_bwd_work attention_bwd_work_of(const attention_dims *d);

/* Backward: the number of items that share the query heads of one key head. */
int64_t attention_parts(const attention_dims *d);

#endif
