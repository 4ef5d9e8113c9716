// SPDX-License-Identifier: Apache-2.0
/* options.h -- options of a command, from one table: parsing, checking, `--help`.
 *
 *     int64_t batch = 1;  bool json = false;
 *     const mba_option options[] = {
 *         { "--batch", MBA_OPT_INT, &batch, "B", "sequences per step", .least = 1, .most = 1e6 },
 *         { "--json",  MBA_OPT_FLAG, &json, NULL, "print JSON" },
 *         { 0 } };
 *     const mba_usage usage = { "train", "[options]", "trains a model", options,
 *                               "mambascope train --model mamba2-130m\n" };
 *     MBA_TRY(mba_options_parse(&usage, argc, argv, NULL, &help));
 */
#ifndef MBA_OPTIONS_H
#define MBA_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/status.h"

typedef enum mba_opt {
    MBA_OPT_FLAG,  /* bool */
    MBA_OPT_INT,   /* int64_t, within least .. most */
    MBA_OPT_MOST,  /* int64_t with an optional value; without one it is `most` */
    MBA_OPT_REAL,  /* double, within least .. most */
    MBA_OPT_BYTES, /* int64_t; 512M, 6GB (10^9), 6GiB (2^30) */
    MBA_OPT_TEXT,  /* const char *, points into argv */
    MBA_OPT_TEXTS, /* mba_operands: each use adds one */
    MBA_OPT_ALIAS, /* not an option: see MBA_OPTION_ALIAS */
    MBA_OPT_GROUP, /* not an option: see MBA_OPTION_GROUP */
} mba_opt;

/* What --resume does with an option (kept_options.h); one of these is combined with the kind. */
enum {
    MBA_OPT_KINDS = 15,   /* the bits of the kind */
    MBA_RUN_FIXED = 16,   /* stored with the run; another value is refused */
    MBA_RUN_CHANGES = 32, /* stored; another value is accepted and printed */
    MBA_RUN_NOTED = 48,   /* stored for the reader; a resumed run does not use it */
    MBA_RUN_APART = 64,   /* not stored: for this call only */
    MBA_RUN_MARKS = 112,
};

typedef struct mba_option {
    const char *name; /* "--batch" */
    unsigned    kind; /* an mba_opt; for `train` with a mark: MBA_OPT_REAL | MBA_RUN_FIXED */
    void       *to;
    const char *value; /* name of its value in the help */
    const char *help;
    double      least, most; /* range of a number; both 0: any */
} mba_option;

/* Rows of a table that are not options themselves. An alias accepts a former spelling and prints "note: --old is now
 * --new"; the help, the man page and completion leave it out. An alias stays for one release. A group is a heading of
 * the help: it stands above the options that follow, up to the next one. */
#define MBA_OPTION_ALIAS(old, option) \
    { \
        old, MBA_OPT_ALIAS, NULL, NULL, option, 0, 0 \
    }
#define MBA_OPTION_GROUP(title) \
    { \
        title, MBA_OPT_GROUP, NULL, NULL, NULL, 0, 0 \
    }

typedef struct mba_usage {
    const char       *command, *synopsis, *about;
    const mba_option *options;  /* ends with an entry without a name */
    const char       *examples; /* one per line: the help ends in them */
} mba_usage;

enum { MBA_OPERANDS_MAX = 64 };
typedef struct mba_operands {
    const char *word[MBA_OPERANDS_MAX];
    int         n;
} mba_operands;

/* argv[0] is the command's name. Words that are not options go to `words`; NULL: there must be none. After `--` every
 * word is one, even -x.bin. Three options print something and set *help: --help, --manual (this command's part of the
 * man page) and --list-options (one line per option: name, value, help, separated by tabs). */
MBA_MUST mba_status mba_options_parse(const mba_usage *u, int argc, char **argv, mba_operands *words, bool *help);

/* Whether the option, by its name or an alias, is in argv. mba_options_parse has accepted argv. */
bool mba_option_given(const mba_usage *u, const mba_option *o, int argc, char **argv);

/* The next option from `o` on, past aliases and groups; NULL: there is none.
 *
 *     for (const mba_option *o = mba_option_from(table); o; o = mba_option_from(o + 1)) .. */
const mba_option *mba_option_from(const mba_option *o);

/* The option of a table with this name of n bytes, or with an alias of this name; NULL: there is none. */
const mba_option *mba_option_find(const mba_option *table, const char *name, size_t n);

/* Whether the option takes this number. Defaults outside of its range stand for "not set". */
bool mba_option_takes(const mba_option *o, double v);

#endif
