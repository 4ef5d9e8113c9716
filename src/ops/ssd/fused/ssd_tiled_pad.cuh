// SPDX-License-Identifier: Apache-2.0
/* ssd_tiled_pad.cuh -- padded copies of operands for ssd_tiled.cuh, where tensor maps cannot address the rows: heads or
 * groups that are not a multiple of 8 wide, or rows that are not aligned to 16 bytes. Each head or group is padded with
 * zeros to a multiple of 8; results are written to padded rows and copied from there.
 *
 * kernel     ssd_tiled_pad, ssd_tiled_unpad    one token per block at a time, one thread per 16-byte vector of its
 *            padded row; blockIdx.y: operand
 * launch     grid 16 SMs x operands, block 256
 * order      fixed: copies */
#ifndef MBA_SSD_TILED_PAD_CUH
#define MBA_SSD_TILED_PAD_CUH

#include "ops/ssd/fused/ssd_fused_task.cuh"

/* An operand and its padded rows (tokens, heads, pitch). adds: results are added to what is there. */
struct padded_rows {
    strided<bf16> rows;
    bf16         *padded;
    int           heads, width, pitch;
    bool          adds;
};
struct pad_task {
    padded_rows operand[4];
    int         L, tokens;
};

template <bool BACK> static __device__ __forceinline__ void pad_block(const pad_task &t)
{
    const padded_rows &p = t.operand[blockIdx.y];
    const int          vectors = p.pitch / SSD_PAD_TO, each = p.heads * vectors; // of a head, of a token
    for (int token = (int)blockIdx.x; token < t.tokens; token += (int)gridDim.x) {
        const int b = token / t.L, l = token % t.L;
        for (int v = (int)threadIdx.x; v < each; v += (int)blockDim.x) {
            const int h = v / vectors, in_row = v % vectors * SSD_PAD_TO;
            bf16     *at = p.rows.row(b, l, h) + in_row;
            uint4    *padded = (uint4 *)p.padded + (int64_t)token * each + v;
            bf16      value[SSD_PAD_TO];
            if (BACK) *(uint4 *)value = *padded;
#pragma unroll
            for (int i = 0; i < SSD_PAD_TO; i++) {
                const bool real = in_row + i < p.width;
                if (!BACK) value[i] = real ? at[i] : from_float<bf16>(0);
                else if (real) at[i] = p.adds ? from_float<bf16>(to_float(at[i]) + to_float(value[i])) : value[i];
            }
            if (!BACK) *padded = *(const uint4 *)value;
        }
    }
}
static __global__ void __launch_bounds__(256) ssd_tiled_pad(const __grid_constant__ pad_task t) { pad_block<false>(t); }
/* Four blocks per SM: for more of them the compiler spills on sm_80. */
static __global__ void __launch_bounds__(256, 4) ssd_tiled_unpad(const __grid_constant__ pad_task t)
{
    pad_block<true>(t);
}

/* ---- for launchers ---- */

/* Replaces an operand by padded rows at `to`, and advances that. */
template <typename T>
static padded_rows pad_operand(strided<T> &s, char *&to, const fused_task &a, int heads, int width, bool adds = false)
{
    const int     pitch = (int)(mba_ceil(width, SSD_PAD_TO) * SSD_PAD_TO);
    const int64_t token = (int64_t)heads * pitch;
    padded_rows   p = { { (bf16 *)s.at, { s.axis[0], s.axis[1], s.axis[2] } }, NULL, heads, width, pitch, adds };
    p.padded = take<bf16>(to, a.B * (int64_t)a.L * token);
    s = { p.padded, { a.L * token, token, pitch } };
    return p;
}

/* Replaces operands of the task and the result y (backward: dx) by padded rows. An operand that is not padded has no
 * heads in the task of copies. */
struct padded_task {
    pad_task in, out;
};
static padded_task pad_all(fused_task &a, strided<bf16> &y, char *to, ssd_padding pad, bool backward)
{
    padded_task t = {};
    t.in.L = t.out.L = a.L;
    t.in.tokens = t.out.tokens = a.B * a.L; // check_fused() bounds it
    if (pad.x) {
        t.in.operand[0] = pad_operand(a.x, to, a, a.heads, a.P);
        t.out.operand[0] = pad_operand(y, to, a, a.heads, a.P);
        if (backward) t.in.operand[3] = pad_operand(a.dy, to, a, a.heads, a.P);
    }
    if (pad.b) {
        t.in.operand[1] = pad_operand(a.bm, to, a, a.G, a.N);
        t.in.operand[2] = pad_operand(a.cm, to, a, a.G, a.N);
    }
    if (!backward || !pad.b) return t;
    t.out.operand[1] = pad_operand(a.dbm, to, a, a.G, a.N, a.adds[DBM]);
    t.out.operand[2] = pad_operand(a.dcm, to, a, a.G, a.N, a.adds[DCM]);
    a.adds[DBM] = a.adds[DCM] = false;
    return t;
}

#endif
