// SPDX-License-Identifier: Apache-2.0
/* warp_costs.cu -- what instructions cost one warp, or a few on an SM, beside each other: for tools/sass_path.
 *
 *     nvcc -O3 -arch=sm_90a tools/warp_costs.cu -o warp_costs && ./warp_costs
 *
 * One block on one SM, warps as named; cycles of the block over repetitions. No part of the product. */
#include <cstdio>
#include <cstdint>

enum { TRIPS = 64 };

struct frag {
    uint32_t a[4], b[2];
    float    c[4];
};

__device__ __forceinline__ void mma(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2])
{
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
__device__ __forceinline__ void fma4(float (&x)[4], float y)
{
#pragma unroll
    for (int i = 0; i < 4; i++) asm volatile("fma.rn.f32 %0,%0,%1,%1;" : "+f"(x[i]) : "f"(y));
}
__device__ __forceinline__ void alu4(uint32_t (&x)[4], uint32_t y)
{
#pragma unroll
    for (int i = 0; i < 4; i++) asm volatile("lop3.b32 %0,%0,%1,%1,0x96;" : "+r"(x[i]) : "r"(y));
}
__device__ __forceinline__ void ldsm(uint32_t (&a)[4], uint32_t at)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3},[%4];"
                 : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3])
                 : "r"(at));
}

/* KIND 0: eight products; 1: with four multiply-adds each; 2: with four logic operations each; 3: with both; 4: each
 * pair of products from its own ldmatrix; 5: one product after the other, a multiply-add on its result between; 6: 32
 * multiply-adds of four chains; 7: 32 multiply-adds and 16 logic operations; 8: 16 ldmatrix; 9: 32 jumps that are
 * taken; 10: 16 shuffles one after the other; 11: 4096 multiply-adds without a loop; 12: eight ex2 and 24
 * multiply-adds; 13: 32 words of shared memory, each of its own address, 14: 32 times four of them. */
template <int KIND> __global__ void cost(long long *cycles, float *sink, int n)
{
    __shared__ alignas(16) char tile[16384];
    float                       c[8][4], x[4] = { 1, 2, 3, 4 };
    uint32_t                    a[4] = { 0, 0, 0, 0 }, b[2] = { 0, 0 }, u[4] = { 1, 2, 3, 4 };
    const uint32_t              at = (uint32_t)__cvta_generic_to_shared(tile) + (threadIdx.x % 32) * 16
                        + threadIdx.x / 32 % 16 * 512;
    const uint32_t word = (uint32_t)__cvta_generic_to_shared(tile) + threadIdx.x % 32 * 4;
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 4; j++) c[i][j] = 0;
    for (int i = threadIdx.x; i < 4096; i += blockDim.x) ((float *)tile)[i] = 0;
    __syncthreads();
    long long began = 0;
    for (int t = 0; t < n; t++) {
        if (t == n / 2) began = clock64();
        if (KIND <= 3)
#pragma unroll
            for (int i = 0; i < 8; i++) {
                mma(c[i], a, b);
                if (KIND & 1) fma4(x, 0.5f);
                if (KIND & 2) alu4(u, 5);
            }
        if (KIND == 4)
#pragma unroll
            for (int i = 0; i < 8; i += 2) {
                uint32_t v[4];
                ldsm(v, at);
                mma(c[i], v, b);
                mma(c[i + 1], v, b);
            }
        if (KIND == 5)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                mma(c[0], a, b);
#pragma unroll
                for (int j = 0; j < 4; j++) asm volatile("fma.rn.f32 %0,%0,%0,%0;" : "+f"(c[0][j]));
            }
        if (KIND == 6 || KIND == 7)
#pragma unroll
            for (int i = 0; i < 8; i++) {
                fma4(x, 0.5f);
                if (KIND == 7 && i % 2) alu4(u, 5);
            }
        if (KIND == 8)
#pragma unroll
            for (int i = 0; i < 16; i++) {
                uint32_t v[4];
                ldsm(v, at);
                u[0] ^= v[0];
            }
        if (KIND == 9)
#pragma unroll 1
            for (int i = 0; i < 32; i++) asm volatile("fma.rn.f32 %0,%0,%1,%1;" : "+f"(x[i & 0]) : "f"(0.5f));
        if (KIND == 10)
#pragma unroll
            for (int i = 0; i < 16; i++) x[0] += __shfl_xor_sync(0xffffffffu, x[0], 1);
        if (KIND == 11)
#pragma unroll
            for (int i = 0; i < 1024; i++) fma4(x, 0.5f);
        if (KIND == 12)
#pragma unroll
            for (int i = 0; i < 8; i++) {
                asm volatile("ex2.approx.ftz.f32 %0,%0;" : "+f"(x[i % 4]));
#pragma unroll
                for (int j = 0; j < 3; j++) asm volatile("fma.rn.f32 %0,%0,%1,%1;" : "+f"(c[i][j]) : "f"(0.5f));
            }
        if (KIND == 13)
#pragma unroll
            for (int i = 0; i < 32; i++) {
                uint32_t v;
                asm volatile("ld.volatile.shared.u32 %0,[%1];" : "=r"(v) : "r"(word + 128 * i));
                u[i % 4] ^= v;
            }
        if (KIND == 14)
#pragma unroll
            for (int i = 0; i < 32; i++) {
                uint32_t v[4];
                asm volatile("ld.volatile.shared.v4.u32 {%0,%1,%2,%3},[%4];"
                             : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3])
                             : "r"(at - threadIdx.x / 32 % 16 * 512 + 256 * i));
                u[i % 4] ^= v[0] ^ v[1] ^ v[2] ^ v[3];
            }
    }
    const long long ended = clock64();
    float           sum = x[0] + x[1] + x[2] + x[3] + (float)(u[0] + u[1] + u[2] + u[3]);
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 4; j++) sum += c[i][j];
    if (threadIdx.x % 32 == 0) cycles[threadIdx.x / 32] = ended - began;
    if (sum == 12345.678f) *sink = sum;
}

template <int KIND> static void show(const char *what, double each, long long *cycles, float *sink)
{
    printf("%-52s", what);
    for (int warps = 1; warps <= 16; warps *= 2) {
        long long most = 0, of[16];
        for (int run = 0; run < 3; run++) {
            cost<KIND><<<1, 32 * warps>>>(cycles, sink, TRIPS);
            cudaMemcpy(of, cycles, sizeof of, cudaMemcpyDeviceToHost);
        }
        for (int w = 0; w < warps; w++)
            if (of[w] > most) most = of[w];
        printf("  %2d: %7.2f", warps, (double)most / (TRIPS / 2) / each);
    }
    printf("   %s\n", cudaGetErrorString(cudaGetLastError()));
}

/* Latencies of two words of one page, the second of a line that has not been asked for, and of the first once more. */
__global__ void first_loads(long long *cycles, const int *page, int apart)
{
    long long at[4];
    int       sum = 0;
    at[0] = clock64();
    for (int i = 0; i < 3; i++) {
        int v;
        asm volatile("ld.global.cg.s32 %0,[%1];" : "=r"(v) : "l"(page + (i == 1 ? apart : 0) + (sum & 1 << 30)));
        sum += v;
        asm volatile("" ::"r"(sum) : "memory");
        at[i + 1] = sum == 12345 ? 0 : clock64();
    }
    for (int i = 0; i < 3; i++) cycles[i] = at[i + 1] - at[i];
}

__global__ void sweep(int *over, size_t words)
{
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < words; i += (size_t)gridDim.x * blockDim.x)
        over[i]++;
}

/* What has left L2 may have left the caches of addresses too: first loads of pages of 2 MB, other memory swept
 * between. */
static void show_pages(long long *cycles)
{
    enum { PAGES = 16, PAGE = 2 << 20 };
    const size_t swept = (size_t)1 << 30;
    int         *pages, *over;
    cudaMalloc(&pages, (size_t)PAGES * PAGE);
    cudaMalloc(&over, swept);
    cudaMemset(pages, 0, (size_t)PAGES * PAGE);
    for (int i = 0; i < PAGES; i++) {
        long long of[3];
        sweep<<<1056, 256>>>(over, swept / sizeof *over);
        first_loads<<<1, 1>>>(cycles, pages + (size_t)i * PAGE / sizeof *pages, PAGE / 2 / (int)sizeof *pages);
        cudaMemcpy(of, cycles, sizeof of, cudaMemcpyDeviceToHost);
        printf("page %2d: first word %5lld cycles, a word of another line %5lld, the first again %5lld   %s\n", i,
               of[0], of[1], of[2], cudaGetErrorString(cudaGetLastError()));
    }
    cudaFree(pages);
    cudaFree(over);
}

/* Requests of warps whose lanes lie `apart` bytes from each other, `BYTES` each (0: two, which eight warps of a block
 * put beside each other), all in `words` of memory that L2 holds. */
template <int BYTES, bool STORES> __global__ void scattered(char *at, size_t bytes, int apart, int trips, int *sink)
{
    const size_t warp = (blockIdx.x * (size_t)blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32,
                 mine = BYTES ? warp : blockIdx.x, beside = BYTES ? 0 : threadIdx.x / 32 * 2;
    int sum = 0;
    for (int t = 0; t < trips; t++) {
        char *p = at + (((mine * trips + t) * 32 + lane) * apart + beside) % bytes;
        int   v = 0;
        if (STORES && BYTES <= 2) asm volatile("st.global.u16 [%0],%1;" ::"l"(p), "h"((short)t));
        if (STORES && BYTES == 4) asm volatile("st.global.u32 [%0],%1;" ::"l"(p), "r"(t));
        if (STORES && BYTES == 16) asm volatile("st.global.v4.u32 [%0],{%1,%1,%1,%1};" ::"l"(p), "r"(t));
        if (!STORES) asm volatile("ld.global.cg.u32 %0,[%1];" : "=r"(v) : "l"(p + (sum == 12345 ? 4 : 0)));
        sum += v;
    }
    if (sum == 12345) *sink = sum;
}

template <int BYTES, bool STORES> static void show_scattered(const char *what, char *at, int apart, int *sink)
{
    enum { TRIPS_EACH = 16, BLOCKS = 1056, RUNS = 20 };
    const size_t bytes = (size_t)24 << 20;
    cudaEvent_t  from, to;
    float        chip = 0, one = 0;
    cudaEventCreate(&from);
    cudaEventCreate(&to);
    for (int warm = 0; warm < 2; warm++) {
        cudaEventRecord(from);
        for (int i = 0; i < RUNS; i++) scattered<BYTES, STORES><<<BLOCKS, 256>>>(at, bytes, apart, TRIPS_EACH, sink);
        cudaEventRecord(to);
        cudaEventSynchronize(to);
        cudaEventElapsedTime(&chip, from, to);
        cudaEventRecord(from);
        scattered<BYTES, STORES><<<1, 32>>>(at, bytes, apart, 4096, sink);
        cudaEventRecord(to);
        cudaEventSynchronize(to);
        cudaEventElapsedTime(&one, from, to);
    }
    const double requests = (double)RUNS * BLOCKS * 8 * TRIPS_EACH;
    printf("%-52s %5d apart: %7.2f ns a request of the chip, %7.1f ns of a warp alone   %s\n", what, apart,
           1e6 * chip / requests, 1e6 * one / 4096, cudaGetErrorString(cudaGetLastError()));
}

static void show_all_scattered(void)
{
    char *at;
    int  *sink;
    cudaMalloc(&at, (size_t)32 << 20);
    cudaMalloc(&sink, sizeof *sink);
    cudaMemset(at, 0, (size_t)32 << 20);
    show_scattered<4, true>("stores, four bytes a lane", at, 4, sink);
    show_scattered<16, true>("stores, sixteen bytes a lane", at, 16, sink);
    for (int apart : { 32, 64, 128, 12352 }) {
        show_scattered<16, true>("stores, sixteen bytes a lane", at, apart, sink);
        show_scattered<4, true>("stores, four bytes a lane", at, apart, sink);
        show_scattered<2, true>("stores, two bytes a lane", at, apart, sink);
        show_scattered<0, true>("stores, two bytes, eight warps beside each other", at, apart, sink);
    }
    for (int apart : { 4, 32, 64, 128, 12352 }) show_scattered<4, false>("loads, one after the other", at, apart, sink);
    cudaFree(at);
    cudaFree(sink);
}

/* KIND 0: a load that L2 answers, waited for; 1: a fence of the chip; 2: a store and a fence; 3: a sum in L2 whose
 * result is waited for; 4: one that is a fence too (what Triton's atomic_add is compiled to); 5: a copy to shared
 * memory of what has left L2, waited for; 6: the same and a fence instead of the wait. Four words for every lane;
 * copies take others in every trip. */
template <int KIND> __global__ void fenced(long long *cycles, int *at, int n)
{
    __shared__ alignas(16) char tile[16384];
    const uint32_t              to = (uint32_t)__cvta_generic_to_shared(tile) + threadIdx.x * 16;
    int                        *mine = at + threadIdx.x * 4, seen = 0;
    long long                   began = 0;
    for (int t = 0; t < n; t++) {
        if (t == n / 2) began = clock64();
        int v = 0;
        if (KIND >= 5)
            asm volatile("cp.async.cg.shared.global [%0],[%1],16;" ::"r"(to), "l"(mine + (size_t)t * 65536) : "memory");
        if (KIND == 0) asm volatile("ld.global.cg.s32 %0,[%1];" : "=r"(v) : "l"(mine + (seen & 1 << 30)) : "memory");
        if (KIND == 2) asm volatile("st.global.s32 [%0],%1;" ::"l"(mine), "r"(t) : "memory");
        if (KIND == 1 || KIND == 2 || KIND == 6) asm volatile("fence.acq_rel.gpu;" ::: "memory");
        if (KIND == 3)
            asm volatile("atom.relaxed.gpu.global.add.s32 %0,[%1],1;"
                         : "=r"(v)
                         : "l"(mine + (seen & 1 << 30))
                         : "memory");
        if (KIND == 4) asm volatile("atom.acq_rel.gpu.global.add.s32 %0,[%1],1;" : "=r"(v) : "l"(mine) : "memory");
        if (KIND == 5) asm volatile("cp.async.wait_all;" ::: "memory");
        seen += v;
    }
    const long long ended = clock64();
    asm volatile("cp.async.wait_all;" ::: "memory");
    if (threadIdx.x % 32 == 0) cycles[threadIdx.x / 32] = ended - began + (seen == 12345);
}

template <int KIND> static void show_fence(const char *what, long long *cycles, int *at, int *over, size_t swept)
{
    printf("%-52s", what);
    for (int warps = 1; warps <= 8; warps *= 2) {
        long long most = 0, of[8];
        if (KIND >= 5) sweep<<<1056, 256>>>(over, swept / sizeof *over);
        else fenced<KIND><<<1, 32 * warps>>>(cycles, at, TRIPS);
        fenced<KIND><<<1, 32 * warps>>>(cycles, at, TRIPS);
        cudaMemcpy(of, cycles, sizeof of, cudaMemcpyDeviceToHost);
        for (int w = 0; w < warps; w++)
            if (of[w] > most) most = of[w];
        printf("  %2d: %7.1f", warps, (double)most / (TRIPS / 2));
    }
    printf("   %s\n", cudaGetErrorString(cudaGetLastError()));
}

static void show_fences(long long *cycles)
{
    const size_t swept = (size_t)1 << 30, bytes = (size_t)TRIPS << 18;
    int         *at, *over;
    cudaMalloc(&at, bytes);
    cudaMalloc(&over, swept);
    cudaMemset(at, 0, bytes);
    printf("cycles of a trip, by warps on the SM\n");
    show_fence<0>("load that L2 answers", cycles, at, over, swept);
    show_fence<1>("fence of the chip, nothing before it", cycles, at, over, swept);
    show_fence<2>("store and fence", cycles, at, over, swept);
    show_fence<3>("sum in L2, waited for", cycles, at, over, swept);
    show_fence<4>("sum in L2 that is a fence", cycles, at, over, swept);
    show_fence<5>("copy from DRAM, waited for", cycles, at, over, swept);
    show_fence<6>("copy from DRAM and fence", cycles, at, over, swept);
    cudaFree(at);
    cudaFree(over);
}

int main()
{
    long long *cycles;
    float     *sink;
    cudaMalloc(&cycles, 16 * sizeof *cycles);
    cudaMalloc(&sink, sizeof *sink);
    printf("cycles of a warp, by warps on the SM\n");
    show<0>("product", 8, cycles, sink);
    show<1>("product and 4 multiply-adds", 8, cycles, sink);
    show<2>("product and 4 logic operations", 8, cycles, sink);
    show<3>("product, 4 multiply-adds, 4 logic operations", 8, cycles, sink);
    show<4>("two products of an ldmatrix of their own", 4, cycles, sink);
    show<5>("product that waits for the one before, multiply-add", 4, cycles, sink);
    show<6>("multiply-add, four chains", 32, cycles, sink);
    show<7>("two multiply-adds and a logic operation", 16, cycles, sink);
    show<8>("ldmatrix x4", 16, cycles, sink);
    show<9>("trip of a loop of one multiply-add", 32, cycles, sink);
    show<10>("shuffle and addition, one after the other", 16, cycles, sink);
    show<11>("multiply-add, 4096 without a jump", 4096, cycles, sink);
    show<12>("ex2 and three multiply-adds", 8, cycles, sink);
    show<13>("word of shared memory", 32, cycles, sink);
    show<14>("four words of shared memory", 32, cycles, sink);
    show_fences(cycles);
    show_pages(cycles);
    show_all_scattered();
    return 0;
}
