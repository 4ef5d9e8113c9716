/* made_text.h -- data for those who brought none: made-up text as byte tokens, in a directory of its own.
 *
 *     mba_made_text d = { 0 };
 *     MBA_TRY(mba_made_text_create(&d, seed, 1 << 20));          // d.path: labelled synthetic in its notes
 *     mba_made_text_remove(&d);
 */
#ifndef MBA_MADE_TEXT_H
#define MBA_MADE_TEXT_H

#include <stdint.h>

#include "core/temporary.h"

typedef struct mba_made_text { mba_temporary root; char path[272]; } mba_made_text;

MBA_MUST mba_status mba_made_text_create(mba_made_text *out, uint64_t seed, int64_t bytes);
void                mba_made_text_remove(mba_made_text *d);       /* zeroed ones are fine */

#endif
