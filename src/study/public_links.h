// SPDX-License-Identifier: Apache-2.0
/* public_links.h -- published bus bandwidths of collectives (src/sim/data/links.tsv), and what sim/links.h gives for
 * the same cluster, collective and size: by the formulas of NCCL's algorithms, and by mba_links_exchanges over what our
 * operators exchange, which is what `simulate --gpus` adds up.
 *
 *     mba_public_link l[MBA_PUBLIC_LINKS_MAX];
 *     int             n;
 *     MBA_TRY(mba_public_links_read(l, &n, "table", mba_public_links_text));
 *     printf("%.0f for %.0f GB/s\n", l[0].predicted, l[0].published);
 */
#ifndef MBA_STUDY_PUBLIC_LINKS_H
#define MBA_STUDY_PUBLIC_LINKS_H

#include "sim/links.h"

typedef struct mba_public_link {
    char               source[112], cluster[32], collective[24], remark[96];
    mba_nccl_algorithm how;
    int64_t            ranks;
    double             bytes, published, predicted; /* GB/s; predicted: by the formula */
    double             simulated;                   /* GB/s, by our exchanges; NaN: not comparable */
    bool               gives;                       /* the cluster file has a number from it: no test of that number */
} mba_public_link;

/* What of our exchanges can be compared. Inside a node: their bus bandwidth beside that of NCCL's ring, which sends as
 * much. Between nodes a ring uses both levels at once and halving one after the other, so it is the rate of the network
 * that stands beside the ring, from 1 GiB on, where the network is all that bounds a ring. Nothing stands beside sums
 * in the switch (NVLS), which `simulate` does not have, or beside numbers of ranks that it refuses. */

enum { MBA_PUBLIC_LINKS_MAX = 64 };
extern const char mba_public_links_text[]; /* the table that comes with the program */

MBA_MUST mba_status mba_public_links_read(mba_public_link out[MBA_PUBLIC_LINKS_MAX], int *n, const char *where,
                                          const char *text);

#endif
