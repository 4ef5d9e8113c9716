// SPDX-License-Identifier: Apache-2.0
/* store_fuzz.c -- any bytes as a store: opened, checked, analysed, judged, verified, exported. */
#include <stdio.h>

#include "fuzz.h"
#include "scope/analysis.h"
#include "scope/blocks.h"
#include "scope/diff.h"
#include "scope/export.h"
#include "scope/memory.h"
#include "study/store_kernels.h"
#include "study/verify.h"
#include "study/verdict_matrix.h"

/* Kernels of the store as the simulator sees them. */
static void lower_kernels(mba_store *s)
{
    static mba_gpu    m;
    mba_store_kernels k;
    mba_sim_kernel    lowered;
    if (!m.built_in) mba_assert(mba_gpu_load(&m, "h200") == MBA_OK);
    mba_status st = mba_store_kernels_read(&k, s);
    if (st != MBA_OK) {
        check_refusal(st);
        return;
    }
    for (int i = 0; i < k.kernels.n; i++)
        if ((st = mba_profiled_lower(&lowered, &k.kernels.one[i], &m)) != MBA_OK) check_refusal(st);
    mba_store_kernels_free(&k);
}

static void read_all(mba_store *s)
{
    static FILE      *nowhere;
    mba_analysis     *a;
    mba_claim         claims[MBA_CLAIMS];
    mba_matrix       *matrix = NULL;
    mba_diff_row     *row = NULL;
    mba_blocks_view  *blocks = NULL;
    mba_reuse        *reuse = NULL;
    mba_verification *v = NULL;
    mba_memory       *memory = NULL;
    int64_t           n;
    if (!nowhere) nowhere = fopen("/dev/null", "w");
    mba_assert(nowhere);
    mba_status st = mba_analysis_create(&a, s);
    if (st != MBA_OK) {
        check_refusal(st);
        return;
    }
    a->beside = &a;
    a->nbeside = 1;
    mba_claims_judge(a, claims);
    if ((st = mba_matrix_create(&matrix, (mba_analysis *[]){ a, a }, 2)) != MBA_OK) check_refusal(st);
    mba_matrix_destroy(matrix);
    for (int g = 0; g < MBA_KERNEL_GROUPS; g++) {
        mba_intensity_of(a, (mba_group_of)g);
        mba_bandwidth_of(a, (mba_group_of)g);
        mba_vector_bound_of(a, (mba_group_of)g);
    }
    if ((st = mba_diff(&row, &n, a, a, 0.03)) != MBA_OK) check_refusal(st);
    if ((st = mba_blocks_of(a, &blocks, &n)) != MBA_OK) check_refusal(st);
    else free(blocks);
    if ((st = mba_reuse_of(a, 1e6, &reuse, &n)) != MBA_OK) check_refusal(st);
    else free(reuse);
    if ((st = mba_verify(&v, &n, a)) != MBA_OK) check_refusal(st);
    if ((st = mba_memory_of(a, &memory)) != MBA_OK) check_refusal(st);
    mba_verified_writes(a);
    free(v);
    mba_memory_destroy(memory);
    if ((st = mba_export_json(nowhere, s)) != MBA_OK) check_refusal(st);
    if ((st = mba_export_trace(nowhere, s)) != MBA_OK) check_refusal(st);
    free(row);
    mba_analysis_destroy(a);
    lower_kernels(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    mba_store *s;
    mba_status st = mba_store_open_bytes(&s, "fuzz", bytes, n);
    if (st != MBA_OK) {
        check_refusal(st);
        return 0;
    }
    if ((st = mba_store_check(s)) != MBA_OK) check_refusal(st);
    read_all(s);
    mba_assert(mba_store_close(s) == MBA_OK);
    return 0;
}
