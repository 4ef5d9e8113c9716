// SPDX-License-Identifier: Apache-2.0
/* fuzz.h -- what the fuzz targets share: `./run fuzz TARGET SECONDS`.
 *
 * A target gives a reader any bytes. It must come back with a status and, where it fails, with a story; what
 * it accepts must be consistent and readable to the last byte. The sanitizers watch the rest. */
#ifndef MBA_FUZZ_H
#define MBA_FUZZ_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <jansson.h>
#include "core/status.h"
#include "data/array.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

/* The same input must take the same path every time, also through Jansson's hash tables. */
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    json_object_seed(1);
    return 0;
}

/* A refusal says what, why and how to go on, and is one of the reasons a file can give. */
static inline void check_refusal(mba_status st)
{
    mba_assert(st == MBA_E_FORMAT || st == MBA_E_UNSUPPORTED);
    mba_assert(strstr(mba_message(), "\nwhy: ") && strstr(mba_message(), "\nfix: "));
}

/* Reads every value of an array, in copies of its exact size so that one byte too far is seen. */
static inline void read_array(const mba_array *a)
{
    mba_assert(a->elems >= 0 && a->bytes == a->elems * (int64_t)mba_file_dtype_bytes(a->dtype));
    float  *f = malloc((size_t)a->elems * sizeof *f + 1);
    double *d = malloc((size_t)a->elems * sizeof *d + 1);
    char   *b = malloc((size_t)a->bytes + 1);
    mba_assert(f && d && b);
    if (a->bytes) memcpy(b, a->data, (size_t)a->bytes);
    if (mba_array_read_f32(a, f, a->elems) != MBA_OK) mba_assert(strstr(mba_message(), "\nwhere: "));
    if (mba_array_read_f64(a, d, a->elems) != MBA_OK) mba_assert(strstr(mba_message(), "\nwhere: "));
    mba_assert(mba_array_read_f32(a, f, a->elems + 1) == MBA_E_SHAPE);
    free(f);
    free(d);
    free(b);
}

#endif
