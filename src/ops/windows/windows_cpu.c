// SPDX-License-Identifier: Apache-2.0
/* windows_cpu.c -- window_partition and window_reverse on the CPU: copies or adds rows of channels, lines of windows in
 * parallel. */
#include "ops/windows/windows_slots.h"

static void move_row(float *to, const float *from, int64_t C, bool adds)
{
    if (adds)
        for (int64_t i = 0; i < C; i++) to[i] += from[i];
    else memcpy(to, from, sizeof(float) * (size_t)C);
}

/* Padding becomes zeros; if the result adds, padding adds nothing. */
mba_status MBA_CPU_FN(window_partition)(const mba_call *c)
{
    const windows_attr *a = c->node->attr;
    const mba__rows     image = mba__rows_of(c->node->in[FROM], c->in[FROM]);
    const mba__rows     tokens = mba__rows_of(c->node->out[TO], c->out[TO]);
    const int64_t       C = image.cols;
    const bool          adds = mba_adds(c->node, TO);
    MBA_PARALLEL_FOR(line, windows_tokens(a) / a->w)
    for (int64_t r = line * a->w; r < (line + 1) * a->w; r++) {
        const int64_t pixel = windows_pixel(a, r);
        if (pixel >= 0) move_row(mba__row(tokens, r), mba__row(image, pixel), C, adds);
        else if (!adds) memset(mba__row(tokens, r), 0, sizeof(float) * (size_t)C);
    }
    return MBA_OK;
}

mba_status MBA_CPU_FN(window_reverse)(const mba_call *c)
{
    const windows_attr *a = c->node->attr;
    const mba__rows     tokens = mba__rows_of(c->node->in[FROM], c->in[FROM]);
    const mba__rows     image = mba__rows_of(c->node->out[TO], c->out[TO]);
    const int64_t       C = tokens.cols;
    const bool          adds = mba_adds(c->node, TO);
    MBA_PARALLEL_FOR(line, windows_tokens(a) / a->w)
    for (int64_t r = line * a->w; r < (line + 1) * a->w; r++) {
        const int64_t pixel = windows_pixel(a, r);
        if (pixel >= 0) move_row(mba__row(image, pixel), mba__row(tokens, r), C, adds);
    }
    return MBA_OK;
}
