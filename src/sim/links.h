// SPDX-License-Identifier: Apache-2.0
/* links.h -- what connects ranks, as a table of numbers, and the time of a collective over it.
 *
 *     mba_links c;
 *     MBA_TRY(mba_links_load(&c, "ib400"));                          // one that comes with the program, or a path
 *     const mba_link_time t = mba_links_exchanges(&c, exchange, n);  // as the plan of a collective names them
 *     printf("%.2f ms\n", 1e3 * (t.node_s + t.net_s + t.latency_s));
 *
 * A file has one `key = value unit  # source` per line, every key once; link_keys.def lists them. An exchange
 * takes latency + bytes / bandwidth of its level: inside the node while the ranks are less than gpus_node apart, else
 * over the network, whose adapters the ranks of a node share. All ranks exchange at the same time, and the network has
 * full bisection. */
#ifndef MBA_SIM_LINKS_H
#define MBA_SIM_LINKS_H

#include <stdbool.h>

#include "core/plan.h"

typedef enum mba_link_key {
#define KEY(name, unit, least, most, meaning) MBA_LINK_##name,
#include "sim/link_keys.def"
#undef KEY
    MBA_LINK_KEYS
} mba_link_key;

typedef struct mba_links {
    char   name[64];
    double v[MBA_LINK_KEYS];
} mba_links;

typedef struct mba_link_key_info {
    const char *name, *unit, *meaning;
    double      least, most;
} mba_link_key_info;
extern const mba_link_key_info mba_link_keys[MBA_LINK_KEYS];

/* `name` is a cluster that comes with the program, or a path if it has a '/' or ends in ".ini". */
MBA_MUST mba_status mba_links_load(mba_links *out, const char *name);
MBA_MUST mba_status mba_links_parse(mba_links *out, const char *where, const char *text);

typedef struct mba_link_time {
    double node_s, net_s, latency_s; /* bytes over the links of each level; start and latencies of all exchanges */
    double node_bytes, net_bytes;    /* sent by a rank */
    double seconds;                  /* the sum of the three */
} mba_link_time;
mba_link_time mba_links_exchanges(const mba_links *c, const mba_exchange *e, int n);

/* How much longer a rank computes and copies if `ranks` run: those of a node share its cores. */
double mba_links_sharing(const mba_links *c, int64_t ranks);

/* The mean of the largest of n draws of a standard normal distribution: how many standard deviations the slowest of n
 * ranks is behind. */
double mba_normal_largest(int64_t n);

/* Algorithms of NCCL, for comparison with published bandwidths. */
typedef enum mba_nccl_algorithm { MBA_NCCL_RING, MBA_NCCL_NVLS, MBA_NCCL_ALGORITHMS } mba_nccl_algorithm;
extern const char *const mba_nccl_algorithms[MBA_NCCL_ALGORITHMS];

/* Bus bandwidth in GB/s as nccl-tests defines it: bytes / time x 2(R-1)/R of an allreduce, x (R-1)/R of
 * reduce_scatter and all_gather; `bytes` is the size of the whole vector. A ring has R-1 steps per half, of which one
 * per node crosses the network, and its bandwidth is that of the slower level. NVLS needs one node. */
double mba_nccl_bus_bandwidth(const mba_links *c, mba_nccl_algorithm how, bool allreduce, int64_t ranks, double bytes);

#endif
