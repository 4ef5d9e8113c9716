/* attention_plan.c -- CUDA: which path takes which heads, and what one block does. */
#include "core/op.h"
#include "ops/attention/attention_slots.h"
#include "ops/heads.h"

enum { MMA_ROWS = 64, MMA_FWD_COLUMNS = 64, MMA_BWD_COLUMNS = 32, PLAIN_TILE = 32, BLOCK_THREADS = 128, INT_MOST = 1 << 30 };

/* Widths of heads the kernels are compiled for. */
static int64_t padded(int64_t P, bool mma)
{
    static const int64_t tensor[] = { 32, 48, 64, 96, 128 }, vector[] = { 32, 64, 128, 256 };
    const int64_t *w = mma ? tensor : vector;
    while (*w < P) w++;
    return *w;
}

static bool pieces_fit(const mba_tensor *t)
{
    mba_heads h;
    return !t || (mba_heads_of(&h, t) && t->offset % 8 == 0 && h.batch % 8 == 0 && h.row % 8 == 0 && h.head % 8 == 0);
}

static mba_status takes(const attention_dims *d, const mba_machine *m)
{
    MBA_REFUSE_IF(m->cc < 80, "a device of compute capability %d", m->cc);
    MBA_REFUSE_IF(d->L > INT_MOST || d->Lk > INT_MOST || d->B * d->H * mba_ceil(d->L + d->Lk, PLAIN_TILE) > INT_MOST, "more than 2^30 blocks of queries");
    return MBA_OK;
}

static mba_status mma_takes(const mba_node *n, const attention_dims *d, const mba_machine *m)
{
    MBA_TRY(takes(d, m));
    MBA_REFUSE_IF(n->in[Q]->type.dtype != MBA_BF16, "heads that are not bf16\nwhy: fp32 products do not run on the tensor cores");
    MBA_REFUSE_IF(d->P % 8 || d->P > 128, "heads of %lld values: wants a multiple of 8, at most 128", (long long)d->P);
    for (int k = 0; k < MBA_IN_MAX; k++)
        MBA_REFUSE_IF(k != IDS && k != LSES && !pieces_fit(n->in[k]), "heads of %s that do not begin at multiples of 16 bytes", n->op->in[k].name);
    for (int k = 0; k < MBA_OUT_MAX; k++)
        MBA_REFUSE_IF(n->out[k] && n->out[k]->type.rank == 4 && !pieces_fit(n->out[k]), "heads of %s that do not begin at multiples of 16 bytes",
                      n->op->out[k].name);
    return MBA_OK;
}

static mba_status plain_takes(const attention_dims *d, const mba_machine *m)
{
    MBA_TRY(takes(d, m));
    MBA_REFUSE_IF(d->P > 256, "heads of %lld values: at most 256", (long long)d->P);
    return MBA_OK;
}

/* One launch: `rows` of a head a block, against columns of `b1` and `b2`; `products` of the two shapes; `pairs` a row. */
typedef struct pass {
    const char *kernel;
    int64_t     blocks, rows, columns;
    double      pairs;                                        /* of one block */
    int         products, a1, a2, b1, b2, out1, out2;
} pass;

static mba_launch *plan_pass(mba_plan *p, const mba_node *n, const attention_dims *d, const pass *s, bool mma)
{
    const double e = (double)mba_dtype_bytes(n->in[Q]->type.dtype), width = (double)padded(d->P, mma), P = (double)d->P;
    const double tile = (double)(s->rows * s->columns), flops = s->products * tile * width;
    mba_launch  *l = mba_plan_launch(p, s->kernel, mma ? MBA_TENSOR : MBA_VECTOR, s->blocks, BLOCK_THREADS);
    mba_phase_move(l, MBA_LOAD, s->a1, (double)s->rows * P * e);
    if (s->a2 >= 0) mba_phase_move(l, MBA_LOAD, s->a2, (double)s->rows * P * e);
    mba_phase_work(l, MBA_LOOP, s->pairs / tile, NULL);
    mba_phase_move(l, mma ? MBA_ASYNC : MBA_LOAD, s->b1, (double)s->columns * P * e);
    mba_phase_share(l, d->group);
    mba_phase_move(l, mma ? MBA_ASYNC : MBA_LOAD, s->b2, (double)s->columns * P * e);
    mba_phase_share(l, d->group);
    mba_phase_work(l, MBA_BARRIER, mma ? 1 : 2, NULL);
    mba_phase_work(l, mma ? MBA_MMA : MBA_FMA, mma ? 2 * flops : flops, NULL);
    mba_phase_work(l, MBA_SFU, tile, NULL);
    mba_phase_work(l, MBA_FMA, 6 * tile, NULL);
    mba_phase_work(l, MBA_END, 0, NULL);
    mba_phase_move(l, MBA_STORE, s->out1, (double)s->rows * P * e);
    if (s->out2 >= 0) mba_phase_move(l, MBA_STORE, s->out2, (double)s->rows * P * e);
    return l;
}

static void plan_forward(mba_plan *p, const mba_node *n, const attention_dims *d, bool mma)
{
    const int64_t rows = mma ? MMA_ROWS : PLAIN_TILE, columns = mma ? MMA_FWD_COLUMNS : PLAIN_TILE, blocks = d->B * d->H * mba_ceil(d->L, rows),
                  PP = padded(d->P, mma);
    mba_launch *l = plan_pass(p, n, d, &(pass){ mma ? "attention_fwd_mma" : "attention_fwd_plain", blocks, rows, columns, d->pairs / (double)blocks, 2,
                              MBA_ARG_IN(Q), -1, MBA_ARG_IN(K), MBA_ARG_IN(V), MBA_ARG_OUT(O), MBA_ARG_OUT(LSE) }, mma);
    l->smem_bytes = (size_t)(mma ? 5 * 64 * (PP + 8) * 2 + 512 : 96 * (PP + 4) * 4 + 32 * 33 * 4 + 128);
    l->regs       = mma ? (PP <= 64 ? 145 : 182) : (PP <= 64 ? 117 : 165);
    l->ring_depth = mma ? 2 : 0;
}

static void plan_backward(mba_plan *p, const mba_node *n, const attention_dims *d, bool mma)
{
    const int64_t rows = mma ? MMA_ROWS : PLAIN_TILE, columns = mma ? MMA_BWD_COLUMNS : PLAIN_TILE, PP = padded(d->P, mma),
                  queries = d->B * d->H * mba_ceil(d->L, rows), keys = d->B * d->Hk * mba_ceil(d->Lk, rows);
    mba_plan_scratch(p, "delta", sizeof(float) * (size_t)(d->B * d->H * d->L));
    mba_launch *l = mba_plan_launch(p, "attention_delta_rows", MBA_VECTOR, mba_ceil(d->B * d->L * d->H, 8), 256);
    l->regs = 32;
    mba_phase_move(l, MBA_LOAD, MBA_ARG_IN(OUT), mba_tensor_bytes(n->in[OUT]) / (double)l->grid[0]);
    mba_phase_move(l, MBA_LOAD, MBA_ARG_IN(DOUT), mba_tensor_bytes(n->in[DOUT]) / (double)l->grid[0]);
    mba_phase_work(l, MBA_FMA, 8 * (double)d->P, NULL);
    mba_phase_move(l, MBA_STORE, MBA_ARG_SCRATCH(0), 32);
    const char  *kernel = mma ? "attention_bwd_mma" : "attention_bwd_plain";
    const size_t smem = (size_t)(mma ? 4 * 64 * (PP + 8) * 2 + 768 : 128 * (PP + 4) * 4 + 2 * 32 * 33 * 4 + 384);
    l = plan_pass(p, n, d, &(pass){ kernel, queries, rows, columns, d->pairs / (double)queries, 3, MBA_ARG_IN(Q), MBA_ARG_IN(DOUT), MBA_ARG_IN(K),
                  MBA_ARG_IN(V), MBA_ARG_OUT(DQ), -1 }, mma);
    l->smem_bytes = smem;
    l->regs       = PP <= 64 ? 138 : 168;
    l->ring_depth = mma ? 2 : 0;
    l = plan_pass(p, n, d, &(pass){ kernel, keys, rows, columns, d->pairs / (double)keys, 4, MBA_ARG_IN(K), MBA_ARG_IN(V), MBA_ARG_IN(Q),
                  MBA_ARG_IN(DOUT), MBA_ARG_OUT(DK), MBA_ARG_OUT(DV) }, mma);
    l->smem_bytes = smem;
    l->regs       = PP <= 64 ? 168 : 243;
    l->ring_depth = mma ? 2 : 0;
}

mba_status attention_mma_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    const attention_dims d = attention_dims_of(n);
    MBA_TRY(mma_takes(n, &d, m));
    plan_forward(p, n, &d, true);
    return MBA_OK;
}

mba_status attention_plain_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    const attention_dims d = attention_dims_of(n);
    MBA_TRY(plain_takes(&d, m));
    plan_forward(p, n, &d, false);
    return MBA_OK;
}

mba_status attention_bwd_mma_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    const attention_dims d = attention_dims_of(n);
    MBA_TRY(mma_takes(n, &d, m));
    plan_backward(p, n, &d, true);
    return MBA_OK;
}

mba_status attention_bwd_plain_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    const attention_dims d = attention_dims_of(n);
    MBA_TRY(plain_takes(&d, m));
    plan_backward(p, n, &d, false);
    return MBA_OK;
}
