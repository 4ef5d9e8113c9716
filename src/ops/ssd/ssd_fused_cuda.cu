/* ssd_fused_cuda.cu -- the variant `fused` of ssd: launchers. The kernels are in ssd_fused.cuh and ssd_fused_bc.cuh. */
#include "ops/ssd/ssd_fused_bc.cuh"

static fused_task fused_task_of(const mba_call *c, const ssd_ranges &r)
{
    const mba_node *n = c->node;
    const ssd_dims  d = ssd_dims_of(n);
    fused_task      a = {};
    a.B = (int)d.B;
    a.L = (int)d.L;
    a.H = (int)d.H;
    a.G = (int)d.G;
    a.J = (int)d.J;
    a.K = (int)r.K;
    a.segments    = (int)r.segments;
    a.states      = (int)(r.how == SSD_WHOLE ? 0 : r.blocks + r.pre);
    a.skip_cols   = (int)d.C;
    a.dt_min = (float)d.dt_min;
    a.dt_max = (float)d.dt_max;
    a.x  = strided_of<const bf16>(n->in[X], c->in[X]);
    a.dt = strided_of<const bf16>(n->in[DT], c->in[DT]);
    a.bm = strided_of<const bf16>(n->in[BM], c->in[BM]);
    a.cm = strided_of<const bf16>(n->in[CM], c->in[CM]);
    a.ids     = strided_of<const int>(n->in[IDS], c->in[IDS]);
    a.initial = strided_of<const float>(n->in[INITIAL], c->in[INITIAL]);
    a.A_log   = (const float *)c->in[A_LOG];
    a.skip    = n->in[SKIP] ? (const float *)c->in[SKIP] : NULL;
    a.bias    = n->in[DT_BIAS] ? (const float *)c->in[DT_BIAS] : NULL;
    const int64_t chunks = d.B * r.K;
    a.rec = (float *)mba_cuda_scratch(c, SSD_RECORDS_WORK);
    a.cb  = (bf16 *)mba_cuda_scratch(c, SSD_PAIRS_WORK);
    if (n->in[IDS]) {
        a.b_end   = (bf16 *)mba_cuda_scratch(c, SSD_REACH_WORK);
        a.c_begin = a.b_end + chunks * FQ * d.G * FN;
    }
    a.piece_state = (float *)mba_cuda_scratch(c, SSD_SEGMENTS_WORK);
    a.piece_decay = a.piece_state + (int64_t)a.states * HEADS * FP * FN;
    a.handed      = r.how == SSD_HANDED ? (int *)a.piece_decay : NULL;
    return a;
}

/* Columns of all heads or groups of all tokens: (width, L, B). */
template <typename T>
static mba_status map_tokens(CUtensorMap *map, const strided<T> &t, int64_t width, int64_t L, int64_t B)
{
    const int64_t dim[3] = { width, L, B }, step[2] = { t.axis[1], B > 1 ? t.axis[0] : L * t.axis[1] };
    return mba_tile_map(map, t.at, dim, step);
}

static mba_status map_dense(CUtensorMap *map, const bf16 *at, int64_t width, int64_t rows, int64_t count)
{
    const int64_t dim[3] = { width, rows, count }, step[2] = { width, width * rows };
    return mba_tile_map(map, at, dim, step);
}

/* y: where the walk writes, x: what it scales, other: what the reverse walk takes sums with. */
static mba_status scan_maps_of(scan_maps *m, const fused_task &a, const strided<const bf16> &x, const strided<bf16> &y,
                               bool rev)
{
    const int64_t HP = (int64_t)a.H * FP, GN = (int64_t)a.G * FN, rows = (int64_t)a.K * FQ;
    CUtensorMap   bm, cm;
    if (a.b_end) {
        MBA_TRY(map_dense(&bm, a.b_end, GN, rows, a.B));
        MBA_TRY(map_dense(&cm, a.c_begin, GN, rows, a.B));
    } else {
        MBA_TRY(map_tokens(&bm, a.bm, GN, a.L, a.B));
        MBA_TRY(map_tokens(&cm, a.cm, GN, a.L, a.B));
    }
    m->k = rev ? bm : cm;
    m->u = rev ? cm : bm;
    MBA_TRY(map_dense(&m->cb, a.cb, FQ, FQ, (int64_t)a.B * a.K * a.G));
    MBA_TRY(map_tokens(&m->x, x, HP, a.L, a.B));
    MBA_TRY(map_tokens(&m->other, a.x, HP, a.L, a.B));
    if (y.at) MBA_TRY(map_tokens(&m->y, y, HP, a.L, a.B));
    else      m->y = m->x;
    return MBA_OK;
}

/* Two launches of the plan: pieces with a chunk beyond the range, then the others. */
template <int WHAT>
static mba_status walk_forward(const mba_call *c, int *k, const fused_task &a, const scan_maps &m, const scan_ranges &r)
{
    MBA_KERNEL(c, *k, (ssd_scan<WHAT, true>), a, m, r);
    MBA_KERNEL(c, *k + 1, (ssd_scan<WHAT, false>), a, m, r);
    *k += 2;
    return MBA_OK;
}

/* How the plan cut the work: its last walk is over everything; the one before of the same kernel, if there is one,
 * makes states. */
static ssd_ranges ranges_of(const mba_call *c, bool backward)
{
    const ssd_dims    d = ssd_dims_of(c->node);
    const mba_launch *walk = NULL;
    bool              states = false;
    for (int k = 0; k < c->plan->nlaunches; k++) {
        const mba_launch *l = &c->plan->launch[k];
        if (!l->persistent) continue;
        states = walk && !strcmp(walk->kernel, l->kernel);
        walk   = l;
    }
    const ssd_how how = ssd_how_of(d.B * d.H / HEADS, walk->tiles, walk->grid[0], states);
    return ssd_ranges_as(&d, how, walk->grid[0], backward);
}

static scan_ranges for_device(const ssd_ranges &r)
{
    scan_ranges s = {};
    s.blocks = (int)r.blocks;
    s.pre    = (int)r.pre;
    s.hands  = r.how == SSD_HANDED;
    memcpy(s.at, r.at, sizeof s.at);
    memcpy(s.pre_at, r.pre_at, sizeof s.pre_at);
    memcpy(s.piece, r.piece, sizeof s.piece);
    memcpy(s.first, r.first, sizeof s.first);
    return s;
}

extern "C" mba_status ssd_fused_cuda(const mba_call *c)
{
    const mba_node  *n = c->node;
    const ssd_ranges r = ranges_of(c, false);
    const scan_ranges cuts = for_device(r);
    fused_task       a = fused_task_of(c, r);
    scan_maps        m;
    int              k = 0;
    a.final = strided_of<float>(n->out[FINAL], c->out[FINAL]);
    MBA_TRY(scan_maps_of(&m, a, a.x, strided_of<bf16>(n->out[Y], c->out[Y]), false));
    MBA_KERNEL(c, k, ssd_prep, a);
    k++;
    if (r.pre) MBA_TRY(walk_forward<SCAN_LOCAL>(c, &k, a, m, cuts));
    return walk_forward<SCAN_OUT>(c, &k, a, m, cuts);
}

/* ---- backward ---- */

static void set_gradients(fused_task &a, const mba_call *c)
{
    const mba_node *n = c->node;
    a.dy     = strided_of<const bf16>(n->in[DY], c->in[DY]);
    a.dfinal = strided_of<const float>(n->in[DFINAL], c->in[DFINAL]);
    a.ddt = strided_of<bf16>(n->out[DDT], c->out[DDT]);
    a.dbm = strided_of<bf16>(n->out[DBM], c->out[DBM]);
    a.dcm = strided_of<bf16>(n->out[DCM], c->out[DCM]);
    a.dinitial = strided_of<float>(n->out[DINITIAL], c->out[DINITIAL]);
    a.dA_log   = (float *)c->out[DA_LOG];
    a.dskip    = n->out[DSKIP] ? (float *)c->out[DSKIP] : NULL;
    a.dbias    = n->out[DDT_BIAS] ? (float *)c->out[DDT_BIAS] : NULL;
    for (int k = DX; k <= DINITIAL; k++) a.adds[k] = mba_adds(n, k);
    const int64_t heads = (int64_t)a.B * a.H, chunks = (int64_t)a.B * a.K, tokens = heads * a.K * FQ;
    char *at = (char *)mba_cuda_scratch(c, SSD_TOKENS_WORK);
    a.rec_rev   = a.rec + heads * a.K * REC;
    a.rec_plain = a.rec_rev + heads * a.K * REC;
    a.cb_low    = a.cb + chunks * a.G * FQ * FQ;
    a.saved     = (uint32_t *)mba_cuda_scratch(c, SSD_SAVED_WORK);
    a.saved_rev = (uint32_t *)mba_cuda_scratch(c, SSD_SAVED_REV_WORK);
    a.src = take<float>(at, tokens);
    a.q   = take<float>(at, tokens);
    a.row = take<float>(at, tokens);
    at = (char *)mba_cuda_scratch(c, SSD_SLOW_WORK);
    a.slow_db = take<float>(at, chunks * FQ * a.G * FN);
    a.slow_dc = take<float>(at, chunks * FQ * a.G * FN);
    at = (char *)mba_cuda_scratch(c, SSD_SMALL_WORK);
    a.ends   = take<float>(at, heads * a.K / 2 * SSD_ENDS);
    a.dpar   = take<float>(at, 2 * heads * a.K / 2);
    a.dD     = take<float>(at, heads * a.segments * FP);
}

template <int WHAT>
static mba_status walk_backward(const mba_call *c, int *k, const fused_task &a, const scan_maps &m,
                                const scan_ranges &r)
{
    MBA_KERNEL(c, *k, (ssd_scan_rev<WHAT, true>), a, m, r);
    MBA_KERNEL(c, *k + 1, (ssd_scan_rev<WHAT, false>), a, m, r);
    *k += 2;
    return MBA_OK;
}

static mba_status launch_sums(const mba_call *c, int k, const fused_task &a)
{
    const int64_t HP = (int64_t)a.H * FP, count = (int64_t)a.B * a.H * (a.K / 2);
    bc_maps       m;
    MBA_TRY(map_tokens(&m.x, a.x, HP, a.L, a.B));
    MBA_TRY(map_tokens(&m.dy, a.dy, HP, a.L, a.B));
    MBA_TRY(map_dense(&m.h, (const bf16 *)a.saved, FN, FP, count));
    MBA_TRY(map_dense(&m.g, (const bf16 *)a.saved_rev, FN, FP, count));
    MBA_KERNEL(c, k, ssd_bwd_slow, a);
    if (a.ids.at) MBA_KERNEL(c, k + 1, ssd_bwd_bc<true>, a, m);
    else          MBA_KERNEL(c, k + 1, ssd_bwd_bc<false>, a, m);
    MBA_KERNEL(c, k + 2, ssd_finish, a);
    MBA_KERNEL(c, k + 3, ssd_sums, a);
    return MBA_OK;
}

extern "C" mba_status ssd_bwd_fused_cuda(const mba_call *c)
{
    const ssd_ranges    r = ranges_of(c, true);
    const scan_ranges   cuts = for_device(r);
    const strided<bf16> none = {};
    fused_task          a = fused_task_of(c, r);
    scan_maps           forward, backward;
    int                 k = 0;
    set_gradients(a, c);
    MBA_TRY(scan_maps_of(&forward, a, a.x, none, false));
    MBA_TRY(scan_maps_of(&backward, a, a.dy, strided_of<bf16>(c->node->out[DX], c->out[DX]), true));
    MBA_KERNEL(c, k, ssd_prep, a);
    k++;
    if (r.pre) MBA_TRY(walk_forward<SCAN_LOCAL>(c, &k, a, forward, cuts));
    MBA_TRY(walk_forward<SCAN_SAVE>(c, &k, a, forward, cuts));
    if (r.pre) MBA_TRY(walk_backward<SCAN_LOCAL>(c, &k, a, backward, cuts));
    MBA_TRY(walk_backward<SCAN_OUT>(c, &k, a, backward, cuts));
    return launch_sums(c, k, a);
}
