// SPDX-License-Identifier: Apache-2.0
/* windows_slots.h -- what the files of windows share: slots by name, attributes and the declarations of variants. */
#ifndef MBA_WINDOWS_SLOTS_H
#define MBA_WINDOWS_SLOTS_H

#include "ops/rows.h"

enum { FROM }; /* partition: the image; reverse: the tokens */
enum { TO };

typedef struct windows_attr {
    int64_t B, H, W, w;
} windows_attr; /* the image, and the side of a window */

static inline int64_t windows_down(const windows_attr *a) { return mba_ceil(a->H, a->w); }
static inline int64_t windows_across(const windows_attr *a) { return mba_ceil(a->W, a->w); }
static inline int64_t windows_tokens(const windows_attr *a)
{
    return a->B * windows_down(a) * windows_across(a) * a->w * a->w;
}

/* The row of the image (b, y, x) that is token r of all windows; -1 if it is padding. */
static inline int64_t windows_pixel(const windows_attr *a, int64_t r)
{
    const int64_t token = r % (a->w * a->w), m = r / (a->w * a->w), nW = windows_across(a), nH = windows_down(a);
    const int64_t y = m / nW % nH * a->w + token / a->w, x = m % nW * a->w + token % a->w;
    return y < a->H && x < a->W ? (m / nW / nH * a->H + y) * a->W + x : -1;
}

void window_partition_ref(const mba_ref_call *c);
void window_reverse_ref(const mba_ref_call *c);
MBA_CPU_DECLARE(window_partition);
MBA_CPU_DECLARE(window_reverse);
mba_launch_fn window_partition_cuda, window_reverse_cuda;

#endif
