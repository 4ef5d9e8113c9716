/* matmul_cpu.c -- one single-threaded product per tile (device/cpu/gemm.h). */
#include "device/cpu/gemm.h"
#include "ops/matmul/matmul_slots.h"

mba_status MBA_CPU_FN(matmul_fwd)(const mba_call *c)
{
    const mba_node    *n = c->node;
    const matmul_attr *t = n->attr;
    const matmul_dims  d = matmul_dims_of(n);
    mba_gemm(&(mba_gemm_args){ .m = d.m, .n = d.n, .k = d.k, .ta = t->ta, .tb = t->tb, .adds = mba_adds(n, C),
                               .a = c->in[A], .lda = mba_ld(n->in[A]), .b = c->in[B], .ldb = mba_ld(n->in[B]),
                               .c = c->out[C], .ldc = mba_ld(n->out[C]) });
    return MBA_OK;
}
