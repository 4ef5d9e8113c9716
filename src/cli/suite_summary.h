// SPDX-License-Identifier: Apache-2.0
/* suite_summary.h -- how the suite ends: from stores to tables on the terminal, report.html, summary.json, ten
 * lines. */
#ifndef MBA_CLI_SUITE_SUMMARY_H
#define MBA_CLI_SUITE_SUMMARY_H

#include <stdbool.h>

#include "core/status.h"

/* `n` stores, of which the first `shown` get sections of their own and the others stand beside them. A store that
 * cannot be read is told and left out. `json`: the tables as JSON on stdout, and nothing else there. */
MBA_MUST mba_status mba_suite_summary(const char *out, const char *const *path, int n, int shown, bool json);

#endif
