// SPDX-License-Identifier: Apache-2.0
/* listing.h -- lists the names in a directory in bytewise order, without hidden ones.
 *
 *     mba_listing l = { 0 };
 *     MBA_TRY(mba_listing_read(&l, "train/n01440764", is_image));        // NULL: all names
 *     for (int64_t i = 0; i < l.n; i++) use(l.name[i]);
 *     mba_listing_free(&l);                                             // zeroed ones are fine
 */
#ifndef MBA_LISTING_H
#define MBA_LISTING_H

#include <stdbool.h>
#include <stdint.h>

#include "core/status.h"

typedef struct mba_listing {
    char  **name;
    int64_t n, room;
} mba_listing;

MBA_MUST mba_status mba_listing_add(mba_listing *l, const char *name);
MBA_MUST mba_status mba_listing_read(mba_listing *l, const char *folder, bool (*wanted)(const char *name));
/* paths: the same with whole paths. glob: paths that match a pattern. */
MBA_MUST mba_status mba_listing_paths(mba_listing *l, const char *folder, bool (*wanted)(const char *name));
MBA_MUST mba_status mba_listing_glob(mba_listing *l, const char *pattern);
void                mba_listing_sort(mba_listing *l);
void                mba_listing_free(mba_listing *l);

bool mba_ends_with(const char *name, const char *ending); /* ignores case */
bool mba_is_folder(const char *path);
bool mba_is_file(const char *path);

#endif
