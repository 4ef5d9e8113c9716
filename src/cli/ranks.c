// SPDX-License-Identifier: Apache-2.0
/* ranks.c -- see ranks.h. */
#include "cli/ranks.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cli/rank_parent.h"
#include "cli/say.h"
#include "core/device.h"
#include "core/file.h"
#include "device/cuda/nccl.h"

/* The run has lost a rank, or one failed: the main thread may wait for it forever. */
static void on_lost(void *ctx, const mba_channel_end *end)
{
    (void)ctx;
    mba_writers_abandon();
    if (end->prints) mba_print_error(end->text);
    mba_nccl_abort();
    _exit(end->code);
}

mba_status mba_on_ranks(const mba_launcher *l, bool gpus, mba_ranks_fn *live, void *ctx)
{
    mba_world *w = NULL;
    MBA_TRY(mba_rank_fork(l->rank));
    signal(SIGPIPE, SIG_IGN);
    MBA_TRY(mba_cluster_join(&w, l, &(mba_cluster_options){ .gpus = gpus, .lost = on_lost, .check = mba_nccl_check }));
    const mba_status st = live(w, ctx);
    fflush(stdout);
    if (st == MBA_OK) mba_cluster_leave(w);
    else if (mba_cluster_fail(w, st == MBA_E_ARG ? 2 : 1, mba_message())) _exit(st == MBA_E_ARG ? 2 : 1);
    return st;
}

void mba_ranks_divide_cores(const mba_launcher *l, int64_t threads)
{
    const int cores = mba_cpu_threads();
    if (threads > 0 || getenv("OMP_NUM_THREADS") || l->local_ranks < 2) return;
    mba_cpu_set_threads(cores > l->local_ranks ? cores / l->local_ranks : 1);
}
