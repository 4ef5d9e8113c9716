// SPDX-License-Identifier: Apache-2.0
/* dropout_cpu.c -- dropout on the CPU: blocks of elements in parallel; random numbers are drawn for many counters at
 * once. */
#include "ops/dropout/dropout_slots.h"

enum { BLOCK = 4096, DRAW = 256, COUNTERS = DRAW / 4 }; /* elements per work item and per draw */

/* Philox 4x32-10 (core/rng.h), one round at a time for all counters of a draw, so that the compiler vectorises the
 * loops over j. Element 4 j + k is word k of counter first + j. */
static void draw(uint32_t word[DRAW], uint64_t key, uint64_t hi, uint64_t first)
{
    uint32_t c0[COUNTERS], c1[COUNTERS], c2[COUNTERS], c3[COUNTERS];
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (int j = 0; j < COUNTERS; j++) {
        const uint64_t lo = first + (uint64_t)j;
        c0[j] = (uint32_t)lo;
        c1[j] = (uint32_t)(lo >> 32);
        c2[j] = (uint32_t)hi;
        c3[j] = (uint32_t)(hi >> 32);
    }
    for (int round = 0; round < 10; round++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u)
        for (int j = 0; j < COUNTERS; j++) {
            const uint64_t p0 = (uint64_t)0xD2511F53u * c0[j], p1 = (uint64_t)0xCD9E8D57u * c2[j];
            c0[j] = (uint32_t)(p1 >> 32) ^ c1[j] ^ k0;
            c1[j] = (uint32_t)p1;
            c2[j] = (uint32_t)(p0 >> 32) ^ c3[j] ^ k1;
            c3[j] = (uint32_t)p0;
        }
    for (int j = 0; j < COUNTERS; j++) {
        word[4 * j] = c0[j];
        word[4 * j + 1] = c1[j];
        word[4 * j + 2] = c2[j];
        word[4 * j + 3] = c3[j];
    }
}

/* y (+)= scale x where the word is at least `below`, for elements i .. end-1 of two strided views. Works in spans that
 * are contiguous in both. */
static void apply(const mba_call *c, const uint32_t *word, int64_t i, int64_t end, uint32_t below, float scale)
{
    const mba_tensor *tx = c->node->in[X], *ty = c->node->out[Y];
    const bool        adds = mba_adds(c->node, Y);
    while (i < end) {
        const float *x = (const float *)c->in[X] + i / tx->run * tx->pitch + i % tx->run;
        float       *y = (float *)c->out[Y] + i / ty->run * ty->pitch + i % ty->run;
        int64_t      n = end - i;
        if (n > tx->run - i % tx->run) n = tx->run - i % tx->run;
        if (n > ty->run - i % ty->run) n = ty->run - i % ty->run;
        if (adds)
            for (int64_t k = 0; k < n; k++) y[k] += word[k] < below ? 0 : x[k] * scale;
        else
            for (int64_t k = 0; k < n; k++) y[k] = word[k] < below ? 0 : x[k] * scale;
        word += n;
        i += n;
    }
}

mba_status MBA_CPU_FN(dropout_fwd)(const mba_call *c)
{
    const mba_node *n = c->node;
    const int64_t   all = mba_elems(n->in[X]);
    const double    p = (double)((const dropout_attr *)n->attr)->p;
    const uint32_t  below = (uint32_t)(p * 4294967296.0); // (u + 1) / 2^32 <= p, without rounding
    const uint64_t  key = c->step->seed ^ n->stream, hi = mba_step_counter(c->step);
    MBA_PARALLEL_FOR(b, mba_ceil(all, BLOCK))
    for (int64_t i = b * BLOCK; i < all && i < (b + 1) * BLOCK; i += DRAW) {
        uint32_t word[DRAW];
        draw(word, key, hi, (uint64_t)i / 4);
        apply(c, word, i, i + DRAW < all ? i + DRAW : all, below, (float)(1 / (1 - p)));
    }
    return MBA_OK;
}
