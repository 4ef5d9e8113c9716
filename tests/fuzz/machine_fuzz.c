// SPDX-License-Identifier: Apache-2.0
/* machine_fuzz.c -- any bytes as a machine file, as a change of one, and as a measured set. */
#include "fuzz.h"
#include "sim/engine.h"
#include "sim/profiled.h"
#include "sim/serialize.h"
#include "sim/emulate.h"
#include "sim/measured.h"
#include "sim/signature.h"

/* What a file gives is within its limits, and a kernel runs on it. */
static void use(const mba_gpu *m)
{
    mba_sim_kernel k = { .name = "fuzz",
                         .grid = 300,
                         .threads = 128,
                         .warps = 4,
                         .regs = 32,
                         .nroles = 1,
                         .depth = 1,
                         .role_warps = { 4 },
                         .nstreams = 1,
                         .nops = 2 };
    mba_sim_result r;
    for (int i = 0; i < MBA_GPU_KEYS; i++)
        mba_assert(m->v[i] >= mba_gpu_keys[i].least && m->v[i] <= mba_gpu_keys[i].most);
    k.stream[0] = (mba_sim_stream){ .operand = -1 };
    k.op[0] = (mba_sim_op){ .work = MBA_OP_LOAD, .ring = -1, .parts = 1, .bytes = 4096 };
    k.op[1] = (mba_sim_op){ .work = MBA_OP_EXIT, .stream = -1, .ring = -1, .parts = 1 };
    const mba_status st = mba_sim_finish(&k, m);
    if (st != MBA_OK) check_refusal(st);
    else mba_assert(mba_sim_run(&r, &k, m, MBA_SIM_ONE_SM) == MBA_OK && r.seconds > 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    mba_gpu       m;
    mba_measured *d;
    mba_status    st = mba_gpu_parse(&m, "fuzz", (const char *)bytes, n);
    if (st == MBA_OK) use(&m);
    else if (st != MBA_E_IO) check_refusal(st); // an included path that is not there
    st = mba_measured_parse(&d, "fuzz", (const char *)bytes, n);
    if (st == MBA_OK) {
        mba_assert(d->n > 0);
        mba_measured_score(d, MBA_POINT_HELD);
        mba_measured_destroy(d);
    } else {
        check_refusal(st);
    }
    mba_signatures all;
    st = mba_signatures_parse(&all, "fuzz", (const char *)bytes, n);
    mba_assert(mba_gpu_load(&m, "h200") == MBA_OK);
    if (st != MBA_OK) check_refusal(st);
    for (int i = 0; st == MBA_OK && i < all.n && i < 4; i++) {
        mba_sim_kernel   k;
        const mba_status ok = mba_signature_kernel(&k, &all.one[i], &m);
        if (ok != MBA_OK) check_refusal(ok);
    }
    mba_signatures_free(&all);
    mba_profiled_set *counted;
    st = mba_profiled_parse(&counted, "fuzz", (const char *)bytes, n);
    if (st != MBA_OK) check_refusal(st);
    for (int i = 0; st == MBA_OK && i < counted->n && i < 4; i++) {
        mba_sim_kernel k;
        mba_status     ok = mba_profiled_lower(&k, &counted->one[i], &m);
        if (ok != MBA_OK) check_refusal(ok);
        if (counted->one[i].program) ok = mba_sim_kernel_parse(&k, counted->one[i].program, &m);
        if (ok != MBA_OK) check_refusal(ok);
    }
    if (st == MBA_OK) mba_profiled_destroy(counted);
    static mba_emulated_set imitated;
    st = mba_emulated_parse(&imitated, "fuzz", (const char *)bytes, n);
    if (st != MBA_OK) check_refusal(st);
    char *text = malloc(n + 1);
    mba_assert(text);
    memcpy(text, bytes, n);
    text[n] = '\0';
    if (mba_gpu_set(&m, text) == MBA_OK) use(&m);
    free(text);
    return 0;
}
