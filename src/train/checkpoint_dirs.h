// SPDX-License-Identifier: Apache-2.0
/* checkpoint_dirs.h -- directories that appear whole or not at all; inside of checkpoint.c. */
#ifndef MBA_CHECKPOINT_DIRS_H
#define MBA_CHECKPOINT_DIRS_H

#include <stddef.h>
#include <stdint.h>

#include "core/status.h"

/* An empty directory beside `directory`, to be filled; its name goes to `building`. */
MBA_MUST mba_status mba__directory_begin(char *building, size_t room, const char *directory);

/* Gives it the name it was made for; an older directory of that name is removed. */
MBA_MUST mba_status mba__directory_commit(const char *building, const char *directory);

/* The step in the name of a directory step-NNNNNN; -1: it has another name. */
int64_t mba__step_named(const char *directory);

#endif
