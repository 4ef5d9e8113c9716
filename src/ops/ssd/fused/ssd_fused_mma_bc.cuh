// SPDX-License-Identifier: Apache-2.0
/* ssd_fused_mma_bc.cuh -- kernel ssd_mma_bc of ssd's variant `fused_mma`: dB and dC, summed over the heads of a group
 * in registers, and the per-token sums from which ssd_tiled_finish computes the gradient of the decays. The maths, the
 * sums and their order are those of ssd_bwd_bc (ssd_fused_bc.cuh), the products mma.sync.
 *
 * A block owns 128 positions (chunks 0 and 1 of a pair) and loops over the heads of a group; a warp has 16 rows of one
 * chunk. Columns n are in the order of saved states (ssd_fused_pairs.cuh), in B, C, dB and dC too: then four
 * neighbouring accumulators of a thread are 16 contiguous bytes of a row. Scaled rows are left operands in registers.
 * x' also goes back to shared memory, as right operand of dCB.
 *
 * kernel     ssd_mma_bc      persistent blocks; work item = (sequence, pair of chunks, group), loop over its heads
 * launch     grid min(B K/2 G, SMs), block 256, dynamic smem 88 KB + 65 KB per stage
 * moves      per pair of chunks and head: x, dy 32 KB, H1, G1 32 KB
 * takes      as ssd_mma_scan, where a block may have 155 KB of shared memory
 * order      fixed: heads in ascending order */
#ifndef MBA_SSD_FUSED_MMA_BC_CUH
#define MBA_SSD_FUSED_MMA_BC_CUH

#include "ops/ssd/fused/ssd_fused_mma.cuh"
#include "ops/ssd/fused/ssd_fused_pairs.cuh"
#include "ops/ssd/fused/ssd_fused_prep.cuh"

struct mma_bc_stage {
    unsigned char x[2][TILE_BYTES], dy[2][TILE_BYTES], h[2 * TILE_BYTES], g[2 * TILE_BYTES];
    float         rec[2][REC];
};
struct mma_bc_smem {
    unsigned char c[2][2 * TILE_BYTES], b[2][2 * TILE_BYTES]; /* C, B of both chunks, columns as in saved states */
    unsigned char m[3][TILE_BYTES];                           /* C B^T, blocks 00, 10, 11; at the end dCB */
    float4        previous[256];     /* per thread: products with the sums before this head: q, row */
    float         previous_end[256]; /* and the product that goes into `ends` */
    float         dots[8];           /* <H1, G1>, a part per warp */
    int           resets[2][FQ];
    pair_block    at;    /* the work item; in shared memory, because registers are short */
    int           slow;  /* some head has a wide-range chunk */
    mma_bc_stage  st[1]; /* one or two */
};
static_assert(sizeof(mma_bc_smem) == SSD_MMA_BC_SMEM && sizeof(mma_bc_stage) == SSD_MMA_BC_STAGE, "what the plan asks");

/* The rows of chunk I of the pair. DOCS: with resets. */
template <int NT, bool DOCS, int I> struct mma_bc {
    const fused_task &a;
    mma_bc_smem      &sm;
    int               thread; /* in the block, read again at the start of each phase */
    float             dC[16][4], dB[16][4], own[8][4], low[8][4];

    __device__ __forceinline__ mma_bc(const fused_task &task, unsigned char *memory)
        : a(task), sm(*(mma_bc_smem *)memory)
    {
        reread_lane();
    }
    /* Called at the start of each phase: otherwise the compiler would keep addresses in registers across phases. */
    __device__ __forceinline__ void reread_lane() { thread = thread_id_reread(); }
    __device__ __forceinline__ int  warp() const { return thread >> 5 & 3; }
    __device__ __forceinline__ int  lane() const { return thread & 31; }
    __device__ __forceinline__ int  t4() const { return thread & 3; }
    __device__ __forceinline__ int row() const { return 16 * warp() + (lane() >> 2); } /* the thread's rows: + 0, + 8 */
    __device__ __forceinline__ int token(int q) const { return sm.at.c2 * PAIR + I * FQ + row() + 8 * q; }

    /* ---- loads ---- */

    /* A row's vector 4 v + t4 of B or C: accumulators 4 v .. 4 v + 3 of this thread. */
    __device__ __forceinline__ uint4 load_vector(const strided<const bf16> &m, int q, int v) const
    {
        const int n = group_n<NT>(sm.at.g) + 8 * (4 * v + t4());
        if (token(q) >= a.L || n >= a.N) return make_uint4(0, 0, 0, 0);
        return *(const uint4 *)(m.row(sm.at.b, token(q), group_of<NT>(sm.at.g)) + n);
    }
    __device__ __forceinline__ void store_permuted(unsigned char *tiles, const strided<const bf16> &m) const
    {
#pragma unroll
        for (int q = 0; q < 2; q++)
#pragma unroll
            for (int v = 0; v < 4; v++) {
                const uint4    w = load_vector(m, q, v);
                const uint32_t word[4] = { w.x, w.y, w.z, w.w };
#pragma unroll
                for (int c = 0; c < 4; c++)
                    *(uint32_t *)(tiles + (v >> 1) * TILE_BYTES + tile_at(row() + 8 * q, 4 * (v & 1) + c)
                                  + 4 * t4()) = word[c];
            }
    }
    /* Starts the copies of C B^T. It belongs to the first tile of the state, so that sums with it count once. */
    __device__ __forceinline__ void fetch_cb() const
    {
        const int     g = group_of<NT>(sm.at.g), real = group_n<NT>(sm.at.g) ? 0 : FQ;
        const int64_t first = ((int64_t)sm.at.b * a.K + 2 * sm.at.c2) * a.G + g;
        const int64_t z = ((int64_t)sm.at.b * (a.K / 2) + sm.at.c2) * a.G + g;
        load_tile<FQ, 256>(sm.m[0], a.cb + first * FQ * FQ, FQ, real, FQ);
        load_tile<FQ, 256>(sm.m[1], a.cb_low + z * FQ * FQ, FQ, real, FQ);
        load_tile<FQ, 256>(sm.m[2], a.cb + (first + a.G) * FQ * FQ, FQ, real, FQ);
    }
    /* Starts the copies of head or tile number i of the group. */
    __device__ __forceinline__ void fetch(mma_bc_stage &to, int i) const
    {
        const int     t = tile_of_group<NT>(a, sm.at.g, i), head = head_of_tile<NT>(a, t), p0 = tile_p<NT>(a, t);
        const int     cols = ((a.P + 7) & ~7) - p0, l = sm.at.c2 * PAIR;
        const int64_t z = ((int64_t)sm.at.b * a.H + t) * (a.K / 2) + sm.at.c2;
#pragma unroll 1
        for (int c = 0; c < 2; c++) { // not unrolled: addresses of all need too many registers
            load_tile<FQ, 256>(to.x[c], a.x.row(sm.at.b, l + FQ * c, head) + p0, a.x.axis[1], a.L - l - FQ * c, cols);
            load_tile<FQ, 256>(to.dy[c], a.dy.row(sm.at.b, l + FQ * c, head) + p0, a.dy.axis[1], a.L - l - FQ * c,
                               cols);
            load_tile<FQ, 256>(to.h + c * TILE_BYTES, (const bf16 *)a.saved + z * FP * FN + 64 * c, FN, FP, FQ);
            load_tile<FQ, 256>(to.g + c * TILE_BYTES, (const bf16 *)a.saved_rev + z * FP * FN + 64 * c, FN, FP, FQ);
        }
        if (threadIdx.x < 2 * REC / 4)
            cp_async16((char *)to.rec + threadIdx.x * 16,
                       a.rec_plain + (((int64_t)sm.at.b * a.heads + head) * a.K + 2 * sm.at.c2) * REC + threadIdx.x * 4,
                       true);
    }

    __device__ __forceinline__ pair_factors<I, DOCS> factors(const mma_bc_stage &s) const
    {
        return { s.rec, sm.resets };
    }
    static __device__ __forceinline__ void scale(uint32_t (&to)[4], const uint32_t (&v)[4], float s0, float s1)
    {
        const uint2 u0 = split(s0, s0), u1 = split(s1, s1);
#pragma unroll
        for (int j = 0; j < 4; j++) to[j] = times(v[j], j & 1 ? u1.x : u0.x, j & 1 ? u1.y : u0.y);
    }

    /* ---- operands, as a_rows, a_columns, b_rows and b_columns of mma.cuh; addresses by the lane that was read last
     * ---- */

    __device__ __forceinline__ void left_rows(uint32_t (&A)[4], const unsigned char *tile, int m, int k) const
    {
        ldmatrix(A, tile + tile_at(m + (lane() & 15), (k >> 3) + (lane() >> 4)));
    }
    __device__ __forceinline__ void left_columns(uint32_t (&A)[4], const unsigned char *tile, int m, int k) const
    {
        ldmatrix_t(A, tile + tile_at(k + (lane() & 7) + (lane() >> 4) * 8, (m >> 3) + (lane() >> 3 & 1)));
    }
    __device__ __forceinline__ void right_rows(uint32_t (&B)[4], const unsigned char *tile, int n, int k) const
    {
        ldmatrix(B, tile + tile_at(n + (lane() & 7) + (lane() >> 4) * 8, (k >> 3) + (lane() >> 3 & 1)));
    }
    __device__ __forceinline__ void right_columns(uint32_t (&B)[4], const unsigned char *tile, int n, int k) const
    {
        ldmatrix_t(B, tile + tile_at(k + (lane() & 15), (n >> 3) + (lane() >> 4)));
    }

    /* ---- products ---- */

    /* sums += A (16 rows of k) (rows k .. of a tile of 128 columns). */
    __device__ __forceinline__ void by_state(float (&sums)[16][4], const uint32_t (&A)[4], const unsigned char *tiles,
                                             int k) const
    {
#pragma unroll
        for (int j = 0; j < 8; j++) {
            uint32_t B[4];
            right_columns(B, tiles + (j >> 2) * TILE_BYTES, 16 * (j & 3), k);
            mma(sums[2 * j], A, B[0], B[1]);
            mma(sums[2 * j + 1], A, B[2], B[3]);
        }
    }
    /* sums += A (columns k .. of the rows of a tile)^T, for the first `blocks` blocks of 16 rows. */
    __device__ __forceinline__ void by_rows(float (&sums)[8][4], const uint32_t (&A)[4], const unsigned char *tile,
                                            int k, int blocks) const
    {
#pragma unroll
        for (int j = 0; j < 4; j++) {
            uint32_t B[4];
            if (j >= blocks) break;
            right_rows(B, tile, 16 * j, k);
            mma(sums[2 * j], A, B[0], B[1]);
            mma(sums[2 * j + 1], A, B[2], B[3]);
        }
    }
    /* dB += (x scaled to the end of the pair) G1, and x' to shared memory in place of x. */
    __device__ __forceinline__ void source_products(mma_bc_stage &s)
    {
        reread_lane();
        const float e0 = factors(s).f_to_end(row()), e1 = factors(s).f_to_end(row() + 8), f0 = factors(s).f(row()),
                    f1 = factors(s).f(row() + 8);
#pragma unroll 1
        for (int k = 0; k < 4; k++) {
            uint32_t v[4], A[4];
            left_rows(v, s.x[I], 16 * warp(), 16 * k);
            scale(A, v, e0, e1);
            scale(v, v, f0, f1);
            by_state(dB, A, s.g, 16 * k);
            __syncwarp();
#pragma unroll
            for (int j = 0; j < 4; j++)
                *(uint32_t *)(s.x[I] + tile_at(row() + 8 * (j & 1), 2 * k + (j >> 1)) + 4 * t4()) = v[j];
        }
    }
    /* dC += (dy scaled from the beginning of the pair) H1, and dCB. */
    __device__ __forceinline__ void destination_products(const mma_bc_stage &s)
    {
        reread_lane();
        const float b0 = factors(s).e_from_begin(row()), b1 = factors(s).e_from_begin(row() + 8);
#pragma unroll 1
        for (int k = 0; k < 4; k++) {
            uint32_t v[4], A[4];
            left_rows(v, s.dy[I], 16 * warp(), 16 * k);
            scale(A, v, b0, b1);
            by_state(dC, A, s.h, 16 * k);
            if (I == 1) {
                if (DOCS) scale(A, v, factors(s).e_kappa(row()), factors(s).e_kappa(row() + 8));
                by_rows(low, A, s.x[0], 16 * k, 4);
            }
            if (DOCS || I == 1) scale(A, v, factors(s).e(row()), factors(s).e(row() + 8));
            by_rows(own, A, s.x[I], 16 * k, warp() + 1);
        }
    }

    /* ---- sums of rows ---- */

    /* This thread's part of the dot products of accumulator rows with tile rows. */
    template <int COUNT>
    __device__ __forceinline__ float2 rows_dot(const float (&sums)[COUNT][4], const unsigned char *tiles) const
    {
        return dot_of_rows<4 * COUNT>(*sums, [&](uint32_t(&v)[4], int i) {
            left_rows(v, tiles + (i >> 2) * TILE_BYTES, 16 * warp(), 16 * (i & 3));
        });
    }
    /* The same for the diagonal block, on and below the diagonal only: above it e f may overflow, and zero times
     * infinity is NaN. */
    __device__ __forceinline__ float2 lower_dot(const unsigned char *tile) const
    {
        const int first = 2 * t4(), g = lane() >> 2;
        float2    u = make_float2(0, 0);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            uint32_t     v[4];
            const float *d = own[2 * i], *e = own[2 * i + 1];
            if (i > warp()) break;
            left_rows(v, tile, 16 * warp(), 16 * i);
            u.y += low_of(v[1]) * d[2] + high_of(v[1]) * d[3];
            if (i < warp() || first <= g) {
                u.x += low_of(v[0]) * d[0];
                u.y += low_of(v[3]) * e[2];
            }
            if (i < warp() || first < g) {
                u.x += high_of(v[0]) * d[1];
                u.y += high_of(v[3]) * e[3];
            }
            if (i < warp()) u.x += low_of(v[2]) * e[0] + high_of(v[2]) * e[1];
        }
        return u;
    }
    /* Stores q, row and the partial sums `ends` of a head; of a wide-range head ssd_tiled_slow has stored q. */
    __device__ __forceinline__ void add_decay_sums(int pair, bool slow)
    {
        reread_lane();
        float2       q = rows_dot<16>(dC, sm.c[I]), end = q;
        const float2 r = lower_dot(sm.m[2 * I]);
        if (I == 0) {
            end = rows_dot<16>(dB, sm.b[0]);
        } else {
            const float2 below = rows_dot<8>(low, sm.m[1]);
            q.x += below.x;
            q.y += below.y;
        }
        const decay_sums s = decay_sums_of(sm.previous[threadIdx.x], sm.previous_end[threadIdx.x], q, r, end);
        if (t4()) return;
        store_decay_sums<I>(a, s, pair, slow, row(), warp(), lane());
    }
    /* <H1, G1>, a part per warp. Both tiles have the same swizzle, so that the order of elements does not matter. */
    __device__ __forceinline__ void state_dot(const mma_bc_stage &s) const
    {
        float sum = 0;
#pragma unroll
        for (int i = 0; i < 2 * TILE_BYTES / 16; i += 256)
            add_dot(sum, *((const uint4 *)s.h + i + threadIdx.x), *((const uint4 *)s.g + i + threadIdx.x));
        sum = warp_sum(sum);
        if (lane() == 0) sm.dots[threadIdx.x >> 5] = sum;
    }
    __device__ __forceinline__ void store_dot(const mma_bc_stage &s, int pair) const
    {
        float sum = 0;
        for (int i = 0; i < 8; i++) sum += sm.dots[i];
        const bool  none = s.rec[0][REC_FLAGS] + s.rec[1][REC_FLAGS] > 0; // a reset, or wide range
        const float kappa = s.rec[1][REC_BEFORE] + s.rec[0][REC_AFTER];   // its logarithm
        a.ends[(int64_t)pair * SSD_ENDS] = none ? 0 : sum * __expf(kappa);
        a.ends[(int64_t)pair * SSD_ENDS + 1] = 0;
    }

    /* ---- a work item ---- */

    __device__ __forceinline__ void begin(unsigned block)
    {
        __syncthreads(); // the previous item has been read
        if (threadIdx.x == 0) sm.at = pair_block_of(a, block);
        __syncthreads();
        fetch_cb();
        store_permuted(sm.c[I], a.cm);
        store_permuted(sm.b[I], a.bm);
        if (DOCS) {
            count_resets(sm.resets[0], a, sm.at.b, 2 * sm.at.c2);
            count_resets(sm.resets[1], a, sm.at.b, 2 * sm.at.c2 + 1);
        }
        add_slow_helpers(a, a.slow_helpers[block], block);
        sm.previous[threadIdx.x] = make_float4(0, 0, 0, 0);
        sm.previous_end[threadIdx.x] = 0;
        if (threadIdx.x == 0) sm.slow = 0;
#pragma unroll
        for (int i = 0; i < 64; i++) dC[i >> 2][i & 3] = dB[i >> 2][i & 3] = 0;
#pragma unroll
        for (int i = 0; i < 32; i++) own[i >> 2][i & 3] = low[i >> 2][i & 3] = 0;
    }
    __device__ __forceinline__ void heads(bool two)
    {
        const int count = group_heads<NT>(a);
        fetch(sm.st[0], 0);
        cp_commit();
#pragma unroll 1
        for (int i = 0; i < count; i++) {
            mma_bc_stage &s = sm.st[two ? i & 1 : 0];
            const int     pair = (sm.at.b * a.H + tile_of_group<NT>(a, sm.at.g, i)) * (a.K / 2) + sm.at.c2;
            cp_wait<0>();
            __syncthreads(); // the copies of all threads have arrived, and the other stage has been read
            if (two && i + 1 < count) fetch(sm.st[(i + 1) & 1], i + 1);
            cp_commit();
            state_dot(s);
            source_products(s);
            __syncthreads(); // x' is complete
            if (threadIdx.x == 0) store_dot(s, pair);
            if (threadIdx.x == 0 && factors(s).is_wide_range()) sm.slow = 1;
            destination_products(s);
            add_decay_sums(pair, factors(s).is_wide_range());
            if (two || i + 1 == count) continue;
            __syncthreads();
            fetch(s, i + 1);
            cp_commit();
        }
    }

    /* ---- after all heads: dC += mask(dCB) B, dB += mask(dCB)^T C ---- */

    /* Whether source s of the same chunk, or of chunk 0 (below), reaches position l of this one. */
    __device__ __forceinline__ bool counts(int l, int s, bool below) const
    {
        if (below) return !DOCS || (sm.resets[1][l] == 0 && sm.resets[0][s] == sm.resets[0][FQ - 1]);
        return s <= l && (!DOCS || sm.resets[I][s] == sm.resets[I][l]);
    }
    /* Writes dCB to tiles, as value and residual in bf16, with zeros where a source does not reach. Rounding it to one
     * bf16 would cost dB and dC as much accuracy as their own rounding. */
    __device__ __forceinline__ void store_dcb(unsigned char *value, unsigned char *residual, const float (&sums)[8][4],
                                              bool below) const
    {
#pragma unroll
        for (int j = 0; j < 8; j++)
#pragma unroll
            for (int q = 0; q < 2; q++) {
                const int   l = row() + 8 * q, s = 8 * j + 2 * t4(), at_word = tile_at(l, j) + 4 * t4();
                const uint2 w = split(counts(l, s, below) ? sums[j][2 * q] : 0,
                                      counts(l, s + 1, below) ? sums[j][2 * q + 1] : 0);
                *(uint32_t *)(value + at_word) = w.x;
                *(uint32_t *)(residual + at_word) = w.y;
            }
    }
    /* dC += (rows of dCB) B, with COLUMNS dB += (columns of dCB) C. */
    template <bool COLUMNS>
    __device__ __forceinline__ void by_dcb(float (&sums)[16][4], const unsigned char *m, const unsigned char *tiles)
    {
#pragma unroll 1
        for (int k = 0; k < FQ; k += 16) {
            uint32_t A[4];
            if (COLUMNS) left_columns(A, m, 16 * warp(), k);
            else left_rows(A, m, 16 * warp(), k);
            by_state(sums, A, tiles, k);
        }
    }
    __device__ __forceinline__ void last_products()
    {
        unsigned char *residual = sm.st[0].x[0]; // three tiles: x and dy are not needed any more
        reread_lane();
        __syncthreads();
        store_dcb(sm.m[2 * I], residual + 2 * I * TILE_BYTES, own, false);
        if (I == 1) store_dcb(sm.m[1], residual + TILE_BYTES, low, true);
        __syncthreads();
#pragma unroll 1
        for (int part = 0; part < 2; part++) {
            const unsigned char *m = part ? residual : sm.m[0];
            by_dcb<false>(dC, m + 2 * I * TILE_BYTES, sm.b[I]);
            if (I == 1) by_dcb<false>(dC, m + TILE_BYTES, sm.b[0]);
            by_dcb<true>(dB, m + 2 * I * TILE_BYTES, sm.c[I]);
            if (I == 0) by_dcb<true>(dB, m + TILE_BYTES, sm.c[1]);
        }
    }
    __device__ __forceinline__ void run(bool two)
    {
        const unsigned blocks = (unsigned)(a.B * (a.K / 2) * pair_groups<NT>(a));
#pragma unroll 1
        for (unsigned block = blockIdx.x; block < blocks; block += gridDim.x) {
            begin(block);
            heads(two);
            last_products();
            store_rows_of_group<NT>(a, sm.at, I * FQ + row(), t4(), *dC, *dB, *(volatile int *)&sm.slow, block);
        }
    }
};

/* Both halves of the block pass the same barriers, each in its own code. */
template <int NT, bool DOCS>
static __global__ void __launch_bounds__(256, 1) ssd_mma_bc(const __grid_constant__ fused_task a, bool two)
{
    MBA_DYNAMIC_SMEM(smem);
    if (threadIdx.x < 128) mma_bc<NT, DOCS, 0>(a, smem).run(two);
    else mma_bc<NT, DOCS, 1>(a, smem).run(two);
}

#endif
