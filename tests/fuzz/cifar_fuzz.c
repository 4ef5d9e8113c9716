// SPDX-License-Identifier: Apache-2.0
/* cifar_fuzz.c -- any bytes as records of CIFAR-10 and CIFAR-100: every label in its range, every pixel read. */
#include "fuzz.h"
#include "data/image_set.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    for (int fine = 0; fine < 2; fine++) {
        mba_image_set *s;
        mba_sample     p = { 0 };
        mba_status     st = mba_cifar_open_bytes(&s, "fuzz", bytes, n, fine);
        if (st != MBA_OK) {
            check_refusal(st);
            continue;
        }
        mba_assert(s->count * (3073 + fine) == (int64_t)n);
        for (int64_t i = 0; i < s->count; i++) {
            st = mba_image_set_read(s, i, &p);
            if (st != MBA_OK) check_refusal(st);
            else mba_assert(p.label >= 0 && p.label < s->classes && p.image.W == 32 && p.image.H == 32);
        }
        mba_sample_free(&p);
        mba_image_set_close(s);
    }
    return 0;
}
