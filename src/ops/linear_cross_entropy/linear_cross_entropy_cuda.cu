/* linear_cross_entropy_cuda.cu -- block after block of rows: a product makes the logits of the block in scratch, the
 * kernels of ops/cross_entropy pass over them, and backward two products use what they leave. The loss and all sums over
 * a row are fp32 and double; logits and their gradient have the type of the operands. */
#include "device/cuda/tiles.cuh"
#include "ops/cross_entropy/cross_entropy_rows.cuh"
extern "C" {
#include "ops/linear_cross_entropy/linear_cross_entropy_slots.h"
}

typedef mba_status product_fn(const mba_call *c, int k, mba_cuda_gemm_args *g);

static mba_status by_library(const mba_call *c, int k, mba_cuda_gemm_args *g)
{
    (void)k;
    g->work   = mba_cuda_scratch(c, LIBRARY);
    g->stream = c->stream;
    return mba_cuda_gemm(g);
}

static mba_status by_tiles(const mba_call *c, int k, mba_cuda_gemm_args *g) { return mba_cuda_tiles(c, k, g); }

/* What both directions begin with. */
struct head {
    const mba_tensor *x, *w;
    const char       *at_x, *at_w;
    int64_t           R, M, V, rows, e, ldx, ldw, pitch;
    mba_dtype         type;
    void             *z;
    ce_rows           pass;
};

static head head_of(const mba_call *c, int x, int w, int target)
{
    const mba_node *n = c->node;
    head h = {};
    h.x = n->in[x]; h.at_x = (const char *)c->in[x]; h.ldx = mba_ld(h.x);
    h.w = n->in[w]; h.at_w = (const char *)c->in[w]; h.ldw = mba_ld(h.w);
    h.R = mba_rows(h.x); h.M = mba_cols(h.x); h.V = mba_rows(h.w);
    h.type  = h.x->type.dtype;
    h.e     = (int64_t)mba_dtype_bytes(h.type);
    h.rows  = lce_block_rows(h.R, h.V);
    h.pitch = lce_pitch(h.V);
    h.z     = mba_cuda_scratch(c, LOGITS);
    h.pass.step   = c->step;
    h.pass.target = mba_window<const int32_t>(n->in[target], c->in[target]);
    h.pass.cols   = (int)h.V;
    h.pass.pieces = true;
    return h;
}

/* The block that begins at row r. */
static int64_t next_block(head *h, int64_t r)
{
    const int64_t m = h->R - r < h->rows ? h->R - r : h->rows;
    h->pass.first = r;
    h->pass.rows  = mba_all(m);
    return m;
}

/* z = x w^T of the block's m rows */
static mba_status logits(const mba_call *c, int k, const head *h, int64_t m, product_fn *product)
{
    mba_cuda_gemm_args g = {};
    g.m = m; g.n = h->V; g.k = h->M; g.tb = true; g.in = g.out = h->type;
    g.a = h->at_x + h->pass.first * h->ldx * h->e; g.lda = h->ldx;
    g.b = h->at_w; g.ldb = h->ldw;
    g.c = h->z;    g.ldc = h->pitch;
    return product(c, k, &g);
}

/* dx (the block's rows) = dz w */
static mba_status make_dx(const mba_call *c, int k, const head *h, int64_t m, product_fn *product)
{
    const mba_tensor  *dx = c->node->out[DX];
    mba_cuda_gemm_args g = {};
    g.m = m; g.n = h->M; g.k = h->V; g.in = g.out = h->type; g.adds = mba_adds(c->node, DX);
    g.a = h->z;    g.lda = h->pitch;
    g.b = h->at_w; g.ldb = h->ldw;
    g.c = (char *)c->out[DX] + h->pass.first * mba_ld(dx) * h->e; g.ldc = mba_ld(dx);
    return product(c, k, &g);
}

/* dw = dz^T x, added up over the blocks */
static mba_status add_dw(const mba_call *c, int k, const head *h, int64_t m, product_fn *product)
{
    mba_cuda_gemm_args g = {};
    g.m = h->V; g.n = h->M; g.k = m; g.ta = true; g.in = h->type; g.out = MBA_F32; g.adds = h->pass.first > 0 || mba_adds(c->node, DW);
    g.a = h->z; g.lda = h->pitch;
    g.b = h->at_x + h->pass.first * h->ldx * h->e; g.ldb = h->ldx;
    g.c = c->out[DW]; g.ldc = mba_ld(c->node->out[DW]);
    return product(c, k, &g);
}

static mba_status forward(const mba_call *c, product_fn *product)
{
    head   h = head_of(c, X, W, TARGET);
    float *each = (float *)mba_cuda_scratch(c, ROWS);
    int    k = 0;
    for (int64_t r = 0; r < h.R; r += h.rows) {
        const int64_t m = next_block(&h, r);
        MBA_TRY(logits(c, k++, &h, m, product));
        MBA_WITH_DTYPE(h.type, T,
            const window<const T> z = { (const T *)h.z, h.V, h.pitch };
            MBA_TRY(ce_fwd_rows<T>(c, k++, &h.pass, z, (float *)c->out[LSE], each)));
    }
    MBA_KERNEL(c, k, cross_entropy_fwd_total, (float *)c->out[LOSS], each, h.pass.target, NULL, mba_all(h.R), c->step);
    return MBA_OK;
}

static mba_status backward(const mba_call *c, product_fn *product)
{
    head   h = head_of(c, XB, WB, TARGETB);
    float *scale = (float *)mba_cuda_scratch(c, ROWS);
    int    k = 1;
    MBA_KERNEL(c, 0, cross_entropy_bwd_scale, scale, (const float *)c->in[DLOSS], h.pass.target, mba_all(h.R), c->step);
    for (int64_t r = 0; r < h.R; r += h.rows) {
        const int64_t m = next_block(&h, r);
        MBA_TRY(logits(c, k++, &h, m, product));
        MBA_WITH_DTYPE(h.type, T,
            const window<const T> z = { (const T *)h.z, h.V, h.pitch };
            const window<T>       dz = { (T *)h.z, h.V, h.pitch };
            MBA_TRY(ce_bwd_rows<T>(c, k++, &h.pass, dz, z, (const float *)c->in[LSEB], scale, NULL, false)));
        if (c->node->out[DX]) MBA_TRY(make_dx(c, k++, &h, m, product));
        if (c->node->out[DW]) MBA_TRY(add_dw(c, k++, &h, m, product));
    }
    return MBA_OK;
}

extern "C" mba_status lce_cuda(const mba_call *c)           { return forward(c, by_library); }
extern "C" mba_status lce_bwd_cuda(const mba_call *c)       { return backward(c, by_library); }
extern "C" mba_status lce_tiles_cuda(const mba_call *c)     { return forward(c, by_tiles); }
extern "C" mba_status lce_bwd_tiles_cuda(const mba_call *c) { return backward(c, by_tiles); }
