// SPDX-License-Identifier: Apache-2.0
/* transcript.h -- all that a list of commands prints on stdout, compared with what it printed when the list was
 * written.
 *
 *     TRANSCRIPT_MAIN("show")      // the commands of tests/transcripts/show.tsv, in their order
 *
 * A line of the list is a digest, a tab and a line for the shell, in which $P is the program and $S a scratch folder
 * that all lines of a list share. The lists take JSON, CSV and files, and no messages.
 * A digest has three parts, the same on every machine:
 *
 *     XXH64 of the exit code and of the text, in which every number with a point or an exponent is a #, and every
 *     string or field of more than one word a ~: it is for people, and may be said in another way
 *     how many such numbers there are
 *     their sum, each on a logarithmic scale and with a weight of its own: one that is 0.1 % larger moves it by at
 *     least 0.001. Sums may differ by 0.0003: machines round differently, in the last printed digit.
 *
 * A difference is legitimate where a change means to alter what is printed, simulated or written: look at it, then
 * write the digests again and commit them with the change.
 *
 *     tools/transcripts --texts before     # the texts themselves, one file per line of each list
 *     tools/transcripts --texts after      # .. with the change; diff -r before after
 *     tools/transcripts --renew            # writes the digests */
#ifndef MBA_TEST_TRANSCRIPT_H
#define MBA_TEST_TRANSCRIPT_H

#include <ctype.h>

#include "core/xxh64.h"
#include "tests/program.h"

#define TRANSCRIPT_LINES 400
#define TRANSCRIPT_BYTES (8 << 20) // of one line, at most

typedef struct transcript {
    unsigned long long words;   // XXH64 of the text without its numbers
    int                numbers; // that have a point or an exponent
    double             sum;     // of all of them
} transcript;

/* A number on a logarithmic scale, through 0: what is far below 1e-6 is noise. */
static inline double transcript_scale(double x) { return copysign(log1p(1e6 * fabs(x)), x); }

/* The bytes of prose that begin here: a quoted string with a blank, or words with one blank between them; else 0. */
static inline size_t transcript_prose(const char *at)
{
    size_t n = 1;
    if (*at == '"') {
        bool blank = false;
        for (; at[n] && at[n] != '"' && at[n] != '\n'; n++) {
            blank |= at[n] == ' ';
            n += at[n] == '\\' && at[n + 1];
        }
        return blank && at[n] == '"' ? n + 1 : 0;
    }
    while (isalpha((unsigned char)at[n - 1])) n++;
    const bool words = n > 1 && at[n - 1] == ' ' && isalpha((unsigned char)at[n]);
    return words ? strcspn(at, ",\t\n\"") : 0;
}

/* Takes the numbers out of `said` and the scratch folder by its name; `plain` has room for the rest. */
static inline transcript transcript_of(char *plain, size_t room, const char *said)
{
    const size_t folder = strlen(scratch_dir);
    size_t       n = strlen(plain);
    transcript   t = { 0 };
    while (*said && n + 64 < room) {
        const bool   inside = n && (isalnum((unsigned char)plain[n - 1]) || plain[n - 1] == '_');
        char        *end = NULL;
        const size_t digits = strspn(said, "0123456789");
        if (!strncmp(said, "\"commit\": \"", 11)) { // of the program: another one after every commit
            n += (size_t)sprintf(plain + n, "\"commit\": \"\"");
            said += 11 + strcspn(said + 11, "\"") + 1;
        } else if (!inside && (*said == '"' || isalpha((unsigned char)*said)) && transcript_prose(said)) {
            said += transcript_prose(said);
            plain[n++] = '~';
        } else if (!strncmp(said, scratch_dir, folder)) {
            n += (size_t)sprintf(plain + n, "SCRATCH");
            said += folder;
        } else if (digits && digits < 40 && !inside) {
            const double x = strtod(said, &end);
            if (said + digits == end || said[1] == 'x' || !isfinite(x))
                for (size_t i = 0; i < digits; i++) plain[n++] = *said++;
            else {
                t.sum += transcript_scale(x) * (1 + 0.618 * t.numbers - floor(0.618 * t.numbers));
                t.numbers++;
                plain[n++] = '#';
                said = end;
            }
        } else plain[n++] = *said++;
    }
    assert_true(n + 64 < room);
    plain[n] = 0;
    t.words = mba_xxh64(plain, n);
    return t;
}

/* What the line prints, in `said`, after its exit code. */
static inline void transcript_run(const char *line, char *said, size_t room)
{
    const char *program = getenv("MBA_PROGRAM");
    char        whole[4096];
    assert_non_null(program);
    setenv("P", program, 1);
    setenv("S", scratch_dir, 1);
    setenv("OMP_NUM_THREADS", "1", 1);
    setenv("LC_ALL", "C", 1);
    snprintf(whole, sizeof whole, "{ %s\n} 2>/dev/null", line);
    FILE *f = popen(whole, "r");
    assert_non_null(f);
    const size_t n = fread(said, 1, room - 1, f);
    assert_true(n + 1 < room); // else the rest would go unseen
    said[n] = 0;
    const int status = pclose(f);
    assert_true(WIFEXITED(status));
    snprintf(said + n, room - n, "exit %d\n", WEXITSTATUS(status));
}

/* Whether two texts are the same but for the last digits of numbers; tells the first difference. */
static inline bool transcript_near(const char *got, const char *want)
{
    int line = 1;
    while (*got || *want) {
        char        *got_end = NULL, *want_end = NULL;
        const double x = strtod(got, &got_end), y = strtod(want, &want_end);
        const size_t digits = strspn(want, "-0123456789");
        const bool   number = isdigit((unsigned char)*want) && want_end != want + digits && got_end != got;
        if (number && fabs(x - y) <= 5e-4 * fabs(y) + 1e-9) {
            got = got_end;
            want = want_end;
        } else if (number || *got != *want) {
            print_error("line %d: \"%.60s\", should be \"%.60s\"\n", line, got, want);
            return false;
        } else {
            line += *got == '\n';
            got++;
            want++;
        }
    }
    return true;
}

/* Compares a text with tests/transcripts/LABEL.txt; with MBA_TRANSCRIPT_RENEW it writes that file instead. */
static inline bool transcript_text(const char *label, const char *plain, size_t n)
{
    static char want[1 << 17];
    char        path[512];
    snprintf(path, sizeof path, "tests/transcripts/%s.txt", label);
    if (getenv("MBA_TRANSCRIPT_RENEW")) {
        scratch_put(path, plain, n);
        return true;
    }
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    const size_t size = fread(want, 1, sizeof want - 1, f);
    assert_true(size + 1 < sizeof want);
    want[size] = 0;
    fclose(f);
    return transcript_near(plain, want);
}

/* Runs a line of the list and puts its digest before the tab; false: that differs from what stood there. */
static inline bool transcript_line(char *line, size_t room, const char *text_path)
{
    static char said[TRANSCRIPT_BYTES], plain[TRANSCRIPT_BYTES + 64];
    char       *tab = strchr(line, '\t'), fresh[2048];
    transcript  was = { 0 };
    assert_non_null(tab);
    transcript_run(tab + 1, said, sizeof said);
    plain[0] = 0;
    const transcript is = transcript_of(plain, sizeof plain, said);
    if (text_path) scratch_put(text_path, said, strlen(said));
    const bool same = sscanf(line, "%llx %d %lf", &was.words, &was.numbers, &was.sum) == 3 && was.words == is.words
                      && was.numbers == is.numbers && fabs(was.sum - is.sum) <= 3e-4;
    snprintf(fresh, sizeof fresh, "%016llx %d %.5f%s", is.words, is.numbers, is.sum, tab);
    assert_true(strlen(fresh) < room);
    memcpy(line, fresh, strlen(fresh) + 1);
    return same;
}

/* Compares every line of the list; with MBA_TRANSCRIPT_RENEW it writes the digests instead, with MBA_TRANSCRIPT_TEXTS
 * it writes the texts into that folder besides. */
static inline void transcript_check(const char *name)
{
    static char lines[TRANSCRIPT_LINES][2048];
    const char *texts = getenv("MBA_TRANSCRIPT_TEXTS");
    char        path[512], text_path[1024];
    int         count = 0, wrong = 0;
    snprintf(path, sizeof path, "tests/transcripts/%s.tsv", name);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    while (count < TRANSCRIPT_LINES && fgets(lines[count], sizeof lines[0], f)) count++;
    assert_true(feof(f) && count > 1);
    fclose(f);
    for (int i = 0; i < count; i++) {
        if (*lines[i] == '#') continue;
        lines[i][strcspn(lines[i], "\n")] = 0;
        if (texts) snprintf(text_path, sizeof text_path, "%s/%s-%03d.txt", texts, name, i + 1);
        if (!transcript_line(lines[i], sizeof lines[0] - 1, texts ? text_path : NULL)) {
            print_error("%s:%d prints something else (tests/transcript.h says how to see it): %s\n", path, i + 1,
                        lines[i]);
            wrong++;
        }
        strcat(lines[i], "\n");
    }
    if (!getenv("MBA_TRANSCRIPT_RENEW")) {
        assert_int_equal(wrong, 0);
        return;
    }
    f = fopen(path, "w");
    assert_non_null(f);
    for (int i = 0; i < count; i++) fputs(lines[i], f);
    assert_int_equal(fclose(f), 0);
}

#define TRANSCRIPT_MAIN(name) \
    static void what_is_printed_is_what_was_printed(void **state) \
    { \
        (void)state; \
        if (getenv("MBA_TEST_SANITIZED")) skip(); /* hundreds of processes, which other tests run sanitized */ \
        scratch_make(); \
        transcript_check(name); \
        scratch_remove(); \
    } \
    MBA_TEST_MAIN(cmocka_unit_test(what_is_printed_is_what_was_printed))

#endif
