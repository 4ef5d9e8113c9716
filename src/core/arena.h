// SPDX-License-Identifier: Apache-2.0
/* arena.h -- memory that is freed together: a graph and its nodes, one batch, one report.
 *
 *     mba_arena *a;
 *     MBA_TRY(mba_arena_create(&a, 1 << 20));          // the limit, in bytes
 *     mba_node *nodes = mba_arena_new(a, mba_node, 64);
 *     mba_arena_destroy(a);                            // frees all of it; NULL is fine
 *
 * The memory is zeroed and 16-byte aligned. One thread at a time. Asking for more than the limit is a bug of the caller
 * and fails an assertion. */
#ifndef MBA_ARENA_H
#define MBA_ARENA_H

#include <stddef.h>
#include "core/status.h"

typedef struct mba_arena mba_arena;

MBA_MUST mba_status mba_arena_create(mba_arena **out, size_t limit_bytes);
void                mba_arena_destroy(mba_arena *a);
void               *mba_arena_take(mba_arena *a, size_t bytes);
const char         *mba_arena_printf(mba_arena *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#define mba_arena_new(a, type, n) ((type *)mba_arena_take((a), sizeof(type) * (size_t)(n)))

#endif
