// SPDX-License-Identifier: Apache-2.0
/* rules.h -- which operator a kernel belongs to, by its name: for programs that are not ours.
 *
 *     mba_rules *r;
 *     MBA_TRY(mba_rules_read(&r, "kernels.rules", text, strlen(text)));         // or mba_rules_open
 *     const mba_rule *found = mba_rules_match(r, "_chunk_scan_fwd_kernel");     // the first that fits; NULL: none
 *     mba_rules_free(r);
 *
 * A rules file has one rule per line: pattern, operator, class, with # for comments. `*` stands for any characters, `?`
 * for one; the pattern must fit the whole name as the driver gives it (mangled C++ contains the identifiers). Classes
 * are those of the breakdown (MBA_KIND_LIST). src/scope/kernels.rules is the shipped one, built into the program.
 *
 * A pattern with an earlier name of one of our kernels (core/aliases.def) fits the current name too, so that rules
 * files of earlier releases keep their meaning. */
#ifndef MBA_SCOPE_RULES_H
#define MBA_SCOPE_RULES_H

#include <stddef.h>

#include "core/op.h"

enum { MBA_RULES_MAX = 4096, MBA_RULE_FIELD_MAX = 256 };

typedef struct mba_rule {
    const char *pattern, *op;
    char       *now; /* the pattern with the current name of a kernel that has another name in `pattern`; or NULL */
    mba_kind    kind;
    int         line;
} mba_rule;
typedef struct mba_rules mba_rules;

MBA_MUST mba_status mba_rules_read(mba_rules **out, const char *name, const char *text, size_t n);
MBA_MUST mba_status mba_rules_open(mba_rules **out, const char *path); /* NULL: the shipped ones */
const mba_rule     *mba_rules_match(const mba_rules *r, const char *kernel);
const char         *mba_rules_note(const mba_rules *r); /* which rule has an earlier name, the first; NULL: none */
int                 mba_rules_count(const mba_rules *r);
const mba_rule     *mba_rules_at(const mba_rules *r, int i);
void                mba_rules_free(mba_rules *r); /* NULL is fine */

#endif
