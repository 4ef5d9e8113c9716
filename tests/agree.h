// SPDX-License-Identifier: Apache-2.0
/* agree.h -- two ways to the same numbers: how far apart they are, in the fp64 reference and in the program.
 *
 *     worst w = { 0 };
 *     compare(&w, a, b, n, which);                        // for every tensor, which = 0 the reference, 1 the program
 *     assert_equal_to_rounding("packed against padded", w); */
#ifndef MBA_AGREE_H
#define MBA_AGREE_H

#include "tests/rig.h"

/* The worst of all tensors, in the reference and in the program. */
typedef struct worst {
    double want, have, largest[2];
} worst;

static inline double value(rig *r, const mba_tensor *t, int64_t i, int which)
{
    return which ? (double)rig_have(r, t, i) : rig_want(r, t, i);
}

static inline void compare(worst *w, const double *a, const double *b, int64_t n, int which)
{
    double d = 0, s = 0;
    for (int64_t i = 0; i < n; i++) d += pow(a[i] - b[i], 2), s += b[i] * b[i];
    const double e = sqrt(d) / fmax(sqrt(s), (which ? 1 : 1e-4) * w->largest[which]);
    double      *to = which ? &w->have : &w->want;
    assert_true(s == s);
    if (!(e <= *to)) *to = e;
}

static inline void judge(worst *all, worst w)
{
    if (!(w.want <= all->want)) all->want = w.want;
    if (!(w.have <= all->have)) all->have = w.have;
}

static inline void assert_equal_to_rounding(const char *what, worst w)
{
    printf("    %s: fp64 within %.1e, fp32 within %.1e\n", what, w.want, w.have);
    assert_true(w.want <= 1e-12);
    assert_true(w.have <= 1e-6);
}

#endif
