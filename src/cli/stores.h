/* stores.h -- stores for a report, where one that cannot be read must not cost the others. */
#ifndef MBA_CLI_STORES_H
#define MBA_CLI_STORES_H

#include "report/report.h"

/* Opens those of the `n` stores that can be read; what is wrong with the others goes to stderr and, their names, into
 * r->left_out. *shown (NULL: all are) counts how many of the first *shown were opened. MBA_E_FORMAT where none can. */
MBA_MUST mba_status mba_stores_open_good(mba_stores *r, const char *const *path, int n, int *shown);

#endif
