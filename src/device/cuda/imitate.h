/* imitate.h -- measures on the GPU in use what core/imitate.h lists.
 *
 *     MBA_TRY(mba_imitate_cuda(told, file));              // told hears of every imitation, in order; a few seconds
 */
#ifndef MBA_IMITATE_H
#define MBA_IMITATE_H

#include "core/imitate.h"
#include "core/status.h"

enum { MBA_IMITATED_BLOCK_CYCLES = 350 };         /* what a factor of `t_blk` is of: as the machine files say */

/* us on this GPU and on the imitated one; why it failed, or NULL. */
typedef void mba_imitated_told(void *of, const mba_imitation *w, double us, double imitated_us, const char *failed);

MBA_MUST mba_status mba_imitate_cuda(mba_imitated_told *told, void *of);

#endif
