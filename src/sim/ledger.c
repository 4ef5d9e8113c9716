/* ledger.c -- see ledger.h. */
#include "sim/ledger.h"

#include <math.h>
#include <stdlib.h>

enum { PAGE_BITS = 18 };                          /* 256 KB */

typedef struct page {
    double at, size;
    int32_t seen, dirty;
} page; /* end and size of the kernel that touched it last */

struct mba_ledger {
    const mba_gpu *m;
    page   *pages;
    int64_t npages;
    double  now;                                  /* different bytes that have passed so far */
};

/* x to the power of s, a multiple of one half, by multiplications and one root: the same bits everywhere. */
static double power(double x, double s)
{
    double       y = s != floor(s) ? sqrt(x) : 1;
    unsigned     n = (unsigned)s;
    for (; n; n >>= 1, x *= x) if (n & 1) y *= x;
    return y;
}

double mba_ledger_hit(const mba_gpu *m, double d)
{
    return d > 0 ? 1 / (1 + power(d / (m->v[MBA_GPU_l2_c50] * 1e6), m->v[MBA_GPU_l2_s])) : 1;
}

mba_status mba_ledger_create(mba_ledger **out, int64_t bytes, const mba_gpu *m)
{
    mba_ledger *l = calloc(1, sizeof *l);
    const int64_t n = (bytes >> PAGE_BITS) + 2;
    if (l) l->pages = calloc((size_t)n, sizeof *l->pages);
    if (!l || !l->pages) {
        free(l);
        return mba_fail(MBA_E_NOMEM, "no memory for the ledger of %lld pages", (long long)n);
    }
    l->m      = m;
    l->npages = n;
    *out      = l;
    return MBA_OK;
}

void mba_ledger_destroy(mba_ledger *l)
{
    if (l) free(l->pages);
    free(l);
}

void mba_ledger_sweep(mba_ledger *l) { l->now += 1e12; }

static int64_t first_page(const mba_ledger *l, mba_place p)
{
    return p.address >> PAGE_BITS < l->npages ? p.address >> PAGE_BITS : l->npages - 1;
}
static int64_t last_page(const mba_ledger *l, mba_place p)
{
    const int64_t i = (p.address + p.span - 1) >> PAGE_BITS;
    return i < l->npages ? i : l->npages - 1;
}

/* The share of a window that is still there, before a kernel of `size` bytes has touched anything. `dirty`: of what was
 * written. */
static double found(const mba_ledger *l, mba_place p, double size, bool dirty)
{
    double sum = 0, hit = 0, at = -1, of = -1;
    if (p.span <= 0) return 0;
    for (int64_t i = first_page(l, p); i <= last_page(l, p); i++) {
        const page *g = &l->pages[i];
        if (!g->seen || (dirty && !g->dirty)) continue;
        if (g->at != at || g->size != of) {                    // runs of pages share their past
            at  = g->at;
            of  = g->size;
            hit = mba_ledger_hit(l->m, l->now - at + (size + of) / 2);
        }
        sum += hit;
    }
    return sum / (double)(last_page(l, p) - first_page(l, p) + 1);
}

/* Different bytes of all streams that co-resident blocks have in work: how far apart two reads of the same byte are. */
static double working_set(const mba_sim_kernel *k, const mba_gpu *m, double *sharers)
{
    const double places = (double)mba_sim_resident(k, m) * m->v[MBA_GPU_sm], grid = (double)k->grid;
    const double piece = k->piece > 0 ? k->piece : 1, at_once = (places < grid ? places / grid : 1) * piece;
    double sum = 0;
    *sharers = sqrt(places < grid ? places : grid);            // tiles in work form a square
    for (int64_t s = 0; s < k->nstreams; s++) {
        const mba_sim_stream *t = &k->stream[s];
        const double reuse = t->unique > 0 ? t->moved / t->unique : 1, together = reuse < *sharers ? reuse : *sharers;
        const double in_work = t->moved * at_once / together;
        sum += in_work < t->unique ? in_work : t->unique;
    }
    return sum;
}

/* Bytes that blocks read together, in step, reach DRAM once; those that a later round of blocks reads again hit as the
 * working set of a round lets them; the first touch hits what is left from before. */
void mba_ledger_kernel(mba_ledger *l, mba_sim_kernel *k, const mba_place place[MBA_SIM_STREAMS])
{
    double size = 0, sharers;
    for (int64_t s = 0; s < k->nstreams; s++) size += k->stream[s].unique;
    const double again = mba_ledger_hit(l->m, working_set(k, l->m, &sharers));
    for (int64_t s = 0; s < k->nstreams; s++) {
        mba_sim_stream *t = &k->stream[s];
        const double reuse = t->unique > 0 ? t->moved / t->unique : 1, together = reuse < sharers ? reuse : sharers;
        const double rounds = t->moved / together, later = rounds > t->unique ? rounds - t->unique : 0;
        const double hits =
            found(l, place[s], size, t->writes) * t->unique + (t->moved - t->unique - later) + again * later;
        t->hit = t->moved > 0 ? (int64_t)(256 * hits / t->moved + 0.5) : 0;
        if (t->hit > 256) t->hit = 256;
    }
    l->now += size;
    for (int64_t s = 0; s < k->nstreams; s++)
        for (int64_t i = first_page(l, place[s]); place[s].span > 0 && i <= last_page(l, place[s]); i++) {
            page *g = &l->pages[i];
            *g = (page){ l->now, size, 1, k->stream[s].writes || (g->dirty && g->at == l->now) };
        }
}
