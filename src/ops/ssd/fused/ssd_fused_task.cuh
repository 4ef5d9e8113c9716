// SPDX-License-Identifier: Apache-2.0
/* ssd_fused_task.cuh -- arguments of the kernels of `fused`, built by their launchers on the host: sizes,
 * pointers to operands and scratch (fused_task), the division of the scan's work (work_split), and TMA tensor maps.
 *
 * Sizes follow from the node and its launch plan. The plan does not store the division of work; work_split_of() derives
 * it from the grids, with the functions that made the plan (ssd_split.c). */
#ifndef MBA_SSD_FUSED_TASK_CUH
#define MBA_SSD_FUSED_TASK_CUH

#include <string.h>

#include "ops/ssd/fused/ssd_fused_bc_feed.cuh"
#include "ops/ssd/fused/ssd_fused_items.cuh"

/* Tiles of the state per head. */
static int tiles_of_n(const fused_task &a) { return (a.N + FN - 1) / FN; }

static void set_masked_rows(fused_task &a, void *at)
{
    a.b_end = (bf16 *)at;
    a.c_begin = a.b_end + (int64_t)a.B * a.K * FQ * a.G * tiles_of_n(a) * FN;
}

/* Sets the pointers to what the backward pass needs: outputs of the forward pass, or scratch of the backward. */
static void set_saved(fused_task &a, void *states, float *records, void *pairs)
{
    a.rec_rev = records;
    a.rec_plain = records + (int64_t)a.B * a.heads * a.K * REC;
    a.cb = (bf16 *)pairs;
    a.cb_low = a.cb + (int64_t)a.B * a.K * a.G * FQ * FQ;
    a.saved = (uint32_t *)states;
}

/* The division of work: segments, or the split with its table for the device. */
struct work_split {
    ssd_segments     r;
    ssd_split        split;
    scan_split_table table;
};

static scan_split_table split_table_of(const ssd_split &c)
{
    scan_split_table s = {};
    memcpy(s.at, c.at, sizeof s.at);
    memcpy(s.before, c.before, sizeof s.before);
    return s;
}

/* Derives the division of work from the plan's last scan launch and, with segments, its launch of ssd_states. even:
 * the number of chunks is rounded up to even, as for the backward pass. */
static work_split work_split_of(const mba_call *c, bool even)
{
    const ssd_dims    heads = ssd_dims_of(c->node), d = ssd_tile_dims(&heads);
    const int64_t     pairs = d.B * d.H / HEADS, K = mba_ceil(d.L, FQ), all = even ? (K + 1) / 2 * 2 : K;
    const mba_launch *scan = NULL, *states = NULL;
    work_split        s = {};
    for (int k = 0; k < c->plan->nlaunches; k++) {
        const mba_launch *l = &c->plan->launch[k];
        if (strstr(l->kernel, "_scan")) scan = l;
        if (strstr(l->kernel, "_states")) states = l;
    }
    if (strstr(scan->kernel, "_split")) {
        const ssd_split_kind how = scan->grid[0] > pairs ? SSD_STATE_RECOMPUTED : SSD_STATE_PASSED;
        s.split = ssd_split_as(&d, how, scan->grid[0], even);
        s.table = split_table_of(s.split);
        s.r = ssd_segments_as(&d, all, s.split.segments, 1, scan->grid[0]);
    } else {
        const int64_t segments = scan->tiles / pairs, wide = ssd_state_heads(&d) / HEADS;
        s.r = ssd_segments_as(&d, all, segments, states ? states->grid[0] * wide / (pairs * (segments - 1)) : 1,
                              scan->grid[0]);
    }
    return s;
}

static bool launches_states(const work_split &s) { return !s.split.how && s.r.segments > 1; }

static fused_task fused_task_of(const mba_call *c, const work_split &work)
{
    const mba_node     *n = c->node;
    const ssd_dims      heads = ssd_dims_of(n), d = ssd_tile_dims(&heads);
    const ssd_segments &r = work.r;
    fused_task          a = {};
    a.B = (int)d.B;
    a.L = (int)d.L;
    a.H = (int)d.H;
    a.G = (int)d.G;
    a.J = (int)d.J;
    a.K = (int)r.K;
    a.segments = (int)r.segments;
    a.per_segment = (int)r.per_segment;
    a.items = (int)r.items;
    a.parts = (int)r.parts;
    a.tiled = ssd_is_tiled(n);
    a.heads = (int)heads.H;
    a.P = (int)heads.P;
    a.N = (int)heads.N;
    a.group_tiles = (int)(heads.J * mba_ceil(heads.P, FP));
    a.tiles = (int)(mba_ceil(heads.P, FP) * mba_ceil(heads.N, FN));
    set_inputs<bf16>(a, c);
    a.rec = (float *)mba_cuda_scratch(c, SSD_RECORDS_WORK);
    a.cb = (bf16 *)mba_cuda_scratch(c, SSD_PAIRS_WORK);
    if (n->in[IDS]) set_masked_rows(a, mba_cuda_scratch(c, SSD_REACH_WORK));
    a.seg_state = (float *)mba_cuda_scratch(c, SSD_SEGMENTS_WORK);
    a.states = (int)work.split.state_slots;
    const int64_t states = work.split.how ? work.split.state_slots * HEADS : d.B * d.H * r.segments * r.parts;
    a.seg_decay = a.seg_state + states * FP * FN;
    a.state_ready = work.split.state_slots ? (int *)a.seg_decay : NULL;
    return a;
}

/* Tensor map of an activation: (width, L, B), width = columns of all heads or groups. */
template <typename T>
static mba_status map_tokens(CUtensorMap *map, const strided<T> &t, int64_t width, int64_t L, int64_t B)
{
    const int64_t dim[3] = { width, L, B }, step[2] = { t.axis[1], B > 1 ? t.axis[0] : L * t.axis[1] };
    return mba_tensor_map_make(map, t.at, dim, step);
}

/* The same for TILED kernels: (width, heads or groups, L, B). Padded rows end with zeros. */
template <typename T>
static mba_status map_heads(CUtensorMap *map, const strided<T> &t, int64_t values, int64_t heads, int64_t L, int64_t B)
{
    const int64_t width = mba_ceil(values, SSD_PAD_TO) * SSD_PAD_TO;
    const int64_t dim[4] = { width, heads, L, B };
    const int64_t step[3] = { heads > 1 ? t.axis[2] : width, t.axis[1], B > 1 ? t.axis[0] : L * t.axis[1] };
    return mba_tensor_map_make_heads(map, t.at, dim, step);
}

static mba_status map_dense(CUtensorMap *map, const bf16 *at, int64_t width, int64_t rows, int64_t count)
{
    const int64_t dim[3] = { width, rows, count }, step[2] = { width, width * rows };
    return mba_tensor_map_make(map, at, dim, step);
}

/* Tensor map of x, y or their gradients, and of B or C with `rows` rows per sequence. */
template <typename T> static mba_status map_x(CUtensorMap *map, const fused_task &a, const strided<T> &t)
{
    return a.tiled ? map_heads(map, t, a.P, a.heads, a.L, a.B) : map_tokens(map, t, (int64_t)a.H * FP, a.L, a.B);
}
static mba_status map_groups(CUtensorMap *map, const fused_task &a, const strided<const bf16> &t, int64_t rows)
{
    return a.tiled ? map_heads(map, t, a.N, a.G, rows, a.B) : map_tokens(map, t, (int64_t)a.G * FN, rows, a.B);
}

/* Tensor maps of a scan. x: what it scales (x or dy); y: what it writes; `other` shows the operand x. */
static mba_status scan_maps_of(scan_maps *m, const fused_task &a, const strided<const bf16> &x, const strided<bf16> &y,
                               bool rev)
{
    const int64_t       rows = a.b_end ? (int64_t)a.K * FQ : a.L;
    const int64_t       width = (int64_t)tiles_of_n(a) * FN, token = a.G * width;
    strided<const bf16> bm = a.bm, cm = a.cm;
    if (a.b_end) {
        bm = { a.b_end, { rows * token, token, width } };
        cm = { a.c_begin, { rows * token, token, width } };
    }
    MBA_TRY(map_groups(&m->k, a, rev ? bm : cm, rows));
    MBA_TRY(map_groups(&m->u, a, rev ? cm : bm, rows));
    MBA_TRY(map_dense(&m->cb, a.cb, FQ, FQ, (int64_t)a.B * a.K * a.G));
    MBA_TRY(map_x(&m->x, a, x));
    MBA_TRY(map_x(&m->other, a, a.x));
    if (y.at) MBA_TRY(map_x(&m->y, a, y));
    else m->y = m->x;
    return MBA_OK;
}

/* Sets what only the backward pass reads and writes. kept: the forward pass has saved its states. */
static void set_backward(fused_task &a, const mba_call *c, bool kept)
{
    const mba_node *n = c->node;
    set_gradients<bf16>(a, c);
    const int64_t heads = (int64_t)a.B * a.H, chunks = (int64_t)a.B * a.K, tokens = heads * a.K * FQ;
    char         *at = (char *)mba_cuda_scratch(c, SSD_TOKENS_WORK);
    if (kept) set_saved(a, c->in[STATES_IN], (float *)c->in[RECORDS_IN], c->in[PAIRS_IN]);
    else set_saved(a, mba_cuda_scratch(c, SSD_SAVED_WORK), a.rec + (int64_t)a.B * a.heads * a.K * REC, a.cb);
    if (kept && n->in[IDS]) set_masked_rows(a, c->in[REACH_IN]);
    a.saved_rev = (uint32_t *)mba_cuda_scratch(c, SSD_SAVED_REV_WORK);
    a.src = take<float>(at, tokens);
    a.q = take<float>(at, tokens);
    a.row = take<float>(at, tokens);
    at = (char *)mba_cuda_scratch(c, SSD_SLOW_WORK);
    a.slow_sums = take<float>(at, chunks / 2 * a.G * tiles_of_n(a) * SLOW_VALUES);
    a.slow_helpers = take<int2>(at, chunks / 2 * a.G * tiles_of_n(a));
    at = (char *)mba_cuda_scratch(c, SSD_SMALL_WORK);
    a.ends = take<float>(at, heads * a.K / 2 * SSD_ENDS);
    a.dpar = take<float>(at, 2 * heads * a.K / 2);
    a.dD = take<float>(at, heads * a.segments * FP);
}

/* Tensor map of saved states. Where a tile has rows or a half of columns that lie beyond P or N, they are zeros that
 * need not be read: the first 64 columns, in the order of saved states, are n 0 to 63. */
static mba_status map_states(CUtensorMap *map, const fused_task &a, const uint32_t *states, int64_t count)
{
    const int64_t cols = a.N <= FN / 2 ? FN / 2 : FN, rows = a.P < FP ? a.P : FP;
    const int64_t dim[3] = { cols, rows, count }, step[2] = { FN, FN * FP };
    return mba_tensor_map_make(map, states, dim, step);
}

/* Tensor maps of ssd_bwd_bc. */
static mba_status bc_maps_of(bc_maps *m, const fused_task &a)
{
    const int64_t count = (int64_t)a.B * a.H * (a.K / 2);
    MBA_TRY(map_x(&m->x, a, a.x));
    MBA_TRY(map_x(&m->dy, a, a.dy));
    MBA_TRY(map_states(&m->h, a, a.saved, count));
    MBA_TRY(map_states(&m->g, a, a.saved_rev, count));
    MBA_TRY(map_dense(&m->cb, a.cb, FQ, FQ, (int64_t)a.B * a.K * a.G));
    return map_dense(&m->low, a.cb_low, FQ, FQ, (int64_t)a.B * (a.K / 2) * a.G);
}

/* A call of a variant of this folder: its division of work and arguments, and the next launch of its plan. */
struct fused_call {
    const mba_call *c;
    work_split      s;
    fused_task      a;
    strided<bf16>   result; /* y, or dx */
    bool            kept;   /* forward: states are saved for the backward pass; backward: they are there */
    int             k;
};

static fused_call fused_call_of(const mba_call *c, bool backward)
{
    const mba_node *n = c->node;
    const int       out = backward ? (int)DX : (int)Y;
    fused_call      f = {};
    f.c = c;
    f.kept = backward ? ssd_has_saved(c->plan, n) : n->out[KEPT_STATES] && !(c->plan->leaves >> KEPT_STATES & 1);
    f.s = work_split_of(c, backward || f.kept);
    f.a = fused_task_of(c, f.s);
    f.result = strided_of<bf16>(n->out[out], c->out[out]);
    if (backward) {
        set_backward(f.a, c, f.kept);
        return f;
    }
    f.a.final = strided_of<float>(n->out[FINAL], c->out[FINAL]);
    if (f.kept) set_saved(f.a, c->out[KEPT_STATES], (float *)c->out[KEPT_RECORDS], c->out[KEPT_PAIRS]);
    if (f.kept && n->in[IDS]) set_masked_rows(f.a, c->out[KEPT_REACH]);
    return f;
}

#endif
