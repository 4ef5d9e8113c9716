// SPDX-License-Identifier: Apache-2.0
/* hf_vision.h -- the part of hf.h that knows MambaVision's published config.json; for hf_config.c and
 * hf_config_write.c. */
#ifndef MBA_HF_VISION_H
#define MBA_HF_VISION_H

#include "train/hf_source.h"

/* Whether a file of "model_type": "mambavision" has the published keys or ours. Keys of both are an error. */
MBA_MUST mba_status mba__hf_vision_format(mba_hf_format *out, const mba_source *o);

/* The published keys into an incomplete configuration. `classes` stays 0 where the file does not say how many there
 * are: the weights do. */
MBA_MUST mba_status mba__hf_vision_read(mba_vision *c, const mba_source *o);

/* Whether the published class can express a complete configuration, and its keys. */
bool mba__hf_vision_fits(const mba_vision *c);
void mba__hf_vision_write(json_t *o, const mba_vision *c);

#endif
