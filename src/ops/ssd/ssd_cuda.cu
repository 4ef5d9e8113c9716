/* ssd_cuda.cu -- the multi-kernel baseline of ssd: launchers. The kernels carry the names of the reference.
 *
 *   ssd_steps.cuh   the vector kernels, for both variants
 *   ssd_mma.cuh     variant `chunked`: products on tensor cores
 *   ssd_fma.cuh     variant `fma`: products in fp32, any size */
#include "ops/ssd/ssd_fma.cuh"
#include "ops/ssd/ssd_mma.cuh"
#include "ops/ssd/ssd_steps.cuh"

template <typename A> static void set_scratch(A &a, const mba_call *c, const ssd_cut &t, bool backward)
{
    const int64_t BHKQ = (int64_t)a.B * a.H * a.KQ, BKQGN = (int64_t)a.B * a.KQ * a.G * a.N;
    char *steps = (char *)mba_cuda_scratch(c, SSD_STEPS_WORK);
    a.step   = take<float>(steps, BHKQ);
    a.in     = take<float>(steps, BHKQ);
    a.out    = take<float>(steps, BHKQ);
    a.cs     = (typename A::CS *)mba_cuda_scratch(c, SSD_CS_WORK);
    a.since  = a.ids.at ? (int *)mba_cuda_scratch(c, SSD_SINCE_WORK) : NULL;
    a.states = (typename A::ST *)mba_cuda_scratch(c, SSD_STATES_WORK);
    a.cb     = (typename A::ST *)mba_cuda_scratch(c, SSD_CB_WORK);
    if (!backward) return;
    char *sums = (char *)mba_cuda_scratch(c, SSD_SUMS_WORK), *parts = (char *)mba_cuda_scratch(c, SSD_PARTS_WORK);
    a.dstates = (typename A::ST *)mba_cuda_scratch(c, SSD_DSTATES_WORK);
    a.dcb     = (typename A::ST *)mba_cuda_scratch(c, SSD_DCB_WORK);
    a.dbs     = (float *)mba_cuda_scratch(c, SSD_DBC_WORK);
    a.dcs     = a.dbs + BKQGN;
    a.rowsum  = take<float>(sums, t.tiles * BHKQ);
    a.colsum  = take<float>(sums, t.tiles * BHKQ);
    a.r       = take<float>(sums, t.ntiles * BHKQ);
    a.q       = take<float>(sums, t.ntiles * BHKQ);
    a.dstep   = take<float>(sums, t.ptiles * BHKQ);
    a.ddA     = take<float>(sums, BHKQ);
    a.dchunk  = take<float>(parts, (int64_t)a.B * a.H * a.K * a.cparts);
    a.dpar    = take<float>(parts, 2 * (int64_t)a.B * a.K * a.H);
    a.dD      = take<float>(parts, t.dD);
}

template <typename A> static A task_of(const mba_call *c, const ssd_cut &t, bool backward)
{
    typedef typename A::T T;
    const mba_node *n = c->node;
    const ssd_dims  d = ssd_dims_of(n);
    A               a = {};
    a.B = (int)d.B;
    a.L = (int)d.L;
    a.H = (int)d.H;
    a.P = (int)d.P;
    a.G = (int)d.G;
    a.N = (int)d.N;
    a.J = (int)d.J;
    a.Q = (int)d.Q;
    a.K = (int)t.K;
    a.KQ = (int)t.KQ;
    a.tiles = (int)t.tiles;
    a.ptiles = (int)t.ptiles;
    a.ntiles = (int)t.ntiles;
    a.rtiles = (int)t.rtiles;
    a.cparts = (int)t.cparts; a.skip_cols = (int)d.C; a.dt_min = (float)d.dt_min; a.dt_max = (float)d.dt_max;
    a.x  = strided_of<const T>(n->in[X], c->in[X]);   a.dt = strided_of<const T>(n->in[DT], c->in[DT]);
    a.bm = strided_of<const T>(n->in[BM], c->in[BM]); a.cm = strided_of<const T>(n->in[CM], c->in[CM]);
    a.ids     = strided_of<const int>(n->in[IDS], c->in[IDS]);
    a.initial = strided_of<const float>(n->in[INITIAL], c->in[INITIAL]);
    a.A_log   = (const float *)c->in[A_LOG];
    a.skip    = n->in[SKIP] ? (const float *)c->in[SKIP] : NULL;
    a.bias    = n->in[DT_BIAS] ? (const float *)c->in[DT_BIAS] : NULL;
    if (!backward) {
        a.y     = strided_of<T>(n->out[Y], c->out[Y]);
        a.final = strided_of<float>(n->out[FINAL], c->out[FINAL]);
    } else {
        a.dy = strided_of<const T>(n->in[DY], c->in[DY]);
        a.dfinal = strided_of<const float>(n->in[DFINAL], c->in[DFINAL]);
        a.dx  = strided_of<T>(n->out[DX], c->out[DX]);      a.ddt      = strided_of<T>(n->out[DDT], c->out[DDT]);
        a.dbm = strided_of<T>(n->out[DBM], c->out[DBM]);    a.dcm      = strided_of<T>(n->out[DCM], c->out[DCM]);
        a.dinitial = strided_of<float>(n->out[DINITIAL], c->out[DINITIAL]);
        a.dA_log   = (float *)c->out[DA_LOG];
        a.dskip    = n->out[DSKIP] ? (float *)c->out[DSKIP] : NULL;
        a.dbias    = n->out[DDT_BIAS] ? (float *)c->out[DDT_BIAS] : NULL;
        for (int k = DX; k <= DINITIAL; k++) a.adds[k] = mba_adds(n, k);
    }
    set_scratch(a, c, t, backward);
    return a;
}

/* ---- tensor cores ---- */

static ssd_cut cut_of(const mba_call *c, bool tensor)
{
    const ssd_dims d = ssd_dims_of(c->node);
    return ssd_cut_of(&d, tensor);
}

extern "C" mba_status ssd_chunked_cuda(const mba_call *c)
{
    const ssd_cut     t = cut_of(c, true);
    const tensor_task a = task_of<tensor_task>(c, t, false);
    MBA_KERNEL(c, 0, chunk_cumsum_fwd<tensor_task>, a);
    MBA_KERNEL(c, 1, chunk_state_fwd, a);
    MBA_KERNEL(c, 2, (state_passing_fwd<8, tensor_task>), a);
    MBA_KERNEL(c, 3, bmm_chunk_fwd, a);
    if (t.rows == 128) MBA_KERNEL(c, 4, chunk_scan_fwd<2>, a);
    else               MBA_KERNEL(c, 4, chunk_scan_fwd<1>, a);
    return MBA_OK;
}

template <int MT> static mba_status launch_rows(const mba_call *c, const tensor_task &a)
{
    MBA_KERNEL(c, 6, chunk_scan_chunk_state_bwd_dx<MT>, a);
    MBA_KERNEL(c, 7, chunk_state_bwd_db<MT>, a);
    MBA_KERNEL(c, 8, chunk_scan_bwd_dc<MT>, a);
    return MBA_OK;
}

extern "C" mba_status ssd_bwd_chunked_cuda(const mba_call *c)
{
    const ssd_cut     t = cut_of(c, true);
    const tensor_task a = task_of<tensor_task>(c, t, true);
    MBA_KERNEL(c, 0, chunk_cumsum_fwd<tensor_task>, a);
    MBA_KERNEL(c, 1, bmm_chunk_fwd, a);
    MBA_KERNEL(c, 2, chunk_state_fwd, a);
    MBA_KERNEL(c, 3, (state_passing_fwd<8, tensor_task>), a);
    MBA_KERNEL(c, 4, chunk_scan_bwd_dstates, a);
    MBA_KERNEL(c, 5, (state_passing_bwd<8, tensor_task>), a);
    if (t.rows == 128) MBA_TRY(launch_rows<2>(c, a));
    else               MBA_TRY(launch_rows<1>(c, a));
    MBA_KERNEL(c, 9, chunk_scan_bwd_dcb, a);
    MBA_KERNEL(c, 10, bmm_chunk_bwd<false>, a);
    MBA_KERNEL(c, 11, bmm_chunk_bwd<true>, a);
    MBA_KERNEL(c, 12, chunk_scan_bwd_ddacs_stable<tensor_task>, a);
    MBA_KERNEL(c, 13, chunk_cumsum_bwd<tensor_task>, a);
    MBA_KERNEL(c, 14, ssd_sum_parts<tensor_task>, a);
    return MBA_OK;
}

/* ---- plain fp32 ---- */

template <typename T> static mba_status fwd_fma(const mba_call *c)
{
    typedef task<T, double, float> plain_task;
    const plain_task a = task_of<plain_task>(c, cut_of(c, false), false);
    MBA_KERNEL(c, 0, chunk_cumsum_fwd<plain_task>, a);
    MBA_KERNEL(c, 1, chunk_state_fwd_fma<plain_task>, a);
    MBA_KERNEL(c, 2, (state_passing_fwd<1, plain_task>), a);
    MBA_KERNEL(c, 3, bmm_chunk_fwd_fma<plain_task>, a);
    MBA_KERNEL(c, 4, chunk_scan_fwd_fma<plain_task>, a);
    return MBA_OK;
}

template <typename T> static mba_status bwd_fma(const mba_call *c)
{
    typedef task<T, double, float> plain_task;
    const plain_task a = task_of<plain_task>(c, cut_of(c, false), true);
    MBA_KERNEL(c, 0, chunk_cumsum_fwd<plain_task>, a);
    MBA_KERNEL(c, 1, bmm_chunk_fwd_fma<plain_task>, a);
    MBA_KERNEL(c, 2, chunk_state_fwd_fma<plain_task>, a);
    MBA_KERNEL(c, 3, (state_passing_fwd<1, plain_task>), a);
    MBA_KERNEL(c, 4, chunk_scan_bwd_dstates_fma<plain_task>, a);
    MBA_KERNEL(c, 5, (state_passing_bwd<1, plain_task>), a);
    MBA_KERNEL(c, 6, chunk_scan_chunk_state_bwd_dx_fma<plain_task>, a);
    MBA_KERNEL(c, 7, chunk_state_bwd_db_fma<plain_task>, a);
    MBA_KERNEL(c, 8, chunk_scan_bwd_dc_fma<plain_task>, a);
    MBA_KERNEL(c, 9, chunk_scan_bwd_dcb_fma<plain_task>, a);
    MBA_KERNEL(c, 10, (bmm_chunk_bwd_fma<false, plain_task>), a);
    MBA_KERNEL(c, 11, (bmm_chunk_bwd_fma<true, plain_task>), a);
    MBA_KERNEL(c, 12, chunk_scan_bwd_ddacs_stable<plain_task>, a);
    MBA_KERNEL(c, 13, chunk_cumsum_bwd<plain_task>, a);
    MBA_KERNEL(c, 14, ssd_sum_parts<plain_task>, a);
    return MBA_OK;
}

extern "C" mba_status ssd_fma_cuda(const mba_call *c)
{
    MBA_WITH_DTYPE(c->node->in[X]->type.dtype, T, return fwd_fma<T>(c));
}

extern "C" mba_status ssd_bwd_fma_cuda(const mba_call *c)
{
    MBA_WITH_DTYPE(c->node->in[X]->type.dtype, T, return bwd_fma<T>(c));
}
