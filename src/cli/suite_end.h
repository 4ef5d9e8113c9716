/* suite_end.h -- how the suite ends: from stores to tables on the terminal, report.html, summary.json, ten lines. */
#ifndef MBA_SUITE_END_H
#define MBA_SUITE_END_H

#include <stdbool.h>

#include "core/status.h"

/* `n` stores, of which the first `shown` get sections of their own and the others stand beside them. A store that
 * cannot be read is told and left out. `json`: the tables as JSON on stdout, and nothing else there. */
MBA_MUST mba_status mba_suite_end(const char *out, const char *const *path, int n, int shown, bool json);

#endif
