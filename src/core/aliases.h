// SPDX-License-Identifier: Apache-2.0
/* aliases.h -- the current name of a kernel or variant that has an earlier one: aliases.def lists both.
 *
 *     mba_alias_kernel("conv1d_fwd_walk")             // "conv1d_fwd_persistent"
 *     mba_alias_variant("conv1d_bwd", "walk")         // "persistent"
 *     mba_alias_variant("ssd", "fused")               // "fused": current names stay
 *
 * Code that reads names which an earlier release wrote translates them once, where it reads them: store_read.c,
 * sim/profiled.c, scope/rules.c, `--op`, `--source`. All other code knows only current names. */
#ifndef MBA_CORE_ALIASES_H
#define MBA_CORE_ALIASES_H

#include <stdbool.h>
#include <stddef.h>

/* Both return a constant, or `name` itself where it is current or nobody's. NULL gives NULL. */
const char *mba_alias_kernel(const char *name);
const char *mba_alias_variant(const char *op, const char *name);

/* Replaces the first earlier name of a kernel in a pattern of kernel names (scope/rules.h). The name is a whole
 * identifier; of a mangled one, `13norm_fwd_teamILi4E`, the length changes too. `old` and `now` get the two names.
 * False: there is none, or `room` is too small for the result. */
bool mba_alias_pattern(char *out, size_t room, const char *pattern, const char **old, const char **now);

#endif
