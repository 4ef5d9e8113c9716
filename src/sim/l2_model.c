// SPDX-License-Identifier: Apache-2.0
/* l2_model.c -- see l2_model.h. */
#include "sim/l2_model.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

enum { PAGE_BITS = 18, WORD = 64 }; /* pages of 256 KB; bits of a word */

/* Neighbours that share their past are one run: what it is stands at its first page, the other pages say nothing. A
 * kernel touches whole tensors, so that runs are few where pages are many (a step of mamba2-1.3b touches 1.4
 * million). */
typedef struct page {
    double  at, size;     /* end and size of the kernel that touched it last */
    double  written;      /* where in the flow of bytes that come into L2 it was written */
    float   dirty;        /* of 1: written, and not yet in DRAM */
    bool    seen, listed; /* listed: its number is among `dirty`, of a run that begins here or not */
    int64_t run;          /* pages */
} page;

struct mba_l2_model {
    const mba_gpu *m;
    page          *pages;
    uint64_t      *begins; /* a bit per page: a run begins there */
    int64_t        npages;
    int64_t       *dirty, ndirty; /* first pages of runs that are, and some that are no longer */
    double         now;           /* different bytes that have passed so far */
    double         come;          /* those of them that were not there */
};

/* x to the power of s, a multiple of one half, by multiplications and one root: the same bits everywhere. */
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
    mba_l2_model *l = calloc(1, sizeof *l);
    const int64_t n = (bytes >> PAGE_BITS) + 2;
    if (l) l->pages = calloc((size_t)n, sizeof *l->pages);
    if (l) l->begins = calloc((size_t)(n / WORD) + 1, sizeof *l->begins);
    if (l) l->dirty = calloc((size_t)n, sizeof *l->dirty);
    if (!l || !l->pages || !l->begins || !l->dirty) {
        mba_l2_model_destroy(l);
        return mba_fail(MBA_E_NOMEM, "no memory for the ledger of %lld pages", (long long)n);
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

static int64_t run_of(const mba_l2_model *l, int64_t i)
{
    int64_t  w = i / WORD;
    uint64_t bits = l->begins[w] & (UINT64_MAX >> (WORD - 1 - i % WORD));
    while (!bits) bits = l->begins[--w]; // page 0 begins one
    return w * WORD + (WORD - 1 - __builtin_clzll(bits));
}

static void list(mba_l2_model *l, int64_t i)
{
    if (!l->pages[i].listed) l->dirty[l->ndirty++] = i;
    l->pages[i].listed = true;
}

/* A run begins at page i from now on. */
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
    l->begins[i / WORD] |= 1ull << i % WORD;
    if (b->dirty > 0) list(l, i);
}

static bool alike(const page *a, const page *b)
{
    return a->at == b->at && a->size == b->size && a->seen == b->seen && a->dirty == b->dirty
           && (!(a->dirty > 0) || a->written == b->written);
}

/* Runs of a window that have become alike are one. */
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

/* ---- what is there ---- */

/* The share of a window that is still there, before a kernel of `size` bytes has touched anything. */
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
    return sum / (double)(last - first + 1);
}

/* Different bytes of all streams that co-resident blocks have in work: how far apart two reads of the same byte are. */
static double working_set(const mba_sim_kernel *k, const mba_gpu *m, double *sharers)
{
    const double places = (double)mba_sim_resident(k, m) * m->v[MBA_GPU_sm], grid = (double)k->grid;
    const double piece = k->piece > 0 ? k->piece : 1, at_once = (places < grid ? places / grid : 1) * piece;
    double       sum = 0;
    *sharers = sqrt(places < grid ? places : grid); // tiles in work form a square
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

/* Of bytes written evenly while `size` bytes pass, how many have left L2 at the end. */
static double left_meanwhile(const mba_gpu *m, double size)
{
    enum { PARTS = 32 };
    const double reach = 3e6 * m->v[MBA_GPU_l2_half_reuse], far = size < reach ? size : reach; // nothing stays beyond
    double       kept = 0;
    if (!(size > 0)) return 0;
    for (int i = 0; i < PARTS; i++) kept += stays_dirty(m, far * (i + 0.5) / PARTS);
    return 1 - kept / PARTS * far / size;
}

/* Dirty pages that leave while `size` bytes pass: their bytes are written by whoever passes. */
static double drive_out(mba_l2_model *l, double size)
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
    return bytes;
}

static void touch(mba_l2_model *l, mba_address_range p, double size, double dirty)
{
    if (p.span <= 0) return;
    const int64_t first = first_page(l, p), last = last_page(l, p);
    cut_at(l, first); // once more: streams overlap, and what was cut may have been joined
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

/* Of the pages of a window, how much is written: others may own what lies between its rows. */
static double share_of(const mba_l2_model *l, const mba_sim_stream *t, mba_address_range p)
{
    if (p.span <= 0) return 0;
    const double pages = (double)(last_page(l, p) - first_page(l, p) + 1) * (1 << PAGE_BITS);
    return t->unique < pages ? t->unique / pages : 1;
}

/* An earlier stream of the kernel is of the same bytes. */
static bool in_place(const mba_address_range place[MBA_SIM_STREAMS], int64_t s)
{
    bool same = false;
    for (int64_t t = 0; t < s && place[s].span > 0; t++)
        same |= place[t].address == place[s].address && place[t].span == place[s].span;
    return same;
}

/* That pass through L2: what is read and written in place passes once. */
static double different_bytes(const mba_sim_kernel *k, const mba_address_range place[MBA_SIM_STREAMS])
{
    double sum = 0;
    for (int64_t s = 0; s < k->nstreams; s++) sum += in_place(place, s) ? 0 : k->stream[s].unique;
    return sum;
}

/* Bytes that blocks read together, in step, reach DRAM once; those that a later round of blocks reads again hit as the
 * working set of a round lets them; the first touch hits what is left from before. Of what is written some leaves L2
 * before the end, the rest when others come. */
void mba_l2_model_access(mba_l2_model *l, mba_sim_kernel *k, const mba_address_range place[MBA_SIM_STREAMS])
{
    const double size = different_bytes(k, place);
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
    }
    const double come = size > here ? size - here : 0;
    k->evicts = (int64_t)drive_out(l, come);
    l->now += size;
    l->come += come;
    for (int64_t s = 0; s < k->nstreams; s++)
        if (!k->stream[s].writes) touch(l, place[s], size, 0);
    for (int64_t s = 0; s < k->nstreams; s++)
        if (k->stream[s].writes) touch(l, place[s], size, (1 - leaves) * share_of(l, &k->stream[s], place[s]));
}
