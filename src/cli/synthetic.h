/* synthetic.h -- data for those who brought none: made-up text as byte tokens, in a directory of its own.
 *
 *     mba_synthetic d = { 0 };
 *     MBA_TRY(mba_synthetic_create(&d, seed, 1 << 20));          // d.path: labelled synthetic in its notes
 *     mba_synthetic_remove(&d);
 */
#ifndef MBA_SYNTHETIC_H
#define MBA_SYNTHETIC_H

#include <stdint.h>

#include "core/status.h"

typedef struct mba_synthetic { char root[256], path[272]; } mba_synthetic;

MBA_MUST mba_status mba_synthetic_create(mba_synthetic *out, uint64_t seed, int64_t bytes);
void                mba_synthetic_remove(mba_synthetic *d);       /* zeroed ones are fine */

#endif
