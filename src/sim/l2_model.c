// SPDX-License-Identifier: Apache-2.0
/* l2_model.c -- see l2_model.h. Pages with the same history form runs; an access splits, updates and joins runs. Then
 * come the hit rates of a kernel, the eviction of dirty pages, and mba_l2_model_access, which combines them. */
#include "sim/l2_model.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

enum { PAGE_BITS = 18, WORD = 64 }; /* pages of 256 KB; bits of a word */

/* Neighbouring pages with the same history form a run. The first page of a run holds its state; the others are unused.
 * Kernels touch whole tensors, so runs are few where pages are many (a step of mamba2-1.3b touches 1.4 million). */
typedef struct page {
    double  at, size;     /* reuse clock and distinct bytes of the last kernel to touch it */
    double  written;      /* fill clock (`come`) of the last write */
    float   dirty;        /* share, 0 to 1, that is written and not yet in DRAM */
    bool    seen, listed; /* touched at all; its index is in the list `dirty` of the model */
    int64_t run;          /* pages of the run */
} page;

struct mba_l2_model {
    const mba_gpu *m;
    page          *pages;
    uint64_t      *begins; /* one bit per page: a run begins there */
    int64_t        npages;
    int64_t       *dirty, ndirty; /* first pages of dirty runs; some may be stale */
    double         now;           /* reuse clock: distinct bytes that have passed L2 */
    double         come;          /* fill clock: those of them that missed */
};

/* x to the power of s, a multiple of 0.5, by multiplications and one square root: the same bits on every host. */
static double power(double x, double s)
{
    double   y = s != floor(s) ? sqrt(x) : 1;
    unsigned n = (unsigned)s;
    for (; n; n >>= 1, x *= x)
        if (n & 1) y *= x;
    return y;
}

double mba_l2_model_hit_rate(const mba_gpu *m, double d)
{
    return d > 0 ? 1 / (1 + power(d / (m->v[MBA_GPU_l2_half_reuse] * 1e6), m->v[MBA_GPU_l2_slope])) : 1;
}

mba_status mba_l2_model_create(mba_l2_model **out, int64_t bytes, const mba_gpu *m)
{
    mba_assert(bytes >= 0);
    mba_l2_model *l = calloc(1, sizeof *l);
    const int64_t n = (bytes >> PAGE_BITS) + 2;
    if (l) l->pages = calloc((size_t)n, sizeof *l->pages);
    if (l) l->begins = calloc((size_t)(n / WORD) + 1, sizeof *l->begins);
    if (l) l->dirty = calloc((size_t)n, sizeof *l->dirty);
    if (!l || !l->pages || !l->begins || !l->dirty) {
        mba_l2_model_destroy(l);
        return mba_fail(MBA_E_NOMEM, "no memory for an L2 model of %lld pages", (long long)n);
    }
    l->begins[0] = 1;
    l->pages[0].run = n;
    l->m = m;
    l->npages = n;
    *out = l;
    return MBA_OK;
}

void mba_l2_model_destroy(mba_l2_model *l)
{
    if (l) free(l->pages), free(l->begins), free(l->dirty);
    free(l);
}

void mba_l2_model_flush(mba_l2_model *l)
{
    l->now += 1e12;
    l->come += 1e12;
}

static int64_t first_page(const mba_l2_model *l, mba_address_range p)
{
    return p.address >> PAGE_BITS < l->npages ? p.address >> PAGE_BITS : l->npages - 1;
}
static int64_t last_page(const mba_l2_model *l, mba_address_range p)
{
    const int64_t i = (p.address + p.span - 1) >> PAGE_BITS;
    return i < l->npages ? i : l->npages - 1;
}

/* ---- runs ---- */

static bool begins(const mba_l2_model *l, int64_t i) { return l->begins[i / WORD] >> i % WORD & 1; }

/* First page of the run that page i belongs to. */
static int64_t run_of(const mba_l2_model *l, int64_t i)
{
    mba_debug_assert(i >= 0 && i < l->npages && (l->begins[0] & 1));
    int64_t  w = i / WORD;
    uint64_t bits = l->begins[w] & (UINT64_MAX >> (WORD - 1 - i % WORD));
    while (!bits) bits = l->begins[--w]; // a run begins at page 0
    return w * WORD + (WORD - 1 - __builtin_clzll(bits));
}

static void list(mba_l2_model *l, int64_t i)
{
    mba_debug_assert(l->pages[i].listed || l->ndirty < l->npages);
    if (!l->pages[i].listed) l->dirty[l->ndirty++] = i;
    l->pages[i].listed = true;
}

/* Splits the run that contains page i, so that a run begins at i. */
static void cut_at(mba_l2_model *l, int64_t i)
{
    if (i >= l->npages || begins(l, i)) return;
    const int64_t first = run_of(l, i);
    page         *a = &l->pages[first], *b = &l->pages[i];
    const bool    listed = b->listed;
    *b = *a;
    b->listed = listed;
    b->run = first + a->run - i;
    a->run = i - first;
    mba_debug_assert(a->run > 0 && b->run > 0);
    l->begins[i / WORD] |= 1ull << i % WORD;
    if (b->dirty > 0) list(l, i);
}

static bool alike(const page *a, const page *b)
{
    return a->at == b->at && a->size == b->size && a->seen == b->seen && a->dirty == b->dirty
           && (!(a->dirty > 0) || a->written == b->written);
}

/* Merges neighbouring runs of a range that have the same history. */
static void join(mba_l2_model *l, int64_t first, int64_t last)
{
    for (int64_t i = first; i + l->pages[i].run <= last;) {
        const int64_t next = i + l->pages[i].run;
        if (alike(&l->pages[i], &l->pages[next])) {
            l->pages[i].run += l->pages[next].run;
            l->begins[next / WORD] &= ~(1ull << next % WORD);
        } else i = next;
    }
}

/* ---- hits and evictions ---- */

/* The share of a range that is still in L2 before a kernel of `size` distinct bytes touches it. */
static double found(mba_l2_model *l, mba_address_range p, double size)
{
    double sum = 0;
    if (p.span <= 0) return 0;
    const int64_t first = first_page(l, p), last = last_page(l, p);
    cut_at(l, first);
    cut_at(l, last + 1);
    for (int64_t i = first; i <= last; i += l->pages[i].run) {
        const page *g = &l->pages[i];
        if (g->seen) sum += (double)g->run * mba_l2_model_hit_rate(l->m, l->now - g->at + (size + g->size) / 2);
    }
    mba_debug_assert(sum <= (double)(last - first + 1) * (1 + 1e-9));
    return sum / (double)(last - first + 1);
}

/* Distinct bytes of all streams that the resident blocks use at a time: the reuse distance between rounds of blocks.
 * `sharers`: blocks that read the same bytes together. */
static double working_set(const mba_sim_kernel *k, const mba_gpu *m, double *sharers)
{
    const double resident = (double)mba_sim_resident(k, m) * m->v[MBA_GPU_sm], grid = (double)k->grid;
    const double share = k->tile_share > 0 ? k->tile_share : 1,
                 at_once = (resident < grid ? resident / grid : 1) * share;
    double sum = 0;
    *sharers = sqrt(resident < grid ? resident : grid); // the tiles in use form a square
    for (int64_t s = 0; s < k->nstreams; s++) {
        const mba_sim_stream *t = &k->stream[s];
        const double reuse = t->unique > 0 ? t->moved / t->unique : 1, together = reuse < *sharers ? reuse : *sharers;
        const double in_work = t->moved * at_once / together;
        sum += in_work < t->unique ? in_work : t->unique;
    }
    return sum;
}

/* What is written stays for a shorter while: L2 begins to write it to DRAM long before it needs the room. */
static double stays_dirty(const mba_gpu *m, double d) { return mba_l2_model_hit_rate(m, d / m->v[MBA_GPU_l2_dirty]); }

/* Of bytes that a kernel writes at a constant rate while `size` bytes pass: the share that has left L2 at its end. */
static double left_meanwhile(const mba_gpu *m, double size)
{
    enum { PARTS = 32 };
    const double reach = 3e6 * m->v[MBA_GPU_l2_half_reuse], far = size < reach ? size : reach; // nothing stays beyond
    double       kept = 0;
    if (!(size > 0)) return 0;
    for (int i = 0; i < PARTS; i++) kept += stays_dirty(m, far * (i + 0.5) / PARTS);
    return 1 - kept / PARTS * far / size;
}

/* Evicts dirty pages while `size` bytes are filled, and returns their bytes: the kernel that fills pays for the writes.
 */
static double evict_dirty(mba_l2_model *l, double size)
{
    static const double FORGOTTEN = 0.004;
    double              bytes = 0;
    int64_t             kept = 0;
    for (int64_t i = 0; i < l->ndirty; i++) {
        page *g = &l->pages[l->dirty[i]];
        g->listed = false;
        if (!begins(l, l->dirty[i]) || !(g->dirty > 0)) continue;
        const double before = stays_dirty(l->m, l->come - g->written),
                     after = stays_dirty(l->m, l->come + size - g->written), stays = before > 0 ? after / before : 0,
                     rest = g->dirty * stays;
        bytes += (double)g->run * g->dirty * (1 - stays) * (1 << PAGE_BITS);
        g->dirty = rest > FORGOTTEN ? (float)rest : 0;
        g->listed = g->dirty > 0;
        if (g->listed) l->dirty[kept++] = l->dirty[i];
    }
    l->ndirty = kept;
    mba_assert(bytes >= 0);
    return bytes;
}

/* Marks a range as accessed now by a kernel of `size` distinct bytes; `dirty`: share of it that stays dirty. */
static void touch(mba_l2_model *l, mba_address_range p, double size, double dirty)
{
    if (p.span <= 0) return;
    const int64_t first = first_page(l, p), last = last_page(l, p);
    mba_debug_assert(dirty >= 0 && dirty <= 1);
    cut_at(l, first); // again: streams overlap, and join may have merged what found() split
    cut_at(l, last + 1);
    for (int64_t i = first; i <= last; i += l->pages[i].run) {
        page *g = &l->pages[i];
        g->at = l->now;
        g->size = size;
        g->seen = true;
        if (dirty > 0) g->written = l->come;
        if (dirty > g->dirty) g->dirty = (float)dirty;
        if (g->dirty > 0) list(l, i);
    }
    join(l, first, last);
}

/* The share of a range's pages that the stream writes: other tensors may own what lies between its rows. */
static double share_of(const mba_l2_model *l, const mba_sim_stream *t, mba_address_range p)
{
    if (p.span <= 0) return 0;
    const double pages = (double)(last_page(l, p) - first_page(l, p) + 1) * (1 << PAGE_BITS);
    return t->unique < pages ? t->unique / pages : 1;
}

/* True if an earlier stream of the kernel has the same range: it reads and writes in place. */
static bool in_place(const mba_address_range place[MBA_SIM_STREAMS], int64_t s)
{
    bool same = false;
    for (int64_t t = 0; t < s && place[s].span > 0; t++)
        same |= place[t].address == place[s].address && place[t].span == place[s].span;
    return same;
}

/* Distinct bytes of a kernel that pass through L2; those read and written in place count once. */
static double unique_bytes(const mba_sim_kernel *k, const mba_address_range place[MBA_SIM_STREAMS])
{
    double sum = 0;
    for (int64_t s = 0; s < k->nstreams; s++) sum += in_place(place, s) ? 0 : k->stream[s].unique;
    return sum;
}

/* Reads: the first access of a byte hits if it is left from earlier kernels; blocks that read it together share that
 * access; a later round of blocks hits by the working set of a round. Writes: some lines leave L2 before the kernel
 * ends, the rest when later kernels evict them. */
void mba_l2_model_access(mba_l2_model *l, mba_sim_kernel *k, const mba_address_range place[MBA_SIM_STREAMS])
{
    mba_assert(k->nstreams >= 0 && k->nstreams <= MBA_SIM_STREAMS);
    const double size = unique_bytes(k, place);
    double       sharers, here = 0;
    const double again = mba_l2_model_hit_rate(l->m, working_set(k, l->m, &sharers)),
                 leaves = left_meanwhile(l->m, size);
    for (int64_t s = 0; s < k->nstreams; s++) {
        mba_sim_stream *t = &k->stream[s];
        const double    reuse = t->unique > 0 ? t->moved / t->unique : 1, together = reuse < sharers ? reuse : sharers;
        const double    rounds = t->moved / together, later = rounds > t->unique ? rounds - t->unique : 0;
        const double    first = found(l, place[s], size) * t->unique;
        const double    hits = t->writes ? t->moved - leaves * t->unique
                                         : first + (t->moved - t->unique - later) + again * later;
        if (!in_place(place, s)) here += first;
        t->hit = t->moved > 0 ? (int64_t)(256 * hits / t->moved + 0.5) : 0;
        if (t->hit > 256) t->hit = 256;
        mba_assert(t->hit >= 0);
    }
    const double come = size > here ? size - here : 0;
    k->evicts = (int64_t)evict_dirty(l, come);
    l->now += size;
    l->come += come;
    for (int64_t s = 0; s < k->nstreams; s++)
        if (!k->stream[s].writes) touch(l, place[s], size, 0);
    for (int64_t s = 0; s < k->nstreams; s++)
        if (k->stream[s].writes) touch(l, place[s], size, (1 - leaves) * share_of(l, &k->stream[s], place[s]));
}
