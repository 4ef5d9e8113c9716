// SPDX-License-Identifier: Apache-2.0
/* ssd_fused_scan.cuh -- the chunk scan kernels of ssd, variant `fused`: y forward in time, dx backward in time.
 *
 * Each consumer warpgroup keeps the state H of one head in registers and loops over the chunks of a sequence. Per chunk
 * it computes y = H C^T + x' (C B^T)^T and then H += x' B by wgmma. The reverse kernel is the same code with x and dy,
 * and B and C, exchanged. The maths is in ssd_fused.cuh, the chunk loop in ssd_fused_consumer.cuh, the work list and
 * the producer thread in ssd_fused_items.cuh. ssd_prep runs before (C B^T, decay factors), ssd_states where sequences
 * are segmented; the backward pass continues with ssd_bwd_bc (ssd_fused_bc.cuh).
 *
 * kernel     ssd_scan, ssd_scan_rev    persistent blocks; work item = (sequence, segment, pair of heads of one group)
 * roles      warps 0-3 and 4-7: consumer warpgroups, one head each, 240 registers; thread 256: TMA producer, 24. A
 *            launch gives each thread 168 (65536 / 384); setmaxnreg then moves them from the producer to the consumers.
 * launch     grid min(items, SMs), block 384, dynamic smem 227 KB: one block per SM
 * pipeline   ring of three stages of 58 KB (x, C, B, C B^T, factors), filled by TMA; full and empty mbarriers
 * moves      per chunk and pair of heads: x 16 KB in, y 16 KB out, B, C and C B^T 40 KB from L2
 * computes   2 x 640 tensor-core cycles per chunk and pair of heads
 * takes      sm_90a, bf16, P 64, N 128, an even number of heads per group, rows aligned to 16 bytes
 * resources  sm_90a, CUDA 13.0: ssd_scan 168 registers, no spill  [docs]
 *            ssd_scan_rev 168 registers, no spill  [docs]
 * measured   H200: ssd_scan 83.9 us, 93 % of floor (memory), DRAM 71 % busy; mamba2-headline, 4 x 4096  [docs]
 *            ssd_scan_rev 105 us, 90 % of floor (memory), DRAM 70 % busy; mamba2-headline, 4 x 4096  [docs]
 * kernel     ssd_scan_split, ssd_scan_rev_split    for shapes whose items do not fill the SMs evenly (ssd_split.c)
 *            The chunks of all items form one list, and each block takes one contiguous range of it. A range that
 *            starts inside an item needs the state at that point:
 *            - more items than SMs (STATE_PASSED): the previous block publishes it through global memory;
 *            - fewer items than SMs (STATE_RECOMPUTED): the block recomputes it from the preceding range, without the
 *              chunks that have decayed below e^-88, and adds what entered that range.
 * wide range A chunk whose log decays span more than RANGE_MAX has no common pivot. Items with such a chunk take a
 *            second pass with a decay per pair of tokens, so that the main loop carries none of that code.
 * order      fixed: chunks in sequence, segment states added in sequence, no float atomics. Same bits in every run.
 * deadlock   Only split kernels wait for another block, and only for the previous one. That block publishes before it
 *            waits itself (STATE_PASSED) or waits for earlier blocks only (STATE_RECOMPUTED). All blocks are resident,
 *            and await() fails the launch after four seconds. */
#ifndef MBA_SSD_FUSED_SCAN_CUH
#define MBA_SSD_FUSED_SCAN_CUH

#include "device/cuda/block_timestamps.cuh"
#include "ops/ssd/fused/ssd_fused_consumer.cuh"

#if MBA_HOPPER || !defined(__CUDA_ARCH__)

/* The persistent loop of a consumer warpgroup over the items of one pass. Returns the number of chunks processed so
 * far, from which the second pass continues to alternate output tiles; forward split kernels count otherwise. */
template <typename P, bool WIDE_RANGE>
static __device__ __forceinline__ unsigned loop_items(scan_smem &sm, const fused_task &a, const scan_maps &maps,
                                                      const scan_split_table *r, unsigned chunks_done)
{
    scan_consumer<P, WIDE_RANGE> w(sm, a, maps, r, chunks_done);
    for (int n = 0; P::SPLIT ? w.warp_broadcast(has_item<P::SPLIT>(a, r, n)) : has_item<P::SPLIT>(a, r, n); n++)
        if (P::SPLIT ? w.warp_broadcast(in_this_pass<WIDE_RANGE>(sm, n)) : in_this_pass<WIDE_RANGE>(sm, n)) {
            const int reloaded = w.process_item(n);
            if (P::SPLIT) n = w.warp_broadcast(reloaded);
        }
    return P::SPLIT && !P::REV ? 0 : w.chunks_done;
}

/* One block. 1. initialise barriers; 2. find wide-range items; 3. assign roles: one producer thread, two consumer
 * warpgroups; 4. first pass, all items without wide-range chunks; 5. second pass, the others (usually none). */
template <typename P>
static __device__ __forceinline__ void scan_block_run(const fused_task &a, const scan_maps &maps,
                                                      const scan_split_table *ranges)
{
    MBA_DYNAMIC_SMEM(smem);
    scan_smem &sm = *(scan_smem *)(smem + ((1024 - (smem_address(smem) & 1023)) & 1023));
    if (!P::SPLIT) MBA_BLOCK_BEGINS;
    if (threadIdx.x == 0) {
        for (int i = 0; i < 2 * STAGES; i++) {
            mbar_init(smem_address(&sm.full[0][i]), 1);
            mbar_init_warps(smem_address(&sm.empty[0][i]), 4 * HEADS);
        }
        for (int i = 0; i < HEADS; i++)
            for (int j = 0; j < 2; j++) mbar_init(smem_address(&sm.x_full[i][j]), 1);
        for (int i = 0; P::SPLIT == STATE_RECOMPUTED && i < STATE_ONLY_STAGES; i++) {
            mbar_init(smem_address(&sm.recompute_full[i]), 1);
            mbar_init_warps(smem_address(&sm.recompute_empty[i]), 4 * HEADS);
        }
        mbar_init_done();
    }
    if (threadIdx.x < ITEM_WORDS) sm.wide_range[threadIdx.x] = 0;
    if (P::SPLIT == STATE_RECOMPUTED && threadIdx.x < HEADS) sm.live_chunks[threadIdx.x] = 0;
    __syncthreads();
    if (!P::REV && P::WHAT == SCAN_OUT) wait_for_prior_grids();
    find_wide_range_items<P::REV, P::SPLIT, P::TILED>(sm, a, ranges);
    if (threadIdx.x >= 128 * HEADS) {
        warpgroup_reg_dealloc<24>();
        if (threadIdx.x != 128 * HEADS) return;
        scan_producer<P, false>(sm, a, maps, ranges);
        if (*(volatile int *)&sm.any_wide_range) scan_producer<P, true>(sm, a, maps, ranges);
        return;
    }
    warpgroup_reg_alloc<240>();
    const unsigned chunks_done = loop_items<P, false>(sm, a, maps, ranges, 0);
    if (__any_sync(0xffffffffu, *(volatile int *)&sm.any_wide_range)) { // vote: a divergent branch serializes wgmma
        bar_sync<3, 128 * HEADS>(); // both are done with the stage that decayed C B^T overwrites
        loop_items<P, true>(sm, a, maps, ranges, chunks_done);
    }
    if ((threadIdx.x & (saves_through_smem(P::WHAT, P::REV, P::SPLIT) ? 31 : 127)) == 0) bulk_wait<0>();
    if (!P::SPLIT) MBA_BLOCK_ENDS;
}

#endif

template <int WHAT>
static __global__ void __launch_bounds__(128 * (HEADS + 1), 1)
    ssd_scan(const __grid_constant__ fused_task a, const __grid_constant__ scan_maps maps)
{
#if MBA_HOPPER
    scan_block_run<scan_policy<false, WHAT>>(a, maps, nullptr);
#endif
}

template <int WHAT>
static __global__ void __launch_bounds__(128 * (HEADS + 1), 1)
    ssd_scan_rev(const __grid_constant__ fused_task a, const __grid_constant__ scan_maps maps)
{
#if MBA_HOPPER
    scan_block_run<scan_policy<true, WHAT>>(a, maps, nullptr);
#endif
}

template <int WHAT, int SPLIT>
static __global__ void __launch_bounds__(128 * (HEADS + 1), 1)
    ssd_scan_split(const __grid_constant__ fused_task a, const __grid_constant__ scan_maps maps,
                   const __grid_constant__ scan_split_table ranges)
{
#if MBA_HOPPER
    scan_block_run<scan_policy<false, WHAT, SPLIT>>(a, maps, &ranges);
#endif
}

template <int WHAT, int SPLIT>
static __global__ void __launch_bounds__(128 * (HEADS + 1), 1)
    ssd_scan_rev_split(const __grid_constant__ fused_task a, const __grid_constant__ scan_maps maps,
                       const __grid_constant__ scan_split_table ranges)
{
#if MBA_HOPPER
    scan_block_run<scan_policy<true, WHAT, SPLIT>>(a, maps, &ranges);
#endif
}

#endif
