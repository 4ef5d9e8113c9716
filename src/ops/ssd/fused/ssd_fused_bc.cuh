// SPDX-License-Identifier: Apache-2.0
/* ssd_fused_bc.cuh -- kernel ssd_bwd_bc of `fused`: dB and dC, summed over the heads of a group in registers, and the
 * per-token sums from which ssd_finish computes the gradient of the decays. It runs after ssd_scan_rev.
 *
 * A block owns 128 positions (chunks 0 and 1 of a pair) and loops over the heads of a group. It needs the state that
 * enters the pair (H1, saved by ssd_scan) and the adjoint state that leaves it (G1, saved by ssd_scan_rev), bf16, under
 * the pivots of chunks 0 and 1. With dy'_l = e_l dy_l, x'_s = f_s x_s, kappa = exp(m1 + a0 - m0) (the decay between the
 * pivots, at most 1):
 *     dC_0 += dy'_0 H1          dC_1 += (kappa dy'_1) H1        dB_0 += (kappa x'_0) G1      dB_1 += x'_1 G1
 *     dCB_00 += dy'_0 x'_0^T    dCB_11 += dy'_1 x'_1^T          dCB_10 += (kappa dy'_1) x'_0^T
 * and once after all heads dC += mask(dCB) B, dB += mask(dCB)^T C. Warpgroup i owns the rows of chunk i and runs the
 * loop of ssd_fused_bc_chunk.cuh; shared memory and the producer are in ssd_fused_bc_feed.cuh.
 *
 * Gradient of the decay. Per head, q_l = <C_l, increment of dC_l from H1>, row_l and low_l = <CB_l, increment of dCB_l>
 * in the chunk's own block and in block 10, out_s = <B_s, increment of dB_s>. Each is the difference of the product
 * with the running sum after and before the head. With src_s = <x'_s, gradient of x'_s> from ssd_scan_rev
 *     chunk 0:  ddA_i = kappa <H1, G1> + sum_{l of 1} q_l + sum_{l>=i} q_l + sum_{s<i} (src_s - row_s)
 *     chunk 1:  ddA_i = kappa <H1, G1> + sum_{s of 0} out_s + sum_{l>=i} (q_l + low_l) + sum_{s<i} (src_s - row_s)
 * src and row of a chunk use the same bf16 operands, so that their common part cancels. (One formula over both chunks
 * would combine src with block 10, which is rounded differently; the error of dA_log would be 3 to 4 times as large.)
 * What remains of the error is one rounding each of x', dy' and C B^T in the pairs of a chunk, in equal parts.
 * Emulated, 1e-3 of the norm of dA (2 x 256, 4 heads of check.py, 96 draws | 1 x 1024, 8 heads of
 * tools/peers/kernels.py, 32):
 *     as it is 5.3 | 6.2; that of x', dy', C B^T alone 2.7, 3.4, 2.8 | 3.5, 2.8, 2.8; without it 4.1, 4.4, 4.6 | 3.8,
 *     5.6, 5.0; only x', dy', C B^T left in pairs 3.2, 3.9, 3.0 | 4.5, 3.3, 3.8; without all three 1.4 | 2.4; exact
 *     pairs and rounded states of longer chunks, as mamba_ssm has, 1.2 | 2.1
 * As both sums need the same operands (src with x' unrounded alone: 59 for 4.1), a gain needs all three exact in both
 * kernels, or pairs in fp32.
 *
 * A head with a wide-range chunk counts as zero here; ssd_bwd_slow computes its pair, with a decay per pair of tokens.
 *
 * kernel     ssd_bwd_bc      persistent blocks; work item = (sequence, pair of chunks, group), loop over its heads
 * roles      warps 0-3 and 4-7: consumer warpgroups, one chunk each, 240 registers; thread 256: TMA producer; warps 9
 *            and 10: <H1, G1>
 * launch     grid min(B K/2 G, SMs), block 384, dynamic smem 227 KB
 * pipeline   ring of two stages that continues across work items; x and G1 of a stage arrive before dy and H1
 * moves      per pair of chunks and head: x, dy 32 KB, H1, G1 32 KB; 2 x 1024 tensor-core cycles
 * resources  sm_90a, CUDA 13.0: 168 registers, no spill  [docs]
 * measured   H200: 205 us, 54 % of floor (memory), DRAM 52 % busy; mamba2-headline, 4 x 4096  [docs]
 * order      fixed: heads in ascending order */
#ifndef MBA_SSD_FUSED_BC_CUH
#define MBA_SSD_FUSED_BC_CUH

#include "ops/ssd/fused/ssd_fused_bc_chunk.cuh"

#if MBA_HOPPER || !defined(__CUDA_ARCH__)

/* One block: initialises barriers and assigns roles. The warps of the third warpgroup have 24 registers each. */
template <bool DOCS, int TILED = 0>
static __device__ __forceinline__ void bc_block_run(const fused_task &a, const bc_maps &maps)
{
    MBA_DYNAMIC_SMEM(smem);
    bc_smem  &sm = *(bc_smem *)(smem + ((1024 - (smem_address(smem) & 1023)) & 1023));
    const int wg = (int)bc_rows::warp_broadcast(threadIdx.x >> 7);
    if (threadIdx.x == 0) {
        for (int i = 0; i < BC_STAGES; i++) {
            mbar_init(smem_address(&sm.full[i]), 1);
            mbar_init(smem_address(&sm.full_late[i]), 1);
            mbar_init_warps(smem_address(&sm.empty[i]), 8 + DOT_WARPS);
            for (int c = 0; c < 2; c++) mbar_init_warps(smem_address(&sm.scaled[c][i]), 4);
        }
        mbar_init(smem_address(&sm.cb_full), 1);
        mbar_init_done();
        sm.blocks = pair_blocks<TILED>(a);
    }
    __syncthreads();
    if (wg == 2) {
        warpgroup_reg_dealloc<24>();
        const int  thread = (int)threadIdx.x - 256;
        const bool dots = thread >= 32 && thread < 32 + 32 * DOT_WARPS;
        if (thread == 0) {
            if constexpr (TILED > 0) bc_tiled_producer<TILED>(sm, a, maps);
            else bc_producer(sm, a, maps);
        } else if (dots) {
            bc_dot<TILED>(sm, a);
        }
        return;
    }
    warpgroup_reg_alloc<240>();
    if (wg == 0) {
        bc_chunk<0, DOCS, TILED> rows(sm, a);
        rows.run(maps);
    } else {
        bc_chunk<1, DOCS, TILED> rows(sm, a);
        rows.run(maps);
    }
}

#endif

template <bool DOCS>
static __global__ void __launch_bounds__(384, 1)
    ssd_bwd_bc(const __grid_constant__ fused_task a, const __grid_constant__ bc_maps maps)
{
#if MBA_HOPPER
    bc_block_run<DOCS>(a, maps);
#endif
}

#endif
