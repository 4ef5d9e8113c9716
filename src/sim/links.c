// SPDX-License-Identifier: Apache-2.0
/* links.c -- see links.h. */
#include "sim/links.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/file.h"
#include "core/nearest.h"
#include "sim/clusters_built_in.h" /* made by CMake from clusters/ */

const mba_link_key_info mba_link_keys[MBA_LINK_KEYS] = {
#define KEY(name, unit, least, most, meaning) { #name, unit, meaning, least, most },
#include "sim/link_keys.def"
#undef KEY
};

/* ---- files ---- */

enum { LINE_ROOM = 512, FILE_MOST = 1 << 16 };

static mba_status bad_line(const char *where, int line, const char *what, const char *word)
{
    return mba_fail(MBA_E_FORMAT,
                    "%s, line %d: %s '%s'\nwhy: a line of a cluster file is `key = value unit  # source`\nfix: compare "
                    "it with clusters/ib400.ini",
                    where, line, what, word);
}

static mba_status take_line(mba_links *c, bool *known, const char *where, int line, char *text)
{
    char   name[64] = "", unit[32] = "", rest[8] = "";
    double value;
    text[strcspn(text, "#")] = 0;
    if (text[strspn(text, " \t\r")] == 0) return MBA_OK;
    const int n = sscanf(text, " %63[a-z_0-9] = %lf %31s %7s", name, &value, unit, rest);
    int       k = 0;
    if (n < 3 || n == 4) return bad_line(where, line, "this is no key with one value:", text);
    while (k < MBA_LINK_KEYS && strcmp(mba_link_keys[k].name, name)) k++;
    if (k == MBA_LINK_KEYS) return bad_line(where, line, "there is no key", name);
    if (known[k]) return bad_line(where, line, "a second value of", name);
    if (strcmp(unit, mba_link_keys[k].unit)) return bad_line(where, line, "this is not the unit of the key:", unit);
    if (!(value >= mba_link_keys[k].least && value <= mba_link_keys[k].most))
        return bad_line(where, line, "a value outside of what is possible for", name);
    c->v[k] = value;
    known[k] = true;
    return MBA_OK;
}

mba_status mba_links_parse(mba_links *out, const char *where, const char *text)
{
    bool known[MBA_LINK_KEYS] = { false };
    int  line = 0;
    memset(out->v, 0, sizeof out->v);
    while (*text) {
        char         one[LINE_ROOM];
        const size_t n = strcspn(text, "\n");
        line++;
        if (n >= sizeof one) return bad_line(where, line, "this line is too long:", "");
        memcpy(one, text, n);
        one[n] = 0;
        MBA_TRY(take_line(out, known, where, line, one));
        text += n + (text[n] == '\n');
    }
    for (int k = 0; k < MBA_LINK_KEYS; k++)
        if (!known[k])
            return mba_fail(MBA_E_FORMAT, "%s has no %s\nwhy: %s\nfix: add `%s = .. %s  # source`", where,
                            mba_link_keys[k].name, mba_link_keys[k].meaning, mba_link_keys[k].name,
                            mba_link_keys[k].unit);
    return MBA_OK;
}

static mba_status load_file(mba_links *out, const char *path)
{
    char  *text;
    size_t bytes;
    MBA_TRY(mba_file_read(&text, &bytes, path, FILE_MOST));
    const mba_status st = mba_links_parse(out, path, text);
    const char      *slash = strrchr(path, '/');
    snprintf(out->name, sizeof out->name, "%s", slash ? slash + 1 : path);
    free(text);
    return st;
}

mba_status mba_links_load(mba_links *out, const char *name)
{
    const size_t n = strlen(name);
    *out = (mba_links){ .name = "" };
    if (strchr(name, '/') || (n > 4 && !strcmp(name + n - 4, ".ini"))) return load_file(out, name);
    mba_nearest near = mba_nearest_to(name, n);
    for (int i = 0; i < MBA_BUILT_IN_CLUSTERS; i++) {
        mba_nearest_try(&near, mba_built_in_cluster[i].name, "");
        if (strcmp(mba_built_in_cluster[i].name, name)) continue;
        snprintf(out->name, sizeof out->name, "%s", name);
        return mba_links_parse(out, name, mba_built_in_cluster[i].text);
    }
    return mba_fail(MBA_E_ARG, "there is no cluster '%s'\nfix: %s" MBA_CLUSTER_NAMES ", or a cluster file", name,
                    mba_did_you_mean(&near).text);
}

/* ---- times ---- */

static double node_rate(const mba_links *c) { return 1e9 * c->v[MBA_LINK_node_link] * c->v[MBA_LINK_node_eff]; }

/* Of all adapters of a node together. */
static double net_rate(const mba_links *c)
{
    return 1e9 * c->v[MBA_LINK_net_link] * c->v[MBA_LINK_net_eff] * c->v[MBA_LINK_nics_node];
}

mba_link_time mba_links_exchanges(const mba_links *c, const mba_exchange *e, int n)
{
    const double  gpus = c->v[MBA_LINK_gpus_node], net = net_rate(c) / gpus;
    mba_link_time t = { .latency_s = n ? 1e-6 * c->v[MBA_LINK_start] : 0 };
    for (int i = 0; i < n; i++) {
        const bool inside = (double)e[i].distance < gpus;
        mba_assert(inside || net > 0);
        *(inside ? &t.node_s : &t.net_s) += e[i].bytes / (inside ? node_rate(c) : net);
        *(inside ? &t.node_bytes : &t.net_bytes) += e[i].bytes;
        t.latency_s += 1e-6 * c->v[inside ? MBA_LINK_node_lat : MBA_LINK_net_lat];
    }
    t.seconds = t.node_s + t.net_s + t.latency_s;
    return t;
}

double mba_links_sharing(const mba_links *c, int64_t ranks)
{
    const double cores = c->v[MBA_LINK_cores_node], gpus = c->v[MBA_LINK_gpus_node];
    const double here = (double)ranks < gpus ? (double)ranks : gpus, busy = here < cores ? here : cores;
    if (!(cores > 0)) return 1;
    const double crowded = cores > 1 ? 1 + c->v[MBA_LINK_contention] * (busy - 1) / (cores - 1) : 1;
    return crowded * (here > cores ? here / cores : 1);
}

/* Blom's approximation of the mean of the largest: the quantile (n - 3/8) / (n + 1/4), by bisection. */
double mba_normal_largest(int64_t n)
{
    const double q = ((double)n - 0.375) / ((double)n + 0.25);
    double       low = -10, high = 10;
    mba_assert(n > 0);
    if (n == 1) return 0;
    for (int i = 0; i < 60; i++) {
        const double x = (low + high) / 2;
        *(0.5 * erfc(-x / sqrt(2)) < q ? &low : &high) = x;
    }
    return low;
}

const char *const mba_nccl_algorithms[MBA_NCCL_ALGORITHMS] = { "ring", "nvls" };

double mba_nccl_bus_bandwidth(const mba_links *c, mba_nccl_algorithm how, bool allreduce, int64_t ranks, double bytes)
{
    const double R = (double)ranks, halves = allreduce ? 2 : 1, moved = halves * (R - 1) / R * bytes;
    const double nodes = ceil(R / c->v[MBA_LINK_gpus_node]), over_net = nodes > 1 ? halves * nodes : 0;
    double       rate = how == MBA_NCCL_NVLS ? 1e9 * c->v[MBA_LINK_nvls] : node_rate(c);
    double       latency = how == MBA_NCCL_NVLS
                               ? c->v[MBA_LINK_nvls_lat]
                               : c->v[MBA_LINK_start] + (halves * (R - 1) - over_net) * c->v[MBA_LINK_node_lat]
                               + over_net * c->v[MBA_LINK_net_lat];
    mba_assert(ranks > 1 && bytes > 0 && (how == MBA_NCCL_RING || nodes <= 1));
    if (nodes > 1 && net_rate(c) < rate) rate = net_rate(c);
    return 1e-9 * moved / (moved / rate + 1e-6 * latency);
}
