// SPDX-License-Identifier: Apache-2.0
/* listing.c -- see listing.h: readdir, glob and sorting of names. */
#include "data/listing.h"

#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "core/lookup.h"

mba_status mba_listing_add(mba_listing *l, const char *name)
{
    char **more = mba_grow(l->name, l->n, &l->room, sizeof *more);
    if (more) l->name = more;
    if (!more || !(l->name[l->n] = strdup(name)))
        return mba_fail(MBA_E_NOMEM, "no memory for the names of a directory");
    l->n++;
    return MBA_OK;
}

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

void mba_listing_sort(mba_listing *l)
{
    if (l->n) qsort(l->name, (size_t)l->n, sizeof *l->name, by_name);
}

static mba_status unreadable(const char *folder)
{
    return mba_fail(errno == ENOMEM ? MBA_E_NOMEM : MBA_E_IO,
                    "cannot read the directory '%s'\nwhy: %s\nfix: check the path and its permissions", folder,
                    strerror(errno));
}

mba_status mba_listing_read(mba_listing *l, const char *folder, bool (*wanted)(const char *name))
{
    DIR *d = opendir(folder);
    if (!d) return unreadable(folder);
    mba_status st = MBA_OK;
    while (st == MBA_OK) {
        errno = 0; // only errno tells the end of a directory from a failure
        const struct dirent *e = readdir(d);
        if (!e && errno) st = unreadable(folder);
        if (!e) break;
        if (e->d_name[0] != '.' && (!wanted || wanted(e->d_name))) st = mba_listing_add(l, e->d_name);
    }
    closedir(d);
    mba_listing_sort(l);
    return st;
}

mba_status mba_listing_paths(mba_listing *l, const char *folder, bool (*wanted)(const char *name))
{
    mba_listing names = { 0 };
    mba_status  st = mba_listing_read(&names, folder, wanted);
    for (int64_t i = 0; st == MBA_OK && i < names.n; i++) {
        char      *path;
        const bool made = asprintf(&path, "%s/%s", folder, names.name[i]) >= 0;
        st = made ? mba_listing_add(l, path) : mba_fail(MBA_E_NOMEM, "no memory for the names of a directory");
        if (made) free(path);
    }
    mba_listing_free(&names);
    return st;
}

mba_status mba_listing_glob(mba_listing *l, const char *pattern)
{
    glob_t     g;
    const int  code = glob(pattern, 0, NULL, &g);
    mba_status st = code == GLOB_NOSPACE ? mba_fail(MBA_E_NOMEM, "no memory for the names of a directory") : MBA_OK;
    if (code == 0) {
        for (size_t i = 0; st == MBA_OK && i < g.gl_pathc; i++) st = mba_listing_add(l, g.gl_pathv[i]);
        globfree(&g);
    }
    mba_listing_sort(l);
    return st;
}

void mba_listing_free(mba_listing *l)
{
    for (int64_t i = 0; i < l->n; i++) free(l->name[i]);
    free(l->name);
    *l = (mba_listing){ 0 };
}

bool mba_ends_with(const char *name, const char *ending)
{
    const size_t n = strlen(name), k = strlen(ending);
    return n >= k && !strcasecmp(name + n - k, ending);
}

bool mba_is_folder(const char *path)
{
    struct stat s;
    return stat(path, &s) == 0 && S_ISDIR(s.st_mode);
}

bool mba_is_file(const char *path)
{
    struct stat s;
    return stat(path, &s) == 0 && S_ISREG(s.st_mode);
}
