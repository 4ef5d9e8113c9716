// SPDX-License-Identifier: Apache-2.0
/* aliases.h -- the current name of a kernel or variant that has an earlier one: aliases.def lists both.
 *
 *     mba_alias_kernel("conv1d_fwd_walk")             // "conv1d_fwd_persistent"
 *     mba_alias_variant("conv1d_bwd", "walk")         // "persistent"
 *     mba_alias_variant("ssd", "fused")               // "fused": current names stay
 *
 * Whoever reads names that an earlier release wrote translates them once, where it reads them: store_read.c,
 * sim/profiled.c, `--op`, `--deep`. All other code knows current names alone. */
#ifndef MBA_CORE_ALIASES_H
#define MBA_CORE_ALIASES_H

/* Both return a constant, or `name` itself where it is current or nobody's. NULL gives NULL. */
const char *mba_alias_kernel(const char *name);
const char *mba_alias_variant(const char *op, const char *name);

#endif
