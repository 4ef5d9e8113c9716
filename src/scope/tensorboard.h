// SPDX-License-Identifier: Apache-2.0
/* tensorboard.h -- writes the scalars of a training run as a TensorBoard events file.
 *
 *     char path[4096];
 *     MBA_TRY(mba_tensorboard_write(path, sizeof path, run, "boards/wide"));     // boards/wide/events.out.tfevents...
 *
 * The file is a sequence of records: length (8 bytes), its masked CRC-32C, an Event, its masked CRC-32C;
 * little-endian. An Event is a protobuf message: wall time, step, and a Summary of (tag, value) pairs. Tags:
 * loss/train, loss/validation, score/NAME, optimizer/gradient_norm, optimizer/learning_rate, speed/tokens_per_s,
 * optimizer/skipped. */
#ifndef MBA_SCOPE_TENSORBOARD_H
#define MBA_SCOPE_TENSORBOARD_H

#include <stddef.h>

#include "scope/training.h"

/* Writes one file into `folder`, which is created if needed, and its path into `path`. MBA_E_ARG if the folder has
 * events of another run: TensorBoard would draw both as one. Events of the same run are replaced. */
MBA_MUST mba_status mba_tensorboard_write(char *path, size_t room, const mba_training *t, const char *folder);

/* CRC-32C (Castagnoli) of n bytes, and its masked form in records: rotated right by 15 bits, plus 0xa282ead8. */
uint32_t mba_crc32c(const void *bytes, size_t n);
uint32_t mba_crc32c_masked(const void *bytes, size_t n);

#endif
