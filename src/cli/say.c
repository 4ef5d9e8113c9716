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

/* Text on its way to a file: it goes out at once, since standard error has no buffer and the lines of several ranks, or
 * of their launcher, come between what is written in pieces. */
typedef struct sheet {
    FILE  *f;
    size_t used;
    char   text[4096]; // what a pipe takes whole
} sheet;

static void send(sheet *s)
{
    if (s->used) fwrite(s->text, 1, s->used, s->f);
    s->used = 0;
}

static void put(sheet *s, const char *text, size_t n)
{
    if (s->used + n > sizeof s->text) send(s);
    memcpy(s->text + s->used, text, n);
    s->used += n;
}

/* The first n bytes of `text`, of which none is 0; those that may not be printed as \x1b. */
static void put_printable(sheet *s, const char *text, size_t n)
{
    for (const char *end = text + n; text < end;) {
        const size_t whole = printable(text);
        char         code[8];
        if (whole) put(s, text, whole);
        else put(s, code, (size_t)snprintf(code, sizeof code, "\\x%02x", (unsigned char)*text));
        text += whole ? whole : 1;
    }
}

static bool lost;

bool mba_say_lost(void) { return lost; }

void mba_say(FILE *f, const char *fmt, ...)
{
    char    brief[1024], *text = brief;
    sheet   s;
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
    s.f = f;
    s.used = 0;
    put_printable(&s, text, strlen(text));
    send(&s);
    if (text != brief) free(text);
}

void mba_print_error(const char *story)
{
    const bool  colour = mba_colours_on(STDERR_FILENO);
    const char *head = colour ? "\033[31merror:\033[0m " : "error: ";
    sheet       s = { .f = stderr };
    put(&s, head, strlen(head));
    for (const char *line = story; *line;) {
        const size_t n = strcspn(line, "\n");
        if (line != story) put(&s, "  ", 2);
        put_printable(&s, line, n);
        put(&s, "\n", 1);
        line += n + (line[n] == '\n');
    }
    send(&s);
}
