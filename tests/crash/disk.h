// SPDX-License-Identifier: Apache-2.0
/* disk.h -- what a power cut leaves: a record of the changes below a folder, and the states that POSIX allows after
 * each.
 *
 *     disk *d = disk_create(folder);                   // what is there is durable
 *     while (tracer_next(&t, &c)) disk_note(d, &c);
 *     for (int i = disk_begin(d); i <= disk_changes(d); i++) {
 *         const disk_files *f = disk_after(d, i, DISK_NAMES, seed);
 *         if (disk_is_new(d, f, disk_said(d, i))) disk_write(f, "state");
 *     }
 *
 * Data is durable when its file was synced after it was written, a name when its folder was synced after it was made,
 * changed or removed; a rename is all or nothing. Whatever is not durable may be there or not, each by itself. */
#ifndef MBA_CRASH_DISK_H
#define MBA_CRASH_DISK_H

#include "tests/crash/tracer.h"

typedef struct disk disk;

typedef enum disk_how {
    DISK_DURABLE,     /* all that is not durable is lost */
    DISK_NAMES_EMPTY, /* all names, no data that was not synced: files are as short as they were */
    DISK_NAMES_ZERO,  /* the same, and files are as long as they were to be, with zeros */
    DISK_DATA,        /* all data, no name that was not synced */
    DISK_ALL,         /* everything: the process was killed, and nothing else */
    DISK_ANY,         /* some names, some blocks of data, by the seed */
} disk_how;

typedef struct disk_file {
    char           path[256];
    unsigned char *bytes;
    size_t         n;
    uint64_t       sum;
} disk_file; /* bytes NULL: a folder */
typedef struct disk_files {
    disk_file *file;
    int        n;
    uint64_t   sum;
} disk_files;

disk *disk_create(const char *folder);
void  disk_destroy(disk *d);

/* A call of a traced program, after it; aborts on one that is not modelled. `said`: a number that holds from here
 * on. */
void disk_note(disk *d, const call *c);
void disk_say(disk *d, int64_t said);

int     disk_begin(const disk *d); /* changes before this are of what was there */
int     disk_changes(const disk *d);
int64_t disk_said(const disk *d, int changes); /* the last number said before; -1: none */

/* The files after so many changes; the record's, until the next call. */
const disk_files *disk_after(disk *d, int changes, disk_how how, uint64_t seed);

/* Whether no state with these names and bytes, and this number said, was asked about before. */
bool disk_is_new(disk *d, const disk_files *f, int64_t said);

/* Makes the files in an empty folder. */
void disk_write(const disk_files *f, const char *folder);

#endif
