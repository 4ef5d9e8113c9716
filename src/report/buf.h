// SPDX-License-Identifier: Apache-2.0
/* buf.h -- a growing text buffer, and the three ways text enters a page: verbatim, escaped for HTML, as a JSON string.
 *
 *     mba_buf b = { 0 };
 *     mba_buf_add(&b, "<td class=n>%s</td>", mba_num(41.234).s);        // arguments must be valid markup
 *     mba_buf_html(&b, kernel->name);                                   // any bytes
 *     mba_status st = mba_buf_status(&b, "the page");                   // asked once, at the end
 *     mba_buf_free(&b);
 */
#ifndef MBA_REPORT_BUF_H
#define MBA_REPORT_BUF_H

#include <stdbool.h>
#include <stddef.h>

#include "core/status.h"

typedef struct mba_buf {
    char      *s; /* ends in a NUL; NULL while empty */
    size_t     n, room;
    bool       failed; /* the text is incomplete: no memory, or the error `why` */
    mba_status why;    /* MBA_OK: no memory */
} mba_buf;

void mba_buf_put(mba_buf *b, const char *s);
void mba_buf_add(mba_buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Escapes for HTML; bytes that are not UTF-8 become U+FFFD, control characters a space. */
void mba_buf_html(mba_buf *b, const char *s);
void mba_buf_json(mba_buf *b, const char *s);   /* with quotes; safe inside <script>; NULL is null */
void mba_buf_json_number(mba_buf *b, double v); /* NaN and infinities are null */
void mba_buf_free(mba_buf *b);
/* Records that a call which should have produced text failed; its message stays until mba_buf_status returns it. */
void mba_buf_fail(mba_buf *b, mba_status st);
/* MBA_OK if the text is complete; else the status of mba_buf_fail, or MBA_E_NOMEM with "no memory for `what`". */
MBA_MUST mba_status mba_buf_status(const mba_buf *b, const char *what);

/* A number to read: three significant digits, thousands separated; "–" for NaN. */
typedef struct mba_word {
    char s[48];
} mba_word;
mba_word mba_num(double v);
mba_word mba_two_digits(double v); /* two significant digits, for the first screen: "0.98", "6.8", "67"; "–": NaN */
/* The same number for programs: nine digits or more, so that it rounds to what mba_num prints. */
mba_word mba_exact(double v);
/* The first characters of a name, with … if it was cut; never cuts inside of a character. */
typedef struct mba_name {
    char s[320];
} mba_name;
mba_name mba_short(const char *s, int characters);
int      mba_characters(const char *s); /* UTF-8 */

#endif
