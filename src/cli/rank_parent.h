// SPDX-License-Identifier: Apache-2.0
/* rank_parent.h -- a process that waits for a rank, so that the launcher learns by MBA_LOST_CODE that it was killed.
 *
 *     MBA_TRY(mba_rank_fork(rank));    // the child goes on; the parent stays, passes signals on and exits as it does
 *
 * mpirun ends with the code of the first process that failed, and kills the others. Of a killed rank that would be
 * 128 + signal, the same as of a run that somebody ended, before the other ranks can say that one is lost. The parent
 * ends with MBA_LOST_CODE instead, which says that a restart may help. Its name is mambascope-wait. */
#ifndef MBA_RANK_PARENT_H
#define MBA_RANK_PARENT_H

#include "core/status.h"

/* Returns in the child. Call it before threads start. */
MBA_MUST mba_status mba_rank_fork(int rank);

#endif
