// SPDX-License-Identifier: Apache-2.0
/* say.c -- see say.h. */
#include "cli/say.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/progress.h"
#include "data/unicode.h"

/* Bytes of the character at s that may be printed as they are; 0: none. U+0080 to U+009F are control characters,
 * too. */
static size_t printable(const char *s)
{
    const unsigned char c = (unsigned char)*s;
    const size_t        n = c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
    if (c < 0x80) return (c >= 0x20 && c != 0x7f) || c == '\n' || c == '\t';
    if (c == 0xc2 && (unsigned char)s[1] < 0xa0) return 0;
    return strnlen(s, n) == n && mba_utf8_valid(s, n) ? n : 0;
}

static bool lost;

bool mba_say_lost(void) { return lost; }

void mba_say(FILE *f, const char *fmt, ...)
{
    char    brief[1024], *text = brief;
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    const int n = vsnprintf(brief, sizeof brief, fmt, ap);
    if (n >= (int)sizeof brief && vasprintf(&text, fmt, again) < 0) text = NULL;
    va_end(again);
    va_end(ap);
    if (n < 0 || !text) {
        lost |= f == stdout;
        if (f != stdout) fputs("(no memory for a message)\n", f);
        return;
    }
    for (const char *s = text; *s;) {
        const size_t whole = printable(s);
        if (whole) fwrite(s, 1, whole, f);
        else fprintf(f, "\\x%02x", (unsigned char)*s);
        s += whole ? whole : 1;
    }
    if (text != brief) free(text);
}

/* Prints "what\nwhy: ..\nfix: .." as an indented block, with colours on a terminal only. */
void mba_print_error(const char *story)
{
    const bool  colour = mba_colours_on(STDERR_FILENO);
    const char *red = colour ? "\033[31m" : "", *plain = colour ? "\033[0m" : "";
    fprintf(stderr, "%serror:%s ", red, plain);
    for (const char *s = story; *s;) {
        const size_t n = strcspn(s, "\n");
        mba_say(stderr, "%s%.*s\n", s == story ? "" : "  ", (int)n, s);
        s += n + (s[n] == '\n');
    }
}
