// SPDX-License-Identifier: Apache-2.0
/* hf_vision.h -- reads and writes MambaVision's published config.json, for hf_config.c and hf_config_write.c. */
#ifndef MBA_HF_VISION_H
#define MBA_HF_VISION_H

#include "train/hf_source.h"

/* Decides whether a file of "model_type": "mambavision" has the published keys or ours. Keys of both are an error. */
MBA_MUST mba_status mba__hf_vision_format(mba_hf_format *out, const mba_source *o);

/* Reads the published keys into an incomplete configuration. `classes` stays 0 if the file does not give their number:
 * the caller takes it from the weights. */
MBA_MUST mba_status mba__hf_vision_read(mba_vision *c, const mba_source *o);

/* fits: true if the published class can express the complete configuration. write: adds its keys to an object. */
bool mba__hf_vision_fits(const mba_vision *c);
void mba__hf_vision_write(json_t *o, const mba_vision *c);

#endif
