// SPDX-License-Identifier: Apache-2.0
/* checkpoint_dirs.h -- directories that appear complete or not at all; shared by the files that write checkpoints. */
#ifndef MBA_CHECKPOINT_DIRS_H
#define MBA_CHECKPOINT_DIRS_H

#include <stddef.h>
#include <stdint.h>

#include "core/status.h"

/* Creates an empty directory beside `directory` for the caller to fill, and writes its name to `building`. */
MBA_MUST mba_status mba__directory_begin(char *building, size_t room, const char *directory);

/* Renames the filled directory to `directory`, and removes an older directory of that name. */
MBA_MUST mba_status mba__directory_commit(const char *building, const char *directory);

/* Returns the step in the name of a directory step-NNNNNN; -1 for any other name. */
int64_t mba__step_named(const char *directory);

#endif
