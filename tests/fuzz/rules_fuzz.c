// SPDX-License-Identifier: Apache-2.0
/* rules_fuzz.c -- any bytes as a rules file; what is accepted matches names in time. */
#include "fuzz.h"
#include "scope/rules.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    static const char *const names[] = { "", "_chunk_scan_fwd_kernel", "_ZN2at6native13reduce_kernelILi512ELi1EEEv",
                                         "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaab" };
    mba_rules               *r;
    char                    *copy = malloc(n + 1);
    mba_assert(copy);
    memcpy(copy, bytes, n);
    const mba_status st = mba_rules_read(&r, "fuzz", copy, n);
    free(copy); // the rules keep what they need
    if (st != MBA_OK) {
        check_refusal(st);
        return 0;
    }
    for (int i = 0; i < mba_rules_count(r); i++) {
        const mba_rule *rule = mba_rules_at(r, i);
        mba_assert(*rule->pattern && *rule->op && rule->kind < MBA_KINDS && rule->line > 0);
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const mba_rule *m = mba_rules_match(r, names[i]);
        mba_assert(!m || (m >= mba_rules_at(r, 0) && m < mba_rules_at(r, 0) + mba_rules_count(r)));
    }
    mba_rules_free(r);
    return 0;
}
