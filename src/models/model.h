/* model.h -- the families of models; models.def lists them, one file each.
 *
 *     for (int i = 0; mba_models[i]; i++) puts(mba_models[i]->family);
 */
#ifndef MBA_MODEL_H
#define MBA_MODEL_H

#include "models/lm.h"

typedef struct mba_model {
    const char   *family, *doc;
    const mba_lm *presets;             /* ends with an entry without a name */
} mba_model;

extern const mba_model *const mba_models[];        /* NULL at the end */

#endif
