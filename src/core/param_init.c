// SPDX-License-Identifier: Apache-2.0
/* param_init.c -- gives parameters and states their initial values. They depend on name and seed alone, not on the
 * order or the device. mba_init_value (program.h) says what a value is, mba_program_init writes them. */
#include <math.h>
#include "core/random_fill.h"
#include "core/program.h"
#include "core/rng.h"

static uint64_t key_of(const mba_tensor *t, uint64_t seed) { return seed ^ mba_stream(t->name); }

static double unit_at(uint64_t key, int64_t i)
{
    uint32_t u[4];
    mba_philox(u, key, 0, (uint64_t)i);
    return mba_unit(u[0]);
}

static double value_at(const mba_tensor *t, uint64_t key, int64_t i)
{
    const double a = t->init.a, b = t->init.b;
    switch (t->init.dist) {
    case MBA_UNIFORM: return mba_uniform(a, key, i);
    case MBA_NORMAL: return mba_normal(a, key, i);
    case MBA_LOG_INDEX: return (float)log(1 + (double)(i % mba_cols(t)));
    case MBA_LOG_UNIFORM: return (float)log(a + (b - a) * unit_at(key, i));
    case MBA_STEP_BIAS: {
        const double step = fmax(a * pow(b / a, unit_at(key, i)), 1e-4);
        return (float)(step + log(-expm1(-step))); // the inverse of softplus
    }
    default: return a;
    }
}

double mba_init_value(const mba_tensor *t, uint64_t seed, int64_t i)
{
    mba_debug_assert(i >= 0 && i < mba_elems(t));
    return value_at(t, key_of(t, seed), i);
}

enum { BUFFER_VALUES = 1 << 23 }; // of the buffer from which the device copies

/* All initial values are fp32: the type of parameters and of the states that have any. */

static bool has_first_values(const mba_program *p, const mba_tensor *t)
{
    const bool state = mba_is_state(t) && t->type.dtype == MBA_F32 && p->layout.first[t->st->id] >= 0;
    return mba_is_param(t) || state;
}

static void first_values(float *x, const mba_tensor *t, uint64_t seed, int64_t from, int64_t n)
{
    const uint64_t key = key_of(t, seed);
    if (t->init.dist == MBA_UNIFORM) mba_uniforms(x, from, n, t->init.a, key);
    else if (t->init.dist == MBA_NORMAL) mba_normals(x, from, n, t->init.a, key);
    else MBA_PARALLEL_FOR(k, n) x[k] = (float)value_at(t, key, from + k);
}

/* Fills the buffers x and half with a part of the values at a time, and copies them to the parameter and to its compute
 * copy. */
static mba_status send_first_values(mba_program *p, const mba_tensor *t, uint64_t seed, float *x, uint16_t *half)
{
    char *copy = t->st->role == MBA_PARAM ? mba__copy_of(p, t) : NULL;
    char *to = p->layout.first[t->st->id] >= 0 ? mba_program_at(p, t) : NULL;
    mba_assert(mba_dense(t) && t->type.dtype == MBA_F32);
    for (int64_t at = 0; at < mba_elems(t); at += BUFFER_VALUES) {
        const int64_t n = mba_elems(t) - at < BUFFER_VALUES ? mba_elems(t) - at : BUFFER_VALUES;
        first_values(x, t, seed, at, n);
        if (copy) MBA_PARALLEL_FOR(k, n) half[k] = mba_to_bf16(x[k]);
        if (copy) MBA_TRY(p->device->put(copy + 2 * at, half, 2 * (size_t)n));
        if (to) MBA_TRY(p->device->put(to + 4 * at, x, 4 * (size_t)n));
        if (p->device->wait) MBA_TRY(p->device->wait()); // before the buffers are filled again
    }
    return MBA_OK;
}

mba_status mba_program_init(mba_program *p, uint64_t seed)
{
    void      *buffer = NULL; // pinned; fp32 values, then bf16 ones
    mba_status st = MBA_OK;
    int64_t    most = 1;
    for (int32_t i = 0; i < p->graph->ntensors; i++)
        if (has_first_values(p, p->graph->tensors[i]) && mba_elems(p->graph->tensors[i]) > most)
            most = mba_elems(p->graph->tensors[i]);
    if (most > BUFFER_VALUES) most = BUFFER_VALUES;
    mba_assert(p->device);
    if (p->device->alloc_host) MBA_TRY(p->device->alloc_host(&buffer, 6 * (size_t)most));
    for (int32_t i = 0; i < p->graph->ntensors && st == MBA_OK; i++) {
        const mba_tensor *t = p->graph->tensors[i];
        if (!has_first_values(p, t)) continue;
        if (buffer) st = send_first_values(p, t, seed, buffer, (uint16_t *)((float *)buffer + most));
        else first_values(mba_program_at(p, t), t, seed, 0, mba_elems(t));
    }
    if (buffer) p->device->dealloc_host(buffer);
    return st;
}
