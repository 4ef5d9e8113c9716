// SPDX-License-Identifier: Apache-2.0
/* bench_links.c -- see bench_links.h. All ranks exchange at once, in pairs, as a collective does: with rank xor 1, xor
 * 2, xor 4, .. The fastest of several rounds counts, each as slow as its slowest rank. */
#include "cli/bench_links.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/ranks.h"
#include "core/device.h"
#include "core/file.h"
#include "device/cpu/ceilings.h"
#include "scope/clock.h"
#include "sim/links.h"

enum { SHORT_BYTES = 8, SHORT_TIMES = 100, LONG_BYTES = 1 << 24, LEVELS_MAX = 17 };
static const double RATE_S = 0.1; // seconds per rate of a core

typedef struct level {
    int    distance;
    bool   inside; /* the ranks of a pair are on one host */
    double latency_s, bytes_s;
} level;

typedef struct measured {
    const mba_bench_links_options *o;
    const mba_launcher            *l;
    level                          at[LEVELS_MAX];
    int                            levels, ranks, cores, here; /* here: ranks of this host */
    double                         alone[2], together[2];      /* copies and FMAs of a rank, per second */
} measured;

/* The slowest rank's value, on all ranks. */
static mba_status slowest(double *v, mba_world *w)
{
    double *all = calloc((size_t)w->ranks, sizeof *all);
    if (!all) return mba_fail(MBA_E_NOMEM, "no memory for times of all ranks");
    const mba_status st = w->gather_all(w, all, v, sizeof *v);
    for (int k = 0; k < w->ranks && st == MBA_OK; k++) *v = fmax(*v, all[k]);
    free(all);
    return st;
}

/* Seconds of one exchange of so many bytes with the rank at this distance. */
static mba_status time_exchange(double *best, mba_world *w, int distance, void *out, void *in, size_t bytes, int times,
                                int64_t repeats)
{
    *best = INFINITY;
    for (int64_t i = 0; i <= repeats; i++) { // the first touches the memory
        MBA_TRY(mba_world_barrier(w));
        const double began = mba_clock_s();
        for (int k = 0; k < times; k++) MBA_TRY(w->exchange(w, out, w->rank ^ distance, in, w->rank ^ distance, bytes));
        double each = (mba_clock_s() - began) / times;
        MBA_TRY(slowest(&each, w));
        if (i && each < *best) *best = each;
    }
    return MBA_OK;
}

/* The hosts of all ranks, HOST_ROOM bytes each; free(). A launcher may deal ranks to hosts in any order. */
enum { HOST_ROOM = 256 };
static mba_status find_hosts(char **out, mba_world *w)
{
    char mine[HOST_ROOM] = "";
    if (gethostname(mine, sizeof mine - 1))
        return mba_fail(MBA_E_IO, "this host has no name\nwhy: %s", strerror(errno));
    if (!(*out = calloc((size_t)w->ranks, HOST_ROOM)))
        return mba_fail(MBA_E_NOMEM, "no memory for the hosts of all ranks");
    return w->gather_all(w, *out, mine, HOST_ROOM);
}

/* True if every rank has the one at this distance on its own host. */
static bool is_inside(const char *hosts, int ranks, int distance)
{
    for (int k = 0; k < ranks; k++)
        if (memcmp(hosts + (size_t)k * HOST_ROOM, hosts + (size_t)(k ^ distance) * HOST_ROOM, HOST_ROOM)) return false;
    return true;
}

static mba_status measure_links(measured *m, mba_world *w)
{
    char      *out = malloc(LONG_BYTES), *in = malloc(LONG_BYTES), *hosts = NULL;
    mba_status st = out && in ? MBA_OK : mba_fail(MBA_E_NOMEM, "no memory for messages of %d bytes", LONG_BYTES);
    if (out && in) memset(out, 1, LONG_BYTES), memset(in, 1, LONG_BYTES);
    if (st == MBA_OK) st = find_hosts(&hosts, w);
    for (int d = 1; d < w->ranks && st == MBA_OK; d *= 2) {
        level *at = &m->at[m->levels++];
        double whole;
        *at = (level){ .distance = d, .inside = is_inside(hosts, w->ranks, d) };
        st = time_exchange(&at->latency_s, w, d, out, in, SHORT_BYTES, SHORT_TIMES, m->o->repeats);
        if (st == MBA_OK) st = time_exchange(&whole, w, d, out, in, LONG_BYTES, 1, m->o->repeats);
        if (st == MBA_OK) at->bytes_s = LONG_BYTES / fmax(whole - at->latency_s, 1e-9);
    }
    free(hosts);
    free(out);
    free(in);
    return st;
}

/* Rank 0 measures alone while the others wait, then all at once. */
static mba_status measure_cores(measured *m, mba_world *w)
{
    mba_ceilings c = { 0 };
    if (!w->rank) MBA_TRY(mba_ceilings_measure(&c, RATE_S));
    m->alone[0] = c.stream_bytes, m->alone[1] = c.fma_flops;
    MBA_TRY(mba_world_barrier(w));
    MBA_TRY(mba_ceilings_measure(&c, RATE_S));
    for (int i = 0; i < 2; i++) {
        double each = 1 / (i ? c.fma_flops : c.stream_bytes);
        MBA_TRY(slowest(&each, w));
        m->together[i] = 1 / each;
    }
    return MBA_OK;
}

/* How much longer work takes if all cores are busy, beyond the turns that ranks take on them: the mean of copies and
 * FMAs, because a step has both. */
static double contention(const measured *m)
{
    const double turns = m->here > m->cores ? (double)m->here / m->cores : 1;
    const double slower = (m->alone[0] / m->together[0] + m->alone[1] / m->together[1]) / 2 / turns;
    return fmax(slower - 1, 0);
}

static mba_status print_links(const measured *m)
{
    mba_table *t;
    MBA_TRY(mba_table_create(&t, (const mba_column[]){ { "distance", "distance", "%.0f" },
                                                       { "where", "where", NULL },
                                                       { "latency_us", "latency, us", "%.2f" },
                                                       { "gbs", "GB/s", "%.3f" },
                                                       { 0 } }));
    for (int i = 0; i < m->levels; i++) {
        mba_table_number(t, m->at[i].distance);
        mba_table_text(t, "%s", m->at[i].inside ? "in a host" : "between hosts");
        mba_table_number(t, 1e6 * m->at[i].latency_s);
        mba_table_number(t, 1e-9 * m->at[i].bytes_s);
    }
    const mba_status st = mba_table_print(t, stdout, m->o->form);
    mba_table_destroy(t);
    if (st == MBA_OK && m->o->form == MBA_TABLE_TEXT)
        printf(
            "%d ranks at once, each way, %d byte and %d MiB; %d ranks on the %d cores of this host: copies run at %.0f "
            "%%, FMAs at %.0f %% of one rank alone\n",
            m->ranks, SHORT_BYTES, LONG_BYTES >> 20, m->here, m->cores, 100 * m->together[0] / m->alone[0],
            100 * m->together[1] / m->alone[1]);
    return st;
}

/* The mean over the distances inside, or outside of, a host. */
static level mean_of(const measured *m, bool inside)
{
    level sum = { 0 };
    int   n = 0;
    for (int i = 0; i < m->levels; i++)
        if (m->at[i].inside == inside) sum.latency_s += m->at[i].latency_s, sum.bytes_s += m->at[i].bytes_s, n++;
    if (n) sum.latency_s /= n, sum.bytes_s /= n;
    return sum;
}

/* A cluster file. Where ranks took turns on cores, numbers are those of a rank with a core of its own. */
static mba_status write_cluster(const measured *m)
{
    const level  in = mean_of(m, true), out = mean_of(m, false);
    const double turns = m->here > m->cores ? (double)m->here / m->cores : 1;
    const bool   many = out.bytes_s > 0;
    const double v[MBA_LINK_KEYS] = { [MBA_LINK_gpus_node] = many ? m->here : 65536,
                                      [MBA_LINK_nics_node] = many ? 1 : 0,
                                      [MBA_LINK_node_link] = fmax(1e-9 * in.bytes_s * turns, 1e-3),
                                      [MBA_LINK_node_eff] = 1,
                                      [MBA_LINK_node_lat] = 1e6 * in.latency_s / turns,
                                      [MBA_LINK_net_link] = 1e-9 * out.bytes_s * m->here * turns,
                                      [MBA_LINK_net_eff] = 1,
                                      [MBA_LINK_net_lat] = 1e6 * out.latency_s / turns,
                                      [MBA_LINK_cores_node] = m->cores,
                                      [MBA_LINK_contention] = contention(m) };
    char         text[4096];
    int n = snprintf(text, sizeof text, "# %d ranks, %d on a host of %d cores, by mambascope bench links\n", m->ranks,
                     m->here, m->cores);
    mba_writer *f;
    for (int k = 0; k < MBA_LINK_KEYS; k++)
        n += snprintf(text + n, sizeof text - (size_t)n, "%-10s = %.5g %s  # m: %s\n", mba_link_keys[k].name, v[k],
                      mba_link_keys[k].unit, mba_link_keys[k].meaning);
    mba_assert(n > 0 && (size_t)n < sizeof text);
    MBA_TRY(mba_writer_create(&f, m->o->out));
    mba_status st = mba_writer_put(f, text, (size_t)n);
    if (st == MBA_OK) st = mba_writer_commit(f);
    mba_writer_destroy(f);
    return st;
}

static mba_status live(mba_world *w, void *ctx)
{
    measured *m = ctx;
    m->ranks = w->ranks;
    m->cores = (int)sysconf(_SC_NPROCESSORS_ONLN);
    m->here = m->l->local_ranks > 0 ? m->l->local_ranks : w->ranks;
    mba_cpu_set_threads(1); // a core's share, not a host's
    MBA_TRY(measure_links(m, w));
    MBA_TRY(measure_cores(m, w));
    mba_status st = w->rank ? MBA_OK : print_links(m);
    if (st == MBA_OK && !w->rank && m->o->out) st = write_cluster(m);
    return st == MBA_OK ? mba_world_barrier(w) : st;
}

mba_status mba_bench_links(const mba_bench_links_options *o)
{
    mba_launcher l;
    MBA_TRY(mba_launcher_find(&l, getenv));
    if (l.ranks < 2)
        return mba_fail(MBA_E_ARG, "bench links needs several ranks\nfix: mpirun -np 2 mambascope bench links");
    return mba_on_ranks(&l, false, live, &(measured){ .o = o, .l = &l });
}
