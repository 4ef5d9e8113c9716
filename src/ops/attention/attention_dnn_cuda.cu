// SPDX-License-Identifier: Apache-2.0
/* attention_dnn_cuda.cu -- attention by cuDNN (device/cuda/dnn_attention.h): `--op
 * attention=cudnn,attention_bwd=cudnn`. */
#include "ops/attention/attention_cuda.cuh"
#include "device/cuda/dnn_attention.h"

static void put(mba_cuda_attention *a, int name, const mba_tensor *t, void *at)
{
    mba_heads h;
    mba_assert(mba_heads_of(&h, t));
    a->shape.heads[name].batch = h.batch;
    a->shape.heads[name].head = h.head;
    a->shape.heads[name].row = h.row;
    a->at[name] = at;
}

static mba_cuda_attention call_of(const mba_call *c, int work)
{
    const mba_node      *n = c->node;
    const attention_dims d = attention_dims_of(n);
    mba_cuda_attention   a = {};
    a.shape.B = d.B;
    a.shape.L = d.L;
    a.shape.Lk = d.Lk;
    a.shape.H = d.H;
    a.shape.Hk = d.Hk;
    a.shape.P = d.P;
    a.shape.causal = ((const attention_attr *)n->attr)->causal;
    a.scale = (float)((const attention_attr *)n->attr)->scale;
    a.work = mba_cuda_scratch(c, work);
    a.work_bytes = c->plan->scratch[work].bytes;
    a.stream = c->stream;
    put(&a, MBA_DNN_Q, n->in[Q], c->in[Q]);
    put(&a, MBA_DNN_K, n->in[K], c->in[K]);
    put(&a, MBA_DNN_V, n->in[V], c->in[V]);
    return a;
}

extern "C" mba_status attention_dnn_cuda(const mba_call *c)
{
    mba_cuda_attention a = call_of(c, 0);
    put(&a, MBA_DNN_O, c->node->out[O], c->out[O]);
    a.at[MBA_DNN_LSE] = c->out[LSE];
    return mba_cuda_dnn_attention(&a);
}

extern "C" mba_status attention_bwd_dnn_cuda(const mba_call *c)
{
    const mba_node    *n = c->node;
    mba_cuda_attention a = call_of(c, ATT_DNN_WORK);
    a.shape.backward = 1;
    put(&a, MBA_DNN_O, n->in[OUT], c->in[OUT]);
    put(&a, MBA_DNN_DO, n->in[DOUT], c->in[DOUT]);
    put(&a, MBA_DNN_DQ, n->out[DQ], c->out[DQ]);
    put(&a, MBA_DNN_DK, n->out[DK], c->out[DK]);
    put(&a, MBA_DNN_DV, n->out[DV], c->out[DV]);
    a.at[MBA_DNN_LSE] = c->in[LSES];
    a.at[MBA_DNN_SUMS] = mba_cuda_scratch(c, ATT_DNN_SUMS);
    return mba_cuda_dnn_attention(&a);
}
