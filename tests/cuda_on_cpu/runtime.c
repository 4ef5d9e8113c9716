// SPDX-License-Identifier: Apache-2.0
/* runtime.c -- the device in place of a GPU, and what launchers call of src/device/cuda and of cuBLASLt. Launchers of
 * kernels that sm_80 does not have refuse. */
#include <stdlib.h>
#include <string.h>

#include "core/device.h"
#include "core/op.h"
#include "device/cuda/block_timestamps.h"
#include "device/cuda/cuda.h"
#include "device/cuda/gemm.h"
#include "tests/cuda_on_cpu/block.h"
#include "tests/machines.h"

/* Memory of the host, launches of kernels for sm_80; the environment may ask for the order REVERSE. */
mba_status mba_device_cuda(const mba_device **out, int ordinal)
{
    static mba_device d;
    (void)ordinal;
    if (getenv("MBA_TEST_REVERSE")) emulated_order_now = REVERSE;
    d = mba_device_cpu;
    d.name = "CUDA on the CPU";
    d.machine = &machines[0];
    *out = &d;
    return MBA_OK;
}

mba_status mba__cuda_failed(int error, const char *call) { return mba_fail(MBA_E_DEVICE, "%s: error %d", call, error); }

mba_status mba__cuda_launch_check(const mba_call *c, int k)
{
    (void)c, (void)k;
    return MBA_OK;
}

mba_status mba__cuda_allow_smem(const void *kernel, size_t bytes)
{
    (void)kernel;
    return bytes <= 163 * 1024 ? MBA_OK : mba_fail(MBA_E_DEVICE, "a block of sm_80 has 163 KB of shared memory");
}

void mba__blocks_unit(mba_blocks_set_fn *set) { (void)set; }

/* ---- products ---- */

static float value(const void *x, mba_dtype type, int64_t i)
{
    return type == MBA_BF16 ? mba_from_bf16(((const uint16_t *)x)[i]) : ((const float *)x)[i];
}

/* An operand as tensor cores see it: TF32 has no low 13 bits. */
static double operand(const mba_cuda_gemm_args *g, const void *x, int64_t i)
{
    float    v = value(x, g->in, i);
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    if (g->tf32 && g->in == MBA_F32) bits &= 0xffffe000u;
    memcpy(&v, &bits, sizeof bits);
    return v;
}

mba_status mba_cuda_gemm(const mba_cuda_gemm_args *g)
{
    for (int64_t b = 0; b < (g->batch ? g->batch : 1); b++)
        for (int64_t i = 0; i < g->m; i++)
            for (int64_t j = 0; j < g->n; j++) {
                const int64_t to = b * g->step_c + i * g->ldc + j;
                double        sum = (g->bias ? value(g->bias, g->out, j) : 0) + (g->adds ? value(g->c, g->out, to) : 0);
                for (int64_t k = 0; k < g->k; k++)
                    sum += operand(g, g->a, b * g->step_a + (g->ta ? k * g->lda + i : i * g->lda + k))
                           * operand(g, g->b, b * g->step_b + (g->tb ? j * g->ldb + k : k * g->ldb + j));
                if (g->out == MBA_BF16) ((uint16_t *)g->c)[to] = mba_to_bf16((float)sum);
                else ((float *)g->c)[to] = (float)sum;
            }
    return MBA_OK;
}

/* ---- kernels of later GPUs and of libraries ---- */

#define ABSENT(launcher) \
    mba_status launcher(const mba_call *c); \
    mba_status launcher(const mba_call *c) \
    { \
        return mba_fail(MBA_E_UNSUPPORTED, "%s is not of sm_80", c->plan->variant); \
    }
ABSENT(ssd_fused_cuda)
ABSENT(ssd_bwd_fused_cuda)
ABSENT(attention_dnn_cuda)
ABSENT(attention_bwd_dnn_cuda)
ABSENT(attention_wgmma_cuda)
ABSENT(attention_bwd_wgmma_cuda)
