// SPDX-License-Identifier: Apache-2.0
/* scratch.h -- a directory of its own for a test that writes files, removed with all that is in it.
 *
 *     const char *dir = scratch_make();                   // once per test program
 *     mba_writer_create(&w, scratch("loss.csv"));         // a path in it, valid for the next few calls
 *     assert_int_equal(scratch_entries(""), 0);
 *     scratch_remove();
 */
#ifndef MBA_SCRATCH_H
#define MBA_SCRATCH_H

#include <dirent.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char scratch_dir[256];

static inline const char *scratch_make(void)
{
    const char *tmp = getenv("TMPDIR");
    snprintf(scratch_dir, sizeof scratch_dir, "%s/mba-test-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (!mkdtemp(scratch_dir)) abort();
    return scratch_dir;
}

static inline const char *scratch(const char *name)
{
    static char paths[8][512];
    static int  next;
    char       *p = paths[next++ % 8];
    snprintf(p, sizeof paths[0], "%s/%s", scratch_dir, name);
    return p;
}

/* A file of these bytes, wherever `path` says. */
static inline void scratch_put(const char *path, const void *bytes, size_t n)
{
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(bytes, 1, n, f) != n || fclose(f)) abort();
}

/* Entries of a directory of the scratch, hidden ones too; "" is the scratch itself. */
static inline int scratch_entries(const char *name)
{
    DIR *d = opendir(scratch(name));
    int  n = 0;
    if (!d) return -1;
    for (struct dirent *e; (e = readdir(d));) n += strcmp(e->d_name, ".") && strcmp(e->d_name, "..");
    closedir(d);
    return n;
}

static inline int scratch_remove_one(const char *path, const struct stat *s, int kind, struct FTW *f)
{
    (void)s;
    (void)kind;
    (void)f;
    return remove(path);
}

static inline void scratch_remove(void) { nftw(scratch_dir, scratch_remove_one, 16, FTW_DEPTH | FTW_PHYS); }

#endif
