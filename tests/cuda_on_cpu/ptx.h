// SPDX-License-Identifier: Apache-2.0
/* ptx.h -- the PTX instructions of the kernels for sm_80, one function each, named by translate.py: operands in the
 * order of the text, results by reference. The layouts of fragments are those of the PTX ISA, "Matrix multiply".
 * An operand without a definition here ends the run that comes to it, not the build. */
#ifndef MBA_TESTS_CUDA_ON_CPU_PTX_H
#define MBA_TESTS_CUDA_ON_CPU_PTX_H

/* An address operand: 32 bits are shared memory, a pointer or 64 bits are any. */
static inline void *emulated_at(uint32_t at) { return emulated_at_address(at); }
static inline void *emulated_at(int at) { return emulated_at_address((uint32_t)at); }
static inline void *emulated_at(uint64_t at) { return (void *)at; }
static inline void *emulated_at(unsigned long long at) { return (void *)at; }
static inline void *emulated_at(const void *at) { return (void *)at; }

static inline uint32_t emulated_register(const char *name) { emulated_fail("register %s", name); }
static inline void     emulated_unknown(const char *name) { emulated_fail("instruction %s", name); }
static uint64_t        emulated_sink;

/* ---- copies ---- */

static inline void ptx_cp_async_cg_shared_global(void *to, const void *from, int bytes, int read = -1)
{
    if (bytes != 16) emulated_fail("cp.async.cg of %d bytes", bytes);
    emulated_copy_async(to, from, bytes, read < 0 ? bytes : read);
}
static inline void ptx_cp_async_ca_shared_global(void *to, const void *from, int bytes, int read = -1)
{
    emulated_copy_async(to, from, bytes, read < 0 ? bytes : read);
}
static inline void ptx_cp_async_commit_group(void) { emulated_now->groups++; }
static inline void ptx_cp_async_wait_group(int newer) { emulated_copy_wait(newer); }
static inline void ptx_prefetch_global_L2(const void *) {}

static inline void ptx_ld_global_v2_u32(uint32_t &a, uint32_t &b, const void *at)
{
    memcpy(&a, at, 4);
    memcpy(&b, (const char *)at + 4, 4);
}
template <typename T> static inline void emulated_store(void *to, std::initializer_list<T> values)
{
    if ((uintptr_t)to % (sizeof(T) * values.size())) emulated_fail("a store is not aligned");
    memcpy(to, values.begin(), sizeof(T) * values.size());
}
static inline void ptx_st_global_v2_u32(void *to, uint32_t a, uint32_t b) { emulated_store(to, { a, b }); }
static inline void ptx_st_global_v4_u32(void *to, uint32_t a, uint32_t b, uint32_t c, uint32_t d)
{
    emulated_store(to, { a, b, c, d });
}
static inline void ptx_st_global_v2_f32(void *to, float a, float b) { emulated_store(to, { a, b }); }
static inline void ptx_st_global_v4_f32(void *to, float a, float b, float c, float d)
{
    emulated_store(to, { a, b, c, d });
}

/* ---- numbers ---- */

template <typename T, typename A> static inline void ptx_mov_u32(T &to, A from) { to = (T)from; }
template <typename T, typename A> static inline void ptx_mov_u64(T &to, A from) { to = (T)from; }
static inline void                                   ptx_setp_ne_b32(bool &p, int64_t a, int64_t b) { p = a != b; }
template <typename T> static inline void ptx_selp_u32(T &to, uint32_t a, uint32_t b, bool p) { to = p ? a : b; }
template <typename P> static inline void ptx_mad_wide_s32(uint64_t &to, int a, int b, P c)
{
    to = (uint64_t)((int64_t)a * b) + (uint64_t)c;
}
static inline void ptx_ex2_approx_ftz_f32(float &to, float x) { to = emulated_flushed(exp2f(emulated_flushed(x))); }
static inline void ptx_rcp_approx_ftz_f32(float &to, float x) { to = emulated_flushed(1 / emulated_flushed(x)); }
static inline void ptx_tanh_approx_f32(float &to, float x) { to = tanhf(x); }
static inline void ptx_cvt_rna_tf32_f32(uint32_t &to, float x)
{
    // To nearest, ties away from zero; any NaN is the same NaN.
    to = isnan(x) ? 0x7fffffffu : (__float_as_uint(x) + (1u << 12)) & ~((1u << 13) - 1);
}

static inline float    emulated_low(uint32_t x) { return __uint_as_float(x << 16); }
static inline float    emulated_high(uint32_t x) { return __uint_as_float(x & 0xffff0000u); }
static inline uint32_t emulated_bf16(float x)
{
    const uint32_t u = __float_as_uint(x);
    return isnan(x) ? 0x7fff : (u + 0x7fff + (u >> 16 & 1)) >> 16;
}
static inline void ptx_cvt_rn_bf16x2_f32(uint32_t &to, float high, float low)
{
    to = emulated_bf16(high) << 16 | emulated_bf16(low);
}
/* With one rounding: the product of two bf16 is exact in fp32, its sum with a third in double, but for distances of
 * exponents at which the third is the tie-breaker of nothing. */
static inline void ptx_fma_rn_bf16x2(uint32_t &to, uint32_t a, uint32_t b, uint32_t c)
{
    const float high = (float)((double)emulated_high(a) * emulated_high(b) + emulated_high(c));
    const float low = (float)((double)emulated_low(a) * emulated_low(b) + emulated_low(c));
    to = emulated_bf16(high) << 16 | emulated_bf16(low);
}

/* ---- barriers ---- */

static inline void ptx_bar_sync(int number, int threads) { emulated_barrier(number, threads, true); }
static inline void ptx_bar_arrive(int number, int threads) { emulated_barrier(number, threads, false); }

/* mbarrier: phases that end when `all` have arrived. */
struct emulated_mbarrier {
    uint16_t all, missing;
    uint32_t phase;
};
static inline void ptx_mbarrier_init_shared_b64(void *at, int arrivals)
{
    *(emulated_mbarrier *)at = { (uint16_t)arrivals, (uint16_t)arrivals, 0 };
}
static inline void ptx_mbarrier_arrive_shared_b64(uint64_t &, void *at)
{
    emulated_mbarrier *m = (emulated_mbarrier *)at;
    if (m->phase == ~0u) emulated_fail("an mbarrier that nobody has initialized");
    if (--m->missing) return;
    m->missing = m->all;
    m->phase++;
}
static inline void ptx_mbarrier_test_wait_parity_shared_b64(bool &done, const void *at, uint32_t parity)
{
    const emulated_mbarrier *m = (const emulated_mbarrier *)at;
    if (m->phase == ~0u) emulated_fail("an mbarrier that nobody has initialized");
    done = (m->phase & 1) != (parity & 1);
    if (!done) emulated_yield();
}

/* ---- matrices: the lanes of a warp meet, and the last does the work of all ---- */

/* ldmatrix: lane 8 j + r gives row r of matrix j; lane i gets columns 2 (i % 4) and + 1 of row i / 4 of each, of the
 * transposed matrices if TRANSPOSED. */
struct emulated_rows {
    const uint16_t *row;
    uint32_t        word[4];
};

template <bool TRANSPOSED> static void emulated_load_matrices(void *const at[EMULATED_WARP], unsigned)
{
    for (int i = 0; i < EMULATED_WARP; i++)
        for (int j = 0; j < 4; j++) {
            const int r = i / 4, c = 2 * (i % 4);
            uint32_t  pair[2];
            for (int e = 0; e < 2; e++) {
                const int row = TRANSPOSED ? c + e : r, column = TRANSPOSED ? r : c + e;
                pair[e] = ((emulated_rows *)at[8 * j + row])->row[column];
            }
            ((emulated_rows *)at[i])->word[j] = pair[1] << 16 | pair[0];
        }
}

template <bool TRANSPOSED>
static inline void emulated_ldmatrix(uint32_t &a, uint32_t &b, uint32_t &c, uint32_t &d, const void *row)
{
    emulated_rows r = { (const uint16_t *)row, {} };
    if ((uintptr_t)row % 16) emulated_fail("a row of ldmatrix is not aligned");
    emulated_meet(~0u, emulated_load_matrices<TRANSPOSED>, &r);
    a = r.word[0], b = r.word[1], c = r.word[2], d = r.word[3];
}
static inline void ptx_ldmatrix_sync_aligned_m8n8_x4_shared_b16(uint32_t &a, uint32_t &b, uint32_t &c, uint32_t &d,
                                                                const void *row)
{
    emulated_ldmatrix<false>(a, b, c, d, row);
}
static inline void ptx_ldmatrix_sync_aligned_m8n8_x4_trans_shared_b16(uint32_t &a, uint32_t &b, uint32_t &c,
                                                                      uint32_t &d, const void *row)
{
    emulated_ldmatrix<true>(a, b, c, d, row);
}

struct emulated_word {
    uint32_t give, take;
};
static void emulated_transpose(void *const at[EMULATED_WARP], unsigned)
{
    for (int i = 0; i < EMULATED_WARP; i++) { // row i / 4 of the result is column i / 4
        const int      r = i / 4, c = 2 * (i % 4), half = 16 * (r & 1);
        const uint32_t low = ((emulated_word *)at[4 * c + r / 2])->give >> half;
        const uint32_t high = ((emulated_word *)at[4 * (c + 1) + r / 2])->give >> half;
        ((emulated_word *)at[i])->take = high << 16 | (low & 0xffff);
    }
}
static inline void ptx_movmatrix_sync_aligned_m8n8_trans_b16(uint32_t &to, uint32_t from)
{
    emulated_word w = { from, 0 };
    emulated_meet(~0u, emulated_transpose, &w);
    to = w.take;
}

/* mma.sync, m16n8kK: d = a b + c with sums in fp32. A register of a and b holds PER values of neighbouring k: two bf16
 * or one tf32. a[0] row lane / 4, k from PER (lane % 4); a[1] row + 8; a[2], a[3] the same at k + 4 PER. b[0] column
 * lane / 4, k as in a; b[1] at k + 4 PER. */
struct emulated_product {
    float    c[4];
    uint32_t a[4], b[2];
};

template <int PER> static inline float emulated_value(uint32_t word, int e)
{
    if (PER == 1) return __uint_as_float(word & ~((1u << 13) - 1)); // tensor cores truncate tf32
    return e ? emulated_high(word) : emulated_low(word);
}

template <int K, int PER> static void emulated_multiply(void *const at[EMULATED_WARP], unsigned)
{
    typedef float row __attribute__((vector_size(32))); // eight columns
    float         a[16][K];
    row           b[K];
    for (int i = 0; i < EMULATED_WARP; i++) {
        const emulated_product *p = (const emulated_product *)at[i];
        for (int part = 0; part < K / (4 * PER); part++)
            for (int e = 0; e < PER; e++) {
                const int k = part * 4 * PER + PER * (i % 4) + e;
                a[i / 4][k] = emulated_value<PER>(p->a[2 * part], e);
                a[i / 4 + 8][k] = emulated_value<PER>(p->a[2 * part + 1], e);
                b[k][i / 4] = emulated_value<PER>(p->b[part], e);
            }
    }
    for (int r = 0; r < 16; r++) {
        row sum = {};
        for (int k = 0; k < K; k++) sum += a[r][k] * b[k];
        for (int n = 0; n < 8; n++) ((emulated_product *)at[r % 8 * 4 + n / 2])->c[r / 8 * 2 + n % 2] += sum[n];
    }
}

template <int K, int PER>
static inline void emulated_mma(float (&d)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0,
                                uint32_t b1)
{
    emulated_product p = { { d[0], d[1], d[2], d[3] }, { a0, a1, a2, a3 }, { b0, b1 } };
    emulated_meet(~0u, emulated_multiply<K, PER>, &p);
    memcpy(d, p.c, sizeof d);
}

/* The two shapes of each type: K values of k, in four words of a or in two. */
#define EMULATED_MMA_4(name, K, PER) \
    static inline void name(float &d0, float &d1, float &d2, float &d3, uint32_t a0, uint32_t a1, uint32_t a2, \
                            uint32_t a3, uint32_t b0, uint32_t b1, float c0, float c1, float c2, float c3) \
    { \
        float d[4] = { c0, c1, c2, c3 }; \
        emulated_mma<K, PER>(d, a0, a1, a2, a3, b0, b1); \
        d0 = d[0], d1 = d[1], d2 = d[2], d3 = d[3]; \
    }
#define EMULATED_MMA_2(name, K, PER) \
    static inline void name(float &d0, float &d1, float &d2, float &d3, uint32_t a0, uint32_t a1, uint32_t b0, \
                            float c0, float c1, float c2, float c3) \
    { \
        float d[4] = { c0, c1, c2, c3 }; \
        emulated_mma<K, PER>(d, a0, a1, 0, 0, b0, 0); \
        d0 = d[0], d1 = d[1], d2 = d[2], d3 = d[3]; \
    }
EMULATED_MMA_4(ptx_mma_sync_aligned_m16n8k16_row_col_f32_bf16_bf16_f32, 16, 2)
EMULATED_MMA_2(ptx_mma_sync_aligned_m16n8k8_row_col_f32_bf16_bf16_f32, 8, 2)
EMULATED_MMA_4(ptx_mma_sync_aligned_m16n8k8_row_col_f32_tf32_tf32_f32, 8, 1)
EMULATED_MMA_2(ptx_mma_sync_aligned_m16n8k4_row_col_f32_tf32_tf32_f32, 4, 1)

#endif
