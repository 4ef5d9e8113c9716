// SPDX-License-Identifier: Apache-2.0
/* glossary.h -- the terms of docs/glossary.md, which CMake compiles in, and their explanations on the page.
 *
 *     mba_term t;
 *     if (mba_term_find(&t, "operator floor", 14)) ..
 *     mba_terms_html(&b, "The {operator floor} of {mixed kernels|mixed kernel}.");     // two hovers
 *
 * A row of the glossary may have several names, separated by commas: "saved, recomputed". */
#ifndef MBA_REPORT_GLOSSARY_H
#define MBA_REPORT_GLOSSARY_H

#include "report/buf.h"

extern const char mba_glossary[]; /* docs/glossary.md, from the build */

enum { MBA_TERMS_MAX = 40 }; /* rows that the glossary may have */

typedef struct mba_term {
    const char *names, *meaning;
    int         names_n, meaning_n;
} mba_term; /* not ended by a NUL */

/* Row i of the glossary; false after the last. */
bool mba_term_at(mba_term *out, int i);
/* The row that has this name of n bytes. */
bool mba_term_find(mba_term *out, const char *name, size_t n);

/* Appends markup in which {term} or {text|term} stands for a term with its explanation as a hover. A term that the
 * glossary does not have is a bug, and asserts. */
void mba_terms_html(mba_buf *b, const char *markup);

#endif
