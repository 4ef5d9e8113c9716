// SPDX-License-Identifier: Apache-2.0
/* image_bench.h -- measures how many images a core decodes, crops, augments and normalises per second.
 *
 *     mba_image_bench b;
 *     MBA_TRY(mba_image_bench_run(&b, &(mba_image_bench_options){ .threads = 1, .seconds = 2 }));
 *     printf("%.0f images/s per thread\n", b.images_per_s);
 *
 * The files are synthetic photographs that it compresses itself. Fields of 0 mean the defaults below. */
#ifndef MBA_IMAGE_BENCH_H
#define MBA_IMAGE_BENCH_H

#include <stdbool.h>
#include <stdint.h>

#include "core/status.h"

typedef struct mba_image_bench_options {
    int     threads; /* 0 is 1 */
    double  seconds; /* 0 is 2 */
    int32_t W, H;    /* of the files, 0 is 500 x 375, the mean of ImageNet */
    int32_t size;    /* of the result, 0 is 224 */
    int     quality; /* of the compression, 0 is 94: about 110 kB as in ImageNet */
    bool    png;     /* PNG files instead of JPEG */
    bool    plain;   /* decode, crop and normalise only: no RandAugment, no erasing */
} mba_image_bench_options;

typedef struct mba_image_bench {
    double  images_per_s;     /* per thread, in wall-clock time */
    double  images_per_cpu_s; /* per second of processor time, which other processes disturb less */
    double  file_bytes;       /* mean */
    double  seconds;
    int64_t images; /* of all threads */
    int     threads;
} mba_image_bench;

MBA_MUST mba_status mba_image_bench_run(mba_image_bench *out, const mba_image_bench_options *o);

#endif
