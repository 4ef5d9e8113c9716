// SPDX-License-Identifier: Apache-2.0
/* suite_summary.h -- the end of the suite: prints tables and a summary, writes report.html and summary.json. */
#ifndef MBA_CLI_SUITE_SUMMARY_H
#define MBA_CLI_SUITE_SUMMARY_H

#include <stdbool.h>

#include "core/status.h"

/* Of `n` stores the first `shown` get sections of their own; the others appear in comparisons only. A store that cannot
 * be read is reported and left out. `json`: stdout gets the tables as JSON and nothing else. */
MBA_MUST mba_status mba_suite_summary(const char *out, const char *const *path, int n, int shown, bool json);

#endif
