// SPDX-License-Identifier: Apache-2.0
/* temporary.h -- a temporary folder that lives as long as its process: $TMPDIR/mambascope-XXXXXX, else in /tmp.
 *
 *     mba_temporary t = { 0 };
 *     MBA_TRY(mba_temporary_create(&t, "synthetic data", "give --data"));
 *     mba_temporary_remove(&t);                         // zeroed ones are fine
 *
 * A lock in the folder shows that its process lives. mba_temporary_create first removes folders of this user whose
 * process was killed. A folder without a lock belongs to somebody else and stays. */
#ifndef MBA_TEMPORARY_H
#define MBA_TEMPORARY_H

#include "core/lock.h"

typedef struct mba_temporary {
    char      path[256]; /* "": none */
    mba_lock *lock;
} mba_temporary;

/* *out is zeroed. The message of a failure says `what` the folder is for and what to do `instead` ("or .."). */
MBA_MUST mba_status mba_temporary_create(mba_temporary *out, const char *what, const char *instead);

/* Removes the folder, the files in it, and its subfolders of files (one level). */
void mba_temporary_remove(mba_temporary *t);

#endif
