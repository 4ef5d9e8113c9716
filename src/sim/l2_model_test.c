// SPDX-License-Identifier: Apache-2.0
/* l2_model_test.c -- laws of the L2 model, and a reference without runs of pages, which must give the same hits. */
#include "tests/test.h"

#include <math.h>

#include "sim/l2_model.h"
#include "tests/dice.h"

enum { PAGES = 600, PAGE = 1 << 18, KERNELS = 4000, STREAMS = 3 };

/* ---- the same by pages ---- */

typedef struct plain {
    double at, size, written;
    float  dirty;
    bool   seen;
} plain;
typedef struct pages {
    plain          page[PAGES + 2];
    double         now, come;
    const mba_gpu *m;
} pages;

static int64_t first_of(mba_address_range p) { return p.address / PAGE; }
static int64_t last_of(mba_address_range p) { return (p.address + p.span - 1) / PAGE; }
static double  dirty_after(const pages *l, double d) { return mba_l2_model_hit_rate(l->m, 2 * d); }

static double found_by_pages(const pages *l, mba_address_range p, double size)
{
    double sum = 0;
    for (int64_t i = first_of(p); i <= last_of(p); i++)
        if (l->page[i].seen) sum += mba_l2_model_hit_rate(l->m, l->now - l->page[i].at + (size + l->page[i].size) / 2);
    return sum / (double)(last_of(p) - first_of(p) + 1);
}

static double driven_out_by_pages(pages *l, double come)
{
    double bytes = 0;
    for (int64_t i = 0; i < PAGES + 2; i++) {
        plain *g = &l->page[i];
        if (!(g->dirty > 0)) continue;
        const double before = dirty_after(l, l->come - g->written),
                     stays = before > 0 ? dirty_after(l, l->come + come - g->written) / before : 0;
        bytes += g->dirty * (1 - stays) * PAGE;
        g->dirty = g->dirty * stays > 0.004 ? (float)(g->dirty * stays) : 0;
    }
    return bytes;
}

static void touch_by_pages(pages *l, mba_address_range p, double size, double dirty)
{
    for (int64_t i = first_of(p); i <= last_of(p); i++) {
        plain *g = &l->page[i];
        g->at = l->now;
        g->size = size;
        g->seen = true;
        if (dirty > 0) g->written = l->come;
        if (dirty > g->dirty) g->dirty = (float)dirty;
    }
}

/* Of bytes written while `size` bytes pass, the share that leaves L2, by the hits of a written stream. */
static double kernel_by_pages(pages *l, const mba_address_range place[STREAMS], const mba_sim_kernel *k, double leaves,
                              double hit[STREAMS])
{
    double size = 0, here = 0;
    for (int s = 0; s < STREAMS; s++) size += k->stream[s].unique;
    for (int s = 0; s < STREAMS; s++) {
        hit[s] = found_by_pages(l, place[s], size);
        here += hit[s] * k->stream[s].unique;
    }
    const double come = size > here ? size - here : 0, out = driven_out_by_pages(l, come);
    l->now += size;
    l->come += come;
    for (int s = 0; s < STREAMS; s++)
        if (!k->stream[s].writes) touch_by_pages(l, place[s], size, 0);
    for (int s = 0; s < STREAMS; s++)
        if (k->stream[s].writes) {
            const double all = (double)(last_of(place[s]) - first_of(place[s]) + 1) * PAGE;
            touch_by_pages(l, place[s], size,
                           (1 - leaves) * (k->stream[s].unique < all ? k->stream[s].unique / all : 1));
        }
    return out;
}

/* ---- random kernels ---- */

/* Windows overlap, end within pages, and come again; none is of the same bytes as another of its kernel. */
static void random_kernel(mba_sim_kernel *k, mba_address_range place[MBA_SIM_STREAMS])
{
    *k = (mba_sim_kernel){ .grid = 100, .threads = 128, .warps = 4, .regs = 32, .nstreams = STREAMS };
    for (int s = 0; s < STREAMS; s++) {
        const int64_t from = (int64_t)dice(12) * 48 * PAGE + (dice(2) ? 0 : (int64_t)dice(PAGE)),
                      span = 1 + (int64_t)dice(46 * PAGE) + s;
        place[s] = (mba_address_range){ from, span };
        k->stream[s] =
            (mba_sim_stream){ .operand = s, .writes = s == 2, .moved = (double)span, .unique = (double)span };
    }
}

/* What is left of written bytes when a kernel ends, from first principles: 32 moments of it. */
static double share_that_leaves(const mba_gpu *m, const mba_sim_kernel *k)
{
    double size = 0, kept = 0;
    for (int s = 0; s < STREAMS; s++) size += k->stream[s].unique;
    const double reach = 3e6 * m->v[MBA_GPU_l2_half_reuse], far = size < reach ? size : reach;
    for (int i = 0; i < 32; i++) kept += mba_l2_model_hit_rate(m, 2 * far * (i + 0.5) / 32);
    return 1 - kept / 32 * far / size;
}

static void runs_of_pages_are_pages(void **state)
{
    (void)state;
    static pages  by;
    mba_l2_model *l;
    mba_gpu       m;
    double        far_off = 0;
    assert_ok(mba_gpu_load(&m, "h200"));
    by = (pages){ .m = &m };
    assert_ok(mba_l2_model_create(&l, (int64_t)PAGES * PAGE, &m));
    for (int i = 0; i < KERNELS; i++) {
        mba_sim_kernel    k;
        mba_address_range place[MBA_SIM_STREAMS] = { { 0, 0 } };
        double            hit[STREAMS];
        random_kernel(&k, place);
        const double out = kernel_by_pages(&by, place, &k, share_that_leaves(&m, &k), hit);
        mba_l2_model_access(l, &k, place);
        for (int s = 0; s < 2; s++) assert_true(fabs((double)k.stream[s].hit - 256 * hit[s]) <= 0.5001);
        if (fabs((double)k.evicts - out) > far_off) far_off = fabs((double)k.evicts - out);
        if (i % 97 == 96) {
            mba_l2_model_flush(l);
            by.now += 1e12;
            by.come += 1e12;
        }
    }
    mba_l2_model_destroy(l);
    printf("bytes driven out by %d kernels: at most %.3f apart\n", KERNELS, far_off);
    assert_true(far_off <= 1.01); // whole bytes, of up to 30 MB; sums in another order
}

/* ---- laws ---- */

static double dram_of(double c50_mb, double bytes, int passes)
{
    mba_gpu       m;
    mba_l2_model *l;
    double        sum = 0;
    assert_ok(mba_gpu_load(&m, "h200"));
    m.v[MBA_GPU_l2_half_reuse] = c50_mb;
    assert_ok(mba_l2_model_create(&l, (int64_t)bytes, &m));
    for (int i = 0; i < passes; i++) {
        mba_sim_kernel          k = { .grid = 1000, .threads = 256, .warps = 8, .regs = 32, .nstreams = 1 };
        const mba_address_range place[MBA_SIM_STREAMS] = { { 0, (int64_t)bytes } };
        k.stream[0] = (mba_sim_stream){ .operand = 0, .moved = bytes, .unique = bytes };
        mba_l2_model_access(l, &k, place);
        assert_true(k.stream[0].hit >= 0 && k.stream[0].hit <= 256);
        sum += bytes * (double)(256 - k.stream[0].hit) / 256;
    }
    mba_l2_model_destroy(l);
    return sum;
}

static void a_larger_cache_never_reads_more(void **state)
{
    (void)state;
    const double sizes[] = { 1e6, 8e6, 30e6, 60e6, 200e6 };
    for (int s = 0; s < 5; s++) {
        double before = INFINITY;
        for (double c50 = 1; c50 < 5000; c50 *= 1.5) {
            const double d = dram_of(c50, sizes[s], 4);
            assert_true(d <= before + 1);
            before = d;
        }
        assert_true(dram_of(1e5, sizes[s], 4) <= sizes[s] * 1.02); // the first read is all there is
        assert_true(dram_of(0.01, sizes[s], 4) >= 4 * sizes[s] * 0.98);
    }
}

/* What is written reaches DRAM once, by whoever drives it out of L2; what is written again before that, never. */
static void bytes_are_written_once(void **state)
{
    (void)state;
    enum { TENSORS = 40, BYTES = 8 << 20 };
    mba_gpu       m;
    mba_l2_model *l;
    double        once = 0, in_place = 0;
    assert_ok(mba_gpu_load(&m, "h200"));
    for (int again = 0; again < 2; again++) {
        assert_ok(mba_l2_model_create(&l, (int64_t)BYTES * (TENSORS + 40), &m));
        for (int i = 0; i < TENSORS + 40; i++) { // the last forty only read, elsewhere
            mba_sim_kernel          k = { .grid = 1000, .threads = 256, .warps = 8, .regs = 32, .nstreams = 1 };
            const bool              writes = i < TENSORS;
            const mba_address_range place[MBA_SIM_STREAMS] = { { again && writes ? 0 : (int64_t)BYTES * i, BYTES } };
            k.stream[0] = (mba_sim_stream){ .writes = writes, .moved = BYTES, .unique = BYTES };
            mba_l2_model_access(l, &k, place);
            assert_true(k.evicts >= 0 && k.stream[0].hit >= 0 && k.stream[0].hit <= 256);
            *(again ? &in_place : &once) += (double)k.evicts
                                            + (writes ? BYTES * (double)(256 - k.stream[0].hit) / 256 : 0);
        }
        mba_l2_model_destroy(l);
    }
    assert_true(once > 0.95 * TENSORS * BYTES && once < 1.02 * TENSORS * BYTES);
    assert_true(in_place > 0.9 * BYTES && in_place < 1.2 * BYTES);
}

/* The sweep of RRZE's gpu-benches on a GH200: half of what is reread comes from L2 near 47.5 MB. */
static void the_hit_curve_is_that_of_public_sweeps(void **state)
{
    (void)state;
    mba_gpu m;
    assert_ok(mba_gpu_load(&m, "h200"));
    m.v[MBA_GPU_l2_half_reuse] = 47.5;
    assert_true(mba_l2_model_hit_rate(&m, 20e6) > 0.98 && mba_l2_model_hit_rate(&m, 130e6) < 0.02);
    assert_true(fabs(mba_l2_model_hit_rate(&m, 47.5e6) - 0.5) < 1e-12);
}

MBA_TEST_MAIN(cmocka_unit_test(runs_of_pages_are_pages), cmocka_unit_test(a_larger_cache_never_reads_more),
              cmocka_unit_test(bytes_are_written_once), cmocka_unit_test(the_hit_curve_is_that_of_public_sweeps))
