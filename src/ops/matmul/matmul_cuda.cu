// SPDX-License-Identifier: Apache-2.0
/* matmul_cuda.cu -- matmul by cuBLASLt (device/cuda/gemm.h), with bf16 operands and fp32 sums or fp32 throughout; plain
 * tiles (device/cuda/gemm_simt.cuh) for the rest. */
#include "device/cuda/gemm_simt.cuh"
extern "C" {
#include "ops/matmul/matmul_slots.h"
}

static mba_cuda_gemm_args product_of(const mba_call *c)
{
    const mba_node    *n = c->node;
    const matmul_attr *t = (const matmul_attr *)n->attr;
    const matmul_dims  d = matmul_dims_of(n);
    mba_cuda_gemm_args g = {};
    g.m = d.m;
    g.n = d.n;
    g.k = d.k;
    g.ta = t->ta;
    g.tb = t->tb;
    g.adds = mba_adds(n, C);
    g.tf32 = n->tf32;
    g.a = c->in[A];
    g.lda = mba_ld(n->in[A]);
    g.in = n->in[A]->type.dtype;
    g.b = c->in[B];
    g.ldb = mba_ld(n->in[B]);
    g.c = c->out[C];
    g.ldc = mba_ld(n->out[C]);
    g.out = n->out[C]->type.dtype;
    g.bias = c->in[BIAS];
    g.stream = c->stream;
    return g;
}

static mba_status by_library(const mba_call *c, bool cut)
{
    mba_cuda_gemm_args g = product_of(c);
    g.work = mba_cuda_scratch(c, 0);
    g.cut = cut;
    return mba_cuda_gemm(&g);
}

extern "C" mba_status matmul_cuda(const mba_call *c) { return by_library(c, true); }
extern "C" mba_status matmul_unsplit_cuda(const mba_call *c) { return by_library(c, false); }

/* Rows without alignment: the library has kernels for most of them. */
extern "C" mba_status matmul_unaligned_cuda(const mba_call *c)
{
    mba_cuda_gemm_args g = product_of(c);
    g.work = mba_cuda_scratch(c, 0);
    const mba_status st = mba_cuda_gemm(&g);
    return st == MBA_E_UNSUPPORTED ? mba_cuda_gemm_simt_fallback(&g) : st;
}

extern "C" mba_status matmul_tiles_cuda(const mba_call *c)
{
    const mba_cuda_gemm_args g = product_of(c);
    return mba_cuda_gemm_simt(c, 0, &g);
}
