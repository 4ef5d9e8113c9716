/* ledger_test.c -- the ledger keeps runs of pages; here every page is kept by itself, and both must find the same. */
#include "tests/test.h"

#include <math.h>

#include "sim/ledger.h"

enum { PAGES = 600, PAGE = 1 << 18, KERNELS = 4000, STREAMS = 3 };

static uint64_t dice_state = 88172645463325252u;

static int64_t dice(int64_t below)
{
    dice_state ^= dice_state << 13;
    dice_state ^= dice_state >> 7;
    dice_state ^= dice_state << 17;
    return (int64_t)(dice_state % (uint64_t)below);
}

/* ---- the same by pages ---- */

typedef struct plain { double at, size, written; float dirty; bool seen; } plain;
typedef struct pages { plain page[PAGES + 2]; double now, come; const mba_gpu *m; } pages;

static int64_t first_of(mba_place p) { return p.address / PAGE; }
static int64_t last_of(mba_place p) { return (p.address + p.span - 1) / PAGE; }
static double  dirty_after(const pages *l, double d) { return mba_ledger_hit(l->m, 2 * d); }

static double found_by_pages(const pages *l, mba_place p, double size)
{
    double sum = 0;
    for (int64_t i = first_of(p); i <= last_of(p); i++)
        if (l->page[i].seen) sum += mba_ledger_hit(l->m, l->now - l->page[i].at + (size + l->page[i].size) / 2);
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

static void touch_by_pages(pages *l, mba_place p, double size, double dirty)
{
    for (int64_t i = first_of(p); i <= last_of(p); i++) {
        plain *g = &l->page[i];
        g->at = l->now; g->size = size; g->seen = true;
        if (dirty > 0) g->written = l->come;
        if (dirty > g->dirty) g->dirty = (float)dirty;
    }
}

/* Of bytes written while `size` pass, the share that leaves: as the ledger says it by the hits of a written stream. */
static double kernel_by_pages(pages *l, const mba_place place[STREAMS], const mba_sim_kernel *k, double leaves,
                              double hit[STREAMS])
{
    double size = 0, here = 0;
    for (int s = 0; s < STREAMS; s++) size += k->stream[s].unique;
    for (int s = 0; s < STREAMS; s++) {
        hit[s] = found_by_pages(l, place[s], size);
        here += hit[s] * k->stream[s].unique;
    }
    const double come = size > here ? size - here : 0, out = driven_out_by_pages(l, come);
    l->now  += size;
    l->come += come;
    for (int s = 0; s < STREAMS; s++) if (!k->stream[s].writes) touch_by_pages(l, place[s], size, 0);
    for (int s = 0; s < STREAMS; s++)
        if (k->stream[s].writes) {
            const double all = (double)(last_of(place[s]) - first_of(place[s]) + 1) * PAGE;
            touch_by_pages(l, place[s], size, (1 - leaves) * (k->stream[s].unique < all ? k->stream[s].unique / all : 1));
        }
    return out;
}

/* ---- random kernels ---- */

/* Windows overlap, end within pages, and come again; none is of the same bytes as another of its kernel. */
static void random_kernel(mba_sim_kernel *k, mba_place place[MBA_SIM_STREAMS])
{
    *k = (mba_sim_kernel){ .grid = 100, .threads = 128, .warps = 4, .regs = 32, .nstreams = STREAMS };
    for (int s = 0; s < STREAMS; s++) {
        const int64_t from = dice(12) * 48 * PAGE + (dice(2) ? 0 : dice(PAGE)), span = 1 + dice(46 * PAGE) + s;
        place[s] = (mba_place){ from, span };
        k->stream[s] = (mba_sim_stream){ .operand = s, .writes = s == 2, .moved = (double)span, .unique = (double)span };
    }
}

/* What is left of written bytes when a kernel ends, from first principles: 32 moments of it. */
static double share_that_leaves(const mba_gpu *m, const mba_sim_kernel *k)
{
    double size = 0, kept = 0;
    for (int s = 0; s < STREAMS; s++) size += k->stream[s].unique;
    const double reach = 3e6 * m->v[MBA_GPU_l2_c50], far = size < reach ? size : reach;
    for (int i = 0; i < 32; i++) kept += mba_ledger_hit(m, 2 * far * (i + 0.5) / 32);
    return 1 - kept / 32 * far / size;
}

static void runs_of_pages_are_pages(void **state)
{
    (void)state;
    static pages by;
    mba_ledger  *l;
    mba_gpu      m;
    double       far_off = 0;
    assert_ok(mba_gpu_load(&m, "h200"));
    by = (pages){ .m = &m };
    assert_ok(mba_ledger_create(&l, (int64_t)PAGES * PAGE, &m));
    for (int i = 0; i < KERNELS; i++) {
        mba_sim_kernel k;
        mba_place      place[MBA_SIM_STREAMS] = { { 0, 0 } };
        double         hit[STREAMS];
        random_kernel(&k, place);
        const double out = kernel_by_pages(&by, place, &k, share_that_leaves(&m, &k), hit);
        mba_ledger_kernel(l, &k, place);
        for (int s = 0; s < 2; s++) assert_true(fabs((double)k.stream[s].hit - 256 * hit[s]) <= 0.5001);
        if (fabs((double)k.evicts - out) > far_off) far_off = fabs((double)k.evicts - out);
        if (i % 97 == 96) {
            mba_ledger_sweep(l);
            by.now += 1e12;
            by.come += 1e12;
        }
    }
    mba_ledger_destroy(l);
    printf("bytes driven out by %d kernels: at most %.3f apart\n", KERNELS, far_off);
    assert_true(far_off <= 1.01);                              // whole bytes, of up to 30 MB; sums in another order
}

MBA_TEST_MAIN(cmocka_unit_test(runs_of_pages_are_pages))
