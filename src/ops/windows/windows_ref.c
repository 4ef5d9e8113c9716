// SPDX-License-Identifier: Apache-2.0
/* windows_ref.c -- the reference of both operators: fp64; the index map of the paper, pixel by pixel. */
#include "ops/windows/windows_slots.h"

/* Called with the offsets of an element in the image and in the tokens. */
typedef void use_fn(const mba_ref_call *c, int64_t image, int64_t token);

static void each_pixel(const mba_ref_call *c, int64_t C, use_fn *use)
{
    const windows_attr *a = c->node->attr;
    const int64_t       w = a->w, nH = windows_down(a), nW = windows_across(a);
    for (int64_t b = 0; b < a->B; b++)
        for (int64_t y = 0; y < a->H; y++)
            for (int64_t x = 0; x < a->W; x++) {
                const int64_t m = (b * nH + y / w) * nW + x / w, t = y % w * w + x % w;
                for (int64_t ch = 0; ch < C; ch++)
                    use(c, ((b * a->H + y) * a->W + x) * C + ch, (m * w * w + t) * C + ch);
            }
}

static void cut(const mba_ref_call *c, int64_t image, int64_t token) { c->out[TO][token] = c->in[FROM][image]; }
static void join(const mba_ref_call *c, int64_t image, int64_t token) { c->out[TO][image] = c->in[FROM][token]; }

void window_partition_ref(const mba_ref_call *c) { each_pixel(c, mba_cols(c->node->in[FROM]), cut); }
void window_reverse_ref(const mba_ref_call *c) { each_pixel(c, mba_cols(c->node->in[FROM]), join); }
