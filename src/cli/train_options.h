// SPDX-License-Identifier: Apache-2.0
/* train_options.h -- what the files of `mambascope train` share: its options and the run that --resume continues.
 *
 *     mba__train_cli c;
 *     mba_status     st = mba__train_parse(&c, argc, argv, &help);     // reads and locks the run of --resume
 *     if (st == MBA_OK && !help) st = mba__train_choose(&c);           // completes c.o
 *     if (st == MBA_OK && !help) st = mba_train(&c.o);
 *     mba__train_end(&c);                                              // also after an error */
#ifndef MBA_CLI_TRAIN_OPTIONS_H
#define MBA_CLI_TRAIN_OPTIONS_H

#include <jansson.h>

#include "cli/model_options.h"
#include "cli/options.h"
#include "core/lock.h"
#include "train/train.h"

enum { MBA__TRAIN_OPTIONS_MAX = 96, MBA__PATH_MAX = 4096 };

/* Numbers below 0 stand for options that are not given; mba__train_choose replaces them. */
typedef struct mba__train_cli {
    mba_train_options o;
    mba_model_options model;
    double            lr, lr_min, cooldown, decay, beta1, beta2, clip;
    const char       *optimizer, *schedule, *machine, *sample, *field;
    int64_t           steps, warmup, seed, end_of_text;
    bool              dry_run, json, documents, quiet;
    int64_t           micros, global_batch; /* as given; o.micros follows from both */
    int64_t           sequence_ranks;
    const char       *sum;
    double            timeout_s;
    int               rank, ranks;   /* of this process; set before mba__train_parse */
    int64_t           planned_ranks; /* --ranks of --dry-run; 0: those that are there */
    const char       *told;          /* other ranks than 0: the checkpoint that rank 0 resumes; "": none */
    mba_option        table[MBA__TRAIN_OPTIONS_MAX];
    json_t           *saved, *kept;          /* options of the resumed checkpoint; of its run when last started */
    json_t           *options, *changes;     /* of this run; those that differ from the checkpoint's */
    char              from[MBA__PATH_MAX];   /* the resumed checkpoint */
    char              folder[MBA__PATH_MAX]; /* its run */
    mba_lock         *lock, *read;           /* of the folder that this run writes; of the run that it resumes */
} mba__train_cli;

/* train_options.c: sets the defaults, except for rank, ranks and told, reads the command line and, with --resume, the
 * options of the run. *help: the command line asked for text, which is printed. */
MBA_MUST mba_status mba__train_parse(mba__train_cli *c, int argc, char **argv, bool *help);
MBA_MUST mba_status mba__train_choose(mba__train_cli *c);
void                mba__train_end(mba__train_cli *c);

/* train_resume.c: with --resume, chooses and locks a checkpoint; options that are not given keep the run's values. */
MBA_MUST mba_status mba__train_resume(mba__train_cli *c, const mba_usage *u, int argc, char **argv);
/* Locks the folder for this run, unless mba__train_resume has locked it. --dry-run locks nothing. */
MBA_MUST mba_status mba__train_lock(mba__train_cli *c, const char *folder);

#endif
