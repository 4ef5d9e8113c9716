// SPDX-License-Identifier: Apache-2.0
/* hopper.cuh -- sm_90a for kernels: mbarriers, TMA copies, wgmma, register reallocation, and flags between blocks.
 *
 *     mbar_expect(bar, 8192);  tma_load3(tile, &map, bar, x, y, z);              // one thread
 *     mbar_wait(bar, phase);                                                     // every thread that reads the tile
 *     wgmma_fence();  wgmma_n64_rs<0>(d, a, wgmma_smem_desc(tile), 1);  wgmma_commit();  wgmma_wait<0>();
 *
 * Tiles are 64 rows of 128 bytes with the 128-byte swizzle (vector ^ row % 8, as tile_at of mma.cuh), aligned to 1 KB.
 * The host makes tensor maps with mba_tensor_map_make. All of it is for sm_90a only: on other architectures kernels
 * that use it compile to nothing, and their plans refuse the device. ssd's `fused` is built on this file. */
#ifndef MBA_HOPPER_CUH
#define MBA_HOPPER_CUH

#include <cuda.h>

#include "device/cuda/dependent_launch.cuh"
#include "device/cuda/mma.cuh"
#include "device/cuda/mma_fragments.cuh"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define MBA_HOPPER 1
#else
#define MBA_HOPPER 0
#endif

/* ---- host: tensor maps of bf16 tensors in boxes of 64 x 64; strides in elements ---- */

typedef CUresult mba_encode_fn(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *, const cuuint64_t *,
                               const cuuint64_t *, const cuuint32_t *, const cuuint32_t *, CUtensorMapInterleave,
                               CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

/* The driver's function that encodes tensor maps, looked up once; the program does not link the driver library. */
static inline mba_status mba_tensor_map_encoder(mba_encode_fn **out)
{
    static void                    *kept;
    cudaDriverEntryPointQueryResult how;
    void                           *found = __atomic_load_n(&kept, __ATOMIC_RELAXED);
    if (!found)
        CUDA_TRY(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000, cudaEnableDefault, &how));
    __atomic_store_n(&kept, found, __ATOMIC_RELAXED);
    if (!found)
        return mba_fail(MBA_E_UNSUPPORTED, "the driver makes no tensor maps\nfix: a driver for CUDA 12 or later");
    *out = (mba_encode_fn *)found;
    return MBA_OK;
}

/* A map of three or four axes; `rows` is the axis of a box's 64 rows. */
static inline mba_status mba_tensor_map_encode(CUtensorMap *map, const void *at, int rank, int rows, const int64_t *dim,
                                               const int64_t *step)
{
    mba_encode_fn *encode = NULL;
    cuuint64_t     dims[4], steps[3];
    cuuint32_t     box[4], ones[4];
    for (int i = 0; i < rank; i++) {
        dims[i] = (cuuint64_t)dim[i];
        box[i] = i == 0 || i == rows ? 64 : 1;
        ones[i] = 1;
        if (i) steps[i - 1] = (cuuint64_t)step[i - 1] * 2;
    }
    MBA_TRY(mba_tensor_map_encoder(&encode));
    const CUresult r = encode(map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, (cuuint32_t)rank, (void *)at, dims, steps, box,
                              ones, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                              CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (r == CUDA_SUCCESS) return MBA_OK;
    return mba_fail(MBA_E_DEVICE,
                    "the driver refuses a tensor map (error %d)\n"
                    "why: %lld x %lld x %lld elements at steps of %lld and %lld, at %p",
                    (int)r, (long long)dim[0], (long long)dim[1], (long long)dim[2], (long long)step[0],
                    (long long)step[1], at);
}
/* Axes (columns, rows, count): a box is 64 columns x 64 rows. */
static inline mba_status mba_tensor_map_make(CUtensorMap *map, const void *at, const int64_t dim[3],
                                             const int64_t step[2])
{
    return mba_tensor_map_encode(map, at, 3, 1, dim, step);
}
/* Axes (columns, heads, rows, count): a box is 64 columns of one head x 64 rows. What lies beyond an axis is read as
 * zero and not written, so heads need not be a multiple of 64 wide. */
static inline mba_status mba_tensor_map_make_heads(CUtensorMap *map, const void *at, const int64_t dim[4],
                                                   const int64_t step[3])
{
    return mba_tensor_map_encode(map, at, 4, 2, dim, step);
}

#if MBA_HOPPER || !defined(__CUDA_ARCH__)

/* ---- mbarriers, by shared-memory address ---- */

static __device__ __forceinline__ void mbar_init(uint32_t bar, int arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(arrivals));
}
static __device__ __forceinline__ void mbar_init_done() /* makes the inits visible to TMA and other threads */
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
static __device__ __forceinline__ void mbar_expect(uint32_t bar, uint32_t bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes) : "memory");
}
static __device__ __forceinline__ void mbar_arrive(uint32_t bar)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(bar) : "memory");
}
/* Arrivals of whole warps. mbar_release() synchronizes the lanes first, because they have read what may now be
 * overwritten; a completed wgmma does not order those reads. mbar_pass() is for warps that have read nothing since the
 * lanes last synchronized. */
static __device__ __forceinline__ void mbar_init_warps(uint32_t bar, int warps)
{
    mbar_init(bar, warps * ARRIVALS_OF_A_WARP);
}
static __device__ __forceinline__ void mbar_pass(uint32_t bar, int lane)
{
    if (lane < ARRIVALS_OF_A_WARP) mbar_arrive(bar);
}
static __device__ __forceinline__ void mbar_release(uint32_t bar, int lane)
{
    __syncwarp();
    mbar_pass(bar, lane);
}
static __device__ __forceinline__ bool mbar_try(uint32_t bar, uint32_t phase)
{
    uint32_t ok;
    asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}\n"
                 : "=r"(ok)
                 : "r"(bar), "r"(phase)
                 : "memory");
    return ok;
}
static __device__ __forceinline__ void mbar_wait(uint32_t bar, uint32_t phase)
{
    while (!mbar_try(bar, phase)) {
    }
}
template <int ID, int THREADS> static __device__ __forceinline__ void bar_sync()
{
    asm volatile("bar.sync %0, %1;" ::"n"(ID), "n"(THREADS) : "memory");
}

/* ---- flags between blocks. Each of `count` warps calls publish() after its writes; one thread of another block calls
 * await() for all of them, then its warps synchronize. await() gives up after four seconds by storing to address 0: a
 * launch that fails is better than one that hangs. (A trap instead, or a barrier before publish(), would make the
 * compiler treat warps as divergent and compute wgmma descriptors per lane.) ---- */

static __device__ __forceinline__ void publish(int *flag)
{
    __syncwarp();
    if ((threadIdx.x & 31) == 0) {
        __threadfence();
        asm volatile("red.release.gpu.global.add.s32 [%0], %1;" ::"l"(flag), "r"(1) : "memory");
    }
}
static __device__ __forceinline__ void await(const int *flag, int count)
{
    const unsigned long long limit = 4000000000ull; // ns
    unsigned long long       begin, now;
    int                      ready;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
    do {
        asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(ready) : "l"(flag) : "memory");
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    } while (ready < count && now - begin < limit);
    if (ready < count) asm volatile("st.global.s32 [%0], %1;" ::"l"(0ull), "r"(0) : "memory");
}
static __device__ __forceinline__ float load_l2(const float *p) /* bypasses L1, which may be stale */
{
    return __ldcg(p);
}

/* ---- asynchronous copies, started by one thread ---- */

static __device__ __forceinline__ void tma_load3(uint32_t to, const CUtensorMap *map, uint32_t bar, int x, int y, int z)
{
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3, %4, %5}], [%2];" ::"r"(to),
                 "l"(map), "r"(bar), "r"(x), "r"(y), "r"(z)
                 : "memory");
}
/* The same by maps of mba_tensor_map_make_heads: column x of head h, row y, z. */
static __device__ __forceinline__ void tma_load4(uint32_t to, const CUtensorMap *map, uint32_t bar, int x, int h, int y,
                                                 int z)
{
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(to),
                 "l"(map), "r"(bar), "r"(x), "r"(h), "r"(y), "r"(z)
                 : "memory");
}
static __device__ __forceinline__ void tma_prefetch4(const CUtensorMap *map, int x, int h, int y, int z)
{
    asm volatile("cp.async.bulk.prefetch.tensor.4d.L2.global.tile [%0, {%1, %2, %3, %4}];" ::"l"(map), "r"(x), "r"(h),
                 "r"(y), "r"(z)
                 : "memory");
}
static __device__ __forceinline__ void tma_store4(const CUtensorMap *map, uint32_t from, int x, int h, int y, int z)
{
    asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4, %5}], [%1];" ::"l"(map),
                 "r"(from), "r"(x), "r"(h), "r"(y), "r"(z)
                 : "memory");
}
/* Prefetches a tile into L2. */
static __device__ __forceinline__ void tma_prefetch3(const CUtensorMap *map, int x, int y, int z)
{
    asm volatile("cp.async.bulk.prefetch.tensor.3d.L2.global.tile [%0, {%1, %2, %3}];" ::"l"(map), "r"(x), "r"(y),
                 "r"(z)
                 : "memory");
}
static __device__ __forceinline__ void tma_store3(const CUtensorMap *map, uint32_t from, int x, int y, int z)
{
    asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(map),
                 "r"(from), "r"(x), "r"(y), "r"(z)
                 : "memory");
}
static __device__ __forceinline__ void bulk_load(uint32_t to, const void *from, uint32_t bytes, uint32_t bar)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
                 "l"(from), "r"(bytes), "r"(bar)
                 : "memory");
}
/* Contiguous bytes from shared memory to global memory, a multiple of 16. */
static __device__ __forceinline__ void bulk_store(void *to, uint32_t from, uint32_t bytes)
{
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(from), "r"(bytes)
                 : "memory");
}
static __device__ __forceinline__ void bulk_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
template <int PENDING> static __device__ __forceinline__ void bulk_wait_read() /* the source may be overwritten */
{
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(PENDING) : "memory");
}
template <int PENDING> static __device__ __forceinline__ void bulk_wait()
{
    asm volatile("cp.async.bulk.wait_group %0;" ::"n"(PENDING) : "memory");
}
/* Every thread that has written shared memory for TMA or wgmma to read calls this, before the barrier. */
static __device__ __forceinline__ void fence_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

/* ---- registers moved between warpgroups ---- */

template <int REGS> static __device__ __forceinline__ void warpgroup_reg_alloc()
{
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGS));
}
template <int REGS> static __device__ __forceinline__ void warpgroup_reg_dealloc()
{
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(REGS));
}
/* Keeps the compiler from using v before this point. */
static __device__ __forceinline__ void opt_barrier(uint32_t &v) { asm volatile("" : "+r"(v)); }

static __device__ __forceinline__ void ldmatrix_t_at(uint32_t (&r)[4], uint32_t row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(row)
                 : "memory");
}
static __device__ __forceinline__ void ldmatrix_at(uint32_t (&r)[4], uint32_t row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(row)
                 : "memory");
}
static __device__ __forceinline__ void stmatrix_t_at(uint32_t row, const uint32_t (&r)[4])
{
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(row), "r"(r[0]), "r"(r[1]),
                 "r"(r[2]), "r"(r[3])
                 : "memory");
}
static __device__ __forceinline__ void stmatrix_at(uint32_t row, const uint32_t (&r)[4])
{
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(row), "r"(r[0]), "r"(r[1]),
                 "r"(r[2]), "r"(r[3])
                 : "memory");
}

/* ---- wgmma ----
 *
 * Accumulators d: lane (g = lane / 4, t = lane % 4) of warp w holds rows 16 w + g and + 8, columns 8 j + 2 t and + 1 in
 * d[4 j .. 4 j + 3]. A in registers has the layout of mma.cuh. _rs: A from registers; _ss: both from shared memory.
 * TA, TB = 1: the M (N) index of that operand is contiguous. K then advances by 2048 bytes per 16, and `lbo` is the
 * distance between blocks of 64; with K contiguous it advances by 32 bytes. acc = 0 overwrites d. */

static __device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
static __device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int PENDING> static __device__ __forceinline__ void wgmma_wait()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}

static __device__ __forceinline__ uint64_t wgmma_smem_desc(uint32_t address, uint32_t lbo = 16, uint32_t sbo = 1024)
{
    return (uint64_t)((address & 0x3FFFF) >> 4) | ((uint64_t)(lbo >> 4) << 16) | ((uint64_t)(sbo >> 4) << 32)
           | (1ull << 62);
}

#define MBA__D8(i) \
    "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), \
        "+f"(d[i + 7])

template <int TB>
static __device__ __forceinline__ void wgmma_n64_rs(float (&d)[32], const uint32_t (&a)[4], uint64_t b, int acc)
{
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %37, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
                 "{%32, %33, %34, %35}, %36, p, 1, 1, %38;\n}\n"
                 : MBA__D8(0), MBA__D8(8), MBA__D8(16), MBA__D8(24)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(acc), "n"(TB));
}
template <int TA, int TB>
static __device__ __forceinline__ void wgmma_n64_ss(float (&d)[32], uint64_t a, uint64_t b, int acc)
{
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
                 "%32, %33, p, 1, 1, %35, %36;\n}\n"
                 : MBA__D8(0), MBA__D8(8), MBA__D8(16), MBA__D8(24)
                 : "l"(a), "l"(b), "r"(acc), "n"(TA), "n"(TB));
}
template <int TB>
static __device__ __forceinline__ void wgmma_n128_rs(float (&d)[64], const uint32_t (&a)[4], uint64_t b, int acc)
{
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %69, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
                 "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
                 "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
                 "{%64, %65, %66, %67}, %68, p, 1, 1, %70;\n}\n"
                 : MBA__D8(0), MBA__D8(8), MBA__D8(16), MBA__D8(24), MBA__D8(32), MBA__D8(40), MBA__D8(48), MBA__D8(56)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(acc), "n"(TB));
}
template <int TA, int TB>
static __device__ __forceinline__ void wgmma_n128_ss(float (&d)[64], uint64_t a, uint64_t b, int acc)
{
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
                 "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
                 "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
                 "%64, %65, p, 1, 1, %67, %68;\n}\n"
                 : MBA__D8(0), MBA__D8(8), MBA__D8(16), MBA__D8(24), MBA__D8(32), MBA__D8(40), MBA__D8(48), MBA__D8(56)
                 : "l"(a), "l"(b), "r"(acc), "n"(TA), "n"(TB));
}

#undef MBA__D8
#endif

#endif
